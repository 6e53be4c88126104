//! The person's own editor.

use std::os::unix::fs::PermissionsExt;

use crate::common::{Machine, of};
use crate::person::{Person, WIDE, printed, program};
use crate::support::{Say, Server};

/// Before a session with this shell script as the editor; the file is `$1`.
fn with_editor(script: &str, says: Vec<Say>) -> Person {
    let machine = Machine::new();
    let editor = machine.path("my editor");
    std::fs::write(&editor, format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(&editor, std::fs::Permissions::from_mode(0o700)).unwrap();
    let server = Server::chat(says);
    let mut command = program(&machine, &server.url(), &[]);
    command.env("EDITOR", format!("'{}'", editor.display()));
    let mut person = Person::before(machine, server, &command, WIDE);
    person.consents();
    person
}

/// Shows that it has the terminal, waits for a key and Enter, and doubles what is printed.
const DOUBLES: &str = "stty -a | grep -q ' icanon' && echo 'editing now'; read word; sed -i 's/1/2/' \"$1\"";

#[test]
fn code_comes_back_from_the_editor_to_the_question() {
    for key in ["E", "ctrl-g"] {
        let mut person = with_editor(DOUBLES, vec![Say::call("print(1)"), Say::text("Noted.")]);
        person.asks("Go");
        person.answers(key);
        person.sees("editing now");
        assert!(!person.pty.parsed().alternate_screen());
        person.pty.type_str("y\n");
        person.sees("edited by you");
        assert!(of(&person.log(), "code_approved").is_empty(), "it is asked again");
        person.answers("y");
        person.sees("Noted.");
        assert_eq!(printed(&person.log()), "2\n");
        assert_eq!(of(&person.log(), "code_approved")[0]["edited"], "print(2)");
    }
}

#[test]
fn a_draft_is_written_in_the_editor() {
    let mut person = with_editor(DOUBLES, vec![Say::text("Read.")]);
    person.writes("number 1");
    person.press("ctrl-g");
    person.sees("editing now");
    person.pty.type_str("\n");
    person.sees("> number 2");
    person.enter();
    person.sees("Read.");
    assert_eq!(of(&person.log(), "user_said")[0]["text"], "number 2");
}

#[test]
fn the_text_in_the_pane_goes_to_the_editor_and_back() {
    let mut person = with_editor(DOUBLES, vec![Say::call("print(1)"), Say::text("Noted.")]);
    person.asks("Go");
    person.answers("e");
    person.sees("back to the question");
    person.press("end");
    person.writes("  # mine");
    person.press("ctrl-g");
    person.sees("editing now");
    person.pty.type_str("\n");
    person.sees("print(2)  # mine");
    person.press("esc");
    person.answers("y");
    person.sees("Noted.");
    assert_eq!(of(&person.log(), "code_approved")[0]["edited"], "print(2)  # mine");
}

/// Writes something and fails.
const FAILS: &str = "echo 'wild' > \"$1\"; exit 3";

#[test]
fn an_editor_that_fails_leaves_the_draft_as_it_was() {
    let mut person = with_editor(FAILS, vec![]);
    person.writes("my draft");
    person.press("ctrl-g");
    person.sees("the editor failed");
    person.sees("kept in");
    person.sees("> my draft");
}

#[test]
fn an_editor_that_fails_leaves_the_code_as_it_was() {
    let mut person = with_editor(FAILS, vec![Say::call("print(1)"), Say::text("Noted.")]);
    person.asks("Go");
    person.answers("E");
    person.sees("kept in");
    person.answers("y");
    person.sees("Noted.");
    assert!(of(&person.log(), "code_approved")[0]["edited"].is_null());
    assert_eq!(printed(&person.log()), "1\n");
}

#[test]
fn an_editor_that_is_not_there_is_named() {
    let machine = Machine::new();
    let server = Server::chat(vec![]);
    let mut command = program(&machine, &server.url(), &[]);
    command.env("EDITOR", "/no/such/editor");
    let mut person = Person::before(machine, server, &command, WIDE);
    person.consents();
    person.writes("my draft");
    person.press("ctrl-g");
    person.sees("/no/such/editor");
    person.sees("> my draft");
}
