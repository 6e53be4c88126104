//! Deltas of a stream, put together into one reply.
