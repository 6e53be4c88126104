//! Calls and blocks in the words of a reply.
//!
//! The text is read once from front to back, so that what stands inside a block is never taken for something else: the
//! text of a Python block may speak of calls, and the code of a call may hold fences.

use std::ops::Range;

use serde_json::Value;

use super::fence::{self, Block, Tag};
use super::python;
use super::tagged::{self, Hit};
use super::{TOOL, Verdict, args};
use crate::core::event::How;
use crate::model::Candidate;

/// How often a bracket at the start of a line is tried as a call. Each try may read to the end, so that without a bound a
/// hostile reply would keep us busy for hours.
const MAX_TRIES: u32 = 64;

/// What a text holds.
#[derive(Debug, Default, PartialEq)]
pub struct Found {
    /// The words before the code.
    pub before: String,
    /// The words behind it.
    pub after: String,
    /// Code and failed attempts at it, in order.
    pub verdicts: Vec<Verdict>,
}

/// Reads the words of a reply; `cut` says that it did not end by itself.
pub fn read(text: &str, cut: bool) -> Found {
    let spots = spots(text, cut);
    let explicit = || spots.iter().filter(|spot| matches!(spot.kind, Kind::Calls(_)));
    let fenced = |wanted: fn(&Block, Tag, bool) -> bool| {
        spots.iter().find(|spot| match &spot.kind {
            Kind::Block(block, tag, _) => wanted(block, *tag, cut),
            Kind::Calls(_) => false,
        })
    };
    let filled = |block: &Block, tag, _| tag != Tag::Plain && !block.body.trim().is_empty();
    let has_code = explicit().any(|spot| spot.verdicts().iter().any(|v| matches!(v, Verdict::Code(_))));
    let chosen: Vec<&Spot> = if has_code {
        explicit().collect()
    } else if let Some(block) = fenced(filled).or_else(|| fenced(|_, tag, _| tag != Tag::Plain)) {
        vec![block]
    } else if explicit().next().is_some() {
        explicit().collect()
    } else {
        let code = |block: &Block, _, cut: bool| python::does_something(&block.body) && (block.closed || !cut);
        fenced(code).into_iter().collect()
    };
    let (Some(first), Some(last)) = (chosen.first(), chosen.last()) else {
        return Found { before: text.trim().to_owned(), ..Found::default() };
    };
    let between = chosen.windows(2).map(|pair| text[pair[0].range.end..pair[1].range.start].trim());
    let mut before: Vec<&str> = vec![text[..first.range.start].trim()];
    before.extend(between);
    before.retain(|words| !words.is_empty());
    Found {
        before: before.join("\n\n"),
        after: text[last.range.end..].trim().to_owned(),
        verdicts: chosen.iter().flat_map(|spot| verdicts(spot, text, cut)).collect(),
    }
}

/// Reads only what is marked as a call or can be nothing else: reasoning may hold drafts of code that mean nothing.
pub fn calls_only(text: &str, cut: bool) -> Vec<Verdict> {
    spots(text, cut).into_iter().flat_map(|spot| spot.verdicts().to_vec()).collect()
}

struct Spot {
    range: Range<usize>,
    kind: Kind,
}

enum Kind {
    Calls(Vec<Verdict>),
    /// A block that may be code, its tag, and what stands behind the tag.
    Block(Block, Tag, String),
}

impl Spot {
    fn verdicts(&self) -> &[Verdict] {
        match &self.kind {
            Kind::Calls(verdicts) => verdicts,
            Kind::Block(..) => &[],
        }
    }
}

fn spots(text: &str, cut: bool) -> Vec<Spot> {
    let mut spots = Vec::new();
    let mut tries = MAX_TRIES;
    let mut at = 0;
    while at < text.len() {
        let line_end = text[at..].find('\n').map_or(text.len(), |n| at + n);
        let line = &text[at..line_end];
        let next_line = (line_end + 1).min(text.len());
        if let Some(open) = fence::open(line) {
            let block = open.block(text, next_line);
            let range = at..block.end;
            at = block.end;
            spots.extend(in_block(block, &open, range, cut));
        } else if let Some(Hit { start, end, verdicts }) = line_hit(text, at, line_end, cut, &mut tries) {
            at = end.max(at + 1);
            spots.push(Spot { range: start..end, kind: Kind::Calls(verdicts) });
        } else {
            at = next_line;
        }
    }
    spots
}

