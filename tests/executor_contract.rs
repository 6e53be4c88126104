//! What every executor must do, written over `dyn Executor` so that later ones join by a line in [`contract!`].
//!
//! Each row runs programs in a sandbox of its own and looks at outcome, exit code, time and output; at its end no process
//! of the program is left, an ordinary run still works, and the scratch folder goes with the sandbox.
#![allow(clippy::expect_used, clippy::unwrap_used, clippy::print_stdout)] // helpers of tests are tests too

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use sandscript::core::event::{NoteKind, Outcome, StreamName};
use sandscript::core::policy::{Hold, Limit, SecurityPolicy};
use sandscript::sandbox::inputs::{Input, Inputs};
use sandscript::sandbox::packages::{self, Requirement, State};
use sandscript::sandbox::provision::Provisioned;
use sandscript::sandbox::python::{self, Choice, Env};
use sandscript::sandbox::subprocess::SubprocessExecutor;
use sandscript::sandbox::{Cell, Executor, Finished, OpenRequest, Output, Sandbox, Value};
use tokio::sync::mpsc::Receiver;

/// Beyond the limit of a run: interrupt to kill, and a machine busy with the other tests.
const SLACK: Duration = Duration::from_secs(8);

macro_rules! contract {
    ($name:ident, $executor:expr, [$($row:ident),* $(,)?]) => {
        mod $name {
            $(#[tokio::test] async fn $row() { super::$row(&$executor).await; })*
        }
    };
}

// What lies between the driver and the inner sandbox can lose a stop, an end or a piece of output, and nothing else.
contract!(
    provisioned,
    super::provisioned().await.0,
    [
        streams_are_told_apart_and_in_order,
        last_expression_and_display,
        time_limit_by_interrupt_keeps_variables,
        interrupt_and_second_interrupt,
        interrupt_before_the_start,
        close_in_mid_run,
        nobody_reads,
        checks,
        artifacts_are_kept,
        odd_source_text,
        the_first_flood_is_kept,
        the_runner_is_replaced,
    ]
);

contract!(
    subprocess,
    super::subprocess_executor(),
    [
        ends_and_exit_codes,
        exits_that_look_like_limits,
        streams_are_told_apart_and_in_order,
        variables_live_and_tracebacks_show_source,
        last_expression_and_display,
        hostile_repr_costs_its_time,
        a_table,
        a_figure,
        time_limit_by_interrupt_keeps_variables,
        time_limit_by_kill_loses_variables,
        time_limit_in_one_long_call,
        time_limit_is_the_one_given,
        cpu_limit,
        stopping_itself,
        exiting_just_before_the_limit,
        interrupt_and_second_interrupt,
        interrupt_before_the_start,
        close_in_mid_run,
        nobody_reads,
        children_are_gone,
        zombies,
        closed_descriptors,
        output_limit,
        one_endless_line,
        a_fast_printer_is_whole,
        text_without_line_end_survives_a_kill,
        any_bytes_and_escape_sequences,
        a_progress_bar_is_few_records,
        unicode_and_lone_surrogates,
        standard_input_is_empty,
        crash,
        memory,
        file_size_and_open_files,
        limits_too_small_for_python,
        forged_frames,
        the_environment_is_ours,
        the_supervisor_is_out_of_reach,
        checks,
        inputs_are_copies,
        artifacts_are_kept,
        late_threads_are_told,
        odd_source_text,
        multiprocessing_and_pickle,
        a_removed_workspace,
        the_first_flood_is_kept,
        nothing_outlives_a_run,
        a_stopped_supervisor_is_no_shelter,
        the_runner_is_replaced,
    ]
);

fn python() -> &'static Path {
    static PYTHON: OnceLock<PathBuf> = OnceLock::new();
    PYTHON.get_or_init(|| {
        let named = std::env::var_os("SANDSCRIPT_TEST_PYTHON").unwrap_or_else(|| "python3".into());
        let asked = std::process::Command::new(named).args(["-c", "import sys; print(sys.executable)"]).output();
        String::from_utf8(asked.expect("python3").stdout).unwrap().trim().into()
    })
}

fn subprocess_executor() -> SubprocessExecutor {
    SubprocessExecutor { python: python().into() }
}

/// A package that no folder of wheels has.
const ABSENT: &str = "sandscript-absent";

/// An executor whose environment is in the making, and the cache folder it is in. What makes it ready finds at once that there
/// is nothing to do.
async fn provisioned() -> (Provisioned<SubprocessExecutor>, tempfile::TempDir) {
    let (mut executor, folder) = late().await;
    executor.environment.root = None;
    (executor, folder)
}

/// The same with an environment whose one package cannot be had.
async fn late() -> (Provisioned<SubprocessExecutor>, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().to_str().unwrap();
    let env: Env = [("PATH", "/usr/bin:/bin"), ("HOME", home), ("PIP_CONFIG_FILE", "/dev/null"), ("PIP_NO_INDEX", "1")]
        .into_iter()
        .collect();
    let interpreter = python::resolve(&Choice::Path(python().into()), &env, folder.path()).await.unwrap();
    let environment = packages::plan(&interpreter, &[Requirement::parse(ABSENT).unwrap()], folder.path());
    assert_eq!(environment.state, State::Preparing);
    let inner = SubprocessExecutor { python: environment.python.clone() };
    (Provisioned { inner, environment, interpreter, env }, folder)
}

/// The default but for processes: where they are counted per user, the other tests count too.
fn policy() -> SecurityPolicy {
    SecurityPolicy { max_processes: 1000, ..SecurityPolicy::default() }
}

/// One sandbox and what belongs to it.
struct Rig {
    sandbox: Option<Box<dyn Sandbox>>,
    /// Stands in the environment of everything that runs in it.
    marker: String,
    cells: u32,
    keep: tempfile::TempDir,
}

/// A run that is over.
#[derive(Debug)]
struct Ran {
    stdout: String,
    stderr: String,
    values: Vec<Value>,
    dropped: u64,
    records: usize,
    done: Finished,
}

impl Ran {
    fn code(&self) -> i32 {
        self.done.outcome.exit_code()
    }

    #[track_caller]
    fn ok(self) -> Self {
        assert!(self.done.outcome.is_success(), "{self:?}");
        self
    }

    #[track_caller]
    fn ends(self, outcome: Outcome) -> Self {
        assert_eq!(self.done.outcome, outcome, "{self:?}");
        self
    }
}

fn exited(code: i32) -> Outcome {
    Outcome::Exited { code }
}

impl Rig {
    async fn new(executor: &dyn Executor) -> Self {
        Self::with(executor, policy(), Inputs::default()).await
    }

    async fn with(executor: &dyn Executor, policy: SecurityPolicy, inputs: Inputs) -> Self {
        let keep = tempfile::tempdir().unwrap();
        // Like the one of a session: nobody made it yet.
        let request = OpenRequest { policy, inputs, keep: keep.path().join("files") };
        let sandbox = executor.open(request).await.unwrap_or_else(|error| panic!("{error:?}"));
        let mut rig = Self { sandbox: Some(sandbox), marker: String::new(), cells: 0, keep };
        rig.marker = rig.run("import os; print(os.environ['HOME'], end='')").await.ok().stdout;
        assert!(rig.marker.len() > 10);
        rig
    }

