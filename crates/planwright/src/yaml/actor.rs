//! Reads the definition of an agent.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use plan::ActorDefinition;
use plan::actor::{
    AcpCommand, ActorIsolation, ActorKind, ActorOutputFormat, ActorStdin, CommandLine,
    McpConfigFormat,
};
use plan::guard::{CallPattern, ToolGuards};
use plan::permission::ToolPolicy;

use super::fields::{MappingFields, MappingSchema};
use super::problem::{FilePosition, YamlFlaw, truncate_escaped};
use super::tree::{YamlNode, YamlValue};
use super::value::{
    read_list, read_nonempty_text, read_parsed, read_raw, read_text, type_mismatch,
};

const NOT_YET_SUPPORTED: &str = "is not yet supported";

static COMMAND_SCHEMA: MappingSchema<'_> = MappingSchema {
    what: "an agent of kind command",
    place: "in an agent of kind command",
    keys: &[
        "name",
        "kind",
        "description",
        "command",
        "strategize",
        "resume",
        "stdin",
        "output",
        "env",
        "set_env",
        "writable",
        "readable",
        "timeout",
        "isolation",
        "mcp",
        "guards",
    ],
    refused: &[
        (
            "args",
            "is not supported: a command is one list of words",
            "write the arguments after the program: `command: [program, argument]`",
        ),
        (
            "model",
            NOT_YET_SUPPORTED,
            "pass it as an argument in `command`",
        ),
    ],
    others: &[&COMMAND_FORM_SCHEMA, &GUARDS_SCHEMA],
};

static ACP_SCHEMA: MappingSchema<'_> = MappingSchema {
    what: "an agent of kind acp",
    place: "in an agent of kind acp",
    keys: &[
        "name",
        "kind",
        "description",
        "command",
        "mode",
        "model",
        "env",
        "set_env",
        "writable",
        "readable",
        "timeout",
        "isolation",
        "tools",
    ],
    refused: &[
        (
            "args",
            "is not supported: a command is one list of words",
            "write the arguments after the program: `command: [program, argument]`",
        ),
        (
            "guards",
            "is not supported by an agent of kind acp",
            "write `tools`: it decides calls before they are made",
        ),
    ],
    others: &[&COMMAND_SCHEMA, &TOOLS_SCHEMA],
};

pub(super) static TOOLS_SCHEMA: MappingSchema<'_> = MappingSchema {
    what: "`tools`",
    place: "under `tools`",
    keys: &["deny", "ask", "allow"],
    refused: &[],
    others: &[&ACP_SCHEMA],
};

static HUMAN_SCHEMA: MappingSchema<'_> = MappingSchema {
    what: "an agent of kind human",
    place: "in an agent of kind human",
    keys: &["name", "kind", "description", "timeout"],
    refused: &[],
    others: &[&COMMAND_SCHEMA],
};

static COMMAND_FORM_SCHEMA: MappingSchema<'_> = MappingSchema {
    what: "another way to start the program",
    place: "under `strategize` or `resume`",
    keys: &["command"],
    refused: &[],
    others: &[&COMMAND_SCHEMA],
};

static GUARDS_SCHEMA: MappingSchema<'_> = MappingSchema {
    what: "`guards`",
    place: "under `guards`",
    keys: &["deny", "allow", "calls"],
    refused: &[],
    others: &[&COMMAND_SCHEMA],
};

pub(super) fn read(root: &YamlNode) -> Result<ActorDefinition, YamlFlaw> {
    let kind = read_kind(root)?;
    let schema = match kind {
        DefinitionKind::Command => &COMMAND_SCHEMA,
        DefinitionKind::Acp => &ACP_SCHEMA,
        DefinitionKind::Human => &HUMAN_SCHEMA,
    };
    let fields = MappingFields::from_node(root, schema)?;
    let definition = ActorDefinition {
        name: fields.required("name", read_parsed)?,
        description: fields.optional("description", read_nonempty_text)?,
        kind: match kind {
            DefinitionKind::Command => ActorKind::Command(Box::new(read_command(&fields)?)),
            DefinitionKind::Acp => ActorKind::Acp(Box::new(read_acp_command(&fields)?)),
            DefinitionKind::Human => ActorKind::Human {
                timeout: fields.optional("timeout", read_parsed)?,
            },
        },
    };
    actors::check_definition(&definition).map_err(|problem| {
        let entry = fields.get(problem.key());
        let at = entry.map_or(FilePosition::START, |entry| entry.value.at);
        YamlFlaw::new(at, problem.to_string())
    })?;
    Ok(definition)
}

