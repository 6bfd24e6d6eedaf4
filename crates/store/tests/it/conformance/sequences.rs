//! G4: all stores behave the same. Random commands, with faults and repeats, get the same answers
//! and leave the same rows, including event hashes.
//!
//! The test controls the time, so that timestamps are equal too.

use plan::changeset::{Node, PathOperation};
use plan::command::{
    AddRule, AnswerQuestion, ApplyPlan, ArchiveAction, AskPerson, CancelPlan, CompleteApply,
    CompleteExecute, CompleteStrategize, ConstrainApply, CreateAction, CreatePlan, CreateProject,
    DeleteProject, ExecutePlan, ExpireQuestion, FailRun, LinkResource, OpenChangeset, PauseProject,
    PrepareApply, ReclaimLease, RecordChange, ReleaseLease, RelinkResource, RemoveRule, RenewLease,
    ResumeProject, RetryPhase, RevertPlan, ReviseWork, SealChangeset, UndoLanding, UnlinkResource,
    WaiveRule, WithdrawApply,
};
use plan::command::{ChangesetSelector, LinkedPlan, NewPlan, ReclaimGrounds};
use plan::decision::{DecisionKind, ReportedDecision};
use plan::invariant::{Gate, RuleDraft, RuleRef, RuleScope};
use plan::judgement::PlanTargets;
use plan::plan::ProfileSource;
use plan::stage::{ApplyState, ConstraintKind, FailureCategory, StateName, WorkState};
use plan::{
    Command, Epoch, Phase, Plan, PlanId, PlanStage, Profile, QualifiedName, Span, Timestamp,
};
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use store::fault::FaultPoint;
use store::verify::verify_store;
use store::{CommitError, CommitOutcome};
use testkit::client::LONG_LEASE;
use testkit::{StoreDump, TestClient, samples};

use crate::store_fixture::{StoreFixture, due};

const STEPS: usize = 200;
/// In the past for every store, so that waiting plans are due and leases have expired.
const START_TIME: Timestamp = Timestamp(1_600_000_000_000_000);

mod memory {
    use super::*;

    /// The store that others are compared with must itself be correct.
    #[test]
    fn random_commands_leave_a_consistent_store() {
        check(8, |steps| run(steps, &[&StoreFixture::memory()]));
    }
}

#[test]
fn all_stores_return_the_same_answers_and_rows() {
    check(3, |steps| {
        run(
            steps,
            &[
                &StoreFixture::memory(),
                &StoreFixture::sqlite(),
                &StoreFixture::postgres(),
            ],
        );
    });
}

/// Runs a function on random steps, the same in every run.
fn check(cases: u32, run: impl Fn(&[RandomStep])) {
    let config = Config {
        cases,
        max_shrink_iters: 60,
        failure_persistence: None,
        ..Config::default()
    };
    let random = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let steps = prop::collection::vec(step(), STEPS);
    let checked = TestRunner::new_with_rng(config, random).run(&steps, |steps| {
        run(&steps);
        Ok(())
    });
    if let Err(failure) = checked {
        panic!("{failure}");
    }
}

/// One submission, before the state of the store is known.
#[derive(Debug, Clone)]
struct RandomStep {
    act: RandomAct,
    /// An index into the existing plans.
    plan: usize,
    by_person: bool,
    key: Option<u8>,
    fault: Option<FaultPoint>,
    /// Uses a handle opened for this step.
    reopened: bool,
}

#[derive(Debug, Clone)]
enum RandomAct {
    /// The command that advances a plan by one step.
    Forward,
    /// The last submission with a key, once more.
    Again,
    CreateAction(u8),
    ArchiveAction(u8),
    AddRule(ScopeChoice, u8, RuleChoice),
    RemoveRule(ScopeChoice, u8),
    Project(u8, ProjectChoice),
    Use(Option<u8>, Option<u8>, Profile),
    Start(Phase, bool),
    Open(u8, EpochChoice),
    Record(SelectorChoice, u8, PathOperation, EpochChoice),
    Seal(u8),
    Renew(EpochChoice, bool),
    Release(EpochChoice),
    Reclaim(bool),
    Fail(FailureCategory, EpochChoice),
    Ask(bool),
    Answer,
    ExpireQuestion,
    Retry,
    Revise,
    Revert,
    Waive(u8),
    Approve,
    Withdraw(EpochChoice),
    Constrain(EpochChoice),
    Cancel,
    Undo,
}

