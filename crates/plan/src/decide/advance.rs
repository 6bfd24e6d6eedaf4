//! Submitting results, approving them, and moving a plan to its next phase.

use serde_json::{Value, json};

use crate::authority::CommandAudience;
use crate::changeset::digest_open_entries;
use crate::command::{CapturedNodeChanges, CommandDefinition, CommandHeader, PlainCommand};
use crate::decide::draft::DecisionDraft;
use crate::decide::{DecisionInput, changeset, gate, text};
use crate::decision::{DecisionNode, ReportedDecision};
use crate::invariant::Gate;
use crate::judgement::{GateJudgement, PlanTargets, RuleEvidence, UnmetRule};
use crate::profile::AutomationStep;
use crate::reads::{ChangesetReads, CommandTarget, ReadSet};
use crate::stage::{ApplyState, ResultContent, WorkState};
use crate::{
    Decision, Epoch, ErasableText, Event, LandingOptions, Phase, PlanStage, Refusal,
    ResourceCommit, RowWrite, Verb,
};

/// Record that the sandboxes are ready, and their base commits.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordBases {
    pub epoch: Epoch,
    /// One per resource.
    pub bases: Vec<ResourceCommit>,
}

impl CommandDefinition for RecordBases {
    fn header(&self) -> CommandHeader {
        CommandHeader::for_holder(Verb::RecordBases, self.epoch)
    }

    fn arguments(&self) -> Value {
        json!([self.epoch, self.bases])
    }

    fn decide(&self, input: DecisionInput<'_>) -> Result<Decision, Refusal> {
        record_bases(input.draft()?, self.epoch, &self.bases)
    }
}

/// Submit the strategy.
#[derive(Debug, Clone, PartialEq)]
pub struct CompleteStrategize {
    pub epoch: Epoch,
    pub decisions: Vec<ReportedDecision>,
}

impl CompleteStrategize {
    pub fn new(epoch: Epoch, decisions: Vec<ReportedDecision>) -> Self {
        Self { epoch, decisions }
    }
}

impl CommandDefinition for CompleteStrategize {
    fn header(&self) -> CommandHeader {
        CommandHeader::for_holder(Verb::CompleteStrategize, self.epoch)
    }

    fn arguments(&self) -> Value {
        json!([self.epoch, self.decisions])
    }

    fn decide(&self, input: DecisionInput<'_>) -> Result<Decision, Refusal> {
        complete_strategize(input.draft()?, self.epoch, &self.decisions)
    }
}

impl PlainCommand for CompleteStrategize {}

/// Record a decision of the holder's agent, while it works.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordDecision {
    pub epoch: Epoch,
    pub decision: ReportedDecision,
}

impl CommandDefinition for RecordDecision {
    fn header(&self) -> CommandHeader {
        CommandHeader::for_holder(Verb::RecordDecision, self.epoch)
    }

    fn arguments(&self) -> Value {
        json!([self.epoch, self.decision])
    }

    fn decide(&self, input: DecisionInput<'_>) -> Result<Decision, Refusal> {
        record_decision(input.draft()?, self.epoch, &self.decision)
    }
}

impl PlainCommand for RecordDecision {}

/// Move a finished strategy into execute.
#[derive(Debug, Clone, PartialEq)]
pub struct ExecutePlan {
    pub judgement: GateJudgement,
}

impl CommandDefinition for ExecutePlan {
    fn header(&self) -> CommandHeader {
        CommandHeader::new(Verb::ExecutePlan, CommandAudience::Workers)
    }

    fn reads(&self, target: &CommandTarget) -> ReadSet {
        target.gated_reads()
    }

    fn arguments(&self) -> Value {
        Value::Null
    }

    fn judgement_mut(&mut self) -> Option<&mut GateJudgement> {
        Some(&mut self.judgement)
    }

    fn decide(&self, input: DecisionInput<'_>) -> Result<Decision, Refusal> {
        execute_plan(input.draft()?, &self.judgement)
    }
}

/// Submit the result.
#[derive(Debug, Clone, PartialEq)]
pub struct CompleteExecute {
    pub epoch: Epoch,
    pub result: ResultContent,
    /// Changes as captured from the sandboxes.
    pub captured: Vec<CapturedNodeChanges>,
    /// Accept a result without changes.
    pub allow_empty: bool,
    /// A failing rule blocks apply, but not this command.
    pub judgement: GateJudgement,
}

