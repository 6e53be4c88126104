//! Values a program produces: tables and figures, checked.
