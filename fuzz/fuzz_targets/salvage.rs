//! Any text is read without a panic, what is JSON is read as JSON, and no prefix of it is.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sandscript::model::salvage::{TOOL, args, json, text};
use serde_json::Value;

fuzz_target!(|input: &str| {
    text::read(input, false);
    text::calls_only(input, true);
    args::native(TOOL, input, false);
    let strict = serde_json::from_str::<Value>(input);
    let shallow = input.bytes().filter(|byte| b"[{".contains(byte)).count() < 30;
    if let Ok(value @ (Value::Object(_) | Value::Array(_))) = strict
        && shallow
    {
        assert_eq!(json::read(input).map(|(value, _)| value), Ok(value));
        let trimmed = input.trim_end();
        assert!(json::read(&trimmed[..trimmed.len() - 1]).is_err());
    }
});
