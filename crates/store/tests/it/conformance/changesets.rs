//! G5: every entry is in the changeset of its node, exactly once.

use plan::changeset::{Changeset, ChangesetEntry, ChangesetSeal, Node, PathOperation};
use plan::command::{ChangesetSelector, ReclaimGrounds};
use plan::command::{CompleteExecute, OpenChangeset, ReclaimLease, RecordChange, SealChangeset};
use plan::invariant::Gate;
use plan::{ChangesetId, Command, Epoch, Event, PlanId, Refusal};
use store::{CommitError, CommitOutcome};
use testkit::client::{EXPIRED_LEASE, LONG_LEASE};
use testkit::dump::read_all_events;
use testkit::{StoreDump, TestClient, samples};

use crate::store_fixture::{StoreFixture, commit_while};

super::on_every_store! {
    records_fold_by_path_and_read_back_by_path,
    parallel_nodes_record_into_their_own_changesets,
    parallel_records_of_one_path_fold_into_one_entry,
    two_records_of_one_path_are_serialized,
    of_sixteen_openings_for_one_node_one_wins,
    ambiguity_is_refused_never_guessed,
    a_record_after_the_lease_moved_on_is_fenced,
    a_record_after_the_seal_is_refused,
    a_record_races_a_seal_and_is_in_the_seal_or_refused,
    a_successor_seals_what_was_left_open,
    paths_are_bytes,
}

/// A plan in execute and its holder's epoch.
struct ExecutingPlan<'a> {
    client: &'a TestClient,
    plan: PlanId,
    epoch: Epoch,
}

impl<'a> ExecutingPlan<'a> {
    fn begin(client: &'a TestClient) -> Self {
        let (plan, epoch) = client.create_executing_plan("change things", LONG_LEASE);
        Self {
            client,
            plan,
            epoch,
        }
    }

    fn open(&self, node: &str) -> ChangesetId {
        let id = self.client.ids().next_changeset_id();
        let (epoch, node) = (self.epoch, self::node(node));
        self.client
            .must_submit(self.plan, Command::from(OpenChangeset { epoch, id, node }));
        id
    }

    fn record(
        &self,
        into: ChangesetSelector,
        entry: ChangesetEntry,
    ) -> Result<CommitOutcome, CommitError> {
        record(self.client, self.plan, self.epoch, into, entry)
    }

    fn seal(&self, changeset: ChangesetId) {
        let epoch = self.epoch;
        self.client
            .must_submit(self.plan, Command::from(SealChangeset { epoch, changeset }));
    }

    fn stored(&self) -> Vec<(Changeset, Vec<ChangesetEntry>)> {
        self.client.store().list_changesets(self.plan).unwrap()
    }
}

fn record(
    client: &TestClient,
    plan: PlanId,
    epoch: Epoch,
    into: ChangesetSelector,
    entry: ChangesetEntry,
) -> Result<CommitOutcome, CommitError> {
    client.submit_for_plan(plan, Command::from(RecordChange { epoch, into, entry }))
}

fn node(text: &str) -> Node {
    text.parse().unwrap()
}