    fn start(&mut self, code: &str, seconds: u64) -> Receiver<Output> {
        self.cells += 1;
        let code = code.replace("MARK", &self.marker);
        self.sandbox.as_ref().unwrap().run(Cell { number: self.cells, code, timeout_seconds: seconds })
    }

    async fn run(&mut self, code: &str) -> Ran {
        self.run_for(code, 20).await
    }

    async fn run_for(&mut self, code: &str, seconds: u64) -> Ran {
        let output = self.start(code, seconds);
        self.read(output, seconds).await
    }

    async fn read(&self, mut output: Receiver<Output>, seconds: u64) -> Ran {
        let limit = Duration::from_secs(seconds) + SLACK;
        let (mut stdout, mut stderr, mut values) = (String::new(), String::new(), Vec::new());
        let (mut dropped, mut records, mut done) = (0, 0, None);
        let all = async {
            while let Some(output) = output.recv().await {
                assert!(done.is_none(), "nothing follows the end");
                match output {
                    Output::Started | Output::Notice(..) => {}
                    Output::Text { stream, text, dropped: gone } => {
                        (records, dropped) = (records + 1, dropped + gone);
                        if stream == StreamName::Stdout { stdout.push_str(&text) } else { stderr.push_str(&text) }
                    }
                    Output::Value(value) => values.push(value),
                    Output::Finished(finished) => done = Some(*finished),
                }
            }
        };
        tokio::time::timeout(limit, all).await.expect("the run ends in time");
        self.nothing_is_left().await;
        Ran { stdout, stderr, values, dropped, records, done: done.expect("an end") }
    }

    /// Only the runner itself (supervisor and worker) carries the marker.
    async fn nothing_is_left(&self) {
        let mut found = Vec::new();
        for _ in 0..100 {
            found = marked(&self.marker);
            let runner = found.iter().filter(|command| command.contains("scratch=")).count();
            if self.marker.is_empty() || (runner <= 2 && found.len() == runner) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("left behind: {found:?}");
    }

    async fn interrupt_after(&self, output: &mut Receiver<Output>, word: &str) {
        let mut text = String::new();
        while !text.contains(word) {
            match output.recv().await {
                Some(Output::Text { text: more, .. }) => text.push_str(&more),
                Some(Output::Started | Output::Notice(..) | Output::Value(_)) => {}
                Some(Output::Finished(done)) => panic!("it ended: {done:?}"),
                None => panic!("it ended"),
            }
        }
        self.sandbox.as_ref().unwrap().interrupt();
    }

    /// The end of every row.
    async fn end(mut self) {
        let ran = self.run("print(1)").await.ok();
        assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("1\n", ""));
        self.close().await;
    }

    async fn close(&mut self) {
        self.sandbox.take().unwrap().close().await;
        assert_eq!(marked(&self.marker), Vec::<String>::new());
        assert!(!Path::new(&self.marker).exists(), "the scratch folder is gone");
    }
}

/// Command lines of living processes with `marker` in their arguments or environment.
fn marked(marker: &str) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let folder = Path::new(marker).parent().map(|path| path.display().to_string()).unwrap_or_default();
    let mut found = Vec::new();
    for entry in entries.flatten().filter(|entry| entry.file_name().to_string_lossy().parse::<u32>().is_ok()) {
        let read = |name: &str| std::fs::read(entry.path().join(name)).unwrap_or_default();
        let command = String::from_utf8_lossy(&read("cmdline")).replace('\0', " ");
        let all = format!("{command} {}", String::from_utf8_lossy(&read("environ")));
        let stat = String::from_utf8_lossy(&read("stat")).into_owned();
        let dead = stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with(['Z', 'X']));
        if !dead && (all.contains(marker) || all.contains(&format!("scratch={folder}"))) {
            found.push(command);
        }
    }
    found
}

async fn has_module(rig: &mut Rig, name: &str, row: &str) -> bool {
    let there = rig.run(&format!("import {name}")).await.code() == 0;
    if !there {
        println!("skipped: {row} needs {name}");
    }
    there
}

async fn ends_and_exit_codes(executor: &dyn Executor) {
    let mut rig = Rig::new(executor).await;
    for (code, want) in [
        ("x = 1", 0),
        ("import sys; sys.exit()", 0),
        ("sys.exit(0)", 0),
        ("sys.exit(1)", 1),
        ("sys.exit(3)", 3),
        ("1/0", 1),
        ("raise KeyboardInterrupt", 130),
        ("def f(:", 1),
    ] {
        rig.run(code).await.ends(exited(want));
    }
    let ran = rig.run("sys.exit('words')").await.ends(exited(1));
    assert_eq!(ran.stderr, "words\n");
    let ran = rig.run("print(x)").await.ok();
    assert_eq!((ran.stdout.as_str(), ran.done.variables_lost), ("1\n", false));
    assert!(ran.done.peak_bytes.is_some_and(|bytes| bytes > 1_000_000));
    rig.end().await;
}

async fn exits_that_look_like_limits(executor: &dyn Executor) {
    let mut rig = Rig::new(executor).await;
    for code in [124, 127, 137] {
        rig.run(&format!("import sys; sys.exit({code})")).await.ends(exited(code));
    }
    rig.run("x = 1").await.ok();
    for (code, lost) in [(0, true), (3, false), (124, false), (137, false)] {
        let ran = rig.run(&format!("import os; os._exit({code})")).await.ends(exited(code));
        assert_eq!(ran.done.variables_lost, lost, "{ran:?}");
    }
    rig.end().await;
}

async fn streams_are_told_apart_and_in_order(executor: &dyn Executor) {
    let mut rig = Rig::new(executor).await;
    let code = "import os, sys, subprocess
for i in range(200):
    print(i); print(-i, file=sys.stderr)
os.write(1, b'raw\\n')
subprocess.run(['sh', '-c', 'echo child; echo oops >&2'])
print('end')";
    let ran = rig.run(code).await.ok();
    let out: String = (0..200).map(|i| format!("{i}\n")).collect();
    let err: String = (0..200).map(|i| format!("{}\n", -i)).collect();
    assert_eq!(ran.stdout, out + "raw\nchild\nend\n");
    assert_eq!(ran.stderr, err + "oops\n");
    rig.end().await;
}

async fn variables_live_and_tracebacks_show_source(executor: &dyn Executor) {
    let mut rig = Rig::new(executor).await;
    rig.run("def ratio(a):\n    return 1 / a").await.ok();
    let ran = rig.run("import json\nratio(0)").await.ends(exited(1));
    assert!(
        ran.stderr.starts_with("Traceback (most recent call last):\n  File \"<cell 3>\", line 2"),
        "{}",
        ran.stderr
    );
    assert!(ran.stderr.contains("File \"<cell 2>\", line 2, in ratio\n    return 1 / a"), "{}", ran.stderr);
    assert!(ran.stderr.ends_with("ZeroDivisionError: division by zero\n"), "{}", ran.stderr);
    assert!(!ran.stderr.contains("<string>"), "no frames of the runner: {}", ran.stderr);
    let ran = rig.run("json.loads('{')").await.ends(exited(1));
    assert!(!ran.stderr.contains("decoder.py"), "no frames of libraries: {}", ran.stderr);
    let ran = rig.run("x = 1\ny = (").await.ends(exited(1));
    assert!(ran.stderr.contains("File \"<cell 5>\", line 2") && ran.stderr.contains("SyntaxError"), "{}", ran.stderr);
    let ran =
        rig.run("import warnings, traceback\ntry:\n    1/0\nexcept Exception:\n    traceback.print_exc()").await.ok();
    assert!(ran.stderr.contains("    1/0\n"), "source for everybody: {}", ran.stderr);
    rig.end().await;
}

