use std::fs::Permissions;
use std::io::BufRead;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::{Command, Stdio};

use nix::sys::resource::{RLIM_INFINITY, Resource, setrlimit};

use super::*;
use crate::log::list::{self, State};
use crate::log::reader::{Entry, Report};
use crate::log::sample;

fn note(seq: u64, text: &str) -> Record {
    Record { v: SCHEMA_VERSION, seq, at_ms: seq, event: Event::Note { kind: NoteKind::Warning, text: text.into() } }
}

fn now() -> Timestamp {
    "2026-11-30T20:05:12Z".parse().unwrap()
}

fn read(folder: &Path) -> (Vec<Entry>, Report) {
    let mut reader = Reader::open(folder).unwrap();
    let entries = reader.by_ref().collect();
    (entries, reader.finish())
}

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().permissions().mode() & 0o777
}

/// A closed session with three records.
async fn session(data: &Path) -> PathBuf {
    let mut writer = LogWriter::create(data, now()).unwrap();
    for seq in 0..3 {
        writer.append(&note(seq, "x")).await.unwrap();
    }
    let folder = writer.folder().unwrap().to_owned();
    writer.close().await.unwrap();
    folder
}

fn append_bytes(folder: &Path, bytes: &[u8]) {
    OpenOptions::new().append(true).open(folder.join(LOG_FILE)).unwrap().write_all(bytes).unwrap();
}

#[tokio::test]
async fn a_session_is_private_and_reads_back() {
    let data = tempfile::tempdir().unwrap();
    let data = data.path().join("new").join("sandscript");
    let mut writer = LogWriter::create(&data, now()).unwrap();
    for record in sample::records() {
        writer.append(&record).await.unwrap();
    }
    writer.barrier().await.unwrap();
    let folder = writer.folder().unwrap().to_owned();
    assert_eq!(std::fs::read_to_string(folder.join(LOG_FILE)).unwrap(), sample::text());
    assert_eq!(folder.parent().unwrap(), data.join("sessions/2026/11"));
    let id = writer.id().unwrap();
    assert!(id.starts_with("20261130-200512-") && id.len() == 22, "{id}");
    assert_eq!(mode(&folder.join(LOG_FILE)), 0o600);
    folder.ancestors().take(6).for_each(|made| assert_eq!(mode(made), 0o700, "{made:?}"));
    assert_ne!(LogWriter::create(&data, now()).unwrap().folder(), Some(folder.as_path()));
}

#[tokio::test]
async fn dropping_loses_nothing() {
    let data = tempfile::tempdir().unwrap();
    let mut writer = LogWriter::create(data.path(), now()).unwrap();
    for seq in 0..500 {
        writer.append(&note(seq, "x")).await.unwrap();
    }
    let folder = writer.folder().unwrap().to_owned();
    drop(writer);
    assert_eq!(read(&folder).1.next_seq, 500);
}

#[tokio::test]
async fn a_barrier_nobody_waited_for_holds_no_end_up() {
    let data = tempfile::tempdir().unwrap();
    let mut writer = LogWriter::create(data.path(), now()).unwrap();
    let folder = writer.folder().unwrap().to_path_buf();
    let barriers: Vec<_> = (0..3).map(|_| writer.barrier()).collect();
    for seq in 0..100 {
        writer.append(&note(seq, "x")).await.unwrap();
    }
    drop(writer);
    assert_eq!(read(&folder).0.len(), 100);
    for barrier in barriers {
        assert!(barrier.await.is_err(), "nobody is there to sync any more");
    }
}

#[tokio::test]
async fn a_record_out_of_order_is_refused() {
    let data = tempfile::tempdir().unwrap();
    let mut writer = LogWriter::create(data.path(), now()).unwrap();
    assert!(writer.append(&note(1, "x")).await.unwrap_err().why.contains("0 is next"));
    writer.append(&note(0, "x")).await.unwrap();
    writer.barrier().await.unwrap();
    assert!(writer.append(&note(2, "x")).await.is_err());
    assert!(writer.barrier().await.unwrap_err().why.contains("1 is next"), "a gap is no base for a run");
    writer.append(&note(1, "x")).await.unwrap();
    writer.barrier().await.unwrap();
    assert_eq!(writer.next_seq(), 2);
}

#[tokio::test]
async fn an_ephemeral_session_leaves_nothing() {
    let mut writer = LogWriter::ephemeral();
    writer.append(&note(0, "x")).await.unwrap();
    writer.barrier().await.unwrap();
    assert_eq!((writer.next_seq(), writer.folder(), writer.id()), (1, None, None));
    assert!(writer.append(&note(0, "x")).await.is_err());
}

