//! Figures. Owns what is known of each, which way the terminal draws them, and the pictures that are ready to be drawn.
//!
//! Decoding and scaling take longer than a frame may, so a thread of its own does both: a layout wants a figure at a size, the
//! picture comes back over a channel, and until then a line names it. Bytes come from the task behind the screen, asked for
//! once by [`Figures::needs`]. Nothing is asked of the terminal: its answers would come among the person's keys.

mod choice;
mod worker;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use tokio::sync::mpsc;

use self::choice::Way;
use self::worker::{Job, Picture};
use crate::core::clean::Clean;
use crate::tui::Graphics;
use crate::tui::theme::{Role, Theme};

/// Pictures that are kept beside those on the screen: going back and forth between runs draws at once.
const MAX_PICTURES: usize = 16;
/// What they take together, bytes; a figure that fills a large screen takes 10 MiB as Kitty has it.
const MAX_PICTURE_BYTES: usize = 24 * 1024 * 1024;
/// Undecoded figures that are kept beside those on the screen, bytes; they are asked for again when they are wanted.
const MAX_KEPT_BYTES: usize = 16 * 1024 * 1024;
/// Largest undecoded figure, bytes: as many as are decoded.
const MAX_BYTES: usize = 32 * 1024 * 1024;
/// Figures of which the size is remembered.
const MAX_KNOWN: usize = 4096;
/// Jobs that wait for the thread; what finds no room is wanted again with the next frame.
const MAX_JOBS: usize = 4;
/// Pixels of a picture for a terminal that draws pixels: more take longer to send than a person waits.
const MAX_PIXELS: f64 = 3_000_000.0;
/// Pixels of a character where the terminal does not say, columns and rows; only their ratio matters then.
const CELL: (u16, u16) = (10, 20);

/// All figures of the screen.
#[derive(Debug)]
pub struct Figures {
    way: Way,
    cell: (u16, u16),
    multiplexed: bool,
    jobs: Option<SyncSender<Job>>,
    known: HashMap<String, Figure>,
    pictures: Vec<Cached>,
    /// Counts layouts, so that what is on the screen is never let go.
    frame: u64,
}

#[derive(Debug, Default)]
struct Figure {
    bytes: Option<Arc<[u8]>>,
    /// Width and height in pixels.
    size: Option<(u32, u32)>,
    state: State,
    used: u64,
}

#[derive(Debug, Default, PartialEq, Eq)]
enum State {
    /// Nobody looked at it yet, or its bytes were let go.
    #[default]
    Known,
    /// Its bytes are to be asked for.
    Wanted,
    /// They were asked for, or are there.
    Asked,
    /// It cannot be drawn.
    Failed(Clean),
}

#[derive(Debug)]
struct Cached {
    hash: String,
    cells: (u16, u16),
    /// Nothing while the thread is at it.
    picture: Option<Picture>,
    used: u64,
}

/// A picture that is ready, or why there is none.
#[derive(Debug)]
pub struct FigureReady {
    hash: String,
    cells: (u16, u16),
    picture: Result<Picture, String>,
}

impl Figures {
    /// Chooses how figures are drawn and starts the thread. `cell_pixels` is the size of a character, where known.
    pub fn start(
        graphics: Graphics,
        env: &dyn Fn(&str) -> Option<String>,
        cell_pixels: Option<(u16, u16)>,
    ) -> (Self, mpsc::Receiver<FigureReady>) {
        let (ready, results) = mpsc::channel(MAX_JOBS);
        let cell_pixels = cell_pixels.filter(|(width, height)| *width > 0 && *height > 0);
        let way = choice::choose(graphics, env, cell_pixels.is_some());
        let jobs = (way != Way::Line).then(|| worker::start(ready, MAX_JOBS)).flatten();
        let figures = Self {
            way: if jobs.is_some() { way } else { Way::Line },
            cell: cell_pixels.unwrap_or(CELL),
            multiplexed: choice::is_multiplexed(env),
            jobs,
            known: HashMap::new(),
            pictures: Vec::new(),
            frame: 0,
        };
        (figures, results)
    }

