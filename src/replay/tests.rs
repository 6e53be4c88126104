use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::core::command::{Answer, Mark, Position, Question, Transport};
use crate::core::event::{Channel, Event, NoteKind, Record, SCHEMA_VERSION};
use crate::log::blobs::Blobs;
use crate::log::redact::Redactor;

/// A screen that keeps what it is told, as the real one does.
struct Screen {
    orders: mpsc::Sender<Command>,
    updates: mpsc::Receiver<Update>,
    seen: Vec<Arc<Record>>,
    resets: usize,
    batches: usize,
    position: Position,
}

impl Screen {
    fn start(recording: Recording, options: Options) -> Self {
        Self::with(recording, options, Path::new("/nowhere"))
    }

    fn with(recording: Recording, options: Options, session: &Path) -> Self {
        let redactor = Redactor::new(vec![]);
        let desk =
            crate::desk::Desk { data: session.into(), session: Some(session.into()), folder: session.into(), redactor };
        let (orders, commands) = mpsc::channel(64);
        let (sender, updates) = mpsc::channel(4);
        tokio::spawn(run(recording, options, desk, commands, sender));
        Self { orders, updates, seen: Vec::new(), resets: 0, batches: 0, position: Position::default() }
    }

    async fn order(&self, order: Transport) {
        self.orders.send(Command::Transport(order)).await.unwrap();
    }

    /// The next update, folded.
    async fn take(&mut self) -> Update {
        let update = self.updates.recv().await.unwrap();
        match &update {
            Update::Records(records) => {
                self.seen.extend(records.iter().cloned());
                self.batches += 1;
            }
            Update::Reset => {
                self.seen.clear();
                self.resets += 1;
            }
            Update::Position(position) => self.position = position.clone(),
            Update::Reply(..) => {}
            other => panic!("{other:?}"),
        }
        update
    }

    /// Up to and with the next position: how many records are shown then.
    async fn settle(&mut self) -> usize {
        while !matches!(self.take().await, Update::Position(_)) {}
        // What is shown is what the position says, and it is the start of the session.
        assert_eq!(self.position.at, self.seen.len());
        assert!(self.seen.iter().enumerate().all(|(at, record)| record.seq == at as u64));
        self.position.at
    }

    async fn after(&mut self, order: Transport) -> usize {
        self.order(order).await;
        self.settle().await
    }

    /// Nothing comes for so long.
    async fn quiet(&mut self, time: Duration) {
        let more = tokio::time::timeout(time, self.updates.recv()).await;
        assert!(more.is_err(), "{more:?}");
    }
}

fn note(text: &str) -> Event {
    Event::Note { kind: NoteKind::Warning, text: text.into() }
}

fn said() -> Event {
    Event::UserSaid { text: "why?".into() }
}

fn delta(channel: Channel) -> Event {
    Event::ModelDelta { channel, text: "x".into() }
}

fn recording(events: impl IntoIterator<Item = (u64, Event)>) -> Recording {
    let record = |(seq, (at_ms, event))| Record { v: SCHEMA_VERSION, seq: seq as u64, at_ms, event };
    let records = events.into_iter().enumerate().map(|e| Arc::new(record(e))).collect();
    Recording::new(records, Vec::new())
}

fn notes(moments: &[u64]) -> Recording {
    recording(moments.iter().map(|at_ms| (*at_ms, note("x"))))
}

fn paused() -> Options {
    Options { paused: true, ..Options::default() }
}

fn elapsed(since: Instant) -> u64 {
    since.elapsed().as_millis() as u64
}

#[tokio::test(start_paused = true)]
async fn records_come_when_they_came_and_pauses_are_short() {
    let start = Instant::now();
    let mut screen = Screen::start(notes(&[0, 500, 90_500, 91_000]), Options::default());
    assert_eq!(screen.settle().await, 0, "the screen knows the length before the first record");
    assert_eq!((screen.position.total, screen.position.end_ms, screen.position.playing), (4, 3000, true));
    let mut moments = Vec::new();
    for shown in 1..=4 {
        assert_eq!(screen.settle().await, shown);
        moments.push(elapsed(start));
    }
    let expected = [0, 500, 2500, 3000];
    for (moment, expected) in moments.iter().zip(expected) {
        assert!((expected..expected + 50).contains(moment), "{moments:?}");
    }
    assert_eq!((screen.position.at_ms, screen.position.playing), (3000, false));
    screen.quiet(Duration::from_secs(3600)).await;
}