async fn last_expression_and_display(executor: &dyn Executor) {
    let mut rig = Rig::new(executor).await;
    let ran = rig.run("print('before')\ndisplay('shown', None)\n[1, 2]").await.ok();
    let texts: Vec<_> = ran.values.iter().map(|value| (value.text.as_str(), value.last)).collect();
    assert_eq!(texts, [("'shown'", false), ("None", false), ("[1, 2]", true)]);
    let ran = rig.run("_.append(3); _;").await.ok();
    assert_eq!(ran.values[0].text, "[1, 2, 3]");
    assert!(rig.run("None").await.ok().values.is_empty());
    let ran = rig.run("'x' * 1_000_000").await.ok();
    assert!(
        ran.values[0].text.len() <= 8192 && ran.values[0].text.contains("more bytes"),
        "{}",
        ran.values[0].text.len()
    );
    let ran = rig.run("for i in range(1000): display(i)").await.ok();
    assert!(ran.values.len() == 100 && ran.done.notes[0].contains("too many values"), "{:?}", ran.done);
    let code = "class P:\n    def _repr_png_(self): return b'no picture'\nP()";
    let ran = rig.run(code).await.ok();
    assert!(ran.values[0].png.is_none() && ran.values[0].text.contains("picture left out"), "{:?}", ran.values);
    rig.end().await;
}

async fn hostile_repr_costs_its_time(executor: &dyn Executor) {
    let mut rig = Rig::new(executor).await;
    rig.run("class H:\n    def __repr__(self):\n        while True: pass").await.ok();
    rig.run_for("H()", 1).await.ends(Outcome::TimeLimit);
    rig.run_for("display(H())", 1).await.ends(Outcome::TimeLimit);
    let ran = rig.run("class B:\n    def __repr__(self): raise SystemExit(7)\nB()").await.ends(exited(7));
    assert!(ran.values.is_empty());
    rig.run("class C(Exception):\n    def __str__(self): raise self\nraise C()").await.ends(exited(1));
    rig.end().await;
}

async fn a_table(executor: &dyn Executor) {
    let mut rig = Rig::new(executor).await;
    if has_module(&mut rig, "pandas", "a_table").await {
        let code = "import pandas as pd
df = pd.DataFrame({'a': range(1000), 'b': [i / 2 for i in range(1000)]}, index=[f'r{i}' for i in range(1000)])
df";
        let ran = rig.run(code).await.ok();
        let table = ran.values[0].table.as_ref().unwrap();
        assert_eq!((table.total_rows, table.total_columns, table.rows.len()), (1000, 2, 200));
        assert_eq!(table.columns[1..], [("a".into(), "int64".into()), ("b".into(), "float64".into())]);
        assert_eq!(table.rows[3], ["r3", "3", "1.5"]);
        let text = &ran.values[0].text;
        assert!(text.contains("r999") && text.contains("[1000 rows x 2 columns]"), "{text}");
        let ran = rig.run("df.a.head(2)").await.ok();
        assert_eq!(ran.values[0].table.as_ref().unwrap().rows, [["r0", "0"], ["r1", "1"]]);
        let ran = rig.run("df['Region']").await.ends(exited(1));
        assert!(ran.stderr.ends_with("KeyError: 'Region'\n") && ran.stderr.lines().count() <= 5, "{}", ran.stderr);
    }
    rig.end().await;
}

async fn a_figure(executor: &dyn Executor) {
    let mut rig = Rig::new(executor).await;
    if has_module(&mut rig, "matplotlib", "a_figure").await {
        let ran =
            rig.run_for("import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()\nprint('after')", 60).await;
        let ran = ran.ok();
        assert!(ran.values[0].png.as_ref().is_some_and(|png| png.starts_with(b"\x89PNG")), "{:?}", ran.values);
        assert_eq!(rig.run_for("for i in range(12): plt.figure()", 60).await.ok().values.len(), 10);
        let ran = rig.run_for("fig, ax = plt.subplots()\nfig", 60).await.ok();
        assert!(ran.values.len() == 1 && ran.values[0].last, "{:?}", ran.values);
        assert!(rig.run("plt.get_fignums()").await.ok().values[0].text == "[]");
    }
    rig.end().await;
}

async fn time_limit_by_interrupt_keeps_variables(executor: &dyn Executor) {
    let mut rig = Rig::new(executor).await;
    let ran = rig.run_for("x = 5\nprint('partial', end='')\nwhile True: pass", 1).await.ends(Outcome::TimeLimit);
    assert_eq!(ran.stdout, "partial");
    assert!(ran.stderr.contains("<cell 2>\", line 3"), "{}", ran.stderr);
    assert!(!ran.done.variables_lost && (1000..3000).contains(&ran.done.took_ms), "{ran:?}");
    assert_eq!(rig.run("print(x)").await.ok().stdout, "5\n");
    rig.run_for("import time; time.sleep(3600)", 1).await.ends(Outcome::TimeLimit);
    rig.run_for("import subprocess; subprocess.run(['sleep', '3600'])", 1).await.ends(Outcome::TimeLimit);
    assert_eq!(rig.run("print(x)").await.ok().stdout, "5\n");
    rig.end().await;
}

async fn time_limit_by_kill_loses_variables(executor: &dyn Executor) {
    let mut rig = Rig::new(executor).await;
    let stubborn = "import time
print('a')
while True:
    try:
        time.sleep(100)
    except BaseException:
        print('caught')";
    rig.run("x = 1").await.ok();
    let ran = rig.run_for(stubborn, 1).await.ends(Outcome::TimeLimit);
    assert_eq!(ran.stdout, "a\ncaught\n");
    assert!(ran.done.variables_lost);
    assert_eq!(rig.run("x").await.code(), 1);
    let deaf = "import signal, time
for s in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGALRM):
    signal.signal(s, signal.SIG_IGN)
time.sleep(3600)";
    rig.run_for(deaf, 1).await.ends(Outcome::TimeLimit);
    rig.end().await;
}

async fn time_limit_in_one_long_call(executor: &dyn Executor) {
    let mut rig = Rig::new(executor).await;
    rig.run_for("sum(range(10**11))", 1).await.ends(Outcome::TimeLimit);
    rig.end().await;
}

async fn time_limit_is_the_one_given(executor: &dyn Executor) {
    let mut rig = Rig::new(executor).await;
    for seconds in [1, 3] {
        let ran = rig.run_for("while True: pass", seconds).await.ends(Outcome::TimeLimit);
        let limit = seconds * 1000;
        assert!((limit..limit + 1500).contains(&ran.done.took_ms), "{seconds}: {}", ran.done.took_ms);
    }
    rig.end().await;
}

