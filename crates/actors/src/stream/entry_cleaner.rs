//! Makes entries fit to be stored and shown: without secrets and control characters, of bounded length,
//! with paths relative to the repository.

use plan::transcript::{
    ChecklistItem, FileChangeEntry, FileLocation, PermissionEntry, ToolCallEntry, ToolCallUpdate,
    TranscriptContent,
};

use crate::AssignedSandbox;
use crate::excerpt::{shorten_text, strip_control_chars};
use crate::secrets::SecretValues;

/// Longest texts, in bytes.
const MAX_MESSAGE_BYTES: usize = 16 * 1024;
const MAX_OUTPUT_BYTES: usize = 4 * 1024;
const MAX_INPUT_BYTES: usize = 2 * 1024;
const MAX_NAME_BYTES: usize = 512;

/// Most files of a call, and most items of a checklist.
const MAX_LIST_LEN: usize = 64;

pub(crate) struct EntryCleaner<'a> {
    secrets: &'a SecretValues,
    /// A directory, with the slash at its end, and what is shown in its place.
    directories: Vec<(String, String)>,
}

impl<'a> EntryCleaner<'a> {
    /// The agent works in the first of the sandboxes.
    pub(crate) fn new(secrets: &'a SecretValues, sandboxes: &[AssignedSandbox]) -> Self {
        let mut directories = Vec::new();
        for (at, sandbox) in sandboxes.iter().enumerate() {
            let shown = match at {
                0 => String::new(),
                _ => format!("{}/", sandbox.resource),
            };
            let resolved = sandbox.path.canonicalize().ok();
            let resolved = resolved.filter(|path| *path != sandbox.path);
            for path in [&sandbox.path].into_iter().chain(&resolved) {
                directories.push((format!("{}/", path.display()), shown.clone()));
            }
        }
        Self {
            secrets,
            directories,
        }
    }

    pub(crate) fn clean_entry(&self, content: TranscriptContent) -> TranscriptContent {
        match content {
            TranscriptContent::Text { text } => TranscriptContent::Text {
                text: self.clean_text(&text, MAX_MESSAGE_BYTES),
            },
            TranscriptContent::TextDelta { text } => TranscriptContent::TextDelta {
                text: self.clean_text(&text, MAX_MESSAGE_BYTES),
            },
            TranscriptContent::Thought { text } => TranscriptContent::Thought {
                text: self.clean_text(&text, MAX_MESSAGE_BYTES),
            },
            TranscriptContent::ToolCall(call) => TranscriptContent::ToolCall(self.clean_call(call)),
            TranscriptContent::ToolCallUpdate(update) => {
                TranscriptContent::ToolCallUpdate(ToolCallUpdate {
                    call_id: self.clean_name(update.call_id),
                    status: update.status,
                    exit_code: update.exit_code,
                    output: update
                        .output
                        .map(|output| self.clean_text(&output, MAX_OUTPUT_BYTES)),
                })
            }
            TranscriptContent::FileChange(change) => {
                TranscriptContent::FileChange(FileChangeEntry {
                    path: self.clean_path(&change.path),
                    ..change
                })
            }
            TranscriptContent::Checklist { items } => {
                let items = items.into_iter().take(MAX_LIST_LEN);
                let items = items.map(|item| ChecklistItem {
                    text: self.clean_text(&item.text, MAX_NAME_BYTES),
                    status: item.status,
                });
                TranscriptContent::Checklist {
                    items: items.collect(),
                }
            }
            TranscriptContent::Permission(permission) => {
                TranscriptContent::Permission(self.clean_permission(&permission))
            }
            TranscriptContent::Usage(usage) => TranscriptContent::Usage(usage),
            TranscriptContent::Notice { level, text } => TranscriptContent::Notice {
                level,
                text: self.clean_text(&text, MAX_INPUT_BYTES),
            },
        }
    }

    fn clean_call(&self, call: ToolCallEntry) -> ToolCallEntry {
        let inputs = call.inputs.iter().take(MAX_LIST_LEN);
        let locations = call.locations.iter().take(MAX_LIST_LEN);
        ToolCallEntry {
            call_id: self.clean_name(call.call_id),
            tool: self.clean_text(&call.tool, MAX_NAME_BYTES),
            tool_kind: call.tool_kind,
            inputs: inputs.map(|input| self.clean_input(input)).collect(),
            title: call
                .title
                .map(|title| self.clean_text(&title, MAX_NAME_BYTES)),
            locations: locations
                .map(|location| FileLocation {
                    path: self.clean_path(&location.path),
                    line: location.line,
                })
                .collect(),
            status: call.status,
        }
    }

    fn clean_permission(&self, permission: &PermissionEntry) -> PermissionEntry {
        let inputs = permission.inputs.iter().take(MAX_LIST_LEN);
        PermissionEntry {
            call_id: self.clean_name(permission.call_id.clone()),
            tool: self.clean_text(&permission.tool, MAX_NAME_BYTES),
            tool_kind: permission.tool_kind,
            inputs: inputs.map(|input| self.clean_input(input)).collect(),
            status: permission.status,
            reason: self.clean_text(&permission.reason, MAX_NAME_BYTES),
        }
    }

    fn clean_name(&self, name: Option<String>) -> Option<String> {
        name.map(|name| self.clean_text(&name, MAX_NAME_BYTES))
    }

