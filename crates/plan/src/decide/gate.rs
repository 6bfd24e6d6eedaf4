//! Gates: accepts a judgement only if it covers the current plan version and every rule in force.

use serde_json::{Value, json};

use crate::authority::CommandAudience;
use crate::command::{CommandDefinition, CommandHeader};
use crate::decide::draft::DecisionDraft;
use crate::decide::{DecisionInput, ledger, text};
use crate::decision::{DecisionKind, DecisionNode};
use crate::facts::DecisionFacts;
use crate::invariant::{Gate, Rule, RuleBook, RuleCheck, RuleName, RuleRef, RuleScope};
use crate::judgement::{
    FailedRule, GateJudgement, GateVerdict, PlanTargets, RuleCounts, RuleEvidence, RuleOutcome,
};
use crate::ledger::BudgetAmount;
use crate::plan::Approval;
use crate::reads::{CommandTarget, ReadSet};
use crate::{
    Decision, Digest, ErasableText, Event, GateBlocked, Phase, Plan, ReceiptOutcome, Refusal,
    RowWrite, Verb,
};

/// Waive a rule for this plan.
#[derive(Debug, Clone, PartialEq)]
pub struct WaiveRule {
    pub rule: RuleName,
    pub reason: String,
    pub targets: PlanTargets,
}

impl CommandDefinition for WaiveRule {
    fn header(&self) -> CommandHeader {
        CommandHeader::new(Verb::Waive, CommandAudience::People)
    }

    fn reads(&self, target: &CommandTarget) -> ReadSet {
        target.gated_reads()
    }

    fn arguments(&self) -> Value {
        json!([self.rule, self.reason])
    }

    fn decide(&self, input: DecisionInput<'_>) -> Result<Decision, Refusal> {
        waive_rule(input.draft()?, &self.rule, &self.reason, &self.targets)
    }
}

/// Record a person's verdict on a rule that asks.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordRuling {
    pub rule: RuleName,
    /// Digest of what the person looked at.
    pub subject: Digest,
    pub outcome: RuleOutcome,
    pub targets: PlanTargets,
}

impl CommandDefinition for RecordRuling {
    fn header(&self) -> CommandHeader {
        CommandHeader::new(Verb::RuleOn, CommandAudience::People)
    }

    fn reads(&self, target: &CommandTarget) -> ReadSet {
        target.gated_reads()
    }

    fn arguments(&self) -> Value {
        json!([self.rule, self.outcome])
    }

    fn decide(&self, input: DecisionInput<'_>) -> Result<Decision, Refusal> {
        record_ruling(input.draft()?, self)
    }
}

/// Store the verdicts of checks, and charge what running them used.
#[derive(Debug, Clone, PartialEq)]
pub struct KeepEvidence {
    pub judgement: GateJudgement,
    /// Usage of the actors that judged.
    pub used: BudgetAmount,
}

impl CommandDefinition for KeepEvidence {
    fn header(&self) -> CommandHeader {
        CommandHeader::new(Verb::KeepEvidence, CommandAudience::Workers)
    }

    fn reads(&self, target: &CommandTarget) -> ReadSet {
        if self.used == BudgetAmount::default() {
            return target.plan_reads();
        }
        target.plan_reads_with_ledger()
    }

    fn arguments(&self) -> Value {
        json!(self.used)
    }

    fn judgement_mut(&mut self) -> Option<&mut GateJudgement> {
        Some(&mut self.judgement)
    }

    fn decide(&self, input: DecisionInput<'_>) -> Result<Decision, Refusal> {
        keep_evidence(input.draft()?, &self.judgement, self.used)
    }
}

/// The outcome of a gate.
#[expect(
    clippy::large_enum_variant,
    reason = "matched once and taken apart; boxing would add an allocation"
)]
pub(super) enum GatePassage<'a> {
    /// The gate opened. The draft contains its event.
    Open(Box<DecisionDraft<'a>>),
    /// The gate is blocked. The plan is unchanged; the decision stores the verdict.
    Blocked(Decision),
}

