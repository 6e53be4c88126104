//! Where a person reads in something that may grow. Owns the rule of every pane: at the end it follows, elsewhere it holds
//! the position, and what arrived below since is counted.

/// A reading position in rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scroll {
    /// First row on the screen.
    top: usize,
    /// Whether new rows are followed.
    follow: bool,
    /// Rows there are.
    rows: usize,
    /// Rows on the screen.
    height: usize,
    /// Rows that were on the screen or above it, or were there when the person went away from the end.
    seen: usize,
}

impl Default for Scroll {
    fn default() -> Self {
        Self { top: 0, follow: true, rows: 0, height: 0, seen: 0 }
    }
}

impl Scroll {
    /// At the end, following.
    pub fn new() -> Self {
        Self::default()
    }

    /// At the start, holding; for what does not grow.
    pub fn at_start() -> Self {
        Self { follow: false, ..Self::default() }
    }

    /// Takes what there is and what fits, before a frame.
    pub fn layout(&mut self, rows: usize, height: usize) {
        self.rows = rows;
        self.height = height;
        let last = self.last_top();
        self.top = if self.follow { last } else { self.top.min(last) };
        if self.follow {
            self.seen = rows;
        }
        self.look();
    }

    /// First row on the screen.
    pub fn top(&self) -> usize {
        self.top
    }

    /// Rows there are.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Whether new rows are followed.
    pub fn follows(&self) -> bool {
        self.follow
    }

    /// Rows that arrived below the screen since the person went away from the end.
    pub fn new_below(&self) -> usize {
        self.rows.saturating_sub(self.seen)
    }

    /// Rows below the screen.
    pub fn below(&self) -> usize {
        self.rows.saturating_sub(self.top + self.height)
    }

    /// Towards the start.
    pub fn up(&mut self, rows: usize) {
        self.go(self.top.saturating_sub(rows));
    }

    /// Towards the end.
    pub fn down(&mut self, rows: usize) {
        self.go(self.top.saturating_add(rows));
    }

    /// One screen towards the start; a row stays in sight.
    pub fn page_up(&mut self) {
        self.up(self.page());
    }

    /// One screen towards the end; a row stays in sight.
    pub fn page_down(&mut self) {
        self.down(self.page());
    }

    /// Half a screen towards the start.
    pub fn half_up(&mut self) {
        self.up((self.height / 2).max(1));
    }

    /// Half a screen towards the end.
    pub fn half_down(&mut self) {
        self.down((self.height / 2).max(1));
    }

    /// To the start.
    pub fn home(&mut self) {
        self.go(0);
    }

    /// To the end, and follows.
    pub fn end(&mut self) {
        self.go(usize::MAX);
    }

    /// So that `row` is on the screen, with what stands around it.
    pub fn show(&mut self, row: usize) {
        if row < self.top || row >= self.top + self.height {
            self.go(row.saturating_sub(self.height / 3));
        }
    }

    /// The text at the top is now at `top`, because rows above it came or went.
    pub fn moved(&mut self, top: usize) {
        self.seen = (self.seen + top).saturating_sub(self.top);
        self.top = top;
    }

    /// The text at the top is now at `top` of `rows`, because everything was wrapped anew.
    pub fn rewrapped(&mut self, top: usize, rows: usize) {
        let unseen = self.new_below().saturating_mul(rows) / self.rows.max(1);
        self.top = top;
        self.seen = rows.saturating_sub(unseen);
    }

    fn go(&mut self, top: usize) {
        let last = self.last_top();
        self.top = top.min(last);
        self.follow = self.top == last;
        self.look();
    }

    fn look(&mut self) {
        self.seen = self.seen.max(self.top + self.height).min(self.rows);
    }

    fn page(&self) -> usize {
        self.height.saturating_sub(1).max(1)
    }

    fn last_top(&self) -> usize {
        self.rows.saturating_sub(self.height)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scroll(rows: usize, height: usize) -> Scroll {
        let mut scroll = Scroll::new();
        scroll.layout(rows, height);
        scroll
    }

    #[test]
    fn at_the_end_it_follows() {
        let mut s = scroll(100, 10);
        assert_eq!((s.top(), s.follows()), (90, true));
        s.layout(150, 10);
        assert_eq!((s.top(), s.new_below(), s.below()), (140, 0, 0));
        s.layout(150, 40);
        assert_eq!(s.top(), 110);
    }

    #[test]
    fn elsewhere_it_holds_and_counts_what_arrives() {
        let mut s = scroll(100, 10);
        s.up(5);
        s.layout(120, 10);
        assert_eq!((s.top(), s.follows(), s.new_below(), s.below()), (85, false, 20, 25));
        s.down(10);
        assert_eq!((s.top(), s.new_below()), (95, 15));
        s.up(10);
        assert_eq!(s.new_below(), 15, "what was seen stays seen");
        s.end();
        s.layout(130, 10);
        assert_eq!((s.top(), s.follows(), s.new_below()), (120, true, 0));
    }

    #[test]
    fn pages_keep_a_row_in_sight_and_ends_are_ends() {
        let mut s = scroll(100, 10);
        s.home();
        assert_eq!((s.top(), s.follows()), (0, false));
        s.page_down();
        assert_eq!(s.top(), 9);
        s.half_down();
        assert_eq!(s.top(), 14);
        s.half_up();
        s.page_up();
        s.page_up();
        assert_eq!(s.top(), 0);
        s.down(usize::MAX);
        assert!(s.follows());
    }

    #[test]
    fn rows_gone_above_do_not_move_the_text() {
        let mut s = scroll(100, 10);
        s.up(20);
        s.layout(110, 10);
        s.moved(40);
        s.layout(80, 10);
        assert_eq!((s.top(), s.new_below()), (40, 10));
        s.rewrapped(80, 160);
        s.layout(160, 10);
        assert_eq!((s.top(), s.new_below()), (80, 20), "twice the rows, twice as many unseen");
    }

    #[test]
    fn what_is_asked_for_is_shown() {
        let mut s = scroll(100, 10);
        s.show(50);
        assert!(s.top() <= 50 && 50 < s.top() + 10);
        let top = s.top();
        s.show(51);
        assert_eq!(s.top(), top);
    }

    #[test]
    fn nothing_and_no_room_are_borne() {
        let mut s = scroll(0, 0);
        s.up(1);
        s.down(1);
        s.page_down();
        s.half_up();
        s.end();
        s.show(7);
        s.moved(0);
        assert_eq!((s.top(), s.new_below(), s.below()), (0, 0, 0));
    }
}
