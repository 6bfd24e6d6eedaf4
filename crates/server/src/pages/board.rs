//! The board: all plans in four groups.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use api::change_size::ChangedTrees;
use api::plan_activity::{PlanActivity, find_current_activity};
use api::rule_marks::{RuleMarks, read_rule_marks};
use api::view::PlanSummary;
use api::{NextStep, PlanStanding};
use askama::Template;
use axum::extract::State;
use plan::stage::StateName;
use plan::{PlanId, Timestamp};
use store::{PlanFilter, PlanRow};
use tokio::time::timeout;

use super::new_plan::{NewPlanForm, read_form};
use super::plan_head::{format_cost, standing_icon, tone_class};
use super::visible::{format_age, format_elapsed, visible};
use super::{PageAnswer, render};
use crate::change_sizes::KnownSize;
use crate::engine_access::EngineView;
use crate::failure::EngineFailure;
use crate::state::ServerState;

/// The newest plans, and as many of those that need a person.
const MAX_BOARD_PLANS: usize = 150;

/// Plans that are worked on, with what their agents do. There are as many as workers.
const MAX_WORKING_PLANS: usize = 64;

/// How long the board waits for sizes that are not known yet. The page asks again for those that are missing then.
const SIZE_TIMEOUT: Duration = Duration::from_millis(60);

#[derive(Template)]
#[template(path = "board.html")]
struct BoardTemplate {
    groups: Vec<BoardGroup>,
    /// Sizes are still being counted.
    is_counting: bool,
    /// Shown if there are no plans.
    form: Option<NewPlanForm>,
}

struct BoardGroup {
    title: &'static str,
    rows: Vec<BoardRow>,
}

struct BoardRow {
    handle: String,
    plan_id: PlanId,
    version: u64,
    /// The plan that it undoes or holds the rest of.
    origin: Option<PlanId>,
    goal: String,
    standing: &'static str,
    class: &'static str,
    icon: &'static str,
    agent: String,
    /// What happens, or what is in the way.
    note: String,
    note_class: &'static str,
    size: ChangeSizeCell,
    marks: Vec<RuleMark>,
    marks_title: String,
    cost: String,
    /// How long ago it changed, or how long it has been worked on.
    age: String,
    /// Seconds of work so far. The page counts on.
    elapsed: Option<i64>,
    can_retry: bool,
    can_cancel: bool,
    /// Shown below the plan it comes from.
    is_nested: bool,
}

/// The size of a plan's change, as far as it is known.
enum ChangeSizeCell {
    None,
    Lines { added: String, removed: String },
    Files(String),
}

struct RuleMark {
    sign: &'static str,
    class: &'static str,
}

/// A plan of the board, before it is known how large its change is.
struct BoardPlan {
    row: PlanRow,
    summary: PlanSummary,
    activity: Option<PlanActivity>,
    marks: RuleMarks,
    cost_micros: u64,
}

struct PlanList {
    plans: Vec<BoardPlan>,
    now: Timestamp,
    form: Option<NewPlanForm>,
}

pub async fn show_board(State(state): State<Arc<ServerState>>) -> PageAnswer {
    let list = state
        .engine
        .view("list", None, |engine| list_plans(&engine))
        .await?;
    let is_counting = count_missing_sizes(&state, &list.plans).await;
    let groups = make_groups(&state, &list);
    render(&BoardTemplate {
        groups,
        is_counting,
        form: list.form,
    })
}