#[derive(PartialEq, Eq)]
enum DefinitionKind {
    Command,
    Acp,
    Human,
}

/// Reads `kind` first, because it decides which keys are allowed.
fn read_kind(root: &YamlNode) -> Result<DefinitionKind, YamlFlaw> {
    let YamlValue::Mapping(entries) = &root.value else {
        return Err(
            type_mismatch(root, "an agent as a mapping of keys to values")
                .with_hint("write lines of `key: value`"),
        );
    };
    let Some(entry) = entries.iter().find(|entry| entry.key == "kind") else {
        return Err(YamlFlaw::new(root.at, "an agent needs the key `kind`")
            .with_hint(
                "write `kind: command` for a program, `kind: acp` for one that speaks the Agent Client \
                 Protocol, `kind: human` for a person",
            ));
    };
    let kinds = [
        ("command", DefinitionKind::Command),
        ("acp", DefinitionKind::Acp),
        ("human", DefinitionKind::Human),
    ];
    read_one_of(&entry.value, kinds).map_err(|flaw| flaw.under_key("kind"))
}

fn read_command(fields: &MappingFields<'_, '_>) -> Result<CommandLine, YamlFlaw> {
    Ok(CommandLine {
        command: fields.required("command", read_texts)?,
        strategize: fields.optional("strategize", read_command_form)?,
        resume: fields.optional("resume", read_command_form)?,
        stdin: fields
            .optional("stdin", |node| {
                read_one_of(
                    node,
                    [
                        ("assignment", ActorStdin::Assignment),
                        ("prompt", ActorStdin::Prompt),
                        ("none", ActorStdin::None),
                    ],
                )
            })?
            .unwrap_or_default(),
        output: fields
            .optional("output", |node| {
                read_one_of(
                    node,
                    [
                        ("text", ActorOutputFormat::Text),
                        ("claude-json", ActorOutputFormat::ClaudeJson),
                        ("codex-json", ActorOutputFormat::CodexJson),
                        ("gemini-json", ActorOutputFormat::GeminiJson),
                        ("opencode-json", ActorOutputFormat::OpencodeJson),
                        ("aider-text", ActorOutputFormat::AiderText),
                        ("copilot-json", ActorOutputFormat::CopilotJson),
                        ("kimi-json", ActorOutputFormat::KimiJson),
                        ("vibe-json", ActorOutputFormat::VibeJson),
                    ],
                )
            })?
            .unwrap_or_default(),
        env: fields.optional("env", read_texts)?.unwrap_or_default(),
        set_env: fields
            .optional("set_env", read_variables)?
            .unwrap_or_default(),
        writable: fields.optional("writable", read_texts)?.unwrap_or_default(),
        readable: fields.optional("readable", read_texts)?.unwrap_or_default(),
        timeout: fields.optional("timeout", read_parsed)?,
        isolation: fields
            .optional("isolation", read_isolation)?
            .unwrap_or_default(),
        mcp: fields.optional("mcp", read_mcp_format)?,
        guards: fields.optional("guards", read_guards)?.unwrap_or_default(),
    })
}

fn read_acp_command(fields: &MappingFields<'_, '_>) -> Result<AcpCommand, YamlFlaw> {
    Ok(AcpCommand {
        command: fields.required("command", read_texts)?,
        mode: fields.optional("mode", read_nonempty_text)?,
        model: fields.optional("model", read_nonempty_text)?,
        env: fields.optional("env", read_texts)?.unwrap_or_default(),
        set_env: fields
            .optional("set_env", read_variables)?
            .unwrap_or_default(),
        writable: fields.optional("writable", read_texts)?.unwrap_or_default(),
        readable: fields.optional("readable", read_texts)?.unwrap_or_default(),
        timeout: fields.optional("timeout", read_parsed)?,
        isolation: fields
            .optional("isolation", read_isolation)?
            .unwrap_or_default(),
        tools: fields.optional("tools", read_tools)?.unwrap_or_default(),
    })
}

