//! Golden logs: event logs as earlier releases wrote them. Every release must replay them to the
//! same plans.
//!
//! `../golden/format-N/` contains for each log `NAME.jsonl`, with one event per line, and
//! `NAME.plans.json`, with the resulting plans. Files are added when the format changes and never
//! edited.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use planwright_plan as plan;

use plan::argument::ArgumentValue;
use plan::changeset::TreePath;
use plan::completion::{CompletedCommand, collect_completions};
use plan::event::PlanCreated;
use plan::evolve::replay_events;
use plan::plan::{PlanLimits, PlanOrigin, ProfileSource};
use plan::project::ResourceKind;
use plan::stage::{IgnoredPaths, ResultContent, ResultTree};
use plan::{
    Digest, Epoch, ErasableText, Event, Phase, Plan, PlanActors, PlanId, PlanResource, PlanVersion,
    Profile, RecordedEvent, Span, Verb,
};
use serde_json::Value;

use crate::completions::search_log;
use crate::world::{
    ANSWER_TIMEOUT, CommandInput, JudgementVariant, LandingSetup, PlanWorld, START_TIME, ada,
    decode_parts, merge_encoded_parts, worker,
};

macro_rules! kinds {
    ($($variant:ident),* $(,)?) => {
        /// Every event type.
        pub const KINDS: &[&str] = &[$(stringify!($variant)),*];

        /// Exhaustive, so that a new event must be listed here and added to a golden log.
        fn kind_of(event: &Event) -> &'static str {
            match event {
                $(Event::$variant { .. } => stringify!($variant),)*
            }
        }
    };
}

kinds!(
    Created,
    GateHeld,
    Claimed,
    BasesRecorded,
    DecisionsRecorded,
    StrategizeCompleted,
    ExecuteEntered,
    ChangesetSealed,
    ExecuteCompleted,
    ResultPicked,
    Approved,
    ApplyEntered,
    ApplyPrepared,
    ApplyWithdrawn,
    Landed,
    Constrained,
    Failed,
    RetryScheduled,
    Retried,
    Asked,
    Answered,
    QuestionExpired,
    PermissionAsked,
    PermissionAnswered,
    Revised,
    Reverted,
    Released,
    Reclaimed,
    Waived,
    RuledOn,
    Cancelled,
);

/// The format this release writes.
const CURRENT_FORMAT: &str = "format-1";

#[test]
fn every_golden_log_replays_to_its_stored_plans() {
    for log in golden_logs() {
        let events = read_log(&log);
        let kept = fs::read_to_string(log.with_extension("plans.json")).unwrap();
        let kept: Vec<Value> = serde_json::from_str(&kept).unwrap();
        let plans = replay_plans(&events);
        assert_eq!(plans.len(), kept.len(), "{}", log.display());
        for (plan, mut kept) in plans.iter().zip(kept) {
            let own: Vec<_> = events
                .iter()
                .filter(|one| one.plan == plan.id())
                .cloned()
                .collect();
            // Plans once held the last completion of every verb. Now the log tells it.
            let done = kept.as_object_mut().unwrap().remove("done");
            if let Some(done) = done {
                let done: BTreeMap<Verb, CompletedCommand> = serde_json::from_value(done).unwrap();
                assert_eq!(collect_completions(&own), done, "{}", log.display());
                for verb in Verb::ALL {
                    assert_eq!(search_log(*verb, &own).as_ref(), done.get(verb), "{verb}");
                }
                kept["created_by"] = serde_json::to_value(&own[0].by).unwrap();
            }
            assert_eq!(*plan, decode_parts(kept), "{}", log.display());
        }
    }
}

#[test]
fn golden_logs_of_this_format_contain_every_event() {
    let mut missing: Vec<&str> = KINDS.to_vec();
    for log in golden_logs().filter(|log| log.parent().unwrap().ends_with(CURRENT_FORMAT)) {
        for recorded in read_log(&log) {
            missing.retain(|kind| *kind != kind_of(&recorded.event));
        }
    }
    assert!(missing.is_empty(), "no event of the kinds {missing:?}");
}

/// If this fails, events are serialized differently. That needs a new format, an upcast from this
/// one and new golden logs.
#[test]
fn events_are_still_written_in_this_format() {
    for log in golden_logs().filter(|log| log.parent().unwrap().ends_with(CURRENT_FORMAT)) {
        let kept = fs::read_to_string(&log).unwrap();
        assert_eq!(to_json_lines(&read_log(&log)), kept, "{}", log.display());
    }
}