impl CommandDefinition for CompleteExecute {
    fn header(&self) -> CommandHeader {
        CommandHeader::for_holder(Verb::CompleteExecute, self.epoch)
    }

    fn reads(&self, target: &CommandTarget) -> ReadSet {
        ReadSet {
            changesets: ChangesetReads::All,
            ..target.gated_reads()
        }
    }

    fn arguments(&self) -> Value {
        json!([self.epoch, self.result.report, self.allow_empty])
    }

    fn judgement_mut(&mut self) -> Option<&mut GateJudgement> {
        Some(&mut self.judgement)
    }

    fn decide(&self, input: DecisionInput<'_>) -> Result<Decision, Refusal> {
        complete_execute(input.draft()?, self)
    }
}

/// Approve the result.
#[derive(Debug, Clone, PartialEq)]
pub struct ApproveResult {
    pub options: LandingOptions,
    /// The plan's targets as the person who approves sees them.
    pub targets: PlanTargets,
    /// Valid for one landing only.
    pub once: bool,
    /// Also ask the engine to land the result.
    pub lands: bool,
}

impl CommandDefinition for ApproveResult {
    fn header(&self) -> CommandHeader {
        CommandHeader::new(Verb::Approve, CommandAudience::People)
    }

    fn reads(&self, target: &CommandTarget) -> ReadSet {
        target.gated_reads()
    }

    fn arguments(&self) -> Value {
        match self.lands {
            false => json!(self.options),
            true => json!([self.options, "lands"]),
        }
    }

    fn decide(&self, input: DecisionInput<'_>) -> Result<Decision, Refusal> {
        approve(input.draft()?, self)
    }
}

/// Move a finished result into apply.
#[derive(Debug, Clone, PartialEq)]
pub struct ApplyPlan {
    pub judgement: GateJudgement,
}

impl CommandDefinition for ApplyPlan {
    fn header(&self) -> CommandHeader {
        CommandHeader::new(Verb::ApplyPlan, CommandAudience::Workers)
    }

    fn reads(&self, target: &CommandTarget) -> ReadSet {
        target.gated_reads()
    }

    fn arguments(&self) -> Value {
        Value::Null
    }

    fn judgement_mut(&mut self) -> Option<&mut GateJudgement> {
        Some(&mut self.judgement)
    }

    fn decide(&self, input: DecisionInput<'_>) -> Result<Decision, Refusal> {
        apply_plan(input.draft()?, &self.judgement)
    }
}

/// Records that the sandboxes are ready. Submitted after each claim that had to prepare them, with
/// exactly one base per resource.
fn record_bases(
    mut draft: DecisionDraft<'_>,
    epoch: Epoch,
    bases: &[ResourceCommit],
) -> Result<Decision, Refusal> {
    match draft.plan.stage() {
        PlanStage::Strategize(WorkState::Processing(_))
        | PlanStage::Execute(WorkState::Processing(_)) => {}
        PlanStage::Strategize(_) | PlanStage::Execute(_) | PlanStage::Apply(_) => {
            return draft.answer_not_applicable();
        }
    }
    if draft.require_holder(epoch).is_err() {
        return draft.answer_not_applicable();
    }
    let matches_resources = draft.plan.resources().len() == bases.len()
        && draft.plan.resources().iter().all(|resource| {
            let base = bases.iter().find(|base| base.resource == resource.name);
            base.is_some_and(|base| !base.commit.is_empty())
        });
    if !matches_resources {
        return Err(Refusal::BasesMismatch);
    }
    draft.emit_event(Event::BasesRecorded {
        epoch,
        bases: bases.to_vec(),
    });
    Ok(draft.finish())
}

fn complete_strategize(
    mut draft: DecisionDraft<'_>,
    epoch: Epoch,
    reported: &[ReportedDecision],
) -> Result<Decision, Refusal> {
    let PlanStage::Strategize(WorkState::Processing(_)) = draft.plan.stage() else {
        return draft.answer_not_applicable();
    };
    if draft.require_holder(epoch).is_err() {
        return draft.answer_not_applicable();
    }
    let decisions = number_decisions(reported, draft.plan.decisions())?;
    if !decisions.is_empty() {
        draft.emit_event(Event::DecisionsRecorded { decisions });
    }
    draft.emit_event(Event::StrategizeCompleted { epoch });
    Ok(draft.finish())
}

