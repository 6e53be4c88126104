//! Makes pictures of figures, in a thread of its own. The bytes were written by a program that is not trusted: size and memory
//! are bounded before anything is decoded, and what goes wrong is said in place of the picture.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::io::Cursor;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use image::imageops::FilterType;
use image::{DynamicImage, ImageFormat, ImageReader, Limits};
use ratatui::buffer::Buffer;
use ratatui::layout::{Rect, Size};
use ratatui::widgets::Widget;
use ratatui_image::Image;
use ratatui_image::protocol::Protocol;
use ratatui_image::protocol::halfblocks::Halfblocks;
use ratatui_image::protocol::iterm2::Iterm2;
use ratatui_image::protocol::kitty::Kitty;
use ratatui_image::protocol::sixel::Sixel;
use ratatui_image::sliced::{SignedPosition, SlicedImage, SlicedProtocol};
use tokio::sync::mpsc;

use super::FigureReady;
use super::choice::Way;

/// Widest and highest figure, pixels: four times what a screen shows.
const MAX_SIDE: u32 = 4096;
/// Memory of a decoded figure, bytes.
const MAX_DECODED: u64 = 32 * 1024 * 1024;

/// A figure that is wanted at a size.
#[derive(Debug)]
pub(super) struct Job {
    pub hash: String,
    pub bytes: Arc<[u8]>,
    pub way: Way,
    /// Columns and rows.
    pub cells: (u16, u16),
    /// The same in pixels.
    pub pixels: (u32, u32),
    /// What is sent is wrapped for a multiplexer that passes it on.
    pub multiplexed: bool,
}

/// A figure, ready to be drawn.
pub(super) enum Picture {
    /// Can be drawn from any row on.
    Sliced { picture: SlicedProtocol, cost: usize },
    /// A picture for each row.
    Rows { rows: Vec<Protocol>, cost: usize },
    /// Is drawn as a whole or not at all.
    Whole { picture: Protocol, cost: usize },
}

impl fmt::Debug for Picture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Picture").field("cost", &self.cost()).finish_non_exhaustive()
    }
}

impl Picture {
    /// What it takes in memory, bytes, about.
    pub fn cost(&self) -> usize {
        match self {
            Picture::Sliced { cost, .. } | Picture::Rows { cost, .. } | Picture::Whole { cost, .. } => *cost,
        }
    }

    /// Draws from row `skip` on; false if it cannot be drawn in that place.
    pub fn draw(&self, skip: u16, area: Rect, buf: &mut Buffer) -> bool {
        match self {
            Picture::Sliced { picture, .. } => {
                let Ok(skip) = i16::try_from(skip) else { return false };
                SlicedImage::new(picture, SignedPosition::from((0, -skip))).render(area, buf);
                true
            }
            Picture::Rows { rows, .. } => {
                for (row, y) in rows.iter().skip(usize::from(skip)).zip(area.y..area.bottom()) {
                    Image::new(row).render(Rect { y, height: 1, ..area }, buf);
                }
                true
            }
            Picture::Whole { picture, .. } => {
                let size = picture.size();
                let in_sight = skip == 0 && size.height <= area.height && size.width <= area.width;
                if in_sight {
                    Image::new(picture).render(area, buf);
                }
                in_sight
            }
        }
    }
}

/// Starts the thread; it ends with its channels. Nothing if there can be none.
pub(super) fn start(ready: mpsc::Sender<FigureReady>, room: usize) -> Option<SyncSender<Job>> {
    let (jobs, waiting) = sync_channel(room);
    let thread = std::thread::Builder::new().name("figures".into());
    thread.spawn(move || work(&waiting, &ready)).ok()?;
    Some(jobs)
}

fn work(waiting: &Receiver<Job>, ready: &mpsc::Sender<FigureReady>) {
    while let Ok(job) = waiting.recv() {
        // The libraries are fuzzed, but a figure must not end the thread that draws all others.
        let picture =
            catch_unwind(AssertUnwindSafe(|| make(&job))).unwrap_or_else(|_| Err("could not be drawn".into()));
        if ready.blocking_send(FigureReady { hash: job.hash, cells: job.cells, picture }).is_err() {
            return;
        }
    }
}

