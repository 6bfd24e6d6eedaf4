//! Tests that reads return the same as the memory store's after the same commits.

use plan::changeset::{Changeset, ChangesetEntry, ChangesetSeal, PathOperation, TreePath};
use plan::facts::{Lease, ReceiptOutcome};
use plan::invariant::{Gate, Rule, RuleCheck, RuleDraft, RuleScope, scopes_for_plan};
use plan::judgement::{FailedRule, GateVerdict, RuleEvidence, RuleOutcome, RuleVerdict};
use plan::stage::StateName;
use plan::{
    Action, ActionState, Caller, ChangesetId, Decision, DecisionFacts, Epoch, Event, Phase, PlanId,
    PlanVersion, QualifiedName, RowWrite, Span, Timestamp, Verb,
};
use planwright_store::fault::StoreFaults;
use planwright_store::sqlite::{SqliteOptions, SqliteStore};
use planwright_store::{
    ChangesetReads, Clock, DecideFn, EventLog, MemoryStore, PlanFilter, ReadSet, RowAccess, Store,
    StoreReader, Submission,
};

use crate::sqlite::support::{
    DatabaseDir, command_id, creates, one_event, plan_id, receipt, required, submission_for,
    toggles,
};

const NOW: Timestamp = Timestamp(1_700_000_000_000_000);
const PLANS: u64 = 40;

/// Creates both stores with the same content.
fn both_stores(dir: &DatabaseDir) -> (SqliteStore, MemoryStore) {
    let clock = Clock::new(|| NOW);
    let options = SqliteOptions {
        clock: clock.clone(),
        faults: StoreFaults::default(),
    };
    let sqlite = SqliteStore::new(&dir.path, options);
    let memory = MemoryStore::with_clock_and_faults(clock, StoreFaults::default());
    for store in [&sqlite as &dyn Store, &memory] {
        fill(store);
    }
    (sqlite, memory)
}

fn fill(store: &dyn Store) {
    for number in 0..PLANS {
        let id = plan_id(number);
        let action = (number % 3 == 0).then(|| action_name(number % 2));
        store
            .commit(submission_for(id, creates_of(id, action)))
            .unwrap();
        // Different states of strategize.
        match number % 5 {
            1 => drop(store.commit(submission_for(id, toggles())).unwrap()),
            2 => drop(store.commit(submission_for(id, cancels())).unwrap()),
            3 => {
                store.commit(submission_for(id, toggles())).unwrap();
                store.commit(submission_for(id, completes())).unwrap();
            }
            _ => {}
        }
        if number % 10 == 3 {
            store.commit(submission_for(id, enters_execute())).unwrap();
        }
    }
    let rows = (0..4)
        .map(|number| RowWrite::PutAction(action(number)))
        .collect();
    store
        .commit(submission_for(plan_id(0), writes(rows)))
        .unwrap();
    store
        .commit(submission_for(plan_id(0), writes(rules())))
        .unwrap();
    let dropped = RowWrite::DropRule {
        scope: RuleScope::Global,
        name: "b".parse().unwrap(),
        revision: 9,
    };
    store
        .commit(submission_for(plan_id(0), writes(vec![dropped])))
        .unwrap();
    store
        .commit(submission_for(
            plan_id(3),
            writes(lease_verdict_and_evidence(plan_id(3))),
        ))
        .unwrap();
    let changes = changesets(plan_id(4));
    store
        .commit(submission_for(plan_id(4), writes(changes)))
        .unwrap();
}