#[tokio::test(start_paused = true)]
async fn without_a_limit_a_pause_is_as_long_as_it_was() {
    let start = Instant::now();
    let options = Options { idle_limit_ms: None, ..Options::default() };
    let mut screen = Screen::start(notes(&[0, 90_000]), options);
    while screen.settle().await < 2 {}
    assert!((90_000..90_100).contains(&elapsed(start)));
}

#[tokio::test(start_paused = true)]
async fn what_came_close_together_is_one_update() {
    let mut screen = Screen::start(notes(&(0..3000).collect::<Vec<_>>()), Options::default());
    while screen.settle().await < 3000 {}
    assert!((50..=110).contains(&screen.batches), "{} batches for three seconds", screen.batches);
}

#[tokio::test(start_paused = true)]
async fn nothing_happens_while_paused() {
    let mut screen = Screen::start(notes(&[0, 10, 20]), paused());
    assert_eq!(screen.settle().await, 0);
    screen.quiet(Duration::from_secs(86_400)).await;
}

#[tokio::test(start_paused = true)]
async fn a_pause_keeps_the_moment_between_two_records() {
    let mut screen = Screen::start(notes(&[0, 1000, 2000]), Options::default());
    while screen.settle().await < 1 {}
    tokio::time::sleep(Duration::from_millis(600)).await;
    screen.after(Transport::Toggle).await;
    assert!(!screen.position.playing);
    screen.quiet(Duration::from_secs(60)).await;
    screen.after(Transport::Toggle).await;
    let start = Instant::now();
    assert_eq!(screen.settle().await, 2);
    assert!((350..450).contains(&elapsed(start)), "{}", elapsed(start));
}

#[tokio::test(start_paused = true)]
async fn playing_from_the_end_starts_over() {
    let mut screen = Screen::start(notes(&[0, 100]), Options::default());
    while screen.settle().await < 2 {}
    assert_eq!(screen.after(Transport::Toggle).await, 0);
    assert!(screen.position.playing);
    while screen.settle().await < 2 {}
    assert_eq!((screen.resets, screen.position.playing), (1, false));
}

