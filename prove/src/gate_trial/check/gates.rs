//! Checks every passed gate with a second evaluation of each rule that was in force.

use plan::decision::DecisionNode;
use plan::invariant::{Gate, Rule, RuleCheck, RuleRef};
use plan::judgement::{PendingVerdictReason, RuleCounts, RuleOutcome};
use plan::stage::{RefMove, ResultContent};
use plan::{Digest, Event, Phase, Plan, Profile};
use serde_json::{Value, json};

use super::{GateTrialOutcome, PlanReplay};
use crate::gate_trial::gate_client::is_library_client;
use crate::gate_trial::sample_rules::{self, RuleSubject};

/// What a gate judges, and the rulings and waivers of people so far.
struct GateCase<'a> {
    gate: Gate,
    plan: &'a Plan,
    files: Vec<String>,
    /// The subjects for which a person's ruling counts.
    subjects: Vec<Digest>,
    rulings: Vec<(&'a RuleRef, &'a Digest, &'a RuleOutcome)>,
    waived: Vec<&'a RuleRef>,
    /// Judged by an engine without a local host, which cannot run commands.
    without_local_host: bool,
}

/// The result of evaluating a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RuleStatus {
    Holds,
    Failed,
    Open,
}

/// The expected judgement of a gate.
#[derive(Default)]
struct ExpectedJudgement {
    counts: RuleCounts,
    /// Rule name and choice of each recorded decision.
    choices: Vec<(String, &'static str)>,
    /// Rules that do not hold.
    failed: Vec<RuleRef>,
    /// Rules that are not judged yet.
    open: Vec<RuleRef>,
}

impl PlanReplay<'_> {
    /// Each transition passed its gate, and each passed gate had no unmet rule.
    pub(super) fn check_gates(&self, outcome: &mut GateTrialOutcome) {
        for (index, recorded) in self.history.iter().enumerate() {
            match &recorded.event {
                Event::GateHeld {
                    gate,
                    counts,
                    decisions,
                } => {
                    if *counts != RuleCounts::default() {
                        *outcome.counts.passed.entry(*gate).or_default() += 1;
                    }
                    let problem = self.check_passage(index, *gate, *counts, decisions);
                    outcome.violations.extend(problem);
                }
                Event::Claimed {
                    phase: Phase::Strategize,
                    ..
                } => {
                    outcome
                        .violations
                        .extend(self.check_gated(index, Gate::Strategize));
                }
                Event::ExecuteEntered { .. } => {
                    outcome
                        .violations
                        .extend(self.check_gated(index, Gate::Execute));
                }
                Event::ApplyEntered { .. } => {
                    outcome
                        .violations
                        .extend(self.check_gated(index, Gate::Apply));
                }
                // A plan without targets was judged when it entered apply.
                Event::ApplyPrepared { .. } if self.row.plan.has_targets() => {
                    outcome
                        .violations
                        .extend(self.check_gated(index, Gate::Apply));
                }
                Event::ExecuteCompleted { result, unmet, .. } => {
                    let reported: Vec<&RuleRef> = unmet.iter().map(|unmet| &unmet.rule).collect();
                    let counts = match reported.is_empty() {
                        true => &mut outcome.counts.passed,
                        false => &mut outcome.counts.blocked,
                    };
                    let count = counts.entry(Gate::Result).or_default();
                    match self.check_result_gate(index, result, &reported) {
                        Ok(judged) => *count += usize::from(judged > 0),
                        Err(problem) => outcome.violations.push(problem),
                    }
                }
                Event::Waived { rule, .. } => {
                    outcome.counts.waivers += 1;
                    outcome
                        .violations
                        .extend(self.check_ruling(index, rule, |rule| !rule.draft.non_overridable));
                }
                Event::RuledOn { rule, .. } => {
                    outcome.counts.rulings += 1;
                    let is_question = |rule: &Rule| matches!(rule.draft.check, RuleCheck::Ask(_));
                    outcome
                        .violations
                        .extend(self.check_ruling(index, rule, is_question));
                }
                _ => {}
            }
        }
    }

