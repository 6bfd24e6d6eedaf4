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

pub use check::RuleCheckConfig;
pub(crate) use matter::GateSubject;
pub use paths::unmatched_globs;

use std::sync::{Mutex, OnceLock};

use actors::Stop;
use plan::invariant::{Gate, Rule, RuleCheck, RuleDraft};
use plan::judgement::{GateJudgement, PendingVerdictReason, PlanTargets, RuleOutcome, RuleVerdict};
use plan::ledger::BudgetAmount;
use plan::{Command, Digest, Plan, PlanId, Refusal};
use store::{CommitOutcome, PlanSnapshot};

use crate::submit::CommandTarget;
use crate::{Call, Lifecycle, LifecycleError, RuleProblem};
use matter::PathChangeList;

/// How often plan or rules may change under a judgement before the caller is told.
const MAX_JUDGE_ATTEMPTS: u32 = 64;

/// How far judging goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CheckDepth {
    /// Whatever takes time is left for later.
    StoredEvidence,
    /// Checks are run where nobody knows what they say.
    RunChecks,
}

/// One judging: everything that rules are asked about.
struct GateEvaluation<'a> {
    lifecycle: &'a Lifecycle,
    snapshot: &'a PlanSnapshot,
    gate: Gate,
    gate_subject: GateSubject<'a>,
    subject_digest: Digest,
    depth: CheckDepth,
    /// The recorded changes that were looked at, as far as more of them may come.
    recorded_digest: OnceLock<Digest>,
    /// Held by whoever has an actor judge: each may use all that is left, so that one comes after the other.
    actor_lock: Mutex<()>,
    /// Asked to stop?
    stop: Stop,
}

impl Lifecycle {
    /// Judges a plan at a gate and submits the command with the judgement; again if plan or rules
    /// changed in between.
    pub(crate) fn submit_judged(
        &self,
        plan_id: PlanId,
        gate: Gate,
        gate_subject: &GateSubject<'_>,
        call: &Call,
        command: impl Fn(GateJudgement) -> Command,
    ) -> Result<CommitOutcome, LifecycleError> {
        let mut attempts = 0;
        loop {
            let snapshot = self
                .store
                .read_snapshot(plan_id)?
                .ok_or(Refusal::NoSuchPlan(plan_id))?;
            let stop = call.stop.clone().unwrap_or_default();
            let judgement =
                self.judge_gate(&snapshot, gate, gate_subject, CheckDepth::RunChecks, &stop)?;
            attempts += 1;
            match self.submit(
                command(judgement),
                &CommandTarget::for_plan(&snapshot.row.plan),
                call,
            ) {
                Err(LifecycleError::Refused(Refusal::JudgementStale { .. }))
                    if attempts < MAX_JUDGE_ATTEMPTS => {}
                settled => return settled,
            }
        }
    }

    /// What every rule in force at the gate says.
    pub(crate) fn judge_gate(
        &self,
        snapshot: &PlanSnapshot,
        gate: Gate,
        gate_subject: &GateSubject<'_>,
        depth: CheckDepth,
        stop: &Stop,
    ) -> Result<GateJudgement, LifecycleError> {
        let plan = &snapshot.row.plan;
        let targets = match gate_subject {
            GateSubject::Merged(moves, _) => self.read_targets_for_moves(plan, moves)?,
            GateSubject::Plan | GateSubject::StoredResult | GateSubject::Result(_) => {
                match self.read_targets(plan, gate) {
                    // Whoever only looks sees what there is to see from here.
                    Err(LifecycleError::WaitingForHost { .. })
                        if depth == CheckDepth::StoredEvidence =>
                    {
                        PlanTargets::default()
                    }
                    targets => targets?,
                }
            }
        };
        let rules = snapshot.rules.clone().with_plan_rules(plan, &targets);
        let rules = rules.effective_rules_at(gate.judged_gates());
        let gate_subject = gate_subject.resolve_result(plan);
        let evaluation = GateEvaluation {
            lifecycle: self,
            snapshot,
            gate,
            subject_digest: gate_subject.compute_digest(plan, gate),
            gate_subject,
            depth,
            recorded_digest: OnceLock::new(),
            actor_lock: Mutex::new(()),
            stop: stop.clone(),
        };
        let outcomes = match rules.is_empty() {
            true => Vec::new(),
            false => evaluation.evaluate_rules(&rules)?,
        };
        let verdicts = rules
            .iter()
            .zip(outcomes)
            .map(|(rule, outcome)| RuleVerdict {
                rule: rule.reference(),
                outcome,
            });
        Ok(GateJudgement {
            version: plan.version,
            revisions: snapshot.rules.revisions.clone(),
            subject: evaluation.subject_digest,
            recorded: evaluation.recorded_digest.get().copied(),
            verdicts: verdicts.collect(),
            targets,
        })
    }

