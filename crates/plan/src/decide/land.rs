//! Landing: from the stored intent to `applied`. In between, a plan can only roll forward, or
//! withdraw if no target has changed.

use serde_json::{Value, json};

use crate::changeset::TreePath;
use crate::command::{CommandDefinition, CommandHeader, LinkedPlan, PlainCommand};
use crate::decide::draft::DecisionDraft;
use crate::decide::{DecisionInput, create, gate, text};
use crate::invariant::Gate;
use crate::judgement::GateJudgement;
use crate::plan::{Approval, PlanOrigin};
use crate::reads::{CommandTarget, ReadSet};
use crate::stage::{ApplyState, ConstraintKind, LandingConstraint, LandingIntent, RefMove};
use crate::{Decision, Epoch, Event, Plan, PlanStage, Refusal, ResourceCommit, Verb};

/// Store the landing intent, before any target is changed.
#[derive(Debug, Clone, PartialEq)]
pub struct PrepareApply {
    pub epoch: Epoch,
    /// One move per changed resource.
    pub moves: Vec<RefMove>,
    /// Judgement of the merged tree.
    pub judgement: GateJudgement,
}

impl CommandDefinition for PrepareApply {
    fn header(&self) -> CommandHeader {
        CommandHeader::for_holder(Verb::PrepareApply, self.epoch)
    }

    fn reads(&self, target: &CommandTarget) -> ReadSet {
        target.gated_reads()
    }

    fn arguments(&self) -> Value {
        json!([self.epoch, self.moves])
    }

    fn judgement_mut(&mut self) -> Option<&mut GateJudgement> {
        Some(&mut self.judgement)
    }

    fn decide(&self, input: DecisionInput<'_>) -> Result<Decision, Refusal> {
        prepare_landing(input.draft()?, self.epoch, &self.moves, &self.judgement)
    }
}

/// Withdraw the landing intent. The caller has checked that no target has the change.
#[derive(Debug, Clone, PartialEq)]
pub struct WithdrawApply {
    pub epoch: Epoch,
}

impl CommandDefinition for WithdrawApply {
    fn header(&self) -> CommandHeader {
        CommandHeader::for_holder(Verb::WithdrawApply, self.epoch)
    }

    fn arguments(&self) -> Value {
        json!(self.epoch)
    }

    fn decide(&self, input: DecisionInput<'_>) -> Result<Decision, Refusal> {
        withdraw_landing(input.draft()?, self.epoch)
    }
}

impl PlainCommand for WithdrawApply {}

/// Record that everything landed.
#[derive(Debug, Clone, PartialEq)]
pub struct CompleteApply {
    pub epoch: Epoch,
    /// Resources whose target was read back and contains the new commit.
    pub landed: Vec<String>,
    /// A new plan for the part that does not land.
    pub rest: Option<LinkedPlan>,
}

impl CompleteApply {
    pub fn new(epoch: Epoch, landed: Vec<String>, rest: Option<LinkedPlan>) -> Self {
        Self {
            epoch,
            landed,
            rest,
        }
    }
}

impl CommandDefinition for CompleteApply {
    fn header(&self) -> CommandHeader {
        CommandHeader::for_holder(Verb::CompleteApply, self.epoch)
    }

    fn arguments(&self) -> Value {
        let rest = self.rest.as_ref();
        let rest = rest.map(|rest| (&rest.resources, &rest.result));
        json!([self.epoch, self.landed, rest])
    }

    fn decide(&self, input: DecisionInput<'_>) -> Result<Decision, Refusal> {
        complete_landing(input.draft()?, self.epoch, &self.landed, self.rest.as_ref())
    }
}

impl PlainCommand for CompleteApply {}

/// Record that the result cannot land as it is.
#[derive(Debug, Clone, PartialEq)]
pub struct ConstrainApply {
    pub epoch: Epoch,
    pub kind: ConstraintKind,
    pub message: String,
    pub paths: Vec<TreePath>,
    pub commits: Vec<String>,
}

impl CommandDefinition for ConstrainApply {
    fn header(&self) -> CommandHeader {
        CommandHeader::for_holder(Verb::Constrain, self.epoch)
    }

