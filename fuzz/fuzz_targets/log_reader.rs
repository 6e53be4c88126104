//! Any bytes as a log: no panic, and what is called good stays good when it is read again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sandscript::log::reader::Reader;

fuzz_target!(|bytes: &[u8]| {
    let mut reader = Reader::new(bytes, None);
    let entries = reader.by_ref().count();
    let report = reader.finish();
    if !report.damaged {
        let good = usize::try_from(report.good_end).expect("an offset in these bytes");
        let mut again = Reader::new(&bytes[..good], None);
        assert_eq!(again.by_ref().count(), entries);
        assert!(!again.finish().torn);
    }
});
