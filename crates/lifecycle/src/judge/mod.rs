//! Judging: what the rules in force say about a snapshot of plan and rules.
//!
//! Happens outside of any transaction. The judgement names what it was made on, and `decide` takes
//! it only while that is still so; here is only the asking. A new kind of check is a new variant of
//! [`Check`] and thereby a compile error in this file.
//!
//! Expressions and paths are cheap and judged each time. What a command said of a subject is kept, and
//! nobody runs it again on the same.

mod check;
mod expr;
mod inquiry;
mod matter;
mod paths;
mod targets;

pub use check::Inspectors;
pub(crate) use matter::Matter;
pub use paths::unmatched_globs;

use std::sync::{Mutex, OnceLock};

use actors::Stop;
use plan::invariant::{Check, Gate, Rule, RuleDraft};
use plan::judgement::{Judgement, RuleOutcome, RuleVerdict, Targets, Waits};
use plan::ledger::Amount;
use plan::{Command, Digest, Plan, PlanId, Refusal};
use store::{Committed, Snapshot};

use crate::submit::Subject;
use crate::{Call, Error, ExprProblem, Lifecycle};
use matter::Changes;

/// How often plan or rules may change under a judgement before the caller is told.
const PATIENCE: u32 = 64;

/// How far judging goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Depth {
    /// Whatever takes time is left for later.
    Look,
    /// Checks are run where nobody knows what they say.
    Check,
}

/// One judging: everything that rules are asked about.
struct Case<'a> {
    lifecycle: &'a Lifecycle,
    snapshot: &'a Snapshot,
    gate: Gate,
    matter: Matter<'a>,
    subject: Digest,
    depth: Depth,
    /// The recorded changes that were looked at, as far as more of them may come.
    recorded: OnceLock<Digest>,
    /// Held by whoever has an actor judge: each may use all that is left, so that one comes after the other.
    asking: Mutex<()>,
    /// Asked to stop?
    stop: Stop,
}

impl Lifecycle {
    /// Judges a plan at a gate and submits the command with the judgement; again if plan or rules
    /// changed in between.
    pub(crate) fn submit_judged(
        &self,
        plan: PlanId,
        gate: Gate,
        matter: &Matter<'_>,
        call: &Call,
        command: impl Fn(Judgement) -> Command,
    ) -> Result<Committed, Error> {
        let mut tries = 0;
        loop {
            let snapshot = self
                .store
                .snapshot(plan)?
                .ok_or(Refusal::NoSuchPlan(plan))?;
            let stop = call.stop.clone().unwrap_or_default();
            let judgement = self.judge(&snapshot, gate, matter, Depth::Check, &stop)?;
            tries += 1;
            match self.submit(command(judgement), &Subject::of(&snapshot.row.plan), call) {
                Err(Error::Refused(Refusal::JudgementStale { .. })) if tries < PATIENCE => {}
                settled => return settled,
            }
        }
    }

    /// What every rule in force at the gate says.
    pub(crate) fn judge(
        &self,
        snapshot: &Snapshot,
        gate: Gate,
        matter: &Matter<'_>,
        depth: Depth,
        stop: &Stop,
    ) -> Result<Judgement, Error> {
        let plan = &snapshot.row.plan;
        let targets = match matter {
            Matter::Merged(moves, _) => self.targets_at(plan, moves)?,
            Matter::Plan | Matter::Stored | Matter::Result(_) => {
                match self.targets_of(plan, gate) {
                    // Whoever only looks sees what there is to see from here.
                    Err(Error::WaitingForHost { .. }) if depth == Depth::Look => Targets::default(),
                    looked => looked?,
                }
            }
        };
        let rules = snapshot.rules.clone().of_plan(plan, &targets);
        let rules = rules.effective_at(gate.judged_with());
        let matter = matter.of(plan);
        let case = Case {
            lifecycle: self,
            snapshot,
            gate,
            subject: matter.digest(plan, gate),
            matter,
            depth,
            recorded: OnceLock::new(),
            asking: Mutex::new(()),
            stop: stop.clone(),
        };
        let outcomes = match rules.is_empty() {
            true => Vec::new(),
            false => case.outcomes(&rules)?,
        };
        let verdicts = rules
            .iter()
            .zip(outcomes)
            .map(|(rule, outcome)| RuleVerdict {
                rule: rule.reference(),
                outcome,
            });
        Ok(Judgement {
            version: plan.version,
            revisions: snapshot.rules.revisions.clone(),
            subject: case.subject,
            recorded: case.recorded.get().copied(),
            verdicts: verdicts.collect(),
            targets,
        })
    }

