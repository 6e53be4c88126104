//! Files that runs make.
