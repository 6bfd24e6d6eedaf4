//! Gates: which rules block which commands, and which judgements are accepted.

use planwright_plan as plan;

use plan::command::{ApplyPlan, ApproveResult, CompleteExecute, PrepareApply, RecordRuling};
use plan::decide::{evaluate_gate, failed_advisory_rules};
use plan::invariant::{Gate, RuleBook, RuleCheck, RuleScope};
use plan::judgement::{
    GateJudgement, PendingVerdictReason, PlanTargets, RuleEvidence, RuleOutcome, RuleVerdict,
};
use plan::plan::{MAX_AUTOMATIC_REVERSIONS, MAX_FIXES, ResultRemedy, RuleWaiver};
use plan::{Command, Digest, Profile, ReceiptOutcome, Refusal, Verb};
use serde_json::json;

use crate::spot::Spot;
use crate::world::{
    CommandInput, JudgementVariant, LandingSetup, PlanWorld, START_TIME, ada, worker,
};

/// Leaves only one rule, judged at this gate.
fn with_rule_at(mut world: PlanWorld, gate: Gate) -> PlanWorld {
    let rules = &mut world.facts.rules.rules;
    rules.truncate(1);
    rules[0].draft.at = vec![gate];
    world
}

fn submit_judged(
    world: &PlanWorld,
    verb: Verb,
    judged: JudgementVariant,
) -> Result<ReceiptOutcome, Refusal> {
    let input = CommandInput {
        judged,
        ..world.default_input()
    };
    let command = world.command_with(verb, input).unwrap();
    let decision = world.decide(&ada(), command)?;
    Ok(decision.receipt.outcome)
}

