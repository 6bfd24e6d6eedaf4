//! Commands in hints, as they can be typed from here: with the program and store of this call.

/// How this program was called.
#[derive(Debug, Clone)]
pub struct Typed {
    program: String,
    prefix: String,
}

impl Typed {
    /// By this program name, with this `--store` if one was given.
    pub fn new(program: &str, store: Option<&str>) -> Self {
        let program = quoted(program);
        let prefix = match store {
            Some(store) => format!("{program} --store {}", quoted(store)),
            None => program.clone(),
        };
        Self { program, prefix }
    }

    /// By the same program name, for another store.
    #[must_use]
    pub fn at_store(&self, store: &str) -> Self {
        Self {
            prefix: format!("{} --store {}", self.program, quoted(store)),
            ..self.clone()
        }
    }

    /// Is this a command that can be typed, and not a sentence?
    pub fn is_command(&self, hint: &str) -> bool {
        hint.starts_with(&format!("{} ", self.prefix))
    }

    /// A hint that is a command, or ends with one, as it can be typed; any other text as it is.
    pub fn hint(&self, text: &str) -> String {
        match text.strip_prefix("planwright ") {
            Some(rest) => format!("{} {rest}", self.prefix),
            None => text.replace(": planwright ", &format!(": {} ", self.prefix)),
        }
    }
}

/// A word a shell takes as one.
pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@=+,%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_can_be_typed_from_where_one_is() {
        let plain = Typed::new("planwright", None);
        assert_eq!(plain.hint("planwright list"), "planwright list");
        let elsewhere = Typed::new("target/release/planwright", Some("sqlite:/tmp/a b.db"));
        assert_eq!(
            elsewhere.hint("planwright list"),
            "target/release/planwright --store 'sqlite:/tmp/a b.db' list"
        );
        assert_eq!(elsewhere.hint("Wait a moment."), "Wait a moment.");
        assert_eq!(
            elsewhere
                .at_store("sqlite:b.db")
                .hint("Look: planwright list"),
            "Look: target/release/planwright --store sqlite:b.db list"
        );
        assert_eq!(quoted("it's"), r"'it'\''s'");
    }
}
