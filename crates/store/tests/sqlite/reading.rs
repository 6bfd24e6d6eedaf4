//! The same commits to this store and to memory: every read gives the same.

use plan::changeset::{Changeset, Entry, Operation, Seal, TreePath};
use plan::facts::{Lease, Outcome};
use plan::invariant::{Check, Gate, Rule, RuleDraft, Scope, scopes_of};
use plan::judgement::{Evidence, FailedRule, RuleOutcome, RuleVerdict, Verdict};
use plan::stage::StateName;
use plan::{
    Action, ActionState, Caller, ChangesetId, Decision, Epoch, Event, Facts, Name, Phase, PlanId,
    Row, Span, Timestamp, Verb, Version,
};
use planwright_store::fault::Faults;
use planwright_store::sqlite::{SqliteOptions, SqliteStore};
use planwright_store::{
    Access, ChangesetReads, Clock, DecideFn, MemoryStore, PlanFilter, Read, Reads, Store,
    Submission, Tail,
};

use crate::support::{
    Place, about, command_id, creates, one_event, plan_id, receipt, required, toggles,
};

const NOW: Timestamp = Timestamp(1_700_000_000_000_000);
const PLANS: u64 = 40;

/// Both stores with the same content.
fn both(place: &Place) -> (SqliteStore, MemoryStore) {
    let clock = Clock::new(|| NOW);
    let options = SqliteOptions {
        clock: clock.clone(),
        faults: Faults::default(),
    };
    let sqlite = SqliteStore::new(&place.path, options);
    let memory = MemoryStore::with(clock, Faults::default());
    for store in [&sqlite as &dyn Store, &memory] {
        fill(store);
    }
    (sqlite, memory)
}

fn fill(store: &dyn Store) {
    for number in 0..PLANS {
        let id = plan_id(number);
        let action = (number % 3 == 0).then(|| action_name(number % 2));
        store.commit(about(id, creates_of(id, action))).unwrap();
        // Different states of strategize.
        match number % 5 {
            1 => drop(store.commit(about(id, toggles())).unwrap()),
            2 => drop(store.commit(about(id, cancels())).unwrap()),
            3 => {
                store.commit(about(id, toggles())).unwrap();
                store.commit(about(id, completes())).unwrap();
            }
            _ => {}
        }
        if number % 10 == 3 {
            store.commit(about(id, enters_execute())).unwrap();
        }
    }
    let rows = (0..4)
        .map(|number| Row::PutAction(action(number)))
        .collect();
    store.commit(about(plan_id(0), writes(rows))).unwrap();
    store.commit(about(plan_id(0), writes(rules()))).unwrap();
    let dropped = Row::DropRule {
        scope: Scope::Global,
        name: "b".parse().unwrap(),
        revision: 9,
    };
    store
        .commit(about(plan_id(0), writes(vec![dropped])))
        .unwrap();
    store
        .commit(about(plan_id(3), writes(beside(plan_id(3)))))
        .unwrap();
    let changes = changesets(plan_id(4));
    store.commit(about(plan_id(4), writes(changes))).unwrap();
}

