//! How figures are printed: the limit beside each.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

static MISSED: AtomicUsize = AtomicUsize::new(0);

/// One figure, and whether it keeps its limit.
pub fn below(name: &str, value: f64, limit: f64, unit: &str) {
    let missed = value > limit;
    MISSED.fetch_add(usize::from(missed), Ordering::Relaxed);
    println!("{name:<58} {value:9.1} {unit:<3} (at most {limit}){}", if missed { "  MISSED" } else { "" });
}

/// How many did not.
pub fn missed() -> usize {
    MISSED.load(Ordering::Relaxed)
}

pub fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

pub fn mb(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

/// The five slowest of sorted times.
pub fn slowest(times: &[Duration]) -> String {
    let five: Vec<String> = times.iter().rev().take(5).map(|t| format!("{:.1}", ms(*t))).collect();
    format!("{} ms", five.join(", "))
}