fn records_fold_by_path_and_read_back_by_path(fixture: &StoreFixture) {
    let client = fixture.client();
    let work = ExecutingPlan::begin(&client);
    let id = work.open("main");
    let version = client.load_plan(work.plan).version();
    let deleted = ChangesetEntry::new(samples::tree_path("new"), PathOperation::Delete);
    for entry in [
        samples::modified_entry("b", "0", "1"),
        samples::created_entry("new"),
        samples::created_entry("a"),
        samples::modified_entry("b", "1", "2"),
        deleted,
    ] {
        let committed = work
            .record(ChangesetSelector::Changeset(id), entry)
            .unwrap();
        assert_eq!(committed.receipt.changeset, Some(id));
    }
    assert_eq!(
        client.load_plan(work.plan).version(),
        version,
        "an entry is no event"
    );
    let expected = vec![
        samples::created_entry("a"),
        samples::modified_entry("b", "0", "2"),
    ];
    let stored = fixture.open().list_changesets(work.plan).unwrap();
    let [(changeset, entries)] = &stored[..] else {
        panic!("{stored:?}");
    };
    assert_eq!(
        (changeset.id, changeset.plan, &changeset.seal),
        (id, work.plan, &None)
    );
    assert_eq!(
        (&changeset.node, changeset.epoch),
        (&Node::main(), work.epoch)
    );
    assert_eq!(*entries, expected);

    work.seal(id);
    let (changeset, entries) = work.stored().remove(0);
    assert_eq!(entries, expected, "sealing changes no entry");
    let seal = changeset.seal.unwrap();
    assert_eq!(seal, ChangesetSeal::from_entries(&expected, seal.at));
    assert_eq!(
        client.load_plan(work.plan).version(),
        version.next(),
        "sealing is an event"
    );
}

/// A bug of CleverAgents: a record went into the most recent changeset.
fn parallel_nodes_record_into_their_own_changesets(fixture: &StoreFixture) {
    const NODES: usize = 8;
    const RECORDS: usize = 12;
    let client = fixture.client();
    let work = ExecutingPlan::begin(&client);
    let (plan, epoch) = (work.plan, work.epoch);
    let opened = fixture.race(NODES, |number, client| {
        let name = format!("node {number}");
        let work = ExecutingPlan {
            client,
            plan,
            epoch,
        };
        let id = work.open(&name);
        for count in 0..RECORDS {
            // Half of the paths are unique to this node, half are shared by all nodes.
            let path = match count % 2 {
                0 => format!("own/{number}/{count}"),
                _ => format!("same/{count}"),
            };
            let mut entry = samples::created_entry(path);
            entry.tool = Some(name.clone());
            let into = match count % 3 {
                0 => ChangesetSelector::Node(node(&name)),
                _ => ChangesetSelector::Changeset(id),
            };
            let committed = work.record(into, entry).unwrap();
            assert_eq!(committed.receipt.changeset, Some(id));
        }
        id
    });
    let stored = fixture.open().list_changesets(plan).unwrap();
    assert_eq!(stored.len(), NODES);
    for (changeset, entries) in stored {
        let number = opened.iter().position(|id| *id == changeset.id).unwrap();
        assert_eq!(changeset.node.as_str(), format!("node {number}"));
        assert_eq!(entries.len(), RECORDS);
        for entry in entries {
            assert_eq!(
                entry.tool.as_deref(),
                Some(changeset.node.as_str()),
                "{entry:?}"
            );
        }
    }
}

fn parallel_records_of_one_path_fold_into_one_entry(fixture: &StoreFixture) {
    let client = fixture.client();
    let work = ExecutingPlan::begin(&client);
    let id = work.open("main");
    let (plan, epoch) = (work.plan, work.epoch);
    work.record(
        ChangesetSelector::Changeset(id),
        samples::modified_entry("a", "first", "0"),
    )
    .unwrap();
    fixture.race(8, |number, client| {
        for count in 0..4 {
            let entry = samples::modified_entry("a", "?", &format!("{number}.{count}"));
            record(client, plan, epoch, ChangesetSelector::Changeset(id), entry).unwrap();
        }
    });
    let (_, entries) = work.stored().remove(0);
    let [entry] = &entries[..] else {
        panic!("{entries:?}");
    };
    assert_eq!(entry.before.as_deref(), Some("first"));
    assert!(entry.after.as_deref().unwrap().ends_with(".3"), "{entry:?}");
}

