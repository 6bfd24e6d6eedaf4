//! `planwright wait`.

use std::time::{Duration, Instant};

use clap::ValueEnum;
use plan::stage::Landing;
use plan::{PlanId, Span, Stage};
use serde_json::json;
use store::PlanRow;

use crate::cli::App;
use crate::commands::{Answer, list};
use crate::error::CommandError;
use crate::exit::Exit;
use crate::ui;

/// Wait for plans to get somewhere.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The plans.
    #[arg(required = true, value_name = "ID")]
    ids: Vec<String>,
    /// What to wait for.
    #[arg(long, value_enum, default_value_t = Until::NeedsMe)]
    until: Until,
    /// Give up after, as in 90s, 20m or 2h.
    #[arg(long, value_name = "TIME")]
    timeout: Option<Span>,
}

/// What to wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Until {
    /// A person has to do something, or it ended.
    NeedsMe,
    /// It landed, or halted without.
    Landed,
    /// It landed or was cancelled.
    Final,
}

/// How long is waited for a commit before looking anew.
const LOOK: Duration = Duration::from_millis(500);

/// Waits.
pub fn run(args: &Args, app: &App) -> Result<Answer, CommandError> {
    let lifecycle = app.lifecycle()?;
    let plans: Vec<PlanId> = args
        .ids
        .iter()
        .map(|id| app.plan(id))
        .collect::<Result<_, _>>()?;
    let began = Instant::now();
    let timeout = args.timeout.map(Span::as_duration);
    loop {
        let rows: Vec<PlanRow> = plans
            .iter()
            .map(|plan| lifecycle.get_plan(*plan))
            .collect::<Result<_, _>>()?;
        if rows.iter().all(|row| args.until.is_reached(row)) {
            return answer(app, &rows, args.until.exit(&rows));
        }
        if timeout.is_some_and(|timeout| began.elapsed() >= timeout) {
            return answer(app, &rows, Exit::TimedOut);
        }
        let left = timeout.map_or(LOOK, |timeout| timeout.saturating_sub(began.elapsed()));
        lifecycle.store().wait(left.min(LOOK))?;
    }
}

impl Until {
    fn is_reached(self, row: &PlanRow) -> bool {
        match self {
            Self::NeedsMe => row.needs_person() || row.plan.stage.is_final(),
            Self::Landed => row.plan.stage.is_final() || has_halted(row),
            Self::Final => row.plan.stage.is_final(),
        }
    }

    fn exit(self, rows: &[PlanRow]) -> Exit {
        let landed = |row: &PlanRow| matches!(row.plan.stage, Stage::Apply(Landing::Applied(_)));
        match self {
            Self::Landed if !rows.iter().all(landed) => Exit::NotLanded,
            Self::NeedsMe | Self::Landed | Self::Final => Exit::Ok,
        }
    }
}

/// It goes no further, whoever signs it: it failed, or cannot land as it is.
fn has_halted(row: &PlanRow) -> bool {
    let constrained = matches!(row.plan.stage, Stage::Apply(Landing::Constrained(_)));
    constrained || row.plan.stage.failure().is_some()
}

fn answer(app: &App, rows: &[PlanRow], exit: Exit) -> Result<Answer, CommandError> {
    let mut text = String::new();
    let mut summaries = Vec::new();
    for row in rows {
        let summary = list::summary(app, row)?;
        let (standing, style) = app.standing(row)?;
        text.push_str(&format!(
            "{}  {}  {}\n",
            ui::styled(ui::BOLD, &summary.handle),
            ui::styled(style, standing),
            ui::one_line(&summary.goal, 60)
        ));
        summaries.push(summary);
    }
    let next = summaries.iter().find_map(|summary| summary.next.clone());
    let mut answer = Answer::new(json!({ "plans": summaries }), text);
    answer.exit = exit;
    Ok(match next {
        Some(next) => answer.hint(next),
        None => answer,
    })
}
