//! `planwright list`: lists plans, page by page.

use plan::ledger::BudgetUnit;
use plan::stage::StateName;
use plan::{Phase, PlanId, QualifiedName};
use serde::Serialize;
use serde_json::json;
use store::{PlanFilter, PlanRow};

use crate::cli::App;
use crate::commands::CommandAnswer;
use crate::error::CommandError;
use crate::{completion, home, ui};
use api::plan_list::{self, PlanListRequest};
use api::view::PlanSummary;

/// List plans, newest first
#[derive(Debug, clap::Args)]
pub struct ListArgs {
    /// List plans of all projects, not only of the current repository
    #[arg(long)]
    all: bool,
    /// List only plans of this project
    #[arg(long, conflicts_with = "all", add = completion::projects())]
    project: Option<QualifiedName>,
    /// List only plans in this phase: strategize, execute or apply
    #[arg(long)]
    phase: Option<Phase>,
    /// List only plans in this state, such as queued or errored
    #[arg(long)]
    state: Option<StateName>,
    /// List only plans of this action
    #[arg(long, add = completion::actions())]
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
    let in_repository = args.project.is_none() && projects.is_some();
    let request = PlanListRequest {
        filter,
        projects,
        after: args.after,
        limit: usize::from(args.limit),
        with_usage: args.cost,
    };
    let lifecycle = app.lifecycle()?;
    let page = plan_list::list_plans(lifecycle, &request, &home::current_caller())?;
    if let (true, Some(project)) = (page.plans.is_empty(), &args.project) {
        // A deleted project may still have plans.
        lifecycle.projects().get_project(project)?;
    }
    let now = app.clock.now();
    let mut table = if args.cost {
        ui::TextTable::new(["PLAN", "STATE", "CHANGED", "COST", "GOAL"])
    } else {
        ui::TextTable::new(["PLAN", "STATE", "CHANGED", "GOAL"])
    };
    for FoldedPlan { summary, is_nested } in fold_derived_plans(&page.plans) {
        let goal = goal_cell(app, summary)?;
        let goal = match is_nested {
            true => format!("└ {goal}"),
            false => goal,
        };
        let mut cells = vec![
            (summary.handle.clone(), ui::BOLD),
            (
                summary.standing.as_str().to_owned(),
                ui::standing_style(summary.standing),
            ),
            (ui::format_age(now, summary.updated_at), ui::DIM),
        ];
        if let Some(used) = &summary.used {
            let spent = ui::format_spent(
                BudgetUnit::Cost,
                used.cost_micros,
                summary.cost_limit_micros,
            );
            cells.push((spent, anstyle::Style::new()));
        }
        cells.push((ui::truncate_line(&goal, 60), anstyle::Style::new()));
        table.add_row(cells);
    }
    let plans = page.plans.into_iter();
    let listed: Vec<ListedPlan> = plans
        .map(|summary| ListedPlan::new(app, summary))
        .collect::<Result<_, _>>()?;
    let is_empty = listed.is_empty();
    let text = if is_empty && in_repository {
        "No plans for this repository.\n".to_owned()
    } else if is_empty {
        "No plans.\n".to_owned()
    } else {
        table.to_string()
    };
    let mut answer = CommandAnswer::new(json!({ "plans": listed, "next": page.next }), text);
    if let Some(next) = page.next {
        answer = answer.with_hint(args.next_page_command(next));
    } else if is_empty && in_repository {
        answer = answer.with_hint("planwright list --all");
    }
    Ok(answer)
}

/// A row of the list.
struct FoldedPlan<'a> {
    summary: &'a PlanSummary,
    /// It undoes the plan above it, or holds its rest.
    is_nested: bool,
}

/// Moves undos and rests below their plan, if both are on this page.
fn fold_derived_plans(plans: &[PlanSummary]) -> Vec<FoldedPlan<'_>> {
    let origin_of = |plan: &PlanSummary| {
        let origin = plan.undo_of.or(plan.rest_of)?;
        plans
            .iter()
            .any(|one| one.plan_id == origin)
            .then_some(origin)
    };
    let mut folded = Vec::new();
    // Plans to list, the next one last. A plan that was derived from a derived one is nested, too.
    let mut waiting: Vec<(&PlanSummary, bool)> = plans
        .iter()
        .rev()
        .filter(|plan| origin_of(plan).is_none())
        .map(|plan| (plan, false))
        .collect();
    while let Some((summary, is_nested)) = waiting.pop() {
        folded.push(FoldedPlan { summary, is_nested });
        let derived = plans
            .iter()
            .filter(|plan| origin_of(plan) == Some(summary.plan_id));
        waiting.extend(derived.map(|plan| (plan, true)));
    }
    folded
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

/// A summary with the command that continues the plan.
#[derive(Debug, Serialize)]
pub struct ListedPlan {
    #[serde(flatten)]
    pub summary: PlanSummary,
    /// Set if the plan waits for a person or was interrupted.
    pub next: Option<String>,
}

impl ListedPlan {
    pub fn new(app: &App, summary: PlanSummary) -> Result<Self, CommandError> {
        let step = summary.step_to_continue();
        let next = step.map(|step| app.command_for_step(summary.plan_id, step));
        let next = next.transpose()?;
        Ok(Self { summary, next })
    }
}

pub fn describe_listed_plan(app: &App, row: &PlanRow) -> Result<ListedPlan, CommandError> {
    let caller = home::current_caller();
    let summary = plan_list::summarize_plan(app.lifecycle()?, row, &caller)?;
    ListedPlan::new(app, summary)
}
