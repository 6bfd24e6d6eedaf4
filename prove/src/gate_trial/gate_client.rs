//! A client of the `gates` trial: creates plans, changes rules and tries to advance plans.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::bail;
use fastrand::Rng;
use lifecycle::{Call, Lifecycle, LifecycleError};
use plan::invariant::{Rule, RuleCheck, RuleDraft, RuleScope};
use plan::ledger::GlobalBudget;
use plan::stage::WorkState;
use plan::{Caller, Plan, PlanStage, Verb};
use serde_json::Value;
use store::PlanFilter;

use super::rule_history::{RuleHistory, scopes_of_plan};
use super::sample_rules;
use super::trial_records::{BlockedCall, TrialRecords};
use crate::trial_env::TrialEnv;

/// The budget for all plans. It grows steadily, so that it is always nearly spent but never for long.
#[derive(Debug, Clone, Copy)]
pub struct GrowingBudget {
    pub started: Instant,
    pub tokens_per_second: u64,
}

impl GrowingBudget {
    fn current_tokens(self) -> u64 {
        let elapsed_ms = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(0);
        elapsed_ms * self.tokens_per_second / 1000 + self.tokens_per_second
    }
}

/// One client.
pub struct GateClient<'a> {
    pub env: &'a TrialEnv,
    pub rule_history: &'a RuleHistory,
    pub records: &'a TrialRecords,
    /// The engine, perhaps with a planted bug.
    pub lifecycle: Lifecycle,
    pub random: Rng,
    pub number: u32,
    /// Uses the library, not the program.
    pub by_library: bool,
    /// The number of all clients.
    pub clients: u32,
    pub global_budget: GrowingBudget,
    /// The number of calls so far.
    pub calls: u32,
}

