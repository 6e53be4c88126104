use std::time::Instant;

use proptest::prelude::*;

use super::*;
use crate::tui::output::row::plain;

use StreamName::{Stderr, Stdout};

/// What is kept, line by line: sign, text.
fn lines(buffer: &Buffer) -> Vec<String> {
    let mut found = Vec::new();
    let mut place = buffer.first();
    while let Some(at) = place {
        let kept = buffer.line(at).unwrap();
        let sign = match kept.kind {
            Kind::Stdout => ' ',
            Kind::Stderr => '!',
            Kind::Value => '=',
            Kind::Note => '·',
            Kind::Gap => '…',
            Kind::Item => '#',
        };
        found.push(format!("{sign}{}", plain(&kept.text)));
        place = buffer.after(at);
    }
    found
}

fn raw(buffer: &Buffer) -> Vec<String> {
    let mut place = buffer.first();
    std::iter::from_fn(|| {
        let at = place?;
        place = buffer.after(at);
        buffer.line(at).map(|kept| kept.text.into_owned())
    })
    .collect()
}

#[test]
fn a_line_belongs_to_one_stream_and_goes_on_where_it_began() {
    let mut b = Buffer::default();
    b.push(Stdout, "asking: ", 0);
    b.push(Stderr, "warning\nmo", 0);
    assert_eq!(lines(&b), [" asking: ", "!warning", "!mo"]);
    b.push(Stdout, "done\nnext\n", 0);
    b.push(Stderr, "re\n", 0);
    assert_eq!(lines(&b), [" asking: done", "!warning", "!more", " next"]);
}

#[test]
fn ten_thousand_redraws_are_one_line() {
    let mut b = Buffer::default();
    for i in 0..10_000 {
        b.push(Stderr, &format!("\r\u{1b}[32m{i}/10000\u{1b}[0m"), 0);
        if i % 1000 == 0 {
            b.push(Stdout, "tick\n", 0);
        }
    }
    assert_eq!(lines(&b)[0], "!9999/10000");
    assert_eq!(lines(&b).len(), 11);
    b.push(Stderr, "\r\u{1b}[0m", 0);
    assert_eq!(lines(&b)[0], "!9999/10000", "a redraw that draws nothing leaves the line");
    b.push(Stderr, "\nend\r\n", 0);
    assert_eq!((&lines(&b)[0][..], &lines(&b)[11][..]), ("!9999/10000", "!end"));
    assert!(b.cost() < 3 * BLOCK);
}

#[test]
fn colours_hold_over_the_ends_of_lines_and_redraws() {
    let mut b = Buffer::default();
    b.push(Stdout, "\u{1b}[31mred\nstill\u{1b}[0m\nplain\n", 0);
    b.push(Stdout, "\u{1b}[32m50%\r\u{1b}[0m\nplain\n", 0);
    b.push(Stderr, "other\n", 0);
    assert_eq!(raw(&b), ["\u{1b}[31mred", "\u{1b}[0;31mstill\u{1b}[0m", "plain", "\u{1b}[32m50%", "plain", "other"]);
}

#[test]
fn head_and_tail_stay_and_the_middle_is_counted() {
    let mut b = Buffer::default();
    let mut printed = 0u64;
    for i in 0..200_000 {
        let line = format!("line {i}\n");
        printed += line.len() as u64;
        b.push(Stdout, &line, 0);
    }
    let kept = lines(&b);
    assert_eq!((&kept[0][..], &kept[1][..]), (" line 0", " line 1"));
    assert_eq!(kept.last().unwrap(), " line 199999");
    let (bytes, count) = b.dropped();
    let said = kept.iter().position(|line| line.starts_with('·')).unwrap();
    assert!(kept[said].ends_with("MiB not shown here; O opens all that was kept"), "{}", kept[said]);
    assert_eq!(kept.len() as u64 - 1 + count, 200_000);
    let shown: u64 = kept.iter().enumerate().filter(|(i, _)| *i != said).map(|(_, l)| l.len() as u64).sum();
    assert_eq!(bytes + shown, printed);
    assert_eq!(kept[said - 1][6..].parse::<u64>().unwrap() + count + 1, kept[said + 1][6..].parse::<u64>().unwrap());
}

#[test]
fn a_line_without_end_is_cut_and_says_so() {
    let mut b = Buffer::default();
    for _ in 0..1000 {
        b.push(Stdout, &"\u{1b}[31mé".repeat(1000), 0);
    }
    b.push(Stdout, "\nafter\n", 0);
    let kept = lines(&b);
    assert!(kept[0].ends_with("of this line not shown"), "{}", &kept[0][kept[0].len() - 40..]);
    assert!(kept[0].len() < MAX_LINE + 64);
    assert_eq!(raw(&b)[1], "after");
}

#[test]
fn what_the_sandbox_left_out_is_said_once() {
    let mut b = Buffer::default();
    b.push(Stdout, "begun", 0);
    b.push(Stdout, "go on\n", 100);
    for _ in 0..100_000 {
        b.push(Stdout, "", 10);
    }
    assert_eq!(lines(&b), [" begun", "…00000000000000000100", " go on", "…00000000000001000000"]);
    assert!(b.cost() < 2 * BLOCK);
}

#[test]
fn tables_of_the_dropped_middle_stay() {
    let mut b = Buffer::default();
    b.add_item(0);
    for item in 1..4 {
        b.push(Stdout, &"x\n".repeat(60_000), 0);
        b.add_item(item);
    }
    b.push(Stdout, &"x\n".repeat(60_000), 0);
    let items: Vec<String> = lines(&b).into_iter().filter(|l| l.starts_with('#')).collect();
    assert_eq!(items, ["#0", "#1", "#2", "#3"]);
    b.compact();
    let items: Vec<String> = lines(&b).into_iter().filter(|l| l.starts_with('#')).collect();
    assert_eq!(items, ["#0", "#1", "#2", "#3"]);
    assert!(b.cost() < 4 * COMPACT, "{}", b.cost());
    assert_eq!(lines(&b).len() as u64 - 5 + b.dropped().1, 240_000);
}