#[derive(Debug, Clone, Copy)]
enum ScopeChoice {
    Global,
    Action(u8),
    Plan,
}

#[derive(Debug, Clone, Copy)]
enum ProjectChoice {
    Create,
    Link,
    Unlink,
    Relink,
    Pause,
    Resume,
    Delete,
    DeleteByForce,
}

#[derive(Debug, Clone, Copy)]
enum RuleChoice {
    Holds,
    Fails,
    FailsForSure,
    Advises,
}

#[derive(Debug, Clone, Copy)]
enum SelectorChoice {
    Node(u8),
    OnlyOpen,
    Some(u8),
}

#[derive(Debug, Clone, Copy)]
enum EpochChoice {
    Current,
    Former,
}

fn step() -> impl Strategy<Value = RandomStep> {
    let faults = [
        FaultPoint::Decided,
        FaultPoint::BeforeCommit,
        FaultPoint::AfterCommit,
    ];
    (
        act(),
        0..4_usize,
        prop::bool::weighted(0.7),
        prop::option::weighted(0.2, 0..3_u8),
        prop::option::weighted(0.1, select(faults.to_vec())),
        prop::bool::weighted(0.05),
    )
        .prop_map(|(act, plan, by_person, key, fault, reopened)| RandomStep {
            act,
            plan,
            by_person,
            key,
            fault,
            reopened,
        })
}

fn act() -> impl Strategy<Value = RandomAct> {
    let few = 0..3_u8;
    let scope = prop_oneof![
        Just(ScopeChoice::Global),
        few.clone().prop_map(ScopeChoice::Action),
        Just(ScopeChoice::Plan),
    ];
    let rule = select(vec![
        RuleChoice::Holds,
        RuleChoice::Holds,
        RuleChoice::Fails,
        RuleChoice::FailsForSure,
        RuleChoice::Advises,
    ]);
    let authority = prop_oneof![4 => Just(EpochChoice::Current), 1 => Just(EpochChoice::Former)];
    let into = prop_oneof![
        few.clone().prop_map(SelectorChoice::Node),
        Just(SelectorChoice::OnlyOpen),
        few.clone().prop_map(SelectorChoice::Some),
    ];
    let project = select(vec![
        ProjectChoice::Create,
        ProjectChoice::Link,
        ProjectChoice::Unlink,
        ProjectChoice::Relink,
        ProjectChoice::Pause,
        ProjectChoice::Resume,
        ProjectChoice::Resume,
        ProjectChoice::Delete,
        ProjectChoice::DeleteByForce,
    ]);
    let operation = select(vec![
        PathOperation::Create,
        PathOperation::Modify,
        PathOperation::Delete,
        PathOperation::Rename,
    ]);
    let making = prop_oneof![
        few.clone().prop_map(RandomAct::CreateAction),
        few.clone().prop_map(RandomAct::ArchiveAction),
        (scope.clone(), few.clone(), rule).prop_map(|(s, n, r)| RandomAct::AddRule(s, n, r)),
        (scope, few.clone()).prop_map(|(s, n)| RandomAct::RemoveRule(s, n)),
        (few.clone(), project).prop_map(|(n, p)| RandomAct::Project(n, p)),
        (
            prop::option::of(few.clone()),
            prop::option::of(few.clone()),
            select(Profile::ALL.to_vec())
        )
            .prop_map(|(action, project, profile)| RandomAct::Use(action, project, profile)),
    ];
    let changing = prop_oneof![
        (few.clone(), authority.clone()).prop_map(|(n, a)| RandomAct::Open(n, a)),
        (into, few.clone(), operation, authority.clone())
            .prop_map(|(i, p, o, a)| RandomAct::Record(i, p, o, a)),
        few.clone().prop_map(RandomAct::Seal),
    ];
    let phase = select(vec![Phase::Strategize, Phase::Execute, Phase::Apply]);
    let moving = prop_oneof![
        (phase, any::<bool>()).prop_map(|(phase, over)| RandomAct::Start(phase, over)),
        (authority.clone(), any::<bool>()).prop_map(|(a, over)| RandomAct::Renew(a, over)),
        authority.clone().prop_map(RandomAct::Release),
        any::<bool>().prop_map(RandomAct::Reclaim),
        (select(FailureCategory::ALL.to_vec()), authority.clone())
            .prop_map(|(c, a)| RandomAct::Fail(c, a)),
        any::<bool>().prop_map(RandomAct::Ask),
        Just(RandomAct::Answer),
        Just(RandomAct::ExpireQuestion),
        Just(RandomAct::Retry),
        Just(RandomAct::Revise),
        Just(RandomAct::Revert),
        few.prop_map(RandomAct::Waive),
        Just(RandomAct::Approve),
        authority.clone().prop_map(RandomAct::Withdraw),
        authority.prop_map(RandomAct::Constrain),
        Just(RandomAct::Cancel),
        Just(RandomAct::Undo),
    ];
    prop_oneof![
        10 => Just(RandomAct::Forward),
        1 => Just(RandomAct::Again),
        3 => making,
        3 => changing,
        4 => moving,
    ]
}

