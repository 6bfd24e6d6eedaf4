//! Renders commands in hints with the program path and `--store` of this invocation, ready to paste. Leaves out a
//! `--store` with a password.

use crate::wire::UserMessage;

/// How this program was invoked.
#[derive(Debug, Clone)]
pub struct ProgramInvocation {
    program: String,
    /// The program with its `--store`, if one was given and may be shown.
    prefix: String,
    /// The `--store` that was given contains a password.
    hides_store: bool,
}

impl ProgramInvocation {
    pub fn new(program: &str, store: Option<&str>) -> Self {
        let program = quote_word(program);
        let shown = store.filter(|store| !contains_password(store));
        let prefix = match shown {
            Some(store) => format!("{program} --store {}", quote_word(store)),
            None => program.clone(),
        };
        Self {
            program,
            prefix,
            hides_store: store.is_some() && shown.is_none(),
        }
    }

    /// The same program with another `--store`.
    #[must_use]
    pub fn with_store(&self, store: &str) -> Self {
        Self {
            prefix: format!("{} --store {}", self.program, quote_word(store)),
            hides_store: false,
            ..self.clone()
        }
    }

    /// Renders hints. Adds one that says how to choose the store if their commands cannot.
    pub fn render_hints(&self, messages: &mut Vec<UserMessage>) {
        let mut hidden = false;
        for message in messages.iter_mut().filter(|one| one.level == "hint") {
            let is_command = message.text.starts_with("planwright ");
            hidden |= self.hides_store && (is_command || message.text.contains(": planwright "));
            message.text = self.render_hint(&message.text);
        }
        if hidden {
            messages.push(UserMessage {
                level: "hint",
                text: "Set PLANWRIGHT_STORE first: hints leave out a --store with a password."
                    .to_owned(),
            });
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

/// Returns whether a store address contains a password, or may contain one.
pub fn contains_password(address: &str) -> bool {
    if address.starts_with("sqlite:") {
        return false;
    }
    let rest = address.split_once("://").map_or(address, |(_, rest)| rest);
    // Up to the last `@`, because a password may contain one unescaped.
    let credentials = rest.rsplit_once('@').map_or("", |(before, _)| before);
    credentials.contains(':') || rest.contains("password")
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
    fn hints_never_contain_the_password_of_the_store() {
        for store in [
            "postgres://ada:swordfish@db.example/plans",
            "postgres://ada:sword@fish@db.example/plans",
            "postgres://db.example/plans?user=ada&password=swordfish",
            "host=db.example password=swordfish",
        ] {
            let invocation = ProgramInvocation::new("planwright", Some(store));
            let mut messages = vec![UserMessage {
                level: "hint",
                text: "planwright list".to_owned(),
            }];
            invocation.render_hints(&mut messages);
            assert_eq!(messages[0].text, "planwright list");
            assert!(messages[1].text.contains("PLANWRIGHT_STORE"), "{store}");
        }
        let open =
            ProgramInvocation::new("planwright", Some("postgres://ada@db.example:5432/plans"));
        assert_eq!(
            open.render_hint("planwright list"),
            "planwright --store postgres://ada@db.example:5432/plans list"
        );
    }

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