#[test]
fn plans_are_listed_alike_by_every_filter_and_page() {
    let place = Place::new();
    let (sqlite, memory) = both(&place);
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
                    };
                    for (after, limit) in [(None, 3), (Some(plan_id(17)), 5), (None, 100)] {
                        let page = sqlite.plans(&filter, after, limit).unwrap();
                        shown += page.len();
                        assert_eq!(
                            page,
                            memory.plans(&filter, after, limit).unwrap(),
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
fn everything_else_is_read_alike() {
    let place = Place::new();
    let (sqlite, memory) = both(&place);
    let stores: [&dyn Store; 2] = [&sqlite, &memory];
    let same = |what: &dyn Fn(&dyn Store) -> String| {
        let [one, other] = stores.map(what);
        assert_eq!(one, other);
    };
    for id in (0..=PLANS).map(plan_id) {
        same(&|store| format!("{:?}", store.plan(id).unwrap()));
        same(&|store| format!("{:?}", store.snapshot(id).unwrap()));
        same(&|store| format!("{:?}", store.changesets(id).unwrap()));
        same(&|store| {
            let events = store.plan_events(id, Version(1), 2).unwrap();
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
            let first = store.due(phase, None, 4).unwrap();
            let rest = store.due(phase, first.last().copied(), 100).unwrap();
            let claimable = store.claimable(phase, first.first().copied(), 5).unwrap();
            format!("{first:?} {rest:?} {claimable:?}")
        });
    }
    same(&|store| format!("{:?}", store.expired(3).unwrap()));
    for fragment in ["01HF7YAT", "0", "1", "G", "0000000D", "X", ""] {
        same(&|store| format!("{:?}", store.plans_like(fragment, 1000).unwrap()));
    }
    same(&|store| format!("{:?}", store.action(&action_name(1)).unwrap()));
    same(&|store| format!("{:?}", store.actions(None, 2).unwrap()));
    same(&|store| format!("{:?}", store.actions(Some(&action_name(1)), 9).unwrap()));
    same(&|store| format!("{:?}", store.rules(&[]).unwrap()));
    let scopes = scopes_of(plan_id(3), Some(&action_name(1)), []);
    same(&|store| format!("{:?}", store.rules(&scopes).unwrap()));
    same(&|store| {
        format!(
            "{:?}",
            store
                .events(&store.latest().unwrap(), 5)
                .unwrap()
                .events
                .len()
        ) + ".."
    });
    assert_eq!(sqlite.latest().unwrap(), memory.latest().unwrap());
}

#[test]
fn decisions_are_made_on_the_same_facts() {
    let place = Place::new();
    let (sqlite, memory) = both(&place);
    let paths = vec![path("a"), path("nowhere")];
    let all_reads = [
        Reads::default(),
        Reads {
            plan: Some((plan_id(3), Access::Shared)),
            action: Some((action_name(1), Access::Shared)),
            rules: vec![
                (Scope::Plan(plan_id(3)), Access::Shared),
                (Scope::Global, Access::Shared),
                (Scope::Plan(plan_id(39)), Access::Shared),
            ],
            changesets: ChangesetReads::None,
            ..Reads::default()
        },
        Reads {
            plan: Some((plan_id(4), Access::Exclusive)),
            changesets: ChangesetReads::All,
            ..Reads::default()
        },
        Reads {
            plan: Some((plan_id(4), Access::Exclusive)),
            changesets: ChangesetReads::EntriesAt(paths),
            ..Reads::default()
        },
        Reads {
            plan: Some((plan_id(PLANS), Access::Exclusive)),
            changesets: ChangesetReads::All,
            ..Reads::default()
        },
    ];
    for reads in all_reads {
        let [one, other] = [&sqlite as &dyn Store, &memory].map(|store| facts(store, &reads));
        assert_eq!(one, other, "{reads:?}");
    }
}

/// The facts a decision gets, as text.
fn facts(store: &dyn Store, reads: &Reads) -> String {
    let (told, heard) = std::sync::mpsc::channel();
    let submission = Submission {
        id: command_id(),
        key: None,
        reads: reads.clone(),
        decide: Box::new(move |facts: &Facts, now| {
            told.send(format!("{facts:?} at {now}")).unwrap();
            Err(plan::Refusal::NoGoal)
        }),
    };
    store.commit(submission).unwrap_err();
    heard.recv().unwrap()
}

fn action_name(number: u64) -> Name {
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
        },
        state: ActionState::Available,
        created_at: NOW,
        created_by: Caller::Person("ada".to_owned()),
        used_by: None,
    }
}

fn rule(scope: Scope, name: &str, revision: u64) -> Rule {
    Rule {
        scope,
        revision,
        draft: RuleDraft {
            name: name.parse().unwrap(),
            check: Check::Expr("true".to_owned()),
            at: vec![Gate::Apply],
            advisory: false,
            non_overridable: false,
        },
        added_at: NOW,
        added_by: Caller::Person("ada".to_owned()),
    }
}