/// A command as it was submitted under a key.
type KeyedCommand = (u8, String, Option<PlanId>, Command);

/// Applies the steps to all stores and compares every answer and the final content.
fn run(steps: &[RandomStep], fixtures: &[&StoreFixture]) {
    let mut clients: Vec<TestClient> = fixtures.iter().map(|fixture| fixture.client()).collect();
    let mut plans: Vec<PlanId> = Vec::new();
    let mut last_keyed: Option<KeyedCommand> = None;
    for (number, step) in steps.iter().enumerate() {
        if step.reopened {
            clients = fixtures.iter().map(|fixture| fixture.client()).collect();
        }
        let arguments = format!("{:?} {}", step.act, step.plan);
        let (key, arguments, plan, command) = match (&step.act, last_keyed.clone()) {
            (RandomAct::Again, None) => continue,
            (RandomAct::Again, Some((key, arguments, plan, command))) => {
                (Some(key), arguments, plan, command)
            }
            (act, _) => {
                // The latest few, so that each makes progress.
                let plan = plans
                    .iter()
                    .rev()
                    .nth(step.plan % plans.len().max(1))
                    .copied();
                let Some((plan, command)) = command(act, plan, &clients[0]) else {
                    continue;
                };
                (step.key, arguments, plan, command)
            }
        };
        if let Some(key) = key {
            last_keyed = Some((key, arguments.clone(), plan, command.clone()));
        }
        let moment = START_TIME.saturating_add(Span::from_seconds(i64::try_from(number).unwrap()));
        let answers: Vec<ComparableAnswer> = std::iter::zip(fixtures, &clients)
            .map(|(fixture, client)| {
                let client = match step.by_person {
                    true => client.as_person("ada"),
                    false => client.as_worker("robot"),
                };
                let client = client.with_decision_time(moment);
                step.fault
                    .iter()
                    .for_each(|point| fixture.faults.arm(*point));
                let answer = match key {
                    Some(key) => {
                        client.submit_with_key(&key.to_string(), &arguments, plan, command.clone())
                    }
                    None => client
                        .store()
                        .commit(client.build_submission(plan, command.clone())),
                };
                fixture.faults.disarm();
                answer.into()
            })
            .collect();
        for answer in &answers {
            assert_eq!(answer, &answers[0], "step {number}: {step:?}: {command:?}");
        }
        if let ComparableAnswer::Committed(committed) = &answers[0]
            && let Some(plan) = committed.receipt.plan
            && !plans.contains(&plan)
        {
            plans.push(plan);
        }
    }
    let first = StoreDump::read_store(clients[0].store());
    for fixture in fixtures {
        let store = fixture.open();
        let dump = StoreDump::read_store(store.as_ref());
        dump.assert_same(&first, "in the end");
        for dumped in &dump.plans {
            let holder = dumped.row.plan.stage().holder().map(|holder| holder.epoch);
            assert_eq!(dumped.row.lease.as_ref().map(|lease| lease.epoch), holder);
        }
        for phase in [Phase::Strategize, Phase::Execute, Phase::Apply] {
            assert_eq!(due(store.as_ref(), phase), due(clients[0].store(), phase));
        }
        let expired = |store: &dyn store::Store| store.list_expired_leases(1000).unwrap();
        assert_eq!(expired(store.as_ref()), expired(clients[0].store()));
        assert_eq!(
            verify_store(store.as_ref()).unwrap().problems,
            Vec::<String>::new()
        );
    }
}

/// An answer in a form that is equal for all stores. Texts of database errors differ and are left
/// out.
#[derive(Debug, PartialEq)]
enum ComparableAnswer {
    Committed(Box<CommitOutcome>),
    Refused(plan::Refusal),
    KeyReused(String),
    Failed,
}

