//! Did everything that landed have a signature, on exactly that and under exactly these rules?

use plan::invariant::{Gate, RuleRef};
use plan::stage::{RefMove, ResultContent};
use plan::{Digest, Event, LandingOptions, Profile, ResourceCommit};

use super::{Life, Outcome};
use crate::gating::rules;

/// A signature as it was given.
struct Signature<'a> {
    content: &'a Digest,
    how: &'a LandingOptions,
    rules: &'a [RuleRef],
    tips: &'a [ResourceCommit],
    by_person: bool,
}

impl Life<'_> {
    pub(super) fn signatures(&self, outcome: &mut Outcome) {
        let (mut signature, mut result) = (None::<Signature<'_>>, None::<&ResultContent>);
        for (at, recorded) in self.history.iter().enumerate() {
            let wrong = match &recorded.event {
                Event::ExecuteCompleted { result: made, .. } => {
                    (signature, result) = (None, Some(made));
                    None
                }
                Event::Revised { .. } | Event::Reverted { .. } => {
                    signature = None;
                    None
                }
                Event::Approved {
                    content,
                    how,
                    rules,
                    tips,
                    by_profile,
                    once: _,
                } => {
                    signature = Some(Signature {
                        content,
                        how,
                        rules,
                        tips,
                        by_person: by_profile.is_none(),
                    });
                    outcome.tally.signed += usize::from(by_profile.is_none());
                    self.may_sign(at, *by_profile)
                        .or_else(|| self.covers(at, signature.as_ref(), result))
                }
                Event::ApplyEntered { .. } if self.row.plan.has_targets() => {
                    self.covers(at, signature.as_ref(), result)
                }
                Event::ApplyPrepared { intent, .. } if self.row.plan.has_targets() => self
                    .covers(at, signature.as_ref(), result)
                    .or_else(|| self.aims(at, signature.as_ref(), &intent.moves)),
                _ => None,
            };
            outcome.violations.extend(wrong);
        }
    }

    /// A person signs, or a profile that lands by itself once the gate is open.
    fn may_sign(&self, at: usize, by_profile: Option<Profile>) -> Option<String> {
        let recorded = &self.history[at];
        match by_profile {
            None if recorded.by.is_person() => None,
            None => Some(self.wrong(at, "nobody but a person signs")),
            Some(profile) => {
                let gated = self.history[..at].last().is_some_and(|one| {
                    let gate = Gate::Apply;
                    one.at == recorded.at
                        && matches!(&one.event, Event::GateHeld { gate: held, .. } if *held == gate)
                });
                let may = profile == Profile::Auto && self.row.plan.profile == profile && gated;
                (!may).then(|| self.wrong(at, &format!("the profile {profile} does not sign")))
            }
        }
    }

    /// Is there a signature on this result, under the rules as they are?
    fn covers(
        &self,
        at: usize,
        signature: Option<&Signature<'_>>,
        result: Option<&ResultContent>,
    ) -> Option<String> {
        let (Some(signature), Some(result)) = (signature, result) else {
            return Some(self.wrong(at, "it goes on to land without a signature"));
        };
        if *signature.content != result.digest(signature.how) {
            return Some(self.wrong(at, "the signature is on another result"));
        }
        let mut signed: Vec<RuleRef> = signature.rules.to_vec();
        signed.sort();
        let mut in_force = Vec::new();
        for book in self.statutes.possible(self.before(at), self.history[at].at) {
            let book = rules::at(Gate::Apply, &rules::in_force(&book));
            in_force = book.iter().map(|rule| rule.reference()).collect();
            in_force.sort();
            if in_force == signed {
                return None;
            }
        }
        let (signed, in_force) = (rules::told(&signed), rules::told(&in_force));
        let told = format!("it was signed under {signed}, and {in_force} was in force");
        Some(self.wrong(at, &told))
    }

    /// Is it about to land where the signature says, on what follows what was looked at? Under `manual` a
    /// signature does not outlive that its target moved.
    fn aims(
        &self,
        at: usize,
        signature: Option<&Signature<'_>>,
        moves: &[RefMove],
    ) -> Option<String> {
        // A profile signs what an engine without hands moved on, which cannot look at targets.
        let signature = signature.filter(|signature| signature.by_person)?;
        let manual = self.row.plan.profile == Profile::Manual;
        let is_off = |step: &&RefMove| {
            let mut seen = signature.tips.iter();
            let seen = seen.find(|tip| tip.resource == step.resource);
            let Some(tip) = seen else { return true };
            let older = ["merge-base", "--is-ancestor", &tip.commit, &step.old];
            tip.commit != step.old && (manual || self.ground.git(&older).is_err())
        };
        let off = moves.iter().find(is_off)?;
        let told = format!("{} is not where it was signed for", off.target);
        Some(self.wrong(at, &told))
    }
}
