//! A session that goes on from an earlier step of another one.
//!
//! The new log begins with the lines of the old one, byte for byte, up to the end of that step, so a replay of it needs
//! nothing else. What the lines name (figures, long output, files) is linked, not copied, where the disk can: none of it is
//! ever written to again.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use super::reader::{Entry, Reader};
use super::{FILES_FOLDER, LOG_FILE, care, disk_failure, line, list, make_private_folder, open_untrusted, writer};
use crate::core::clean::Clean;
use crate::core::event::{Event, Failure};

/// What a fork takes of the old session.
#[derive(Debug, Default)]
struct Taken {
    /// Offset behind the last line.
    end: u64,
    /// Names of blobs.
    blobs: BTreeSet<String>,
    /// Names of files the runs made.
    files: BTreeSet<String>,
}

/// Makes a session under `data_dir` that holds what `source` held at the end of step `last_step`, and returns its folder.
pub fn fork(data_dir: &Path, source: &Path, last_step: u32, now: Timestamp) -> Result<PathBuf, Failure> {
    let taken = taken(source, last_step)?;
    let folder = writer::new_session_folder(data_dir, now)?;
    let made = fill(&folder, source, taken).and_then(|()| writer::sync_session_folder(&folder));
    made.map_err(|e| {
        // What is half made is no session: its log comes last.
        let _ = std::fs::remove_dir_all(&folder);
        disk_failure("cannot make a copy of the session in", &folder, &e)
    })?;
    Ok(folder)
}

/// Looks for the end of the step and for what the lines before it name.
fn taken(source: &Path, last_step: u32) -> Result<Taken, Failure> {
    let refused = |why: String, hint: &str| {
        Err(Failure::new(format!("session {} cannot be forked at step {last_step}", list::id_of(source)), why, hint))
    };
    let mut reader = Reader::open(source)?;
    let (mut taken, mut sofar, mut bad) = (Taken::default(), Taken::default(), None);
    while let Some(entry) = reader.next() {
        let report = reader.report();
        if let Entry::Known(record) = entry
            && let Some(step) = name(record.event, &mut sofar)
            && step == last_step
        {
            sofar.end = report.good_end;
            taken.end = sofar.end;
            taken.blobs.append(&mut sofar.blobs);
            taken.files.append(&mut sofar.files);
            bad = (report.damaged || report.newer).then(|| (report.damaged, report.warnings.first().cloned()));
        }
    }
    match (taken.end, bad) {
        (0, _) => refused("no run of that step has ended".into(), "choose a step that ran"),
        (_, Some((true, warning))) => {
            let why = format!("its log is damaged before that, {}", warning.unwrap_or_default());
            refused(why, "choose an earlier step; it can still be replayed and exported")
        }
        (_, Some((false, _))) => refused("a newer sandscript wrote it".into(), "update sandscript"),
        (_, None) => Ok(taken),
    }
}

/// Notes what an event names; the step of a run that ended.
fn name(event: Event, taken: &mut Taken) -> Option<u32> {
    match event {
        Event::RunResult { result, .. } => taken.blobs.extend(result.png),
        Event::RunFinished(finished) => {
            taken.blobs.extend([finished.stdout_blob, finished.stderr_blob].into_iter().flatten());
            taken.files.extend(finished.artifacts.into_iter().map(|artifact| artifact.name));
            // A cell that ran again after a break belongs to where the step once ran.
            return (finished.attempt > 0).then_some(finished.step);
        }
        Event::SessionStarted(_)
        | Event::SessionResumed(_)
        | Event::TermsChanged { .. }
        | Event::ModelChanged { .. }
        | Event::LimitsChanged { .. }
        | Event::RebuildDecided { .. }
        | Event::InputsListed { .. }
        | Event::UserSaid { .. }
        | Event::ModelDelta { .. }
        | Event::ModelReplied(_)
        | Event::ModelFailed(_)
        | Event::CodeProposed(_)
        | Event::CodeApproved { .. }
        | Event::CodeRejected { .. }
        | Event::RunStarted { .. }
        | Event::RunOutput { .. }
        | Event::SandboxFailed { .. }
        | Event::ArtifactSaved { .. }
        | Event::TurnEnded { .. }
        | Event::Note { .. }
        | Event::SessionEnded { .. } => {}
    }
    None
}