    /// Begins a layout.
    pub fn frame(&mut self) {
        self.frame += 1;
    }

    /// The next figure whose bytes are to be asked for; each is named once.
    pub fn needs(&mut self) -> Option<String> {
        let (hash, figure) = self.known.iter_mut().find(|(_, figure)| figure.state == State::Wanted)?;
        figure.state = State::Asked;
        Some(hash.clone())
    }

    /// Takes the bytes of a figure.
    pub fn bytes(&mut self, hash: &str, bytes: Arc<[u8]>) {
        let Some(figure) = self.known.get_mut(hash) else { return };
        if bytes.len() > MAX_BYTES {
            figure.state = State::Failed(Clean::line("is too large to be drawn"));
            return;
        }
        match worker::size(&bytes) {
            Ok(size) => {
                figure.size = Some(size);
                figure.bytes = Some(bytes);
                figure.state = State::Asked;
            }
            Err(why) => figure.state = State::Failed(Clean::line(&why)),
        }
    }

    /// The bytes of a figure are not to be had.
    pub fn failed(&mut self, hash: &str, why: &str) {
        if let Some(figure) = self.known.get_mut(hash) {
            figure.state = State::Failed(Clean::line(why));
        }
    }

    /// Takes what came over the channel.
    pub fn ready(&mut self, ready: FigureReady) {
        let at = self.pictures.iter().position(|cached| cached.hash == ready.hash && cached.cells == ready.cells);
        match ready.picture {
            Ok(picture) => {
                if let Some(cached) = at.and_then(|at| self.pictures.get_mut(at)) {
                    cached.picture = Some(picture);
                }
                self.let_go();
            }
            Err(why) => {
                at.map(|at| self.pictures.swap_remove(at));
                self.failed(&ready.hash, &why);
            }
        }
    }

    /// Draws all pictures anew; after the terminal was left to another program, which may have thrown them away.
    pub fn forget(&mut self) {
        self.pictures.retain(|cached| cached.picture.is_none());
    }

    /// Columns and rows a figure takes within so many. One row while its size is not known, or where it is not drawn.
    /// `grow` makes a small one larger.
    pub fn fit(&self, hash: &str, within: (u16, u16), grow: bool) -> (u16, u16) {
        let figure = self.known.get(hash);
        let drawn = figure.filter(|figure| self.way != Way::Line && !matches!(figure.state, State::Failed(_)));
        let Some((width, height)) = drawn.and_then(|figure| figure.size) else { return (within.0, 1) };
        let (width, height) = (f64::from(width.max(1)), f64::from(height.max(1)));
        let cell = (f64::from(self.cell.0), f64::from(self.cell.1));
        let (columns, rows) = (f64::from(within.0.max(1)), f64::from(within.1.max(1)));
        let mut scale = (columns * cell.0 / width).min(rows * cell.1 / height);
        if !grow {
            scale = scale.min(1.0);
        }
        if self.way != Way::Blocks {
            scale = scale.min((MAX_PIXELS / (width * height)).sqrt());
        }
        // Between one and what there is room for.
        let cells = |pixels: f64, cell: f64, most: f64| (pixels * scale / cell).round().clamp(1.0, most) as u16;
        (cells(width, cell.0, columns), cells(height, cell.1, rows))
    }