fn read_isolation(node: &YamlNode) -> Result<ActorIsolation, YamlFlaw> {
    let words = [
        ("where_possible", ActorIsolation::WherePossible),
        ("required", ActorIsolation::Required),
        ("off", ActorIsolation::Off),
    ];
    read_one_of(node, words)
}

fn read_mcp_format(node: &YamlNode) -> Result<McpConfigFormat, YamlFlaw> {
    let words = [
        ("claude", McpConfigFormat::Claude),
        ("codex", McpConfigFormat::Codex),
    ];
    read_one_of(node, words)
}

pub(super) fn read_tools(node: &YamlNode) -> Result<ToolPolicy, YamlFlaw> {
    let fields = MappingFields::from_node(node, &TOOLS_SCHEMA)?;
    Ok(ToolPolicy {
        deny: fields.optional("deny", read_patterns)?.unwrap_or_default(),
        ask: fields.optional("ask", read_patterns)?.unwrap_or_default(),
        allow: fields.optional("allow", read_patterns)?.unwrap_or_default(),
    })
}

fn read_guards(node: &YamlNode) -> Result<ToolGuards, YamlFlaw> {
    let fields = MappingFields::from_node(node, &GUARDS_SCHEMA)?;
    Ok(ToolGuards {
        deny: fields.optional("deny", read_patterns)?.unwrap_or_default(),
        allow: fields.optional("allow", read_patterns)?.unwrap_or_default(),
        calls: fields.optional("calls", read_call_limit)?,
    })
}

fn read_call_limit(node: &YamlNode) -> Result<u32, YamlFlaw> {
    let limit: Option<NonZeroU32> = read_raw(node)?.parse().ok();
    limit
        .map(NonZeroU32::get)
        .ok_or_else(|| type_mismatch(node, "a number of calls, at least 1"))
}

fn read_patterns(node: &YamlNode) -> Result<Vec<CallPattern>, YamlFlaw> {
    let items = read_list(node)?;
    check_item_count(items.get(MAX_ITEMS).map(|item| item.at))?;
    items.iter().map(read_parsed).collect()
}

/// The limit on list items and variables, because every plan stores a copy of the definition.
const MAX_ITEMS: usize = 256;

fn read_texts(node: &YamlNode) -> Result<Vec<String>, YamlFlaw> {
    let items = read_list(node)?;
    check_item_count(items.get(MAX_ITEMS).map(|item| item.at))?;
    items.iter().map(read_text).collect()
}

fn read_command_form(node: &YamlNode) -> Result<Vec<String>, YamlFlaw> {
    MappingFields::from_node(node, &COMMAND_FORM_SCHEMA)?.required("command", read_texts)
}

fn read_variables(node: &YamlNode) -> Result<BTreeMap<String, String>, YamlFlaw> {
    let YamlValue::Mapping(entries) = &node.value else {
        return Err(type_mismatch(node, "a mapping of variables to values")
            .with_hint("write lines of `NAME: value`"));
    };
    check_item_count(entries.get(MAX_ITEMS).map(|entry| entry.at))?;
    let variables = entries.iter().map(|entry| {
        let value = read_text(&entry.value)
            .map_err(|flaw| flaw.under_key(&truncate_escaped(&entry.key, 60)))?;
        Ok((entry.key.clone(), value))
    });
    variables.collect()
}

fn check_item_count(first_too_many: Option<FilePosition>) -> Result<(), YamlFlaw> {
    match first_too_many {
        Some(at) => Err(YamlFlaw::new(at, format!("more than {MAX_ITEMS} items"))),
        None => Ok(()),
    }
}

/// Reads one of a few words and returns its value.
fn read_one_of<T, const N: usize>(node: &YamlNode, words: [(&str, T); N]) -> Result<T, YamlFlaw> {
    let given = read_text(node)?;
    let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
    let message = format!(
        "`{}` is not one of {}",
        truncate_escaped(&given, 60),
        known.join(", ")
    );
    let found = words.into_iter().find(|(word, _)| *word == given);
    found
        .map(|(_, value)| value)
        .ok_or_else(|| YamlFlaw::new(node.at, message))
}
