//! The tools: few, each a use case of `api`. None of them answers, approves, lands, waives or undoes.

mod change_plan;
mod look_at_plan;
mod read_diff;
mod request_landing;
mod start_plan;

use actors::Stop;
use plan::PlanId;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::agent_access::AgentAccess;
use super::message::ProtocolError;
use super::tool_answer::ToolAnswer;
use crate::error::CommandError;

pub use look_at_plan::answer_status;
pub use read_diff::{DiffSelection, read_diff_page};
pub use request_landing::find_page;

/// A tool as clients see it, and the function that carries it out.
struct ToolDefinition {
    name: &'static str,
    title: &'static str,
    description: &'static str,
    input: fn() -> Value,
    /// Field names of the answer that are always there, with their JSON type.
    output: &'static [(&'static str, &'static str)],
    effect: ToolEffect,
    /// The command of the terminal that does the same, which words its errors.
    operation: &'static str,
    call: ToolFunction,
}

type ToolFunction = fn(&AgentAccess, Value, &Stop) -> Result<ToolOutcome, CommandError>;

/// What a tool does to plans.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ToolEffect {
    Looks,
    /// Adds something. Repeating it may add more.
    Adds,
    /// Ends or replaces work.
    Destroys,
}

/// The end of a tool call.
pub enum ToolOutcome {
    Answered(ToolAnswer),
    /// A plan works on it.
    Started {
        plan_id: PlanId,
        answer: ToolAnswer,
    },
}

impl From<ToolAnswer> for ToolOutcome {
    fn from(answer: ToolAnswer) -> Self {
        Self::Answered(answer)
    }
}

/// In the order in which they are listed.
const TOOLS: [ToolDefinition; 8] = [
    ToolDefinition {
        name: "plan_start",
        title: "Start a plan",
        description: "Start an agent on a goal, in a private copy of the repository. Returns at once; the plan goes \
            on by itself until it waits for a person. Nothing lands without a person. Give `goal` or `action`.",
        input: start_plan::input_schema,
        output: &[("plan", "object"), ("waiting_for", "string")],
        effect: ToolEffect::Adds,
        operation: "run",
        call: start_plan::start_plan,
    },
    ToolDefinition {
        name: "plan_status",
        title: "Show a plan",
        description: "Show where a plan stands, its results, its open question or failure, and what you can do next. \
            With `wait_seconds`, first waits until it needs a person or has ended.",
        input: look_at_plan::status_schema,
        output: &[("plan", "object"), ("waiting_for", "string")],
        effect: ToolEffect::Looks,
        operation: "status",
        call: look_at_plan::show_status,
    },
    ToolDefinition {
        name: "plan_list",
        title: "List plans",
        description: "List plans, newest first: those of the repository you work in, or of all repositories.",
        input: look_at_plan::list_schema,
        output: &[("plans", "array")],
        effect: ToolEffect::Looks,
        operation: "list",
        call: look_at_plan::list_plans,
    },
    ToolDefinition {
        name: "plan_diff",
        title: "Read a plan's changes",
        description: "Read what a plan changed, as a patch, a diffstat or a list of files, also while its agent works. \
            Long patches come in pages: pass `next_line` of the answer as `from_line`.",
        input: read_diff::input_schema,
        output: &[("files", "array"), ("text", "string")],
        effect: ToolEffect::Looks,
        operation: "diff",
        call: read_diff::read_diff,
    },
    ToolDefinition {
        name: "plan_why",
        title: "Explain a plan",
        description: "Explain why a plan does not go on: what it waits for, and which rules block it with what \
            evidence.",
        input: look_at_plan::plan_schema,
        output: &[("reasons", "array")],
        effect: ToolEffect::Looks,
        operation: "why",
        call: look_at_plan::explain_plan,
    },
    ToolDefinition {
        name: "plan_revise",
        title: "Send a plan back",
        description: "Send the result of a plan that you started back to its agent, with feedback. The next result \
            gets the next number. Files that match `drop` are restored first.",
        input: change_plan::revise_schema,
        output: &[("plan", "object"), ("waiting_for", "string")],
        effect: ToolEffect::Adds,
        operation: "revise",
        call: change_plan::revise_plan,
    },
    ToolDefinition {
        name: "plan_cancel",
        title: "Cancel a plan",
        description: "End a plan that you started, without landing anything. It cannot be resumed.",
        input: change_plan::cancel_schema,
        output: &[("plan", "object"), ("waiting_for", "string")],
        effect: ToolEffect::Destroys,
        operation: "cancel",
        call: change_plan::cancel_plan,
    },
    ToolDefinition {
        name: "plan_request_landing",
        title: "Ask a person to land a plan",
        description: "Learn where a person can review a plan, answer its question, or land it: a page or a command to \
            pass on to them. Lands nothing and tells nobody.",
        input: look_at_plan::plan_schema,
        output: &[("command", "string"), ("waiting_for", "string")],
        effect: ToolEffect::Looks,
        operation: "open",
        call: request_landing::request_landing,
    },
];

