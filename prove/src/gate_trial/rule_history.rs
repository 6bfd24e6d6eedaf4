//! Remembers which rules existed when. The store only keeps the current rules, so clients change rules through
//! [`RuleHistory::change_rules`], one change at a time in each scope.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::bail;
use plan::invariant::{Rule, RuleScope};
use plan::{Plan, Timestamp};

use crate::trial::realtime_micros;
use crate::trial_env::TrialEnv;

/// The rule revisions of all scopes.
#[derive(Default)]
pub struct RuleHistory {
    scopes: Mutex<BTreeMap<RuleScope, Arc<Mutex<ScopeHistory>>>>,
}

/// The rule revisions of one scope.
#[derive(Default)]
struct ScopeHistory {
    revisions: Vec<RuleRevision>,
    /// When the last change was requested. A change may still take effect after its process was killed.
    requested_at: i64,
}

/// The rules of a scope since some time between `earliest` and `latest`.
#[derive(Debug, Clone)]
struct RuleRevision {
    revision: u64,
    earliest: i64,
    latest: i64,
    rules: Vec<Rule>,
}

impl RuleHistory {
    fn scope_history(&self, scope: &RuleScope) -> Arc<Mutex<ScopeHistory>> {
        let mut scopes = self.scopes.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(scopes.entry(scope.clone()).or_default())
    }

    /// Runs `change` on the current rules of a scope and records the revision it leads to, if any.
    pub fn change_rules(
        &self,
        env: &TrialEnv,
        scope: &RuleScope,
        change: impl FnOnce(&[Rule]) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let history = self.scope_history(scope);
        let mut history = history.lock().unwrap_or_else(PoisonError::into_inner);
        history.record_revision(env, scope)?;
        history.requested_at = realtime_micros();
        change(history.revisions.last().map_or(&[], |last| &last.rules))?;
        history.record_revision(env, scope)
    }

    /// Records the latest revisions, because killed processes may have changed rules since.
    pub fn record_latest(&self, env: &TrialEnv) -> anyhow::Result<()> {
        let scopes = self.scopes.lock().unwrap_or_else(PoisonError::into_inner);
        for (scope, history) in &*scopes {
            let mut history = history.lock().unwrap_or_else(PoisonError::into_inner);
            history.record_revision(env, scope)?;
        }
        Ok(())
    }

    /// Every set of rules that may have applied to a plan at a time. Usually there is one.
    pub fn possible_rules(&self, plan: &Plan, at: Timestamp) -> Vec<Vec<Rule>> {
        let mut possible = vec![Vec::new()];
        for scope in scopes_of_plan(plan) {
            let history = self.scope_history(&scope);
            let history = history.lock().unwrap_or_else(PoisonError::into_inner);
            let scope_sets = history.possible_rules(at.0);
            possible = possible
                .iter()
                .flat_map(|wider: &Vec<Rule>| {
                    scope_sets
                        .iter()
                        .map(move |set| [wider.as_slice(), set.as_slice()].concat())
                })
                .collect();
        }
        possible
    }

    /// The rules that applied to a plan at these revisions of its scopes.
    pub fn rules_at_revisions(
        &self,
        plan: &Plan,
        revisions: &BTreeMap<RuleScope, u64>,
    ) -> Vec<Rule> {
        let rules_of_scope = |scope: RuleScope| {
            let revision = revisions.get(&scope).copied().unwrap_or(0);
            let history = self.scope_history(&scope);
            let history = history.lock().unwrap_or_else(PoisonError::into_inner);
            let mut found = history.revisions.iter();
            let found = found.find(|one| one.revision == revision);
            found.map(|one| one.rules.clone()).unwrap_or_default()
        };
        scopes_of_plan(plan)
            .into_iter()
            .flat_map(rules_of_scope)
            .collect()
    }
}

/// The scopes whose rules apply to a plan, widest first. Clients use no other scopes.
pub fn scopes_of_plan(plan: &Plan) -> Vec<RuleScope> {
    let mut scopes = vec![RuleScope::Global];
    scopes.extend(
        plan.resources()
            .iter()
            .map(|resource| RuleScope::Project(resource.project.clone())),
    );
    scopes.push(RuleScope::Plan(plan.id()));
    scopes
}

impl ScopeHistory {
    /// Reads the current rules and appends them if their revision is new.
    fn record_revision(&mut self, env: &TrialEnv, scope: &RuleScope) -> anyhow::Result<()> {
        let current = env.store.read_rules(std::slice::from_ref(scope))?;
        let (revision, known) = (current.revision(scope), self.revisions.len() as u64);
        if revision == known {
            return Ok(());
        }
        if revision != known + 1 {
            bail!("the rules of {scope} are at revision {revision} after {known} changes");
        }
        self.revisions.push(RuleRevision {
            revision,
            earliest: self.requested_at,
            latest: realtime_micros(),
            rules: current.rules,
        });
        Ok(())
    }

    /// The sets of rules that may have applied at a time: those that may have begun by then and whose successor may not.
    fn possible_rules(&self, at: i64) -> Vec<&Vec<Rule>> {
        static NO_RULES: Vec<Rule> = Vec::new();
        let has_surely_begun = |index: usize| {
            let revision = self.revisions.get(index);
            revision.is_some_and(|revision| revision.latest < at)
        };
        let may_have_begun = self.revisions.iter().take_while(|one| one.earliest <= at);
        let mut sets: Vec<&Vec<Rule>> = may_have_begun
            .enumerate()
            .filter(|(index, _)| !has_surely_begun(index + 1))
            .map(|(_, one)| &one.rules)
            .collect();
        if !has_surely_begun(0) {
            sets.push(&NO_RULES);
        }
        sets
    }
}
