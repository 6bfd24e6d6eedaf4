//! Tool calls, as far as agents name their tools and inputs alike: what a call does, what it works on,
//! which files it changes, and the checklist it sets.

use plan::transcript::{
    ChecklistItem, ChecklistStatus, FileChangeEntry, FileChangeKind, FileLocation, LineCounts,
    ToolCallEntry, ToolCallStatus, ToolKind,
};
use serde_json::Value;

use super::json::{JsonObject, get_array, get_object, get_text};

/// A tool's name and what it is given.
pub(crate) struct ToolCallInput<'a> {
    tool: &'a str,
    tool_kind: ToolKind,
    operands: Vec<&'a str>,
    input: Option<&'a JsonObject>,
}

impl<'a> ToolCallInput<'a> {
    /// A call whose input has the usual keys.
    pub(crate) fn new(tool: &'a str, input: Option<&'a JsonObject>) -> Self {
        Self {
            tool,
            tool_kind: classify_tool(tool),
            operands: input.map(tool_operands).unwrap_or_default(),
            input,
        }
    }

    /// A call that works on these operands.
    pub(crate) fn with_operands(
        tool: &'a str,
        tool_kind: ToolKind,
        operands: Vec<&'a str>,
    ) -> Self {
        Self {
            tool,
            tool_kind,
            operands,
            input: None,
        }
    }

    pub(crate) fn to_entry(
        &self,
        call_id: Option<String>,
        status: ToolCallStatus,
    ) -> ToolCallEntry {
        let title = self.input.and_then(|input| {
            let mut keys = ["description", "prompt"].iter();
            keys.find_map(|key| get_text(input, key))
        });
        ToolCallEntry {
            call_id,
            tool: self.tool.to_owned(),
            tool_kind: self.tool_kind,
            inputs: self.operands.iter().map(|&text| text.to_owned()).collect(),
            title: title.map(str::to_owned),
            locations: self.locations(),
            status,
        }
    }

    fn locations(&self) -> Vec<FileLocation> {
        let names_files = match self.tool_kind {
            ToolKind::Read | ToolKind::Edit | ToolKind::Delete | ToolKind::Move => true,
            ToolKind::Search
            | ToolKind::Execute
            | ToolKind::Fetch
            | ToolKind::Think
            | ToolKind::Other => false,
        };
        if !names_files {
            return Vec::new();
        }
        let line = self
            .input
            .and_then(|input| input.get("offset"))
            .and_then(Value::as_u64);
        let operands = self.operands.iter();
        let locations = operands.map(|&path| FileLocation {
            path: path.to_owned(),
            line: line.filter(|_| self.tool_kind == ToolKind::Read),
        });
        locations.collect()
    }

    /// The files that the call changes if it succeeds.
    pub(crate) fn file_changes(&self) -> Vec<FileChangeEntry> {
        let (change, line_counts) = match self.tool_kind {
            ToolKind::Edit => (self.edit_kind(), self.input.and_then(count_edited_lines)),
            ToolKind::Delete => (Some(FileChangeKind::Deleted), None),
            ToolKind::Read
            | ToolKind::Move
            | ToolKind::Search
            | ToolKind::Execute
            | ToolKind::Fetch
            | ToolKind::Think
            | ToolKind::Other => return Vec::new(),
        };
        let operands = self.operands.iter();
        let changes = operands.map(|&path| FileChangeEntry {
            path: path.to_owned(),
            change,
            line_counts,
        });
        changes.collect()
    }

    /// An edit that names the old text changes a file that exists.
    fn edit_kind(&self) -> Option<FileChangeKind> {
        let input = self.input?;
        let old_text = || OLD_TEXT_KEYS.iter().find_map(|key| get_text(input, key));
        let names_old_text =
            input.contains_key("edits") || old_text().is_some_and(|old| !old.is_empty());
        names_old_text.then_some(FileChangeKind::Modified)
    }

    /// The checklist that the call sets.
    pub(crate) fn checklist(&self) -> Option<Vec<ChecklistItem>> {
        let items = get_array(self.input?, "todos").iter();
        let items: Vec<ChecklistItem> = items
            .filter_map(|item| parse_checklist_item(item.as_object()?))
            .collect();
        (!items.is_empty()).then_some(items)
    }
}

pub(crate) fn parse_checklist_item(item: &JsonObject) -> Option<ChecklistItem> {
    let mut keys = ["content", "description", "text"].iter();
    let text = keys.find_map(|key| get_text(item, key))?;
    let status = get_text(item, "status").unwrap_or_default();
    let status = status.to_lowercase();
    Some(ChecklistItem {
        text: text.to_owned(),
        status: match status.trim_start_matches("todo_status_") {
            "completed" | "cancelled" => ChecklistStatus::Completed,
            "in_progress" => ChecklistStatus::InProgress,
            _ => ChecklistStatus::Pending,
        },
    })
}

