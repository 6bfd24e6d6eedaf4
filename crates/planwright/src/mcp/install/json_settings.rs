//! Adds a server to a settings file in JSON. Edits the text, so that everything else keeps its order and layout.

use std::ops::Range;

use serde_json::Value;

use super::SERVER_NAME;
use super::client_settings::EditedSettings;
use super::settings_file::SettingsFile;
use crate::error::CommandError;

const SERVERS_KEY: &str = "mcpServers";

/// Returns the file with the server in it; `None` if it is there already.
pub fn set_server(
    file: &SettingsFile,
    entry: &Value,
) -> Result<Option<EditedSettings>, CommandError> {
    let text = match file.text.as_deref().map(str::trim) {
        None | Some("") => "{}\n",
        Some(_) => file.text.as_deref().unwrap_or_default(),
    };
    let parsed: Value = serde_json::from_str(text).map_err(|error| file.malformed(error))?;
    let servers = parsed.get(SERVERS_KEY);
    if !parsed.is_object() || servers.is_some_and(|servers| !servers.is_object()) {
        return Err(file.malformed(format_args!("`{SERVERS_KEY}` is not an object")));
    }
    let known = servers.and_then(|servers| servers.get(SERVER_NAME));
    // What a person added to the entry stays.
    let mut wanted = known.filter(|known| known.is_object()).cloned();
    let entry = match &mut wanted {
        None => entry,
        Some(wanted) => {
            for (key, value) in entry.as_object().into_iter().flatten() {
                wanted[key] = value.clone();
            }
            &*wanted
        }
    };
    if known == Some(entry) {
        return Ok(None);
    }
    let edited = edit_text(text, entry);
    let mut expected = parsed.clone();
    expected[SERVERS_KEY][SERVER_NAME] = entry.clone();
    // A key that occurs twice would be edited in the wrong place.
    if serde_json::from_str::<Value>(&edited).ok() != Some(expected) {
        return Err(file.malformed("its keys are ambiguous"));
    }
    Ok(Some(EditedSettings {
        text: edited,
        shown: format!(
            "\"{SERVERS_KEY}\": {{\n{}\n}}",
            render_member(SERVER_NAME, entry, "  ", 1)
        ),
        replaces_entry: known.is_some(),
    }))
}

/// Writes the entry into the text of a file, which is a JSON object.
fn edit_text(text: &str, entry: &Value) -> String {
    let root = text.find('{').unwrap_or_default();
    let unit = find_indent(text);
    let server = render_member(SERVER_NAME, entry, &unit, 2);
    let Some(servers) = find_member(text, root, SERVERS_KEY) else {
        let servers = format!("{unit}\"{SERVERS_KEY}\": {{\n{server}\n{unit}}}");
        return insert_member(text, root, &servers, "");
    };
    match find_member(text, servers.start, SERVER_NAME) {
        None => insert_member(text, servers.start, &server, &unit),
        Some(old) => {
            let (_, value) = server.split_once(": ").unwrap_or_default();
            format!("{}{value}{}", &text[..old.start], &text[old.end..])
        }
    }
}

/// Renders `"key": value` with this indentation.
fn render_member(key: &str, value: &Value, unit: &str, depth: usize) -> String {
    let pretty = serde_json::to_string_pretty(value).expect("BUG: a value always encodes");
    let margin = unit.repeat(depth);
    let mut text = format!("{margin}\"{key}\": ");
    for (number, line) in pretty.lines().enumerate() {
        let own = line.trim_start();
        // The pretty printer indents by two.
        let inner = unit.repeat((line.len() - own.len()) / 2);
        if number > 0 {
            text.push_str(&format!("\n{margin}{inner}"));
        }
        text.push_str(own);
    }
    text
}

/// Inserts a member as the first one of the object that starts at `brace`.
fn insert_member(text: &str, brace: usize, member: &str, closing_margin: &str) -> String {
    let (before, after) = text.split_at(brace + 1);
    let is_empty = after.trim_start().starts_with('}');
    let end = match is_empty {
        true => format!("\n{closing_margin}{}", after.trim_start()),
        // Members of a file without line breaks follow on the same line.
        false if !after.starts_with(['\n', '\r']) => format!(",\n{after}"),
        false => format!(",{after}"),
    };
    format!("{before}\n{member}{end}")
}

/// The indentation of the first indented line; two spaces if there is none.
fn find_indent(text: &str) -> String {
    let indents = text.lines().map(|line| {
        let own = line.trim_start_matches([' ', '\t']);
        &line[..line.len() - own.len()]
    });
    let found = indents.into_iter().find(|indent| !indent.is_empty());
    found.unwrap_or("  ").to_owned()
}

