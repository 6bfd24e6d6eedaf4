//! Tests concurrent commits: no update is lost, and an unrelated commit causes no refusal.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::time::{Duration, Instant};

use plan::action::ActionDefinition;
use plan::changeset::{Changeset, ChangesetEntry, Node, PathOperation, TreePath};
use plan::invariant::{Gate, Rule, RuleCheck, RuleDraft, RuleScope};
use plan::ledger::{AccountName, BudgetAccount};
use plan::{
    Action, ActionState, Caller, ChangesetId, Decision, DecisionFacts, Digest, Epoch, GateBlocked,
    PlanVersion, QualifiedName, ReceiptOutcome, Refusal, RowWrite, Timestamp,
};
use store::verify::verify_store;
use store::{
    ChangesetReads, CommitError, CommitOutcome, EventLog, IdempotencyKey, LedgerReads,
    PostgresOptions, ProjectReads, ReadSet, ReviewReads, RowAccess, StoreError, StoreMaintenance,
    StoreReader, StoreWriter, Submission,
};

use crate::postgres::database::ScratchDatabase;
use crate::postgres::decisions::{
    append, append_once, appended, create, created, decision, house, plan_id, put_lease, reads,
    receipt, submission,
};

/// Guards the plan's lock (`LOCK_PLAN_EXCLUSIVE`): without it, two commands decide on the same
/// version.
#[test]
fn sixteen_writers_on_one_plan_leave_no_gap() {
    let database = ScratchDatabase::new();
    let store = database.store();
    let plan = plan_id();
    store.commit(create(plan)).unwrap();
    let attempts = Arc::new(AtomicU32::new(0));
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                for _ in 0..20 {
                    let attempts = Arc::clone(&attempts);
                    let submission =
                        submission(reads(plan, RowAccess::Exclusive), move |facts, now| {
                            attempts.fetch_add(1, Ordering::Relaxed);
                            Ok(decision(appended(facts, plan, now)?, Vec::new(), now))
                        });
                    store.commit(submission).unwrap();
                }
            });
        }
    });
    let row = store.read_plan(plan).unwrap().unwrap();
    assert_eq!(row.plan.version(), PlanVersion(321));
    let versions: Vec<u64> = store
        .read_plan_events(plan, PlanVersion(0), 1000)
        .unwrap()
        .iter()
        .map(|event| event.recorded.version.0)
        .collect();
    assert_eq!(versions, (1..=321).collect::<Vec<_>>());
    let verified = verify_store(&store).unwrap();
    assert_eq!(verified.problems, Vec::<String>::new());
    assert_eq!(
        attempts.load(Ordering::Relaxed),
        320,
        "who waits for the lock decides once, on the winner's rows"
    );
}

/// Guards the same across stores, as between processes.
#[test]
fn two_stores_share_one_database() {
    let database = ScratchDatabase::new();
    let plan = plan_id();
    database.store().commit(create(plan)).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let store = database.store();
                for _ in 0..50 {
                    let committed = store.commit(append(plan)).unwrap();
                    let read = store.read_plan(plan).unwrap().unwrap();
                    assert!(
                        read.plan.version() >= committed.receipt.version.unwrap(),
                        "fresh"
                    );
                }
            });
        }
    });
    assert_eq!(
        database
            .store()
            .read_plan(plan)
            .unwrap()
            .unwrap()
            .plan
            .version(),
        PlanVersion(101)
    );
}