pub(super) fn pass_gate<'a>(
    mut draft: DecisionDraft<'a>,
    gate: Gate,
    judgement: &GateJudgement,
) -> Result<GatePassage<'a>, Refusal> {
    require_fresh_judgement(draft.facts, &draft.plan, gate, judgement)?;
    let (counts, failed) = evaluate_gate(&draft.plan, &draft.facts.rules, gate, judgement)?;
    if failed.is_empty() {
        // Without a root there is no parent node. The first claim records these decisions instead.
        let decisions = match draft.plan.decisions() {
            0 => Vec::new(),
            recorded => enforcement_decisions(&draft, gate, judgement, recorded + 1),
        };
        draft.emit_event(Event::GateHeld {
            gate,
            counts,
            decisions,
        });
        return Ok(GatePassage::Open(Box::new(draft)));
    }
    let verdict = GateVerdict {
        plan: draft.plan.id(),
        gate,
        version: draft.plan.version(),
        revisions: judgement.revisions.clone(),
        tips: judgement.targets.tips.clone(),
        failed: failed.clone(),
        at: draft.now,
    };
    let blocked = GateBlocked {
        plan: draft.plan.id(),
        gate,
        failed,
    };
    Ok(GatePassage::Blocked(draft.finish_with_rows(
        vec![RowWrite::PutVerdict(verdict)],
        ReceiptOutcome::Blocked(blocked),
    )))
}

/// Checks that the judgement was made on the current plan version and rule revisions.
pub(super) fn require_fresh_judgement(
    facts: &DecisionFacts,
    plan: &Plan,
    gate: Gate,
    judgement: &GateJudgement,
) -> Result<(), Refusal> {
    let scopes = plan.rule_scopes();
    let is_current = |scope: &RuleScope| {
        judgement.revisions.get(scope).copied().unwrap_or(0) == facts.rules.revision(scope)
    };
    if judgement.version == plan.version() && scopes.iter().all(is_current) {
        Ok(())
    } else {
        Err(Refusal::JudgementStale { gate })
    }
}

/// Counts the outcomes of the rules in force at a gate, and returns those that block.
///
/// A judgement without a verdict for a rule in force is stale, so that no rule is skipped.
pub fn evaluate_gate(
    plan: &Plan,
    rules: &RuleBook,
    gate: Gate,
    judgement: &GateJudgement,
) -> Result<(RuleCounts, Vec<FailedRule>), Refusal> {
    let mut counts = RuleCounts::default();
    let mut failed = Vec::new();
    let rules = rules.clone().with_plan_rules(plan, &judgement.targets);
    for rule in rules.effective_rules_at(gate.judged_gates()) {
        let outcome = outcome_of_rule(rule, judgement, gate)?;
        let (evidence, waits) = match outcome {
            RuleOutcome::Held => {
                counts.held += 1;
                continue;
            }
            RuleOutcome::Failed(evidence) | RuleOutcome::Broken(evidence) => {
                (evidence.clone(), None)
            }
            RuleOutcome::Open(waits) => (waits.as_str().to_owned(), Some(*waits)),
        };
        if rule.draft.advisory {
            counts.advised += 1;
        } else if is_waived(plan, rule) {
            counts.waived += 1;
        } else {
            failed.push(FailedRule {
                rule: rule.reference(),
                check: rule.draft.check.source(),
                evidence,
                waivable: !rule.draft.non_overridable,
                waits,
                broken: matches!(outcome, RuleOutcome::Broken(_)),
            });
        }
    }
    Ok((counts, failed))
}

/// Returns the advisory rules in force at a gate that failed.
pub fn failed_advisory_rules(
    plan: &Plan,
    rules: &RuleBook,
    gate: Gate,
    judgement: &GateJudgement,
) -> Result<Vec<FailedRule>, Refusal> {
    let rules = rules.clone().with_plan_rules(plan, &judgement.targets);
    let mut failed = Vec::new();
    for rule in rules.effective_rules_at(gate.judged_gates()) {
        let outcome = outcome_of_rule(rule, judgement, gate)?;
        if let (true, RuleOutcome::Failed(evidence) | RuleOutcome::Broken(evidence)) =
            (rule.draft.advisory, outcome)
        {
            failed.push(FailedRule {
                rule: rule.reference(),
                check: rule.draft.check.source(),
                evidence: evidence.clone(),
                waivable: false,
                waits: None,
                broken: matches!(outcome, RuleOutcome::Broken(_)),
            });
        }
    }
    Ok(failed)
}

