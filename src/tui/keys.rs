//! Which key does what. Owns the one table that the key handling, the footer, the help and the page in the README are made
//! from.

use std::collections::{BTreeMap, HashMap};

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use crate::core::event::Failure;

/// Where a key means something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scope {
    /// Everywhere, also while text is typed.
    Always,
    /// In a pane that is not typed into.
    Pane,
    /// Code waits for approval and has the keys.
    Approval,
    /// The code editor.
    Editor,
    /// A turn ended with a failed step.
    Failed,
    /// A question that is answered with yes or no.
    Confirm,
    /// A list to choose from.
    Picker,
    /// A replay.
    Replay,
}

/// What a key does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Act {
    /// Stop what runs, or close what is open.
    Stop,
    /// Clear the draft, interrupt, quit: by turns.
    Cancel,
    /// Leave, where nothing is typed.
    Quit,
    /// To the shell and back.
    Suspend,
    /// The list of keys.
    Help,
    /// The next pane.
    NextPane,
    /// The pane before.
    PreviousPane,
    /// The text in the person's editor.
    External,
    /// A page up.
    PageUp,
    /// A page down.
    PageDown,
    /// One row up.
    Up,
    /// One row down.
    Down,
    /// To the left.
    Left,
    /// To the right.
    Right,
    /// Half a page up.
    HalfUp,
    /// Half a page down.
    HalfDown,
    /// To the start.
    Top,
    /// To the end.
    Bottom,
    /// Look for text.
    Search,
    /// The pane as large as the screen.
    Zoom,
    /// Copy what the pane holds.
    Copy,
    /// Wrap long lines or cut them.
    Wrap,
    /// The attempt before.
    PreviousAttempt,
    /// The next attempt.
    NextAttempt,
    /// What changed against the attempt before.
    Diff,
    /// The next table or figure.
    NextItem,
    /// Sort the table.
    Sort,
    /// Show the figure in the person's own viewer.
    OpenFigure,
    /// All output that was kept.
    Pager,
    /// To the text field.
    Compose,
    /// Run what is shown.
    Run,
    /// Edit it first.
    Edit,
    /// Do not run it.
    Reject,
    /// Run everything of this session without asking.
    RunAll,
    /// Change the time limit.
    Limit,
    /// Leave the editor with the text as it is.
    Leave,
    /// The model's text again.
    Reset,
    /// Ask the question again.
    Retry,
    /// Run an edited repair.
    Repair,
    /// Ask another model.
    OtherModel,
    /// Yes.
    Yes,
    /// No.
    No,
    /// Take the chosen entry.
    Choose,
    /// Play the chosen session.
    Replay,
    /// Give the chosen session a title.
    Rename,
    /// Delete the chosen session.
    Delete,
    /// Play or pause.
    Play,
    /// One step on.
    StepOn,
    /// One step back.
    StepBack,
    /// To the next mark.
    NextMark,
    /// To the mark before.
    PreviousMark,
    /// Faster.
    Faster,
    /// Slower.
    Slower,
    /// To the start of the recording.
    First,
    /// To its end.
    Last,
    /// Go on from this step in a new session.
    Fork,
}

/// One row of the table.
#[derive(Debug, Clone, Copy)]
pub struct Binding {
    /// What it does.
    pub act: Act,
    /// Its name in the configuration.
    pub name: &'static str,
    /// Where it holds.
    pub scope: Scope,
    /// Default keys, as the configuration writes them.
    pub keys: &'static [&'static str],
    /// In a word or two, for the footer.
    pub short: &'static str,
    /// In a line, for the help.
    pub help: &'static str,
}

macro_rules! bindings {
    ($( $scope:ident { $( $act:ident $name:literal [$($key:literal),*] $short:literal $help:literal; )* } )*) => {
        &[ $( $( Binding {
            act: Act::$act, name: $name, scope: Scope::$scope, keys: &[$($key),*], short: $short, help: $help,
        }, )* )* ]
    };
}

