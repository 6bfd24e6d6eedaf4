//! Writes the definition of an agent as a YAML file, for the user to copy and change.

use std::fmt::Write;

use plan::ActorDefinition;
use plan::actor::{
    AcpCommand, ActorIsolation, ActorKind, ActorOutputFormat, ActorStdin, CommandLine,
    McpConfigFormat,
};
use plan::guard::{CallPattern, ToolGuards};
use plan::permission::ToolPolicy;

use super::problem::is_terminal_control;

/// Formats a definition. Parsing the result returns an equal definition. Default values are left out.
pub fn format_actor(definition: &ActorDefinition) -> String {
    let mut text = String::new();
    write_entry(&mut text, "name", &definition.name.to_string());
    if let Some(description) = &definition.description {
        write_entry(&mut text, "description", &format_scalar(description));
    }
    match &definition.kind {
        ActorKind::Command(line) => {
            write_entry(&mut text, "kind", "command");
            write_command(&mut text, line);
        }
        ActorKind::Acp(agent) => {
            write_entry(&mut text, "kind", "acp");
            write_acp_command(&mut text, agent);
        }
        ActorKind::Human { timeout } => {
            write_entry(&mut text, "kind", "human");
            if let Some(timeout) = timeout {
                write_entry(&mut text, "timeout", &timeout.to_string());
            }
        }
    }
    text
}

fn write_command(text: &mut String, line: &CommandLine) {
    write_list(text, "", "command", &line.command);
    for (key, words) in [("strategize", &line.strategize), ("resume", &line.resume)] {
        if let Some(words) = words {
            let _ = writeln!(text, "{key}:");
            write_list(text, "  ", "command", words);
        }
    }
    match line.stdin {
        ActorStdin::Assignment => write_entry(text, "stdin", "assignment"),
        ActorStdin::Prompt => write_entry(text, "stdin", "prompt"),
        ActorStdin::None => {}
    }
    match line.output {
        ActorOutputFormat::ClaudeJson => write_entry(text, "output", "claude-json"),
        ActorOutputFormat::CodexJson => write_entry(text, "output", "codex-json"),
        ActorOutputFormat::GeminiJson => write_entry(text, "output", "gemini-json"),
        ActorOutputFormat::OpencodeJson => write_entry(text, "output", "opencode-json"),
        ActorOutputFormat::AiderText => write_entry(text, "output", "aider-text"),
        ActorOutputFormat::CopilotJson => write_entry(text, "output", "copilot-json"),
        ActorOutputFormat::KimiJson => write_entry(text, "output", "kimi-json"),
        ActorOutputFormat::VibeJson => write_entry(text, "output", "vibe-json"),
        ActorOutputFormat::Text => {}
    }
    write_program_options(text, line);
    match line.mcp {
        Some(McpConfigFormat::Claude) => write_entry(text, "mcp", "claude"),
        Some(McpConfigFormat::Codex) => write_entry(text, "mcp", "codex"),
        None => {}
    }
    if !line.guards.is_empty() {
        write_guards(text, &line.guards);
    }
}

fn write_acp_command(text: &mut String, agent: &AcpCommand) {
    write_list(text, "", "command", &agent.command);
    for (key, value) in [("mode", &agent.mode), ("model", &agent.model)] {
        if let Some(value) = value {
            write_entry(text, key, &format_scalar(value));
        }
    }
    write_program_options(text, &agent.to_command_line());
    if !agent.tools.is_empty() {
        write_tools(text, &agent.tools);
    }
}

/// Writes what every program gets.
fn write_program_options(text: &mut String, line: &CommandLine) {
    let lists = [
        ("env", &line.env),
        ("writable", &line.writable),
        ("readable", &line.readable),
    ];
    for (key, list) in lists {
        if !list.is_empty() {
            write_list(text, "", key, list);
        }
    }
    if !line.set_env.is_empty() {
        let _ = writeln!(text, "set_env:");
        for (name, value) in &line.set_env {
            let _ = writeln!(text, "  {}: {}", format_scalar(name), format_scalar(value));
        }
    }
    if let Some(timeout) = line.timeout {
        write_entry(text, "timeout", &timeout.to_string());
    }
    match line.isolation {
        ActorIsolation::Required => write_entry(text, "isolation", "required"),
        ActorIsolation::Off => write_entry(text, "isolation", "off"),
        ActorIsolation::WherePossible => {}
    }
}

fn write_guards(text: &mut String, guards: &ToolGuards) {
    let _ = writeln!(text, "guards:");
    write_patterns(text, &[("deny", &guards.deny), ("allow", &guards.allow)]);
    if let Some(calls) = guards.calls {
        let _ = writeln!(text, "  calls: {calls}");
    }
}

fn write_tools(text: &mut String, tools: &ToolPolicy) {
    let _ = writeln!(text, "tools:");
    let lists: [(&str, &[CallPattern]); 3] = [
        ("deny", &tools.deny),
        ("ask", &tools.ask),
        ("allow", &tools.allow),
    ];
    write_patterns(text, &lists);
}

fn write_patterns(text: &mut String, lists: &[(&str, &[CallPattern])]) {
    for (key, patterns) in lists {
        if !patterns.is_empty() {
            let patterns: Vec<String> = patterns.iter().map(ToString::to_string).collect();
            write_list(text, "  ", key, &patterns);
        }
    }
}

fn write_entry(text: &mut String, key: &str, value: &str) {
    let _ = writeln!(text, "{key}: {value}");
}

fn write_list(text: &mut String, indent: &str, key: &str, list: &[String]) {
    if list.is_empty() {
        let _ = writeln!(text, "{indent}{key}: []");
        return;
    }
    let _ = writeln!(text, "{indent}{key}:");
    for item in list {
        let _ = writeln!(text, "{indent}  - {}", format_scalar(item));
    }
}

/// Formats a string: plain if that is unambiguous, else quoted as in JSON, which YAML reads the same way.
fn format_scalar(text: &str) -> String {
    if is_plain(text) {
        return text.to_owned();
    }
    let mut quoted = String::new();
    for char in serde_json::Value::from(text).to_string().chars() {
        if is_terminal_control(char) {
            let _ = write!(quoted, "\\u{:04x}", u32::from(char));
        } else {
            quoted.push(char);
        }
    }
    quoted
}

/// Returns whether a string is safe without quotes: a word, an option or a path.
fn is_plain(text: &str) -> bool {
    const RESERVED_WORDS: [&str; 9] = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];
    let without_dashes = text
        .strip_prefix("--")
        .or_else(|| text.strip_prefix('-'))
        .unwrap_or(text);
    let is_start = |char: char| char.is_ascii_alphabetic() || "_/".contains(char);
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_./~ -,".contains(&byte);
    (without_dashes.starts_with(is_start) || text.starts_with("~/"))
        && text.bytes().all(is_allowed)
        && !text.ends_with(' ')
        && !RESERVED_WORDS.contains(&text.to_ascii_lowercase().as_str())
}