/// Neither record may overwrite an entry that the other has replaced, or a record is lost.
fn two_records_of_one_path_are_serialized(fixture: &StoreFixture) {
    let client = fixture.client();
    let work = ExecutingPlan::begin(&client);
    let id = work.open("main");
    let (plan, epoch) = (work.plan, work.epoch);
    let known = samples::modified_entry("known", "0", "1");
    work.record(ChangesetSelector::Changeset(id), known.clone())
        .unwrap();
    for (path, earlier) in [("new", None), ("known", Some(known))] {
        // Each record has information about the file that the other does not.
        let mut one = samples::modified_entry(path, "1", "2");
        one.mode = Some("100755".to_owned());
        let mut other = samples::modified_entry(path, "2", "3");
        other.tool = Some("editor".to_owned());
        let command = Command::from(RecordChange {
            epoch,
            into: ChangesetSelector::Changeset(id),
            entry: one.clone(),
        });
        let submission = client.build_submission(Some(plan), command);
        let (recorder, second) = (fixture.client(), other.clone());
        let (answer, _) = commit_while(&client, submission, move || {
            record(
                &recorder,
                plan,
                epoch,
                ChangesetSelector::Changeset(id),
                second,
            )
            .unwrap();
        });
        answer.unwrap();
        let (_, entries) = work.stored().remove(0);
        let stored = entries.into_iter().find(|entry| entry.path == one.path);
        let folded = |first: &ChangesetEntry, second: &ChangesetEntry| match &earlier {
            Some(earlier) => earlier
                .clone()
                .fold_with(first.clone())?
                .fold_with(second.clone()),
            None => first.clone().fold_with(second.clone()),
        };
        let possible = [folded(&one, &other), folded(&other, &one)];
        assert!(
            possible.contains(&stored),
            "{stored:?} is none of {possible:?}"
        );
    }
}

fn of_sixteen_openings_for_one_node_one_wins(fixture: &StoreFixture) {
    let client = fixture.client();
    let work = ExecutingPlan::begin(&client);
    let (plan, epoch) = (work.plan, work.epoch);
    let answers = fixture.race(16, |_, client| {
        let (id, node) = (client.ids().next_changeset_id(), Node::main());
        let opened = client.submit_for_plan(plan, Command::from(OpenChangeset { epoch, id, node }));
        (id, opened)
    });
    let winners: Vec<_> = answers
        .iter()
        .filter(|(_, answer)| answer.is_ok())
        .collect();
    let [(winner, _)] = winners[..] else {
        panic!("{answers:?}");
    };
    for (_, answer) in answers.iter().filter(|(id, _)| id != winner) {
        let Err(CommitError::Refused(Refusal::NodeHasOpenChangeset { open })) = answer else {
            panic!("{answer:?}");
        };
        assert_eq!(open.id, *winner);
    }
    assert_eq!(work.stored().len(), 1);
}

fn ambiguity_is_refused_never_guessed(fixture: &StoreFixture) {
    let client = fixture.client();
    let work = ExecutingPlan::begin(&client);
    let none = work.record(ChangesetSelector::OnlyOpen, samples::created_entry("a"));
    assert!(
        matches!(
            none,
            Err(CommitError::Refused(Refusal::NoOpenChangeset {
                node: None
            }))
        ),
        "{none:?}"
    );
    let one = work.open("one");
    let only = work
        .record(ChangesetSelector::OnlyOpen, samples::created_entry("a"))
        .unwrap();
    assert_eq!(only.receipt.changeset, Some(one));
    let two = work.open("two");
    let before = StoreDump::read_store(client.store());
    let ambiguous = work.record(ChangesetSelector::OnlyOpen, samples::created_entry("b"));
    let Err(CommitError::Refused(Refusal::AmbiguousChangeset { open })) = ambiguous else {
        panic!("{ambiguous:?}");
    };
    assert_eq!(
        open.iter().map(|open| open.id).collect::<Vec<_>>(),
        [one, two]
    );
    let unknown = work.record(
        ChangesetSelector::Node(node("three")),
        samples::created_entry("b"),
    );
    assert!(
        matches!(unknown, Err(CommitError::Refused(_))),
        "{unknown:?}"
    );
    // Another plan's changeset counts as unknown.
    let other_plan = ExecutingPlan::begin(&client);
    let foreign = other_plan.record(
        ChangesetSelector::Changeset(one),
        samples::created_entry("b"),
    );
    assert!(
        matches!(
            foreign,
            Err(CommitError::Refused(Refusal::NoSuchChangeset { .. }))
        ),
        "{foreign:?}"
    );
    let after = StoreDump::read_store(client.store());
    assert_eq!(after.find_plan(work.plan), before.find_plan(work.plan));
}