/// The table. The order is that of the help.
pub const BINDINGS: &[Binding] = bindings! {
    Always {
        Stop      "stop"          ["esc"]                "stop"    "stop the reply or the run; again: at once; close what is open";
        Cancel    "cancel"        ["ctrl-c"]             "cancel"  "clear the draft, then stop what runs, then quit (twice)";
        Quit      "quit"          ["ctrl-d"]             "quit"    "quit, where nothing is typed";
        Suspend   "suspend"       ["ctrl-z"]             "suspend" "back to the shell; `fg` returns";
        Help      "help"          ["f1"]                 "help"    "this list; `?` too where nothing is typed";
        NextPane  "next_pane"     ["tab"]                "pane"    "the next pane";
        PreviousPane "previous_pane" ["backtab"]         "pane"    "the pane before";
        External  "external"      ["ctrl-g"]             "$EDITOR" "the code or the draft in $VISUAL or $EDITOR";
        PageUp    "page_up"       ["pageup"]             "up"      "a page up; from the text field: in the chat";
        PageDown  "page_down"     ["pagedown"]           "down"    "a page down";
    }
    Approval {
        Run       "run"           ["y"]                  "run"     "run exactly what is shown";
        Edit      "edit"          ["e"]                  "edit"    "edit it here first";
        External  "edit_external" ["E"]                  "$EDITOR" "edit it in $VISUAL or $EDITOR";
        Reject    "reject"        ["n"]                  "reject"  "do not run it; with a reason the model tries again";
        RunAll    "run_all"       ["a"]                  "run all" "run everything in this session without asking";
        Limit     "limit"         ["t"]                  "time limit" "change the time limit of this run";
    }
    Editor {
        Leave     "leave_editor"  ["esc"]                "done"    "done: checks that it compiles and returns to the question";
        Reset     "reset"         ["ctrl-r"]             "model's text" "the model's text again; can be undone";
        Diff      "editor_diff" ["ctrl-o"]             "changes" "what you changed";
    }
    Failed {
        Retry     "retry"         ["r"]                  "retry"   "ask the question again";
        Repair    "repair"        ["e"]                  "edit and run" "edit the failed code and run it; the model goes on";
        OtherModel "other_model"  ["M"]                  "other model" "choose another model";
    }
    Confirm {
        Yes       "yes"           ["y"]                  "yes"     "yes";
        No        "no"            ["n"]                  "no"      "no";
        OtherModel "start_other_model" ["M"]             "other model" "choose another model, where the session could not begin";
    }
    Pane {
        Up        "up"            ["up", "k"]            "up"      "one row up";
        Down      "down"          ["down", "j"]          "down"    "one row down";
        Left      "left"          ["left", "h"]          "left"    "to the left; in a table the column before";
        Right     "right"         ["right", "l"]         "right"   "to the right; in a table the next column";
        HalfUp    "half_up"       ["ctrl-u"]             "up"      "half a page up";
        HalfDown  "half_down"     ["ctrl-d"]             "down"    "half a page down";
        Top       "top"           ["home", "g"]          "start"   "to the start";
        Bottom    "bottom"        ["end", "G"]           "end"     "to the end, and follow what comes";
        Search    "search"        ["/"]                  "search"  "look for text; n and N are the next and the one before, until Esc";
        Zoom      "zoom"          ["z"]                  "zoom"    "the pane, the table or the figure as large as the screen, and back";
        Copy      "copy"          ["c"]                  "copy"    "copy the text of the pane, without line breaks of the screen";
        Wrap      "wrap"          ["w"]                  "wrap"    "wrap long lines or cut them";
        PreviousAttempt "previous_attempt" ["["]         "attempt" "the attempt before";
        NextAttempt "next_attempt" ["]"]                 "attempt" "the next attempt";
        Diff      "diff"          ["d"]                  "changes" "what changed: your edit, or against the attempt before";
        NextItem  "next_item"     ["x"]                  "table"   "choose the next table or figure of the output";
        Sort      "sort"          ["s"]                  "sort"    "sort the table by the chosen column";
        OpenFigure "open_figure"  ["o"]                  "open"    "the figure in a viewer of yours";
        Pager     "pager"         ["O"]                  "all"     "all output that was kept";
        Compose   "compose"       ["i"]                  "write"   "to the text field";
    }
    Picker {
        Choose    "choose"        ["enter"]              "choose"  "take the chosen entry; a session is continued";
        Replay    "replay_session" ["ctrl-p"]            "replay"  "play the chosen session";
        Rename    "rename"        ["ctrl-r"]             "rename"  "give the chosen session a title";
        Delete    "delete"        ["ctrl-x"]             "delete"  "delete the chosen session, after asking";
    }
    Replay {
        Play      "play"          ["space"]              "play"    "play or pause";
        StepOn    "step_on"       ["."]                  "step"    "one step on";
        StepBack  "step_back"     [","]                  "back"    "one step back";
        NextMark  "next_mark"     [">"]                  "mark"    "to the next question, attempt or failure";
        PreviousMark "previous_mark" ["<"]               "mark"    "to the one before";
        Faster    "faster"        ["+", "="]             "faster"  "twice as fast";
        Slower    "slower"        ["-"]                  "slower"  "half as fast";
        First     "first"         ["g"]                  "start"   "to the start of the recording";
        Last      "last"          ["G"]                  "end"     "to its end";
        Fork      "fork"          ["f"]                  "fork"    "go on from this step in a new session";
        Quit      "quit_replay"   ["q"]                  "quit"    "quit";
    }
};

