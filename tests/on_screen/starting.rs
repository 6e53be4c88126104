//! Before a session has begun: consent, a server that is not there, a model it does not have.

use std::net::TcpListener;

use crate::common::{Machine, of, python};
use crate::person::{MEDIUM, Person, SMALL, WIDE, program};
use crate::support::{MODEL, Say, Server};

#[test]
fn who_does_not_consent_is_out_and_nothing_was_begun() {
    for (size, key) in [(WIDE, "n"), (MEDIUM, "n"), (SMALL, "ctrl-d")] {
        let (machine, server) = (Machine::new(), Server::chat(vec![]));
        let command = program(&machine, &server.url(), &["What is it?"]);
        let mut person = Person::before(machine, server, &command, size);
        person.sees("y go on");
        person.press(key);
        person.is_out();
        assert!(person.machine.logs().is_empty());
        assert!(person.server.requests().is_empty());
    }
}

#[test]
fn the_question_of_the_command_line_waits_for_the_session() {
    let (machine, server) = (Machine::new(), Server::chat(vec![Say::text("It is so.")]));
    let command = program(&machine, &server.url(), &["Is it so?"]);
    let mut person = Person::before(machine, server, &command, WIDE);
    person.agrees("y go on");
    person.sees("It is so.");
    assert_eq!(of(&person.log(), "user_said")[0]["text"], "Is it so?");
}

#[test]
fn what_is_typed_before_the_session_has_begun_is_said_then() {
    let mut person = {
        let (machine, server) = (Machine::new(), Server::chat(vec![Say::text("It is so.")]));
        let command = program(&machine, &server.url(), &[]);
        Person::before(machine, server, &command, WIDE)
    };
    // At once, before anything is on the screen.
    person.pty.type_str("yes, is it so?");
    person.sees("> yes, is it so?");
    person.watches_that_nothing_happens();
    assert!(person.machine.logs().is_empty());
    person.enter();
    person.sees_no("> yes");
    person.press("tab");
    person.agrees("y go on");
    person.sees("It is so.");
}

/// A port nobody listens on, and none the system gives to anybody by itself.
fn free_port() -> u16 {
    let from = 20_000 + (std::process::id() % 10_000) as u16;
    (from..32_000).find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok()).unwrap()
}

#[test]
fn a_server_that_is_not_there_yet_is_tried_again() {
    for size in [WIDE, SMALL] {
        let machine = Machine::new();
        let port = free_port();
        let command = program(&machine, &format!("http://127.0.0.1:{port}/v1"), &["Are you there?"]);
        let mut person = Person::before(machine, Server::chat(vec![]), &command, size);
        person.agrees("y go on");
        person.sees("hint:");
        person.sees("y try again");
        person.server = Server::chat_at(port, vec![Say::text("I am.")]);
        person.press("y");
        person.sees("I am.");
        person.quits();
    }
}

#[test]
fn where_the_model_is_not_there_another_is_chosen() {
    for size in [WIDE, MEDIUM, SMALL] {
        let (machine, server) = (Machine::new(), Server::chat(vec![Say::text("Here I am.")]));
        let mut command = machine.bare(&[]);
        let url = server.url();
        command.args(["--base-url", &url, "-m", "nonesuch", "--python", python(), "-c", "policy.packages=[]"]);
        command.arg("Are you there?").env("TERM", "xterm-256color");
        let mut person = Person::before(machine, server, &command, size);
        person.agrees("y go on");
        person.sees("Models · 1");
        person.enter();
        person.sees("Here I am.");
        assert_eq!(person.server.chats()[0].json()["model"], MODEL);
    }
}

#[test]
fn who_closes_the_list_of_models_sees_why_it_was_there() {
    let (machine, server) = (Machine::new(), Server::chat(vec![]));
    let url = server.url();
    let mut command = machine.bare(&["--base-url", &url, "-m", "nonesuch", "--python", python()]);
    command.args(["-c", "policy.packages=[]"]).env("TERM", "xterm-256color");
    let mut person = Person::before(machine, server, &command, WIDE);
    person.agrees("y go on");
    person.sees("Models · 1");
    person.press("esc");
    person.sees_no("Models · 1");
    person.sees("nonesuch");
    person.sees("hint:");
    person.press("tab");
    person.sees("M other model");
    person.press("M");
    person.sees("Models · 1");
    person.enter();
    person.begins();
}
