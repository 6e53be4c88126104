//! Sessions as files for other programs, and the care of sessions: the real binary, and properties of what it writes.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, clippy::print_stderr)]
#![cfg(unix)]

mod common;
mod support;

use std::collections::BTreeSet;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{Machine, Ran, python};
use proptest::prelude::*;
use sandscript::core::event::*;
use sandscript::core::policy::{Network, SecurityPolicy};
use sandscript::log::blobs::Blobs;
use sandscript::log::export::{Exported, Format, Options, export};
use sandscript::log::line;
use serde_json::Value;

const ID: &str = "20261130-200512-a1b2c3";

/// The smallest PNG: one pixel.
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\0\0\0\0\x3a\x7e\x9b\x55\0\0\0\nIDAT\x78\x9c\x63\x60\0\0\0\x02\0\x01\x48\xaf\xa4\x71\0\0\0\0IEND\xae\x42\x60\x82";

fn run(m: &Machine, arguments: &[&str]) -> Ran {
    Ran(m.bare(arguments).output().unwrap())
}

fn sample() -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/sample-session.jsonl")).unwrap()
}

/// Puts a session among those that are kept.
fn keep(m: &Machine, id: &str, log: &str) -> PathBuf {
    let folder = m.path("home/.local/share/sandscript/sessions").join(&id[..4]).join(&id[4..6]).join(id);
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("log.jsonl"), log).unwrap();
    folder
}

fn terms() -> Terms {
    Terms { timeout_seconds: 10, network: Network::Off, executor: "subprocess".into(), tier: "-".into() }
}

fn started(inputs: &[&str]) -> Vec<Event> {
    let info = SessionInfo {
        version: "0.1.0".into(),
        id: ID.into(),
        started: "2026-11-30T20:05:12.000Z".into(),
        model: "scripted".into(),
        base_url: "http://localhost:1/v1".into(),
        mode: Mode::Tools,
        window: 8192,
        executor: "subprocess".into(),
        tier: "-".into(),
        capabilities: Default::default(),
        policy: SecurityPolicy::default(),
        max_retries: 3,
        max_steps: 20,
        folder: "/data".into(),
        python: "3.11.7".into(),
        packages: vec!["numpy".into()],
    };
    let names: Vec<String> = inputs.iter().map(|name| (*name).to_owned()).collect();
    let listed = Event::InputsListed { files: names.len() as u64, bytes: 1, names, profile: String::new() };
    vec![Event::SessionStarted(Box::new(info)), listed]
}

fn said(text: &str) -> Event {
    Event::UserSaid { text: text.into() }
}

fn answered(text: &str) -> Event {
    Event::TurnEnded { status: TurnStatus::Answered, answer: text.into(), unrepaired: false }
}

fn proposed(step: u32, attempt: u32, code: &str) -> Event {
    Event::CodeProposed(Proposal {
        step,
        attempt,
        call: format!("call{step}x{attempt}"),
        code: code.into(),
        how: How::Call,
        raw: None,
        terms: terms(),
        asked_seconds: None,
    })
}

/// Code that was approved and ran, from the proposal to the end.
fn ran(step: u32, attempt: u32, code: &str, shown: Vec<Event>, outcome: Outcome) -> Vec<Event> {
    let call = format!("call{step}x{attempt}");
    let mut events = vec![
        proposed(step, attempt, code),
        Event::CodeApproved { step, attempt, call, edited: None, by: "user".into(), terms: terms() },
        Event::RunStarted { step, attempt, terms: terms(), runtime: "/usr/bin/python3".into() },
    ];
    events.extend(shown);
    events.push(Event::RunFinished(Box::new(RunFinished {
        step,
        attempt,
        exit_code: outcome.exit_code(),
        outcome,
        took_ms: 12,
        peak_bytes: None,
        variables_lost: false,
        artifacts: Vec::new(),
        notes: Vec::new(),
        stdout_blob: None,
        stderr_blob: None,
    })));
    events
}

fn printed(step: u32, stream: StreamName, text: &str) -> Event {
    Event::RunOutput { step, stream, text: text.into(), dropped: 0 }
}

fn valued(step: u32, result: ResultBundle) -> Event {
    Event::RunResult { step, result }
}

