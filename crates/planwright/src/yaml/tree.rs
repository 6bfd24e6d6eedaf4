//! YAML as a tree whose every value and key knows where it stands.
//!
//! Built from the events of the parser below `serde-saphyr` rather than through serde, which has no
//! place to keep the position of a key. Nesting is bounded by the parser, size by the caller; an
//! alias is refused where it stands and never followed, so a small file stays a small tree.

use std::collections::BTreeMap;

use serde_saphyr::granit_parser::{
    self as granit, ErrorKind, Event, Marker, Parser, ScalarStyle, ScanError, Span, StrInput,
};

use super::problem::{Flaw, Position, shown};

/// A value and where it starts.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) at: Position,
    pub(super) value: Value,
}

#[derive(Debug)]
pub(super) enum Value {
    Scalar(Scalar),
    List(Vec<Node>),
    Mapping(Vec<Entry>),
}

/// A single value, not yet of a type.
#[derive(Debug)]
pub(super) struct Scalar {
    pub(super) text: String,
    /// Written without quotes, so that it may be a number, a boolean or nothing.
    pub(super) plain: bool,
}

/// A key with its value. The keys of a mapping differ.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) key: String,
    pub(super) at: Position,
    pub(super) value: Node,
}

/// Deepest nesting of blocks, and of brackets. An action needs five levels.
const MAX_DEPTH: usize = 16;

/// The one document in `source`; a plain empty text if there is none.
pub(super) fn parse(source: &str) -> Result<Node, Flaw> {
    if let Some(index) = source.find('\0') {
        return Err(nul(position_of(source, index)));
    }
    let options = granit::options! {
        strict_indentation: true,
        disallow_directives: true,
        emit_unresolved_aliases: true,
        emit_anchor_events: true,
        emit_comments: false,
        flow_nesting_limit: MAX_DEPTH,
        block_nesting_limit: MAX_DEPTH,
    };
    let parser = Parser::new_from_str_with_options(source, options);
    Events { source, parser }.document()
}

struct Events<'s> {
    source: &'s str,
    parser: Parser<'s, StrInput<'s>>,
}

type Spanned<'s> = (Event<'s>, Position);

impl<'s> Events<'s> {
    fn document(&mut self) -> Result<Node, Flaw> {
        let mut root = None;
        loop {
            let (event, at) = self.next()?;
            match event {
                Event::StreamEnd => break,
                Event::StreamStart | Event::DocumentEnd => {}
                Event::DocumentStart(..) if root.is_some() => {
                    return Err(Flaw::new(at, "a second document starts here").hint(
                        "a file holds exactly one document; remove `---` or split the file",
                    ));
                }
                Event::DocumentStart(..) => {
                    let first = self.next()?;
                    root = Some(self.node(first)?);
                }
                other => return Err(unexpected(&other, at)),
            }
        }
        Ok(root.unwrap_or_else(|| Node {
            at: Position::START,
            value: Value::Scalar(Scalar {
                text: String::new(),
                plain: true,
            }),
        }))
    }

    fn node(&mut self, (event, at): Spanned<'s>) -> Result<Node, Flaw> {
        let value = match event {
            Event::Scalar(text, style, ..) => Value::Scalar(Scalar {
                text: text.into_owned(),
                plain: style == ScalarStyle::Plain,
            }),
            Event::SequenceStart(..) => Value::List(self.list()?),
            Event::MappingStart(..) => Value::Mapping(self.mapping()?),
            other => return Err(unexpected(&other, at)),
        };
        Ok(Node { at, value })
    }

    fn list(&mut self) -> Result<Vec<Node>, Flaw> {
        let mut items = Vec::new();
        loop {
            let next = self.next()?;
            if next.0 == Event::SequenceEnd {
                return Ok(items);
            }
            items.push(self.node(next)?);
        }
    }

    fn mapping(&mut self) -> Result<Vec<Entry>, Flaw> {
        let mut entries = Vec::new();
        let mut seen = BTreeMap::new();
        loop {
            let next = self.next()?;
            if next.0 == Event::MappingEnd {
                return Ok(entries);
            }
            let at = next.1;
            let key = key_of(self.node(next)?)?;
            if let Some(first) = seen.insert(key.clone(), at) {
                let message = format!("the key `{}` is given twice", shown(&key, 60));
                return Err(Flaw::new(at, message)
                    .hint(format!("it is first given in line {}", first.line)));
            }
            let next = self.next()?;
            let value = self.node(next)?;
            entries.push(Entry { key, at, value });
        }
    }

    /// The next event, unless it is something that is not supported anywhere.
    fn next(&mut self) -> Result<Spanned<'s>, Flaw> {
        let (event, span) = match self.parser.next_event() {
            Some(next) => next.map_err(|error| broken(&error, self.source))?,
            None => (Event::StreamEnd, Span::default()),
        };
        let at = position(span.start);
        match &event {
            Event::Anchor(..) => Err(Flaw::new(at, "anchors (`&name`) are not supported")
                .hint("put text that starts with `&` in quotes")),
            Event::Alias(_) | Event::UnresolvedAlias(_) => {
                Err(Flaw::new(at, "aliases (`*name`) are not supported")
                    .hint("put text that starts with `*` in quotes"))
            }
            Event::Scalar(text, ..) if text.contains('\0') => Err(nul(at)),
            node if node.tag().is_some() => {
                let at = span.tag_start().map_or(at, position);
                Err(Flaw::new(at, "tags (`!name`) are not supported")
                    .hint("put text that starts with `!` in quotes"))
            }
            _ => Ok((event, at)),
        }
    }
}

