//! What every command does in every state of a plan: one readable table, kept as a snapshot.
//!
//! Exhaustive by construction: the states come from [`Spot::of_stage`], the commands from
//! [`Verb::ALL`] through [`PlanWorld::command_with`]. A new variant of either does not compile
//! until it has an entry. `use` and the verbs about actions, projects and rules are not about an
//! existing plan.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use planwright_plan as plan;

use plan::{Caller, Command, Decision, Epoch, Profile, ReceiptOutcome, Refusal, Span, Verb};

use crate::spot::{Spot, StepCaller};
use crate::world::{ANSWER_TIMEOUT, CommandInput, LandingSetup, PlanWorld, ada, worker};

/// A command to try on a plan.
struct CommandTrial {
    label: String,
    /// Verbs submitted first, where they are accepted.
    before: Option<Verb>,
    wait: Span,
    command: Command,
}

/// Returns the inputs of a verb that can have different outcomes.
fn command_trials(world: &PlanWorld, verb: Verb, input: CommandInput) -> Vec<CommandTrial> {
    let trial = |label: &str, variant| -> Option<CommandTrial> {
        Some(CommandTrial {
            label: match label {
                "" => verb.to_string(),
                label => format!("{verb} ({label})"),
            },
            before: None,
            wait: Span(0),
            command: world.command_with(verb, CommandInput { variant, ..input })?,
        })
    };
    let after = |trial: Option<CommandTrial>, before| {
        trial.map(|trial| CommandTrial {
            before: Some(before),
            ..trial
        })
    };
    let later = |trial: Option<CommandTrial>| {
        trial.map(|trial| CommandTrial {
            wait: ANSWER_TIMEOUT,
            ..trial
        })
    };
    let tried = match verb {
        Verb::CreateAction
        | Verb::ArchiveAction
        | Verb::AddRule
        | Verb::RemoveRule
        | Verb::CreateProject
        | Verb::LinkResource
        | Verb::UnlinkResource
        | Verb::RelinkResource
        | Verb::PauseProject
        | Verb::ResumeProject
        | Verb::DeleteProject
        | Verb::Use
        | Verb::StartStrategize
        | Verb::RecordBases
        | Verb::CompleteStrategize
        | Verb::RecordDecision
        | Verb::ExecutePlan
        | Verb::StartExecute
        | Verb::OpenChangeset
        | Verb::CompleteExecute
        | Verb::Review
        | Verb::Approve
        | Verb::StartApply
        | Verb::WithdrawApply
        | Verb::CompleteApply
        | Verb::Constrain
        | Verb::Renew
        | Verb::Reserve
        | Verb::Settle
        | Verb::Release
        | Verb::Ask
        | Verb::Retry
        | Verb::Revise
        | Verb::Revert
        | Verb::Waive
        | Verb::RuleOn
        | Verb::KeepEvidence
        | Verb::Cancel
        | Verb::PrepareApply
        | Verb::Undo => vec![trial("", 0)],
        Verb::RecordChange | Verb::SealChangeset => vec![
            trial("none open", 0),
            after(trial("one open", 0), Verb::OpenChangeset),
        ],
        Verb::Pick => vec![trial("shown", 0), trial("stale", 2)],
        Verb::ApplyPlan => vec![trial("", 0), after(trial("approved", 0), Verb::Approve)],
        Verb::Reclaim => vec![
            trial("owner dead", 0),
            trial("lease runs", 1),
            later(trial("lease expired", 1)),
        ],
        Verb::Fail => vec![trial("actor", 0), trial("transient", 1)],
        Verb::Answer => vec![
            trial("landed", 0),
            trial("again", 1),
            trial("drop", 2),
            trial("other", 3),
        ],
        Verb::ExpireQuestion => vec![trial("too early", 0), later(trial("deadline passed", 0))],
        Verb::AskPermission => vec![trial("", 0), after(trial("repeated", 0), verb)],
        Verb::AnswerPermission => vec![
            trial("none open", 0),
            after(trial("allowed", 0), Verb::AskPermission),
        ],
    };
    tried
        .into_iter()
        .flatten()
        .map(|trial| match trial.before {
            // The earlier steps changed the plan's version, so build a new judgement.
            Some(before) => CommandTrial {
                command: after_step(world, before)
                    .and_then(|world| world.command_with(verb, input))
                    .unwrap_or(trial.command),
                ..trial
            },
            None => trial,
        })
        .collect()
}

fn after_step(world: &PlanWorld, verb: Verb) -> Option<PlanWorld> {
    let mut world = world.clone();
    let command = world.default_command(verb);
    world.submit(&ada(), command).ok()?;
    Some(world)
}

