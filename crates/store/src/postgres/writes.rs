//! Turns a decision into statements. A row that was absent when read is inserted; if another
//! transaction has inserted it meanwhile, the insert fails and the command is decided again. No row
//! is overwritten that the decision has not seen.

use std::collections::BTreeSet;

use plan::changeset::Changeset;
use plan::facts::PlanChange;
use plan::invariant::{RuleName, RuleScope};
use plan::{
    ChangesetId, CommandId, Decision, DecisionFacts, Digest, PlanId, ReceiptOutcome, RowWrite,
};

use super::connection::StatementCall;
use super::facts::LockedFacts;
use super::pipeline::values;
use super::rows::{encode_json, to_sql_integer};
use super::statements::{
    DROP_ENTRY, DROP_LEASE, DROP_PROJECT, DROP_RESERVATION, DROP_REVIEWS, DROP_RULE,
    END_PLAN_PROJECTS, INSERT_ACTION, INSERT_CHANGESET, INSERT_COMMAND, INSERT_ENTRY, INSERT_PLAN,
    INSERT_PLAN_PROJECTS, INSERT_PROJECT, PUT_ACCOUNT, PUT_EVIDENCE, PUT_LEASE, PUT_RESERVATION,
    PUT_REVIEW, PUT_RULE, PUT_SCOPE, PUT_VERDICT, UPDATE_ACTION, UPDATE_CHANGESET, UPDATE_ENTRY,
    UPDATE_PLAN, UPDATE_PROJECT,
};
use crate::event_codec::encode_event;
use crate::plan_columns::{PlanColumns, TermsColumns};
use crate::{IdempotencyKey, ReadSet, RowAccess, StoreError};

/// Returns the statements that write a decision; empty if nothing changes and no key must be
/// stored.
pub(super) fn build_write_calls<'a>(
    command_id: CommandId,
    key: Option<&'a IdempotencyKey>,
    reads: &ReadSet,
    locked: &LockedFacts,
    decision: &'a Decision,
) -> Result<Vec<StatementCall<'a>>, StoreError> {
    let mut builder = WriteBuilder {
        locked,
        calls: Vec::with_capacity(12),
        position: 0,
        changesets: locked
            .facts
            .changesets
            .iter()
            .map(|known| known.id)
            .collect(),
    };
    for change in &decision.plans {
        builder.add_plan(reads, change)?;
    }
    for row in &decision.rows {
        builder.add_row(row);
    }
    // A blocked gate must be evaluated again on a retry, so its receipt is not stored.
    let key = key.filter(|_| !matches!(decision.receipt.outcome, ReceiptOutcome::Blocked(_)));
    if key.is_some() || !builder.calls.is_empty() {
        builder.calls.push((
            INSERT_COMMAND,
            values![
                command_id.to_string(),
                key.map(|key| key.scope.as_str()),
                key.map(|key| key.key.as_str()),
                key.map(|key| key.fingerprint.as_bytes().as_slice()),
                key.map(|_| encode_json(&decision.receipt)),
            ],
        ));
    }
    Ok(builder.calls)
}

struct WriteBuilder<'a, 'h> {
    locked: &'h LockedFacts,
    calls: Vec<StatementCall<'a>>,
    /// The position of the last event within this commit.
    position: i64,
    /// Changesets that exist: those read, and those inserted by this commit.
    changesets: BTreeSet<ChangesetId>,
}

