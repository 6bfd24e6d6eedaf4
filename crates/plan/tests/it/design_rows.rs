//! The transition table of the design, row by row, then the paragraphs after it. Written by hand
//! and not derived from the code.

use planwright_plan as plan;

use plan::command::ReclaimGrounds;
use plan::command::{
    ClaimPhase, CompleteExecute, CompleteStrategize, ExpireQuestion, ReclaimLease,
};
use plan::decision::DecisionKind;
use plan::plan::{MAX_AUTOMATIC_REVERSIONS, PlanLimits, PlanOrigin};
use plan::stage::{ConstraintKind, FailureCategory, ManualLandingReason, PathSummary, ResultTree};
use plan::takeover::{self, HolderLiveness};
use plan::{Command, Epoch, Event, Phase, Profile, ReceiptOutcome, Refusal, RowWrite, Span, Verb};

use crate::spot::Spot::{self, *};
use crate::spot::StepCaller;
use crate::world::{
    ANSWER_TIMEOUT, CommandInput, JudgementVariant, LEASE_LENGTH, LandingSetup, PlanWorld, ada,
    worker,
};

/// Checks that `verb` takes a plan from `from` to `to`.
#[track_caller]
fn check_transition(row: &str, from: Spot, verb: Verb, to: Spot) {
    let mut world = from.default_world();
    world.submit_as_person(verb);
    assert_eq!(
        Spot::of_stage(world.plan().stage()),
        to,
        "row {row}: {from:?} by {verb}"
    );
}

#[test]
fn design_rows() {
    assert_eq!(
        Spot::of_stage(
            PlanWorld::new(Profile::Review, LandingSetup::OnTargets)
                .plan()
                .stage()
        ),
        StrategizeQueued,
        "row 1"
    );
    check_transition(
        "2",
        StrategizeQueued,
        Verb::StartStrategize,
        StrategizeProcessing,
    );
    check_transition(
        "3",
        StrategizeProcessing,
        Verb::CompleteStrategize,
        StrategizeComplete,
    );
    check_transition("4", StrategizeComplete, Verb::ExecutePlan, ExecuteQueued);
    check_transition("5", ExecuteQueued, Verb::StartExecute, ExecuteProcessing);
    check_transition(
        "6",
        ExecuteProcessing,
        Verb::CompleteExecute,
        ExecuteComplete,
    );
    let mut approved = ExecuteComplete.default_world();
    approved
        .submit_as_person(Verb::Approve)
        .submit_as_person(Verb::ApplyPlan);
    assert_eq!(approved.stage(), "apply/queued", "row 7");
    check_transition("8", ApplyQueued, Verb::StartApply, ApplyProcessing);
    check_transition(
        "8",
        ApplyQueuedPrepared,
        Verb::StartApply,
        ApplyProcessingPrepared,
    );
    check_transition(
        "9",
        ApplyProcessing,
        Verb::PrepareApply,
        ApplyProcessingPrepared,
    );
    check_transition(
        "9b",
        ApplyProcessingPrepared,
        Verb::WithdrawApply,
        ApplyProcessing,
    );
    check_transition(
        "10",
        ApplyProcessingPrepared,
        Verb::CompleteApply,
        ApplyApplied,
    );
    check_transition("11", ApplyProcessing, Verb::Constrain, ApplyConstrained);
    check_transition("12", StrategizeProcessing, Verb::Fail, StrategizeErrored);
    check_transition("12", ExecuteProcessing, Verb::Fail, ExecuteErrored);
    check_transition("12", ApplyProcessing, Verb::Fail, ApplyErrored);
    check_transition(
        "13",
        StrategizeProcessing,
        Verb::Ask,
        StrategizeAwaitingInput,
    );
    check_transition("13", ExecuteProcessing, Verb::Ask, ExecuteAwaitingInput);
    check_transition("13", ApplyProcessing, Verb::Ask, ApplyAwaitingInput);
    check_transition(
        "14",
        StrategizeAwaitingInput,
        Verb::Answer,
        StrategizeQueued,
    );
    check_transition("14", ExecuteAwaitingInput, Verb::Answer, ExecuteQueued);
    check_transition("14", ApplyAwaitingInput, Verb::Answer, ApplyQueued);
    for (from, to) in [
        (StrategizeAwaitingInput, StrategizeErrored),
        (ExecuteAwaitingInput, ExecuteErrored),
        (ApplyAwaitingInput, ApplyErrored),
    ] {
        let mut world = from.default_world();
        world
            .advance_clock(ANSWER_TIMEOUT)
            .submit_as(&worker(), Verb::ExpireQuestion);
        let stage = world.plan().stage();
        assert_eq!(Spot::of_stage(stage), to, "row 14b");
        assert_eq!(
            stage.failure().unwrap().category,
            FailureCategory::Unanswered,
            "row 14b"
        );
    }
    check_transition("15", StrategizeErrored, Verb::Retry, StrategizeQueued);
    check_transition("15", ExecuteErrored, Verb::Retry, ExecuteQueued);
    check_transition("15", ApplyErrored, Verb::Retry, ApplyQueued);
    check_transition("15", ApplyConstrained, Verb::Retry, ApplyQueued);
    for from in [ExecuteComplete, ApplyErrored, ApplyConstrained] {
        let mut world = from.default_world();
        let before = world.plan().clone();
        let fresh = world.command_variant(Verb::Retry, 1);
        world.submit(&ada(), fresh).unwrap();
        let plan = world.plan();
        assert_eq!(Spot::of_stage(plan.stage()), ExecuteQueued, "row 15, fresh");
        assert!(plan.result().is_none() && plan.approval().is_none());
        assert_eq!(plan.epoch(), before.epoch().next());
    }
    check_transition("16", StrategizeComplete, Verb::Revise, StrategizeQueued);
    check_transition("16", StrategizeErrored, Verb::Revise, StrategizeQueued);
    for from in [
        ExecuteComplete,
        ExecuteErrored,
        ExecuteAwaitingInput,
        ApplyQueued,
        ApplyAwaitingInput,
        ApplyErrored,
        ApplyConstrained,
    ] {
        check_transition("16b", from, Verb::Revise, ExecuteQueued);
    }
    for from in [
        ExecuteQueued,
        ExecuteProcessing,
        ExecuteAwaitingInput,
        ExecuteComplete,
        ExecuteErrored,
        ApplyQueued,
        ApplyProcessing,
        ApplyAwaitingInput,
        ApplyErrored,
        ApplyConstrained,
    ] {
        check_transition("17", from, Verb::Revert, StrategizeQueued);
    }
    for verb in [Verb::Release, Verb::Reclaim] {
        check_transition("18, 19", StrategizeProcessing, verb, StrategizeQueued);
        check_transition("18, 19", ExecuteProcessing, verb, ExecuteQueued);
        check_transition("18, 19", ApplyProcessing, verb, ApplyQueued);
        check_transition("18, 19", ApplyProcessingPrepared, verb, ApplyQueuedPrepared);
    }
    for &from in Spot::ALL {
        let plan = from.default_world().plan().clone();
        if plan.stage().is_final() || plan.is_prepared() {
            continue;
        }
        let to = match plan.phase() {
            Phase::Strategize => StrategizeCancelled,
            Phase::Execute => ExecuteCancelled,
            Phase::Apply => ApplyCancelled,
        };
        check_transition("20", from, Verb::Cancel, to);
    }
    let mut landed = ApplyApplied.default_world();
    landed.submit_as_person(Verb::Undo);
    assert_eq!(
        Spot::of_stage(landed.new_plans[0].plan.stage()),
        ExecuteComplete,
        "row 21"
    );
    assert_eq!(
        Spot::of_stage(landed.plan().stage()),
        ApplyApplied,
        "row 21: final is final"
    );
}