async fn cpu_limit(executor: &dyn Executor) {
    let mut rig = Rig::new(executor).await;
    // The limit of a run is behind its wall limit; the code may lower it.
    let code = "import resource
hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
resource.setrlimit(resource.RLIMIT_CPU, (1, hard))
print('busy')
while True: pass";
    let ran = rig.run(code).await.ends(Outcome::CpuLimit);
    assert_eq!((ran.code(), ran.stdout.as_str()), (124, "busy\n"));
    rig.end().await;
}

async fn stopping_itself(executor: &dyn Executor) {
    let mut rig = Rig::new(executor).await;
    rig.run_for("import signal\nsignal.raise_signal(signal.SIGSTOP)", 1).await.ends(Outcome::TimeLimit);
    let code = "import subprocess; subprocess.run(['sh', '-c', 'kill -STOP $$'])";
    rig.run_for(code, 1).await.ends(Outcome::TimeLimit);
    rig.end().await;
}

async fn exiting_just_before_the_limit(executor: &dyn Executor) {
    let mut rig = Rig::new(executor).await;
    for _ in 0..3 {
        // It says itself that it was early: then it must not count as late.
        let code = "import time\nt = time.monotonic() + 0.8\nwhile time.monotonic() < t: pass";
        let ran = rig.run_for(code, 1).await;
        assert!(ran.done.took_ms >= 1000 || ran.done.outcome.is_success(), "{ran:?}");
    }
    rig.end().await;
}

async fn interrupt_and_second_interrupt(executor: &dyn Executor) {
    let mut rig = Rig::new(executor).await;
    let mut output = rig.start("x = 2\nprint('go')\nwhile True: pass", 60);
    rig.interrupt_after(&mut output, "go").await;
    let ran = rig.read(output, 0).await.ends(Outcome::Cancelled);
    assert!(!ran.done.variables_lost && ran.code() == 130);
    assert_eq!(rig.run("print(x)").await.ok().stdout, "2\n");
    let code = "import time
while True:
    try: print('go'), time.sleep(9)
    except BaseException: print('caught')";
    let mut output = rig.start(code, 60);
    rig.interrupt_after(&mut output, "go").await;
    rig.interrupt_after(&mut output, "caught").await;
    let begun = Instant::now();
    let ran = rig.read(output, 0).await.ends(Outcome::Cancelled);
    assert!(ran.done.variables_lost && begun.elapsed() < Duration::from_millis(1500), "{:?}", begun.elapsed());
    rig.end().await;
}

async fn interrupt_before_the_start(executor: &dyn Executor) {
    let mut rig = Rig::new(executor).await;
    rig.sandbox.as_ref().unwrap().interrupt();
    rig.run("print('an old interrupt stops nothing')").await.ok();
    let output = rig.start("while True: pass", 60);
    rig.sandbox.as_ref().unwrap().interrupt();
    rig.read(output, 0).await.ends(Outcome::Cancelled);
    rig.end().await;
}

