//! The cost of evaluating rules: an expression per changed file, and a tool guard per call.

use std::time::{Duration, Instant};

use lifecycle::Lifecycle;
use plan::changeset::{ChangesetEntry, Node, PathOperation, TreePath};
use plan::command::{ChangesetSelector, RecordChange};
use plan::guard::{ToolCall, ToolGuards};
use plan::invariant::{Gate, RuleCheck, RuleDraft, RuleScope};
use plan::stage::ResultContent;
use plan::{PlanId, Span};
use store::MemoryStore;

use crate::{statistics, workload};

const FILES: usize = 10_000;
const RULES: usize = 20;
const ROUNDS: usize = 7;
const GUARDED_CALLS_PER_ROUND: u32 = 10_000;

/// Typical rules. Each reads every changed file.
const EXPRESSIONS: [&str; 4] = [
    "changes.all(c, !c.path.startsWith('migrations/'))",
    "changes.all(c, c.size < 1000000)",
    "!changes.exists(c, c.operation == 'delete' && c.path.endsWith('_test.rs'))",
    "changes.all(c, !c.binary || c.path.startsWith('assets/'))",
];

pub fn measure_rules() {
    statistics::print_header();
    let lifecycle = Lifecycle::open(MemoryStore::new());
    let plan_id = create_plan_with_changes(&lifecycle);
    let one_rule = time_gate(&lifecycle, plan_id, 1);
    let all_rules = time_gate(&lifecycle, plan_id, RULES);
    // The slope leaves out what does not depend on the number of rules, such as reading the changes.
    let evaluation = all_rules.saturating_sub(one_rule).as_secs_f64();
    let slope = evaluation * 1e6 / ((RULES - 1) * FILES) as f64;
    statistics::print_row(
        &format!("expression, per changed file (slope from 1 to {RULES} rules)"),
        &format!("{slope:.2} µs"),
        "≤ 2.5 µs",
    );
    let average = all_rules.as_secs_f64() * 1e6 / (RULES * FILES) as f64;
    statistics::print_row(
        &format!("the same including reading the changes, {RULES} rules"),
        &format!("{average:.2} µs"),
        "",
    );
    statistics::print_row(
        &format!("{RULES} rules on {FILES} files"),
        &format!("{:.0} ms", all_rules.as_secs_f64() * 1e3),
        "",
    );
    let guarded_call = time_guarded_call().as_secs_f64() * 1e6;
    statistics::print_row(
        &format!("tool call, checked by guards with {RULES} patterns"),
        &format!("{guarded_call:.2} µs"),
        "≤ 20 µs",
    );
}

/// The median time to check one tool call that no guard denies.
fn time_guarded_call() -> Duration {
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
    let mut times: Vec<Duration> = (0..ROUNDS)
        .map(|_| {
            let stopwatch = Instant::now();
            for number in 0..GUARDED_CALLS_PER_ROUND {
                assert_eq!(
                    std::hint::black_box(&guards).find_breach(&call, number),
                    None
                );
            }
            stopwatch.elapsed() / GUARDED_CALLS_PER_ROUND
        })
        .collect();
    times.sort_unstable();
    times[ROUNDS / 2]
}

/// Adds rules until there are `rules`. Returns the median time to evaluate all of them.
fn time_gate(lifecycle: &Lifecycle, plan_id: PlanId, rules: usize) -> Duration {
    let existing = lifecycle.rules().list_rules().unwrap().rules.len();
    for number in existing..rules {
        let draft = RuleDraft {
            name: format!("rule-{number}").parse().unwrap(),
            check: RuleCheck::Expr(EXPRESSIONS[number % EXPRESSIONS.len()].to_owned()),
            at: vec![Gate::Result],
            advisory: false,
            non_overridable: false,
        };
        lifecycle
            .rules()
            .add_rule(RuleScope::Global, draft, &workload::bench_call())
            .unwrap();
    }
    let mut times: Vec<Duration> = (0..ROUNDS)
        .map(|_| {
            let stopwatch = Instant::now();
            let diagnosis = lifecycle.diagnose_plan(plan_id).unwrap();
            let gate = diagnosis.gate.unwrap();
            assert_eq!(usize::try_from(gate.counts.held).unwrap(), rules);
            stopwatch.elapsed()
        })
        .collect();
    times.sort_unstable();
    times[ROUNDS / 2]
}

/// Creates a plan that changed many files and completes its execute phase.
fn create_plan_with_changes(lifecycle: &Lifecycle) -> PlanId {
    let call = workload::bench_call();
    let plan_id = workload::create_ready_plan(lifecycle);
    let claim = lifecycle
        .claims()
        .start_execute(plan_id, "bench", Span::from_seconds(3600), &call)
        .unwrap();
    let epoch = claim.epoch();
    lifecycle
        .open_changeset(plan_id, epoch, Node::main(), &call)
        .unwrap();
    for number in 0..FILES {
        let path = format!("src/part-{}/file-{number}.rs", number % 100);
        let mut entry = ChangesetEntry::new(TreePath::new(path).unwrap(), PathOperation::Create);
        entry.after = Some("1".repeat(40));
        lifecycle
            .submit_command(
                plan_id,
                RecordChange::new(epoch, ChangesetSelector::OnlyOpen, entry),
                &call,
            )
            .unwrap();
    }
    let result = ResultContent {
        report: Some("made".into()),
        trees: Vec::new(),
    };
    claim.complete_execute(&result).unwrap();
    plan_id
}