/// Guards that `INSERT_ACTION` is not an upsert and that the collision is decided again. Uses
/// direct SQL, because the advisory locks prevent collisions between stores.
#[test]
fn an_action_created_meanwhile_is_not_overwritten() {
    let database = ScratchDatabase::new();
    let store = database.store();
    let [theirs, ours]: [QualifiedName; 2] = ["theirs", "ours"].map(|name| name.parse().unwrap());
    store.commit(create_action(&theirs, "bob")).unwrap();
    let mut sql = database.sql();
    sql.run("BEGIN");
    sql.run(&format!(
        "INSERT INTO actions SELECT '{}', body FROM actions",
        ours.full_name()
    ));
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| store.commit(create_action(&ours, "ada")));
        wait_for_waiters(&database, 1);
        sql.run("COMMIT");
        let answer = waiting.join().unwrap();
        let bob = Caller::Person("bob".to_owned());
        assert!(
            matches!(&answer, Err(CommitError::Refused(Refusal::ActionExists { by, .. })) if *by == bob),
            "{answer:?}"
        );
    });
}

/// Guards the same with many stores' own submissions.
#[test]
fn one_of_many_action_creators_wins_and_the_others_see_it() {
    let database = ScratchDatabase::new();
    let store = database.store();
    let name: QualifiedName = "tidy".parse().unwrap();
    let start = Barrier::new(8);
    let answers: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|number| {
                let (store, start, name) = (&store, &start, name.clone());
                scope.spawn(move || {
                    start.wait();
                    store.commit(create_action(&name, &format!("person {number}")))
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    });
    let stored = store.read_action(&name).unwrap().unwrap();
    let mut won = 0;
    for answer in answers {
        match answer {
            Ok(_) => won += 1,
            Err(CommitError::Refused(Refusal::ActionExists { by, .. })) => {
                assert_eq!(by, stored.created_by)
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(won, 1);
}

/// Guards that `INSERT_PLAN` fails instead of overwriting.
#[test]
fn one_of_many_plan_creators_wins() {
    let database = ScratchDatabase::new();
    let store = database.store();
    let plan = plan_id();
    let start = Barrier::new(8);
    let won = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(|| {
                    start.wait();
                    match store.commit(create(plan)) {
                        Ok(_) => 1,
                        Err(CommitError::Refused(_)) => 0,
                        Err(other) => panic!("{other}"),
                    }
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .sum::<u32>()
    });
    assert_eq!(won, 1);
    assert_eq!(
        store
            .read_plan_events(plan, PlanVersion(0), 10)
            .unwrap()
            .len(),
        1
    );
}

/// Guards `LOCK_ENTRIES_AT … FOR UPDATE`, and that `INSERT_ENTRY` is not an upsert. Recorders lock
/// the plan only shared, so nothing else stops them from overwriting each other's entry.
#[test]
fn concurrent_records_of_one_path_are_all_kept() {
    let database = ScratchDatabase::new();
    let store = database.store();
    let plan = plan_id();
    store.commit(create(plan)).unwrap();
    let changeset = ChangesetId::from_parts(1, 1);
    store.commit(open_changeset(plan, changeset)).unwrap();
    // Longer than an index entry may be.
    let paths: Vec<TreePath> = (0..10)
        .map(|number| TreePath::new(incompressible_bytes(4096, number)).unwrap())
        .collect();
    let start = Barrier::new(8);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for path in &paths {
                    // All at once, so that none finds an existing entry.
                    start.wait();
                    (0..3).for_each(|_| {
                        drop(
                            store
                                .commit(increment_entry(plan, changeset, path.clone()))
                                .unwrap(),
                        )
                    });
                }
            });
        }
    });
    let changesets = store.list_changesets(plan).unwrap();
    let [(_, entries)] = changesets.as_slice() else {
        panic!("{changesets:?}")
    };
    assert_eq!(entries.len(), 10);
    assert!(
        entries
            .iter()
            .all(|entry| entry.after.as_deref() == Some("24")),
        "{entries:?}"
    );
}

