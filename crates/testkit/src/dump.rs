//! Dumps of a whole store, to compare its content before and after, or between stores.

use plan::changeset::{Changeset, ChangesetEntry};
use plan::invariant::RuleBook;
use plan::judgement::RuleEvidence;
use plan::ledger::BudgetLedger;
use plan::review::PlanReview;
use plan::{Action, PlanId, PlanVersion, Project};
use store::{PlanFilter, PlanRow, Store, StoredEvent, StoredTranscriptEntry};

/// Small, so that paging is tested too.
const PAGE_SIZE: usize = 50;

#[derive(Debug, Clone, PartialEq)]
pub struct StoreDump {
    /// Newest first.
    pub plans: Vec<PlanDump>,
    /// Sorted by name.
    pub actions: Vec<Action>,
    /// Sorted by name.
    pub projects: Vec<Project>,
    /// Sorted by scope and name.
    pub rules: RuleBook,
}

#[derive(Debug, Clone, PartialEq)]
pub struct PlanDump {
    pub row: PlanRow,
    /// In order.
    pub events: Vec<StoredEvent>,
    /// Evidence for the plan's result.
    pub evidence: Vec<RuleEvidence>,
    /// Changesets with their entries.
    pub changesets: Vec<(Changeset, Vec<ChangesetEntry>)>,
    /// Spent and reserved amounts.
    pub ledger: BudgetLedger,
    /// In order.
    pub transcript: Vec<StoredTranscriptEntry>,
    /// Sorted by person.
    pub reviews: Vec<PlanReview>,
}

impl StoreDump {
    /// Reads a whole store.
    pub fn read_store(store: &dyn Store) -> Self {
        let mut plans = Vec::new();
        let mut after = None;
        loop {
            let page = store
                .list_plans(&PlanFilter::default(), after, PAGE_SIZE)
                .unwrap();
            let Some(last) = page.last().map(|row| row.plan.id()) else {
                break;
            };
            assert!(
                after.is_none_or(|after| last < after),
                "the list does not end"
            );
            after = Some(last);
            plans.extend(page.into_iter().map(|row| PlanDump::read_plan(store, row)));
        }
        Self {
            plans,
            actions: read_all_actions(store),
            projects: read_all_projects(store),
            rules: sort_rules(store.read_rules(&[]).unwrap()),
        }
    }

    /// Panics with the differences if another dump is not equal.
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

    pub fn find_plan(&self, plan_id: PlanId) -> Option<&PlanDump> {
        self.plans.iter().find(|plan| plan.row.plan.id() == plan_id)
    }
}

impl PlanDump {
    fn read_plan(store: &dyn Store, row: PlanRow) -> Self {
        let plan_id = row.plan.id();
        let snapshot = store.read_snapshot(plan_id).unwrap().unwrap();
        assert_eq!(snapshot.row, row, "a snapshot and a page are equal");
        let mut evidence = snapshot.evidence;
        evidence.sort_by(|one, other| one.verdict.rule.cmp(&other.verdict.rule));
        Self {
            events: read_all_events(store, plan_id),
            evidence,
            changesets: store.list_changesets(plan_id).unwrap(),
            ledger: store.read_ledger(plan_id).unwrap(),
            transcript: read_whole_transcript(store, plan_id),
            reviews: store.list_reviews(plan_id).unwrap(),
            row,
        }
    }
}

/// Returns the events of a plan, in order.
pub fn read_all_events(store: &dyn Store, plan_id: PlanId) -> Vec<StoredEvent> {
    let mut events: Vec<StoredEvent> = Vec::new();
    loop {
        let after = events
            .last()
            .map_or(PlanVersion(0), |last| last.recorded.version);
        let page = store.read_plan_events(plan_id, after, PAGE_SIZE).unwrap();
        let Some(last) = page.last() else {
            return events;
        };
        assert!(
            last.recorded.version > after,
            "the log of {plan_id} does not end"
        );
        // A database does not return the position among all plans for this query.
        events.extend(page.into_iter().map(|event| StoredEvent {
            cursor: None,
            ..event
        }));
    }
}

/// Returns the transcript of a plan, in order.
pub fn read_whole_transcript(store: &dyn Store, plan_id: PlanId) -> Vec<StoredTranscriptEntry> {
    let mut entries: Vec<StoredTranscriptEntry> = Vec::new();
    loop {
        let after = entries.last().map(|last| last.position);
        let page = store.read_transcript(plan_id, after, PAGE_SIZE).unwrap();
        let Some(last) = page.last() else {
            return entries;
        };
        assert!(
            Some(last.position) > after,
            "the transcript of {plan_id} does not end"
        );
        entries.extend(page);
    }
}

fn read_all_actions(store: &dyn Store) -> Vec<Action> {
    let mut actions: Vec<Action> = Vec::new();
    loop {
        let page = store
            .list_actions(actions.last().map(Action::name), PAGE_SIZE)
            .unwrap();
        if page.is_empty() {
            return actions;
        }
        actions.extend(page);
    }
}

fn read_all_projects(store: &dyn Store) -> Vec<Project> {
    let mut projects: Vec<Project> = Vec::new();
    loop {
        let after = projects.last().map(|project| &project.name);
        let page = store.list_projects(after, PAGE_SIZE).unwrap();
        if page.is_empty() {
            return projects;
        }
        projects.extend(page);
    }
}

/// The order of rules in a book has no meaning and must not affect comparisons.
fn sort_rules(mut book: RuleBook) -> RuleBook {
    book.rules.sort_by_key(plan::invariant::Rule::reference);
    book
}