    /// Keeps what a check said, so that nobody has to run it again, and charges what it used.
    fn keep_evidence(
        &self,
        plan: &Plan,
        subject: Digest,
        said: Option<RuleVerdict>,
        used: Amount,
        call: &Call,
    ) -> Result<(), Error> {
        let judgement = Judgement {
            version: plan.version,
            subject,
            verdicts: said.into_iter().collect(),
            ..Judgement::default()
        };
        self.run(plan.id, Command::KeepEvidence { judgement, used }, call)
            .map(drop)
    }
}

impl Case<'_> {
    /// What each rule says, in their order. Those that take time are asked at the same time.
    fn outcomes(&self, rules: &[&Rule]) -> Result<Vec<RuleOutcome>, Error> {
        let needs_changes = rules.iter().any(|rule| match &rule.draft.check {
            Check::Expr(source) => expr::is_about_changes(source),
            Check::Allow(_) | Check::Forbid(_) => true,
            Check::Command { .. } | Check::Ask(_) => false,
        });
        let changes = match needs_changes {
            true => self.changes()?,
            false => Changes::default(),
        };
        let mut judged: Vec<Option<RuleOutcome>> = Vec::new();
        let expressions = rules.iter().filter_map(|rule| match &rule.draft.check {
            Check::Expr(source) => Some(source.as_str()),
            Check::Allow(_) | Check::Forbid(_) | Check::Command { .. } | Check::Ask(_) => None,
        });
        let expressions: Vec<&str> = expressions.collect();
        let mut of_expressions = expr::judge_all(&expressions, self.snapshot, &changes);
        for rule in rules {
            let said = match &rule.draft.check {
                Check::Expr(_) => of_expressions.next(),
                Check::Allow(globs) => Some(paths::allowed(globs, &changes)),
                Check::Forbid(globs) => Some(paths::forbidden(globs, &changes)),
                Check::Ask(_) => self.said_by_people(rule),
                Check::Command { .. } => None,
            };
            judged.push(said);
        }
        let slow = rules.iter().zip(&judged).filter(|(_, said)| said.is_none());
        let slow: Vec<&Rule> = slow.map(|(rule, _)| *rule).collect();
        let mut checked = self.check_all(&slow)?.into_iter();
        let outcomes = judged
            .into_iter()
            .map(|said| said.or_else(|| checked.next()));
        Ok(outcomes
            .map(|said| said.unwrap_or(RuleOutcome::Open(Waits::Check)))
            .collect())
    }

    /// What a person said of a rule that asks. A signature that outlives a merge does so with what was
    /// signed of the rules.
    fn said_by_people(&self, rule: &Rule) -> Option<RuleOutcome> {
        let plan = &self.snapshot.row.plan;
        let mut subjects = vec![self.subject];
        if plan.profile.approval_survives_merge() && matches!(self.matter, Matter::Merged(..)) {
            subjects.push(Matter::Stored.of(plan).digest(plan, self.gate));
        }
        let mut rulings = plan.rulings.iter().rev();
        let ruling = rulings
            .find(|ruling| ruling.rule == rule.reference() && subjects.contains(&ruling.subject));
        ruling.map(|ruling| ruling.outcome.clone())
    }
}

/// Can this rule be judged? Found out when it is added, not when it first matters.
pub fn check_rule(draft: &RuleDraft) -> Result<(), Error> {
    let checked = match &draft.check {
        Check::Expr(source) => expr::check(source).and_then(|()| {
            let early = draft.at.iter().find(|gate| !gate.has_result());
            match early {
                Some(gate) if expr::is_about_changes(source) => Err(ExprProblem(format!(
                    "at the {gate} gate nothing has changed yet; judge it at result or apply"
                ))),
                Some(_) | None => Ok(()),
            }
        }),
        Check::Allow(globs) | Check::Forbid(globs) => paths::check(globs),
        Check::Command { command, .. } => check::readable(command),
        Check::Ask(text) if text.trim().is_empty() => {
            Err(ExprProblem("it asks nothing".to_owned()))
        }
        Check::Ask(_) => Ok(()),
    };
    checked.map_err(|problem| {
        Error::Expr(ExprProblem(format!("rule `{}`: {}", draft.name, problem.0)))
    })
}

/// Where a check is judged if nobody says: wherever it has something to judge.
pub fn default_gates(check: &Check) -> Vec<Gate> {
    match check {
        Check::Expr(source) if expr::is_about_changes(source) => Gate::ALL
            .into_iter()
            .filter(|gate| gate.has_result())
            .collect(),
        Check::Expr(_)
        | Check::Allow(_)
        | Check::Forbid(_)
        | Check::Command { .. }
        | Check::Ask(_) => check.default_gates(),
    }
}
