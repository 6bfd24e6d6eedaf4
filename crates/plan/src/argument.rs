//! Arguments of actions: declarations, parsing and checks.

use std::collections::BTreeMap;
use std::fmt;

use regex::RegexBuilder;
use serde::{Deserialize, Serialize};

use crate::ErasableText;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ArgumentType {
    String,
    /// A signed 64-bit integer.
    Integer,
    /// Finite; no NaN or infinity.
    Float,
    Boolean,
    /// A list of strings.
    List,
}

impl fmt::Display for ArgumentType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::String => "string",
            Self::Integer => "integer",
            Self::Float => "float",
            Self::Boolean => "boolean",
            Self::List => "list",
        })
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ArgumentValue {
    String(ErasableText),
    Integer(i64),
    /// Finite; no NaN or infinity.
    Float(f64),
    Boolean(bool),
    /// A list of strings.
    List(Vec<ErasableText>),
}

impl ArgumentValue {
    /// Returns the value as plain JSON, for output and for rule expressions.
    pub fn to_json(&self) -> serde_json::Value {
        match self {
            Self::String(text) => text.as_str().into(),
            Self::Integer(number) => (*number).into(),
            Self::Float(number) => (*number).into(),
            Self::Boolean(value) => (*value).into(),
            Self::List(items) => items.iter().map(ErasableText::as_str).collect(),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ArgumentSpec {
    pub name: String,
    pub kind: ArgumentType,
    pub required: bool,
    /// Used if the argument is not given.
    pub default: Option<ArgumentValue>,
    /// Minimum of a number, or minimum length of a string or list.
    pub min: Option<f64>,
    /// Maximum of a number, or maximum length of a string or list.
    pub max: Option<f64>,
    /// Regular expression that must match the whole string.
    pub pattern: Option<String>,
    pub description: Option<String>,
}

/// An error in a declaration or in a given value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("argument `{name}`: {why}")]
pub struct ArgumentProblem {
    /// Name of the argument.
    pub name: String,
    /// Says what is wrong and what would be accepted.
    pub why: String,
}

const MAX_VALUE_BYTES: usize = 64 * 1024;
/// Bounds the cost of rule expressions over a list.
const MAX_LIST_ITEMS: usize = 1000;

impl ArgumentSpec {
    /// Checks that the declaration is consistent.
    pub fn check_declaration(&self) -> Result<(), ArgumentProblem> {
        let refuse = |why: String| Err(self.new_problem(why));
        let name_ok = self.name.starts_with(|c: char| c.is_ascii_lowercase())
            && self.name.len() <= 64
            && self
                .name
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
        if !name_ok {
            return refuse(
                "a name is lower-case letters, digits and `_`, starting with a letter".into(),
            );
        }
        if self.pattern.is_some() && self.kind != ArgumentType::String {
            return refuse(format!(
                "`pattern` is for strings, not for type {}",
                self.kind
            ));
        }
        if (self.min.is_some() || self.max.is_some()) && self.kind == ArgumentType::Boolean {
            return refuse("`min` and `max` have no meaning for a boolean".into());
        }
        if [self.min, self.max]
            .into_iter()
            .flatten()
            .any(|bound| !bound.is_finite())
        {
            return refuse("`min` and `max` are finite numbers".into());
        }
        if let (Some(min), Some(max)) = (self.min, self.max)
            && min > max
        {
            return refuse(format!("`min` {min} is greater than `max` {max}"));
        }
        if let Some(pattern) = &self.pattern
            && let Err(error) = compile_pattern(pattern)
        {
            return refuse(format!("`pattern` is not a regular expression: {error}"));
        }
        match &self.default {
            Some(_) if self.required => {
                refuse("it is required, so a default would never be used".into())
            }
            Some(value) => self.check_value(value),
            None => Ok(()),
        }
    }

    /// Parses `text` as a value of this argument's type, and checks it.
    pub fn parse(&self, text: &str) -> Result<ArgumentValue, ArgumentProblem> {
        let refuse = |expected: &str| {
            Err(self.new_problem(format!("`{}` is not {expected}", shorten_for_message(text))))
        };
        let value = match self.kind {
            ArgumentType::String => ArgumentValue::String(text.into()),
            ArgumentType::Integer => match text.parse() {
                Ok(number) => ArgumentValue::Integer(number),
                Err(_) => return refuse("a whole number"),
            },
            ArgumentType::Float => match text.parse::<f64>() {
                Ok(number) if number.is_finite() => ArgumentValue::Float(number),
                Ok(_) | Err(_) => return refuse("a finite number"),
            },
            ArgumentType::Boolean => match text {
                "true" => ArgumentValue::Boolean(true),
                "false" => ArgumentValue::Boolean(false),
                _ => return refuse("`true` or `false`"),
            },
            ArgumentType::List => match serde_json::from_str::<Vec<String>>(text) {
                Ok(items) => {
                    ArgumentValue::List(items.into_iter().map(ErasableText::from).collect())
                }
                Err(_) if text.starts_with('[') => return refuse("a JSON list of strings"),
                Err(_) => ArgumentValue::List(vec![text.into()]),
            },
        };
        self.check_value(&value)?;
        Ok(value)
    }

    fn check_value(&self, value: &ArgumentValue) -> Result<(), ArgumentProblem> {
        let refuse = |why: String| Err(self.new_problem(why));
        #[expect(
            clippy::cast_precision_loss,
            reason = "a bound near 2^53 is compared well enough"
        )]
        let (measure, unit) = match (self.kind, value) {
            (ArgumentType::String, ArgumentValue::String(text)) => {
                if text.as_str().len() > MAX_VALUE_BYTES || text.as_str().contains('\0') {
                    return refuse("a string is at most 64 KiB and contains no NUL".into());
                }
                if let Some(pattern) = &self.pattern
                    && !compile_pattern(pattern).is_ok_and(|regex| regex.is_match(text.as_str()))
                {
                    return refuse(format!(
                        "`{}` does not match `{pattern}`",
                        shorten_for_message(text.as_str())
                    ));
                }
                (text.as_str().chars().count() as f64, " characters")
            }
            (ArgumentType::Integer, ArgumentValue::Integer(number)) => (*number as f64, ""),
            (ArgumentType::Float, ArgumentValue::Float(number)) if number.is_finite() => {
                (*number, "")
            }
            (ArgumentType::Boolean, ArgumentValue::Boolean(_)) => return Ok(()),
            (ArgumentType::List, ArgumentValue::List(items)) => {
                let bytes: usize = items.iter().map(|item| item.as_str().len()).sum();
                if items.len() > MAX_LIST_ITEMS || bytes > MAX_VALUE_BYTES {
                    return refuse("a list has at most 1000 items and 64 KiB".into());
                }
                if items.iter().any(|item| item.as_str().contains('\0')) {
                    return refuse("an item contains a NUL".into());
                }
                (items.len() as f64, " items")
            }
            (kind, _) => return refuse(format!("the value is not of type {kind}")),
        };
        if let Some(min) = self.min
            && measure < min
        {
            return refuse(format!("{measure}{unit} is less than the minimum, {min}"));
        }
        if let Some(max) = self.max
            && measure > max
        {
            return refuse(format!("{measure}{unit} is more than the maximum, {max}"));
        }
        Ok(())
    }

    fn new_problem(&self, why: String) -> ArgumentProblem {
        ArgumentProblem {
            name: self.name.clone(),
            why,
        }
    }
}

/// Resolves the values of all arguments from `name=value` pairs and defaults. On failure it returns
/// every problem, not only the first.
pub fn resolve_arguments(
    specs: &[ArgumentSpec],
    given: &[(String, String)],
) -> Result<BTreeMap<String, ArgumentValue>, Vec<ArgumentProblem>> {
    let mut values = BTreeMap::new();
    let mut problems = Vec::new();
    for (name, _) in given {
        if !specs.iter().any(|spec| &spec.name == name) {
            problems.push(ArgumentProblem {
                name: name.clone(),
                why: describe_unknown_argument(specs),
            });
        }
    }
    for spec in specs {
        let texts: Vec<&str> = given
            .iter()
            .filter(|(name, _)| name == &spec.name)
            .map(|(_, text)| text.as_str())
            .collect();
        match resolve_value(spec, &texts) {
            Ok(Some(value)) => {
                values.insert(spec.name.clone(), value);
            }
            Ok(None) => {}
            Err(problem) => problems.push(problem),
        }
    }
    if problems.is_empty() {
        Ok(values)
    } else {
        Err(problems)
    }
}

fn resolve_value(
    spec: &ArgumentSpec,
    texts: &[&str],
) -> Result<Option<ArgumentValue>, ArgumentProblem> {
    match texts {
        [] if spec.required => {
            Err(spec.new_problem(format!("it is required (type {})", spec.kind)))
        }
        [] => Ok(spec.default.clone()),
        [text] => spec.parse(text).map(Some),
        many if spec.kind == ArgumentType::List => {
            let value =
                ArgumentValue::List(many.iter().map(|text| ErasableText::from(*text)).collect());
            spec.check_value(&value)?;
            Ok(Some(value))
        }
        _ => Err(spec.new_problem("it was given more than once; only a list can be".into())),
    }
}

fn describe_unknown_argument(specs: &[ArgumentSpec]) -> String {
    if specs.is_empty() {
        return "the action takes no arguments".into();
    }
    let known: Vec<_> = specs.iter().map(|spec| spec.name.as_str()).collect();
    format!(
        "the action has no such argument; it has {}",
        known.join(", ")
    )
}

fn compile_pattern(pattern: &str) -> Result<regex::Regex, regex::Error> {
    let limited = |source: &str| RegexBuilder::new(source).size_limit(1 << 20).build();
    // Compile the bare pattern first. `a)|(b` is valid only inside the group, where it would break
    // out of the anchors.
    limited(pattern)?;
    limited(&format!("^(?:{pattern})$"))
}

fn shorten_for_message(text: &str) -> String {
    let mut shown: String = text.chars().take(60).collect();
    if shown.len() < text.len() {
        shown.push_str("...");
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn argument_spec(kind: ArgumentType) -> ArgumentSpec {
        ArgumentSpec {
            name: "n".into(),
            kind,
            required: false,
            default: None,
            min: None,
            max: None,
            pattern: None,
            description: None,
        }
    }

    fn given_pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect()
    }

    #[test]
    fn values_parse_in_their_type() {
        let check = |kind, text: &str, expected: Option<ArgumentValue>| {
            assert_eq!(
                argument_spec(kind).parse(text).ok(),
                expected,
                "{kind} {text}"
            );
        };
        check(
            ArgumentType::Integer,
            "-7",
            Some(ArgumentValue::Integer(-7)),
        );
        check(ArgumentType::Integer, "7.0", None);
        check(ArgumentType::Integer, "9223372036854775808", None);
        check(
            ArgumentType::Float,
            "1e3",
            Some(ArgumentValue::Float(1000.0)),
        );
        check(ArgumentType::Float, "inf", None);
        check(ArgumentType::Float, "NaN", None);
        check(
            ArgumentType::Boolean,
            "true",
            Some(ArgumentValue::Boolean(true)),
        );
        check(ArgumentType::Boolean, "yes", None);
        check(
            ArgumentType::Boolean,
            "false",
            Some(ArgumentValue::Boolean(false)),
        );
        check(
            ArgumentType::String,
            "",
            Some(ArgumentValue::String("".into())),
        );
        check(ArgumentType::String, "a\0", None);
        check(
            ArgumentType::List,
            "a",
            Some(ArgumentValue::List(vec!["a".into()])),
        );
        check(
            ArgumentType::List,
            r#"["a","b"]"#,
            Some(ArgumentValue::List(vec!["a".into(), "b".into()])),
        );
        check(ArgumentType::List, "[1]", None);
    }

    #[test]
    fn missing_arguments_use_defaults_and_repeated_ones_form_a_list() {
        let with_default = ArgumentSpec {
            default: Some(ArgumentValue::Integer(5)),
            ..argument_spec(ArgumentType::Integer)
        };
        let check = |spec: &ArgumentSpec, texts: &[&str], expected: Option<ArgumentValue>| {
            let pairs: Vec<_> = texts.iter().map(|text| ("n", *text)).collect();
            let resolved = resolve_arguments(std::slice::from_ref(spec), &given_pairs(&pairs));
            assert_eq!(resolved.unwrap().get("n").cloned(), expected, "{texts:?}");
        };
        check(&with_default, &[], Some(ArgumentValue::Integer(5)));
        check(&with_default, &["7"], Some(ArgumentValue::Integer(7)));
        check(&argument_spec(ArgumentType::List), &[], None);
        let both = ArgumentValue::List(vec!["a".into(), "b".into()]);
        check(&argument_spec(ArgumentType::List), &["a", "b"], Some(both));
    }

    #[test]
    fn an_unknown_argument_lists_the_known_ones() {
        let check = |specs: &[ArgumentSpec], expected: &str| {
            let problems = resolve_arguments(specs, &given_pairs(&[("other", "1")])).unwrap_err();
            assert_eq!(problems[0].name, "other");
            assert!(problems[0].why.contains(expected), "{}", problems[0]);
        };
        check(&[], "the action takes no arguments");
        check(
            &[argument_spec(ArgumentType::Integer)],
            "no such argument; it has n",
        );
    }

    #[test]
    fn values_are_bounded() {
        let parses = |kind, text: &str| argument_spec(kind).parse(text).is_ok();
        assert!(parses(ArgumentType::String, &"x".repeat(MAX_VALUE_BYTES)));
        assert!(!parses(
            ArgumentType::String,
            &"x".repeat(MAX_VALUE_BYTES + 1)
        ));
        let list = |items: usize, item: &str| serde_json::json!(vec![item; items]).to_string();
        assert!(parses(ArgumentType::List, &list(MAX_LIST_ITEMS, "x")));
        assert!(!parses(ArgumentType::List, &list(MAX_LIST_ITEMS + 1, "x")));
        let half = "x".repeat(MAX_VALUE_BYTES / 2);
        assert!(parses(ArgumentType::List, &list(2, &half)));
        assert!(!parses(ArgumentType::List, &list(3, &half)));
    }

    #[test]
    fn an_invalid_float_says_what_is_expected() {
        for text in ["inf", "NaN", "many"] {
            let problem = argument_spec(ArgumentType::Float).parse(text).unwrap_err();
            assert!(problem.why.contains("a finite number"), "{problem}");
        }
    }

    #[test]
    fn bounds_and_patterns_are_enforced() {
        let bounded = ArgumentSpec {
            min: Some(1.0),
            max: Some(3.0),
            ..argument_spec(ArgumentType::Integer)
        };
        assert!(
            bounded.parse("0").is_err()
                && bounded.parse("3").is_ok()
                && bounded.parse("4").is_err()
        );
        let matched = ArgumentSpec {
            pattern: Some("a|b".into()),
            ..argument_spec(ArgumentType::String)
        };
        assert!(
            matched.parse("a").is_ok() && matched.parse("ab").is_err(),
            "the pattern covers the whole text"
        );
    }

    #[test]
    fn every_problem_is_reported_at_once() {
        let specs = [ArgumentSpec {
            required: true,
            ..argument_spec(ArgumentType::Integer)
        }];
        let problems = resolve_arguments(&specs, &given_pairs(&[("x", "1")])).unwrap_err();
        assert_eq!(problems.len(), 2);
        let twice = resolve_arguments(&specs, &given_pairs(&[("n", "1"), ("n", "2")])).unwrap_err();
        assert!(twice[0].why.contains("more than once"));
    }

    #[test]
    fn inconsistent_declarations_are_refused() {
        let bad = [
            ArgumentSpec {
                name: "N".into(),
                ..argument_spec(ArgumentType::Integer)
            },
            ArgumentSpec {
                pattern: Some("(".into()),
                ..argument_spec(ArgumentType::String)
            },
            ArgumentSpec {
                pattern: Some("a".into()),
                ..argument_spec(ArgumentType::Integer)
            },
            ArgumentSpec {
                min: Some(2.0),
                max: Some(1.0),
                ..argument_spec(ArgumentType::Integer)
            },
            ArgumentSpec {
                min: Some(f64::NAN),
                ..argument_spec(ArgumentType::Float)
            },
            ArgumentSpec {
                min: Some(1.0),
                ..argument_spec(ArgumentType::Boolean)
            },
            ArgumentSpec {
                default: Some(ArgumentValue::Integer(5)),
                max: Some(1.0),
                ..argument_spec(ArgumentType::Integer)
            },
            ArgumentSpec {
                default: Some(ArgumentValue::Integer(5)),
                required: true,
                ..argument_spec(ArgumentType::Integer)
            },
            ArgumentSpec {
                default: Some(ArgumentValue::Boolean(true)),
                ..argument_spec(ArgumentType::Integer)
            },
            ArgumentSpec {
                default: Some(ArgumentValue::Float(f64::INFINITY)),
                ..argument_spec(ArgumentType::Float)
            },
        ];
        for spec in bad {
            assert!(spec.check_declaration().is_err(), "{spec:?}");
        }
    }

    #[test]
    fn names_are_made_of_letters_digits_and_underscores() {
        let (long, too_long) = ("x".repeat(64), "x".repeat(65));
        let check = |name: &str, is_valid: bool| {
            let spec = ArgumentSpec {
                name: name.into(),
                ..argument_spec(ArgumentType::String)
            };
            assert_eq!(spec.check_declaration().is_ok(), is_valid, "{name}");
        };
        for name in ["a", "a1", "a_", "area_51", &long] {
            check(name, true);
        }
        for name in ["", "1a", "_a", "A", "aB", "a-b", "a b", "ä", &too_long] {
            check(name, false);
        }
    }

    #[test]
    fn consistent_declarations_are_accepted() {
        let good = [
            ArgumentSpec {
                min: Some(1.0),
                max: Some(1.0),
                default: Some(ArgumentValue::Integer(1)),
                ..argument_spec(ArgumentType::Integer)
            },
            ArgumentSpec {
                max: Some(3.0),
                pattern: Some("[a-z]+".into()),
                default: Some(ArgumentValue::String("abc".into())),
                ..argument_spec(ArgumentType::String)
            },
            ArgumentSpec {
                required: true,
                ..argument_spec(ArgumentType::Boolean)
            },
        ];
        for spec in good {
            assert_eq!(spec.check_declaration(), Ok(()), "{spec:?}");
        }
    }
}