/// Run this once to create the logs of a new format. It writes missing files and fails until they
/// are committed. Existing files are never changed.
#[test]
fn this_format_has_golden_logs() {
    let folder = golden_dir().join(CURRENT_FORMAT);
    fs::create_dir_all(&folder).unwrap();
    let mut written = Vec::new();
    let logs = [
        ("every-event", log_with_every_event()),
        ("odd-values", log_with_odd_values()),
        ("judged", log_with_judgements()),
        ("picked", log_with_picks()),
        ("permissions", log_with_permissions()),
    ];
    for (name, events) in logs {
        let log = folder.join(name).with_extension("jsonl");
        if log.exists() {
            continue;
        }
        let plans: Vec<Value> = replay_plans(&events)
            .iter()
            .map(merge_encoded_parts)
            .collect();
        let plans = serde_json::to_string_pretty(&plans).unwrap();
        fs::write(&log, to_json_lines(&events)).unwrap();
        fs::write(log.with_extension("plans.json"), plans + "\n").unwrap();
        written.push(log);
    }
    assert!(written.is_empty(), "written, to be kept: {written:?}");
}

fn golden_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

fn golden_logs() -> impl Iterator<Item = PathBuf> {
    let below = |folder: PathBuf| {
        let entries = fs::read_dir(&folder);
        let entries = entries.unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        paths
    };
    let logs: Vec<_> = below(golden_dir())
        .into_iter()
        .flat_map(below)
        .filter(|path| path.extension().is_some_and(|end| end == "jsonl"))
        .collect();
    assert!(!logs.is_empty(), "the golden logs are gone");
    logs.into_iter()
}

fn read_log(log: &Path) -> Vec<RecordedEvent> {
    let text = fs::read_to_string(log).unwrap();
    let read = |(index, line): (usize, &str)| {
        serde_json::from_str(line)
            .unwrap_or_else(|error| panic!("{}:{}: {error}", log.display(), index + 1))
    };
    text.lines().enumerate().map(read).collect()
}

fn to_json_lines(events: &[RecordedEvent]) -> String {
    let line = |one: &RecordedEvent| serde_json::to_string(one).unwrap() + "\n";
    events.iter().map(line).collect()
}

/// Replays a log into its plans, sorted by id.
fn replay_plans(events: &[RecordedEvent]) -> Vec<Plan> {
    let mut logs: BTreeMap<PlanId, Vec<&RecordedEvent>> = BTreeMap::new();
    for recorded in events {
        logs.entry(recorded.plan).or_default().push(recorded);
    }
    let plan = |log: Vec<&RecordedEvent>| replay_events(log).unwrap().unwrap();
    logs.into_values().map(plan).collect()
}

/// Plans that together have every event type: one takes every detour to a partial landing and its
/// rest is undone, one is dropped, and one is driven by the engine alone.
fn log_with_every_event() -> Vec<RecordedEvent> {
    let mut long = PlanWorld::with_number(1, Profile::Review, LandingSetup::OnTargets);
    strategize_with_detours(&mut long);
    execute_with_detours(&mut long);
    land_with_detours(&mut long);
    let partly = long.command_variant(Verb::CompleteApply, 1);
    long.submit(&worker(), partly).unwrap();

    let mut rest = long.world_of_new_plan(&long.new_plans[0]);
    land_result(rest.submit_as_person(Verb::Approve));
    rest.submit_as_person(Verb::Undo);
    let mut undo = rest.world_of_new_plan(&rest.new_plans[0]);
    undo.submit_as_person(Verb::Cancel);

    let mut dropped = PlanWorld::with_number(2, Profile::Auto, LandingSetup::OnTargets);
    run_to_result(&mut dropped);
    dropped.submit_as(&worker(), Verb::Revert);
    run_to_result(&mut dropped);
    for verb in [Verb::ApplyPlan, Verb::StartApply, Verb::PrepareApply] {
        dropped.submit_as(&worker(), verb);
    }
    dropped.submit_as(&worker(), Verb::Ask);
    answer_question(&mut dropped, 2);

    let mut report = PlanWorld::with_number(3, Profile::Supervised, LandingSetup::ReadOnly);
    run_to_result(&mut report);
    for verb in [Verb::ApplyPlan, Verb::StartApply, Verb::CompleteApply] {
        report.submit_as(&worker(), verb);
    }

    let mut cancelled = PlanWorld::with_number(4, Profile::Manual, LandingSetup::Projectless);
    let without_reason = cancelled.command_variant(Verb::Cancel, 1);
    cancelled.submit(&ada(), without_reason).unwrap();

    let worlds = [long, rest, undo, dropped, report, cancelled];
    worlds.into_iter().flat_map(|world| world.log).collect()
}