/// A key with its modifiers, in one form for all terminals.
type Pressed = (KeyCode, KeyModifiers);

/// The keys that hold.
#[derive(Debug, Clone)]
pub struct Keys {
    acts: HashMap<(Scope, Pressed), Act>,
    shown: HashMap<&'static str, String>,
}

impl Keys {
    /// The default keys, with `overrides` (name of an action → its keys) in place of some.
    pub fn new(overrides: &BTreeMap<String, Vec<String>>) -> Result<Self, Failure> {
        let known = |name: &String| BINDINGS.iter().any(|b| b.name == name);
        if let Some(name) = overrides.keys().find(|name| !known(name)) {
            let hint = "`?` on the screen and `sandscript config show` list the names";
            return Err(Failure::new(format!("bad key setting keys.{name}"), "there is no such action", hint));
        }
        let mut keys = Self { acts: HashMap::new(), shown: HashMap::new() };
        for binding in BINDINGS {
            let chosen: Vec<&str> = match overrides.get(binding.name) {
                Some(names) => names.iter().map(String::as_str).collect(),
                None => binding.keys.to_vec(),
            };
            let mut shown = Vec::new();
            for name in chosen {
                let pressed = parse(name).ok_or_else(|| {
                    let hint = "write keys as ctrl-g, alt-x, f2, esc, space, G or ?";
                    Failure::new(format!("bad key setting keys.{}", binding.name), format!("'{name}' is no key"), hint)
                })?;
                if let Some(other) = keys.acts.insert((binding.scope, pressed), binding.act) {
                    let taken = BINDINGS.iter().find(|b| b.act == other && b.scope == binding.scope);
                    let why = format!("'{name}' is the key of {} already", taken.map_or("another", |b| b.name));
                    let hint = "give that one another key as well";
                    return Err(Failure::new(format!("bad key setting keys.{}", binding.name), why, hint));
                }
                shown.push(label(pressed));
            }
            keys.shown.insert(binding.name, shown.join(" "));
        }
        Ok(keys)
    }

    /// What a key does in a scope.
    pub fn act(&self, scope: Scope, key: KeyEvent) -> Option<Act> {
        self.acts.get(&(scope, pressed(key.code, key.modifiers))).copied()
    }

    /// The keys of an action in a scope as people read them, such as `y` or `Ctrl-G`; empty if it has none.
    pub fn of(&self, scope: Scope, act: Act) -> &str {
        let binding = BINDINGS.iter().find(|b| b.act == act && b.scope == scope);
        binding.and_then(|b| self.shown.get(b.name)).map_or("", String::as_str)
    }

    /// The first key of an action.
    pub fn first_of(&self, scope: Scope, act: Act) -> &str {
        self.of(scope, act).split(' ').next().unwrap_or_default()
    }

    /// Rows of the help of a scope: keys and what they do.
    pub fn help(&self, scope: Scope) -> impl Iterator<Item = (&str, &'static str)> {
        let rows = BINDINGS.iter().filter(move |b| b.scope == scope);
        rows.filter_map(|b| Some((self.shown.get(b.name)?.as_str(), b.help))).filter(|(keys, _)| !keys.is_empty())
    }
}

/// Terminals differ in whether they tell Shift with a capital or a sign; the character says it already.
fn pressed(code: KeyCode, modifiers: KeyModifiers) -> Pressed {
    let kept = modifiers & (KeyModifiers::CONTROL | KeyModifiers::ALT | KeyModifiers::SHIFT);
    match code {
        KeyCode::Char(c) if kept.contains(KeyModifiers::SHIFT) && c.is_ascii_lowercase() => {
            (KeyCode::Char(c.to_ascii_uppercase()), kept - KeyModifiers::SHIFT)
        }
        KeyCode::Char(_) | KeyCode::BackTab => (code, kept - KeyModifiers::SHIFT),
        KeyCode::Tab if kept.contains(KeyModifiers::SHIFT) => (KeyCode::BackTab, kept - KeyModifiers::SHIFT),
        other => (other, kept),
    }
}

/// Reads `ctrl-g`, `G`, `?`, `pageup`.
fn parse(name: &str) -> Option<Pressed> {
    let mut chars = name.chars();
    if let (Some(c), None) = (chars.next(), chars.next()) {
        return Some(pressed(KeyCode::Char(c), KeyModifiers::NONE));
    }
    let combination = crokey::parse(name).ok()?;
    let crokey::OneToThree::One(code) = combination.codes else { return None };
    Some(pressed(code, combination.modifiers))
}

