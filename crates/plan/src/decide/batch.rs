//! Decides several requests of one caller as one commit. Each is decided on the facts that the
//! previous ones leave and keeps its own events. All are committed, or none.

use crate::completion::record_completions;
use crate::facts::PlanChange;
use crate::judgement::GateJudgement;
use crate::ledger::{AccountName, BudgetReservation};
use crate::{Command, Decision, DecisionFacts, Refusal, RowWrite, Timestamp};

use super::{DecisionRequest, decide};

/// Decides the requests in order. Fails with the first refusal.
///
/// Nobody can have judged a plan version that is not committed yet. A gate inside a batch therefore
/// opens only if no rule is in force there. Otherwise the answer is [`Refusal::JudgementStale`],
/// and the caller submits the requests one by one.
///
/// # Panics
///
/// If there are no requests.
pub fn decide_batch(
    facts: &DecisionFacts,
    requests: &[DecisionRequest],
    now: Timestamp,
) -> Result<Decision, Refusal> {
    let mut facts = facts.clone();
    let mut combined: Option<Decision> = None;
    for request in requests {
        let mut request = request.clone();
        set_empty_judgement(&mut request.command, &facts);
        let decision = decide(&facts, &request, now)?;
        facts = facts.after_decision(&decision);
        combined = Some(match combined {
            Some(before) => before.followed_by(decision),
            None => decision,
        });
    }
    Ok(combined.expect("BUG: there is at least one request"))
}

/// Gives the command a judgement of the current plan without any verdicts.
fn set_empty_judgement(command: &mut Command, facts: &DecisionFacts) {
    if let (Some(plan), Some(judgement)) = (&facts.plan, command.judgement_mut()) {
        *judgement = GateJudgement {
            version: plan.version(),
            revisions: facts.rules.revisions.clone(),
            ..GateJudgement::default()
        };
    }
}

impl DecisionFacts {
    /// Returns the facts as they are after the decision is committed.
    #[must_use]
    fn after_decision(mut self, decision: &Decision) -> Self {
        for change in &decision.plans {
            let own = self.plan.as_ref().map(|plan| plan.id());
            if own.is_none() || own == Some(change.plan.id()) {
                let before = self.plan.as_ref();
                let holder = before.and_then(|plan| plan.stage().holder());
                let held_epoch = holder.map(|holder| holder.epoch);
                record_completions(&mut self.completions, held_epoch, &change.events);
                self.plan = Some(change.plan.clone());
            }
        }
        for row in &decision.rows {
            match row {
                RowWrite::PutAction(action) => self.action = Some(action.clone()),
                RowWrite::PutLease(lease) => self.lease = Some(lease.clone()),
                RowWrite::DropLease(_) => self.lease = None,
                RowWrite::PutChangeset(changeset) => {
                    self.changesets.retain(|other| other.id != changeset.id);
                    if changeset.seal.is_none() {
                        self.changesets.push(changeset.clone());
                    }
                }
                RowWrite::PutEntry(changeset, entry) => {
                    self.entries
                        .retain(|(id, other)| id != changeset || other.path != entry.path);
                    self.entries.push((*changeset, entry.clone()));
                }
                RowWrite::DropEntry(changeset, path) => {
                    self.entries
                        .retain(|(id, other)| id != changeset || other.path != *path);
                }
                RowWrite::PutProject(project) => {
                    self.projects.retain(|other| other.name != project.name);
                    self.projects.push(project.clone());
                }
                RowWrite::DropProject(name) => {
                    self.projects.retain(|project| project.name != *name)
                }
                RowWrite::PutAccount(AccountName::Global, account) => self.ledger.global = *account,
                RowWrite::PutAccount(AccountName::Plan(_), account) => self.ledger.plan = *account,
                RowWrite::PutReservation(reservation) => {
                    let others = |other: &BudgetReservation| other.epoch != reservation.epoch;
                    self.ledger.reservations.retain(others);
                    self.ledger.reservations.push(*reservation);
                }
                RowWrite::DropReservation(_, epoch) => {
                    self.ledger
                        .reservations
                        .retain(|other| other.epoch != *epoch);
                }
                RowWrite::PutReview(review) => {
                    self.reviews.retain(|other| other.person != review.person);
                    self.reviews.push(review.clone());
                }
                RowWrite::DropReviews(_) => self.reviews.clear(),
                // No command in a batch reads these rows.
                RowWrite::PutRule(_)
                | RowWrite::DropRule { .. }
                | RowWrite::PutVerdict(_)
                | RowWrite::PutEvidence(_) => {}
            }
        }
        self
    }
}

impl Decision {
    /// Combines this decision with the next one, which was made on the facts it leaves.
    #[must_use]
    fn followed_by(mut self, next: Self) -> Self {
        for change in next.plans {
            let own = self
                .plans
                .iter_mut()
                .find(|own| own.plan.id() == change.plan.id());
            match own {
                Some(PlanChange { plan, events }) => {
                    *plan = change.plan;
                    events.extend(change.events);
                }
                None => self.plans.push(change),
            }
        }
        let is_lease =
            |row: &RowWrite| matches!(row, RowWrite::PutLease(_) | RowWrite::DropLease(_));
        if next.rows.iter().any(is_lease) {
            // Only the last lease row counts.
            self.rows.retain(|row| !is_lease(row));
        }
        self.rows.extend(next.rows);
        self.receipt = next.receipt;
        self
    }
}