const GOOD: Outcome = Outcome::Exited { code: 0 };
const BAD: Outcome = Outcome::Exited { code: 1 };

fn log(events: impl IntoIterator<Item = Event>) -> String {
    let record = |(at, event)| Record { v: SCHEMA_VERSION, seq: at as u64, at_ms: 700 * at as u64, event };
    events.into_iter().enumerate().map(|one| line::encode(&record(one)).unwrap()).collect()
}

fn exported(session: &Path, format: Format, failed: bool) -> Exported {
    export(session, format, &Options { failed, figures: Some("page-figures".into()) }).unwrap()
}

fn text(exported: &Exported) -> &str {
    std::str::from_utf8(&exported.bytes).unwrap()
}

/// What the schema of nbformat 4.5 asks of a notebook.
fn check_notebook(text: &str) -> Value {
    let book: Value = serde_json::from_str(text).unwrap();
    keys(&book, &["cells", "metadata", "nbformat", "nbformat_minor"]);
    assert_eq!((&book["nbformat"], &book["nbformat_minor"]), (&4.into(), &5.into()));
    keys(&book["metadata"], &["kernelspec", "language_info", "sandscript"]);
    let mut ids = BTreeSet::new();
    for cell in book["cells"].as_array().unwrap() {
        let id = cell["id"].as_str().unwrap();
        assert!((1..=64).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-'), "{id}");
        assert!(ids.insert(id.to_owned()), "{id} twice");
        strings(&cell["source"]);
        for tag in cell["metadata"]["tags"].as_array().into_iter().flatten() {
            assert!(!tag.as_str().unwrap().contains(','), "{tag}");
        }
        if cell["cell_type"] == "markdown" {
            keys(cell, &["cell_type", "id", "metadata", "source"]);
            continue;
        }
        assert_eq!(cell["cell_type"], "code");
        keys(cell, &["cell_type", "execution_count", "id", "metadata", "outputs", "source"]);
        assert!(cell["execution_count"].is_u64());
        cell["outputs"].as_array().unwrap().iter().for_each(check_output);
    }
    book
}

fn check_output(output: &Value) {
    match output["output_type"].as_str().unwrap() {
        "stream" => {
            keys(output, &["name", "output_type", "text"]);
            assert!(output["name"] == "stdout" || output["name"] == "stderr");
            strings(&output["text"]);
        }
        "error" => {
            keys(output, &["ename", "evalue", "output_type", "traceback"]);
            assert!(output["ename"].is_string() && output["evalue"].is_string());
            strings(&output["traceback"]);
        }
        kind => {
            let counted = ["data", "execution_count", "metadata", "output_type"];
            match kind {
                "execute_result" => keys(output, &counted),
                "display_data" => keys(output, &["data", "metadata", "output_type"]),
                other => panic!("{other}"),
            }
            for (mime, value) in output["data"].as_object().unwrap() {
                assert!(["text/plain", "text/html", "image/png"].contains(&mime.as_str()), "{mime}");
                if !value.is_string() {
                    strings(value);
                }
            }
        }
    }
}

fn keys(value: &Value, expected: &[&str]) {
    assert_eq!(value.as_object().unwrap().keys().map(String::as_str).collect::<Vec<_>>(), expected, "{value}");
}

fn strings(value: &Value) {
    assert!(value.as_array().unwrap().iter().all(Value::is_string), "{value}");
}

/// What asciicast v2 and a terminal ask of a recording.
fn check_cast(text: &str) {
    let mut lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let header = lines.next().unwrap();
    assert_eq!((&header["version"], &header["width"], &header["height"]), (&2.into(), &100.into(), &30.into()));
    let mut last = 0.0;
    for event in lines {
        let [time, code, data] = event.as_array().unwrap().as_slice() else { panic!("{event}") };
        let (time, data) = (time.as_f64().unwrap(), data.as_str().unwrap());
        assert!(time >= last && time - last <= 2.0005, "{event}");
        last = time;
        assert!(code == "o" || code == "m", "{event}");
        let plain = without_colours(&data.replace("\r\n", ""));
        assert!(!plain.chars().any(|c| c.is_control() || c == '\u{202e}'), "{data:?}");
    }
}

/// Takes colour sequences out; anything else with an escape character stays.
fn without_colours(text: &str) -> String {
    let mut parts = text.split("\u{1b}[");
    let mut out = parts.next().unwrap().to_owned();
    for part in parts {
        match part.split_once('m') {
            Some((body, rest)) if body.bytes().all(|b| b.is_ascii_digit() || b == b';') => out.push_str(rest),
            _ => out.push_str(&format!("\u{1b}[{part}")),
        }
    }
    out
}

fn check_inert(text: &str) {
    let bad = |c: char| (c.is_control() && c != '\n' && c != '\t') || matches!(c, '\u{202a}'..='\u{202e}' | '\u{200b}');
    assert!(!text.contains(bad), "{:?}", text.matches(bad).collect::<Vec<_>>());
}

/// Compiles scripts with the Python of the tests; whatever does not is printed.
fn check_compiles(folder: &Path) {
    let check = "import sys, pathlib\nfor p in sorted(pathlib.Path(sys.argv[1]).glob('*.py')):\n    compile(p.read_bytes(), str(p), 'exec')\n";
    let out = Command::new(python()).args(["-W", "ignore", "-c", check]).arg(folder).output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
}

#[test]
fn the_sample_session_as_each_format() {
    let m = Machine::new();
    keep(&m, ID, &sample());
    for format in Format::ALL {
        let ran = run(&m, &["export", "last", "--format", format.name(), "-o", "-"]);
        assert_eq!((ran.code(), ran.err().as_str()), (0, ""));
        insta::assert_snapshot!(format!("sample.{}", format.name()), ran.out());
    }
}

#[test]
fn a_file_of_our_name_is_never_written_over_and_a_named_one_only_where_it_is_regular() {
    let m = Machine::new();
    let session = keep(&m, ID, &sample());
    let name = format!("sandscript-{ID}.md");
    let ran = run(&m, &["export", "2026", "--format", "md"]);
    assert!(ran.out().starts_with("wrote ") && ran.out().trim_end().ends_with(&name), "{}", ran.out());
    let path = m.path("work").join(&name);
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o133, 0);
    std::fs::write(&path, "mine").unwrap();
    run(&m, &["export", "2026", "--format", "md"]).failed(2, &["there already", "hint:"]);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "mine");

    assert_eq!(run(&m, &["export", "2026", "--format", "md", "-o", &name]).code(), 0);
    assert!(std::fs::read_to_string(&path).unwrap().starts_with("# Which region"));
    std::fs::create_dir(m.path("work/folder")).unwrap();
    symlink(&path, m.path("work/link")).unwrap();
    let log = session.join("log.jsonl");
    for odd in ["folder", "link", "/dev/null", "nowhere/x.md", log.to_str().unwrap()] {
        run(&m, &["export", "2026", "--format", "md", "-o", odd]).failed(2, &["write", "hint:"]);
    }
    assert_eq!(std::fs::read_to_string(&log).unwrap(), sample());
    assert!(run(&m, &["export", "2026", "--format", "pdf"]).err().contains("possible values: ipynb, py, md, cast"));
}