/// A key as people read it.
fn label((code, modifiers): Pressed) -> String {
    let mut text = String::new();
    for (modifier, name) in
        [(KeyModifiers::CONTROL, "Ctrl-"), (KeyModifiers::ALT, "Alt-"), (KeyModifiers::SHIFT, "Shift-")]
    {
        if modifiers.contains(modifier) {
            text.push_str(name);
        }
    }
    match code {
        KeyCode::Char(' ') => text.push_str("Space"),
        KeyCode::Char(c) if modifiers.contains(KeyModifiers::CONTROL) => text.extend(c.to_uppercase()),
        KeyCode::Char(c) => text.push(c),
        KeyCode::Up => text.push('↑'),
        KeyCode::Down => text.push('↓'),
        KeyCode::Left => text.push('←'),
        KeyCode::Right => text.push('→'),
        KeyCode::PageUp => text.push_str("PgUp"),
        KeyCode::PageDown => text.push_str("PgDn"),
        KeyCode::BackTab => text.push_str("Shift-Tab"),
        KeyCode::F(n) => text.push_str(&format!("F{n}")),
        other => text.push_str(&format!("{other:?}")),
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(code: char, modifiers: KeyModifiers) -> KeyEvent {
        KeyEvent::new(KeyCode::Char(code), modifiers)
    }

    #[test]
    fn every_default_key_is_one_and_is_given_once_in_its_scope() {
        Keys::new(&BTreeMap::new()).unwrap();
    }

    #[test]
    fn names_are_given_once() {
        for (at, binding) in BINDINGS.iter().enumerate() {
            assert!(BINDINGS[..at].iter().all(|b| b.name != binding.name), "{}", binding.name);
        }
    }

    #[test]
    fn a_capital_is_the_same_key_with_and_without_shift() {
        let keys = Keys::new(&BTreeMap::new()).unwrap();
        for key in [key('G', KeyModifiers::NONE), key('G', KeyModifiers::SHIFT), key('g', KeyModifiers::SHIFT)] {
            assert_eq!(keys.act(Scope::Pane, key), Some(Act::Bottom));
        }
        assert_eq!(keys.act(Scope::Pane, key('g', KeyModifiers::NONE)), Some(Act::Top));
        assert_eq!(keys.act(Scope::Pane, key('g', KeyModifiers::ALT)), None);
        let tab = KeyEvent::new(KeyCode::Tab, KeyModifiers::SHIFT);
        assert_eq!(keys.act(Scope::Always, tab), Some(Act::PreviousPane));
    }

    /// The page of the README, made of the table.
    fn page() -> String {
        let keys = Keys::new(&BTreeMap::new()).unwrap();
        let mut page = String::new();
        for (scope, title) in [
            (Scope::Always, "Everywhere"),
            (Scope::Approval, "When code waits for you"),
            (Scope::Editor, "Editing code"),
            (Scope::Failed, "When a turn failed"),
            (Scope::Pane, "In a pane"),
            (Scope::Picker, "In a list"),
            (Scope::Replay, "Replay"),
        ] {
            page.push_str(&format!("| **{title}** | | |\n"));
            for binding in BINDINGS.iter().filter(|b| b.scope == scope) {
                let shown = keys.of(scope, binding.act);
                let shown: Vec<String> = shown.split(' ').filter(|k| !k.is_empty()).map(|k| format!("`{k}`")).collect();
                page.push_str(&format!("| {} | {} | `{}` |\n", shown.join(" "), binding.help, binding.name));
            }
        }
        page
    }

    #[test]
    fn the_readme_has_the_keys() {
        let readme = include_str!("../../README.md");
        assert!(readme.contains(&page()), "put this into the README:\n{}", page());
    }

    #[test]
    fn keys_are_replaced_by_the_configuration() {
        let overrides = BTreeMap::from([("run".to_string(), vec!["ctrl-y".to_string(), "f5".to_string()])]);
        let keys = Keys::new(&overrides).unwrap();
        assert_eq!(keys.act(Scope::Approval, key('y', KeyModifiers::NONE)), None);
        assert_eq!(keys.act(Scope::Approval, key('y', KeyModifiers::CONTROL)), Some(Act::Run));
        assert_eq!(keys.of(Scope::Approval, Act::Run), "Ctrl-Y F5");
        for (name, keys, why) in [
            ("nonsense", vec!["x"], "no such action"),
            ("run", vec!["hyper-q"], "'hyper-q' is no key"),
            ("run", vec!["n"], "'n' is the key of"),
        ] {
            let keys = keys.into_iter().map(String::from).collect();
            let error = Keys::new(&BTreeMap::from([(name.to_string(), keys)])).unwrap_err();
            assert!(error.why.contains(why) && error.what.starts_with("bad key setting keys."), "{error:?}");
        }
    }
}