fn list_plans(engine: &EngineView<'_>) -> Result<PlanList, EngineFailure> {
    let lifecycle = engine.lifecycle;
    let needs_person = PlanFilter {
        needs_person: true,
        ..PlanFilter::default()
    };
    let mut rows = lifecycle.list_plans(&PlanFilter::default(), None, MAX_BOARD_PLANS)?;
    let known: BTreeSet<PlanId> = rows.iter().map(|row| row.plan.id()).collect();
    let waiting = lifecycle.list_plans(&needs_person, None, MAX_BOARD_PLANS)?;
    rows.extend(
        waiting
            .into_iter()
            .filter(|row| !known.contains(&row.plan.id())),
    );
    let mut plans = Vec::new();
    for row in rows {
        let ledger = lifecycle.budgets().read_ledger(row.plan.id())?;
        plans.push(BoardPlan {
            summary: api::plan_list::summarize_plan(lifecycle, &row, engine.viewer)?,
            activity: find_current_activity(lifecycle, &row.plan)?,
            marks: read_rule_marks(lifecycle, &row)?,
            cost_micros: ledger.plan.settled.cost,
            row,
        });
    }
    Ok(PlanList {
        form: match plans.is_empty() {
            true => Some(read_form(engine, "")?),
            false => None,
        },
        now: lifecycle.store().now()?,
        plans,
    })
}

/// Counts sizes for a short while. Returns whether some are not known yet; counting them goes on.
async fn count_missing_sizes(state: &Arc<ServerState>, plans: &[BoardPlan]) -> bool {
    let is_missing = |plan: &&BoardPlan| {
        let trees = ChangedTrees::of_result(&plan.row.plan);
        trees.is_some_and(|trees| state.change_sizes.find(&trees).is_none())
    };
    let missing: Vec<PlanRow> = plans
        .iter()
        .filter(is_missing)
        .map(|plan| plan.row.clone())
        .collect();
    if missing.is_empty() {
        return false;
    }
    let shared = Arc::clone(state);
    let counting = tokio::spawn(async move {
        shared.change_sizes.count(&shared.engine, missing).await;
    });
    // The task goes on if nobody waits for it.
    let _ = timeout(SIZE_TIMEOUT, counting).await;
    plans.iter().any(|plan| is_missing(&plan))
}

fn make_groups(state: &ServerState, list: &PlanList) -> Vec<BoardGroup> {
    let titles = ["Needs you", "Working", "Waiting", "Landed"];
    let mut groups = titles.map(|title| BoardGroup {
        title,
        rows: Vec::new(),
    });
    for plan in &list.plans {
        let group = &mut groups[group_of(plan.summary.standing)];
        group.rows.push(make_row(state, plan, list.now));
    }
    for group in &mut groups {
        group.rows = fold_derived_plans(std::mem::take(&mut group.rows));
    }
    groups.into()
}

fn make_row(state: &ServerState, plan: &BoardPlan, now: Timestamp) -> BoardRow {
    let (row, summary) = (&plan.row, &plan.summary);
    let (note, note_class) = describe_note(plan);
    let elapsed = plan.activity.as_ref();
    let elapsed = elapsed.map(|activity| age_of(now, activity.since) / 1_000_000);
    let can = |step: &NextStep| summary.next_steps.contains(step);
    BoardRow {
        handle: summary.handle.clone(),
        plan_id: summary.plan_id,
        version: summary.version,
        origin: summary.undo_of.or(summary.rest_of),
        goal: visible(&summary.goal),
        standing: summary.standing.as_str(),
        class: tone_class(summary.standing),
        icon: standing_icon(summary.standing),
        agent: row.plan.actors().execution.to_string(),
        size: find_size(state, row),
        note,
        note_class,
        marks: show_marks(&plan.marks),
        marks_title: describe_marks(&plan.marks),
        cost: format_cost(plan.cost_micros),
        age: match elapsed {
            Some(seconds) => format_elapsed(seconds),
            None => format_age(age_of(now, summary.updated_at)),
        },
        elapsed,
        can_retry: can(&NextStep::Retry),
        can_cancel: can(&NextStep::Cancel),
        is_nested: false,
    }
}

