//! The values that an actor was given to use and not to tell. Wherever they turn up in what it writes,
//! the name of the variable stands in their place.

use std::borrow::Cow;

/// A shorter value would be found everywhere.
const LEAST: usize = 6;

/// A shorter line of a value of several lines is more likely a part of its frame.
const LEAST_OF_A_LINE: usize = 16;

/// Values to hide, with what is shown in their place.
#[derive(Debug, Clone, Default)]
pub(crate) struct Secrets(Vec<(String, String)>);

impl Secrets {
    /// The values of these variables.
    pub(crate) fn of<'a>(variables: impl Iterator<Item = (&'a str, &'a str)>) -> Self {
        let mut hidden = Vec::new();
        for (name, value) in variables {
            let shown = format!("[{name}]");
            let mut hide = |value: &str, least: usize| {
                if value.len() < least {
                    return;
                }
                // In JSON some of it is written otherwise, and once more otherwise in JSON within it.
                let mut form = value.to_owned();
                for _ in 0..3 {
                    hidden.push((form.clone(), shown.clone()));
                    let quoted = serde_json::Value::from(form).to_string();
                    form = quoted[1..quoted.len() - 1].to_owned();
                }
            };
            let value = value.trim();
            hide(value, LEAST);
            if value.contains('\n') {
                // What is written is looked at line by line.
                for line in value.lines() {
                    hide(line.trim(), LEAST_OF_A_LINE);
                }
            }
        }
        // A value that is part of another must not take it apart.
        hidden.sort_by(|(one, _), (other, _)| (other.len(), one).cmp(&(one.len(), other)));
        hidden.dedup();
        Self(hidden)
    }

    /// The text without them.
    pub(crate) fn hide<'t>(&self, text: &'t str) -> Cow<'t, str> {
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
        let spells_out = line.contains("\\u") || line.contains("\\/");
        if spells_out
            && !self.0.is_empty()
            && let Ok(value) = serde_json::from_str::<serde_json::Value>(line)
        {
            return Cow::Owned(self.hide(&value.to_string()).into_owned());
        }
        self.hide(line)
    }

    /// Is there nothing to hide?
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Bytes of the longest.
    pub(crate) fn longest(&self) -> usize {
        self.0.first().map_or(0, |(value, _)| value.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_hidden_wherever_they_stand_and_however_they_are_written() {
        let secrets = Secrets::of(
            [
                ("KEY", "sk-12345"),
                ("LONGER", "sk-12345-and-more"),
                ("QUOTED", r#"pass"word\1"#),
                ("SHORT", "12345"),
                ("PEM", "-----BEGIN-----\nMIIEvQIBADANBgkqhkiG\n--END--"),
            ]
            .into_iter(),
        );
        let check = |given: &str, expected: &str| assert_eq!(secrets.hide(given), expected);
        check("a sk-12345 b sk-12345", "a [KEY] b [KEY]");
        check("sk-12345-and-more", "[LONGER]");
        check(r#"pass"word\1"#, "[QUOTED]");
        check(r#"{"text": "pass\"word\\1"}"#, r#"{"text": "[QUOTED]"}"#);
        check("12345", "12345");
        check("x MIIEvQIBADANBgkqhkiG", "x [PEM]");
        let spelt = secrets.hide_in_line(r#"{"text": "sk\u002d12345"}"#);
        assert_eq!(spelt, r#"{"text":"[KEY]"}"#);
        let nested = serde_json::Value::from(r#"{"text": "pass\"word\\1"}"#).to_string();
        assert!(secrets.hide(&nested).contains("[QUOTED]"), "{nested}");
        assert!(matches!(secrets.hide("nothing"), Cow::Borrowed(_)));
        assert_eq!(Secrets::default().hide("sk-12345"), "sk-12345");
    }
}
