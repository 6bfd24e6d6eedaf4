//! What holds along every walk: random commands by random callers with right, old and future
//! epochs and judgements, over time.
//!
//! The seed is fixed, so that a run is the same everywhere; `PROPTEST_RNG_SEED` and
//! `PROPTEST_CASES` ask for others and more. What once failed is kept in `properties-seeds.txt`, unless
//! `PROPTEST_DISABLE_FAILURE_PERSISTENCE` is set.

use std::collections::BTreeSet;

use planwright_plan as plan;

use plan::decide::{EngineStep, available_verbs, next_engine_step};
use plan::evolve::replay_events;
use plan::plan::ResultRemedy;
use plan::{Event, Phase, Plan, Profile, ReceiptOutcome, Verb};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{
    Config, FailurePersistence, FileFailurePersistence, RngSeed, TestRunner,
};

use crate::invariants::check_invariants;
use crate::random_walk::{RandomWalk, any_walk, run_walk};
use crate::spot::Spot;
use crate::world::{JudgementVariant, PlanWorld, ada, worker};

fn test_config() -> Config {
    let seeds = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/properties-seeds.txt");
    let asked = Config::default();
    Config {
        cases: match asked.cases {
            256 => 64,
            more => more,
        },
        rng_seed: match asked.rng_seed {
            RngSeed::Random => RngSeed::Fixed(7),
            fixed @ RngSeed::Fixed(_) => fixed,
        },
        failure_persistence: asked.failure_persistence.as_ref().map(|_| {
            Box::new(FileFailurePersistence::Direct(seeds)) as Box<dyn FailurePersistence>
        }),
        ..asked
    }
}

