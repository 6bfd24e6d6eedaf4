//! Was every gate open that a plan passed, by a second opinion on each rule that was in force?

use plan::decision::DecisionNode;
use plan::invariant::{Gate, Rule, RuleCheck, RuleRef};
use plan::judgement::{PendingVerdictReason, RuleCounts, RuleOutcome};
use plan::stage::{RefMove, ResultContent};
use plan::{Digest, Event, Phase, Plan, Profile};
use serde_json::{Value, json};

use super::{Life, Outcome};
use crate::gating::player::is_player;
use crate::gating::rules::{self, About};

/// What is judged, and what people looked at who said something about it.
struct Case<'a> {
    gate: Gate,
    plan: &'a Plan,
    files: Vec<String>,
    subjects: Vec<Digest>,
    rulings: Vec<(&'a RuleRef, &'a Digest, &'a RuleOutcome)>,
    waived: Vec<&'a RuleRef>,
    /// Judged by an engine without hands, which cannot run what nobody has run yet.
    without_hands: bool,
}

/// How a rule comes out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Said {
    Held,
    Failed,
    Open,
}

/// How a gate comes out.
#[derive(Default)]
struct Expected {
    counts: RuleCounts,
    /// Names and choices, where something was decided.
    choices: Vec<(String, &'static str)>,
    /// What was not met.
    failed: Vec<RuleRef>,
    /// What nobody has judged.
    open: Vec<RuleRef>,
}

impl Life<'_> {
    /// Each transition has its gate, and each gate was open.
    pub(super) fn gates(&self, outcome: &mut Outcome) {
        for (at, recorded) in self.history.iter().enumerate() {
            match &recorded.event {
                Event::GateHeld {
                    gate,
                    counts,
                    decisions,
                } => {
                    if *counts != RuleCounts::default() {
                        *outcome.tally.passed.entry(*gate).or_default() += 1;
                    }
                    let wrong = self.passed(at, *gate, *counts, decisions);
                    outcome.violations.extend(wrong);
                }
                Event::Claimed {
                    phase: Phase::Strategize,
                    ..
                } => {
                    outcome
                        .violations
                        .extend(self.ungated(at, Gate::Strategize));
                }
                Event::ExecuteEntered { .. } => {
                    outcome.violations.extend(self.ungated(at, Gate::Execute));
                }
                Event::ApplyEntered { .. } => {
                    outcome.violations.extend(self.ungated(at, Gate::Apply));
                }
                // What lands on nothing was judged when it was moved there.
                Event::ApplyPrepared { .. } if self.row.plan.has_targets() => {
                    outcome.violations.extend(self.ungated(at, Gate::Apply));
                }
                Event::ExecuteCompleted { result, unmet, .. } => {
                    let told: Vec<&RuleRef> = unmet.iter().map(|one| &one.rule).collect();
                    let way = match told.is_empty() {
                        true => &mut outcome.tally.passed,
                        false => &mut outcome.tally.blocked,
                    };
                    let way = way.entry(Gate::Result).or_default();
                    match self.handed_in(at, result, &told) {
                        Ok(asked) => *way += usize::from(asked > 0),
                        Err(wrong) => outcome.violations.push(wrong),
                    }
                }
                Event::Waived { rule, .. } => {
                    outcome.tally.waived += 1;
                    outcome
                        .violations
                        .extend(self.said(at, rule, |rule| !rule.draft.non_overridable));
                }
                Event::RuledOn { rule, .. } => {
                    outcome.tally.ruled += 1;
                    let asks = |rule: &Rule| matches!(rule.draft.check, RuleCheck::Ask(_));
                    outcome.violations.extend(self.said(at, rule, asks));
                }
                _ => {}
            }
        }
    }

    /// Was there no such gate right before, in the same commit?
    fn ungated(&self, at: usize, wanted: Gate) -> Option<String> {
        let this = &self.history[at];
        let mut before = self.history[..at].iter().rev();
        let before = before.find(|one| !matches!(one.event, Event::Approved { .. }));
        let is_gated = before.is_some_and(|one| {
            one.at == this.at && matches!(one.event, Event::GateHeld { gate, .. } if gate == wanted)
        });
        (!is_gated).then(|| self.wrong(at, &format!("it was not judged at the {wanted} gate")))
    }

    fn passed(
        &self,
        at: usize,
        gate: Gate,
        counts: RuleCounts,
        made: &[DecisionNode],
    ) -> Option<String> {
        let case = self.case(at, gate, None);
        let mut why = None;
        let possible = self.statutes.possible(case.plan, self.history[at].at);
        let judged = possible.iter().map(|rules| case.judge(rules));
        let blind = Case {
            without_hands: true,
            ..self.case(at, gate, None)
        };
        let is_blind = is_player(&self.history[at].by) && !case.plan.resources.is_empty();
        let guessed = possible.iter().filter(|_| is_blind);
        for expected in judged.chain(guessed.map(|rules| blind.judge(rules))) {
            let blocking = expected.failed.first().or(expected.open.first());
            let differs = match blocking {
                Some(rule) => format!("it passed the {gate} gate, and {rule} was not met"),
                None if expected.counts != counts => {
                    format!(
                        "the {gate} gate counts {counts:?}, and not {:?}",
                        expected.counts
                    )
                }
                None if !case.agrees(&expected, made) => {
                    format!(
                        "the {gate} gate decided {made:?}, and not {:?}",
                        expected.choices
                    )
                }
                None => return None,
            };
            why.get_or_insert(differs);
        }
        why.map(|why| self.wrong(at, &why))
    }