/// "From `prepare_apply` until resolved or withdrawn only renew, release, reclaim, start_apply,
/// resolve, withdraw_apply and complete_apply run", and the one ask with its answer.
#[test]
fn past_the_point_of_no_return_only_these_run() {
    let allowed = [
        (ApplyQueuedPrepared, vec![Verb::StartApply]),
        (
            ApplyProcessingPrepared,
            vec![
                Verb::WithdrawApply,
                Verb::CompleteApply,
                Verb::Renew,
                Verb::Release,
                Verb::Reclaim,
                Verb::Ask,
            ],
        ),
        (ApplyAwaitingInputPrepared, vec![Verb::Answer]),
    ];
    for (spot, verbs) in allowed {
        let mut world = spot.default_world();
        world.advance_clock(ANSWER_TIMEOUT);
        for &verb in Verb::ALL {
            let Some(command) = world.command_with(verb, world.default_input()) else {
                continue;
            };
            let answer = world.decide(&ada(), command);
            let carried_out = answer.is_ok_and(|done| done.receipt.outcome == ReceiptOutcome::Done);
            // A review is not part of the plan.
            let expected = verbs.contains(&verb) || verb == Verb::Review;
            assert_eq!(carried_out, expected, "{verb} in {spot:?}");
        }
    }
}

#[test]
fn a_prepared_plan_is_requeued_however_often_its_holders_vanish() {
    let mut world = ApplyProcessingPrepared.default_world();
    let intent = world.plan().stage().intent().cloned();
    for _ in 0..10 {
        world.submit_as_person(Verb::Reclaim);
        assert_eq!(world.stage(), "apply/queued, prepared");
        world.submit_as_person(Verb::StartApply);
    }
    assert_eq!(world.plan().stage().intent().cloned(), intent);
}

