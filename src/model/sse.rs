//! Server-sent events and bare JSON lines, from bytes.