#[test]
fn plan_lists_match_the_memory_store() {
    let dir = DatabaseDir::new();
    let (sqlite, memory) = both_stores(&dir);
    let phases = || std::iter::once(None).chain(Phase::ALL.into_iter().map(Some));
    let states = || std::iter::once(None).chain(StateName::ALL.into_iter().map(Some));
    let actions = [None, Some(action_name(0)), Some(action_name(7))];
    let mut shown = 0;
    for phase in phases() {
        for state in states() {
            for action in &actions {
                for needs_person in [false, true] {
                    let filter = PlanFilter {
                        phase,
                        state,
                        action: action.clone(),
                        needs_person,
                        project: None,
                        origin: None,
                    };
                    for (after, limit) in [(None, 3), (Some(plan_id(17)), 5), (None, 100)] {
                        let page = sqlite.list_plans(&filter, after, limit).unwrap();
                        shown += page.len();
                        assert_eq!(
                            page,
                            memory.list_plans(&filter, after, limit).unwrap(),
                            "{filter:?}"
                        );
                    }
                }
            }
        }
    }
    assert!(shown > 200, "{shown}");
}

#[test]
fn other_reads_match_the_memory_store() {
    let dir = DatabaseDir::new();
    let (sqlite, memory) = both_stores(&dir);
    let stores: [&dyn Store; 2] = [&sqlite, &memory];
    let same = |what: &dyn Fn(&dyn Store) -> String| {
        let [one, other] = stores.map(what);
        assert_eq!(one, other);
    };
    for id in (0..=PLANS).map(plan_id) {
        same(&|store| format!("{:?}", store.read_plan(id).unwrap()));
        same(&|store| format!("{:?}", store.read_snapshot(id).unwrap()));
        same(&|store| format!("{:?}", store.list_changesets(id).unwrap()));
        same(&|store| {
            let events = store.read_plan_events(id, PlanVersion(1), 2).unwrap();
            format!(
                "{:?}",
                events
                    .iter()
                    .map(|event| (&event.body, event.hash))
                    .collect::<Vec<_>>()
            )
        });
    }
    for phase in Phase::ALL {
        same(&|store| {
            let first = store.list_due_plans(phase, None, 4).unwrap();
            let rest = store
                .list_due_plans(phase, first.last().copied(), 100)
                .unwrap();
            let claimable = store
                .list_claimable_plans(phase, first.first().copied(), 5)
                .unwrap();
            format!("{first:?} {rest:?} {claimable:?}")
        });
    }
    same(&|store| format!("{:?}", store.list_expired_leases(3).unwrap()));
    for fragment in ["01HF7YAT", "0", "1", "G", "0000000D", "X", ""] {
        same(&|store| format!("{:?}", store.find_plan_ids(fragment, 1000).unwrap()));
    }
    same(&|store| format!("{:?}", store.read_action(&action_name(1)).unwrap()));
    same(&|store| format!("{:?}", store.list_actions(None, 2).unwrap()));
    same(&|store| {
        format!(
            "{:?}",
            store.list_actions(Some(&action_name(1)), 9).unwrap()
        )
    });
    same(&|store| format!("{:?}", store.read_rules(&[]).unwrap()));
    let scopes = scopes_for_plan(plan_id(3), Some(&action_name(1)), []);
    same(&|store| format!("{:?}", store.read_rules(&scopes).unwrap()));
    same(&|store| {
        format!(
            "{:?}",
            store
                .read_events(&store.read_latest_cursor().unwrap(), 5)
                .unwrap()
                .events
                .len()
        ) + ".."
    });
    assert_eq!(
        sqlite.read_latest_cursor().unwrap(),
        memory.read_latest_cursor().unwrap()
    );
}

