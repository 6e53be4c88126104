//! Sessions that are over: continued, replayed, renamed, deleted, exported.

use crate::common::{Machine, Ran, of};
use crate::person::{MEDIUM, Person, SMALL, WIDE, printed, program_for};
use crate::support::{Say, Server};

/// A machine with a session on it in which `x` became 20.
fn with_session(question: &str) -> Machine {
    on(Machine::new(), question)
}

/// The same on a machine that has others.
fn on(machine: Machine, question: &str) -> Machine {
    let server = Server::chat(vec![Say::call("x = 20\nprint('twenty')"), Say::text("It is twenty.")]);
    assert_eq!(machine.run(&server, &[question]).code(), 0);
    machine
}

/// Before the program that was started with these arguments, and consent was given where it is asked for.
fn before(machine: Machine, size: (u16, u16), subcommand: &[&str], says: Vec<Say>) -> Person {
    let server = Server::chat(says);
    let command = program_for(&machine, &server.url(), subcommand);
    Person::before(machine, server, &command, size)
}

#[test]
fn leaving_says_how_to_go_on_and_that_works() {
    let mut person = Person::with(vec![Say::call("x = 20"), Say::text("Kept.")]);
    person.asks("Keep twenty");
    person.answers("y");
    person.sees("Kept.");
    person.wait_for_record("turn_ended", "answered");
    person.quits();
    let screen = person.screen();
    let shown = screen.split("sandscript resume ").nth(1).unwrap();
    let id = shown.split_whitespace().next().unwrap().to_string();
    for size in [WIDE, MEDIUM, SMALL] {
        person.starts(size, &["resume", &id], vec![Say::call("print(x + 1)"), Say::text("One more.")]);
        person.agrees("y go on");
        person.sees("y run them again");
        person.sees("x = 20");
        person.agrees("y run them again");
        person.asks("And one more?");
        person.sees("print(x + 1)");
        person.answers("y");
        person.sees("One more.");
        let told = person.told();
        assert!(told.contains("Keep twenty") && told.contains("And one more?"), "{told}");
        person.sees("Ctrl-D quit");
        person.quits();
        assert!(printed(&person.log()).ends_with("21\n"), "{}", printed(&person.log()));
    }
}

#[test]
fn what_is_not_run_again_is_told_to_the_model() {
    let says = vec![Say::call("print('anew')"), Say::text("I see.")];
    let mut person = before(with_session("Keep twenty"), WIDE, &["resume", "--last"], says);
    person.agrees("y go on");
    person.sees("n go on without");
    person.press("n");
    person.sees("not run again");
    person.asks("And now?");
    person.answers("y");
    person.sees("I see.");
    let told = person.told();
    assert!(told.contains("no variable of earlier code exists") && told.contains("Keep twenty"), "{told}");
    let log = person.log();
    assert_eq!(of(&log, "rebuild_decided")[0]["approved"], false);
    assert_eq!(of(&log, "run_started").len(), 2);
}

#[test]
fn what_is_typed_while_a_session_is_read_waits_until_it_goes_on() {
    let mut person = before(with_session("Keep twenty"), WIDE, &["resume", "--last"], vec![Say::text("I see.")]);
    person.agrees("y go on");
    // At once: the records of before come meanwhile.
    person.pty.type_str("and now?");
    person.sees("> and now?");
    person.enter();
    person.sees_no("> and now?");
    person.sees("accepted cell again?");
    person.watches_that_nothing_happens();
    assert!(person.server.chats().is_empty(), "nothing is said before it is settled what there is");
    person.agrees("y run them again");
    person.sees("I see.");
    let log = person.log();
    let seq = |kind: &str| of(&log, kind).last().unwrap()["seq"].as_u64().unwrap();
    assert!(seq("rebuild_decided") < seq("user_said"), "{log:#?}");
}

#[test]
fn sessions_are_found_renamed_and_deleted_in_a_list() {
    let machine = on(on(Machine::new(), "How many apples?"), "How many plums?");
    let mut person = before(machine, WIDE, &["resume"], vec![]);
    person.sees("Sessions · 2");
    person.writes("apples");
    person.sees("Sessions · 1 of 2");
    person.press("ctrl-r");
    person.sees("Title");
    person.press("ctrl-u");
    person.writes("Orchard count");
    person.enter();
    person.sees("Sessions · 2");
    person.sees("Orchard count");
    person.sees_no("How many apples?");
    person.writes("plums");
    person.sees("Sessions · 1 of 2");
    person.press("ctrl-x");
    person.sees("Delete session");
    person.sees("n keep");
    person.press("n");
    person.sees("Sessions · 2");
    person.writes("plums");
    person.sees("Sessions · 1 of 2");
    person.press("ctrl-x");
    person.agrees("y delete");
    person.sees("Sessions · 1");
    person.sees_no("plums");
    assert_eq!(person.machine.logs().len(), 1);
    person.press("esc");
    person.is_out();
    let list = Ran(person.machine.bare(&["sessions", "list"]).output().unwrap());
    assert!(list.out().contains("Orchard count") && !list.out().contains("plums"), "{}", list.out());
}

