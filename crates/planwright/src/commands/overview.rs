//! Bare `planwright`: lists what needs the user, each with its next command.

use lifecycle::{ClaimObstacle, CrashRemnant, Lifecycle};
use plan::PlanId;
use plan::stage::StateName;
use serde_json::json;
use store::PlanFilter;

use crate::cli::App;
use crate::commands::{CommandAnswer, is_workable, list, why};
use crate::error::CommandError;
use crate::ui;
use api::view::PlanSummary;

const MAX_SHOWN_PLANS: usize = 20;

/// Held plans that are checked for dead holders.
const MAX_HELD_PLANS: usize = 500;

pub fn run(app: &App) -> Result<CommandAnswer, CommandError> {
    let lifecycle = app.lifecycle()?;
    let filter = PlanFilter {
        needs_person: true,
        ..PlanFilter::default()
    };
    let rows = lifecycle.list_plans(&filter, None, MAX_SHOWN_PLANS + 1)?;
    let more = rows.len() > MAX_SHOWN_PLANS;
    let mut summaries = Vec::new();
    let mut text = String::new();
    for row in rows.iter().take(MAX_SHOWN_PLANS) {
        let summary = list::summarize_plan(app, row)?;
        text.push_str(&format!(
            "{}  {}  {}\n    {}\n",
            ui::style_text(ui::BOLD, &summary.handle),
            ui::style_standing(summary.standing),
            ui::truncate_line(&summary.goal, 70),
            ui::style_text(
                ui::CODE,
                app.invocation
                    .render_hint(summary.next.as_deref().unwrap_or_default())
            ),
        ));
        summaries.push(summary);
    }
    let unfinished = list_unfinished_landings(lifecycle);
    let interrupted = list_interrupted_plans(app, &unfinished)?;
    for summary in &interrupted {
        text.push_str(&format!(
            "{}  {}  {}\n    {}\n",
            ui::style_text(ui::BOLD, &summary.handle),
            ui::style_text(ui::WARN, "interrupted: its process has ended"),
            ui::truncate_line(&summary.goal, 70),
            ui::style_text(
                ui::CODE,
                app.invocation
                    .render_hint(summary.next.as_deref().unwrap_or_default())
            ),
        ));
    }
    for plan in &unfinished {
        text.push_str(&format!(
            "{}  {}\n    {}\n",
            ui::style_text(ui::BOLD, lifecycle.short_handle(*plan)?),
            ui::style_text(ui::WARN, "its landing was interrupted"),
            ui::style_text(
                ui::CODE,
                app.invocation.render_hint("planwright doctor --fix")
            ),
        ));
    }
    if text.is_empty() {
        text.push_str("Nothing needs you.\n");
    }
    let waiting = list_waiting_plans(app)?;
    text.push_str(&describe_waiting(app, &waiting));
    let data = json!({
        "needs_me": summaries,
        "more": more,
        "unfinished_landings": unfinished,
        "interrupted": interrupted,
        "waiting": waiting,
    });
    let mut answer = CommandAnswer::new(data, text);
    if more {
        answer = answer.with_hint("planwright list --needs-me");
    } else if rows.is_empty()
        && lifecycle
            .list_plans(&PlanFilter::default(), None, 1)?
            .is_empty()
    {
        answer = answer
            .with_hint("planwright demo")
            .with_hint("planwright help");
    }
    Ok(answer)
}

#[derive(serde::Serialize)]
struct WaitingPlan {
    #[serde(flatten)]
    summary: PlanSummary,
    /// What it is waiting for, as a phrase.
    waits: String,
}

/// Returns queued plans that do not need a person: waiting for a worker, a host or a paused project.
fn list_waiting_plans(app: &App) -> Result<Vec<WaitingPlan>, CommandError> {
    let filter = PlanFilter {
        state: Some(StateName::Queued),
        ..PlanFilter::default()
    };
    let lifecycle = app.lifecycle()?;
    let rows = lifecycle.list_plans(&filter, None, MAX_SHOWN_PLANS)?;
    let mut waiting = Vec::new();
    for row in rows.iter().filter(|row| !row.needs_person()) {
        let mut summary = list::summarize_plan(app, row)?;
        let obstacle = lifecycle.find_claim_obstacle(&row.plan)?;
        let next = match &obstacle {
            Some(obstacle) => why::obstacle_remedy(obstacle),
            None => is_workable(&row.plan).then(|| "planwright work".to_owned()),
        };
        // Without a remedy, no worker here can help; `why` explains.
        summary.next = Some(next.unwrap_or_else(|| format!("planwright why {}", summary.handle)));
        let waits = match &obstacle {
            None => "waits for a worker".to_owned(),
            Some(ClaimObstacle::Project(refusal)) => refusal.to_string(),
            Some(ClaimObstacle::Host(host)) => format!("waits for host {host}"),
        };
        waiting.push(WaitingPlan { summary, waits });
    }
    Ok(waiting)
}

/// Lists waiting plans. Neighbours with the same next command share one line for it.
fn describe_waiting(app: &App, waiting: &[WaitingPlan]) -> String {
    let mut text = String::new();
    for (number, WaitingPlan { summary, waits }) in waiting.iter().enumerate() {
        text.push_str(&format!(
            "{}  {}  {}\n",
            ui::style_text(ui::BOLD, &summary.handle),
            ui::style_text(ui::DIM, waits),
            ui::truncate_line(&summary.goal, 70),
        ));
        let after = waiting
            .get(number + 1)
            .and_then(|other| other.summary.next.as_ref());
        if after != summary.next.as_ref() {
            let next = app
                .invocation
                .render_hint(summary.next.as_deref().unwrap_or_default());
            text.push_str(&format!("    {}\n", ui::style_text(ui::CODE, next)));
        }
    }
    text
}

/// Returns plans whose holder ended without releasing them. A running worker takes them over.
fn list_interrupted_plans(
    app: &App,
    unfinished: &[PlanId],
) -> Result<Vec<PlanSummary>, CommandError> {
    let filter = PlanFilter {
        state: Some(StateName::Processing),
        ..PlanFilter::default()
    };
    let rows = app.lifecycle()?.list_plans(&filter, None, MAX_HELD_PLANS)?;
    let mut interrupted = Vec::new();
    for row in rows
        .iter()
        .filter(|row| !unfinished.contains(&row.plan.id()))
    {
        if interrupted.len() < MAX_SHOWN_PLANS && api::plans::is_interrupted(app.lifecycle()?, row)?
        {
            interrupted.push(list::summarize_plan(app, row)?);
        }
    }
    Ok(interrupted)
}

/// Returns landings that a crash interrupted on this host; none if this host cannot land.
fn list_unfinished_landings(lifecycle: &Lifecycle) -> Vec<PlanId> {
    let found = lifecycle
        .sandboxes()
        .find_crash_remnants()
        .unwrap_or_default();
    let landings = found.into_iter().filter_map(|one| match one {
        CrashRemnant::UnfinishedLanding(plan) => Some(plan),
        CrashRemnant::LeftoverSandboxes(_) => None,
    });
    landings.collect()
}
