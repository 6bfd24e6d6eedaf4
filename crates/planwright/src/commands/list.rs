//! `planwright list`.

use plan::ledger::Means;
use plan::plan::Origin;
use plan::stage::StateName;
use plan::{Name, Phase, PlanId};
use serde_json::json;
use store::{PlanFilter, PlanRow};

use crate::cli::App;
use crate::commands::Answer;
use crate::commands::undone::Undone;
use crate::error::CommandError;
use crate::ui;
use crate::wire::{PlanSummary, UsedView};

/// List plans, newest first.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Plans of every project, also from within a repository.
    #[arg(long)]
    all: bool,
    /// Only plans of this project; within a repository, those of its own projects.
    #[arg(long, conflicts_with = "all")]
    project: Option<Name>,
    /// Only plans in this phase: strategize, execute or apply.
    #[arg(long)]
    phase: Option<Phase>,
    /// Only plans in this state, such as queued or errored.
    #[arg(long)]
    state: Option<StateName>,
    /// Only plans made of this action.
    #[arg(long)]
    action: Option<Name>,
    /// Only plans that wait for a person.
    #[arg(long)]
    needs_me: bool,
    /// Also show what each cost.
    #[arg(long)]
    cost: bool,
    /// At most so many.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=500))]
    limit: u16,
    /// Go on after this plan, the last of the page before.
    #[arg(long, value_name = "ID")]
    after: Option<PlanId>,
}

impl Args {
    /// The command for the next page: the same plans, the same length.
    fn next_page(&self, after: PlanId) -> String {
        let mut command = "planwright list".to_owned();
        if self.all {
            command.push_str(" --all");
        }
        if let Some(project) = &self.project {
            command.push_str(&format!(" --project {project}"));
        }
        if let Some(phase) = self.phase {
            command.push_str(&format!(" --phase {phase}"));
        }
        if let Some(state) = self.state {
            command.push_str(&format!(" --state {state}"));
        }
        if let Some(action) = &self.action {
            command.push_str(&format!(" --action {action}"));
        }
        if self.needs_me {
            command.push_str(" --needs-me");
        }
        if self.cost {
            command.push_str(" --cost");
        }
        format!("{command} --limit {} --after {after}", self.limit)
    }
}

/// Shows a page of plans.
pub fn run(args: &Args, app: &App) -> Result<Answer, CommandError> {
    let filter = PlanFilter {
        phase: args.phase,
        state: args.state,
        action: args.action.clone(),
        needs_person: args.needs_me,
        project: None,
    };
    let of = match &args.project {
        Some(project) => Some(vec![project.clone()]),
        None if args.all => None,
        None => app.projects_of_repository()?,
    };
    let of = of.as_deref();
    let limit = usize::from(args.limit);
    let mut rows = app.plans(&filter, of, args.after, limit + 1)?;
    let more = rows.len() > limit;
    rows.truncate(limit);
    let mut undone = match args.after {
        // On the first page every newer plan is in sight.
        None => Undone::default(),
        Some(_) => Undone::by_the_newest(app, &filter, of)?,
    };
    undone.look_at(&rows);
    let now = app.clock.now();
    let mut table = if args.cost {
        ui::Table::new(["PLAN", "STANDING", "PHASE", "CHANGED", "COST", "GOAL"])
    } else {
        ui::Table::new(["PLAN", "STANDING", "PHASE", "CHANGED", "GOAL"])
    };
    let mut summaries = Vec::new();
    for row in &rows {
        let mut summary = summary(app, row)?;
        let (mut standing, mut style) = app.standing(row)?;
        summary.undone_by = undone.by(row.plan.id);
        if summary.undone_by.is_some() {
            (standing, style) = (UNDONE, ui::DIM);
            summary.standing = UNDONE;
        }
        let goal = goal(app, &summary)?;
        let mut cells = vec![
            (summary.handle.clone(), ui::BOLD),
            (standing.to_owned(), style),
            (summary.phase.to_owned(), ui::DIM),
            (ui::age(now, row.plan.updated_at), ui::DIM),
        ];
        if args.cost {
            let account = app.lifecycle()?.ledger(row.plan.id)?.plan;
            let limit = row.plan.limits.of(Means::Cost);
            let spent = ui::spent(Means::Cost, account.settled.cost, limit);
            cells.push((spent, anstyle::Style::new()));
            summary.used = Some(UsedView::new(&account));
        }
        cells.push((ui::one_line(&goal, 60), anstyle::Style::new()));
        table.row(cells);
        summaries.push(summary);
    }
    let next = rows.last().filter(|_| more).map(|row| row.plan.id);
    let of_the_repository = args.project.is_none() && of.is_some();
    let text = if rows.is_empty() && of_the_repository {
        "No plans of this repository.\n".to_owned()
    } else if rows.is_empty() {
        "No plans.\n".to_owned()
    } else {
        table.to_string()
    };
    let mut answer = Answer::new(json!({ "plans": summaries, "next": next }), text);
    if let Some(next) = next {
        answer = answer.hint(args.next_page(next));
    } else if rows.is_empty() && of_the_repository {
        answer = answer.hint("planwright list --all");
    }
    Ok(answer)
}

/// Where a plan stands that was taken back.
pub const UNDONE: &str = "undone";

/// The goal as a list shows it: of a plan that takes another back, which.
fn goal(app: &App, summary: &PlanSummary) -> Result<String, CommandError> {
    let Some(of) = summary.undo_of else {
        return Ok(summary.goal.clone());
    };
    let of = app.lifecycle()?.short_name(of)?;
    let goal = summary.goal.strip_prefix("Undo: ");
    let goal = goal.unwrap_or(&summary.goal);
    Ok(format!("Undo of {of}: {goal}"))
}

/// A plan as a row of a list.
pub fn summary(app: &App, row: &PlanRow) -> Result<PlanSummary, CommandError> {
    Ok(PlanSummary {
        plan_id: row.plan.id,
        handle: app.lifecycle()?.short_name(row.plan.id)?,
        goal: row.plan.goal.first_line().to_owned(),
        action: row.plan.action.as_ref().map(ToString::to_string),
        phase: row.plan.phase().as_str(),
        state: row.plan.stage.state().as_str(),
        standing: app.standing(row)?.0,
        version: row.plan.version.0,
        needs_person: row.needs_person(),
        updated_at: row.plan.updated_at,
        next: app.next_command(row)?,
        undo_of: match row.plan.origin {
            Origin::UndoOf(of) => Some(of),
            Origin::Use | Origin::RestOf(_) => None,
        },
        undone_by: None,
        used: None,
    })
}
