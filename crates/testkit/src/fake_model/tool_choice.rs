//! Calls the tool of an agent that does what a directive says. Agents name their tools and parameters differently.

use std::path::Path;

use serde_json::{Map, Value, json};

use super::conversation::{ModelReply, OfferedTool, OfferedTools};
use super::directive::{DirectiveVerb, ModelDirective};

const WRITE_TOOLS: &[&str] = &[
    "Write",
    "write_file",
    "WriteFile",
    "write",
    "create_file",
    "create",
    PATCH_TOOL,
];
const SHELL_TOOLS: &[&str] = &[
    "Bash",
    "bash",
    "run_shell_command",
    "exec_command",
    "shell_command",
    "shell",
    "Shell",
];
const PATCH_TOOL: &str = "apply_patch";
/// A tool that takes a script, which calls the other tools.
const SCRIPT_TOOL: &str = "exec";

const PATH_PARAMETERS: &[&str] = &["file_path", "filePath", "path", "absolute_path"];
const CONTENT_PARAMETERS: &[&str] = &["content", "contents", "file_text"];
const COMMAND_PARAMETERS: &[&str] = &["command", "cmd"];
const DIRECTORY_PARAMETERS: &[&str] = &["workdir", "cwd", "directory", "dir_path"];

/// `None` if no tool fits.
pub(super) fn choose_tool_call(
    directive: &ModelDirective,
    tools: &OfferedTools,
    directory: Option<&str>,
) -> Option<ModelReply> {
    let writes = match directive.verb {
        DirectiveVerb::Write | DirectiveVerb::Disobey => true,
        DirectiveVerb::Append => false,
    };
    if tools.get(SCRIPT_TOOL) == Some(&OfferedTool::Freeform) {
        let call = match writes {
            true => format!("tools.apply_patch({})", json!(format_patch(directive))),
            false => {
                let command = json!({"cmd": format_command(directive)});
                format!("tools.exec_command({command})")
            }
        };
        return Some(ModelReply::FreeformCall {
            tool: SCRIPT_TOOL.to_owned(),
            input: format!("text(await {call})"),
        });
    }
    let write = || call_write_tool(directive, tools, directory);
    let found = writes.then(write).flatten();
    found.or_else(|| call_shell_tool(directive, tools, directory))
}

fn call_write_tool(
    directive: &ModelDirective,
    tools: &OfferedTools,
    directory: Option<&str>,
) -> Option<ModelReply> {
    let (name, tool) = find_tool(WRITE_TOOLS, tools)?;
    let schema = match tool {
        OfferedTool::Function(schema) => schema,
        OfferedTool::Freeform if name == PATCH_TOOL => {
            return Some(ModelReply::FreeformCall {
                tool: name.to_owned(),
                input: format_patch(directive),
            });
        }
        OfferedTool::Freeform => return None,
    };
    let path = match directory {
        Some(directory) => Path::new(directory).join(&directive.file),
        None => Path::new(&directive.file).to_owned(),
    };
    let content = match name {
        PATCH_TOOL => format_patch(directive),
        _ => format!("{}\n", directive.line),
    };
    Some(call_function(name, schema, |parameter, _| {
        if PATH_PARAMETERS.contains(&parameter) {
            return Some(json!(path));
        }
        let is_content = CONTENT_PARAMETERS.contains(&parameter)
            || (name == PATCH_TOOL && ["input", "patch"].contains(&parameter));
        is_content.then(|| json!(content))
    }))
}

fn call_shell_tool(
    directive: &ModelDirective,
    tools: &OfferedTools,
    directory: Option<&str>,
) -> Option<ModelReply> {
    let (name, tool) = find_tool(SHELL_TOOLS, tools)?;
    let OfferedTool::Function(schema) = tool else {
        return None;
    };
    let command = format_command(directive);
    Some(call_function(name, schema, |parameter, schema| {
        if COMMAND_PARAMETERS.contains(&parameter) {
            let is_list = schema["type"] == "array";
            return Some(match is_list {
                true => json!(["sh", "-c", command]),
                false => json!(command),
            });
        }
        let directory = directory.filter(|_| DIRECTORY_PARAMETERS.contains(&parameter));
        directory.map(|directory| json!(directory))
    }))
}

fn find_tool<'a>(
    names: &[&'static str],
    tools: &'a OfferedTools,
) -> Option<(&'static str, &'a OfferedTool)> {
    names
        .iter()
        .find_map(|name| Some((*name, tools.get(*name)?)))
}

