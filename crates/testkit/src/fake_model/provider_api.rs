//! The APIs that the server speaks, told apart by the end of the path.

use serde_json::Value;

use super::conversation::{ModelConversation, ModelReply, OfferedTools};
use super::exchange::StreamEvent;
use super::{anthropic, gemini, openai_chat, openai_responses};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ProviderApi {
    AnthropicMessages,
    OpenAiChat,
    OpenAiResponses,
    Gemini,
}

impl ProviderApi {
    /// `path` has no query.
    pub(super) fn for_path(path: &str) -> Option<Self> {
        let ends = |ends: &[&str]| ends.iter().any(|end| path.ends_with(end));
        if ends(&["/messages"]) {
            Some(Self::AnthropicMessages)
        } else if ends(&["/chat/completions"]) {
            Some(Self::OpenAiChat)
        } else if ends(&["/responses"]) {
            Some(Self::OpenAiResponses)
        } else if ends(&[":generateContent", ":streamGenerateContent"]) {
            Some(Self::Gemini)
        } else {
            None
        }
    }

    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::AnthropicMessages => "messages",
            Self::OpenAiChat => "chat",
            Self::OpenAiResponses => "responses",
            Self::Gemini => "gemini",
        }
    }

    pub(super) fn wants_stream(self, path: &str, body: &Value) -> bool {
        match self {
            Self::AnthropicMessages | Self::OpenAiChat | Self::OpenAiResponses => {
                body["stream"] == true
            }
            Self::Gemini => path.ends_with(":streamGenerateContent"),
        }
    }

    pub(super) fn read_conversation(self, body: &Value) -> (ModelConversation, OfferedTools) {
        match self {
            Self::AnthropicMessages => anthropic::read_conversation(body),
            Self::OpenAiChat => openai_chat::read_conversation(body),
            Self::OpenAiResponses => openai_responses::read_conversation(body),
            Self::Gemini => gemini::read_conversation(body),
        }
    }

    /// `id` is a number that no other answer has.
    pub(super) fn write_answer(self, reply: &ModelReply, body: &Value, id: u64) -> Value {
        match self {
            Self::AnthropicMessages => anthropic::write_answer(reply, body, id),
            Self::OpenAiChat => openai_chat::write_answer(reply, body, id),
            Self::OpenAiResponses => openai_responses::write_answer(reply, body, id),
            Self::Gemini => gemini::write_answer(reply, body, id),
        }
    }

    pub(super) fn write_events(
        self,
        reply: &ModelReply,
        body: &Value,
        id: u64,
    ) -> Vec<StreamEvent> {
        match self {
            Self::AnthropicMessages => anthropic::write_events(reply, body, id),
            Self::OpenAiChat => openai_chat::write_events(reply, body, id),
            Self::OpenAiResponses => openai_responses::write_events(reply, body, id),
            Self::Gemini => vec![StreamEvent::unnamed(&gemini::write_answer(reply, body, id))],
        }
    }
}

/// The text of a content, which is a string, or an object or list of objects with a text.
pub(super) fn join_texts(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().map(join_texts).collect::<Vec<_>>().join("\n"),
        Value::Object(part) => part.get("text").map(join_texts).unwrap_or_default(),
        Value::Null | Value::Bool(_) | Value::Number(_) => String::new(),
    }
}

/// The elements of a list; none if it is missing.
pub(super) fn elements(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}
