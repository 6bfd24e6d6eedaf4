//! Events as bytes: what is stored, what is hashed, what can be erased.
//!
//! The stored body of an event holds the digest of each free text instead of the text; the texts
//! lie beside it. The hash covers the previous hash and the body, so a text can be erased without
//! breaking the chain, and nothing else can be changed without.

use std::collections::BTreeMap;

use plan::{Digest, Recorded};
use serde_json::{Map, Value};

/// The version of the encoding. Older ones are upcast when read.
const FORMAT: u64 = 1;

/// An event ready to be stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Encoded {
    /// The hashed bytes.
    pub body: String,
    /// The texts taken out of it, as a JSON object by digest; `None` if there was none.
    pub texts: Option<String>,
    /// The hash of the event before it and the body.
    pub hash: Digest,
}

/// Why stored bytes are not an event.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// Not the JSON it should be.
    #[error("not an event: {0}")]
    Json(#[from] serde_json::Error),
    /// Written by a newer program.
    #[error("event format {0} is newer than this program")]
    NewerFormat(u64),
}

/// Encodes an event that follows one with the hash `previous`.
pub fn encode(recorded: &Recorded, previous: Digest) -> Encoded {
    let mut value = serde_json::to_value(recorded).expect("BUG: an event always encodes");
    let mut texts = Map::new();
    take_texts(&mut value, &mut texts);
    if let Value::Object(fields) = &mut value {
        fields.insert("format".to_owned(), FORMAT.into());
    }
    let body = value.to_string();
    let hash = chain(previous, &body);
    let texts = (!texts.is_empty()).then(|| Value::Object(texts).to_string());
    Encoded { body, texts, hash }
}

/// Decodes a stored event; a text that was erased stays erased.
pub fn decode(body: &str, texts: Option<&str>) -> Result<Recorded, DecodeError> {
    let mut value: Value = serde_json::from_str(body)?;
    let format = value.get("format").and_then(Value::as_u64).unwrap_or(0);
    if format > FORMAT {
        return Err(DecodeError::NewerFormat(format));
    }
    let texts: BTreeMap<String, String> = match texts {
        Some(texts) => serde_json::from_str(texts)?,
        None => BTreeMap::new(),
    };
    put_texts(&mut value, &texts);
    Ok(serde_json::from_value(value)?)
}

/// The hash of an event: of the one before it and of its body.
pub fn chain(previous: Digest, body: &str) -> Digest {
    Digest::of_parts([previous.as_bytes().as_slice(), body.as_bytes()])
}

fn take_texts(value: &mut Value, texts: &mut Map<String, Value>) {
    match value {
        Value::Object(fields) => {
            if let Some(Value::String(text)) = fields.get("$text") {
                let digest = Digest::of(text.as_bytes()).to_string();
                if let Some(text) = fields.remove("$text") {
                    texts.insert(digest.clone(), text);
                }
                fields.insert("$erased".to_owned(), digest.into());
                return;
            }
            fields
                .values_mut()
                .for_each(|field| take_texts(field, texts));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| take_texts(item, texts)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn put_texts(value: &mut Value, texts: &BTreeMap<String, String>) {
    match value {
        Value::Object(fields) => {
            if let Some(Value::String(digest)) = fields.get("$erased")
                // A text that is not what its digest says was tampered with; it counts as erased.
                && let Some(text) = texts.get(digest)
                && &Digest::of(text.as_bytes()).to_string() == digest
            {
                let text = text.clone();
                fields.clear();
                fields.insert("$text".to_owned(), text.into());
                return;
            }
            fields
                .values_mut()
                .for_each(|field| put_texts(field, texts));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| put_texts(item, texts)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use plan::stage::{Category, Failure};
    use plan::{Caller, Epoch, Event, PlanId, Text, Timestamp, Version};

    use super::*;

    fn failed(message: Text) -> Recorded {
        Recorded {
            plan: PlanId::from_parts(1, 2),
            version: Version(3),
            at: Timestamp(4),
            by: Caller::Person("ada".into()),
            event: Event::Failed {
                failure: Failure {
                    category: Category::Actor,
                    message,
                    epoch: Epoch(1),
                    at: Timestamp(4),
                },
            },
        }
    }

    #[test]
    fn a_text_is_not_in_the_hashed_bytes_and_can_be_erased() {
        let recorded = failed("the password is swordfish".into());
        let encoded = encode(&recorded, Digest::ZERO);
        assert!(!encoded.body.contains("swordfish"));
        assert_eq!(
            decode(&encoded.body, encoded.texts.as_deref()).unwrap(),
            recorded
        );
        assert_eq!(chain(Digest::ZERO, &encoded.body), encoded.hash);
        let erased = decode(&encoded.body, None).unwrap();
        assert_eq!(
            erased,
            failed(Text::Erased(Digest::of(b"the password is swordfish")))
        );
    }

    #[test]
    fn a_changed_text_counts_as_erased() {
        let encoded = encode(&failed("one".into()), Digest::ZERO);
        let forged = encoded.texts.unwrap().replace("one", "two");
        assert_eq!(
            decode(&encoded.body, Some(&forged)).unwrap(),
            failed(Text::Erased(Digest::of(b"one")))
        );
    }

    #[test]
    fn a_newer_format_is_refused() {
        let encoded = encode(&failed("x".into()), Digest::ZERO);
        let newer = encoded.body.replace("\"format\":1", "\"format\":9");
        assert!(matches!(
            decode(&newer, None),
            Err(DecodeError::NewerFormat(9))
        ));
    }
}
