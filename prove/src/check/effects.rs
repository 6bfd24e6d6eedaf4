//! Checks that every call took effect exactly as its answer says: once or not at all.

use std::collections::{BTreeMap, BTreeSet};

use plan::{Caller, PlanId};

use super::store_contents::{StoreContents, StoredPlan};
use super::{HARNESS_CALLER, Violation, ViolationKind, calling_client};
use crate::history::{CallHistory, RecordedCall};
use crate::operation::{CallAnswer, CallId};

/// The events of one commit: the plan, the first and the last version.
type CommitVersions = (PlanId, u64, u64);

/// Compares all calls with all events.
pub fn check_effects(history: &CallHistory, stored: &StoreContents) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut commits_by_call: BTreeMap<CallId, Vec<CommitVersions>> = BTreeMap::new();
    let mut program_commits: BTreeSet<CommitVersions> = BTreeSet::new();
    for plan in stored.plans.values() {
        for (by, commit) in list_commits(plan) {
            match calling_client(by) {
                Some(id) if history.calls.contains_key(&id) => {
                    commits_by_call.entry(id).or_default().push(commit);
                }
                Some(id) => found.push(new_violation(
                    format!("there are events of call {id}, which no client made"),
                    Vec::new(),
                    Some(commit),
                )),
                None if *by == Caller::Person(HARNESS_CALLER.to_owned()) => {}
                None => {
                    program_commits.insert(commit);
                }
            }
        }
    }
    for group in group_by_key(history).values() {
        found.extend(check_group(group, &commits_by_call));
    }
    found.extend(check_program_calls(history, program_commits));
    found
}

/// Splits the log of a plan into commits. A call commits once, so its events are adjacent and have one time.
fn list_commits(plan: &StoredPlan) -> Vec<(&Caller, CommitVersions)> {
    let mut commits: Vec<(&Caller, CommitVersions)> = Vec::new();
    let mut last_at = None;
    for recorded in &plan.events {
        let version = recorded.version.0;
        match commits.last_mut() {
            Some((by, commit)) if **by == recorded.by && last_at == Some(recorded.at) => {
                commit.2 = version;
            }
            Some(_) | None => commits.push((&recorded.by, (plan.id(), version, version))),
        }
        last_at = Some(recorded.at);
    }
    commits
}

/// Groups library calls by idempotency key. A call without a key is a group of its own.
fn group_by_key(history: &CallHistory) -> BTreeMap<String, Vec<&RecordedCall>> {
    let mut groups: BTreeMap<String, Vec<&RecordedCall>> = BTreeMap::new();
    for recorded in history.calls.values() {
        if !recorded.call.through_program {
            groups
                .entry(recorded.call.label())
                .or_default()
                .push(recorded);
        }
    }
    groups
}

fn check_group(
    group: &[&RecordedCall],
    commits_by_call: &BTreeMap<CallId, Vec<CommitVersions>>,
) -> Option<Violation> {
    let none = Vec::new();
    let commits_of =
        |recorded: &RecordedCall| commits_by_call.get(&recorded.call.id).unwrap_or(&none);
    let all: Vec<CommitVersions> = group
        .iter()
        .flat_map(|recorded| commits_of(recorded).clone())
        .collect();
    let ids = || group.iter().map(|recorded| recorded.call.id).collect();
    if all.len() > 1 {
        return Some(new_violation(
            format!("it took effect {} times", all.len()),
            ids(),
            Some(all[1]),
        ));
    }
    for recorded in group {
        let own_commit = commits_of(recorded).first();
        let writes_event = recorded.call.operation.writes_event();
        let problem = match (recorded.answer(), own_commit) {
            (Some(CallAnswer::Done(receipt)), Some(commit)) => {
                if writes_event
                    && (receipt.plan_id, receipt.version) == (Some(commit.0), Some(commit.2))
                {
                    continue;
                }
                "its answer names another commit than its events"
            }
            (Some(CallAnswer::Done(receipt)), None) => match all.first() {
                // The answer repeats the outcome of the first call with this key.
                Some(commit) if receipt.repeated && receipt.version == Some(commit.2) => continue,
                Some(_) => "its answer differs from that of the first call with its key",
                None if receipt.repeated || !writes_event => continue,
                None => "it was answered `done`, but has no event",
            },
            (
                Some(CallAnswer::Refused(_) | CallAnswer::Blocked | CallAnswer::Failed(_)),
                Some(_),
            ) => "its answer says that nothing was written, but it has an event",
            (Some(CallAnswer::Observed(_)), Some(_)) => "it only read, but it has an event",
            (Some(CallAnswer::Refused(_) | CallAnswer::Blocked), None)
                if was_done_before(group, recorded) =>
            {
                "it was refused, although a call with its key had been answered `done` before"
            }
            (Some(CallAnswer::Unknown(_)) | None, _) | (Some(_), None) => continue,
        };
        let plan_only = recorded.plan_id().map(|plan_id| (plan_id, 0, 0));
        let commit = own_commit.or(all.first()).copied().or(plan_only);
        return Some(new_violation(problem.to_owned(), ids(), commit));
    }
    None
}

