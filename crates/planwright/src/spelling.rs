//! The known word that was probably meant.

/// The nearest of `known` to `given`, if any is near: a slip of the keyboard, another style of
/// writing (`longDescription`), or a part of it (`profile`).
pub fn nearest_word<'k>(given: &str, known: &[&'k str]) -> Option<&'k str> {
    let given: Vec<char> = given
        .chars()
        .take(MAX_WORD_CHARS)
        .map(|char| match char {
            '-' | ' ' => '_',
            char => char.to_ascii_lowercase(),
        })
        .collect();
    let near = (given.len() / 3).max(1);
    let by_slip = known
        .iter()
        .map(|word| {
            (
                edit_distance(&given, &word.chars().collect::<Vec<_>>()),
                *word,
            )
        })
        .filter(|(distance, _)| *distance <= near)
        .min();
    let text: String = given.iter().collect();
    let by_part = || {
        known.iter().copied().find(|word| {
            given.len().min(word.len()) > 3 && (word.contains(&text) || text.contains(word))
        })
    };
    by_slip.map(|(_, word)| word).or_else(by_part)
}

/// Longer words are nobody's slip of a key.
const MAX_WORD_CHARS: usize = 64;

/// How many characters must be added, removed, replaced or swapped with their neighbour.
fn edit_distance(one: &[char], other: &[char]) -> usize {
    let mut rows = vec![vec![0; other.len() + 1]; one.len() + 1];
    rows[0] = (0..=other.len()).collect();
    for i in 1..=one.len() {
        rows[i][0] = i;
        for j in 1..=other.len() {
            let replaced = rows[i - 1][j - 1] + usize::from(one[i - 1] != other[j - 1]);
            let mut least = replaced.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
            if i > 1 && j > 1 && one[i - 1] == other[j - 2] && one[i - 2] == other[j - 1] {
                least = least.min(rows[i - 2][j - 2] + 1);
            }
            rows[i][j] = least;
        }
    }
    rows[one.len()][other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_word_that_was_meant_is_found() {
        const KNOWN: [&str; 7] = [
            "name",
            "type",
            "expr",
            "description",
            "long_description",
            "automation_profile",
            "read_only",
        ];
        let check = |given: &str, expected: Option<&str>| {
            assert_eq!(nearest_word(given, &KNOWN), expected, "{given}");
        };
        check("nmae", Some("name"));
        check("Name", Some("name"));
        check("descripton", Some("description"));
        check("longDescription", Some("long_description"));
        check("read-only", Some("read_only"));
        check("profile", Some("automation_profile"));
        check("expression", Some("expr"));
        check("kind", None);
        check("", None);
        check(&"x".repeat(100_000), None);
    }
}
