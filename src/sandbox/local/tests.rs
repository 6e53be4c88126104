use std::time::Instant;

use super::*;

/// What every false runner begins with: frames in, frames out, and the first word.
const FALSE_RUNNER: &str = r#"
import os, sys
def put(kind, body): os.write(1, kind + len(body).to_bytes(4, "big") + body)
def take():
    head = sys.stdin.buffer.read(5)
    return head[:1], sys.stdin.buffer.read(int.from_bytes(head[1:], "big"))
put(b"H", b"3")
"#;

/// A sandbox whose runner is `code`.
async fn sandbox(code: &str) -> LocalSandbox {
    let scratch = tempfile::tempdir().unwrap();
    let mut command = Command::new("python3");
    command.args(["-I", "-c", &format!("{FALSE_RUNNER}{code}")]).env("HOME", scratch.path());
    let setup = Setup {
        command,
        runtime: "false".into(),
        keep: scratch.path().join("keep"),
        workspace: scratch.path().into(),
        scratch,
        inputs: BTreeSet::new(),
        notes: Vec::new(),
    };
    LocalSandbox::start(setup).await.unwrap()
}

fn cell() -> Cell {
    Cell { number: 1, code: "code".into(), timeout_seconds: 60 }
}

async fn end(mut output: mpsc::Receiver<Output>) -> Finished {
    while let Some(output) = output.recv().await {
        if let Output::Finished(finished) = output {
            return *finished;
        }
    }
    panic!("no end")
}

#[tokio::test]
async fn an_answer_is_never_taken_for_another() {
    let code = r#"
asked = [take()[1] for _ in range(2)]
for body in reversed(asked):
    put(b"X", body[:4] + b"0\n\n" + body[4:])
put(b"X", b"\0\0\0\x09" + b"0\n\nnobody asked")
take()
"#;
    let sandbox = sandbox(code).await;
    let (first, second) = tokio::join!(sandbox.check("first".into()), sandbox.check("second".into()));
    assert_eq!((first.unwrap().imports, second.unwrap().imports), (vec!["first".into()], vec!["second".into()]));
    sandbox.close().await;
}

#[tokio::test]
async fn what_was_asked_of_a_stuck_runner_ends_with_it() {
    let sandbox = sandbox("take(); put(b'S', take()[1][:4]); import time; time.sleep(3600)").await;
    let check = tokio::spawn(sandbox.check("x".into()));
    tokio::task::yield_now().await;
    let mut output = sandbox.run(cell());
    assert_eq!(output.recv().await, Some(Output::Started));
    sandbox.interrupt();
    sandbox.interrupt();
    let begun = Instant::now();
    assert_eq!(end(output).await.outcome, Outcome::Cancelled);
    let checked = check.await.unwrap();
    assert_eq!(checked.unwrap_err().failure.why, "it did not answer");
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
    sandbox.close().await;
}

#[tokio::test]
async fn a_runner_that_does_not_read_holds_up_no_stop() {
    let sandbox = sandbox("import time; time.sleep(3600)").await;
    // More than a pipe takes.
    let output = sandbox.run(Cell { code: "x".repeat(1_000_000), ..cell() });
    let check = tokio::spawn(sandbox.check("x".repeat(1_000_000)));
    tokio::time::sleep(Duration::from_millis(300)).await;
    let begun = Instant::now();
    sandbox.interrupt();
    sandbox.interrupt();
    assert_eq!(end(output).await.outcome, Outcome::Cancelled);
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    assert!(check.await.unwrap().is_err());
    sandbox.close().await;
}

#[tokio::test]
async fn the_clock_of_a_run_is_set_once() {
    let code = r#"
kind, body = take()
for _ in range(3): put(b"S", body[:4])
put(b"F", b"outcome exited 0\n")
take()
"#;
    let sandbox = sandbox(code).await;
    let mut output = sandbox.run(cell());
    assert_eq!(output.recv().await, Some(Output::Started));
    let Some(Output::Finished(finished)) = output.recv().await else { panic!("started again") };
    assert!(finished.outcome.is_success());
    sandbox.close().await;
}

#[tokio::test]
async fn what_was_said_before_a_deadline_counts_however_late_we_are() {
    let code = r#"
kind, body = take()
put(b"S", body[:4])
import time; time.sleep(0.2)
for _ in range(10): put(b"O", bytes(8) + b"x" * 60000)
put(b"F", b"outcome exited 0\n")
take()
"#;
    let sandbox = sandbox(code).await;
    let mut output = sandbox.run(cell());
    assert_eq!(output.recv().await, Some(Output::Started));
    // Like a stop of this program: its end is in the pipe, and the time is over.
    std::thread::sleep(Duration::from_millis(600));
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(3600)).await;
    tokio::time::resume();
    assert_eq!(end(output).await.outcome, Outcome::Exited { code: 0 });
    sandbox.close().await;
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_start_that_nobody_waits_for_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let up = folder.path().join("up");
    // Like a Python that does not read yet.
    let mut command = Command::new("sh");
    command.args(["-c", "echo $$ > \"$0\"; exec sleep 3600"]).arg(&up);
    let mut runner = Runner::spawn(&mut command).unwrap();
    let pid = loop {
        match std::fs::read_to_string(&up) {
            Ok(text) if text.ends_with('\n') => break text.trim().to_string(),
            Ok(_) | Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    };
    assert!(timeout(Duration::from_millis(50), runner.up(folder.path())).await.is_err());
    drop(runner);
    let begun = Instant::now();
    let lives = || std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z"));
    while lives() {
        assert!(begun.elapsed() < Duration::from_secs(2));
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn what_is_kept_is_the_persons_own() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let keep = folder.path().join("session/files");
    make_private(keep.clone()).await;
    assert_eq!(keep.metadata().unwrap().permissions().mode() & 0o777, 0o700);
}