/// Guards the lookup of the stored receipt, and the unique key.
#[test]
fn concurrent_submissions_with_one_key_commit_once() {
    let database = ScratchDatabase::new();
    let store = database.store();
    let plan = plan_id();
    store.commit(create(plan)).unwrap();
    let start = Barrier::new(8);
    let answers: Vec<CommitOutcome> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(|| {
                    start.wait();
                    store.commit(append_once(plan, key("k", b"same"))).unwrap()
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    });
    assert_eq!(answers.iter().filter(|answer| !answer.is_repeat).count(), 1);
    assert!(
        answers
            .iter()
            .all(|answer| answer.receipt == answers[0].receipt)
    );
    assert_eq!(
        store.read_plan(plan).unwrap().unwrap().plan.version(),
        PlanVersion(2)
    );
    let other = store.commit(append_once(plan, key("k", b"other")));
    assert!(matches!(other, Err(CommitError::KeyReused { key }) if key == "k"));
}

/// Guards the unique index on keys where no common row lock exists.
#[test]
fn creators_with_one_key_and_no_common_row_create_one_plan() {
    let database = ScratchDatabase::new();
    let store = database.store();
    store.commit(create(plan_id())).unwrap();
    let start = Barrier::new(6);
    let answers: Vec<CommitOutcome> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..6)
            .map(|_| {
                scope.spawn(|| {
                    start.wait();
                    let plan = plan_id();
                    let submission = Submission {
                        key: Some(key("use", b"")),
                        ..submission(ReadSet::default(), move |_, now| {
                            Ok(decision(created(plan, now), Vec::new(), now))
                        })
                    };
                    store.commit(submission).unwrap()
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    });
    assert!(
        answers
            .iter()
            .all(|answer| answer.receipt.plan == answers[0].receipt.plan)
    );
    assert_eq!(
        store
            .list_plans(&store::PlanFilter::default(), None, 100)
            .unwrap()
            .len(),
        2
    );
}

/// Guards that the key is looked up after the locks. The first of two submissions makes the second
/// impossible; the second must get the stored receipt, not a refusal.
#[test]
fn a_waiter_finds_the_receipt_under_its_key() {
    let database = ScratchDatabase::new();
    let store = database.store();
    let plan = plan_id();
    store.commit(create(plan)).unwrap();
    let only_on_first = |facts: &plan::DecisionFacts, now: Timestamp| {
        let change = appended(facts, facts.plan.as_ref().unwrap().id(), now)?;
        if change.plan.version() != PlanVersion(2) {
            return Err(Refusal::VersionMismatch {
                expected: PlanVersion(1),
                actual: change.plan.version(),
            });
        }
        Ok(decision(change, Vec::new(), now))
    };
    let once = || Submission {
        key: Some(key("once", b"")),
        ..submission(reads(plan, RowAccess::Exclusive), only_on_first)
    };
    let mut sql = database.sql();
    sql.run("BEGIN");
    sql.run(&format!(
        "SELECT 1 FROM plans WHERE plan_id = '{plan}' FOR UPDATE"
    ));
    std::thread::scope(|scope| {
        let waiting: Vec<_> = (0..4)
            .map(|_| scope.spawn(|| store.commit(once())))
            .collect();
        wait_for_waiters(&database, 4);
        sql.run("COMMIT");
        for thread in waiting {
            assert_eq!(
                thread.join().unwrap().unwrap().receipt.version,
                Some(PlanVersion(2))
            );
        }
    });
}

/// Guards that the lease is read after the plan's lock and not joined to it (`FACTS`). A statement
/// that waited sees other tables as they were before the wait.
#[test]
fn the_lease_is_read_after_the_lock() {
    let database = ScratchDatabase::new();
    let store = database.store();
    let plan = plan_id();
    store.commit(create(plan)).unwrap();
    store
        .commit(put_lease(plan, "old", RowAccess::Exclusive))
        .unwrap();
    let mut sql = database.sql();
    sql.run("BEGIN");
    sql.run(&format!(
        "SELECT 1 FROM plans WHERE plan_id = '{plan}' FOR UPDATE"
    ));
    let seen = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let seen = Arc::new(std::sync::Mutex::new(None));
            let note = Arc::clone(&seen);
            let look = submission(reads(plan, RowAccess::Exclusive), move |facts, now| {
                *note.lock().unwrap() = facts.lease.clone();
                Ok(decision(appended(facts, plan, now)?, Vec::new(), now))
            });
            store.commit(look).unwrap();
            seen.lock().unwrap().clone().unwrap()
        });
        wait_for_waiters(&database, 1);
        sql.run(&format!(
            "UPDATE leases SET owner = 'new' WHERE plan_id = '{plan}'"
        ));
        sql.run(&format!(
            "UPDATE plans SET needs_person = needs_person WHERE plan_id = '{plan}'"
        ));
        sql.run("COMMIT");
        waiting.join().unwrap()
    });
    assert_eq!(seen.owner, "new");
}

