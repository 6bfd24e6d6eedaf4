//! What judging costs: an expression per changed file, over what asking costs anyway.

use std::time::{Duration, Instant};

use lifecycle::Lifecycle;
use plan::changeset::{ChangesetEntry, Node, PathOperation, TreePath};
use plan::command::ChangesetSelector;
use plan::guard::{ToolCall, ToolGuards};
use plan::invariant::{Gate, RuleCheck, RuleDraft, RuleScope};
use plan::stage::ResultContent;
use plan::{PlanId, Span};
use store::MemoryStore;

use crate::work;

/// How many files are changed, how many rules are asked, and how often.
const FILES: usize = 10_000;
const RULES: usize = 20;
const ROUNDS: usize = 7;

/// Rules as people write them; each looks at every file.
const EXPRESSIONS: [&str; 4] = [
    "changes.all(c, !c.path.startsWith('migrations/'))",
    "changes.all(c, c.size < 1000000)",
    "!changes.exists(c, c.operation == 'delete' && c.path.endsWith('_test.rs'))",
    "changes.all(c, !c.binary || c.path.startsWith('assets/'))",
];

/// Measures and prints a table.
pub fn measure() {
    println!("| what | figure | target |");
    println!("| --- | --- | --- |");
    let lifecycle = Lifecycle::open(MemoryStore::new());
    let plan = with_changes(&lifecycle);
    let one = added(&lifecycle, plan, 1);
    let many = added(&lifecycle, plan, RULES);
    let per = (many.saturating_sub(one)).as_secs_f64() * 1e6 / ((RULES - 1) * FILES) as f64;
    println!(
        "| an expression, per changed file (slope from 1 to {RULES} rules) | {per:.2} µs | ≤ 2.5 µs |"
    );
    let all = many.as_secs_f64() * 1e6 / (RULES * FILES) as f64;
    println!("| the same with reading the changes, {RULES} rules | {all:.2} µs | |");
    println!(
        "| {RULES} rules on {FILES} files | {:.0} ms | |",
        many.as_secs_f64() * 1e3
    );
    let guarded = guarded().as_secs_f64() * 1e6;
    println!("| a call of a tool, by guards of {RULES} patterns | {guarded:.2} µs | ≤ 20 µs |");
}

/// How long it takes to judge one call of a tool that no guard speaks against: the median of several.
fn guarded() -> Duration {
    let deny = (0..RULES).map(|number| format!("Bash(*rm -rf /*{number}*)").parse().unwrap());
    let guards = ToolGuards {
        deny: deny.collect(),
        allow: vec!["Read".parse().unwrap(), "Bash".parse().unwrap()],
        calls: Some(u32::MAX),
    };
    let call = ToolCall {
        tool: "Bash".to_owned(),
        inputs: vec!["cd crates && cargo test --workspace -- --nocapture".repeat(4)],
    };
    const CALLS: u32 = 10_000;
    let mut took: Vec<Duration> = (0..ROUNDS)
        .map(|_| {
            let began = Instant::now();
            for number in 0..CALLS {
                assert_eq!(
                    std::hint::black_box(&guards).find_breach(&call, number),
                    None
                );
            }
            began.elapsed() / CALLS
        })
        .collect();
    took.sort_unstable();
    took[ROUNDS / 2]
}

/// Adds rules up to this many, and says how long judging all of them takes: the median of several.
fn added(lifecycle: &Lifecycle, plan: PlanId, rules: usize) -> Duration {
    let there = lifecycle.list_rules().unwrap().rules.len();
    for number in there..rules {
        let draft = RuleDraft {
            name: format!("rule-{number}").parse().unwrap(),
            check: RuleCheck::Expr(EXPRESSIONS[number % EXPRESSIONS.len()].to_owned()),
            at: vec![Gate::Result],
            advisory: false,
            non_overridable: false,
        };
        lifecycle
            .add_rule(RuleScope::Global, draft, &work::call())
            .unwrap();
    }
    let mut took: Vec<Duration> = (0..ROUNDS)
        .map(|_| {
            let began = Instant::now();
            let why = lifecycle.diagnose_plan(plan).unwrap();
            let gate = why.gate.unwrap();
            assert_eq!(usize::try_from(gate.counts.held).unwrap(), rules);
            began.elapsed()
        })
        .collect();
    took.sort_unstable();
    took[ROUNDS / 2]
}

/// A plan that changed many files, waiting to land.
fn with_changes(lifecycle: &Lifecycle) -> PlanId {
    let (call, plan) = (work::call(), work::ready_plan(lifecycle));
    let claim = lifecycle
        .start_execute(plan, "bench", Span::from_seconds(3600), &call)
        .unwrap();
    let epoch = claim.epoch();
    lifecycle
        .open_changeset(plan, epoch, Node::main(), &call)
        .unwrap();
    for number in 0..FILES {
        let path = format!("src/part-{}/file-{number}.rs", number % 100);
        let mut entry = ChangesetEntry::new(TreePath::new(path).unwrap(), PathOperation::Create);
        entry.after = Some("1".repeat(40));
        lifecycle
            .record_change(plan, epoch, ChangesetSelector::OnlyOpen, entry, &call)
            .unwrap();
    }
    let result = ResultContent {
        report: Some("made".into()),
        trees: Vec::new(),
    };
    claim.complete_execute(&result).unwrap();
    plan
}
