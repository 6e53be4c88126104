//! A session as a Python script with `# %%` cells, which editors run piece by piece and `uv run` as a whole.
//!
//! Code that ran well stands as it is. What cannot stand among other code (an import from `__future__`, say, or text that
//! cannot be seen) is compiled from a string, so that the script always compiles if the pieces did.

use super::roles::{Role, Roles};
use super::story::{Part, Story};
use super::{Exported, Options, prose, python};
use crate::core::clean::Clean;

/// Lowest Python of a session that does not say which it had: the lowest this program takes.
const OLDEST_PYTHON: &str = "3.9";

/// Longest package name with versions that is taken over, bytes.
const MAX_REQUIREMENT: usize = 200;

/// What stands in for the function notebooks have.
const DISPLAY: &str = "\n# %%\ntry:\n    display\nexcept NameError:\n    display = print\n";

/// Writes the script.
pub(super) fn write(story: &Story, options: &Options) -> Exported {
    let roles = Roles::of(story, options.failed);
    // A blank line ends the block of settings: it would go on with whatever comment follows.
    let mut script = format!("{}\n", settings(story));
    let preface = roles.preface(story).iter().map(|line| format!("- {line}\n")).collect::<String>();
    words(&mut script, &format!("# {}\n\n{}\n\n{preface}", prose::literal(story.title.as_str()), story.origin()));
    let kept = || story.cells().zip(&roles.each).filter(|(_, role)| matches!(role, Role::Runs | Role::Fails { .. }));
    if kept().any(|(cell, _)| python::mentions(cell.code(), "display")) {
        script.push_str(DISPLAY);
    }
    let mut roles = roles.each.iter();
    for part in &story.parts {
        match part {
            Part::Question(text) => words(&mut script, &prose::quotation(text)),
            Part::Words(text) => words(&mut script, &prose::prose(text)),
            Part::Cell(cell) => {
                let head = cell.headline();
                code(&mut script, &head, cell.code(), roles.next().copied().unwrap_or(Role::Left));
            }
            Part::Answer { status, text, unrepaired } => {
                let end = prose::end(*status, *unrepaired).map(|end| format!("*{end}*\n\n")).unwrap_or_default();
                if !end.is_empty() || !text.trim().is_empty() {
                    words(&mut script, &format!("{end}{}", prose::prose(text)));
                }
            }
            Part::Failed(failure) => words(&mut script, &format!("*Error:* {}", prose::literal(&failure.to_string()))),
            Part::Note(text) => words(&mut script, &format!("*Note:* {}", prose::literal(text))),
        }
    }
    Exported { bytes: script.into_bytes(), ..Exported::default() }
}

/// The block of PEP 723.
fn settings(story: &Story) -> String {
    let info = story.info.as_ref();
    let python = info.and_then(|info| minor_version(&info.python)).unwrap_or_else(|| OLDEST_PYTHON.into());
    let packages = info.map(|info| info.packages.as_slice()).unwrap_or_default();
    let packages: Vec<String> = packages.iter().filter(|p| is_requirement(p)).map(|p| format!("\"{p}\"")).collect();
    format!("# /// script\n# requires-python = \">={python}\"\n# dependencies = [{}]\n# ///\n", packages.join(", "))
}

/// `3.12` of `3.12.4`.
fn minor_version(python: &str) -> Option<String> {
    let mut numbers = python.split('.').map(|part| part.parse::<u16>().ok());
    let (major, minor) = (numbers.next()??, numbers.next()??);
    Some(format!("{major}.{minor}"))
}

/// A plain name with extras and versions: no URL, no marker, nothing that ends the string it stands in.
fn is_requirement(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.[],<>=!~* ".contains(c);
    text.len() <= MAX_REQUIREMENT && text.starts_with(|c: char| c.is_ascii_alphanumeric()) && text.chars().all(plain)
}

/// A cell of Markdown.
fn words(script: &mut String, text: &str) {
    script.push_str("\n# %% [markdown]\n");
    comment(script, text.trim_end());
}

fn comment(script: &mut String, text: &str) {
    for line in text.lines() {
        // `# ///` begins a block that tools obey, `# %%` a cell.
        let guard = if line.starts_with("///") || line.starts_with("%%") { "\\" } else { "" };
        script.push_str(format!("# {guard}{line}").trim_end());
        script.push('\n');
    }
}

fn code(script: &mut String, head: &str, code: &str, role: Role) {
    let head = Clean::line(head);
    let code = python::with_plain_lines(code);
    match role {
        Role::Left => {}
        Role::Runs => {
            script.push_str(&format!("\n# %% {head}\n"));
            script.push_str(&if python::fits_in_a_script(&code) { code } else { python::as_call(&code, "<cell>") });
            end_line(script);
        }
        Role::Fails { needed: true } => {
            let call = python::as_call(&code, "<cell>").replace('\n', "\n    ");
            script.push_str(&format!(
                "\n# %% {head} (kept: later code uses what it defined)\ntry:\n    {}\n\
                 except (Exception, SystemExit) as _failure:\n    print(\"failed, as in the session:\", repr(_failure))\n",
                call.trim_end()
            ));
        }
        Role::Fails { needed: false } | Role::Shown => {
            script.push_str(&format!("\n# %% {head}\n"));
            comment(script, Clean::code(&code).as_str());
        }
    }
}

fn end_line(script: &mut String) {
    if !script.ends_with('\n') {
        script.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_requirements_are_taken_over() {
        for good in ["pandas", "pandas[excel]", "numpy>=1.26,<3", "a-b_c.d ~= 1.*"] {
            assert!(is_requirement(good), "{good}");
        }
        for bad in ["", "-r x", "a @ http://x", "a\"]", "a; b", "a\nb", "é", "a\\"] {
            assert!(!is_requirement(bad), "{bad}");
        }
        assert_eq!(minor_version("3.12.4").unwrap(), "3.12");
        for bad in ["", "3", "x.y", "3.\"", "99999999.1"] {
            assert_eq!(minor_version(bad), None, "{bad}");
        }
    }

    #[test]
    fn comments_begin_nothing() {
        let mut script = String::new();
        comment(&mut script, "/// script\n%% cell\n\n///\ntext");
        assert_eq!(script, "# \\/// script\n# \\%% cell\n#\n# \\///\n# text\n");
    }
}