/// Guards every row lock, and that `FACTS` runs after all of them, by the clock it reads.
#[test]
fn now_is_read_after_the_last_lock() {
    let database = ScratchDatabase::new();
    let store = database.store();
    let plan = plan_id();
    store.commit(create(plan)).unwrap();
    let name: QualifiedName = "tidy".parse().unwrap();
    store.commit(create_action(&name, "ada")).unwrap();
    let changeset = ChangesetId::from_parts(1, 1);
    store.commit(open_changeset(plan, changeset)).unwrap();
    let path = TreePath::new(b"a".to_vec()).unwrap();
    store
        .commit(increment_entry(plan, changeset, path))
        .unwrap();
    let put = move |_: &DecisionFacts, now| Ok(rows_only(vec![RowWrite::PutProject(house())], now));
    store.commit(submission(ReadSet::default(), put)).unwrap();
    let used = RowWrite::PutAccount(AccountName::Global, BudgetAccount::default());
    let put = move |_: &DecisionFacts, now| Ok(rows_only(vec![used.clone()], now));
    store.commit(submission(ReadSet::default(), put)).unwrap();
    let tables = [
        "plans",
        "actions",
        "rule_scopes",
        "projects",
        "entries",
        "accounts",
    ];
    for (table, access) in tables
        .iter()
        .flat_map(|table| [(table, RowAccess::Shared), (table, RowAccess::Exclusive)])
    {
        let reads = ReadSet {
            plan: Some((plan, access)),
            action: Some((name.clone(), access)),
            rules: vec![(RuleScope::Global, access)],
            changesets: ChangesetReads::All,
            projects: match access {
                RowAccess::Shared => ProjectReads::OfPlan,
                RowAccess::Exclusive => ProjectReads::Named(vec![(house().name, access)]),
            },
            ledger: LedgerReads::OfPlan,
            reviews: ReviewReads::OfPlan,
        };
        let look = submission(reads, |_, now| Ok(rows_only(Vec::new(), now)));
        let mut sql = database.sql();
        sql.run("BEGIN");
        sql.run(&format!("SELECT 1 FROM {table} FOR UPDATE"));
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| store.commit(look).unwrap().receipt.at);
            wait_for_waiters(&database, 1);
            let released = store.now().unwrap();
            sql.run("COMMIT");
            let decided = waiting.join().unwrap();
            assert!(decided >= released, "{table}: {decided} < {released}");
        });
    }
}