/// A result that fails its rules and is fixed automatically, and a rule that asks a person.
fn log_with_judgements() -> Vec<RecordedEvent> {
    let mut world = PlanWorld::with_number(10, Profile::Review, LandingSetup::OnTargets);
    run_to_result(&mut world);
    world
        .submit_as_person(Verb::Revise)
        .submit_as(&worker(), Verb::StartExecute);
    let failing = CommandInput {
        judged: JudgementVariant::Failed,
        ..world.default_input()
    };
    let complete = world.command_with(Verb::CompleteExecute, failing);
    world.submit(&worker(), complete.unwrap()).unwrap();
    world
        .submit_as(&worker(), Verb::Revise)
        .submit_as(&worker(), Verb::StartExecute)
        .submit_as(&worker(), Verb::CompleteExecute)
        .submit_as_person(Verb::RuleOn);
    let rejected = world.command_variant(Verb::RuleOn, 1);
    world.submit(&ada(), rejected).unwrap();
    world.submit_as_person(Verb::Approve);
    land_result(&mut world);
    world.log
}

/// Parts of a result are picked, with and without keeping the rest, before and after an approval.
fn log_with_picks() -> Vec<RecordedEvent> {
    let mut world = PlanWorld::with_number(11, Profile::Auto, LandingSetup::OnTargets);
    run_to_result(&mut world);
    world.submit_as_person(Verb::Pick);
    let keep_rest = world.command_variant(Verb::Pick, 1);
    world.submit(&ada(), keep_rest).unwrap();
    world
        .submit_as_person(Verb::Approve)
        .submit_as_person(Verb::ApplyPlan);
    let keep_rest = world.command_variant(Verb::Pick, 1);
    world.submit(&ada(), keep_rest).unwrap();
    world
        .submit_as_person(Verb::Revise)
        .submit_as(&worker(), Verb::StartExecute)
        .submit_as(&worker(), Verb::CompleteExecute);
    land_result(&mut world);
    world.log
}

/// A person allows one tool call and rejects another, and a question is open when its run ends.
fn log_with_permissions() -> Vec<RecordedEvent> {
    let mut world = PlanWorld::with_number(12, Profile::Review, LandingSetup::OnTargets);
    world
        .submit_as(&worker(), Verb::StartStrategize)
        .submit_as(&worker(), Verb::AskPermission)
        .submit_as_person(Verb::AnswerPermission)
        .submit_as(&worker(), Verb::AskPermission);
    let reject = world.command_variant(Verb::AnswerPermission, 1);
    world.submit(&ada(), reject).unwrap();
    world
        .submit_as(&worker(), Verb::CompleteStrategize)
        .submit_as_person(Verb::ExecutePlan)
        .submit_as(&worker(), Verb::StartExecute)
        .submit_as(&worker(), Verb::AskPermission)
        .submit_as(&worker(), Verb::Release);
    world
        .submit_as(&worker(), Verb::StartExecute)
        .submit_as(&worker(), Verb::AskPermission);
    world.log
}

fn strategize_with_detours(world: &mut PlanWorld) {
    let again = |world: &mut PlanWorld| {
        world
            .advance_clock(Span::from_seconds(60))
            .submit_as(&worker(), Verb::StartStrategize);
    };
    again(world);
    world.submit_as(&worker(), Verb::RecordBases);
    again(world.submit_as(&worker(), Verb::Release));
    again(
        world
            .submit_as(&worker(), Verb::Ask)
            .submit_as_person(Verb::Answer),
    );
    let transient = world.command_variant(Verb::Fail, 1);
    world.submit(&worker(), transient).unwrap();
    again(world);
    world
        .submit_as(&worker(), Verb::Ask)
        .advance_clock(ANSWER_TIMEOUT);
    again(
        world
            .submit_as(&worker(), Verb::ExpireQuestion)
            .submit_as_person(Verb::Revise),
    );
    world
        .submit_as(&worker(), Verb::CompleteStrategize)
        .submit_as_person(Verb::Waive)
        .submit_as_person(Verb::ExecutePlan);
}

fn execute_with_detours(world: &mut PlanWorld) {
    world
        .submit_as(&worker(), Verb::StartExecute)
        .submit_as(&worker(), Verb::OpenChangeset)
        .submit_as(&worker(), Verb::RecordChange)
        .submit_as(&worker(), Verb::SealChangeset)
        .submit_as(&worker(), Verb::OpenChangeset)
        .submit_as(&worker(), Verb::Reclaim)
        .submit_as(&worker(), Verb::StartExecute)
        .submit_as(&worker(), Verb::Fail);
    let fresh = world.command_variant(Verb::Retry, 1);
    world.submit(&ada(), fresh).unwrap();
    world
        .submit_as(&worker(), Verb::StartExecute)
        .submit_as(&worker(), Verb::CompleteExecute)
        .submit_as_person(Verb::Revise)
        .submit_as_person(Verb::Revert);
    run_to_result(world);
}

