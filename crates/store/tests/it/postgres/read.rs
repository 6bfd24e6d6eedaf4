//! Tests that reads return the same as the memory store's and use indexes.

use plan::action::ActionDefinition;
use plan::changeset::{Changeset, ChangesetEntry, ChangesetSeal, Node, PathOperation, TreePath};
use plan::facts::{Lease, PlanChange};
use plan::invariant::{Gate, Rule, RuleCheck, RuleDraft, RuleScope, scopes_for_plan};
use plan::judgement::{GateVerdict, RuleEvidence, RuleOutcome, RuleVerdict};
use plan::stage::{FailureCategory, PlanFailure, QueueEntry, StateName};
use plan::{
    Action, ActionState, Caller, ChangesetId, Decision, Epoch, Event, Phase, Plan, PlanId,
    PlanVersion, Project, QualifiedName, RecordedEvent, RowWrite, Timestamp, evolve,
};
use store::{
    ChangesetReads, EventLog, LedgerReads, MemoryStore, PlanFilter, PostgresStore, ProjectReads,
    ReadSet, ReviewReads, RowAccess, Store, StoreReader, StoreWriter, Submission,
};

use crate::postgres::database::ScratchDatabase;
use crate::postgres::decisions::{created, house, plan_id, receipt, submission};

/// Compares every read with the memory store, which has no SQL to get wrong.
#[test]
fn reads_match_the_memory_store() {
    let database = ScratchDatabase::new();
    let postgres = database.store();
    let memory = MemoryStore::new();
    let plans = fill_both(&postgres, &memory);
    let same = StorePair {
        postgres: &postgres,
        memory: &memory,
    };

    for plan in plans.iter().copied().chain([plan_id()]) {
        same.check(|store| store.read_plan(plan));
        same.check(|store| store.read_snapshot(plan));
        same.check(|store| store.list_changesets(plan));
        let text = plan.to_string();
        same.check(|store| store.find_plan_ids(&text, 10));
        same.check(|store| store.find_plan_ids(&text[20..], 10));
        same.check(|store| store.find_plan_ids(&text[..9], 100));
        same.check(|store| {
            let events = store.read_plan_events(plan, PlanVersion(1), 2)?;
            Ok(events
                .into_iter()
                .map(|event| (event.recorded, event.body, event.hash))
                .collect::<Vec<_>>())
        });
    }
    for phase in Phase::ALL.map(Some).into_iter().chain([None]) {
        for state in StateName::ALL.map(Some).into_iter().chain([None]) {
            for action in [
                None,
                Some("tidy".parse().unwrap()),
                Some("never".parse::<QualifiedName>().unwrap()),
            ] {
                for needs_person in [false, true] {
                    let filter = PlanFilter {
                        phase,
                        state,
                        action: action.clone(),
                        needs_person,
                        project: None,
                        origin: None,
                    };
                    for project in [None, Some(house().name), Some("never".parse().unwrap())] {
                        let filter = PlanFilter {
                            project,
                            ..filter.clone()
                        };
                        same.check(|store| store.list_plans(&filter, None, 100));
                        same.check(|store| store.list_plans(&filter, Some(plans[5]), 2));
                    }
                }
            }
        }
    }
    for phase in Phase::ALL {
        same.check(|store| store.list_due_plans(phase, None, 100));
        same.check(|store| store.list_due_plans(phase, None, 2));
        same.check(|store| store.list_claimable_plans(phase, None, 100));
        same.check(|store| store.list_claimable_plans(phase, None, 2));
    }
    same.check(|store| store.list_expired_leases(100));
    same.check(|store| store.list_expired_leases(1));
    let tidy: QualifiedName = "tidy".parse().unwrap();
    same.check(|store| store.read_action(&tidy));
    same.check(|store| store.list_actions(None, 2));
    same.check(|store| store.list_actions(Some(&tidy), 100));
    same.check(|store| store.read_project(&house().name));
    same.check(|store| store.list_projects(None, 1));
    same.check(|store| store.list_projects(Some(&tidy), 100));
    same.check(|store| store.read_rules(&[]));
    same.check(|store| store.read_rules(&[RuleScope::Global]));
    same.check(|store| store.read_rules(&scopes_for_plan(plans[0], Some(&tidy), [])));
    same.check(|store| store.read_rules(&[RuleScope::Action("never".parse().unwrap())]));
}

