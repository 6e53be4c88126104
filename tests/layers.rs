//! The arrows of the design point down only: each layer names what it may use of ours.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, clippy::print_stderr)]

use std::path::{Path, PathBuf};

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
}

/// Names behind `crate::` in a file, in paths as well as in imports.
fn used(text: &str) -> Vec<String> {
    let names = text.split("crate::").skip(1);
    names.map(|rest| rest.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect()).collect()
}

#[test]
fn each_layer_uses_only_what_is_below() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let layers = [
        ("core", &["core"][..]),
        ("model", &["core", "model"][..]),
        ("sandbox", &["core", "sandbox"][..]),
        ("log", &["core", "log"][..]),
        ("replay", &["core", "log", "replay"][..]),
        ("tui", &["core", "tui"][..]),
    ];
    for (layer, allowed) in layers {
        let mut files = Vec::new();
        sources(&root.join(layer), &mut files);
        assert!(files.len() > 1, "{layer} has its files");
        for file in files {
            let text = std::fs::read_to_string(&file).unwrap();
            for name in used(&text) {
                assert!(allowed.contains(&name.as_str()), "{} uses crate::{name}", file.display());
            }
        }
    }
}

#[test]
fn the_core_has_no_clock_no_files_and_no_tasks() {
    let mut files = Vec::new();
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src/core"), &mut files);
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let code: String = text.split("#[cfg(test)]").next().unwrap().to_string();
        for word in ["std::time", "std::fs", "std::net", "std::io", "tokio", "std::env", "std::process", "async "] {
            assert!(
                !code.lines().any(|l| !l.trim_start().starts_with("//") && l.contains(word)),
                "{} has {word}",
                file.display()
            );
        }
    }
}
