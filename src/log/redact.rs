//! Takes secrets out of events before they are written to the log or to standard output.
//!
//! Credentials end up in logs because a program prints them. Two kinds are recognised: the values this program was
//! configured with, and shapes that are credentials and nothing else. The shapes are narrow on purpose: a log in which
//! hashes, identifiers or code are blanked is worth nothing. Each find becomes `[redacted:kind]` and is counted.
//!
//! This is for what is written and printed. The live session goes on with the original, so that what is shown and approved
//! is to the byte what runs; code in the log may differ from it in nothing but these marks.
//! Limit: a secret that arrives in two pieces of a stream is not recognised.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::core::event::{Call, Event, Failure, Outcome, Problem, Proposal, Reply, ResultBundle, RunFinished};
use crate::core::event::{ModelFailure, SessionInfo};

/// Shortest configured secret that is looked for, in bytes: shorter ones ("ollama", "none") are words that occur anyway.
const MIN_SECRET: usize = 8;

/// Run of base64 that makes a PEM block a key and not talk about keys. Its lines are 64 long.
const PEM_RUN: usize = 48;

const PEM_BEGIN: &[u8] = b"-----BEGIN ";
const PEM_END: &[u8] = b"-----END ";
const PEM_KEY: &[u8] = b"PRIVATE KEY-----";

/// Longest name in a PEM marker ("ENCRYPTED ", "OPENSSH "), bytes.
const PEM_NAME: usize = 24;

/// A form that only credentials have.
struct Shape {
    kind: &'static str,
    prefix: &'static str,
    /// Shortest rest.
    min: usize,
    /// Longest rest.
    max: usize,
    /// What may be in the rest.
    body: fn(u8) -> bool,
    /// The rest has a digit, a small and a capital letter, as random text has and names have not.
    mixed: bool,
}

const ANY: usize = usize::MAX;

/// Longer prefixes come before those they begin with.
#[rustfmt::skip]
const SHAPES: [Shape; 17] = [
    Shape { kind: "anthropic-key", prefix: "sk-ant-", min: 32, max: ANY, body: is_token, mixed: true },
    Shape { kind: "api-key", prefix: "sk-", min: 20, max: ANY, body: is_token, mixed: true },
    Shape { kind: "github-token", prefix: "ghp_", min: 36, max: ANY, body: is_alphanumeric, mixed: true },
    Shape { kind: "github-token", prefix: "gho_", min: 36, max: ANY, body: is_alphanumeric, mixed: true },
    Shape { kind: "github-token", prefix: "ghu_", min: 36, max: ANY, body: is_alphanumeric, mixed: true },
    Shape { kind: "github-token", prefix: "ghs_", min: 36, max: ANY, body: is_alphanumeric, mixed: true },
    Shape { kind: "github-token", prefix: "ghr_", min: 36, max: ANY, body: is_alphanumeric, mixed: true },
    Shape { kind: "github-token", prefix: "github_pat_", min: 50, max: ANY, body: is_token, mixed: true },
    Shape { kind: "gitlab-token", prefix: "glpat-", min: 20, max: ANY, body: is_token, mixed: true },
    Shape { kind: "aws-key-id", prefix: "AKIA", min: 16, max: 16, body: is_capital, mixed: false },
    Shape { kind: "aws-key-id", prefix: "ASIA", min: 16, max: 16, body: is_capital, mixed: false },
    Shape { kind: "google-key", prefix: "AIza", min: 35, max: 35, body: is_token, mixed: true },
    Shape { kind: "huggingface-token", prefix: "hf_", min: 30, max: ANY, body: is_alphanumeric, mixed: false },
    Shape { kind: "groq-key", prefix: "gsk_", min: 40, max: ANY, body: is_alphanumeric, mixed: true },
    Shape { kind: "e2b-key", prefix: "e2b_", min: 32, max: ANY, body: is_alphanumeric, mixed: false },
    Shape { kind: "bearer-token", prefix: "Bearer ", min: 20, max: ANY, body: is_bearer, mixed: true },
    Shape { kind: "bearer-token", prefix: "bearer ", min: 20, max: ANY, body: is_bearer, mixed: true },
];

/// Slack tokens: `xoxb-` and its relatives.
const SLACK_KINDS: &[u8] = b"abeprs";

fn is_alphanumeric(b: u8) -> bool {
    b.is_ascii_alphanumeric()
}

fn is_token(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b == b'_' || b == b'-'
}

fn is_capital(b: u8) -> bool {
    b.is_ascii_uppercase() || b.is_ascii_digit()
}

fn is_bearer(b: u8) -> bool {
    is_token(b) || matches!(b, b'.' | b'~' | b'+' | b'/' | b'=')
}

