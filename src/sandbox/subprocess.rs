//! The executor without isolation.
