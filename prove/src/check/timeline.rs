//! Is there an order of the calls on one plan that explains every answer?
//!
//! Version `v` took effect at some moment `c(v)`, and `c` rises with `v`. Each answer narrows it down:
//!
//! - the call that made `v` was made before `c(v)`, and if it was answered, after it;
//! - whoever saw `v` was answered after `c(v)` and called before `c(v + 1)`.
//!
//! Such moments exist if and only if, with the lower bounds carried forward and the upper ones carried
//! back, no version must begin later than it may. That is linearizability of a register whose every state
//! has a number, decided in one pass.

use super::stored::StoredPlan;
use super::{Kind, Violation, author};
use crate::history::{History, Made, Moment};
use crate::operation::{Answer, CallId, Seen};

/// A bound, and the call that sets it.
type Bound = (Moment, Option<CallId>);

const BEFORE_ALL: Bound = (0, None);
const AFTER_ALL: Bound = (Moment::MAX, None);

struct Timeline {
    /// Not before; of versions 0 to one more than there are.
    earliest: Vec<Bound>,
    /// Not after.
    latest: Vec<Bound>,
}

/// Everything that was said about one plan.
pub fn check(history: &History, plan: &StoredPlan, calls: &[&Made]) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut timeline = Timeline {
        earliest: vec![BEFORE_ALL; plan.states.len() + 2],
        latest: vec![AFTER_ALL; plan.states.len() + 2],
    };
    for (index, recorded) in plan.events.iter().take(plan.states.len()).enumerate() {
        let made = author(&recorded.by).and_then(|id| history.calls.get(&id));
        if let Some(made) = made {
            timeline.made_by(index + 1, made);
        }
    }
    for made in calls {
        if let Some((_, answer)) = &made.answered {
            match answer {
                Answer::Saw(seen) => {
                    for seen in seen.iter().filter(|seen| seen.plan == plan.id()) {
                        found.extend(timeline.saw(plan, made, seen));
                    }
                }
                Answer::Done(receipt) => {
                    if let Some(version) = receipt.version
                        && receipt.plan == Some(plan.id())
                        && !receipt.repeated
                    {
                        found.extend(timeline.done(plan, made, version));
                    }
                }
                Answer::Blocked | Answer::Refused(_) | Answer::Failed(_) | Answer::Unknown(_) => {}
            }
        }
    }
    found.extend(timeline.close(plan));
    for made in calls {
        found.extend(timeline.explains_refusal(plan, made));
    }
    found
}

impl Timeline {
    fn not_before(&mut self, version: usize, at: Moment, call: CallId) {
        let bound = &mut self.earliest[version];
        if at > bound.0 {
            *bound = (at, Some(call));
        }
    }

    fn not_after(&mut self, version: usize, at: Moment, call: CallId) {
        let bound = &mut self.latest[version];
        if at < bound.0 {
            *bound = (at, Some(call));
        }
    }

    fn made_by(&mut self, version: usize, made: &Made) {
        self.not_before(version, made.called_at, made.call.id);
        if let Some((at, Answer::Done(_))) = made.answered {
            self.not_after(version, at, made.call.id);
        }
    }

    /// A plan was read at a version.
    fn saw(&mut self, plan: &StoredPlan, made: &Made, seen: &Seen) -> Option<Violation> {
        let wrong = |kind, what| Some(violation(plan, kind, what, &[made.call.id], seen.version));
        let Some(then) = plan.at(seen.version) else {
            let what = format!("version {} was seen, and never was", seen.version);
            return wrong(Kind::Order, what);
        };
        self.observed(seen.version, made);
        let stage = then.stage();
        if stage != seen.stage || seen.epoch.is_some_and(|epoch| epoch != then.epoch) {
            let what = format!(
                "version {} was seen as {} in epoch {:?}, and is {stage} in epoch {}",
                seen.version, seen.stage, seen.epoch, then.epoch
            );
            return wrong(Kind::Order, what);
        }
        let holder = then.holder;
        match seen.lease {
            Some(lease) if lease != holder => {
                let what = format!(
                    "version {} was seen with the lease of {lease:?}, its holder is {holder:?}",
                    seen.version
                );
                wrong(Kind::Half, what)
            }
            _ => None,
        }
    }

