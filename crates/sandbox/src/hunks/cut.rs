//! Cuts the difference of two texts into regions of changed lines, and puts chosen regions back
//! together. Pure: the same bytes always give the same regions, on every machine and whatever git's
//! configuration says.

use std::ops::Range;

use imara_diff::{Algorithm, Diff, InternedInput};

/// Changed lines without context. Lines are numbered from 0; a range may be empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineRegion {
    /// The lines that are removed.
    pub old: Range<usize>,
    /// The lines that are added.
    pub new: Range<usize>,
}

/// Two versions of a text, as lines with their line ends. The last line may have none.
pub(super) struct TextChange<'a> {
    pub old: Vec<&'a [u8]>,
    pub new: Vec<&'a [u8]>,
    pub regions: Vec<LineRegion>,
}

impl<'a> TextChange<'a> {
    pub fn new(old: &'a [u8], new: &'a [u8]) -> Self {
        let input = InternedInput::new(old, new);
        // Histogram falls back to a bounded search, so that a hostile file cannot take forever.
        let mut diff = Diff::compute(Algorithm::Histogram, &input);
        diff.postprocess_lines(&input);
        let regions = diff.hunks().map(|hunk| LineRegion {
            old: to_lines(&hunk.before),
            new: to_lines(&hunk.after),
        });
        Self {
            old: split_lines(old),
            new: split_lines(new),
            regions: regions.collect(),
        }
    }

    /// The old text with the chosen regions changed to the new text.
    pub fn apply_regions(&self, is_chosen: impl Fn(usize) -> bool) -> Vec<u8> {
        let mut lines: Vec<&[u8]> = Vec::with_capacity(self.old.len().max(self.new.len()));
        let mut next = 0;
        for (number, region) in self.regions.iter().enumerate() {
            lines.extend(&self.old[next..region.old.start]);
            match is_chosen(number) {
                true => lines.extend(&self.new[region.new.clone()]),
                false => lines.extend(&self.old[region.old.clone()]),
            }
            next = region.old.end;
        }
        lines.extend(&self.old[next..]);
        lines.concat()
    }
}

/// Splits a text after each line feed.
pub(super) fn split_lines(text: &[u8]) -> Vec<&[u8]> {
    text.split_inclusive(|byte| *byte == b'\n').collect()
}

fn to_lines(range: &Range<u32>) -> Range<usize> {
    range.start as usize..range.end as usize
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "these are tests")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(old: &str, new: &str, expect: &[(Range<usize>, Range<usize>)]) {
        let change = TextChange::new(old.as_bytes(), new.as_bytes());
        let regions: Vec<_> = change
            .regions
            .iter()
            .map(|region| (region.old.clone(), region.new.clone()))
            .collect();
        assert_eq!(regions, expect, "{old:?} to {new:?}");
    }

    #[test]
    fn regions_have_no_context() {
        check("a\nb\nc\n", "a\nb\nc\n", &[]);
        check("a\nb\nc\n", "a\nB\nc\n", &[(1..2, 1..2)]);
        check("a\nb\nc\n", "A\nb\nC\n", &[(0..1, 0..1), (2..3, 2..3)]);
        check("", "a\n", &[(0..0, 0..1)]);
        check("a\n", "", &[(0..1, 0..0)]);
    }

    #[test]
    fn line_ends_belong_to_lines() {
        check("a\r\nb\r\n", "a\r\nb\n", &[(1..2, 1..2)]);
        check("a\nb", "a\nb\n", &[(1..2, 1..2)]);
        check("a\nb", "a\nb\nc", &[(1..2, 1..3)]);
    }

    /// Ids of hunks are stored: a change of the algorithm needs a new version of it.
    #[test]
    fn repeated_lines_are_cut_as_always() {
        check(
            "{\na\n}\n{\nb\n}\n",
            "{\na\n}\n{\nx\n}\n{\nb\n}\n",
            &[(4..4, 4..7)],
        );
        check("x\nx\nx\n", "x\nx\n", &[(2..3, 2..2)]);
        check(
            "a\nb\nc\nd\n",
            "d\na\nc\nb\n",
            &[(0..3, 0..0), (4..4, 1..4)],
        );
    }

    /// A few different lines, so that texts share many of them, with and without line ends.
    fn any_text() -> impl Strategy<Value = Vec<u8>> {
        let line = prop_oneof![
            Just(&b"\n"[..]),
            Just(&b"a\n"[..]),
            Just(&b"a\r\n"[..]),
            Just(&b"b\n"[..]),
            Just(&b"}\n"[..]),
            Just(&b"\xff\xfe\n"[..]),
            Just(&b"\r\r\n"[..]),
        ];
        let last = prop_oneof![Just(&b""[..]), Just(&b"a"[..]), Just(&b"\xff"[..])];
        let lines = proptest::collection::vec(line, 0..12);
        (lines, last).prop_map(|(lines, last)| [lines.concat(), last.to_vec()].concat())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1000))]

        #[test]
        fn chosen_regions_and_no_others_are_applied(
            old in any_text(),
            new in any_text(),
            choice in any::<u64>(),
        ) {
            let change = TextChange::new(&old, &new);
            prop_assert_eq!(change.apply_regions(|_| false), &old[..]);
            prop_assert_eq!(change.apply_regions(|_| true), &new[..]);
            // Unchanged lines are equal, and no region touches the next one.
            let (mut old_end, mut new_end) = (0, 0);
            for (number, region) in change.regions.iter().enumerate() {
                let kept = &change.old[old_end..region.old.start];
                prop_assert_eq!(kept, &change.new[new_end..region.new.start]);
                prop_assert!(number == 0 || !kept.is_empty());
                prop_assert!(!region.old.is_empty() || !region.new.is_empty());
                (old_end, new_end) = (region.old.end, region.new.end);
            }
            // The rest of a pick is picked from the same base.
            let is_chosen = |number: usize| choice >> (number % 64) & 1 == 1;
            let picked = change.apply_regions(is_chosen);
            let rest = change.apply_regions(|number| !is_chosen(number));
            let (removed, added): (usize, usize) = change
                .regions
                .iter()
                .fold((0, 0), |(removed, added), region| {
                    (removed + region.old.len(), added + region.new.len())
                });
            let lines = split_lines(&picked).len() + split_lines(&rest).len();
            prop_assert_eq!(lines, 2 * change.old.len() - removed + added);
        }
    }
}
