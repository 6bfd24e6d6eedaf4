//! OpenAI's Responses API.

use serde_json::{Value, json};

use super::conversation::{ModelConversation, ModelReply, OfferedTool, OfferedTools};
use super::exchange::StreamEvent;
use super::provider_api::{elements, join_texts};
use super::{INPUT_TOKENS, OUTPUT_TOKENS};

pub(super) fn read_conversation(body: &Value) -> (ModelConversation, OfferedTools) {
    let mut conversation = ModelConversation::default();
    conversation.add_instructions(join_texts(&body["instructions"]));
    if let Some(text) = body["input"].as_str() {
        conversation.add_user_text(text.to_owned());
    }
    let mut tools = OfferedTools::new();
    add_tools(&body["tools"], &mut tools);
    for item in elements(&body["input"]) {
        // Some agents hand over tools in the conversation.
        add_tools(&item["tools"], &mut tools);
        let kind = item["type"].as_str().unwrap_or("message");
        if kind.ends_with("_output") {
            let output = &item["output"];
            let text = join_texts(output);
            conversation.add_tool_result(match text.is_empty() {
                true => output.to_string(),
                false => text,
            });
        } else if kind == "message" {
            let text = join_texts(&item["content"]);
            match item["role"].as_str() {
                Some("user") => conversation.add_user_text(text),
                Some("system" | "developer") => conversation.add_instructions(text),
                Some(_) | None => {}
            }
        }
    }
    (conversation, tools)
}

fn add_tools(list: &Value, tools: &mut OfferedTools) {
    for tool in elements(list) {
        let kind = tool["type"].as_str().unwrap_or_default();
        if kind == "namespace" {
            add_tools(&tool["tools"], tools);
            continue;
        }
        let offered = match kind {
            "custom" => OfferedTool::Freeform,
            _ => OfferedTool::Function(tool["parameters"].clone()),
        };
        let name = tool["name"].as_str().unwrap_or(kind);
        tools.insert(name.to_owned(), offered);
    }
}

pub(super) fn write_answer(reply: &ModelReply, body: &Value, id: u64) -> Value {
    write_response(body, id, &[write_item(reply, id)], "completed")
}

/// The same answer: an empty response, the item with its content in one delta, and the whole response.
pub(super) fn write_events(reply: &ModelReply, body: &Value, id: u64) -> Vec<StreamEvent> {
    let item = write_item(reply, id);
    let mut begun = item.clone();
    begun["status"] = json!("in_progress");
    let at = json!({"item_id": item["id"], "output_index": 0});
    let mut events = vec![
        json!({"type": "response.created", "response": write_response(body, id, &[], "in_progress")}),
        json!({"type": "response.output_item.added", "output_index": 0, "item": begun}),
    ];
    match reply {
        ModelReply::Words(words) => {
            events[1]["item"]["content"] = json!([]);
            let part = |text: &str| json!({"type": "output_text", "text": text, "annotations": []});
            let mut add_part_event = |kind: &str, key: &str, value: Value| {
                let mut event = at.clone();
                event["content_index"] = json!(0);
                event["type"] = json!(kind);
                event[key] = value;
                events.push(event);
            };
            add_part_event("response.content_part.added", "part", part(""));
            add_part_event("response.output_text.delta", "delta", json!(words));
            add_part_event("response.output_text.done", "text", json!(words));
            add_part_event("response.content_part.done", "part", part(words));
        }
        ModelReply::Call { .. } => {
            for (kind, key) in [("delta", "delta"), ("done", "arguments")] {
                let mut event = at.clone();
                event["type"] = json!(format!("response.function_call_arguments.{kind}"));
                event[key] = item["arguments"].clone();
                events.push(event);
            }
        }
        ModelReply::FreeformCall { .. } => {}
    }
    events.push(json!({"type": "response.output_item.done", "output_index": 0, "item": item}));
    let whole = write_answer(reply, body, id);
    events.push(json!({"type": "response.completed", "response": whole}));
    let numbered = events.into_iter().enumerate();
    numbered
        .map(|(number, mut event)| {
            event["sequence_number"] = json!(number);
            StreamEvent::named_by_type(&event)
        })
        .collect()
}

fn write_item(reply: &ModelReply, id: u64) -> Value {
    let mut item = match reply {
        ModelReply::Words(words) => json!({
            "type": "message", "role": "assistant",
            "content": [{"type": "output_text", "text": words, "annotations": []}],
        }),
        ModelReply::Call { tool, arguments } => json!({
            "type": "function_call", "call_id": format!("call_{id:06}"), "name": tool,
            "arguments": arguments.to_string(),
        }),
        ModelReply::FreeformCall { tool, input } => json!({
            "type": "custom_tool_call", "call_id": format!("call_{id:06}"), "name": tool, "input": input,
        }),
    };
    item["id"] = json!(format!("item_{id:06}"));
    item["status"] = json!("completed");
    item
}

fn write_response(body: &Value, id: u64, output: &[Value], status: &str) -> Value {
    json!({
        "id": format!("resp_{id:06}"), "object": "response", "created_at": id, "status": status,
        "model": body["model"], "output": output, "error": null, "incomplete_details": null,
        "parallel_tool_calls": false, "tool_choice": "auto", "tools": [], "metadata": {},
        "usage": {
            "input_tokens": INPUT_TOKENS, "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": OUTPUT_TOKENS, "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": INPUT_TOKENS + OUTPUT_TOKENS,
        },
    })
}
