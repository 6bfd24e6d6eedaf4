//! Renders commands in hints with the program path and `--store` of this invocation, ready to paste.

/// How this program was invoked.
#[derive(Debug, Clone)]
pub struct ProgramInvocation {
    program: String,
    /// The program with its `--store`, if one was given.
    prefix: String,
}

impl ProgramInvocation {
    pub fn new(program: &str, store: Option<&str>) -> Self {
        let program = quote_word(program);
        let prefix = match store {
            Some(store) => format!("{program} --store {}", quote_word(store)),
            None => program.clone(),
        };
        Self { program, prefix }
    }

    /// The same program with another `--store`.
    #[must_use]
    pub fn with_store(&self, store: &str) -> Self {
        Self {
            prefix: format!("{} --store {}", self.program, quote_word(store)),
            ..self.clone()
        }
    }

    /// Returns whether a rendered hint is a command, not a sentence.
    pub fn is_command(&self, hint: &str) -> bool {
        hint.starts_with(&format!("{} ", self.prefix))
    }

    /// Replaces `planwright` in a hint that is a command or ends with one. Returns other text unchanged.
    pub fn render_hint(&self, text: &str) -> String {
        match text.strip_prefix("planwright ") {
            Some(rest) => format!("{} {rest}", self.prefix),
            None => text.replace(": planwright ", &format!(": {} ", self.prefix)),
        }
    }
}

/// Quotes a word for the shell if necessary.
pub fn quote_word(word: &str) -> String {
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
    fn hints_use_the_program_and_store_of_this_invocation() {
        let plain = ProgramInvocation::new("planwright", None);
        assert_eq!(plain.render_hint("planwright list"), "planwright list");
        let elsewhere =
            ProgramInvocation::new("target/release/planwright", Some("sqlite:/tmp/a b.db"));
        assert_eq!(
            elsewhere.render_hint("planwright list"),
            "target/release/planwright --store 'sqlite:/tmp/a b.db' list"
        );
        assert_eq!(elsewhere.render_hint("Wait a moment."), "Wait a moment.");
        assert_eq!(
            elsewhere
                .with_store("sqlite:b.db")
                .render_hint("Look: planwright list"),
            "Look: target/release/planwright --store sqlite:b.db list"
        );
        assert_eq!(quote_word("it's"), r"'it'\''s'");
    }
}