    fn clean_path(&self, path: &str) -> String {
        self.clean_text(&self.shorten_paths(path), MAX_NAME_BYTES)
    }

    /// A path, a pattern, or a command that names paths.
    fn clean_input(&self, input: &str) -> String {
        self.clean_text(&self.shorten_paths(input), MAX_INPUT_BYTES)
    }

    /// A path as permissions see it: relative to the repository if it is inside it, without `.` and `..`.
    pub(crate) fn to_repository_path(&self, path: &str) -> String {
        let path = normalize_path(path);
        let inside = self.directories.iter().find_map(|(directory, shown)| {
            let rest = path.strip_prefix(directory.as_str())?;
            Some(format!("{shown}{rest}"))
        });
        inside.unwrap_or(path)
    }

    fn shorten_paths(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (directory, shown) in &self.directories {
            if text == directory[..directory.len() - 1] {
                return match shown.trim_end_matches('/') {
                    "" => ".".to_owned(),
                    resource => resource.to_owned(),
                };
            }
            if text.contains(directory.as_str()) {
                text = text.replace(directory.as_str(), shown);
            }
        }
        text
    }

    /// Escaped characters of a secret became readable when the line was decoded, so secrets are searched
    /// again, before a part of one is cut off.
    fn clean_text(&self, text: &str, max_bytes: usize) -> String {
        shorten_text(
            &self.secrets.hide_in_text(&strip_control_chars(text)),
            max_bytes,
        )
    }
}

/// Resolves `.` and `..` by words alone. A path that leaves its start keeps the leading `..`.
fn normalize_path(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match (part, parts.last()) {
            ("" | ".", _) => {}
            ("..", Some(last)) if *last != ".." => {
                parts.pop();
            }
            ("..", None) if path.starts_with('/') => {}
            (part, _) => parts.push(part),
        }
    }
    let start = if path.starts_with('/') { "/" } else { "" };
    format!("{start}{}", parts.join("/"))
}

#[cfg(test)]
mod tests {
    use plan::transcript::{ToolCallStatus, ToolKind};

    use super::*;

    fn sandbox(resource: &str, path: &str) -> AssignedSandbox {
        AssignedSandbox {
            resource: resource.to_owned(),
            path: path.into(),
        }
    }

    #[test]
    fn texts_are_bounded_and_hold_no_secret() {
        let secrets = SecretValues::from_variables([("KEY", "sk-0123456789")].into_iter());
        let cleaner = EntryCleaner::new(&secrets, &[]);
        // The secret would be cut in two.
        let text = format!(
            "{}sk-0123456789 {}",
            "x".repeat(MAX_OUTPUT_BYTES / 2 - 5),
            "y".repeat(90_000)
        );
        let content = TranscriptContent::ToolCallUpdate(ToolCallUpdate {
            call_id: None,
            status: ToolCallStatus::Completed,
            exit_code: None,
            output: Some(text),
        });
        let TranscriptContent::ToolCallUpdate(update) = cleaner.clean_entry(content) else {
            panic!("another kind of entry");
        };
        let output = update.output.unwrap();
        assert!(output.len() <= MAX_OUTPUT_BYTES + 40, "{}", output.len());
        assert!(!output.contains("sk-0"), "{output}");
        assert!(output.contains("bytes left out"), "{output}");
        let content = TranscriptContent::Text {
            text: "\u{1b}[31msk-01\u{1b}[0m23456789\u{202e}".to_owned(),
        };
        let expected = TranscriptContent::Text {
            text: "[KEY]".to_owned(),
        };
        assert_eq!(cleaner.clean_entry(content), expected);
    }

    #[test]
    fn paths_are_relative_to_the_repository() {
        let secrets = SecretValues::default();
        let cleaner = EntryCleaner::new(
            &secrets,
            &[sandbox("site", "/s/1/site"), sandbox("docs", "/s/1/docs")],
        );
        let check = |input: &str, expected: &str| {
            let call = cleaner.clean_call(ToolCallEntry {
                call_id: None,
                tool: "Edit".to_owned(),
                tool_kind: ToolKind::Edit,
                inputs: vec![input.to_owned()],
                title: None,
                locations: vec![FileLocation {
                    path: input.to_owned(),
                    line: None,
                }],
                status: ToolCallStatus::Started,
            });
            assert_eq!(call.inputs, [expected]);
            assert_eq!(call.locations[0].path, expected);
        };
        check("/s/1/site/src/a.rs", "src/a.rs");
        check("src/a.rs", "src/a.rs");
        check("/s/1/docs/a.md", "docs/a.md");
        check("/s/1/site2/a", "/s/1/site2/a");
        check("/s/1/site", ".");
        check("cat /s/1/site/a /etc/hosts", "cat a /etc/hosts");
    }

    #[test]
    fn paths_for_permissions_do_not_leave_the_repository_in_disguise() {
        let secrets = SecretValues::default();
        let cleaner = EntryCleaner::new(&secrets, &[sandbox("site", "/s/1/site")]);
        for (path, expected) in [
            ("/s/1/site/src/a.rs", "src/a.rs"),
            ("/s/1/site/src/../../../x", "/s/x"),
            ("src/./a//b", "src/a/b"),
            ("src/../../x", "../x"),
            ("../../x", "../../x"),
            ("/../etc", "/etc"),
            ("/s/1/site2/a", "/s/1/site2/a"),
        ] {
            assert_eq!(cleaner.to_repository_path(path), expected, "{path}");
        }
    }
}
