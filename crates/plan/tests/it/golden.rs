//! Logs as earlier releases wrote them, kept for good: every release must read them to the same
//! plans.
//!
//! `../golden/format-N/` holds, per log, `NAME.jsonl` with one event a line and `NAME.plans.json`
//! with the plans they add up to. Files are added when the format changes and never edited.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use planwright_plan as plan;

use plan::argument::ArgumentValue;
use plan::changeset::TreePath;
use plan::event::Created;
use plan::evolve::replay;
use plan::plan::{Limits, Origin, ProfileSource};
use plan::project::ResourceKind;
use plan::stage::{IgnoredPaths, ResultContent, ResultTree};
use plan::{
    Actors, Digest, Epoch, Event, Phase, Plan, PlanId, PlanResource, Profile, Recorded, Span, Text,
    Verb, Version,
};

use crate::world::{How, Judged, Lands, PATIENCE, START, World, ada, worker};

macro_rules! kinds {
    ($($variant:ident),* $(,)?) => {
        /// Every sort of event.
        pub const KINDS: &[&str] = &[$(stringify!($variant)),*];

        /// Lists every variant, so that a new one has to be named here and put into a log.
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
    Revised,
    Reverted,
    Released,
    Reclaimed,
    Waived,
    RuledOn,
    Cancelled,
);

/// The format this release writes.
const FORMAT: &str = "format-1";

#[test]
fn every_golden_log_reads_to_the_plans_it_was_kept_with() {
    for log in golden_logs() {
        let events = read_log(&log);
        let kept = fs::read_to_string(log.with_extension("plans.json")).unwrap();
        let kept: Vec<Plan> = serde_json::from_str(&kept).unwrap();
        assert_eq!(plans_of(&events), kept, "{}", log.display());
    }
}

#[test]
fn the_golden_logs_of_this_format_hold_every_sort_of_event() {
    let mut missing: Vec<&str> = KINDS.to_vec();
    for log in golden_logs().filter(|log| log.parent().unwrap().ends_with(FORMAT)) {
        for recorded in read_log(&log) {
            missing.retain(|kind| *kind != kind_of(&recorded.event));
        }
    }
    assert!(missing.is_empty(), "no event of the kinds {missing:?}");
}

/// If this fails, events are written differently than before: that is a new format, with an upcast
/// from this one and logs of its own.
#[test]
fn events_are_still_written_in_this_format() {
    for log in golden_logs().filter(|log| log.parent().unwrap().ends_with(FORMAT)) {
        let kept = fs::read_to_string(&log).unwrap();
        assert_eq!(lines_of(&read_log(&log)), kept, "{}", log.display());
    }
}

/// A new format gets its logs by running this once: what is missing is written, and the test fails
/// until it is kept. What exists is never touched.
#[test]
fn this_format_has_its_logs() {
    let folder = golden().join(FORMAT);
    fs::create_dir_all(&folder).unwrap();
    let mut written = Vec::new();
    let logs = [
        ("every-event", every_event()),
        ("odd-values", odd_values()),
        ("judged", judged()),
    ];
    for (name, events) in logs {
        let log = folder.join(name).with_extension("jsonl");
        if log.exists() {
            continue;
        }
        let plans = serde_json::to_string_pretty(&plans_of(&events)).unwrap();
        fs::write(&log, lines_of(&events)).unwrap();
        fs::write(log.with_extension("plans.json"), plans + "\n").unwrap();
        written.push(log);
    }
    assert!(written.is_empty(), "written, to be kept: {written:?}");
}

fn golden() -> PathBuf {
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
    let logs: Vec<_> = below(golden())
        .into_iter()
        .flat_map(below)
        .filter(|path| path.extension().is_some_and(|end| end == "jsonl"))
        .collect();
    assert!(!logs.is_empty(), "the golden logs are gone");
    logs.into_iter()
}

fn read_log(log: &Path) -> Vec<Recorded> {
    let text = fs::read_to_string(log).unwrap();
    let read = |(index, line): (usize, &str)| {
        serde_json::from_str(line)
            .unwrap_or_else(|error| panic!("{}:{}: {error}", log.display(), index + 1))
    };
    text.lines().enumerate().map(read).collect()
}

fn lines_of(events: &[Recorded]) -> String {
    let line = |one: &Recorded| serde_json::to_string(one).unwrap() + "\n";
    events.iter().map(line).collect()
}

/// The plans a log adds up to, in the order of their ids.
fn plans_of(events: &[Recorded]) -> Vec<Plan> {
    let mut logs: BTreeMap<PlanId, Vec<&Recorded>> = BTreeMap::new();
    for recorded in events {
        logs.entry(recorded.plan).or_default().push(recorded);
    }
    let plan = |log: Vec<&Recorded>| replay(log).unwrap().unwrap();
    logs.into_values().map(plan).collect()
}

/// Lives that between them have every sort of event: one through every detour to a partial landing,
/// its rest taken back again, one that was dropped, one that an engine drove alone.
fn every_event() -> Vec<Recorded> {
    let mut long = World::numbered(1, Profile::Review, Lands::OnTargets);
    strategize_with_detours(&mut long);
    execute_with_detours(&mut long);
    land_with_detours(&mut long);
    let partly = long.variant(Verb::CompleteApply, 1);
    long.submit(&worker(), partly).unwrap();

    let mut rest = long.of_born(&long.born[0]);
    land(rest.person(Verb::Approve));
    rest.person(Verb::Undo);
    let mut undo = rest.of_born(&rest.born[0]);
    undo.person(Verb::Cancel);

    let mut dropped = World::numbered(2, Profile::Auto, Lands::OnTargets);
    work(&mut dropped);
    dropped.done_by(&worker(), Verb::Revert);
    work(&mut dropped);
    for verb in [Verb::ApplyPlan, Verb::StartApply, Verb::PrepareApply] {
        dropped.done_by(&worker(), verb);
    }
    dropped.done_by(&worker(), Verb::Ask);
    answer(&mut dropped, 2);

    let mut report = World::numbered(3, Profile::Supervised, Lands::ReadOnly);
    work(&mut report);
    for verb in [Verb::ApplyPlan, Verb::StartApply, Verb::CompleteApply] {
        report.done_by(&worker(), verb);
    }

    let mut cancelled = World::numbered(4, Profile::Manual, Lands::Projectless);
    let without_reason = cancelled.variant(Verb::Cancel, 1);
    cancelled.submit(&ada(), without_reason).unwrap();

    let worlds = [long, rest, undo, dropped, report, cancelled];
    worlds.into_iter().flat_map(|world| world.log).collect()
}

/// A result that does not meet its rules, mended by itself; a rule that asks, answered.
fn judged() -> Vec<Recorded> {
    let mut world = World::numbered(10, Profile::Review, Lands::OnTargets);
    work(&mut world);
    world
        .person(Verb::Revise)
        .done_by(&worker(), Verb::StartExecute);
    let failing = How {
        judged: Judged::Failed,
        ..world.usual()
    };
    let complete = world.command_with(Verb::CompleteExecute, failing);
    world.submit(&worker(), complete.unwrap()).unwrap();
    world
        .done_by(&worker(), Verb::Revise)
        .done_by(&worker(), Verb::StartExecute)
        .done_by(&worker(), Verb::CompleteExecute)
        .person(Verb::RuleOn);
    let rejected = world.variant(Verb::RuleOn, 1);
    world.submit(&ada(), rejected).unwrap();
    world.person(Verb::Approve);
    land(&mut world);
    world.log
}

fn strategize_with_detours(world: &mut World) {
    let again = |world: &mut World| {
        world
            .wait(Span::seconds(60))
            .done_by(&worker(), Verb::StartStrategize);
    };
    again(world);
    world.done_by(&worker(), Verb::RecordBases);
    again(world.done_by(&worker(), Verb::Release));
    again(world.done_by(&worker(), Verb::Ask).person(Verb::Answer));
    let transient = world.variant(Verb::Fail, 1);
    world.submit(&worker(), transient).unwrap();
    again(world);
    world.done_by(&worker(), Verb::Ask).wait(PATIENCE);
    again(
        world
            .done_by(&worker(), Verb::ExpireQuestion)
            .person(Verb::Revise),
    );
    world
        .done_by(&worker(), Verb::CompleteStrategize)
        .person(Verb::Waive)
        .person(Verb::ExecutePlan);
}

fn execute_with_detours(world: &mut World) {
    world
        .done_by(&worker(), Verb::StartExecute)
        .done_by(&worker(), Verb::OpenChangeset)
        .done_by(&worker(), Verb::RecordChange)
        .done_by(&worker(), Verb::SealChangeset)
        .done_by(&worker(), Verb::OpenChangeset)
        .done_by(&worker(), Verb::Reclaim)
        .done_by(&worker(), Verb::StartExecute)
        .done_by(&worker(), Verb::Fail);
    let fresh = world.variant(Verb::Retry, 1);
    world.submit(&ada(), fresh).unwrap();
    world
        .done_by(&worker(), Verb::StartExecute)
        .done_by(&worker(), Verb::CompleteExecute)
        .person(Verb::Revise)
        .person(Verb::Revert);
    work(world);
}

fn land_with_detours(world: &mut World) {
    world
        .person(Verb::Approve)
        .person(Verb::ApplyPlan)
        .done_by(&worker(), Verb::StartApply)
        .done_by(&worker(), Verb::Constrain)
        .person(Verb::Retry);
    for fate in [1, 0] {
        world
            .done_by(&worker(), Verb::StartApply)
            .done_by(&worker(), Verb::PrepareApply)
            .done_by(&worker(), Verb::WithdrawApply)
            .done_by(&worker(), Verb::PrepareApply)
            .done_by(&worker(), Verb::Ask);
        answer(world, fate);
    }
    world.done_by(&worker(), Verb::StartApply);
}

/// From strategize to a result, by a worker where it may.
fn work(world: &mut World) {
    world
        .done_by(&worker(), Verb::StartStrategize)
        .done_by(&worker(), Verb::CompleteStrategize)
        .person(Verb::ExecutePlan)
        .done_by(&worker(), Verb::StartExecute)
        .done_by(&worker(), Verb::CompleteExecute);
}

fn land(world: &mut World) {
    world.person(Verb::ApplyPlan);
    for verb in [Verb::StartApply, Verb::PrepareApply, Verb::CompleteApply] {
        world.done_by(&worker(), verb);
    }
}

fn answer(world: &mut World, fate: usize) {
    let command = world.variant(Verb::Answer, fate);
    world.submit(&ada(), command).unwrap();
}

/// Values at the edge of what can be stored; events that no test of the engine would write.
fn odd_values() -> Vec<Recorded> {
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
    let created = Created {
        definitions: Vec::new(),
        strategy_wanted: false,
        goal: Text::Erased(Digest::of(b"a secret")),
        action: Some("acme/tidy.up-2".parse().unwrap()),
        arguments,
        actors: Actors {
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
        ways: Default::default(),
        limits: Limits {
            attempts: u32::MAX,
            ..Limits::default()
        },
        origin: Origin::Use,
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
            dropped: vec![
                TreePath::new(*b"not\xffutf-8").unwrap(),
                TreePath::new("with space\n/and \u{1f980}").unwrap(),
            ],
            automatic: false,
        },
    ];
    let mut at = START;
    let mut version = Version(0);
    let mut record = |event| {
        at = at.plus(Span(1));
        version = version.next();
        Recorded {
            plan: PlanId::from_parts(START.milliseconds(), 9),
            version,
            at,
            by: ada(),
            event,
        }
    };
    events.into_iter().map(&mut record).collect()
}
