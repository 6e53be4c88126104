use image::{ImageFormat, Rgba, RgbaImage};

use super::*;
use crate::tui::theme::ThemeName;

pub(crate) const HASH: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

/// A red square with a blue corner on nothing.
pub(crate) fn png(width: u32, height: u32) -> Arc<[u8]> {
    let image = RgbaImage::from_fn(width, height, |x, y| {
        if x < width / 2 && y < height / 2 {
            Rgba([0, 0, 255, 255])
        } else {
            Rgba([255, 0, 0, if x > y { 255 } else { 0 }])
        }
    });
    let mut bytes = std::io::Cursor::new(Vec::new());
    image.write_to(&mut bytes, ImageFormat::Png).unwrap();
    bytes.into_inner().into()
}

fn start(graphics: Graphics) -> (Figures, mpsc::Receiver<FigureReady>) {
    Figures::start(graphics, &|_| None, Some((10, 20)))
}

fn loaded(graphics: Graphics, bytes: Arc<[u8]>) -> (Figures, mpsc::Receiver<FigureReady>) {
    let (mut figures, results) = start(graphics);
    figures.frame();
    figures.want(HASH, (10, 1));
    assert_eq!(figures.needs().as_deref(), Some(HASH));
    assert_eq!(figures.needs(), None);
    figures.bytes(HASH, bytes);
    (figures, results)
}

fn ready(figures: &mut Figures, results: &mut mpsc::Receiver<FigureReady>, cells: (u16, u16)) {
    figures.frame();
    figures.want(HASH, cells);
    let ready = results.blocking_recv().unwrap();
    figures.ready(ready);
}

fn draw(figures: &Figures, cells: (u16, u16), skip: u16, height: u16) -> Buffer {
    let area = Rect::new(0, 0, 60, height);
    let mut buf = Buffer::empty(area);
    figures.draw(HASH, cells, skip, area, &mut buf, Theme::new(ThemeName::Dark));
    buf
}

fn line(buf: &Buffer) -> String {
    (0..buf.area.width).map(|x| buf[(x, 0)].symbol()).collect::<String>().trim_end().to_owned()
}

#[test]
fn a_figure_keeps_its_shape_and_is_made_larger_only_where_asked() {
    let (figures, _results) = loaded(Graphics::Blocks, png(640, 480));
    assert_eq!(figures.fit(HASH, (100, 50), false), (64, 24));
    assert_eq!(figures.fit(HASH, (100, 12), false), (32, 12));
    assert_eq!(figures.fit(HASH, (20, 50), false), (20, 8));
    assert_eq!(figures.fit(HASH, (200, 48), true), (128, 48));
    assert_eq!(figures.fit(HASH, (1, 1), true), (1, 1));
    assert_eq!(figures.fit(HASH, (0, 0), true), (1, 1));
    assert_eq!(figures.fit("other", (40, 20), true), (40, 1));
}

#[test]
fn a_picture_is_drawn_from_any_row_on() {
    let (mut figures, mut results) = loaded(Graphics::Blocks, png(200, 200));
    let cells = figures.fit(HASH, (60, 20), false);
    assert_eq!(cells, (20, 10));
    assert_eq!(line(&draw(&figures, cells, 0, 12)), "figure 200 × 200 · loading");
    ready(&mut figures, &mut results, cells);
    let whole = draw(&figures, cells, 0, 12);
    assert_eq!(whole[(0, 0)].bg, ratatui::style::Color::Rgb(0, 0, 255));
    assert_eq!(whole[(19, 5)].bg, ratatui::style::Color::Rgb(255, 0, 0));
    assert_eq!(whole[(2, 9)].bg, ratatui::style::Color::Rgb(255, 255, 255), "nothing is white");
    let part = draw(&figures, cells, 4, 3);
    assert_eq!(part[(19, 1)], whole[(19, 5)]);
    assert_eq!(part[(0, 2)], whole[(0, 6)]);
}

#[test]
fn every_protocol_makes_a_picture() {
    for (graphics, start) in
        [(Graphics::Kitty, "\u{1b}_G"), (Graphics::Iterm2, "\u{1b}["), (Graphics::Sixel, "\u{1b}[")]
    {
        let (mut figures, mut results) = loaded(graphics, png(200, 200));
        ready(&mut figures, &mut results, (20, 10));
        let buf = draw(&figures, (20, 10), 0, 12);
        assert!(buf[(0, 0)].symbol().starts_with(start), "{graphics:?} {:?}", buf[(0, 0)].symbol());
        let part = draw(&figures, (20, 10), 3, 4);
        match graphics {
            Graphics::Sixel => assert_eq!(line(&part), "figure 200 × 200 · drawn when all of it is in sight"),
            _ => assert!(part[(0, 3)].symbol().contains('\u{1b}') || graphics == Graphics::Kitty),
        }
    }
}

#[test]
fn without_graphics_a_line_names_it() {
    let (mut figures, _results) = start(Graphics::None);
    figures.frame();
    figures.want(HASH, (60, 1));
    assert_eq!(line(&draw(&figures, (60, 1), 0, 1)), "figure");
    assert!(figures.needs().is_some(), "its size is worth knowing");
    figures.bytes(HASH, png(640, 480));
    assert_eq!(figures.fit(HASH, (60, 20), true), (60, 1));
    assert_eq!(line(&draw(&figures, (60, 1), 0, 1)), "figure 640 × 480");
}

#[test]
fn hostile_figures_are_said_to_be_so() {
    let small = png(8, 8);
    let mut huge = small.to_vec();
    huge[16..24].copy_from_slice(&[0, 1, 0, 0, 0, 1, 0, 0]);
    for (bytes, said) in [
        (b"GIF89a".to_vec(), "figure is no PNG"),
        (Vec::new(), "figure is no PNG"),
        (huge, "figure is no PNG"),
        (vec![0; MAX_BYTES + 1], "figure is too large to be drawn"),
    ] {
        let (figures, _results) = loaded(Graphics::Blocks, bytes.into());
        assert_eq!(line(&draw(&figures, (60, 1), 0, 1)), said);
    }
    let (mut figures, mut results) = loaded(Graphics::Blocks, small[..60].into());
    ready(&mut figures, &mut results, (4, 2));
    assert_eq!(line(&draw(&figures, (60, 1), 0, 1)), "figure 8 × 8 could not be decoded");
    figures.want("../../etc/passwd", (4, 2));
    assert_eq!(figures.needs(), None);
}

#[test]
fn little_is_kept_but_all_that_is_in_sight() {
    let (mut figures, mut results) = loaded(Graphics::Blocks, png(100, 100));
    for width in 1..40 {
        ready(&mut figures, &mut results, (width, 5));
    }
    assert!(figures.pictures.len() <= MAX_PICTURES, "{}", figures.pictures.len());
    figures.frame();
    for width in 1..30 {
        figures.want(HASH, (width, 6));
        let ready = results.blocking_recv().unwrap();
        figures.ready(ready);
    }
    assert!(figures.pictures.iter().filter(|c| c.used == figures.frame).count() > MAX_PICTURES);
    figures.forget();
    assert!(figures.pictures.iter().all(|cached| cached.picture.is_none()));
}
