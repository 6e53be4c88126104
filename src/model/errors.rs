//! What a server's refusal means, and what to do about it.