    fn arguments(&self) -> Value {
        json!([
            self.epoch,
            self.kind,
            self.message,
            self.paths,
            self.commits
        ])
    }

    fn decide(&self, input: DecisionInput<'_>) -> Result<Decision, Refusal> {
        constrain_landing(input.draft()?, self)
    }
}

impl PlainCommand for ConstrainApply {}

fn prepare_landing(
    draft: DecisionDraft<'_>,
    epoch: Epoch,
    moves: &[RefMove],
    judgement: &GateJudgement,
) -> Result<Decision, Refusal> {
    let PlanStage::Apply(ApplyState::Processing(_, None)) = draft.plan.stage() else {
        return draft.answer_not_applicable();
    };
    if draft.require_holder(epoch).is_err() {
        return draft.answer_not_applicable();
    }
    if draft.plan.has_targets() && draft.plan.valid_approval().is_none() {
        return Err(Refusal::NeedsApproval);
    }
    if draft.plan.has_targets() && moves.is_empty() {
        return Err(Refusal::EmptyResult);
    }
    if !draft.plan.has_targets()
        && let Some(step) = moves.first()
    {
        return Err(Refusal::ReadOnly(step.resource.clone()));
    }
    if !moves_match_result(&draft.plan, moves) {
        return Err(Refusal::MovesMismatch);
    }
    match gate::pass_gate(draft, Gate::Apply, judgement)? {
        gate::GatePassage::Blocked(decision) => Ok(decision),
        gate::GatePassage::Open(mut draft) => {
            if draft.plan.has_targets() {
                let approval = gate::require_valid_approval(&draft, &judgement.targets)?;
                require_approval_survives_move(
                    &draft.plan,
                    approval,
                    moves,
                    &judgement.targets.tips,
                )?;
            }
            let intent = LandingIntent {
                moves: moves.to_vec(),
                vouched: None,
            };
            // Committed before any target moves: after a crash, the intent says what may have happened.
            draft.emit_event(Event::ApplyPrepared { epoch, intent });
            Ok(draft.finish())
        }
    }
}

/// Withdraws the landing intent. The caller must have checked that no target ever had the change.
fn withdraw_landing(mut draft: DecisionDraft<'_>, epoch: Epoch) -> Result<Decision, Refusal> {
    let PlanStage::Apply(ApplyState::Processing(_, Some(_))) = draft.plan.stage() else {
        return draft.answer_not_applicable();
    };
    if draft.require_holder(epoch).is_err() {
        return draft.answer_not_applicable();
    }
    draft.emit_event(Event::ApplyWithdrawn { epoch });
    Ok(draft.finish())
}

fn complete_landing(
    mut draft: DecisionDraft<'_>,
    epoch: Epoch,
    landed: &[String],
    rest: Option<&LinkedPlan>,
) -> Result<Decision, Refusal> {
    let PlanStage::Apply(ApplyState::Processing(_, intent)) = draft.plan.stage() else {
        return draft.answer_not_applicable();
    };
    let intent = intent.clone();
    if draft.require_holder(epoch).is_err() {
        return draft.answer_not_applicable();
    }
    // Without targets there is no rest. A rest plan is not read-only, so it could write what its
    // origin may not.
    if !draft.plan.has_targets() && rest.is_some() {
        return Err(Refusal::ReadOnly("anything".to_owned()));
    }
    match intent {
        Some(intent) => require_landed(&intent, landed, rest)?,
        // A plan without targets is prepared and landed in one step.
        None if !draft.plan.has_targets() => {
            draft.emit_event(Event::ApplyPrepared {
                epoch,
                intent: LandingIntent::default(),
            });
        }
        None => return draft.answer_not_applicable(),
    }
    if let Some(rest) = rest {
        let goal = format!("Rest of: {}", draft.plan.goal().first_line());
        let change = create::create_linked_plan(
            &draft,
            rest,
            goal.into(),
            PlanOrigin::RestOf(draft.plan.id()),
        )?;
        draft.add_new_plan(change);
    }
    draft.emit_event(Event::Landed { epoch });
    Ok(draft.finish())
}

