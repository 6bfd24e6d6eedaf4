//! Landing: from the stored intent to applied. Between the two only rolling forward, or a proven
//! withdrawal.

use crate::changeset::TreePath;
use crate::command::LinkedPlan;
use crate::decide::draft::Draft;
use crate::decide::{create, gate, text};
use crate::invariant::Gate;
use crate::judgement::Judgement;
use crate::plan::{Approval, Origin};
use crate::stage::{Constraint, ConstraintKind, Intent, Landing, RefMove};
use crate::{Base, Decision, Epoch, Event, Plan, Refusal, Stage};

pub(super) fn prepare(
    draft: Draft<'_>,
    epoch: Epoch,
    moves: &[RefMove],
    judgement: &Judgement,
) -> Result<Decision, Refusal> {
    let Stage::Apply(Landing::Processing(_, None)) = draft.plan.stage else {
        return draft.not_now();
    };
    if draft.require_holder(epoch).is_err() {
        return draft.not_now();
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
    if !moves_fit(&draft.plan, moves) {
        return Err(Refusal::MovesDoNotFit);
    }
    match gate::pass(draft, Gate::Apply, judgement)? {
        gate::Passage::Blocked(decision) => Ok(decision),
        gate::Passage::Open(mut draft) => {
            if draft.plan.has_targets() {
                let approval = gate::signed(&draft, &judgement.targets)?;
                check_targets(&draft.plan, approval, moves, &judgement.targets.tips)?;
            }
            let intent = Intent {
                moves: moves.to_vec(),
                vouched: None,
            };
            draft.emit(Event::ApplyPrepared { epoch, intent });
            Ok(draft.done())
        }
    }
}

/// Only the caller can know that no target ever had the change; it looks before it asks.
pub(super) fn withdraw(mut draft: Draft<'_>, epoch: Epoch) -> Result<Decision, Refusal> {
    let Stage::Apply(Landing::Processing(_, Some(_))) = draft.plan.stage else {
        return draft.not_now();
    };
    if draft.require_holder(epoch).is_err() {
        return draft.not_now();
    }
    draft.emit(Event::ApplyWithdrawn { epoch });
    Ok(draft.done())
}

pub(super) fn complete(
    mut draft: Draft<'_>,
    epoch: Epoch,
    landed: &[String],
    rest: Option<&LinkedPlan>,
) -> Result<Decision, Refusal> {
    let Stage::Apply(Landing::Processing(_, intent)) = &draft.plan.stage else {
        return draft.not_now();
    };
    let intent = intent.clone();
    if draft.require_holder(epoch).is_err() {
        return draft.not_now();
    }
    // What lands on nothing leaves no rest; a rest could write what its origin may not.
    if !draft.plan.has_targets() && rest.is_some() {
        return Err(Refusal::ReadOnly("anything".to_owned()));
    }
    match intent {
        Some(intent) => check_landed(&intent, landed, rest)?,
        // A plan that lands on nothing is prepared and landed in one.
        None if !draft.plan.has_targets() => {
            draft.emit(Event::ApplyPrepared {
                epoch,
                intent: Intent::default(),
            });
        }
        None => return draft.not_now(),
    }
    if let Some(rest) = rest {
        let goal = format!("Rest of: {}", draft.plan.goal.first_line());
        let change = create::linked_plan(&draft, rest, goal.into(), Origin::RestOf(draft.plan.id))?;
        draft.create(change);
    }
    draft.emit(Event::Landed { epoch });
    Ok(draft.done())
}

pub(super) fn constrain(
    mut draft: Draft<'_>,
    epoch: Epoch,
    kind: ConstraintKind,
    message: &str,
    paths: &[TreePath],
    commits: &[String],
) -> Result<Decision, Refusal> {
    let Stage::Apply(Landing::Processing(_, None)) = draft.plan.stage else {
        return draft.not_now();
    };
    if draft.require_holder(epoch).is_err() {
        return draft.not_now();
    }
    let message = text::checked("message", message)?;
    let constraint = Constraint {
        kind,
        message,
        paths: paths.to_vec(),
        commits: commits.to_vec(),
        epoch,
        at: draft.now,
    };
    draft.emit(Event::Constrained { constraint });
    Ok(draft.done())
}

/// Does the signature outlive that its targets moved, if they did? What was judged says where they are, and
/// so do the moves of the targets themselves; a new branch or a working tree moves none.
fn check_targets(
    plan: &Plan,
    approval: &Approval,
    moves: &[RefMove],
    judged: &[Base],
) -> Result<(), Refusal> {
    let target_of = |resource: &str| {
        let resource = plan.resources.iter().find(|one| one.name == resource);
        resource.and_then(|resource| resource.target.as_deref())
    };
    let own = moves
        .iter()
        .filter(|step| target_of(&step.resource) == Some(&step.target))
        .map(|step| (&step.resource, &step.old));
    let judged = judged.iter().map(|tip| (&tip.resource, &tip.commit));
    let has_moved = |(resource, commit): &(&String, &String)| {
        let mut signed = approval.tips.iter();
        let signed = signed.find(|signed| &&signed.resource == resource);
        signed.is_some_and(|signed| &&signed.commit != commit)
    };
    match own.chain(judged).find(has_moved) {
        Some((resource, _)) if !plan.profile.approval_survives_merge() => {
            Err(Refusal::ApprovalVoid(format!(
                "{} has moved since, and under the profile {} a signature does not outlive a merge",
                target_of(resource).unwrap_or(resource),
                plan.profile
            )))
        }
        Some(_) | None => Ok(()),
    }
}

/// Every resource with changes is moved, none twice and no other. If only some paths shall land,
/// resources without any of them stay where they are.
fn moves_fit(plan: &Plan, moves: &[RefMove]) -> bool {
    let known = |step: &RefMove| {
        let same = |other: &&RefMove| other.resource == step.resource;
        plan.resources.iter().any(|one| one.name == step.resource)
            && moves.iter().filter(same).count() == 1
    };
    let partly = plan
        .approval
        .as_ref()
        .is_some_and(|approval| !approval.how.paths.is_empty());
    let trees = plan.result.iter().flat_map(|result| &result.trees);
    let all = trees
        .filter(|tree| tree.changes != Some(0))
        .all(|tree| moves.iter().any(|step| step.resource == tree.resource));
    moves.iter().all(known) && (all || partly)
}

/// Every target was looked up and has the change, is left to another plan, or a person vouched.
fn check_landed(
    intent: &Intent,
    landed: &[String],
    rest: Option<&LinkedPlan>,
) -> Result<(), Refusal> {
    if intent.vouched.is_some() {
        return Ok(());
    }
    let left: &[String] = rest
        .map(|rest| rest.resources.as_slice())
        .unwrap_or_default();
    let missing: Vec<String> = intent
        .moves
        .iter()
        .map(|step| &step.resource)
        .filter(|resource| !landed.contains(resource) && !left.contains(resource))
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