    /// The gate was passed right before, in the same commit.
    fn check_gated(&self, index: usize, expected: Gate) -> Option<String> {
        let this = &self.history[index];
        let mut before = self.history[..index].iter().rev();
        let before = before.find(|recorded| !matches!(recorded.event, Event::Approved { .. }));
        let is_gated = before.is_some_and(|recorded| {
            recorded.at == this.at
                && matches!(recorded.event, Event::GateHeld { gate, .. } if gate == expected)
        });
        (!is_gated).then(|| {
            let problem = format!("it did not pass the {expected} gate first");
            self.problem_at(index, &problem)
        })
    }

    /// No rule was unmet, and counts and decisions are as expected. Reports a problem only if no possible set of rules
    /// explains the event.
    fn check_passage(
        &self,
        index: usize,
        gate: Gate,
        counts: RuleCounts,
        decisions: &[DecisionNode],
    ) -> Option<String> {
        let case = self.gate_case(index, gate, None);
        let mut problem = None;
        let possible = self
            .rule_history
            .possible_rules(case.plan, self.history[index].at);
        let judged = possible.iter().map(|rules| case.judge_rules(rules));
        let hostless_case = GateCase {
            without_local_host: true,
            ..self.gate_case(index, gate, None)
        };
        let may_lack_host =
            is_library_client(&self.history[index].by) && !case.plan.resources().is_empty();
        let hostless_rules = possible.iter().filter(|_| may_lack_host);
        for expected in judged.chain(hostless_rules.map(|rules| hostless_case.judge_rules(rules))) {
            let blocking = expected.failed.first().or(expected.open.first());
            let difference = match blocking {
                Some(rule) => format!("it passed the {gate} gate, but {rule} was not met"),
                None if expected.counts != counts => {
                    format!(
                        "the {gate} gate counted {counts:?}, expected {:?}",
                        expected.counts
                    )
                }
                None if !case.matches_decisions(&expected, decisions) => {
                    format!(
                        "the {gate} gate recorded {decisions:?}, expected {:?}",
                        expected.choices
                    )
                }
                None => return None,
            };
            problem.get_or_insert(difference);
        }
        problem.map(|problem| self.problem_at(index, &problem))
    }

    /// The unmet rules in the event are those that the result does not meet. Returns the number of judged rules.
    fn check_result_gate(
        &self,
        index: usize,
        result: &ResultContent,
        reported: &[&RuleRef],
    ) -> Result<usize, String> {
        // The result was judged before its changesets were sealed in the same commit.
        let sealed = self.history[..index].iter().rev();
        let sealed = sealed
            .take_while(|recorded| {
                recorded.at == self.history[index].at
                    && matches!(recorded.event, Event::ChangesetSealed { .. })
            })
            .count();
        let case = self.gate_case(index - sealed, Gate::Result, Some((index, result)));
        let mut problem = None;
        for rules in self
            .rule_history
            .possible_rules(case.plan, self.history[index].at)
        {
            let ExpectedJudgement { failed, counts, .. } = case.judge_rules(&rules);
            if failed.iter().collect::<Vec<_>>() == reported {
                return Ok(failed.len() + usize::try_from(counts.held).unwrap_or(usize::MAX));
            }
            let (reported, expected) = (
                sample_rules::format_rules(reported.iter().copied()),
                sample_rules::format_rules(&failed),
            );
            problem.get_or_insert(format!(
                "the result gate reported {reported} as unmet, expected {expected}"
            ));
        }
        let problem = problem.unwrap_or("the rules in force are not known".to_owned());
        Err(self.problem_at(index, &problem))
    }

    /// A person answered or waived the rule, and the rule was in force and may be answered or waived.
    fn check_ruling(
        &self,
        index: usize,
        named: &RuleRef,
        is_allowed: impl Fn(&Rule) -> bool,
    ) -> Option<String> {
        let recorded = &self.history[index];
        if !recorded.by.is_person() {
            return Some(self.problem_at(index, "only a person may answer or waive a rule"));
        }
        let possible = self
            .rule_history
            .possible_rules(self.plan_before(index), recorded.at);
        let found = possible.iter().any(|rules| {
            let mut rules = sample_rules::effective_rules(rules).into_iter();
            rules.any(|rule| rule.reference() == *named && is_allowed(rule))
        });
        let kind = recorded.event.kind();
        (!found).then(|| {
            let problem = format!("{kind} is not allowed for the rule {named}");
            self.problem_at(index, &problem)
        })
    }

