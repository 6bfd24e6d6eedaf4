//! `plan_diff`: the changes of a plan, page by page.

use actors::Stop;
use api::results::{self, ResultRange};
use plan::PlanId;
use sandbox::{DiffFormat, PathLineCount};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{ToolOutcome, object_schema, plan_property, read_arguments};
use crate::error::CommandError;
use crate::mcp::agent_access::AgentAccess;
use crate::mcp::tool_answer::ToolAnswer;
use crate::ui;

/// Text in one page: about ten thousand tokens.
const MAX_PAGE_BYTES: usize = 40_000;
const MAX_LISTED_FILES: usize = 200;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct DiffArguments {
    plan: String,
    results: Option<String>,
    #[serde(default)]
    paths: Vec<String>,
    #[serde(default)]
    format: DiffShape,
    #[serde(default = "first_line")]
    from_line: usize,
}

#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum DiffShape {
    #[default]
    Patch,
    Stat,
    Names,
}

fn first_line() -> usize {
    1
}

pub fn input_schema() -> Value {
    let properties = json!({
        "plan": plan_property(),
        "results": {
            "type": "string",
            "description": "r2 for one result, r1..r2 for what changed between two. By default the current changes",
        },
        "paths": {
            "type": "array",
            "items": { "type": "string" },
            "description": "Only these paths; git pathspecs",
        },
        "format": { "type": "string", "enum": ["patch", "stat", "names"] },
        "from_line": { "type": "integer", "minimum": 1, "description": "Line of the text to start at" },
    });
    object_schema(&properties, &["plan"])
}

/// A part of a diff.
#[derive(Debug, Serialize)]
pub struct DiffPage {
    pub plan_id: PlanId,
    pub files: Vec<PathLineCount>,
    /// More files changed than are listed.
    pub more_files: bool,
    pub text: String,
    pub from_line: usize,
    /// Where the next page starts; `null` on the last one.
    pub next_line: Option<usize>,
}

pub fn read_diff(
    access: &AgentAccess,
    arguments: Value,
    _stop: &Stop,
) -> Result<ToolOutcome, CommandError> {
    let arguments: DiffArguments = read_arguments(arguments)?;
    let plan_id = access.resolve_plan(&arguments.plan)?;
    let range = match &arguments.results {
        None => ResultRange::Current,
        Some(text) => text
            .parse()
            .map_err(|error: results::ParseRangeError| CommandError::usage(format!("{error}.")))?,
    };
    let format = match arguments.format {
        DiffShape::Patch => DiffFormat::Patch,
        DiffShape::Stat => DiffFormat::Stat,
        DiffShape::Names => DiffFormat::NameOnly,
    };
    let page = read_diff_page(
        access,
        plan_id,
        &DiffSelection {
            range,
            format,
            paths: arguments.paths,
        },
        arguments.from_line.max(1),
    )?;
    let mut text = page.text.clone();
    if text.is_empty() {
        text.push_str("Nothing changed so far.\n");
    }
    if let Some(next) = page.next_line {
        text.push_str(&format!(
            "There is more: pass from_line: {next}, or `paths` to read less.\n"
        ));
    }
    let data = serde_json::to_value(page).expect("BUG: a page always encodes");
    Ok(ToolAnswer::unbounded(data, text).into())
}

/// What to compare, and how to show it.
pub struct DiffSelection {
    pub range: ResultRange,
    pub format: DiffFormat,
    pub paths: Vec<String>,
}

impl Default for DiffSelection {
    fn default() -> Self {
        Self {
            range: ResultRange::Current,
            format: DiffFormat::Patch,
            paths: Vec::new(),
        }
    }
}

/// Reads a page of a diff, from this line on.
pub fn read_diff_page(
    access: &AgentAccess,
    plan_id: PlanId,
    selection: &DiffSelection,
    from_line: usize,
) -> Result<DiffPage, CommandError> {
    let diffs = results::view_range(&access.lifecycle, plan_id, selection.range)?;
    let mut text = String::new();
    let mut files = Vec::new();
    for diff in &diffs {
        if diffs.len() > 1 {
            text.push_str(&format!("== {} ==\n", diff.resource));
        }
        let read = || {
            let counted = diff.comparison.count_lines(&selection.paths)?;
            let shown = diff
                .comparison
                .diff_text(selection.format, &selection.paths)?;
            Ok((counted, shown))
        };
        let (counted, shown) = read().map_err(lifecycle::LifecycleError::Sandbox)?;
        files.extend(counted);
        text.push_str(&ui::escape_controls(&String::from_utf8_lossy(&shown)));
    }
    let more_files = files.len() > MAX_LISTED_FILES;
    files.truncate(MAX_LISTED_FILES);
    let (text, next_line) = cut_page(&text, from_line, MAX_PAGE_BYTES);
    Ok(DiffPage {
        plan_id,
        files,
        more_files,
        text,
        from_line,
        next_line,
    })
}

/// Takes whole lines from a line on, at least one. A line that is longer than the page is cut.
fn cut_page(text: &str, from_line: usize, max_bytes: usize) -> (String, Option<usize>) {
    let mut page = String::new();
    for (number, line) in (1..).zip(text.split_inclusive('\n')) {
        if number < from_line {
            continue;
        }
        if !page.is_empty() && page.len() + line.len() > max_bytes {
            return (page, Some(number));
        }
        if line.len() > max_bytes {
            let end = line.floor_char_boundary(max_bytes);
            page.push_str(&line[..end]);
            page.push_str("… (the line was cut)\n");
        } else {
            page.push_str(line);
        }
    }
    (page, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_hold_whole_lines_and_lose_none() {
        let text = "one\ntwo\nthree\nfour\n";
        let mut whole = String::new();
        let mut next = Some(1);
        while let Some(from) = next {
            let (page, after) = cut_page(text, from, 9);
            assert!(page.len() <= 9 && !page.is_empty());
            whole.push_str(&page);
            next = after;
        }
        assert_eq!(whole, text);
        assert_eq!(cut_page(text, 9, 9), (String::new(), None));
        let (page, next) = cut_page("äääää\nb\n", 1, 3);
        assert_eq!((&*page, next), ("ä… (the line was cut)\n", Some(2)));
    }
}
