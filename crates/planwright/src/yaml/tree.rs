//! Parses YAML into a tree whose values and keys know their position.
//!
//! Uses the parser below `serde-saphyr` directly, because serde cannot keep the position of a key. The parser
//! limits nesting, the caller limits size. Aliases are refused and never expanded, so a small file cannot become
//! a large tree.

use std::collections::BTreeMap;

use serde_saphyr::granit_parser::{
    self as granit, ErrorKind, Event, Marker, Parser, ScalarStyle, ScanError, Span, StrInput,
};

use super::problem::{FilePosition, YamlFlaw, truncate_escaped};

/// A value and where it starts.
#[derive(Debug)]
pub(super) struct YamlNode {
    pub(super) at: FilePosition,
    pub(super) value: YamlValue,
}

#[derive(Debug)]
pub(super) enum YamlValue {
    Scalar(YamlScalar),
    List(Vec<YamlNode>),
    Mapping(Vec<YamlEntry>),
}

/// A single value that is not typed yet.
#[derive(Debug)]
pub(super) struct YamlScalar {
    pub(super) text: String,
    /// Written without quotes, so it may be a number, a boolean or null.
    pub(super) plain: bool,
}

/// A key with its value. Keys are unique within a mapping.
#[derive(Debug)]
pub(super) struct YamlEntry {
    pub(super) key: String,
    pub(super) at: FilePosition,
    pub(super) value: YamlNode,
}

/// The nesting limit of blocks and of brackets, each. An action needs five levels.
const MAX_DEPTH: usize = 16;

/// Parses the single document in `source`; an empty plain scalar if there is none.
pub(super) fn parse_document(source: &str) -> Result<YamlNode, YamlFlaw> {
    if let Some(index) = source.find('\0') {
        return Err(nul_flaw(index_position(source, index)));
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
    TreeBuilder { source, parser }.read_document()
}

struct TreeBuilder<'s> {
    source: &'s str,
    parser: Parser<'s, StrInput<'s>>,
}

type PositionedEvent<'s> = (Event<'s>, FilePosition);

impl<'s> TreeBuilder<'s> {
    fn read_document(&mut self) -> Result<YamlNode, YamlFlaw> {
        let mut root = None;
        loop {
            let (event, at) = self.next_event()?;
            match event {
                Event::StreamEnd => break,
                Event::StreamStart | Event::DocumentEnd => {}
                Event::DocumentStart(..) if root.is_some() => {
                    return Err(
                        YamlFlaw::new(at, "a second document starts here").with_hint(
                            "a file holds exactly one document; remove `---` or split the file",
                        ),
                    );
                }
                Event::DocumentStart(..) => {
                    let first = self.next_event()?;
                    root = Some(self.read_node(first)?);
                }
                other => return Err(unexpected_event(&other, at)),
            }
        }
        Ok(root.unwrap_or_else(|| YamlNode {
            at: FilePosition::START,
            value: YamlValue::Scalar(YamlScalar {
                text: String::new(),
                plain: true,
            }),
        }))
    }

    fn read_node(&mut self, (event, at): PositionedEvent<'s>) -> Result<YamlNode, YamlFlaw> {
        let value = match event {
            Event::Scalar(text, style, ..) => YamlValue::Scalar(YamlScalar {
                text: text.into_owned(),
                plain: style == ScalarStyle::Plain,
            }),
            Event::SequenceStart(..) => YamlValue::List(self.read_list()?),
            Event::MappingStart(..) => YamlValue::Mapping(self.read_mapping()?),
            other => return Err(unexpected_event(&other, at)),
        };
        Ok(YamlNode { at, value })
    }

    fn read_list(&mut self) -> Result<Vec<YamlNode>, YamlFlaw> {
        let mut items = Vec::new();
        loop {
            let next = self.next_event()?;
            if next.0 == Event::SequenceEnd {
                return Ok(items);
            }
            items.push(self.read_node(next)?);
        }
    }

    fn read_mapping(&mut self) -> Result<Vec<YamlEntry>, YamlFlaw> {
        let mut entries = Vec::new();
        let mut seen = BTreeMap::new();
        loop {
            let next = self.next_event()?;
            if next.0 == Event::MappingEnd {
                return Ok(entries);
            }
            let at = next.1;
            let key = read_key(self.read_node(next)?)?;
            if let Some(first) = seen.insert(key.clone(), at) {
                let message = format!("duplicate key `{}`", truncate_escaped(&key, 60));
                return Err(YamlFlaw::new(at, message)
                    .with_hint(format!("first set on line {}", first.line)));
            }
            let next = self.next_event()?;
            let value = self.read_node(next)?;
            entries.push(YamlEntry { key, at, value });
        }
    }

    /// Returns the next event. Refuses anchors, aliases, tags and NUL characters.
    fn next_event(&mut self) -> Result<PositionedEvent<'s>, YamlFlaw> {
        let (event, span) = match self.parser.next_event() {
            Some(next) => next.map_err(|error| explain_scan_error(&error, self.source))?,
            None => (Event::StreamEnd, Span::default()),
        };
        let at = marker_position(span.start);
        match &event {
            Event::Anchor(..) => Err(YamlFlaw::new(at, "anchors (`&name`) are not supported")
                .with_hint("put text that starts with `&` in quotes")),
            Event::Alias(_) | Event::UnresolvedAlias(_) => {
                Err(YamlFlaw::new(at, "aliases (`*name`) are not supported")
                    .with_hint("put text that starts with `*` in quotes"))
            }
            Event::Scalar(text, ..) if text.contains('\0') => Err(nul_flaw(at)),
            node if node.tag().is_some() => {
                let at = span.tag_start().map_or(at, marker_position);
                Err(YamlFlaw::new(at, "tags (`!name`) are not supported")
                    .with_hint("put text that starts with `!` in quotes"))
            }
            _ => Ok((event, at)),
        }
    }
}

