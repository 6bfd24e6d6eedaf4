//! The review: changed files, their diff, rules, and what can be decided.

use std::sync::Arc;

use api::diagnosis::diagnose_plan;
use api::results::{LineDetail, ResultRange, list_hunks};
use api::rule_marks::read_rule_marks;
use api::view::{FileContentKind, FileDiffView, HunkPartName, HunkView, LineKind, LineView};
use askama::Template;
use axum::extract::{Path, Query, State};
use serde::Deserialize;

use super::offered_forms::OfferedForms;
use super::plan_head::{PlanHead, read_head};
use super::visible::visible;
use super::why::{RuleLine, describe_counts, list_known_rules};
use super::{PageAnswer, render};
use crate::problem::Problem;
use crate::state::ServerState;

const CONTEXT_LINES: usize = 3;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReviewQuery {
    /// Results to compare, such as `r1..r2`.
    #[serde(default)]
    results: Option<String>,
}

#[derive(Template)]
#[template(path = "review.html")]
struct ReviewTemplate {
    head: PlanHead,
    forms: OfferedForms,
    rules: Vec<RuleLine>,
    /// How many rules hold, beside those that are listed.
    counts: Option<String>,
    has_gate: bool,
    results: Vec<u32>,
    /// The results that were asked for; empty for the current one.
    shown: String,
    /// The digest to pick hunks with; empty if nothing can be picked.
    pickable: String,
    files: Vec<ReviewFile>,
}

struct ReviewFile {
    anchor: String,
    path: String,
    /// Its path before it was renamed, or nothing.
    from: String,
    /// Identifies the content, so that a mark on it does not outlive a change.
    mark: String,
    added: usize,
    removed: usize,
    note: String,
    rows: Vec<DiffRow>,
}

/// A row of the diff.
enum DiffRow {
    /// Lines that are not shown.
    Gap(String),
    /// The choice whether to land a hunk.
    Choice {
        hunk: String,
        label: &'static str,
    },
    Line(DiffLine),
}

struct DiffLine {
    /// The hunk that it belongs to.
    hunk: String,
    /// `added`, `removed` or nothing.
    class: &'static str,
    sign: &'static str,
    side: &'static str,
    line: usize,
    old: String,
    new: String,
    /// The text, with what changed in it in the middle.
    before: String,
    changed: String,
    after: String,
    is_first: bool,
}