#[tokio::test(start_paused = true)]
async fn speed_doubles_and_halves_within_its_bounds() {
    let mut screen = Screen::start(notes(&[0, 1600, 3200]), Options::default());
    while screen.settle().await < 1 {}
    for _ in 0..4 {
        screen.after(Transport::Faster(true)).await;
    }
    let start = Instant::now();
    screen.settle().await;
    assert!((90..140).contains(&elapsed(start)), "{}", elapsed(start));
    for _ in 0..20 {
        screen.after(Transport::Faster(true)).await;
    }
    assert_eq!(screen.position.speed, FASTEST);
    for _ in 0..20 {
        screen.after(Transport::Faster(false)).await;
    }
    assert_eq!(screen.position.speed, SLOWEST);
    for speed in [f64::NAN, f64::INFINITY, 0.0, -3.0, 1e300] {
        let mut screen = Screen::start(notes(&[0]), Options { speed, ..paused() });
        screen.settle().await;
        assert!((SLOWEST..=FASTEST).contains(&screen.position.speed), "{speed}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_step_is_a_record_or_a_second_of_a_stream_and_leads_back_the_same_way() {
    let text = || delta(Channel::Text);
    let stream = (0..40).map(|n| (100 + n * 50, text()));
    let events = [(0, note("x"))].into_iter().chain(stream).chain([(2100, delta(Channel::Code)), (2100, note("x"))]);
    let mut screen = Screen::start(recording(events), Options::default());
    screen.settle().await;
    let mut ends = Vec::new();
    while ends.last() != Some(&43) {
        ends.push(screen.after(Transport::Step(true)).await);
        assert!(!screen.position.playing, "a step pauses");
    }
    assert_eq!(ends, [1, 22, 41, 42, 43]);
    assert_eq!((screen.after(Transport::Step(true)).await, screen.resets), (43, 0));
    for expected in [42, 41, 22, 1, 0, 0] {
        assert_eq!(screen.after(Transport::Step(false)).await, expected);
    }
}

#[tokio::test(start_paused = true)]
async fn only_what_is_missing_is_sent_on_the_way_forward() {
    let mut screen = Screen::start(notes(&[0; 10]), paused());
    assert_eq!(screen.settle().await, 0);
    assert_eq!(screen.after(Transport::Seek(4)).await, 4);
    assert_eq!(screen.after(Transport::Seek(7)).await, 7);
    assert_eq!((screen.after(Transport::Seek(usize::MAX)).await, screen.resets, screen.batches), (10, 0, 3));
    assert_eq!((screen.after(Transport::Seek(2)).await, screen.resets), (2, 1));
    assert_eq!((screen.after(Transport::End(true)).await, screen.after(Transport::End(false)).await), (10, 0));
    assert_eq!(screen.after(Transport::Seek(0)).await, 0, "every order is answered");
}

#[tokio::test(start_paused = true)]
async fn marks_are_passed_in_both_directions() {
    let events = [(0, note("x")), (1, said()), (2, note("x")), (3000, said()), (3001, note("x"))];
    let mut screen = Screen::start(recording(events), paused());
    screen.settle().await;
    assert_eq!(screen.position.marks[..], [(1, Mark::Question), (3, Mark::Question)]);
    for expected in [2, 4, 5, 5] {
        assert_eq!(screen.after(Transport::Mark(true)).await, expected);
    }
    for expected in [4, 2, 0, 0] {
        assert_eq!(screen.after(Transport::Mark(false)).await, expected);
    }
}

#[tokio::test(start_paused = true)]
async fn going_back_while_playing_passes_the_mark_that_just_was() {
    let events = [(0, said()), (2000, note("x")), (4000, said()), (4100, note("x")), (6000, note("x"))];
    let mut screen = Screen::start(recording(events), Options::default());
    while screen.settle().await < 4 {}
    assert_eq!(screen.after(Transport::Mark(false)).await, 1, "the second question was a moment ago");
    assert!(screen.position.playing);
    while screen.settle().await < 4 {}
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert_eq!(screen.after(Transport::Mark(false)).await, 3);
}

#[tokio::test(start_paused = true)]
async fn orders_that_come_together_are_one_way() {
    let mut screen = Screen::start(notes(&[0; 20_000]), paused());
    screen.settle().await;
    for n in 0..50 {
        screen.order(Transport::Seek(20_000 - n * 300)).await;
    }
    screen.order(Transport::Seek(5)).await;
    while screen.settle().await != 5 {}
    assert!(screen.batches <= 6, "{} batches", screen.batches);
    screen.quiet(Duration::from_secs(10)).await;
}

#[tokio::test(start_paused = true)]
async fn an_order_turns_a_long_way_around() {
    let mut screen = Screen::start(notes(&vec![0; 200_000]), paused());
    screen.settle().await;
    screen.order(Transport::End(true)).await;
    screen.take().await;
    assert_eq!(screen.after(Transport::Seek(10)).await, 10);
    assert!((1..10).contains(&screen.batches), "{} batches of 50", screen.batches);
}

#[tokio::test(start_paused = true)]
async fn a_slow_screen_holds_the_replay_up() {
    let moments: Vec<u64> = (0..100).map(|n| n * 100).collect();
    let mut screen = Screen::start(notes(&moments), Options::default());
    while screen.settle().await < 10 {}
    tokio::time::sleep(Duration::from_secs(3600)).await;
    // What was in the channel and one more, then it goes on as if nothing had been.
    let mut at = 0;
    for _ in 0..8 {
        at = screen.settle().await;
    }
    assert!((18..25).contains(&at), "{at}");
}

#[tokio::test(start_paused = true)]
async fn moments_without_sense_do_no_harm() {
    let wild = [u64::MAX, 0, 5, u64::MAX, u64::MAX - 1, 3];
    for idle_limit_ms in [Some(0), Some(2000), Some(u64::MAX), None] {
        for speed in [SLOWEST, FASTEST] {
            let mut screen = Screen::start(notes(&wild), Options { speed, idle_limit_ms, paused: false });
            while screen.settle().await < wild.len() {}
            assert!(!screen.position.playing);
        }
        let rising = [0, u64::MAX / 2, u64::MAX - 1, u64::MAX];
        let mut screen = Screen::start(notes(&rising), Options { idle_limit_ms, ..Options::default() });
        while screen.settle().await < rising.len() {}
        let day = 24 * 60 * 60 * 1000;
        assert!(screen.position.end_ms <= 2 * day + 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_hundred_thousand_records_are_played_to_the_last() {
    let moments: Vec<u64> = (0..100_000).map(|n| n * 25).collect();
    let mut screen = Screen::start(notes(&moments), Options { speed: FASTEST, ..Options::default() });
    while screen.settle().await < 100_000 {}
    assert_eq!(screen.after(Transport::Seek(99_000)).await, 99_000);
    assert_eq!((screen.resets, screen.position.playing), (1, false));
}

#[tokio::test]
async fn blobs_are_answered_and_a_wrong_hash_is_refused() {
    let session = tempfile::tempdir().unwrap();
    let blobs = Blobs::of_session(session.path());
    let (good, bad) = (blobs.put(b"figure").unwrap(), blobs.put(b"other").unwrap());
    std::fs::write(session.path().join("blobs").join(&bad), "0ther").unwrap();
    let mut screen = Screen::with(notes(&[0]), paused(), session.path());
    for (id, question) in [
        (1, Question::Blob(good)),
        (2, Question::Blob(bad)),
        (3, Question::Blob("../log.jsonl".into())),
        (4, Question::Models),
    ] {
        screen.orders.send(Command::Ask(id, question)).await.unwrap();
    }
    let mut answers = Vec::new();
    while answers.len() < 4 {
        if let Update::Reply(id, answer) = screen.take().await {
            answers.push((id, answer));
        }
    }
    assert_eq!(answers[0], (1, Answer::Blob(Arc::from(&b"figure"[..]))));
    let why = |at: usize| match &answers[at] {
        (id, Answer::Failed(failure)) => (*id, failure.why.as_str()),
        other => panic!("{other:?}"),
    };
    assert_eq!(why(1), (2, "its content was changed"));
    assert_eq!(why(2), (3, "its name is not a hash"));
    assert_eq!(why(3), (4, "a replay has no model and runs nothing"));
}

#[tokio::test(start_paused = true)]
async fn it_ends_with_its_screen_and_ignores_orders_to_a_session() {
    let mut screen = Screen::start(notes(&[0]), paused());
    screen.settle().await;
    for command in [Command::Interrupt, Command::Say("x".into()), Command::Shutdown] {
        screen.orders.send(command).await.unwrap();
    }
    assert_eq!(screen.updates.recv().await, None);

    let screen = Screen::start(notes(&[0]), paused());
    let Screen { orders, updates, .. } = screen;
    drop(updates);
    orders.closed().await;
    let Screen { orders, mut updates, .. } = Screen::start(notes(&[0, 1, 2]), Options::default());
    drop(orders);
    while updates.recv().await.is_some() {}
}

fn sample() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("docs/sample-session.jsonl")
}

#[tokio::test(start_paused = true)]
async fn the_sample_session_plays_from_its_file() {
    let recording = Recording::open(&sample()).unwrap();
    let mut screen = Screen::start(recording, Options::default());
    let start = Instant::now();
    while screen.settle().await < screen.position.total {}
    assert_eq!(screen.position.warnings[..], [] as [String; 0]);
    assert!((15_000..45_000).contains(&elapsed(start)), "a minute without the long pauses: {}", elapsed(start));
}

fn any_order() -> impl Strategy<Value = (Transport, u64)> {
    let order = prop_oneof![
        Just(Transport::Toggle),
        any::<bool>().prop_map(Transport::Step),
        any::<bool>().prop_map(Transport::Mark),
        any::<bool>().prop_map(Transport::Faster),
        any::<bool>().prop_map(Transport::End),
        (0usize..10_000).prop_map(Transport::Seek),
    ];
    // Orders come together or far apart.
    (order, prop_oneof![Just(0), 1u64..3000])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
    #[test]
    fn whatever_is_ordered_the_screen_knows_the_start_of_the_session(orders in prop::collection::vec(any_order(), 1..30)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let event = |n: u64| (n * 7, if n.is_multiple_of(500) { said() } else { delta(Channel::Text) });
            let mut screen = Screen::start(recording((0..9000).map(event)), paused());
            for (order, pause) in orders {
                screen.order(order).await;
                // `settle` holds what was told against what the position says.
                let until = Instant::now() + Duration::from_millis(pause);
                while Instant::now() < until {
                    let _late = tokio::time::timeout_at(until, screen.settle()).await;
                }
            }
            while tokio::time::timeout(Duration::from_secs(10), screen.settle()).await.is_ok() {}
            assert!(!screen.position.playing);
        });
    }
}
