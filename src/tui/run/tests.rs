use super::*;
use crate::tui::Exit;
use crate::tui::external::{self, External};
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::backend::TestBackend;
use ratatui::layout::Rect;
use ratatui::{Frame, Terminal};

/// Shows how many things it was told, and does what the keys say.
#[derive(Default)]
struct Scripted {
    told: Vec<Msg>,
    at: Vec<Instant>,
    dirty: bool,
    deadline: Option<Instant>,
    laid: Rect,
    /// Taken off the clock by each update, to act as one that is slow.
    slow: Duration,
}

impl View for Scripted {
    fn update(&mut self, msg: Msg, now: Instant, actions: &mut Vec<Action>) {
        std::thread::sleep(self.slow);
        self.dirty = true;
        self.at.push(now);
        if let Msg::Key(key) = &msg {
            match key.code {
                KeyCode::Char('q') => actions.push(Action::Leave(Exit::Quit)),
                KeyCode::Char('s') => actions.push(Action::Send(Command::Interrupt)),
                KeyCode::Char('S') => actions.push(Action::Send(Command::Say("more".into()))),
                KeyCode::Char('e') => actions.push(Action::Edit { text: "one".into(), suffix: ".py" }),
                KeyCode::Char('z') => actions.push(Action::Suspend),
                KeyCode::Char('i') => self.dirty = false,
                _ => {}
            }
        }
        if msg == Msg::Tick {
            self.deadline = None;
        }
        self.told.push(msg);
    }

    fn layout(&mut self, area: Rect) {
        self.laid = area;
    }

    fn draw(&self, frame: &mut Frame) {
        assert_eq!(frame.area(), self.laid);
        frame.render_widget(format!("{} told", self.told.len()), frame.area());
    }

    fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    fn take_dirty(&mut self) -> bool {
        std::mem::take(&mut self.dirty)
    }
}

/// A terminal made of channels.
struct Fake {
    incoming: mpsc::UnboundedReceiver<Incoming>,
    terminal: Terminal<TestBackend>,
    frames: Vec<Instant>,
    calls: Vec<&'static str>,
    editor: &'static str,
    released: bool,
}

impl Screen for Fake {
    async fn next(&mut self) -> Incoming {
        self.incoming.recv().await.unwrap_or(Incoming::Gone)
    }

    fn ready(&mut self) -> Option<Incoming> {
        self.incoming.try_recv().ok()
    }

    fn draw(&mut self, view: &mut impl View) -> io::Result<()> {
        assert!(!self.released, "nothing is drawn into an editor");
        self.frames.push(Instant::now());
        let Ok(()) = crate::tui::terminal::draw(&mut self.terminal, view);
        Ok(())
    }

    fn release(&mut self) -> io::Result<()> {
        self.calls.push("release");
        self.released = true;
        Ok(())
    }

    fn claim(&mut self) -> io::Result<()> {
        self.calls.push("claim");
        self.released = false;
        Ok(())
    }

    fn stop(&mut self, all: bool) -> io::Result<()> {
        self.calls.push(if all { "stop all" } else { "stop" });
        Ok(())
    }

    fn resume(&mut self) -> io::Result<()> {
        self.calls.push("resume");
        Ok(())
    }

    fn edit(&mut self, text: &str, suffix: &str) -> Result<External, Failure> {
        self.release().unwrap();
        external::start(self.editor, text, suffix)
    }

    fn set_mouse(&mut self, _on: bool) -> io::Result<()> {
        Ok(())
    }

    fn copy(&mut self, _text: &str) -> Result<(), Failure> {
        Ok(())
    }

    fn notify(&mut self, _text: &str) -> io::Result<()> {
        Ok(())
    }
}

struct Setup {
    view: Scripted,
    screen: Fake,
    keys: mpsc::UnboundedSender<Incoming>,
    orders: mpsc::Sender<Command>,
    commands: mpsc::Receiver<Command>,
    told: mpsc::Sender<Update>,
    updates: mpsc::Receiver<Update>,
}

fn setup() -> Setup {
    let (keys, incoming) = mpsc::unbounded_channel();
    let terminal = Terminal::new(TestBackend::new(20, 2)).unwrap();
    let (orders, commands) = mpsc::channel(1);
    let (told, updates) = mpsc::channel(1024);
    let screen = Fake { incoming, terminal, frames: vec![], calls: vec![], editor: "true", released: false };
    Setup { view: Scripted::default(), screen, keys, orders, commands, told, updates }
}