fn fill(folder: &Path, source: &Path, mut taken: Taken) -> io::Result<()> {
    let log = open_untrusted(OpenOptions::new().read(true), &super::log_file(source))?;
    // Made under another name first: a folder without a log is no session.
    let copy = tempfile::NamedTempFile::new_in(folder)?;
    copy_lines(log, copy.as_file(), &mut taken)?;
    copy.as_file().sync_data()?;

    let blobs: Vec<&String> = taken.blobs.iter().filter(|name| super::blobs::is_name(name)).collect();
    take_files(&source.join("blobs"), &folder.join("blobs"), &blobs)?;
    let files: Vec<&String> = taken.files.iter().filter(|name| is_plain(name)).collect();
    take_files(&source.join(FILES_FOLDER), &folder.join(FILES_FOLDER), &files)?;
    let title = list::summary(source).map(|summary| summary.title).unwrap_or_default();
    care::write_title(folder, &list::title(Clean::line(&format!("fork of {title}")).as_str()))?;
    copy.persist(folder.join(LOG_FILE))?;
    Ok(())
}

/// Copies whole lines up to the end, noting the blobs that stand for long ones.
fn copy_lines(log: File, copy: &File, taken: &mut Taken) -> io::Result<()> {
    let mut input = BufReader::new(log.take(taken.end));
    let mut output = BufWriter::new(copy);
    let mut line = Vec::new();
    while input.read_until(b'\n', &mut line)? > 0 {
        let pointer = line::envelope(line.strip_suffix(b"\n").unwrap_or(&line));
        taken.blobs.extend(pointer.ok().and_then(|envelope| envelope.blob));
        output.write_all(&line)?;
        line.clear();
    }
    output.flush()
}

/// Whether a name from a log is one of a file in its folder.
fn is_plain(name: &str) -> bool {
    !name.is_empty() && !name.starts_with('.') && !name.contains(['/', '\0'])
}