#[test]
fn decision_facts_match_the_memory_store() {
    let dir = DatabaseDir::new();
    let (sqlite, memory) = both_stores(&dir);
    let paths = vec![path("a"), path("nowhere")];
    let all_reads = [
        ReadSet::default(),
        ReadSet {
            plan: Some((plan_id(3), RowAccess::Shared)),
            action: Some((action_name(1), RowAccess::Shared)),
            rules: vec![
                (RuleScope::Plan(plan_id(3)), RowAccess::Shared),
                (RuleScope::Global, RowAccess::Shared),
                (RuleScope::Plan(plan_id(39)), RowAccess::Shared),
            ],
            changesets: ChangesetReads::None,
            ..ReadSet::default()
        },
        ReadSet {
            plan: Some((plan_id(4), RowAccess::Exclusive)),
            changesets: ChangesetReads::All,
            ..ReadSet::default()
        },
        ReadSet {
            plan: Some((plan_id(4), RowAccess::Exclusive)),
            changesets: ChangesetReads::EntriesAt(paths),
            ..ReadSet::default()
        },
        ReadSet {
            plan: Some((plan_id(PLANS), RowAccess::Exclusive)),
            changesets: ChangesetReads::All,
            ..ReadSet::default()
        },
    ];
    for reads in all_reads {
        let [one, other] = [&sqlite as &dyn Store, &memory].map(|store| facts(store, &reads));
        assert_eq!(one, other, "{reads:?}");
    }
}

/// Returns the facts a decision gets, as text.
fn facts(store: &dyn Store, reads: &ReadSet) -> String {
    let (sender, receiver) = std::sync::mpsc::channel();
    let submission = Submission {
        id: command_id(),
        key: None,
        reads: reads.clone(),
        decide: Box::new(move |facts: &DecisionFacts, now| {
            sender.send(format!("{facts:?} at {now}")).unwrap();
            Err(plan::Refusal::NoGoal)
        }),
    };
    store.commit(submission).unwrap_err();
    receiver.recv().unwrap()
}

fn action_name(number: u64) -> QualifiedName {
    format!("acme/action-{number}").parse().unwrap()
}

