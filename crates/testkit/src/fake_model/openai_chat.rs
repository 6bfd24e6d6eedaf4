//! OpenAI's Chat Completions API, which many other providers have too.

use serde_json::{Value, json};

use super::conversation::{ModelConversation, ModelReply, OfferedTool, OfferedTools};
use super::exchange::StreamEvent;
use super::provider_api::{elements, join_texts};
use super::{INPUT_TOKENS, OUTPUT_TOKENS};

pub(super) fn read_conversation(body: &Value) -> (ModelConversation, OfferedTools) {
    let mut conversation = ModelConversation::default();
    for message in elements(&body["messages"]) {
        let text = join_texts(&message["content"]);
        match message["role"].as_str() {
            Some("user") => conversation.add_user_text(text),
            Some("tool") => conversation.add_tool_result(text),
            Some("system" | "developer") => conversation.add_instructions(text),
            Some(_) | None => {}
        }
    }
    let tools = elements(&body["tools"]).filter_map(|tool| {
        let function = &tool["function"];
        let name = function["name"].as_str()?.to_owned();
        Some((name, OfferedTool::Function(function["parameters"].clone())))
    });
    (conversation, tools.collect())
}

pub(super) fn write_answer(reply: &ModelReply, body: &Value, id: u64) -> Value {
    let (message, finish_reason) = write_message(reply, id);
    json!({
        "id": format!("chatcmpl-{id:06}"), "object": "chat.completion", "created": id, "model": body["model"],
        "choices": [{"index": 0, "message": message, "finish_reason": finish_reason}], "usage": usage(),
    })
}

/// The same answer: the whole message as one delta, and the end.
pub(super) fn write_events(reply: &ModelReply, body: &Value, id: u64) -> Vec<StreamEvent> {
    let (message, finish_reason) = write_message(reply, id);
    let chunk = |delta: &Value, finish_reason: Option<&str>| {
        json!({
            "id": format!("chatcmpl-{id:06}"), "object": "chat.completion.chunk", "created": id,
            "model": body["model"],
            "choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}],
        })
    };
    let mut last = chunk(&json!({}), Some(finish_reason));
    last["usage"] = usage();
    vec![
        StreamEvent::unnamed(&chunk(&message, None)),
        StreamEvent::unnamed(&last),
        StreamEvent::done(),
    ]
}

fn write_message(reply: &ModelReply, id: u64) -> (Value, &'static str) {
    let (tool, arguments) = match reply {
        ModelReply::Words(words) => {
            return (json!({"role": "assistant", "content": words}), "stop");
        }
        ModelReply::Call { tool, arguments } => (tool, arguments.to_string()),
        ModelReply::FreeformCall { tool, input } => (tool, json!({"input": input}).to_string()),
    };
    let call = json!({
        "index": 0, "id": format!("call_{id:06}"), "type": "function",
        "function": {"name": tool, "arguments": arguments},
    });
    let message = json!({"role": "assistant", "content": null, "tool_calls": [call]});
    (message, "tool_calls")
}

fn usage() -> Value {
    json!({"prompt_tokens": INPUT_TOKENS, "completion_tokens": OUTPUT_TOKENS,
           "total_tokens": INPUT_TOKENS + OUTPUT_TOKENS})
}
