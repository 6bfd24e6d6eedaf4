//! The review: changed files, their diff, rules, and what can be decided.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::diagnosis::diagnose_plan;
use api::results::{ContextRequest, LineDetail, ResultRange, list_context_lines, list_hunks};
use api::rule_marks::read_rule_marks;
use api::view::{ChangesView, FileContentKind, FileDiffView};
use askama::Template;
use axum::extract::State;
use serde::Deserialize;

use super::diff_rows::{
    CodeColors, DiffLayout, DiffRow, DiffStyle, HiddenLines, HunkBlock, HunkChoices, make_blocks,
    make_context_rows,
};
use super::file_groups::FileGroup;
use super::offered_forms::OfferedForms;
use super::plan_head::{PlanHead, read_head};
use super::visible::visible;
use super::why::{RuleLine, describe_counts, list_known_rules};
use super::{PageAnswer, render};
use crate::problem::Problem;
use crate::routes::request::{UrlPath, UrlQuery};
use crate::state::ServerState;

const CONTEXT_LINES: usize = 3;

/// Larger diffs are shown without colours.
const MAX_COLORED_LINES: usize = 10_000;

/// The most unchanged lines that one request shows.
const MAX_CONTEXT_LINES: usize = 200;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReviewQuery {
    /// Results to compare, such as `r1..r2`.
    #[serde(default)]
    results: Option<String>,
    #[serde(default)]
    layout: DiffLayout,
    /// The last result that the person looked at. What is new since then is marked.
    #[serde(default)]
    looked: Option<u32>,
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
    /// The results that were asked for; empty for the current one.
    shown: String,
    /// The digest to pick hunks with; empty if nothing can be picked.
    pickable: String,
    groups: Vec<FileGroupList>,
    files: Vec<ReviewFile>,
    layout: DiffLayout,
    news: Option<ReviewNews>,
}

/// What is new since the reader looked.
struct ReviewNews {
    since: u32,
    new_parts: usize,
    parts: usize,
}

/// The files of a group in the list.
struct FileGroupList {
    title: &'static str,
    is_folded: bool,
    entries: Vec<FileEntry>,
    count: usize,
}

enum FileEntry {
    Directory(String),
    File {
        anchor: String,
        path: String,
        name: String,
        added: usize,
        removed: usize,
    },
}

struct ReviewFile {
    anchor: String,
    path: String,
    directory: String,
    name: String,
    /// Its path before it was renamed, or nothing.
    from: String,
    /// Identifies the content, so that a mark on it does not outlive a change.
    mark: String,
    /// Git's id of the new content, or nothing.
    blob: String,
    resource: String,
    /// The path as JSON, if it cannot be shown as it is.
    real_path: Option<String>,
    added: usize,
    removed: usize,
    note: String,
    blocks: Vec<HunkBlock>,
    tail: Option<HiddenLines>,
    group: FileGroup,
    /// Nothing in it is new since the person looked.
    is_known: bool,
}

impl ReviewFile {
    /// Whether only its header is shown at first.
    fn is_folded(&self) -> bool {
        self.is_known || self.group == FileGroup::Generated
    }
}

pub async fn show_review(
    State(state): State<Arc<ServerState>>,
    UrlPath(id): UrlPath<String>,
    UrlQuery(query): UrlQuery<ReviewQuery>,
) -> PageAnswer {
    let plan_id = state.engine.resolve_plan(&id).await?;
    let range = parse_range(query.results.as_deref())?;
    let shown = match range {
        ResultRange::Current => String::new(),
        ResultRange::One(_) | ResultRange::Between(..) => query.results.unwrap_or_default(),
    };
    let layout = query.layout;
    let template = state
        .engine
        .view("diff", Some(plan_id), move |engine| {
            let (head, forms) = read_head(&engine, plan_id, "review")?;
            let detail = LineDetail::Lines {
                context: CONTEXT_LINES,
            };
            let changes = list_hunks(engine.lifecycle, plan_id, range, &[], detail)?;
            let pickable = changes.pickable.as_ref().filter(|_| forms.land);
            let style = DiffStyle {
                layout,
                choices: match pickable {
                    Some(_) => HunkChoices::Shown,
                    None => HunkChoices::Hidden,
                },
                colors: choose_colors(&changes.files),
            };
            let mut files: Vec<ReviewFile> = changes
                .files
                .iter()
                .map(|file| show_file(file, style))
                .collect();
            sort_files(&mut files);
            let last = changes.results.len() as u32;
            let looked = query.looked.filter(|looked| (1..last).contains(looked));
            // An earlier result is gone once the plan has ended.
            let news = looked
                .filter(|_| range == ResultRange::Current)
                .and_then(|since| {
                    let earlier = ResultRange::One(since);
                    let known =
                        list_hunks(engine.lifecycle, plan_id, earlier, &[], LineDetail::None);
                    Some(mark_new_parts(since, &known.ok()?, &mut files))
                });
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
                groups: group_files(&files),
                head: head.with_results(&changes.results, &shown),
                files,
                shown,
                forms,
                layout,
                news,
            })
        })
        .await?;
    render(&template)
}

