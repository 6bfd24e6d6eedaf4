//! The board: all plans in four groups, and a preview of the selected one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::PlanStanding;
use askama::Template;
use axum::extract::{Path, State};
use plan::{PlanId, Timestamp};
use store::{PlanFilter, PlanRow};

use super::offered_forms::OfferedForms;
use super::plan_head::{PlanHead, read_head, tone_class};
use super::visible::{format_age, visible};
use super::{PageAnswer, render};
use crate::engine_access::EngineView;
use crate::failure::EngineFailure;
use crate::state::ServerState;

/// The newest plans, and as many of those that need a person.
const MAX_BOARD_PLANS: usize = 150;

#[derive(Template)]
#[template(path = "board.html")]
struct BoardTemplate {
    groups: Vec<BoardGroup>,
    is_empty: bool,
}

struct BoardGroup {
    title: &'static str,
    rows: Vec<BoardRow>,
}

struct BoardRow {
    handle: String,
    plan_id: PlanId,
    /// The plan that it undoes or holds the rest of.
    origin: Option<PlanId>,
    goal: String,
    standing: &'static str,
    class: &'static str,
    agent: String,
    lines: String,
    age: String,
    /// Shown below the plan it comes from.
    is_nested: bool,
}

pub async fn show_board(State(state): State<Arc<ServerState>>) -> PageAnswer {
    let groups = state
        .engine
        .view("list", None, |engine| list_groups(&engine))
        .await?;
    render(&BoardTemplate {
        is_empty: groups.iter().all(|group| group.rows.is_empty()),
        groups,
    })
}

fn list_groups(engine: &EngineView<'_>) -> Result<Vec<BoardGroup>, EngineFailure> {
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
    let now = lifecycle.store().now()?;
    let titles = ["Needs you", "Working", "Waiting", "Landed"];
    let mut groups = titles.map(|title| BoardGroup {
        title,
        rows: Vec::new(),
    });
    for row in &rows {
        let summary = api::plan_list::summarize_plan(lifecycle, row, engine.viewer)?;
        let group = &mut groups[group_of(summary.standing)];
        group.rows.push(BoardRow {
            handle: summary.handle,
            plan_id: summary.plan_id,
            origin: summary.undo_of.or(summary.rest_of),
            goal: visible(&summary.goal),
            standing: summary.standing.as_str(),
            class: tone_class(summary.standing),
            agent: row.plan.actors().execution.to_string(),
            lines: describe_size(row),
            age: format_age(age_of(now, summary.updated_at)),
            is_nested: false,
        });
    }
    for group in &mut groups {
        group.rows = fold_derived_plans(std::mem::take(&mut group.rows));
    }
    Ok(groups.into())
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

fn describe_size(row: &PlanRow) -> String {
    let trees = row
        .plan
        .result()
        .into_iter()
        .flat_map(|result| &result.trees);
    let paths: Option<u64> = trees.map(|tree| tree.changes).sum();
    match paths {
        Some(1) => "1 file".to_owned(),
        Some(count) if count > 0 => format!("{count} files"),
        Some(_) | None => String::new(),
    }
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

#[derive(Template)]
#[template(path = "preview.html")]
struct PreviewTemplate {
    head: PlanHead,
    forms: OfferedForms,
    files: Vec<PreviewFile>,
    more_files: usize,
}

struct PreviewFile {
    path: String,
    operation: &'static str,
}

const MAX_PREVIEW_FILES: usize = 12;

pub async fn show_preview(
    State(state): State<Arc<ServerState>>,
    Path(id): Path<String>,
) -> PageAnswer {
    let plan_id = state.engine.resolve_plan(&id).await?;
    let (head, forms, files) = state
        .engine
        .view("status", Some(plan_id), move |engine| {
            let (head, forms) = read_head(&engine, plan_id, "")?;
            let changesets = engine.lifecycle.list_changesets(plan_id)?;
            let mut files: Vec<PreviewFile> = changesets
                .iter()
                .flat_map(|(_, entries)| entries)
                .map(|entry| PreviewFile {
                    path: visible(&entry.path.to_string()),
                    operation: entry.operation.as_str(),
                })
                .collect();
            files.sort_by(|one, other| one.path.cmp(&other.path));
            files.dedup_by(|one, other| one.path == other.path);
            Ok((head, forms, files))
        })
        .await?;
    let more_files = files.len().saturating_sub(MAX_PREVIEW_FILES);
    render(&PreviewTemplate {
        head,
        forms,
        more_files,
        files: files.into_iter().take(MAX_PREVIEW_FILES).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(number: u128, origin: Option<u128>) -> BoardRow {
        BoardRow {
            handle: number.to_string(),
            plan_id: plan_id(number),
            origin: origin.map(plan_id),
            goal: String::new(),
            standing: "landed",
            class: "",
            agent: String::new(),
            lines: String::new(),
            age: String::new(),
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
