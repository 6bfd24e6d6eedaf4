//! `planwright diff`: shows a plan's changes.

use std::io::{IsTerminal, Write};
use std::process::Stdio;

use api::results::{self, LineDetail, ParseRangeError, ResultRange};
use api::view::{
    ChangesView, FileContentKind, FileDiffView, HunkPartName, HunkView, LineEnd, LineKind,
};
use lifecycle::ResourceChanges;
use plan::PlanId;
use plan::stage::{IgnoredPaths, PathSummary};
use sandbox::{DiffFormat, PathLineCount, SandboxError};
use serde_json::json;

use crate::cli::{App, CliFormat};
use crate::commands::plan_arg::may_name_plan;
use crate::commands::{CommandAnswer, PlanArg};
use crate::error::CommandError;
use crate::ui;

/// Files in a diffstat at the terminal.
pub const MAX_DIFFSTAT_LINES: usize = 15;

/// Show what a plan changed, even while an agent is working
#[derive(Debug, clap::Args)]
pub struct DiffArgs {
    #[command(flatten)]
    plan: PlanArg,
    /// Compare results: r2 with its base, r1..r3, or r1.. with the last
    results: Option<ResultRange>,
    /// Show what changed since this result, such as r2
    #[arg(long, value_name = "RESULT", value_parser = parse_since, conflicts_with = "results")]
    since: Option<ResultRange>,
    /// List the hunks with their ids, to take or leave them
    #[arg(long, conflicts_with_all = ["stat", "name_only", "patch"])]
    hunks: bool,
    /// Show a summary of changed lines per file
    #[arg(long, conflicts_with_all = ["name_only", "patch"])]
    stat: bool,
    /// Show only the names of changed files
    #[arg(long, conflicts_with = "patch")]
    name_only: bool,
    /// Show the full diff (default)
    #[arg(long)]
    patch: bool,
    /// Show only these paths
    #[arg(last = true, value_name = "PATHSPEC")]
    paths: Vec<String>,
}

/// `r2` as the range from r2 to the last result.
fn parse_since(text: &str) -> Result<ResultRange, ParseRangeError> {
    match text.parse()? {
        ResultRange::One(number) => Ok(ResultRange::Between(number, None)),
        other => Ok(other),
    }
}

impl DiffArgs {
    /// Reads `[PLAN] [RESULTS]`: a single argument such as `r1..r3` means results of the current plan.
    fn resolve_plan_and_results(
        &self,
        app: &App,
    ) -> Result<(PlanId, Option<ResultRange>), CommandError> {
        let range = self.plan.word().and_then(|word| word.parse().ok());
        let (Some(word), Some(range), None) = (self.plan.word(), range, self.results) else {
            return Ok((self.plan.resolve(app)?, self.results));
        };
        if may_name_plan(app, word)? {
            return Err(
                CommandError::usage(format!("`{word}` names a plan and a result."))
                    .with_hint(format!("The result: planwright diff @ {word}"))
                    .with_hint("planwright list"),
            );
        }
        if self.since.is_some() {
            return Err(CommandError::usage(format!(
                "--since cannot be used with `{word}`."
            )));
        }
        Ok((PlanArg::default().resolve(app)?, Some(range)))
    }
}

pub fn run(args: &DiffArgs, app: &App) -> Result<CommandAnswer, CommandError> {
    let (plan_id, results) = args.resolve_plan_and_results(app)?;
    let lifecycle = app.lifecycle()?;
    let range = results.or(args.since).unwrap_or_default();
    if args.hunks {
        return show_hunks(app, plan_id, range, &args.paths);
    }
    let diffs = results::view_range(lifecycle, plan_id, range)?;
    if diffs.is_empty() {
        let text =
            "Nothing to compare: the plan has no repository, or work on it has not started.\n";
        return Ok(CommandAnswer::new(
            json!({ "plan_id": plan_id, "resources": [] }),
            text,
        ));
    }
    let shape = if args.stat {
        DiffFormat::Stat
    } else if args.name_only {
        DiffFormat::NameOnly
    } else {
        DiffFormat::Patch
    };
    if app.format == CliFormat::Json {
        return changes_as_json(app, plan_id, &diffs, args);
    }
    show_changes(&diffs, shape, &args.paths)?;
    Ok(CommandAnswer::new(json!(null), String::new()))
}

/// Shows a plan's full diff on standard output.
pub fn show_patch(app: &App, plan_id: plan::PlanId) -> Result<(), CommandError> {
    show_changes(
        &app.lifecycle()?.sandboxes().view_changes(plan_id)?,
        DiffFormat::Patch,
        &[],
    )
}

