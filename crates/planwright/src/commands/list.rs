//! `planwright list`: lists plans, page by page.

use plan::ledger::BudgetUnit;
use plan::plan::PlanOrigin;
use plan::stage::StateName;
use plan::{Phase, PlanId, QualifiedName};
use serde_json::json;
use store::{PlanFilter, PlanRow};

use crate::cli::App;
use crate::commands::CommandAnswer;
use crate::commands::undone_plans::UndonePlans;
use crate::error::CommandError;
use crate::ui;
use api::PlanStanding;
use api::view::{PlanSummary, UsageView};

/// List plans, newest first
#[derive(Debug, clap::Args)]
pub struct ListArgs {
    /// List plans of all projects, not only of the current repository
    #[arg(long)]
    all: bool,
    /// List only plans of this project
    #[arg(long, conflicts_with = "all")]
    project: Option<QualifiedName>,
    /// List only plans in this phase: strategize, execute or apply
    #[arg(long)]
    phase: Option<Phase>,
    /// List only plans in this state, such as queued or errored
    #[arg(long)]
    state: Option<StateName>,
    /// List only plans of this action
    #[arg(long)]
    action: Option<QualifiedName>,
    /// List only plans that need you
    #[arg(long)]
    needs_me: bool,
    /// Show what each plan has cost
    #[arg(long)]
    cost: bool,
    /// Maximum number of plans to list
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=500))]
    limit: u16,
    /// Start after this plan, the last one on the previous page
    #[arg(long, value_name = "ID")]
    after: Option<PlanId>,
}

impl ListArgs {
    /// Returns the command for the next page, with the same filters.
    fn next_page_command(&self, after: PlanId) -> String {
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

pub fn run(args: &ListArgs, app: &App) -> Result<CommandAnswer, CommandError> {
    let filter = PlanFilter {
        phase: args.phase,
        state: args.state,
        action: args.action.clone(),
        needs_person: args.needs_me,
        project: None,
        origin: None,
    };
    let projects = match &args.project {
        Some(project) => Some(vec![project.clone()]),
        None if args.all => None,
        None => app.repository_projects()?,
    };
    let projects = projects.as_deref();
    let limit = usize::from(args.limit);
    let mut rows = app.list_plans(&filter, projects, args.after, limit + 1)?;
    let more = rows.len() > limit;
    rows.truncate(limit);
    let mut undone_plans = match args.after {
        // On the first page, `rows` already contains every newer plan.
        None => UndonePlans::default(),
        Some(_) => UndonePlans::from_newest_plans(app, &filter, projects)?,
    };
    undone_plans.add_rows(&rows);
    let now = app.clock.now();
    let mut table = if args.cost {
        ui::TextTable::new(["PLAN", "STANDING", "PHASE", "CHANGED", "COST", "GOAL"])
    } else {
        ui::TextTable::new(["PLAN", "STANDING", "PHASE", "CHANGED", "GOAL"])
    };
    let mut summaries = Vec::new();
    for row in &rows {
        let mut summary = summarize_plan(app, row)?;
        summary.undone_by = undone_plans.undoing_plan(row.plan.id());
        if summary.undone_by.is_some() {
            summary.standing = PlanStanding::Undone;
        }
        let goal = goal_cell(app, &summary)?;
        let mut cells = vec![
            (summary.handle.clone(), ui::BOLD),
            (
                summary.standing.as_str().to_owned(),
                ui::standing_style(summary.standing),
            ),
            (summary.phase.to_owned(), ui::DIM),
            (ui::format_age(now, row.plan.updated_at()), ui::DIM),
        ];
        if args.cost {
            let account = app.lifecycle()?.budgets().read_ledger(row.plan.id())?.plan;
            let limit = row.plan.limits().limit_for(BudgetUnit::Cost);
            let spent = ui::format_spent(BudgetUnit::Cost, account.settled.cost, limit);
            cells.push((spent, anstyle::Style::new()));
            summary.used = Some(UsageView::new(&account));
        }
        cells.push((ui::truncate_line(&goal, 60), anstyle::Style::new()));
        table.add_row(cells);
        summaries.push(summary);
    }
    let next = rows.last().filter(|_| more).map(|row| row.plan.id());
    let in_repository = args.project.is_none() && projects.is_some();
    let text = if rows.is_empty() && in_repository {
        "No plans for this repository.\n".to_owned()
    } else if rows.is_empty() {
        "No plans.\n".to_owned()
    } else {
        table.to_string()
    };
    let mut answer = CommandAnswer::new(json!({ "plans": summaries, "next": next }), text);
    if let Some(next) = next {
        answer = answer.with_hint(args.next_page_command(next));
    } else if rows.is_empty() && in_repository {
        answer = answer.with_hint("planwright list --all");
    }
    Ok(answer)
}

/// Returns the goal; for an undo, with the handle of the undone plan.
fn goal_cell(app: &App, summary: &PlanSummary) -> Result<String, CommandError> {
    let Some(of) = summary.undo_of else {
        return Ok(summary.goal.clone());
    };
    let of = app.lifecycle()?.short_handle(of)?;
    let goal = summary.goal.strip_prefix("Undo: ");
    let goal = goal.unwrap_or(&summary.goal);
    Ok(format!("Undo of {of}: {goal}"))
}

pub fn summarize_plan(app: &App, row: &PlanRow) -> Result<PlanSummary, CommandError> {
    Ok(PlanSummary {
        plan_id: row.plan.id(),
        handle: app.lifecycle()?.short_handle(row.plan.id())?,
        goal: row.plan.goal().first_line().to_owned(),
        action: row.plan.action().map(ToString::to_string),
        phase: row.plan.phase().as_str(),
        state: row.plan.stage().state_name().as_str(),
        standing: api::plans::find_standing(app.lifecycle()?, row)?,
        version: row.plan.version().0,
        needs_person: row.needs_person(),
        updated_at: row.plan.updated_at(),
        next: app.next_command(row)?,
        undo_of: match row.plan.origin() {
            PlanOrigin::UndoOf(of) => Some(of),
            PlanOrigin::Use | PlanOrigin::RestOf(_) => None,
        },
        undone_by: None,
        used: None,
    })
}