/// What a plan does now, or what keeps it from going on: one line and its colour.
fn describe_note(plan: &BoardPlan) -> (String, &'static str) {
    if let Some(question) = plan.row.plan.stage().open_permission() {
        let summary = question.call.summary.as_str();
        return (visible(&format!("may it {summary}?")), "muted");
    }
    if let Some(activity) = &plan.activity {
        return (describe_activity(activity), "working-note");
    }
    let stage = plan.row.plan.stage();
    let first_line = |text: &str| visible(text.lines().next().unwrap_or_default());
    if let Some(question) = stage.question() {
        return (first_line(question.text.as_str()), "muted");
    }
    if let Some(rule) = plan.marks.failed.first() {
        let more = match plan.marks.failed.len() {
            1 => String::new(),
            count => format!(" and {} more", count - 1),
        };
        return (visible(&format!("rule {rule}{more}")), "bad-text");
    }
    match stage.failure() {
        Some(failure) => (first_line(failure.message.as_str()), "bad-text"),
        None => (String::new(), ""),
    }
}

fn describe_activity(activity: &PlanActivity) -> String {
    match &activity.latest {
        Some(step) => visible(format!("{} {}", step.verb, step.subject).trim()),
        None => "starting".to_owned(),
    }
}

fn find_size(state: &ServerState, row: &PlanRow) -> ChangeSizeCell {
    let trees = ChangedTrees::of_result(&row.plan);
    match trees.and_then(|trees| state.change_sizes.find(&trees)) {
        Some(KnownSize::Counted(size)) => ChangeSizeCell::Lines {
            added: shorten_count(size.added),
            removed: shorten_count(size.removed),
        },
        Some(KnownSize::Uncountable) | None => count_files(row),
    }
}

/// A number of at most four signs, so that large changes fit in a row.
fn shorten_count(count: u64) -> String {
    match count {
        0..10_000 => count.to_string(),
        10_000..1_000_000 => format!("{}k", count / 1000),
        _ => format!("{}M", count / 1_000_000),
    }
}

/// The number of changed files, which the plan itself knows.
fn count_files(row: &PlanRow) -> ChangeSizeCell {
    let result = row.plan.result().into_iter();
    let trees = result.flat_map(|result| &result.trees);
    let paths: Option<u64> = trees.map(|tree| tree.changes).sum();
    match paths {
        Some(1) => ChangeSizeCell::Files("1 file".to_owned()),
        Some(count) if count > 0 => ChangeSizeCell::Files(format!("{count} files")),
        Some(_) | None => ChangeSizeCell::None,
    }
}

/// The most signs in a row. The title names all rules.
const MAX_SHOWN_MARKS: usize = 5;

fn show_marks(marks: &RuleMarks) -> Vec<RuleMark> {
    let of = |count: usize, sign, class| (0..count).map(move |_| RuleMark { sign, class });
    of(marks.failed.len(), "\u{2715}", "bad-text")
        .chain(of(marks.open.len(), "\u{25cb}", "muted"))
        .chain(of(marks.held.len(), "\u{25cf}", "good-text"))
        .take(MAX_SHOWN_MARKS)
        .collect()
}

fn describe_marks(marks: &RuleMarks) -> String {
    let parts = [
        ("failed", &marks.failed),
        ("open", &marks.open),
        ("holds", &marks.held),
    ];
    let parts = parts.iter().flat_map(|(word, names)| {
        let names = names.iter();
        names.map(move |name| format!("{}: {word}", visible(name)))
    });
    parts.collect::<Vec<_>>().join(", ")
}

#[derive(Template)]
#[template(path = "working.html")]
struct WorkingTemplate {
    plans: Vec<WorkingPlan>,
}

struct WorkingPlan {
    plan_id: PlanId,
    note: String,
    elapsed: i64,
}

/// What the agents of all plans do now. Nothing announces it, so the board asks while plans are worked on.
pub async fn show_working(State(state): State<Arc<ServerState>>) -> PageAnswer {
    let plans = state
        .engine
        .read("list", None, |lifecycle| {
            let filter = PlanFilter {
                state: Some(StateName::Processing),
                ..PlanFilter::default()
            };
            let rows = lifecycle.list_plans(&filter, None, MAX_WORKING_PLANS)?;
            let now = lifecycle.store().now()?;
            let mut plans = Vec::new();
            for row in rows {
                if let Some(activity) = find_current_activity(lifecycle, &row.plan)? {
                    plans.push(WorkingPlan {
                        plan_id: row.plan.id(),
                        note: describe_activity(&activity),
                        elapsed: age_of(now, activity.since) / 1_000_000,
                    });
                }
            }
            Ok(plans)
        })
        .await?;
    render(&WorkingTemplate { plans })
}

