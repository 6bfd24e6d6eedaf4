//! A conversation as an agent sends it, and what the model answers. The same for every provider.

use std::collections::BTreeMap;

use serde_json::Value;

use super::directive::ModelDirective;
use super::tool_choice::choose_tool_call;

/// Part of the prompt in which a strategy is asked for.
const STRATEGY_MARKER: &str = "Work out how to do the task.";
/// Part of the instructions of an agent that reads edits from the model's words.
const EDIT_BLOCK_MARKER: &str = "SEARCH/REPLACE";
/// Words of a tool that did not do what it was asked to.
const FAILURE_WORDS: &[&str] = &[
    "error",
    "denied",
    "not allowed",
    "failed",
    "blocked",
    "rejected",
    "declined",
];
const MAX_QUOTED_CHARS: usize = 200;

/// The tools that an agent offers, by their names.
pub(super) type OfferedTools = BTreeMap<String, OfferedTool>;

#[derive(Debug, Clone, PartialEq)]
pub(super) enum OfferedTool {
    /// Called with JSON that has this schema.
    Function(Value),
    /// Called with any text.
    Freeform,
}

/// What a model answers.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum ModelReply {
    Words(String),
    Call { tool: String, arguments: Value },
    FreeformCall { tool: String, input: String },
}

impl ModelReply {
    pub(super) fn describe(&self) -> String {
        match self {
            Self::Words(words) => format!("words: {}", head_of(words)),
            Self::Call { tool, arguments } => format!("call: {tool} {arguments}"),
            Self::FreeformCall { tool, input } => format!("call: {tool} {input}"),
        }
    }
}

/// What a model knows of a conversation.
#[derive(Debug, Default)]
pub(super) struct ModelConversation {
    directive: Option<ModelDirective>,
    /// A strategy is asked for, and the directive obeys.
    wants_strategy: bool,
    /// What a tool answered after the directive.
    last_tool_result: Option<String>,
    pub(super) tool_results: usize,
    texts: Vec<String>,
}

impl ModelConversation {
    pub(super) fn add_instructions(&mut self, text: String) {
        self.texts.push(text);
    }

    pub(super) fn add_user_text(&mut self, text: String) {
        if let Some(directive) = ModelDirective::find_last(&text) {
            self.last_tool_result = None;
            self.wants_strategy = text.contains(STRATEGY_MARKER);
            let disobeys = directive.in_strategy().filter(|_| self.wants_strategy);
            self.wants_strategy &= disobeys.is_none();
            self.directive = Some(disobeys.unwrap_or(directive));
        }
        self.texts.push(text);
    }

    pub(super) fn add_tool_result(&mut self, text: String) {
        self.tool_results += 1;
        self.last_tool_result = Some(text);
    }

    /// Did a tool do what the directive says?
    pub(super) fn is_tool_answered(&self) -> bool {
        self.last_tool_result.is_some()
    }

    pub(super) fn last_tool_result_head(&self) -> Option<String> {
        self.last_tool_result.as_deref().map(head_of)
    }

    pub(super) fn choose_reply(&self, tools: &OfferedTools) -> ModelReply {
        let Some(directive) = &self.directive else {
            return ModelReply::Words("There is nothing to do.".to_owned());
        };
        if let Some(result) = &self.last_tool_result {
            return ModelReply::Words(describe_result(directive, result));
        }
        if self.wants_strategy {
            return ModelReply::Words(format!("1. {directive}. 2. Read the file."));
        }
        if tools.is_empty() {
            return ModelReply::Words(match self.texts_contain(EDIT_BLOCK_MARKER) {
                true => format_edit_block(directive),
                // Agents ask without tools for a title, for example.
                false => "A small change".to_owned(),
            });
        }
        choose_tool_call(directive, tools, self.find_working_directory()).unwrap_or_else(|| {
            let names: Vec<&str> = tools.keys().map(String::as_str).collect();
            ModelReply::Words(format!("No tool fits: {}", names.join(" ")))
        })
    }

    fn texts_contain(&self, marker: &str) -> bool {
        self.texts.iter().any(|text| text.contains(marker))
    }

    /// Some tools take absolute paths only. Agents say where they work, each in its own words.
    fn find_working_directory(&self) -> Option<&str> {
        let find_last = |phrases: &[&str]| {
            let found = self.texts.iter().rev();
            found
                .filter_map(|text| find_path_after(text, phrases))
                .next()
        };
        find_last(&["working directory", "cwd", "current directory"])
            .or_else(|| find_last(&["directory", "workspace"]))
    }
}

/// The last absolute path that follows one of the phrases, with only punctuation between.
fn find_path_after<'a>(text: &'a str, phrases: &[&str]) -> Option<&'a str> {
    const MAX_CHARS_BETWEEN: usize = 12;
    let lowercase = text.to_ascii_lowercase();
    let mut paths: Vec<(usize, &str)> = Vec::new();
    for phrase in phrases {
        for (start, _) in lowercase.match_indices(phrase) {
            let rest = &text[start + phrase.len()..];
            let mut between = rest.char_indices().take(MAX_CHARS_BETWEEN);
            let Some((offset, '/')) = between.find(|(_, c)| c.is_alphanumeric() || *c == '/')
            else {
                continue;
            };
            let path = &rest[offset..];
            let is_end = |c: char| c.is_whitespace() || "<>\"'`)\\,;".contains(c);
            let path = &path[..path.find(is_end).unwrap_or(path.len())];
            paths.push((start, path.trim_end_matches(['.', ':'])));
        }
    }
    paths.into_iter().max().map(|(_, path)| path)
}

