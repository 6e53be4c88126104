//! Where a view of many lines stands. A line may take several rows, and how many is costly to know, so the place is a
//! line and a row of it: moving asks only for the lines that are passed.

/// The row at the top of a view.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Top {
    /// Line, from 0.
    pub line: usize,
    /// Row of that line, from 0.
    pub row: usize,
}

/// `top` moved by `delta` rows, within `lines` lines of which `rows` tells how many rows each takes (at least one).
pub fn moved(top: Top, delta: i64, lines: usize, rows: &mut impl FnMut(usize) -> usize) -> Top {
    let Some(last) = lines.checked_sub(1) else { return Top::default() };
    let mut line = top.line.min(last);
    let mut row = if top.line > last { usize::MAX } else { top.row }.min(rows(line).saturating_sub(1));
    let mut left = usize::try_from(delta.unsigned_abs()).unwrap_or(usize::MAX);
    if delta < 0 {
        while left > row && line > 0 {
            left -= row + 1;
            line -= 1;
            row = rows(line).saturating_sub(1);
        }
        row = row.saturating_sub(left);
    } else {
        loop {
            let below = rows(line).saturating_sub(row + 1);
            if left <= below || line == last {
                row += left.min(below);
                break;
            }
            left -= below + 1;
            line += 1;
            row = 0;
        }
    }
    Top { line, row }
}

/// The lowest place there is: the last row stands at the bottom of `height` rows.
pub fn lowest(height: usize, lines: usize, rows: &mut impl FnMut(usize) -> usize) -> Top {
    let end = Top { line: usize::MAX, row: 0 };
    let up = i64::try_from(height.saturating_sub(1)).unwrap_or(i64::MAX);
    moved(end, -up, lines, rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(line: usize, row: usize) -> Top {
        Top { line, row }
    }

    #[test]
    fn moving_counts_rows_and_stays_inside() {
        let sizes = [1, 3, 1, 2];
        let mut rows = |line: usize| sizes[line];
        let all = [at(0, 0), at(1, 0), at(1, 1), at(1, 2), at(2, 0), at(3, 0), at(3, 1)];
        for (i, from) in all.into_iter().enumerate() {
            for delta in -9i64..9 {
                let to = (i as i64 + delta).clamp(0, 6) as usize;
                assert_eq!(moved(from, delta, 4, &mut rows), all[to], "{from:?} {delta}");
            }
        }
        assert_eq!(moved(at(9, 9), 0, 4, &mut rows), at(3, 1));
        assert_eq!(moved(at(1, 9), 0, 4, &mut rows), at(1, 2));
        assert_eq!(moved(at(1, 1), i64::MIN, 4, &mut rows), at(0, 0));
        assert_eq!(moved(at(1, 1), 1, 0, &mut rows), at(0, 0));
    }

    #[test]
    fn the_lowest_place_fills_the_view() {
        let sizes = [1, 3, 1, 2];
        let mut rows = |line: usize| sizes[line];
        assert_eq!(lowest(1, 4, &mut rows), at(3, 1));
        assert_eq!(lowest(4, 4, &mut rows), at(1, 2));
        assert_eq!(lowest(99, 4, &mut rows), at(0, 0));
        assert_eq!(lowest(0, 4, &mut rows), at(3, 1));
    }
}