#[test]
fn a_log_from_elsewhere_is_exported_and_told_what_is_wrong_with_it() {
    let m = Machine::new();
    m.write("log.jsonl", &format!("{}torn \u{1b}[2J", sample()));
    m.write("sent log\u{1b}.jsonl", &sample());
    for path in [".", "./", "log.jsonl"] {
        let ran = run(&m, &["export", path, "--format", "md", "-o", "-"]);
        assert!(ran.out().starts_with("# Which region grew most?"), "{}", ran.err());
        let torn = format!("warning: line {}", sample().lines().count() + 1);
        assert!(ran.err().starts_with(&torn), "{}", ran.err());
        check_inert(&ran.err());
    }
    let ran = run(&m, &["export", "sent log\u{1b}.jsonl", "--format", "cast"]);
    assert!(ran.out().ends_with("sandscript-sentlog.cast\n"), "{}", ran.out());
    m.write("empty.jsonl", "");
    run(&m, &["export", "empty.jsonl", "--format", "md"]).failed(2, &["no record"]);
    run(&m, &["export", "./none.jsonl", "--format", "md"]).failed(2, &["no such file"]);
}

/// A session with a figure, a table, output of both streams and a failed attempt whose variables the next one uses.
fn rich(blobs: &Blobs) -> Vec<Event> {
    let table = Table {
        columns: vec![("".into(), "int64".into()), ("a|b".into(), "object".into())],
        rows: vec![vec!["0".into(), "<b>1</b>".into()]],
        total_rows: 1,
        total_columns: 1,
    };
    let trace = "warn\nTraceback (most recent call last):\n  File \"<cell 1>\", line 4\nKeyError: 'Amount'\n";
    let first =
        "import csv\nwith open('sales.csv') as f:\n    rows = list(csv.DictReader(f))\nprint(rows[0]['Amount'])\n";
    let second = "print(sum(int(row['amount']) for row in rows))\nrows\n";
    let loop_ = "while True: pass\n";
    let mut events = started(&["sales.csv"]);
    events.push(said("What is the sum of `amount`?\n# and </td> ``` more"));
    events.extend(ran(1, 1, first, vec![printed(1, StreamName::Stderr, trace)], BAD));
    let shown = vec![
        printed(1, StreamName::Stdout, "0%\r50%"),
        printed(1, StreamName::Stdout, "\r100%\n\u{1b}[31mred\u{1b}[0m\u{1b}[2J\n"),
        printed(1, StreamName::Stderr, "careful\n"),
        printed(1, StreamName::Stdout, "42\n"),
        valued(1, ResultBundle { text: "<Figure>".into(), png: Some(blobs.put(PNG).unwrap()), ..Default::default() }),
        valued(1, ResultBundle { last: true, text: "t".into(), table: Some(table), png: None }),
    ];
    events.extend(ran(1, 2, second, shown, GOOD));
    events.extend(ran(2, 1, loop_, vec![], Outcome::TimeLimit));
    events.push(proposed(3, 1, "import shutil; shutil.rmtree('.')"));
    let call = "call3x1".to_owned();
    events.push(Event::CodeRejected { step: 3, attempt: 1, call, reason: Some("no ```".into()) });
    events.push(proposed(4, 1, "print(1)"));
    let call = "call4x1".to_owned();
    let edited = Some("print(len(rows))\n".to_owned());
    events.push(Event::CodeApproved { step: 4, attempt: 1, call, edited, by: "user".into(), terms: terms() });
    events.extend(ran(4, 1, "", vec![printed(4, StreamName::Stdout, "2\n")], GOOD).into_iter().skip(2));
    events.push(answered("The sum is **42**."));
    events
}