fn a_record_after_the_lease_moved_on_is_fenced(fixture: &StoreFixture) {
    let client = fixture.client();
    let (plan, epoch) = client.create_executing_plan("be taken over", EXPIRED_LEASE);
    let work = ExecutingPlan {
        client: &client,
        plan,
        epoch,
    };
    let id = work.open("main");
    work.record(
        ChangesetSelector::Changeset(id),
        samples::created_entry("mine"),
    )
    .unwrap();
    let grounds = ReclaimGrounds::Expired;
    client.must_submit(plan, Command::from(ReclaimLease { grounds }));
    let successor = client.as_worker("successor").claim_phase(plan, LONG_LEASE);
    for into in [
        ChangesetSelector::Changeset(id),
        ChangesetSelector::Node(Node::main()),
        ChangesetSelector::OnlyOpen,
    ] {
        let answer = work.record(into, samples::created_entry("late"));
        let Err(CommitError::Refused(Refusal::Fenced { given, current })) = answer else {
            panic!("{answer:?}");
        };
        assert_eq!((given, current), (epoch, successor));
    }
    // Even the successor cannot write to a changeset of an earlier holder.
    let work = ExecutingPlan {
        client: &client,
        plan,
        epoch: successor,
    };
    let answer = work.record(
        ChangesetSelector::Changeset(id),
        samples::created_entry("other"),
    );
    assert!(
        matches!(
            answer,
            Err(CommitError::Refused(Refusal::NoSuchChangeset { .. }))
        ),
        "{answer:?}"
    );
    assert_eq!(work.stored()[0].1, [samples::created_entry("mine")]);
}

fn a_record_after_the_seal_is_refused(fixture: &StoreFixture) {
    let client = fixture.client();
    let work = ExecutingPlan::begin(&client);
    let id = work.open("main");
    work.seal(id);
    let before = StoreDump::read_store(client.store());
    for into in [
        ChangesetSelector::Changeset(id),
        ChangesetSelector::Node(Node::main()),
        ChangesetSelector::OnlyOpen,
    ] {
        let answer = work.record(into, samples::created_entry("late"));
        assert!(matches!(answer, Err(CommitError::Refused(_))), "{answer:?}");
    }
    StoreDump::read_store(client.store()).assert_same(&before, "after records that were refused");
    // The node may start a new changeset.
    let next = work.open("main");
    work.record(
        ChangesetSelector::Node(Node::main()),
        samples::created_entry("more"),
    )
    .unwrap();
    let stored = work.stored();
    let ids: Vec<ChangesetId> = stored.iter().map(|(changeset, _)| changeset.id).collect();
    assert_eq!(ids, [id, next], "oldest first");
}

fn a_record_races_a_seal_and_is_in_the_seal_or_refused(fixture: &StoreFixture) {
    let client = fixture.client();
    let work = ExecutingPlan::begin(&client);
    for round in 0..5 {
        let id = work.open("main");
        let (plan, epoch) = (work.plan, work.epoch);
        let recorded = fixture.race(4, |number, client| {
            if number == 0 {
                let changeset = id;
                client.must_submit(plan, Command::from(SealChangeset { epoch, changeset }));
                return None;
            }
            let entry = samples::created_entry(format!("{round}/{number}"));
            let answer = record(
                client,
                plan,
                epoch,
                ChangesetSelector::Changeset(id),
                entry.clone(),
            );
            answer.is_ok().then_some(entry)
        });
        let expected: Vec<ChangesetEntry> = recorded.into_iter().flatten().collect();
        let mut stored = work.stored();
        let (changeset, entries) = stored.pop().unwrap();
        assert_eq!(entries, expected);
        let seal = changeset.seal.unwrap();
        assert_eq!(seal, ChangesetSeal::from_entries(&expected, seal.at));
    }
}

