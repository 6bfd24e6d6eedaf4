//! Compares the engine's rule evaluation with a simple model on a thousand random sets of rules and changes.
//! Both must block on the same rules.

use std::collections::BTreeSet;

use plan::changeset::{ChangesetEntry, Node, PathOperation};
use plan::command::RecordChange;
use plan::invariant::{Gate, RuleCheck, RuleDraft, RuleScope};
use plan::stage::ResultContent;
use plan::{Caller, PlanActors, PlanId, Profile, Span};
use planwright_lifecycle::{Call, Lifecycle, LifecycleError, UseRequest};
use store::MemoryStore;
use testkit::samples;

const TEST_LEASE: Span = Span::from_seconds(60);

/// A deterministic random number generator.
struct SeededRandom(u64);

impl SeededRandom {
    fn next_below(&mut self, end: usize) -> usize {
        // Knuth's multiplier. The high bits are the most random.
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        usize::try_from(self.0 >> 33).unwrap() % end
    }

    fn choose_from<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.next_below(all.len())]
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
struct ModelChange {
    path: &'static str,
    from: Option<&'static str>,
    operation: PathOperation,
}

/// A glob, and a predicate with the same meaning.
type GlobModel = (&'static str, fn(&str) -> bool);

const GLOBS: [GlobModel; 6] = [
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

/// An expression, and a predicate with the same meaning.
type ExpressionModel = (&'static str, fn(&[ModelChange]) -> bool);

const EXPRESSIONS: [ExpressionModel; 6] = [
    ("totals.files <= 2", |changes| changes.len() <= 2),
    ("changes.all(c, c.operation != 'delete')", |changes| {
        changes
            .iter()
            .all(|one| one.operation != PathOperation::Delete)
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
            let touches = |prefix: &str| changes.iter().any(|one| one.path.starts_with(prefix));
            !touches("src/") || touches("docs/")
        },
    ),
    ("plan.attempt == 1 && size(changes) == totals.files", |_| {
        true
    }),
];

#[derive(Debug, Clone, Copy, PartialEq)]
enum ModelRuleKind {
    Allow,
    Forbid,
    Expr,
}

#[derive(Debug, Clone)]
struct ModelRule {
    name: &'static str,
    of_plan: bool,
    kind: ModelRuleKind,
    sample_indexes: Vec<usize>,
    advisory: bool,
    non_overridable: bool,
}

impl ModelRule {
    fn make_random(random: &mut SeededRandom, name: &'static str, of_plan: bool) -> Self {
        let kind = *random.choose_from(&[
            ModelRuleKind::Allow,
            ModelRuleKind::Forbid,
            ModelRuleKind::Expr,
        ]);
        Self {
            name,
            of_plan,
            kind,
            sample_indexes: (0..=random.next_below(2))
                .map(|_| random.next_below(6))
                .collect(),
            advisory: random.next_below(6) == 0,
            non_overridable: !of_plan && random.next_below(4) == 0,
        }
    }

    fn make_draft(&self) -> RuleDraft {
        let globs = || {
            self.sample_indexes
                .iter()
                .map(|one| GLOBS[*one].0.to_owned())
                .collect()
        };
        RuleDraft {
            name: self.name.parse().unwrap(),
            check: match self.kind {
                ModelRuleKind::Allow => RuleCheck::Allow(globs()),
                ModelRuleKind::Forbid => RuleCheck::Forbid(globs()),
                ModelRuleKind::Expr => {
                    RuleCheck::Expr(EXPRESSIONS[self.sample_indexes[0]].0.to_owned())
                }
            },
            at: vec![Gate::Result],
            advisory: self.advisory,
            non_overridable: self.non_overridable,
        }
    }

    /// Evaluates the rule in the model.
    fn is_met(&self, changes: &[ModelChange]) -> bool {
        let matches = |path: &str| self.sample_indexes.iter().any(|one| GLOBS[*one].1(path));
        let mut touched = changes
            .iter()
            .flat_map(|one| std::iter::once(one.path).chain(one.from));
        match self.kind {
            ModelRuleKind::Allow => touched.all(matches),
            ModelRuleKind::Forbid => !touched.any(matches),
            ModelRuleKind::Expr => EXPRESSIONS[self.sample_indexes[0]].1(changes),
        }
    }
}

/// The names of the blocking rules. A plan's rule replaces the global rule of the same name, unless that one
/// is not overridable.
fn blocking_rules(
    rules: &[ModelRule],
    changes: &[ModelChange],
    waived: Option<&str>,
) -> BTreeSet<String> {
    let find_rule = |name: &str, of_plan: bool| {
        let mut found = rules.iter();
        found.find(|rule| rule.name == name && rule.of_plan == of_plan)
    };
    let in_force = rules.iter().filter(|rule| match rule.of_plan {
        true => find_rule(rule.name, false).is_none_or(|wide| !wide.non_overridable),
        false => rule.non_overridable || find_rule(rule.name, true).is_none(),
    });
    in_force
        .filter(|rule| !rule.advisory && !rule.is_met(changes))
        .filter(|rule| rule.non_overridable || waived != Some(rule.name))
        .map(|rule| rule.name.to_owned())
        .collect()
}

fn call_as_ada() -> Call {
    Call::by(Caller::Person("ada".to_owned()))
}

fn random_changes(random: &mut SeededRandom) -> Vec<ModelChange> {
    let mut paths: Vec<&'static str> = PATHS.to_vec();
    let mut take = |random: &mut SeededRandom| paths.swap_remove(random.next_below(paths.len()));
    (0..random.next_below(5))
        .map(|_| {
            let operation = *random.choose_from(&PathOperation::ALL);
            let path = take(random);
            let from = (operation == PathOperation::Rename).then(|| take(random));
            ModelChange {
                path,
                from,
                operation,
            }
        })
        .collect()
}

/// Creates a plan in execute/complete with these changes and rules.
fn create_judged_plan(
    lifecycle: &Lifecycle,
    rules: &[ModelRule],
    changes: &[ModelChange],
) -> PlanId {
    let request = UseRequest {
        goal: Some("Change something".to_owned()),
        fallback_actors: Some(PlanActors::for_both_phases(samples::parse_name("bot"))),
        profile: Some(Profile::Manual),
        ..UseRequest::default()
    };
    let plan_id = lifecycle
        .use_action(request, &call_as_ada())
        .unwrap()
        .plan
        .id();
    for rule in rules {
        let scope = match rule.of_plan {
            true => RuleScope::Plan(plan_id),
            false => RuleScope::Global,
        };
        match lifecycle
            .rules()
            .add_rule(scope, rule.make_draft(), &call_as_ada())
        {
            // A rule that would replace a non-overridable one is refused.
            Ok(()) | Err(LifecycleError::Refused(plan::Refusal::NonOverridable { .. })) => {}
            Err(error) => panic!("{rule:?}: {error}"),
        }
    }
    let claim = lifecycle
        .claims()
        .start_strategize(plan_id, "w", TEST_LEASE, &call_as_ada())
        .unwrap();
    claim.complete_strategize(Vec::new()).unwrap();
    lifecycle.execute_plan(plan_id, &call_as_ada()).unwrap();
    let claim = lifecycle
        .claims()
        .start_execute(plan_id, "w", TEST_LEASE, &call_as_ada())
        .unwrap();
    let epoch = claim.epoch();
    lifecycle
        .open_changeset(plan_id, epoch, Node::main(), &call_as_ada())
        .unwrap();
    for one in changes {
        let mut entry = ChangesetEntry::new(samples::tree_path(one.path), one.operation);
        entry.from = one.from.map(samples::tree_path);
        let hash = |exists: bool| exists.then(|| "1".repeat(40));
        entry.before = hash(one.operation != PathOperation::Create);
        entry.after = hash(one.operation != PathOperation::Delete).map(|_| "2".repeat(40));
        let into = plan::command::ChangesetSelector::OnlyOpen;
        lifecycle
            .submit_command(
                plan_id,
                RecordChange::new(epoch, into, entry),
                &call_as_ada(),
            )
            .unwrap();
    }
    let result = ResultContent {
        report: Some("changed".into()),
        trees: Vec::new(),
    };
    claim.complete_execute(&result).unwrap();
    plan_id
}

#[test]
fn engine_and_model_agree_on_a_thousand_rule_sets() {
    let mut random = SeededRandom(20_260_101);
    let (mut blocked_count, mut passed_count) = (0, 0);
    for number in 0..1000 {
        let lifecycle = Lifecycle::open(MemoryStore::new());
        let mut rules = Vec::new();
        for name in ["one", "two", "three"] {
            for of_plan in [false, true] {
                if random.next_below(2) == 0 {
                    rules.push(ModelRule::make_random(&mut random, name, of_plan));
                }
            }
        }
        let changes = random_changes(&mut random);
        let plan_id = create_judged_plan(&lifecycle, &rules, &changes);
        let waived = (random.next_below(3) == 0).then_some("one");
        let waived = waived.filter(|name| {
            lifecycle
                .rules()
                .waive_rule(plan_id, name.parse().unwrap(), "this once", &call_as_ada())
                .is_ok()
        });
        let expected = blocking_rules(&rules, &changes, waived);
        let case = format!("{number}: {rules:#?}\n{changes:#?}\nwaived {waived:?}");
        let answer = lifecycle.apply_plan(plan_id, &call_as_ada());
        let blocked_names: BTreeSet<String> = match &answer {
            Ok(_) => BTreeSet::new(),
            Err(LifecycleError::Blocked(blocked)) => {
                let failed = blocked.failed.iter();
                failed.map(|one| one.rule.name.to_string()).collect()
            }
            Err(error) => panic!("{case}: {error}"),
        };
        assert_eq!(blocked_names, expected, "{case}");
        match blocked_names.is_empty() {
            true => passed_count += 1,
            false => blocked_count += 1,
        }
    }
    assert!(
        blocked_count > 200 && passed_count > 200,
        "{blocked_count} {passed_count}"
    );
}
