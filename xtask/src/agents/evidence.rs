//! What the program's answers and the requests to the model tell about an agent.

use serde_json::Value;

/// A request that offers tools is part of the conversation; agents ask for titles and the like without. What tools
/// answered before the feedback is only there if the conversation goes on.
pub fn is_conversation_continued(requests: &[Value]) -> bool {
    let first = requests.iter().find(|request| has_tools(request));
    first.is_some_and(|request| request["tool_results"].as_u64() > Some(0))
}

pub fn read_isolation(log: &Value) -> Vec<&str> {
    let runs = log["data"]["runs"].as_array().into_iter().flatten();
    runs.filter_map(|run| run["run"]["isolation"].as_str())
        .collect()
}

/// What the agent asked about before it did it.
pub fn read_asked_kinds(log: &Value) -> String {
    let runs = log["data"]["runs"].as_array().into_iter().flatten();
    let entries = runs.flat_map(|run| run["entries"].as_array().into_iter().flatten());
    let asked: Vec<&str> = entries
        .filter(|entry| entry["kind"] == "permission")
        .filter_map(|entry| entry["tool_kind"].as_str())
        .collect();
    let words = [("edit", "edits"), ("execute", "commands")];
    let words = words.iter().filter(|(kind, _)| asked.contains(kind));
    let words: Vec<&str> = words.map(|(_, word)| *word).collect();
    match words.is_empty() {
        true => "nothing".to_owned(),
        false => words.join(" and "),
    }
}

/// What the agent reports, compared with what the model counted.
pub fn describe_usage(status: &Value, used_tokens: u64) -> String {
    let used = &status["data"]["used"];
    let tokens = match used["tokens"].as_u64() {
        None | Some(0) => None,
        Some(tokens) if tokens < used_tokens => Some("some of its tokens"),
        Some(_) => Some("tokens"),
    };
    let has_cost = used["cost_micros"].as_u64() > Some(0);
    match (tokens, has_cost) {
        (Some(tokens), true) => format!("{tokens} and cost"),
        (Some(tokens), false) => tokens.to_owned(),
        (None, true) => "cost".to_owned(),
        (None, false) => "none".to_owned(),
    }
}

/// What the conversation used. What agents ask besides need not be reported: titles, for which they offer no tools, and
/// suggestions, for which they send the conversation again.
pub fn count_tokens(requests: &[Value]) -> u64 {
    let mut conversation: Vec<&Value> = requests.iter().filter(|one| has_tools(one)).collect();
    conversation.dedup_by_key(|request| (&request["tool_results"], &request["reply"]));
    let tokens = conversation.iter().filter_map(|one| one["tokens"].as_u64());
    tokens.sum()
}

fn has_tools(request: &Value) -> bool {
    request["tools"].get(0).is_some()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn request(tools: &[&str], tool_results: u64, reply: &str) -> Value {
        json!({"tools": tools, "tool_results": tool_results, "reply": reply, "tokens": 100})
    }

    #[test]
    fn a_conversation_goes_on_if_its_first_request_has_earlier_results() {
        let title = request(&[], 0, "words: A title");
        let continued = [
            title.clone(),
            request(&["Bash"], 1, "call"),
            request(&["Bash"], 2, "words"),
        ];
        assert!(is_conversation_continued(&continued));
        let begun = [
            title.clone(),
            request(&["Bash"], 0, "call"),
            request(&["Bash"], 1, "words"),
        ];
        assert!(!is_conversation_continued(&begun));
        assert!(!is_conversation_continued(&[title]));
    }

    #[test]
    fn usage_is_compared_with_what_the_model_counted() {
        let requests = [
            request(&["Bash"], 0, "call"),
            request(&["Bash"], 1, "words"),
            // A suggestion, and a title.
            request(&["Bash"], 1, "words"),
            request(&[], 0, "words"),
        ];
        let used_tokens = count_tokens(&requests);
        assert_eq!(used_tokens, 200);
        for (tokens, cost, expected) in [
            (200, 5, "tokens and cost"),
            (400, 0, "tokens"),
            (100, 5, "some of its tokens and cost"),
            (0, 5, "cost"),
            (0, 0, "none"),
        ] {
            let status = json!({"data": {"used": {"tokens": tokens, "cost_micros": cost}}});
            assert_eq!(describe_usage(&status, used_tokens), expected);
        }
    }

    #[test]
    fn what_an_agent_asks_about_is_in_its_transcripts() {
        let run = |kinds: &[&str]| {
            let entries = kinds
                .iter()
                .map(|kind| json!({"kind": "permission", "tool_kind": kind}));
            let entries: Vec<Value> = entries.collect();
            json!({"run": {"isolation": "confined (Landlock)"}, "entries": entries})
        };
        let log = json!({"data": {"runs": [run(&["execute"]), run(&["edit", "execute"])]}});
        assert_eq!(read_asked_kinds(&log), "edits and commands");
        assert_eq!(read_isolation(&log), ["confined (Landlock)"; 2]);
        let log = json!({"data": {"runs": [run(&[])]}});
        assert_eq!(read_asked_kinds(&log), "nothing");
    }
}
