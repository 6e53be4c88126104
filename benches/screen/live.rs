//! A live session: its first frame, its keys while much goes on, its idle moments.

use std::time::{Duration, Instant};

use serde_json::json;

use super::common::{Machine, python};
use super::print::{below, mb, ms, slowest};
use super::stage::{Stage, first_frame};
use super::support::{Exchange, MODEL, Piece, Say};

/// Bytes the flood prints.
const FLOOD: usize = 200_000_000;

/// How often a key is pressed while something goes on.
const PACE: Duration = Duration::from_millis(50);

/// Keys pressed while the model writes.
const KEYS: usize = 400;

/// Tokens the model writes a second.
const TOKENS: u64 = 200;

/// How long nothing is done while wake-ups are counted.
const IDLE: Duration = Duration::from_secs(5);

/// Letters nothing on the screen has: each is new when it comes.
const LETTERS: &str = "ΓΔΘΛΞΠΣΦΨΩαβγδεζηθικλμξπρστφχψωБДЖИЙЛЦЧШЩЪЫЬЭЮЯбджийлцчшщъыьэюя";

/// Longest time keys are pressed.
const LONGEST: Duration = Duration::from_secs(60);

/// Flags that let a flood through.
const WIDE: [&str; 4] = ["-c", "policy.max_output_bytes=1073741824", "--timeout", "300"];

pub fn first() {
    let machine = Machine::new();
    let arguments = ["--executor", "subprocess", "--base-url", "http://127.0.0.1:9/v1", "--python", python()];
    let mut times: Vec<Duration> = (0..11).map(|_| first_frame(&machine, &arguments, "Chat")).collect();
    // The first one warms the cache.
    times.remove(0);
    times.sort();
    below("first frame, median", ms(times[times.len() / 2]), 60.0, "ms");
    below("first frame, slowest of 10", ms(times[times.len() - 1]), 60.0, "ms");
}

pub fn flood() {
    for (name, rounds, code) in [
        ("lines of 1,000", 12, format!("for i in range({}):\n    print('x' * 999)", FLOOD / 1_000)),
        ("lines of 50", 3, format!("for i in range({}):\n    print('1234567 ' * 6)", FLOOD / 50)),
        ("blocks of 1 MB", 12, format!("for i in range({}):\n    print('x' * 999_999)", FLOOD / 1_000_000)),
        ("line ends only", 12, format!("for i in range({}):\n    print('\\n' * 999)", FLOOD / 1_000)),
    ] {
        // Too short for many keys, so there are several in one session.
        let says = (0..rounds).flat_map(|n| [Say::call(&code), Say::text(&format!("Done {n}."))]).collect();
        let mut stage = Stage::live(says, &WIDE);
        stage.begin();
        let (before, _) = stage.memory();
        let mut typed = Typed::default();
        for round in 0..rounds {
            stage.ask("flood");
            stage.approve();
            typed.add(type_until(&mut stage, usize::MAX, &format!("Done {round}.")));
            stage.settle();
            stage.pty.press("ctrl-u");
        }
        let (after, peak) = stage.memory();
        typed.print(&format!("flood in {name}"));
        below(&format!("flood in {name}: memory after"), mb(after), 80.0, "MB");
        below(&format!("flood in {name}: memory at most"), mb(peak), 80.0, "MB");
        println!("  memory before it {:.1} MB", mb(before));
    }
}

pub fn stream() {
    let seconds = KEYS as u64 / 20 + 3;
    let words = (0..TOKENS * seconds).map(|n| match n % 40 {
        0 => "\n\n## Title\n\n".to_string(),
        20 => "\n- **point** ".to_string(),
        39 => "\n\n```python\nprint(1)\n```\n\n".to_string(),
        n => format!(" word{n}"),
    });
    let mut stage = Stage::live(vec![slow(words, TOKENS)], &[]);
    stage.begin();
    stage.ask("write");
    stage.wait_for("word1");
    type_until(&mut stage, KEYS, "never said").print("words at 200 tokens a second");

    let code = (0..TOKENS * seconds / 4).map(|n| format!("value_{n} = compute({n}, 'text')  # line\n"));
    let json = code.map(|line| serde_json::to_string(&line).unwrap().trim_matches('"').to_string());
    let pieces = std::iter::once("{\"code\": \"".to_string()).chain(json.flat_map(|line| {
        let line: Vec<char> = line.chars().collect();
        line.chunks(line.len().div_ceil(4)).map(|c| c.iter().collect::<String>()).collect::<Vec<_>>()
    }));
    let mut stage = Stage::live(vec![slow_code(pieces, TOKENS)], &[]);
    stage.begin();
    stage.ask("write");
    stage.wait_for("value_1");
    type_until(&mut stage, KEYS, "never said").print("code at 200 tokens a second");
}