impl From<Result<CommitOutcome, CommitError>> for ComparableAnswer {
    fn from(answer: Result<CommitOutcome, CommitError>) -> Self {
        match answer {
            Ok(committed) => Self::Committed(Box::new(committed)),
            Err(CommitError::Refused(refusal)) => Self::Refused(refusal),
            Err(CommitError::KeyReused { key }) => Self::KeyReused(key),
            Err(CommitError::Failed(_)) => Self::Failed,
            Err(error @ CommitError::Unknown { .. }) => panic!("{error}"),
        }
    }
}

/// Builds the command for an act in the current state; `None` if it needs a plan and there is none.
fn command(
    act: &RandomAct,
    plan: Option<PlanId>,
    client: &TestClient,
) -> Option<(Option<PlanId>, Command)> {
    let id = plan;
    let action = |number: &u8| samples::parse_name(&format!("action-{number}"));
    // One of them is the project of all plans.
    let project = |number: &u8| match number {
        0 => samples::parse_name(samples::PROJECT_NAME),
        _ => samples::parse_name(&format!("project-{number}")),
    };
    let rule = |number: &u8| format!("rule-{number}");
    let scope = |choice: &ScopeChoice| {
        Some(match choice {
            ScopeChoice::Global => RuleScope::Global,
            ScopeChoice::Action(number) => RuleScope::Action(action(number)),
            ScopeChoice::Plan => RuleScope::Plan(id?),
        })
    };
    let made = match act {
        RandomAct::CreateAction(number) => {
            Command::from(CreateAction(plan::action::ActionDefinition {
                reusable: *number != 0,
                read_only: *number == 1,
                invariants: vec![samples::rule_draft("of-action", "true", &Gate::ALL)],
                ..samples::reusable_action(action(number).full_name())
            }))
        }
        RandomAct::ArchiveAction(number) => Command::from(ArchiveAction(action(number))),
        RandomAct::AddRule(choice, number, wording) => Command::from(AddRule {
            scope: scope(choice)?,
            draft: draft(&rule(number), *wording),
        }),
        RandomAct::RemoveRule(choice, number) => Command::from(RemoveRule {
            scope: scope(choice)?,
            name: rule(number).parse().unwrap(),
        }),
        RandomAct::Project(number, choice) => project_command(&project(number), *choice),
        RandomAct::Use(used, worked_on, profile) => Command::from(CreatePlan(NewPlan {
            action: used.as_ref().map(action),
            projects: std::iter::once(samples::parse_name(samples::PROJECT_NAME))
                .chain(worked_on.as_ref().map(project))
                .collect(),
            profile: Some((*profile, ProfileSource::Flag)),
            ..samples::plan_for_goal(client.ids().next_plan_id(), "go through much")
        })),
        other => match id.map(|id| client.load_plan(id)) {
            Some(plan) if !matches!(other, RandomAct::Forward) || !plan.stage().is_final() => {
                return Some((id, plan_command(other, &plan, client)));
            }
            // A plan that has ended is replaced by a new one.
            Some(_) | None => Command::from(CreatePlan(samples::plan_for_goal(
                client.ids().next_plan_id(),
                "go through much",
            ))),
        },
    };
    Some((None, made))
}

fn project_command(project: &QualifiedName, choice: ProjectChoice) -> Command {
    let (project, extra) = (project.clone(), samples::git_resource("extra"));
    match choice {
        ProjectChoice::Create => Command::from(CreateProject {
            name: project,
            resources: samples::sample_project().resources,
        }),
        ProjectChoice::Link => Command::from(LinkResource {
            project,
            resource: extra,
        }),
        ProjectChoice::Unlink => Command::from(UnlinkResource {
            project,
            name: extra.name,
            force: false,
        }),
        ProjectChoice::Relink => Command::from(RelinkResource {
            project,
            name: extra.name,
            host: "elsewhere".parse().unwrap(),
            place: extra.place,
        }),
        ProjectChoice::Pause => Command::from(PauseProject(project)),
        ProjectChoice::Resume => Command::from(ResumeProject(project)),
        ProjectChoice::Delete => Command::from(DeleteProject {
            name: project,
            force: false,
        }),
        ProjectChoice::DeleteByForce => Command::from(DeleteProject {
            name: project,
            force: true,
        }),
    }
}

