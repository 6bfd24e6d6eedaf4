//! The tables of the memory store, as the databases have them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use plan::changeset::{Changeset, Entry, TreePath};
use plan::facts::{Lease, LivePlans, PlanChange};
use plan::invariant::{Rule, RuleBook, RuleName, RuleRef, Scope};
use plan::judgement::{Evidence, Verdict};
use plan::ledger::{Account, AccountName, Ledger, Reservation};
use plan::{
    Action, ChangesetId, Decision, Digest, Epoch, Name, Plan, PlanId, Project, Receipt, Row,
    Version,
};

use crate::commit::LIVE_PLANS_NAMED;
use crate::record::encode;
use crate::{Access, ChangesetReads, Cursor, PlanRow, ProjectReads, StoredEvent};

/// Everything that is stored.
#[derive(Default)]
pub(super) struct Tables {
    /// Each plan with the hash of its last event.
    pub plans: BTreeMap<PlanId, (Arc<Plan>, Digest)>,
    /// The events of each plan, in order.
    pub events: BTreeMap<PlanId, Vec<StoredEvent>>,
    /// Whose event was committed when: the order across plans.
    pub log: Vec<(PlanId, Version)>,
    pub leases: BTreeMap<PlanId, Lease>,
    pub verdicts: BTreeMap<PlanId, Verdict>,
    pub evidence: BTreeMap<(PlanId, u32, RuleRef, Digest), Evidence>,
    pub actions: BTreeMap<Name, Action>,
    pub projects: BTreeMap<Name, Project>,
    pub revisions: BTreeMap<Scope, u64>,
    pub rules: BTreeMap<(Scope, RuleName), Rule>,
    pub changesets: BTreeMap<ChangesetId, Changeset>,
    pub entries: BTreeMap<ChangesetId, BTreeMap<TreePath, Entry>>,
    pub accounts: BTreeMap<AccountName, Account>,
    pub reservations: BTreeMap<(PlanId, Epoch), Reservation>,
    /// Answers by idempotency key, each with the digest of the arguments.
    pub keys: BTreeMap<(String, String), (Digest, Receipt)>,
    /// How often something was committed.
    pub commits: u64,
}

impl Tables {
    pub fn plan_row(&self, id: PlanId) -> Option<PlanRow> {
        let (plan, head) = self.plans.get(&id)?;
        Some(PlanRow {
            plan: Plan::clone(plan),
            head: *head,
            lease: self.leases.get(&id).cloned(),
            verdict: self.verdicts.get(&id).cloned(),
        })
    }

    pub fn event(&self, plan: PlanId, version: Version) -> Option<StoredEvent> {
        let index = usize::try_from(version.0).ok()?.checked_sub(1)?;
        self.events.get(&plan)?.get(index).cloned()
    }

    /// The rules of these scopes; of all if none is named.
    pub fn rules(&self, scopes: &[Scope]) -> RuleBook {
        let wanted = |scope: &Scope| scopes.is_empty() || scopes.contains(scope);
        RuleBook {
            revisions: self
                .revisions
                .iter()
                .filter(|(scope, _)| wanted(scope))
                .map(|(s, r)| (s.clone(), *r))
                .collect(),
            rules: self
                .rules
                .values()
                .filter(|rule| wanted(&rule.scope))
                .cloned()
                .collect(),
        }
    }

    /// The projects that are asked for, by name, and the living plans of those that may be changed.
    pub fn projects(&self, plan: Option<&Plan>, reads: &ProjectReads) -> (Vec<Project>, LivePlans) {
        let (names, changed): (BTreeSet<&Name>, BTreeSet<&Name>) = match reads {
            ProjectReads::None => return Default::default(),
            ProjectReads::OfPlan => {
                let names = plan.map(Plan::projects).unwrap_or_default();
                (names, BTreeSet::new())
            }
            ProjectReads::Named(named) => {
                let names = named.iter().map(|(name, _)| name).collect();
                let exclusive = named
                    .iter()
                    .filter(|(_, access)| *access == Access::Exclusive);
                (names, exclusive.map(|(name, _)| name).collect())
            }
        };
        let projects = names
            .into_iter()
            .filter_map(|name| self.projects.get(name).cloned())
            .collect();
        let mut live = LivePlans::default();
        for (plan, _) in self.plans.values().rev() {
            if !plan.stage.is_final() && !changed.is_disjoint(&plan.projects()) {
                live.count += 1;
                if live.newest.len() < LIVE_PLANS_NAMED {
                    live.newest.push(plan.id);
                }
            }
        }
        (projects, live)
    }