/// Writes diffs to standard output: for a terminal with colours and escaped control characters, otherwise
/// byte for byte, so that `git apply` accepts them.
fn show_changes(
    diffs: &[ResourceChanges],
    shape: DiffFormat,
    paths: &[String],
) -> Result<(), CommandError> {
    for diff in diffs {
        if diffs.len() > 1 {
            let mut stdout = anstream::stdout().lock();
            let heading = ui::style_text(ui::BOLD, format!("== {} ==", diff.resource));
            let _ = writeln!(stdout, "{heading}");
        }
        let shown = if std::io::stdout().is_terminal() {
            show_on_terminal(diff, shape, paths)
        } else {
            diff.comparison.show_diff(shape, paths, Stdio::inherit())
        };
        shown.map_err(lifecycle::LifecycleError::Sandbox)?;
        if shape == DiffFormat::Stat {
            let _ = write!(
                anstream::stdout().lock(),
                "{}",
                describe_ignored(&diff.ignored)
            );
        }
    }
    Ok(())
}

/// Lists ignored files that were added, withheld or left out; empty if there are none.
pub fn describe_ignored(paths: &IgnoredPaths) -> String {
    let mut text = String::new();
    let IgnoredPaths {
        forced,
        withheld,
        left_out,
    } = paths;
    let mut add_note = |paths: &PathSummary, label: &str, style| {
        if !paths.is_empty() {
            let names = ui::escape_controls(&paths.to_string());
            let note = format!("{label} ({}): {names}", paths.count);
            text.push_str(&format!("{}\n", ui::style_text(style, note)));
        }
    };
    add_note(forced, "Ignored by git, added by the agent", ui::WARN);
    add_note(
        withheld,
        "Not captured, because it existed before the agent started",
        ui::WARN,
    );
    add_note(left_out, "Ignored by git and left out", ui::DIM);
    text
}

/// Shows a diff on the terminal; full diffs go through git's pager.
fn show_on_terminal(
    diff: &ResourceChanges,
    shape: DiffFormat,
    paths: &[String],
) -> Result<(), SandboxError> {
    let text = diff.comparison.diff_text(shape, paths)?;
    let shown = match shape {
        DiffFormat::Patch => ui::render_patch(&text),
        DiffFormat::Stat | DiffFormat::NameOnly => {
            ui::escape_controls(&String::from_utf8_lossy(&text))
        }
    };
    let colourless =
        anstream::AutoStream::choice(&std::io::stdout()) == anstream::ColorChoice::Never;
    let shown = match colourless {
        true => anstream::adapter::strip_str(&shown).to_string(),
        false => shown,
    };
    let in_pager = shape == DiffFormat::Patch && diff.comparison.show_in_pager(shown.as_bytes());
    if !in_pager {
        // A closed standard output is not an error.
        let _ = write!(anstream::stdout().lock(), "{shown}");
    }
    Ok(())
}

/// Lists hunks, each with its id and its changed lines.
fn show_hunks(
    app: &App,
    plan_id: plan::PlanId,
    range: ResultRange,
    paths: &[String],
) -> Result<CommandAnswer, CommandError> {
    let detail = LineDetail::Lines { context: 0 };
    let view = results::list_hunks(app.lifecycle()?, plan_id, range, paths, detail)?;
    let text = render_hunks(&view);
    Ok(CommandAnswer::new(view, text).with_kept_lines())
}

fn render_hunks(view: &ChangesView) -> String {
    let mut text = String::new();
    let mut resources: Vec<&str> = view.files.iter().map(|file| &*file.resource).collect();
    resources.dedup();
    for file in &view.files {
        let resource = (resources.len() > 1).then_some(&*file.resource);
        text.push_str(&render_file_hunks(file, resource));
    }
    if text.is_empty() {
        text.push_str("Nothing changed.\n");
    }
    text
}

fn render_file_hunks(file: &FileDiffView, resource: Option<&str>) -> String {
    let mut name = file.path.to_string();
    if let Some(from) = &file.from {
        name = format!("{from} => {name}");
    }
    if let Some(resource) = resource {
        name = format!("{resource}: {name}");
    }
    let mut text = format!("{}\n", ui::style_text(ui::BOLD, name));
    for hunk in &file.hunks {
        text.push_str(&render_hunk(file, hunk));
    }
    if file.lines_omitted {
        let note = format!("    … too long to show here: -- {}", file.path);
        text.push_str(&format!("{}\n", ui::style_text(ui::DIM, note)));
    }
    text
}

