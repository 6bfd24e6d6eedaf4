//! A decision as statements. What was read decides between inserting and updating: a row that was
//! not there is inserted, and if somebody else inserted it meanwhile, that fails and is decided
//! again. Nothing is overwritten that was not seen.

use std::collections::BTreeSet;

use plan::changeset::Changeset;
use plan::facts::PlanChange;
use plan::invariant::{RuleName, Scope};
use plan::{ChangesetId, CommandId, Decision, Digest, Facts, Outcome, PlanId, Row};

use super::connection::Call;
use super::facts::Held;
use super::pipeline::values;
use super::rows::{json, number};
use super::statements::{
    DROP_ENTRY, DROP_LEASE, DROP_PROJECT, DROP_RESERVATION, DROP_RULE, END_PLAN_PROJECTS,
    INSERT_ACTION, INSERT_CHANGESET, INSERT_COMMAND, INSERT_ENTRY, INSERT_PLAN,
    INSERT_PLAN_PROJECTS, INSERT_PROJECT, PUT_ACCOUNT, PUT_EVIDENCE, PUT_LEASE, PUT_RESERVATION,
    PUT_RULE, PUT_SCOPE, PUT_VERDICT, UPDATE_ACTION, UPDATE_CHANGESET, UPDATE_ENTRY, UPDATE_PLAN,
    UPDATE_PROJECT,
};
use crate::columns::PlanColumns;
use crate::record::encode;
use crate::{Access, Key, Reads, StoreError};

/// The statements that carry out a decision; none if it changes nothing and nothing is to be
/// remembered.
pub(super) fn writes<'a>(
    id: CommandId,
    key: Option<&'a Key>,
    reads: &Reads,
    held: &Held,
    decision: &'a Decision,
) -> Result<Vec<Call<'a>>, StoreError> {
    let mut writes = Writes {
        held,
        calls: Vec::with_capacity(12),
        position: 0,
        changesets: held.facts.changesets.iter().map(|known| known.id).collect(),
    };
    for change in &decision.plans {
        writes.plan(reads, change)?;
    }
    for row in &decision.rows {
        writes.row(row);
    }
    // A gate that did not open must be judged again when it is asked again.
    let key = key.filter(|_| !matches!(decision.receipt.outcome, Outcome::Blocked(_)));
    if key.is_some() || !writes.calls.is_empty() {
        writes.calls.push((
            INSERT_COMMAND,
            values![
                id.to_string(),
                key.map(|key| key.scope.as_str()),
                key.map(|key| key.key.as_str()),
                key.map(|key| key.fingerprint.as_bytes().as_slice()),
                key.map(|_| json(&decision.receipt)),
            ],
        ));
    }
    Ok(writes.calls)
}

struct Writes<'a, 'h> {
    held: &'h Held,
    calls: Vec<Call<'a>>,
    /// The place of the last event within this commit.
    position: i64,
    /// Changesets that exist by now: those that were read, and those of this commit.
    changesets: BTreeSet<ChangesetId>,
}

