//! The tables of the memory store, modeled on those of the databases.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use plan::changeset::{Changeset, ChangesetEntry, TreePath};
use plan::facts::{Lease, LivePlans, PlanChange};
use plan::invariant::{Rule, RuleBook, RuleName, RuleRef, RuleScope};
use plan::judgement::{GateVerdict, RuleEvidence};
use plan::ledger::{AccountName, BudgetAccount, BudgetLedger, BudgetReservation};
use plan::review::PlanReview;
use plan::transcript::TranscriptEntry;
use plan::{
    Action, ChangesetId, CommandReceipt, Decision, Digest, Epoch, Plan, PlanId, PlanVersion,
    Project, QualifiedName, RowWrite,
};

use crate::commit::MAX_LIVE_PLANS_NAMED;
use crate::event_codec::encode_event;
use crate::{
    ChangesetReads, Cursor, PlanRow, ProjectReads, RowAccess, StoredEvent, TranscriptPosition,
};

#[derive(Default)]
pub(super) struct MemoryTables {
    /// Each plan with the hash of its last event.
    pub plans: BTreeMap<PlanId, (Arc<Plan>, Digest)>,
    /// The events of each plan, in order.
    pub events: BTreeMap<PlanId, Vec<StoredEvent>>,
    /// The order of commits across plans.
    pub log: Vec<(PlanId, PlanVersion)>,
    pub leases: BTreeMap<PlanId, Lease>,
    pub verdicts: BTreeMap<PlanId, GateVerdict>,
    pub evidence: BTreeMap<(PlanId, u32, RuleRef, Digest), RuleEvidence>,
    pub actions: BTreeMap<QualifiedName, Action>,
    pub projects: BTreeMap<QualifiedName, Project>,
    pub revisions: BTreeMap<RuleScope, u64>,
    pub rules: BTreeMap<(RuleScope, RuleName), Rule>,
    pub changesets: BTreeMap<ChangesetId, Changeset>,
    pub entries: BTreeMap<ChangesetId, BTreeMap<TreePath, ChangesetEntry>>,
    pub accounts: BTreeMap<AccountName, BudgetAccount>,
    pub reservations: BTreeMap<(PlanId, Epoch), BudgetReservation>,
    /// By plan and person.
    pub reviews: BTreeMap<(PlanId, String), PlanReview>,
    pub transcripts: BTreeMap<PlanId, BTreeMap<TranscriptPosition, TranscriptEntry>>,
    /// Receipts by scope and idempotency key, each with the digest of its arguments.
    pub keys: BTreeMap<(String, String), (Digest, CommandReceipt)>,
    /// How often waiters were signalled, at least once per commit.
    pub signal_count: u64,
}

impl MemoryTables {
    pub fn plan_row(&self, id: PlanId) -> Option<PlanRow> {
        let (plan, head) = self.plans.get(&id)?;
        Some(PlanRow {
            plan: Plan::clone(plan),
            head: *head,
            lease: self.leases.get(&id).cloned(),
            verdict: self.verdicts.get(&id).cloned(),
        })
    }

    pub fn event_at(&self, plan_id: PlanId, version: PlanVersion) -> Option<StoredEvent> {
        let index = usize::try_from(version.0).ok()?.checked_sub(1)?;
        self.events.get(&plan_id)?.get(index).cloned()
    }

    /// Returns the rules of these scopes, or of all scopes if the list is empty.
    pub fn read_rules(&self, scopes: &[RuleScope]) -> RuleBook {
        let is_wanted = |scope: &RuleScope| scopes.is_empty() || scopes.contains(scope);
        RuleBook {
            revisions: self
                .revisions
                .iter()
                .filter(|(scope, _)| is_wanted(scope))
                .map(|(s, r)| (s.clone(), *r))
                .collect(),
            rules: self
                .rules
                .values()
                .filter(|rule| is_wanted(&rule.scope))
                .cloned()
                .collect(),
        }
    }

    /// Returns the requested projects sorted by name, and the unfinished plans of those read
    /// exclusively.
    pub fn read_projects(
        &self,
        plan: Option<&Plan>,
        reads: &ProjectReads,
    ) -> (Vec<Project>, LivePlans) {
        let (names, exclusive_names): (BTreeSet<&QualifiedName>, BTreeSet<&QualifiedName>) =
            match reads {
                ProjectReads::None => return Default::default(),
                ProjectReads::OfPlan => {
                    let names = plan.map(Plan::projects).unwrap_or_default();
                    (names, BTreeSet::new())
                }
                ProjectReads::Named(named) => {
                    let names = named.iter().map(|(name, _)| name).collect();
                    let exclusive = named
                        .iter()
                        .filter(|(_, access)| *access == RowAccess::Exclusive);
                    (names, exclusive.map(|(name, _)| name).collect())
                }
            };
        let projects = names
            .into_iter()
            .filter_map(|name| self.projects.get(name).cloned())
            .collect();
        let mut live_plans = LivePlans::default();
        for (plan, _) in self.plans.values().rev() {
            if !plan.stage().is_final() && !exclusive_names.is_disjoint(&plan.projects()) {
                live_plans.count += 1;
                if live_plans.newest.len() < MAX_LIVE_PLANS_NAMED {
                    live_plans.newest.push(plan.id());
                }
            }
        }
        (projects, live_plans)
    }

    pub fn list_entries(&self, changeset_id: ChangesetId) -> Vec<ChangesetEntry> {
        self.entries
            .get(&changeset_id)
            .map(|entries| entries.values().cloned().collect())
            .unwrap_or_default()
    }

