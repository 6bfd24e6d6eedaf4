//! Bare `planwright`: what needs me, each with its next command.

use lifecycle::{Lifecycle, Mendable, Obstacle};
use plan::PlanId;
use plan::stage::StateName;
use serde_json::json;
use store::PlanFilter;

use crate::cli::App;
use crate::commands::{Answer, is_workable, list, why};
use crate::error::CommandError;
use crate::ui;
use crate::wire::PlanSummary;

/// How many are shown.
const SHOWN: usize = 20;

/// How many plans that are worked on are looked at.
const MOST_HELD: usize = 500;

/// What needs the person who asks.
pub fn run(app: &App) -> Result<Answer, CommandError> {
    let lifecycle = app.lifecycle()?;
    let filter = PlanFilter {
        needs_person: true,
        ..PlanFilter::default()
    };
    let rows = lifecycle.list_plans(&filter, None, SHOWN + 1)?;
    let more = rows.len() > SHOWN;
    let mut summaries = Vec::new();
    let mut text = String::new();
    for row in rows.iter().take(SHOWN) {
        let summary = list::summary(app, row)?;
        let (standing, style) = app.standing(row)?;
        text.push_str(&format!(
            "{}  {}  {}\n    {}\n",
            ui::styled(ui::BOLD, &summary.handle),
            ui::styled(style, standing),
            ui::one_line(&summary.goal, 70),
            ui::styled(
                ui::CODE,
                app.typed.hint(summary.next.as_deref().unwrap_or_default())
            ),
        ));
        summaries.push(summary);
    }
    let unfinished = unfinished(lifecycle);
    let interrupted = interrupted(app, &unfinished)?;
    for summary in &interrupted {
        text.push_str(&format!(
            "{}  {}  {}\n    {}\n",
            ui::styled(ui::BOLD, &summary.handle),
            ui::styled(ui::WARN, "interrupted: nobody is working on it any more"),
            ui::one_line(&summary.goal, 70),
            ui::styled(
                ui::CODE,
                app.typed.hint(summary.next.as_deref().unwrap_or_default())
            ),
        ));
    }
    for plan in &unfinished {
        text.push_str(&format!(
            "{}  {}\n    {}\n",
            ui::styled(ui::BOLD, lifecycle.short_name(*plan)?),
            ui::styled(ui::WARN, "its landing was cut off half done"),
            ui::styled(ui::CODE, app.typed.hint("planwright doctor --fix")),
        ));
    }
    if text.is_empty() {
        text.push_str("Nothing needs you.\n");
    }
    let waiting = waiting(app)?;
    text.push_str(&waiting_words(app, &waiting));
    let data = json!({
        "needs_me": summaries,
        "more": more,
        "unfinished_landings": unfinished,
        "interrupted": interrupted,
        "waiting": waiting,
    });
    let mut answer = Answer::new(data, text);
    if more {
        answer = answer.hint("planwright list --needs-me");
    } else if rows.is_empty()
        && lifecycle
            .list_plans(&PlanFilter::default(), None, 1)?
            .is_empty()
    {
        answer = answer.hint("planwright demo").hint("planwright help");
    }
    Ok(answer)
}

/// A plan that nobody works on.
#[derive(serde::Serialize)]
struct Waiting {
    #[serde(flatten)]
    summary: PlanSummary,
    /// For whom or what it waits.
    waits: String,
}

/// Plans that nobody works on: left to a worker, given up by one, or kept from all of them.
fn waiting(app: &App) -> Result<Vec<Waiting>, CommandError> {
    let filter = PlanFilter {
        state: Some(StateName::Queued),
        ..PlanFilter::default()
    };
    let lifecycle = app.lifecycle()?;
    let rows = lifecycle.list_plans(&filter, None, SHOWN)?;
    let mut waiting = Vec::new();
    for row in rows.iter().filter(|row| !row.needs_person()) {
        let mut summary = list::summary(app, row)?;
        let obstacle = lifecycle.obstacle(&row.plan)?;
        let next = match &obstacle {
            Some(obstacle) => why::way_round(obstacle),
            None => is_workable(&row.plan).then(|| "planwright work".to_owned()),
        };
        // Otherwise no worker of ours can do anything for it.
        summary.next = Some(next.unwrap_or_else(|| format!("planwright why {}", summary.handle)));
        let waits = match &obstacle {
            None => "waits for a worker".to_owned(),
            Some(Obstacle::Project(refusal)) => refusal.to_string(),
            Some(Obstacle::Host(host)) => format!("waits for host {host}"),
        };
        waiting.push(Waiting { summary, waits });
    }
    Ok(waiting)
}

/// Those with the same next command stand above it together.
fn waiting_words(app: &App, waiting: &[Waiting]) -> String {
    let mut text = String::new();
    for (number, Waiting { summary, waits }) in waiting.iter().enumerate() {
        text.push_str(&format!(
            "{}  {}  {}\n",
            ui::styled(ui::BOLD, &summary.handle),
            ui::styled(ui::DIM, waits),
            ui::one_line(&summary.goal, 70),
        ));
        let after = waiting
            .get(number + 1)
            .and_then(|other| other.summary.next.as_ref());
        if after != summary.next.as_ref() {
            let next = app.typed.hint(summary.next.as_deref().unwrap_or_default());
            text.push_str(&format!("    {}\n", ui::styled(ui::CODE, next)));
        }
    }
    text
}

/// Plans whose process ended without giving them back. A worker that runs takes them over by itself.
fn interrupted(app: &App, unfinished: &[PlanId]) -> Result<Vec<PlanSummary>, CommandError> {
    let filter = PlanFilter {
        state: Some(StateName::Processing),
        ..PlanFilter::default()
    };
    let rows = app.lifecycle()?.list_plans(&filter, None, MOST_HELD)?;
    let mut interrupted = Vec::new();
    for row in rows.iter().filter(|row| !unfinished.contains(&row.plan.id)) {
        if interrupted.len() < SHOWN && app.is_interrupted(row)? {
            interrupted.push(list::summary(app, row)?);
        }
    }
    Ok(interrupted)
}

/// Landings that a killed process left half done on this host. Where nothing can be landed from, there
/// are none.
fn unfinished(lifecycle: &Lifecycle) -> Vec<PlanId> {
    let found = lifecycle.mendable().unwrap_or_default();
    let landings = found.into_iter().filter_map(|one| match one {
        Mendable::Landing(plan) => Some(plan),
        Mendable::Remains(_) => None,
    });
    landings.collect()
}