    pub fn entries_of(&self, changeset: ChangesetId) -> Vec<Entry> {
        self.entries
            .get(&changeset)
            .map(|entries| entries.values().cloned().collect())
            .unwrap_or_default()
    }

    pub fn open_changesets(
        &self,
        plan: Option<PlanId>,
        reads: &ChangesetReads,
    ) -> (Vec<Changeset>, Vec<(ChangesetId, Entry)>) {
        let wanted: Box<dyn Fn(&TreePath) -> bool> = match reads {
            ChangesetReads::None => return (Vec::new(), Vec::new()),
            ChangesetReads::EntriesAt(paths) => Box::new(|path| paths.contains(path)),
            ChangesetReads::All => Box::new(|_| true),
        };
        let open =
            |changeset: &&Changeset| Some(changeset.plan) == plan && changeset.seal.is_none();
        let changesets: Vec<Changeset> = self.changesets.values().filter(open).cloned().collect();
        let entries = changesets
            .iter()
            .flat_map(|changeset| {
                self.entries_of(changeset.id)
                    .into_iter()
                    .map(|entry| (changeset.id, entry))
            })
            .filter(|(_, entry)| wanted(&entry.path))
            .collect();
        (changesets, entries)
    }

    /// What a plan used and what is set aside for it.
    pub fn ledger(&self, plan: PlanId) -> Ledger {
        let account = |name| self.accounts.get(&name).copied().unwrap_or_default();
        let of_plan = (plan, Epoch(0))..=(plan, Epoch(u64::MAX));
        Ledger {
            global: account(AccountName::Global),
            plan: account(AccountName::Plan(plan)),
            reservations: self
                .reservations
                .range(of_plan)
                .map(|(_, one)| *one)
                .collect(),
        }
    }

    /// Writes a decision. Infallible, so that it is written whole.
    pub fn write(&mut self, decision: Decision) {
        for change in decision.plans {
            self.write_plan(change);
        }
        for row in decision.rows {
            self.write_row(row);
        }
        self.commits += 1;
    }

    fn write_plan(&mut self, change: PlanChange) {
        let mut head = self
            .plans
            .get(&change.plan.id)
            .map_or(Digest::ZERO, |(_, head)| *head);
        for recorded in change.events {
            let encoded = encode(&recorded, head);
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
        self.plans.insert(change.plan.id, (change.plan, head));
    }

    fn write_row(&mut self, row: Row) {
        match row {
            Row::PutAction(action) => {
                self.actions.insert(action.name().clone(), action);
            }
            Row::PutProject(project) => {
                self.projects.insert(project.name.clone(), project);
            }
            Row::DropProject(name) => {
                self.projects.remove(&name);
            }
            Row::PutRule(rule) => {
                self.revisions.insert(rule.scope.clone(), rule.revision);
                self.rules
                    .insert((rule.scope.clone(), rule.draft.name.clone()), rule);
            }
            Row::DropRule {
                scope,
                name,
                revision,
            } => {
                self.revisions.insert(scope.clone(), revision);
                self.rules.remove(&(scope, name));
            }
            Row::PutLease(lease) => {
                self.leases.insert(lease.plan, lease);
            }
            Row::DropLease(plan) => {
                self.leases.remove(&plan);
            }
            Row::PutChangeset(changeset) => {
                self.changesets.insert(changeset.id, changeset);
            }
            Row::PutEntry(changeset, entry) => {
                self.entries
                    .entry(changeset)
                    .or_default()
                    .insert(entry.path.clone(), entry);
            }
            Row::DropEntry(changeset, path) => {
                self.entries.entry(changeset).or_default().remove(&path);
            }
            Row::PutVerdict(verdict) => {
                self.verdicts.insert(verdict.plan, verdict);
            }
            Row::PutEvidence(evidence) => {
                let rule = evidence.verdict.rule.clone();
                let key = (evidence.plan, evidence.entry, rule, evidence.subject);
                self.evidence.insert(key, evidence);
            }
            Row::PutAccount(name, account) => {
                self.accounts.insert(name, account);
            }
            Row::PutReservation(reservation) => {
                let key = (reservation.plan, reservation.epoch);
                self.reservations.insert(key, reservation);
            }
            Row::DropReservation(plan, epoch) => {
                self.reservations.remove(&(plan, epoch));
            }
        }
    }
}