#[test]
fn the_answer_landed_counts_as_landed() {
    let mut world = ApplyAwaitingInputPrepared.default_world();
    let moves = world.plan().stage().intent().unwrap().moves.clone();
    world.submit_as_person(Verb::Answer);
    let intent = world.plan().stage().intent().unwrap().clone();
    assert_eq!((intent.moves, intent.vouched), (moves, Some(ada())));
    world.submit_as(&worker(), Verb::StartApply);
    let nothing_seen = world.command_variant(Verb::CompleteApply, 2);
    world.submit(&worker(), nothing_seen).unwrap();
    assert_eq!(world.stage(), "apply/applied");
}

#[test]
fn the_answer_again_lands_the_change_again() {
    let mut world = ApplyAwaitingInputPrepared.default_world();
    let again = world.command_variant(Verb::Answer, 1);
    world.submit(&ada(), again).unwrap();
    assert_eq!(world.stage(), "apply/queued");
    for verb in [Verb::StartApply, Verb::PrepareApply, Verb::CompleteApply] {
        world.submit_as(&worker(), verb);
    }
    assert_eq!(world.stage(), "apply/applied");
}

#[test]
fn the_answer_drop_cancels_the_plan() {
    let mut world = ApplyAwaitingInputPrepared.default_world();
    let epoch = world.plan().epoch();
    let drop = world.command_variant(Verb::Answer, 2);
    world.submit(&ada(), drop).unwrap();
    assert_eq!(world.stage(), "apply/cancelled");
    assert_eq!(world.plan().epoch(), epoch.next());
}

#[test]
fn any_other_answer_about_a_removed_change_is_refused() {
    let world = ApplyAwaitingInputPrepared.default_world();
    let refusal = world.expect_refusal(&ada(), world.command_variant(Verb::Answer, 3));
    assert_eq!(refusal, Refusal::NeedsFate);
}

#[test]
fn a_question_about_a_removed_change_never_expires() {
    let mut world = ApplyAwaitingInputPrepared.default_world();
    assert_eq!(world.plan().stage().question().unwrap().deadline, None);
    world.advance_clock(Span::from_seconds(1_000_000_000));
    let refusal = world.expect_refusal(&worker(), Command::from(ExpireQuestion));
    assert_eq!(refusal, Refusal::QuestionOpen);
}

#[test]
fn after_a_withdrawal_prepare_is_not_already_done() {
    let mut world = ApplyProcessingPrepared.default_world();
    let repeated = world.default_command(Verb::PrepareApply);
    world
        .submit_as_person(Verb::WithdrawApply)
        .submit_as_person(Verb::Constrain);
    // On "already done" the holder would move the target without a stored intent.
    assert!(matches!(
        world.expect_refusal(&worker(), repeated),
        Refusal::Fenced { .. }
    ));

    let mut world = ApplyAwaitingInputPrepared.default_world();
    let repeated = world.default_command(Verb::PrepareApply);
    let again = world.command_variant(Verb::Answer, 1);
    world.submit(&ada(), again).unwrap();
    assert!(matches!(
        world.expect_refusal(&worker(), repeated),
        Refusal::Fenced { .. }
    ));
}

#[test]
fn after_a_new_prepare_withdraw_is_not_already_done() {
    let mut world = ApplyProcessingPrepared.default_world();
    world.submit_as_person(Verb::WithdrawApply);
    let repeated = world.default_command(Verb::WithdrawApply);
    world
        .submit_as_person(Verb::PrepareApply)
        .submit_as_person(Verb::Release);
    assert!(matches!(
        world.expect_refusal(&worker(), repeated),
        Refusal::Fenced { .. }
    ));
}

// Conditions of single rows.

#[test]
fn a_claim_creates_a_lease_an_epoch_and_the_root_decision() {
    let mut world = StrategizeQueued.default_world();
    let decision = world
        .submit(&worker(), world.default_command(Verb::StartStrategize))
        .unwrap();
    let lease = world.facts.lease.clone().unwrap();
    assert_eq!((lease.epoch, lease.owner.as_str()), (Epoch(1), "w1"));
    assert_eq!(lease.expires_at, world.now.saturating_add(LEASE_LENGTH));
    assert_eq!(decision.receipt.epoch, Some(Epoch(1)));
    let kinds: Vec<_> = decision.plans[0]
        .events
        .iter()
        .map(|one| one.event.kind())
        .collect();
    assert_eq!(kinds, ["gate_held", "claimed", "decisions_recorded"]);
    let Event::DecisionsRecorded { decisions } = &world.log.last().unwrap().event else {
        panic!("the root decision is recorded with the claim");
    };
    // The root decision, and one for the rule at the strategize gate.
    let kinds: Vec<_> = decisions.iter().map(|decision| decision.kind).collect();
    assert_eq!(
        kinds,
        [
            DecisionKind::PromptDefinition,
            DecisionKind::InvariantEnforced
        ]
    );
    world
        .submit_as_person(Verb::Release)
        .submit_as_person(Verb::StartStrategize);
    let decisions = world.log.iter().flat_map(|one| match &one.event {
        Event::DecisionsRecorded { decisions } | Event::GateHeld { decisions, .. } => {
            decisions.as_slice()
        }
        _ => &[],
    });
    let roots = decisions.filter(|decision| decision.parent.is_none());
    assert_eq!(roots.count(), 1, "there is one root");
}

