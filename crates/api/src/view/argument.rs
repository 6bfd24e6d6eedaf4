//! Views of argument values.

use plan::argument::ArgumentValue;
use serde::Serialize;
use utoipa::ToSchema;

/// A value, serialized without its type: `"text"`, `3`, `true`, `["a", "b"]`.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[serde(untagged)]
pub enum ArgumentView {
    String(String),
    Integer(i64),
    Float(f64),
    Boolean(bool),
    List(Vec<String>),
}

impl From<&ArgumentValue> for ArgumentView {
    fn from(value: &ArgumentValue) -> Self {
        match value {
            ArgumentValue::String(text) => Self::String(text.to_string()),
            ArgumentValue::Integer(number) => Self::Integer(*number),
            ArgumentValue::Float(number) => Self::Float(*number),
            ArgumentValue::Boolean(value) => Self::Boolean(*value),
            ArgumentValue::List(items) => {
                Self::List(items.iter().map(ToString::to_string).collect())
            }
        }
    }
}
