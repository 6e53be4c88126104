//! A sandbox that is a runner process on this machine.
