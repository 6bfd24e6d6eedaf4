//! The way forward: results handed in, and the moves between phases.

use crate::changeset::digest_of_open;
use crate::command::Captured;
use crate::decide::draft::Draft;
use crate::decide::{changeset, gate, text};
use crate::decision::{DecisionNode, ReportedDecision};
use crate::invariant::Gate;
use crate::judgement::{Evidence, Judgement, Targets, Unmet};
use crate::profile::Step;
use crate::stage::{Landing, ResultContent, Work};
use crate::{Base, Decision, Epoch, Event, How, Phase, Refusal, Row, Stage, Text};

/// What a holder hands in at the end of execute.
pub(super) struct HandedIn<'a> {
    /// The result.
    pub result: &'a ResultContent,
    /// What changed, as read from the sandboxes.
    pub captured: &'a [Captured],
    /// Even if nothing changed.
    pub allow_empty: bool,
}

/// The sandboxes are ready. Said after every claim that had anything to do for it; the bases are
/// those of all resources, once.
pub(super) fn record_bases(
    mut draft: Draft<'_>,
    epoch: Epoch,
    bases: &[Base],
) -> Result<Decision, Refusal> {
    match draft.plan.stage {
        Stage::Strategize(Work::Processing(_)) | Stage::Execute(Work::Processing(_)) => {}
        Stage::Strategize(_) | Stage::Execute(_) | Stage::Apply(_) => return draft.not_now(),
    }
    if draft.require_holder(epoch).is_err() {
        return draft.not_now();
    }
    let fits = draft.plan.resources.len() == bases.len()
        && draft.plan.resources.iter().all(|resource| {
            let of = bases.iter().find(|base| base.resource == resource.name);
            of.is_some_and(|base| !base.commit.is_empty())
        });
    if !fits {
        return Err(Refusal::BasesDoNotFit);
    }
    draft.emit(Event::BasesRecorded {
        epoch,
        bases: bases.to_vec(),
    });
    Ok(draft.done())
}

pub(super) fn complete_strategize(
    mut draft: Draft<'_>,
    epoch: Epoch,
    reported: &[ReportedDecision],
) -> Result<Decision, Refusal> {
    let Stage::Strategize(Work::Processing(_)) = draft.plan.stage else {
        return draft.not_now();
    };
    if draft.require_holder(epoch).is_err() {
        return draft.not_now();
    }
    let decisions = numbered(reported, draft.plan.decisions)?;
    if !decisions.is_empty() {
        draft.emit(Event::DecisionsRecorded { decisions });
    }
    draft.emit(Event::StrategizeCompleted { epoch });
    Ok(draft.done())
}

pub(super) fn execute_plan(draft: Draft<'_>, judgement: &Judgement) -> Result<Decision, Refusal> {
    let Stage::Strategize(Work::Complete) = draft.plan.stage else {
        return draft.not_now();
    };
    // Having asked for strategize is not having asked for execute.
    let asked = draft.request.caller.is_person();
    draft.require_person_or(Step::StartExecute)?;
    match gate::pass(draft, Gate::Execute, judgement)? {
        gate::Passage::Blocked(decision) => Ok(decision),
        gate::Passage::Open(mut draft) => {
            draft.emit(Event::ExecuteEntered { asked });
            Ok(draft.done())
        }
    }
}

pub(super) fn complete_execute(
    mut draft: Draft<'_>,
    epoch: Epoch,
    handed_in: &HandedIn<'_>,
    judgement: &Judgement,
) -> Result<Decision, Refusal> {
    let HandedIn {
        result,
        captured,
        allow_empty,
    } = handed_in;
    let Stage::Execute(Work::Processing(_)) = draft.plan.stage else {
        return draft.not_now();
    };
    if draft.require_holder(epoch).is_err() {
        return draft.not_now();
    }
    if let Some(Text::Known(report)) = &result.report {
        text::checked("report", report)?;
    }
    if draft.plan.has_targets() && result.is_empty() && !allow_empty {
        return Err(Refusal::EmptyResult);
    }
    let changed = captured.iter().flat_map(|one| &one.entries).next();
    if let Some(entry) = changed.filter(|_| draft.plan.read_only) {
        return Err(Refusal::ReadOnly(entry.path.to_string()));
    }
    gate::check_fresh(draft.facts, &draft.plan, Gate::Result, judgement)?;
    let recorded = draft.facts.entries.iter().map(|(of, entry)| (*of, entry));
    if let Some(seen) = judgement.recorded
        && seen != digest_of_open(recorded)
    {
        return Err(Refusal::JudgementStale { gate: Gate::Result });
    }
    // That every rule was judged matters here; what they said decides about apply.
    let (_, failed) = gate::blocked_by(&draft.plan, &draft.facts.rules, Gate::Result, judgement)?;
    // What waits for a person is nothing that sending it back could mend.
    let unmet = failed.into_iter().filter(|rule| rule.waits.is_none());
    let unmet = unmet.map(|rule| Unmet {
        rule: rule.rule,
        evidence: rule.evidence.into(),
    });
    let unmet = unmet.collect();
    changeset::take_in(&mut draft, epoch, captured);
    let entry = draft.plan.entry(Phase::Execute);
    for verdict in &judgement.verdicts {
        let evidence = Evidence {
            plan: draft.plan.id,
            entry,
            subject: judgement.subject,
            verdict: verdict.clone(),
            at: draft.now,
        };
        draft.rows.push(Row::PutEvidence(evidence));
    }
    draft.emit(Event::ExecuteCompleted {
        epoch,
        result: (*result).clone(),
        unmet,
    });
    Ok(draft.done())
}

