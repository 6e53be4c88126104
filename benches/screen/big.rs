//! Single things that are very large: the slowest key while one of them is on the screen.

use std::time::Duration;

use super::print::{below, ms, slowest};
use super::stage::Stage;
use super::support::Say;

/// No key may wait longer, milliseconds.
const LIMIT: f64 = 50.0;

/// Length of the long line, characters; lines of the long file; columns and rows of the large table; marks on one letter.
const LINE: usize = 5_000;
const LINES: usize = 20_000;
const COLUMNS: usize = 40;
const ROWS: usize = 200;
const MARKS: usize = 1_000_000;

/// Keys of a pane, each a way to move, and what zooms, wraps and finds.
const MOVE: &[&str] = &[
    "j", "j", "k", "pagedown", "pagedown", "pageup", "ctrl-d", "ctrl-u", "G", "k", "pageup", "g", "l", "l", "h", "w",
    "j", "pagedown", "G", "w", "g", "z", "j", "G", "z", "/", "1", "enter", "n", "n", "N", "esc",
];

/// Keys of an editor.
const WRITE: &[&str] = &[
    "a",
    "b",
    " ",
    "down",
    "pagedown",
    "pagedown",
    "x",
    "end",
    "y",
    "enter",
    "left",
    "backspace",
    "backspace",
    "ctrl-w",
    "ctrl-end",
    "z",
    "enter",
    "pageup",
    "up",
    "end",
    "ctrl-k",
    "home",
    "ctrl-home",
    "q",
    "w",
    "ctrl-y",
    "alt-u",
    "alt-u",
    "alt-r",
    "down",
    "end",
    "c",
    "right",
];

pub fn big() {
    line();
    file();
    table();
    marks();
}

fn line() {
    let code = format!("x = '{}'\nprint('0123456789 ' * {})", "0123456789 ".repeat(LINE / 11), LINE / 11);
    let answer = format!("{} and {}", "0123456789".repeat(LINE / 10), "word ".repeat(LINE / 5));
    let mut stage = Stage::live(vec![Say::call(&code), Say::text(&format!("{answer} End."))], &[]);
    stage.begin();
    stage.ask("go");
    stage.wait_for("y run");
    keys(&mut stage, "a line of 5,000 characters, as code", MOVE);
    editor(&mut stage, "a line of 5,000 characters, in the editor");
    stage.approve();
    stage.wait_for("End.");
    in_pane(&mut stage, "Code", "a line of 5,000 characters, as code that ran");
    in_pane(&mut stage, "Output", "a line of 5,000 characters, as output");
    in_pane(&mut stage, "Chat", "a line of 5,000 characters, in the chat");
    stage.pty.press("i");
    stage.settle();
    stage.pty.paste(&"0123456789 ".repeat(LINE / 11));
    keys(
        &mut stage,
        "a line of 5,000 characters, as a draft",
        &["a", "left", "b", "home", "c", "end", "d", "backspace", "ctrl-w"],
    );
}

fn file() {
    let lines: String = (0..LINES).map(|n| format!("value_{n} = {n} * 2  # what it is\n")).collect();
    let code = format!("{lines}print(value_1)\nfor n in range({LINES}):\n    print('line', n)");
    let mut stage = Stage::live(vec![Say::call(&code), Say::text("End.")], &[]);
    stage.begin();
    stage.ask("go");
    stage.wait_for("y run");
    keys(&mut stage, "20,000 lines, as code", MOVE);
    editor(&mut stage, "20,000 lines, in the editor");
    stage.approve();
    stage.wait_for("End.");
    in_pane(&mut stage, "Output", "20,000 lines, as output");
}

fn table() {
    let row = |cell: &dyn Fn(usize) -> String| {
        format!("|{}\n", (0..COLUMNS).map(|n| format!(" {} |", cell(n))).collect::<String>())
    };
    let mut text = row(&|n| format!("column {n}")) + &row(&|_| "---".into());
    (0..ROWS).for_each(|at| text += &row(&|n| format!("**{at}**.{n}1")));
    let mut stage = Stage::live(vec![Say::text(&format!("{text}\nEnd."))], &[]);
    stage.begin();
    stage.ask("go");
    stage.wait_for("End.");
    in_pane(&mut stage, "Chat", "a Markdown table of 40 columns and 200 rows");
}

fn marks() {
    let code = format!("print('a' + '\\u0301' * {MARKS})\nprint(('e' + '\\u0301' * 3) * 100_000)");
    let mut stage =
        Stage::live(vec![Say::call(&code), Say::text(&format!("a{} End.", "\u{301}".repeat(MARKS / 10)))], &[]);
    stage.begin();
    stage.ask("go");
    stage.approve();
    stage.wait_for("End.");
    in_pane(&mut stage, "Output", "a million combining marks, as output");
    in_pane(&mut stage, "Chat", "100,000 combining marks, in the chat");
}

/// Moves in the pane of this name.
fn in_pane(stage: &mut Stage, pane: &str, name: &str) {
    stage.focus(pane);
    keys(stage, name, MOVE);
}

fn editor(stage: &mut Stage, name: &str) {
    stage.pty.read_until(Duration::from_millis(400), |_| false);
    let opens = stage.frame_after("e");
    stage.wait_for("editing");
    let mut times = press(stage, WRITE);
    // What is approved then is the model's.
    let resets = stage.frame_after("ctrl-r");
    let closes = stage.frame_after("esc");
    stage.settle();
    times.extend([("open", opens), ("reset", resets), ("close", closes)]);
    tell(name, times);
}

fn keys(stage: &mut Stage, name: &str, keys: &[&'static str]) {
    let times = press(stage, keys);
    tell(name, times);
}

fn press(stage: &mut Stage, keys: &[&'static str]) -> Vec<(&'static str, Duration)> {
    keys.iter().map(|key| (*key, stage.frame_after(key))).collect()
}

fn tell(name: &str, mut times: Vec<(&'static str, Duration)>) {
    times.sort_by_key(|(_, took)| *took);
    let Some((key, took)) = times.last().copied() else { return };
    below(&format!("{name}: slowest key"), ms(took), LIMIT, "ms");
    let sorted: Vec<Duration> = times.iter().map(|(_, took)| *took).collect();
    println!("  {key}; median {:.1} ms, slowest {}", ms(sorted[sorted.len() / 2]), slowest(&sorted));
}