    /// A call was answered with a version.
    fn done(&mut self, plan: &StoredPlan, made: &Made, version: u64) -> Option<Violation> {
        let operation = &made.call.operation;
        let Some(then) = plan.at(version) else {
            let what = format!("version {version} was answered, and never was");
            return Some(violation(plan, Kind::Order, what, &[made.call.id], version));
        };
        if operation.leaves_an_event() {
            if made.call.through_program
                && let Ok(index) = usize::try_from(version)
            {
                self.made_by(index, made);
            }
            return None;
        }
        // It wrote beside the plan, which stood at this version.
        self.observed(version, made);
        let holder = then.holder;
        if let Some(epoch) = operation.epoch()
            && holder != Some(epoch)
        {
            let what = format!("{operation} was done at version {version}, held by {holder:?}");
            return Some(violation(
                plan,
                Kind::Fenced,
                what,
                &[made.call.id],
                version,
            ));
        }
        None
    }

    fn observed(&mut self, version: u64, made: &Made) {
        let (Ok(version), Some((answered_at, _))) = (usize::try_from(version), &made.answered)
        else {
            return;
        };
        self.not_after(version, *answered_at, made.call.id);
        self.not_before(version + 1, made.called_at, made.call.id);
    }

    /// Carries the bounds through and looks for one that cannot be kept.
    fn close(&mut self, plan: &StoredPlan) -> Option<Violation> {
        for version in 1..self.earliest.len() {
            let before = self.earliest[version - 1];
            if before.0 > self.earliest[version].0 {
                self.earliest[version] = before;
            }
        }
        for version in (1..self.latest.len()).rev() {
            let after = self.latest[version];
            if after.0 < self.latest[version - 1].0 {
                self.latest[version - 1] = after;
            }
        }
        let version = (1..=plan.states.len())
            .find(|version| self.earliest[*version].0 > self.latest[*version].0)?;
        let calls: Vec<CallId> = [self.latest[version].1, self.earliest[version].1]
            .into_iter()
            .flatten()
            .collect();
        let what = format!(
            "version {version} must have been there before the first of these calls was answered, and \
             not yet when the last of them was made"
        );
        Some(violation(plan, Kind::Order, what, &calls, version as u64))
    }

    /// Was the plan, at some moment of the call, what the refusal says it was?
    fn explains_refusal(&self, plan: &StoredPlan, made: &Made) -> Option<Violation> {
        let Some((answered_at, Answer::Refused(refused))) = &made.answered else {
            return None;
        };
        if refused.absent && self.latest[1].0 < made.called_at {
            let what = format!("{} found no plan where there was one", made.call.operation);
            return Some(violation(plan, Kind::Order, what, &[made.call.id], 1));
        }
        if refused.stage.is_none() && refused.epoch.is_none() {
            return None;
        }
        // Versions whose successor may have come after the call was made, and which may have come before it
        // was answered; both bounds rise.
        let ended = self
            .latest
            .partition_point(|bound| bound.0 < made.called_at);
        let begun = self
            .earliest
            .partition_point(|bound| bound.0 <= *answered_at);
        let meanwhile = ended.saturating_sub(1).max(1)..begun.min(plan.states.len() + 1);
        let explained = meanwhile.into_iter().any(|version| {
            let then = &plan.states[version - 1];
            let stage = then.stage();
            refused.stage.as_ref().is_none_or(|told| *told == stage)
                && refused.epoch.is_none_or(|told| told == then.epoch)
        });
        if explained {
            return None;
        }
        let what = format!(
            "{} was refused ({}), which was not so at any moment of the call",
            made.call.operation, refused.why
        );
        Some(violation(
            plan,
            Kind::Order,
            what,
            &[made.call.id],
            plan.versions(),
        ))
    }
}

fn violation(
    plan: &StoredPlan,
    kind: Kind,
    what: String,
    calls: &[CallId],
    version: u64,
) -> Violation {
    Violation {
        kind,
        what,
        plan: Some(plan.id()),
        calls: calls.to_vec(),
        versions: Some(version.saturating_sub(1)..=version + 1),
    }
}