    /// Keeps what a check said, so that nobody has to run it again, and charges what it used.
    fn submit_evidence(
        &self,
        plan: &Plan,
        subject_digest: Digest,
        verdict: Option<RuleVerdict>,
        used: BudgetAmount,
        call: &Call,
    ) -> Result<(), LifecycleError> {
        let judgement = GateJudgement {
            version: plan.version,
            subject: subject_digest,
            verdicts: verdict.into_iter().collect(),
            ..GateJudgement::default()
        };
        self.submit_for_plan(plan.id, Command::KeepEvidence { judgement, used }, call)
            .map(drop)
    }
}

impl GateEvaluation<'_> {
    /// What each rule says, in their order. Those that take time are asked at the same time.
    fn evaluate_rules(&self, rules: &[&Rule]) -> Result<Vec<RuleOutcome>, LifecycleError> {
        let needs_changes = rules.iter().any(|rule| match &rule.draft.check {
            RuleCheck::Expr(source) => expr::is_about_changes(source),
            RuleCheck::Allow(_) | RuleCheck::Forbid(_) => true,
            RuleCheck::Command { .. } | RuleCheck::Ask(_) => false,
        });
        let changes = match needs_changes {
            true => self.read_changes()?,
            false => PathChangeList::default(),
        };
        let mut judged: Vec<Option<RuleOutcome>> = Vec::new();
        let expressions = rules.iter().filter_map(|rule| match &rule.draft.check {
            RuleCheck::Expr(source) => Some(source.as_str()),
            RuleCheck::Allow(_)
            | RuleCheck::Forbid(_)
            | RuleCheck::Command { .. }
            | RuleCheck::Ask(_) => None,
        });
        let expressions: Vec<&str> = expressions.collect();
        let mut expression_outcomes =
            expr::judge_expressions(&expressions, self.snapshot, &changes);
        for rule in rules {
            let outcome = match &rule.draft.check {
                RuleCheck::Expr(_) => expression_outcomes.next(),
                RuleCheck::Allow(globs) => Some(paths::judge_allowed(globs, &changes)),
                RuleCheck::Forbid(globs) => Some(paths::judge_forbidden(globs, &changes)),
                RuleCheck::Ask(_) => self.find_ruling(rule),
                RuleCheck::Command { .. } => None,
            };
            judged.push(outcome);
        }
        let slow_rules = rules.iter().zip(&judged).filter(|(_, said)| said.is_none());
        let slow_rules: Vec<&Rule> = slow_rules.map(|(rule, _)| *rule).collect();
        let mut checked = self.run_checks(&slow_rules)?.into_iter();
        let outcomes = judged
            .into_iter()
            .map(|outcome| outcome.or_else(|| checked.next()));
        Ok(outcomes
            .map(|said| said.unwrap_or(RuleOutcome::Open(PendingVerdictReason::Check)))
            .collect())
    }

    /// What a person said of a rule that asks. A signature that outlives a merge does so with what was
    /// signed of the rules.
    fn find_ruling(&self, rule: &Rule) -> Option<RuleOutcome> {
        let plan = &self.snapshot.row.plan;
        let mut subject_digests = vec![self.subject_digest];
        if plan.profile.approval_survives_merge()
            && matches!(self.gate_subject, GateSubject::Merged(..))
        {
            subject_digests.push(
                GateSubject::StoredResult
                    .resolve_result(plan)
                    .compute_digest(plan, self.gate),
            );
        }
        let mut rulings = plan.rulings.iter().rev();
        let ruling = rulings.find(|ruling| {
            ruling.rule == rule.reference() && subject_digests.contains(&ruling.subject)
        });
        ruling.map(|ruling| ruling.outcome.clone())
    }
}

/// Can this rule be judged? Found out when it is added, not when it first matters.
pub fn check_rule(draft: &RuleDraft) -> Result<(), LifecycleError> {
    let checked = match &draft.check {
        RuleCheck::Expr(source) => expr::check_expression(source).and_then(|()| {
            let early = draft.at.iter().find(|gate| !gate.has_result());
            match early {
                Some(gate) if expr::is_about_changes(source) => Err(RuleProblem(format!(
                    "at the {gate} gate nothing has changed yet; judge it at result or apply"
                ))),
                Some(_) | None => Ok(()),
            }
        }),
        RuleCheck::Allow(globs) | RuleCheck::Forbid(globs) => paths::check_globs(globs),
        RuleCheck::Command { command, .. } => check::check_command_text(command),
        RuleCheck::Ask(text) if text.trim().is_empty() => {
            Err(RuleProblem("it asks nothing".to_owned()))
        }
        RuleCheck::Ask(_) => Ok(()),
    };
    checked.map_err(|problem| {
        LifecycleError::InvalidRule(RuleProblem(format!("rule `{}`: {}", draft.name, problem.0)))
    })
}

/// Where a check is judged if nobody says: wherever it has something to judge.
pub fn default_gates(check: &RuleCheck) -> Vec<Gate> {
    match check {
        RuleCheck::Expr(source) if expr::is_about_changes(source) => Gate::ALL
            .into_iter()
            .filter(|gate| gate.has_result())
            .collect(),
        RuleCheck::Expr(_)
        | RuleCheck::Allow(_)
        | RuleCheck::Forbid(_)
        | RuleCheck::Command { .. }
        | RuleCheck::Ask(_) => check.default_gates(),
    }
}