async fn close_in_mid_run(executor: &dyn Executor) {
    let mut rig = Rig::new(executor).await;
    let code = "import subprocess, sys, signal, time
signal.signal(signal.SIGINT, signal.SIG_IGN)
subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(3600)', 'MARK'], start_new_session=True, env={})
print('up')
time.sleep(3600)";
    let mut output = rig.start(code, 60);
    while !matches!(output.recv().await, Some(Output::Text { .. })) {}
    // A program that starts has for a moment no command line.
    let until = Instant::now() + SLACK;
    while marked(&rig.marker).len() < 3 {
        assert!(Instant::now() < until);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let begun = Instant::now();
    rig.close().await;
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
    let mut last = None;
    while let Some(output) = output.recv().await {
        last = Some(output);
    }
    assert!(matches!(last, Some(Output::Finished(_))), "{last:?}");
}

async fn nobody_reads(executor: &dyn Executor) {
    let mut rig = Rig::new(executor).await;
    rig.run("x = 3").await.ok();
    drop(rig.start("while True: print('flood')", 60));
    let begun = Instant::now();
    assert_eq!(rig.run("print(x)").await.ok().stdout, "3\n");
    assert!(begun.elapsed() < Duration::from_secs(6), "{:?}", begun.elapsed());
    // A reader that does not read holds up neither the run nor the next one.
    let idle = rig.start("for i in range(200000): print(i)", 20);
    tokio::time::sleep(Duration::from_millis(300)).await;
    rig.run("1").await.ok();
    let ran = rig.read(idle, 0).await.ok();
    assert!(ran.stdout.ends_with("199999\n"));
    rig.end().await;
}

async fn children_are_gone(executor: &dyn Executor) {
    let mut rig = Rig::new(executor).await;
    let sleeper = "[sys.executable, '-c', 'import time; time.sleep(3600)', 'MARK']";
    let begun = Instant::now();
    rig.run(&format!("import os, subprocess, sys, time, signal\nsubprocess.Popen({sleeper})")).await.ok();
    // Twice forked, in a session of its own, holding the output, deaf, and without our environment.
    let code = format!(
        "if os.fork() == 0:
    os.setsid()
    for s in (1, 2, 15): signal.signal(s, signal.SIG_IGN)
    if os.fork() == 0:
        os.execve(sys.executable, {sleeper}, {{}})
    os._exit(0)
print('done')"
    );
    let ran = rig.run(&code).await.ok();
    assert_eq!(ran.stdout, "done\n");
    let code = "if os.fork() == 0:
    while True: print('still here')
time.sleep(0.1)";
    rig.run(code).await.ok();
    // A fork that comes back to the runner's own code says nothing and ends nothing.
    let ran = rig.run("pid = os.fork()\nif pid: os.waitpid(pid, 0)\nprint('both')\n7").await.ok();
    assert_eq!((ran.stdout.as_str(), ran.values.len()), ("both\nboth\n", 1));
    rig.run(&format!("subprocess.Popen({sleeper}, start_new_session=True, env={{}})\nos._exit(0)")).await.ok();
    assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
    rig.end().await;
}

async fn zombies(executor: &dyn Executor) {
    let mut rig = Rig::new(executor).await;
    let code = "import os
for i in range(50):
    if os.fork() == 0: os._exit(0)";
    for _ in 0..3 {
        rig.run(code).await.ok();
    }
    rig.end().await;
}

async fn closed_descriptors(executor: &dyn Executor) {
    let mut rig = Rig::new(executor).await;
    rig.run("x = 4\nimport os, sys\nos.closerange(0, 256)").await.ok();
    assert_eq!(rig.run("print(x)").await.ok().stdout, "4\n");
    rig.run("sys.stdout.close(); sys.stderr = None").await.ok();
    assert_eq!(rig.run("print(x)").await.ok().stdout, "4\n");
    let ran = rig.run("os.closerange(0, 100000)\nraise ValueError").await.ends(exited(1));
    assert!(ran.done.variables_lost);
    rig.end().await;
}

async fn output_limit(executor: &dyn Executor) {
    let policy = SecurityPolicy { max_output_bytes: 2_000_000, ..policy() };
    let mut rig = Rig::with(executor, policy, Inputs::default()).await;
    let ran = rig.run("x = 1\nwhile True: print('y' * 99)").await.ends(Outcome::OutputLimit);
    assert_eq!(ran.code(), 153);
    assert!(
        !ran.done.variables_lost && ran.dropped > 0 && ran.stdout.len() < 600_000,
        "{} {}",
        ran.dropped,
        ran.stdout.len()
    );
    let spool = ran.done.stdout_spool.as_ref().unwrap();
    assert!(spool.starts_with(rig.keep.path()) && std::fs::metadata(spool).unwrap().len() > 256 * 1024);
    let code = "while True:\n    try:\n        while True: print('z' * 9999)\n    except BaseException: pass";
    rig.run(code).await.ends(Outcome::OutputLimit);
    rig.end().await;
}

async fn one_endless_line(executor: &dyn Executor) {
    let mut rig = Rig::new(executor).await;
    let code = "import sys\nfor _ in range(20): sys.stdout.write('x' * 1_000_000)\nsys.stdout.write('end')";
    let ran = rig.run(code).await.ok();
    assert_eq!(ran.stdout.len() as u64 + ran.dropped, 20_000_003);
    assert!(ran.stdout.len() < 1_100_000 && ran.stdout.ends_with("xend"), "{}", ran.stdout.len());
    rig.end().await;
}

async fn a_fast_printer_is_whole(executor: &dyn Executor) {
    let mut rig = Rig::new(executor).await;
    // Enough to turn block buffering on, little enough that nothing is left out; and quiet long enough to turn it off.
    let code = "import time
for i in range(20000): print(i)
time.sleep(0.6)
print('slow')
for i in range(5000): print(i)
print('end', end='')";
    let ran = rig.run(code).await.ok();
    let want: String = (0..20000).map(|i| format!("{i}\n")).chain(["slow\n".into()]).collect();
    let want = want + &(0..5000).map(|i| format!("{i}\n")).collect::<String>() + "end";
    assert!(ran.stdout == want && ran.dropped == 0, "{} bytes of {}", ran.stdout.len(), want.len());
    let code = "import os
for i in range(5000): print(i)
if os.fork() == 0:
    print('child')
    os._exit(0)
os.wait()
print('parent')";
    let ran = rig.run(code).await.ok();
    assert!(ran.stdout.ends_with("parent\n"), "{}", &ran.stdout[ran.stdout.len() - 100..]);
    rig.end().await;
}

async fn text_without_line_end_survives_a_kill(executor: &dyn Executor) {
    let mut rig = Rig::new(executor).await;
    let ran = rig.run("import os, signal\nprint('kept', end='')\nos.kill(os.getpid(), signal.SIGKILL)").await;
    let ran = ran.ends(Outcome::Signaled { signal: 9 });
    assert_eq!(ran.stdout, "kept");
    assert!(ran.done.notes.iter().any(|note| note.contains("killed")), "{:?}", ran.done.notes);
    rig.end().await;
}

async fn any_bytes_and_escape_sequences(executor: &dyn Executor) {
    let mut rig = Rig::new(executor).await;
    let ran = rig.run("import sys; n = sys.stdout.buffer.write(bytes(range(256)) * 100)").await.ok();
    assert!(ran.stdout.chars().all(|c| !c.is_control() || matches!(c, '\n' | '\t' | '\r')));
    let ran = rig.run(r"print('a\x1b]52;c;Zm9v\x07b\x1b[2Jc\x1b[31mred\x1b[0m\x9b6nd')").await.ok();
    assert_eq!(ran.stdout, "abc\x1b[31mred\x1b[0md\n");
    let ran = rig.run(r"raise ValueError('\x1b]0;title\x07x')").await.ends(exited(1));
    assert!(ran.stderr.ends_with("ValueError: x\n"), "{:?}", ran.stderr);
    rig.end().await;
}

async fn a_progress_bar_is_few_records(executor: &dyn Executor) {
    let mut rig = Rig::new(executor).await;
    let code = "import sys, time
for i in range(10001):
    sys.stderr.write(f'\\r{i:5d}/10000')
    if i % 100 == 0: time.sleep(0.005)
sys.stderr.write('\\nready\\n')";
    let ran = rig.run(code).await.ok();
    assert!(ran.records <= 20 && ran.dropped == 0, "{}", ran.records);
    assert!(ran.stderr.ends_with("10000/10000\nready\n"), "{:?}", ran.stderr);
    rig.end().await;
}

async fn unicode_and_lone_surrogates(executor: &dyn Executor) {
    let mut rig = Rig::new(executor).await;
    let ran = rig.run("größe = '✓ 数据'\nprint(größe)\ngröße").await.ok();
    assert_eq!((ran.stdout.as_str(), ran.values[0].text.as_str()), ("✓ 数据\n", "'✓ 数据'"));
    let ran = rig.run("print('\\ud800')\n'\\udfff'").await.ok();
    assert_eq!(ran.stdout, "\\ud800\n");
    let ran = rig.run("import os\nfor b in '€'.encode():\n    os.write(1, bytes([b]))").await.ok();
    assert_eq!(ran.stdout, "€");
    rig.end().await;
}

async fn standard_input_is_empty(executor: &dyn Executor) {
    let mut rig = Rig::new(executor).await;
    let begun = Instant::now();
    let ran = rig.run("input('name? ')").await.ends(exited(1));
    assert!(ran.stderr.contains("EOFError: no standard input here"), "{}", ran.stderr);
    let ran = rig.run("import sys, getpass\nprint(repr(sys.stdin.read()))\ngetpass.getpass()").await.ends(exited(1));
    assert_eq!(ran.stdout, "''\n");
    rig.run("open('/dev/tty')").await.ends(exited(1));
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
    rig.end().await;
}

async fn crash(executor: &dyn Executor) {
    let mut rig = Rig::new(executor).await;
    rig.run("x = 1").await.ok();
    let ran = rig.run("import ctypes\nprint('last words')\nctypes.string_at(0)").await;
    let ran = ran.ends(Outcome::Signaled { signal: 11 });
    assert_eq!((ran.code(), ran.stdout.as_str(), ran.done.variables_lost), (139, "last words\n", true));
    assert_eq!(ran.done.artifacts, [], "no core file");
    let ran = rig.run("import os\nos.abort()").await.ends(Outcome::Signaled { signal: 6 });
    assert!(!ran.done.variables_lost);
    rig.end().await;
}

async fn memory(executor: &dyn Executor) {
    let mut rig = Rig::new(executor).await;
    rig.run("x = 1").await.ok();
    let ran = rig.run("block = bytearray(10 * 2**30)").await;
    if executor.capabilities(&SecurityPolicy::default()).hold(Limit::Memory) == Hold::BestEffort {
        assert!(ran.stderr.contains("MemoryError") && ran.code() == 1, "{ran:?}");
        assert!(ran.done.notes.iter().any(|note| note == "the memory limit is 512 MiB"), "{:?}", ran.done.notes);
    } else {
        assert!(matches!(ran.done.outcome, Outcome::MemoryLimit | Outcome::Exited { code: 1 }), "{ran:?}");
    }
    let ran = rig.run("blocks = []\nwhile True: blocks.append(bytearray(10 * 2**20))").await;
    assert!(!ran.done.outcome.is_success() && ran.done.peak_bytes.is_some_and(|b| b > 100 * 1024 * 1024), "{ran:?}");
    rig.run("blocks = None").await;
    rig.end().await;
}

async fn file_size_and_open_files(executor: &dyn Executor) {
    let policy = SecurityPolicy { max_file_bytes: 1024 * 1024, ..policy() };
    let mut rig = Rig::with(executor, policy, Inputs::default()).await;
    for code in [
        "import os\nwith open('big', 'wb') as f:\n    for _ in range(100): f.write(b'x' * 65536)",
        "open('sparse', 'wb').truncate(1 << 40)",
    ] {
        let ran = rig.run(code).await.ends(exited(1));
        assert!(ran.stderr.contains("[Errno 27]"), "{}", ran.stderr);
    }
    let ran = rig.run("files = [open('/dev/null') for _ in range(300)]").await.ends(exited(1));
    assert!(ran.stderr.contains("[Errno 24]"), "{}", ran.stderr);
    rig.end().await;
}

async fn limits_too_small_for_python(executor: &dyn Executor) {
    let small = [
        SecurityPolicy { max_open_files: 1, ..policy() },
        SecurityPolicy { max_open_files: 3, ..policy() },
        SecurityPolicy { max_open_files: 8, ..policy() },
        SecurityPolicy { max_memory_bytes: 1, ..policy() },
        SecurityPolicy { max_processes: 1, ..policy() },
        SecurityPolicy { max_file_bytes: 1, ..policy() },
    ];
    for policy in small {
        let keep = tempfile::tempdir().unwrap();
        let request = OpenRequest { policy: policy.clone(), inputs: Inputs::default(), keep: keep.path().into() };
        let Ok(sandbox) = executor.open(request).await else { continue };
        for number in 1..3 {
            let code = "import json; print('out')".to_string();
            let mut output = sandbox.run(Cell { number, code, timeout_seconds: 20 });
            let (mut text, mut outcome) = (String::new(), None);
            while let Some(piece) = output.recv().await {
                match piece {
                    Output::Text { text: more, .. } => text.push_str(&more),
                    Output::Finished(finished) => outcome = Some(finished.outcome),
                    Output::Started | Output::Notice(..) | Output::Value(_) => {}
                }
            }
            match outcome.expect("an end") {
                Outcome::SetupFailed { failure, .. } | Outcome::BackendLost { failure, .. } => {
                    assert!(!failure.why.is_empty() && !failure.hint.is_empty(), "{policy:?}: {failure:?}");
                }
                Outcome::Exited { code: 0 } => assert_eq!(text, "out\n", "{policy:?}"),
                // The code hears of it.
                other => assert!(!text.is_empty(), "{policy:?}: {other:?}"),
            }
        }
        sandbox.close().await;
    }
}

async fn forged_frames(executor: &dyn Executor) {
    let mut rig = Rig::new(executor).await;
    let forge = "import os
F = b'F' + (17).to_bytes(4, 'big') + b'outcome exited 0\\n'
H = b'V\\xff\\xff\\xff\\xff'
for fd in range(3, LAST):
    for data in (F, H, b'junk' * 100):
        try: os.write(fd, data)
        except OSError: pass
raise ValueError('the real end')";
    let ran = rig.run(&forge.replace("LAST", "256")).await.ends(exited(1));
    assert!(ran.stderr.contains("the real end"));
    let ran = rig.run(&forge.replace("LAST", "5000")).await;
    assert!(!ran.done.outcome.is_success(), "{ran:?}");
    // Two ends and a death; then a death after the end, which takes the variables of the next run.
    let twice = "import os
for fd in range(3, 5000):
    try: os.write(fd, 2 * (b'D\\0\\0\\0\\x07' + b'0 1 0 0'))
    except OSError: pass
os._exit(5)";
    for _ in 0..3 {
        rig.run(twice).await;
        rig.run("x = 1").await.ok();
    }
    let code = "import os, threading, time
def later():
    while True: os._exit(5) if os.path.exists('go') else time.sleep(0.001)
threading.Thread(target=later).start()";
    rig.run(code).await.ok();
    let ran = rig.run("open('go', 'w').write('x')\ntime.sleep(5)").await.ends(exited(5));
    assert!(ran.done.variables_lost);
    // What looks like a frame is text when it is printed.
    let ran = rig.run("import os; n = os.write(1, b'F\\0\\0\\0\\x11outcome exited 0\\n')").await.ok();
    assert!(ran.stdout.contains("outcome exited 0"));
    rig.end().await;
}

async fn the_environment_is_ours(executor: &dyn Executor) {
    let mut rig = Rig::new(executor).await;
    let ran = rig.run("import os, sys\nprint(*sorted(os.environ), sep='\\n')").await.ok();
    let allowed = ["HOME", "LANG", "LC_ALL", "LC_CTYPE", "MPLBACKEND", "MPLCONFIGDIR", "PATH", "TMPDIR", "TZ"];
    for name in ran.stdout.lines() {
        assert!(allowed.contains(&name) || name.ends_with("_NUM_THREADS"), "{name}");
    }
    let code = "print(__name__, sys.argv, sys.path[-1] == os.getcwd(), os.getcwd() in sys.path[:-1])
import tempfile; print(tempfile.gettempdir() == os.environ['TMPDIR'], oct(os.stat('..').st_mode & 0o777))
open('random.py', 'w').write('1/0'); open('mine.py', 'w').write('x = 8')
import random, mine; print(mine.x)
print(sorted(os.listdir('/proc/self/fd'), key=int)[:4])";
    let ran = rig.run(code).await.ok();
    assert!(ran.stdout.starts_with("__main__ [''] True False\nTrue 0o700\n8\n"), "{}", ran.stdout);
    rig.end().await;
}

async fn the_supervisor_is_out_of_reach(executor: &dyn Executor) {
    let mut rig = Rig::new(executor).await;
    let root = nix::unistd::geteuid().is_root();
    if root {
        println!("skipped: the_supervisor_is_out_of_reach needs an ordinary user");
    } else {
        let code = "import os
for name in ('environ', 'mem', 'fd/1', 'maps'):
    try:
        open(f'/proc/{os.getppid()}/{name}', 'rb').read(1)
        print('reached', name)
    except OSError as e:
        print('kept out')";
        assert_eq!(rig.run(code).await.ok().stdout, "kept out\n".repeat(4));
    }
    rig.end().await;
}

async fn checks(executor: &dyn Executor) {
    let mut rig = Rig::new(executor).await;
    let sandbox = || rig.sandbox.as_ref().unwrap();
    let check = async |code: &str| sandbox().check(code.into()).await.unwrap();
    let found =
        check("import os, numpy.linalg as la\nfrom a.b import c\nfrom . import d\ndef f():\n    import late").await;
    assert_eq!((found.error, found.imports), (None, ["a", "late", "numpy", "os"].map(String::from).to_vec()));
    assert_eq!(check("x = 1\nreturn x").await.error.map(|(line, _)| line), Some(2));
    assert_eq!(check("a\nb\nc d").await.error, Some((3, "invalid syntax".into())));
    assert_eq!(check("print('never printed'); open('never', 'w')").await.error, None);
    let begun = Instant::now();
    for bomb in ["(".repeat(5000), "-".repeat(900_000) + "1", "x = 0\0".into(), "(1<<19**8,)*4**7".into()] {
        let found = check(&bomb).await;
        assert!(begun.elapsed() < Duration::from_secs(15));
        assert!(found.imports.is_empty());
    }
    let asked: Vec<_> = (0..20).map(|i| sandbox().check(format!("import m{i}"))).collect();
    for (i, found) in asked.into_iter().enumerate() {
        assert_eq!(found.await.unwrap().imports, [format!("m{i}")]);
    }
    assert!(rig.run("import os; print(os.path.exists('never'))").await.ok().stdout == "False\n");
    rig.end().await;
}

async fn inputs_are_copies(executor: &dyn Executor) {
    let home = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = home.path().join(name.replace('/', "_"));
        std::fs::write(&path, text).unwrap();
        Input::new(name, path, text.len() as u64)
    };
    let inputs = Inputs { files: vec![file("sales.csv", "a,b\n1,2\n"), file("sub/more.csv", "c\n")], notes: vec![] };
    let mut rig = Rig::with(executor, policy(), inputs).await;
    let code = "print(open('sales.csv').read(), open('sub/more.csv').read(), end='')";
    assert_eq!(rig.run(code).await.ok().stdout, "a,b\n1,2\n c\n");
    let ran = rig.run("open('sales.csv', 'w').write('gone')").await;
    if !nix::unistd::geteuid().is_root() {
        assert!(ran.stderr.contains("hint: input files are read-only"), "{}", ran.stderr);
    }
    rig.run("import os\nos.remove('sub/more.csv')\nopen('sub/more.csv', 'w').write('new')").await;
    assert_eq!(std::fs::read_to_string(home.path().join("sales.csv")).unwrap(), "a,b\n1,2\n");
    assert_eq!(std::fs::read_to_string(home.path().join("sub_more.csv")).unwrap(), "c\n");
    assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 2);
    rig.end().await;
}