impl CommandTrial {
    fn run_on(&self, world: &PlanWorld, caller: &Caller) -> Result<String, String> {
        let stepped = self.before.and_then(|verb| after_step(world, verb));
        let mut world = stepped.unwrap_or_else(|| world.clone());
        world.advance_clock(self.wait);
        let answer = world.decide(caller, self.command.clone());
        describe_outcome(&world, &answer)
    }
}

/// Describes the outcome of a command. `Err` if it was refused.
fn describe_outcome(
    world: &PlanWorld,
    answer: &Result<Decision, Refusal>,
) -> Result<String, String> {
    let decision = match answer {
        Ok(decision) => decision,
        Err(refusal) => return Err(refusal_kind(refusal)),
    };
    match &decision.receipt.outcome {
        ReceiptOutcome::AlreadyDone => return Ok("already done".into()),
        ReceiptOutcome::Blocked(_) => return Ok("blocked".into()),
        ReceiptOutcome::Done => {}
    }
    let Some(change) = decision.plans.first() else {
        return Ok("rows".into());
    };
    let (before, after) = (world.stage(), change.plan.stage().to_string());
    if change.plan.id() != world.plan().id() {
        Ok(format!("→ a new plan in {after}"))
    } else if before == after {
        let events: Vec<_> = change.events.iter().map(|one| one.event.kind()).collect();
        Ok(format!("event: {}", events.join(", ")))
    } else {
        Ok(format!("→ {after}"))
    }
}

fn refusal_kind(refusal: &Refusal) -> String {
    format!("{refusal:?}")
        .chars()
        .take_while(char::is_ascii_alphanumeric)
        .collect()
}

/// One block per state: accepted commands, then refused ones by kind of refusal.
fn describe_place(world: &PlanWorld, input: CommandInput, verbs: &[Verb]) -> String {
    let mut text = format!("{}\n", world.stage());
    let mut refused: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for &verb in verbs {
        let tried: Vec<_> = command_trials(world, verb, input)
            .into_iter()
            .map(|trial| (trial.run_on(world, &ada()), trial.label))
            .collect();
        for (outcome, label) in merge_same_answers(verb, tried) {
            match outcome {
                Ok(done) => writeln!(text, "  {label:33} {done}").unwrap(),
                Err(kind) => refused.entry(kind).or_default().push(label),
            }
        }
    }
    for (kind, labels) in refused {
        writeln!(text, "{}", wrap_labels(&format!("  ✗ {kind}:"), &labels)).unwrap();
    }
    text + "\n"
}

type TrialAnswer = (Result<String, String>, String);

/// Merges inputs with the same outcome into one line.
fn merge_same_answers(verb: Verb, tried: Vec<TrialAnswer>) -> Vec<TrialAnswer> {
    match tried.first() {
        Some((first, _)) if tried.iter().all(|(outcome, _)| outcome == first) => {
            vec![(first.clone(), verb.to_string())]
        }
        Some(_) | None => tried,
    }
}

fn wrap_labels(head: &str, labels: &[String]) -> String {
    let mut lines = vec![head.to_owned()];
    for label in labels {
        let line = lines.last_mut().unwrap();
        if line.chars().count() + label.len() > 96 {
            lines.push(format!("      {label}"));
        } else {
            write!(line, " {label}").unwrap();
        }
        lines.last_mut().unwrap().push(',');
    }
    lines.join("\n").trim_end_matches(',').to_owned()
}

#[test]
fn every_command_in_every_state() {
    let mut text = String::from("profile review, with targets, by a person, right epoch\n\n");
    for spot in Spot::ALL {
        let world = spot.default_world();
        text += &describe_place(&world, world.default_input(), Verb::ALL);
    }
    insta::assert_snapshot!(text);
}

#[test]
fn every_command_of_a_holder_with_another_epoch() {
    let fenced: Vec<Verb> = Verb::ALL
        .iter()
        .copied()
        .filter(|verb| {
            let world = Spot::StrategizeQueued.default_world();
            let command = world.command_with(*verb, world.default_input());
            command.is_some_and(|command| command.epoch().is_some())
        })
        .collect();
    let mut text = String::new();
    for (title, shift) in [("an epoch that is over", -1), ("an epoch to come", 1)] {
        writeln!(text, "== {title}\n").unwrap();
        let mut alike: Vec<(String, Vec<String>)> = Vec::new();
        for spot in Spot::ALL {
            let world = spot.default_world();
            let Some(epoch) = world.plan().epoch().0.checked_add_signed(shift) else {
                continue;
            };
            let input = CommandInput {
                epoch: Epoch(epoch),
                ..world.default_input()
            };
            let block = describe_place(&world, input, &fenced);
            let (stage, answers) = block.split_once('\n').unwrap();
            match alike.iter_mut().find(|(same, _)| same == answers) {
                Some((_, stages)) => stages.push(stage.into()),
                None => alike.push((answers.into(), vec![stage.into()])),
            }
        }
        for (answers, stages) in alike {
            write!(text, "{}\n{answers}", stages.join(" · ")).unwrap();
        }
    }
    insta::assert_snapshot!(text);
}

