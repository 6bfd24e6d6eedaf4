//! Typed values out of nodes. What is expected and what was found are both told.

use std::fmt::Display;
use std::str::FromStr;

use super::problem::{Flaw, shown};
use super::tree::{Node, Scalar, Value};

pub(super) fn text(node: &Node) -> Result<String, Flaw> {
    match scalar(node) {
        Some((scalar, Kind::Text)) => Ok(scalar.text.clone()),
        Some((scalar, Kind::Boolean | Kind::Number | Kind::Null)) => {
            let quoted = format!("in quotes it is a text: \"{}\"", shown(&scalar.text, 60));
            Err(mismatch(node, "a text").hint(quoted))
        }
        Some((_, Kind::Nothing)) | None => Err(mismatch(node, "a text")),
    }
}

/// A text that says something.
pub(super) fn prose(node: &Node) -> Result<String, Flaw> {
    let text = text(node)?;
    if text.trim().is_empty() {
        return Err(Flaw::new(node.at, "expected a text, found an empty one"));
    }
    Ok(text)
}

pub(super) fn boolean(node: &Node) -> Result<bool, Flaw> {
    match scalar(node) {
        Some((scalar, Kind::Boolean)) if scalar.text == "true" => Ok(true),
        Some((scalar, Kind::Boolean)) if scalar.text == "false" => Ok(false),
        _ => Err(mismatch(node, "`true` or `false`")),
    }
}

pub(super) fn integer(node: &Node) -> Result<i64, Flaw> {
    match scalar(node) {
        Some((scalar, Kind::Number)) => scalar.text.parse().ok(),
        _ => None,
    }
    .ok_or_else(|| mismatch(node, "a whole number of 64 bits"))
}

pub(super) fn number(node: &Node) -> Result<f64, Flaw> {
    match scalar(node) {
        Some((scalar, Kind::Number)) => scalar.text.parse().ok(),
        _ => None,
    }
    .filter(|number: &f64| number.is_finite())
    .ok_or_else(|| mismatch(node, "a finite number"))
}

pub(super) fn list(node: &Node) -> Result<&[Node], Flaw> {
    match &node.value {
        Value::List(items) => Ok(items),
        Value::Scalar(_) | Value::Mapping(_) => Err(mismatch(node, "a list")
            .hint("write `[]` for an empty list, or start each item with `- `")),
    }
}

/// A text in the syntax of `T`.
pub(super) fn parsed<T: FromStr<Err: Display>>(node: &Node) -> Result<T, Flaw> {
    text(node)?
        .parse()
        .map_err(|error: T::Err| Flaw::new(node.at, error.to_string()))
}

/// Any single value, as it is written.
pub(super) fn written(node: &Node) -> Result<String, Flaw> {
    match scalar(node) {
        Some((scalar, Kind::Text | Kind::Boolean | Kind::Number)) => Ok(scalar.text.clone()),
        Some((_, Kind::Null | Kind::Nothing)) | None => Err(mismatch(node, "a single value")),
    }
}

pub(super) fn is_nothing(node: &Node) -> bool {
    matches!(scalar(node), Some((_, Kind::Null | Kind::Nothing)))
}

pub(super) fn mismatch(node: &Node, expected: &str) -> Flaw {
    Flaw::new(
        node.at,
        format!("expected {expected}, found {}", found(node)),
    )
}

fn found(node: &Node) -> String {
    let (scalar, kind) = match &node.value {
        Value::List(_) => return "a list".to_owned(),
        Value::Mapping(_) => return "a mapping".to_owned(),
        Value::Scalar(scalar) => (scalar, kind_of(scalar)),
    };
    let text = shown(&scalar.text, 60);
    match kind {
        Kind::Nothing => "nothing".to_owned(),
        Kind::Null => format!("`{text}`"),
        Kind::Boolean => format!("the boolean `{text}`"),
        Kind::Number => format!("the number `{text}`"),
        Kind::Text => format!("the text `{text}`"),
    }
}

/// What YAML 1.2 takes a scalar for (its core schema).
enum Kind {
    Nothing,
    Null,
    Boolean,
    Number,
    Text,
}

fn scalar(node: &Node) -> Option<(&Scalar, Kind)> {
    match &node.value {
        Value::Scalar(scalar) => Some((scalar, kind_of(scalar))),
        Value::List(_) | Value::Mapping(_) => None,
    }
}

fn kind_of(scalar: &Scalar) -> Kind {
    if !scalar.plain {
        return Kind::Text;
    }
    match scalar.text.as_str() {
        "" | "~" => Kind::Nothing,
        "null" | "Null" | "NULL" => Kind::Null,
        "true" | "True" | "TRUE" | "false" | "False" | "FALSE" => Kind::Boolean,
        text if is_number(text) => Kind::Number,
        _ => Kind::Text,
    }
}

fn is_number(text: &str) -> bool {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let of_base = |prefix, base| {
        text.strip_prefix(prefix).is_some_and(|digits: &str| {
            !digits.is_empty() && digits.chars().all(|c| c.is_digit(base))
        })
    };
    matches!(digits, ".inf" | ".Inf" | ".INF" | ".nan" | ".NaN" | ".NAN")
        || of_base("0x", 16)
        || of_base("0o", 8)
        || digits.starts_with(|char: char| char.is_ascii_digit() || char == '.')
            && digits.parse::<f64>().is_ok()
}