fn outcome_of_rule<'a>(
    rule: &Rule,
    judgement: &'a GateJudgement,
    gate: Gate,
) -> Result<&'a RuleOutcome, Refusal> {
    let reference = rule.reference();
    let mut verdicts = judgement.verdicts.iter();
    let verdict = verdicts.find(|verdict| verdict.rule == reference);
    Ok(&verdict.ok_or(Refusal::JudgementStale { gate })?.outcome)
}

fn is_waived(plan: &Plan, rule: &Rule) -> bool {
    let reference = rule.reference();
    !rule.draft.non_overridable && plan.waivers().iter().any(|waiver| waiver.rule == reference)
}

/// Returns one decision node per rule at an open gate, numbered from `first`.
pub(super) fn enforcement_decisions(
    draft: &DecisionDraft<'_>,
    gate: Gate,
    judgement: &GateJudgement,
    first: u32,
) -> Vec<DecisionNode> {
    let plan = &draft.plan;
    let rules = draft.facts.rules.clone();
    let rules = rules.with_plan_rules(plan, &judgement.targets);
    let mut decisions = Vec::new();
    for (number, rule) in (first..).zip(rules.effective_rules_at(gate.judged_gates())) {
        let choice = match outcome_of_rule(rule, judgement, gate) {
            Ok(RuleOutcome::Held) => "it holds".to_owned(),
            Ok(RuleOutcome::Failed(_) | RuleOutcome::Broken(_) | RuleOutcome::Open(_))
                if is_waived(plan, rule) =>
            {
                "waived".to_owned()
            }
            Ok(RuleOutcome::Failed(evidence) | RuleOutcome::Broken(evidence)) => {
                format!("advice only: {evidence}")
            }
            Ok(RuleOutcome::Open(waits)) => format!("advice only: {}", waits.as_str()),
            Err(_) => continue,
        };
        decisions.push(DecisionNode {
            number,
            parent: Some(1),
            kind: DecisionKind::InvariantEnforced,
            question: ErasableText::from(format!(
                "Does {} hold at the {gate} gate?",
                rule.draft.name
            )),
            choice: ErasableText::from(choice),
            alternatives: Vec::new(),
            rationale: None,
            confidence: None,
        });
    }
    decisions
}

/// Returns the rule revisions that decide whether a result may land.
pub(super) fn rule_refs_in_force(
    plan: &Plan,
    rules: &RuleBook,
    targets: &PlanTargets,
) -> Vec<RuleRef> {
    let rules = rules.clone().with_plan_rules(plan, targets);
    let in_force = rules.effective_rules_at(Gate::Apply.judged_gates());
    in_force.iter().map(|rule| rule.reference()).collect()
}

/// Returns the approval if it covers the current result and the current rules.
pub(super) fn require_valid_approval<'a>(
    draft: &'a DecisionDraft<'_>,
    targets: &PlanTargets,
) -> Result<&'a Approval, Refusal> {
    let approval = draft.plan.approval();
    let approval = approval.ok_or(Refusal::NeedsApproval)?;
    let current_rules = rule_refs_in_force(&draft.plan, &draft.facts.rules, targets);
    match draft.plan.approval_void_reason(&current_rules) {
        None => Ok(approval),
        Some(reason) => Err(Refusal::ApprovalVoid(reason)),
    }
}

