//! Checks that everything that landed was approved: this result, under the rules in force.

use plan::invariant::{Gate, RuleRef};
use plan::stage::{RefMove, ResultContent};
use plan::{Digest, Event, LandingOptions, Profile, ResourceCommit};

use super::{GateTrialOutcome, PlanReplay};
use crate::gate_trial::sample_rules;

/// An approval as the event records it.
struct RecordedApproval<'a> {
    content: &'a Digest,
    options: &'a LandingOptions,
    rules: &'a [RuleRef],
    tips: &'a [ResourceCommit],
    by_person: bool,
}

impl PlanReplay<'_> {
    pub(super) fn check_approvals(&self, outcome: &mut GateTrialOutcome) {
        let (mut approval, mut result) = (None::<RecordedApproval<'_>>, None::<&ResultContent>);
        for (index, recorded) in self.history.iter().enumerate() {
            let problem = match &recorded.event {
                Event::ExecuteCompleted {
                    result: completed, ..
                } => {
                    (approval, result) = (None, Some(completed));
                    None
                }
                Event::ResultPicked { result: picked, .. } => {
                    (approval, result) = (None, Some(picked));
                    None
                }
                Event::Revised { .. } | Event::Reverted { .. } => {
                    approval = None;
                    None
                }
                Event::Approved {
                    content,
                    options,
                    rules,
                    tips,
                    by_profile,
                    once: _,
                    lands: _,
                } => {
                    approval = Some(RecordedApproval {
                        content,
                        options,
                        rules,
                        tips,
                        by_person: by_profile.is_none(),
                    });
                    outcome.counts.approvals += usize::from(by_profile.is_none());
                    self.check_approver(index, *by_profile)
                        .or_else(|| self.check_covered(index, approval.as_ref(), result))
                }
                Event::ApplyEntered { .. } if self.row.plan.has_targets() => {
                    self.check_covered(index, approval.as_ref(), result)
                }
                Event::ApplyPrepared { intent, .. } if self.row.plan.has_targets() => self
                    .check_covered(index, approval.as_ref(), result)
                    .or_else(|| self.check_targets(index, approval.as_ref(), &intent.moves)),
                _ => None,
            };
            outcome.violations.extend(problem);
        }
    }

    /// A person approves, or the profile `auto` right after the apply gate.
    fn check_approver(&self, index: usize, by_profile: Option<Profile>) -> Option<String> {
        let recorded = &self.history[index];
        match by_profile {
            None if recorded.by.is_person() => None,
            None => Some(self.problem_at(index, "only a person may approve")),
            Some(profile) => {
                let passed_gate = self.history[..index].last().is_some_and(|before| {
                    before.at == recorded.at
                        && matches!(&before.event, Event::GateHeld { gate, .. } if *gate == Gate::Apply)
                });
                let may_approve =
                    profile == Profile::Auto && self.row.plan.profile() == profile && passed_gate;
                (!may_approve).then(|| {
                    self.problem_at(index, &format!("the profile {profile} may not approve"))
                })
            }
        }
    }

    /// The approval covers this result and the rules in force.
    fn check_covered(
        &self,
        index: usize,
        approval: Option<&RecordedApproval<'_>>,
        result: Option<&ResultContent>,
    ) -> Option<String> {
        let (Some(approval), Some(result)) = (approval, result) else {
            return Some(self.problem_at(index, "it enters apply without an approval"));
        };
        if *approval.content != result.digest(approval.options) {
            return Some(self.problem_at(index, "the approval is for another result"));
        }
        let mut approved: Vec<RuleRef> = approval.rules.to_vec();
        approved.sort();
        let mut in_force = Vec::new();
        let possible_rules = self
            .rule_history
            .possible_rules(self.plan_before(index), self.history[index].at);
        for rules in possible_rules {
            let effective = sample_rules::effective_rules(&rules);
            let judged = sample_rules::rules_at_gate(Gate::Apply, &effective);
            in_force = judged.iter().map(|rule| rule.reference()).collect();
            in_force.sort();
            if in_force == approved {
                return None;
            }
        }
        let (approved, in_force) = (
            sample_rules::format_rules(&approved),
            sample_rules::format_rules(&in_force),
        );
        let problem = format!("it was approved under {approved}, but {in_force} was in force");
        Some(self.problem_at(index, &problem))
    }

    /// The landing moves each target from the approved commit or a descendant of it. Under `manual`, moving the target
    /// voids the approval.
    fn check_targets(
        &self,
        index: usize,
        approval: Option<&RecordedApproval<'_>>,
        moves: &[RefMove],
    ) -> Option<String> {
        // A profile approves without a local host, where targets are not known.
        let approval = approval.filter(|approval| approval.by_person)?;
        let is_manual = self.row.plan.profile() == Profile::Manual;
        let is_unapproved = |step: &&RefMove| {
            let mut tips = approval.tips.iter();
            let Some(tip) = tips.find(|tip| tip.resource == step.resource) else {
                return true;
            };
            let is_ancestor = ["merge-base", "--is-ancestor", &tip.commit, &step.old];
            tip.commit != step.old && (is_manual || self.env.run_git(&is_ancestor).is_err())
        };
        let unapproved = moves.iter().find(is_unapproved)?;
        let problem = format!("{} is not at the approved commit", unapproved.target);
        Some(self.problem_at(index, &problem))
    }
}
