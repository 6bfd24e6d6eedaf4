//! Adds a server to a settings file in TOML. Comments and layout of the rest stay.

use toml_edit::{Array, DocumentMut, Item, Table, TableLike, value};

use super::client_settings::EditedSettings;
use super::settings_file::SettingsFile;
use super::{SERVER_NAME, ServerEntry};
use crate::error::CommandError;

const SERVERS_KEY: &str = "mcp_servers";

/// Returns the file with the server in it; `None` if it is there already.
pub fn set_server(
    file: &SettingsFile,
    entry: &ServerEntry,
) -> Result<Option<EditedSettings>, CommandError> {
    let text = file.text.as_deref().unwrap_or_default();
    let mut document: DocumentMut = text
        .parse()
        .map_err(|error: toml_edit::TomlError| file.malformed(error.message()))?;
    let has_entry = document
        .get(SERVERS_KEY)
        .and_then(|servers| servers.get(SERVER_NAME))
        .is_some();
    edit_document(&mut document, entry)
        .ok_or_else(|| file.malformed(format_args!("`{SERVERS_KEY}` is not a table")))?;
    let edited = document.to_string();
    if edited == text {
        return Ok(None);
    }
    let mut shown = DocumentMut::new();
    edit_document(&mut shown, entry).expect("BUG: an empty document has room");
    Ok(Some(EditedSettings {
        text: edited,
        shown: shown.to_string(),
        replaces_entry: has_entry,
    }))
}

/// `None` if something else has the name of a table.
fn edit_document(document: &mut DocumentMut, entry: &ServerEntry) -> Option<()> {
    let servers = document.entry(SERVERS_KEY).or_insert_with(|| {
        let mut table = Table::new();
        table.set_implicit(true);
        Item::Table(table)
    });
    let servers = servers.as_table_like_mut()?;
    let server = servers
        .entry(SERVER_NAME)
        .or_insert_with(|| Item::Table(Table::new()));
    let server = server.as_table_like_mut()?;
    set_if_different(server, "command", value(&entry.command));
    let arguments: Array = entry.arguments.iter().collect();
    set_if_different(server, "args", value(arguments));
    if entry.variables.is_empty() {
        return Some(());
    }
    let variables = server
        .entry("env")
        .or_insert_with(|| Item::Table(Table::new()));
    let variables = variables.as_table_like_mut()?;
    for (name, text) in &entry.variables {
        set_if_different(variables, name, value(text));
    }
    Some(())
}

/// Leaves an equal value as it is written, with its comments.
fn set_if_different(table: &mut dyn TableLike, key: &str, wanted: Item) {
    let plain = |item: &Item| item.to_string().split_whitespace().collect::<String>();
    if table
        .get(key)
        .is_some_and(|known| plain(known) == plain(&wanted))
    {
        return;
    }
    table.insert(key, wanted);
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn edit(text: &str) -> Result<Option<String>, CommandError> {
        let file = SettingsFile {
            path: PathBuf::from("config.toml"),
            text: Some(text.to_owned()),
        };
        let entry = ServerEntry {
            command: "/bin/planwright".to_owned(),
            arguments: vec!["mcp".to_owned(), "--name".to_owned(), "codex".to_owned()],
            variables: vec![("PLANWRIGHT_HOME".to_owned(), "/home".to_owned())],
        };
        Ok(set_server(&file, &entry)?.map(|edited| edited.text))
    }

    const ADDED: &str = "[mcp_servers.planwright]\ncommand = \"/bin/planwright\"\n\
                         args = [\"mcp\", \"--name\", \"codex\"]\n\n\
                         [mcp_servers.planwright.env]\nPLANWRIGHT_HOME = \"/home\"\n";

    #[test]
    fn server_is_added_and_everything_else_stays_as_it_was() {
        assert_eq!(edit("").unwrap().unwrap(), ADDED);
        let text = "# mine\nmodel = \"x\" # why\n\n[mcp_servers.other]\ncommand = 'y'\n";
        let edited = edit(text).unwrap().unwrap();
        assert!(edited.starts_with(text), "{edited}");
        assert!(edited.ends_with(ADDED), "{edited}");
        assert_eq!(edit(&edited).unwrap(), None);
        let old = "[mcp_servers.planwright] # keep\ncommand = \"old\"\nargs = []\ntool_timeout_sec = 90\n";
        let edited = edit(old).unwrap().unwrap();
        assert!(
            edited.contains("[mcp_servers.planwright] # keep"),
            "{edited}"
        );
        assert!(edited.contains("tool_timeout_sec = 90"), "{edited}");
        assert!(!edited.contains("old"), "{edited}");
        let spread = ADDED.replace("\"mcp\", ", "\n  \"mcp\",\n  ");
        assert_eq!(edit(&spread).unwrap(), None);
    }

    #[test]
    fn malformed_files_are_refused() {
        for text in ["[", "mcp_servers = 3\n", "[mcp_servers]\nplanwright = 3\n"] {
            assert!(edit(text).is_err(), "{text}");
        }
    }
}