fn draft(name: &str, choice: RuleChoice) -> RuleDraft {
    let holds = match choice {
        RuleChoice::Holds => "true",
        RuleChoice::Fails | RuleChoice::FailsForSure | RuleChoice::Advises => "false",
    };
    RuleDraft {
        advisory: matches!(choice, RuleChoice::Advises),
        non_overridable: matches!(choice, RuleChoice::FailsForSure),
        ..samples::rule_draft(name, holds, &[Gate::Execute, Gate::Result])
    }
}

fn plan_command(act: &RandomAct, plan: &Plan, client: &TestClient) -> Command {
    let epoch = |authority: &EpochChoice| match authority {
        EpochChoice::Current => plan.epoch(),
        EpochChoice::Former => Epoch(plan.epoch().0.saturating_sub(1)),
    };
    let node = |number: &u8| -> Node { format!("node {number}").parse().unwrap() };
    let nth_changeset = |number: &u8| {
        let stored = client.store().list_changesets(plan.id()).unwrap();
        let nth = stored.iter().rev().nth(usize::from(*number));
        nth.map_or_else(
            || client.ids().next_changeset_id(),
            |(changeset, _)| changeset.id,
        )
    };
    let lease = |over: bool| {
        if over {
            Span::from_seconds(-1)
        } else {
            LONG_LEASE
        }
    };
    let text = || "said".to_owned();
    match act {
        RandomAct::Start(phase, over) => client.start_command(plan.id(), *phase, lease(*over)),
        RandomAct::Open(number, authority) => Command::from(OpenChangeset {
            epoch: epoch(authority),
            id: client.ids().next_changeset_id(),
            node: node(number),
        }),
        RandomAct::Record(into, number, operation, authority) => {
            let mut entry = samples::modified_entry(format!("dir/{number}"), "before", "after");
            entry.operation = *operation;
            Command::from(RecordChange {
                epoch: epoch(authority),
                into: match into {
                    SelectorChoice::Node(number) => ChangesetSelector::Node(node(number)),
                    SelectorChoice::OnlyOpen => ChangesetSelector::OnlyOpen,
                    SelectorChoice::Some(number) => {
                        ChangesetSelector::Changeset(nth_changeset(number))
                    }
                },
                entry,
            })
        }
        RandomAct::Seal(number) => Command::from(SealChangeset {
            epoch: plan.epoch(),
            changeset: nth_changeset(number),
        }),
        RandomAct::Renew(authority, over) => Command::from(RenewLease {
            epoch: epoch(authority),
            lease: lease(*over),
        }),
        RandomAct::Release(authority) => Command::from(ReleaseLease {
            epoch: epoch(authority),
        }),
        RandomAct::Reclaim(dead) => Command::from(ReclaimLease {
            grounds: if *dead {
                ReclaimGrounds::OwnerDead(plan.epoch())
            } else {
                ReclaimGrounds::Expired
            },
        }),
        RandomAct::Fail(category, authority) => Command::from(FailRun {
            epoch: epoch(authority),
            category: *category,
            message: text(),
        }),
        RandomAct::Ask(over) => Command::from(AskPerson {
            epoch: plan.epoch(),
            question: text(),
            answer_timeout: Some(lease(*over)),
        }),
        RandomAct::Answer => Command::from(AnswerQuestion { text: text() }),
        RandomAct::ExpireQuestion => Command::from(ExpireQuestion),
        RandomAct::Retry => Command::from(RetryPhase {
            fresh: false,
            limits: None,
        }),
        RandomAct::Revise => Command::from(ReviseWork {
            comments: Default::default(),
            feedback: text(),
            dropped: vec![samples::tree_path("dir/0")],
        }),
        RandomAct::Revert => Command::from(RevertPlan { reason: text() }),
        RandomAct::Waive(number) => Command::from(WaiveRule {
            rule: format!("rule-{number}").parse().unwrap(),
            reason: text(),
            targets: PlanTargets::default(),
        }),
        RandomAct::Approve => testkit::samples::approve_command(),
        RandomAct::Withdraw(authority) => Command::from(WithdrawApply {
            epoch: epoch(authority),
        }),
        RandomAct::Constrain(authority) => Command::from(ConstrainApply {
            epoch: epoch(authority),
            kind: ConstraintKind::Conflict,
            message: text(),
            paths: vec![samples::tree_path("dir/1")],
            commits: Vec::new(),
        }),
        RandomAct::Cancel => Command::from(CancelPlan { reason: None }),
        RandomAct::Undo => Command::from(UndoLanding(LinkedPlan {
            id: client.ids().next_plan_id(),
            resources: names(plan),
            result: samples::result_content("undo"),
        })),
        RandomAct::Forward
        | RandomAct::Again
        | RandomAct::CreateAction(_)
        | RandomAct::ArchiveAction(_)
        | RandomAct::AddRule(..)
        | RandomAct::RemoveRule(..)
        | RandomAct::Project(..)
        | RandomAct::Use(..) => advance(plan, client),
    }
}

