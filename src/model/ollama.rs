//! Ollama's native `/api/chat`.