fn read_key(node: YamlNode) -> Result<String, YamlFlaw> {
    match node.value {
        YamlValue::Scalar(key) if key.plain && key.text == "<<" => Err(YamlFlaw::new(
            node.at,
            "merge keys (`<<`) are not supported",
        )),
        YamlValue::Scalar(key) if key.plain && key.text == "~" => {
            Err(YamlFlaw::new(node.at, "missing key before this `:`"))
        }
        YamlValue::Scalar(key) => Ok(key.text),
        YamlValue::List(_) => Err(YamlFlaw::new(node.at, "a key must be a word, found a list")),
        YamlValue::Mapping(_) => Err(YamlFlaw::new(
            node.at,
            "a key must be a word, found a mapping",
        )),
    }
}

/// Explains common mistakes with a hint. Other errors keep the parser's message.
fn explain_scan_error(error: &ScanError, source: &str) -> YamlFlaw {
    let at = marker_position(*error.marker());
    let (message, hint) = match error.kind() {
        ErrorKind::TabNotAllowed
        | ErrorKind::TabInBlockIndentation
        | ErrorKind::TabInIndentation
        | ErrorKind::TabAtBlockScalarStart
        | ErrorKind::TabInPlainScalar => {
            let at = find_last_tab(source, *error.marker()).unwrap_or(at);
            return YamlFlaw::new(at, "a tab is not allowed here").with_hint("indent with spaces");
        }
        ErrorKind::MappingValueNotAllowed | ErrorKind::InvalidColonPlacement => (
            "a `:` is not allowed here",
            "put text that contains `: ` in quotes, and indent all keys of a mapping alike",
        ),
        ErrorKind::SimpleKeyExpected | ErrorKind::InvalidSimpleKey => (
            "expected `key: value`, found no `:` after the key",
            "put a space after the `:`, and indent continuation lines",
        ),
        ErrorKind::ExpectedBlockMappingKey
        | ErrorKind::ExpectedBlockSequenceEntry
        | ErrorKind::InvalidIndentation => (
            "unexpected indentation or syntax",
            "put text that starts with `[` or `{` in quotes, and indent all keys of a mapping alike",
        ),
        ErrorKind::BlockSequenceEntryNotAllowed => (
            "a list cannot start here",
            "start it on its own line, or put text that starts with `- ` in quotes",
        ),
        ErrorKind::UnclosedQuotedScalar
        | ErrorKind::InvalidQuotedScalarIndent
        | ErrorKind::DocumentIndicatorInQuotedScalar => (
            "missing closing quote",
            "close the quote, or indent the continuation lines",
        ),
        ErrorKind::UnknownQuotedScalarEscape => (
            "unknown escape in a quoted string",
            r"in double quotes write `\\` for a backslash, or use single quotes",
        ),
        ErrorKind::InvalidTrailingSingleQuotedScalar
        | ErrorKind::InvalidTrailingDoubleQuotedScalar => (
            "unexpected text after the closing quote",
            "put the whole value in quotes of the other kind",
        ),
        ErrorKind::UnexpectedCharacter { character } if character.is_ascii_punctuation() => {
            return YamlFlaw::new(at, format!("a string cannot start with `{character}`"))
                .with_hint("put it in quotes");
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
            return YamlFlaw::new(at, format!("nested more than {MAX_DEPTH} levels deep"));
        }
        other => return YamlFlaw::new(at, other.to_string()),
    };
    YamlFlaw::new(at, message).with_hint(hint)
}

fn nul_flaw(at: FilePosition) -> YamlFlaw {
    YamlFlaw::new(at, "a NUL character cannot be stored")
}

/// Finds the tab that the parser complains about: it reports a position some characters later.
fn find_last_tab(source: &str, found: Marker) -> Option<FilePosition> {
    let offset = found.byte_offset()?;
    let tabs = source.match_indices('\t').map(|(index, _)| index);
    let last = tabs.take_while(|tab| *tab <= offset).last()?;
    Some(index_position(source, last))
}

/// Reports an event that should be impossible: the parser pairs starts with ends.
fn unexpected_event(event: &Event<'_>, at: FilePosition) -> YamlFlaw {
    YamlFlaw::new(at, format!("expected a value, found {event:?}"))
}

fn marker_position(marker: Marker) -> FilePosition {
    FilePosition {
        line: marker.line().max(1),
        column: marker.col() + 1,
    }
}

fn index_position(source: &str, index: usize) -> FilePosition {
    let before = source[..index]
        .trim_start_matches('\u{feff}')
        .replace("\r\n", "\n");
    let (lines, column) = before
        .chars()
        .fold((1, 1), |(line, column), char| match char {
            '\n' | '\r' => (line + 1, 1),
            _ => (line, column + 1),
        });
    FilePosition {
        line: lines,
        column,
    }
}
