//! Properties of every random walk: random commands by random callers, with current, old and future
//! epochs and judgements.
//!
//! The seed is fixed, so that every run is the same. Set `PROPTEST_RNG_SEED` and `PROPTEST_CASES`
//! for other or more cases. Failing cases are stored in `properties-seeds.txt`, unless
//! `PROPTEST_DISABLE_FAILURE_PERSISTENCE` is set.

use std::collections::BTreeSet;
use std::sync::Arc;

use planwright_plan as plan;

use plan::decide::{EngineStep, available_verbs, next_engine_step};
use plan::evolve::replay_events;
use plan::plan::ResultRemedy;
use plan::{Event, Phase, Plan, PlanState, PlanTerms, Profile, ReceiptOutcome, Verb};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{
    Config, FailurePersistence, FileFailurePersistence, RngSeed, TestRunner,
};

use crate::completions::check_completions;
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
    fn the_log_tells_the_last_completion_of_every_verb(walk in any_walk()) {
        run_walk(&walk, |step| check_completions(step.after));
    }

    #[test]
    fn the_next_engine_step_is_accepted_and_due_for_a_worker(walk in any_walk()) {
        run_walk(&walk, |step| {
            let (world, plan) = (step.after, step.plan());
            for caller in [worker(), ada()] {
                let next = next_engine_step(plan, &caller, world.now);
                let rests = matches!(next, EngineStep::Idle(_));
                if !caller.is_person() {
                    let due = plan.due_at().is_some_and(|at| at <= world.now);
                    assert_eq!(due, !rests, "{} under {}: {next:?}", plan.stage(), plan.profile());
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
                assert!(answer.is_ok(), "{verb} in {}: {answer:?}", plan.stage());
            }
        });
    }

    #[test]
    fn a_plan_round_trips_through_json(walk in any_walk()) {
        let world = run_walk(&walk, |_| {});
        let terms = serde_json::to_string(&**world.plan().terms()).unwrap();
        let terms: PlanTerms = serde_json::from_str(&terms).unwrap();
        let state = serde_json::to_string(world.plan().state()).unwrap();
        let state: PlanState = serde_json::from_str(&state).unwrap();
        assert_eq!(&Plan::from_parts(Arc::new(terms), state), world.plan());
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
        if world.plan().stage().is_final() {
            for mut recorded in run_walk(&other, |_| {}).log {
                recorded.version = world.plan().version().next();
                assert!(plan::evolve(Some(world.plan().clone()), &recorded).is_err());
            }
        }
    }

    #[test]
    fn no_walk_breaks_an_invariant(walk in any_walk()) {
        run_walk(&walk, |step| check_invariants(step.after));
    }

    #[test]
    fn final_is_final(walk in any_walk()) {
        run_walk(&walk, |step| {
            if step.plan_before().stage().is_final() {
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
    fn a_refusal_or_a_blocked_gate_leaves_the_plan_unchanged(walk in any_walk()) {
        run_walk(&walk, |step| match &step.answer {
            Err(_) => assert_eq!(step.plan(), step.plan_before()),
            Ok(decision) => {
                let receipt = &decision.receipt;
                match &receipt.outcome {
                    ReceiptOutcome::Done => {}
                    ReceiptOutcome::AlreadyDone => {
                        assert_eq!(step.plan(), step.plan_before());
                        assert_eq!(decision.rows, []);
                        assert_eq!(receipt.version, Some(step.plan_before().version()));
                    }
                    ReceiptOutcome::Blocked(_) => {
                        assert_eq!(step.plan(), step.plan_before());
                        assert!(matches!(decision.rows.as_slice(), [plan::RowWrite::PutVerdict(_)]));
                        assert_eq!(receipt.version, Some(step.plan_before().version()));
                    }
                }
            }
        });
    }

    #[test]
    fn a_judgement_opens_a_gate_only_if_it_is_fresh_and_passes(walk in any_walk()) {
        run_walk(&walk, |step| {
            let opened = step.new_events().any(|event| matches!(event, Event::GateHeld { .. }));
            let waived = !step.plan_before().waivers().is_empty();
            if opened {
                assert!(step.judged == JudgementVariant::Held || step.judged == JudgementVariant::Failed && waived);
            }
            // No plan enters processing, execute or apply without passing its gate.
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
    fn counters_never_decrease(walk in any_walk()) {
        run_walk(&walk, |step| {
            let (old, new) = (step.plan_before(), step.plan());
            assert!(new.epoch() >= old.epoch());
            assert_eq!(new.version().0, old.version().0 + step.new_events().count() as u64);
            assert!(new.reversions() >= old.reversions());
            assert!(new.automatic_reversions() >= old.automatic_reversions());
            assert!(new.updated_at() >= old.updated_at());
            for phase in Phase::ALL {
                assert!(new.entry_number(phase) >= old.entry_number(phase));
            }
        });
    }

    #[test]
    fn only_claim_reclaim_cancel_and_rework_raise_the_epoch(walk in any_walk()) {
        run_walk(&walk, |step| {
            let dropped = step
                .new_events()
                .any(|event| matches!(event, Event::Cancelled { .. }));
            let raises = match step.command.verb() {
                Verb::StartStrategize
                | Verb::StartExecute
                | Verb::StartApply
                | Verb::Reclaim
                | Verb::Pick
                | Verb::Revise
                | Verb::Revert => step.new_events().next().is_some(),
                // The answer `drop` cancels the plan.
                Verb::Answer | Verb::Cancel => dropped,
                // A fresh retry that discards a result restarts execute.
                Verb::Retry => step.plan().entry_number(Phase::Execute) > step.plan_before().entry_number(Phase::Execute),
                _ => false,
            };
            let by = step.plan().epoch().0 - step.plan_before().epoch().0;
            assert_eq!(by, u64::from(raises), "{}", step.command.verb());
        });
    }

    #[test]
    fn attempts_start_at_one_and_rise_only_by_retry_and_reclaim(walk in any_walk()) {
        run_walk(&walk, |step| {
            let (old, new) = (step.plan_before(), step.plan());
            let entered = Phase::ALL
                .into_iter()
                .any(|phase| new.entry_number(phase) > old.entry_number(phase));
            let retries = step
                .new_events()
                .filter(|event| {
                    matches!(
                        event,
                        Event::RetryScheduled { .. } | Event::Retried { .. } | Event::Reclaimed { .. }
                    )
                })
                .count();
            let expected = if entered { 1 } else { old.attempt() + u32::try_from(retries).unwrap() };
            assert_eq!(new.attempt(), expected, "{}", step.command.verb());
        });
    }

    #[test]
    fn unattended_attempts_stay_within_the_limit(walk in any_walk()) {
        run_walk(&walk, |step| {
            let (old, new) = (step.plan_before(), step.plan());
            let automatic = step.new_events().any(|event| {
                matches!(event, Event::RetryScheduled { .. } | Event::Reclaimed { .. })
            });
            if automatic && !old.is_prepared() {
                assert!(new.unattended_attempts() <= new.limits().attempts);
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
    fn only_the_holders_epoch_writes_anything(walk in any_walk()) {
        run_walk(&walk, |step| {
            let holder_epoch = step.plan_before().stage().holder().map(|holder| holder.epoch);
            if let Some(epoch) = step.command.epoch()
                && holder_epoch != Some(epoch)
            {
                match &step.answer {
                    Err(_) => {}
                    Ok(decision) => {
                        assert_eq!(decision.receipt.outcome, ReceiptOutcome::AlreadyDone);
                        assert!(decision.plans.is_empty() && decision.rows.is_empty());
                        assert!(epoch <= step.plan_before().epoch(), "an epoch to come did nothing yet");
                    }
                }
            }
        });
    }

    #[test]
    fn already_done_means_done_by_the_same_epoch(walk in any_walk()) {
        run_walk(&walk, |step| {
            let Ok(decision) = &step.answer else { return };
            if decision.receipt.outcome != ReceiptOutcome::AlreadyDone {
                return;
            }
            let epoch = step.command.epoch().unwrap();
            let verb = step.command.verb();
            if let Verb::Reserve | Verb::Settle = verb {
                // These emit no events. The ledger decides whether they are done.
                let open = step.before.facts.ledger.reservation(epoch).is_some();
                return assert_eq!(open, verb == Verb::Reserve);
            }
            let done = step.before.facts.completions[&verb].as_ref();
            assert_eq!(done.unwrap().epoch, Some(epoch), "{verb}");
            let was_held = step.before.log.iter().any(|one| {
                matches!(&one.event, Event::Claimed { epoch: claimed, .. } if *claimed == epoch)
            });
            assert!(was_held, "{verb} by epoch {epoch}, which no holder ever had");
            match verb {
                Verb::PrepareApply => assert!(
                    step.plan_before().is_prepared() || step.plan_before().stage().is_final(),
                    "an intent that was withdrawn is not prepared"
                ),
                Verb::WithdrawApply => assert!(!step.plan_before().is_prepared()),
                _ => {}
            }
        });
    }

    #[test]
    fn under_manual_a_worker_does_nothing_without_a_person(walk in any_walk()) {
        let walk = RandomWalk { profile: Profile::Manual, ..walk };
        run_walk(&walk, |step| {
            if step.caller.is_person() || step.new_events().next().is_none() {
                return;
            }
            let old = step.plan_before();
            let signed = old.approval().is_some_and(|approval| approval.by.is_person());
            match step.command.verb() {
                Verb::StartStrategize | Verb::StartExecute => assert!(old.asked()),
                // A person's approval allows the landing.
                Verb::StartApply => assert!(old.asked() || signed),
                Verb::ApplyPlan => assert!(signed),
                verb @ (Verb::ExecutePlan
                | Verb::Approve
                | Verb::Pick
                | Verb::Retry
                | Verb::Revise
                | Verb::Revert
                | Verb::Waive
                | Verb::Answer) => panic!("{verb} unasked"),
                _ => {}
            }
            let retried = |event: &Event| matches!(event, Event::RetryScheduled { .. });
            assert!(!step.new_events().any(retried), "retried without a person");
        });
    }

    #[test]
    fn past_the_point_of_no_return_the_intent_stays_until_it_is_resolved(walk in any_walk()) {
        run_walk(&walk, |step| {
            let Some(intent) = step.plan_before().stage().intent() else { return };
            match step.plan().stage().intent() {
                Some(kept) => assert_eq!(kept.moves, intent.moves),
                None => match step.command.verb() {
                    Verb::WithdrawApply | Verb::CompleteApply | Verb::Answer => {}
                    verb => panic!("the intent is gone by {verb}"),
                },
            }
        });
    }

    #[test]
    fn every_available_verb_is_accepted(walk in any_walk()) {
        let check_verbs = |world: &PlanWorld| {
            for verb in available_verbs(world.plan()) {
                let answer = world.decide(&ada(), world.default_command(verb));
                let outcome = answer.map(|decision| decision.receipt.outcome);
                assert_eq!(outcome, Ok(ReceiptOutcome::Done), "{verb} in {}", world.stage());
            }
        };
        run_walk(&walk, |step| check_verbs(step.after));
    }

    #[test]
    fn a_person_can_always_land_or_cancel(walk in any_walk()) {
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
            if step.plan().stage().holder().is_some() {
                let mut abandoned = step.after.clone();
                abandoned.submit_as(&worker(), Verb::Reclaim);
                let landed = follow_hints(abandoned, |hints| hints.first().copied());
                assert_eq!(landed, Spot::ApplyApplied, "a vanished holder stops nothing");
            }
        });
    }
}

/// Returns where a person ends up by following the available verbs. A plan that is already final
/// counts as landed.
fn follow_hints(mut world: PlanWorld, choose: impl Fn(&[Verb]) -> Option<Verb>) -> Spot {
    if world.plan().stage().is_final() {
        return Spot::ApplyApplied;
    }
    for _ in 0..16 {
        if world.plan().stage().is_final() {
            break;
        }
        let verb = choose(&available_verbs(world.plan())).unwrap();
        world.submit_as_person(verb);
    }
    Spot::of_stage(world.plan().stage())
}

/// The properties prove little if the walks do not reach every state.
#[test]
fn random_walks_reach_every_state() {
    let mut runner = TestRunner::new(Config {
        rng_seed: RngSeed::Fixed(7),
        ..test_config()
    });
    let (mut spots, mut kinds, mut verbs) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for _ in 0..300 {
        let walk = any_walk().new_tree(&mut runner).unwrap().current();
        let end = run_walk(&walk, |step| {
            spots.insert(Spot::of_stage(step.plan().stage()));
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