/// Compares the facts of a decision with the memory store's.
#[test]
fn decision_facts_match_the_memory_store() {
    let database = ScratchDatabase::new();
    let postgres = database.store();
    let memory = MemoryStore::new();
    let plans = fill_both(&postgres, &memory);
    let tidy: QualifiedName = "tidy".parse().unwrap();
    let paths = [&b"b"[..], b"nowhere", b"\xff"].map(|path| TreePath::new(path).unwrap());
    for changesets in [
        ChangesetReads::None,
        ChangesetReads::All,
        ChangesetReads::EntriesAt(paths.to_vec()),
        ChangesetReads::EntriesAt(Vec::new()),
    ] {
        for access in [RowAccess::Shared, RowAccess::Exclusive] {
            for plan in [Some(plans[0]), Some(plan_id()), None] {
                let reads = ReadSet {
                    plan: plan.map(|plan| (plan, access)),
                    action: plan.map(|_| (tidy.clone(), access)),
                    rules: match plan {
                        Some(plan) => vec![
                            (RuleScope::Plan(plan), RowAccess::Shared),
                            (RuleScope::Global, access),
                            (RuleScope::Action(tidy.clone()), RowAccess::Shared),
                        ],
                        None => Vec::new(),
                    },
                    changesets: changesets.clone(),
                    projects: ProjectReads::None,
                    ledger: LedgerReads::OfPlan,
                    reviews: ReviewReads::OfPlan,
                };
                let named = ["zoo/house", "never", "house"].map(|name| {
                    let access = match name {
                        "house" => access,
                        _ => RowAccess::Shared,
                    };
                    (name.parse().unwrap(), access)
                });
                for projects in [
                    ProjectReads::None,
                    ProjectReads::Named(named.to_vec()),
                    ProjectReads::OfPlan,
                ] {
                    let reads = ReadSet {
                        projects,
                        ..reads.clone()
                    };
                    assert_eq!(
                        facts(&postgres, &reads),
                        facts(&memory, &reads),
                        "{reads:?}"
                    );
                }
            }
        }
    }
}

