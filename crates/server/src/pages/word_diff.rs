//! Marks the words that differ between two versions of a line.

use std::ops::Range;

/// Lines with more words are compared only at their ends.
const MAX_WORDS: usize = 160;

/// The parts of `line` that are not in `partner`, in order. Empty if most of the line differs: marking all of it
/// would say nothing.
pub fn find_changed_words(line: &str, partner: &str) -> Vec<Range<usize>> {
    let (words, partner_words) = (split_words(line), split_words(partner));
    let is_same = |one: usize, other: usize| {
        line[words[one].clone()] == partner[partner_words[other].clone()]
    };
    let shorter = words.len().min(partner_words.len());
    let start = (0..shorter).take_while(|at| is_same(*at, *at)).count();
    let end = (0..shorter - start)
        .take_while(|back| is_same(words.len() - 1 - back, partner_words.len() - 1 - back))
        .count();
    let middle = start..words.len() - end;
    let partner_middle = start..partner_words.len() - end;
    let is_kept = match middle.len() <= MAX_WORDS && partner_middle.len() <= MAX_WORDS {
        true => find_common(middle.clone(), partner_middle, is_same),
        false => vec![false; middle.len()],
    };
    let mut changed: Vec<Range<usize>> = Vec::new();
    for (word, is_kept) in middle.zip(is_kept) {
        let range = words[word].clone();
        if is_kept {
            continue;
        }
        match changed.last_mut() {
            // One mark over several words and the spaces between them.
            Some(last) if line[last.end..range.start].trim().is_empty() => last.end = range.end,
            Some(_) | None => changed.push(range),
        }
    }
    let count = |text: &str| {
        text.chars()
            .filter(|letter| !letter.is_whitespace())
            .count()
    };
    let marked: usize = changed
        .iter()
        .map(|range| count(&line[range.clone()]))
        .sum();
    if (count(line) - marked) * 3 < count(line) {
        return Vec::new();
    }
    changed
}

/// Names and numbers are words; so is every other sign, and every run of spaces.
fn split_words(line: &str) -> Vec<Range<usize>> {
    let class = |letter: char| match letter {
        _ if letter.is_alphanumeric() || letter == '_' => 0,
        _ if letter.is_whitespace() => 1,
        _ => 2,
    };
    let mut words: Vec<Range<usize>> = Vec::new();
    let mut last = 2;
    for (at, letter) in line.char_indices() {
        let end = at + letter.len_utf8();
        match words.last_mut() {
            Some(word) if class(letter) == last && last != 2 => word.end = end,
            Some(_) | None => words.push(at..end),
        }
        last = class(letter);
    }
    words
}

/// Which of the words `one` are part of the longest common sequence with `other`.
fn find_common(
    one: Range<usize>,
    other: Range<usize>,
    is_same: impl Fn(usize, usize) -> bool,
) -> Vec<bool> {
    let width = other.len() + 1;
    let mut lengths = vec![0_u16; (one.len() + 1) * width];
    for (row, at) in one.clone().enumerate().rev() {
        for (column, other_at) in other.clone().enumerate().rev() {
            lengths[row * width + column] = match is_same(at, other_at) {
                true => lengths[(row + 1) * width + column + 1] + 1,
                false => lengths[(row + 1) * width + column].max(lengths[row * width + column + 1]),
            };
        }
    }
    let mut kept = vec![false; one.len()];
    let (mut row, mut column) = (0, 0);
    while row < one.len() && column < other.len() {
        if is_same(one.start + row, other.start + column) {
            kept[row] = true;
            row += 1;
            column += 1;
        } else if lengths[(row + 1) * width + column] >= lengths[row * width + column + 1] {
            row += 1;
        } else {
            column += 1;
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, partner: &str, expected: &[&str]) {
        let changed = find_changed_words(line, partner);
        let changed: Vec<&str> = changed.into_iter().map(|range| &line[range]).collect();
        assert_eq!(changed, expected, "{line} / {partner}");
    }

    #[test]
    fn changed_words_are_marked() {
        check("let total = 1;", "let count = 1;", &["total"]);
        check("clock.sleep(delay);", "sleep(delay);", &["clock."]);
        check("sleep(delay);", "clock.sleep(delay);", &[]);
        check("naïve one", "naïve two", &["one"]);
        check(
            "fn add(a: u64, b: u64) -> u64",
            "fn add(a: u32, b: u32) -> u32",
            &["u64", "u64", "u64"],
        );
    }

    #[test]
    fn lines_without_much_in_common_have_no_marks() {
        check("abc", "xyz", &[]);
        check("", "x", &[]);
        check("x", "", &[]);
        check("a b c", "x y z", &[]);
    }

    #[test]
    fn long_lines_are_compared_at_their_ends() {
        let middle = |word: &str| {
            (0..500)
                .map(|at| format!("{word}{at} "))
                .collect::<String>()
        };
        let frame = "frame ".repeat(2000);
        let line = format!("{frame}{}{frame}", middle("a"));
        let partner = format!("{frame}{}{frame}", middle("b"));
        let changed = find_changed_words(&line, &partner);
        let middle_range = frame.len()..frame.len() + middle("a").trim_end().len();
        assert_eq!(changed, std::slice::from_ref(&middle_range));
    }
}
