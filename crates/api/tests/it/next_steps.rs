//! What is offered next is what works: every offered step is carried out, on plans in every stage, for every
//! kind of caller.

use plan::command::{
    AnswerPermission, AnswerQuestion, ApplyPlan, CancelPlan, ExecutePlan, LinkedPlan, PauseProject,
    ReclaimGrounds, ReclaimLease, RecordRuling, ResumeProject, RetryPhase, ReviseWork, UndoLanding,
    WaiveRule,
};
use plan::decide::available_verbs;
use plan::event::RemovedChangeResolution;
use plan::invariant::Gate;
use plan::judgement::{PlanTargets, RuleOutcome};
use plan::ledger::BudgetUnit;
use plan::plan::PlanLimits;
use plan::stage::{ApplyState, WorkState};
use plan::{Command, Digest, Money, Phase, Plan, PlanId, PlanStage, Profile};
use planwright_api::NextStep;
use planwright_api::next_steps::next_steps;
use store::CommitError;
use testkit::client::LONG_LEASE;
use testkit::{SampleTerms, StageSample, TestClient, samples};

use crate::sample_store::SampleStore;

const REVIEW: SampleTerms = SampleTerms {
    profile: Profile::Review,
    has_targets: true,
    has_agent: true,
};

#[test]
fn every_offered_step_is_accepted() {
    let mut offered = 0;
    for terms in SampleTerms::all() {
        // Without an agent, the profile makes no other difference.
        if !terms.has_agent && terms.profile != Profile::Review {
            continue;
        }
        for sample in StageSample::ALL {
            if sample.is_possible(terms) {
                offered += check_all_viewers(*sample, terms);
            }
        }
    }
    assert!(offered > 500, "{offered}");
}

fn check_all_viewers(sample: StageSample, terms: SampleTerms) -> usize {
    let store = SampleStore::new();
    let mut offered = 0;
    for viewer in [&store.person, &store.worker, &store.agent] {
        offered += check_steps(&store, sample, terms, &store.person, viewer);
    }
    // An agent may not create a plan that lands by itself.
    if terms.profile != Profile::Auto {
        offered += check_steps(&store, sample, terms, &store.agent, &store.agent);
    }
    offered
}

#[test]
fn the_most_useful_step_comes_first() {
    let store = SampleStore::new();
    let first_words = |sample: StageSample| {
        let plan_id = sample.create_plan(&store.person, &store.person, REVIEW);
        let steps = list_steps(&store, plan_id, &store.person);
        let words = steps.iter().take(3).map(step_word);
        words.collect::<Vec<String>>().join(" ")
    };
    let table: Vec<(StageSample, String)> = StageSample::ALL
        .iter()
        .map(|sample| (*sample, first_words(*sample)))
        .collect();
    let expected = [
        (StageSample::StrategizeQueued, "run start_worker wait"),
        (StageSample::StrategizeProcessing, "wait cancel"),
        (StageSample::StrategizeInterrupted, "run cancel"),
        (StageSample::StrategizeAwaitingInput, "answer cancel"),
        (StageSample::StrategizeComplete, "run start_worker wait"),
        (StageSample::StrategizeErrored, "retry revise cancel"),
        (StageSample::StrategizeCancelled, ""),
        (StageSample::ExecuteQueued, "run start_worker wait"),
        (StageSample::ExecuteProcessing, "wait cancel"),
        (StageSample::ExecuteInterrupted, "run cancel"),
        (
            StageSample::ExecuteAwaitingPermission,
            "allow_tool_call reject_tool_call cancel",
        ),
        (StageSample::ExecuteAwaitingInput, "answer revise cancel"),
        (StageSample::ExecuteComplete, "apply diff revise"),
        (StageSample::ExecuteUnmetRule, "run start_worker wait"),
        (StageSample::ExecuteBlocked, "explain revise waive"),
        (
            StageSample::ExecuteBlockedByQuestion,
            "explain approve_rule reject_rule",
        ),
        (StageSample::ExecuteErrored, "retry revise cancel"),
        (StageSample::ExecuteOverBudget, "raise_limits revise cancel"),
        (StageSample::ExecuteCancelled, ""),
        (StageSample::ApplyQueued, "apply start_worker wait"),
        (
            StageSample::ApplyQueuedPrepared,
            "finish_landing start_worker wait",
        ),
        (StageSample::ApplyProcessing, "wait cancel"),
        (StageSample::ApplyInterrupted, "apply cancel"),
        (StageSample::ApplyProcessingPrepared, "wait"),
        (StageSample::ApplyInterruptedPrepared, "finish_landing"),
        (StageSample::ApplyAwaitingInput, "answer revise cancel"),
        (
            StageSample::ApplyAwaitingInputPrepared,
            "resolve_removed_change resolve_removed_change resolve_removed_change",
        ),
        (StageSample::ApplyErrored, "retry revise cancel"),
        (StageSample::ApplyConflict, "revise diff apply"),
        (StageSample::ApplyWithoutChanges, "cancel revise"),
        (StageSample::ApplyGateConstrained, "revise waive diff"),
        (StageSample::ApplyLocalEdits, "apply apply_to_branch diff"),
        (
            StageSample::ApplyOperationInProgress,
            "apply apply_to_branch diff",
        ),
        (StageSample::ApplyApprovalVoid, "apply diff revise"),
        (StageSample::ApplyApplied, "undo"),
        (StageSample::ApplyCancelled, ""),
    ];
    let expected: Vec<(StageSample, String)> = expected
        .map(|(sample, words)| (sample, words.to_owned()))
        .into();
    assert_eq!(table, expected);
}