/// Whether a call with the same key had been answered `done` when this call was made.
fn was_done_before(group: &[&RecordedCall], recorded: &RecordedCall) -> bool {
    let is_earlier = |other: &&RecordedCall| match &other.answered {
        Some((at, CallAnswer::Done(_))) => *at < recorded.called_at,
        _ => false,
    };
    group.iter().any(is_earlier)
}

/// The program calls in its user's name, so its events are matched by the versions in its answers. The remaining events
/// must come from calls without a known outcome.
fn check_program_calls(
    history: &CallHistory,
    mut commits: BTreeSet<CommitVersions>,
) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut unanswered: BTreeMap<Option<PlanId>, usize> = BTreeMap::new();
    let calls = history
        .calls
        .values()
        .filter(|recorded| recorded.call.through_program);
    for recorded in calls {
        match recorded.answer() {
            Some(CallAnswer::Done(receipt)) if !receipt.repeated => {
                if !recorded.call.operation.writes_event() {
                    continue;
                }
                let (Some(plan_id), Some(version)) = (receipt.plan_id, receipt.version) else {
                    found.push(new_violation(
                        "the program answered `done` without plan and version".to_owned(),
                        vec![recorded.call.id],
                        None,
                    ));
                    continue;
                };
                let commit = commits
                    .range((plan_id, 0, 0)..=(plan_id, version, version))
                    .next_back()
                    .copied()
                    .filter(|commit| commit.2 == version);
                match commit {
                    Some(commit) => {
                        commits.remove(&commit);
                    }
                    None => found.push(new_violation(
                        "the program answered `done`, but no event is left that could be its own"
                            .to_owned(),
                        vec![recorded.call.id],
                        Some((plan_id, version, version)),
                    )),
                }
            }
            None | Some(CallAnswer::Unknown(_)) => {
                *unanswered
                    .entry(recorded.call.operation.plan_id())
                    .or_default() += 1;
            }
            Some(_) => {}
        }
    }
    for commit in commits {
        // The call that created a plan did not name it.
        let created_plan = commit.1 == 1;
        let plan_id = if created_plan { None } else { Some(commit.0) };
        match unanswered.get_mut(&plan_id) {
            Some(left) if *left > 0 => *left -= 1,
            _ => found.push(new_violation(
                "there are events of a program call that no client made".to_owned(),
                Vec::new(),
                Some(commit),
            )),
        }
    }
    found
}

fn new_violation(message: String, calls: Vec<CallId>, commit: Option<CommitVersions>) -> Violation {
    Violation {
        kind: ViolationKind::WrongAnswer,
        message,
        plan_id: commit.map(|commit| commit.0),
        calls,
        versions: commit.map(|commit| commit.1.saturating_sub(1)..=commit.2),
    }
}