fn rich_session(m: &Machine) -> PathBuf {
    let folder = keep(m, ID, "");
    let events = rich(&Blobs::of_session(&folder));
    std::fs::write(folder.join("log.jsonl"), log(events)).unwrap();
    folder
}

#[test]
fn a_notebook_holds_what_was_shown() {
    let m = Machine::new();
    let session = rich_session(&m);
    let book = check_notebook(text(&exported(&session, Format::Ipynb, false)));
    let code: Vec<&Value> = book["cells"].as_array().unwrap().iter().filter(|c| c["cell_type"] == "code").collect();
    assert_eq!(code.len(), 3, "the failed attempt is needed, the loop and the rejected code are left out");
    assert_eq!(code[0]["metadata"]["tags"], serde_json::json!(["failed", "raises-exception"]));
    assert_eq!(code[0]["outputs"][0]["text"], serde_json::json!(["warn\n"]));
    assert_eq!(code[0]["outputs"][1]["ename"], "KeyError");
    let outputs = code[1]["outputs"].as_array().unwrap();
    assert_eq!(outputs[0]["text"], serde_json::json!(["100%\n", "\u{1b}[31mred\u{1b}[0m\n"]));
    let kinds: Vec<&str> = outputs.iter().map(|o| o["output_type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["stream", "stream", "stream", "display_data", "execute_result"]);
    assert!(outputs[3]["data"]["image/png"].as_str().unwrap().starts_with("iVBORw0KGgo"));
    assert!(outputs[4]["data"]["text/html"].to_string().contains("<td>&lt;b&gt;1&lt;/b&gt;</td>"));
    assert_eq!(code[2]["source"], serde_json::json!(["print(len(rows))"]), "what ran, not what was proposed");
    let first = book["cells"][0]["source"].to_string();
    for part in ["Python 3.11.7; packages: numpy", "sales.csv", "2 pieces of code", "an attempt that failed is kept"] {
        assert!(first.contains(part), "{part} in {first}");
    }
    let all = exported(&session, Format::Ipynb, true);
    check_notebook(text(&all));
    assert!(text(&all).contains("while True: pass") && text(&all).contains("\"not-run\""));
    assert_eq!(text(&all).matches("\"cell_type\": \"code\"").count(), 3, "what must not run is text");
}

#[test]
fn a_session_of_several_pythons_says_so() {
    let m = Machine::new();
    let mut events = started(&[]);
    events.push(said("q"));
    let mut lost = ran(1, 1, "x = 1\n", vec![], GOOD);
    if let Some(Event::RunFinished(finished)) = lost.last_mut() {
        finished.variables_lost = true;
    }
    events.extend(lost);
    events.push(Event::SessionEnded { reason: "done".into() });
    events.push(said("more"));
    let session = keep(&m, ID, &log(events));
    let page = exported(&session, Format::Md, false);
    let expected = "several Pythons one after the other, not one for all of it (variables were lost at step 1; it was continued later)";
    assert!(text(&page).contains(expected), "{}", text(&page));
}

#[test]
fn a_page_has_its_figures_beside_it() {
    let m = Machine::new();
    rich_session(&m);
    let ran = run(&m, &["export", "last", "--format", "md", "-o", "my report.md", "--failed"]);
    assert_eq!(ran.out(), "wrote my report.md and 1 figure beside it\n", "{}", ran.err());
    let figure = m.path("work/my report-figures/figure-1.png");
    assert_eq!(std::fs::read(&figure).unwrap(), PNG);
    let page = std::fs::read_to_string(m.path("work/my report.md")).unwrap();
    check_inert(&page);
    for part in [
        "![figure 1](my%20report-figures/figure-1.png)",
        "| 0 | \\<b\\>1\\</b\\> |",
        "a\\|b",
        "rejected, not run: no \\`\\`\\`",
        "> # and </td> ``` more",
        "edited by the user",
        "stopped: the time limit of 10 s",
    ] {
        assert!(page.contains(part), "{part} in {page}");
    }
    let stdout = run(&m, &["export", "last", "--format", "md", "-o", "-"]);
    assert!(stdout.err().contains("figures are left out"), "{}", stdout.err());
    std::fs::remove_dir_all(m.path("work/my report-figures")).unwrap();
    symlink(m.path("tmp"), m.path("work/my report-figures")).unwrap();
    run(&m, &["export", "last", "--format", "md", "-o", "my report.md"]).failed(2, &["cannot write"]);
    assert_eq!(std::fs::read_dir(m.path("tmp")).unwrap().count(), 0, "no link is followed");
}

#[test]
fn a_script_runs_from_top_to_bottom() {
    let m = Machine::new();
    let session = rich_session(&m);
    m.write("sales.csv", "region,amount\nnorth,1\nsouth,41\n");
    for failed in [false, true] {
        let script = exported(&session, Format::Py, failed);
        m.write("session.py", text(&script));
        let out = Command::new(python()).arg("session.py").current_dir(m.path("work")).output().unwrap();
        let (shown, err) = (String::from_utf8(out.stdout).unwrap(), String::from_utf8(out.stderr).unwrap());
        assert!(out.status.success(), "{err}\n{}", text(&script));
        assert_eq!(shown, "failed, as in the session: KeyError('Amount')\n42\n2\n");
        assert_eq!(text(&script).contains("# while True: pass"), failed);
    }
    assert!(m.path("work/sales.csv").exists(), "rejected code does not run");
}

#[test]
fn code_that_cannot_stand_among_other_code_still_runs_in_the_script() {
    let m = Machine::new();
    let codes = [
        "x = 1\n",
        "from __future__ import annotations\ndef f(a: nothing): return a\n",
        "global x\nx += 1\n",
        "s = '''\n# /// script\n# dependencies = [\"evil\"]\n# ///\n'''\n",
        "t = '\u{202e}\u{0c}é'\r\nassert len(t) == 3\n",
        "if True:\r    y = f\"{x!r:>{4}}\"\n",
        "display(x, f(3), len(s), y)",
    ];
    let mut events = started(&[]);
    for (at, code) in codes.iter().enumerate() {
        events.extend(ran(at as u32 + 1, 1, code, vec![], GOOD));
    }
    let session = keep(&m, ID, &log(events));
    let script = exported(&session, Format::Py, false);
    check_inert(text(&script));
    assert_eq!(text(&script).lines().filter(|line| *line == "# /// script").count(), 1);
    m.write("session.py", text(&script));
    let out = Command::new(python()).arg("session.py").current_dir(m.path("work")).output().unwrap();
    let err = String::from_utf8(out.stderr).unwrap();
    assert_eq!(String::from_utf8(out.stdout).unwrap(), "2 3 46    2\n", "{err}\n{}", text(&script));
}

#[test]
fn a_notebook_validates_and_runs_top_to_bottom() {
    let Some(jupyter) = std::env::var_os("SANDSCRIPT_TEST_JUPYTER") else {
        eprintln!("skipped: a_notebook_validates_and_runs_top_to_bottom needs SANDSCRIPT_TEST_JUPYTER");
        return;
    };
    let m = Machine::new();
    m.write("sales.csv", "region,amount\nnorth,1\nsouth,41\n");
    let session = rich_session(&m);
    let hostile =
        keep(&m, "20261130-200513-a1b2c3", &log(hostile_events("x\u{0}\u{1b}[2J\u{202e}```\"'\\\r<!-- $", &[])));
    for (name, session) in [("rich", &session), ("hostile", &hostile)] {
        for failed in [false, true] {
            let book = exported(session, Format::Ipynb, failed);
            std::fs::write(m.path("work").join(format!("{name}-{failed}.ipynb")), book.bytes).unwrap();
        }
    }
    let check = "\
import glob, nbclient, nbformat
for name in sorted(glob.glob('*.ipynb')):
    book = nbformat.read(name, as_version=4)
    nbformat.validate(book)
    if name.startswith('rich'):
        nbclient.NotebookClient(book, timeout=60, kernel_name='python3').execute()
        code = [c for c in book.cells if c.cell_type == 'code']
        said = [''.join(o.get('text', '') for o in c.outputs) for c in code]
        assert said == ['', '42\\n', '2\\n'], said
        assert [o.ename for o in code[0].outputs] == ['KeyError'], code[0].outputs
print('ran')
";
    let out = Command::new(jupyter).args(["-W", "ignore", "-c", check]).current_dir(m.path("work")).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&out.stdout), "ran\n", "{}", String::from_utf8_lossy(&out.stderr));
    assert!(m.path("work/sales.csv").exists(), "rejected code does not run");
}

