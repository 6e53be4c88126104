//! Any bytes from a runner, cut in two anywhere, give the same frames or the same refusal.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sandscript::sandbox::frames::Decoder;

fn read(pieces: &[&[u8]]) -> String {
    let mut decoder = Decoder::default();
    let mut seen = String::new();
    for piece in pieces {
        decoder.push(piece);
        loop {
            match decoder.next_frame() {
                Ok(Some(frame)) => seen.push_str(&format!("{frame:?}\n")),
                Ok(None) => break,
                Err(e) => return format!("{seen}{e:?}"),
            }
        }
    }
    seen
}

fuzz_target!(|bytes: &[u8]| {
    let Some((at, bytes)) = bytes.split_first() else { return };
    let (first, second) = bytes.split_at(usize::from(*at).min(bytes.len()));
    assert_eq!(read(&[bytes]), read(&[first, second]));
});
