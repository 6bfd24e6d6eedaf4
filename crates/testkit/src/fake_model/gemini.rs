//! Google's Gemini API.

use serde_json::{Value, json};

use super::conversation::{ModelConversation, ModelReply, OfferedTool, OfferedTools};
use super::provider_api::{elements, join_texts};
use super::tool_choice::make_filler;
use super::{INPUT_TOKENS, OUTPUT_TOKENS};

pub(super) fn read_conversation(body: &Value) -> (ModelConversation, OfferedTools) {
    let mut conversation = ModelConversation::default();
    conversation.add_instructions(join_texts(&body["systemInstruction"]["parts"]));
    for content in elements(&body["contents"]) {
        for part in elements(&content["parts"]) {
            if let Some(answered) = part.get("functionResponse") {
                conversation.add_tool_result(answered["response"].to_string());
            }
        }
        let text = join_texts(&content["parts"]);
        // A single prompt has no role.
        if content["role"] != "model" && !text.trim().is_empty() {
            conversation.add_user_text(text);
        }
    }
    let declared =
        elements(&body["tools"]).flat_map(|tool| elements(&tool["functionDeclarations"]));
    let tools = declared.filter_map(|function| {
        let name = function["name"].as_str()?.to_owned();
        let schema = function.get("parametersJsonSchema");
        let schema = schema.unwrap_or(&function["parameters"]);
        Some((name, OfferedTool::Function(schema.clone())))
    });
    (conversation, tools.collect())
}

/// Streamed, it is the only event.
pub(super) fn write_answer(reply: &ModelReply, body: &Value, id: u64) -> Value {
    let call = |tool: &str, arguments: &Value| json!({"functionCall": {"id": format!("call_{id:06}"), "name": tool, "args": arguments}});
    let part = match reply {
        ModelReply::Words(words) => match find_answer_schema(body) {
            // The agent asks the model something for itself.
            Some(schema) => json!({"text": make_filler(schema).to_string()}),
            None => json!({"text": words}),
        },
        ModelReply::Call { tool, arguments } => call(tool, arguments),
        ModelReply::FreeformCall { tool, input } => call(tool, &json!({"input": input})),
    };
    json!({
        "candidates": [{"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}],
        "usageMetadata": {
            "promptTokenCount": INPUT_TOKENS, "candidatesTokenCount": OUTPUT_TOKENS,
            "totalTokenCount": INPUT_TOKENS + OUTPUT_TOKENS,
        },
        "modelVersion": "fake", "responseId": format!("response-{id:06}"),
    })
}

/// The form in which the agent wants its answer.
fn find_answer_schema(body: &Value) -> Option<&Value> {
    let config = &body["generationConfig"];
    config
        .get("responseJsonSchema")
        .or_else(|| config.get("responseSchema"))
}