/// Guards the indexes: the cost of a page does not depend on the number of plans.
#[test]
fn pages_come_from_indexes() {
    let database = ScratchDatabase::new();
    let store = database.store();
    store.commit(just_created(plan_id(), 1)).unwrap();
    let mut sql = database.sql();
    sql.run(
        "INSERT INTO plans SELECT lpad(n::text, 26, '0'), reverse(lpad(n::text, 26, '0')), 1, 'execute', 'complete', \
             CASE n WHEN 3 THEN 'local/rare' ELSE 'local/tidy' END, n % 100 = 0, NULL, head, body FROM plans, generate_series(1, 20000) n; \
         INSERT INTO plan_terms SELECT lpad(n::text, 26, '0'), CASE n % 10000 WHEN 3 THEN lpad('1', 26, '0') END, body \
             FROM plan_terms, generate_series(1, 20000) n; \
         INSERT INTO events SELECT n, 2, lpad(n::text, 26, '0'), 1, body, NULL, hash FROM events, generate_series(1, 20000) n; \
         INSERT INTO leases SELECT lpad(n::text, 26, '0'), 'x', 1, 9000000000000000000 FROM generate_series(1, 20000) n; \
         INSERT INTO plan_projects SELECT CASE n WHEN 3 THEN 'local/shed' ELSE 'local/house' END, lpad(n::text, 26, '0'), true \
             FROM generate_series(1, 20000) n; \
         ANALYZE",
    );
    let scanned = |sql: &mut crate::postgres::database::SqlSession| -> u64 {
        sql.run("SELECT pg_stat_force_next_flush()");
        sql.value(
            "SELECT sum(seq_tup_read) + sum(coalesce(idx_tup_fetch, 0)) FROM pg_stat_user_tables \
             WHERE schemaname = 'planwright' AND relname IN ('plans', 'plan_terms', 'events', 'leases', 'plan_projects')",
        )
        .parse()
        .unwrap()
    };
    let filter = |phase, state| PlanFilter {
        phase,
        state,
        action: None,
        needs_person: false,
        project: None,
        origin: None,
    };
    let of_project = |name: &str| PlanFilter {
        project: Some(name.parse().unwrap()),
        ..PlanFilter::default()
    };
    let (house, shed) = (of_project("house"), of_project("shed"));
    let house_needed = PlanFilter {
        needs_person: true,
        ..of_project("house")
    };
    let tidy = PlanFilter {
        action: Some("tidy".parse().unwrap()),
        ..PlanFilter::default()
    };
    let needed = PlanFilter {
        needs_person: true,
        ..PlanFilter::default()
    };
    let rare = PlanFilter {
        action: Some("rare".parse().unwrap()),
        ..PlanFilter::default()
    };
    let of_origin = PlanFilter {
        origin: Some(format!("{:026}", 1).parse().unwrap()),
        ..PlanFilter::default()
    };
    let reads: Vec<(&str, PageRead)> = vec![
        (
            "by rare action",
            Box::new(move |store| drop(store.list_plans(&rare, None, 10).unwrap())),
        ),
        (
            "by origin",
            Box::new(move |store| {
                assert_eq!(store.list_plans(&of_origin, None, 10).unwrap().len(), 2);
            }),
        ),
        (
            "by project",
            Box::new(move |store| drop(store.list_plans(&house, None, 10).unwrap())),
        ),
        (
            "by rare project",
            Box::new(move |store| drop(store.list_plans(&shed, None, 10).unwrap())),
        ),
        (
            "by project, needing a person",
            Box::new(move |store| drop(store.list_plans(&house_needed, None, 1).unwrap())),
        ),
        (
            "plans",
            Box::new(|store| drop(store.list_plans(&PlanFilter::default(), None, 10).unwrap())),
        ),
        (
            "by phase",
            Box::new(move |store| {
                drop(
                    store
                        .list_plans(&filter(Some(Phase::Execute), None), None, 10)
                        .unwrap(),
                )
            }),
        ),
        (
            "by state",
            Box::new(move |store| {
                drop(
                    store
                        .list_plans(&filter(None, Some(StateName::Queued)), None, 10)
                        .unwrap(),
                )
            }),
        ),
        (
            "by action",
            Box::new(move |store| drop(store.list_plans(&tidy, None, 10).unwrap())),
        ),
        (
            "needing a person",
            Box::new(move |store| drop(store.list_plans(&needed, None, 10).unwrap())),
        ),
        (
            "like",
            Box::new(|store| drop(store.find_plan_ids("00019", 10).unwrap())),
        ),
        (
            "due",
            Box::new(|store| drop(store.list_due_plans(Phase::Strategize, None, 10).unwrap())),
        ),
        (
            "expired",
            Box::new(|store| drop(store.list_expired_leases(10).unwrap())),
        ),
        (
            "events",
            Box::new(|store| drop(store.read_events(&"100.0".parse().unwrap(), 10).unwrap())),
        ),
        (
            "latest",
            Box::new(|store| assert!(store.read_latest_cursor().is_ok())),
        ),
        (
            "plan events",
            Box::new(|store| {
                let plan = "00000000000000000000000007".parse().unwrap();
                drop(store.read_plan_events(plan, PlanVersion(0), 10).unwrap());
            }),
        ),
    ];
    for (what, read) in reads {
        let fresh = database.store();
        let before = scanned(&mut sql);
        // Often enough that the server would switch between custom and generic plans.
        (0..8).for_each(|_| read(&fresh));
        drop(fresh);
        // The server updates its statistics when a session ends.
        let began = std::time::Instant::now();
        while sql.value("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()")
            != "2"
        {
            assert!(began.elapsed() < std::time::Duration::from_secs(10));
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        let read = scanned(&mut sql) - before;
        assert!(
            read < 8 * 200,
            "{what}: {read} rows were read for 8 pages of 10"
        );
    }
}

type PageRead = Box<dyn Fn(&PostgresStore)>;

struct StorePair<'a> {
    postgres: &'a PostgresStore,
    memory: &'a MemoryStore,
}