#[test]
fn completing_execute_seals_changesets_and_stores_the_verdicts() {
    let mut world = ExecuteProcessing.default_world();
    world
        .submit_as_person(Verb::OpenChangeset)
        .submit_as_person(Verb::RecordChange);
    let failing = CommandInput {
        judged: JudgementVariant::Failed,
        ..world.default_input()
    };
    let command = world.command_with(Verb::CompleteExecute, failing).unwrap();
    let decision = world.submit(&worker(), command).unwrap();
    assert_eq!(
        world.stage(),
        "execute/complete",
        "a failing rule blocks apply, not this"
    );
    let sealed = |row: &&RowWrite| matches!(row, RowWrite::PutChangeset(one) if one.seal.is_some());
    let evidence = |row: &&RowWrite| matches!(row, RowWrite::PutEvidence(_));
    assert_eq!(decision.rows.iter().filter(sealed).count(), 1);
    assert_eq!(decision.rows.iter().filter(evidence).count(), 1);

    world.submit_as_person(Verb::Approve);
    let failing = CommandInput {
        judged: JudgementVariant::Failed,
        ..world.default_input()
    };
    let command = world.command_with(Verb::ApplyPlan, failing).unwrap();
    let decision = world.decide(&ada(), command).unwrap();
    assert!(matches!(
        decision.receipt.outcome,
        ReceiptOutcome::Blocked(_)
    ));
}

#[test]
fn a_result_without_a_verdict_for_every_rule_is_refused() {
    let world = ExecuteProcessing.default_world();
    for judged in JudgementVariant::ALL
        .into_iter()
        .filter(|one| one.is_stale())
    {
        let input = CommandInput {
            judged,
            ..world.default_input()
        };
        let command = world.command_with(Verb::CompleteExecute, input).unwrap();
        let refusal = world.expect_refusal(&worker(), command);
        assert!(
            matches!(refusal, Refusal::JudgementStale { .. }),
            "{judged:?}"
        );
    }
}

#[test]
fn a_new_holder_of_execute_seals_the_changesets_of_the_last_one() {
    let mut world = ExecuteProcessing.default_world();
    world
        .submit_as_person(Verb::OpenChangeset)
        .submit_as_person(Verb::Reclaim)
        .submit_as_person(Verb::StartExecute);
    assert!(world.facts.changesets.is_empty());
    let sealed = |one: &&plan::RecordedEvent| matches!(one.event, Event::ChangesetSealed { .. });
    assert_eq!(world.log.iter().filter(sealed).count(), 1);
}

#[test]
fn a_result_lands_only_with_an_approval() {
    let mut world = ExecuteComplete.default_world();
    let refusal = world.expect_refusal(&ada(), world.default_command(Verb::ApplyPlan));
    assert_eq!(refusal, Refusal::NeedsApproval);
    world
        .submit_as_person(Verb::Approve)
        .submit_as_person(Verb::Revise);
    world
        .submit_as_person(Verb::StartExecute)
        .submit_as_person(Verb::CompleteExecute);
    assert_eq!(world.plan().approval(), None, "revise voids the approval");
    let refusal = world.expect_refusal(&ada(), world.default_command(Verb::ApplyPlan));
    assert_eq!(refusal, Refusal::NeedsApproval);
}

#[test]
fn under_auto_the_profile_approves() {
    let mut world = ExecuteComplete.reach_world(
        Profile::Auto,
        LandingSetup::OnTargets,
        StepCaller::WorkerFirst,
    );
    world.submit_as(&worker(), Verb::ApplyPlan);
    assert!(world.plan().valid_approval().is_some());
    assert_eq!(world.stage(), "apply/queued");
}

#[test]
fn under_auto_ignored_files_that_an_agent_added_wait_for_a_person() {
    waits_for_a_person_under_auto(ManualLandingReason::IgnoredFiles, |tree| {
        tree.ignored.forced = PathSummary::from_paths(&["dist/o.js"]);
    });
}

#[test]
fn under_auto_changed_settings_of_a_repository_wait_for_a_person() {
    waits_for_a_person_under_auto(ManualLandingReason::Settings, |tree| {
        tree.changes_settings = true
    });
}