/// Guards `FOR SHARE` on the scopes: rules do not change between a decision and its commit, and are
/// read after the lock.
#[test]
fn a_shared_scope_lock_prevents_rule_changes() {
    let database = ScratchDatabase::new();
    let store = database.store();
    let plan = plan_id();
    store.commit(create(plan)).unwrap();
    let mut sql = database.sql();
    sql.run("BEGIN");
    sql.run("SELECT 1 FROM rule_scopes WHERE scope = 'global' FOR UPDATE");
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let mut submission = append(plan);
            submission.reads.rules = vec![(RuleScope::Global, RowAccess::Shared)];
            let revision = Arc::new(AtomicU32::new(0));
            let note = Arc::clone(&revision);
            submission.decide = Box::new(move |facts, now| {
                let seen = u32::try_from(facts.rules.revision(&RuleScope::Global)).unwrap();
                assert_eq!(facts.rules.rules.len() as u32, seen);
                note.store(seen, Ordering::Relaxed);
                Ok(decision(appended(facts, plan, now)?, Vec::new(), now))
            });
            store.commit(submission).unwrap();
            revision.load(Ordering::Relaxed)
        });
        wait_for_waiters(&database, 1);
        let rule = serde_json::to_string(&rule("new", 1)).unwrap();
        sql.run(&format!(
            "INSERT INTO rules VALUES ('global', 'new', '{rule}')"
        ));
        sql.run("UPDATE rule_scopes SET revision = 1 WHERE scope = 'global'");
        sql.run("COMMIT");
        assert_eq!(waiting.join().unwrap(), 1);
    });
}

/// Guards the advisory locks (`ADVISORY_LOCKS`): shared lockers do not overtake a waiting writer.
/// With row locks alone they would join the current holders and starve it.
#[test]
fn shared_lockers_queue_behind_a_waiting_writer() {
    let database = ScratchDatabase::new();
    let store = database.store();
    let plan = plan_id();
    store.commit(create(plan)).unwrap();
    let name: QualifiedName = "tidy".parse().unwrap();
    store.commit(create_action(&name, "ada")).unwrap();
    let of_the_plan = |access| reads(plan, access);
    let of_the_action = |access| ReadSet {
        action: Some((name.clone(), access)),
        ..ReadSet::default()
    };
    let of_the_rules = |access| ReadSet {
        rules: vec![(RuleScope::Global, access)],
        ..ReadSet::default()
    };
    let named = |access| ReadSet {
        projects: ProjectReads::Named(vec![(house().name, access)]),
        ..ReadSet::default()
    };
    let of_a_plan = |access| match access {
        RowAccess::Exclusive => named(access),
        RowAccess::Shared => ReadSet {
            projects: ProjectReads::OfPlan,
            ..reads(plan, access)
        },
    };
    let held: [&dyn Fn(RowAccess) -> ReadSet; 5] = [
        &of_the_plan,
        &of_the_action,
        &of_the_rules,
        &named,
        &of_a_plan,
    ];
    for reads in held {
        let decided = Arc::new(Mutex::new(Vec::new()));
        let (release, released) = mpsc::channel::<()>();
        let says = |who: &'static str, access| {
            let decided = Arc::clone(&decided);
            submission(reads(access), move |_, now| {
                decided.lock().unwrap().push(who);
                Ok(rows_only(Vec::new(), now))
            })
        };
        let mut first = says("the first", RowAccess::Shared);
        let mut decide = first.decide;
        first.decide = Box::new(move |facts, now| {
            let decision = decide(facts, now);
            let _ = released.recv();
            decision
        });
        let change = says("the change", RowAccess::Exclusive);
        let last = says("the last", RowAccess::Shared);
        std::thread::scope(|scope| {
            // Dropped at the end of this block, so that a failure leaves no thread waiting.
            let release = release;
            let store = &store;
            scope.spawn(move || store.commit(first).unwrap());
            while decided.lock().unwrap().is_empty() {
                std::thread::yield_now();
            }
            scope.spawn(move || store.commit(change).unwrap());
            wait_for_waiters(&database, 1);
            scope.spawn(move || store.commit(last).unwrap());
            let mut sql = database.sql();
            while sql.value(WAITING) != "2" && decided.lock().unwrap().len() < 2 {
                std::thread::yield_now();
            }
            release.send(()).unwrap();
        });
        let decided = decided.lock().unwrap();
        assert_eq!(*decided, ["the first", "the change", "the last"]);
    }
}

