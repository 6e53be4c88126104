//! Capture of what a program prints.
