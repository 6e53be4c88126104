//! Any stream ends in a reply or a failure, and code that needs no check has one reading. The first byte says how it is
//! asked for.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sandscript::core::event::Mode;
use sandscript::model::accumulate::ReplyBuilder;
use sandscript::model::sse::SseReader;

fuzz_target!(|bytes: &[u8]| {
    let Some((how, bytes)) = bytes.split_first() else { return };
    let mode = if how & 1 == 0 { Mode::Tools } else { Mode::Text };
    let code_allowed = how & 2 == 0;
    let mut reader = SseReader::new();
    let mut builder = ReplyBuilder::new(mode, code_allowed, 0);
    for item in reader.feed(bytes).into_iter().chain(reader.finish()) {
        builder.push(&item);
    }
    let Ok(draft) = builder.finish() else { return };
    assert!(code_allowed || draft.candidates.is_empty());
    for candidate in draft.candidates {
        assert!(!candidate.readings[0].trim().is_empty());
        assert!(candidate.gate || candidate.readings.len() == 1);
    }
});
