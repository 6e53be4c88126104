//! The interpreter of this machine.
