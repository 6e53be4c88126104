//! Everything from outside is hostile: what a program prints, what the model says and writes, the names of files.

use crate::common::{Machine, of};
use crate::person::{Person, SMALL, WIDE, program_for};
use crate::support::{Say, Server};

/// Sequences that do something to a terminal, each with a word to find it by.
const HOSTILE: &[&str] = &[
    "\u{1b}]52;c;aGk=\u{7}",
    "\u{1b}]0;stolen title\u{7}",
    "\u{1b}]8;;http://evil.example\u{1b}\\",
    "\u{1b}[?1049l",
    "\u{1b}[2J",
    "\u{1b}[9;1H",
    "\u{1b}c",
    "\u{1b}[?25l",
    "\u{1b}P+q\u{1b}\\",
    "\u{9b}31m",
    "\u{9d}0;stolen title\u{9c}",
    "\u{202e}",
    "\u{2066}",
    "\u{200b}",
    "\u{7}",
    "\u{8}",
];

fn all() -> String {
    HOSTILE.iter().map(|s| format!("a{s}b ")).collect()
}

fn has(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

/// The terminal was sent nothing that does what the program itself never does, and is still ours.
#[track_caller]
fn assert_harmless(person: &Person) {
    let raw = person.pty.raw();
    for bad in [
        "\u{1b}]52",
        "\u{1b}]0;",
        "\u{1b}]2;",
        "\u{1b}]8;",
        "\u{1b}P",
        "\u{1b}c",
        "\u{9b}",
        "\u{9d}",
        "\u{202e}",
        "\u{2066}",
        "\u{8}",
    ] {
        assert!(!has(raw, bad.as_bytes()), "{bad:?} reached the terminal");
    }
    for byte in [0x9b_u8, 0x9d] {
        // As a byte of its own; within a letter it is harmless.
        let alone = raw.utf8_chunks().any(|chunk| chunk.invalid().contains(&byte));
        assert!(!alone, "{byte:#x} reached the terminal");
    }
    assert!(person.pty.parsed().alternate_screen(), "the screen is still ours");
    let left = raw.windows(8).position(|w| w == b"\x1b[?1049l");
    assert!(left.is_none(), "{:?}", left.map(|at| String::from_utf8_lossy(&raw[at.saturating_sub(200)..at + 100])));
    // The program rings no bell of its own here.
    assert!(!raw.contains(&7), "a bell reached the terminal");
}

#[test]
fn what_a_program_prints_changes_nothing_outside_its_pane() {
    let code = format!(
        "import sys\nprint({0:?})\nsys.stderr.write({0:?})\nsys.stdout.buffer.write(b'\\x9b31m \\xff end of it\\n')",
        Py(&all())
    );
    let mut person = Person::with(vec![Say::call(&code), Say::text("Survived.")]);
    person.asks("Go");
    person.answers("y");
    person.sees("Survived.");
    person.sees("end of it");
    assert_harmless(&person);
    person.quits();
}

/// A Python literal of any text: escapes only.
struct Py<'a>(&'a str);

impl std::fmt::Debug for Py<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let escaped: String = self.0.chars().map(|c| format!("\\U{:08x}", c as u32)).collect();
        write!(f, "'{escaped}'")
    }
}

#[test]
fn what_the_model_says_changes_nothing() {
    let mut person = Person::with(vec![Say::text(&format!("Look: {} the end", all()))]);
    person.asks("Go");
    person.sees("the end");
    assert_harmless(&person);
    person.quits();
}

#[test]
fn code_shows_what_it_hides() {
    for size in [WIDE, SMALL] {
        let code = "x = 1 # \u{202e}txet\u{2066}\u{200b}\nprint('fine')";
        let mut person = Person::on(size, vec![Say::call(code), Say::text("Survived.")]);
        person.asks("Go");
        person.is_asked();
        person.sees("<U+202E>");
        person.sees("3 invisible characters");
        assert_harmless(&person);
        // In the editor, too.
        person.press("e");
        person.sees("back to the question");
        person.sees("<U+202E>");
        assert_harmless(&person);
        person.press("esc");
        person.answers("y");
        person.sees("Survived.");
        assert_eq!(of(&person.log(), "code_proposed")[0]["code"], code, "it runs to the byte as it was proposed");
        assert_harmless(&person);
    }
}