/// Every gated command, a world where it applies, and the gates whose rules block it.
fn gated_commands() -> [(PlanWorld, Verb, &'static [Gate]); 5] {
    let mut approved = Spot::ExecuteComplete.default_world();
    approved.submit_as_person(Verb::Approve);
    let apply = &[Gate::Result, Gate::Apply];
    [
        (
            Spot::StrategizeQueued.default_world(),
            Verb::StartStrategize,
            &[Gate::Strategize],
        ),
        (
            Spot::StrategizeComplete.default_world(),
            Verb::ExecutePlan,
            &[Gate::Execute],
        ),
        // A failing result blocks apply, but not complete-execute.
        (
            Spot::ExecuteProcessing.default_world(),
            Verb::CompleteExecute,
            &[],
        ),
        (approved, Verb::ApplyPlan, apply),
        (
            Spot::ApplyProcessing.default_world(),
            Verb::PrepareApply,
            apply,
        ),
    ]
}

#[test]
fn a_failing_rule_blocks_at_its_own_gates_only() {
    for (world, verb, gates) in gated_commands() {
        for gate in Gate::ALL {
            let mut world = with_rule_at(world.clone(), gate);
            let rules = world
                .facts
                .rules
                .effective_rules_at(Gate::Apply.judged_gates());
            let rules: Vec<_> = rules.iter().map(|rule| rule.reference()).collect();
            if world.plan().approval().is_some() {
                world.edit_plan(|fields| fields["approval"]["rules"] = json!(rules));
            }
            let outcome = submit_judged(&world, verb, JudgementVariant::Failed).unwrap();
            let blocked = matches!(outcome, ReceiptOutcome::Blocked(_));
            assert_eq!(blocked, gates.contains(&gate), "{verb} by a rule at {gate}");
            let outcome = submit_judged(&world, verb, JudgementVariant::Held).unwrap();
            assert_eq!(outcome, ReceiptOutcome::Done, "{verb} by a rule at {gate}");
        }
    }
}

#[test]
fn a_failing_advisory_rule_is_counted_and_does_not_block() {
    for (mut world, verb, _) in gated_commands() {
        for rule in &mut world.facts.rules.rules {
            rule.draft.advisory = true;
        }
        let outcome = submit_judged(&world, verb, JudgementVariant::Failed);
        assert_eq!(outcome, Ok(ReceiptOutcome::Done), "{verb}");
    }
}

#[test]
fn a_non_overridable_rule_blocks_despite_a_waiver() {
    for (mut world, verb, gates) in gated_commands() {
        let rule = &mut world.facts.rules.rules[0];
        rule.draft.non_overridable = true;
        let waiver = RuleWaiver {
            rule: rule.reference(),
            by: ada(),
            reason: "smuggled in".into(),
            at: world.now,
        };
        world.edit_plan(|fields| fields["waivers"] = json!([waiver]));
        let outcome = submit_judged(&world, verb, JudgementVariant::Failed).unwrap();
        let blocked = matches!(outcome, ReceiptOutcome::Blocked(_));
        assert_eq!(blocked, !gates.is_empty(), "{verb}");
    }
}

#[test]
fn a_judgement_of_another_plan_version_or_other_rules_is_refused() {
    for (world, verb, _) in gated_commands() {
        for judged in JudgementVariant::ALL
            .into_iter()
            .filter(|one| one.is_stale())
        {
            let refusal = submit_judged(&world, verb, judged).unwrap_err();
            assert!(
                matches!(refusal, Refusal::JudgementStale { .. }),
                "{verb}, {judged:?}"
            );
        }
    }
}

#[test]
fn a_rule_added_while_judging_makes_the_judgement_stale_in_every_scope_of_the_plan() {
    for (world, verb, _) in gated_commands() {
        let plan = world.plan();
        let scopes = [
            RuleScope::Global,
            RuleScope::Action(plan.action().cloned().unwrap()),
            RuleScope::Plan(plan.id()),
        ];
        for scope in scopes {
            let mut later = world.clone();
            *later
                .facts
                .rules
                .revisions
                .entry(scope.clone())
                .or_default() += 1;
            let refusal = later.expect_refusal(&ada(), world.default_command(verb));
            assert!(
                matches!(refusal, Refusal::JudgementStale { .. }),
                "{verb} after a change in {scope}"
            );
        }
    }
}

#[test]
fn a_landing_is_not_prepared_without_a_valid_approval() {
    let mut world = Spot::ApplyProcessing.default_world();
    world.edit_plan(|fields| fields["approval"] = json!(null));
    let refusal = world.expect_refusal(&ada(), world.default_command(Verb::PrepareApply));
    assert_eq!(refusal, Refusal::NeedsApproval);
}

/// Submits a result that fails the rule.
fn submit_failing_result(world: &mut PlanWorld) {
    let input = CommandInput {
        judged: JudgementVariant::Failed,
        ..world.default_input()
    };
    let complete = world.command_with(Verb::CompleteExecute, input).unwrap();
    world.submit(&worker(), complete).unwrap();
}

fn world_in_execute(profile: Profile) -> PlanWorld {
    let mut world = PlanWorld::new(profile, LandingSetup::OnTargets);
    world
        .submit_as_person(Verb::StartStrategize)
        .submit_as_person(Verb::CompleteStrategize)
        .submit_as_person(Verb::ExecutePlan)
        .submit_as_person(Verb::StartExecute);
    world
}

/// The engine sends a failing result back three times under `review` and `auto`. Then `auto`
/// reverts to strategize, and the others wait for a person.
#[test]
fn failing_results_are_fixed_automatically_within_limits() {
    let expected = [
        (Profile::Manual, 0, None),
        (Profile::Supervised, 0, None),
        (Profile::Review, MAX_FIXES, None),
        (Profile::Auto, MAX_FIXES, Some(ResultRemedy::Revert)),
    ];
    for (profile, fixes, then) in expected {
        let mut world = world_in_execute(profile);
        submit_failing_result(&mut world);
        assert_eq!(world.plan().unmet_rules().count(), 1);
        for made in 0..fixes {
            assert_eq!(world.plan().fixes(), made);
            assert_eq!(
                world.plan().automatic_remedy(),
                Some(ResultRemedy::Fix),
                "{profile} {made}"
            );
            assert!(!world.plan().is_stuck_on_rules(), "{profile} {made}");
            let written = json!(world.plan().state()).get("fixes").cloned();
            assert_eq!(written, (made > 0).then(|| made.into()), "{profile}");
            world.submit_as(&worker(), Verb::Revise);
            assert_eq!(
                world.plan().unmet_rules().count(),
                0,
                "nothing is judged yet"
            );
            world.submit_as_person(Verb::StartExecute);
            submit_failing_result(&mut world);
        }
        assert_eq!(world.plan().automatic_remedy(), then, "{profile}");
        assert_eq!(
            world.plan().is_stuck_on_rules(),
            then.is_none(),
            "{profile}"
        );
        let refusal = world.decide(&worker(), world.default_command(Verb::Revise));
        assert!(refusal.is_err(), "{profile}");
        // A person's revise resets the count of automatic fixes.
        world.submit_as_person(Verb::Revise);
        assert_eq!(world.plan().fixes(), 0);
        assert!(!world.plan().is_stuck_on_rules(), "{profile}");
    }
}

/// Under `auto` a plan reverts at most three times. Then it waits for a person.
#[test]
fn unfixable_results_are_reverted_within_limits() {
    let mut world = world_in_execute(Profile::Auto);
    let mut reversions = 0;
    for _ in 0..100 {
        submit_failing_result(&mut world);
        match world.plan().automatic_remedy() {
            Some(ResultRemedy::Fix) => {
                world.submit_as(&worker(), Verb::Revise);
            }
            Some(ResultRemedy::Revert) => {
                reversions += 1;
                world
                    .submit_as(&worker(), Verb::Revert)
                    .submit_as_person(Verb::StartStrategize)
                    .submit_as_person(Verb::CompleteStrategize)
                    .submit_as_person(Verb::ExecutePlan);
            }
            None => {
                assert_eq!(reversions, MAX_AUTOMATIC_REVERSIONS);
                assert!(world.plan().is_stuck_on_rules());
                return;
            }
        }
        world.submit_as_person(Verb::StartExecute);
    }
    panic!("the engine keeps fixing it");
}

#[test]
fn a_waived_rule_needs_no_fix() {
    let mut world = world_in_execute(Profile::Review);
    submit_failing_result(&mut world);
    world.submit_as_person(Verb::Waive);
    assert_eq!(world.plan().unmet_rules().count(), 0);
    assert_eq!(world.plan().automatic_remedy(), None);
    assert!(!world.plan().is_stuck_on_rules());
}

/// Evidence is sorted by rule, then by subject, so that the order is the same everywhere.
#[test]
fn evidence_is_ordered_by_rule_and_subject() {
    let world = Spot::ExecuteComplete.default_world();
    let evidence = |rule: usize, subject: u8| RuleEvidence {
        plan: world.plan().id(),
        entry: 1,
        subject: Digest::hash_bytes(&[subject]),
        verdict: RuleVerdict {
            rule: world.facts.rules.rules[rule].reference(),
            outcome: RuleOutcome::Held,
        },
        at: START_TIME,
    };
    let mut subjects = [1, 2];
    subjects.sort_by_key(|subject| Digest::hash_bytes(&[*subject]));
    let mut rules = [0, 1];
    rules.sort_by_key(|rule| world.facts.rules.rules[*rule].reference());
    let sorted: Vec<RuleEvidence> = rules
        .into_iter()
        .flat_map(|rule| subjects.map(|subject| evidence(rule, subject)))
        .collect();
    let mut evidence_list = vec![
        sorted[2].clone(),
        sorted[1].clone(),
        sorted[3].clone(),
        sorted[0].clone(),
    ];
    evidence_list.sort_by(RuleEvidence::compare_by_rule);
    assert_eq!(evidence_list, sorted);
}

#[test]
fn a_plan_has_the_scopes_of_its_action_and_projects() {
    let world = Spot::ExecuteComplete.default_world();
    let plan = world.plan();
    assert_eq!(
        plan.rule_scopes(),
        [
            RuleScope::Global,
            RuleScope::Project("shop".parse().unwrap()),
            RuleScope::Action("tidy".parse().unwrap()),
            RuleScope::Plan(plan.id()),
        ]
    );
}

#[test]
fn only_a_person_sends_back_a_result_that_meets_its_rules() {
    let world = Spot::ExecuteComplete.default_world();
    let refusal = world.expect_refusal(&worker(), world.default_command(Verb::Revise));
    assert_eq!(refusal, Refusal::NothingToFix);
}

/// An approval also covers the rules. Any change to them voids it, and the refusal names the
/// change.
#[test]
fn an_approval_is_void_once_the_rules_change() {
    let mut signed = Spot::ExecuteComplete.default_world();
    signed.submit_as_person(Verb::Approve);
    let reworded = |world: &mut PlanWorld| world.facts.rules.rules[0].revision = 9;
    let removed = |world: &mut PlanWorld| drop(world.facts.rules.rules.remove(0));
    let add = |world: &mut PlanWorld, name: &str| {
        let mut rule = world.facts.rules.rules[0].clone();
        rule.draft.name = name.parse().unwrap();
        rule.draft.at = vec![Gate::Apply];
        world.facts.rules.rules.push(rule);
    };
    let added = |world: &mut PlanWorld| add(world, "new");
    let changes: [&dyn Fn(&mut PlanWorld); 3] = [&reworded, &removed, &added];
    let reasons = ["added or changed", "removed", "added or changed"];
    for (change, why) in changes.into_iter().zip(reasons) {
        let mut world = signed.clone();
        change(&mut world);
        let refusal = world.expect_refusal(&ada(), world.default_command(Verb::ApplyPlan));
        let Refusal::ApprovalVoid(reason) = &refusal else {
            panic!("{refusal:?}");
        };
        assert!(reason.contains(why), "{reason}");
        world
            .submit_as_person(Verb::Approve)
            .submit_as_person(Verb::ApplyPlan);
        // The same holds for prepare-apply.
        world.submit_as_person(Verb::StartApply);
        let mut later = world.clone();
        add(&mut later, "newer");
        let refusal = later.expect_refusal(&ada(), later.default_command(Verb::PrepareApply));
        assert!(matches!(refusal, Refusal::ApprovalVoid(_)), "{refusal:?}");
    }
}

/// Under `manual` an approval is void once its target moves. Under the other profiles it is not.
#[test]
fn the_profile_decides_whether_an_approval_survives_a_merge() {
    for profile in Profile::ALL {
        let mut world = world_in_execute(profile);
        world.submit_as_person(Verb::CompleteExecute);
        let tips = |world: &PlanWorld, commit: &str| {
            let resources = world.plan().resources().iter();
            let tip = |resource: &plan::PlanResource| plan::ResourceCommit {
                resource: resource.name.clone(),
                commit: commit.to_owned(),
            };
            PlanTargets {
                tips: resources.map(tip).collect(),
                rules: Vec::new(),
            }
        };
        let targets = tips(&world, "elsewhere");
        let approve = Command::from(ApproveResult {
            options: plan::LandingOptions::default(),
            targets,
            once: false,
            lands: false,
        });
        world.submit(&ada(), approve).unwrap();
        world
            .submit_as_person(Verb::ApplyPlan)
            .submit_as_person(Verb::StartApply);
        let prepared = world.decide(&ada(), world.default_command(Verb::PrepareApply));
        let survives = profile.approval_survives_merge();
        assert_eq!(prepared.is_ok(), survives, "{profile}: {prepared:?}");
    }
}

/// Each target is compared with its own tip, not with that of another target.
#[test]
fn each_target_is_compared_with_its_own_approved_tip() {
    let mut world = world_in_execute(Profile::Manual);
    world.submit_as_person(Verb::CompleteExecute);
    let names: Vec<String> = world
        .plan()
        .resources()
        .iter()
        .map(|resource| resource.name.clone())
        .collect();
    let seen_at = |commit: usize| format!("tip of {}", names[commit]);
    let tips = (0..names.len()).map(|number| plan::ResourceCommit {
        resource: names[number].clone(),
        commit: seen_at(number),
    });
    let approve = Command::from(ApproveResult {
        options: plan::LandingOptions::default(),
        targets: PlanTargets {
            tips: tips.collect(),
            rules: Vec::new(),
        },
        once: false,
        lands: false,
    });
    world.submit(&ada(), approve).unwrap();
    world
        .submit_as_person(Verb::ApplyPlan)
        .submit_as_person(Verb::StartApply);
    let prepare = |at: &dyn Fn(usize) -> String| {
        let mut command = world.default_command(Verb::PrepareApply);
        if let Command::PrepareApply(PrepareApply { moves, .. }) = &mut command {
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

/// Repository rules come with the judgement. They block like any other rule, and one without a
/// verdict is not skipped.
#[test]
fn a_repository_rule_blocks_like_any_other() {
    let mut world = Spot::ExecuteComplete.default_world();
    world.facts.rules.rules.clear();
    let mut rule = Spot::ExecuteComplete.default_world().facts.rules.rules[0].clone();
    rule.scope = RuleScope::Repository("site".into());
    let targets = PlanTargets {
        tips: Vec::new(),
        rules: vec![rule.clone()],
    };
    let approve = Command::from(ApproveResult {
        options: plan::LandingOptions::default(),
        targets: targets.clone(),
        once: false,
        lands: false,
    });
    world.submit(&ada(), approve).unwrap();
    let apply = |verdicts| {
        Command::from(ApplyPlan {
            judgement: GateJudgement {
                targets: targets.clone(),
                verdicts,
                ..world.judgement(JudgementVariant::Held)
            },
        })
    };
    let unjudged = world.expect_refusal(&ada(), apply(Vec::new()));
    assert!(matches!(unjudged, Refusal::JudgementStale { .. }));
    let verdict = |outcome| RuleVerdict {
        rule: rule.reference(),
        outcome,
    };
    let failed = verdict(RuleOutcome::Failed("no".into()));
    let decision = world.decide(&ada(), apply(vec![failed])).unwrap();
    assert!(matches!(
        decision.receipt.outcome,
        ReceiptOutcome::Blocked(_)
    ));
    let decision = world
        .decide(&ada(), apply(vec![verdict(RuleOutcome::Held)]))
        .unwrap();
    assert_eq!(decision.receipt.outcome, ReceiptOutcome::Done);
}

/// A rule that waits for a person blocks, but the engine does not try to fix it.
#[test]
fn a_rule_that_waits_for_a_person_blocks_and_is_not_fixed() {
    let mut world = world_in_execute(Profile::Auto);
    let Command::CompleteExecute(CompleteExecute {
        epoch,
        result,
        captured,
        allow_empty,
        mut judgement,
    }) = world.default_command(Verb::CompleteExecute)
    else {
        panic!("this hands in a result");
    };
    judgement.verdicts[0].outcome = RuleOutcome::Open(PendingVerdictReason::Person);
    let verdicts = judgement.verdicts.clone();
    let complete = Command::from(CompleteExecute {
        epoch,
        result,
        captured,
        allow_empty,
        judgement,
    });
    world.submit(&worker(), complete).unwrap();
    assert_eq!(world.plan().automatic_remedy(), None);
    let judgement = GateJudgement {
        verdicts,
        ..world.judgement(JudgementVariant::Held)
    };
    let decision = world
        .decide(&worker(), Command::from(ApplyPlan { judgement }))
        .unwrap();
    let ReceiptOutcome::Blocked(blocked) = decision.receipt.outcome else {
        panic!("{:?}", decision.receipt.outcome);
    };
    assert_eq!(blocked.failed[0].waits, Some(PendingVerdictReason::Person));
}

/// A ruling replaces an earlier one on the same rule and subject, and no other.
#[test]
fn a_ruling_stays_until_the_person_changes_it() {
    let mut world = Spot::ExecuteComplete.default_world();
    for rule in &mut world.facts.rules.rules {
        rule.draft.check = RuleCheck::Ask("Is it good?".into());
    }
    let mut rule_on = |rule: &str, subject: &[u8], outcome: RuleOutcome| {
        let command = Command::from(RecordRuling {
            rule: rule.parse().unwrap(),
            subject: Digest::hash_bytes(subject),
            outcome,
            targets: PlanTargets::default(),
        });
        world.submit(&ada(), command).unwrap();
        let rulings = world.plan().rulings().iter();
        let rows = rulings.map(|ruling| {
            (
                ruling.rule.name.to_string(),
                ruling.subject,
                ruling.outcome.clone(),
            )
        });
        rows.collect::<Vec<_>>()
    };
    let (held, failed) = (RuleOutcome::Held, RuleOutcome::Failed("no".into()));
    let ruling_row = |rule: &str, subject: &[u8], outcome: &RuleOutcome| {
        (
            rule.to_owned(),
            Digest::hash_bytes(subject),
            outcome.clone(),
        )
    };
    let (clean, looked_at) = (
        ruling_row("clean", b"result", &held),
        ruling_row("looked-at", b"result", &held),
    );
    assert_eq!(
        rule_on("clean", b"result", held.clone()),
        vec![clean.clone()]
    );
    assert_eq!(
        rule_on("looked-at", b"result", held.clone()),
        [clean.clone(), looked_at.clone()]
    );
    let merged = ruling_row("looked-at", b"merge", &held);
    assert_eq!(
        rule_on("looked-at", b"merge", held.clone()),
        [clean, looked_at.clone(), merged.clone()]
    );
    let not_clean = ruling_row("clean", b"result", &failed);
    assert_eq!(
        rule_on("clean", b"result", failed),
        [looked_at, merged, not_clean]
    );
}

#[test]
fn outcomes_of_rules_at_a_gate_are_counted() {
    let mut world = Spot::StrategizeComplete.default_world();
    world.submit_as_person(Verb::Waive);
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
    let judgement = GateJudgement {
        verdicts,
        ..GateJudgement::default()
    };
    let (counts, failed) = evaluate_gate(world.plan(), &rules, Gate::Execute, &judgement).unwrap();
    assert_eq!((counts.held, counts.advised, counts.waived), (2, 3, 1));
    let failed = failed
        .iter()
        .map(|failed| (failed.rule.name.as_str(), failed.waivable));
    assert_eq!(
        failed.collect::<Vec<_>>(),
        [("hard", false), ("soft", true)]
    );
    let advised = failed_advisory_rules(world.plan(), &rules, Gate::Execute, &judgement).unwrap();
    assert_eq!(advised.len(), 3);
}

/// What a check lacks, no agent can install: nothing is sent back, and a person is asked at once.
#[test]
fn a_broken_check_is_not_sent_back() {
    for profile in [Profile::Review, Profile::Auto] {
        let mut world = world_in_execute(profile);
        let command = world.default_command(Verb::CompleteExecute);
        let Command::CompleteExecute(mut complete) = command else {
            panic!("this hands in a result");
        };
        let outcome = RuleOutcome::Broken("`pytest` is missing".to_owned());
        complete.judgement.verdicts[0].outcome = outcome;
        world.submit(&worker(), Command::from(complete)).unwrap();
        let unmet: Vec<bool> = world.plan().unmet_rules().map(|rule| rule.broken).collect();
        assert_eq!(unmet, [true], "{profile}");
        assert_eq!(world.plan().automatic_remedy(), None, "{profile}");
        assert!(world.plan().is_stuck_on_rules(), "{profile}");
        let refusal = world.decide(&worker(), world.default_command(Verb::Revise));
        assert!(refusal.is_err(), "{profile}");
        world.submit_as_person(Verb::Waive);
        assert!(!world.plan().is_stuck_on_rules(), "{profile}");
    }
}