/// Most decisions of a plan that agents can record while they work. What a strategy reports at its end does not count
/// against it.
const MAX_RECORDED_DECISIONS: u32 = 1000;

fn record_decision(
    mut draft: DecisionDraft<'_>,
    epoch: Epoch,
    reported: &ReportedDecision,
) -> Result<Decision, Refusal> {
    // A holder may record several decisions, so an earlier one of its epoch does not answer for this one.
    draft.require_holder(epoch)?;
    if draft.plan.phase() == Phase::Apply {
        return draft.answer_not_applicable();
    }
    if draft.plan.decisions() >= MAX_RECORDED_DECISIONS {
        return Err(Refusal::BadDecision {
            number: 1,
            why: "the plan has too many decisions",
        });
    }
    let decisions = number_decisions(std::slice::from_ref(reported), draft.plan.decisions())?;
    draft.emit_event(Event::DecisionsRecorded { decisions });
    Ok(draft.finish())
}

fn execute_plan(draft: DecisionDraft<'_>, judgement: &GateJudgement) -> Result<Decision, Refusal> {
    let PlanStage::Strategize(WorkState::Complete) = draft.plan.stage() else {
        return draft.answer_not_applicable();
    };
    // A person who asked for strategize has not asked for execute.
    let asked = draft.request.caller.is_person();
    draft.require_person_or(AutomationStep::StartExecute)?;
    match gate::pass_gate(draft, Gate::Execute, judgement)? {
        gate::GatePassage::Blocked(decision) => Ok(decision),
        gate::GatePassage::Open(mut draft) => {
            draft.emit_event(Event::ExecuteEntered { asked });
            Ok(draft.finish())
        }
    }
}

fn complete_execute(
    mut draft: DecisionDraft<'_>,
    submission: &CompleteExecute,
) -> Result<Decision, Refusal> {
    let CompleteExecute {
        epoch,
        result,
        captured,
        allow_empty,
        judgement,
    } = submission;
    let epoch = *epoch;
    let PlanStage::Execute(WorkState::Processing(_)) = draft.plan.stage() else {
        return draft.answer_not_applicable();
    };
    if draft.require_holder(epoch).is_err() {
        return draft.answer_not_applicable();
    }
    if let Some(ErasableText::Known(report)) = &result.report {
        text::require_text("report", report)?;
    }
    if draft.plan.has_targets() && result.is_empty() && !allow_empty {
        return Err(Refusal::EmptyResult);
    }
    let changed = captured.iter().flat_map(|one| &one.entries).next();
    if let Some(entry) = changed.filter(|_| draft.plan.read_only()) {
        return Err(Refusal::ReadOnly(entry.path.to_string()));
    }
    gate::require_fresh_judgement(draft.facts, &draft.plan, Gate::Result, judgement)?;
    let recorded = draft.facts.entries.iter().map(|(id, entry)| (*id, entry));
    if let Some(judged) = judgement.recorded
        && judged != digest_open_entries(recorded)
    {
        return Err(Refusal::JudgementStale { gate: Gate::Result });
    }
    // Every rule must have been judged. Failures do not block here: they block apply.
    let (_, failed) =
        gate::evaluate_gate(&draft.plan, &draft.facts.rules, Gate::Result, judgement)?;
    // Sending the result back cannot help a rule that waits for a person.
    let unmet = failed.into_iter().filter(|rule| rule.waits.is_none());
    let unmet = unmet.map(|rule| UnmetRule {
        rule: rule.rule,
        evidence: rule.evidence.into(),
        broken: rule.broken,
    });
    let unmet = unmet.collect();
    changeset::merge_captured_changes(&mut draft, epoch, captured);
    let entry = draft.plan.entry_number(Phase::Execute);
    for verdict in &judgement.verdicts {
        let evidence = RuleEvidence {
            plan: draft.plan.id(),
            entry,
            subject: judgement.subject,
            verdict: verdict.clone(),
            at: draft.now,
        };
        draft.rows.push(RowWrite::PutEvidence(evidence));
    }
    draft.emit_event(Event::ExecuteCompleted {
        epoch,
        result: result.clone(),
        unmet,
    });
    Ok(draft.finish())
}