/// Finds the value of a member of the object that starts at `brace`. The text is valid JSON.
fn find_member(text: &str, brace: usize, key: &str) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    let mut at = skip_space(bytes, brace + 1);
    while bytes.get(at) == Some(&b'"') {
        let name_end = skip_value(bytes, at);
        let name: String = serde_json::from_str(&text[at..name_end]).ok()?;
        let colon = skip_space(bytes, name_end);
        let start = skip_space(bytes, colon + 1);
        let end = skip_value(bytes, start);
        if name == key {
            return Some(start..end);
        }
        at = skip_space(bytes, end);
        if bytes.get(at) == Some(&b',') {
            at = skip_space(bytes, at + 1);
        }
    }
    None
}

fn skip_space(bytes: &[u8], mut at: usize) -> usize {
    while bytes.get(at).is_some_and(u8::is_ascii_whitespace) {
        at += 1;
    }
    at
}

/// Returns the end of the value that starts here.
fn skip_value(bytes: &[u8], start: usize) -> usize {
    let mut depth = 0_usize;
    let mut at = start;
    let mut in_string = false;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'\\' if in_string => at += 1,
            b'"' => {
                in_string = !in_string;
                if !in_string && depth == 0 {
                    return at + 1;
                }
            }
            _ if in_string => {}
            b'{' | b'[' => depth += 1,
            b'}' | b']' if depth == 0 => return at,
            b'}' | b']' => {
                depth -= 1;
                if depth == 0 {
                    return at + 1;
                }
            }
            b',' if depth == 0 => return at,
            byte if depth == 0 && byte.is_ascii_whitespace() => return at,
            _ => {}
        }
        at += 1;
    }
    at
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use serde_json::json;

    use super::*;

    fn edit(text: &str) -> Result<Option<String>, CommandError> {
        let file = SettingsFile {
            path: PathBuf::from("settings.json"),
            text: Some(text.to_owned()),
        };
        let edited = set_server(&file, &json!({ "args": ["mcp"], "command": "p" }))?;
        Ok(edited.map(|edited| edited.text))
    }

    #[test]
    fn server_is_added_and_everything_else_stays_as_it_was() {
        for text in [
            "",
            "{}",
            "{ }\n",
            "{\"b\":1,\"a\":[\"}\",{\"x\":\"\\\"\"}]}",
            "{\n\t\"z\": \"mcpServers\",\n\t\"mcpServers\": {},\n\t\"a\": 1e3\n}\n",
            "{\n    \"mcpServers\": {\n        \"other\": {\"command\": \"x\"}\n    },\n    \"b\": null\n}",
            "{\"mcpServers\":{\"planwright\":{\"command\":\"old\",\"timeout\":5},\"other\":{}},\"c\":\"é\"}",
        ] {
            let edited = edit(text).unwrap().unwrap();
            let parsed: Value = serde_json::from_str(&edited).unwrap();
            assert_eq!(
                parsed["mcpServers"]["planwright"]["command"], "p",
                "{edited}"
            );
            // Everything that was there is still there, in its order.
            let mut rest = edited.as_str();
            let words = text.split(|c: char| c.is_whitespace() || c == '}' || c == '{');
            for word in words.filter(|word| !word.is_empty() && !word.contains("old")) {
                let at = rest
                    .find(word)
                    .unwrap_or_else(|| panic!("{word} in {edited}"));
                rest = &rest[at + word.len()..];
            }
            assert_eq!(edit(&edited).unwrap(), None, "{edited}");
        }
    }

    #[test]
    fn tabs_are_kept() {
        let edited = edit("{\n\t\"mcpServers\": {}\n}\n").unwrap().unwrap();
        let expected = "{\n\t\"mcpServers\": {\n\t\t\"planwright\": {\n\t\t\t\"args\": [\n\t\t\t\t\"mcp\"\n\t\t\t],\n\
                        \t\t\t\"command\": \"p\"\n\t\t}\n\t}\n}\n";
        assert_eq!(edited, expected);
    }

    #[test]
    fn malformed_and_ambiguous_files_are_refused() {
        for text in [
            "{",
            "[]",
            "{\"mcpServers\": []}",
            "{ // a comment\n}",
            "{\"mcpServers\": {}, \"mcpServers\": {\"a\": {}}}",
        ] {
            assert!(edit(text).is_err(), "{text}");
        }
    }
}
