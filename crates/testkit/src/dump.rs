//! Everything a store shows, to be compared: before and after, here and there.

use plan::changeset::{Changeset, Entry};
use plan::invariant::RuleBook;
use plan::judgement::Evidence;
use plan::ledger::Ledger;
use plan::{Action, PlanId, Project, Version};
use store::{PlanFilter, PlanRow, Store, StoredEvent};

/// Read in pages, so that what is read in pages is also tested in pages.
const PAGE: usize = 50;

/// Everything a store shows.
#[derive(Debug, Clone, PartialEq)]
pub struct Dump {
    /// The plans, newest first.
    pub plans: Vec<DumpedPlan>,
    /// The actions by name.
    pub actions: Vec<Action>,
    /// The projects by name.
    pub projects: Vec<Project>,
    /// The rules by scope and name.
    pub rules: RuleBook,
}

/// Everything about a plan.
#[derive(Debug, Clone, PartialEq)]
pub struct DumpedPlan {
    /// The plan with what is stored beside it.
    pub row: PlanRow,
    /// Its events in order.
    pub events: Vec<StoredEvent>,
    /// What rules said of its result.
    pub evidence: Vec<Evidence>,
    /// Its changesets with their entries.
    pub changesets: Vec<(Changeset, Vec<Entry>)>,
    /// What it used and what is set aside for it.
    pub ledger: Ledger,
}

impl Dump {
    /// Reads all of a store.
    pub fn of(store: &dyn Store) -> Self {
        let mut plans = Vec::new();
        let mut after = None;
        loop {
            let page = store.plans(&PlanFilter::default(), after, PAGE).unwrap();
            let Some(last) = page.last().map(|row| row.plan.id) else {
                break;
            };
            assert!(
                after.is_none_or(|after| last < after),
                "the list has no end"
            );
            after = Some(last);
            plans.extend(page.into_iter().map(|row| DumpedPlan::of(store, row)));
        }
        Self {
            plans,
            actions: all_actions(store),
            projects: all_projects(store),
            rules: sorted(store.rules(&[]).unwrap()),
        }
    }

    /// Insists that another dump shows the same, and tells where it does not.
    #[track_caller]
    pub fn assert_same(&self, other: &Self, when: &str) {
        if self == other {
            return;
        }
        let (left, right) = (format!("{self:#?}"), format!("{other:#?}"));
        let (mut here, mut there) = (left.lines(), right.lines());
        let mut differences = String::new();
        loop {
            let (one, other) = (here.next(), there.next());
            if one.is_none() && other.is_none() || differences.len() > 2000 {
                break;
            }
            if one != other {
                let shown = |line: Option<&str>| line.unwrap_or("(nothing)").trim().to_owned();
                differences += &format!("{}\n  is not {}\n", shown(one), shown(other));
            }
        }
        panic!("two dumps differ, {when}:\n{differences}");
    }

    /// All there is about one plan.
    pub fn plan(&self, id: PlanId) -> Option<&DumpedPlan> {
        self.plans.iter().find(|plan| plan.row.plan.id == id)
    }
}

impl DumpedPlan {
    fn of(store: &dyn Store, row: PlanRow) -> Self {
        let id = row.plan.id;
        let snapshot = store.snapshot(id).unwrap().unwrap();
        assert_eq!(snapshot.row, row, "a snapshot and a page show the same");
        let mut evidence = snapshot.evidence;
        evidence.sort_by(|one, other| one.verdict.rule.cmp(&other.verdict.rule));
        Self {
            events: all_events(store, id),
            evidence,
            changesets: store.changesets(id).unwrap(),
            ledger: store.ledger(id).unwrap(),
            row,
        }
    }
}

/// The events of a plan, in order.
pub fn all_events(store: &dyn Store, plan: PlanId) -> Vec<StoredEvent> {
    let mut events: Vec<StoredEvent> = Vec::new();
    loop {
        let after = events
            .last()
            .map_or(Version(0), |last| last.recorded.version);
        let page = store.plan_events(plan, after, PAGE).unwrap();
        let Some(last) = page.last() else {
            return events;
        };
        assert!(
            last.recorded.version > after,
            "the log of {plan} has no end"
        );
        // Its place among all plans was not asked for.
        events.extend(page.into_iter().map(|event| StoredEvent {
            cursor: None,
            ..event
        }));
    }
}

fn all_actions(store: &dyn Store) -> Vec<Action> {
    let mut actions: Vec<Action> = Vec::new();
    loop {
        let page = store
            .actions(actions.last().map(Action::name), PAGE)
            .unwrap();
        if page.is_empty() {
            return actions;
        }
        actions.extend(page);
    }
}

fn all_projects(store: &dyn Store) -> Vec<Project> {
    let mut projects: Vec<Project> = Vec::new();
    loop {
        let after = projects.last().map(|project| &project.name);
        let page = store.projects(after, PAGE).unwrap();
        if page.is_empty() {
            return projects;
        }
        projects.extend(page);
    }
}

/// The order of rules in a book means nothing, so it must not matter in a comparison.
fn sorted(mut book: RuleBook) -> RuleBook {
    book.rules.sort_by_key(plan::invariant::Rule::reference);
    book
}