/// Guards that concurrent changes of one scope each get their own revision.
#[test]
fn concurrent_rules_get_separate_revisions() {
    let database = ScratchDatabase::new();
    let store = database.store();
    std::thread::scope(|scope| {
        for number in 0..8 {
            let store = &store;
            scope.spawn(move || store.commit(add_rule(&format!("rule-{number}"))).unwrap());
        }
    });
    let book = store.read_rules(&[RuleScope::Global]).unwrap();
    assert_eq!(book.revision(&RuleScope::Global), 8);
    let mut revisions: Vec<u64> = book.rules.iter().map(|rule| rule.revision).collect();
    revisions.sort_unstable();
    assert_eq!(revisions, (1..=8).collect::<Vec<_>>());
}

/// Guards the lock timeout.
#[test]
fn a_lock_timeout_is_reported_as_busy() {
    let database = ScratchDatabase::new();
    let wait_timeout = Duration::from_millis(300);
    let store = database.store_with(PostgresOptions {
        wait_timeout,
        ..PostgresOptions::default()
    });
    let plan = plan_id();
    store.commit(create(plan)).unwrap();
    let mut sql = database.sql();
    sql.run("BEGIN");
    sql.run(&format!(
        "SELECT 1 FROM plans WHERE plan_id = '{plan}' FOR UPDATE"
    ));
    let began = Instant::now();
    let answer = store.commit(append(plan));
    assert!(
        matches!(answer, Err(CommitError::Failed(StoreError::Busy { .. }))),
        "{answer:?}"
    );
    assert!(began.elapsed() < Duration::from_secs(60));
    sql.run("COMMIT");
    store.commit(append(plan)).unwrap();
}

/// Guards the connection limit and the queue for connections.
#[test]
fn more_threads_than_connections_take_turns() {
    let database = ScratchDatabase::new();
    let store = database.store_with(PostgresOptions {
        max_connections: 2,
        ..PostgresOptions::default()
    });
    let plans: Vec<_> = (0..12).map(|_| plan_id()).collect();
    std::thread::scope(|scope| {
        for plan in &plans {
            let store = &store;
            scope.spawn(move || {
                store.commit(create(*plan)).unwrap();
                (0..10).for_each(|_| drop(store.commit(append(*plan)).unwrap()));
            });
        }
    });
    let open = database.sql().value(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'planwright'",
    );
    assert_eq!(open, "2");
    assert!(
        plans
            .iter()
            .all(|plan| store.read_plan(*plan).unwrap().unwrap().plan.version() == PlanVersion(11))
    );
}

/// Guards that a deadlock is retried instead of reported.
#[test]
fn a_deadlock_is_retried() {
    let database = ScratchDatabase::new();
    let store = database.store();
    let plan = plan_id();
    store.commit(create(plan)).unwrap();
    let mut sql = database.sql();
    // Direct SQL in the wrong order: the scope, then the plan.
    sql.run("SET deadlock_timeout TO '10s'");
    sql.run("BEGIN");
    sql.run("SELECT 1 FROM rule_scopes WHERE scope = 'global' FOR UPDATE");
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let mut submission = append(plan);
            submission.reads.rules = vec![(RuleScope::Global, RowAccess::Shared)];
            store.commit(submission)
        });
        wait_for_waiters(&database, 1);
        sql.run(&format!(
            "SELECT 1 FROM plans WHERE plan_id = '{plan}' FOR UPDATE"
        ));
        sql.run("COMMIT");
        assert_eq!(
            waiting.join().unwrap().unwrap().receipt.version,
            Some(PlanVersion(2))
        );
    });
}

/// Guards `CASE version WHEN …` in `UPDATE_PLAN`: COMMIT is sent before the answers arrive.
#[test]
fn a_plan_at_another_version_is_not_written() {
    let database = ScratchDatabase::new();
    let store = database.store();
    let plan = plan_id();
    store.commit(create(plan)).unwrap();
    let mut sql = database.sql();
    sql.run("UPDATE plans SET version = 7");
    let answer = store.commit(append(plan));
    assert!(
        matches!(
            answer,
            Err(CommitError::Failed(StoreError::Database { .. }))
        ),
        "{answer:?}"
    );
    assert_eq!(sql.value("SELECT count(*) FROM events"), "1");
    assert_eq!(sql.value("SELECT count(*) FROM commands"), "1");
    assert_eq!(sql.value("SELECT version FROM plans"), "7");
    let problems = store.check_integrity().unwrap();
    assert_eq!(problems.len(), 1, "{problems:?}");
}