proptest! {
    #![proptest_config(test_config())]

    #[test]
    fn replaying_the_log_gives_the_live_plan(walk in any_walk()) {
        run_walk(&walk, |step| {
            assert_eq!(replay_events(&step.after.log).unwrap().as_ref(), Some(step.plan()));
        });
    }

    #[test]
    fn what_comes_next_is_carried_out_and_due_for_a_worker(walk in any_walk()) {
        run_walk(&walk, |step| {
            let (world, plan) = (step.after, step.plan());
            for caller in [worker(), ada()] {
                let next = next_engine_step(plan, &caller, world.now);
                let rests = matches!(next, EngineStep::Idle(_));
                if !caller.is_person() {
                    let due = plan.due_at().is_some_and(|at| at <= world.now);
                    assert_eq!(due, !rests, "{} under {}: {next:?}", plan.stage, plan.profile);
                }
                let verb = match next {
                    EngineStep::Claim(Phase::Strategize) => Verb::StartStrategize,
                    EngineStep::Claim(Phase::Execute) => Verb::StartExecute,
                    EngineStep::Claim(Phase::Apply) => Verb::StartApply,
                    EngineStep::Enter(Phase::Execute) => Verb::ExecutePlan,
                    EngineStep::Enter(phase) => {
                        assert_eq!(phase, Phase::Apply);
                        Verb::ApplyPlan
                    }
                    EngineStep::Remedy(ResultRemedy::Fix) => Verb::Revise,
                    EngineStep::Remedy(ResultRemedy::Revert) => Verb::Revert,
                    EngineStep::ExpireQuestion => Verb::ExpireQuestion,
                    EngineStep::Idle(_) => continue,
                };
                let answer = world.decide(&caller, world.default_command(verb));
                assert!(answer.is_ok(), "{verb} in {}: {answer:?}", plan.stage);
            }
        });
    }

    #[test]
    fn a_plan_survives_json(walk in any_walk()) {
        let world = run_walk(&walk, |_| {});
        let plan = serde_json::to_string(world.plan()).unwrap();
        assert_eq!(&serde_json::from_str::<Plan>(&plan).unwrap(), world.plan());
        let log = serde_json::to_string(&world.log).unwrap();
        assert_eq!(serde_json::from_str::<Vec<plan::RecordedEvent>>(&log).unwrap(), world.log);
    }

    #[test]
    fn a_damaged_log_does_not_replay(walk in any_walk(), at in any::<prop::sample::Index>()) {
        let log = run_walk(&walk, |_| {}).log;
        if log.len() > 1 {
            let at = at.index(log.len() - 1);
            let mut gap = log.clone();
            gap.remove(at);
            assert!(replay_events(&gap).is_err(), "an event is missing");
            let mut twice = log.clone();
            twice.insert(at, log[at].clone());
            assert!(replay_events(&twice).is_err(), "an event is there twice");
            let mut swapped = log.clone();
            swapped.swap(at, at + 1);
            assert!(replay_events(&swapped).is_err(), "two events are in the wrong order");
            let mut foreign = log;
            foreign[at + 1].plan = plan::PlanId::from_parts(1, 1);
            assert!(replay_events(&foreign).is_err(), "an event is another plan's");
        }
    }

    #[test]
    fn no_event_follows_an_ending(walk in any_walk(), other in any_walk()) {
        let world = run_walk(&walk, |_| {});
        if world.plan().stage.is_final() {
            for mut recorded in run_walk(&other, |_| {}).log {
                recorded.version = world.plan().version.next();
                assert!(plan::evolve(Some(world.plan().clone()), &recorded).is_err());
            }
        }
    }

    #[test]
    fn no_walk_leads_to_an_unsound_plan(walk in any_walk()) {
        run_walk(&walk, |step| check_invariants(step.after));
    }

    #[test]
    fn final_is_final(walk in any_walk()) {
        run_walk(&walk, |step| {
            if step.plan_before().stage.is_final() {
                assert_eq!(step.plan(), step.plan_before());
                if let Ok(decision) = &step.answer {
                    assert_eq!(decision.rows, []);
                    let undo = step.command.verb() == Verb::Undo;
                    assert!(undo || decision.receipt.outcome == ReceiptOutcome::AlreadyDone);
                }
            }
        });
    }

    #[test]
    fn a_refusal_or_a_closed_gate_leaves_the_plan_as_it_was(walk in any_walk()) {
        run_walk(&walk, |step| match &step.answer {
            Err(_) => assert_eq!(step.plan(), step.plan_before()),
            Ok(decision) => {
                let receipt = &decision.receipt;
                match &receipt.outcome {
                    ReceiptOutcome::Done => {}
                    ReceiptOutcome::AlreadyDone => {
                        assert_eq!(step.plan(), step.plan_before());
                        assert_eq!(decision.rows, []);
                        assert_eq!(receipt.version, Some(step.plan_before().version));
                    }
                    ReceiptOutcome::Blocked(_) => {
                        assert_eq!(step.plan(), step.plan_before());
                        assert!(matches!(decision.rows.as_slice(), [plan::RowWrite::PutVerdict(_)]));
                        assert_eq!(receipt.version, Some(step.plan_before().version));
                    }
                }
            }
        });
    }

    #[test]
    fn a_judgement_opens_a_gate_only_if_it_is_fresh_and_passes(walk in any_walk()) {
        run_walk(&walk, |step| {
            let opened = step.new_events().any(|event| matches!(event, Event::GateHeld { .. }));
            let waived = !step.plan_before().waivers.is_empty();
            if opened {
                assert!(step.judged == JudgementVariant::Held || step.judged == JudgementVariant::Failed && waived);
            }
            // Nobody comes into processing, execute or apply past a gate.
            let moved = step.new_events().any(|event| match event {
                Event::Claimed { phase, .. } => *phase == Phase::Strategize,
                Event::ExecuteEntered { .. } | Event::ApplyEntered { .. } => true,
                Event::ApplyPrepared { .. } => step.plan_before().has_targets(),
                _ => false,
            });
            assert!(opened || !moved);
        });
    }

    #[test]
    fn what_counts_up_never_goes_back(walk in any_walk()) {
        run_walk(&walk, |step| {
            let (old, new) = (step.plan_before(), step.plan());
            assert!(new.epoch >= old.epoch);
            assert_eq!(new.version.0, old.version.0 + step.new_events().count() as u64);
            assert!(new.reversions >= old.reversions);
            assert!(new.automatic_reversions >= old.automatic_reversions);
            assert!(new.updated_at >= old.updated_at);
            for phase in Phase::ALL {
                assert!(new.entry_number(phase) >= old.entry_number(phase));
            }
        });
    }

    #[test]
    fn the_epoch_rises_by_claim_reclaim_cancel_and_the_ways_back_only(walk in any_walk()) {
        run_walk(&walk, |step| {
            let dropped = step
                .new_events()
                .any(|event| matches!(event, Event::Cancelled { .. }));
            let raises = match step.command.verb() {
                Verb::StartStrategize
                | Verb::StartExecute
                | Verb::StartApply
                | Verb::Reclaim
                | Verb::Revise
                | Verb::Revert => step.new_events().next().is_some(),
                // An answer that gives the change up cancels the plan.
                Verb::Answer | Verb::Cancel => dropped,
                // A fresh retry that gives up a result begins execute again.
                Verb::Retry => step.plan().entry_number(Phase::Execute) > step.plan_before().entry_number(Phase::Execute),
                _ => false,
            };
            let by = step.plan().epoch.0 - step.plan_before().epoch.0;
            assert_eq!(by, u64::from(raises), "{}", step.command.verb());
        });
    }

    #[test]
    fn an_attempt_starts_at_one_and_rises_by_retry_and_reclaim_only(walk in any_walk()) {
        run_walk(&walk, |step| {
            let (old, new) = (step.plan_before(), step.plan());
            let entered = Phase::ALL
                .into_iter()
                .any(|phase| new.entry_number(phase) > old.entry_number(phase));
            let risen = step
                .new_events()
                .filter(|event| {
                    matches!(
                        event,
                        Event::RetryScheduled { .. } | Event::Retried { .. } | Event::Reclaimed { .. }
                    )
                })
                .count();
            let expected = if entered { 1 } else { old.attempt + u32::try_from(risen).unwrap() };
            assert_eq!(new.attempt, expected, "{}", step.command.verb());
        });
    }

    #[test]
    fn nothing_is_tried_more_often_by_itself_than_the_limit_says(walk in any_walk()) {
        run_walk(&walk, |step| {
            let (old, new) = (step.plan_before(), step.plan());
            let by_itself = step.new_events().any(|event| {
                matches!(event, Event::RetryScheduled { .. } | Event::Reclaimed { .. })
            });
            if by_itself && !old.is_prepared() {
                assert!(new.unattended_attempts <= new.limits.attempts);
            }
        });
    }

    #[test]
    fn the_same_input_gives_the_same_answer(walk in any_walk()) {
        run_walk(&walk, |step| {
            let again = step.before.decide(&step.caller, step.command.clone());
            assert_eq!(again, step.answer);
        });
    }

    #[test]
    fn another_epoch_than_the_holders_writes_nothing(walk in any_walk()) {
        run_walk(&walk, |step| {
            let held = step.plan_before().stage.holder().map(|holder| holder.epoch);
            if let Some(epoch) = step.command.epoch()
                && held != Some(epoch)
            {
                match &step.answer {
                    Err(_) => {}
                    Ok(decision) => {
                        assert_eq!(decision.receipt.outcome, ReceiptOutcome::AlreadyDone);
                        assert!(decision.plans.is_empty() && decision.rows.is_empty());
                        assert!(epoch <= step.plan_before().epoch, "an epoch to come did nothing yet");
                    }
                }
            }
        });
    }

    #[test]
    fn what_is_already_done_was_done_by_that_epoch(walk in any_walk()) {
        run_walk(&walk, |step| {
            let Ok(decision) = &step.answer else { return };
            if decision.receipt.outcome != ReceiptOutcome::AlreadyDone {
                return;
            }
            let epoch = step.command.epoch().unwrap();
            let verb = step.command.verb();
            if let Verb::Reserve | Verb::Settle = verb {
                // No events: whether they are done is for the ledger to say.
                let open = step.before.facts.ledger.reservation(epoch).is_some();
                return assert_eq!(open, verb == Verb::Reserve);
            }
            assert_eq!(step.plan_before().done[&verb].epoch, Some(epoch), "{verb}");
            let held = step.before.log.iter().any(|one| {
                matches!(&one.event, Event::Claimed { epoch: claimed, .. } if *claimed == epoch)
            });
            assert!(held, "{verb} by epoch {epoch}, which nobody ever held");
            match verb {
                Verb::PrepareApply => assert!(
                    step.plan_before().is_prepared() || step.plan_before().stage.is_final(),
                    "an intent that was withdrawn is not prepared"
                ),
                Verb::WithdrawApply => assert!(!step.plan_before().is_prepared()),
                _ => {}
            }
        });
    }

    #[test]
    fn under_manual_a_worker_does_nothing_unasked(walk in any_walk()) {
        let walk = RandomWalk { profile: Profile::Manual, ..walk };
        run_walk(&walk, |step| {
            if step.caller.is_person() || step.new_events().next().is_none() {
                return;
            }
            let old = step.plan_before();
            let signed = old.approval.as_ref().is_some_and(|approval| approval.by.is_person());
            match step.command.verb() {
                Verb::StartStrategize | Verb::StartExecute => assert!(old.asked),
                // A person's signature is their word that it may land.
                Verb::StartApply => assert!(old.asked || signed),
                Verb::ApplyPlan => assert!(signed),
                verb @ (Verb::ExecutePlan
                | Verb::Approve
                | Verb::Retry
                | Verb::Revise
                | Verb::Revert
                | Verb::Waive
                | Verb::Answer) => panic!("{verb} unasked"),
                _ => {}
            }
            let retried = |event: &Event| matches!(event, Event::RetryScheduled { .. });
            assert!(!step.new_events().any(retried), "retried by itself");
        });
    }

    #[test]
    fn past_the_point_of_no_return_the_intent_stays_until_it_is_resolved(walk in any_walk()) {
        run_walk(&walk, |step| {
            let Some(intent) = step.plan_before().stage.intent() else { return };
            match step.plan().stage.intent() {
                Some(kept) => assert_eq!(kept.moves, intent.moves),
                None => match step.command.verb() {
                    Verb::WithdrawApply | Verb::CompleteApply | Verb::Answer => {}
                    verb => panic!("the intent is gone by {verb}"),
                },
            }
        });
    }

    #[test]
    fn every_hint_is_carried_out(walk in any_walk()) {
        let seen = |world: &PlanWorld| {
            for verb in available_verbs(world.plan()) {
                let answer = world.decide(&ada(), world.default_command(verb));
                let outcome = answer.map(|decision| decision.receipt.outcome);
                assert_eq!(outcome, Ok(ReceiptOutcome::Done), "{verb} in {}", world.stage());
            }
        };
        run_walk(&walk, |step| seen(step.after));
    }

    #[test]
    fn there_is_always_a_way_on_and_a_way_out(walk in any_walk()) {
        run_walk(&walk, |step| {
            let landed = follow_hints(step.after.clone(), |hints| hints.first().copied());
            assert_eq!(landed, Spot::ApplyApplied, "the first hint leads to landing");
            let out = follow_hints(step.after.clone(), |hints| {
                let cancel = hints.iter().find(|verb| **verb == Verb::Cancel);
                cancel.or(hints.first()).copied()
            });
            assert!(matches!(
                out,
                Spot::StrategizeCancelled
                    | Spot::ExecuteCancelled
                    | Spot::ApplyCancelled
                    | Spot::ApplyApplied
            ));
            if step.plan().stage.holder().is_some() {
                let mut abandoned = step.after.clone();
                abandoned.submit_as(&worker(), Verb::Reclaim);
                let landed = follow_hints(abandoned, |hints| hints.first().copied());
                assert_eq!(landed, Spot::ApplyApplied, "a vanished holder stops nothing");
            }
        });
    }
}

