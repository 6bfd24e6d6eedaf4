//! Compares what the actors wrote down, what was done to the workers, and what is stored.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};

use plan::stage::FailureCategory;
use plan::{Event, Phase, Plan, RecordedEvent};

use super::Outcome;
use super::actor::{ON_PURPOSE, Start, starts};
use crate::chronicle::Log;
use crate::crowd::Deeds;
use crate::ground::Ground;
use crate::trial::Trial;

/// How long what was killed may take to be gone.
const GOING: Duration = Duration::from_secs(10);

/// Whoever claimed a plan.
struct Claimed {
    phase: Phase,
    owner: String,
}

/// A plan, its log and the starts that were written down of it.
struct Life<'a> {
    plan: &'a Plan,
    history: Vec<RecordedEvent>,
    claims: BTreeMap<u64, Claimed>,
    starts: Vec<&'a Start>,
}

/// Everything that is wrong, and how much happened.
pub fn check(trial: &Trial, ground: &Ground, deeds: &Deeds) -> anyhow::Result<Outcome> {
    let mut outcome = Outcome {
        kills: deeds.kills,
        stops: deeds.stops,
        hangups: deeds.hangups,
        violations: left_behind(ground),
        ..Outcome::default()
    };
    let starts = starts(&ground.ledger)?;
    outcome.starts = starts.len();
    let plans = ground.plans()?;
    outcome.plans = plans.len();
    let mut landed = BTreeMap::new();
    let mut log = Log::create(&ground.ledger)?;
    for plan in &plans {
        let id = plan.id.to_string();
        let history = ground.lifecycle.read_history(plan.id)?;
        log.write(&history)?;
        let life = Life {
            plan,
            claims: claims(&history),
            starts: starts.iter().filter(|start| start.plan == id).collect(),
            history,
        };
        life.ended(&mut outcome);
        life.started(deeds, &mut outcome.violations);
        let taken = life.results(&mut outcome.violations);
        life.taken_over(deeds, &mut outcome);
        let applied = plan.stage.to_string() == "apply/applied";
        if applied && !plan.resources.is_empty() {
            landed.insert(id, taken);
        }
    }
    outcome.violations.extend(repository(ground, &landed)?);
    outcome.missing = missing(&outcome, trial);
    Ok(outcome)
}

fn missing(outcome: &Outcome, trial: &Trial) -> Vec<String> {
    let number = |count: u32| usize::try_from(count).unwrap_or(usize::MAX);
    [
        (outcome.applied, 5 + trial.at(10), "plans that were applied"),
        (number(outcome.kills), 3 + trial.at(5), "kills"),
        (number(outcome.stops), 1 + trial.at(3), "stops"),
        (number(outcome.hangups), trial.at(3), "closed terminals"),
        (
            outcome.taken_over,
            1 + trial.at(5),
            "plans that were taken over",
        ),
    ]
    .into_iter()
    .filter(|(count, least, _)| count < least)
    .map(|(count, least, what)| format!("{count} {what} of at least {least}"))
    .collect()
}

fn claims(history: &[RecordedEvent]) -> BTreeMap<u64, Claimed> {
    let claimed = |recorded: &RecordedEvent| match &recorded.event {
        Event::Claimed {
            phase,
            owner,
            epoch,
            ..
        } => {
            let (phase, owner) = (*phase, owner.clone());
            Some((epoch.0, Claimed { phase, owner }))
        }
        _ => None,
    };
    history.iter().filter_map(claimed).collect()
}