/// Lists the tools, always in the same order.
pub fn list_tools() -> Value {
    let tools = TOOLS.iter().map(|tool| {
        let properties: Map<String, Value> = tool
            .output
            .iter()
            .map(|(name, kind)| ((*name).to_owned(), json!({ "type": kind })))
            .collect();
        json!({
            "name": tool.name,
            "title": tool.title,
            "description": tool.description,
            "inputSchema": (tool.input)(),
            "outputSchema": { "type": "object", "properties": properties },
            "annotations": {
                "title": tool.title,
                "readOnlyHint": tool.effect == ToolEffect::Looks,
                "destructiveHint": tool.effect == ToolEffect::Destroys,
                "idempotentHint": tool.effect != ToolEffect::Adds,
                "openWorldHint": tool.name == "plan_start" || tool.name == "plan_revise",
            },
        })
    });
    json!({ "tools": tools.collect::<Vec<_>>() })
}

/// Calls a tool. Only an unknown tool is an error of the protocol: a model can correct everything else.
pub fn call_tool(
    access: &AgentAccess,
    name: &str,
    arguments: Value,
    stop: &Stop,
) -> Result<ToolOutcome, ProtocolError> {
    let Some(tool) = TOOLS.iter().find(|tool| tool.name == name) else {
        let name: String = name.chars().take(100).collect();
        return Err(ProtocolError::invalid_params(format!(
            "Unknown tool: {name}"
        )));
    };
    let handle = arguments["plan"].as_str().map(str::to_owned);
    Ok(
        (tool.call)(access, arguments, stop).unwrap_or_else(|error| {
            let plan_id = handle.and_then(|handle| access.lifecycle.resolve_handle(&handle).ok());
            let error = access.explain_error(error, tool.operation, plan_id);
            ToolAnswer::of_error(access, &error).into()
        }),
    )
}

/// Reads the arguments of a tool.
fn read_arguments<T: DeserializeOwned>(arguments: Value) -> Result<T, CommandError> {
    serde_json::from_value(arguments).map_err(|error| {
        CommandError::usage(format!("Bad arguments: {error}."))
            .with_kind("bad_arguments")
            .with_hint("The input schema of the tool lists its arguments.")
    })
}

/// A schema of an object with these properties and no others.
fn object_schema(properties: &Value, required: &[&str]) -> Value {
    json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    })
}

fn plan_property() -> Value {
    json!({ "type": "string", "description": "Plan id, or a handle such as k3f9" })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use lifecycle::Lifecycle;
    use plan::Caller;
    use store::{Clock, MemoryStore};

    use super::*;
    use crate::invocation::ProgramInvocation;
    use crate::server_registry::ServerRegistry;

    fn access(home: &std::path::Path) -> AgentAccess {
        AgentAccess {
            lifecycle: Lifecycle::on(Arc::new(MemoryStore::new())),
            invocation: ProgramInvocation::new("planwright", None),
            registry: ServerRegistry::new(home, "memory"),
            clock: Clock::default(),
            caller: Caller::Agent("test".to_owned()),
            request_work: Box::new(|| {}),
        }
    }

    fn example_of(schema: &Value) -> Value {
        if let Some(first) = schema["enum"].get(0) {
            return first.clone();
        }
        match schema["type"].as_str().unwrap() {
            "string" => json!("x"),
            "boolean" => json!(false),
            "integer" => schema["minimum"].clone(),
            "array" => json!([example_of(&schema["items"])]),
            "object" => json!({}),
            other => panic!("{other}"),
        }
    }

    /// The schemas are written by hand. Each property they name is read, and no other.
    #[test]
    fn schemas_and_arguments_agree() {
        let home = tempfile::tempdir().unwrap();
        let access = access(home.path());
        let kind_of = |tool: &ToolDefinition, arguments: Value| match call_tool(
            &access,
            tool.name,
            arguments,
            &Stop::default(),
        ) {
            Ok(ToolOutcome::Answered(answer)) => answer.data["kind"].as_str().map(str::to_owned),
            Ok(ToolOutcome::Started { .. }) => None,
            Err(error) => panic!("{error:?}"),
        };
        for tool in &TOOLS {
            let schema = (tool.input)();
            let properties = schema["properties"].as_object().unwrap();
            let all: Map<String, Value> = properties
                .iter()
                .map(|(name, schema)| (name.clone(), example_of(schema)))
                .collect();
            let kind = kind_of(tool, all.clone().into());
            assert_ne!(kind.as_deref(), Some("bad_arguments"), "{}", tool.name);
            let mut more = all.clone();
            more.insert("unknown".to_owned(), json!(1));
            let kind = kind_of(tool, more.into());
            assert_eq!(kind.as_deref(), Some("bad_arguments"), "{}", tool.name);
            for required in schema["required"].as_array().unwrap() {
                let mut fewer = all.clone();
                fewer.remove(required.as_str().unwrap());
                let kind = kind_of(tool, fewer.into());
                assert_eq!(kind.as_deref(), Some("bad_arguments"), "{required}");
            }
        }
    }
}
