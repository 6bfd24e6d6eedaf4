//! The values that an actor was given to use and not to tell. Wherever they turn up in what it writes,
//! the name of the variable stands in their place.

use std::borrow::Cow;

/// A shorter value would be found everywhere.
const MIN_SECRET_BYTES: usize = 6;

/// A shorter line of a value of several lines is more likely a part of its frame.
const MIN_SECRET_LINE_BYTES: usize = 16;

/// Values to hide, with what is shown in their place.
#[derive(Debug, Clone, Default)]
pub(crate) struct SecretValues(Vec<(String, String)>);

impl SecretValues {
    /// The values of these variables.
    pub(crate) fn from_variables<'a>(variables: impl Iterator<Item = (&'a str, &'a str)>) -> Self {
        let mut replacements = Vec::new();
        for (name, value) in variables {
            let shown = format!("[{name}]");
            let mut hide = |value: &str, min_bytes: usize| {
                if value.len() < min_bytes {
                    return;
                }
                // In JSON some of it is written otherwise, and once more otherwise in JSON within it.
                let mut form = value.to_owned();
                for _ in 0..3 {
                    replacements.push((form.clone(), shown.clone()));
                    let quoted = serde_json::Value::from(form).to_string();
                    form = quoted[1..quoted.len() - 1].to_owned();
                }
            };
            let value = value.trim();
            hide(value, MIN_SECRET_BYTES);
            if value.contains('\n') {
                // What is written is looked at line by line.
                for line in value.lines() {
                    hide(line.trim(), MIN_SECRET_LINE_BYTES);
                }
            }
        }
        // A value that is part of another must not take it apart.
        replacements.sort_by(|(one, _), (other, _)| (other.len(), one).cmp(&(one.len(), other)));
        replacements.dedup();
        Self(replacements)
    }

    /// The text without them.
    pub(crate) fn hide_in_text<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let mut text = Cow::Borrowed(text);
        for (value, shown) in &self.0 {
            if text.contains(value.as_str()) {
                text = Cow::Owned(text.replace(value.as_str(), shown));
            }
        }
        text
    }

    /// A line that a program wrote, without them. JSON that spells characters out is written plainly
    /// first: any of them could be.
    pub(crate) fn hide_in_line<'t>(&self, line: &'t str) -> Cow<'t, str> {
        let has_escapes = line.contains("\\u") || line.contains("\\/");
        if has_escapes
            && !self.0.is_empty()
            && let Ok(value) = serde_json::from_str::<serde_json::Value>(line)
        {
            return Cow::Owned(self.hide_in_text(&value.to_string()).into_owned());
        }
        self.hide_in_text(line)
    }

    /// Is there nothing to hide?
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Bytes of the longest.
    pub(crate) fn longest_len(&self) -> usize {
        self.0.first().map_or(0, |(value, _)| value.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_hidden_wherever_they_stand_and_however_they_are_written() {
        let secrets = SecretValues::from_variables(
            [
                ("KEY", "sk-12345"),
                ("LONGER", "sk-12345-and-more"),
                ("QUOTED", r#"pass"word\1"#),
                ("SHORT", "12345"),
                ("PEM", "-----BEGIN-----\nMIIEvQIBADANBgkqhkiG\n--END--"),
            ]
            .into_iter(),
        );
        let check = |given: &str, expected: &str| assert_eq!(secrets.hide_in_text(given), expected);
        check("a sk-12345 b sk-12345", "a [KEY] b [KEY]");
        check("sk-12345-and-more", "[LONGER]");
        check(r#"pass"word\1"#, "[QUOTED]");
        check(r#"{"text": "pass\"word\\1"}"#, r#"{"text": "[QUOTED]"}"#);
        check("12345", "12345");
        check("x MIIEvQIBADANBgkqhkiG", "x [PEM]");
        let spelt = secrets.hide_in_line(r#"{"text": "sk\u002d12345"}"#);
        assert_eq!(spelt, r#"{"text":"[KEY]"}"#);
        let nested = serde_json::Value::from(r#"{"text": "pass\"word\\1"}"#).to_string();
        assert!(
            secrets.hide_in_text(&nested).contains("[QUOTED]"),
            "{nested}"
        );
        assert!(matches!(secrets.hide_in_text("nothing"), Cow::Borrowed(_)));
        assert_eq!(SecretValues::default().hide_in_text("sk-12345"), "sk-12345");
    }
}