    /// The stored verdict matches the rules at the revisions that it names.
    pub(super) fn check_verdict(&self, outcome: &mut GateTrialOutcome) {
        let Some(verdict) = &self.row.verdict else {
            return;
        };
        *outcome.counts.blocked.entry(verdict.gate).or_default() += 1;
        outcome.counts.blocked_programs += usize::from(!self.row.plan.resources().is_empty());
        let Ok(version) = usize::try_from(verdict.version.0) else {
            return;
        };
        let case = self.gate_case(version, verdict.gate, None);
        let expected = case.judge_rules(
            &self
                .rule_history
                .rules_at_revisions(case.plan, &verdict.revisions),
        );
        let mut expected = [expected.failed, expected.open].concat();
        // Under `manual`, a ruling on the result does not count for the merge, and the subject of a merge that did not
        // land is not recorded.
        let is_merging = case.plan.profile() == Profile::Manual
            && case.plan.phase() == Phase::Apply
            && case.plan.stage().holder().is_some();
        // An engine without a local host cannot run commands and reports those rules as pending.
        let is_pending = |rule: &RuleRef| {
            let mut failed = verdict.failed.iter();
            failed.any(|failed| {
                failed.rule == *rule
                    && match failed.waits {
                        Some(PendingVerdictReason::Check) => true,
                        Some(PendingVerdictReason::Person) => is_merging,
                        None => false,
                    }
            })
        };
        expected.retain(|rule| !is_pending(rule));
        let reported = verdict.failed.iter().map(|failed| failed.rule.clone());
        let mut reported: Vec<RuleRef> = reported.filter(|rule| !is_pending(rule)).collect();
        expected.sort();
        reported.sort();
        if expected != reported {
            let (plan_id, gate) = (verdict.plan, verdict.gate);
            let (reported, expected) = (
                sample_rules::format_rules(&reported),
                sample_rules::format_rules(&expected),
            );
            outcome.violations.push(format!(
                "{plan_id}, version {version}: the verdict blames {reported} at the {gate} gate, expected {expected}"
            ));
        }
    }

    /// What the gate before the event at an index judged: the plan before it and its result, or the given result of the
    /// `ExecuteCompleted` event at another index.
    fn gate_case(
        &self,
        index: usize,
        gate: Gate,
        given: Option<(usize, &ResultContent)>,
    ) -> GateCase<'_> {
        let plan = self.plan_before(index);
        let past = &self.history[..index];
        let completed = match given {
            Some((completed_at, _)) => Some(completed_at),
            None => past
                .iter()
                .rposition(|recorded| matches!(recorded.event, Event::ExecuteCompleted { .. })),
        };
        let result = given.map(|(_, result)| result).or(plan.result());
        let result = result.filter(|_| gate.has_result());
        let mut subjects = vec![subject_digest(plan, gate, result)];
        if let Some(Event::ApplyPrepared { intent, .. }) =
            self.history.get(index + 1).map(|recorded| &recorded.event)
            && let Some(merged) = self.merged_subject(&intent.moves)
        {
            if plan.profile() == Profile::Manual {
                subjects.clear();
            }
            subjects.push(merged);
        }
        let rulings = past.iter().filter_map(|recorded| match &recorded.event {
            Event::RuledOn {
                rule,
                subject,
                outcome,
            } => Some((rule, subject, outcome)),
            _ => None,
        });
        let waived = past.iter().filter_map(|recorded| match &recorded.event {
            Event::Waived { rule, .. } => Some(rule),
            _ => None,
        });
        GateCase {
            gate,
            plan,
            files: completed
                .map(|completed_at| self.changed_files(completed_at))
                .unwrap_or_default(),
            subjects,
            rulings: rulings.collect(),
            waived: waived.collect(),
            without_local_host: false,
        }
    }

    /// The changed paths at the time of a result, from the records of the actors and clients.
    fn changed_files(&self, completed: usize) -> Vec<String> {
        let Event::ExecuteCompleted { epoch, .. } = &self.history[completed].event else {
            return Vec::new();
        };
        let records =
            self.records
                .iter()
                .filter(|record| match self.row.plan.resources().is_empty() {
                    // Without a repository, the changes of earlier holders count, too.
                    true => record.epoch <= epoch.0,
                    false => record.epoch == epoch.0,
                });
        records.flat_map(|record| record.files.clone()).collect()
    }

    /// The subject of a merge, if the repository still has its commits.
    fn merged_subject(&self, moves: &[RefMove]) -> Option<Digest> {
        let mut steps = Vec::new();
        for step in moves {
            let tree = self
                .env
                .run_git(&["rev-parse", &format!("{}^{{tree}}", step.new)])
                .ok()?;
            steps.push((&step.resource, &step.old, tree));
        }
        (!steps.is_empty()).then(|| digest_json(&json!(["trees", steps])))
    }
}

