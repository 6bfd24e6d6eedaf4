//! Bare `planwright`: lists what needs the user, each with its next command, then what runs and what waits.

use api::NextStep;
use api::view::{PlanSummary, WaitReason, WaitingPlan};
use plan::PlanId;
use serde::Serialize;
use serde_json::json;

use crate::cli::App;
use crate::commands::CommandAnswer;
use crate::commands::list::ListedPlan;
use crate::error::CommandError;
use crate::{home, ui};

pub fn run(app: &App) -> Result<CommandAnswer, CommandError> {
    let overview = api::overview::get_overview(app.lifecycle()?, &home::current_caller())?;
    let mut text = String::new();
    let mut needs_me = Vec::new();
    for summary in overview.needs_me {
        let listed = ListedPlan::new(app, summary)?;
        let standing = ui::style_standing(listed.summary.standing);
        text.push_str(&describe_plan(app, &listed, &standing));
        needs_me.push(listed);
    }
    let mut interrupted = Vec::new();
    for summary in overview.interrupted {
        let listed = ListedPlan::new(app, summary)?;
        let standing = ui::style_text(ui::WARN, "interrupted: its process has ended");
        text.push_str(&describe_plan(app, &listed, &standing));
        interrupted.push(listed);
    }
    let mut unfinished: Vec<PlanId> = Vec::new();
    for summary in overview.unfinished_landings {
        let first = summary.next_steps.first();
        let next = first.map(|step| app.command_for_step(summary.plan_id, step));
        let listed = ListedPlan {
            next: next.transpose()?,
            summary,
        };
        let standing = ui::style_text(ui::WARN, "its landing was interrupted");
        text.push_str(&describe_plan(app, &listed, &standing));
        unfinished.push(listed.summary.plan_id);
    }
    if text.is_empty() {
        text.push_str(match overview.has_plans {
            true => "Nothing needs you.\n",
            false => "No plans yet.\n",
        });
    }
    let mut running = Vec::new();
    for summary in overview.running {
        text.push_str(&format!(
            "{}  {}  {}\n",
            ui::style_text(ui::BOLD, &summary.handle),
            ui::style_standing(summary.standing),
            ui::truncate_line(&summary.goal, 70),
        ));
        running.push(ListedPlan::new(app, summary)?);
    }
    let waiting: Vec<WaitingView> = overview
        .waiting
        .into_iter()
        .map(|waiting| WaitingView::new(app, waiting))
        .collect::<Result<_, _>>()?;
    text.push_str(&describe_waiting(app, &waiting));
    let data = json!({
        "needs_me": needs_me,
        "more": overview.more,
        "unfinished_landings": unfinished,
        "interrupted": interrupted,
        "running": running,
        "waiting": waiting,
    });
    let mut answer = CommandAnswer::new(data, text);
    if overview.more {
        answer = answer.with_hint("planwright list --needs-me");
    } else if !overview.has_plans {
        answer = answer
            .with_hint("planwright run \"GOAL\"")
            .with_hint("planwright demo")
            .with_hint("planwright help");
    }
    Ok(answer)
}

/// Returns a line about the plan, and its next command below.
fn describe_plan(app: &App, listed: &ListedPlan, standing: &str) -> String {
    let summary = &listed.summary;
    let next = app
        .invocation
        .render_hint(listed.next.as_deref().unwrap_or_default());
    format!(
        "{}  {standing}  {}\n    {}\n",
        ui::style_text(ui::BOLD, &summary.handle),
        ui::truncate_line(&summary.goal, 70),
        ui::style_text(ui::CODE, next),
    )
}

#[derive(Serialize)]
struct WaitingView {
    #[serde(flatten)]
    summary: PlanSummary,
    /// What it is waiting for, as a phrase.
    waits: String,
    reason: WaitReason,
    next: Option<String>,
}

impl WaitingView {
    fn new(app: &App, waiting: WaitingPlan) -> Result<Self, CommandError> {
        let WaitingPlan { summary, reason } = waiting;
        // One worker serves all plans that wait for any, so that is the step to share.
        let mut steps = summary.next_steps.iter();
        let worker = steps.find(|step| **step == NextStep::StartWorker);
        let next = worker.or(summary.next_steps.first());
        let next = next.map(|step| app.command_for_step(summary.plan_id, step));
        Ok(Self {
            next: next.transpose()?,
            waits: describe_wait(&reason),
            reason,
            summary,
        })
    }
}

pub fn describe_wait(reason: &WaitReason) -> String {
    match reason {
        WaitReason::Worker => "waits for a worker".to_owned(),
        WaitReason::Host { host } => format!("waits for host {host}"),
        WaitReason::ProjectPaused { project, by, .. } => {
            format!("project `{project}` was paused by {by}")
        }
        WaitReason::ProjectDeleted { project } => format!("project `{project}` was deleted"),
    }
}

/// Lists waiting plans. Neighbours with the same next command share one line for it.
fn describe_waiting(app: &App, waiting: &[WaitingView]) -> String {
    let mut text = String::new();
    for (number, one) in waiting.iter().enumerate() {
        text.push_str(&format!(
            "{}  {}  {}\n",
            ui::style_text(ui::BOLD, &one.summary.handle),
            ui::style_text(ui::DIM, &one.waits),
            ui::truncate_line(&one.summary.goal, 70),
        ));
        let after = waiting.get(number + 1);
        if after.is_none_or(|after| after.next != one.next) {
            let next = one.next.as_deref().unwrap_or_default();
            let next = app.invocation.render_hint(next);
            text.push_str(&format!("    {}\n", ui::style_text(ui::CODE, next)));
        }
    }
    text
}
