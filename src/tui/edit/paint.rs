//! The colours of one line. Highlighting is done elsewhere and comes late; until it does, the old colours move with the
//! text, so that nothing flickers while a person types.

use std::ops::Range;

use crate::tui::theme::Role;

/// What a highlighter says of a text: for each line between two `\n`, coloured ranges of its bytes in order.
pub type Painted = Vec<Vec<(Role, Range<usize>)>>;

/// Coloured pieces of a line, in bytes, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Paint(Vec<(Role, Range<usize>)>);

impl Paint {
    /// The colours a highlighter found. Ranges may be wrong: they colour, they never index.
    pub fn new(ranges: Vec<(Role, Range<usize>)>) -> Self {
        Self(ranges)
    }

    /// The role of the byte at `at`.
    pub fn role_at(&self, at: usize) -> Option<Role> {
        let index = self.0.partition_point(|(_, range)| range.end <= at);
        self.0.get(index).filter(|(_, range)| range.contains(&at)).map(|(role, _)| *role)
    }

    /// The bytes from `start` to `end` became `len` others. What is typed at the end of a word takes its colour.
    pub fn splice(&mut self, start: usize, end: usize, len: usize) {
        if self.0.is_empty() {
            return;
        }
        let tail = self.split_off(end);
        self.truncate(start);
        if let Some((_, last)) = self.0.last_mut().filter(|(_, last)| last.end == start) {
            last.end = last.end.saturating_add(len);
        }
        self.append(start + len, tail);
    }

    /// Keeps what stands before `at`.
    pub fn truncate(&mut self, at: usize) {
        self.0.retain_mut(|(_, range)| {
            range.end = range.end.min(at);
            range.start < range.end
        });
    }

    /// What stands from `at` on, counted from there.
    pub fn split_off(&self, at: usize) -> Self {
        let behind = self.0.iter().filter(|(_, range)| range.end > at);
        Self(behind.map(|(role, range)| (*role, range.start.saturating_sub(at)..range.end - at)).collect())
    }

    /// Puts `more` behind, its first byte at `at`.
    pub fn append(&mut self, at: usize, more: Self) {
        self.0.extend(
            more.0
                .into_iter()
                .map(|(role, range)| (role, range.start.saturating_add(at)..range.end.saturating_add(at))),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paint() -> Paint {
        // let x = "a"
        Paint::new(vec![(Role::Keyword, 0..3), (Role::Name, 4..5), (Role::Str, 8..11)])
    }

    #[test]
    fn a_byte_has_the_role_of_its_range() {
        let roles: Vec<_> = (0..12).map(|at| paint().role_at(at)).collect();
        let (k, n, s) = (Some(Role::Keyword), Some(Role::Name), Some(Role::Str));
        assert_eq!(roles, [k, k, k, None, n, None, None, None, s, s, s, None]);
    }

    #[test]
    fn typing_in_a_word_and_at_its_end_stretches_it_and_moves_the_rest() {
        let mut inside = paint();
        inside.splice(1, 1, 2);
        assert_eq!(inside.role_at(4), Some(Role::Keyword));
        assert_eq!(inside.role_at(6), Some(Role::Name));
        let mut behind = paint();
        behind.splice(5, 5, 1);
        assert_eq!(behind.role_at(5), Some(Role::Name));
        assert_eq!(behind.role_at(9), Some(Role::Str));
    }

    #[test]
    fn removing_across_ranges_leaves_no_range_of_removed_text() {
        let mut paint = paint();
        paint.splice(1, 9, 0);
        assert_eq!(paint.role_at(0), Some(Role::Keyword));
        assert_eq!(paint.role_at(1), Some(Role::Str));
        assert_eq!(paint.role_at(3), None);
    }

    #[test]
    fn senseless_ranges_do_no_harm() {
        #[expect(clippy::reversed_empty_ranges)]
        let mut paint = Paint::new(vec![(Role::Str, 9..2), (Role::Name, 0..usize::MAX)]);
        paint.splice(1, 5, 3);
        let _ = paint.role_at(7);
    }
}
