//! What the editor shows at the end of a prompt: the diff, where the plan stands, and what to do next.

use std::path::Path;

use api::PlanStanding;
use api::changed_texts::{ChangedText, ChangedTexts, TextLimits, read_changed_texts};
use api::landing::default_landing_options;
use api::rule_marks::{RuleMarks, read_rule_marks};
use plan::stage::{ApplyState, WorkState};
use plan::{Digest, LandingOptions, Plan, PlanStage};
use serde_json::{Value, json};
use store::PlanRow;

use super::session_update::text_content;
use crate::cli::App;
use crate::commands::diff::ChangeSummary;
use crate::commands::{run, serve};
use crate::error::CommandError;
use crate::ui;

/// The most that is sent to an editor as a diff, in one message. The page shows the rest.
const DIFF_LIMITS: TextLimits = TextLimits {
    files: 100,
    file_bytes: 256 * 1024,
    total_bytes: 1 << 20,
};

const MAX_LISTED_FILES: usize = 20;
const MAX_SHOWN_STEPS: usize = 3;

/// A result as the editor shows it.
pub struct ShownResult {
    /// From 1.
    pub number: usize,
    /// What landing it signs: the result, and how it lands.
    pub digest: Digest,
    pub options: LandingOptions,
    /// For example `2 files +3 −1`.
    pub total: String,
    /// One line per file, and what happened to ignored files.
    diffstat: String,
    texts: ChangedTexts,
}

impl ShownResult {
    /// Reads the result that a plan has for review; `None` if it has none.
    pub fn read(app: &App, row: &PlanRow) -> Result<Option<Self>, CommandError> {
        let (lifecycle, plan) = (app.lifecycle()?, &row.plan);
        let Some(result) = plan.result().filter(|_| is_reviewable(plan.stage())) else {
            return Ok(None);
        };
        // Read from the result in this row, so that what is shown is what the digest stands for.
        let changes = lifecycle
            .sandboxes()
            .view_result_changes(plan.id(), None, result)?;
        let summary = ChangeSummary::of_changes(&changes, &[])?;
        let options = default_landing_options(plan).clone();
        Ok(Some(Self {
            number: lifecycle.history().list_results(plan.id())?.len(),
            digest: result.digest(&options),
            options,
            total: strip_style(&summary.describe_total()),
            diffstat: strip_style(&summary.render_diffstat(MAX_LISTED_FILES)),
            texts: read_changed_texts(lifecycle, plan.id(), result, DIFF_LIMITS)?,
        }))
    }

    /// The tool call that shows the result. Its id is the same for the same result.
    pub fn to_tool_call(&self, plan: &Plan, repository: &Path, title: &str, status: &str) -> Value {
        let texts = self.texts.texts.iter();
        let mut content: Vec<Value> = texts
            .clone()
            .map(|text| diff_content(text, repository))
            .collect();
        if self.texts.omitted > 0 {
            content.push(text_content(&format!(
                "{} not shown here: not text, or too large.",
                ui::pluralize(self.texts.omitted as u64, "changed file")
            )));
        }
        let locations = texts.map(|text| json!({ "path": absolute_path(text, repository) }));
        json!({
            "toolCallId": self.tool_call_id(plan),
            "title": title,
            "kind": "edit",
            "status": status,
            "content": content,
            "locations": locations.collect::<Vec<_>>(),
            "rawInput": { "plan_id": plan.id(), "digest": self.digest },
        })
    }

    pub fn tool_call_id(&self, plan: &Plan) -> String {
        format!("result-{}-r{}", plan.epoch(), self.number)
    }

    pub fn title(&self) -> String {
        format!("Result r{}: {}", self.number, self.total)
    }
}

fn diff_content(text: &ChangedText, repository: &Path) -> Value {
    json!({
        "type": "diff",
        "path": absolute_path(text, repository),
        "oldText": text.old,
        "newText": text.new.as_deref().unwrap_or_default(),
    })
}

fn absolute_path(text: &ChangedText, repository: &Path) -> String {
    let path = text.path.to_string();
    repository.join(path).display().to_string()
}

fn is_reviewable(stage: &PlanStage) -> bool {
    match stage {
        PlanStage::Strategize(_) => false,
        PlanStage::Execute(work) => matches!(work, WorkState::Complete),
        PlanStage::Apply(_) => !stage.is_final(),
    }
}

