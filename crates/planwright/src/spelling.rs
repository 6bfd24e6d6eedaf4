//! Suggests the known word that a person probably meant.

/// Longer input is cut: it is not a typo, and comparing it would be slow.
const MAX_WORD_CHARS: usize = 64;

/// Returns the word in `known` closest to `given`, if any is close: a typo, another naming style
/// (`longDescription`) or a part of the word (`profile`).
pub fn nearest_word<'k>(given: &str, known: &[&'k str]) -> Option<&'k str> {
    let given: String = given
        .chars()
        .take(MAX_WORD_CHARS)
        .map(|char| match char {
            '-' | ' ' => '_',
            char => char.to_ascii_lowercase(),
        })
        .collect();
    let max_distance = (given.chars().count() / 3).max(1);
    let by_typo = known
        .iter()
        .map(|word| (strsim::osa_distance(&given, word), *word))
        .filter(|(distance, _)| *distance <= max_distance)
        .min();
    let by_part = || {
        known.iter().copied().find(|word| {
            given.len().min(word.len()) > 3 && (word.contains(&given) || given.contains(word))
        })
    };
    by_typo.map(|(_, word)| word).or_else(by_part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_intended_word() {
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