async fn artifacts_are_kept(executor: &dyn Executor) {
    let mut rig = Rig::new(executor).await;
    let ran =
        rig.run("open('out.csv', 'w').write('1,2\\n')\nimport os; os.symlink('/etc/passwd', 'link.txt')").await.ok();
    let names: Vec<_> = ran.done.artifacts.iter().map(|artifact| (artifact.name.as_str(), artifact.bytes)).collect();
    assert_eq!(names, [("out.csv", 4)]);
    assert!(ran.done.notes.iter().any(|note| note.contains("link.txt")), "{:?}", ran.done.notes);
    assert_eq!(rig.run("print('nothing new')").await.ok().done.artifacts, []);
    let ran = rig.run_for("open('late.csv', 'w').write('x')\nwhile True: pass", 1).await.ends(Outcome::TimeLimit);
    assert_eq!(ran.done.artifacts.len(), 1);
    assert_eq!(std::fs::read_to_string(rig.keep.path().join("files/out.csv")).unwrap(), "1,2\n");
    rig.end().await;
}

async fn late_threads_are_told(executor: &dyn Executor) {
    let mut rig = Rig::new(executor).await;
    let code = "import threading, time
def late():
    while True:
        time.sleep(0.05)
        print('late')
threading.Thread(target=late, daemon=True).start()";
    assert_eq!(rig.run(code).await.ok().stdout, "");
    tokio::time::sleep(Duration::from_millis(200)).await;
    let ran = rig.run("time.sleep(0.3)").await.ok();
    assert!(ran.stdout.matches("late").count() <= 8, "it stood still between the cells: {}", ran.stdout);
    assert!(ran.done.notes[0].contains("earlier cell"), "{:?}", ran.done.notes);
    rig.sandbox.take().unwrap().close().await;
}