/// Takes secrets out and counts them.
#[derive(Debug, Clone, Default)]
pub struct Redactor {
    /// Longest first, so that one that begins with another is found whole.
    secrets: Vec<Vec<u8>>,
    exact_only: bool,
    counts: BTreeMap<&'static str, u64>,
}

impl Redactor {
    /// A redactor for the configured secrets, which are keys and passwords; blanks around them do not count.
    pub fn new(secrets: Vec<String>) -> Self {
        let mut secrets: Vec<Vec<u8>> = secrets.iter().map(|s| s.trim().as_bytes().to_vec()).collect();
        secrets.retain(|s| s.len() >= MIN_SECRET);
        secrets.sort_by_key(|s| std::cmp::Reverse(s.len()));
        Self { secrets, exact_only: false, counts: BTreeMap::new() }
    }

    /// A redactor for the configured secrets alone, for those who want the rest of their log untouched.
    pub fn exact(secrets: Vec<String>) -> Self {
        Self { exact_only: true, ..Self::new(secrets) }
    }

    /// How many of each kind were taken out.
    pub fn counts(&self) -> &BTreeMap<&'static str, u64> {
        &self.counts
    }

    /// Takes secrets out of everything a person, a model or a program can have put into an event.
    pub fn event(&mut self, mut event: Event) -> Event {
        for_each_text(&mut event, &mut |text| self.in_place(text));
        event
    }

    /// Takes secrets out of text.
    pub fn text(&mut self, mut text: String) -> String {
        self.in_place(&mut text);
        text
    }

    /// Takes secrets out of bytes that are mostly text.
    pub fn bytes(&mut self, bytes: Vec<u8>) -> Vec<u8> {
        let finds = self.find(&bytes);
        if finds.is_empty() { bytes } else { self.replace(&bytes, &finds) }
    }

    fn in_place(&mut self, text: &mut String) {
        let finds = self.find(text.as_bytes());
        if !finds.is_empty() {
            // Finds begin and end at characters, so that nothing is lost here.
            *text = String::from_utf8_lossy(&self.replace(text.as_bytes(), &finds)).into_owned();
        }
    }

    fn replace(&mut self, bytes: &[u8], finds: &[(Range<usize>, &'static str)]) -> Vec<u8> {
        let mut out = Vec::with_capacity(bytes.len());
        let mut from = 0;
        for (range, kind) in finds {
            out.extend_from_slice(&bytes[from..range.start]);
            out.extend_from_slice(format!("[redacted:{kind}]").as_bytes());
            *self.counts.entry(kind).or_default() += 1;
            from = range.end;
        }
        out.extend_from_slice(&bytes[from..]);
        out
    }

    /// Finds in order, not overlapping. Each byte is looked at a fixed number of times: a find and the body of a shape
    /// that is too short are skipped whole.
    fn find(&self, bytes: &[u8]) -> Vec<(Range<usize>, &'static str)> {
        let mut finds = Vec::new();
        let mut at = 0;
        while at < bytes.len() {
            let rest = &bytes[at..];
            if let Some(secret) = self.secrets.iter().find(|s| rest.starts_with(s)) {
                finds.push((at..at + secret.len(), "secret"));
                at += secret.len();
                continue;
            }
            let may_begin = !self.exact_only && (at == 0 || !is_token(bytes[at - 1]));
            match if may_begin { find_shape(rest) } else { None } {
                Some((len, kind)) => {
                    finds.push((at..at + len, kind));
                    at += len;
                }
                None => at += 1,
            }
        }
        finds
    }
}

/// Length and kind of the credential at the start of `rest`.
fn find_shape(rest: &[u8]) -> Option<(usize, &'static str)> {
    if rest.starts_with(PEM_BEGIN) {
        return pem_key(rest).map(|len| (len, "private-key"));
    }
    if let [b'x', b'o', b'x', kind, b'-', body @ ..] = rest
        && SLACK_KINDS.contains(kind)
    {
        let len = body.iter().take_while(|b| is_token(**b)).count();
        return (len >= 20 && body[..len].iter().any(u8::is_ascii_digit)).then_some((5 + len, "slack-token"));
    }
    let shape = SHAPES.iter().find(|shape| rest.starts_with(shape.prefix.as_bytes()))?;
    let body = &rest[shape.prefix.len()..];
    let len = body.iter().take_while(|b| (shape.body)(**b)).count();
    let fits = (shape.min..=shape.max).contains(&len) && (!shape.mixed || is_mixed(&body[..len]));
    fits.then_some((shape.prefix.len() + len, shape.kind))
}

fn is_mixed(body: &[u8]) -> bool {
    body.iter().any(u8::is_ascii_digit)
        && body.iter().any(u8::is_ascii_lowercase)
        && body.iter().any(u8::is_ascii_uppercase)
}

/// Length of the private key block at the start of `rest`, closed or cut off.
fn pem_key(rest: &[u8]) -> Option<usize> {
    let head = PEM_BEGIN.len() + pem_marker(&rest[PEM_BEGIN.len()..])?;
    let (mut len, mut run, mut longest) = (head, 0, 0);
    for b in &rest[head..] {
        let base64 = b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/' | b'=');
        // The rest are line ends, also written as `\n`, and the headers of an encrypted key.
        if !base64 && !matches!(b, b'\n' | b'\r' | b'\t' | b' ' | b'\\' | b':' | b',' | b'-') {
            break;
        }
        if rest[len..].starts_with(PEM_END) {
            len += PEM_END.len();
            len += pem_marker(&rest[len..]).unwrap_or(0);
            break;
        }
        // Another block: its own scan begins there, so that no byte is scanned twice.
        if rest[len..].starts_with(PEM_BEGIN) {
            break;
        }
        run = if base64 { run + 1 } else { 0 };
        longest = longest.max(run);
        len += 1;
    }
    (longest >= PEM_RUN).then_some(len)
}

/// Length of `RSA PRIVATE KEY-----` with any name before it.
fn pem_marker(rest: &[u8]) -> Option<usize> {
    let name = rest.iter().take(PEM_NAME).take_while(|b| b.is_ascii_uppercase() || **b == b' ').count();
    let words = &rest[..rest.len().min(name + b"-----".len())];
    words.ends_with(PEM_KEY).then_some(words.len())
}

/// Shows `f` every text of an event that comes from outside; ids, hashes and names of ours are none.
fn for_each_text(event: &mut Event, f: &mut impl FnMut(&mut String)) {
    match event {
        Event::SessionStarted(info) | Event::SessionResumed(info) => session_texts(info, f),
        Event::InputsListed { profile, names, .. } => {
            f(profile);
            names.iter_mut().for_each(f);
        }
        Event::UserSaid { text }
        | Event::ModelDelta { text, .. }
        | Event::RunOutput { text, .. }
        | Event::TurnEnded { answer: text, .. }
        | Event::Note { text, .. }
        | Event::RunStarted { runtime: text, .. }
        | Event::SessionEnded { reason: text } => f(text),
        Event::ModelChanged { model, base_url, .. } => {
            f(model);
            f(base_url);
        }
        Event::RebuildDecided { cells, .. } => cells.iter_mut().for_each(|cell| f(&mut cell.code)),
        Event::TermsChanged { .. } | Event::LimitsChanged { .. } => {}
        Event::ModelReplied(reply) => reply_texts(reply, f),
        Event::ArtifactSaved { name, path, .. } => {
            f(name);
            f(path);
        }
        Event::SandboxFailed { failure } => failure_texts(failure, f),
        Event::ModelFailed(ModelFailure { failure, partial, kind: _ }) => {
            failure_texts(failure, f);
            f(partial);
        }
        Event::CodeProposed(Proposal { code, raw, .. }) => {
            f(code);
            raw.iter_mut().for_each(&mut *f);
        }
        Event::CodeApproved { edited: text, .. } | Event::CodeRejected { reason: text, .. } => {
            text.iter_mut().for_each(f);
        }
        Event::RunResult { result, .. } => result_texts(result, f),
        Event::RunFinished(finished) => finished_texts(finished, f),
    }
}

fn session_texts(info: &mut SessionInfo, f: &mut impl FnMut(&mut String)) {
    f(&mut info.model);
    f(&mut info.base_url);
    f(&mut info.folder);
}

fn reply_texts(reply: &mut Reply, f: &mut impl FnMut(&mut String)) {
    f(&mut reply.text);
    for Call { code, raw, .. } in &mut reply.calls {
        f(code);
        raw.iter_mut().for_each(&mut *f);
    }
    match &mut reply.problem {
        Some(Problem::BrokenCall { why }) => f(why),
        Some(Problem::Empty | Problem::LostCall | Problem::Cut | Problem::AnnouncedOnly) | None => {}
    }
    f(&mut reply.finish);
}

fn failure_texts(failure: &mut Failure, f: &mut impl FnMut(&mut String)) {
    f(&mut failure.what);
    f(&mut failure.why);
    f(&mut failure.hint);
}

fn result_texts(result: &mut ResultBundle, f: &mut impl FnMut(&mut String)) {
    f(&mut result.text);
    if let Some(table) = &mut result.table {
        for (name, kind) in &mut table.columns {
            f(name);
            f(kind);
        }
        table.rows.iter_mut().flatten().for_each(f);
    }
}

fn finished_texts(finished: &mut RunFinished, f: &mut impl FnMut(&mut String)) {
    match &mut finished.outcome {
        Outcome::SetupFailed { failure, .. } | Outcome::BackendLost { failure, .. } => failure_texts(failure, f),
        Outcome::Exited { .. }
        | Outcome::Signaled { .. }
        | Outcome::TimeLimit
        | Outcome::CpuLimit
        | Outcome::MemoryLimit
        | Outcome::OutputLimit
        | Outcome::Cancelled => {}
    }
    finished.artifacts.iter_mut().for_each(|a| f(&mut a.name));
    finished.notes.iter_mut().for_each(f);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::event::How;
    use crate::log::sample;
    use proptest::prelude::*;

    /// Made-up credentials, put together here so that no scanner takes this file for a leak.
    fn made_up(prefix: &str, len: usize) -> String {
        let body: String = "aB3dE5gH7jK9mN1pQ2rS4tU6vW8xY0z".chars().cycle().take(len).collect();
        format!("{prefix}{body}")
    }

    fn redact(text: &str) -> String {
        Redactor::default().text(text.into())
    }

    #[test]
    fn known_shapes_are_taken_out_and_counted() {
        let mut redactor = Redactor::default();
        for (secret, kind) in [
            (made_up("sk-ant-api03-", 80), "anthropic-key"),
            (made_up("sk-proj-", 48), "api-key"),
            (made_up("sk-", 48), "api-key"),
            (made_up("ghp_", 36), "github-token"),
            (made_up("ghs_", 36), "github-token"),
            (made_up("github_pat_", 82), "github-token"),
            (made_up("glpat-", 20), "gitlab-token"),
            (format!("AKIA{}", "Q7".repeat(8)), "aws-key-id"),
            (made_up("AIza", 35), "google-key"),
            (made_up("hf_", 34), "huggingface-token"),
            (made_up("xoxb-1234-", 24), "slack-token"),
            (format!("e2b_{}", "0f".repeat(20)), "e2b-key"),
            (made_up("Bearer ", 40), "bearer-token"),
        ] {
            let before = redactor.counts().get(kind).copied().unwrap_or(0);
            for (left, right) in
                [("", ""), ("KEY=", "\n"), ("{'key': '", "'}"), ("https://x/?key=", "&q=1"), ("é", "é")]
            {
                let text = format!("{left}{secret}{right}");
                assert_eq!(redactor.text(text.clone()), format!("{left}[redacted:{kind}]{right}"), "{text}");
            }
            assert_eq!(redactor.counts()[kind], before + 5);
        }
    }

    #[test]
    fn private_keys_are_taken_out_whole_or_cut() {
        let lines = format!("{}\n", made_up("", 64)).repeat(5);
        for name in ["", "RSA ", "OPENSSH ", "ENCRYPTED "] {
            let (begin, end) =
                (format!("-----BEGIN {name}PRIVATE KEY-----"), format!("-----END {name}PRIVATE KEY-----"));
            let block = format!("{begin}\n{lines}{end}");
            assert_eq!(redact(&format!("a\n{block}\nb")), "a\n[redacted:private-key]\nb");
            assert_eq!(redact(&block.replace('\n', "\\n")), "[redacted:private-key]");
            assert_eq!(redact(&format!("{begin}\n{lines}!")), "[redacted:private-key]!");
            let talk = format!("if '{begin}' in text and '{end}' in text: print('a key')");
            assert_eq!(redact(&talk), talk);
            let talk = format!(
                "{begin} is how such a file starts, and then there is a lot of text in lines of a fixed length"
            );
            assert_eq!(redact(&talk), talk);
        }
        let public = format!("-----BEGIN PUBLIC KEY-----\n{lines}-----END PUBLIC KEY-----");
        assert_eq!(redact(&public), public);
    }

    #[test]
    fn ordinary_text_hashes_and_code_stay() {
        for text in [
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
            "sha256:2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b",
            "<div class=\"sk-estimator-doc-link-fitted sk-container-id-12 sk-toggleable__content-10\">",
            "task-0123456789ABCDEFabcdef disk-A1b2C3d4E5f6G7h8I9j0K1 risk-",
            "sk-learn sk- sk-short hf_hub_download_with_a_long_name_2 hf_token",
            "from huggingface_hub import hf_hub_download; AKIAS AKIA AIza ghp_ ghp_token",
            "Bearer of good news, Bearer authentication_is_used_here, bearer shares 2024",
            "AKIAABCDEFGHIJKLMNOPQRSTUVWXYZ",
            "df['a_very_long_column_name_with_2_numbers_1234567890'].groupby(level=0)",
            "550e8400-e29b-41d4-a716-446655440000 e2b_template xoxb-",
            "ollama",
        ] {
            assert_eq!(Redactor::new(vec!["ollama".into()]).text(text.into()), text);
        }
    }

    #[test]
    fn configured_secrets_are_found_anywhere_the_longest_first() {
        let mut redactor =
            Redactor::new(vec!["hunter2-hunter2".into(), " hunter2-hunter2-more\n".into(), "ollama".into()]);
        let text = redactor.text("xhunter2-hunter2-morex hunter2-hunter2hunter2-hunter2 ollama".into());
        assert_eq!(text, "x[redacted:secret]x [redacted:secret][redacted:secret] ollama");
        assert_eq!(redactor.counts()["secret"], 3);
        let text = format!("hunter2-hunter2 {}", made_up("ghp_", 36));
        let exact = Redactor::exact(vec!["hunter2-hunter2".into()]).text(text.clone());
        assert_eq!(exact, text.replace("hunter2-hunter2", "[redacted:secret]"));
    }

    const SECRET: &str = "hunter2-hunter2";

    /// Fields that hold no text from outside: names and ids of ours, hashes, versions, settings.
    const OURS: [&str; 20] = [
        "type",
        "version",
        "id",
        "started",
        "mode",
        "executor",
        "tier",
        "capabilities",
        "policy",
        "python",
        "packages",
        "channel",
        "how",
        "call",
        "by",
        "network",
        "stream",
        "status",
        "kind",
        "png",
    ];

    /// Puts the secret into every other text.
    fn poison(value: &mut serde_json::Value) {
        match value {
            serde_json::Value::String(text) => text.push_str(SECRET),
            serde_json::Value::Array(items) => items.iter_mut().for_each(poison),
            serde_json::Value::Object(fields) => {
                fields.iter_mut().filter(|(name, _)| !OURS.contains(&name.as_str())).for_each(|(_, v)| poison(v));
            }
            _ => {}
        }
    }

    #[test]
    fn no_text_of_any_event_is_forgotten() {
        let mut events: Vec<Event> = sample::records().into_iter().map(|r| r.event).collect();
        let text = String::new;
        events.push(Event::CodeRejected { step: 1, attempt: 1, call: "c".into(), reason: Some(text()) });
        let call = Call { id: text(), code: text(), timeout_seconds: None, how: How::Call, raw: Some(text()) };
        let problem = Some(Problem::BrokenCall { why: text() });
        events.push(Event::ModelReplied(Box::new(Reply { calls: vec![call], problem, ..Reply::default() })));
        let failure = Failure::new("what", "why", "hint");
        for outcome in [
            Outcome::SetupFailed { failure: failure.clone(), missing: false },
            Outcome::BackendLost { failure, missing: true },
        ] {
            let Some(Event::RunFinished(finished)) = events.iter().find(|e| matches!(e, Event::RunFinished(_))) else {
                panic!()
            };
            let notes = vec!["note".into()];
            events.push(Event::RunFinished(Box::new(RunFinished { outcome, notes, ..(**finished).clone() })));
        }
        let mut redactor = Redactor::new(vec![SECRET.into()]);
        for event in events {
            let mut value = serde_json::to_value(event).unwrap();
            poison(&mut value);
            let poisoned: Event = serde_json::from_value(value.clone()).unwrap();
            let redacted = serde_json::to_string(&redactor.event(poisoned)).unwrap();
            assert!(!redacted.contains(SECRET), "{redacted}");
            assert_eq!(redacted.matches("[redacted:secret]").count(), value.to_string().matches(SECRET).count());
        }
    }

    #[test]
    fn repeated_beginnings_take_linear_time() {
        for begin in ["-----BEGIN PRIVATE KEY-----", "sk-", "Bearer ", "Bearer a.", "xoxb-", "-"] {
            let text = begin.repeat(2_000_000 / begin.len());
            assert_eq!(redact(&text), text);
        }
    }

    proptest! {
        #[test]
        fn what_stays_is_as_it_was(text in "(sk-|ghp_|Bearer |[aA0é -]|-----BEGIN |hunter22){0,30}") {
            let mut redactor = Redactor::new(vec!["hunter22".into()]);
            let out = redactor.text(text.clone());
            prop_assert!(!out.contains("hunter22"));
            if redactor.counts().is_empty() {
                prop_assert_eq!(out, text);
            }
        }
    }
}