fn line_hit(text: &str, at: usize, line_end: usize, cut: bool, tries: &mut u32) -> Option<Hit> {
    let line = &text[at..line_end];
    let start = line_end - line.trim_start().len();
    let bracket = line.trim_start().starts_with(['{', '[']);
    let marked = tagged::find(text, at, line_end, cut, tries);
    if marked.is_some() || !bracket || *tries == 0 {
        return marked;
    }
    *tries -= 1;
    tagged::in_json(text, start, false).map(|(verdicts, end)| Hit { start, end, verdicts })
}

fn in_block(block: Block, open: &fence::Open, range: Range<usize>, cut: bool) -> Option<Spot> {
    let (may_call, may_be_code) = match open.tag {
        Tag::Python => (false, true),
        Tag::Plain | Tag::Tool => (true, true),
        Tag::Call => (true, false),
        Tag::Other => (false, false),
    };
    let body = block.body.trim();
    if let Some(verdicts) = if may_call { in_body(body, block.closed, cut) } else { None } {
        return Some(Spot { range, kind: Kind::Calls(verdicts) });
    }
    may_be_code.then(|| Spot { range, kind: Kind::Block(block, open.tag, open.rest.clone()) })
}

/// The calls a block consists of.
fn in_body(body: &str, closed: bool, cut: bool) -> Option<Vec<Verdict>> {
    let found = if body.starts_with(['{', '[']) {
        tagged::in_json(body, 0, false).map(|(verdicts, _)| verdicts)
    } else if body.starts_with('<') {
        let line_end = body.find('\n').unwrap_or(body.len());
        tagged::find(body, 0, line_end, cut && !closed, &mut 1).map(|hit| hit.verdicts)
    } else {
        python::own_call(body).map(|_| vec![args::found(TOOL, &Value::String(body.to_owned()), body)])
    };
    let not_closed = |verdict| match verdict {
        Verdict::Cut if closed => Verdict::Broken("the JSON of the call is not closed".into()),
        other => other,
    };
    found.map(|verdicts| verdicts.into_iter().map(not_closed).collect())
}

fn verdicts(spot: &Spot, text: &str, cut: bool) -> Vec<Verdict> {
    match &spot.kind {
        Kind::Calls(verdicts) => verdicts.clone(),
        Kind::Block(block, _, _) if !block.closed && cut => vec![Verdict::Cut],
        Kind::Block(block, tag, rest) => {
            vec![block_verdict(block, *tag, rest, &text[spot.range.start..], spot.range.len())]
        }
    }
}

fn block_verdict(block: &Block, tag: Tag, rest: &str, from_fence: &str, length: usize) -> Verdict {
    let own_call = python::own_call(&block.body);
    let code = own_call.as_deref().unwrap_or(&block.body);
    if code.trim().is_empty() {
        return Verdict::Broken("the block of code is empty".into());
    }
    let mut readings = python::readings(code);
    if !block.closed {
        // The closing fence may stick to the last line.
        let trimmed = code.trim_end().trim_end_matches('`');
        readings.push(trimmed.to_owned());
    }
    if !rest.is_empty() {
        // Words behind the tag are code that lost its line end, or a title.
        readings.insert(0, format!("{rest}\n{code}"));
    }
    readings.dedup();
    let or_text = tag == Tag::Plain;
    let as_it_is = readings == [block.body.as_str()] && block.closed && tag != Tag::Tool;
    let raw = match (as_it_is, or_text) {
        // Where this is no code, all of the rest is text.
        (_, true) => Some(from_fence.to_owned()),
        (true, false) => None,
        (false, false) => Some(from_fence[..length].to_owned()),
    };
    Verdict::Code(Box::new(Candidate {
        id: String::new(),
        readings,
        gate: or_text || !as_it_is,
        or_text,
        timeout_seconds: None,
        how: if as_it_is { How::Fence } else { How::Recovered },
        raw,
    }))
}
