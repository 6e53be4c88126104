//! Every key of the table, pressed where it holds, does what the table says.

use sandscript::core::command::{Command, Question, Transport};
use sandscript::tui::Exit;
use sandscript::tui::keys::{Act, BINDINGS, Binding, Scope};
use sandscript::tui::msg::Action;

use super::bench::Bench;
use super::scenes::*;

#[test]
fn every_key_of_the_table_does_what_it_says() {
    for binding in BINDINGS {
        // Two have none at first: a search makes them keys.
        let keys = if binding.keys.is_empty() { &["-"][..] } else { binding.keys };
        for key in keys {
            match binding.scope {
                Scope::Always => always(binding, key),
                Scope::Approval => approval(binding, key),
                Scope::Editor => editor(binding, key),
                Scope::Failed => after_failure(binding, key),
                Scope::Confirm => confirm(binding, key),
                Scope::Pane => pane(binding, key),
                Scope::Picker => in_picker(binding, key),
                Scope::Replay => in_replay(binding, key),
            }
        }
    }
}

fn unknown(binding: &Binding) -> ! {
    panic!("what {} does is not tested", binding.name)
}

/// A key, and the quiet that makes an answer of it.
fn pressed(mut bench: Bench, key: &str) -> Bench {
    bench.press(key);
    bench.advance(600);
    bench
}

fn left(mut bench: Bench, exit: Exit) {
    assert_eq!(bench.actions(), [Action::Leave(exit)]);
}

fn asks(mut bench: Bench, question: Question) {
    let orders = bench.orders();
    assert!(matches!(&orders[..], [Command::Ask(_, asked)] if *asked == question), "{orders:?}");
}

fn edits(mut bench: Bench, ending: &str) {
    let actions = bench.actions();
    assert!(matches!(&actions[..], [Action::Edit { suffix, .. }] if *suffix == ending), "{actions:?}");
}

/// The pane with the keys, by making it the only one.
fn with_keys(mut bench: Bench) -> String {
    bench.press("z");
    bench.screen().lines().next().unwrap().trim_matches(['╭', ' ']).split(' ').next().unwrap().to_string()
}

fn always(binding: &Binding, key: &str) {
    match binding.act {
        Act::Stop => {
            let mut bench = pressed(moment(narrow(), "repaired", "model_delta", 20), key);
            assert_eq!(bench.orders(), [Command::Interrupt]);
            assert!(bench.shows("stopping"));
        }
        Act::Cancel => {
            let mut bench = idle();
            bench.type_str("a draft");
            assert!(!pressed(bench, key).shows("a draft"));
            let mut bench = pressed(idle(), key);
            assert!(bench.shows("Ctrl-C again quits"));
            bench.press(key);
            left(bench, Exit::Quit);
        }
        Act::Quit => {
            left(pressed(idle(), key), Exit::Quit);
            let mut bench = idle();
            bench.type_str("a draft");
            assert_eq!(pressed(bench, key).actions(), []);
        }
        Act::Suspend => assert_eq!(pressed(idle(), key).actions(), [Action::Suspend]),
        Act::Help => assert!(pressed(idle(), key).shows("╭ Keys ")),
        Act::NextPane => assert_eq!(with_keys(pressed(in_pane("repaired", 0), key)), "Chat"),
        Act::PreviousPane => assert_eq!(with_keys(pressed(in_pane("repaired", 0), key)), "Output"),
        Act::External => edits(pressed(idle(), key), ".md"),
        Act::PageUp => assert!(pressed(in_pane("repaired", 0), key).shows("Chat · more below")),
        Act::PageDown => {
            let mut bench = in_pane("repaired", 0);
            bench.press("pageup");
            assert!(!pressed(bench, key).shows("more below"));
        }
        _ => unknown(binding),
    }
}