#[test]
fn every_command_in_apply_without_targets() {
    let apply = || {
        Spot::ALL
            .iter()
            .filter(|spot| format!("{spot:?}").starts_with("Apply"))
    };
    let text = |lands| -> String {
        let blocks = apply().map(|spot| {
            let world = spot.reach_world(Profile::Review, lands, StepCaller::Person);
            describe_place(&world, world.default_input(), Verb::ALL)
        });
        blocks.collect()
    };
    assert_eq!(
        text(LandingSetup::ReadOnly),
        text(LandingSetup::Projectless),
        "read-only and project-less plans land alike"
    );
    insta::assert_snapshot!(text(LandingSetup::ReadOnly));
}

/// What a worker may do without a person: every verb without an epoch, and `fail`, which may
/// schedule a retry. A worker takes the plan to each state as far as its profile allows, a person
/// the rest.
#[test]
fn workers_may_do_what_each_profile_allows() {
    let columns =
        |cells: &[String]| -> String { cells.iter().map(|cell| format!("{cell:12}")).collect() };
    let heads = Profile::ALL.map(|profile| profile.to_string());
    let mut text = format!("{:35}{}where\n", "", columns(&heads));
    for (label, rows) in answers_by_label() {
        for (cells, stages) in rows {
            let stages = stages.join(" · ");
            writeln!(text, "{label:35}{}{stages}", columns(&cells)).unwrap();
        }
    }
    insta::assert_snapshot!(text);
}

type AnswerRows = Vec<(Vec<String>, Vec<String>)>;

/// Returns the answers under each profile, and the stages with these answers.
fn answers_by_label() -> Vec<(String, AnswerRows)> {
    let mut table: Vec<(String, AnswerRows)> = Vec::new();
    let tried = |verb: &&Verb| {
        let world = Spot::StrategizeQueued.default_world();
        let command = world.command_with(**verb, world.default_input());
        command.is_some_and(|command| command.epoch().is_none()) || **verb == Verb::Fail
    };
    for &verb in Verb::ALL.iter().filter(tried) {
        for spot in Spot::ALL {
            let worlds = Profile::ALL.map(|profile| {
                spot.reach_world(profile, LandingSetup::OnTargets, StepCaller::WorkerFirst)
            });
            let stage = worlds[0].stage();
            let all = worlds.each_ref().map(|world| {
                let trials = command_trials(world, verb, world.default_input());
                let tried = trials.into_iter().map(|trial| {
                    let stays = |answer: &Result<String, String>| {
                        answer.is_err() || answer.as_deref() == Ok("already done")
                    };
                    let (by_person, by_worker) =
                        (trial.run_on(world, &ada()), trial.run_on(world, &worker()));
                    let nothing = stays(&by_person) && stays(&by_worker);
                    (trial.label, answer_cell(verb, by_worker), nothing)
                });
                tried.collect::<Vec<_>>()
            });
            for (index, (label, ..)) in all[0].iter().enumerate() {
                if all.iter().all(|tried| tried[index].2) {
                    continue;
                }
                let cells = all.iter().map(|tried| tried[index].1.clone()).collect();
                let rows = rows_for_label(&mut table, label);
                match rows.iter_mut().find(|(same, _)| *same == cells) {
                    Some((_, stages)) => stages.push(stage.clone()),
                    None => rows.push((cells, vec![stage.clone()])),
                }
            }
        }
    }
    table
}

fn rows_for_label<'a>(table: &'a mut Vec<(String, AnswerRows)>, label: &str) -> &'a mut AnswerRows {
    let at = table.iter().position(|(known, _)| known == label);
    let at = at.unwrap_or_else(|| {
        table.push((label.to_owned(), Vec::new()));
        table.len() - 1
    });
    &mut table[at].1
}

fn answer_cell(verb: Verb, answer: Result<String, String>) -> String {
    match answer {
        // The profiles differ in whether the plan stops or retries.
        Ok(done) if verb == Verb::Fail => done.split('/').next_back().unwrap().into(),
        Ok(_) => "goes".into(),
        Err(kind) if kind == "NeedsPerson" || kind == "NotAuthorized" => "asks".into(),
        Err(kind) => kind,
    }
}