fn key(c: char) -> Incoming {
    Incoming::Event(Event::Key(KeyEvent::new(KeyCode::Char(c), KeyModifiers::NONE)))
}

fn update() -> Update {
    Update::Starting("x".into())
}

fn idle(_: &mut Context<'_>) -> Poll<Msg> {
    Poll::Pending
}

impl Setup {
    /// Runs the loop beside what a person and a task do. `orders` moves into the loop.
    async fn with(&mut self, script: impl Future<Output = ()>) -> Result<Ended, Failure> {
        let orders = self.orders.clone();
        let looped = run(&mut self.view, &mut self.screen, orders, &mut self.updates, idle);
        tokio::join!(looped, script).0
    }

    fn shown(&self) -> String {
        self.screen.terminal.backend().buffer().content().iter().map(|cell| cell.symbol()).collect::<String>()
    }
}

async fn ms(ms: u64) {
    tokio::time::sleep(Duration::from_millis(ms)).await;
}

#[tokio::test(start_paused = true)]
async fn a_key_is_drawn_at_once_and_the_next_ones_at_sixty_a_second() {
    let mut s = setup();
    let keys = s.keys.clone();
    let began = Instant::now();
    let ended = s.with(async move {
        ms(1000).await;
        for _ in 0..200 {
            keys.send(key('x')).unwrap();
            ms(1).await;
        }
        ms(100).await;
        keys.send(key('q')).unwrap();
    });
    assert_eq!(ended.await, Ok(Ended::Left(Exit::Quit)));
    let frames = &s.screen.frames;
    assert_eq!(frames[1] - began, Duration::from_millis(1000), "the first key is drawn in the moment it comes");
    assert!(frames.windows(2).all(|pair| pair[1] - pair[0] >= FRAME));
    assert!((11..=14).contains(&frames.len()), "{}", frames.len());
    assert!(s.shown().starts_with("200 told"), "the last state is drawn: {}", s.shown());
}

#[tokio::test(start_paused = true)]
async fn nothing_is_drawn_while_nothing_changes() {
    let mut s = setup();
    let keys = s.keys.clone();
    s.with(async move {
        keys.send(key('i')).unwrap();
        ms(3_600_000).await;
        keys.send(key('q')).unwrap();
    })
    .await
    .unwrap();
    assert_eq!(s.screen.frames.len(), 1);
    assert_eq!(s.view.told.len(), 2, "no tick without a deadline");
}

#[tokio::test(start_paused = true)]
async fn a_deadline_comes_once_at_its_time() {
    let mut s = setup();
    let began = Instant::now();
    s.view.deadline = Some(began + Duration::from_millis(500));
    let keys = s.keys.clone();
    s.with(async move {
        ms(2000).await;
        keys.send(key('q')).unwrap();
    })
    .await
    .unwrap();
    assert_eq!(s.view.told[0], Msg::Tick);
    assert_eq!(s.view.at[0] - began, Duration::from_millis(500));
    assert_eq!(s.view.told.len(), 2);
}

/// Wants to be woken in the past, always.
struct Restless(u32);

impl View for Restless {
    fn update(&mut self, msg: Msg, _: Instant, actions: &mut Vec<Action>) {
        match msg {
            Msg::Tick => self.0 += 1,
            _ => actions.push(Action::Leave(Exit::Quit)),
        }
    }
    fn layout(&mut self, _: Rect) {}
    fn draw(&self, _: &mut Frame) {}
    fn deadline(&self) -> Option<Instant> {
        Some(Instant::now())
    }
    fn take_dirty(&mut self) -> bool {
        false
    }
}

#[tokio::test(start_paused = true)]
async fn a_view_that_always_wants_to_be_woken_does_not_spin() {
    let mut s = setup();
    let mut view = Restless(0);
    let keys = s.keys.clone();
    let looped = run(&mut view, &mut s.screen, s.orders, &mut s.updates, idle);
    let script = async move {
        ms(1000).await;
        keys.send(key('q')).unwrap();
    };
    tokio::join!(looped, script).0.unwrap();
    assert!((50..=61).contains(&view.0), "{}", view.0);
}