#[track_caller]
fn waits_for_a_person_under_auto(reason: ManualLandingReason, change: impl Fn(&mut ResultTree)) {
    let mut world = ExecuteProcessing.reach_world(
        Profile::Auto,
        LandingSetup::OnTargets,
        StepCaller::WorkerFirst,
    );
    let mut command = world.default_command(Verb::CompleteExecute);
    if let Command::CompleteExecute(CompleteExecute { result, .. }) = &mut command {
        change(&mut result.trees[0]);
    }
    world.submit(&worker(), command).unwrap();
    let plan = world.plan();
    assert_eq!(plan.manual_landing_reason(), Some(reason));
    assert!(plan.needs_person());
    let refusal = world.expect_refusal(&worker(), world.default_command(Verb::ApplyPlan));
    assert!(
        matches!(refusal, Refusal::NeedsPerson { .. }),
        "{refusal:?}"
    );
    let refusal = world.expect_refusal(&ada(), world.default_command(Verb::ApplyPlan));
    assert_eq!(refusal, Refusal::NeedsApproval);
    world
        .submit_as_person(Verb::Approve)
        .submit_as_person(Verb::ApplyPlan);
    assert_eq!(world.stage(), "apply/queued");
}

#[test]
fn completing_apply_requires_every_target_to_be_read_back() {
    let world = ApplyProcessingPrepared.default_world();
    let refusal = world.expect_refusal(&worker(), world.command_variant(Verb::CompleteApply, 2));
    let missing = vec!["shop/app".to_owned(), "shop/docs".to_owned()];
    assert_eq!(refusal, Refusal::NotLanded { missing });
    let all_left_over = world.command_variant(Verb::CompleteApply, 3);
    assert!(matches!(
        world.expect_refusal(&worker(), all_left_over),
        Refusal::NotLanded { .. }
    ));
}

#[test]
fn the_rest_of_a_partial_apply_is_a_new_plan_in_the_same_commit() {
    let mut world = ApplyProcessingPrepared.default_world();
    let command = world.command_variant(Verb::CompleteApply, 1);
    world.submit(&worker(), command).unwrap();
    assert_eq!(world.stage(), "apply/applied");
    let rest = &world.new_plans[0].plan;
    assert_eq!(rest.origin(), PlanOrigin::RestOf(world.plan().id()));
    assert_eq!(rest.stage().to_string(), "execute/complete");
    assert_eq!(
        (rest.actors(), rest.profile(), rest.decisions()),
        (world.plan().actors(), world.plan().profile(), 1)
    );
    assert_eq!(rest.approval(), None, "it takes the normal way");
}

#[test]
fn an_undo_is_a_new_plan_that_is_approved_and_applied() {
    let mut world = ApplyApplied.default_world();
    world.submit_as_person(Verb::Undo);
    let mut undo = world.world_of_new_plan(&world.new_plans[0]);
    assert_eq!(undo.plan().origin(), PlanOrigin::UndoOf(world.plan().id()));
    assert_eq!(undo.plan().decisions(), 1);
    undo.submit_as_person(Verb::Approve)
        .submit_as_person(Verb::ApplyPlan);
    for verb in [Verb::StartApply, Verb::PrepareApply, Verb::CompleteApply] {
        undo.submit_as(&worker(), verb);
    }
    assert_eq!(undo.stage(), "apply/applied");
}

#[test]
fn every_kind_of_constraint_can_be_recorded_and_retried() {
    for (variant, kind) in ConstraintKind::ALL.into_iter().enumerate() {
        let mut world = ApplyProcessing.default_world();
        let command = world.command_variant(Verb::Constrain, variant);
        world.submit(&worker(), command).unwrap();
        assert_eq!(world.stage(), "apply/constrained", "{kind:?}");
        world
            .submit_as_person(Verb::Approve)
            .submit_as_person(Verb::Retry);
        assert_eq!(world.stage(), "apply/queued", "{kind:?}");
    }
}

#[test]
fn an_answer_is_recorded_as_a_persons_intervention() {
    let mut world = ExecuteAwaitingInput.default_world();
    let refusal = world.expect_refusal(&worker(), world.default_command(Verb::Answer));
    assert!(matches!(refusal, Refusal::NotAuthorized { .. }));
    world.submit_as_person(Verb::Answer);
    let Event::DecisionsRecorded { decisions } = &world.log.last().unwrap().event else {
        panic!("an answer is a decision");
    };
    assert_eq!(decisions[0].kind, DecisionKind::UserIntervention);
    assert_eq!(decisions[0].question.as_str(), "tabs or spaces?");
}

#[test]
fn only_a_person_waives_a_rule() {
    let world = ExecuteComplete.default_world();
    let refusal = world.expect_refusal(&worker(), world.default_command(Verb::Waive));
    assert!(matches!(refusal, Refusal::NotAuthorized { .. }));
    let refusal = world.expect_refusal(&ada(), world.command_variant(Verb::Waive, 2));
    assert!(matches!(refusal, Refusal::NonOverridable { .. }));
}