/// Agents propose; people decide. An agent may only work on the plans it created, and look at all others.
#[test]
fn agents_are_offered_no_decisions_of_people() {
    let store = SampleStore::new();
    let allowed_words = ["explain", "diff", "read_transcript", "wait"];
    for sample in StageSample::ALL {
        let words_for = |author: &TestClient| {
            let plan_id = sample.create_plan(author, &store.person, REVIEW);
            let steps = list_steps(&store, plan_id, &store.agent);
            steps.iter().map(step_word).collect::<Vec<String>>()
        };
        for word in words_for(&store.person) {
            assert!(allowed_words.contains(&word.as_str()), "{sample:?}: {word}");
        }
        for word in words_for(&store.agent) {
            let is_own = ["revise", "cancel"].contains(&word.as_str());
            let is_allowed = is_own || allowed_words.contains(&word.as_str());
            assert!(is_allowed, "{sample:?}: {word}");
        }
    }
}

#[test]
fn an_undone_plan_is_not_undone_again() {
    let store = SampleStore::new();
    let landed = StageSample::ApplyApplied.create_plan(&store.person, &store.person, REVIEW);
    assert_eq!(list_steps(&store, landed, &store.person), [NextStep::Undo]);
    let undo = store.land_undo(landed);
    assert_eq!(list_steps(&store, landed, &store.person), []);
    // Undoing the undo brings the first change back, so that it can be undone once more.
    assert_eq!(list_steps(&store, undo, &store.person), [NextStep::Undo]);
    store.land_undo(undo);
    assert_eq!(list_steps(&store, undo, &store.person), []);
    assert_eq!(list_steps(&store, landed, &store.person), [NextStep::Undo]);
}

#[test]
fn a_paused_project_is_resumed_before_its_plans_start() {
    let store = SampleStore::new();
    let queued = StageSample::ExecuteQueued.create_plan(&store.person, &store.person, REVIEW);
    let project = samples::parse_name(samples::PROJECT_NAME);
    let pause = PauseProject(project.clone());
    store.person.submit(pause.into()).unwrap();
    let steps = list_steps(&store, queued, &store.person);
    assert_eq!(
        steps,
        [NextStep::ResumeProject { project }, NextStep::Cancel]
    );
}

/// The word that programs see.
fn step_word(step: &NextStep) -> String {
    let encoded = serde_json::to_value(step).unwrap();
    encoded["step"].as_str().unwrap().to_owned()
}

/// Takes each offered step on a plan of its own.
fn check_steps(
    store: &SampleStore,
    sample: StageSample,
    terms: SampleTerms,
    author: &TestClient,
    viewer: &TestClient,
) -> usize {
    let create = || sample.create_plan(author, &store.person, terms);
    let steps = list_steps(store, create(), viewer);
    for step in &steps {
        let plan_id = create();
        let context = || {
            let (viewer, author) = (viewer.caller(), author.caller());
            format!("{sample:?} {terms:?} by {author}: {step:?} as {viewer}")
        };
        if let Err(error) = take_step(step, plan_id, viewer) {
            panic!("{}: {error:?}", context());
        }
    }
    steps.len()
}

fn list_steps(store: &SampleStore, plan_id: PlanId, viewer: &TestClient) -> Vec<NextStep> {
    let row = store.lifecycle.get_plan(plan_id).unwrap();
    next_steps(&store.lifecycle, &row, viewer.caller()).unwrap()
}