#[test]
fn control_characters_in_code_are_shown_by_name() {
    let code = "print('a') # \u{1b}]0;stolen title\u{7}\u{1b}[2J\u{9b}1m";
    let mut person = Person::with(vec![Say::call(code)]);
    person.asks("Go");
    person.is_asked();
    person.sees("print('a')");
    person.sees("invisible characters");
    assert_harmless(&person);
}

#[test]
fn names_of_files_change_nothing() {
    let machine = Machine::new();
    machine.write("a\u{1b}]0;stolen title\u{7}\u{202e}b.csv", "x\n1\n");
    let mut person = Person::on_machine(machine, WIDE, vec![Say::text("Seen.")], &[]);
    person.pty.type_str("@");
    person.sees("> @");
    person.watches_that_nothing_happens();
    person.press("ctrl-c");
    person.asks("What is there?");
    person.sees("Seen.");
    assert_harmless(&person);
    person.quits();
}

#[test]
fn files_the_code_makes_may_be_called_anything() {
    let code = "open('a\\x1b]0;stolen title\\x07\\u202eb.txt', 'w').write('x')\nprint('made')";
    let mut person = Person::with(vec![Say::call(code), Say::text("Made.")]);
    person.asks("Go");
    person.answers("y");
    person.sees("Made.");
    person.asks("/save");
    person.wait_for_record("artifact_saved", "");
    person.watches_that_nothing_happens();
    assert_harmless(&person);
    person.quits();
}

#[test]
fn a_million_combining_marks_are_a_few_cells() {
    let code = "print('a' + '\\u0301' * 1_000_000 + ' end of it')";
    let words = format!("b{} end of words", "\u{301}".repeat(100_000));
    let mut person = Person::with(vec![Say::call(code), Say::text(&words)]);
    person.asks("Go");
    person.answers("y");
    person.sees("end of words");
    person.sees("end of it");
    let marks = String::from_utf8_lossy(person.pty.raw()).matches('\u{301}').count();
    assert!(marks < 10_000, "{marks} marks reached the terminal");
    person.quits();
}

#[test]
fn what_a_person_pastes_is_text() {
    let mut person = Person::with(vec![Say::text("Read.")]);
    person.pty.paste("a\u{1b}]0;stolen title\u{7}\u{202e}b");
    person.sees("> a");
    assert_harmless(&person);
    person.enter();
    person.sees("Read.");
    assert_harmless(&person);
}

#[test]
fn errors_of_the_server_change_nothing() {
    let error = serde_json::json!({"error": {"message": format!("no: {} end of error", all())}});
    let refused = crate::support::Exchange::on("POST /v1/chat/completions").status(400).json(&error);
    let mut person = Person::with(vec![Say::Reply(refused)]);
    person.asks("Go");
    person.wait_for_record("turn_ended", "model_error");
    person.sees("hint:");
    assert_harmless(&person);
}

#[test]
fn a_recording_changes_nothing_either() {
    let machine = Machine::new();
    let code = format!("print({:?}, 'end of it 7')", Py(&all()));
    let server = Server::chat(vec![Say::call(&code), Say::text(&format!("{} 7 end of words", all()))]);
    let ran = machine.run(&server, &[&format!("Go {}", all())]);
    assert_eq!(ran.code(), 0, "{} {:#}", ran.err(), server.chats().last().unwrap().json()["messages"]);
    let command = program_for(&machine, &server.url(), &["replay", "last"]);
    let mut person = Person::before(machine, server, &command, WIDE);
    person.press("G");
    person.sees("end of words");
    assert_harmless(&person);
    person.press("q");
    person.is_out();
}