fn approval(binding: &Binding, key: &str) {
    let mut bench = pressed(waiting(), key);
    match binding.act {
        Act::Run => {
            let orders = bench.orders();
            assert!(matches!(&orders[..], [Command::Approve { edited: None, by, .. }] if by == "user"), "{orders:?}");
        }
        Act::Edit => assert!(bench.shows("Code · editing")),
        Act::External => edits(bench, ".py"),
        Act::Reject => assert!(bench.shows("╭ Why not? ")),
        Act::RunAll => assert!(bench.shows("Run everything the model writes")),
        Act::Limit => assert!(bench.shows("╭ Time limit of this run")),
        _ => unknown(binding),
    }
}

fn editor(binding: &Binding, key: &str) {
    let mut bench = pressed(waiting(), "e");
    bench.type_str("x");
    assert!(bench.shows("ximport pandas") && bench.shows("· edited"));
    let mut bench = pressed(bench, key);
    match binding.act {
        Act::Leave => {
            let orders = bench.orders();
            assert!(matches!(&orders[..], [Command::Ask(_, Question::Compile(text))] if text.starts_with("ximport")));
            assert!(bench.shows("edited by you") && bench.shows("y run"));
        }
        Act::Reset => assert!(bench.shows("not edited") && bench.shows(" import pandas")),
        Act::Diff => assert!(bench.shows("╭ Your changes") && bench.shows("+ ximport")),
        _ => unknown(binding),
    }
}

fn after_failure(binding: &Binding, key: &str) {
    let mut bench = pressed(failed(), key);
    match binding.act {
        Act::Retry => assert_eq!(bench.orders(), [Command::Say("Which region grew most?".into())]),
        Act::Repair => assert!(bench.shows("Code · editing") && bench.shows("\"zone\"")),
        Act::OtherModel => asks(bench, Question::Models),
        _ => unknown(binding),
    }
}

fn confirm(binding: &Binding, key: &str) {
    match binding.act {
        Act::Yes => {
            let orders = pressed(consent(), key).orders();
            assert_eq!(orders, [Command::Start { unsandboxed: true, model: None }]);
        }
        Act::No => left(pressed(consent(), key), Exit::Quit),
        Act::OtherModel => asks(pressed(no_start(), key), Question::Models),
        _ => unknown(binding),
    }
}

/// The first row of the output.
fn first_row(bench: &Bench) -> String {
    let screen = bench.screen();
    let mut rows = screen.lines().skip_while(|row| !row.contains("╭ Output"));
    rows.nth(1).unwrap().trim_matches(['│', ' ']).to_string()
}