fn rules() -> Vec<Row> {
    let action = Scope::Action(action_name(1));
    let plan = Scope::Plan(plan_id(3));
    vec![
        Row::PutRule(rule(plan, "z", 1)),
        Row::PutRule(rule(action, "a", 1)),
        Row::PutRule(rule(Scope::Global, "b", 1)),
        Row::PutRule(rule(Scope::Global, "c", 2)),
        Row::PutRule(rule(Scope::Global, "a", 3)),
        Row::PutRule(rule(Scope::Global, "c", 4)),
    ]
}

/// An expired lease, a verdict that is replaced, and evidence of two entries.
fn beside(plan: PlanId) -> Vec<Row> {
    let verdict = |evidence: &str| {
        Row::PutVerdict(Verdict {
            plan,
            gate: Gate::Apply,
            version: Version(2),
            revisions: [(Scope::Global, 4)].into(),
            tips: Vec::new(),
            failed: vec![FailedRule {
                rule: rule(Scope::Global, "a", 3).reference(),
                check: "true".to_owned(),
                evidence: evidence.to_owned(),
                waivable: true,
                waits: None,
            }],
            at: NOW,
        })
    };
    let evidence = |entry, name: &str, outcome| {
        Row::PutEvidence(Evidence {
            plan,
            entry,
            subject: plan::Digest::ZERO,
            verdict: RuleVerdict {
                rule: rule(Scope::Global, name, 3).reference(),
                outcome,
            },
            at: NOW,
        })
    };
    let lease = |seconds| {
        Row::PutLease(Lease {
            plan,
            owner: "worker".to_owned(),
            epoch: Epoch(7),
            expires_at: NOW.plus(Span::seconds(seconds)),
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

/// Two open changesets and a sealed one, with entries that are folded, dropped, not UTF-8.
fn changesets(plan: PlanId) -> Vec<Row> {
    let id = |number| ChangesetId::from_parts(1_700_000_000_000, number);
    let open = |number| Changeset {
        id: id(number),
        plan,
        node: format!("node-{number}").parse().unwrap(),
        epoch: Epoch(1),
        opened_at: NOW,
        seal: None,
    };
    let entry = |name: &[u8]| Entry::new(TreePath::new(name).unwrap(), Operation::Modify);
    let sealed = Changeset {
        seal: Some(Seal::of(&[entry(b"x")], NOW)),
        ..open(2)
    };
    vec![
        Row::PutChangeset(open(3)),
        Row::PutChangeset(open(1)),
        Row::PutChangeset(open(2)),
        Row::PutEntry(id(2), entry(b"x")),
        Row::PutEntry(id(1), entry(b"b")),
        Row::PutEntry(id(1), entry(b"a")),
        Row::PutEntry(id(1), entry(b"\xff\xfe")),
        Row::PutEntry(id(1), entry(b"gone")),
        Row::DropEntry(id(1), path("gone")),
        Row::PutEntry(id(3), entry(b"a")),
        Row::PutChangeset(sealed),
    ]
}

fn creates_of(id: PlanId, action: Option<Name>) -> DecideFn {
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
        epoch: plan.epoch.next(),
        reason: Some("enough".into()),
    })
}

fn completes() -> DecideFn {
    step(|plan| Event::StrategizeCompleted { epoch: plan.epoch })
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
            plan.id,
            event,
            Vec::new(),
            now,
        ))
    })
}

/// Rows without an event.
fn writes(rows: Vec<Row>) -> DecideFn {
    Box::new(move |facts, now| {
        let plan = required(facts)?;
        let mut receipt = receipt(&plan, Outcome::Done, now);
        receipt.verb = Verb::RecordChange;
        Ok(Decision {
            plans: Vec::new(),
            rows: rows.clone(),
            receipt,
        })
    })
}