/// Guards atomicity when a statement fails with COMMIT already sent.
#[test]
fn a_failing_statement_aborts_the_transaction() {
    let database = ScratchDatabase::new();
    let store = database.store();
    let plan = plan_id();
    store.commit(create(plan)).unwrap();
    let before = store.read_plan(plan).unwrap();
    let submission = submission(reads(plan, RowAccess::Exclusive), move |facts, now| {
        let lease = plan::facts::Lease {
            plan,
            owner: "a\0b".to_owned(),
            epoch: Epoch(1),
            expires_at: now,
        };
        Ok(decision(
            appended(facts, plan, now)?,
            vec![RowWrite::PutLease(lease)],
            now,
        ))
    });
    assert!(matches!(
        store.commit(submission),
        Err(CommitError::Failed(StoreError::Database { .. }))
    ));
    assert_eq!(store.read_plan(plan).unwrap(), before);
    store.commit(append(plan)).unwrap();
}

/// Guards the check that a changed plan is locked exclusively: shared lockers would deadlock.
#[test]
fn a_plan_locked_shared_is_not_changed() {
    let database = ScratchDatabase::new();
    let store = database.store();
    let plan = plan_id();
    store.commit(create(plan)).unwrap();
    let mut submission = append(plan);
    submission.reads = reads(plan, RowAccess::Shared);
    assert!(matches!(
        store.commit(submission),
        Err(CommitError::Failed(StoreError::Database { .. }))
    ));
    assert_eq!(
        store.read_plan(plan).unwrap().unwrap().plan.version(),
        PlanVersion(1)
    );
}

/// Guards that a blocked gate is evaluated again under the same key.
#[test]
fn a_blocked_receipt_is_not_stored() {
    let database = ScratchDatabase::new();
    let store = database.store();
    let plan = plan_id();
    store.commit(create(plan)).unwrap();
    let blocked = Submission {
        key: Some(key("k", b"")),
        ..submission(reads(plan, RowAccess::Exclusive), move |_, now| {
            let mut receipt = receipt(plan, PlanVersion(1), now);
            receipt.outcome = ReceiptOutcome::Blocked(GateBlocked {
                plan,
                gate: Gate::Apply,
                failed: Vec::new(),
            });
            Ok(Decision {
                plans: Vec::new(),
                rows: Vec::new(),
                receipt,
            })
        })
    };
    store.commit(blocked).unwrap();
    let again = store.commit(append_once(plan, key("k", b""))).unwrap();
    assert!(!again.is_repeat);
    assert_eq!(again.receipt.version, Some(PlanVersion(2)));
}

/// Guards that a refusal leaves nothing behind, not even a lock.
#[test]
fn a_refusal_leaves_nothing_behind() {
    let database = ScratchDatabase::new();
    let store = database.store();
    let plan = plan_id();
    store.commit(create(plan)).unwrap();
    assert!(matches!(
        store.commit(create(plan)),
        Err(CommitError::Refused(_))
    ));
    database.sql().run(&format!(
        "SELECT 1 FROM plans WHERE plan_id = '{plan}' FOR UPDATE NOWAIT"
    ));
    assert_eq!(database.sql().value("SELECT count(*) FROM commands"), "1");
}

fn key(key: &str, arguments: &[u8]) -> IdempotencyKey {
    IdempotencyKey {
        scope: "verb".to_owned(),
        key: key.to_owned(),
        fingerprint: Digest::hash_bytes(arguments),
    }
}

