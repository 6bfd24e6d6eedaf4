//! Several decisions of one caller as one: each is made on what those before it left, each keeps its
//! events, and all of them are committed or none.

use crate::facts::PlanChange;
use crate::judgement::Judgement;
use crate::ledger::{AccountName, Reservation};
use crate::{Command, Decision, Facts, Refusal, Row, Timestamp};

use super::{Request, decide};

/// Decides the requests in their order. Refused as soon as one of them is.
///
/// Nobody can have judged a plan that is not committed yet, so a gate on the way opens only if no rule is
/// in force there; otherwise the answer is [`Refusal::JudgementStale`], and the requests have to be made
/// one by one.
///
/// # Panics
///
/// If there are no requests.
pub fn decide_in_a_row(
    facts: &Facts,
    requests: &[Request],
    now: Timestamp,
) -> Result<Decision, Refusal> {
    let mut facts = facts.clone();
    let mut whole: Option<Decision> = None;
    for request in requests {
        let mut request = request.clone();
        judge_nothing(&mut request.command, &facts);
        let decision = decide(&facts, &request, now)?;
        facts = facts.after(&decision);
        whole = Some(match whole {
            Some(before) => before.then(decision),
            None => decision,
        });
    }
    Ok(whole.expect("BUG: there is at least one request"))
}

/// Has a command say of the plan as it stands that no rule said anything.
fn judge_nothing(command: &mut Command, facts: &Facts) {
    if let (Some(plan), Some(judgement)) = (&facts.plan, command.judgement_mut()) {
        *judgement = Judgement {
            version: plan.version,
            revisions: facts.rules.revisions.clone(),
            ..Judgement::default()
        };
    }
}

impl Facts {
    /// The facts once a decision on them is committed.
    #[must_use]
    fn after(mut self, decision: &Decision) -> Self {
        for change in &decision.plans {
            let own = self.plan.as_ref().map(|plan| plan.id);
            if own.is_none() || own == Some(change.plan.id) {
                self.plan = Some(change.plan.clone());
            }
        }
        for row in &decision.rows {
            match row {
                Row::PutAction(action) => self.action = Some(action.clone()),
                Row::PutLease(lease) => self.lease = Some(lease.clone()),
                Row::DropLease(_) => self.lease = None,
                Row::PutChangeset(changeset) => {
                    self.changesets.retain(|other| other.id != changeset.id);
                    if changeset.seal.is_none() {
                        self.changesets.push(changeset.clone());
                    }
                }
                Row::PutEntry(changeset, entry) => {
                    self.entries
                        .retain(|(id, other)| id != changeset || other.path != entry.path);
                    self.entries.push((*changeset, entry.clone()));
                }
                Row::DropEntry(changeset, path) => {
                    self.entries
                        .retain(|(id, other)| id != changeset || other.path != *path);
                }
                Row::PutProject(project) => {
                    self.projects.retain(|other| other.name != project.name);
                    self.projects.push(project.clone());
                }
                Row::DropProject(name) => self.projects.retain(|project| project.name != *name),
                Row::PutAccount(AccountName::Global, account) => self.ledger.global = *account,
                Row::PutAccount(AccountName::Plan(_), account) => self.ledger.plan = *account,
                Row::PutReservation(reservation) => {
                    let others = |other: &Reservation| other.epoch != reservation.epoch;
                    self.ledger.reservations.retain(others);
                    self.ledger.reservations.push(*reservation);
                }
                Row::DropReservation(_, epoch) => {
                    self.ledger
                        .reservations
                        .retain(|other| other.epoch != *epoch);
                }
                // Nothing that is decided in a row reads them.
                Row::PutRule(_)
                | Row::DropRule { .. }
                | Row::PutVerdict(_)
                | Row::PutEvidence(_) => {}
            }
        }
        self
    }
}

impl Decision {
    /// This decision and one that was made on what it left, as one.
    #[must_use]
    fn then(mut self, next: Self) -> Self {
        for change in next.plans {
            let own = self
                .plans
                .iter_mut()
                .find(|own| own.plan.id == change.plan.id);
            match own {
                Some(PlanChange { plan, events }) => {
                    *plan = change.plan;
                    events.extend(change.events);
                }
                None => self.plans.push(change),
            }
        }
        let is_lease = |row: &Row| matches!(row, Row::PutLease(_) | Row::DropLease(_));
        if next.rows.iter().any(is_lease) {
            // Only the last counts.
            self.rows.retain(|row| !is_lease(row));
        }
        self.rows.extend(next.rows);
        self.receipt = next.receipt;
        self
    }
}
