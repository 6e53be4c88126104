//! Length-prefixed frames between the program and the runner.
