//! Builds the assignment for an actor from the plan and its event log.

use actors::{
    AssignedComment, AssignedRule, AssignedSandbox, Assignment, AssignmentLimits, EarlierSession,
    Finding, Usage,
};
use plan::invariant::{Gate, RuleCheck};
use plan::{Epoch, Event, Phase, Plan, RecordedEvent};
use sandbox::{RunRecord, SandboxKey};

use crate::history::collect_decisions;
use crate::{Claim, LifecycleError};

impl Claim {
    pub(super) fn build_assignment(&self) -> Result<Assignment, LifecycleError> {
        let (lifecycle, plan) = (&self.lifecycle, self.plan());
        let history = lifecycle.history().read_history(plan.id())?;
        let targets = lifecycle.gates().read_targets(plan, Gate::Execute)?;
        let rules = lifecycle
            .rules()
            .rules_for_plan(plan)?
            .with_plan_rules(plan, &targets);
        let history_notes = HistoryNotes::from_events(&history, plan);
        let action = plan.action();
        let action = action
            .map(|name| lifecycle.actions().get_action(name))
            .transpose()?;
        let sandboxes = self.sandboxes().iter().map(|sandbox| AssignedSandbox {
            resource: sandbox.resource.clone(),
            path: sandbox.path.clone(),
        });
        let rules = rules
            .effective_rules_at(&Gate::ALL)
            .into_iter()
            .map(|rule| AssignedRule {
                name: rule.draft.name.to_string(),
                says: describe_check(&rule.draft.check),
                advisory: rule.draft.advisory,
            });
        Ok(Assignment {
            plan: plan.id(),
            phase: self.phase(),
            attempt: plan.attempt(),
            run_key: format!(
                "{}-{}-{}",
                plan.id(),
                self.phase(),
                plan.entry_number(self.phase())
            ),
            goal: plan.goal().to_string(),
            description: action.and_then(|action| action.definition.long_description),
            arguments: plan.arguments().clone(),
            read_only: plan.read_only(),
            sandboxes: sandboxes.collect(),
            rules: rules.collect(),
            strategy: collect_decisions(&history),
            feedback: history_notes.feedback,
            revises: history_notes.revises,
            dropped: history_notes.dropped,
            taken_out: history_notes.taken_out,
            conflicts: self.list_conflicts(plan)?,
            answers: history_notes.answers,
            findings: history_notes.findings,
            limits: AssignmentLimits {
                seconds: plan
                    .limits()
                    .timeout
                    .map(|span| span.as_seconds().unsigned_abs()),
                attempts: plan.limits().attempts,
            },
            earlier: self.find_earlier_session(plan, self.phase())?,
        })
    }

    /// Paths in the plan's sandboxes that a merge left in conflict.
    fn list_conflicts(&self, plan: &Plan) -> Result<Vec<String>, LifecycleError> {
        let mut paths = Vec::new();
        if plan.resources().is_empty() {
            return Ok(paths);
        }
        for location in self.lifecycle.projects().locate_resources(plan)? {
            let sandbox_key = SandboxKey {
                plan_id: plan.id(),
                resource: &location,
            };
            let conflicted = self
                .lifecycle
                .local_host()?
                .sandboxes
                .capture()
                .list_unresolved_conflicts(&sandbox_key)?;
            paths.extend(conflicted.iter().map(ToString::to_string));
        }
        Ok(paths)
    }

    /// The newest session of the same actor on this plan, if it ran on this host.
    fn find_earlier_session(
        &self,
        plan: &Plan,
        phase: Phase,
    ) -> Result<Option<EarlierSession>, LifecycleError> {
        let Some(local_host) = &self.lifecycle.local_host else {
            return Ok(None);
        };
        let actor = plan.actor_for_phase(phase);
        let runs = local_host.sandboxes.runs().list_runs(plan.id())?;
        let records: Vec<(Epoch, &RunRecord)> = runs
            .iter()
            .filter_map(|run| Some((run.epoch, run.record.as_ref()?)))
            .filter(|(_, record)| Some(&record.actor) == actor)
            .collect();
        let newest = records.iter().rev().find_map(|(epoch, record)| {
            let session = record.session.clone()?;
            Some((*epoch, session))
        });
        let Some((session_epoch, session)) = newest else {
            return Ok(None);
        };
        // Runs of the session that ended without a record: their usage was never reported.
        let lost_runs = runs
            .iter()
            .filter(|run| {
                run.record.is_none() && run.epoch > session_epoch && run.epoch < plan.epoch()
            })
            .map(|run| run.epoch)
            .collect();
        let mut used = Usage::default();
        let records = records.iter().map(|(_, record)| record);
        for run in records.filter(|run| run.session.as_ref() == Some(&session)) {
            used.input_tokens = used.input_tokens.saturating_add(run.input_tokens);
            used.output_tokens = used.output_tokens.saturating_add(run.output_tokens);
            used.cost_micros = used.cost_micros.saturating_add(run.cost_micros);
        }
        Ok(Some(EarlierSession {
            session,
            used,
            lost_runs,
        }))
    }
}