/// A session in which every text is the same hostile one.
fn hostile_events(text: &str, good_code: &[&str]) -> Vec<Event> {
    let mut events = started(&[text]);
    if let Event::SessionStarted(info) = &mut events[0] {
        (info.model, info.folder, info.python) = (text.into(), text.into(), text.into());
        (info.started, info.id, info.packages) = (text.into(), text.into(), vec![text.into(), "pandas".into()]);
    }
    events.push(said(text));
    let reply = Reply {
        text: text.into(),
        calls: vec![Call { id: "a".into(), code: text.into(), timeout_seconds: None, how: How::Call, raw: None }],
        ..Reply::default()
    };
    events.push(Event::ModelReplied(Box::new(reply)));
    let table = Table {
        columns: vec![(text.into(), text.into())],
        rows: vec![vec![text.into(); 3], vec![]],
        total_rows: 9,
        total_columns: 0,
    };
    let shown = |step| {
        vec![
            printed(step, StreamName::Stdout, text),
            printed(step, StreamName::Stderr, text),
            Event::RunOutput { step, stream: StreamName::Stderr, text: text.into(), dropped: 7 },
            valued(
                step,
                ResultBundle { last: true, text: text.into(), table: Some(table.clone()), png: Some(text.into()) },
            ),
        ]
    };
    events.extend(ran(1, 1, text, shown(1), BAD));
    events.extend(ran(2, 1, text, shown(2), Outcome::MemoryLimit));
    events.push(proposed(3, 1, text));
    events.push(Event::CodeRejected { step: 3, attempt: 1, call: "call3x1".into(), reason: Some(text.into()) });
    for (at, code) in good_code.iter().enumerate() {
        events.extend(ran(4 + at as u32, 1, code, shown(4 + at as u32), GOOD));
    }
    events.push(Event::Note { kind: NoteKind::Warning, text: text.into() });
    let failure = Failure::new(text, text, text);
    events.push(Event::SandboxFailed { failure });
    events.push(answered(text));
    // A run whose end is missing.
    let unfinished = ran(99, 1, text, vec![printed(99, StreamName::Stdout, text)], GOOD);
    events.extend(unfinished.into_iter().take(4));
    events
}