/// Submits what the step stands for. A rule may block it; a refusal is an error.
fn take_step(step: &NextStep, plan_id: PlanId, viewer: &TestClient) -> Result<(), CommitError> {
    let plan = viewer.load_plan(plan_id);
    let submit = |command: Command| viewer.submit_for_plan(plan_id, command).map(drop);
    let judge = |gate| viewer.judge_rules(plan_id, gate);
    let claim = |phase| submit(viewer.start_command(plan_id, phase, LONG_LEASE));
    let reclaim = || {
        let grounds = ReclaimGrounds::Expired;
        submit(ReclaimLease { grounds }.into())
    };
    let enter_execute = || {
        let judgement = judge(Gate::Execute);
        submit(ExecutePlan { judgement }.into())
    };
    match step {
        NextStep::Explain | NextStep::Diff | NextStep::ReadTranscript | NextStep::Wait => Ok(()),
        // Not commands of the plan.
        NextStep::StartWorker | NextStep::RaiseBudget { .. } => Ok(()),
        NextStep::Run { phase } if plan.stage().holder().is_some() => {
            reclaim()?;
            claim(*phase)
        }
        NextStep::Run { phase } | NextStep::ClaimPhase { phase } => match plan.stage() {
            PlanStage::Strategize(WorkState::Complete) => enter_execute(),
            // The engine sends the result back by itself.
            PlanStage::Execute(WorkState::Complete) => {
                assert!(plan.automatic_remedy().is_some());
                Ok(())
            }
            PlanStage::Strategize(_) | PlanStage::Execute(_) | PlanStage::Apply(_) => claim(*phase),
        },
        NextStep::EnterExecute => enter_execute(),
        NextStep::HolderCommand { verb, epoch } => {
            assert!(available_verbs(&plan).contains(verb) && *epoch == plan.epoch());
            Ok(())
        }
        NextStep::Reclaim => reclaim(),
        NextStep::Answer => submit(answer("yes")),
        NextStep::AllowToolCall { .. } => submit(answer_permission(&plan, true)),
        NextStep::RejectToolCall { .. } => submit(answer_permission(&plan, false)),
        NextStep::ResolveRemovedChange { resolution } => submit(answer(match resolution {
            RemovedChangeResolution::Landed => "landed",
            RemovedChangeResolution::Again => "again",
            RemovedChangeResolution::Drop => "drop",
        })),
        NextStep::ApproveRule { rule } => submit(ruling(rule, RuleOutcome::Held)),
        NextStep::RejectRule { rule } => submit(ruling(rule, RuleOutcome::Failed("no".to_owned()))),
        NextStep::Waive { rule } => submit(
            WaiveRule {
                rule: rule.clone(),
                reason: "it is known".to_owned(),
                targets: PlanTargets::default(),
            }
            .into(),
        ),
        NextStep::Apply { .. } | NextStep::ApplyToBranch | NextStep::FinishLanding => {
            land(&plan, viewer)
        }
        NextStep::ApplyRest { plan_id } => land(&viewer.load_plan(*plan_id), viewer),
        NextStep::Retry => submit(retry(None)),
        NextStep::RetryFresh => {
            let (fresh, limits) = (true, None);
            submit(RetryPhase { fresh, limits }.into())
        }
        NextStep::RaiseLimits { limits } => {
            let [raised] = limits.as_slice() else {
                panic!("{limits:?}")
            };
            assert_eq!(raised.unit, BudgetUnit::Cost);
            submit(retry(Some(PlanLimits {
                cost: Some(Money(raised.limit)),
                ..plan.limits()
            })))
        }
        NextStep::ResumeProject { project } => {
            let resume = ResumeProject(project.clone());
            viewer.submit(resume.into()).map(drop)
        }
        NextStep::Revise => submit(
            ReviseWork {
                comments: Default::default(),
                feedback: "once more".to_owned(),
                dropped: Vec::new(),
            }
            .into(),
        ),
        NextStep::Undo => submit(undo(viewer.ids().next_plan_id())),
        NextStep::Cancel => submit(CancelPlan { reason: None }.into()),
    }
}

/// Lands a result as `Landing::approve_and_land` does, up to the claim.
fn land(plan: &Plan, viewer: &TestClient) -> Result<(), CommitError> {
    let plan_id = plan.id();
    let submit = |command: Command| viewer.submit_for_plan(plan_id, command).map(drop);
    match plan.stage() {
        PlanStage::Apply(ApplyState::Constrained(_)) => {
            submit(samples::approve_command())?;
            submit(retry(None))?;
        }
        PlanStage::Apply(ApplyState::Processing(..)) => {
            let grounds = ReclaimGrounds::Expired;
            submit(ReclaimLease { grounds }.into())?;
        }
        PlanStage::Apply(_) => {}
        PlanStage::Strategize(_) | PlanStage::Execute(_) => {
            if plan.has_targets() && !plan.may_enter_apply_unattended() {
                submit(samples::approve_command())?;
            }
            let judgement = viewer.judge_rules(plan_id, Gate::Apply);
            submit(ApplyPlan { judgement }.into())?;
            // A rule may have blocked it.
            if viewer.load_plan(plan_id).phase() != Phase::Apply {
                return Ok(());
            }
        }
    }
    submit(viewer.start_command(plan_id, Phase::Apply, LONG_LEASE))
}

fn answer_permission(plan: &Plan, allowed: bool) -> Command {
    let digest = plan.stage().open_permission().unwrap().digest;
    AnswerPermission { digest, allowed }.into()
}

fn answer(text: &str) -> Command {
    let text = text.to_owned();
    AnswerQuestion { text }.into()
}

fn ruling(rule: &plan::invariant::RuleName, outcome: RuleOutcome) -> Command {
    RecordRuling {
        rule: rule.clone(),
        subject: Digest::default(),
        outcome,
        targets: PlanTargets::default(),
    }
    .into()
}

pub fn undo(undo_id: PlanId) -> Command {
    UndoLanding(LinkedPlan {
        id: undo_id,
        resources: vec![samples::RESOURCE_NAME.to_owned()],
        result: samples::result_content("undo"),
    })
    .into()
}

fn retry(limits: Option<PlanLimits>) -> Command {
    let fresh = false;
    RetryPhase { fresh, limits }.into()
}
