//! Encodes events as JSON and chains their hashes.
//!
//! The stored body of an event contains the digest of each free text instead of the text. The texts
//! are stored beside it. The hash covers the previous hash and the body, so erasing a text keeps
//! the chain intact, and any other change breaks it.

use std::collections::BTreeMap;

use plan::{Digest, RecordedEvent};
use serde_json::Value;

/// The version of the encoding. Older events are upgraded when read.
const EVENT_FORMAT: u64 = 1;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EncodedEvent {
    /// The hashed bytes.
    pub body: String,
    /// The extracted texts as a JSON object keyed by digest; `None` if there are none.
    pub texts: Option<String>,
    /// Hash of the previous event's hash and the body.
    pub hash: Digest,
}

#[derive(Debug, thiserror::Error)]
pub enum EventDecodeError {
    /// The body is not valid JSON, or not an event.
    #[error("not an event: {0}")]
    Json(#[from] serde_json::Error),
    /// Written by a newer program.
    #[error("event format {0} is newer than this program")]
    NewerFormat(u64),
}

/// Encodes an event that follows one with the hash `previous`.
pub fn encode_event(recorded: &RecordedEvent, previous: Digest) -> EncodedEvent {
    let json = serde_json::to_string(recorded).expect("BUG: an event always encodes");
    let fields = json.strip_prefix('{').expect("BUG: an event is an object");
    let mut body = format!("{{\"format\":{EVENT_FORMAT},");
    let texts = extract_texts(fields, &mut body);
    let hash = chain_hash(previous, &body);
    EncodedEvent { body, texts, hash }
}

/// Decodes a stored event. Erased texts stay erased.
pub fn decode_event(body: &str, texts: Option<&str>) -> Result<RecordedEvent, EventDecodeError> {
    let mut value: Value = serde_json::from_str(body)?;
    let format = value.get("format").and_then(Value::as_u64).unwrap_or(0);
    if format > EVENT_FORMAT {
        return Err(EventDecodeError::NewerFormat(format));
    }
    let texts: BTreeMap<String, String> = match texts {
        Some(texts) => serde_json::from_str(texts)?,
        None => BTreeMap::new(),
    };
    restore_texts(&mut value, &texts);
    Ok(serde_json::from_value(value)?)
}

/// Returns text that is in the body of every event of a kind. Databases use it to skip other events
/// without decoding them. Inside a string its quotation marks would be escaped.
pub fn event_kind_marker(kind: &str) -> String {
    format!(r#""event":{{"type":"{kind}""#)
}

/// Hashes the previous event's hash and this event's body.
pub fn chain_hash(previous: Digest, body: &str) -> Digest {
    Digest::hash_parts([previous.as_bytes().as_slice(), body.as_bytes()])
}

/// Appends the encoded fields to `body`, with each text replaced by its digest. Returns the texts
/// in the form of [`EncodedEvent::texts`].
///
/// Scans the encoded bytes, because building a JSON tree for every event is slow. The marker cannot
/// occur inside a string: there, its quotation marks are escaped.
fn extract_texts(fields: &str, body: &mut String) -> Option<String> {
    const TEXT_MARKER: &str = r#"{"$text":""#;
    let mut texts = BTreeMap::new();
    let mut rest = fields;
    while let Some(at) = rest.find(TEXT_MARKER) {
        let quoted = at + TEXT_MARKER.len() - 1;
        let (literal, after) = rest[quoted..].split_at(json_string_length(&rest[quoted..]));
        if after.starts_with('}') {
            let text: String = serde_json::from_str(literal).expect("BUG: a text is a string");
            let digest = Digest::hash_bytes(text.as_bytes()).to_string();
            body.push_str(&rest[..at]);
            body.push_str(r#"{"$erased":""#);
            body.push_str(&digest);
            body.push('"');
            texts.insert(digest, text);
        } else {
            // Beside other fields, `$text` is a user's own key.
            body.push_str(&rest[..rest.len() - after.len()]);
        }
        rest = after;
    }
    body.push_str(rest);
    let encoded = || serde_json::to_string(&texts).expect("BUG: texts always encode");
    (!texts.is_empty()).then(encoded)
}

/// Returns the length in bytes of the string that starts `json`, with its quotation marks.
fn json_string_length(json: &str) -> usize {
    let mut escaped = false;
    let ends = json.bytes().skip(1).position(|byte| {
        let ends = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        ends
    });
    ends.expect("BUG: what was encoded has an end") + 2
}

fn restore_texts(value: &mut Value, texts: &BTreeMap<String, String>) {
    match value {
        Value::Object(fields) => {
            if fields.len() == 1
                && let Some(Value::String(digest)) = fields.get("$erased")
                // A text that does not match its digest was tampered with and counts as erased.
                && let Some(text) = texts.get(digest)
                && &Digest::hash_bytes(text.as_bytes()).to_string() == digest
            {
                let text = text.clone();
                fields.clear();
                fields.insert("$text".to_owned(), text.into());
                return;
            }
            fields
                .values_mut()
                .for_each(|field| restore_texts(field, texts));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| restore_texts(item, texts)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use plan::stage::{FailureCategory, PlanFailure};
    use plan::{Caller, Epoch, ErasableText, Event, PlanId, PlanVersion, Timestamp};

    use super::*;

    fn failed_event(message: ErasableText) -> RecordedEvent {
        RecordedEvent {
            plan: PlanId::from_parts(1, 2),
            version: PlanVersion(3),
            at: Timestamp(4),
            by: Caller::Person("ada".into()),
            event: Event::Failed {
                failure: PlanFailure {
                    category: FailureCategory::Actor,
                    message,
                    epoch: Epoch(1),
                    at: Timestamp(4),
                },
            },
        }
    }

    #[test]
    fn a_text_is_not_in_the_hashed_bytes_and_can_be_erased() {
        let recorded = failed_event("the password is swordfish".into());
        let encoded = encode_event(&recorded, Digest::ZERO);
        assert!(!encoded.body.contains("swordfish"));
        assert_eq!(
            decode_event(&encoded.body, encoded.texts.as_deref()).unwrap(),
            recorded
        );
        assert_eq!(chain_hash(Digest::ZERO, &encoded.body), encoded.hash);
        let erased = decode_event(&encoded.body, None).unwrap();
        assert_eq!(
            erased,
            failed_event(ErasableText::Erased(Digest::hash_bytes(
                b"the password is swordfish"
            )))
        );
    }

    /// Escaped texts are extracted; strings that only look like a text are not.
    #[test]
    fn every_text_is_extracted_and_restored() {
        let odd = [
            "",
            "\\",
            "\"",
            "\\\"",
            r#"{"$text":"me too"}"#,
            r#"\{"$erased":"0"}"#,
            "two\nlines, \u{1}, ✓ and a { at the end {",
        ];
        for text in odd {
            let recorded = failed_event(text.into());
            let encoded = encode_event(&recorded, Digest::ZERO);
            assert_eq!(
                encoded.body,
                encode_event(
                    &failed_event(ErasableText::Erased(Digest::hash_bytes(text.as_bytes()))),
                    Digest::ZERO
                )
                .body
            );
            let texts = encoded.texts.as_deref();
            assert_eq!(decode_event(&encoded.body, texts).unwrap(), recorded);
            assert_eq!(
                serde_json::from_str::<Value>(texts.unwrap()).unwrap(),
                serde_json::json!({ Digest::hash_bytes(text.as_bytes()).to_string(): text })
            );
        }
    }

    #[test]
    fn a_string_that_looks_like_a_text_stays() {
        let mut recorded = failed_event(ErasableText::Erased(Digest::ZERO));
        recorded.by = Caller::Person(r#"{"$text":"ada"}"#.into());
        let encoded = encode_event(&recorded, Digest::ZERO);
        assert_eq!(encoded.texts, None);
        assert_eq!(decode_event(&encoded.body, None).unwrap(), recorded);
    }

    #[test]
    fn a_text_key_beside_other_fields_stays() {
        let fields = r#""set_env":{"$text":"mine","PATH":"/bin"},"goal":{"$text":"tidy"}}"#;
        let mut body = String::from("{");
        let texts = extract_texts(fields, &mut body).unwrap();
        assert!(body.contains(r#"{"$text":"mine","PATH":"/bin"}"#), "{body}");
        let tidy = Digest::hash_bytes(b"tidy");
        assert_eq!(texts, format!(r#"{{"{tidy}":"tidy"}}"#));
        let mut value = serde_json::json!({ "$erased": tidy, "PATH": "/bin" });
        restore_texts(&mut value, &serde_json::from_str(&texts).unwrap());
        assert_eq!(value["PATH"], "/bin");
    }

    #[test]
    fn a_changed_text_counts_as_erased() {
        let encoded = encode_event(&failed_event("one".into()), Digest::ZERO);
        let forged = encoded.texts.unwrap().replace("one", "two");
        assert_eq!(
            decode_event(&encoded.body, Some(&forged)).unwrap(),
            failed_event(ErasableText::Erased(Digest::hash_bytes(b"one")))
        );
    }

    #[test]
    fn a_newer_format_is_refused() {
        let encoded = encode_event(&failed_event("x".into()), Digest::ZERO);
        let newer = encoded.body.replace("\"format\":1", "\"format\":9");
        assert!(matches!(
            decode_event(&newer, None),
            Err(EventDecodeError::NewerFormat(9))
        ));
    }
}
