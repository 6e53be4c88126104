//! Native tool calls, from their pieces.

use serde_json::Value;

use super::fields;
use super::peek::CodePeek;

/// Most calls kept of one reply. More is a broken or hostile server.
pub const MAX_CALLS: usize = 32;

/// How often the arguments of one call are parsed to see whether they are whole. Each time costs their length, and a
/// hostile server could ask for it with every byte.
const MAX_CHECKS: u32 = 256;

/// The calls of one reply.
#[derive(Debug, Default)]
pub struct Calls {
    list: Vec<PartCall>,
    /// There were more than we keep.
    pub too_many: bool,
}

/// A call as far as it has come.
#[derive(Debug, Default)]
pub struct PartCall {
    index: Option<u64>,
    id: String,
    /// Name of the tool.
    pub name: String,
    /// Arguments as text.
    pub arguments: String,
    /// White space at the end of the arguments behind their last bracket, bytes.
    blank_tail: usize,
    /// Whether the arguments are a whole value, while that is known.
    known_closed: Option<bool>,
    checks: u32,
    peek: CodePeek,
}

/// One piece of a call.
struct Piece<'a> {
    index: Option<u64>,
    id: &'a str,
    name: &'a str,
    arguments: String,
}

impl Calls {
    /// The calls, in order of their first piece.
    pub fn list(&self) -> &[PartCall] {
        &self.list
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Takes the `tool_calls` (or the older `function_call`) of a delta or message; `whole` says that each entry is a whole
    /// call. Returns code for the screen.
    pub fn take(&mut self, message: &Value, whole: bool) -> String {
        let mut code = String::new();
        match message.get("tool_calls") {
            Some(Value::Array(entries)) => {
                for entry in entries {
                    self.entry(entry, whole, &mut code);
                }
            }
            Some(entry @ Value::Object(_)) => self.entry(entry, whole, &mut code),
            _ => {}
        }
        if let Some(function @ Value::Object(_)) = message.get("function_call") {
            self.piece(piece(function, function), whole, &mut code);
        }
        code
    }

    fn entry(&mut self, entry: &Value, whole: bool, code: &mut String) {
        let function = entry.get("function").filter(|f| f.is_object()).unwrap_or(entry);
        if entry.is_object() {
            self.piece(piece(entry, function), whole, code);
        }
    }

    fn piece(&mut self, piece: Piece, whole: bool, code: &mut String) {
        let at = match self.target(&piece).filter(|_| !whole) {
            Some(at) => at,
            // A piece without anything starts nothing.
            None if piece.id.is_empty() && piece.name.is_empty() && piece.arguments.trim().is_empty() => return,
            None if self.list.len() == MAX_CALLS => {
                self.too_many = true;
                return;
            }
            None => {
                if !self.list.is_empty() {
                    code.push('\n');
                }
                self.list.push(PartCall::default());
                self.list.len() - 1
            }
        };
        code.push_str(&self.list[at].add(piece));
    }

    /// Which call a piece goes on with; none if it starts one.
    fn target(&mut self, piece: &Piece) -> Option<usize> {
        let last = self.list.len().checked_sub(1)?;
        let same_id = |call: &PartCall| !piece.id.is_empty() && call.id == piece.id;
        let same_index = |call: &PartCall| piece.index.is_some() && call.index == piece.index;
        let found = self
            .list
            .iter()
            .rposition(|call| same_id(call) && same_index(call))
            .or_else(|| self.list.iter().rposition(same_index))
            .or_else(|| self.list.iter().rposition(same_id))
            // No index at all, or one that only starts to be sent.
            .or((piece.index.is_none() || self.list[last].index.is_none()).then_some(last))
            // An index that nothing started is of no use without a name.
            .or((piece.id.is_empty() && piece.name.is_empty()).then_some(last))?;
        let starts_object = piece.arguments.trim_start().starts_with('{');
        let closed = (!piece.name.is_empty() || starts_object) && self.list[found].closed();
        let call = &self.list[found];
        let other_id = !piece.id.is_empty() && !call.id.is_empty() && call.id != piece.id;
        // A name behind whole arguments starts a call, unless it is only repeated with the id.
        let repeated = piece.name.is_empty() || (same_id(call) && piece.arguments.trim().is_empty());
        (!(other_id || closed && (starts_object || !repeated))).then_some(found)
    }

    /// White space at the end of the last arguments, bytes.
    pub fn trailing_blank(&self) -> usize {
        self.list.last().map_or(0, |call| call.blank_tail)
    }

    /// Whether there are calls and each is closed.
    pub fn all_closed(&mut self) -> bool {
        !self.list.is_empty() && self.list.iter_mut().all(PartCall::closed)
    }

    /// Bytes kept.
    pub fn bytes(&self) -> usize {
        self.list.iter().map(|call| call.arguments.len() + call.name.len()).sum()
    }
}

fn piece<'a>(entry: &'a Value, function: &'a Value) -> Piece<'a> {
    let arguments = function.get("arguments").or_else(|| function.get("parameters")).or_else(|| function.get("input"));
    Piece {
        index: fields::count(entry.get("index").or_else(|| function.get("index"))),
        id: fields::word(entry.get("id")).unwrap_or_default(),
        name: fields::word(function.get("name")).unwrap_or_default(),
        arguments: match arguments {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
        },
    }
}

impl PartCall {
    /// Whether the arguments are a whole value; `{}` may be the empty beginning some servers send.
    fn closed(&mut self) -> bool {
        if let Some(known) = self.known_closed {
            return known;
        }
        let text = self.arguments.trim();
        let may_be = text.ends_with(['}', ']', '"']) && text != "{}" && self.checks < MAX_CHECKS;
        self.checks += u32::from(may_be);
        let closed = may_be && serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok();
        self.known_closed = Some(closed);
        closed
    }

    fn add(&mut self, piece: Piece) -> String {
        self.index = self.index.or(piece.index);
        if self.id.is_empty() {
            self.id = piece.id.to_owned();
        }
        if piece.name.starts_with(&self.name) {
            // Sent for the first time, again, or again and longer.
            self.name = piece.name.to_owned();
        } else if self.arguments.is_empty() {
            self.name.push_str(piece.name);
        }
        if self.arguments.trim() == "{}" && !piece.arguments.trim().is_empty() {
            self.arguments.clear();
        }
        self.arguments.push_str(&piece.arguments);
        if !piece.arguments.trim().is_empty() {
            self.known_closed = None;
        }
        let blank = piece.arguments.len() - piece.arguments.trim_end().len();
        self.blank_tail = if blank == piece.arguments.len() { self.blank_tail + blank } else { blank };
        self.peek.read(&self.arguments)
    }
}
