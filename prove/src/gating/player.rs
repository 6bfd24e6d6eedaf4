//! A player: makes plans, changes rules, and takes plans further, or tries to.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::bail;
use fastrand::Rng;
use lifecycle::{Call, Lifecycle, LifecycleError};
use plan::invariant::{Rule, RuleCheck, RuleDraft, RuleScope};
use plan::ledger::GlobalBudget;
use plan::stage::WorkState;
use plan::{Caller, Plan, PlanId, PlanStage, Verb};
use serde_json::Value;
use store::PlanFilter;

use super::notes::{Blocked, Notes};
use super::rules;
use super::statutes::{Statutes, scopes};
use crate::ground::Ground;

/// What all plans together may use: more from moment to moment, so that there is never much left and always
/// something to come.
#[derive(Debug, Clone, Copy)]
pub struct Purse {
    /// Since when.
    pub since: Instant,
    /// In a second, in tokens.
    pub pace: u64,
}

impl Purse {
    /// What may have been used by now.
    fn so_far(self) -> u64 {
        u64::try_from(self.since.elapsed().as_millis()).unwrap_or(0) * self.pace / 1000 + self.pace
    }
}

/// One player.
pub struct Player<'a> {
    /// What it plays on.
    pub ground: &'a Ground,
    /// The rules.
    pub statutes: &'a Statutes,
    /// What is written down.
    pub notes: &'a Notes,
    /// The engine, perhaps with a bug in it.
    pub lifecycle: Lifecycle,
    /// Its choices.
    pub random: Rng,
    /// Which one it is.
    pub number: u32,
    /// It uses the library, and not the program.
    pub by_library: bool,
    /// How many there are.
    pub players: u32,
    /// What all plans together may use.
    pub purse: Purse,
    /// How often it called the engine.
    pub calls: u32,
}

