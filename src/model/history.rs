//! The transcript as each kind of server accepts it.
