//! Rules against a second, plainer judge: a thousand random combinations of rules and changes, and both
//! must name the same rules.

#![cfg(not(feature = "shuttle"))]
#![allow(
    clippy::unwrap_used,
    reason = "a test whose set-up fails has failed, and the panic says where"
)]

use std::collections::BTreeSet;

use plan::changeset::{Entry, Node, Operation};
use plan::invariant::{Check, Gate, RuleDraft, Scope};
use plan::stage::ResultContent;
use plan::{Actors, Caller, PlanId, Profile, Span};
use planwright_lifecycle::{Call, Error, Lifecycle, UseRequest};
use store::MemoryStore;
use testkit::samples;

const LEASE: Span = Span::seconds(60);

/// Numbers that look random and are the same every time.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        // Knuth's multiplier; the high bits are the good ones.
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        usize::try_from(self.0 >> 33).unwrap() % end
    }

    fn of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len())]
    }
}

const PATHS: [&str; 12] = [
    "src/main.rs",
    "src/deep/part.rs",
    "docs/index.md",
    "docs/deep/db/page.md",
    "db/1.sql",
    "deep/db/2.sql",
    "Cargo.lock",
    "deep/yarn.lock",
    "README.md",
    "srcs/not.rs",
    "dbs",
    "docs.md",
];

#[derive(Debug, Clone)]
struct Changed {
    path: &'static str,
    from: Option<&'static str>,
    operation: Operation,
}

