//! What a person feels of the screen, measured on the real program in a terminal: `cargo bench --bench screen`, or with the
//! names of some parts behind `--`.
//!
//! A scripted server answers; the keys come at an even pace from outside. A key is on the screen when the terminal was sent
//! its letter, or the end of the frame that follows it.
#![allow(missing_docs, clippy::print_stdout, clippy::unwrap_used, clippy::expect_used)]

mod big;
#[path = "../../tests/common/mod.rs"]
mod common;
mod live;
mod long;
mod print;
#[path = "../../tests/pty/mod.rs"]
mod pty;
mod stage;
#[path = "../../tests/support/mod.rs"]
mod support;

/// The parts and what they measure.
const PARTS: &[(&str, fn())] = &[
    ("first", live::first),
    ("idle", live::idle),
    ("flood", live::flood),
    ("stream", live::stream),
    ("replay", long::replay),
    ("big", big::big),
    ("memory", long::memory),
];

fn main() {
    // `cargo test --benches` passes this; there is nothing to test here.
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|a| a == "--test") {
        return;
    }
    if let Some(kind) = arguments.iter().find_map(|a| a.strip_prefix(long::KEEP)) {
        return long::keep(kind);
    }
    let named: Vec<&String> = arguments.iter().filter(|a| !a.starts_with('-')).collect();
    for (name, measure) in PARTS {
        if named.is_empty() || named.iter().any(|n| n == name) {
            measure();
        }
    }
    println!("{} missed", print::missed());
}