#[tokio::test]
async fn keys_come_before_a_flood_of_updates_and_the_flood_goes_on() {
    let mut s = setup();
    for _ in 0..1000 {
        s.told.send(update()).await.unwrap();
    }
    s.view.slow = Duration::from_millis(1);
    let keys = s.keys.clone();
    s.with(async move {
        for c in ['x', 'x', 'q'] {
            keys.send(key(c)).unwrap();
            ms(50).await;
        }
    })
    .await
    .unwrap();
    let last = s.view.told.len() - 1;
    let keys: Vec<usize> = (0..=last).filter(|i| matches!(s.view.told[*i], Msg::Key(_))).collect();
    assert_eq!(keys.len(), 3);
    assert!(s.view.told.len() < 300, "the person did not wait for the flood: {}", s.view.told.len());
    assert!(s.screen.frames.len() >= 3, "and saw frames in between");
}

#[tokio::test]
async fn no_update_is_lost_where_there_is_more_than_a_frame_has_time_for() {
    let mut s = setup();
    s.view.slow = Duration::from_millis(1);
    let (told, keys) = (s.told.clone(), s.keys.clone());
    s.with(async move {
        for n in 0..200 {
            told.send(Update::Starting(n.to_string())).await.unwrap();
        }
        while told.capacity() < told.max_capacity() {
            ms(10).await;
        }
        keys.send(key('q')).unwrap();
    })
    .await
    .unwrap();
    let updates = s.view.told.iter().filter_map(|msg| match msg {
        Msg::Update(Update::Starting(text)) => Some(text.parse().unwrap()),
        _ => None,
    });
    assert_eq!(updates.collect::<Vec<u32>>(), (0..200).collect::<Vec<u32>>());
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_keys_does_not_hold_updates_up() {
    let mut s = setup();
    for _ in 0..10 * MAX_DRAIN {
        s.keys.send(key('x')).unwrap();
    }
    s.told.send(update()).await.unwrap();
    s.keys.send(key('q')).unwrap();
    s.with(async {}).await.unwrap();
    let at = s.view.told.iter().position(|msg| matches!(msg, Msg::Update(_))).unwrap();
    assert!(at <= MAX_DRAIN + 2, "{at}");
}

#[tokio::test(start_paused = true)]
async fn orders_wait_for_room_in_their_order_and_the_loop_does_not() {
    let mut s = setup();
    let keys = s.keys.clone();
    let mut commands = s.commands;
    let (view, screen) = (&mut s.view, &mut s.screen);
    let looped = run(view, screen, s.orders, &mut s.updates, idle);
    let script = async move {
        for c in ['s', 'S', 's', 'x'] {
            keys.send(key(c)).unwrap();
        }
        ms(5000).await;
        let mut got = vec![];
        for _ in 0..2 {
            got.push(commands.recv().await.unwrap());
        }
        keys.send(key('q')).unwrap();
        got.push(commands.recv().await.unwrap());
        got
    };
    let (ended, got) = tokio::join!(looped, script);
    ended.unwrap();
    assert_eq!(got, [Command::Interrupt, Command::Say("more".into()), Command::Interrupt]);
    assert_eq!(s.view.at[3] - s.view.at[0], Duration::ZERO, "the keys behind were not held up");
}

#[tokio::test(start_paused = true)]
async fn the_end_of_the_task_behind_is_told_once() {
    let mut s = setup();
    let told = s.told.clone();
    s.told = mpsc::channel(1).0;
    let keys = s.keys.clone();
    s.with(async move {
        drop(told);
        ms(1000).await;
        keys.send(key('q')).unwrap();
    })
    .await
    .unwrap();
    assert_eq!(s.view.told[0], Msg::Update(Update::Ended));
    assert_eq!(s.view.told.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn signals_and_the_end_of_the_terminal_end_it() {
    let table = [
        (Incoming::Notice(Notice::End(15)), Ended::Signal(15)),
        (Incoming::Notice(Notice::End(1)), Ended::Signal(1)),
        (Incoming::Gone, Ended::Signal(1)),
    ];
    for (incoming, ended) in table {
        let mut s = setup();
        s.keys.send(incoming).unwrap();
        assert_eq!(s.with(async {}).await, Ok(ended));
    }
    let mut s = setup();
    s.keys.send(Incoming::Panicked).unwrap();
    assert!(s.with(async {}).await.unwrap_err().hint.contains("bug"));
}

#[tokio::test(start_paused = true)]
async fn a_released_key_is_no_key() {
    let mut s = setup();
    let mut up = KeyEvent::new(KeyCode::Char('x'), KeyModifiers::NONE);
    up.kind = KeyEventKind::Release;
    s.keys.send(Incoming::Event(Event::Key(up))).unwrap();
    let mut again = up;
    again.kind = KeyEventKind::Repeat;
    s.keys.send(Incoming::Event(Event::Key(again))).unwrap();
    s.keys.send(key('q')).unwrap();
    s.with(async {}).await.unwrap();
    assert_eq!(s.view.told[0], Msg::Key(again));
    assert_eq!(s.view.told.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_stop_draws_the_whole_screen_again() {
    let mut s = setup();
    let keys = s.keys.clone();
    s.with(async move {
        keys.send(key('z')).unwrap();
        ms(100).await;
        keys.send(Incoming::Notice(Notice::Stop)).unwrap();
        keys.send(Incoming::Notice(Notice::Continue)).unwrap();
        ms(100).await;
        keys.send(key('q')).unwrap();
    })
    .await
    .unwrap();
    assert_eq!(s.screen.calls, ["stop all", "stop", "resume"]);
    assert_eq!(s.screen.frames.len(), 3);
}

#[tokio::test]
async fn an_editor_has_the_terminal_to_itself_and_the_task_behind_goes_on() {
    let mut s = setup();
    s.screen.editor = "sh -c 'sleep 0.3; echo two > \"$1\"' editor";
    let (keys, told) = (s.keys.clone(), s.told.clone());
    s.with(async move {
        keys.send(key('e')).unwrap();
        ms(50).await;
        keys.send(Incoming::Notice(Notice::End(2))).unwrap();
        for _ in 0..2000 {
            told.send(update()).await.unwrap();
        }
        ms(3000).await;
        keys.send(key('q')).unwrap();
    })
    .await
    .unwrap();
    assert_eq!(s.screen.calls, ["release", "claim"]);
    let closed = s.view.told.iter().position(|msg| *msg == Msg::EditorClosed(Ok("two".into()))).unwrap();
    assert_eq!(closed, 2001, "all updates came while the editor ran");
}

#[tokio::test]
async fn an_editor_that_is_not_there_gives_the_terminal_back_to_the_screen() {
    let mut s = setup();
    s.screen.editor = "/no/such/editor";
    s.keys.send(key('e')).unwrap();
    s.keys.send(key('q')).unwrap();
    s.with(async {}).await.unwrap();
    assert_eq!(s.screen.calls, ["release", "claim"]);
    assert!(matches!(&s.view.told[1], Msg::EditorClosed(Err(failure)) if failure.what.contains("/no/such/editor")));
}

#[tokio::test]
async fn a_signal_ends_the_editor_too() {
    let mut s = setup();
    s.screen.editor = "sh -c 'trap \"exit 9\" TERM; sleep 60 & wait' editor";
    let keys = s.keys.clone();
    let began = std::time::Instant::now();
    let ended = s.with(async move {
        keys.send(key('e')).unwrap();
        ms(200).await;
        keys.send(Incoming::Notice(Notice::End(15))).unwrap();
    });
    assert_eq!(ended.await, Ok(Ended::Signal(15)));
    assert!(began.elapsed() < Duration::from_secs(30));
}

#[tokio::test(start_paused = true)]
async fn what_workers_send_wakes_the_loop() {
    let mut s = setup();
    let (worker, mut ready) = mpsc::channel(4);
    let background = |context: &mut Context<'_>| match ready.poll_recv(context) {
        Poll::Ready(Some(msg)) => Poll::Ready(msg),
        Poll::Ready(None) | Poll::Pending => Poll::Pending,
    };
    let keys = s.keys.clone();
    let looped = run(&mut s.view, &mut s.screen, s.orders, &mut s.updates, background);
    let script = async move {
        ms(100).await;
        for _ in 0..3 {
            worker.send(Msg::Paste("painted".into())).await.unwrap();
        }
        drop(worker);
        ms(100).await;
        keys.send(key('q')).unwrap();
    };
    tokio::join!(looped, script).0.unwrap();
    assert_eq!(s.view.told.len(), 4);
}

/// Pictures cannot be compared; what is said of them can.
impl PartialEq for Msg {
    fn eq(&self, other: &Self) -> bool {
        format!("{self:?}") == format!("{other:?}")
    }
}
