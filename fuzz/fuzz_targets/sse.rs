//! Any bytes, cut in two anywhere, give the same items. The first byte says where to cut.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sandscript::model::sse::{SseItem, SseReader};

fn read(pieces: &[&[u8]]) -> Vec<SseItem> {
    let mut reader = SseReader::new();
    let mut items: Vec<SseItem> = pieces.iter().flat_map(|piece| reader.feed(piece)).collect();
    items.extend(reader.finish());
    items
}

fuzz_target!(|bytes: &[u8]| {
    let Some((at, bytes)) = bytes.split_first() else { return };
    let (first, second) = bytes.split_at(usize::from(*at).min(bytes.len()));
    assert_eq!(read(&[bytes]), read(&[first, second]));
});