/// Where a person gets to by doing what is hinted at; a cancelled plan counts as landed by the
/// first hint, there being none.
fn follow_hints(mut world: PlanWorld, choose: impl Fn(&[Verb]) -> Option<Verb>) -> Spot {
    if world.plan().stage.is_final() {
        return Spot::ApplyApplied;
    }
    for _ in 0..16 {
        if world.plan().stage.is_final() {
            break;
        }
        let verb = choose(&available_verbs(world.plan())).unwrap();
        world.submit_as_person(verb);
    }
    Spot::of_stage(&world.plan().stage)
}

/// The properties above say little if the walks stay at home.
#[test]
fn the_walks_go_everywhere() {
    let mut runner = TestRunner::new(Config {
        rng_seed: RngSeed::Fixed(7),
        ..test_config()
    });
    let (mut spots, mut kinds, mut verbs) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for _ in 0..300 {
        let walk = any_walk().new_tree(&mut runner).unwrap().current();
        let end = run_walk(&walk, |step| {
            spots.insert(Spot::of_stage(&step.plan().stage));
            if step.answer.is_ok() {
                verbs.insert(step.command.verb());
            }
        });
        kinds.extend(end.log.iter().map(|one| one.event.kind()));
    }
    let missed: Vec<_> = Spot::ALL
        .iter()
        .filter(|spot| !spots.contains(spot))
        .collect();
    assert!(missed.is_empty(), "never reached: {missed:?}");
    assert_eq!(kinds.len(), crate::golden::KINDS.len(), "only {kinds:?}");
    let world = Spot::StrategizeQueued.default_world();
    let missed: Vec<_> = Verb::ALL
        .iter()
        .filter(|verb| world.command_with(**verb, world.default_input()).is_some())
        .filter(|verb| !verbs.contains(verb))
        .collect();
    assert!(missed.is_empty(), "never carried out: {missed:?}");
}