/// Marks the parts that an earlier result did not have. Ids of parts survive changes elsewhere in their file.
fn mark_new_parts(since: u32, known: &ChangesView, files: &mut [ReviewFile]) -> ReviewNews {
    let known: BTreeSet<String> = known
        .files
        .iter()
        .flat_map(|file| &file.hunks)
        .map(|hunk| hunk.id.to_string())
        .collect();
    let mut news = ReviewNews {
        since,
        new_parts: 0,
        parts: 0,
    };
    for file in files {
        let mut new_in_file = 0;
        for block in &mut file.blocks {
            block.is_new = !known.contains(&block.id);
            new_in_file += usize::from(block.is_new);
        }
        news.parts += file.blocks.len();
        news.new_parts += new_in_file;
        file.is_known = new_in_file == 0;
    }
    news
}

fn parse_range(text: Option<&str>) -> Result<ResultRange, Problem> {
    let Some(text) = text else {
        return Ok(ResultRange::Current);
    };
    text.parse()
        .map_err(|error: api::results::ParseRangeError| {
            Problem::bad_request("bad_range", error.to_string())
        })
}

fn choose_colors(files: &[FileDiffView]) -> CodeColors {
    let regions = files
        .iter()
        .flat_map(|file| &file.hunks)
        .flat_map(|hunk| &hunk.regions);
    let lines: usize = regions.map(|region| region.lines.len()).sum();
    match lines <= MAX_COLORED_LINES {
        true => CodeColors::Shown,
        false => CodeColors::Hidden,
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ContextQuery {
    #[serde(default)]
    results: Option<String>,
    #[serde(default)]
    layout: DiffLayout,
    blob: String,
    old: usize,
    new: usize,
    count: usize,
}

#[derive(Template)]
#[template(path = "context.html")]
struct ContextTemplate {
    rows: Vec<DiffRow>,
    /// Context takes no comments.
    forms: OfferedForms,
    layout: DiffLayout,
}

/// Unchanged lines between or around the hunks of a file.
pub async fn show_context(
    State(state): State<Arc<ServerState>>,
    UrlPath(id): UrlPath<String>,
    UrlQuery(query): UrlQuery<ContextQuery>,
) -> PageAnswer {
    let plan_id = state.engine.resolve_plan(&id).await?;
    let range = parse_range(query.results.as_deref())?;
    let style = DiffStyle {
        layout: query.layout,
        choices: HunkChoices::Hidden,
        colors: CodeColors::Shown,
    };
    let request = ContextRequest {
        new_blob: query.blob,
        old: query.old,
        new: query.new,
        count: query.count.min(MAX_CONTEXT_LINES),
    };
    let (path, lines) = state
        .engine
        .read("diff", Some(plan_id), move |lifecycle| {
            Ok(list_context_lines(lifecycle, plan_id, range, &request)?)
        })
        .await?;
    render(&ContextTemplate {
        rows: make_context_rows(&path, &lines, style),
        forms: OfferedForms::default(),
        layout: query.layout,
    })
}

/// Puts files in the order in which they are read: source, tests, generated; by directory.
fn sort_files(files: &mut [ReviewFile]) {
    files.sort_by(|one, other| {
        let directories = one.directory.cmp(&other.directory);
        let names = || one.name.cmp(&other.name);
        one.group
            .cmp(&other.group)
            .then(directories)
            .then_with(names)
    });
    for (number, file) in files.iter_mut().enumerate() {
        file.anchor = format!("file-{number}");
    }
}

/// The list of files: by group, then by directory.
fn group_files(files: &[ReviewFile]) -> Vec<FileGroupList> {
    let lists = FileGroup::ALL.into_iter().map(|group| {
        let mut entries = Vec::new();
        let mut directory = "";
        let mut count = 0;
        for file in files.iter().filter(|file| file.group == group) {
            if file.directory != directory {
                directory = &file.directory;
                entries.push(FileEntry::Directory(directory.to_owned()));
            }
            count += 1;
            entries.push(FileEntry::File {
                anchor: file.anchor.clone(),
                path: file.path.clone(),
                name: file.name.clone(),
                added: file.added,
                removed: file.removed,
            });
        }
        FileGroupList {
            title: group.title(),
            is_folded: group == FileGroup::Generated,
            entries,
            count,
        }
    });
    lists.filter(|list| list.count > 0).collect()
}

fn show_file(file: &FileDiffView, style: DiffStyle) -> ReviewFile {
    let path = visible(&file.path.to_string());
    let real_path = serde_json::to_string(&file.path).ok();
    let blob = |blob: &Option<String>| blob.clone().unwrap_or_default();
    let (blocks, tail) = make_blocks(file, style);
    let (directory, name) = match path.rsplit_once('/') {
        Some((directory, name)) => (format!("{directory}/"), name.to_owned()),
        None => (String::new(), path.clone()),
    };
    ReviewFile {
        anchor: String::new(),
        mark: format!("{}:{}:{}", path, blob(&file.old_blob), blob(&file.new_blob)),
        blob: blob(&file.new_blob),
        resource: file.resource.clone(),
        real_path: real_path
            .filter(|real| serde_json::to_string(&path).ok().as_ref() != Some(real)),
        added: file.insertions.unwrap_or_default(),
        removed: file.deletions.unwrap_or_default(),
        note: describe_file(file),
        blocks,
        tail,
        from: file
            .from
            .as_ref()
            .map_or_else(String::new, |from| visible(&from.to_string())),
        group: FileGroup::of_path(&path),
        directory,
        name,
        path,
        is_known: false,
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
