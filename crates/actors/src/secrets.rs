//! Secret values that an agent gets in its environment. Wherever they occur in its output, they are
//! replaced by the variable's name.

use std::borrow::Cow;

/// A shorter value would match everywhere.
const MIN_SECRET_BYTES: usize = 6;

/// A shorter line of a multi-line value is more likely a header or footer.
const MIN_SECRET_LINE_BYTES: usize = 16;

/// Pairs of a value and its replacement, longest value first.
#[derive(Debug, Clone, Default)]
pub(crate) struct SecretValues(Vec<(String, String)>);

impl SecretValues {
    pub(crate) fn from_variables<'a>(variables: impl Iterator<Item = (&'a str, &'a str)>) -> Self {
        let mut replacements = Vec::new();
        for (name, value) in variables {
            let shown = format!("[{name}]");
            let mut hide = |value: &str, min_bytes: usize| {
                if value.len() < min_bytes {
                    return;
                }
                // JSON escapes some characters, and JSON within JSON escapes them again.
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
                // Output is searched line by line.
                for line in value.lines() {
                    hide(line.trim(), MIN_SECRET_LINE_BYTES);
                }
            }
        }
        // Longest first, so that a value inside another one does not break it up.
        replacements.sort_by(|(one, _), (other, _)| (other.len(), one).cmp(&(one.len(), other)));
        replacements.dedup();
        Self(replacements)
    }

    pub(crate) fn hide_in_text<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let mut text = Cow::Borrowed(text);
        for (value, shown) in &self.0 {
            if text.contains(value.as_str()) {
                text = Cow::Owned(text.replace(value.as_str(), shown));
            }
        }
        text
    }

    /// Hides secrets in a line of output. JSON with escaped characters is re-encoded first, because
    /// any character of a secret could be escaped.
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

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The length of the longest value in bytes.
    pub(crate) fn longest_len(&self) -> usize {
        self.0.first().map_or(0, |(value, _)| value.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_hidden_in_text_and_in_json() {
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
        let check = |text: &str, expected: &str| assert_eq!(secrets.hide_in_text(text), expected);
        check("a sk-12345 b sk-12345", "a [KEY] b [KEY]");
        check("sk-12345-and-more", "[LONGER]");
        check(r#"pass"word\1"#, "[QUOTED]");
        check(r#"{"text": "pass\"word\\1"}"#, r#"{"text": "[QUOTED]"}"#);
        check("12345", "12345");
        check("x MIIEvQIBADANBgkqhkiG", "x [PEM]");
        let escaped = secrets.hide_in_line(r#"{"text": "sk\u002d12345"}"#);
        assert_eq!(escaped, r#"{"text":"[KEY]"}"#);
        let nested = serde_json::Value::from(r#"{"text": "pass\"word\\1"}"#).to_string();
        assert!(
            secrets.hide_in_text(&nested).contains("[QUOTED]"),
            "{nested}"
        );
        assert!(matches!(secrets.hide_in_text("nothing"), Cow::Borrowed(_)));
        assert_eq!(SecretValues::default().hide_in_text("sk-12345"), "sk-12345");
    }
}