/// Moves undos and rests below the plan they come from, if it is in the same group. Keeps the order otherwise.
fn fold_derived_plans(rows: Vec<BoardRow>) -> Vec<BoardRow> {
    let listed: BTreeSet<PlanId> = rows.iter().map(|row| row.plan_id).collect();
    let mut derived: BTreeMap<PlanId, Vec<BoardRow>> = BTreeMap::new();
    let mut roots = Vec::new();
    for row in rows {
        match row.origin.filter(|origin| listed.contains(origin)) {
            Some(origin) => derived.entry(origin).or_default().push(row),
            None => roots.push(row),
        }
    }
    let mut folded = Vec::new();
    for root in roots {
        push_with_derived(root, &mut derived, &mut folded);
    }
    folded
}

fn push_with_derived(
    row: BoardRow,
    derived: &mut BTreeMap<PlanId, Vec<BoardRow>>,
    folded: &mut Vec<BoardRow>,
) {
    let children = derived.remove(&row.plan_id).unwrap_or_default();
    folded.push(row);
    for child in children {
        let child = BoardRow {
            is_nested: true,
            ..child
        };
        push_with_derived(child, derived, folded);
    }
}

fn age_of(now: Timestamp, then: Timestamp) -> i64 {
    now.0.saturating_sub(then.0)
}

/// The group of a standing, by index.
fn group_of(standing: PlanStanding) -> usize {
    match standing {
        PlanStanding::WaitingForPerson
        | PlanStanding::NeedsAnswer
        | PlanStanding::StrategyReady
        | PlanStanding::NeedsReview
        | PlanStanding::Approved
        | PlanStanding::Blocked
        | PlanStanding::Conflict
        | PlanStanding::Failed
        | PlanStanding::Interrupted => 0,
        PlanStanding::Thinking | PlanStanding::Working | PlanStanding::Landing => 1,
        PlanStanding::Waiting | PlanStanding::Ready => 2,
        PlanStanding::Landed
        | PlanStanding::Done
        | PlanStanding::Undone
        | PlanStanding::Cancelled => 3,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(number: u128, origin: Option<u128>) -> BoardRow {
        BoardRow {
            handle: number.to_string(),
            plan_id: plan_id(number),
            version: 1,
            origin: origin.map(plan_id),
            goal: String::new(),
            standing: "landed",
            class: "",
            icon: "",
            agent: String::new(),
            note: String::new(),
            note_class: "",
            size: ChangeSizeCell::None,
            marks: Vec::new(),
            marks_title: String::new(),
            cost: String::new(),
            age: String::new(),
            elapsed: None,
            can_retry: false,
            can_cancel: false,
            is_nested: false,
        }
    }

    fn plan_id(number: u128) -> PlanId {
        format!("{number:026}").parse().unwrap()
    }

    #[test]
    fn undos_and_rests_are_below_their_plan() {
        // Newest first: 5 undoes the undo 4 of plan 1; plan 2 holds the rest of a plan in another group.
        let rows = vec![
            row(5, Some(4)),
            row(4, Some(1)),
            row(3, None),
            row(2, Some(9)),
            row(1, None),
        ];
        let folded = fold_derived_plans(rows);
        let shown: Vec<(&str, bool)> = folded
            .iter()
            .map(|row| (row.handle.as_str(), row.is_nested))
            .collect();
        assert_eq!(
            shown,
            [
                ("3", false),
                ("2", false),
                ("1", false),
                ("4", true),
                ("5", true)
            ]
        );
    }
}