    /// A figure is on the screen in so many columns and rows.
    pub fn want(&mut self, hash: &str, cells: (u16, u16)) {
        if self.known.len() > MAX_KNOWN {
            let frame = self.frame;
            self.known.retain(|_, figure| figure.used + 1 >= frame);
        }
        let figure = self.known.entry(hash.to_owned()).or_default();
        figure.used = self.frame;
        if figure.state == State::Known {
            let named = hash.len() == 64 && hash.bytes().all(|b| b.is_ascii_hexdigit());
            figure.state =
                if named { State::Wanted } else { State::Failed(Clean::line("has no name a figure could have")) };
        }
        let bytes = match (&figure.state, &figure.bytes) {
            (State::Asked, Some(bytes)) if self.way != Way::Line => Arc::clone(bytes),
            _ => return,
        };
        if let Some(cached) = self.pictures.iter_mut().find(|c| c.hash == hash && c.cells == cells) {
            cached.used = self.frame;
            return;
        }
        let pixels = (u32::from(cells.0) * u32::from(self.cell.0), u32::from(cells.1) * u32::from(self.cell.1));
        let job = Job { hash: hash.to_owned(), bytes, way: self.way, cells, pixels, multiplexed: self.multiplexed };
        if self.jobs.as_ref().is_some_and(|jobs| jobs.try_send(job).is_ok()) {
            self.pictures.push(Cached { hash: hash.to_owned(), cells, picture: None, used: self.frame });
        }
    }

    /// One line that names a figure.
    pub fn title(&self, hash: &str) -> String {
        let figure = self.known.get(hash);
        let size = figure.and_then(|figure| figure.size).map(|(width, height)| format!(" {width} × {height}"));
        format!("figure{}", size.unwrap_or_default())
    }

    /// Draws the rows of a figure from `skip` on.
    pub fn draw(&self, hash: &str, cells: (u16, u16), skip: u16, area: Rect, buf: &mut Buffer, theme: Theme) {
        let area = area.intersection(buf.area);
        let fits = |cached: &&Cached| cached.hash == hash && cached.cells.0 <= cells.0 && cached.cells.1 <= cells.1;
        let ready = self.pictures.iter().filter(fits).filter(|cached| cached.picture.is_some());
        // One of another size is better than none while the right one is made.
        let best = ready.max_by_key(|cached| (cached.cells == cells, cached.cells));
        if let Some(picture) = best.and_then(|cached| cached.picture.as_ref())
            && picture.draw(skip, area, buf)
        {
            return;
        }
        if area.height == 0 || area.width == 0 || (skip > 0 && best.is_none()) {
            return;
        }
        let state = self.known.get(hash).map(|figure| &figure.state);
        let why = match state {
            Some(State::Failed(why)) => format!(" {why}"),
            Some(State::Known | State::Wanted | State::Asked) | None if self.way == Way::Line => String::new(),
            Some(State::Known | State::Wanted | State::Asked) | None if best.is_some() => {
                " · drawn when all of it is in sight".into()
            }
            Some(State::Known | State::Wanted | State::Asked) | None => " · loading".into(),
        };
        let text = format!("{}{why}", self.title(hash));
        buf.set_stringn(area.x, area.y, text, usize::from(area.width), theme.style(Role::Dim));
    }

    /// Lets go of what was not on the screen for longest, until the rest is little.
    fn let_go(&mut self) {
        loop {
            let cost: usize =
                self.pictures.iter().filter_map(|cached| cached.picture.as_ref()).map(Picture::cost).sum();
            if self.pictures.len() <= MAX_PICTURES && cost <= MAX_PICTURE_BYTES {
                break;
            }
            let old = |cached: &&(usize, &Cached)| cached.1.used + 1 < self.frame && cached.1.picture.is_some();
            let pictures: Vec<(usize, &Cached)> = self.pictures.iter().enumerate().collect();
            let Some(at) = pictures.iter().filter(old).min_by_key(|cached| cached.1.used).map(|cached| cached.0) else {
                break;
            };
            self.pictures.swap_remove(at);
        }
        loop {
            let kept = |figure: &Figure| figure.bytes.as_ref().map_or(0, |bytes| bytes.len());
            if self.known.values().map(kept).sum::<usize>() <= MAX_KEPT_BYTES {
                return;
            }
            let old = self.known.values_mut().filter(|f| f.bytes.is_some() && f.used + 1 < self.frame);
            let Some(figure) = old.min_by_key(|figure| figure.used) else { return };
            figure.bytes = None;
            figure.state = State::Known;
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
