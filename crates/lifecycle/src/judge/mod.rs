//! Checks the rules of a gate against a snapshot of the plan.
//!
//! Runs outside of any transaction. The judgement records the versions it is based on, and `decide` refuses
//! it as stale if they have changed. A new kind of check is a new variant of [`RuleCheck`], which fails to
//! compile here until it is handled.
//!
//! Expressions and paths are cheap and evaluated each time. The outcome of a command is stored as evidence,
//! and the command is not run again on the same subject.

mod check;
mod expr;
mod paths;
mod question;
mod subject;
mod targets;

pub use check::RuleCheckConfig;
pub use paths::unmatched_globs;
pub(crate) use subject::GateSubject;

use std::sync::{Mutex, OnceLock};

use actors::Stop;
use plan::command::KeepEvidence;
use plan::invariant::{Gate, Rule, RuleCheck, RuleDraft};
use plan::judgement::{GateJudgement, PendingVerdictReason, PlanTargets, RuleOutcome, RuleVerdict};
use plan::ledger::BudgetAmount;
use plan::{Command, Digest, Plan, PlanId, Refusal};
use store::{CommitOutcome, PlanSnapshot};

use crate::{Call, Lifecycle, LifecycleError, RuleProblem};
use plan::reads::CommandTarget;
use subject::PathChangeList;

/// How often a stale judgement is repeated before the caller gets the refusal.
const MAX_JUDGE_ATTEMPTS: u32 = 64;

/// Whether slow checks are run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CheckDepth {
    /// Use stored evidence only. Slow checks without evidence stay open.
    StoredEvidence,
    /// Run slow checks that have no stored evidence.
    RunChecks,
}

/// The evaluation of one gate.
struct GateEvaluation<'a> {
    lifecycle: &'a Lifecycle,
    snapshot: &'a PlanSnapshot,
    gate: Gate,
    gate_subject: GateSubject<'a>,
    subject_digest: Digest,
    depth: CheckDepth,
    /// Digest of the entries in open changesets, if they were read. Detects entries recorded later.
    recorded_digest: OnceLock<Digest>,
    /// Serializes checks by an actor: each may use the whole remaining budget.
    actor_lock: Mutex<()>,
    stop: Stop,
}

/// Checks rules at the gates between phases.
#[derive(Clone, Copy)]
pub struct Gates<'a> {
    lifecycle: &'a Lifecycle,
}

impl Lifecycle {
    pub fn gates(&self) -> Gates<'_> {
        Gates { lifecycle: self }
    }
}

impl Gates<'_> {
    /// Judges a plan at a gate and submits the command with the judgement. Retries if the plan or the rules
    /// changed in between.
    pub(crate) fn submit_judged<C: Into<Command>>(
        &self,
        plan_id: PlanId,
        gate: Gate,
        gate_subject: &GateSubject<'_>,
        call: &Call,
        command: impl Fn(GateJudgement) -> C,
    ) -> Result<CommitOutcome, LifecycleError> {
        let mut attempts = 0;
        loop {
            let snapshot = self
                .lifecycle
                .store
                .read_snapshot(plan_id)?
                .ok_or(Refusal::NoSuchPlan(plan_id))?;
            let stop = call.stop.clone().unwrap_or_default();
            let judgement =
                self.judge_gate(&snapshot, gate, gate_subject, CheckDepth::RunChecks, &stop)?;
            attempts += 1;
            match self.lifecycle.submit(
                command(judgement),
                &CommandTarget::for_plan(&snapshot.row.plan),
                call,
            ) {
                // The plan, the rules or a target changed while the checks ran. Judge again.
                Err(LifecycleError::Refused(Refusal::JudgementStale { .. }))
                    if attempts < MAX_JUDGE_ATTEMPTS => {}
                settled => return settled,
            }
        }
    }

    /// Evaluates all rules in force at the gate.
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
                    // A diagnosis also works if the targets are on another host.
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
            lifecycle: self.lifecycle,
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
            version: plan.version(),
            revisions: snapshot.rules.revisions.clone(),
            subject: evaluation.subject_digest,
            recorded: evaluation.recorded_digest.get().copied(),
            verdicts: verdicts.collect(),
            targets,
        })
    }

    /// Stores the verdict of a check, so that it is not run again, and charges its usage.
    fn submit_evidence(
        &self,
        plan: &Plan,
        subject_digest: Digest,
        verdict: Option<RuleVerdict>,
        used: BudgetAmount,
        call: &Call,
    ) -> Result<(), LifecycleError> {
        let judgement = GateJudgement {
            version: plan.version(),
            subject: subject_digest,
            verdicts: verdict.into_iter().collect(),
            ..GateJudgement::default()
        };
        self.lifecycle
            .submit_for_plan(plan.id(), KeepEvidence { judgement, used }, call)
            .map(drop)
    }
}