impl<'a> WriteBuilder<'a, '_> {
    fn add_plan(&mut self, reads: &ReadSet, change: &'a PlanChange) -> Result<(), StoreError> {
        let columns = PlanColumns::from_plan(&change.plan);
        let count = to_sql_integer(change.events.len() as u64);
        let before = columns.version - count;
        let is_new = before == 0;
        let mut head = if is_new {
            Digest::ZERO
        } else {
            self.locked_head(reads, change.plan.id())?
        };
        let (mut bodies, mut texts, mut hashes) = (Vec::new(), Vec::new(), Vec::new());
        for recorded in &change.events {
            let encoded = encode_event(recorded, head);
            head = encoded.hash;
            bodies.push(encoded.body);
            texts.push(encoded.texts);
            hashes.push(digest_bytes(encoded.hash));
        }
        let mut values = values![
            columns.plan_id,
            columns.version,
            columns.phase,
            columns.state,
            columns.needs_person,
            columns.due_at.map(|due_at| due_at.0),
            digest_bytes(head),
            columns.body,
        ];
        let sql = if is_new {
            let terms = TermsColumns::from_plan(&change.plan);
            values.extend(values![
                columns.id_reversed,
                columns.action,
                terms.origin_plan,
                terms.body
            ]);
            INSERT_PLAN
        } else {
            values.extend(values![before]);
            UPDATE_PLAN
        };
        values.extend(values![
            self.locked.xid_base,
            self.position,
            bodies,
            texts,
            hashes
        ]);
        self.calls.push((sql, values));
        self.position += count;
        let id = change.plan.id().to_string();
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

    /// Returns the hash of the last event of a plan that is about to change.
    fn locked_head(&self, reads: &ReadSet, plan_id: PlanId) -> Result<Digest, StoreError> {
        let exclusive = reads
            .plan
            .is_some_and(|read| read == (plan_id, RowAccess::Exclusive));
        match self.locked.head {
            Some(head) if exclusive => Ok(head),
            // Two transactions that both upgrade a shared lock would deadlock.
            Some(_) | None => Err(StoreError::Database {
                why: format!("plan {plan_id} would be changed, but is not locked exclusively"),
            }),
        }
    }

    fn add_row(&mut self, row: &'a RowWrite) {
        let facts: &DecisionFacts = &self.locked.facts;
        match row {
            RowWrite::PutAction(action) => {
                let name = action.name().full_name();
                let known = facts
                    .action
                    .as_ref()
                    .is_some_and(|known| known.name() == action.name());
                let sql = if known { UPDATE_ACTION } else { INSERT_ACTION };
                self.calls.push((sql, values![name, encode_json(action)]));
            }
            RowWrite::PutProject(project) => {
                let known = facts
                    .projects
                    .iter()
                    .any(|known| known.name == project.name);
                let sql = if known {
                    UPDATE_PROJECT
                } else {
                    INSERT_PROJECT
                };
                let values = values![project.name.full_name(), encode_json(project)];
                self.calls.push((sql, values));
            }
            RowWrite::DropProject(name) => {
                self.calls.push((DROP_PROJECT, values![name.full_name()]))
            }
            RowWrite::PutRule(rule) => {
                self.add_scope_revision(&rule.scope, rule.revision);
                let values = values![
                    rule.scope.to_string(),
                    rule.draft.name.as_str(),
                    encode_json(rule)
                ];
                self.calls.push((PUT_RULE, values));
            }
            RowWrite::DropRule {
                scope,
                name,
                revision,
            } => {
                self.add_scope_revision(scope, *revision);
                self.add_rule_removal(scope, name);
            }
            RowWrite::PutLease(lease) => {
                let values = values![
                    lease.plan.to_string(),
                    lease.owner.as_str(),
                    to_sql_integer(lease.epoch.0),
                    lease.expires_at.0,
                ];
                self.calls.push((PUT_LEASE, values));
            }
            RowWrite::DropLease(plan) => self.calls.push((DROP_LEASE, values![plan.to_string()])),
            RowWrite::PutChangeset(changeset) => self.add_changeset(changeset),
            RowWrite::PutEntry(changeset, entry) => {
                let known = facts
                    .entries
                    .iter()
                    .any(|(of, known)| of == changeset && known.path == entry.path);
                self.calls.push(if known {
                    let values = values![
                        changeset.to_string(),
                        path_digest_bytes(&entry.path),
                        encode_json(entry)
                    ];
                    (UPDATE_ENTRY, values)
                } else {
                    let values = values![
                        changeset.to_string(),
                        entry.path.as_bytes(),
                        encode_json(entry)
                    ];
                    (INSERT_ENTRY, values)
                });
            }
            RowWrite::DropEntry(changeset, path) => {
                let values = values![changeset.to_string(), path_digest_bytes(path)];
                self.calls.push((DROP_ENTRY, values));
            }
            RowWrite::PutVerdict(verdict) => {
                self.calls.push((
                    PUT_VERDICT,
                    values![
                        verdict.plan.to_string(),
                        encode_json(verdict),
                        to_sql_integer(verdict.version.0)
                    ],
                ));
            }
            RowWrite::PutEvidence(evidence) => {
                let rule = &evidence.verdict.rule;
                let values = values![
                    evidence.plan.to_string(),
                    i64::from(evidence.entry),
                    rule.scope.to_string(),
                    rule.name.as_str(),
                    to_sql_integer(rule.revision),
                    evidence.subject.to_string(),
                    encode_json(evidence),
                ];
                self.calls.push((PUT_EVIDENCE, values));
            }
            RowWrite::PutAccount(name, account) => {
                let values = values![name.to_string(), encode_json(account)];
                self.calls.push((PUT_ACCOUNT, values));
            }
            RowWrite::PutReservation(reservation) => {
                let values = values![
                    reservation.plan.to_string(),
                    to_sql_integer(reservation.epoch.0),
                    encode_json(reservation),
                ];
                self.calls.push((PUT_RESERVATION, values));
            }
            RowWrite::DropReservation(plan, epoch) => {
                let values = values![plan.to_string(), to_sql_integer(epoch.0)];
                self.calls.push((DROP_RESERVATION, values));
            }
            RowWrite::PutReview(review) => {
                let values = values![
                    review.plan.to_string(),
                    review.person.as_str(),
                    encode_json(review)
                ];
                self.calls.push((PUT_REVIEW, values));
            }
            RowWrite::DropReviews(plan) => {
                self.calls.push((DROP_REVIEWS, values![plan.to_string()]));
            }
        }
    }

    fn add_scope_revision(&mut self, scope: &RuleScope, revision: u64) {
        self.calls.push((
            PUT_SCOPE,
            values![scope.to_string(), to_sql_integer(revision)],
        ));
    }

    fn add_rule_removal(&mut self, scope: &RuleScope, name: &'a RuleName) {
        self.calls
            .push((DROP_RULE, values![scope.to_string(), name.as_str()]));
    }

    fn add_changeset(&mut self, changeset: &'a Changeset) {
        let sealed = changeset.seal.is_some();
        // A changeset that is opened and sealed in one command is written twice.
        self.calls.push(if !self.changesets.insert(changeset.id) {
            (
                UPDATE_CHANGESET,
                values![changeset.id.to_string(), sealed, encode_json(changeset)],
            )
        } else {
            let values = values![
                changeset.id.to_string(),
                changeset.plan.to_string(),
                to_sql_integer(changeset.epoch.0),
                changeset.node.as_str(),
                sealed,
                encode_json(changeset),
            ];
            (INSERT_CHANGESET, values)
        });
    }
}

fn digest_bytes(digest: Digest) -> Vec<u8> {
    digest.as_bytes().to_vec()
}

fn path_digest_bytes(path: &plan::changeset::TreePath) -> Vec<u8> {
    digest_bytes(Digest::hash_bytes(path.as_bytes()))
}
