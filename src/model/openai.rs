//! OpenAI-compatible `/v1/chat/completions`.