impl Life<'_> {
    /// It came to an end, or to a person, and says why.
    fn ended(&self, outcome: &mut Outcome) {
        let (id, stage) = (self.plan.id, self.plan.stage.to_string());
        let profile = self.plan.profile.to_string();
        if let Some(failure) = self.plan.stage.failure() {
            outcome.failed += 1;
            let said = failure.message.as_str();
            let on_purpose =
                failure.category == FailureCategory::Actor && said.contains(ON_PURPOSE);
            if failure.category != FailureCategory::Lost && !on_purpose {
                let why = format!("{id} failed for no reason ({}): {said}", failure.category);
                outcome.violations.push(why);
            }
            return;
        }
        match (stage.as_str(), profile.as_str()) {
            ("apply/applied", "auto") => outcome.applied += 1,
            ("apply/applied", "review") if self.plan.resources.is_empty() => outcome.applied += 1,
            ("execute/complete", "review") => outcome.to_review += 1,
            _ => outcome.violations.push(format!("{id} is stuck in {stage}")),
        }
    }

    /// Did the holder of this epoch give the plan back?
    fn was_released(&self, epoch: u64) -> bool {
        self.history.iter().any(|one| match one.event {
            Event::Released { epoch: released } => released.0 == epoch,
            _ => false,
        })
    }

    /// Each start had a claim, each attempt was started once, and nobody was started beside a living one.
    fn started(&self, deeds: &Deeds, violations: &mut Vec<String>) {
        let id = self.plan.id;
        let (mut attempts, mut epochs) = (BTreeSet::new(), BTreeSet::new());
        let where_of: BTreeMap<u64, &Path> = self
            .starts
            .iter()
            .map(|start| (start.epoch, start.directory.as_path()))
            .collect();
        for start in &self.starts {
            let claim = self.claims.get(&start.epoch);
            if claim.is_none_or(|claim| claim.phase.to_string() != start.phase) {
                violations.push(format!("{id} was worked on without a claim: {start:?}"));
            }
            // What is given back costs no attempt: its next start has the same number.
            let goes_on = self.was_released(start.epoch);
            let is_first = goes_on || attempts.insert((start.phase.as_str(), start.attempt));
            if !is_first || !epochs.insert(start.epoch) {
                violations.push(format!("{id}: an attempt was started twice: {start:?}"));
            }
            for beside in &start.beside {
                if where_of.get(beside) == Some(&start.directory.as_path()) {
                    violations.push(format!("{id}: two worked in one directory: {start:?}"));
                }
                let elder = (*beside).min(start.epoch);
                if !self.was_disturbed(elder, start.at, deeds) {
                    violations.push(format!(
                        "{id} had two at work, and nobody had disturbed the first: {start:?}"
                    ));
                }
            }
        }
    }

    /// Was the worker with this authority kept from its work by this moment?
    fn was_disturbed(&self, epoch: u64, by: i64, deeds: &Deeds) -> bool {
        let owner = self.claims.get(&epoch).map(|claim| claim.owner.as_str());
        owner.is_some_and(|owner| deeds.disturbed(owner, by))
    }

    /// Nothing was taken from a living holder.
    fn taken_over(&self, deeds: &Deeds, outcome: &mut Outcome) {
        let mut holder = "nobody";
        for recorded in &self.history {
            let owner = match &recorded.event {
                Event::Reclaimed { owner, .. } => owner,
                // Once too often.
                Event::Failed { failure } if failure.category == FailureCategory::Lost => holder,
                Event::Claimed { owner, .. } => {
                    holder = owner;
                    continue;
                }
                _ => continue,
            };
            outcome.taken_over += 1;
            if !deeds.disturbed(owner, recorded.at.0) {
                outcome.violations.push(format!(
                    "{} was taken from {owner}, which nobody had disturbed",
                    self.plan.id
                ));
            }
        }
    }

    /// Each phase's result was taken once, from whoever had the authority; which one's execute was.
    fn results(&self, violations: &mut Vec<String>) -> Option<u64> {
        let id = self.plan.id;
        let (mut holder, mut taken) = (None, None);
        let mut complete = BTreeSet::new();
        for recorded in &self.history {
            match &recorded.event {
                Event::Claimed { epoch, .. } => holder = Some(epoch.0),
                Event::Reclaimed { .. } | Event::Failed { .. } | Event::Released { .. } => {
                    holder = None;
                }
                Event::StrategizeCompleted { epoch }
                    if holder != Some(epoch.0) || !complete.insert(Phase::Strategize) =>
                {
                    violations.push(format!("{id}: a strategy was taken that must not be"));
                }
                Event::ExecuteCompleted { epoch, result, .. } => {
                    if holder != Some(epoch.0) || !complete.insert(Phase::Execute) {
                        violations.push(format!("{id}: a result was taken that must not be"));
                    }
                    let said = result.report.as_ref().map(plan::ErasableText::as_str);
                    if said != Some(&format!("epoch {epoch}")) {
                        violations.push(format!("{id}: the result of {epoch} says {said:?}"));
                    }
                    taken = Some(epoch.0);
                }
                _ => {}
            }
        }
        taken
    }
}

/// The branch holds what landed, once each and from whoever had the authority, and nothing else.
fn repository(
    ground: &Ground,
    landed: &BTreeMap<String, Option<u64>>,
) -> anyhow::Result<Vec<String>> {
    let mut problems = ground.problems(&landed.keys().map(String::as_str).collect())?;
    for (plan, epoch) in landed {
        let text = ground.git(&["show", &format!("main:made/{plan}.txt")]).ok();
        let expected = epoch.map(|epoch| format!("epoch {epoch}"));
        if text != expected {
            problems.push(format!("{plan} landed as {text:?}, and not {expected:?}"));
        }
    }
    Ok(problems)
}

/// Processes of the trial that are still there.
fn left_behind(ground: &Ground) -> Vec<String> {
    let until = Instant::now() + GOING;
    loop {
        let found = ground.processes();
        if found.is_empty() || Instant::now() >= until {
            let told = found.iter();
            let told = told.map(|(id, words)| format!("a process was left behind: {id} {words}"));
            return told.collect();
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}