#[test]
fn a_waived_rule_no_longer_blocks() {
    let mut world = StrategizeComplete.default_world();
    let failing = |world: &PlanWorld| {
        let input = CommandInput {
            judged: JudgementVariant::Failed,
            ..world.default_input()
        };
        world.command_with(Verb::ExecutePlan, input).unwrap()
    };
    let before = world.plan().clone();
    let blocked = world.submit(&ada(), failing(&world)).unwrap();
    assert!(matches!(
        blocked.receipt.outcome,
        ReceiptOutcome::Blocked(_)
    ));
    assert!(matches!(blocked.rows.as_slice(), [RowWrite::PutVerdict(_)]));
    assert_eq!(world.plan(), &before, "a blocked plan does not move");
    world.submit_as_person(Verb::Waive);
    world.submit(&ada(), failing(&world)).unwrap();
    assert_eq!(world.stage(), "execute/queued");
    let recorded_choice = |world: &PlanWorld| {
        let gate = world.log.iter().rev().find_map(|one| match &one.event {
            Event::GateHeld { decisions, .. } => Some(decisions[0].choice.to_string()),
            _ => None,
        });
        gate.unwrap()
    };
    assert_eq!(recorded_choice(&world), "waived");
    let mut advised = StrategizeComplete.default_world();
    advised.facts.rules.rules[0].draft.advisory = true;
    advised.submit(&ada(), failing(&advised)).unwrap();
    assert_eq!(recorded_choice(&advised), "advice only: it is not");
}

#[test]
fn automatic_retries_end_at_the_limit_and_a_person_resets_the_count() {
    let mut world = ExecuteProcessing.default_world();
    let fail = |world: &mut PlanWorld| {
        let command = world.command_variant(Verb::Fail, 1);
        world.submit(&worker(), command).unwrap();
    };
    for attempt in 1..PlanLimits::default().attempts {
        assert_eq!(world.plan().attempt(), attempt);
        fail(&mut world);
        assert_eq!(world.stage(), "execute/queued");
        let refusal = world.expect_refusal(&worker(), world.default_command(Verb::StartExecute));
        let Refusal::NotDue { retry_at } = refusal else {
            panic!("{refusal}");
        };
        // The retry is due at exactly that time.
        world
            .advance_clock(retry_at.span_since(world.now))
            .submit_as(&worker(), Verb::StartExecute);
    }
    fail(&mut world);
    assert_eq!(world.stage(), "execute/errored");
    world.submit_as_person(Verb::Retry);
    let plan = world.plan();
    assert_eq!((plan.attempt(), plan.unattended_attempts()), (4, 1));
}

#[test]
fn reclaims_fail_the_plan_at_the_limit_and_still_raise_the_epoch() {
    let mut world = ExecuteProcessing.default_world();
    for _ in 1..PlanLimits::default().attempts {
        world
            .submit_as(&worker(), Verb::Reclaim)
            .submit_as(&worker(), Verb::StartExecute);
    }
    let (epoch, attempt) = (world.plan().epoch(), world.plan().attempt());
    world.submit_as(&worker(), Verb::Reclaim);
    assert_eq!(
        world.plan().stage().failure().unwrap().category,
        FailureCategory::Lost
    );
    assert_eq!(world.plan().epoch(), epoch.next());
    assert_eq!(world.plan().attempt(), attempt);
    // No holder had that epoch, so no holder failed.
    let refusal = world.expect_refusal(&worker(), world.default_command(Verb::Fail));
    assert!(matches!(refusal, Refusal::Fenced { .. }));
    let refusal = world.expect_refusal(&worker(), world.default_command(Verb::Reclaim));
    assert!(matches!(refusal, Refusal::WrongState { done: Some(_), .. }));
    let message = refusal.to_string();
    assert!(
        message.starts_with("reclaim was already done by "),
        "{message}"
    );
    assert!(
        message.ends_with(" by worker w1; the plan is execute/errored"),
        "{message}"
    );
    let refusal = world.expect_refusal(&ada(), world.default_command(Verb::Answer));
    assert_eq!(
        refusal.to_string(),
        "answer is not possible while the plan is execute/errored"
    );
}

#[test]
fn a_release_costs_no_attempt() {
    let mut world = ExecuteProcessing.default_world();
    world.submit_as_person(Verb::Release);
    assert_eq!(world.plan().attempt(), 1);
}

#[test]
fn an_expired_holder_can_renew_and_complete_until_it_is_reclaimed() {
    let mut world = ExecuteProcessing.default_world();
    world.advance_clock(Span::from_seconds(1_000_000));
    world
        .submit_as(&worker(), Verb::Renew)
        .submit_as(&worker(), Verb::CompleteExecute);
    assert_eq!(world.stage(), "execute/complete");
}

#[test]
fn a_valid_lease_is_not_reclaimed() {
    let mut world = ExecuteProcessing.default_world();
    let expired = Command::from(ReclaimLease {
        grounds: ReclaimGrounds::Expired,
    });
    assert!(matches!(
        world.expect_refusal(&worker(), expired.clone()),
        Refusal::LeaseRuns { .. }
    ));
    world.advance_clock(LEASE_LENGTH);
    world.submit(&worker(), expired).unwrap();
    assert_eq!(world.stage(), "execute/queued");
}