#[tokio::test]
async fn two_writers_never_share_a_log() {
    let data = tempfile::tempdir().unwrap();
    let mut writer = LogWriter::create(data.path(), now()).unwrap();
    for (seq, record) in sample::records().into_iter().take(2).enumerate() {
        writer.append(&Record { seq: seq as u64, ..record }).await.unwrap();
    }
    writer.barrier().await.unwrap();
    let folder = writer.folder().unwrap().to_owned();
    let refused = LogWriter::open(&folder).unwrap_err();
    assert_eq!(refused.why, "another sandscript has it open");
    assert!(refused.hint.contains("replay"));
    assert_eq!(list::summary(&folder).unwrap().state, State::Open);
    drop(writer);
    assert_eq!(list::summary(&folder).unwrap().state, State::Crashed);
    LogWriter::open(&folder).unwrap();
}

#[tokio::test]
async fn a_torn_tail_is_set_aside_as_often_as_it_happens() {
    let data = tempfile::tempdir().unwrap();
    let folder = session(data.path()).await;
    for (n, tail) in [b"{\"v\":1,\"se".as_slice(), &[0; 700]].into_iter().enumerate() {
        append_bytes(&folder, tail);
        let (mut writer, resumed) = LogWriter::open(&folder).unwrap();
        assert!(resumed.repaired);
        assert_eq!(writer.next_seq(), 4 + 2 * n as u64);
        writer.append(&note(writer.next_seq(), "goes on")).await.unwrap();
        writer.close().await.unwrap();
        let aside = folder.join(format!("{LOG_FILE}.torn-{}", n + 1));
        assert_eq!((std::fs::read(&aside).unwrap().as_slice(), mode(&aside)), (tail, 0o600));
    }
    let (entries, report) = read(&folder);
    assert_eq!((entries.len(), report.torn, report.damaged), (7, false, false));
    let Entry::Known(repair) = &entries[3] else { panic!() };
    let Event::Note { kind, text } = &repair.event else { panic!() };
    assert_eq!((*kind, repair.at_ms), (NoteKind::Recovery, 2));
    assert_eq!(text, "10 bytes at the end of the log were no whole record and are now in log.jsonl.torn-1");
    assert_eq!(LogWriter::open(&folder).unwrap().1, Resumed { last_at_ms: report.last_at_ms, repaired: false });
}

#[tokio::test]
async fn a_log_that_cannot_go_on_is_left_as_it_is() {
    let data = tempfile::tempdir().unwrap();
    let good = std::fs::read(session(data.path()).await.join(LOG_FILE)).unwrap();
    let newer = line::sealed(r#"{"v":2,"seq":3,"at_ms":9,"type":"session_ended","reason":"x""#);
    let next = line::encode(&note(3, "x")).unwrap();
    let zeros = [&good, [0; 300].as_slice(), b"\n", next.as_bytes()].concat();
    for (bytes, why) in [
        (zeros, "its log is damaged, line 4: zero bytes"),
        ([&good[..], newer.as_bytes()].concat(), "a newer sandscript wrote it"),
        (Vec::new(), "its log holds no record"),
        (vec![0; 4096], "its log holds no record"),
    ] {
        let folder = session(data.path()).await;
        std::fs::write(folder.join(LOG_FILE), &bytes).unwrap();
        let refused = LogWriter::open(&folder).unwrap_err();
        assert_eq!(refused.why, why);
        assert_ne!(refused.hint, "");
        assert_eq!(std::fs::read(folder.join(LOG_FILE)).unwrap(), bytes);
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1);
    }
}

#[tokio::test]
async fn a_link_is_not_followed() {
    let data = tempfile::tempdir().unwrap();
    let folder = session(data.path()).await;
    let outside = data.path().join("outside");
    std::fs::rename(folder.join(LOG_FILE), &outside).unwrap();
    symlink(&outside, folder.join(LOG_FILE)).unwrap();
    assert!(LogWriter::open(&folder).is_err());
    assert!(Reader::open(&folder).is_err());
    assert!(list::summary(&folder).is_none());
}

#[tokio::test]
async fn a_record_longer_than_a_line_is_kept_whole() {
    let data = tempfile::tempdir().unwrap();
    let mut writer = LogWriter::create(data.path(), now()).unwrap();
    let long = note(0, &"é\n".repeat(line::MAX_LINE));
    writer.append(&long).await.unwrap();
    writer.append(&note(1, "x")).await.unwrap();
    let folder = writer.folder().unwrap().to_owned();
    writer.close().await.unwrap();
    assert!(folder.join(LOG_FILE).metadata().unwrap().len() < 500);
    assert_eq!(read(&folder).0, [long, note(1, "x")].map(|r| Entry::Known(Box::new(r))));
}