/// Approves the result. Only a person can. Nothing lands in this commit.
fn approve(mut draft: DecisionDraft<'_>, approval: &ApproveResult) -> Result<Decision, Refusal> {
    let (options, targets) = (&approval.options, &approval.targets);
    match draft.plan.stage() {
        PlanStage::Execute(WorkState::Complete) | PlanStage::Apply(ApplyState::Constrained(_)) => {}
        PlanStage::Strategize(_) | PlanStage::Execute(_) | PlanStage::Apply(_) => {
            return draft.answer_not_applicable();
        }
    }
    if let Some(ErasableText::Known(message)) = &options.message {
        text::require_text("message", message)?;
    }
    let content = draft
        .plan
        .result()
        .map(|result| result.digest(options))
        .ok_or(Refusal::EmptyResult)?;
    draft.emit_event(Event::Approved {
        content,
        options: options.clone(),
        rules: gate::rule_refs_in_force(&draft.plan, &draft.facts.rules, targets),
        tips: targets.tips.clone(),
        by_profile: None,
        once: approval.once,
        lands: approval.lands,
    });
    Ok(draft.finish())
}

fn apply_plan(draft: DecisionDraft<'_>, judgement: &GateJudgement) -> Result<Decision, Refusal> {
    let PlanStage::Execute(WorkState::Complete) = draft.plan.stage() else {
        return draft.answer_not_applicable();
    };
    let asked = draft.request.caller.is_person();
    let lands_automatically = draft.plan.lands_automatically();
    let approved = gate::require_valid_approval(&draft, &judgement.targets).is_ok();
    // An approval is not by itself a request to land.
    if !draft.plan.may_enter_apply_unattended() {
        draft.require_person()?;
    }
    if draft.plan.has_targets() && !lands_automatically && draft.plan.valid_approval().is_none() {
        return Err(Refusal::NeedsApproval);
    }
    let approve_by_profile = draft.plan.has_targets() && !approved;
    match gate::pass_gate(draft, Gate::Apply, judgement)? {
        gate::GatePassage::Blocked(decision) => Ok(decision),
        gate::GatePassage::Open(mut draft) => {
            // Checked after the gate: a failing rule is a better answer than the approval it
            // voided.
            if draft.plan.has_targets() && !lands_automatically {
                gate::require_valid_approval(&draft, &judgement.targets)?;
            }
            if approve_by_profile && let Some(result) = draft.plan.result() {
                let options = draft.plan.policy().landing.clone();
                let content = result.digest(&options);
                let by_profile = Some(draft.plan.profile());
                let rules =
                    gate::rule_refs_in_force(&draft.plan, &draft.facts.rules, &judgement.targets);
                let tips = judgement.targets.tips.clone();
                draft.emit_event(Event::Approved {
                    content,
                    options,
                    rules,
                    tips,
                    by_profile,
                    once: false,
                    lands: false,
                });
            }
            draft.emit_event(Event::ApplyEntered { asked });
            Ok(draft.finish())
        }
    }
}

/// Numbers reported decisions. A decision without a parent goes under the root.
fn number_decisions(
    reported: &[ReportedDecision],
    existing: u32,
) -> Result<Vec<DecisionNode>, Refusal> {
    let mut nodes = Vec::new();
    for (index, one) in reported.iter().enumerate() {
        let refuse = |why| Refusal::BadDecision {
            number: index + 1,
            why,
        };
        let number =
            existing + 1 + u32::try_from(index).map_err(|_| refuse("there are too many"))?;
        if !one.kind.is_for_actors() {
            return Err(refuse("only the engine records decisions of its kind"));
        }
        let parent = one.parent.unwrap_or(1);
        if parent == 0 || parent >= number {
            return Err(refuse("its parent is not an earlier decision of the plan"));
        }
        nodes.push(DecisionNode {
            number,
            parent: Some(parent),
            kind: one.kind,
            question: text::require_text("question of a decision", &one.question)?,
            choice: text::require_text("choice of a decision", &one.choice)?,
            alternatives: one
                .alternatives
                .iter()
                .map(|text| text::require_storable("alternative of a decision", text))
                .collect::<Result<_, _>>()?,
            rationale: one
                .rationale
                .as_deref()
                .map(|text| text::require_storable("rationale of a decision", text))
                .transpose()?,
            confidence: one.confidence,
        });
    }
    Ok(nodes)
}
