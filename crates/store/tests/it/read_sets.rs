//! Tests merging of read sets, and the `Debug` output of stores.

use plan::PlanId;
use plan::changeset::TreePath;
use plan::invariant::RuleScope;
use store::fault::{StoreFault, StoreFaults};
use store::{ChangesetReads, Clock, ProjectReads, ReadSet, RowAccess, SqliteOptions, SqliteStore};

use RowAccess::{Exclusive, Shared};

fn path(text: &str) -> TreePath {
    TreePath::new(text).unwrap()
}

fn named(names: &[(&str, RowAccess)]) -> ProjectReads {
    let names = names
        .iter()
        .map(|(name, access)| (name.parse().unwrap(), *access));
    ProjectReads::Named(names.collect())
}

#[test]
fn merging_keeps_the_stricter_access() {
    let id = PlanId::from_parts(1, 1);
    let tidy: plan::QualifiedName = "tidy".parse().unwrap();
    let one = ReadSet {
        plan: Some((id, Shared)),
        action: Some((tidy.clone(), Exclusive)),
        rules: vec![(RuleScope::Global, Shared)],
        ..ReadSet::default()
    };
    let other = ReadSet {
        plan: Some((id, Exclusive)),
        rules: vec![
            (RuleScope::Global, Exclusive),
            (RuleScope::Plan(id), Shared),
        ],
        ..ReadSet::default()
    };
    for both in [one.clone().merge_with(other.clone()), other.merge_with(one)] {
        assert_eq!(both.plan, Some((id, Exclusive)));
        assert_eq!(both.action, Some((tidy.clone(), Exclusive)));
        assert_eq!(both.rules.len(), 2);
        assert!(both.rules.contains(&(RuleScope::Global, Exclusive)));
        assert!(both.rules.contains(&(RuleScope::Plan(id), Shared)));
    }
}

#[test]
fn merging_reads_the_changesets_both_need() {
    let at = |paths: &[&str]| ChangesetReads::EntriesAt(paths.iter().map(|p| path(p)).collect());
    let both = |one: ChangesetReads, other: ChangesetReads| {
        let reads = |changesets| ReadSet {
            changesets,
            ..ReadSet::default()
        };
        reads(one).merge_with(reads(other)).changesets
    };
    let (none, all) = (ChangesetReads::None, ChangesetReads::All);
    assert_eq!(both(none.clone(), none.clone()), none);
    assert_eq!(both(none.clone(), at(&["a"])), at(&["a"]));
    assert_eq!(both(at(&["a"]), none.clone()), at(&["a"]));
    assert_eq!(both(at(&["a"]), at(&["b"])), at(&["a", "b"]));
    assert_eq!(both(at(&["a"]), all.clone()), all);
    assert_eq!(both(all.clone(), at(&["a"])), all);
    assert_eq!(both(all.clone(), none), all);
}

#[test]
fn merging_reads_each_project_once() {
    let both = |one: ProjectReads, other: ProjectReads| {
        let reads = |projects| ReadSet {
            projects,
            ..ReadSet::default()
        };
        reads(one).merge_with(reads(other)).projects
    };
    let shop = || named(&[("shop", Shared)]);
    assert_eq!(both(ProjectReads::None, shop()), shop());
    assert_eq!(
        both(ProjectReads::OfPlan, ProjectReads::OfPlan),
        ProjectReads::OfPlan
    );
    // A plan has only the projects it is created with.
    assert_eq!(both(shop(), ProjectReads::OfPlan), shop());
    assert_eq!(both(ProjectReads::OfPlan, shop()), shop());
    assert_eq!(
        both(shop(), named(&[("desk", Shared), ("shop", Exclusive)])),
        named(&[("shop", Exclusive), ("desk", Shared)])
    );
    assert_eq!(
        both(named(&[("shop", Exclusive)]), shop()),
        named(&[("shop", Exclusive)])
    );
}

#[test]
fn debug_output_shows_path_clock_and_faults() {
    let plain = format!("{:?}", SqliteOptions::default());
    assert!(plain.contains("Clock(system)"), "{plain}");
    assert!(plain.contains("Faults(none)"), "{plain}");
    let options = SqliteOptions {
        clock: Clock::new(|| plan::Timestamp(1)),
        faults: StoreFaults::new(|_| StoreFault::None),
    };
    let store = SqliteStore::new("/somewhere/plans.db", options);
    let text = format!("{store:?}");
    for word in ["/somewhere/plans.db", "Clock(custom)", "Faults(installed)"] {
        assert!(text.contains(word), "{text}");
    }
}