fn pane(binding: &Binding, key: &str) {
    let output = || in_pane("long-output", 3);
    let from = |key: &str| {
        let mut bench = output();
        bench.press(key);
        bench
    };
    match binding.act {
        Act::Up => assert_ne!(first_row(&pressed(output(), key)), first_row(&output())),
        Act::Down => assert!(first_row(&pressed(from("home"), key)).starts_with("row   2")),
        Act::HalfUp => assert!(pressed(output(), key).shows("row 298")),
        Act::HalfDown => assert!(first_row(&pressed(from("home"), key)).starts_with("row   6")),
        Act::Top => assert!(first_row(&pressed(output(), key)).starts_with("row   1")),
        Act::Bottom => assert_eq!(first_row(&pressed(from("home"), key)), first_row(&output())),
        Act::Left | Act::Right => {
            let mut bench = from("w");
            bench.press("right");
            let once = bench.screen();
            bench.press(key);
            assert_ne!(bench.screen(), once);
            bench.press(if binding.act == Act::Left { "right" } else { "left" });
            assert_eq!(bench.screen(), once);
        }
        Act::Search => {
            let mut bench = pressed(output(), key);
            assert!(bench.shows("╭ Look for "));
            bench.type_str("row 200");
            bench.press("enter");
            assert!(bench.shows("row 200"));
        }
        Act::Zoom => {
            let mut bench = pressed(output(), key);
            assert!(bench.screen().starts_with("╭ Output") && !bench.shows("╭ Chat"));
            bench.press(key);
            assert!(bench.shows("╭ Chat"));
        }
        Act::Copy => {
            let actions = pressed(output(), key).actions();
            let [Action::Copy(text)] = &actions[..] else { panic!("{actions:?}") };
            assert!(text.starts_with("row   1  region 1  growth 3\n"), "colours and signs are not copied");
            assert!(text.contains(&"0123456789 ".repeat(29)), "rows of the screen are not copied");
        }
        Act::Wrap => {
            assert!(output().shows("│  3456789"));
            assert!(!pressed(output(), key).shows("│  3456789"));
        }
        Act::PreviousAttempt => assert!(pressed(in_pane("repaired", 2), key).shows("▸1 ✗  2 ✓")),
        Act::NextAttempt => {
            let mut bench = in_pane("repaired", 2);
            bench.press("[");
            assert!(pressed(bench, key).shows(" 1 ✗ ▸2 ✓"));
        }
        Act::Diff => assert!(pressed(in_pane("repaired", 2), key).shows("╭ Changes to the attempt before")),
        Act::NextItem => assert!(pressed(output(), key).shows("no further table or figure")),
        Act::Sort => {
            let mut bench = in_pane("repaired", 3);
            bench.press("right");
            let before = bench.screen();
            bench.press(key);
            assert_ne!(bench.screen(), before);
            assert!(pressed(output(), key).shows("choose a table first"));
        }
        Act::OpenFigure => {
            let mut bench = in_pane("figure", 3);
            bench.press(key);
            let orders = bench.orders();
            assert!(matches!(&orders[..], [Command::Ask(_, Question::OpenFigure(hash))] if hash.len() == 64));
        }
        Act::Pager => assert!(pressed(output(), key).shows("line 1 of 306")),
        Act::Compose => {
            let mut bench = pressed(output(), key);
            bench.type_str("z");
            assert!(bench.shows("> z"));
        }
        _ => unknown(binding),
    }
}

fn in_picker(binding: &Binding, key: &str) {
    let id = || "20261130-200512-a1b2c3".to_string();
    let mut bench = pressed(picker(), key);
    match binding.act {
        Act::Choose => left(bench, Exit::Resume(id())),
        Act::Replay => left(bench, Exit::Replay(id())),
        Act::Rename => {
            assert!(bench.shows("╭ Title") && bench.shows("│Which region grew most?"));
            bench.type_str("!");
            bench.press("enter");
            let title = "Which region grew most?!".to_string();
            let renamed = bench.orders().into_iter().next();
            assert!(matches!(renamed, Some(Command::Ask(_, asked)) if asked == Question::Rename { id: id(), title }));
        }
        Act::Delete => {
            assert!(bench.shows("Delete session 20261130-200512-a1b2c3?"));
            let deleted = pressed(bench, "y").orders().into_iter().next();
            assert!(matches!(deleted, Some(Command::Ask(_, asked)) if asked == Question::Delete(id())));
        }
        _ => unknown(binding),
    }
}

fn in_replay(binding: &Binding, key: &str) {
    let order = match binding.act {
        Act::Play => Transport::Toggle,
        Act::StepOn => Transport::Step(true),
        Act::StepBack => Transport::Step(false),
        Act::NextMark => Transport::Mark(true),
        Act::PreviousMark => Transport::Mark(false),
        Act::Faster => Transport::Faster(true),
        Act::Slower => Transport::Faster(false),
        Act::First => Transport::End(false),
        Act::Last => Transport::End(true),
        Act::Fork => return left(pressed(replay(), key), Exit::Fork("20261130-200512-a1b2c3".into(), 1)),
        Act::Quit => return left(pressed(replay(), key), Exit::Quit),
        _ => unknown(binding),
    };
    assert_eq!(pressed(replay(), key).orders(), [Command::Transport(order)]);
}
