//! placeholder
pub mod line;
pub mod text;