/// Width and height, read without decoding.
pub(super) fn size(bytes: &[u8]) -> Result<(u32, u32), String> {
    let (width, height) = reader(bytes).into_dimensions().map_err(|_| "is no PNG".to_owned())?;
    if width > MAX_SIDE || height > MAX_SIDE {
        return Err(format!("is too large to be drawn: {width} × {height}"));
    }
    Ok((width, height))
}

fn reader(bytes: &[u8]) -> ImageReader<Cursor<&[u8]>> {
    let mut limits = Limits::no_limits();
    limits.max_image_width = Some(MAX_SIDE);
    limits.max_image_height = Some(MAX_SIDE);
    limits.max_alloc = Some(MAX_DECODED);
    let mut reader = ImageReader::with_format(Cursor::new(bytes), ImageFormat::Png);
    reader.limits(limits);
    reader
}

/// Decodes and scales.
pub(super) fn make(job: &Job) -> Result<Picture, String> {
    let decoded = reader(&job.bytes).decode().map_err(|_| "could not be decoded".to_owned())?;
    let image = on_white(decoded);
    let size = Size::new(job.cells.0, job.cells.1);
    let scaled = || image.resize_exact(job.pixels.0.max(1), job.pixels.1.max(1), FilterType::Triangle);
    let said = |error: ratatui_image::errors::Errors| format!("could not be drawn: {error}");
    let cells = usize::from(size.width) * usize::from(size.height);
    match job.way {
        Way::Line => Err("is not drawn".into()),
        Way::Blocks => {
            let picture = SlicedProtocol::Halfblocks(Halfblocks::new(image, size).map_err(said)?);
            // A character, two colours.
            Ok(Picture::Sliced { picture, cost: cells * 16 })
        }
        Way::Kitty => {
            let scaled = scaled();
            // Four bytes a pixel, four letters for three bytes.
            let cost = scaled.width() as usize * scaled.height() as usize * 16 / 3;
            let kitty = Kitty::new(scaled, size, random(), job.multiplexed, false).map_err(said)?;
            Ok(Picture::Sliced { picture: SlicedProtocol::Kitty(kitty), cost })
        }
        Way::Iterm2 => {
            let scaled = scaled();
            let high = (scaled.height() / u32::from(size.height.max(1))).max(1);
            let row = |at: u16| {
                let part = scaled.crop_imm(0, u32::from(at) * high, scaled.width(), high);
                Iterm2::new(part, Size::new(size.width, 1), job.multiplexed).map_err(said)
            };
            let rows = (0..size.height).map(row).collect::<Result<Vec<Iterm2>, String>>()?;
            let cost = rows.iter().map(|row| row.data.len()).sum();
            Ok(Picture::Rows { rows: rows.into_iter().map(Protocol::ITerm2).collect(), cost })
        }
        Way::Sixel => {
            let sixel = Sixel::new(scaled(), size, job.multiplexed).map_err(said)?;
            let cost = sixel.data.len();
            Ok(Picture::Whole { picture: Protocol::Sixel(sixel), cost })
        }
    }
}

/// What can be seen through is paper: axes are drawn in black.
fn on_white(image: DynamicImage) -> DynamicImage {
    if !image.color().has_alpha() {
        return image;
    }
    let mut pixels = image.into_rgba8();
    for pixel in pixels.pixels_mut() {
        let [r, g, b, alpha] = pixel.0;
        let over = |c: u8| {
            let sum = u16::from(c) * u16::from(alpha) + 255 * (255 - u16::from(alpha));
            u8::try_from(sum / 255).unwrap_or(255)
        };
        pixel.0 = [over(r), over(g), over(b), 255];
    }
    pixels.into()
}

/// A number no other picture of the terminal has, most likely.
fn random() -> u32 {
    (RandomState::new().hash_one("figure") as u32).max(1)
}