/// Links files of one folder into another, or copies them. What is not there any more is passed over: the lines that name
/// it are as good as in the old session.
fn take_files(from: &Path, to: &Path, names: &[&String]) -> io::Result<()> {
    if names.is_empty() || !from.symlink_metadata().is_ok_and(|data| data.is_dir()) {
        return Ok(());
    }
    make_private_folder(to)?;
    for name in names {
        let (old, new) = (from.join(name), to.join(name));
        let Ok(mut file) = open_untrusted(OpenOptions::new().read(true), &old) else { continue };
        if std::fs::hard_link(&old, &new).is_err() {
            let mut copy = tempfile::NamedTempFile::new_in(to)?;
            io::copy(&mut file, &mut copy)?;
            copy.as_file().sync_data()?;
            copy.persist(&new)?;
        }
    }
    super::sync_folder(to)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::event::{NoteKind, Record, SCHEMA_VERSION};
    use crate::log::sample;
    use crate::log::writer::LogWriter;

    fn now() -> Timestamp {
        "2026-12-01T08:00:00Z".parse().unwrap()
    }

    fn source(data: &Path, log: &str) -> PathBuf {
        let folder = data.join("sessions/2026/11/20261130-200512-a1b2c3");
        std::fs::create_dir_all(folder.join(FILES_FOLDER)).unwrap();
        std::fs::write(folder.join(LOG_FILE), log).unwrap();
        std::fs::write(folder.join(FILES_FOLDER).join("copy.csv"), "a,b\n").unwrap();
        folder
    }

    /// The lines of the sample up to the end of a run.
    fn up_to(step: u32) -> String {
        let end = format!("\"type\":\"run_finished\",\"step\":{step}");
        let text = sample::text();
        let at = text.rfind(&end).unwrap();
        text[..at + text[at..].find('\n').unwrap() + 1].to_owned()
    }

    #[tokio::test]
    async fn a_fork_is_a_prefix_and_goes_on() {
        let data = tempfile::tempdir().unwrap();
        let source = source(data.path(), &sample::text());
        let one = fork(data.path(), &source, 1, now()).unwrap();
        assert_eq!(std::fs::read_to_string(one.join(LOG_FILE)).unwrap(), up_to(1));
        assert!(!one.join(FILES_FOLDER).exists(), "no file was made so far");
        assert_eq!(list::find(data.path(), "last").unwrap(), one);
        assert_eq!(list::summary(&one).unwrap().title.as_str(), "fork of Which region grew most?");

        let two = fork(data.path(), &source, 2, now()).unwrap();
        assert_eq!(std::fs::read_to_string(two.join(LOG_FILE)).unwrap(), up_to(2));
        assert_eq!(std::fs::read_to_string(two.join(FILES_FOLDER).join("copy.csv")).unwrap(), "a,b\n");

        let (mut writer, resumed) = LogWriter::open(&one).unwrap();
        assert!(!resumed.repaired);
        let seq = writer.next_seq();
        let event = Event::Note { kind: NoteKind::Warning, text: "on".into() };
        writer.append(&Record { v: SCHEMA_VERSION, seq, at_ms: resumed.last_at_ms, event }).await.unwrap();
        writer.close().await.unwrap();
        assert_eq!(std::fs::read_to_string(source.join(LOG_FILE)).unwrap(), sample::text(), "the source is as it was");
    }

    #[test]
    fn blobs_that_lines_name_come_along() {
        let data = tempfile::tempdir().unwrap();
        let source = source(data.path(), "");
        let blobs = super::super::blobs::Blobs::of_session(&source);
        let records = sample::records();
        let long = Record { event: Event::UserSaid { text: "x".repeat(10) }, ..records[3].clone() };
        let pointed = blobs.put(line::encode(&long).unwrap().as_bytes()).unwrap();
        let unneeded = blobs.put(b"later").unwrap();
        let figure = blobs.put(b"figure").unwrap();
        let mut log = String::new();
        for mut record in records {
            let line = line::encode(&record).unwrap();
            if record.seq == long.seq {
                log.push_str(
                    &line::encode_pointer(&line::envelope(line.trim_end().as_bytes()).unwrap(), &pointed).unwrap(),
                );
                continue;
            }
            if let Event::RunResult { result, .. } = &mut record.event {
                result.png = Some(figure.clone());
            }
            if let Event::RunFinished(finished) = &mut record.event {
                finished.stdout_blob = Some("../log.jsonl".into());
                finished.artifacts.push(crate::core::event::Artifact { name: "../log.jsonl".into(), bytes: 1 });
            }
            log.push_str(&line::encode(&record).unwrap());
        }
        std::fs::write(source.join(LOG_FILE), log).unwrap();
        let two = fork(data.path(), &source, 2, now()).unwrap();
        let kept = super::super::blobs::Blobs::of_session(&two);
        assert_eq!(kept.get(&figure, 100).unwrap(), b"figure");
        assert!(kept.get(&pointed, 1000).is_ok() && kept.get(&unneeded, 100).is_err());
        assert_eq!(std::fs::read_dir(two.join("blobs")).unwrap().count(), 2);
        assert_eq!(std::fs::read_dir(two.join(FILES_FOLDER)).unwrap().count(), 1);
        let one = fork(data.path(), &source, 1, now()).unwrap();
        assert_eq!(std::fs::read_dir(one.join("blobs")).unwrap().count(), 1);
    }

    #[test]
    fn what_is_not_sound_up_to_the_step_is_refused() {
        let data = tempfile::tempdir().unwrap();
        let text = sample::text();
        let source = source(data.path(), &text);
        for none in [0, 3, 99] {
            assert_eq!(fork(data.path(), &source, none, now()).unwrap_err().why, "no run of that step has ended");
        }
        let between = up_to(1).len();
        std::fs::write(source.join(LOG_FILE), format!("{}bad\n{}", &text[..between], &text[between..])).unwrap();
        assert!(fork(data.path(), &source, 2, now()).unwrap_err().why.contains("damaged before that, line"));
        assert!(fork(data.path(), &source, 1, now()).is_ok(), "what comes later does not matter");
        let newer = line::sealed(r#"{"v":2,"seq":0,"at_ms":0,"type":"note""#);
        let rest = text.split_once('\n').unwrap().1;
        std::fs::write(source.join(LOG_FILE), newer + rest).unwrap();
        assert!(fork(data.path(), &source, 1, now()).unwrap_err().why.contains("newer"));
        assert_eq!(list::list(data.path()).count(), 1, "nothing half made is left");
    }
}