async fn odd_source_text(executor: &dyn Executor) {
    let mut rig = Rig::new(executor).await;
    for (code, out) in [
        ("# -*- coding: latin-1 -*-\nprint('é')", "é\n"),
        ("x = 1\r\nprint(x)\r\n", "1\n"),
        ("# comment\rprint('a CR ends the comment')", "a CR ends the comment\n"),
        ("\x0cprint(2)", "2\n"),
        ("print(len('\u{202e}a\u{200b}'))", "3\n"),
        ("", ""),
        ("# nothing", ""),
    ] {
        assert_eq!(rig.run(code).await.ok().stdout, out, "{code:?}");
    }
    rig.run("print(1)\0print(2)").await.ends(exited(1));
    rig.run(&"x = 1\n".repeat(100_000)).await.ok();
    let ran = rig.run(&"x".repeat(2_000_000)).await;
    assert!(matches!(ran.done.outcome, Outcome::SetupFailed { .. }), "{ran:?}");
    rig.end().await;
}

async fn multiprocessing_and_pickle(executor: &dyn Executor) {
    let mut rig = Rig::new(executor).await;
    let code = "import multiprocessing, pickle, dataclasses
@dataclasses.dataclass
class Point:
    x: int
def double(p): return Point(p.x * 2)
print(pickle.loads(pickle.dumps(Point(1))))
with multiprocessing.get_context('fork').Pool(2) as pool:
    print(pool.map(double, [Point(i) for i in range(3)]))";
    let ran = rig.run(code).await.ok();
    assert_eq!(ran.stdout, "Point(x=1)\n[Point(x=0), Point(x=2), Point(x=4)]\n");
    rig.end().await;
}

async fn a_removed_workspace(executor: &dyn Executor) {
    let mut rig = Rig::new(executor).await;
    rig.run("import os, shutil\nshutil.rmtree(os.getcwd())\nos._exit(0)").await.ok();
    rig.run("open('new.txt', 'w').write('x')").await.ok();
    rig.end().await;
}

async fn the_runner_is_replaced(executor: &dyn Executor) {
    if executor.name() != "subprocess" {
        return; // elsewhere the code cannot reach it
    }
    let mut rig = Rig::new(executor).await;
    rig.run("x = 1").await.ok();
    let code = "import os, signal, subprocess, sys
subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(3600)', 'MARK'], start_new_session=True)
os.kill(os.getppid(), signal.SIGKILL)
while True: pass";
    let ran = rig.run(code).await;
    assert!(matches!(ran.done.outcome, Outcome::BackendLost { .. }) && ran.done.variables_lost, "{ran:?}");
    // The model hears nothing of that run but that there was no sandbox: the next result tells it.
    assert!(rig.run("1").await.ok().done.variables_lost);
    assert!(!rig.run("1").await.ok().done.variables_lost);
    rig.run("import os, signal\nos.kill(os.getppid(), signal.SIGTERM)\nwhile True: pass").await;
    rig.run("x = 1").await.ok();
    let ran = rig.run_for("import os, signal, time\nos.kill(os.getppid(), signal.SIGSTOP)\ntime.sleep(3600)", 1).await;
    assert!(ran.done.outcome == Outcome::TimeLimit && ran.done.variables_lost, "{ran:?}");
    rig.end().await;
}

async fn the_first_flood_is_kept(executor: &dyn Executor) {
    let keep = tempfile::tempdir().unwrap();
    let keep = keep.path().join("session/files");
    let sandbox = executor.open(OpenRequest { policy: policy(), inputs: Inputs::default(), keep }).await.unwrap();
    let code = "for _ in range(3000): print('x' * 999)".into();
    let mut output = sandbox.run(Cell { number: 1, code, timeout_seconds: 20 });
    let mut spool = None;
    while let Some(output) = output.recv().await {
        if let Output::Finished(finished) = output {
            spool = finished.stdout_spool;
        }
    }
    let kept = std::fs::metadata(spool.expect("the whole output")).unwrap().len();
    assert!(kept > 256 * 1024, "{kept}");
    sandbox.close().await;
}