/// Signs the result. Lands nothing by itself; only a person can.
pub(super) fn approve(
    mut draft: Draft<'_>,
    how: &How,
    targets: &Targets,
    once: bool,
) -> Result<Decision, Refusal> {
    match draft.plan.stage {
        Stage::Execute(Work::Complete) | Stage::Apply(Landing::Constrained(_)) => {}
        Stage::Strategize(_) | Stage::Execute(_) | Stage::Apply(_) => return draft.not_now(),
    }
    draft.require_person()?;
    let content = draft
        .plan
        .result
        .as_ref()
        .map(|result| result.digest(how))
        .ok_or(Refusal::EmptyResult)?;
    draft.emit(Event::Approved {
        content,
        how: how.clone(),
        rules: gate::wordings(&draft.plan, &draft.facts.rules, targets),
        tips: targets.tips.clone(),
        by_profile: None,
        once,
    });
    Ok(draft.done())
}

pub(super) fn apply_plan(draft: Draft<'_>, judgement: &Judgement) -> Result<Decision, Refusal> {
    let Stage::Execute(Work::Complete) = draft.plan.stage else {
        return draft.not_now();
    };
    let asked = draft.request.caller.is_person();
    let goes = draft.plan.lands_unasked();
    let approved = gate::signed(&draft, &judgement.targets).is_ok();
    // Having signed is not having asked to land.
    if !goes {
        draft.require_person()?;
    }
    if draft.plan.has_targets() && !goes && draft.plan.valid_approval().is_none() {
        return Err(Refusal::NeedsApproval);
    }
    let approve_by_profile = draft.plan.has_targets() && !approved;
    match gate::pass(draft, Gate::Apply, judgement)? {
        gate::Passage::Blocked(decision) => Ok(decision),
        gate::Passage::Open(mut draft) => {
            // A rule that fails says more than a signature that it made void.
            if draft.plan.has_targets() && !goes {
                gate::signed(&draft, &judgement.targets)?;
            }
            if approve_by_profile && let Some(result) = &draft.plan.result {
                let how = draft.plan.ways.arrival.clone();
                let content = result.digest(&how);
                let by_profile = Some(draft.plan.profile);
                let rules = gate::wordings(&draft.plan, &draft.facts.rules, &judgement.targets);
                let tips = judgement.targets.tips.clone();
                draft.emit(Event::Approved {
                    content,
                    how,
                    rules,
                    tips,
                    by_profile,
                    once: false,
                });
            }
            draft.emit(Event::ApplyEntered { asked });
            Ok(draft.done())
        }
    }
}

/// Reported decisions with their numbers; the root is the parent of what names none.
fn numbered(reported: &[ReportedDecision], existing: u32) -> Result<Vec<DecisionNode>, Refusal> {
    let mut nodes = Vec::new();
    for (index, one) in reported.iter().enumerate() {
        let refuse = |why| Refusal::BadDecision {
            number: index + 1,
            why,
        };
        let number =
            existing + 1 + u32::try_from(index).map_err(|_| refuse("there are too many"))?;
        if !one.kind.is_for_actors() {
            return Err(refuse("its kind is the engine's to record"));
        }
        let parent = one.parent.unwrap_or(1);
        if parent == 0 || parent >= number {
            return Err(refuse("its parent is not an earlier decision of the plan"));
        }
        nodes.push(DecisionNode {
            number,
            parent: Some(parent),
            kind: one.kind,
            question: text::checked("question of a decision", &one.question)?,
            choice: text::checked("choice of a decision", &one.choice)?,
            alternatives: one
                .alternatives
                .iter()
                .map(|text| text::storable("alternative of a decision", text))
                .collect::<Result<_, _>>()?,
            rationale: one
                .rationale
                .as_deref()
                .map(|text| text::storable("rationale of a decision", text))
                .transpose()?,
            confidence: one.confidence,
        });
    }
    Ok(nodes)
}