impl GateCase<'_> {
    /// Judges the rules of the gate independently of the engine.
    fn judge_rules(&self, rules: &[Rule]) -> ExpectedJudgement {
        let mut expected = ExpectedJudgement::default();
        for rule in sample_rules::rules_at_gate(self.gate, &sample_rules::effective_rules(rules)) {
            let (reference, name) = (rule.reference(), rule.draft.name.to_string());
            let status = self.evaluate_rule(rule);
            let waived = !rule.draft.non_overridable && self.waived.contains(&&reference);
            let choice = match status {
                RuleStatus::Holds => {
                    expected.counts.held += 1;
                    "it holds"
                }
                RuleStatus::Failed | RuleStatus::Open if rule.draft.advisory => {
                    expected.counts.advised += 1;
                    match waived {
                        true => "waived",
                        false => "advice only: ",
                    }
                }
                RuleStatus::Failed | RuleStatus::Open if waived => {
                    expected.counts.waived += 1;
                    "waived"
                }
                RuleStatus::Failed => {
                    expected.failed.push(reference);
                    continue;
                }
                RuleStatus::Open => {
                    expected.open.push(reference);
                    continue;
                }
            };
            expected.choices.push((name, choice));
        }
        expected
    }

    fn evaluate_rule(&self, rule: &Rule) -> RuleStatus {
        let subject = RuleSubject {
            plan: self.plan,
            files: &self.files,
        };
        if self.without_local_host && matches!(rule.draft.check, RuleCheck::Command { .. }) {
            return RuleStatus::Open;
        }
        let holds = sample_rules::evaluate_check(&rule.draft.check, &subject);
        let reference = rule.reference();
        match holds {
            Some(true) => RuleStatus::Holds,
            Some(false) => RuleStatus::Failed,
            None => {
                let mut rulings = self.rulings.iter().rev();
                let ruling = rulings.find(|(rule, subject, _)| {
                    **rule == reference && self.subjects.contains(subject)
                });
                match ruling.map(|(_, _, outcome)| outcome) {
                    Some(RuleOutcome::Held) => RuleStatus::Holds,
                    Some(RuleOutcome::Failed(_) | RuleOutcome::Broken(_)) => RuleStatus::Failed,
                    Some(RuleOutcome::Open(_)) | None => RuleStatus::Open,
                }
            }
        }
    }

    /// Whether the recorded decisions are the expected ones. A plan without a root decision records none.
    fn matches_decisions(&self, expected: &ExpectedJudgement, decisions: &[DecisionNode]) -> bool {
        if self.plan.decisions() == 0 {
            return decisions.is_empty();
        }
        let gate = self.gate;
        decisions.len() == expected.choices.len()
            && decisions
                .iter()
                .zip(&expected.choices)
                .all(|(node, (name, choice))| {
                    node.question.as_str() == format!("Does {name} hold at the {gate} gate?")
                        && node.choice.as_str().starts_with(choice)
                })
    }
}

/// The digest of what a person looks at who answers a rule now.
fn subject_digest(plan: &Plan, gate: Gate, result: Option<&ResultContent>) -> Digest {
    if let Some(result) = result.filter(|result| !result.trees.is_empty()) {
        let trees = result.trees.iter();
        let trees: Vec<_> = trees
            .map(|tree| (&tree.resource, &tree.base, &tree.tree))
            .collect();
        return digest_json(&json!(["trees", trees]));
    }
    let subject_name = match gate {
        Gate::Result | Gate::Apply => "result",
        Gate::Strategize => "strategize",
        Gate::Execute => "execute",
    };
    let entries = [
        plan.entry_number(Phase::Strategize),
        plan.entry_number(Phase::Execute),
    ];
    let report = result
        .and_then(|result| result.report.as_ref())
        .map(plan::ErasableText::as_str);
    digest_json(&json!(["plan", plan.id(), subject_name, entries, report]))
}

fn digest_json(value: &Value) -> Digest {
    Digest::hash_bytes(value.to_string().as_bytes())
}
