//! Bare `planwright`: what needs me, each with its next command.

use lifecycle::{ClaimObstacle, CrashRemnant, Lifecycle};
use plan::PlanId;
use plan::stage::StateName;
use serde_json::json;
use store::PlanFilter;

use crate::cli::App;
use crate::commands::{CommandAnswer, is_workable, list, why};
use crate::error::CommandError;
use crate::ui;
use crate::wire::PlanSummary;

/// How many are shown.
const MAX_SHOWN_PLANS: usize = 20;

/// How many plans that are worked on are looked at.
const MAX_HELD_PLANS: usize = 500;

/// What needs the person who asks.
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
        let (standing, style) = app.plan_standing(row)?;
        text.push_str(&format!(
            "{}  {}  {}\n    {}\n",
            ui::style_text(ui::BOLD, &summary.handle),
            ui::style_text(style, standing),
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
            ui::style_text(ui::WARN, "interrupted: nobody is working on it any more"),
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
            ui::style_text(ui::WARN, "its landing was cut off half done"),
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

/// A plan that nobody works on.
#[derive(serde::Serialize)]
struct WaitingPlan {
    #[serde(flatten)]
    summary: PlanSummary,
    /// For whom or what it waits.
    waits: String,
}

/// Plans that nobody works on: left to a worker, given up by one, or kept from all of them.
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
        // Otherwise no worker of ours can do anything for it.
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

/// Those with the same next command stand above it together.
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

/// Plans whose process ended without giving them back. A worker that runs takes them over by itself.
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
    for row in rows.iter().filter(|row| !unfinished.contains(&row.plan.id)) {
        if interrupted.len() < MAX_SHOWN_PLANS && app.is_interrupted(row)? {
            interrupted.push(list::summarize_plan(app, row)?);
        }
    }
    Ok(interrupted)
}

/// Landings that a killed process left half done on this host. Where nothing can be landed from, there
/// are none.
fn list_unfinished_landings(lifecycle: &Lifecycle) -> Vec<PlanId> {
    let found = lifecycle.find_crash_remnants().unwrap_or_default();
    let landings = found.into_iter().filter_map(|one| match one {
        CrashRemnant::UnfinishedLanding(plan) => Some(plan),
        CrashRemnant::LeftoverSandboxes(_) => None,
    });
    landings.collect()
}
