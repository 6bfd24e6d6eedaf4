//! Reads the results of plans and the parts they consist of.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use lifecycle::{
    Call, FileChange, FileVersions, HunkPart, Lifecycle, LifecycleError, LineRegion,
    NumberedResult, PartSelection, PickMode, PickOutcome, ResourceChanges,
};
use plan::{Digest, HunkId, LandingOptions, Plan, PlanId, PlanStage, PlanVersion, Refusal};

use crate::view::{
    ChangesView, FileDiffView, HunkPartName, HunkView, LineEnd, LineKind, LineView, RegionView,
    ResultView, shorten_hunk_ids,
};

/// Lines in one view. The lines of further files are left out.
const MAX_VIEW_LINES: usize = 100_000;

/// Bytes of lines in one view.
const MAX_VIEW_BYTES: usize = 16 << 20;

/// Replaces the result of a plan by a part of it. `shown` is the digest of the result that the person looked
/// at, as in [`ChangesView::pickable`]; if another one is stored by now, the pick is refused.
pub fn pick_parts(
    lifecycle: &Lifecycle,
    plan_id: PlanId,
    shown: Option<Digest>,
    selection: &PartSelection,
    mode: PickMode,
    call: &Call,
) -> Result<PickOutcome, LifecycleError> {
    let landing = lifecycle.landing();
    landing.pick_parts(plan_id, shown, selection, mode, call)
}

/// Refuses unless this is the digest of the plan's result. Returns the version at which it is.
pub fn check_shown_result(
    lifecycle: &Lifecycle,
    plan_id: PlanId,
    shown: Digest,
) -> Result<PlanVersion, LifecycleError> {
    let plan = lifecycle.get_plan(plan_id)?.plan;
    let result = plan
        .result()
        .map(|it| it.digest(&LandingOptions::default()));
    match result == Some(shown) {
        true => Ok(plan.version()),
        false => Err(Refusal::ResultChanged.into()),
    }
}

/// Brings back what picks left out: the result of the plan is the whole one again. Nothing lands until a person acts.
pub fn restore_whole_result(
    lifecycle: &Lifecycle,
    plan_id: PlanId,
    call: &Call,
) -> Result<PickOutcome, LifecycleError> {
    lifecycle.landing().restore_whole_result(plan_id, call)
}

/// Whether [`restore_whole_result`] would bring something back.
pub fn is_restorable(plan: &Plan) -> bool {
    !plan.stage().is_final() && !plan.is_prepared() && lifecycle::whole_result_of(plan).is_some()
}

/// Which results to compare.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ResultRange {
    /// The plan's current changes: landed, submitted, or in the sandbox.
    #[default]
    Current,
    /// A result with its base.
    One(u32),
    /// An earlier result with a later one. `None` is the last.
    Between(u32, Option<u32>),
}

/// The text names no results.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseRangeError(String);