/// Returns the command that advances a plan by one step.
fn advance(plan: &Plan, client: &TestClient) -> Command {
    let epoch = plan.epoch();
    let judge = |gate| client.judge_rules(plan.id(), gate);
    if let Some(rule) = blocking(plan, client) {
        let (scope, name) = (rule.scope, rule.name);
        return Command::from(RemoveRule { scope, name });
    }
    match (plan.stage(), plan.stage().state_name()) {
        (_, StateName::Queued) => client.start_command(plan.id(), plan.phase(), LONG_LEASE),
        (_, StateName::AwaitingInput) => Command::from(AnswerQuestion {
            text: "landed".to_owned(),
        }),
        (_, StateName::Errored | StateName::Constrained) => Command::from(RetryPhase {
            fresh: true,
            limits: None,
        }),
        (PlanStage::Strategize(WorkState::Processing(_)), _) => Command::from(CompleteStrategize {
            epoch,
            decisions: vec![ReportedDecision {
                kind: DecisionKind::StrategyChoice,
                question: "how?".to_owned(),
                choice: "so".to_owned(),
                alternatives: vec!["not so".to_owned()],
                rationale: None,
                confidence: Some(0.9.try_into().unwrap()),
                parent: None,
            }],
        }),
        (PlanStage::Strategize(_), _) => Command::from(ExecutePlan {
            judgement: judge(Gate::Execute),
        }),
        (PlanStage::Execute(WorkState::Processing(_)), _) => advance_execute(plan, client),
        (PlanStage::Execute(_), _) if plan.has_targets() && plan.valid_approval().is_none() => {
            testkit::samples::approve_command()
        }
        (PlanStage::Execute(_), _) => Command::from(ApplyPlan {
            judgement: judge(Gate::Apply),
        }),
        (PlanStage::Apply(ApplyState::Processing(_, None)), _) if plan.has_targets() => {
            Command::from(PrepareApply {
                epoch,
                moves: samples::landing_moves(),
                judgement: judge(Gate::Apply),
            })
        }
        (PlanStage::Apply(_), _) => Command::from(CompleteApply {
            epoch,
            landed: names(plan),
            rest: None,
        }),
    }
}

/// Returns the names of the plan's resources.
fn names(plan: &Plan) -> Vec<String> {
    let resources = plan.resources().iter();
    resources.map(|resource| resource.name.clone()).collect()
}

/// Returns a rule that blocks the plan now and still exists.
fn blocking(plan: &Plan, client: &TestClient) -> Option<RuleRef> {
    let snapshot = client.store().read_snapshot(plan.id()).unwrap()?;
    let verdict = snapshot.row.verdict?;
    let rules = snapshot.rules.rules;
    let failed = verdict.failed.into_iter().map(|failed| failed.rule);
    (verdict.version == plan.version())
        .then(|| {
            failed
                .into_iter()
                .find(|rule| rules.iter().any(|one| one.reference() == *rule))
        })
        .flatten()
}

/// First a changeset, then two entries in it, then the result.
fn advance_execute(plan: &Plan, client: &TestClient) -> Command {
    let epoch = plan.epoch();
    let stored = client.store().list_changesets(plan.id()).unwrap();
    let own = stored
        .iter()
        .find(|(changeset, _)| changeset.epoch == epoch);
    match own.map(|(changeset, entries)| (changeset.id, entries.len())) {
        None => Command::from(OpenChangeset {
            epoch,
            id: client.ids().next_changeset_id(),
            node: Node::main(),
        }),
        Some((id, count @ 0..2)) => Command::from(RecordChange {
            epoch,
            into: ChangesetSelector::Changeset(id),
            entry: samples::created_entry(format!("file {count}")),
        }),
        Some(_) => Command::from(CompleteExecute {
            epoch,
            result: samples::result_content("it"),
            captured: Vec::new(),
            allow_empty: false,
            judgement: client.judge_rules(plan.id(), Gate::Result),
        }),
    }
}