#[test]
fn automatic_reversions_are_counted_for_the_whole_life_of_the_plan() {
    let mut world = ExecuteQueued.reach_world(
        Profile::Auto,
        LandingSetup::OnTargets,
        StepCaller::WorkerFirst,
    );
    let again = |world: &mut PlanWorld| {
        for verb in [
            Verb::StartStrategize,
            Verb::CompleteStrategize,
            Verb::ExecutePlan,
        ] {
            world.submit_as(&worker(), verb);
        }
    };
    for _ in 0..MAX_AUTOMATIC_REVERSIONS {
        world.submit_as(&worker(), Verb::Revert);
        again(&mut world);
    }
    let refusal = world.expect_refusal(&worker(), world.default_command(Verb::Revert));
    assert_eq!(refusal, Refusal::ReversionLimit(MAX_AUTOMATIC_REVERSIONS));
    world.submit_as_person(Verb::Revert);
    again(&mut world);
    let refusal = world.expect_refusal(&worker(), world.default_command(Verb::Revert));
    assert_eq!(refusal, Refusal::ReversionLimit(MAX_AUTOMATIC_REVERSIONS));
    assert_eq!(world.plan().reversions(), MAX_AUTOMATIC_REVERSIONS + 1);
}

#[test]
fn a_persons_request_survives_answer_release_and_reclaim() {
    for verbs in [
        vec![Verb::Ask, Verb::Answer],
        vec![Verb::Release],
        vec![Verb::Reclaim],
    ] {
        let mut world = StrategizeQueued.reach_world(
            Profile::Manual,
            LandingSetup::OnTargets,
            StepCaller::Person,
        );
        let refusal = world.expect_refusal(&worker(), world.default_command(Verb::StartStrategize));
        assert!(matches!(refusal, Refusal::NeedsPerson { .. }));
        world.submit_as_person(Verb::StartStrategize);
        for &verb in &verbs {
            world.submit_as_person(verb);
        }
        world.submit_as(&worker(), Verb::StartStrategize);
        assert_eq!(world.stage(), "strategize/processing", "{verbs:?}");
    }
}

#[test]
fn a_plan_without_targets_lands_without_approval_in_one_step() {
    for lands in [LandingSetup::ReadOnly, LandingSetup::Projectless] {
        for profile in Profile::ALL {
            let mut world = ExecuteComplete.reach_world(profile, lands, StepCaller::WorkerFirst);
            let unasked = world.decide(&worker(), world.default_command(Verb::ApplyPlan));
            assert_eq!(
                unasked.is_ok(),
                profile != Profile::Manual,
                "{lands:?} under {profile}"
            );
            world
                .submit_as_person(Verb::ApplyPlan)
                .submit_as(&worker(), Verb::StartApply)
                .submit_as(&worker(), Verb::CompleteApply);
            assert_eq!(world.stage(), "apply/applied");
            assert_eq!(world.plan().approval(), None);
        }
    }
}

#[test]
fn a_plan_without_targets_cannot_be_given_moves_or_a_rest() {
    for lands in [LandingSetup::ReadOnly, LandingSetup::Projectless] {
        let mut world = ApplyProcessing.reach_world(Profile::Review, lands, StepCaller::Person);
        let rest = world.command_variant(Verb::CompleteApply, 1);
        let refusal = world.expect_refusal(&worker(), rest.clone());
        assert!(matches!(refusal, Refusal::ReadOnly(_)), "{lands:?}");
        world.submit_as_person(Verb::PrepareApply);
        let refusal = world.expect_refusal(&worker(), rest);
        assert!(matches!(refusal, Refusal::ReadOnly(_)), "{lands:?}");
    }
    let world =
        ApplyProcessing.reach_world(Profile::Review, LandingSetup::ReadOnly, StepCaller::Person);
    let moves = world.command_variant(Verb::PrepareApply, 1);
    assert!(matches!(
        world.expect_refusal(&worker(), moves),
        Refusal::ReadOnly(_)
    ));
}

#[test]
fn the_verbs_that_raise_the_epoch() {
    for (from, verb) in [
        (ExecuteQueued, Verb::StartExecute),
        (ExecuteProcessing, Verb::Reclaim),
        (ExecuteProcessing, Verb::Cancel),
        (ExecuteProcessing, Verb::Revert),
        (ExecuteComplete, Verb::Revise),
    ] {
        let mut world = from.default_world();
        let epoch = world.plan().epoch();
        world.submit_as_person(verb);
        assert_eq!(world.plan().epoch(), epoch.next(), "{verb}");
    }
}

#[test]
fn a_start_is_never_already_done() {
    for (spot, verb) in [
        (StrategizeProcessing, Verb::StartStrategize),
        (ExecuteProcessing, Verb::StartExecute),
        (ApplyProcessing, Verb::StartApply),
    ] {
        let world = spot.default_world();
        let refusal = world.expect_refusal(&ada(), world.default_command(verb));
        assert!(matches!(refusal, Refusal::Held { .. }), "{verb}");
    }
}

