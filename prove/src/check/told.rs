//! Did every call take effect exactly as its caller was told: once, or not at all?

use std::collections::{BTreeMap, BTreeSet};

use plan::{Caller, PlanId};

use super::stored::{Stored, StoredPlan};
use super::{Kind, REFEREE, Violation, author};
use crate::history::{History, Made};
use crate::operation::{Answer, CallId};

/// The events of one commit: the plan, the first and the last version.
type Run = (PlanId, u64, u64);

/// Every call against every event.
pub fn check(history: &History, stored: &Stored) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut runs: BTreeMap<CallId, Vec<Run>> = BTreeMap::new();
    let mut of_programs: BTreeSet<Run> = BTreeSet::new();
    for plan in stored.plans.values() {
        for (by, run) in commits(plan) {
            match author(by) {
                Some(id) if history.calls.contains_key(&id) => {
                    runs.entry(id).or_default().push(run);
                }
                Some(id) => found.push(wrong(
                    format!("there are events of call {id}, which nobody made"),
                    Vec::new(),
                    Some(run),
                )),
                None if *by == Caller::Person(REFEREE.to_owned()) => {}
                None => {
                    of_programs.insert(run);
                }
            }
        }
    }
    for group in groups(history).values() {
        found.extend(check_group(group, &runs));
    }
    found.extend(check_programs(history, of_programs));
    found
}

/// The log of a plan, commit by commit. A call commits once, so its events lie side by side.
fn commits(plan: &StoredPlan) -> Vec<(&Caller, Run)> {
    let mut commits: Vec<(&Caller, Run)> = Vec::new();
    let mut at = None;
    for recorded in &plan.events {
        let version = recorded.version.0;
        match commits.last_mut() {
            Some((by, run)) if **by == recorded.by && at == Some(recorded.at) => run.2 = version,
            Some(_) | None => commits.push((&recorded.by, (plan.id(), version, version))),
        }
        at = Some(recorded.at);
    }
    commits
}

/// Calls under the same key are one; every other call is one by itself.
fn groups(history: &History) -> BTreeMap<String, Vec<&Made>> {
    let mut groups: BTreeMap<String, Vec<&Made>> = BTreeMap::new();
    for made in history.calls.values() {
        if !made.call.through_program {
            groups.entry(made.call.label()).or_default().push(made);
        }
    }
    groups
}

fn check_group(group: &[&Made], runs: &BTreeMap<CallId, Vec<Run>>) -> Option<Violation> {
    let none = Vec::new();
    let effects = |made: &Made| runs.get(&made.call.id).unwrap_or(&none);
    let all: Vec<Run> = group
        .iter()
        .flat_map(|made| effects(made).clone())
        .collect();
    let ids = || group.iter().map(|made| made.call.id).collect();
    if all.len() > 1 {
        return Some(wrong(
            format!("it took effect {} times", all.len()),
            ids(),
            Some(all[1]),
        ));
    }
    for made in group {
        let effect = effects(made).first();
        let leaves_an_event = made.call.operation.leaves_an_event();
        let what = match (made.answer(), effect) {
            (Some(Answer::Done(receipt)), Some(run)) => {
                if leaves_an_event && (receipt.plan, receipt.version) == (Some(run.0), Some(run.2))
                {
                    continue;
                }
                "its answer names another commit than its events"
            }
            (Some(Answer::Done(receipt)), None) => match all.first() {
                // Told again what came of it the first time.
                Some(run) if receipt.repeated && receipt.version == Some(run.2) => continue,
                Some(_) => "it was told something else than the first call under its key",
                None if receipt.repeated || !leaves_an_event => continue,
                None => "it was told `done`, and there is no event of it",
            },
            (Some(Answer::Refused(_) | Answer::Blocked | Answer::Failed(_)), Some(_)) => {
                "it was told that nothing happened, and there is an event of it"
            }
            (Some(Answer::Saw(_)), Some(_)) => "it only read, and there is an event of it",
            (Some(Answer::Refused(_) | Answer::Blocked), None) if was_done(group, made) => {
                "it was refused, and had been told `done` under its key before"
            }
            (Some(Answer::Unknown(_)) | None, _) | (Some(_), None) => continue,
        };
        let about = made.about().map(|plan| (plan, 0, 0));
        let run = effect.or(all.first()).copied().or(about);
        return Some(wrong(what.to_owned(), ids(), run));
    }
    None
}

/// Had a call under the same key been told that it was done, when this one was made?
fn was_done(group: &[&Made], made: &Made) -> bool {
    let before = |other: &&Made| match &other.answered {
        Some((at, Answer::Done(_))) => *at < made.called_at,
        _ => false,
    };
    group.iter().any(before)
}

/// The program calls in its user's name, so its events are found by the versions it answered. What is left
/// must have been made by calls whose answer nobody heard.
fn check_programs(history: &History, mut commits: BTreeSet<Run>) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut unheard: BTreeMap<Option<PlanId>, usize> = BTreeMap::new();
    let calls = history
        .calls
        .values()
        .filter(|made| made.call.through_program);
    for made in calls {
        match made.answer() {
            Some(Answer::Done(receipt)) if !receipt.repeated => {
                if !made.call.operation.leaves_an_event() {
                    continue;
                }
                let (Some(plan), Some(version)) = (receipt.plan, receipt.version) else {
                    found.push(wrong(
                        "the program answered `done`, and not of which plan and version".to_owned(),
                        vec![made.call.id],
                        None,
                    ));
                    continue;
                };
                let commit = commits
                    .range((plan, 0, 0)..=(plan, version, version))
                    .next_back()
                    .copied()
                    .filter(|commit| commit.2 == version);
                match commit {
                    Some(commit) => {
                        commits.remove(&commit);
                    }
                    None => found.push(wrong(
                        "the program answered `done`, and there is no event of it that is not \
                         another call's"
                            .to_owned(),
                        vec![made.call.id],
                        Some((plan, version, version)),
                    )),
                }
            }
            None | Some(Answer::Unknown(_)) => {
                *unheard.entry(made.call.operation.plan()).or_default() += 1;
            }
            Some(_) => {}
        }
    }
    for commit in commits {
        let created = commit.1 == 1;
        let about = if created { None } else { Some(commit.0) };
        match unheard.get_mut(&about) {
            Some(left) if *left > 0 => *left -= 1,
            _ => found.push(wrong(
                "there are events of a call of the program that nobody made".to_owned(),
                Vec::new(),
                Some(commit),
            )),
        }
    }
    found
}

fn wrong(what: String, calls: Vec<CallId>, run: Option<Run>) -> Violation {
    Violation {
        kind: Kind::Told,
        what,
        plan: run.map(|run| run.0),
        calls,
        versions: run.map(|run| run.1.saturating_sub(1)..=run.2),
    }
}