pub async fn show_review(
    State(state): State<Arc<ServerState>>,
    Path(id): Path<String>,
    Query(query): Query<ReviewQuery>,
) -> PageAnswer {
    let plan_id = state.engine.resolve_plan(&id).await?;
    let range = match query.results.as_deref() {
        None => ResultRange::Current,
        Some(text) => text
            .parse()
            .map_err(|error: api::results::ParseRangeError| {
                Problem::bad_request("bad_range", error.to_string())
            })?,
    };
    let shown = match range {
        ResultRange::Current => String::new(),
        ResultRange::One(_) | ResultRange::Between(..) => query.results.unwrap_or_default(),
    };
    let template = state
        .engine
        .view("diff", Some(plan_id), move |engine| {
            let (head, forms) = read_head(&engine, plan_id, "review")?;
            let detail = LineDetail::Lines {
                context: CONTEXT_LINES,
            };
            let changes = list_hunks(engine.lifecycle, plan_id, range, &[], detail)?;
            let files = changes.files.iter().enumerate();
            let pickable = changes.pickable.as_ref().filter(|_| forms.land);
            let choices = match pickable {
                Some(_) => HunkChoices::Shown,
                None => HunkChoices::Hidden,
            };
            let files: Vec<ReviewFile> = files
                .map(|(number, file)| show_file(number, file, choices))
                .collect();
            let diagnosis = diagnose_plan(engine.lifecycle, plan_id, engine.viewer)?;
            let row = engine.lifecycle.get_plan(plan_id)?;
            let marks = read_rule_marks(engine.lifecycle, &row)?;
            let rules = list_known_rules(&diagnosis, &marks);
            let counts = describe_counts(&diagnosis);
            let judged = diagnosis.gate.as_ref().map(|gate| gate.counts);
            // Only rules whose check is stored have names here.
            let names_all = judged.is_none_or(|counts| {
                counts.waived == 0 && usize::try_from(counts.held) == Ok(marks.held.len())
            });
            Ok(ReviewTemplate {
                pickable: pickable.map_or_else(String::new, ToString::to_string),
                rules,
                counts: counts.filter(|_| !names_all),
                has_gate: diagnosis.gate.is_some(),
                results: changes.results.iter().map(|result| result.number).collect(),
                files,
                shown,
                head,
                forms,
            })
        })
        .await?;
    render(&template)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum HunkChoices {
    Shown,
    Hidden,
}

fn show_file(number: usize, file: &FileDiffView, choices: HunkChoices) -> ReviewFile {
    let path = visible(&file.path.to_string());
    let blob = |blob: &Option<String>| blob.clone().unwrap_or_default();
    ReviewFile {
        anchor: format!("file-{number}"),
        mark: format!("{}:{}:{}", path, blob(&file.old_blob), blob(&file.new_blob)),
        added: file.insertions.unwrap_or_default(),
        removed: file.deletions.unwrap_or_default(),
        note: describe_file(file),
        rows: show_rows(file, choices),
        from: file
            .from
            .as_ref()
            .map_or_else(String::new, |from| visible(&from.to_string())),
        path,
    }
}

/// What the lines of a file do not show.
fn describe_file(file: &FileDiffView) -> String {
    let mut notes = Vec::new();
    match &file.from {
        Some(from) => notes.push(format!("renamed from {}", visible(&from.to_string()))),
        None if file.old_blob.is_none() => notes.push("new file".to_owned()),
        None if file.new_blob.is_none() => notes.push("deleted".to_owned()),
        None => {}
    }
    if let (Some(old), Some(new)) = (&file.old_mode, &file.new_mode)
        && old != new
    {
        notes.push(format!("mode {old} to {new}"));
    }
    match file.content {
        FileContentKind::Text => {}
        FileContentKind::Binary => notes.push("binary".to_owned()),
        FileContentKind::Oversized => notes.push("too large to show".to_owned()),
        FileContentKind::Link => notes.push("symbolic link".to_owned()),
        FileContentKind::Submodule => notes.push("submodule".to_owned()),
    }
    if file.lines_omitted {
        notes.push("lines left out; see it with planwright diff".to_owned());
    }
    notes.join(" · ")
}

fn show_rows(file: &FileDiffView, choices: HunkChoices) -> Vec<DiffRow> {
    let mut rows = Vec::new();
    let mut next_old = 1;
    for hunk in &file.hunks {
        let id = hunk.id.to_string();
        let mut choice = (choices == HunkChoices::Shown).then(|| choice_row(hunk));
        for region in &hunk.regions {
            let first = region.lines.first();
            let starts_at = first.and_then(|line| line.old).unwrap_or(region.old_start);
            if starts_at > next_old {
                rows.push(gap_row(starts_at - next_old));
            }
            rows.extend(choice.take());
            add_region(&mut rows, &region.lines, &id);
            let last = region.lines.iter().rev().find_map(|line| line.old);
            next_old = last.map_or(next_old, |last| last + 1);
        }
        // A hunk without lines, such as a mode or a binary file.
        rows.extend(choice);
    }
    rows
}

fn choice_row(hunk: &HunkView) -> DiffRow {
    DiffRow::Choice {
        hunk: hunk.id.to_string(),
        label: match hunk.part {
            HunkPartName::Lines => "Land these lines",
            HunkPartName::Mode => "Land the new mode",
            HunkPartName::Whole => "Land this file",
        },
    }
}

fn gap_row(hidden: usize) -> DiffRow {
    DiffRow::Gap(match hidden {
        1 => "1 line".to_owned(),
        _ => format!("{hidden} lines"),
    })
}

fn add_region(rows: &mut Vec<DiffRow>, lines: &[LineView], hunk: &str) {
    let of_kind = |kind: LineKind| lines.iter().filter(move |line| line.kind == kind);
    let removed: Vec<&LineView> = of_kind(LineKind::Removed).collect();
    let added: Vec<&LineView> = of_kind(LineKind::Added).collect();
    let (mut removed_seen, mut added_seen) = (0, 0);
    let mut is_first = true;
    for line in lines {
        // The n-th removed line is compared with the n-th added one.
        let partner = match line.kind {
            LineKind::Context => None,
            LineKind::Removed => {
                removed_seen += 1;
                added.get(removed_seen - 1)
            }
            LineKind::Added => {
                added_seen += 1;
                removed.get(added_seen - 1)
            }
        };
        let (before, changed, after) = match partner {
            Some(partner) => split_changed(&line.text, &partner.text),
            None => (line.text.as_str(), "", ""),
        };
        let (class, sign, side) = match line.kind {
            LineKind::Context => ("", "", "new"),
            LineKind::Removed => ("removed", "\u{2212}", "old"),
            LineKind::Added => ("added", "+", "new"),
        };
        let number = |number: Option<usize>| number.map_or(String::new(), |it| it.to_string());
        let is_changed = line.kind != LineKind::Context;
        rows.push(DiffRow::Line(DiffLine {
            hunk: hunk.to_owned(),
            class,
            sign,
            side,
            line: line.new.or(line.old).unwrap_or_default(),
            old: number(line.old),
            new: number(line.new),
            before: visible(before),
            changed: visible(changed),
            after: visible(after),
            is_first: is_changed && is_first,
        }));
        is_first = is_first && !is_changed;
    }
}

/// Splits a line into what it shares with its partner at both ends and what changed between them. A line that
/// changed as a whole has no marked part.
fn split_changed<'a>(line: &'a str, partner: &str) -> (&'a str, &'a str, &'a str) {
    let word = |character: char| character.is_alphanumeric() || character == '_';
    let shared = |one: &mut dyn Iterator<Item = char>, other: &mut dyn Iterator<Item = char>| {
        one.zip(other)
            .take_while(|(one, other)| one == other)
            .map(|(one, _)| one.len_utf8())
            .sum::<usize>()
    };
    let mut start = shared(&mut line.chars(), &mut partner.chars());
    // Whole words are easier to read than parts of them.
    while start > 0
        && start < line.len()
        && line[..start].ends_with(word)
        && line[start..].starts_with(word)
    {
        start -= line[..start].chars().next_back().map_or(1, char::len_utf8);
    }
    let (rest, partner_rest) = (&line[start..], partner.get(start..).unwrap_or_default());
    let mut end = rest.len() - shared(&mut rest.chars().rev(), &mut partner_rest.chars().rev());
    while end > 0
        && end < rest.len()
        && rest[..end].ends_with(word)
        && rest[end..].starts_with(word)
    {
        end += rest[end..].chars().next().map_or(1, char::len_utf8);
    }
    let unchanged = start + rest.len() - end;
    if unchanged * 3 < line.len() {
        return (line, "", "");
    }
    (&line[..start], &rest[..end], &rest[end..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_split(line: &str, partner: &str, expected: (&str, &str, &str)) {
        assert_eq!(split_changed(line, partner), expected);
    }

    #[test]
    fn changed_words_are_marked() {
        check_split(
            "sleep(delay);",
            "clock.sleep(delay);",
            ("", "", "sleep(delay);"),
        );
        check_split(
            "clock.sleep(delay);",
            "sleep(delay);",
            ("", "clock.", "sleep(delay);"),
        );
        check_split(
            "let total = 1;",
            "let count = 1;",
            ("let ", "total", " = 1;"),
        );
        check_split("naïve one", "naïve two", ("naïve ", "one", ""));
        check_split("abc", "xyz", ("abc", "", ""));
        check_split("", "x", ("", "", ""));
    }
}