/// Shows a hunk with its id and its lines.
pub fn render_hunk(file: &FileDiffView, hunk: &HunkView) -> String {
    let id = ui::style_text(ui::CODE, &hunk.short);
    let note = match hunk.part {
        HunkPartName::Lines => String::new(),
        HunkPartName::Mode => format!(
            "mode {} => {}",
            file.old_mode.as_deref().unwrap_or_default(),
            file.new_mode.as_deref().unwrap_or_default()
        ),
        HunkPartName::Whole => describe_whole(file),
    };
    let head = format!("  {id} {note}");
    let mut text = format!("{}\n", head.trim_end());
    for line in hunk.regions.iter().flat_map(|region| &region.lines) {
        let (sign, style) = match line.kind {
            LineKind::Context => (' ', ui::DIM),
            LineKind::Removed => ('-', ui::BAD),
            LineKind::Added => ('+', ui::GOOD),
        };
        let end = match line.line_end {
            LineEnd::Lf | LineEnd::CrLf => "",
            LineEnd::None => "  (no line end)",
        };
        let line = format!("{sign}{}{end}", ui::escape_controls(&line.text));
        text.push_str(&format!("    {}\n", ui::style_text(style, line)));
    }
    text
}

/// What a hunk is that covers a file as a whole.
fn describe_whole(file: &FileDiffView) -> String {
    let kind = match file.content {
        FileContentKind::Text => "",
        FileContentKind::Binary => " binary file",
        FileContentKind::Oversized => " large file",
        FileContentKind::Link => " link",
        FileContentKind::Submodule => " submodule",
    };
    format!("{}{kind}", file.operation.as_str())
}

fn changes_as_json(
    app: &App,
    plan_id: plan::PlanId,
    diffs: &[ResourceChanges],
    args: &DiffArgs,
) -> Result<CommandAnswer, CommandError> {
    let mut resources = Vec::new();
    for diff in diffs {
        let counted = diff
            .comparison
            .count_lines(&args.paths)
            .map_err(lifecycle::LifecycleError::Sandbox)?;
        let patch = if args.patch {
            let text = diff
                .comparison
                .diff_text(DiffFormat::Patch, &args.paths)
                .map_err(lifecycle::LifecycleError::Sandbox)?;
            json!(String::from_utf8_lossy(&text))
        } else {
            json!(null)
        };
        resources.push(json!({
            "resource": diff.resource,
            "files": counted,
            "insertions": counted.iter().filter_map(|file| file.insertions).sum::<u64>(),
            "deletions": counted.iter().filter_map(|file| file.deletions).sum::<u64>(),
            "patch": patch,
            "ignored": diff.ignored,
        }));
    }
    let view = api::plans::get_plan_view(app.lifecycle()?, plan_id)?;
    let results = results::list_results(app.lifecycle()?, plan_id)?;
    Ok(CommandAnswer::new(
        json!({
            "plan_id": plan_id,
            "results": results,
            "resources": resources,
            "changesets": view.changesets,
        }),
        String::new(),
    ))
}

/// Changed files with their lines, and notes on ignored files.
pub struct ChangeSummary {
    files: Vec<PathLineCount>,
    notes: String,
}

impl ChangeSummary {
    pub fn of_changes(diffs: &[ResourceChanges], paths: &[String]) -> Result<Self, CommandError> {
        let (mut files, mut notes) = (Vec::new(), String::new());
        for diff in diffs {
            let counted = diff.comparison.count_lines(paths);
            files.extend(counted.map_err(lifecycle::LifecycleError::Sandbox)?);
            notes.push_str(&describe_ignored(&diff.ignored));
        }
        Ok(Self { files, notes })
    }

    /// For example `2 files +41 −7`.
    pub fn describe_total(&self) -> String {
        let added = self.files.iter().filter_map(|file| file.insertions);
        let removed = self.files.iter().filter_map(|file| file.deletions);
        format!(
            "{} {}",
            ui::pluralize(self.files.len() as u64, "file"),
            ui::style_line_counts(added.sum(), removed.sum())
        )
    }

    /// One line per file, at most `max_lines`, then the notes.
    pub fn render_diffstat(&self, max_lines: usize) -> String {
        let mut text = String::new();
        // One line that says "1 more" would need as much room as the file.
        let shown = match self.files.len() > max_lines {
            true => max_lines - 1,
            false => self.files.len(),
        };
        let path_width = ui::terminal_width().saturating_sub(20);
        for file in &self.files[..shown] {
            let path = ui::truncate_start(&ui::escape_controls(&file.path.to_string()), path_width);
            let counts = match (file.insertions, file.deletions) {
                (Some(added), Some(removed)) => ui::style_line_counts(added, removed),
                (None, _) | (_, None) => "binary".to_owned(),
            };
            text.push_str(&format!("  {path} {counts}\n"));
        }
        if shown < self.files.len() {
            let more = ui::pluralize((self.files.len() - shown) as u64, "more file");
            text.push_str(&format!(
                "{}\n",
                ui::style_text(ui::DIM, format!("  … {more}"))
            ));
        }
        text.push_str(&self.notes);
        text
    }
}