/// Feedback, answers and failures from a plan's log.
#[derive(Default)]
struct HistoryNotes {
    feedback: Vec<Finding>,
    revises: bool,
    dropped: Vec<String>,
    taken_out: Vec<String>,
    answers: Vec<Finding>,
    findings: Vec<Finding>,
}

impl HistoryNotes {
    fn from_events(history: &[RecordedEvent], plan: &Plan) -> Self {
        let mut collected = Self::default();
        let mut question = String::new();
        for recorded in history {
            collected.apply_event(&recorded.event, &mut question, plan.phase());
        }
        collected
    }

    fn apply_event(&mut self, event: &Event, question: &mut String, current_phase: Phase) {
        match event {
            Event::Revised {
                to,
                feedback,
                comments,
                dropped,
                ..
            } => {
                self.feedback.push(Finding {
                    comments: comments.iter().map(AssignedComment::new).collect(),
                    ..Finding::new(feedback_source(*to), feedback)
                });
                self.revises = *to == current_phase;
                // Dropped paths stay dropped in later revisions, until the work starts over.
                for path in dropped.iter().map(ToString::to_string) {
                    if !self.dropped.contains(&path) {
                        self.dropped.push(path);
                    }
                }
                self.answers.clear();
            }
            // The whole result was brought back.
            Event::ResultPicked { reduced, .. } if reduced.is_empty() => self.taken_out.clear(),
            Event::ResultPicked { reduced, .. } => {
                for path in reduced.iter().map(ToString::to_string) {
                    if !self.taken_out.contains(&path) {
                        self.taken_out.push(path);
                    }
                }
            }
            Event::Asked { question: asked } => question.clone_from(&asked.text.to_string()),
            Event::Answered { answer, .. } => self
                .answers
                .push(Finding::new(std::mem::take(question), answer)),
            Event::Failed { failure } => self
                .findings
                .push(Finding::new(failure.category.to_string(), &failure.message)),
            Event::Constrained { constraint } => self.findings.push(Finding::new(
                constraint.kind.as_str().to_owned(),
                &constraint.message,
            )),
            Event::Reverted { reason, .. } => {
                self.findings
                    .push(Finding::new("reverted".to_owned(), reason));
                self.reset_for_new_phase();
            }
            Event::ExecuteEntered { .. } => self.reset_for_new_phase(),
            // A fresh retry discards the result that was revised.
            Event::Retried { fresh: true, .. } => {
                self.revises = false;
                self.dropped.clear();
                self.taken_out.clear();
            }
            Event::Created(_)
            | Event::GateHeld { .. }
            | Event::Claimed { .. }
            | Event::BasesRecorded { .. }
            | Event::DecisionsRecorded { .. }
            | Event::StrategizeCompleted { .. }
            | Event::ChangesetSealed { .. }
            | Event::ExecuteCompleted { .. }
            | Event::Approved { .. }
            | Event::ApplyEntered { .. }
            | Event::ApplyPrepared { .. }
            | Event::ApplyWithdrawn { .. }
            | Event::Landed { .. }
            | Event::RetryScheduled { .. }
            | Event::Retried { fresh: false, .. }
            | Event::QuestionExpired
            | Event::PermissionAsked { .. }
            | Event::PermissionAnswered { .. }
            | Event::Released { .. }
            | Event::Reclaimed { .. }
            | Event::Waived { .. }
            | Event::RuledOn { .. }
            | Event::Cancelled { .. } => {}
        }
    }

    /// Clears what belongs to the previous phase's work.
    fn reset_for_new_phase(&mut self) {
        self.revises = false;
        self.dropped.clear();
        self.taken_out.clear();
        self.answers.clear();
    }
}

/// A rule as a sentence for an actor.
fn describe_check(check: &RuleCheck) -> String {
    let source = check.source();
    match check {
        RuleCheck::Expr(_) | RuleCheck::Ask(_) => source,
        RuleCheck::Allow(_) => format!("only these paths may change: {source}"),
        RuleCheck::Forbid(_) => format!("these paths must not change: {source}"),
        RuleCheck::Command { .. } => format!("this command must succeed: {source}"),
    }
}

fn feedback_source(phase: Phase) -> String {
    format!("the previous {phase}")
}