fn key_of(node: Node) -> Result<String, Flaw> {
    match node.value {
        Value::Scalar(key) if key.plain && key.text == "<<" => {
            Err(Flaw::new(node.at, "merge keys (`<<`) are not supported"))
        }
        Value::Scalar(key) if key.plain && key.text == "~" => {
            Err(Flaw::new(node.at, "there is no key before this `:`"))
        }
        Value::Scalar(key) => Ok(key.text),
        Value::List(_) => Err(Flaw::new(node.at, "a key must be a word, found a list")),
        Value::Mapping(_) => Err(Flaw::new(node.at, "a key must be a word, found a mapping")),
    }
}

/// The commonest mistakes in our words, the others in the parser's.
fn broken(error: &ScanError, source: &str) -> Flaw {
    let at = position(*error.marker());
    let (message, hint) = match error.kind() {
        ErrorKind::TabNotAllowed
        | ErrorKind::TabInBlockIndentation
        | ErrorKind::TabInIndentation
        | ErrorKind::TabAtBlockScalarStart
        | ErrorKind::TabInPlainScalar => {
            let at = last_tab(source, *error.marker()).unwrap_or(at);
            return Flaw::new(at, "a tab is not allowed here").hint("indent with spaces");
        }
        ErrorKind::MappingValueNotAllowed | ErrorKind::InvalidColonPlacement => (
            "a `:` is not allowed here",
            "put text that holds `: ` in quotes; indent the keys of one mapping alike",
        ),
        ErrorKind::SimpleKeyExpected | ErrorKind::InvalidSimpleKey => (
            "expected `key: value`, found no `:` after the key",
            "put a space after the `:`; indent the further lines of a text",
        ),
        ErrorKind::ExpectedBlockMappingKey
        | ErrorKind::ExpectedBlockSequenceEntry
        | ErrorKind::InvalidIndentation => (
            "this does not fit what stands before it",
            "put text that starts with `[` or `{` in quotes; indent keys of one mapping alike",
        ),
        ErrorKind::BlockSequenceEntryNotAllowed => (
            "a list cannot start here",
            "start it on a line of its own; put text that starts with `- ` in quotes",
        ),
        ErrorKind::UnclosedQuotedScalar
        | ErrorKind::InvalidQuotedScalarIndent
        | ErrorKind::DocumentIndicatorInQuotedScalar => (
            "a quoted text has no end",
            "close the quote, or indent the further lines of the text",
        ),
        ErrorKind::UnknownQuotedScalarEscape => (
            "this text holds an unknown escape",
            r"in double quotes write `\\` for a backslash, or use single quotes",
        ),
        ErrorKind::InvalidTrailingSingleQuotedScalar
        | ErrorKind::InvalidTrailingDoubleQuotedScalar => (
            "something follows the closing quote",
            "put the whole text in quotes of the other kind",
        ),
        ErrorKind::UnexpectedCharacter { character } if character.is_ascii_punctuation() => {
            return Flaw::new(at, format!("`{character}` cannot start a text"))
                .hint("put the text in quotes");
        }
        ErrorKind::MissingAnchorOrAliasName => (
            "aliases and anchors are not supported",
            "put text that starts with `*` or `&` in quotes",
        ),
        ErrorKind::DirectiveDisallowed => (
            "directives (`%…`) are not supported",
            "remove the line; YAML 1.2 is assumed",
        ),
        ErrorKind::RecursionLimitExceeded => {
            return Flaw::new(at, format!("nested more than {MAX_DEPTH} levels deep"));
        }
        other => return Flaw::new(at, other.to_string()),
    };
    Flaw::new(at, message).hint(hint)
}

fn nul(at: Position) -> Flaw {
    Flaw::new(at, "a NUL character cannot be stored")
}

/// The parser finds out about a tab some characters after it.
fn last_tab(source: &str, found: Marker) -> Option<Position> {
    let offset = found.byte_offset()?;
    let tabs = source.match_indices('\t').map(|(index, _)| index);
    let last = tabs.take_while(|tab| *tab <= offset).last()?;
    Some(position_of(source, last))
}

/// The parser pairs starts with ends, so nothing is known to lead here.
fn unexpected(event: &Event<'_>, at: Position) -> Flaw {
    Flaw::new(at, format!("expected a value, found {event:?}"))
}

fn position(marker: Marker) -> Position {
    Position {
        line: marker.line().max(1),
        column: marker.col() + 1,
    }
}

fn position_of(source: &str, index: usize) -> Position {
    let before = source[..index]
        .trim_start_matches('\u{feff}')
        .replace("\r\n", "\n");
    let (lines, column) = before
        .chars()
        .fold((1, 1), |(line, column), char| match char {
            '\n' | '\r' => (line + 1, 1),
            _ => (line, column + 1),
        });
    Position {
        line: lines,
        column,
    }
}