fn hostile_text() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        any::<char>().prop_map(String::from),
        proptest::sample::select(vec![
            "\n",
            "\r",
            "\r\n",
            "```",
            "````",
            "'''",
            "\"\"\"",
            "\\",
            "# ///",
            "/// script",
            "///",
            "# %%",
            "%%",
            "<!--",
            "<script>",
            "</td>",
            "|",
            "> ",
            "- ",
            "    ",
            "\t",
            "![x](http://y/z)",
            "\u{1b}[31m",
            "\u{1b}]0;x\u{7}",
            "\u{9b}2J",
            "\u{0}",
            "\u{202e}",
            "\u{2028}",
            "\u{85}",
            "\u{c}",
            "\u{200b}",
            "Traceback (most recent call last):\n",
            "E: x",
            "x = 1\n",
            "import x",
            "x",
            "(",
            "{",
            "f'{x}'",
            "# -*- coding: latin-1 -*-",
            "$",
            "&amp;",
            "é",
            "日",
        ])
        .prop_map(str::to_owned),
    ];
    proptest::collection::vec(part, 0..12).prop_map(|parts| parts.concat())
}

/// Code that compiles on its own and is awkward in company.
const AWKWARD: &[&str] = &[
    "x = 1",
    "from __future__ import annotations",
    "import os\nglobal x\nx = 2",
    "'''\n# %%\n```\n'''",
    "print(f'{x}')  # \u{202e}",
    "if True:\r\n    pass\r\n",
    "\n\n",
    "",
    "x = (1,\n2)\ndisplay(x)",
    "# /// script\n# dependencies = ['evil']\n# ///",
    "\u{feff}x = 1",
    "x = 1 ; \\\n y = 2",
];

