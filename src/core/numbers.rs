//! Whether an answer rests on what was printed: the numbers it states against the numbers of the output.

/// A number as it was written.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Written {
    value: f64,
    /// Digits behind the point.
    decimals: i32,
}

/// False if the answer states numbers and none of them was printed, not even rounded or as a percentage. An answer
/// without numbers, or to an output without numbers, rests on its words.
pub fn rests_on(answer: &str, output: &str) -> bool {
    let (stated, printed) = (numbers(answer), numbers(output));
    stated.is_empty() || printed.is_empty() || stated.iter().any(|s| printed.iter().any(|p| s.is(p.value)))
}

/// Whether a text states a number at all.
pub fn has_number(text: &str) -> bool {
    !numbers(text).is_empty()
}

impl Written {
    fn is(&self, printed: f64) -> bool {
        // Rounding may go either way at a half.
        let half = 0.51 * 10f64.powi(-self.decimals);
        [printed, printed * 100.0].into_iter().any(|p| (self.value.abs() - p.abs()).abs() <= half)
    }
}

/// Numbers in a text: digits with an optional point, thousands separators inside.
fn numbers(text: &str) -> Vec<Written> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
        rest = &rest[start..];
        let mut end = 0;
        let mut chars = rest.char_indices().peekable();
        while let Some((at, c)) = chars.next() {
            let digit_follows = chars.peek().is_some_and(|(_, next)| next.is_ascii_digit());
            if !(c.is_ascii_digit() || (matches!(c, '.' | ',') && digit_follows)) {
                break;
            }
            end = at + 1;
        }
        let plain = rest[..end].replace(',', "");
        let decimals = plain.split_once('.').map_or(0, |(_, d)| d.len().min(15) as i32);
        found.extend(plain.parse().ok().map(|value| Written { value, decimals }));
        rest = &rest[end.max(1)..];
    }
    found
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn numbers_are_read_as_people_write_them() {
        let values = |text: &str| numbers(text).iter().map(|n| n.value).collect::<Vec<_>>();
        assert_eq!(values("1,268 of 4653 (34.4%), year 80."), [1268.0, 4653.0, 34.4, 80.0]);
        assert_eq!(values("-0.832 v1.2.3 x"), [0.832]);
        assert_eq!(values("none é"), Vec::<f64>::new());
    }

    #[test]
    fn rounding_and_percentages_rest_on_the_output() {
        assert!(rests_on("about 30.45", "30.450632911392404"));
        assert!(rests_on("34.4 percent", "0.34386"));
        assert!(rests_on("it is 30", "30.45"));
        assert!(rests_on("Nurse", "Nurse 8057.9"));
        assert!(rests_on("42", ""));
        assert!(!rests_on("it is 41", "mean 30.45"));
        assert!(!rests_on("30.46", "30.45"));
    }

    proptest! {
        #[test]
        fn any_text_is_read(text in any::<String>(), other in "[0-9,.%a ]{0,40}") {
            let _ = rests_on(&text, &other);
            prop_assert!(rests_on(&other, &other));
        }
    }
}