/// Gives a value to each parameter that `value_of` knows, and a filler to the others that are required.
fn call_function(
    name: &str,
    schema: &Value,
    value_of: impl Fn(&str, &Value) -> Option<Value>,
) -> ModelReply {
    let required: Vec<&str> = schema["required"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let parameters = schema["properties"].as_object().into_iter().flatten();
    let arguments: Map<String, Value> = parameters
        .filter_map(|(parameter, schema)| {
            let filler = || {
                required
                    .contains(&parameter.as_str())
                    .then(|| make_filler(schema))
            };
            Some((
                parameter.clone(),
                value_of(parameter, schema).or_else(filler)?,
            ))
        })
        .collect();
    ModelReply::Call {
        tool: name.to_owned(),
        arguments: Value::Object(arguments),
    }
}

/// A value that fits a schema.
pub(super) fn make_filler(schema: &Value) -> Value {
    if let Some(first) = schema["enum"].get(0) {
        return first.clone();
    }
    let kind = match &schema["type"] {
        Value::Array(kinds) => kinds.first().and_then(Value::as_str),
        kind => kind.as_str(),
    };
    match kind {
        Some("boolean") => json!(false),
        Some("integer" | "number") => json!(1),
        Some("array") => json!([]),
        Some("object") => {
            let properties = schema["properties"].as_object().into_iter().flatten();
            let filled = properties.map(|(name, schema)| (name.clone(), make_filler(schema)));
            Value::Object(filled.collect())
        }
        Some(_) | None => json!("filler"),
    }
}

/// A patch that adds the file, in the format of the patch tool.
fn format_patch(directive: &ModelDirective) -> String {
    let ModelDirective { file, line, .. } = directive;
    format!("*** Begin Patch\n*** Add File: {file}\n+{line}\n*** End Patch\n")
}

/// A directive's parts have no characters that are special in a shell.
fn format_command(directive: &ModelDirective) -> String {
    let ModelDirective { file, line, .. } = directive;
    match directive.verb {
        DirectiveVerb::Write | DirectiveVerb::Disobey => format!("echo {line} > {file}"),
        DirectiveVerb::Append => format!("echo {line} >> {file}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(directive: &str, tools: &Value, directory: Option<&str>) -> Option<ModelReply> {
        let directive = ModelDirective::find_last(directive).unwrap();
        let tools = tools.as_object().unwrap().iter().map(|(name, schema)| {
            let tool = match schema {
                Value::Null => OfferedTool::Freeform,
                schema => OfferedTool::Function(schema.clone()),
            };
            (name.clone(), tool)
        });
        choose_tool_call(&directive, &tools.collect(), directory)
    }

    fn expect_call(reply: Option<ModelReply>, name: &str, expected: &Value) {
        match reply {
            Some(ModelReply::Call { tool, arguments }) => {
                assert_eq!((tool.as_str(), &arguments), (name, expected));
            }
            other => panic!("{other:?}"),
        }
    }

    const WRITE: &str = "fake-model:write:a.md:x";
    const APPEND: &str = "fake-model:append:a.md:x";

    #[test]
    fn a_file_is_written_with_the_parameters_that_the_tool_has() {
        let schema = json!({"properties": {"file_path": {}, "content": {}, "mode": {"enum": ["new"]}, "extra": {}},
                            "required": ["file_path", "content", "mode"]});
        expect_call(
            call(WRITE, &json!({"Write": schema, "Bash": {}}), Some("/w")),
            "Write",
            &json!({"file_path": "/w/a.md", "content": "x\n", "mode": "new"}),
        );
        let schema = json!({"properties": {"input": {"type": "string"}}, "required": ["input"]});
        expect_call(
            call(WRITE, &json!({"apply_patch": schema}), None),
            "apply_patch",
            &json!({"input": "*** Begin Patch\n*** Add File: a.md\n+x\n*** End Patch\n"}),
        );
    }

    #[test]
    fn a_line_is_appended_by_a_shell_command() {
        let schema = json!({"properties": {"command": {"type": "string"}, "timeout": {"type": "integer"}},
                            "required": ["command", "timeout"]});
        expect_call(
            call(APPEND, &json!({"Write": {}, "Bash": schema}), Some("/w")),
            "Bash",
            &json!({"command": "echo x >> a.md", "timeout": 1}),
        );
        let schema = json!({"properties": {"command": {"type": "array"}, "workdir": {}}});
        expect_call(
            call(APPEND, &json!({"shell": schema}), Some("/w")),
            "shell",
            &json!({"command": ["sh", "-c", "echo x >> a.md"], "workdir": "/w"}),
        );
        assert_eq!(call(APPEND, &json!({"Write": {}}), None), None);
    }

    #[test]
    fn a_script_tool_gets_a_script_that_calls_the_others() {
        for (directive, expected) in [
            (WRITE, "text(await tools.apply_patch(\"*** Begin Patch\\n"),
            (
                APPEND,
                "text(await tools.exec_command({\"cmd\":\"echo x >> a.md\"}))",
            ),
        ] {
            match call(directive, &json!({"exec": null, "wait": {}}), None) {
                Some(ModelReply::FreeformCall { tool, input }) => {
                    assert_eq!(tool, "exec");
                    assert!(input.starts_with(expected), "{input}");
                }
                other => panic!("{other:?}"),
            }
        }
    }
}