#[test]
fn a_refusal_says_when_and_by_whom_it_was_done_and_what_would_help() {
    let world = ExecuteQueued.default_world();
    let refusal = world.expect_refusal(&worker(), world.default_command(Verb::ExecutePlan));
    let Refusal::WrongState {
        done,
        possible_verbs,
        ..
    } = refusal
    else {
        panic!("{refusal}");
    };
    assert_eq!(done.unwrap().by, ada());
    assert_eq!(
        possible_verbs,
        [Verb::StartExecute, Verb::Revert, Verb::Cancel]
    );
}

#[test]
fn texts_that_some_store_cannot_hold_are_refused() {
    let world = StrategizeQueued.default_world();
    for owner in ["", " ", "a\0b"] {
        let Command::ClaimPhase(ClaimPhase {
            phase,
            lease,
            judgement,
            ..
        }) = world.default_command(Verb::StartStrategize)
        else {
            unreachable!()
        };
        let command = Command::from(ClaimPhase {
            phase,
            lease,
            judgement,
            owner: owner.into(),
        });
        let refusal = world.expect_refusal(&ada(), command);
        assert!(matches!(refusal, Refusal::BadText { .. }), "{owner:?}");
    }
    let world = StrategizeProcessing.default_world();
    let with = |change: fn(&mut plan::decision::ReportedDecision)| {
        let mut command = world.default_command(Verb::CompleteStrategize);
        if let Command::CompleteStrategize(CompleteStrategize { decisions, .. }) = &mut command {
            change(&mut decisions[0]);
        }
        world.decide(&worker(), command)
    };
    assert!(with(|one| one.rationale = Some("a\0b".into())).is_err());
    assert!(with(|one| one.alternatives = vec!["a\0b".into()]).is_err());
    assert!(with(|one| one.rationale = Some(String::new())).is_ok());
}

/// A holder is found dead outside of the store. Before the reclaim is decided, another may have
/// claimed the plan.
#[test]
fn a_new_holder_is_not_reclaimed_because_an_earlier_one_died() {
    let mut world = ExecuteProcessing.default_world();
    let dead_epoch = world.plan().epoch();
    world
        .submit_as_person(Verb::Reclaim)
        .submit_as_person(Verb::StartExecute);
    let reclaim = |epoch| {
        Command::from(ReclaimLease {
            grounds: ReclaimGrounds::OwnerDead(epoch),
        })
    };
    let refusal = world.expect_refusal(&worker(), reclaim(dead_epoch));
    assert!(matches!(refusal, Refusal::LeaseRuns { .. }), "{refusal}");
    let live_epoch = world.plan().epoch();
    assert!(world.submit(&worker(), reclaim(live_epoch)).is_ok());
}

/// A missing renewal is observed outside of the store. Before the reclaim is decided, the holder
/// may have renewed.
#[test]
fn a_lease_renewed_while_it_was_watched_is_not_reclaimed() {
    let mut world = ExecuteProcessing.default_world();
    let watched = world.facts.lease.clone().unwrap();
    let reclaim = |epoch, expires_at| {
        Command::from(ReclaimLease {
            grounds: ReclaimGrounds::Unrenewed { epoch, expires_at },
        })
    };
    for (epoch, expires_at) in [
        (watched.epoch.next(), watched.expires_at),
        (watched.epoch, watched.expires_at.saturating_add(Span(1))),
        (watched.epoch, watched.expires_at.saturating_add(Span(-1))),
    ] {
        let refusal = world.expect_refusal(&worker(), reclaim(epoch, expires_at));
        assert!(matches!(refusal, Refusal::LeaseRuns { .. }), "{refusal}");
    }
    let taken = world.submit(&worker(), reclaim(watched.epoch, watched.expires_at));
    assert!(taken.is_ok());
    assert_eq!(world.stage(), "execute/queued");
}

#[test]
fn only_unknown_processes_are_reclaimed_by_the_clock() {
    let world = ExecuteProcessing.default_world();
    let lease = world.facts.lease.clone().unwrap();
    let grounds = |liveness, unrenewed_for| {
        takeover::find_reclaim_grounds(liveness, &lease, Span(unrenewed_for), Span(30))
    };
    let (epoch, expires_at) = (lease.epoch, lease.expires_at);
    for unrenewed_for in [0, 30] {
        let ended = grounds(HolderLiveness::Ended, unrenewed_for);
        assert_eq!(ended, Some(ReclaimGrounds::OwnerDead(epoch)));
        let unknown = grounds(HolderLiveness::Unknown, unrenewed_for);
        assert_eq!(unknown, Some(ReclaimGrounds::Expired));
    }
    assert_eq!(grounds(HolderLiveness::Running, 29), None);
    let unrenewed = ReclaimGrounds::Unrenewed { epoch, expires_at };
    assert_eq!(grounds(HolderLiveness::Running, 30), Some(unrenewed));
}
