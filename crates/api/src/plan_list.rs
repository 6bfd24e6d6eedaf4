//! Lists plans, page by page.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use lifecycle::{Lifecycle, LifecycleError};
use plan::ledger::BudgetUnit;
use plan::plan::PlanOrigin;
use plan::{Caller, PlanId, QualifiedName};
use store::{PlanFilter, PlanRow};

use crate::derived_plans::find_derived_plans;
use crate::next_steps;
use crate::plans;
use crate::standing::PlanStanding;
use crate::view::{PlanListPage, PlanSummary, UsageView};

/// Which plans to list.
#[derive(Debug, Clone, Default)]
pub struct PlanListRequest {
    pub filter: PlanFilter,
    /// Only plans that work on any of these projects.
    pub projects: Option<Vec<QualifiedName>>,
    /// Start after this plan, the last one on the previous page.
    pub after: Option<PlanId>,
    pub limit: usize,
    /// Also read what each plan used.
    pub with_usage: bool,
}

/// Lists plans, newest first.
pub fn list_plans(
    lifecycle: &Lifecycle,
    request: &PlanListRequest,
    viewer: &Caller,
) -> Result<PlanListPage, LifecycleError> {
    let one_more = PlanListRequest {
        limit: request.limit.saturating_add(1),
        ..request.clone()
    };
    let mut rows = list_plan_rows(lifecycle, &one_more)?;
    let has_more = rows.len() > request.limit;
    rows.truncate(request.limit);
    let next = rows.last().filter(|_| has_more).map(|row| row.plan.id());
    let mut plans = Vec::new();
    for row in &rows {
        let mut summary = summarize_plan(lifecycle, row, viewer)?;
        if request.with_usage {
            let ledger = lifecycle.budgets().read_ledger(row.plan.id())?;
            summary.used = Some(UsageView::new(&ledger.plan));
            summary.cost_limit_micros = row.plan.limits().limit_for(BudgetUnit::Cost);
        }
        plans.push(summary);
    }
    Ok(PlanListPage { plans, next })
}

/// Returns the newest plan that works on any of the projects, if there is one.
pub fn find_newest_plan(
    lifecycle: &Lifecycle,
    projects: Vec<QualifiedName>,
) -> Result<Option<PlanId>, LifecycleError> {
    let request = PlanListRequest {
        projects: Some(projects),
        limit: 1,
        ..PlanListRequest::default()
    };
    let rows = list_plan_rows(lifecycle, &request)?;
    Ok(rows.first().map(|row| row.plan.id()))
}

/// Describes a plan in a list.
pub fn summarize_plan(
    lifecycle: &Lifecycle,
    row: &PlanRow,
    viewer: &Caller,
) -> Result<PlanSummary, LifecycleError> {
    let plan = &row.plan;
    let undone_by = find_derived_plans(lifecycle, row)?.undone_by;
    let (undo_of, rest_of) = match plan.origin() {
        PlanOrigin::Use => (None, None),
        PlanOrigin::UndoOf(of) => (Some(of), None),
        PlanOrigin::RestOf(of) => (None, Some(of)),
    };
    Ok(PlanSummary {
        plan_id: plan.id(),
        handle: lifecycle.short_handle(plan.id())?,
        goal: plan.goal().first_line().to_owned(),
        action: plan.action().map(ToString::to_string),
        phase: plan.phase().as_str(),
        state: plan.stage().state_name().as_str(),
        standing: match undone_by {
            Some(_) => PlanStanding::Undone,
            None => plans::find_standing(lifecycle, row)?,
        },
        version: plan.version().0,
        needs_person: row.needs_person(),
        updated_at: plan.updated_at(),
        next_steps: next_steps::next_steps(lifecycle, row, viewer)?,
        undo_of,
        rest_of,
        undone_by,
        used: None,
        cost_limit_micros: None,
    })
}

/// Reads the plans as stored, newest first. A plan that works on several of the projects is listed once.
pub fn list_plan_rows(
    lifecycle: &Lifecycle,
    request: &PlanListRequest,
) -> Result<Vec<PlanRow>, LifecycleError> {
    let limit = request.limit;
    let Some(projects) = &request.projects else {
        return lifecycle.list_plans(&request.filter, request.after, limit);
    };
    let mut rows = BTreeMap::new();
    for project in projects {
        let filter = PlanFilter {
            project: Some(project.clone()),
            ..request.filter.clone()
        };
        let page = lifecycle.list_plans(&filter, request.after, limit)?;
        rows.extend(page.into_iter().map(|row| (Reverse(row.plan.id()), row)));
    }
    Ok(rows.into_values().take(limit).collect())
}