fn action(number: u64) -> Action {
    Action {
        definition: plan::action::ActionDefinition {
            name: action_name(number),
            description: "tidies".to_owned(),
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
        created_at: NOW,
        created_by: Caller::Person("ada".to_owned()),
        used_by: None,
    }
}

fn rule(scope: RuleScope, name: &str, revision: u64) -> Rule {
    Rule {
        scope,
        revision,
        draft: RuleDraft {
            name: name.parse().unwrap(),
            check: RuleCheck::Expr("true".to_owned()),
            at: vec![Gate::Apply],
            advisory: false,
            non_overridable: false,
        },
        added_at: NOW,
        added_by: Caller::Person("ada".to_owned()),
    }
}

fn rules() -> Vec<RowWrite> {
    let action = RuleScope::Action(action_name(1));
    let plan = RuleScope::Plan(plan_id(3));
    vec![
        RowWrite::PutRule(rule(plan, "z", 1)),
        RowWrite::PutRule(rule(action, "a", 1)),
        RowWrite::PutRule(rule(RuleScope::Global, "b", 1)),
        RowWrite::PutRule(rule(RuleScope::Global, "c", 2)),
        RowWrite::PutRule(rule(RuleScope::Global, "a", 3)),
        RowWrite::PutRule(rule(RuleScope::Global, "c", 4)),
    ]
}

/// An expired lease, a replaced verdict, and evidence for two entries.
fn lease_verdict_and_evidence(plan: PlanId) -> Vec<RowWrite> {
    let verdict = |evidence: &str| {
        RowWrite::PutVerdict(GateVerdict {
            plan,
            gate: Gate::Apply,
            version: PlanVersion(2),
            revisions: [(RuleScope::Global, 4)].into(),
            tips: Vec::new(),
            failed: vec![FailedRule {
                rule: rule(RuleScope::Global, "a", 3).reference(),
                check: "true".to_owned(),
                evidence: evidence.to_owned(),
                waivable: true,
                waits: None,
                broken: false,
            }],
            at: NOW,
        })
    };
    let evidence = |entry, name: &str, outcome| {
        RowWrite::PutEvidence(RuleEvidence {
            plan,
            entry,
            subject: plan::Digest::ZERO,
            verdict: RuleVerdict {
                rule: rule(RuleScope::Global, name, 3).reference(),
                outcome,
            },
            at: NOW,
        })
    };
    let lease = |seconds| {
        RowWrite::PutLease(Lease {
            plan,
            owner: "worker".to_owned(),
            epoch: Epoch(7),
            expires_at: NOW.saturating_add(Span::from_seconds(seconds)),
        })
    };
    vec![
        verdict("first"),
        verdict("second"),
        evidence(0, "a", RuleOutcome::Held),
        evidence(1, "c", RuleOutcome::Held),
        evidence(1, "a", RuleOutcome::Failed("no".to_owned())),
        evidence(1, "a", RuleOutcome::Held),
        lease(30),
        lease(-30),
    ]
}

fn path(text: &str) -> TreePath {
    TreePath::new(text).unwrap()
}

/// Two open changesets and a sealed one, with entries that are folded, dropped or not UTF-8.
fn changesets(plan: PlanId) -> Vec<RowWrite> {
    let id = |number| ChangesetId::from_parts(1_700_000_000_000, number);
    let open = |number| Changeset {
        id: id(number),
        plan,
        node: format!("node-{number}").parse().unwrap(),
        epoch: Epoch(1),
        opened_at: NOW,
        seal: None,
    };
    let entry =
        |name: &[u8]| ChangesetEntry::new(TreePath::new(name).unwrap(), PathOperation::Modify);
    let sealed = Changeset {
        seal: Some(ChangesetSeal::from_entries(&[entry(b"x")], NOW)),
        ..open(2)
    };
    vec![
        RowWrite::PutChangeset(open(3)),
        RowWrite::PutChangeset(open(1)),
        RowWrite::PutChangeset(open(2)),
        RowWrite::PutEntry(id(2), entry(b"x")),
        RowWrite::PutEntry(id(1), entry(b"b")),
        RowWrite::PutEntry(id(1), entry(b"a")),
        RowWrite::PutEntry(id(1), entry(b"\xff\xfe")),
        RowWrite::PutEntry(id(1), entry(b"gone")),
        RowWrite::DropEntry(id(1), path("gone")),
        RowWrite::PutEntry(id(3), entry(b"a")),
        RowWrite::PutChangeset(sealed),
    ]
}

fn creates_of(id: PlanId, action: Option<QualifiedName>) -> DecideFn {
    let mut creates = creates(id, "tidy up");
    Box::new(move |facts, now| {
        let Decision { mut plans, .. } = creates(facts, now)?;
        let mut event = plans.remove(0).events.remove(0).event;
        if let Event::Created(created) = &mut event {
            created.action.clone_from(&action);
            if id == plan_id(5) {
                created.profile = plan::Profile::Manual;
            }
        }
        Ok(one_event(None, id, event, Vec::new(), now))
    })
}

fn cancels() -> DecideFn {
    step(|plan| Event::Cancelled {
        epoch: plan.epoch().next(),
        reason: Some("enough".into()),
    })
}

fn completes() -> DecideFn {
    step(|plan| Event::StrategizeCompleted {
        epoch: plan.epoch(),
    })
}

fn enters_execute() -> DecideFn {
    step(|_| Event::ExecuteEntered { asked: true })
}

fn step(event: fn(&plan::Plan) -> Event) -> DecideFn {
    Box::new(move |facts, now| {
        let plan = required(facts)?;
        let event = event(&plan);
        Ok(one_event(
            Some(plan.clone()),
            plan.id(),
            event,
            Vec::new(),
            now,
        ))
    })
}

/// Writes rows without an event.
fn writes(rows: Vec<RowWrite>) -> DecideFn {
    Box::new(move |facts, now| {
        let plan = required(facts)?;
        let mut receipt = receipt(&plan, ReceiptOutcome::Done, now);
        receipt.verb = Verb::RecordChange;
        Ok(Decision {
            plans: Vec::new(),
            rows: rows.clone(),
            receipt,
        })
    })
}
