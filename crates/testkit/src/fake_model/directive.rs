//! What the model is to do: a word in a prompt, such as `fake-model:write:NOTES.md:hello`.

use std::fmt;

/// A line to put into a file of the working directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelDirective {
    pub verb: DirectiveVerb,
    pub file: String,
    pub line: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DirectiveVerb {
    /// Writes the file, with the agent's tool for that.
    Write,
    /// The same, and writes another file if the prompt asks for a strategy only.
    Disobey,
    /// Appends to the file, with a shell command.
    Append,
}

const DIRECTIVE_PREFIX: &str = "fake-model:";

impl ModelDirective {
    /// The last directive in a text.
    pub fn find_last(text: &str) -> Option<Self> {
        let found = text.rmatch_indices(DIRECTIVE_PREFIX);
        found
            .filter_map(|(start, prefix)| Self::parse(&text[start + prefix.len()..]))
            .next()
    }

    /// What is done although a strategy is asked for.
    pub fn in_strategy(&self) -> Option<Self> {
        match self.verb {
            DirectiveVerb::Disobey => Some(Self {
                file: format!("DRAFT-{}", self.file),
                ..self.clone()
            }),
            DirectiveVerb::Write | DirectiveVerb::Append => None,
        }
    }

    fn parse(text: &str) -> Option<Self> {
        let is_inside = |c: char| c.is_ascii_alphanumeric() || "_-./:".contains(c);
        let end = text.find(|c| !is_inside(c)).unwrap_or(text.len());
        // The end of a sentence is not part of it.
        let mut parts = text[..end].trim_end_matches('.').split(':');
        let verb = match parts.next()? {
            "write" => DirectiveVerb::Write,
            "disobey" => DirectiveVerb::Disobey,
            "append" => DirectiveVerb::Append,
            _ => return None,
        };
        let mut next_part = || parts.next().filter(|part| !part.is_empty());
        Some(Self {
            verb,
            file: next_part()?.to_owned(),
            line: next_part()?.to_owned(),
        })
    }
}

/// In words that are not a directive themselves.
impl fmt::Display for ModelDirective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (line, file) = (&self.line, &self.file);
        match self.verb {
            DirectiveVerb::Write | DirectiveVerb::Disobey => {
                write!(f, "write {line} to {file}")
            }
            DirectiveVerb::Append => write!(f, "append {line} to {file}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_directive_of_a_text_counts() {
        let check = |text: &str, expected: Option<(DirectiveVerb, &str, &str)>| {
            let found = ModelDirective::find_last(text);
            let found = found.as_ref();
            let found = found.map(|one| (one.verb, one.file.as_str(), one.line.as_str()));
            assert_eq!(found, expected, "{text}");
        };
        let write = Some((DirectiveVerb::Write, "docs/a.md", "hello"));
        check("Please \"fake-model:write:docs/a.md:hello\".", write);
        check("fake-model:write:docs/a.md:hello.\n\nnext", write);
        check(
            "fake-model:write:a.md:hello then fake-model:append:a.md:more",
            Some((DirectiveVerb::Append, "a.md", "more")),
        );
        check("fake-model:write:docs/a.md:hello fake-model:sing", write);
        check("fake-model:write:a.md", None);
        check("nothing", None);
    }
}