#[test]
fn nothing_hostile_breaks_a_format() {
    let folder = tempfile::tempdir().unwrap();
    let scripts = folder.path().join("scripts");
    std::fs::create_dir(&scripts).unwrap();
    let session = folder.path().join("session");
    std::fs::create_dir(&session).unwrap();
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
        cases: 200,
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    let code = proptest::collection::vec(proptest::sample::select(AWKWARD.to_vec()), 0..3);
    let number = std::cell::Cell::new(0);
    let result = runner.run(&(hostile_text(), code, any::<bool>()), |(hostile, code, failed)| {
        std::fs::write(session.join("log.jsonl"), log(hostile_events(&hostile, &code))).unwrap();
        check_notebook(text(&exported(&session, Format::Ipynb, failed)));
        check_cast(text(&exported(&session, Format::Cast, failed)));
        check_inert(text(&exported(&session, Format::Md, failed)));
        let script = exported(&session, Format::Py, failed);
        check_inert(text(&script));
        assert_eq!(text(&script).lines().filter(|line| line.starts_with("# ///")).count(), 2, "{}", text(&script));
        number.set(number.get() + 1);
        std::fs::write(scripts.join(format!("{}.py", number.get())), script.bytes).unwrap();
        Ok(())
    });
    result.unwrap();
    check_compiles(&scripts);
}