/// An executor that says that the time of a run is enforced must hold that against code that means harm.
async fn nothing_outlives_a_run(executor: &dyn Executor) {
    let mut rig = Rig::new(executor).await;
    let code = "import os, signal, sys, time
read, write = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.write(write, b'x')
        os.execve(sys.executable, [sys.executable, '-c', 'import time; time.sleep(3600)', 'MARK', 'outlives'], {})
    os._exit(0)
os.read(read, 1)
os.kill(os.getppid(), signal.SIGKILL)
while True: pass";
    let mut output = rig.start(code, 20);
    while output.recv().await.is_some() {}
    let outlives = |entry: &std::fs::DirEntry| {
        let command = std::fs::read_to_string(entry.path().join("cmdline")).unwrap_or_default();
        command.contains(&rig.marker) && command.contains("outlives")
    };
    let left: Vec<_> = std::fs::read_dir("/proc").unwrap().flatten().filter(outlives).collect();
    for pid in left.iter().filter_map(|entry| entry.file_name().to_str()?.parse().ok()) {
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGKILL).unwrap();
    }
    // Elsewhere than here orphans of a killed runner do not come up to us.
    let hold = executor.capabilities(&policy()).hold(Limit::WallTime);
    assert!(left.is_empty() || (hold != Hold::Enforced && !cfg!(target_os = "linux")), "{left:?}");
    rig.end().await;
}

async fn a_stopped_supervisor_is_no_shelter(executor: &dyn Executor) {
    if executor.name() != "subprocess" {
        return; // elsewhere the code cannot reach it
    }
    let mut rig = Rig::new(executor).await;
    for (interrupts, limit) in [(1, 2500), (2, 1000)] {
        let code = "import os, signal, time
os.kill(os.getppid(), signal.SIGSTOP)
open('MARK/stopped', 'w').close()
time.sleep(3600)";
        let stopped = Path::new(&rig.marker).join("stopped");
        let output = rig.start(code, 60);
        while !stopped.exists() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        std::fs::remove_file(stopped).unwrap();
        let begun = Instant::now();
        for _ in 0..interrupts {
            rig.sandbox.as_ref().unwrap().interrupt();
        }
        rig.read(output, 0).await.ends(Outcome::Cancelled);
        assert!(begun.elapsed() < Duration::from_millis(limit), "{interrupts}: {:?}", begun.elapsed());
    }
    rig.end().await;
}

/// A sandbox without a runner, and whose next one takes 9 s to come up.
async fn slow_start() -> (Rig, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let (script, slow) = (folder.path().join("python"), folder.path().join("slow"));
    let text = format!("#!/bin/sh\n[ -e {} ] && sleep 9\nexec {} \"$@\"\n", slow.display(), python().display());
    std::fs::write(&script, text).unwrap();
    std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let mut rig = Rig::new(&SubprocessExecutor { python: script }).await;
    std::fs::write(slow, "").unwrap();
    let ran = rig.run("import os, signal\nos.kill(os.getppid(), signal.SIGKILL)\nwhile True: pass").await;
    assert!(matches!(ran.done.outcome, Outcome::BackendLost { .. }), "{ran:?}");
    (rig, folder)
}

#[tokio::test]
async fn a_stop_does_not_wait_for_a_runner_that_starts() {
    let (mut rig, _folder) = slow_start().await;
    let output = rig.start("1", 60);
    let check = tokio::spawn(rig.sandbox.as_ref().unwrap().check("1".into()));
    tokio::time::sleep(Duration::from_millis(300)).await;
    let begun = Instant::now();
    rig.sandbox.as_ref().unwrap().interrupt();
    rig.read(output, 0).await.ends(Outcome::Cancelled);
    // The check was asked for before the stop and has no runner either.
    assert!(check.await.unwrap().is_err());
    let mut output = rig.start("1", 60);
    tokio::time::sleep(Duration::from_millis(300)).await;
    rig.close().await;
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
    let Some(Output::Finished(done)) = output.recv().await else { panic!("no end") };
    assert_eq!(done.outcome, Outcome::Cancelled);
}

#[tokio::test]
async fn a_slow_start_is_no_time_of_the_run() {
    let (mut rig, _folder) = slow_start().await;
    let output = rig.start("1", 1);
    rig.read(output, 20).await.ok();
    rig.close().await;
}

#[tokio::test]
async fn packages_that_are_late() {
    let (executor, _folder) = late().await;
    let preparer = std::fs::File::create(executor.environment.root.as_ref().unwrap().with_extension("lock")).unwrap();
    preparer.lock().unwrap();
    // The first run of a rig needs the standard library only.
    let mut rig = Rig::new(&executor).await;
    let mut output = rig.start("import sandscript_absent", 20);
    let waits = Output::Notice(NoteKind::Progress, "another sandscript is preparing the packages".into());
    while output.recv().await.expect("it waits") != waits {}
    rig.sandbox.as_ref().unwrap().interrupt();
    rig.read(output, 0).await.ends(Outcome::Cancelled);
    // A run that nobody wants any more does not wait on.
    drop(rig.start("open('MARK/ran', 'w')\nimport sandscript_absent", 20));
    rig.run("import math").await.ok();

    let mut output = rig.start("import sandscript_absent", 20);
    assert_eq!(output.recv().await, Some(waits));
    drop(preparer);
    let (mut notices, mut started) = (Vec::new(), false);
    while let Some(piece) = output.recv().await {
        match piece {
            Output::Notice(kind, text) => {
                assert!(!started, "{text} is said before the code runs");
                notices.push((kind, text));
            }
            Output::Started => started = true,
            Output::Finished(done) => assert_eq!(done.outcome, exited(1)),
            Output::Text { .. } | Output::Value(_) => {}
        }
    }
    assert!(started);
    assert!(notices.iter().any(|(_, text)| text == "the packages are ready; the code runs"), "{notices:?}");
    let (kind, missing) = notices.last().unwrap();
    assert!(*kind == NoteKind::PackagesMissing && missing.contains(ABSENT), "{notices:?}");
    assert!(!Path::new(&rig.marker).join("ran").exists());
    rig.end().await;
}

#[tokio::test]
async fn a_close_ends_the_wait_for_packages() {
    let (executor, _folder) = late().await;
    let preparer = std::fs::File::create(executor.environment.root.as_ref().unwrap().with_extension("lock")).unwrap();
    preparer.lock().unwrap();
    let mut rig = Rig::new(&executor).await;
    let mut output = rig.start("import sandscript_absent", 20);
    assert!(matches!(output.recv().await, Some(Output::Notice(NoteKind::Progress, _))));
    rig.close().await;
    let mut last = None;
    while let Some(piece) = output.recv().await {
        last = Some(piece);
    }
    let Some(Output::Finished(done)) = last else { panic!("no end: {last:?}") };
    assert_eq!(done.outcome, Outcome::Cancelled);
}