#[test]
fn a_folder_that_cannot_be_written_is_named_with_a_hint() {
    let data = tempfile::tempdir().unwrap();
    std::fs::set_permissions(data.path(), Permissions::from_mode(0o500)).unwrap();
    // Root may write anywhere.
    if !nix::unistd::geteuid().is_root() {
        let refused = LogWriter::create(data.path(), now()).unwrap_err();
        assert!(refused.what.contains("sessions") && refused.hint.contains("permissions"), "{refused:?}");
    }
    let file = tempfile::NamedTempFile::new().unwrap();
    assert!(LogWriter::create(file.path(), now()).unwrap_err().what.contains("sessions"));
}

/// Runs a test of this file in a process of its own, where a limit on the size of files is an error and no signal.
fn child(test: &str, data: &Path) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", "trap '' XFSZ; exec \"$@\"", "sh"]);
    command.arg(std::env::current_exe().unwrap());
    command.args(["--ignored", "--exact", "--nocapture", &format!("log::writer::tests::{test}")]);
    command.env("SANDSCRIPT_TEST_DATA", data).stdin(Stdio::null()).stdout(Stdio::piped());
    command
}

fn child_data() -> PathBuf {
    PathBuf::from(std::env::var_os("SANDSCRIPT_TEST_DATA").expect("only as a child of another test"))
}

#[test]
fn a_full_disk_loses_nothing() {
    let data = tempfile::tempdir().unwrap();
    let output = child("full_disk_child", data.path()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{text}{}", String::from_utf8_lossy(&output.stderr));
}

#[tokio::test]
#[ignore = "child of a_full_disk_loses_nothing"]
async fn full_disk_child() {
    const LIMIT: u64 = 16 * 1024;
    let mut writer = LogWriter::create(&child_data(), now()).unwrap();
    let log = writer.folder().unwrap().join(LOG_FILE);
    writer.append(&note(0, "x")).await.unwrap();
    writer.barrier().await.unwrap();
    let before = std::fs::read(&log).unwrap();

    // The first write of this line is cut short and the second one fails.
    setrlimit(Resource::RLIMIT_FSIZE, LIMIT, RLIM_INFINITY).unwrap();
    let long = "y".repeat(60_000);
    writer.append(&note(1, &long)).await.unwrap();
    let failure = writer.barrier().await.unwrap_err();
    assert!(failure.hint.starts_with("free space on"), "{failure:?}");
    assert_eq!(writer.problem(), Some(failure.clone()));
    assert!(std::fs::read(&log).unwrap() == before, "half a line was left");

    // What comes meanwhile waits, within bounds, and then is refused.
    let mut refused = None;
    while refused.is_none() {
        assert!(writer.next_seq() < 2 + (MAX_BACKLOG / long.len() + 2 * QUEUE) as u64, "the memory is not bounded");
        refused = writer.append(&note(writer.next_seq(), &long)).await.err();
    }
    assert_eq!(refused, Some(failure));
    // The writer may just be trying again; behind a barrier it is done with that.
    assert!(writer.barrier().await.is_err());
    assert!(std::fs::read(&log).unwrap() == before, "half a line was left");

    setrlimit(Resource::RLIMIT_FSIZE, RLIM_INFINITY, RLIM_INFINITY).unwrap();
    assert!(writer.barrier().await.is_err(), "a record is still missing");
    assert_eq!(writer.problem(), None);
    writer.append(&note(writer.next_seq(), &long)).await.unwrap();
    writer.barrier().await.unwrap();
    writer.append(&note(writer.next_seq(), "z")).await.unwrap();
    let (folder, count) = (writer.folder().unwrap().to_owned(), writer.next_seq());
    writer.close().await.unwrap();
    let (entries, report) = read(&folder);
    assert_eq!((entries.len() as u64, report.bad_lines, report.damaged), (count, 0, false));
}

#[test]
fn a_killed_program_leaves_every_synced_record() {
    for lines in [1, 7, 40] {
        let data = tempfile::tempdir().unwrap();
        let mut child = child("killed_child", data.path()).spawn().unwrap();
        let mut synced = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let mut numbers = synced.by_ref().filter_map(|line| line.strip_prefix("synced ")?.parse::<u64>().ok());
        numbers.by_ref().nth(lines).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        let last = numbers.last();
        let folder = list::find(data.path(), "last").unwrap();
        let (_, report) = read(&folder);
        assert!(!report.damaged, "{:?}", report.warnings);
        assert!(report.next_seq > last.unwrap_or(lines as u64));
        LogWriter::open(&folder).unwrap();
    }
}

#[tokio::test]
#[ignore = "child of a_killed_program_leaves_every_synced_record"]
async fn killed_child() {
    let mut writer = LogWriter::create(&child_data(), now()).unwrap();
    for seq in 0.. {
        writer.append(&note(seq, &"x".repeat(3000))).await.unwrap();
        if seq % 3 == 0 {
            writer.barrier().await.unwrap();
            println!("\nsynced {seq}");
        }
    }
}