pub fn idle() {
    let says = vec![Say::call("print(1)"), Say::text("It is one.")];
    let mut stage = Stage::live(says, &[]);
    stage.begin();
    let none = |name: &str, stage: &mut Stage| {
        let count = stage.wake_ups(IDLE);
        below(&format!("wake-ups in 5 s: {name}"), count as f64, 0.0, "");
    };
    none("welcome", &mut stage);
    println!("  memory {:.1} MB", mb(stage.memory().0));
    stage.ask("one");
    stage.wait_for("y run");
    none("approval waiting", &mut stage);
    stage.pty.press("e");
    none("editor open", &mut stage);
    stage.pty.press("esc");
    stage.pty.read_until(Duration::from_secs(1), |_| false);
    stage.approve();
    stage.wait_for("It is one.");
    none("after an answer", &mut stage);
    println!("  memory {:.1} MB", mb(stage.memory().0));
    stage.ask("/sessions");
    stage.wait_for("Sessions ·");
    none("picker open", &mut stage);
    stage.pty.press("esc");
    stage.settle();
    stage.pty.press("f1");
    none("help open", &mut stage);
}

/// What was measured while keys were pressed.
#[derive(Default)]
struct Typed {
    times: Vec<Duration>,
    took: Duration,
    frames: usize,
    /// In the busiest second.
    most_frames: usize,
}

impl Typed {
    fn add(&mut self, more: Typed) {
        self.times.extend(more.times);
        self.took += more.took;
        self.frames += more.frames;
        self.most_frames = self.most_frames.max(more.most_frames);
    }

    fn print(mut self, name: &str) {
        self.times.sort();
        let count = self.times.len();
        let at = (count * 99).div_ceil(100).saturating_sub(1);
        println!("{name}: {count} keys, median {:.1} ms", ms(self.times[count / 2]));
        below(&format!("{name}: key to screen, 99 %"), ms(self.times[at]), 30.0, "ms");
        println!("  slowest {}", slowest(&self.times));
        below(&format!("{name}: frames a second"), self.frames as f64 / self.took.as_secs_f64(), 60.0, "");
        below(&format!("{name}: frames in the busiest second"), self.most_frames as f64, 61.0, "");
    }
}

/// Types at an even pace until `end` is on the screen or there were as many keys.
fn type_until(stage: &mut Stage, keys: usize, end: &str) -> Typed {
    let letters: Vec<char> = LETTERS.chars().collect();
    let mut times = Vec::new();
    let mut frames = vec![stage.frames()];
    let begun = Instant::now();
    for at in 0..keys {
        if stage.pty.screen().contains(end) {
            break;
        }
        assert!(begun.elapsed() < LONGEST, "no {end:?}:\n{}", stage.pty.screen());
        if at % 40 == 39 {
            // The draft is emptied before it has a second line.
            stage.pty.press("ctrl-u");
        }
        times.push(stage.echo(letters[at % letters.len()]));
        let next = begun + PACE * (at as u32 + 1);
        stage.pty.read_until(next.saturating_duration_since(Instant::now()), |_| false);
        frames.push(stage.frames());
    }
    let (first, last) = (frames[0], frames[frames.len() - 1]);
    let second = (Duration::from_secs(1).as_millis() / PACE.as_millis()) as usize;
    let most_frames = frames.windows(second + 1).map(|w| w[second] - w[0]).max().unwrap_or(last - first);
    Typed { times, took: begun.elapsed(), frames: last - first, most_frames }
}

fn slow(words: impl Iterator<Item = String>, a_second: u64) -> Say {
    deltas(words.map(|word| json!({"content": word})), a_second)
}

fn slow_code(pieces: impl Iterator<Item = String>, a_second: u64) -> Say {
    let call = |(n, piece): (usize, String)| match n {
        0 => json!({"tool_calls": [{"index": 0, "id": "call_0", "type": "function",
            "function": {"name": "execute_python", "arguments": piece}}]}),
        _ => json!({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]}),
    };
    deltas(pieces.enumerate().map(call), a_second)
}

fn deltas(deltas: impl Iterator<Item = serde_json::Value>, a_second: u64) -> Say {
    let mut exchange = Exchange::on("POST /v1/chat/completions").header("content-type", "text/event-stream");
    for delta in deltas {
        let chunk = json!({"id": "x", "object": "chat.completion.chunk", "model": MODEL,
            "choices": [{"index": 0, "delta": delta, "finish_reason": null}]});
        exchange = exchange
            .body(format!("data: {chunk}\n\n"))
            .piece(Piece::Pause(Duration::from_micros(1_000_000 / a_second)));
    }
    Say::Reply(exchange.piece(Piece::Hold))
}
