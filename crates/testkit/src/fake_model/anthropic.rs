//! Anthropic's Messages API.

use serde_json::{Value, json};

use super::conversation::{ModelConversation, ModelReply, OfferedTool, OfferedTools};
use super::exchange::StreamEvent;
use super::provider_api::{elements, join_texts};
use super::{INPUT_TOKENS, OUTPUT_TOKENS};

pub(super) fn read_conversation(body: &Value) -> (ModelConversation, OfferedTools) {
    let mut conversation = ModelConversation::default();
    conversation.add_instructions(join_texts(&body["system"]));
    for message in elements(&body["messages"]).filter(|one| one["role"] == "user") {
        let content = &message["content"];
        for result in elements(content).filter(|block| block["type"] == "tool_result") {
            let prefix = if result["is_error"] == true {
                "error: "
            } else {
                ""
            };
            let text = join_texts(&result["content"]);
            conversation.add_tool_result(format!("{prefix}{text}"));
        }
        // A result has no text of its own.
        let text = join_texts(content);
        if !text.trim().is_empty() {
            conversation.add_user_text(text);
        }
    }
    let tools = elements(&body["tools"]).filter_map(|tool| {
        let name = tool["name"].as_str()?.to_owned();
        Some((name, OfferedTool::Function(tool["input_schema"].clone())))
    });
    (conversation, tools.collect())
}

pub(super) fn write_answer(reply: &ModelReply, body: &Value, id: u64) -> Value {
    let (block, stop_reason) = match reply {
        ModelReply::Words(words) => (json!({"type": "text", "text": words}), "end_turn"),
        ModelReply::Call { tool, arguments } => (call_block(tool, arguments, id), "tool_use"),
        ModelReply::FreeformCall { tool, input } => {
            (call_block(tool, &json!({"input": input}), id), "tool_use")
        }
    };
    json!({
        "id": format!("msg_{id:06}"), "type": "message", "role": "assistant", "model": body["model"],
        "content": [block], "stop_reason": stop_reason, "stop_sequence": null, "usage": usage(OUTPUT_TOKENS),
    })
}

/// The same answer: an empty message, the block in one delta, and the end.
pub(super) fn write_events(reply: &ModelReply, body: &Value, id: u64) -> Vec<StreamEvent> {
    let whole = write_answer(reply, body, id);
    let mut message = whole.clone();
    message["content"] = json!([]);
    message["stop_reason"] = Value::Null;
    message["usage"] = usage(1);
    let mut block = whole["content"][0].clone();
    let delta = match block["type"].as_str() {
        Some("text") => {
            let text = std::mem::replace(&mut block["text"], json!(""));
            json!({"type": "text_delta", "text": text})
        }
        Some(_) | None => {
            let input = std::mem::replace(&mut block["input"], json!({}));
            json!({"type": "input_json_delta", "partial_json": input.to_string()})
        }
    };
    let stop = json!({"stop_reason": whole["stop_reason"], "stop_sequence": null});
    [
        json!({"type": "message_start", "message": message}),
        json!({"type": "content_block_start", "index": 0, "content_block": block}),
        json!({"type": "content_block_delta", "index": 0, "delta": delta}),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "message_delta", "delta": stop, "usage": whole["usage"]}),
        json!({"type": "message_stop"}),
    ]
    .iter()
    .map(StreamEvent::named_by_type)
    .collect()
}

fn call_block(tool: &str, input: &Value, id: u64) -> Value {
    json!({"type": "tool_use", "id": format!("toolu_{id:06}"), "name": tool, "input": input})
}

fn usage(output_tokens: u64) -> Value {
    json!({"input_tokens": INPUT_TOKENS, "output_tokens": output_tokens,
           "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0})
}