impl fmt::Display for ParseRangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{}` is not a result: write r2, r1..r3, or r1.. for all since r1",
            self.0
        )
    }
}

impl std::error::Error for ParseRangeError {}

impl FromStr for ResultRange {
    type Err = ParseRangeError;

    fn from_str(text: &str) -> Result<Self, ParseRangeError> {
        let refuse = || ParseRangeError(text.chars().take(40).collect());
        let parse_number = |name: &str| -> Result<u32, ParseRangeError> {
            let digits = name.strip_prefix('r').ok_or_else(refuse)?;
            let is_plain = digits.bytes().all(|digit| digit.is_ascii_digit());
            let number = digits.parse().ok().filter(|_| is_plain);
            number.filter(|number| *number > 0).ok_or_else(refuse)
        };
        match text.split_once("..") {
            None => Ok(Self::One(parse_number(text)?)),
            Some((from, "")) => Ok(Self::Between(parse_number(from)?, None)),
            Some((from, to)) => Ok(Self::Between(parse_number(from)?, Some(parse_number(to)?))),
        }
    }
}

/// How much of the changed files to show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineDetail {
    /// Only which hunks there are.
    None,
    /// The changed lines, with so many lines of context.
    Lines { context: usize },
}

/// Why results cannot be shown.
#[derive(Debug)]
pub enum ResultError {
    Engine(LifecycleError),
    /// The plan has no result of this number.
    NoSuchResult {
        number: u32,
        last: u32,
    },
}

impl From<LifecycleError> for ResultError {
    fn from(error: LifecycleError) -> Self {
        Self::Engine(error)
    }
}

/// Lists the results of a plan, oldest first.
pub fn list_results(
    lifecycle: &Lifecycle,
    plan_id: PlanId,
) -> Result<Vec<ResultView>, LifecycleError> {
    let results = lifecycle.history().list_results(plan_id)?;
    Ok(results.iter().map(ResultView::new).collect())
}

/// Compares what the range names, resource by resource.
pub fn view_range(
    lifecycle: &Lifecycle,
    plan_id: PlanId,
    range: ResultRange,
) -> Result<Vec<ResourceChanges>, ResultError> {
    let sandboxes = lifecycle.sandboxes();
    if range == ResultRange::Current {
        return Ok(sandboxes.view_changes(plan_id)?);
    }
    let results = lifecycle.history().list_results(plan_id)?;
    let last = results.len() as u32;
    let find = |number: u32| {
        let mut known = results.iter();
        let found = known.find(|result: &&NumberedResult| result.number == number);
        found.ok_or(ResultError::NoSuchResult { number, last })
    };
    let (from, to) = match range {
        ResultRange::Current => (None, find(last)?),
        ResultRange::One(number) => (None, find(number)?),
        ResultRange::Between(from, to) => (Some(find(from)?), find(to.unwrap_or(last))?),
    };
    let from = from.map(|result| &result.content);
    Ok(sandboxes.view_result_changes(plan_id, from, &to.content)?)
}

/// Shows changes file by file, with the hunks that can be taken or left. Limited to these pathspecs,
/// if there are any.
pub fn list_hunks(
    lifecycle: &Lifecycle,
    plan_id: PlanId,
    range: ResultRange,
    paths: &[String],
    detail: LineDetail,
) -> Result<ChangesView, ResultError> {
    let row = lifecycle.get_plan(plan_id)?;
    let results = list_results(lifecycle, plan_id)?;
    let mut listed = Vec::new();
    for changes in view_range(lifecycle, plan_id, range)? {
        let files = changes
            .comparison
            .list_file_changes(&changes.resource, paths)
            .map_err(LifecycleError::from)?;
        listed.push((changes, files));
    }
    let ids: BTreeSet<HunkId> = listed
        .iter()
        .flat_map(|(_, files)| files)
        .flat_map(|file| file.hunks.iter().map(|hunk| hunk.id))
        .collect();
    let names = shorten_hunk_ids(ids);
    let mut budget = LineBudget {
        lines: MAX_VIEW_LINES,
        bytes: MAX_VIEW_BYTES,
    };
    let mut files = Vec::new();
    for (changes, listed) in &listed {
        for file in listed {
            let mut view = view_file(&changes.resource, file, |id| names[&id].clone());
            if let LineDetail::Lines { context } = detail {
                let versions = match budget.is_left() {
                    true => changes.comparison.read_versions(file),
                    false => Ok(FileVersions::default()),
                };
                let versions = versions.map_err(LifecycleError::from)?;
                add_lines(&mut view, file, &versions, context, &mut budget);
            }
            files.push(view);
        }
    }
    let last = results.last();
    let is_last = match range {
        ResultRange::Current => true,
        ResultRange::One(number) => last.is_some_and(|last| last.number == number),
        ResultRange::Between(..) => false,
    };
    Ok(ChangesView {
        plan_id,
        version: row.plan.version().0,
        pickable: pickable_digest(&row.plan).filter(|_| is_last),
        results,
        files,
    })
}

/// The digest of the result that a plan shows and that can be reviewed.
pub(crate) fn pickable_digest(plan: &Plan) -> Option<Digest> {
    let shows_result = match plan.stage() {
        PlanStage::Execute(work) => matches!(work, plan::stage::WorkState::Complete),
        PlanStage::Apply(_) => !plan.stage().is_final(),
        PlanStage::Strategize(_) => false,
    };
    let result = plan.result().filter(|_| shows_result)?;
    Some(result.digest(&LandingOptions::default()))
}

/// What may still be added to a view.
struct LineBudget {
    lines: usize,
    bytes: usize,
}

impl LineBudget {
    fn is_left(&self) -> bool {
        self.lines > 0 && self.bytes > 0
    }

    fn spend(&mut self, line: &LineView) {
        self.lines = self.lines.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(line.text.len());
    }
}

fn view_file(
    resource: &str,
    file: &FileChange,
    short_name: impl Fn(HunkId) -> String,
) -> FileDiffView {
    let (before, after) = (file.before.as_ref(), file.after.as_ref());
    let counts = file.count_lines();
    let hunks = file.hunks.iter().map(|hunk| HunkView {
        id: hunk.id,
        short: short_name(hunk.id),
        part: match hunk.part {
            HunkPart::Region(_) => HunkPartName::Lines,
            HunkPart::Mode => HunkPartName::Mode,
            HunkPart::Whole => HunkPartName::Whole,
        },
        regions: regions_of(file, hunk.part)
            .iter()
            .map(|region| RegionView {
                old_start: region.old.start + 1,
                old_lines: region.old.len(),
                new_start: region.new.start + 1,
                new_lines: region.new.len(),
                section: None,
                lines: Vec::new(),
            })
            .collect(),
    });
    FileDiffView {
        resource: resource.to_owned(),
        path: file.path.clone(),
        from: file.from.clone(),
        operation: file.operation,
        content: file.content.into(),
        old_mode: before.map(|entry| entry.mode.clone()),
        new_mode: after.map(|entry| entry.mode.clone()),
        old_blob: before.map(|entry| entry.id.to_string()),
        new_blob: after.map(|entry| entry.id.to_string()),
        insertions: counts.map(|(_, added)| added),
        deletions: counts.map(|(removed, _)| removed),
        lines_omitted: false,
        hunks: hunks.collect(),
    }
}

/// The regions that a hunk covers.
fn regions_of(file: &FileChange, part: HunkPart) -> &[LineRegion] {
    match part {
        HunkPart::Region(number) => file.regions.get(number..=number).unwrap_or_default(),
        HunkPart::Mode => &[],
        HunkPart::Whole => &file.regions,
    }
}

/// Adds the changed lines of a file to its view, and context between them that no region shares.
fn add_lines(
    view: &mut FileDiffView,
    file: &FileChange,
    versions: &FileVersions,
    context: usize,
    budget: &mut LineBudget,
) {
    if file.regions.is_empty() {
        return;
    }
    if versions.old.is_none() && versions.new.is_none() {
        view.lines_omitted = true;
        return;
    }
    let old = split_lines(versions.old.as_deref().unwrap_or_default());
    let new = split_lines(versions.new.as_deref().unwrap_or_default());
    let views = view.hunks.iter_mut().flat_map(|hunk| &mut hunk.regions);
    let mut shown_until = 0;
    for (number, (region, view)) in file.regions.iter().zip(views).enumerate() {
        let next = file.regions.get(number + 1);
        let next_start = next.map_or(old.len(), |next| next.old.start);
        view.section = find_section(&old, region.old.start);
        let context_start = region.old.start.saturating_sub(context).max(shown_until);
        let context_end = (region.old.end + context).min(next_start);
        shown_until = context_end;
        // Context is the same on both sides; only its line numbers differ.
        let before = context_start..region.old.start;
        let after = region.old.end..context_end;
        let context_line = |line: usize, anchor: (usize, usize)| {
            let new_line = anchor.1 + line - anchor.0;
            view_line(LineKind::Context, Some(line), Some(new_line), old[line])
        };
        let first_new = region.new.start - before.len();
        let lines = before
            .clone()
            .map(|line| context_line(line, (before.start, first_new)))
            .chain(
                region
                    .old
                    .clone()
                    .map(|line| view_line(LineKind::Removed, Some(line), None, old[line])),
            )
            .chain(
                region
                    .new
                    .clone()
                    .map(|line| view_line(LineKind::Added, None, Some(line), new[line])),
            )
            .chain(after.map(|line| context_line(line, (region.old.end, region.new.end))));
        for line in lines {
            if !budget.is_left() {
                break;
            }
            budget.spend(&line);
            view.lines.push(line);
        }
    }
    // Half of a file's changes would be mistaken for all of them.
    if !budget.is_left() {
        view.lines_omitted = true;
        let regions = view.hunks.iter_mut().flat_map(|hunk| &mut hunk.regions);
        regions.for_each(|region| region.lines.clear());
    }
}

/// How far above a change its section is looked for, and how much of its first line is shown.
const MAX_SECTION_DISTANCE: usize = 2000;
const MAX_SECTION_CHARS: usize = 120;

/// Words that begin a function, a type or a section in common languages.
const SECTION_WORDS: [&str; 17] = [
    "fn",
    "def",
    "func",
    "function",
    "class",
    "impl",
    "struct",
    "enum",
    "trait",
    "interface",
    "mod",
    "module",
    "namespace",
    "void",
    "public",
    "private",
    "protected",
];

/// Finds the line that begins the function or section around a line: the innermost one above it that is indented
/// less and says so with a word.
fn find_section(lines: &[&[u8]], at: usize) -> Option<String> {
    let indent = |line: &[u8]| {
        line.iter()
            .take_while(|byte| byte.is_ascii_whitespace())
            .count()
    };
    let is_blank = |line: &[u8]| indent(line) == line.len();
    let at = at.min(lines.len());
    let above = lines[at.saturating_sub(MAX_SECTION_DISTANCE)..at]
        .iter()
        .rev();
    let mut depth = match lines.get(at) {
        Some(line) if !is_blank(line) => indent(line),
        Some(_) | None => usize::MAX,
    };
    for line in above {
        if is_blank(line) || indent(line) >= depth {
            continue;
        }
        depth = indent(line);
        let text = String::from_utf8_lossy(line);
        let mut words = text.split(|letter: char| !letter.is_alphanumeric());
        if words.any(|word| SECTION_WORDS.contains(&word)) {
            return Some(text.trim().chars().take(MAX_SECTION_CHARS).collect());
        }
        if depth == 0 {
            return None;
        }
    }
    None
}

/// Unchanged lines of a changed file, to show more of what surrounds a change.
#[derive(Debug, Clone)]
pub struct ContextRequest {
    /// Git's id of the new content, as in [`FileDiffView::new_blob`].
    pub new_blob: String,
    /// The numbers of the first line, from 1.
    pub old: usize,
    pub new: usize,
    pub count: usize,
}

/// The lines that were asked for, and the path of their file. Fewer lines if the file ends before; none if the changes
/// do not have the file any more.
pub fn list_context_lines(
    lifecycle: &Lifecycle,
    plan_id: PlanId,
    range: ResultRange,
    request: &ContextRequest,
) -> Result<(String, Vec<LineView>), ResultError> {
    for changes in view_range(lifecycle, plan_id, range)? {
        let files = changes.comparison.list_file_changes(&changes.resource, &[]);
        let files = files.map_err(LifecycleError::from)?;
        let is_wanted = |file: &&FileChange| {
            let after = file.after.as_ref();
            after.is_some_and(|entry| entry.id.to_string() == request.new_blob)
        };
        let Some(file) = files.iter().find(is_wanted) else {
            continue;
        };
        let versions = changes.comparison.read_versions(file);
        let new = versions.map_err(LifecycleError::from)?.new;
        let lines = split_lines(new.as_deref().unwrap_or_default());
        let first = request.new.saturating_sub(1).min(lines.len());
        let end = first.saturating_add(request.count).min(lines.len());
        let views = lines[first..end].iter().enumerate().map(|(number, line)| {
            let old = request.old.saturating_sub(1).saturating_add(number);
            view_line(LineKind::Context, Some(old), Some(first + number), line)
        });
        return Ok((file.path.to_string(), views.collect()));
    }
    Ok((String::new(), Vec::new()))
}

pub(crate) fn split_lines(text: &[u8]) -> Vec<&[u8]> {
    text.split_inclusive(|byte| *byte == b'\n').collect()
}

/// Line numbers are from 0 here.
fn view_line(kind: LineKind, old: Option<usize>, new: Option<usize>, line: &[u8]) -> LineView {
    let (text, line_end) = match line.strip_suffix(b"\n") {
        None => (line, LineEnd::None),
        Some(text) => match text.strip_suffix(b"\r") {
            Some(text) => (text, LineEnd::CrLf),
            None => (text, LineEnd::Lf),
        },
    };
    LineView {
        kind,
        old: old.map(|line| line + 1),
        new: new.map(|line| line + 1),
        text: String::from_utf8_lossy(text).into_owned(),
        line_end,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "these are tests")]
mod tests {
    use super::*;

    #[test]
    fn sections_are_the_innermost_named_line_above() {
        let text = "# Title\n\nimpl Shop {\n    fn sell(&self) {\n        if ready {\n            go();\n\n        }\n    }\n}\nlet x = 1;\n";
        let lines = split_lines(text.as_bytes());
        let section = |at: usize| find_section(&lines, at).unwrap_or_default();
        assert_eq!(section(5), "fn sell(&self) {");
        assert_eq!(section(6), "fn sell(&self) {");
        assert_eq!(section(3), "impl Shop {");
        assert_eq!(section(2), "");
        assert_eq!(section(10), "");
        assert_eq!(section(100), "");
        assert_eq!(find_section(&[], 3), None);
    }

    #[test]
    fn ranges_are_parsed_strictly() {
        let parse = |text: &str| text.parse::<ResultRange>();
        assert_eq!(parse("r2"), Ok(ResultRange::One(2)));
        assert_eq!(parse("r1..r3"), Ok(ResultRange::Between(1, Some(3))));
        assert_eq!(parse("r1.."), Ok(ResultRange::Between(1, None)));
        for bad in [
            "",
            "2",
            "r",
            "r0",
            "r-1",
            "r+1",
            "r1..3",
            "..r3",
            "r1...r3",
            "r99999999999",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
