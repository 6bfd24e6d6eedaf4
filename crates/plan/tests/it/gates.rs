//! Gates: which rules stop what, and which judgements are taken.

use planwright_plan as plan;

use plan::decide::{advice, blocked_by};
use plan::invariant::{Check, Gate, RuleBook, Scope};
use plan::judgement::{Evidence, Judgement, RuleOutcome, RuleVerdict, Targets, Waits};
use plan::plan::{MAX_AUTOMATIC_REVERSIONS, MAX_FIXES, Remedy, Waiver};
use plan::{Command, Digest, Outcome, Profile, Refusal, Verb};

use crate::spot::Spot;
use crate::world::{How, Judged, Lands, START, World, ada, worker};

/// The world with no rule but this one, at this gate.
fn with_rule_at(mut world: World, gate: Gate) -> World {
    let rules = &mut world.facts.rules.rules;
    rules.truncate(1);
    rules[0].draft.at = vec![gate];
    world
}

fn answer(world: &World, verb: Verb, judged: Judged) -> Result<Outcome, Refusal> {
    let how = How {
        judged,
        ..world.usual()
    };
    let command = world.command_with(verb, how).unwrap();
    let decision = world.decide(&ada(), command)?;
    Ok(decision.receipt.outcome)
}

/// What can be blocked, where it is asked for, and by rules at which gates.
fn gated() -> [(World, Verb, &'static [Gate]); 5] {
    let mut approved = Spot::ExecuteComplete.world();
    approved.person(Verb::Approve);
    let apply = &[Gate::Result, Gate::Apply];
    [
        (
            Spot::StrategizeQueued.world(),
            Verb::StartStrategize,
            &[Gate::Strategize],
        ),
        (
            Spot::StrategizeComplete.world(),
            Verb::ExecutePlan,
            &[Gate::Execute],
        ),
        // A failing result blocks apply, never this.
        (Spot::ExecuteProcessing.world(), Verb::CompleteExecute, &[]),
        (approved, Verb::ApplyPlan, apply),
        (Spot::ApplyProcessing.world(), Verb::PrepareApply, apply),
    ]
}

#[test]
fn a_failing_rule_blocks_at_its_own_gates_only() {
    for (world, verb, gates) in gated() {
        for gate in Gate::ALL {
            let mut world = with_rule_at(world.clone(), gate);
            let rules = world.facts.rules.effective_at(Gate::Apply.judged_with());
            let rules = rules.iter().map(|rule| rule.reference()).collect();
            if let Some(approval) = &mut world.plan_mut().approval {
                approval.rules = rules;
            }
            let outcome = answer(&world, verb, Judged::Failed).unwrap();
            let blocked = matches!(outcome, Outcome::Blocked(_));
            assert_eq!(blocked, gates.contains(&gate), "{verb} by a rule at {gate}");
            let outcome = answer(&world, verb, Judged::Held).unwrap();
            assert_eq!(outcome, Outcome::Done, "{verb} by a rule at {gate}");
        }
    }
}

#[test]
fn an_advisory_rule_is_told_and_blocks_nothing() {
    for (mut world, verb, _) in gated() {
        for rule in &mut world.facts.rules.rules {
            rule.draft.advisory = true;
        }
        let outcome = answer(&world, verb, Judged::Failed);
        assert_eq!(outcome, Ok(Outcome::Done), "{verb}");
    }
}

#[test]
fn a_non_overridable_rule_blocks_even_a_plan_that_holds_a_waiver_of_it() {
    for (mut world, verb, gates) in gated() {
        let rule = &mut world.facts.rules.rules[0];
        rule.draft.non_overridable = true;
        let waiver = Waiver {
            rule: rule.reference(),
            by: ada(),
            reason: "smuggled in".into(),
            at: world.now,
        };
        world.plan_mut().waivers.push(waiver);
        let outcome = answer(&world, verb, Judged::Failed).unwrap();
        let blocked = matches!(outcome, Outcome::Blocked(_));
        assert_eq!(blocked, !gates.is_empty(), "{verb}");
    }
}

#[test]
fn a_judgement_about_another_plan_version_or_other_rules_is_not_taken() {
    for (world, verb, _) in gated() {
        for judged in Judged::ALL.into_iter().filter(|one| one.is_stale()) {
            let refusal = answer(&world, verb, judged).unwrap_err();
            assert!(
                matches!(refusal, Refusal::JudgementStale { .. }),
                "{verb}, {judged:?}"
            );
        }
    }
}

#[test]
fn a_rule_added_while_judging_makes_the_judgement_stale_in_every_scope_of_the_plan() {
    for (world, verb, _) in gated() {
        let plan = world.plan();
        let scopes = [
            Scope::Global,
            Scope::Action(plan.action.clone().unwrap()),
            Scope::Plan(plan.id),
        ];
        for scope in scopes {
            let mut later = world.clone();
            *later
                .facts
                .rules
                .revisions
                .entry(scope.clone())
                .or_default() += 1;
            let refusal = later.refused(&ada(), world.command(verb));
            assert!(
                matches!(refusal, Refusal::JudgementStale { .. }),
                "{verb} after a change in {scope}"
            );
        }
    }
}

#[test]
fn nothing_is_prepared_without_a_valid_signature() {
    let mut world = Spot::ApplyProcessing.world();
    world.plan_mut().approval = None;
    let refusal = world.refused(&ada(), world.command(Verb::PrepareApply));
    assert_eq!(refusal, Refusal::NeedsApproval);
}

/// Hands in a result that does not meet the rule.
fn hand_in_failing(world: &mut World) {
    let how = How {
        judged: Judged::Failed,
        ..world.usual()
    };
    let complete = world.command_with(Verb::CompleteExecute, how).unwrap();
    world.submit(&worker(), complete).unwrap();
}

fn at_work(profile: Profile) -> World {
    let mut world = World::new(profile, Lands::OnTargets);
    world
        .person(Verb::StartStrategize)
        .person(Verb::CompleteStrategize)
        .person(Verb::ExecutePlan)
        .person(Verb::StartExecute);
    world
}

/// A result that does not meet its rules goes back by itself three times under `review` and `auto`; then
/// `auto` begins anew, and the others wait for a person.
#[test]
fn what_does_not_meet_its_rules_is_mended_within_limits() {
    let expected = [
        (Profile::Manual, 0, None),
        (Profile::Supervised, 0, None),
        (Profile::Review, MAX_FIXES, None),
        (Profile::Auto, MAX_FIXES, Some(Remedy::Revert)),
    ];
    for (profile, fixes, then) in expected {
        let mut world = at_work(profile);
        hand_in_failing(&mut world);
        assert_eq!(world.plan().unmet().count(), 1);
        for made in 0..fixes {
            assert_eq!(world.plan().fixes, made);
            assert_eq!(world.plan().remedy(), Some(Remedy::Fix), "{profile} {made}");
            assert!(!world.plan().is_stuck(), "{profile} {made}");
            let written = serde_json::json!(world.plan()).get("fixes").cloned();
            assert_eq!(written, (made > 0).then(|| made.into()), "{profile}");
            world.done_by(&worker(), Verb::Revise);
            assert_eq!(world.plan().unmet().count(), 0, "nothing is judged yet");
            world.person(Verb::StartExecute);
            hand_in_failing(&mut world);
        }
        assert_eq!(world.plan().remedy(), then, "{profile}");
        assert_eq!(world.plan().is_stuck(), then.is_none(), "{profile}");
        let refusal = world.decide(&worker(), world.command(Verb::Revise));
        assert!(refusal.is_err(), "{profile}");
        // Whoever looked at it may send it back again, and it is mended anew.
        world.person(Verb::Revise);
        assert_eq!(world.plan().fixes, 0);
        assert!(!world.plan().is_stuck(), "{profile}");
    }
}

/// Under `auto` a plan begins anew three times at most; then a person has to look, too.
#[test]
fn what_cannot_be_mended_begins_anew_within_limits() {
    let mut world = at_work(Profile::Auto);
    let mut reversions = 0;
    for _ in 0..100 {
        hand_in_failing(&mut world);
        match world.plan().remedy() {
            Some(Remedy::Fix) => {
                world.done_by(&worker(), Verb::Revise);
            }
            Some(Remedy::Revert) => {
                reversions += 1;
                world
                    .done_by(&worker(), Verb::Revert)
                    .person(Verb::StartStrategize)
                    .person(Verb::CompleteStrategize)
                    .person(Verb::ExecutePlan);
            }
            None => {
                assert_eq!(reversions, MAX_AUTOMATIC_REVERSIONS);
                assert!(world.plan().is_stuck());
                return;
            }
        }
        world.person(Verb::StartExecute);
    }
    panic!("it was mended without end");
}

#[test]
fn what_was_set_aside_is_nothing_to_mend() {
    let mut world = at_work(Profile::Review);
    hand_in_failing(&mut world);
    world.person(Verb::Waive);
    assert_eq!(world.plan().unmet().count(), 0);
    assert_eq!(world.plan().remedy(), None);
    assert!(!world.plan().is_stuck());
}

/// Evidence is told by rule, and what one rule said of several subjects in one order everywhere.
#[test]
fn evidence_has_an_order() {
    let world = Spot::ExecuteComplete.world();
    let evidence = |rule: usize, subject: u8| Evidence {
        plan: world.plan().id,
        entry: 1,
        subject: Digest::of(&[subject]),
        verdict: RuleVerdict {
            rule: world.facts.rules.rules[rule].reference(),
            outcome: RuleOutcome::Held,
        },
        at: START,
    };
    let mut subjects = [1, 2];
    subjects.sort_by_key(|subject| Digest::of(&[*subject]));
    let mut rules = [0, 1];
    rules.sort_by_key(|rule| world.facts.rules.rules[*rule].reference());
    let sorted: Vec<Evidence> = rules
        .into_iter()
        .flat_map(|rule| subjects.map(|subject| evidence(rule, subject)))
        .collect();
    let mut told = vec![
        sorted[2].clone(),
        sorted[1].clone(),
        sorted[3].clone(),
        sorted[0].clone(),
    ];
    told.sort_by(Evidence::in_order);
    assert_eq!(told, sorted);
}

#[test]
fn a_plan_lies_in_the_scopes_of_all_it_was_made_of() {
    let world = Spot::ExecuteComplete.world();
    let plan = world.plan();
    assert_eq!(
        plan.scopes(),
        [
            Scope::Global,
            Scope::Project("shop".parse().unwrap()),
            Scope::Action("tidy".parse().unwrap()),
            Scope::Plan(plan.id),
        ]
    );
}

#[test]
fn a_result_that_meets_its_rules_is_sent_back_by_nobody_but_a_person() {
    let world = Spot::ExecuteComplete.world();
    let refusal = world.refused(&worker(), world.command(Verb::Revise));
    assert_eq!(refusal, Refusal::NothingToFix);
}

/// A signature is on the rules, too: whatever becomes of them, it has to be given again, and the reason is
/// said.
#[test]
fn a_signature_is_void_once_the_rules_are_others() {
    let mut signed = Spot::ExecuteComplete.world();
    signed.person(Verb::Approve);
    let reworded = |world: &mut World| world.facts.rules.rules[0].revision = 9;
    let removed = |world: &mut World| drop(world.facts.rules.rules.remove(0));
    let add = |world: &mut World, name: &str| {
        let mut rule = world.facts.rules.rules[0].clone();
        rule.draft.name = name.parse().unwrap();
        rule.draft.at = vec![Gate::Apply];
        world.facts.rules.rules.push(rule);
    };
    let added = |world: &mut World| add(world, "new");
    let changes: [&dyn Fn(&mut World); 3] = [&reworded, &removed, &added];
    let reasons = ["added or reworded", "removed", "added or reworded"];
    for (change, why) in changes.into_iter().zip(reasons) {
        let mut world = signed.clone();
        change(&mut world);
        let refusal = world.refused(&ada(), world.command(Verb::ApplyPlan));
        let Refusal::ApprovalVoid(reason) = &refusal else {
            panic!("{refusal:?}");
        };
        assert!(reason.contains(why), "{reason}");
        world.person(Verb::Approve).person(Verb::ApplyPlan);
        // The same at the point of no return.
        world.person(Verb::StartApply);
        let mut later = world.clone();
        add(&mut later, "newer");
        let refusal = later.refused(&ada(), later.command(Verb::PrepareApply));
        assert!(matches!(refusal, Refusal::ApprovalVoid(_)), "{refusal:?}");
    }
}

/// Under `manual` a signature does not outlive that its target moved; under the others it does.
#[test]
fn a_signature_outlives_a_merge_as_the_profile_says() {
    for profile in Profile::ALL {
        let mut world = at_work(profile);
        world.person(Verb::CompleteExecute);
        let tips = |world: &World, commit: &str| {
            let resources = world.plan().resources.iter();
            let tip = |resource: &plan::PlanResource| plan::Base {
                resource: resource.name.clone(),
                commit: commit.to_owned(),
            };
            Targets {
                tips: resources.map(tip).collect(),
                rules: Vec::new(),
            }
        };
        let targets = tips(&world, "elsewhere");
        let approve = Command::Approve {
            how: plan::How::default(),
            targets,
            once: false,
        };
        world.submit(&ada(), approve).unwrap();
        world.person(Verb::ApplyPlan).person(Verb::StartApply);
        let prepared = world.decide(&ada(), world.command(Verb::PrepareApply));
        let survives = profile.approval_survives_merge();
        assert_eq!(prepared.is_ok(), survives, "{profile}: {prepared:?}");
    }
}

/// Each target is held against what was seen of itself.
#[test]
fn a_target_has_moved_if_it_is_not_where_it_was_seen_itself() {
    let mut world = at_work(Profile::Manual);
    world.person(Verb::CompleteExecute);
    let names: Vec<String> = world
        .plan()
        .resources
        .iter()
        .map(|resource| resource.name.clone())
        .collect();
    let seen_at = |commit: usize| format!("tip of {}", names[commit]);
    let tips = (0..names.len()).map(|number| plan::Base {
        resource: names[number].clone(),
        commit: seen_at(number),
    });
    let approve = Command::Approve {
        how: plan::How::default(),
        targets: Targets {
            tips: tips.collect(),
            rules: Vec::new(),
        },
        once: false,
    };
    world.submit(&ada(), approve).unwrap();
    world.person(Verb::ApplyPlan).person(Verb::StartApply);
    let prepare = |at: &dyn Fn(usize) -> String| {
        let mut command = world.command(Verb::PrepareApply);
        if let Command::PrepareApply { moves, .. } = &mut command {
            for (number, step) in moves.iter_mut().enumerate() {
                step.old = at(number);
            }
        }
        world.decide(&ada(), command)
    };
    assert!(names.len() > 1);
    assert!(prepare(&seen_at).is_ok());
    let swapped = |number: usize| seen_at((number + 1) % names.len());
    assert!(matches!(prepare(&swapped), Err(Refusal::ApprovalVoid(_))));
}

/// Rules of the repository come with the judgement; they bind like any other, and what nobody judged is
/// not passed over.
#[test]
fn a_rule_of_the_repository_blocks_like_any_other() {
    let mut world = Spot::ExecuteComplete.world();
    world.facts.rules.rules.clear();
    let mut rule = Spot::ExecuteComplete.world().facts.rules.rules[0].clone();
    rule.scope = Scope::Repository("site".into());
    let targets = Targets {
        tips: Vec::new(),
        rules: vec![rule.clone()],
    };
    let approve = Command::Approve {
        how: plan::How::default(),
        targets: targets.clone(),
        once: false,
    };
    world.submit(&ada(), approve).unwrap();
    let apply = |verdicts| Command::ApplyPlan {
        judgement: Judgement {
            targets: targets.clone(),
            verdicts,
            ..world.judgement(Judged::Held)
        },
    };
    let unjudged = world.refused(&ada(), apply(Vec::new()));
    assert!(matches!(unjudged, Refusal::JudgementStale { .. }));
    let verdict = |outcome| RuleVerdict {
        rule: rule.reference(),
        outcome,
    };
    let failed = verdict(RuleOutcome::Failed("no".into()));
    let decision = world.decide(&ada(), apply(vec![failed])).unwrap();
    assert!(matches!(decision.receipt.outcome, Outcome::Blocked(_)));
    let decision = world
        .decide(&ada(), apply(vec![verdict(RuleOutcome::Held)]))
        .unwrap();
    assert_eq!(decision.receipt.outcome, Outcome::Done);
}

/// What waits for a person blocks, and is nothing to mend.
#[test]
fn a_rule_that_nobody_judged_blocks_and_is_not_mended() {
    let mut world = at_work(Profile::Auto);
    let Command::CompleteExecute {
        epoch,
        result,
        captured,
        allow_empty,
        mut judgement,
    } = world.command(Verb::CompleteExecute)
    else {
        panic!("this hands in a result");
    };
    judgement.verdicts[0].outcome = RuleOutcome::Open(Waits::Person);
    let verdicts = judgement.verdicts.clone();
    let complete = Command::CompleteExecute {
        epoch,
        result,
        captured,
        allow_empty,
        judgement,
    };
    world.submit(&worker(), complete).unwrap();
    assert_eq!(world.plan().remedy(), None);
    let judgement = Judgement {
        verdicts,
        ..world.judgement(Judged::Held)
    };
    let decision = world
        .decide(&worker(), Command::ApplyPlan { judgement })
        .unwrap();
    let Outcome::Blocked(blocked) = decision.receipt.outcome else {
        panic!("{:?}", decision.receipt.outcome);
    };
    assert_eq!(blocked.failed[0].waits, Some(Waits::Person));
}

/// An answer takes the place of an earlier one to the same question about the same thing, and of no other.
#[test]
fn what_a_person_said_stays_until_they_say_otherwise() {
    let mut world = Spot::ExecuteComplete.world();
    for rule in &mut world.facts.rules.rules {
        rule.draft.check = Check::Ask("Is it good?".into());
    }
    let mut say = |rule: &str, subject: &[u8], outcome: RuleOutcome| {
        let command = Command::RuleOn {
            rule: rule.parse().unwrap(),
            subject: Digest::of(subject),
            outcome,
            targets: Targets::default(),
        };
        world.submit(&ada(), command).unwrap();
        let rulings = world.plan().rulings.iter();
        let said = rulings.map(|ruling| {
            (
                ruling.rule.name.to_string(),
                ruling.subject,
                ruling.outcome.clone(),
            )
        });
        said.collect::<Vec<_>>()
    };
    let (held, failed) = (RuleOutcome::Held, RuleOutcome::Failed("no".into()));
    let of = |rule: &str, subject: &[u8], outcome: &RuleOutcome| {
        (rule.to_owned(), Digest::of(subject), outcome.clone())
    };
    let (clean, looked_at) = (
        of("clean", b"result", &held),
        of("looked-at", b"result", &held),
    );
    assert_eq!(say("clean", b"result", held.clone()), vec![clean.clone()]);
    assert_eq!(
        say("looked-at", b"result", held.clone()),
        [clean.clone(), looked_at.clone()]
    );
    let merged = of("looked-at", b"merge", &held);
    assert_eq!(
        say("looked-at", b"merge", held.clone()),
        [clean, looked_at.clone(), merged.clone()]
    );
    let not_clean = of("clean", b"result", &failed);
    assert_eq!(
        say("clean", b"result", failed),
        [looked_at, merged, not_clean]
    );
}

#[test]
fn what_the_rules_of_a_gate_came_to_is_counted() {
    let mut world = Spot::StrategizeComplete.world();
    world.person(Verb::Waive);
    let clean = world.facts.rules.rules[0].clone();
    let mut rules = RuleBook::default();
    let mut verdicts = Vec::new();
    let names = [
        "clean", "one", "two", "soft", "hard", "hint", "tip", "nudge",
    ];
    for (number, name) in names.into_iter().enumerate() {
        let mut rule = clean.clone();
        rule.draft.name = name.parse().unwrap();
        rule.draft.advisory = number > 4;
        rule.draft.non_overridable = name == "hard";
        let outcome = match name {
            "one" | "two" => RuleOutcome::Held,
            _ => RuleOutcome::Failed("no".into()),
        };
        verdicts.push(RuleVerdict {
            rule: rule.reference(),
            outcome,
        });
        rules.rules.push(rule);
    }
    let judgement = Judgement {
        verdicts,
        ..Judgement::default()
    };
    let (counts, failed) = blocked_by(world.plan(), &rules, Gate::Execute, &judgement).unwrap();
    assert_eq!((counts.held, counts.advised, counts.waived), (2, 3, 1));
    let failed = failed
        .iter()
        .map(|failed| (failed.rule.name.as_str(), failed.waivable));
    assert_eq!(
        failed.collect::<Vec<_>>(),
        [("hard", false), ("soft", true)]
    );
    let advised = advice(world.plan(), &rules, Gate::Execute, &judgement).unwrap();
    assert_eq!(advised.len(), 3);
}