/// Counts transactions that wait for a lock.
const WAITING: &str = "SELECT count(*) FROM pg_stat_activity \
                       WHERE datname = current_database() AND wait_event_type = 'Lock'";

/// Waits until this many of the store's transactions wait for a lock.
fn wait_for_waiters(database: &ScratchDatabase, count: usize) {
    let mut sql = database.sql();
    let began = Instant::now();
    while sql.value(WAITING) != count.to_string() {
        assert!(
            began.elapsed() < Duration::from_secs(20),
            "no transaction waits"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn create_action(name: &QualifiedName, by: &str) -> Submission {
    let (name, by) = (name.clone(), by.to_owned());
    let reads = ReadSet {
        action: Some((name.clone(), RowAccess::Exclusive)),
        ..ReadSet::default()
    };
    submission(reads, move |facts, now| {
        if let Some(action) = &facts.action {
            return Err(Refusal::ActionExists {
                name: action.name().clone(),
                at: action.created_at,
                by: action.created_by.clone(),
            });
        }
        let action = Action {
            definition: ActionDefinition {
                name: name.clone(),
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
            created_at: now,
            created_by: Caller::Person(by.clone()),
            used_by: None,
        };
        Ok(rows_only(vec![RowWrite::PutAction(action)], now))
    })
}

fn open_changeset(plan: plan::PlanId, id: ChangesetId) -> Submission {
    submission(reads(plan, RowAccess::Exclusive), move |_, now| {
        let changeset = Changeset {
            id,
            plan,
            node: Node::main(),
            epoch: Epoch(1),
            opened_at: now,
            seal: None,
        };
        Ok(rows_only(vec![RowWrite::PutChangeset(changeset)], now))
    })
}

/// Increments the number in the entry at a path.
fn increment_entry(plan: plan::PlanId, changeset: ChangesetId, path: TreePath) -> Submission {
    let reads = ReadSet {
        changesets: ChangesetReads::EntriesAt(vec![path.clone()]),
        ..reads(plan, RowAccess::Shared)
    };
    submission(reads, move |facts, now| {
        assert_eq!(facts.changesets.len(), 1);
        let before = facts
            .entries
            .first()
            .and_then(|(_, entry)| entry.after.clone());
        let count: u32 = before.map_or(0, |count| count.parse().unwrap());
        let mut entry = ChangesetEntry::new(path.clone(), PathOperation::Modify);
        entry.after = Some((count + 1).to_string());
        Ok(rows_only(vec![RowWrite::PutEntry(changeset, entry)], now))
    })
}

fn add_rule(name: &str) -> Submission {
    let name = name.to_owned();
    let reads = ReadSet {
        rules: vec![(RuleScope::Global, RowAccess::Exclusive)],
        ..ReadSet::default()
    };
    submission(reads, move |facts, now| {
        let revision = facts.rules.revision(&RuleScope::Global) + 1;
        Ok(rows_only(
            vec![RowWrite::PutRule(rule(&name, revision))],
            now,
        ))
    })
}

fn rule(name: &str, revision: u64) -> Rule {
    Rule {
        scope: RuleScope::Global,
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

fn rows_only(rows: Vec<RowWrite>, now: Timestamp) -> Decision {
    let mut receipt = receipt(plan::PlanId::from_parts(0, 0), PlanVersion(0), now);
    receipt.plan = None;
    receipt.version = None;
    Decision {
        plans: Vec::new(),
        rows,
        receipt,
    }
}

/// Returns incompressible bytes.
fn incompressible_bytes(length: usize, number: u8) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(length);
    let mut digest = Digest::hash_bytes(&[number]);
    while bytes.len() < length {
        digest = Digest::hash_bytes(digest.as_bytes());
        bytes.extend(digest.as_bytes().iter().map(|byte| b'a' + (byte & 0x0f)));
        digest = Digest::hash_parts([digest.as_bytes().as_slice(), b"x"]);
    }
    bytes.truncate(length);
    bytes
}