/// What tools of this name do. Agents write the same name in several ways: `read_file`, `ReadFile`.
pub(crate) fn classify_tool(tool: &str) -> ToolKind {
    let mut name = tool.to_lowercase();
    name.retain(|char| char.is_ascii_alphanumeric());
    match name.as_str() {
        "read" | "readfile" | "readmanyfiles" | "view" | "notebookread" | "ls" | "list"
        | "listdir" | "listdirectory" => ToolKind::Read,
        "edit" | "editfile" | "multiedit" | "write" | "writefile" | "createfile" | "replace"
        | "notebookedit" | "strreplace" => ToolKind::Edit,
        "delete" | "deletefile" => ToolKind::Delete,
        "move" | "movefile" | "rename" => ToolKind::Move,
        "grep" | "grepsearch" | "glob" | "search" | "searchfilecontent" | "codebasesearch"
        | "semsearch" | "finder" | "toolsearch" => ToolKind::Search,
        "bash" | "shell" | "powershell" | "runshellcommand" | "runterminalcmd" => ToolKind::Execute,
        "webfetch" | "fetch" | "websearch" | "googlewebsearch" | "readwebpage" => ToolKind::Fetch,
        "todowrite" | "writetodos" | "updatetodos" | "exitplanmode" | "think" => ToolKind::Think,
        _ => ToolKind::Other,
    }
}

/// Input keys that name what a tool works on, the most telling first.
const OPERAND_KEYS: [&str; 12] = [
    "command",
    "cmd",
    "pattern",
    "query",
    "file_path",
    "filePath",
    "absolute_path",
    "path",
    "dir_path",
    "notebook_path",
    "url",
    "skill",
];

pub(crate) fn tool_operands(input: &JsonObject) -> Vec<&str> {
    OPERAND_KEYS
        .iter()
        .filter_map(|key| get_text(input, key))
        .collect()
}

const OLD_TEXT_KEYS: [&str; 2] = ["old_string", "oldString"];
const NEW_TEXT_KEYS: [&str; 2] = ["new_string", "newString"];

/// Counts the lines that an edit adds and removes; `None` if the input does not tell.
fn count_edited_lines(input: &JsonObject) -> Option<LineCounts> {
    let edits = get_array(input, "edits");
    if edits.is_empty() {
        return count_replaced_lines(input);
    }
    let mut total = LineCounts::default();
    for edit in edits {
        let counts = count_replaced_lines(edit.as_object()?)?;
        total.added += counts.added;
        total.removed += counts.removed;
    }
    Some(total)
}

fn count_replaced_lines(input: &JsonObject) -> Option<LineCounts> {
    let replaces_all = ["replace_all", "replaceAll"]
        .iter()
        .any(|key| input.get(*key) == Some(&Value::Bool(true)));
    if replaces_all {
        return None;
    }
    let old = OLD_TEXT_KEYS.iter().find_map(|key| get_text(input, key))?;
    let new = NEW_TEXT_KEYS.iter().find_map(|key| get_text(input, key))?;
    Some(count_changed_lines(old, new))
}

/// Counts the lines that differ between two texts, apart from what they have in common at both ends.
pub(crate) fn count_changed_lines(old: &str, new: &str) -> LineCounts {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    let same_at_start = count_equal(old.iter(), new.iter());
    let (old, new) = (&old[same_at_start..], &new[same_at_start..]);
    let same_at_end = count_equal(old.iter().rev(), new.iter().rev());
    LineCounts {
        added: (new.len() - same_at_end) as u64,
        removed: (old.len() - same_at_end) as u64,
    }
}

fn count_equal<'t>(
    old: impl Iterator<Item = &'t &'t str>,
    new: impl Iterator<Item = &'t &'t str>,
) -> usize {
    old.zip(new).take_while(|(old, new)| old == new).count()
}

/// Counts the lines of a patch such as `[{"lines": ["-old", "+new"]}]`.
pub(crate) fn count_patch_lines(patch: &[Value]) -> Option<LineCounts> {
    if patch.is_empty() {
        return None;
    }
    let hunks = patch.iter().filter_map(Value::as_object);
    let lines = hunks.flat_map(|hunk| get_array(hunk, "lines"));
    let mut counts = LineCounts::default();
    for line in lines.filter_map(Value::as_str) {
        counts.added += u64::from(line.starts_with('+'));
        counts.removed += u64::from(line.starts_with('-'));
    }
    Some(counts)
}

/// The text of a tool's result: a string, or blocks of which some are texts.
pub(crate) fn result_text(value: Option<&Value>) -> Option<String> {
    match value? {
        Value::String(text) => Some(text.clone()),
        Value::Array(blocks) => {
            let blocks = blocks.iter().filter_map(Value::as_object);
            let texts: Vec<&str> = blocks.filter_map(|block| get_text(block, "text")).collect();
            Some(texts.join("\n"))
        }
        _ => None,
    }
}

/// Reads the message of an error: `{"error": {"message": …}}`, `{"error": "…"}` or `{"message": …}`.
pub(crate) fn error_message(event: &JsonObject) -> &str {
    get_object(event, "error")
        .and_then(|error| get_text(error, "message"))
        .or_else(|| get_text(event, "error"))
        .or_else(|| get_text(event, "message"))
        .unwrap_or("the agent reported an error")
}