impl StorePair<'_> {
    #[track_caller]
    fn check<T: PartialEq + std::fmt::Debug>(
        &self,
        read: impl Fn(&dyn Store) -> Result<T, store::StoreError>,
    ) {
        assert_eq!(read(self.postgres).unwrap(), read(self.memory).unwrap());
    }
}

fn facts(store: &dyn Store, reads: &ReadSet) -> String {
    let seen = std::sync::Arc::new(std::sync::Mutex::new(String::new()));
    let note = std::sync::Arc::clone(&seen);
    let look = submission(reads.clone(), move |facts, now| {
        *note.lock().unwrap() = format!("{facts:?}");
        Ok(Decision {
            plans: Vec::new(),
            rows: Vec::new(),
            receipt: receipt(PlanId::from_parts(0, 0), PlanVersion(0), now),
        })
    });
    store.commit(look).unwrap();
    seen.lock().unwrap().clone()
}

/// Writes the same rows to both stores: plans in many stages, and rows in every table.
fn fill_both(postgres: &PostgresStore, memory: &MemoryStore) -> Vec<PlanId> {
    let commit = |make: &dyn Fn() -> Submission| {
        postgres.commit(make()).unwrap();
        memory.commit(make()).unwrap();
    };
    let tidy: QualifiedName = "tidy".parse().unwrap();
    for name in ["wash", "tidy", "acme/cook"] {
        commit(&|| rows(vec![RowWrite::PutAction(action(name))]));
    }
    for name in ["zoo/house", "house", "acme/shed"] {
        let project = Project {
            name: name.parse().unwrap(),
            ..house()
        };
        commit(&|| rows(vec![RowWrite::PutProject(project.clone())]));
    }
    let plans: Vec<PlanId> = (0..12).map(|_| plan_id()).collect();
    for (number, plan) in plans.iter().enumerate() {
        commit(&|| create_with_history(*plan, number, &tidy));
    }
    for (number, plan) in plans.iter().enumerate().take(4) {
        let expires_at = Timestamp(1_000 - i64::try_from(number).unwrap() % 2 * 500);
        let lease = Lease {
            plan: *plan,
            owner: format!("worker {number}"),
            epoch: Epoch(1),
            expires_at,
        };
        commit(&|| rows(vec![RowWrite::PutLease(lease.clone())]));
    }
    let far = Lease {
        plan: plans[5],
        owner: "far".to_owned(),
        epoch: Epoch(3),
        expires_at: Timestamp(i64::MAX),
    };
    commit(&|| rows(vec![RowWrite::PutLease(far.clone())]));
    commit(&|| rows(vec![RowWrite::DropLease(plans[3])]));

    let scopes = [
        RuleScope::Global,
        RuleScope::Action(tidy.clone()),
        RuleScope::Plan(plans[0]),
    ];
    for scope in &scopes {
        for (revision, name) in [(1, "b"), (2, "a"), (3, "c")] {
            commit(&|| rows(vec![RowWrite::PutRule(rule(scope, name, revision))]));
        }
        let dropped = RowWrite::DropRule {
            scope: scope.clone(),
            name: "c".parse().unwrap(),
            revision: 4,
        };
        commit(&|| rows(vec![dropped.clone()]));
    }
    let evidence = |plan: PlanId, entry: u32, scope: &RuleScope, name: &str| RuleEvidence {
        plan,
        entry,
        subject: plan::Digest::ZERO,
        verdict: RuleVerdict {
            rule: rule(scope, name, 2).reference(),
            outcome: RuleOutcome::Held,
        },
        at: Timestamp(5),
    };
    for plan in &plans {
        for scope in &scopes {
            commit(&|| {
                rows(vec![
                    RowWrite::PutEvidence(evidence(*plan, 1, scope, "b")),
                    RowWrite::PutEvidence(evidence(*plan, 1, scope, "a")),
                    RowWrite::PutEvidence(evidence(*plan, 2, scope, "a")),
                ])
            });
        }
    }
    for at in [1, 2] {
        let verdict = GateVerdict {
            plan: plans[1],
            gate: Gate::Apply,
            version: PlanVersion(1),
            revisions: [(RuleScope::Global, 4)].into(),
            tips: Vec::new(),
            failed: Vec::new(),
            at: Timestamp(at),
        };
        commit(&|| rows(vec![RowWrite::PutVerdict(verdict.clone())]));
    }
    for number in 1..=3 {
        add_changeset(&commit, plans[0], number);
    }
    plans
}