impl GateClient<'_> {
    /// Creates a plan, changes rules, or advances a plan.
    pub fn take_step(&mut self) -> anyhow::Result<()> {
        let by_library = self.by_library;
        self.lifecycle = self.lifecycle.clone().with_budget(GlobalBudget {
            cost: None,
            tokens: Some(self.global_budget.current_tokens()),
        });
        // As many plans of a kind as there are clients, so that clients compete for them. Only the newest; the harness
        // ends the others.
        let plan_count = usize::try_from(self.clients)?;
        let rows = self
            .env
            .lifecycle
            .list_plans(&PlanFilter::default(), None, 4 * plan_count)?;
        let open = rows
            .into_iter()
            .map(|row| row.plan)
            .filter(|plan| !plan.stage().is_final());
        let (mut others, mut open): (Vec<Plan>, Vec<Plan>) =
            open.partition(|plan| plan.resources().is_empty() != by_library);
        others.retain(|plan| {
            by_library && matches!(plan.stage(), PlanStage::Execute(WorkState::Complete))
        });
        // Also true if the plan was revised after its approval.
        let was_approved = |plan: &Plan| -> Result<bool, LifecycleError> {
            let completions = self.lifecycle.history().read_completions(plan.id())?;
            Ok(completions.contains_key(&Verb::Approve))
        };
        let mut approved = Vec::new();
        for plan in others {
            if was_approved(&plan)? {
                approved.push(plan);
            }
        }
        if open.len() < plan_count {
            return match by_library {
                true => self.create_plan_by_library(),
                false => self.create_plan_by_program(),
            };
        }
        if !approved.is_empty() && self.roll_percent(40) {
            open = approved;
        }
        if self.roll_percent(80) && open.iter().any(Plan::needs_person) {
            open.retain(Plan::needs_person);
        }
        let plan = &open[self.random.usize(..open.len())];
        // The library is so much faster than the program that program clients would never get a turn.
        std::thread::sleep(Duration::from_millis(5));
        if self.roll_percent(if by_library { 15 } else { 25 }) {
            return self.change_rules_for(plan);
        }
        match (by_library, plan.resources().is_empty()) {
            (true, true) => self.advance_by_library(plan),
            (true, false) => self.land_by_library(plan),
            (false, _) => self.advance_by_program(plan),
        }
    }

    /// True with this probability.
    pub fn roll_percent(&mut self, percent: u8) -> bool {
        self.random.u8(..100) < percent
    }

    /// Picks one of the rules that apply to a plan.
    pub fn pick_rule(&mut self, plan: &Plan) -> anyhow::Result<Option<Rule>> {
        let book = self.env.store.read_rules(&scopes_of_plan(plan))?;
        let mut rules: Vec<Rule> = sample_rules::effective_rules(&book.rules)
            .into_iter()
            .cloned()
            .collect();
        let is_question = |rule: &Rule| matches!(rule.draft.check, RuleCheck::Ask(_));
        if self.roll_percent(50) && rules.iter().any(is_question) {
            rules.retain(is_question);
        }
        let index = self.random.usize(..rules.len().max(1));
        Ok((!rules.is_empty()).then(|| rules.swap_remove(index)))
    }

    /// Adds or removes a rule in one of the plan's scopes.
    fn change_rules_for(&mut self, plan: &Plan) -> anyhow::Result<()> {
        let mut scopes = scopes_of_plan(plan);
        let scope = scopes.swap_remove(self.random.usize(..scopes.len()));
        self.change_rules_in(&scope)
    }

    /// Adds or removes a rule in a scope.
    pub(super) fn change_rules_in(&mut self, scope: &RuleScope) -> anyhow::Result<()> {
        let draft = sample_rules::random_draft(&mut self.random);
        let (rule_history, env) = (self.rule_history, self.env);
        rule_history.change_rules(env, scope, |rules| {
            let removed = self.random.choice(rules);
            let removed = removed.filter(|_| rules.len() > 1 || self.roll_percent(40));
            match (removed.map(|rule| rule.draft.name.clone()), self.by_library) {
                (Some(name), true) => {
                    let call = self.new_call(true);
                    let answer = self
                        .lifecycle
                        .rules()
                        .remove_rule(scope.clone(), name, &call);
                    self.accept_answer(answer).map(drop)
                }
                (Some(name), false) => {
                    let arguments = ["invariant", "remove", name.as_str()].map(str::to_owned);
                    self.run_program(&[&arguments[..], &scope_arguments(scope)].concat())
                }
                (None, true) => self.add_rule(scope, draft),
                (None, false) => {
                    let arguments = ["invariant", "add"].map(str::to_owned);
                    let rule = sample_rules::draft_arguments(&draft);
                    self.run_program(&[&arguments[..], &rule, &scope_arguments(scope)].concat())
                }
            }
        })
    }

    fn add_rule(&mut self, scope: &RuleScope, draft: RuleDraft) -> anyhow::Result<()> {
        let call = self.new_call(true);
        let answer = self.lifecycle.rules().add_rule(scope.clone(), draft, &call);
        self.accept_answer(answer).map(drop)
    }

    /// Adds a rule that always holds, which no approval covers.
    pub(super) fn add_harmless_rule(&mut self, plan: &Plan) -> anyhow::Result<()> {
        let scope = RuleScope::Plan(plan.id());
        let draft = sample_rules::harmless_draft(&mut self.random);
        let (rule_history, env) = (self.rule_history, self.env);
        rule_history.change_rules(env, &scope, |_| self.add_rule(&scope, draft))
    }

    /// A call with a caller name that no other call has.
    pub fn new_call(&mut self, by_person: bool) -> Call {
        self.calls += 1;
        let name = self.caller_name();
        Call::by(match by_person {
            true => Caller::Person(name),
            false => Caller::Worker(name),
        })
    }

    /// The caller name of the last call.
    pub fn caller_name(&self) -> String {
        format!("{}.{}", self.number, self.calls)
    }

    /// The value of a successful call; `None` if it was blocked or refused. Records a blocked call. Other errors end the
    /// trial.
    pub fn accept_answer<T>(&self, answer: Result<T, LifecycleError>) -> anyhow::Result<Option<T>> {
        match answer {
            Ok(value) => Ok(Some(value)),
            Err(LifecycleError::Blocked(blocked)) => {
                self.records.add_blocked_call(BlockedCall {
                    caller: self.caller_name(),
                    plan_id: blocked.plan,
                    gate: blocked.gate,
                });
                Ok(None)
            }
            // The client's engine has no local host, so some operations are not available to it.
            Err(LifecycleError::Refused(_) | LifecycleError::NoLocalHost) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Runs the program, and sometimes kills it after a random time.
    pub fn run_program<A: AsRef<str>>(&mut self, arguments: &[A]) -> anyhow::Result<()> {
        let arguments: Vec<&str> = arguments.iter().map(AsRef::as_ref).collect();
        if self.roll_percent(20) {
            let killed = self.env.run_and_kill(&arguments, &mut self.random)?;
            self.records
                .kills
                .fetch_add(u32::from(killed), Ordering::Relaxed);
            return Ok(());
        }
        let (code, envelope): (_, Value) = self.env.run_program(&arguments)?;
        match code {
            Some(5) => drop(
                self.records
                    .blocked_programs
                    .fetch_add(1, Ordering::Relaxed),
            ),
            // Done; refused in this state; needs a person; stopped by a limit.
            Some(0 | 1 | 3 | 4 | 6 | 7) => {}
            // The rule of that name had changed meanwhile, or a limit is spent.
            Some(2) if envelope["data"]["kind"].is_string() => {}
            code => bail!("{arguments:?} ended with {code:?}: {envelope}"),
        }
        Ok(())
    }
}

/// The command-line arguments for a rule scope.
fn scope_arguments(scope: &RuleScope) -> Vec<String> {
    match scope {
        RuleScope::Plan(plan_id) => vec!["--plan".to_owned(), plan_id.to_string()],
        RuleScope::Project(name) => vec!["--project".to_owned(), name.to_string()],
        RuleScope::Global
        | RuleScope::Action(_)
        | RuleScope::Repository(_)
        | RuleScope::WorkingTree(_) => Vec::new(),
    }
}

/// Whether the caller is a client that uses the library, by its name.
pub fn is_library_client(caller: &Caller) -> bool {
    let name = caller.name();
    let parts = name.split_once('.');
    parts.is_some_and(|(client, call)| client.parse::<u32>().is_ok() && call.parse::<u32>().is_ok())
}
