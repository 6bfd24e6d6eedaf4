//! The assignment of a claim: what its actor has to know, gathered from the plan and its log.

use actors::{Assignment, Earlier, Finding, LimitsTold, RuleTold, SandboxTold, Usage};
use plan::invariant::{Check, Gate};
use plan::{Epoch, Event, Phase, Plan, Recorded};
use sandbox::{Room, RunRecord};

use crate::reading::decisions_in;
use crate::{Claim, Error, Lifecycle};

impl Lifecycle {
    /// What the actor of a claim is to do.
    pub(super) fn assignment(&self, claim: &Claim) -> Result<Assignment, Error> {
        let plan = claim.plan();
        let history = self.history(plan.id)?;
        let targets = self.targets_of(plan, Gate::Execute)?;
        let rules = self.rules_of(plan)?.of_plan(plan, &targets);
        let told = Told::from(&history, plan);
        let action = plan.action.as_ref();
        let action = action.map(|name| self.get_action(name)).transpose()?;
        let sandboxes = claim.sandboxes().iter().map(|sandbox| SandboxTold {
            resource: sandbox.resource.clone(),
            path: sandbox.path.clone(),
        });
        let rules = rules
            .effective_at(&Gate::ALL)
            .into_iter()
            .map(|rule| RuleTold {
                name: rule.draft.name.to_string(),
                says: in_words(&rule.draft.check),
                advisory: rule.draft.advisory,
            });
        Ok(Assignment {
            plan: plan.id,
            phase: claim.phase(),
            attempt: plan.attempt,
            run_key: format!(
                "{}-{}-{}",
                plan.id,
                claim.phase(),
                plan.entry(claim.phase())
            ),
            goal: plan.goal.to_string(),
            description: action.and_then(|action| action.definition.long_description),
            arguments: plan.arguments.clone(),
            read_only: plan.read_only,
            sandboxes: sandboxes.collect(),
            rules: rules.collect(),
            strategy: decisions_in(&history),
            feedback: told.feedback,
            revises: told.revises,
            dropped: told.dropped,
            conflicts: self.conflicts(plan)?,
            answers: told.answers,
            findings: told.findings,
            limits: LimitsTold {
                seconds: plan
                    .limits
                    .timeout
                    .map(|span| span.as_seconds().unsigned_abs()),
                attempts: plan.limits.attempts,
            },
            earlier: self.earlier(plan, claim.phase())?,
        })
    }

    /// Paths of the plan's sandboxes that a merge left in conflict.
    fn conflicts(&self, plan: &Plan) -> Result<Vec<String>, Error> {
        let mut paths = Vec::new();
        if plan.resources.is_empty() {
            return Ok(paths);
        }
        for site in self.sites(plan)? {
            let room = Room {
                plan: plan.id,
                site: &site,
            };
            let unsolved = self.hands()?.workshop.unsolved(&room)?;
            paths.extend(unsolved.iter().map(ToString::to_string));
        }
        Ok(paths)
    }

    /// The newest conversation of the same actor on this plan, if it took place on this host.
    fn earlier(&self, plan: &Plan, phase: Phase) -> Result<Option<Earlier>, Error> {
        let Some(hands) = &self.hands else {
            return Ok(None);
        };
        let actor = plan.actor_in(phase);
        let runs = hands.workshop.runs(plan.id)?;
        let records: Vec<(Epoch, &RunRecord)> = runs
            .iter()
            .filter_map(|run| Some((run.epoch, run.record.as_ref()?)))
            .filter(|(_, record)| Some(&record.actor) == actor)
            .collect();
        let newest = records.iter().rev().find_map(|(epoch, record)| {
            let session = record.session.clone()?;
            Some((*epoch, session))
        });
        let Some((told_by, session)) = newest else {
            return Ok(None);
        };
        let lost_runs = runs
            .iter()
            .filter(|run| run.record.is_none() && run.epoch > told_by && run.epoch < plan.epoch)
            .map(|run| run.epoch)
            .collect();
        let mut used = Usage::default();
        let records = records.iter().map(|(_, record)| record);
        for run in records.filter(|run| run.session.as_ref() == Some(&session)) {
            used.input_tokens = used.input_tokens.saturating_add(run.input_tokens);
            used.output_tokens = used.output_tokens.saturating_add(run.output_tokens);
            used.cost_micros = used.cost_micros.saturating_add(run.cost_micros);
        }
        Ok(Some(Earlier {
            session,
            used,
            lost_runs,
        }))
    }
}

/// What was said along the way, as the log has it.
#[derive(Default)]
struct Told {
    feedback: Vec<Finding>,
    revises: bool,
    dropped: Vec<String>,
    answers: Vec<Finding>,
    findings: Vec<Finding>,
}

impl Told {
    fn from(history: &[Recorded], plan: &Plan) -> Self {
        let mut told = Self::default();
        let mut question = String::new();
        for recorded in history {
            told.hear(&recorded.event, &mut question, plan.phase());
        }
        told
    }

    fn hear(&mut self, event: &Event, question: &mut String, now_in: Phase) {
        match event {
            Event::Revised {
                to,
                feedback,
                dropped,
                ..
            } => {
                self.feedback.push(Finding {
                    about: recorded_as(*to),
                    text: feedback.to_string(),
                });
                self.revises = *to == now_in;
                // Whoever wants something else changed has not asked for what was taken out before.
                for path in dropped.iter().map(ToString::to_string) {
                    if !self.dropped.contains(&path) {
                        self.dropped.push(path);
                    }
                }
                self.answers.clear();
            }
            Event::Asked { question: asked } => question.clone_from(&asked.text.to_string()),
            Event::Answered { answer, .. } => self.answers.push(Finding {
                about: std::mem::take(question),
                text: answer.to_string(),
            }),
            Event::Failed { failure } => self.findings.push(Finding {
                about: failure.category.to_string(),
                text: failure.message.to_string(),
            }),
            Event::Constrained { constraint } => self.findings.push(Finding {
                about: constraint.kind.as_str().to_owned(),
                text: constraint.message.to_string(),
            }),
            Event::Reverted { reason, .. } => {
                self.findings.push(Finding {
                    about: "reverted".to_owned(),
                    text: reason.to_string(),
                });
                self.begin_anew();
            }
            Event::ExecuteEntered { .. } => self.begin_anew(),
            // There is no result any more that was sent back or had anything taken out of it.
            Event::Retried { fresh: true, .. } => {
                self.revises = false;
                self.dropped.clear();
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
            | Event::Released { .. }
            | Event::Reclaimed { .. }
            | Event::Waived { .. }
            | Event::RuledOn { .. }
            | Event::Cancelled { .. } => {}
        }
    }

    /// A phase was entered: what was answered and dropped before belongs to another piece of work.
    fn begin_anew(&mut self) {
        self.revises = false;
        self.dropped.clear();
        self.answers.clear();
    }
}

/// What a rule asks of a result.
fn in_words(check: &Check) -> String {
    let source = check.source();
    match check {
        Check::Expr(_) | Check::Ask(_) => source,
        Check::Allow(_) => format!("nothing but these may change: {source}"),
        Check::Forbid(_) => format!("these may not change: {source}"),
        Check::Command { .. } => format!("this must succeed: {source}"),
    }
}

fn recorded_as(phase: Phase) -> String {
    format!("the {phase} before")
}
