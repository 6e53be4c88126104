//! Text from outside, made safe to draw and print.
