use std::sync::mpsc;

use serde_json::{Value, json};

use super::*;
use crate::HttpClient;

const PROMPT: &str = "fake-model:write:a.md:hello";

/// A server, and what it logs.
struct TestModel {
    _model: FakeModel,
    client: HttpClient,
    lines: mpsc::Receiver<Value>,
}

/// Receives each line of the log.
struct LineSender(mpsc::Sender<Value>);

impl Write for LineSender {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if let Ok(line) = serde_json::from_slice(bytes) {
            self.0.send(line).map_err(std::io::Error::other)?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl TestModel {
    fn start() -> Self {
        let (sender, lines) = mpsc::channel();
        // A line is written in several parts, so it is collected first.
        let log = std::io::LineWriter::new(LineSender(sender));
        let model = FakeModel::start(log).unwrap();
        Self {
            client: HttpClient::new(model.address()),
            _model: model,
            lines,
        }
    }

    /// The data of the events of a streamed answer.
    fn stream(&self, path: &str, body: &Value) -> Vec<Value> {
        let answer = self.client.post(path, body);
        assert_eq!(answer.status, 200, "{answer:?}");
        let data = answer
            .body
            .lines()
            .filter_map(|line| line.strip_prefix("data: "));
        data.filter_map(|data| serde_json::from_str(data).ok())
            .collect()
    }
}

#[test]
fn messages_api_calls_a_tool_and_then_answers() {
    let model = TestModel::start();
    let tool =
        json!({"name": "Write", "input_schema": {"properties": {"file_path": {}, "content": {}}}});
    let mut body = json!({
        "model": "m", "stream": true, "tools": [tool],
        "system": [{"type": "text", "text": "Working directory: /w"}],
        "messages": [{"role": "user", "content": PROMPT}],
    });
    let events = model.stream("/v1/messages?beta=true", &body);
    assert_eq!(events[1]["content_block"]["name"], "Write", "{events:?}");
    let input = events[2]["delta"]["partial_json"].as_str().unwrap();
    let input: Value = serde_json::from_str(input).unwrap();
    assert_eq!(input, json!({"file_path": "/w/a.md", "content": "hello\n"}));
    assert_eq!(events[4]["delta"]["stop_reason"], "tool_use");
    assert_eq!(events[4]["usage"]["output_tokens"], OUTPUT_TOKENS);
    let logged = model.lines.recv().unwrap();
    assert_eq!(logged["tool_results"], 0, "{logged}");
    assert_eq!(logged["api"], "messages", "{logged}");

    let result = json!({"type": "tool_result", "tool_use_id": "t", "content": "ok"});
    let messages = body["messages"].as_array_mut().unwrap();
    messages.push(json!({"role": "assistant", "content": []}));
    messages.push(json!({"role": "user", "content": [result]}));
    body["stream"] = json!(false);
    let answer = model.client.post("/v1/messages", &body).ok();
    assert_eq!(answer["content"][0]["text"], "Done: write hello to a.md.");
    assert_eq!(model.lines.recv().unwrap()["tool_results"], 1);
}

#[test]
fn chat_api_calls_a_tool_and_then_answers() {
    let model = TestModel::start();
    let parameters = json!({"properties": {"path": {}, "content": {}}});
    let tool =
        json!({"type": "function", "function": {"name": "write_file", "parameters": parameters}});
    let mut body = json!({
        "model": "m", "stream": true, "tools": [tool],
        "messages": [{"role": "user", "content": [{"type": "text", "text": PROMPT}]}],
    });
    let events = model.stream("/v1/chat/completions", &body);
    let function = &events[0]["choices"][0]["delta"]["tool_calls"][0]["function"];
    assert_eq!(
        function["arguments"],
        r#"{"content":"hello\n","path":"a.md"}"#
    );
    assert_eq!(events[1]["choices"][0]["finish_reason"], "tool_calls");
    assert_eq!(events[1]["usage"]["prompt_tokens"], INPUT_TOKENS);

    let result = json!({"role": "tool", "tool_call_id": "c", "content": "ok"});
    body["messages"].as_array_mut().unwrap().push(result);
    body["stream"] = json!(false);
    let answer = model.client.post("/v1/chat/completions", &body).ok();
    let words = &answer["choices"][0]["message"]["content"];
    assert_eq!(words, "Done: write hello to a.md.");
}

#[test]
fn responses_api_calls_a_tool_and_then_answers() {
    let model = TestModel::start();
    let mut body = json!({
        "model": "m", "stream": true,
        "input": [
            {"type": "additional_tools", "tools": [{"type": "custom", "name": "apply_patch"}]},
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": PROMPT}]},
        ],
    });
    let events = model.stream("/v1/responses", &body);
    let last = events.last().unwrap();
    assert_eq!(last["type"], "response.completed");
    let item = &last["response"]["output"][0];
    assert_eq!(item["type"], "custom_tool_call", "{item}");
    assert!(
        item["input"]
            .as_str()
            .unwrap()
            .contains("*** Add File: a.md\n+hello\n")
    );

    let result = json!({"type": "custom_tool_call_output", "call_id": "c", "output": "ok"});
    body["input"].as_array_mut().unwrap().push(result);
    let events = model.stream("/v1/responses", &body);
    let words = events
        .iter()
        .find(|event| event["type"] == "response.output_text.done");
    assert_eq!(words.unwrap()["text"], "Done: write hello to a.md.");
    let numbers: Vec<_> = events
        .iter()
        .map(|event| event["sequence_number"].clone())
        .collect();
    assert_eq!(
        numbers,
        (0..events.len())
            .map(|number| json!(number))
            .collect::<Vec<_>>()
    );
}

#[test]
fn gemini_api_calls_a_tool_and_then_answers() {
    let model = TestModel::start();
    let function = json!({"name": "write_file", "parametersJsonSchema": {"properties": {"file_path": {}, "content": {}}}});
    let mut body = json!({
        "contents": [{"role": "user", "parts": [{"text": PROMPT}]}],
        "tools": [{"functionDeclarations": [function]}],
    });
    let events = model.stream("/v1beta/models/m:streamGenerateContent?alt=sse", &body);
    let part = &events[0]["candidates"][0]["content"]["parts"][0];
    assert_eq!(
        part["functionCall"]["args"],
        json!({"file_path": "a.md", "content": "hello\n"})
    );

    let result = json!({"functionResponse": {"name": "write_file", "response": {"output": "ok"}}});
    let contents = body["contents"].as_array_mut().unwrap();
    contents.push(json!({"role": "model", "parts": [part]}));
    contents.push(json!({"role": "user", "parts": [result]}));
    let answer = model
        .client
        .post("/v1beta/models/m:generateContent", &body)
        .ok();
    let words = &answer["candidates"][0]["content"]["parts"][0]["text"];
    assert_eq!(words, "Done: write hello to a.md.");

    body["generationConfig"] =
        json!({"responseJsonSchema": {"type": "object", "properties": {"n": {"type": "integer"}}}});
    let answer = model
        .client
        .post("/v1beta/models/m:generateContent", &body)
        .ok();
    let words = &answer["candidates"][0]["content"]["parts"][0]["text"];
    assert_eq!(words, "{\"n\":1}");
}

#[test]
fn the_path_says_how_the_model_fails() {
    let model = TestModel::start();
    let body =
        json!({"model": "m", "stream": true, "messages": [{"role": "user", "content": PROMPT}]});
    for status in [401, 429, 500] {
        let answer = model.client.post(&format!("/{status}/v1/messages"), &body);
        assert_eq!(answer.status, status);
        assert!(
            answer.body.contains(&format!("answers {status}")),
            "{answer:?}"
        );
        assert_eq!(
            model.client.get(&format!("/{status}/v1/models")).status,
            status
        );
    }
    let whole = model.stream("/ok/v1/messages", &body);
    assert_eq!(whole.last().unwrap()["type"], "message_stop");
    let result = json!({"type": "tool_result", "tool_use_id": "t", "content": "ok"});
    let mut answered = body.clone();
    let messages = answered["messages"].as_array_mut().unwrap();
    messages.push(json!({"role": "user", "content": [result]}));
    let first = model.client.post("/midway/v1/messages", &body);
    let second = model.client.post("/midway/v1/messages", &answered);
    assert_eq!((first.status, second.status), (200, 500));
    let cut = model.stream("/cut/v1/messages", &body);
    assert!(!cut.is_empty() && cut.len() < whole.len(), "{cut:?}");
    let mute = model.stream("/mute/v1/messages", &body);
    assert_eq!(mute[2]["delta"]["text"], "", "{mute:?}");
}

#[test]
fn a_hanging_model_is_silent_until_the_agent_gives_up() {
    let model = TestModel::start();
    let mut stream = model.client.connect();
    let body = json!({"messages": []}).to_string();
    let length = body.len();
    write!(
        stream,
        "POST /hang/v1/messages HTTP/1.1\r\ncontent-length: {length}\r\n\r\n{body}"
    )
    .unwrap();
    assert_eq!(model.lines.recv().unwrap()["fault"], "hang");
    stream.set_nonblocking(true).unwrap();
    let answer = std::io::Read::read(&mut stream, &mut [0; 16]);
    assert_eq!(answer.unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
}

#[test]
fn a_chunked_body_is_read() {
    let model = TestModel::start();
    let body =
        json!({"stream": false, "messages": [{"role": "user", "content": "hello"}]}).to_string();
    let (first, second) = body.split_at(10);
    let chunks = format!(
        "{:x}\r\n{first}\r\n{:x}\r\n{second}\r\n0\r\n\r\n",
        first.len(),
        second.len()
    );
    let head = "POST /v1/messages HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n";
    let answer = model
        .client
        .send_bytes(format!("{head}{chunks}").as_bytes());
    assert_eq!(answer.ok()["content"][0]["text"], "There is nothing to do.");
}

#[test]
fn requests_besides_the_model_are_answered() {
    let model = TestModel::start();
    let models = model.client.get("/v1/models").ok();
    assert_eq!(models["data"][0]["id"], "fake");
    let counted = model
        .client
        .post("/v1/messages/count_tokens", &json!({}))
        .ok();
    assert_eq!(counted["input_tokens"], INPUT_TOKENS);
    assert_eq!(model.client.get("/v1/other").status, 404);
}