#[test]
fn a_session_is_renamed_deleted_and_cleared_out() {
    let m = Machine::new();
    let old = keep(&m, ID, &sample());
    let new = keep(&m, "20261201-080000-000001", &sample());
    let renamed = run(&m, &["sessions", "rename", "20261130", "sales\u{1b}[2J\nof May"]);
    assert_eq!(renamed.out(), format!("session {ID} is now called sales of May\n"));
    let list = run(&m, &["sessions", "list"]).out();
    assert!(list.contains("KiB") && list.ends_with("    sales of May\n"), "{list}");
    let one = run(&m, &["sessions", "list", "-n", "1"]).out();
    assert!(one.ends_with("1 more, see them with -n 2\n"), "{one}");
    let page = run(&m, &["export", "20261130", "--format", "md", "-o", "-"]).out();
    assert!(page.starts_with("# sales of May\n"), "{page}");

    run(&m, &["sessions", "delete", "20261130"]).failed(2, &["no terminal to ask", "--yes"]);
    run(&m, &["sessions", "delete", "./20261130", "--yes"]).failed(2, &["no session begins with"]);
    let log = std::fs::File::open(new.join("log.jsonl")).unwrap();
    log.lock().unwrap();
    run(&m, &["sessions", "delete", "last", "--yes"]).failed(2, &["another sandscript has it open"]);
    drop(log);
    run(&m, &["sessions", "prune"]).err().contains("--older-than").then_some(()).unwrap();
    let plan = run(&m, &["sessions", "prune", "--max-size", "0", "--dry-run"]).out();
    assert!(plan.contains("sales of May") && plan.contains("to delete: 2 sessions"), "{plan}");
    run(&m, &["sessions", "prune", "--max-size", "0"]).failed(2, &["--yes"]);
    assert!(old.exists() && new.exists());
    let none = run(&m, &["sessions", "prune", "--older-than", "30d", "--yes"]);
    assert!(none.out().contains("to delete: 0 sessions"), "{}", none.out());
    let deleted = run(&m, &["sessions", "delete", "20261130", "--yes"]);
    assert!(deleted.out().starts_with(&format!("deleted session {ID}, ")), "{}{}", deleted.out(), deleted.err());
    assert!(!old.exists() && new.exists());
    let pruned = run(&m, &["sessions", "prune", "--max-size", "1K", "--yes"]);
    assert!(pruned.out().contains("to keep: 0 sessions") && !new.exists(), "{}", pruned.out());
}

/// Runs the program in a terminal, types an answer and returns what stood there.
fn answer_on_a_terminal(m: &Machine, arguments: &[&str], answer: &str) -> String {
    use portable_pty::{CommandBuilder, PtySize, native_pty_system};
    let pty = native_pty_system().openpty(PtySize { rows: 24, cols: 200, pixel_width: 0, pixel_height: 0 }).unwrap();
    let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_sandscript"));
    command.args(arguments);
    command.cwd(m.path("work"));
    command.env_clear();
    command.env("HOME", m.path("home"));
    let mut reader = pty.master.try_clone_reader().unwrap();
    let mut child = pty.slave.spawn_command(command).unwrap();
    drop(pty.slave);
    std::io::Write::write_all(&mut pty.master.take_writer().unwrap(), answer.as_bytes()).unwrap();
    child.wait().unwrap();
    let mut shown = Vec::new();
    // The end of a terminal is an error on Linux.
    let _ = std::io::Read::read_to_end(&mut reader, &mut shown);
    String::from_utf8_lossy(&shown).into_owned()
}

#[test]
fn deleting_asks_on_a_terminal_and_only_yes_is_yes() {
    let m = Machine::new();
    let session = keep(&m, ID, &sample());
    for no in ["\n", "n\n", "yesterday\n"] {
        let shown = answer_on_a_terminal(&m, &["sessions", "delete", "last"], no);
        assert!(
            shown.contains("Which region grew most?: are you sure? [y/N]") && shown.contains("nothing was deleted"),
            "{shown}"
        );
        assert!(session.exists(), "{no}");
    }
    let shown = answer_on_a_terminal(&m, &["sessions", "prune", "--max-size", "0"], "y\n");
    assert!(shown.contains("delete 1 session: are you sure?") && !session.exists(), "{shown}");
}