/// Stores verdicts of checks. They stay true for their subject even if the plan has moved on. Once
/// the plan is final or landing, only their usage is charged.
fn keep_evidence(
    draft: DecisionDraft<'_>,
    judgement: &GateJudgement,
    used: BudgetAmount,
) -> Result<Decision, Refusal> {
    let mut rows = ledger::charge_rows(draft.facts, &draft.plan, used);
    if draft.plan.stage().is_final() || draft.plan.is_prepared() {
        return match rows.is_empty() {
            true => draft.answer_not_applicable(),
            false => Ok(draft.finish_with_rows(rows, ReceiptOutcome::Done)),
        };
    }
    let entry = draft.plan.entry_number(Phase::Execute);
    rows.extend(judgement.verdicts.iter().map(|verdict| {
        RowWrite::PutEvidence(RuleEvidence {
            plan: draft.plan.id(),
            entry,
            subject: judgement.subject,
            verdict: verdict.clone(),
            at: draft.now,
        })
    }));
    Ok(draft.finish_with_rows(rows, ReceiptOutcome::Done))
}

/// Records a person's verdict on a rule that asks.
fn record_ruling(mut draft: DecisionDraft<'_>, ruling: &RecordRuling) -> Result<Decision, Refusal> {
    let RecordRuling {
        rule,
        subject,
        outcome,
        targets,
    } = ruling;
    let is_held = draft.plan.stage().holder().is_some();
    if draft.plan.stage().is_final() || draft.plan.is_prepared() || is_held {
        return draft.answer_not_applicable();
    }
    let rules = draft
        .facts
        .rules
        .clone()
        .with_plan_rules(&draft.plan, targets);
    let named = require_rules_in_force(&rules, &draft.plan, rule)?;
    let asks = |rule: &&Rule| matches!(rule.draft.check, RuleCheck::Ask(_));
    let asking: Vec<RuleRef> = named
        .iter()
        .copied()
        .filter(asks)
        .map(Rule::reference)
        .collect();
    if asking.is_empty() {
        return Err(Refusal::RuleDoesNotAsk {
            rule: named[0].reference(),
            kind: named[0].draft.check.kind(),
        });
    }
    let outcome = match outcome {
        RuleOutcome::Failed(reason) => {
            RuleOutcome::Failed(text::require_text("reason", reason)?.to_string())
        }
        RuleOutcome::Held | RuleOutcome::Broken(_) | RuleOutcome::Open(_) => outcome.clone(),
    };
    for rule in asking {
        draft.emit_event(Event::RuledOn {
            rule,
            subject: *subject,
            outcome: outcome.clone(),
        });
    }
    Ok(draft.finish())
}

/// Returns the rules in force with this name, at least one.
fn require_rules_in_force<'a>(
    rules: &'a RuleBook,
    plan: &Plan,
    name: &RuleName,
) -> Result<Vec<&'a Rule>, Refusal> {
    let mut found = rules.effective_rules();
    found.retain(|rule| &rule.draft.name == name);
    if found.is_empty() {
        return Err(Refusal::NoRuleOnPlan {
            plan: plan.id(),
            name: name.clone(),
        });
    }
    Ok(found)
}

fn waive_rule(
    mut draft: DecisionDraft<'_>,
    name: &RuleName,
    reason: &str,
    targets: &PlanTargets,
) -> Result<Decision, Refusal> {
    if draft.plan.stage().is_final() {
        return draft.answer_not_applicable();
    }
    if draft.plan.is_prepared() {
        return Err(Refusal::PointOfNoReturn {
            verb: draft.request.command.verb(),
        });
    }
    let reason = text::require_text("reason", reason)?;
    let rules = draft
        .facts
        .rules
        .clone()
        .with_plan_rules(&draft.plan, targets);
    let named = require_rules_in_force(&rules, &draft.plan, name)?;
    // Refuse all if one cannot be waived: it would still block the plan.
    if let Some(rule) = named.iter().find(|rule| rule.draft.non_overridable) {
        return Err(Refusal::NonOverridable {
            rule: rule.reference(),
        });
    }
    for rule in named.into_iter().map(Rule::reference) {
        draft.emit_event(Event::Waived {
            rule,
            reason: reason.clone(),
        });
    }
    Ok(draft.finish())
}