fn land_with_detours(world: &mut PlanWorld) {
    world
        .submit_as_person(Verb::Approve)
        .submit_as_person(Verb::ApplyPlan)
        .submit_as(&worker(), Verb::StartApply)
        .submit_as(&worker(), Verb::Constrain)
        .submit_as_person(Verb::Retry);
    for fate in [1, 0] {
        world
            .submit_as(&worker(), Verb::StartApply)
            .submit_as(&worker(), Verb::PrepareApply)
            .submit_as(&worker(), Verb::WithdrawApply)
            .submit_as(&worker(), Verb::PrepareApply)
            .submit_as(&worker(), Verb::Ask);
        answer_question(world, fate);
    }
    world.submit_as(&worker(), Verb::StartApply);
}

/// Drives a plan from strategize to a result, as a worker where allowed.
fn run_to_result(world: &mut PlanWorld) {
    world
        .submit_as(&worker(), Verb::StartStrategize)
        .submit_as(&worker(), Verb::CompleteStrategize)
        .submit_as_person(Verb::ExecutePlan)
        .submit_as(&worker(), Verb::StartExecute)
        .submit_as(&worker(), Verb::CompleteExecute);
}

fn land_result(world: &mut PlanWorld) {
    world.submit_as_person(Verb::ApplyPlan);
    for verb in [Verb::StartApply, Verb::PrepareApply, Verb::CompleteApply] {
        world.submit_as(&worker(), verb);
    }
}

fn answer_question(world: &mut PlanWorld, fate: usize) {
    let command = world.command_variant(Verb::Answer, fate);
    world.submit(&ada(), command).unwrap();
}

/// Extreme values that no other test stores.
fn log_with_odd_values() -> Vec<RecordedEvent> {
    let arguments = BTreeMap::from([
        ("text".into(), ArgumentValue::String("zwölf\n\"x\"".into())),
        ("number".into(), ArgumentValue::Integer(i64::MIN)),
        ("share".into(), ArgumentValue::Float(0.1)),
        ("sure".into(), ArgumentValue::Boolean(true)),
        (
            "list".into(),
            ArgumentValue::List(vec!["a".into(), "".into()]),
        ),
    ]);
    let created = PlanCreated {
        definitions: Vec::new(),
        strategy_wanted: false,
        goal: ErasableText::Erased(Digest::hash_bytes(b"a secret")),
        action: Some("acme/tidy.up-2".parse().unwrap()),
        arguments,
        actors: PlanActors {
            strategy: "thinker".parse().unwrap(),
            execution: "acme/doer".parse().unwrap(),
            invariant: None,
        },
        profile: Profile::Manual,
        profile_source: ProfileSource::User,
        read_only: false,
        resources: vec![PlanResource {
            name: "acme/shop/app".into(),
            project: "acme/shop".parse().unwrap(),
            resource: "app".parse().unwrap(),
            kind: ResourceKind::Git,
            target: Some("refs/heads/main".into()),
        }],
        bases: Vec::new(),
        policy: Default::default(),
        limits: PlanLimits {
            attempts: u32::MAX,
            ..PlanLimits::default()
        },
        origin: PlanOrigin::Use,
        result: None,
    };
    let claimed = |phase, epoch| Event::Claimed {
        phase,
        owner: "wörker 1".into(),
        epoch: Epoch(epoch),
        asked: true,
    };
    let tree = ResultTree {
        resource: "acme/shop/app".into(),
        target: "refs/heads/main".into(),
        base: "b0".into(),
        tree: "t1".into(),
        changes: Some(1),
        ignored: IgnoredPaths::default(),
        changes_settings: false,
    };
    let events = vec![
        Event::Created(Box::new(created)),
        claimed(Phase::Strategize, 1),
        Event::StrategizeCompleted { epoch: Epoch(1) },
        Event::ExecuteEntered { asked: true },
        claimed(Phase::Execute, u64::from(u32::MAX) + 1),
        Event::ExecuteCompleted {
            epoch: Epoch(u64::from(u32::MAX) + 1),
            result: ResultContent {
                report: None,
                trees: vec![tree],
            },
            unmet: Vec::new(),
        },
        Event::Revised {
            to: Phase::Execute,
            epoch: Epoch(u64::from(u32::MAX) + 2),
            feedback: "".into(),
            comments: vec![crate::commands::sample_comment()],
            dropped: vec![
                TreePath::new(*b"not\xffutf-8").unwrap(),
                TreePath::new("with space\n/and \u{1f980}").unwrap(),
            ],
            automatic: false,
        },
    ];
    let mut at = START_TIME;
    let mut version = PlanVersion(0);
    let mut record = |event| {
        at = at.saturating_add(Span(1));
        version = version.next();
        RecordedEvent {
            plan: PlanId::from_parts(START_TIME.as_milliseconds(), 9),
            version,
            at,
            by: ada(),
            event,
        }
    };
    events.into_iter().map(&mut record).collect()
}