/// Adds a changeset with entries; every second one is sealed.
fn add_changeset(commit: &dyn Fn(&dyn Fn() -> Submission), plan: PlanId, number: u64) {
    let id = ChangesetId::from_parts(number, u128::from(number));
    let mut changeset = Changeset {
        id,
        plan,
        node: format!("node {number}").parse().unwrap(),
        epoch: Epoch(1),
        opened_at: Timestamp(1),
        seal: None,
    };
    assert_ne!(changeset.node, Node::main());
    commit(&|| rows(vec![RowWrite::PutChangeset(changeset.clone())]));
    let entry =
        |path: &[u8], operation| ChangesetEntry::new(TreePath::new(path).unwrap(), operation);
    for path in [&b"b"[..], b"a/b", b"\xff", "\u{fc}".as_bytes(), b"B"] {
        commit(&|| {
            rows(vec![RowWrite::PutEntry(
                id,
                entry(path, PathOperation::Create),
            )])
        });
    }
    let again = ReadSet {
        plan: Some((plan, RowAccess::Shared)),
        changesets: ChangesetReads::All,
        ..ReadSet::default()
    };
    let folded = RowWrite::PutEntry(id, entry(b"b", PathOperation::Modify));
    let gone = RowWrite::DropEntry(id, TreePath::new("B").unwrap());
    commit(&|| rows_reading(again.clone(), vec![folded.clone(), gone.clone()]));
    if number == 2 {
        changeset.seal = Some(ChangesetSeal::from_entries(&[], Timestamp(9)));
        let seal = RowWrite::PutChangeset(changeset.clone());
        commit(&|| rows_reading(again.clone(), vec![seal.clone()]));
    }
}