#[test]
fn a_flood_is_cheap_in_memory_and_time() {
    for piece in [
        "y".repeat(262_144),
        "\n".repeat(262_144),
        "some words of a line\n".repeat(12_483),
        "\u{1b}[31mé\r".repeat(32_768),
    ] {
        let mut b = Buffer::default();
        let begun = Instant::now();
        for _ in 0..24 {
            b.push(Stdout, &piece, 0);
        }
        let took = begun.elapsed();
        assert!(b.cost() < 3 * 1024 * 1024, "{} for {:?}", b.cost(), &piece[..8]);
        let begun = Instant::now();
        b.layout(Some(58), &|_| 1);
        println!("{:?}: 6 MiB in {took:?}, layout {:?}, {} KiB", &piece[..4], begun.elapsed(), b.cost() / 1024);
    }
}

#[test]
fn a_stream_whose_begun_line_was_dropped_goes_on() {
    let mut b = Buffer::default();
    b.push(Stdout, &"a\n".repeat(30_000), 0);
    b.push(Stderr, "\u{1b}[31mbegun ", 0);
    b.push(Stdout, &"a\n".repeat(300_000), 0);
    b.push(Stderr, "rest\n", 0);
    assert_eq!(raw(&b).last().unwrap(), "\u{1b}[0;31mrest");
}

#[test]
fn rows_and_places_agree_after_everything() {
    let mut b = Buffer::default();
    b.push(Stdout, &"some words that are wrapped\n".repeat(20_000), 0);
    b.add_item(0);
    b.push(Stdout, &"some words that are wrapped\n".repeat(60_000), 0);
    b.push(Stderr, "begun", 0);
    for width in [Some(10), None, Some(7)] {
        let total = b.layout(width, &|_| 5);
        let mut row = 0;
        let mut place = b.first();
        let mut before = None;
        while let Some(at) = place {
            assert_eq!(b.row_of(at), row);
            assert_eq!(b.before(at), before);
            let rows = b.line(at).unwrap().rows;
            assert_eq!(b.locate(row), Some((at, 0)));
            assert_eq!(b.locate(row + rows - 1), Some((at, rows - 1)));
            row += rows;
            before = Some(at);
            place = b.after(at);
            if row > 3000 && total - row > 3000 && row < total / 4 {
                // All of it would be quadratic.
                let (far, within) = b.locate(total - 3000).unwrap();
                (row, before, place) = (total - 3000 - within, b.before(far), Some(far));
            }
        }
        assert_eq!((row, b.last()), (total, before));
        assert_eq!(b.locate(total), None);
    }
}

#[derive(Debug, Clone)]
struct Push {
    stderr: bool,
    text: String,
    dropped: u64,
}

fn pushes() -> impl Strategy<Value = Vec<Push>> {
    let part = proptest::sample::select(vec![
        "a",
        "bc ",
        "\n",
        "\r",
        "\r\n",
        "\t",
        "\u{1b}[31m",
        "\u{1b}[0m",
        "\u{1b}[",
        "1;4m",
        "日",
        "e\u{301}",
        "\u{1b}]0;t\u{7}",
        "\u{202e}",
    ]);
    let text = proptest::collection::vec(part, 0..12).prop_map(|parts| parts.concat());
    let dropped = prop_oneof![9 => Just(0u64), 1 => 1..5000u64];
    let push = (any::<bool>(), text, dropped).prop_map(|(stderr, text, dropped)| Push { stderr, text, dropped });
    proptest::collection::vec(push, 0..20)
}

fn printed(pushes: &[Push], split: usize) -> Buffer {
    let mut b = Buffer::default();
    for push in pushes {
        let stream = if push.stderr { Stderr } else { Stdout };
        let mut dropped = push.dropped;
        let chars: Vec<char> = push.text.chars().collect();
        if chars.is_empty() {
            b.push(stream, "", dropped);
        }
        for part in chars.chunks(split) {
            b.push(stream, &part.iter().collect::<String>(), std::mem::take(&mut dropped));
        }
    }
    b
}

proptest! {
    #[test]
    fn any_split_gives_the_same_rows(pushes in pushes(), split in 1usize..6) {
        let (mut whole, mut parts) = (printed(&pushes, usize::MAX), printed(&pushes, split));
        prop_assert_eq!(raw(&whole), raw(&parts));
        prop_assert_eq!(whole.layout(Some(5), &|_| 1), parts.layout(Some(5), &|_| 1));
    }

    #[test]
    fn counting_now_and_then_is_counting_at_the_end(pushes in pushes()) {
        let mut at_once = printed(&pushes, usize::MAX);
        let mut b = Buffer::default();
        for push in &pushes {
            b.push(if push.stderr { Stderr } else { Stdout }, &push.text, push.dropped);
            b.layout(Some(4), &|_| 1);
        }
        prop_assert_eq!(b.layout(Some(4), &|_| 1), at_once.layout(Some(4), &|_| 1));
        prop_assert_eq!(raw(&b), raw(&at_once));
        let sum: usize = std::iter::successors(b.first(), |p| b.after(*p)).map(|p| b.line(p).unwrap().rows).sum();
        prop_assert_eq!(sum, b.layout(Some(4), &|_| 1));
    }
}