/// A way to write a glob, and what it means without one.
type Meaning = (&'static str, fn(&str) -> bool);

const GLOBS: [Meaning; 6] = [
    ("docs/**", |path| path.starts_with("docs/")),
    ("*.lock", |path| path.ends_with(".lock")),
    ("/src", |path| path.starts_with("src/")),
    ("src/*.rs", |path| {
        path.strip_prefix("src/")
            .is_some_and(|name| name.ends_with(".rs") && !name.contains('/'))
    }),
    ("db", |path| path.split('/').any(|part| part == "db")),
    ("**/*.{md,sql}", |path| {
        path.ends_with(".md") || path.ends_with(".sql")
    }),
];

/// An expression, and what it means.
type Said = (&'static str, fn(&[Changed]) -> bool);

const EXPRESSIONS: [Said; 6] = [
    ("totals.files <= 2", |changes| changes.len() <= 2),
    ("changes.all(c, c.operation != 'delete')", |changes| {
        changes.iter().all(|one| one.operation != Operation::Delete)
    }),
    ("changes.exists(c, c.path.endsWith('.md'))", |changes| {
        changes.iter().any(|one| one.path.ends_with(".md"))
    }),
    ("!changes.exists(c, c.from != '')", |changes| {
        changes.iter().all(|one| one.from.is_none())
    }),
    (
        "changes.filter(c, c.path.startsWith('src/')).size() == 0 || changes.exists(c, c.path.startsWith('docs/'))",
        |changes| {
            let starts = |with: &str| changes.iter().any(|one| one.path.starts_with(with));
            !starts("src/") || starts("docs/")
        },
    ),
    ("plan.attempt == 1 && size(changes) == totals.files", |_| {
        true
    }),
];

#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Allow,
    Forbid,
    Expr,
}

#[derive(Debug, Clone)]
struct Rule {
    name: &'static str,
    of_plan: bool,
    kind: Kind,
    which: Vec<usize>,
    advisory: bool,
    non_overridable: bool,
}

impl Rule {
    fn random(random: &mut Random, name: &'static str, of_plan: bool) -> Self {
        let kind = *random.of(&[Kind::Allow, Kind::Forbid, Kind::Expr]);
        Self {
            name,
            of_plan,
            kind,
            which: (0..=random.below(2)).map(|_| random.below(6)).collect(),
            advisory: random.below(6) == 0,
            non_overridable: !of_plan && random.below(4) == 0,
        }
    }

    fn draft(&self) -> RuleDraft {
        let globs = || {
            self.which
                .iter()
                .map(|one| GLOBS[*one].0.to_owned())
                .collect()
        };
        RuleDraft {
            name: self.name.parse().unwrap(),
            check: match self.kind {
                Kind::Allow => Check::Allow(globs()),
                Kind::Forbid => Check::Forbid(globs()),
                Kind::Expr => Check::Expr(EXPRESSIONS[self.which[0]].0.to_owned()),
            },
            at: vec![Gate::Result],
            advisory: self.advisory,
            non_overridable: self.non_overridable,
        }
    }

    /// The plainer judge.
    fn holds(&self, changes: &[Changed]) -> bool {
        let matches = |path: &str| self.which.iter().any(|one| GLOBS[*one].1(path));
        let mut touched = changes
            .iter()
            .flat_map(|one| std::iter::once(one.path).chain(one.from));
        match self.kind {
            Kind::Allow => touched.all(matches),
            Kind::Forbid => !touched.any(matches),
            Kind::Expr => EXPRESSIONS[self.which[0]].1(changes),
        }
    }
}

/// The names of those that block: a plan's own rule replaces the one for all of its name, unless that one
/// is not to be overridden.
fn blocking(rules: &[Rule], changes: &[Changed], waived: Option<&str>) -> BTreeSet<String> {
    let of = |name: &str, of_plan: bool| {
        let mut found = rules.iter();
        found.find(|rule| rule.name == name && rule.of_plan == of_plan)
    };
    let in_force = rules.iter().filter(|rule| match rule.of_plan {
        true => of(rule.name, false).is_none_or(|wide| !wide.non_overridable),
        false => rule.non_overridable || of(rule.name, true).is_none(),
    });
    in_force
        .filter(|rule| !rule.advisory && !rule.holds(changes))
        .filter(|rule| rule.non_overridable || waived != Some(rule.name))
        .map(|rule| rule.name.to_owned())
        .collect()
}

fn ada() -> Call {
    Call::by(Caller::Person("ada".to_owned()))
}

fn changes(random: &mut Random) -> Vec<Changed> {
    let mut paths: Vec<&'static str> = PATHS.to_vec();
    let mut take = |random: &mut Random| paths.swap_remove(random.below(paths.len()));
    (0..random.below(5))
        .map(|_| {
            let operation = *random.of(&Operation::ALL);
            let path = take(random);
            let from = (operation == Operation::Rename).then(|| take(random));
            Changed {
                path,
                from,
                operation,
            }
        })
        .collect()
}

/// A plan in execute/complete that made these changes, judged by the rules that were there.
fn judged(lifecycle: &Lifecycle, rules: &[Rule], changes: &[Changed]) -> PlanId {
    let request = UseRequest {
        goal: Some("Change something".to_owned()),
        fallback_actors: Some(Actors::both(samples::name("bot"))),
        profile: Some(Profile::Manual),
        ..UseRequest::default()
    };
    let plan = lifecycle.use_action(request, &ada()).unwrap().plan.id;
    for rule in rules {
        let scope = match rule.of_plan {
            true => Scope::Plan(plan),
            false => Scope::Global,
        };
        match lifecycle.add_rule(scope, rule.draft(), &ada()) {
            // What a wider rule forbids to replace is not even stored.
            Ok(()) | Err(Error::Refused(plan::Refusal::NonOverridable { .. })) => {}
            Err(error) => panic!("{rule:?}: {error}"),
        }
    }
    let claim = lifecycle
        .start_strategize(plan, "w", LEASE, &ada())
        .unwrap();
    claim.complete_strategize(Vec::new()).unwrap();
    lifecycle.execute_plan(plan, &ada()).unwrap();
    let claim = lifecycle.start_execute(plan, "w", LEASE, &ada()).unwrap();
    let epoch = claim.epoch();
    lifecycle
        .open_changeset(plan, epoch, Node::main(), &ada())
        .unwrap();
    for one in changes {
        let mut entry = Entry::new(samples::path(one.path), one.operation);
        entry.from = one.from.map(samples::path);
        let hash = |there: bool| there.then(|| "1".repeat(40));
        entry.before = hash(one.operation != Operation::Create);
        entry.after = hash(one.operation != Operation::Delete).map(|_| "2".repeat(40));
        let into = plan::command::Into::OnlyOpen;
        lifecycle
            .record_change(plan, epoch, into, entry, &ada())
            .unwrap();
    }
    let result = ResultContent {
        report: Some("changed".into()),
        trees: Vec::new(),
    };
    claim.complete_execute(&result).unwrap();
    plan
}

#[test]
fn a_thousand_combinations_of_rules_and_changes_are_judged_alike_by_both() {
    let mut random = Random(20_260_101);
    let (mut blocked_ones, mut open_ones) = (0, 0);
    for number in 0..1000 {
        let lifecycle = Lifecycle::open(MemoryStore::new());
        let mut rules = Vec::new();
        for name in ["one", "two", "three"] {
            for of_plan in [false, true] {
                if random.below(2) == 0 {
                    rules.push(Rule::random(&mut random, name, of_plan));
                }
            }
        }
        let changes = changes(&mut random);
        let plan = judged(&lifecycle, &rules, &changes);
        let waived = (random.below(3) == 0).then_some("one");
        let waived = waived.filter(|name| {
            lifecycle
                .waive(plan, name.parse().unwrap(), "this once", &ada())
                .is_ok()
        });
        let expected = blocking(&rules, &changes, waived);
        let case = format!("{number}: {rules:#?}\n{changes:#?}\nwaived {waived:?}");
        let answer = lifecycle.apply_plan(plan, &ada());
        let said: BTreeSet<String> = match &answer {
            Ok(_) => BTreeSet::new(),
            Err(Error::Blocked(blocked)) => {
                let failed = blocked.failed.iter();
                failed.map(|one| one.rule.name.to_string()).collect()
            }
            Err(error) => panic!("{case}: {error}"),
        };
        assert_eq!(said, expected, "{case}");
        match said.is_empty() {
            true => open_ones += 1,
            false => blocked_ones += 1,
        }
    }
    assert!(
        blocked_ones > 200 && open_ones > 200,
        "{blocked_ones} {open_ones}"
    );
}
