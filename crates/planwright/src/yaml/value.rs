//! Reads typed values from nodes. Errors name both the expected and the actual type.

use std::fmt::Display;
use std::str::FromStr;

use super::problem::{YamlFlaw, truncate_escaped};
use super::tree::{YamlNode, YamlScalar, YamlValue};

pub(super) fn read_text(node: &YamlNode) -> Result<String, YamlFlaw> {
    match as_scalar(node) {
        Some((scalar, ScalarKind::Text)) => Ok(scalar.text.clone()),
        Some((scalar, ScalarKind::Boolean | ScalarKind::Number | ScalarKind::Null)) => {
            let quoted = format!(
                "put it in quotes: \"{}\"",
                truncate_escaped(&scalar.text, 60)
            );
            Err(type_mismatch(node, "a string").with_hint(quoted))
        }
        Some((_, ScalarKind::Nothing)) | None => Err(type_mismatch(node, "a string")),
    }
}

/// Reads a string that is not blank.
pub(super) fn read_nonempty_text(node: &YamlNode) -> Result<String, YamlFlaw> {
    let text = read_text(node)?;
    if text.trim().is_empty() {
        return Err(YamlFlaw::new(
            node.at,
            "expected a string, found an empty one",
        ));
    }
    Ok(text)
}

pub(super) fn read_boolean(node: &YamlNode) -> Result<bool, YamlFlaw> {
    match as_scalar(node) {
        Some((scalar, ScalarKind::Boolean)) if scalar.text == "true" => Ok(true),
        Some((scalar, ScalarKind::Boolean)) if scalar.text == "false" => Ok(false),
        _ => Err(type_mismatch(node, "`true` or `false`")),
    }
}

pub(super) fn read_integer(node: &YamlNode) -> Result<i64, YamlFlaw> {
    match as_scalar(node) {
        Some((scalar, ScalarKind::Number)) => scalar.text.parse().ok(),
        _ => None,
    }
    .ok_or_else(|| type_mismatch(node, "a 64-bit integer"))
}

pub(super) fn read_number(node: &YamlNode) -> Result<f64, YamlFlaw> {
    match as_scalar(node) {
        Some((scalar, ScalarKind::Number)) => scalar.text.parse().ok(),
        _ => None,
    }
    .filter(|number: &f64| number.is_finite())
    .ok_or_else(|| type_mismatch(node, "a finite number"))
}

pub(super) fn read_list(node: &YamlNode) -> Result<&[YamlNode], YamlFlaw> {
    match &node.value {
        YamlValue::List(items) => Ok(items),
        YamlValue::Scalar(_) | YamlValue::Mapping(_) => Err(type_mismatch(node, "a list")
            .with_hint("write `[]` for an empty list, or start each item with `- `")),
    }
}

/// Reads a string and parses it as `T`.
pub(super) fn read_parsed<T: FromStr<Err: Display>>(node: &YamlNode) -> Result<T, YamlFlaw> {
    read_text(node)?
        .parse()
        .map_err(|error: T::Err| YamlFlaw::new(node.at, error.to_string()))
}

/// Reads any single value as written.
pub(super) fn read_raw(node: &YamlNode) -> Result<String, YamlFlaw> {
    match as_scalar(node) {
        Some((scalar, ScalarKind::Text | ScalarKind::Boolean | ScalarKind::Number)) => {
            Ok(scalar.text.clone())
        }
        Some((_, ScalarKind::Null | ScalarKind::Nothing)) | None => {
            Err(type_mismatch(node, "a single value"))
        }
    }
}

pub(super) fn is_empty_node(node: &YamlNode) -> bool {
    matches!(
        as_scalar(node),
        Some((_, ScalarKind::Null | ScalarKind::Nothing))
    )
}

pub(super) fn type_mismatch(node: &YamlNode, expected: &str) -> YamlFlaw {
    YamlFlaw::new(
        node.at,
        format!("expected {expected}, found {}", describe_node(node)),
    )
}

fn describe_node(node: &YamlNode) -> String {
    let (scalar, kind) = match &node.value {
        YamlValue::List(_) => return "a list".to_owned(),
        YamlValue::Mapping(_) => return "a mapping".to_owned(),
        YamlValue::Scalar(scalar) => (scalar, scalar_kind(scalar)),
    };
    let text = truncate_escaped(&scalar.text, 60);
    match kind {
        ScalarKind::Nothing => "nothing".to_owned(),
        ScalarKind::Null => format!("`{text}`"),
        ScalarKind::Boolean => format!("the boolean `{text}`"),
        ScalarKind::Number => format!("the number `{text}`"),
        ScalarKind::Text => format!("the string `{text}`"),
    }
}

/// The type of a scalar in the core schema of YAML 1.2.
enum ScalarKind {
    Nothing,
    Null,
    Boolean,
    Number,
    Text,
}

fn as_scalar(node: &YamlNode) -> Option<(&YamlScalar, ScalarKind)> {
    match &node.value {
        YamlValue::Scalar(scalar) => Some((scalar, scalar_kind(scalar))),
        YamlValue::List(_) | YamlValue::Mapping(_) => None,
    }
}

fn scalar_kind(scalar: &YamlScalar) -> ScalarKind {
    if !scalar.plain {
        return ScalarKind::Text;
    }
    match scalar.text.as_str() {
        "" | "~" => ScalarKind::Nothing,
        "null" | "Null" | "NULL" => ScalarKind::Null,
        "true" | "True" | "TRUE" | "false" | "False" | "FALSE" => ScalarKind::Boolean,
        text if is_number(text) => ScalarKind::Number,
        _ => ScalarKind::Text,
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