    pub fn read_open_changesets(
        &self,
        plan_id: Option<PlanId>,
        reads: &ChangesetReads,
    ) -> (Vec<Changeset>, Vec<(ChangesetId, ChangesetEntry)>) {
        let is_wanted: Box<dyn Fn(&TreePath) -> bool> = match reads {
            ChangesetReads::None => return (Vec::new(), Vec::new()),
            ChangesetReads::EntriesAt(paths) => Box::new(|path| paths.contains(path)),
            ChangesetReads::All => Box::new(|_| true),
        };
        let is_open =
            |changeset: &&Changeset| Some(changeset.plan) == plan_id && changeset.seal.is_none();
        let changesets: Vec<Changeset> =
            self.changesets.values().filter(is_open).cloned().collect();
        let entries = changesets
            .iter()
            .flat_map(|changeset| {
                self.list_entries(changeset.id)
                    .into_iter()
                    .map(|entry| (changeset.id, entry))
            })
            .filter(|(_, entry)| is_wanted(&entry.path))
            .collect();
        (changesets, entries)
    }

    /// Returns what a plan has spent and reserved, and the totals of all plans.
    pub fn read_ledger(&self, plan_id: PlanId) -> BudgetLedger {
        let account = |name| self.accounts.get(&name).copied().unwrap_or_default();
        let plan_range = (plan_id, Epoch(0))..=(plan_id, Epoch(u64::MAX));
        BudgetLedger {
            global: account(AccountName::Global),
            plan: account(AccountName::Plan(plan_id)),
            reservations: self
                .reservations
                .range(plan_range)
                .map(|(_, one)| *one)
                .collect(),
        }
    }

    /// Returns what people noted about a plan, sorted by person.
    pub fn list_reviews(&self, plan_id: PlanId) -> Vec<PlanReview> {
        let of_plan = self.reviews.range((plan_id, String::new())..);
        let of_plan = of_plan.take_while(|((plan, _), _)| *plan == plan_id);
        of_plan.map(|(_, review)| review.clone()).collect()
    }

    /// Writes a decision. Infallible, so that a commit is never partial.
    pub fn write_decision(&mut self, decision: Decision) {
        for change in decision.plans {
            self.write_plan(change);
        }
        for row in decision.rows {
            self.write_row(row);
        }
        self.signal_count += 1;
    }

    fn write_plan(&mut self, change: PlanChange) {
        let mut head = self
            .plans
            .get(&change.plan.id())
            .map_or(Digest::ZERO, |(_, head)| *head);
        for recorded in change.events {
            let encoded = encode_event(&recorded, head);
            head = encoded.hash;
            self.log.push((recorded.plan, recorded.version));
            let cursor = Cursor {
                major: 0,
                minor: self.log.len() as u64,
            };
            self.events
                .entry(recorded.plan)
                .or_default()
                .push(StoredEvent {
                    cursor: Some(cursor),
                    recorded,
                    body: encoded.body,
                    hash: encoded.hash,
                });
        }
        self.plans.insert(change.plan.id(), (change.plan, head));
    }

    fn write_row(&mut self, row: RowWrite) {
        match row {
            RowWrite::PutAction(action) => {
                self.actions.insert(action.name().clone(), action);
            }
            RowWrite::PutProject(project) => {
                self.projects.insert(project.name.clone(), project);
            }
            RowWrite::DropProject(name) => {
                self.projects.remove(&name);
            }
            RowWrite::PutRule(rule) => {
                self.revisions.insert(rule.scope.clone(), rule.revision);
                self.rules
                    .insert((rule.scope.clone(), rule.draft.name.clone()), rule);
            }
            RowWrite::DropRule {
                scope,
                name,
                revision,
            } => {
                self.revisions.insert(scope.clone(), revision);
                self.rules.remove(&(scope, name));
            }
            RowWrite::PutLease(lease) => {
                self.leases.insert(lease.plan, lease);
            }
            RowWrite::DropLease(plan) => {
                self.leases.remove(&plan);
            }
            RowWrite::PutChangeset(changeset) => {
                self.changesets.insert(changeset.id, changeset);
            }
            RowWrite::PutEntry(changeset, entry) => {
                self.entries
                    .entry(changeset)
                    .or_default()
                    .insert(entry.path.clone(), entry);
            }
            RowWrite::DropEntry(changeset, path) => {
                self.entries.entry(changeset).or_default().remove(&path);
            }
            RowWrite::PutVerdict(verdict) => {
                self.verdicts.insert(verdict.plan, verdict);
            }
            RowWrite::PutEvidence(evidence) => {
                let rule = evidence.verdict.rule.clone();
                let key = (evidence.plan, evidence.entry, rule, evidence.subject);
                self.evidence.insert(key, evidence);
            }
            RowWrite::PutAccount(name, account) => {
                self.accounts.insert(name, account);
            }
            RowWrite::PutReservation(reservation) => {
                let key = (reservation.plan, reservation.epoch);
                self.reservations.insert(key, reservation);
            }
            RowWrite::DropReservation(plan, epoch) => {
                self.reservations.remove(&(plan, epoch));
            }
            RowWrite::PutReview(review) => {
                let key = (review.plan, review.person.clone());
                self.reviews.insert(key, review);
            }
            RowWrite::DropReviews(plan) => self.reviews.retain(|(of, _), _| *of != plan),
        }
    }
}