    /// What a result was handed in as not meeting is what it does not meet. How many rules had a say in it.
    fn handed_in(
        &self,
        at: usize,
        result: &ResultContent,
        told: &[&RuleRef],
    ) -> Result<usize, String> {
        // It was judged before its changesets were sealed in the same commit.
        let sealed = self.history[..at].iter().rev();
        let sealed = sealed
            .take_while(|one| {
                one.at == self.history[at].at && matches!(one.event, Event::ChangesetSealed { .. })
            })
            .count();
        let case = self.case(at - sealed, Gate::Result, Some((at, result)));
        let mut why = None;
        for rules in self.statutes.possible(case.plan, self.history[at].at) {
            let Expected { failed, counts, .. } = case.judge(&rules);
            if failed.iter().collect::<Vec<_>>() == told {
                return Ok(failed.len() + usize::try_from(counts.held).unwrap_or(usize::MAX));
            }
            let (told, expected) = (rules::told(told.iter().copied()), rules::told(&failed));
            why.get_or_insert(format!(
                "it was handed in as not meeting {told} at the result gate, and not {expected}"
            ));
        }
        let why = why.unwrap_or("it is not known which rules were in force".to_owned());
        Err(self.wrong(at, &why))
    }

    /// What is said of a rule is said by a person, of one that was in force and of which it can be said.
    fn said(&self, at: usize, named: &RuleRef, fits: impl Fn(&Rule) -> bool) -> Option<String> {
        let recorded = &self.history[at];
        if !recorded.by.is_person() {
            return Some(self.wrong(at, "nobody but a person can say that"));
        }
        let possible = self.statutes.possible(self.before(at), recorded.at);
        let found = possible.iter().any(|rules| {
            let mut rules = rules::in_force(rules).into_iter();
            rules.any(|rule| rule.reference() == *named && fits(rule))
        });
        let kind = recorded.event.kind();
        (!found).then(|| {
            self.wrong(
                at,
                &format!("{kind}, of {named}, of which it cannot be said"),
            )
        })
    }

    /// The verdict that is stored beside the plan is what the rules said that it names.
    pub(super) fn verdict(&self, outcome: &mut Outcome) {
        let Some(verdict) = &self.row.verdict else {
            return;
        };
        *outcome.tally.blocked.entry(verdict.gate).or_default() += 1;
        outcome.tally.shut += usize::from(!self.row.plan.resources.is_empty());
        let Ok(version) = usize::try_from(verdict.version.0) else {
            return;
        };
        let case = self.case(version, verdict.gate, None);
        let expected = case.judge(&self.statutes.exactly(case.plan, &verdict.revisions));
        let mut expected = [expected.failed, expected.open].concat();
        // Under `manual` an answer about the result is none about what would land in its place, and what that was is
        // not written down where it did not land.
        let merging = case.plan.profile == Profile::Manual
            && case.plan.phase() == Phase::Apply
            && case.plan.stage.holder().is_some();
        // An engine without hands cannot run what nobody has run yet, and says so.
        let unchecked = |rule: &RuleRef| {
            let mut told = verdict.failed.iter();
            told.any(|one| {
                one.rule == *rule
                    && match one.waits {
                        Some(PendingVerdictReason::Check) => true,
                        Some(PendingVerdictReason::Person) => merging,
                        None => false,
                    }
            })
        };
        expected.retain(|rule| !unchecked(rule));
        let told = verdict.failed.iter().map(|one| one.rule.clone());
        let mut told: Vec<RuleRef> = told.filter(|rule| !unchecked(rule)).collect();
        expected.sort();
        told.sort();
        if expected != told {
            let (plan, gate) = (verdict.plan, verdict.gate);
            let (told, expected) = (rules::told(&told), rules::told(&expected));
            outcome.violations.push(format!(
                "{plan}, version {version}: {told} kept the {gate} gate shut, and not {expected}"
            ));
        }
    }