impl Player<'_> {
    /// Does something.
    pub fn play(&mut self) -> anyhow::Result<()> {
        let by_library = self.by_library;
        self.lifecycle = self.lifecycle.clone().with_budget(GlobalBudget {
            cost: None,
            tokens: Some(self.purse.so_far()),
        });
        // As many of a kind as there are players, so that they meet. The newest: what is left over of the rest
        // is for the referee.
        let few = usize::try_from(self.players)?;
        let seen = self
            .ground
            .lifecycle
            .list_plans(&PlanFilter::default(), None, 4 * few)?;
        let open = seen
            .into_iter()
            .map(|row| row.plan)
            .filter(|plan| !plan.stage.is_final());
        let (mut others, mut open): (Vec<Plan>, Vec<Plan>) =
            open.partition(|plan| plan.resources.is_empty() != by_library);
        let is_signed = |plan: &Plan| {
            // Or was, before it was sent back.
            plan.done.contains_key(&Verb::Approve)
                && matches!(plan.stage, PlanStage::Execute(WorkState::Complete))
        };
        others.retain(|plan| by_library && is_signed(plan));
        if open.len() < few {
            return match by_library {
                true => self.make_by_library(),
                false => self.make_by_program(),
            };
        }
        if !others.is_empty() && self.chance(40) {
            open = others;
        }
        if self.chance(80) && open.iter().any(Plan::needs_person) {
            open.retain(Plan::needs_person);
        }
        let plan = &open[self.random.usize(..open.len())];
        // An engine is so much faster than a program that nobody else would have a say.
        std::thread::sleep(Duration::from_millis(5));
        if self.chance(if by_library { 15 } else { 25 }) {
            return self.legislate(plan, false);
        }
        match (by_library, plan.resources.is_empty()) {
            (true, true) => self.go_on_by_library(plan),
            (true, false) => self.land_by_library(plan),
            (false, _) => self.go_on_by_program(plan),
        }
    }

    /// With this likelihood, in percent.
    pub fn chance(&mut self, percent: u8) -> bool {
        self.random.u8(..100) < percent
    }

    /// A rule that bears on a plan, of those that are in force.
    pub fn some_rule(&mut self, plan: &Plan) -> anyhow::Result<Option<Rule>> {
        let book = self.ground.store.read_rules(&scopes(plan))?;
        let mut rules: Vec<Rule> = rules::in_force(&book.rules).into_iter().cloned().collect();
        let asks = |rule: &Rule| matches!(rule.draft.check, RuleCheck::Ask(_));
        if self.chance(50) && rules.iter().any(asks) {
            rules.retain(asks);
        }
        let at = self.random.usize(..rules.len().max(1));
        Ok((!rules.is_empty()).then(|| rules.swap_remove(at)))
    }

    /// Adds a rule that bears on a plan, for it alone or for others as well, or removes one.
    pub(super) fn legislate(&mut self, plan: &Plan, alone: bool) -> anyhow::Result<()> {
        let mut scopes = scopes(plan);
        let scope = match alone {
            true => &RuleScope::Plan(plan.id),
            false => &scopes.swap_remove(self.random.usize(..scopes.len())),
        };
        let draft = rules::draft(&mut self.random);
        let (statutes, ground) = (self.statutes, self.ground);
        statutes.amend(ground, scope, |rules| {
            let gone = self.random.choice(rules);
            let gone = gone.filter(|_| rules.len() > 1 || self.chance(40));
            match (gone.map(|rule| rule.draft.name.clone()), self.by_library) {
                (Some(name), true) => {
                    let call = self.call(true);
                    let removed = self.lifecycle.remove_rule(scope.clone(), name, &call);
                    self.heard(removed).map(drop)
                }
                (Some(name), false) => {
                    let words = ["invariant", "remove", name.as_str()].map(str::to_owned);
                    self.program(&[&words[..], &flags(scope)].concat())
                }
                (None, true) => self.add(scope, draft),
                (None, false) => {
                    let words = ["invariant", "add"].map(str::to_owned);
                    self.program(&[&words[..], &rules::words(&draft), &flags(scope)].concat())
                }
            }
        })
    }

    fn add(&mut self, scope: &RuleScope, draft: RuleDraft) -> anyhow::Result<()> {
        let call = self.call(true);
        let added = self.lifecycle.add_rule(scope.clone(), draft, &call);
        self.heard(added).map(drop)
    }

    /// Adds a rule that keeps nobody from anything, and that nobody has signed.
    pub(super) fn remark(&mut self, plan: &Plan) -> anyhow::Result<()> {
        let scope = RuleScope::Plan(plan.id);
        let draft = rules::remark(&mut self.random);
        let (statutes, ground) = (self.statutes, self.ground);
        statutes.amend(ground, &scope, |_| self.add(&scope, draft))
    }

    /// A call under a name that nobody else has.
    pub fn call(&mut self, by_person: bool) -> Call {
        Call::by(self.caller(by_person))
    }

    fn caller(&mut self, by_person: bool) -> Caller {
        self.calls += 1;
        let name = self.name();
        match by_person {
            true => Caller::Person(name),
            false => Caller::Worker(name),
        }
    }

    /// The name of its last call.
    pub fn name(&self) -> String {
        format!("{}.{}", self.number, self.calls)
    }

    /// What the engine answered to the last call, if it did what it was asked for.
    pub fn heard<T>(&self, answer: Result<T, LifecycleError>) -> anyhow::Result<Option<T>> {
        match answer {
            Ok(done) => Ok(Some(done)),
            Err(LifecycleError::Blocked(blocked)) => {
                self.notes.blocked(Blocked {
                    caller: self.name(),
                    plan: blocked.plan,
                    gate: blocked.gate,
                });
                Ok(None)
            }
            // What cannot be reached without hands, or not as things are.
            Err(LifecycleError::Refused(_) | LifecycleError::NoLocalHost) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Runs the program, or kills it at some moment.
    pub fn program<W: AsRef<str>>(&mut self, words: &[W]) -> anyhow::Result<()> {
        let words: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
        if self.chance(20) {
            let killed = self.ground.ask_and_kill(&words, &mut self.random)?;
            self.notes
                .kills
                .fetch_add(u32::from(killed), Ordering::Relaxed);
            return Ok(());
        }
        let (code, envelope): (_, Value) = self.ground.ask(&words)?;
        match code {
            Some(5) => drop(self.notes.shut.fetch_add(1, Ordering::Relaxed)),
            // Done; not to be done now, or not by itself; halted.
            Some(0 | 1 | 3 | 4 | 6 | 7) => {}
            // The rule of that name was another one by then; a limit is spent.
            Some(2) if envelope["data"]["kind"].is_string() => {}
            code => bail!("{words:?} ended with {code:?}: {envelope}"),
        }
        Ok(())
    }
}

/// A scope, as it is typed.
fn flags(scope: &RuleScope) -> Vec<String> {
    match scope {
        RuleScope::Plan(id) => vec!["--plan".to_owned(), id.to_string()],
        RuleScope::Project(name) => vec!["--project".to_owned(), name.to_string()],
        RuleScope::Global
        | RuleScope::Action(_)
        | RuleScope::Repository(_)
        | RuleScope::WorkingTree(_) => Vec::new(),
    }
}

/// Did a player call the engine itself, and not the program?
pub fn is_player(caller: &Caller) -> bool {
    let (Caller::Person(name) | Caller::Worker(name)) = caller;
    let parts = name.split_once('.');
    parts.is_some_and(|(player, call)| player.parse::<u32>().is_ok() && call.parse::<u32>().is_ok())
}

/// The plan, as it is written.
pub fn id(plan: PlanId) -> String {
    plan.to_string()
}