#[test]
fn a_session_of_the_list_goes_on() {
    let machine = on(on(Machine::new(), "How many apples?"), "How many plums?");
    let mut person = before(machine, WIDE, &["resume"], vec![]);
    person.sees("Sessions · 2");
    person.writes("apples");
    person.sees("Sessions · 1 of 2");
    person.enter();
    person.agrees("y go on");
    person.sees("y run them again");
    person.sees("How many apples?");
}

#[test]
fn a_session_of_the_list_is_played() {
    let mut person = Person::on_machine(with_session("How many apples?"), WIDE, vec![], &[]);
    person.asks("/sessions");
    person.sees("How many apples?");
    person.press("ctrl-p");
    person.sees("mark");
    person.sees("It is twenty.");
    person.press("q");
    person.is_out();
}

/// Before a recording that stands at its start.
fn replaying(size: (u16, u16)) -> Person {
    let server = Server::chat(vec![
        Say::call("print(undefined)"),
        // So that playing takes some time.
        Say::call("import time\ntime.sleep(1)\nprint('twenty')"),
        Say::text("It is twenty."),
    ]);
    let machine = Machine::new();
    assert_eq!(machine.run(&server, &["How many apples?"]).code(), 0);
    let mut command = machine.bare(&["replay", "last"]);
    command.env("TERM", "xterm-256color");
    let mut person = Person::before(machine, Server::chat(vec![]), &command, size);
    person.sees("/");
    person.press("g");
    person.sees_no("It is twenty.");
    person
}

#[test]
fn a_recording_is_played_step_by_step_and_from_mark_to_mark() {
    let mut person = replaying(WIDE);
    // It plays; the first order may come behind its end.
    person.press("G");
    person.sees("It is twenty.");
    person.sees("1 ✗ ▸2 ✓");
    person.press("g");
    person.sees_no("How many apples?");
    person.press(">");
    person.sees("How many apples?");
    person.press(">");
    person.sees("print(undefined)");
    person.sees_no("NameError");
    person.press(">");
    person.sees("✗");
    person.press("<");
    person.sees_no("✗ ");
    // On again, one step at a time, to the failure.
    for _ in ["approved", "started", "printed"] {
        person.press(".");
    }
    person.sees("NameError");
    person.sees_no("exit 1");
    person.press("G");
    person.sees("It is twenty.");
    for _ in 0..4 {
        person.press(",");
    }
    person.sees_no("It is twenty.");
    person.press("G");
    person.sees("It is twenty.");
    // From the end it plays from the start.
    person.press(" ");
    person.sees_no("It is twenty.");
    person.sees("It is twenty.");
    person.press("q");
    person.is_out();
    assert!(!person.screen().contains("go on with"), "nothing was begun: {}", person.screen());
}

#[test]
fn a_recording_is_played_on_small_screens() {
    for size in [MEDIUM, SMALL] {
        let mut person = replaying(size);
        person.press("G");
        person.sees("twenty");
        person.press("tab");
        person.sees("print('twenty')");
        person.press("q");
        person.is_out();
    }
}

#[test]
fn a_recording_goes_on_in_a_session_of_its_own() {
    let server = Server::chat(vec![Say::text("It has.")]);
    let machine = with_session("Keep twenty");
    let command = program_for(&machine, &server.url(), &["replay", "last"]);
    let mut person = Person::before(machine, server, &command, WIDE);
    person.press("G");
    person.sees("It is twenty.");
    person.press("f");
    person.agrees("y go on");
    person.agrees("y run them again");
    person.asks("Has it grown?");
    person.sees("It has.");
    person.sees("Ctrl-D quit");
    person.quits();
    assert_eq!(person.machine.logs().len(), 2);
}

#[test]
fn a_session_is_exported_while_it_goes_on() {
    let mut person = Person::with(vec![Say::call("print('seen')"), Say::text("Done.")]);
    person.asks("Show it");
    person.answers("y");
    person.sees("Done.");
    for (format, part) in [("ipynb", "nbformat"), ("py", "print('seen')"), ("md", "Show it"), ("cast", "\"version\"")] {
        person.asks(&format!("/export {format} out.{format}"));
        person.sees(&format!("out.{format}"));
        let path = person.machine.path(&format!("work/out.{format}"));
        person.wait_for_file(&path, part);
    }
}

#[test]
fn a_new_session_is_begun_without_leaving() {
    let mut person = Person::with(vec![Say::text("First."), Say::text("Second.")]);
    person.asks("One");
    person.sees("First.");
    person.asks("/new");
    person.sees_no("First.");
    person.consents();
    person.asks("Two");
    person.sees("Second.");
    assert!(!person.told().contains("One"), "{}", person.told());
    assert_eq!(person.machine.logs().len(), 2);
}

#[test]
fn a_session_that_is_open_elsewhere_is_not_opened_twice() {
    let person = Person::with(vec![]);
    let url = person.server.url();
    let command = program_for(&person.machine, &url, &["resume", "--last"]);
    let mut second = Person::before(Machine::new(), Server::chat(vec![]), &command, WIDE);
    second.agrees("y go on");
    second.sees("hint:");
    drop(person);
}