    /// What an event at this place was judged on: the plan before it, and its result, or the one that is
    /// about to be handed in.
    fn case(&self, at: usize, gate: Gate, given: Option<(usize, &ResultContent)>) -> Case<'_> {
        let plan = self.before(at);
        let past = &self.history[..at];
        let completed = match given {
            Some((at, _)) => Some(at),
            None => past
                .iter()
                .rposition(|one| matches!(one.event, Event::ExecuteCompleted { .. })),
        };
        let result = given.map(|(_, result)| result).or(plan.result.as_ref());
        let result = result.filter(|_| gate.has_result());
        let mut subjects = vec![subject(plan, gate, result)];
        if let Some(Event::ApplyPrepared { intent, .. }) =
            self.history.get(at + 1).map(|one| &one.event)
            && let Some(merged) = self.merged(&intent.moves)
        {
            if plan.profile == Profile::Manual {
                subjects.clear();
            }
            subjects.push(merged);
        }
        let rulings = past.iter().filter_map(|one| match &one.event {
            Event::RuledOn {
                rule,
                subject,
                outcome,
            } => Some((rule, subject, outcome)),
            _ => None,
        });
        let waived = past.iter().filter_map(|one| match &one.event {
            Event::Waived { rule, .. } => Some(rule),
            _ => None,
        });
        Case {
            gate,
            plan,
            files: completed.map(|at| self.files(at)).unwrap_or_default(),
            subjects,
            rulings: rulings.collect(),
            waived: waived.collect(),
            without_hands: false,
        }
    }

    /// The paths that had changed when a result was handed in, as those wrote down who changed them.
    fn files(&self, completed: usize) -> Vec<String> {
        let Event::ExecuteCompleted { epoch, .. } = &self.history[completed].event else {
            return Vec::new();
        };
        let notes = self
            .notes
            .iter()
            .filter(|note| match self.row.plan.resources.is_empty() {
                // Whatever was recorded counts, by whoever worked on it.
                true => note.epoch <= epoch.0,
                false => note.epoch == epoch.0,
            });
        notes.flat_map(|note| note.files.clone()).collect()
    }

    /// What would come of these moves, as far as the repository still knows.
    fn merged(&self, moves: &[RefMove]) -> Option<Digest> {
        let mut steps = Vec::new();
        for step in moves {
            let tree = self
                .ground
                .git(&["rev-parse", &format!("{}^{{tree}}", step.new)])
                .ok()?;
            steps.push((&step.resource, &step.old, tree));
        }
        (!steps.is_empty()).then(|| digest(&json!(["trees", steps])))
    }
}

impl Case<'_> {
    fn judge(&self, rules: &[Rule]) -> Expected {
        let mut expected = Expected::default();
        for rule in rules::at(self.gate, &rules::in_force(rules)) {
            let (reference, name) = (rule.reference(), rule.draft.name.to_string());
            let said = self.said(rule);
            let waived = !rule.draft.non_overridable && self.waived.contains(&&reference);
            let choice = match said {
                Said::Held => {
                    expected.counts.held += 1;
                    "it holds"
                }
                Said::Failed | Said::Open if rule.draft.advisory => {
                    expected.counts.advised += 1;
                    match waived {
                        true => "waived",
                        false => "advice only: ",
                    }
                }
                Said::Failed | Said::Open if waived => {
                    expected.counts.waived += 1;
                    "waived"
                }
                Said::Failed => {
                    expected.failed.push(reference);
                    continue;
                }
                Said::Open => {
                    expected.open.push(reference);
                    continue;
                }
            };
            expected.choices.push((name, choice));
        }
        expected
    }

    fn said(&self, rule: &Rule) -> Said {
        let about = About {
            plan: self.plan,
            files: &self.files,
        };
        if self.without_hands && matches!(rule.draft.check, RuleCheck::Command { .. }) {
            return Said::Open;
        }
        let held = rules::holds(&rule.draft.check, &about);
        let reference = rule.reference();
        match held {
            Some(true) => Said::Held,
            Some(false) => Said::Failed,
            None => {
                let mut rulings = self.rulings.iter().rev();
                let ruling = rulings.find(|(rule, subject, _)| {
                    **rule == reference && self.subjects.contains(subject)
                });
                match ruling.map(|(_, _, outcome)| outcome) {
                    Some(RuleOutcome::Held) => Said::Held,
                    Some(RuleOutcome::Failed(_)) => Said::Failed,
                    Some(RuleOutcome::Open(_)) | None => Said::Open,
                }
            }
        }
    }

    /// Are these the decisions that were to be made? Before the root there are none.
    fn agrees(&self, expected: &Expected, made: &[DecisionNode]) -> bool {
        if self.plan.decisions == 0 {
            return made.is_empty();
        }
        let gate = self.gate;
        made.len() == expected.choices.len()
            && made
                .iter()
                .zip(&expected.choices)
                .all(|(node, (name, choice))| {
                    node.question.as_str() == format!("Does {name} hold at the {gate} gate?")
                        && node.choice.as_str().starts_with(choice)
                })
    }
}

/// What a person who answers now has looked at.
fn subject(plan: &Plan, gate: Gate, result: Option<&ResultContent>) -> Digest {
    if let Some(result) = result.filter(|result| !result.trees.is_empty()) {
        let trees = result.trees.iter();
        let trees: Vec<_> = trees
            .map(|tree| (&tree.resource, &tree.base, &tree.tree))
            .collect();
        return digest(&json!(["trees", trees]));
    }
    let about = match gate {
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
    digest(&json!(["plan", plan.id, about, entries, report]))
}

fn digest(value: &Value) -> Digest {
    Digest::hash_bytes(value.to_string().as_bytes())
}
