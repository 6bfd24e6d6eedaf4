//! Bare `planwright`: what needs me, each with its next command.

use lifecycle::{Lifecycle, Mendable};
use plan::PlanId;
use serde_json::json;
use store::PlanFilter;

use crate::cli::App;
use crate::commands::{Answer, list};
use crate::error::CommandError;
use crate::ui;

/// How many are shown.
const SHOWN: usize = 20;

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
        let (standing, style) = ui::standing(row);
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
    let data = json!({ "needs_me": summaries, "more": more, "unfinished_landings": unfinished });
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