fn a_successor_seals_what_was_left_open(fixture: &StoreFixture) {
    let client = fixture.client();
    let (plan, epoch) = client.create_executing_plan("be taken over", EXPIRED_LEASE);
    let work = ExecutingPlan {
        client: &client,
        plan,
        epoch,
    };
    let id = work.open("main");
    work.record(
        ChangesetSelector::Changeset(id),
        samples::created_entry("left"),
    )
    .unwrap();
    let grounds = ReclaimGrounds::Expired;
    client.must_submit(plan, Command::from(ReclaimLease { grounds }));
    assert_eq!(work.stored()[0].0.seal, None);
    let epoch = client.claim_phase(plan, LONG_LEASE);
    let (changeset, entries) = work.stored().remove(0);
    let seal = changeset.seal.unwrap();
    assert_eq!(seal, ChangesetSeal::from_entries(&entries, seal.at));

    // Changesets that the successor leaves open are sealed with its result.
    let work = ExecutingPlan {
        client: &client,
        plan,
        epoch,
    };
    let id = work.open("main");
    work.record(
        ChangesetSelector::Changeset(id),
        samples::created_entry("done"),
    )
    .unwrap();
    let judgement = client.judge_rules(plan, Gate::Result);
    let result = samples::result_content("it");
    client.must_submit(
        plan,
        Command::from(CompleteExecute {
            epoch,
            result,
            captured: Vec::new(),
            allow_empty: false,
            judgement,
        }),
    );
    let stored = work.stored();
    assert_eq!(stored[0].0.seal.as_ref(), Some(&seal), "a seal is for good");
    let sealed: Vec<ChangesetId> = read_all_events(client.store(), plan)
        .into_iter()
        .filter_map(|stored| match stored.recorded.event {
            Event::ChangesetSealed { changeset, .. } => Some(changeset),
            _ => None,
        })
        .collect();
    let stored: Vec<ChangesetId> = stored.iter().map(|(changeset, _)| changeset.id).collect();
    assert_eq!(sealed, stored, "each is sealed once");
}

fn paths_are_bytes(fixture: &StoreFixture) {
    let client = fixture.client();
    let work = ExecutingPlan::begin(&client);
    let id = work.open("main");
    let mut paths: Vec<&[u8]> = vec![
        b"\xff\xfe",
        b"a\nb",
        b"a b",
        "ümlaut".as_bytes(),
        "u\u{308}mlaut".as_bytes(),
        b"B",
        b"a",
        b"a-b",
        b"a/b",
        b"A",
        b"\x01",
        b"'; DROP TABLE plans; --",
        b"\\x41",
        b"%",
        b"..a",
        b"\x80/\x81",
    ];
    for path in &paths {
        let mut entry = samples::created_entry(*path);
        entry.from = Some(samples::tree_path(*path));
        work.record(ChangesetSelector::Changeset(id), entry.clone())
            .unwrap();
        // The path must be found again, or the entries would not fold.
        entry.after = Some("2".repeat(40));
        work.record(ChangesetSelector::Changeset(id), entry)
            .unwrap();
    }
    paths.sort_unstable();
    let (_, entries) = fixture.open().list_changesets(work.plan).unwrap().remove(0);
    let stored: Vec<&[u8]> = entries.iter().map(|entry| entry.path.as_bytes()).collect();
    assert_eq!(stored, paths);
    assert!(
        entries
            .iter()
            .all(|entry| entry.from.as_ref() == Some(&entry.path))
    );
    work.seal(id);
}
