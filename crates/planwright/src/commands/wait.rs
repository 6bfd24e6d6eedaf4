//! `planwright wait`: blocks until plans reach a condition.

use std::time::{Duration, Instant};

use clap::ValueEnum;
use plan::stage::ApplyState;
use plan::{PlanId, PlanStage, Span};
use serde_json::json;
use store::PlanRow;

use crate::cli::App;
use crate::commands::{CommandAnswer, PlanArg, list};
use crate::completion;
use crate::error::CommandError;
use crate::exit::CommandExit;
use crate::ui;

/// Wait until plans need you, land or end
#[derive(Debug, clap::Args)]
pub struct WaitArgs {
    /// Plan IDs or handles [default: the plan last used here]
    #[arg(value_name = "PLAN", add = completion::plans())]
    ids: Vec<String>,
    /// Condition to wait for
    #[arg(long, value_enum, default_value_t = WaitCondition::NeedsMe)]
    until: WaitCondition,
    /// Give up after this time, as in 90s, 20m or 2h
    #[arg(long, value_name = "TIME")]
    timeout: Option<Span>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum WaitCondition {
    /// Every plan needs a person or has ended
    NeedsMe,
    /// Every plan landed, or stopped without landing
    Landed,
    /// Every plan landed or was cancelled
    Final,
}

/// When to read the plans again without a commit: a notification can be lost.
const READ_INTERVAL: Duration = Duration::from_secs(2);

pub fn run(args: &WaitArgs, app: &App) -> Result<CommandAnswer, CommandError> {
    let lifecycle = app.lifecycle()?;
    let plans: Vec<PlanId> = match args.ids.is_empty() {
        true => vec![PlanArg::default().resolve(app)?],
        false => {
            let ids = args.ids.iter();
            ids.map(|id| app.resolve_plan(id))
                .collect::<Result<_, _>>()?
        }
    };
    let mut commits = lifecycle.watch_commits()?;
    let started = Instant::now();
    let timeout = args.timeout.map(Span::as_duration);
    loop {
        let rows: Vec<PlanRow> = plans
            .iter()
            .map(|plan| lifecycle.get_plan(*plan))
            .collect::<Result<_, _>>()?;
        if rows.iter().all(|row| args.until.is_reached(row)) {
            return describe_plans(app, &rows, args.until.exit_for(&rows));
        }
        if timeout.is_some_and(|timeout| started.elapsed() >= timeout) {
            return describe_plans(app, &rows, CommandExit::TimedOut);
        }
        let left = timeout.map_or(READ_INTERVAL, |timeout| {
            timeout.saturating_sub(started.elapsed())
        });
        commits.wait_for_commit(left.min(READ_INTERVAL))?;
    }
}

impl WaitCondition {
    fn is_reached(self, row: &PlanRow) -> bool {
        match self {
            Self::NeedsMe => row.needs_person() || row.plan.stage().is_final(),
            Self::Landed => row.plan.stage().is_final() || has_halted(row),
            Self::Final => row.plan.stage().is_final(),
        }
    }

    fn exit_for(self, rows: &[PlanRow]) -> CommandExit {
        let landed =
            |row: &PlanRow| matches!(row.plan.stage(), PlanStage::Apply(ApplyState::Applied(_)));
        let failed =
            |row: &PlanRow| row.plan.stage().failure().is_some() || row.plan.stage().is_final();
        let is_good = |row: &PlanRow| match self {
            Self::NeedsMe => landed(row) || !failed(row),
            Self::Landed | Self::Final => landed(row),
        };
        match rows.iter().all(is_good) {
            true => CommandExit::Ok,
            false => CommandExit::NotLanded,
        }
    }
}

/// Returns whether the plan failed or is constrained, so that approving it would not help.
fn has_halted(row: &PlanRow) -> bool {
    let constrained = matches!(
        row.plan.stage(),
        PlanStage::Apply(ApplyState::Constrained(_))
    );
    constrained || row.plan.stage().failure().is_some()
}

fn describe_plans(
    app: &App,
    rows: &[PlanRow],
    exit: CommandExit,
) -> Result<CommandAnswer, CommandError> {
    let mut text = String::new();
    let mut summaries = Vec::new();
    for row in rows {
        let listed = list::describe_listed_plan(app, row)?;
        let summary = &listed.summary;
        text.push_str(&format!(
            "{}  {}  {}\n",
            ui::style_text(ui::BOLD, &summary.handle),
            ui::style_standing(summary.standing),
            ui::truncate_line(&summary.goal, 60)
        ));
        summaries.push(listed);
    }
    let next = summaries.iter().find_map(|listed| listed.next.clone());
    let mut answer = CommandAnswer::new(json!({ "plans": summaries }), text);
    answer.exit = exit;
    Ok(match next {
        Some(next) => answer.with_hint(next),
        None => answer,
    })
}