fn constrain_landing(
    mut draft: DecisionDraft<'_>,
    reported: &ConstrainApply,
) -> Result<Decision, Refusal> {
    let epoch = reported.epoch;
    let PlanStage::Apply(ApplyState::Processing(_, None)) = draft.plan.stage() else {
        return draft.answer_not_applicable();
    };
    if draft.require_holder(epoch).is_err() {
        return draft.answer_not_applicable();
    }
    let message = text::require_text("message", &reported.message)?;
    let constraint = LandingConstraint {
        kind: reported.kind,
        message,
        paths: reported.paths.clone(),
        commits: reported.commits.clone(),
        epoch,
        at: draft.now,
    };
    draft.emit_event(Event::Constrained { constraint });
    Ok(draft.finish())
}

/// Checks that the approval is still valid if its targets moved. The judged tips and the moves of
/// the targets tell where the targets are. A move of a new branch or working tree says nothing
/// about the target.
fn require_approval_survives_move(
    plan: &Plan,
    approval: &Approval,
    moves: &[RefMove],
    judged: &[ResourceCommit],
) -> Result<(), Refusal> {
    let target_of = |resource: &str| {
        let resource = plan.resources().iter().find(|one| one.name == resource);
        resource.and_then(|resource| resource.target.as_deref())
    };
    let target_moves = moves
        .iter()
        .filter(|step| target_of(&step.resource) == Some(&step.target))
        .map(|step| (&step.resource, &step.old));
    let judged = judged.iter().map(|tip| (&tip.resource, &tip.commit));
    let has_moved = |(resource, commit): &(&String, &String)| {
        let mut signed = approval.tips.iter();
        let signed = signed.find(|signed| &&signed.resource == resource);
        signed.is_some_and(|signed| &&signed.commit != commit)
    };
    match target_moves.chain(judged).find(has_moved) {
        Some((resource, _)) if !plan.profile().approval_survives_merge() => {
            Err(Refusal::ApprovalVoid(format!(
                "{} moved after the approval, and profile {} requires a new approval after a merge",
                target_of(resource).unwrap_or(resource),
                plan.profile()
            )))
        }
        Some(_) | None => Ok(()),
    }
}

/// Returns whether there is exactly one move for every changed resource, and none for unknown ones.
/// If only some paths land, resources without any of them may stay.
fn moves_match_result(plan: &Plan, moves: &[RefMove]) -> bool {
    let is_known_once = |step: &RefMove| {
        let same = |other: &&RefMove| other.resource == step.resource;
        plan.resources().iter().any(|one| one.name == step.resource)
            && moves.iter().filter(same).count() == 1
    };
    let lands_partly = plan
        .approval()
        .is_some_and(|approval| !approval.options.paths.is_empty());
    let trees = plan.result().into_iter().flat_map(|result| &result.trees);
    let covers_all = trees
        .filter(|tree| tree.changes != Some(0))
        .all(|tree| moves.iter().any(|step| step.resource == tree.resource));
    moves.iter().all(is_known_once) && (covers_all || lands_partly)
}

/// Checks that every target has the change or is left to the rest plan. A person's confirmation
/// replaces the check.
fn require_landed(
    intent: &LandingIntent,
    landed: &[String],
    rest: Option<&LinkedPlan>,
) -> Result<(), Refusal> {
    if intent.vouched.is_some() {
        return Ok(());
    }
    let left_to_rest: &[String] = rest
        .map(|rest| rest.resources.as_slice())
        .unwrap_or_default();
    let missing: Vec<String> = intent
        .moves
        .iter()
        .map(|step| &step.resource)
        .filter(|resource| !landed.contains(resource) && !left_to_rest.contains(resource))
        .cloned()
        .collect();
    let nothing_landed = !intent.moves.is_empty() && landed.is_empty();
    if missing.is_empty() && !nothing_landed {
        return Ok(());
    }
    let all = intent
        .moves
        .iter()
        .map(|step| step.resource.clone())
        .collect();
    Err(Refusal::NotLanded {
        missing: if missing.is_empty() { all } else { missing },
    })
}