impl<'a> Writes<'a, '_> {
    fn plan(&mut self, reads: &Reads, change: &'a PlanChange) -> Result<(), StoreError> {
        let columns = PlanColumns::of(&change.plan);
        let count = number(change.events.len() as u64);
        let before = columns.version - count;
        let is_new = before == 0;
        let mut head = if is_new {
            Digest::ZERO
        } else {
            self.head_of(reads, change.plan.id)?
        };
        let (mut bodies, mut texts, mut hashes) = (Vec::new(), Vec::new(), Vec::new());
        for recorded in &change.events {
            let encoded = encode(recorded, head);
            head = encoded.hash;
            bodies.push(encoded.body);
            texts.push(encoded.texts);
            hashes.push(digest(encoded.hash));
        }
        let mut values = values![
            columns.plan_id,
            columns.version,
            columns.phase,
            columns.state,
            columns.needs_person,
            columns.due_at.map(|due_at| due_at.0),
            digest(head),
            columns.body,
        ];
        let sql = if is_new {
            values.extend(values![columns.id_reversed, columns.action]);
            INSERT_PLAN
        } else {
            values.extend(values![before]);
            UPDATE_PLAN
        };
        values.extend(values![
            self.held.xid_base,
            self.position,
            bodies,
            texts,
            hashes
        ]);
        self.calls.push((sql, values));
        self.position += count;
        let id = change.plan.id.to_string();
        match (columns.projects.is_empty(), is_new, columns.live) {
            (true, _, _) | (false, false, true) => {}
            (false, true, live) => {
                let values = values![id, live, columns.projects];
                self.calls.push((INSERT_PLAN_PROJECTS, values));
            }
            (false, false, false) => self.calls.push((END_PLAN_PROJECTS, values![id])),
        }
        Ok(())
    }

    /// The hash of the last event of a plan that is about to change.
    fn head_of(&self, reads: &Reads, plan: PlanId) -> Result<Digest, StoreError> {
        let exclusive = reads
            .plan
            .is_some_and(|read| read == (plan, Access::Exclusive));
        match self.held.head {
            Some(head) if exclusive => Ok(head),
            // Two who hold it shared and both change it would wait for each other for ever.
            Some(_) | None => Err(StoreError::Database {
                why: format!("plan {plan} was to be changed but is not held exclusively"),
            }),
        }
    }

    fn row(&mut self, row: &'a Row) {
        let facts: &Facts = &self.held.facts;
        match row {
            Row::PutAction(action) => {
                let name = action.name().full();
                let known = facts
                    .action
                    .as_ref()
                    .is_some_and(|known| known.name() == action.name());
                let sql = if known { UPDATE_ACTION } else { INSERT_ACTION };
                self.calls.push((sql, values![name, json(action)]));
            }
            Row::PutProject(project) => {
                let known = facts
                    .projects
                    .iter()
                    .any(|known| known.name == project.name);
                let sql = if known {
                    UPDATE_PROJECT
                } else {
                    INSERT_PROJECT
                };
                let values = values![project.name.full(), json(project)];
                self.calls.push((sql, values));
            }
            Row::DropProject(name) => self.calls.push((DROP_PROJECT, values![name.full()])),
            Row::PutRule(rule) => {
                self.scope(&rule.scope, rule.revision);
                let values = values![rule.scope.to_string(), rule.draft.name.as_str(), json(rule)];
                self.calls.push((PUT_RULE, values));
            }
            Row::DropRule {
                scope,
                name,
                revision,
            } => {
                self.scope(scope, *revision);
                self.drop_rule(scope, name);
            }
            Row::PutLease(lease) => {
                let values = values![
                    lease.plan.to_string(),
                    lease.owner.as_str(),
                    number(lease.epoch.0),
                    lease.expires_at.0,
                ];
                self.calls.push((PUT_LEASE, values));
            }
            Row::DropLease(plan) => self.calls.push((DROP_LEASE, values![plan.to_string()])),
            Row::PutChangeset(changeset) => self.changeset(changeset),
            Row::PutEntry(changeset, entry) => {
                let known = facts
                    .entries
                    .iter()
                    .any(|(of, known)| of == changeset && known.path == entry.path);
                self.calls.push(if known {
                    let values =
                        values![changeset.to_string(), path_digest(&entry.path), json(entry)];
                    (UPDATE_ENTRY, values)
                } else {
                    let values = values![changeset.to_string(), entry.path.as_bytes(), json(entry)];
                    (INSERT_ENTRY, values)
                });
            }
            Row::DropEntry(changeset, path) => {
                let values = values![changeset.to_string(), path_digest(path)];
                self.calls.push((DROP_ENTRY, values));
            }
            Row::PutVerdict(verdict) => {
                self.calls.push((
                    PUT_VERDICT,
                    values![
                        verdict.plan.to_string(),
                        json(verdict),
                        number(verdict.version.0)
                    ],
                ));
            }
            Row::PutEvidence(evidence) => {
                let rule = &evidence.verdict.rule;
                let values = values![
                    evidence.plan.to_string(),
                    i64::from(evidence.entry),
                    rule.scope.to_string(),
                    rule.name.as_str(),
                    number(rule.revision),
                    evidence.subject.to_string(),
                    json(evidence),
                ];
                self.calls.push((PUT_EVIDENCE, values));
            }
            Row::PutAccount(name, account) => {
                let values = values![name.to_string(), json(account)];
                self.calls.push((PUT_ACCOUNT, values));
            }
            Row::PutReservation(reservation) => {
                let values = values![
                    reservation.plan.to_string(),
                    number(reservation.epoch.0),
                    json(reservation),
                ];
                self.calls.push((PUT_RESERVATION, values));
            }
            Row::DropReservation(plan, epoch) => {
                let values = values![plan.to_string(), number(epoch.0)];
                self.calls.push((DROP_RESERVATION, values));
            }
        }
    }

    fn scope(&mut self, scope: &Scope, revision: u64) {
        self.calls
            .push((PUT_SCOPE, values![scope.to_string(), number(revision)]));
    }

    fn drop_rule(&mut self, scope: &Scope, name: &'a RuleName) {
        self.calls
            .push((DROP_RULE, values![scope.to_string(), name.as_str()]));
    }

    fn changeset(&mut self, changeset: &'a Changeset) {
        let sealed = changeset.seal.is_some();
        // One that is opened and sealed at once is written twice.
        self.calls.push(if !self.changesets.insert(changeset.id) {
            (
                UPDATE_CHANGESET,
                values![changeset.id.to_string(), sealed, json(changeset)],
            )
        } else {
            let values = values![
                changeset.id.to_string(),
                changeset.plan.to_string(),
                number(changeset.epoch.0),
                changeset.node.as_str(),
                sealed,
                json(changeset),
            ];
            (INSERT_CHANGESET, values)
        });
    }
}

fn digest(digest: Digest) -> Vec<u8> {
    digest.as_bytes().to_vec()
}

fn path_digest(path: &plan::changeset::TreePath) -> Vec<u8> {
    digest(Digest::of(path.as_bytes()))
}