/// Returns where a plan stands and what to do next, as Markdown.
pub fn describe_plan(
    app: &App,
    row: &PlanRow,
    shown: Option<&ShownResult>,
) -> Result<String, CommandError> {
    let lifecycle = app.lifecycle()?;
    let handle = lifecycle.short_handle(row.plan.id())?;
    let standing = api::plans::find_standing(lifecycle, row)?;
    let mut text = format!("\n\n**{handle}** {}", standing.as_str());
    if let Some(shown) = shown {
        text.push_str(&format!(": r{}, {}", shown.number, shown.total));
    }
    text.push('\n');
    let details = describe_details(app, row)?;
    if !details.trim().is_empty() {
        text.push_str(&code_block(&details));
    }
    if let Some(shown) = shown {
        text.push_str(&code_block(&shown.diffstat));
        let marks = read_rule_marks(lifecycle, row)?;
        text.push_str(&describe_rules(&marks));
        if run::is_result_unchanged(&lifecycle.history().read_history(row.plan.id())?) {
            text.push_str("\nThe result is the same as before.\n");
        }
    }
    if shown.is_some() || !row.plan.stage().is_final() {
        text.push_str(&format!("\nReview: {}\n", review_address(app, &handle)?));
    }
    let commands = app.next_commands(row)?.into_iter().take(MAX_SHOWN_STEPS);
    text.push_str(&list_hints(app, commands));
    text.push('\n');
    Ok(text)
}

/// Lists commands and sentences, as Markdown.
pub fn list_hints(app: &App, hints: impl IntoIterator<Item = String>) -> String {
    let hints = hints.into_iter().map(|hint| {
        let hint = app.invocation.render_hint(&hint);
        match app.invocation.is_command(&hint) {
            true => format!("\n- `{hint}`"),
            false => format!("\n- {hint}"),
        }
    });
    hints.collect()
}

/// Facts about a prompt's end, for programs.
pub fn describe_for_programs(app: &App, row: &PlanRow) -> Result<Value, CommandError> {
    let lifecycle = app.lifecycle()?;
    let standing: PlanStanding = api::plans::find_standing(lifecycle, row)?;
    Ok(json!({
        "planwright": {
            "plan_id": row.plan.id(),
            "handle": lifecycle.short_handle(row.plan.id())?,
            "standing": standing,
            "results": lifecycle.history().list_results(row.plan.id())?.len(),
        },
    }))
}

/// Why a plan does not go on by itself, in the words of its agent or its rules.
fn describe_details(app: &App, row: &PlanRow) -> Result<String, CommandError> {
    let stage = row.plan.stage();
    if row.is_blocked() {
        return Ok(run::describe_blocking_rules(row));
    }
    if let Some(question) = stage.question() {
        return Ok(ui::escape_controls(question.text.as_str()));
    }
    if let Some(failure) = stage.failure() {
        return Ok(ui::escape_controls(failure.message.as_str()));
    }
    match stage {
        PlanStage::Strategize(WorkState::Complete) => run::describe_strategy(app, row),
        PlanStage::Apply(ApplyState::Constrained(constraint)) => {
            Ok(ui::escape_controls(constraint.message.as_str()))
        }
        PlanStage::Strategize(_) | PlanStage::Execute(_) | PlanStage::Apply(_) => Ok(String::new()),
    }
}

fn describe_rules(marks: &RuleMarks) -> String {
    let groups = [
        ("hold", &marks.held),
        ("failed", &marks.failed),
        ("not decided yet", &marks.open),
    ];
    let groups = groups.into_iter().filter(|(_, rules)| !rules.is_empty());
    let parts = groups.map(|(word, rules)| {
        let rules: Vec<String> = rules.iter().map(|rule| format!("`{rule}`")).collect();
        format!("{} {word}", rules.join(", "))
    });
    let parts: Vec<String> = parts.collect();
    match parts.is_empty() {
        true => String::new(),
        false => format!("\nRules: {}\n", parts.join("; ")),
    }
}

/// The page of a plan if a server runs, else the command that opens it.
fn review_address(app: &App, handle: &str) -> Result<String, CommandError> {
    // Without a readable registry, the command says what is wrong.
    let running = serve::open_registry(app)?.find_running().unwrap_or(None);
    Ok(match running {
        Some(server) => format!("http://{}/{handle}", server.address),
        None => {
            let command = format!("planwright open {handle}");
            format!("`{}`", app.invocation.render_hint(&command))
        }
    })
}

/// A block that text of agents cannot end.
fn code_block(text: &str) -> String {
    let mut fence = "```".to_owned();
    while text.contains(&fence) {
        fence.push('`');
    }
    format!("\n{fence}text\n{}\n{fence}\n", text.trim_end())
}

/// Removes colours, which editors do not show.
pub fn strip_style(text: &str) -> String {
    anstream::adapter::strip_str(text).to_string()
}