impl GateEvaluation<'_> {
    /// Evaluates the rules and returns their outcomes in the same order. Slow checks run in parallel.
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
        let mut fast_outcomes: Vec<Option<RuleOutcome>> = Vec::new();
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
            fast_outcomes.push(outcome);
        }
        let slow_rules = rules
            .iter()
            .zip(&fast_outcomes)
            .filter(|(_, outcome)| outcome.is_none());
        let slow_rules: Vec<&Rule> = slow_rules.map(|(rule, _)| *rule).collect();
        let mut slow_outcomes = self.run_checks(&slow_rules)?.into_iter();
        let outcomes = fast_outcomes
            .into_iter()
            .map(|outcome| outcome.or_else(|| slow_outcomes.next()));
        Ok(outcomes
            .map(|outcome| outcome.unwrap_or(RuleOutcome::Open(PendingVerdictReason::Check)))
            .collect())
    }

    /// Finds a person's ruling on an `ask` rule. If the approval survives a merge, so do the rulings on the
    /// unmerged result.
    fn find_ruling(&self, rule: &Rule) -> Option<RuleOutcome> {
        let plan = &self.snapshot.row.plan;
        let mut subject_digests = vec![self.subject_digest];
        if plan.profile().approval_survives_merge()
            && matches!(self.gate_subject, GateSubject::Merged(..))
        {
            subject_digests.push(
                GateSubject::StoredResult
                    .resolve_result(plan)
                    .compute_digest(plan, self.gate),
            );
        }
        let mut rulings = plan.rulings().iter().rev();
        let ruling = rulings.find(|ruling| {
            ruling.rule == rule.reference() && subject_digests.contains(&ruling.subject)
        });
        ruling.map(|ruling| ruling.outcome.clone())
    }
}

/// Checks that a rule can be evaluated. Called when it is added, so that errors do not surface at a gate.
pub fn check_rule(draft: &RuleDraft) -> Result<(), LifecycleError> {
    let checked = match &draft.check {
        RuleCheck::Expr(source) => expr::check_expression(source).and_then(|()| {
            let early = draft.at.iter().find(|gate| !gate.has_result());
            match early {
                Some(gate) if expr::is_about_changes(source) => Err(RuleProblem(format!(
                    "at the {gate} gate nothing has changed yet; check it at result or apply"
                ))),
                Some(_) | None => Ok(()),
            }
        }),
        RuleCheck::Allow(globs) | RuleCheck::Forbid(globs) => paths::check_globs(globs),
        RuleCheck::Command { command, .. } => check::check_command_text(command),
        RuleCheck::Ask(text) if text.trim().is_empty() => {
            Err(RuleProblem("the question is empty".to_owned()))
        }
        RuleCheck::Ask(_) => Ok(()),
    };
    checked.map_err(|problem| {
        LifecycleError::InvalidRule(RuleProblem(format!("rule `{}`: {}", draft.name, problem.0)))
    })
}

/// The gates of a rule that names none: those where there is something to check.
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