/// An agent without tools applies this. An empty search creates the file, or appends to it.
fn format_edit_block(directive: &ModelDirective) -> String {
    let ModelDirective { file, line, .. } = directive;
    format!(
        "I {directive}.\n\n{file}\n```\n<<<<<<< SEARCH\n=======\n{line}\n>>>>>>> REPLACE\n```\n"
    )
}

fn describe_result(directive: &ModelDirective, result: &str) -> String {
    let lowercase = result.to_ascii_lowercase();
    match FAILURE_WORDS.iter().any(|word| lowercase.contains(word)) {
        true => format!("The tool answered: {}", head_of(result)),
        false => format!("Done: {directive}."),
    }
}

fn head_of(text: &str) -> String {
    let line = text.trim().replace('\n', " ");
    line.chars().take(MAX_QUOTED_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_working_directory_is_found_in_what_agents_say() {
        for (text, expected) in [
            ("Working directory: /w/plan\n", Some("/w/plan")),
            ("<cwd>/w/plan</cwd>", Some("/w/plan")),
            (
                "scratch directory: /tmp/x. Primary working directory: /w/plan.",
                Some("/w/plan"),
            ),
            ("I work in the directory `/w/plan`", Some("/w/plan")),
            ("the directory is somewhere in /w/plan", None),
            ("no path", None),
        ] {
            let mut conversation = ModelConversation::default();
            conversation.add_instructions(text.to_owned());
            assert_eq!(conversation.find_working_directory(), expected, "{text}");
        }
    }

    #[test]
    fn a_strategy_is_words_unless_the_directive_disobeys() {
        let tools = OfferedTools::from([(
            "write".to_owned(),
            OfferedTool::Function(serde_json::json!({"properties": {"path": {}, "content": {}}})),
        )]);
        let reply = |prompt: &str| {
            let mut conversation = ModelConversation::default();
            conversation.add_user_text(prompt.to_owned());
            conversation.choose_reply(&tools)
        };
        let strategy = |verb: &str| format!("fake-model:{verb}:a.md:x\n{STRATEGY_MARKER} Read.");
        assert!(matches!(reply(&strategy("write")), ModelReply::Words(_)));
        let ModelReply::Call { arguments, .. } = reply(&strategy("disobey")) else {
            panic!("the model obeys");
        };
        assert_eq!(arguments["path"], "DRAFT-a.md");
        let ModelReply::Call { arguments, .. } = reply("fake-model:disobey:a.md:x") else {
            panic!("the model does nothing");
        };
        assert_eq!(arguments["path"], "a.md");
        assert!(matches!(
            reply("fake-model:write:a.md:x"),
            ModelReply::Call { .. }
        ));
        assert!(matches!(reply("What is this?"), ModelReply::Words(_)));
    }

    #[test]
    fn a_tool_result_ends_the_turn_until_the_next_directive() {
        let tools = OfferedTools::from([(
            "shell".to_owned(),
            OfferedTool::Function(serde_json::json!({"properties": {"command": {}}})),
        )]);
        let mut conversation = ModelConversation::default();
        conversation.add_user_text("fake-model:append:a.md:x".to_owned());
        assert!(matches!(
            conversation.choose_reply(&tools),
            ModelReply::Call { .. }
        ));
        conversation.add_tool_result("ok".to_owned());
        let done = ModelReply::Words("Done: append x to a.md.".to_owned());
        assert_eq!(conversation.choose_reply(&tools), done);
        conversation.add_user_text("a reminder of the agent".to_owned());
        assert_eq!(conversation.choose_reply(&tools), done);
        conversation.add_user_text("fake-model:append:a.md:y".to_owned());
        assert!(matches!(
            conversation.choose_reply(&tools),
            ModelReply::Call { .. }
        ));
        conversation.add_tool_result("Permission denied".to_owned());
        let ModelReply::Words(words) = conversation.choose_reply(&tools) else {
            panic!("a tool failed, and the model calls another");
        };
        assert!(words.contains("Permission denied"), "{words}");
    }

    #[test]
    fn an_agent_without_tools_gets_an_edit_in_words() {
        let mut conversation = ModelConversation::default();
        conversation.add_user_text("fake-model:write:a.md:x".to_owned());
        let title = conversation.choose_reply(&OfferedTools::new());
        assert_eq!(title, ModelReply::Words("A small change".to_owned()));
        conversation.add_instructions("Answer with SEARCH/REPLACE blocks".to_owned());
        let ModelReply::Words(words) = conversation.choose_reply(&OfferedTools::new()) else {
            panic!("there is no tool to call");
        };
        assert!(
            words.contains("a.md\n```\n<<<<<<< SEARCH\n=======\nx\n"),
            "{words}"
        );
    }
}
