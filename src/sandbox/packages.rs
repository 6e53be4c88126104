//! Virtual environments with the configured packages.
