//! The definition of an actor as the file that would define it, to be copied and changed.

use std::fmt::Write;

use plan::ActorDefinition;
use plan::actor::{ActorKind, CommandLine, Isolation, Output, Stdin};
use plan::guard::Guards;

use super::problem::acts_on_a_terminal;

/// The file. Reading it gives the same definition; what is as it is by default is left out.
pub fn actor_text(definition: &ActorDefinition) -> String {
    let mut text = String::new();
    entry(&mut text, "name", &definition.name.to_string());
    if let Some(description) = &definition.description {
        entry(&mut text, "description", &scalar(description));
    }
    match &definition.kind {
        ActorKind::Command(line) => {
            entry(&mut text, "kind", "command");
            command(&mut text, line);
        }
        ActorKind::Human { timeout } => {
            entry(&mut text, "kind", "human");
            if let Some(timeout) = timeout {
                entry(&mut text, "timeout", &timeout.to_string());
            }
        }
    }
    text
}

fn command(text: &mut String, line: &CommandLine) {
    items(text, "", "command", &line.command);
    for (key, words) in [("strategize", &line.strategize), ("resume", &line.resume)] {
        if let Some(words) = words {
            let _ = writeln!(text, "{key}:");
            items(text, "  ", "command", words);
        }
    }
    match line.stdin {
        Stdin::Assignment => entry(text, "stdin", "assignment"),
        Stdin::Prompt => entry(text, "stdin", "prompt"),
        Stdin::None => {}
    }
    match line.output {
        Output::ClaudeJson => entry(text, "output", "claude-json"),
        Output::CodexJson => entry(text, "output", "codex-json"),
        Output::GeminiJson => entry(text, "output", "gemini-json"),
        Output::OpencodeJson => entry(text, "output", "opencode-json"),
        Output::Text => {}
    }
    let lists = [
        ("env", &line.env),
        ("writable", &line.writable),
        ("readable", &line.readable),
    ];
    for (key, list) in lists {
        if !list.is_empty() {
            items(text, "", key, list);
        }
    }
    if !line.set_env.is_empty() {
        let _ = writeln!(text, "set_env:");
        for (name, value) in &line.set_env {
            let _ = writeln!(text, "  {}: {}", scalar(name), scalar(value));
        }
    }
    if let Some(timeout) = line.timeout {
        entry(text, "timeout", &timeout.to_string());
    }
    match line.isolation {
        Isolation::Required => entry(text, "isolation", "required"),
        Isolation::Off => entry(text, "isolation", "off"),
        Isolation::WherePossible => {}
    }
    if !line.guards.is_empty() {
        guards(text, &line.guards);
    }
}

fn guards(text: &mut String, guards: &Guards) {
    let _ = writeln!(text, "guards:");
    for (key, patterns) in [("deny", &guards.deny), ("allow", &guards.allow)] {
        if !patterns.is_empty() {
            let patterns: Vec<String> = patterns.iter().map(ToString::to_string).collect();
            items(text, "  ", key, &patterns);
        }
    }
    if let Some(calls) = guards.calls {
        let _ = writeln!(text, "  calls: {calls}");
    }
}

fn entry(text: &mut String, key: &str, value: &str) {
    let _ = writeln!(text, "{key}: {value}");
}

fn items(text: &mut String, indent: &str, key: &str, list: &[String]) {
    if list.is_empty() {
        let _ = writeln!(text, "{indent}{key}: []");
        return;
    }
    let _ = writeln!(text, "{indent}{key}:");
    for item in list {
        let _ = writeln!(text, "{indent}  - {}", scalar(item));
    }
}

/// A text without quotes where nobody could take it for something else; otherwise as in JSON, which YAML
/// reads the same way.
fn scalar(text: &str) -> String {
    if is_plain(text) {
        return text.to_owned();
    }
    let mut quoted = String::new();
    for char in serde_json::Value::from(text).to_string().chars() {
        if acts_on_a_terminal(char) {
            let _ = write!(quoted, "\\u{:04x}", u32::from(char));
        } else {
            quoted.push(char);
        }
    }
    quoted
}

/// A word, an option or a path.
fn is_plain(text: &str) -> bool {
    const OTHERWISE: [&str; 9] = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];
    let without_dashes = text
        .strip_prefix("--")
        .or_else(|| text.strip_prefix('-'))
        .unwrap_or(text);
    let starts_so = |char: char| char.is_ascii_alphabetic() || "_/".contains(char);
    let may_hold = |byte: u8| byte.is_ascii_alphanumeric() || b"_./~ -,".contains(&byte);
    (without_dashes.starts_with(starts_so) || text.starts_with("~/"))
        && text.bytes().all(may_hold)
        && !text.ends_with(' ')
        && !OTHERWISE.contains(&text.to_ascii_lowercase().as_str())
}