/// Creates a plan with a history that depends on its number.
fn create_with_history(plan: PlanId, number: usize, tidy: &QualifiedName) -> Submission {
    let tidy = tidy.clone();
    submission(ReadSet::default(), move |_, _| {
        let at = Timestamp(1_000_000 + i64::try_from(number).unwrap() % 3);
        let mut change = created(plan, at);
        if number.is_multiple_of(2)
            && let Event::Created(created) = &mut change.events[0].event
        {
            created.action = Some(tidy.clone());
            change.plan = evolve(None, &change.events[0]).unwrap().into();
        }
        let epoch = Epoch(1);
        let claimed = Event::Claimed {
            phase: Phase::Strategize,
            owner: "w".to_owned(),
            epoch,
            asked: false,
        };
        let failed = |category| {
            let message = "it broke".into();
            Event::Failed {
                failure: PlanFailure {
                    category,
                    message,
                    epoch,
                    at,
                },
            }
        };
        let story = [
            claimed.clone(),
            Event::StrategizeCompleted { epoch },
            Event::ExecuteEntered { asked: false },
            Event::Claimed {
                phase: Phase::Execute,
                owner: "w".to_owned(),
                epoch: Epoch(2),
                asked: false,
            },
        ];
        let story: Vec<Event> = match number {
            0..=4 => story[..number].to_vec(),
            5 => vec![claimed, failed(FailureCategory::Actor)],
            6 => vec![
                claimed,
                failed(FailureCategory::Transient),
                Event::RetryScheduled {
                    retry_at: Timestamp(7),
                },
            ],
            7 => vec![
                claimed,
                failed(FailureCategory::Transient),
                Event::RetryScheduled {
                    retry_at: Timestamp(i64::MAX),
                },
            ],
            8 => vec![Event::Cancelled {
                epoch: Epoch(9),
                reason: Some("enough".into()),
            }],
            _ => Vec::new(),
        };
        for event in story {
            advance(&mut change, event, at);
        }
        if let Some(QueueEntry {
            retry_at: Some(_), ..
        }) = change.plan.stage().queue_entry()
        {
            assert!(number == 6 || number == 7);
        }
        let receipt = receipt(plan, change.plan.version(), at);
        Ok(Decision {
            plans: vec![change],
            rows: Vec::new(),
            receipt,
        })
    })
}

fn advance(change: &mut PlanChange, event: Event, at: Timestamp) {
    let recorded = RecordedEvent {
        plan: change.plan.id(),
        version: change.plan.version().next(),
        at,
        by: Caller::Worker("w".to_owned()),
        event,
    };
    let before = Some(Plan::clone(&change.plan));
    change.plan = evolve(before, &recorded).unwrap().into();
    change.events.push(recorded);
}

fn just_created(plan: PlanId, at: i64) -> Submission {
    submission(ReadSet::default(), move |_, _| {
        let change = created(plan, Timestamp(at));
        let receipt = receipt(plan, change.plan.version(), Timestamp(at));
        Ok(Decision {
            plans: vec![change],
            rows: Vec::new(),
            receipt,
        })
    })
}

fn rows(rows: Vec<RowWrite>) -> Submission {
    rows_reading(ReadSet::default(), rows)
}

fn rows_reading(reads: ReadSet, rows: Vec<RowWrite>) -> Submission {
    submission(reads, move |_, now| {
        let mut receipt = receipt(PlanId::from_parts(0, 0), PlanVersion(0), now);
        receipt.plan = None;
        Ok(Decision {
            plans: Vec::new(),
            rows: rows.clone(),
            receipt,
        })
    })
}

fn action(name: &str) -> Action {
    Action {
        definition: ActionDefinition {
            name: name.parse().unwrap(),
            description: "Tidy".to_owned(),
            long_description: None,
            actors: None,
            arguments: Vec::new(),
            invariants: Vec::new(),
            automation_profile: None,
            read_only: false,
            reusable: true,
            tools: plan::permission::ToolPolicy::default(),
        },
        state: ActionState::Available,
        created_at: Timestamp(1),
        created_by: Caller::Person("ada".to_owned()),
        used_by: None,
    }
}

fn rule(scope: &RuleScope, name: &str, revision: u64) -> Rule {
    Rule {
        scope: scope.clone(),
        revision,
        draft: RuleDraft {
            name: name.parse().unwrap(),
            check: RuleCheck::Expr("true".to_owned()),
            at: vec![Gate::Apply],
            advisory: false,
            non_overridable: false,
        },
        added_at: Timestamp(0),
        added_by: Caller::Person("ada".to_owned()),
    }
}
