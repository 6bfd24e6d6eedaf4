//! A plan as the tools show it.

use api::NextStep;
use api::view::{
    ActorsView, PlanErrorView, PlanSummary, PlanView, QuestionView, ResourceUseView, ResultView,
    UsageView, VerdictView,
};
use plan::stage::RefMove;
use plan::{PlanId, Timestamp};
use serde::Serialize;
use store::PlanRow;

use super::agent_access::AgentAccess;
use crate::error::CommandError;
use crate::step_commands::command_for_step;
use crate::ui;

/// How many results are listed, the newest ones.
const MAX_RESULTS: usize = 10;

/// Whom a plan waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WaitingFor {
    /// It goes on by itself.
    Engine,
    /// A person must answer, review or repair something.
    Person,
    /// It has ended.
    Nobody,
}

impl WaitingFor {
    pub fn of_row(row: &PlanRow) -> Self {
        match (row.plan.stage().is_final(), row.needs_person()) {
            (true, _) => Self::Nobody,
            (false, true) => Self::Person,
            (false, false) => Self::Engine,
        }
    }
}

#[derive(Debug, Serialize)]
pub struct PlanReport {
    pub plan: PlanSummary,
    pub waiting_for: WaitingFor,
    /// You may revise and cancel it.
    pub started_by_you: bool,
    pub agents: ActorsView,
    pub profile: &'static str,
    pub resources: Vec<ResourceUseView>,
    /// The open question of its agent. Only a person can answer it.
    pub question: Option<QuestionView>,
    /// The failure or landing conflict that stopped it.
    pub error: Option<PlanErrorView>,
    /// The failed rules of the gate that blocks it.
    pub verdict: Option<VerdictView>,
    pub retry_at: Option<Timestamp>,
    /// The last results, oldest first.
    pub results: Vec<ResultView>,
    pub report: Option<String>,
    /// How each target moved; empty until it lands.
    pub landed: Vec<RefMove>,
    pub used: UsageView,
    /// What you can do, most useful first.
    pub your_next_steps: Vec<ToolStep>,
}

/// A next step that a client can take itself.
#[derive(Debug, Serialize)]
pub struct ToolStep {
    pub tool: &'static str,
    pub why: &'static str,
}

pub fn read_report(access: &AgentAccess, plan_id: PlanId) -> Result<PlanReport, CommandError> {
    let lifecycle = &access.lifecycle;
    let row = lifecycle.get_plan(plan_id)?;
    let summary = api::plan_list::summarize_plan(lifecycle, &row, &access.caller)?;
    let view = api::plans::get_plan_view(lifecycle, plan_id)?;
    let mut results = api::results::list_results(lifecycle, plan_id)?;
    results.drain(..results.len().saturating_sub(MAX_RESULTS));
    let waiting_for = WaitingFor::of_row(&row);
    let PlanView {
        actors,
        profile,
        resources,
        question,
        error,
        verdict,
        retry_at,
        report,
        landed,
        used,
        ..
    } = view;
    Ok(PlanReport {
        your_next_steps: list_tool_steps(&summary, waiting_for),
        plan: summary,
        waiting_for,
        started_by_you: access.is_author(&row.plan),
        agents: actors,
        profile,
        resources,
        question,
        error,
        verdict,
        retry_at,
        results,
        report,
        landed,
        used,
    })
}

/// The tools for the caller's next steps. Asking a person is a step of this surface alone.
fn list_tool_steps(summary: &PlanSummary, waiting_for: WaitingFor) -> Vec<ToolStep> {
    let mut steps: Vec<ToolStep> = summary
        .next_steps
        .iter()
        .filter_map(tool_for_step)
        .collect();
    if waiting_for == WaitingFor::Person {
        steps.push(ToolStep {
            tool: "plan_request_landing",
            why: "learn where a person decides",
        });
    }
    steps
}

/// `None` for steps that no tool takes: those of people, of workers and of programs that hold the plan.
fn tool_for_step(step: &NextStep) -> Option<ToolStep> {
    let (tool, why) = match step {
        NextStep::Explain => ("plan_why", "learn what blocks it"),
        NextStep::Diff => ("plan_diff", "read its changes"),
        NextStep::Wait => ("plan_status", "wait for it: pass wait_seconds"),
        NextStep::Revise => ("plan_revise", "send it back with feedback"),
        NextStep::Cancel => ("plan_cancel", "give it up"),
        NextStep::ReadTranscript
        | NextStep::Run { .. }
        | NextStep::StartWorker
        | NextStep::ClaimPhase { .. }
        | NextStep::EnterExecute
        | NextStep::HolderCommand { .. }
        | NextStep::Reclaim
        | NextStep::Answer
        | NextStep::AllowToolCall { .. }
        | NextStep::RejectToolCall { .. }
        | NextStep::ResolveRemovedChange { .. }
        | NextStep::ApproveRule { .. }
        | NextStep::RejectRule { .. }
        | NextStep::Waive { .. }
        | NextStep::Apply { .. }
        | NextStep::ApplyToBranch
        | NextStep::FinishLanding
        | NextStep::ApplyRest { .. }
        | NextStep::Retry
        | NextStep::RetryFresh
        | NextStep::RaiseLimits { .. }
        | NextStep::RaiseBudget { .. }
        | NextStep::ResumeProject { .. }
        | NextStep::Undo => return None,
    };
    Some(ToolStep { tool, why })
}

impl PlanReport {
    pub fn render(&self) -> String {
        let plan = &self.plan;
        let mut text = format!(
            "{}: {} ({}/{}) · {}\n",
            plan.handle,
            plan.standing.as_str(),
            plan.phase,
            plan.state,
            ui::truncate_line(&plan.goal, 200)
        );
        text.push_str(match self.waiting_for {
            WaitingFor::Engine => "It continues by itself.\n",
            WaitingFor::Person => "It waits for a person.\n",
            WaitingFor::Nobody => "It has ended.\n",
        });
        let mut add = |label: &str, value: &str| {
            text.push_str(&format!("{label}: {}\n", ui::truncate_line(value, 1000)));
        };
        add("agent", &self.agents.execution);
        if let Some(question) = &self.question {
            add("question for a person", &question.text);
        }
        match &self.error {
            Some(PlanErrorView::Failure { message, .. }) => add("failed", message),
            Some(PlanErrorView::Constraint { message, .. }) => add("could not land", message),
            None => {}
        }
        for failed in self.verdict.iter().flat_map(|verdict| &verdict.failed) {
            add(
                "blocked by rule",
                &format!("{}: {}", failed.rule, failed.evidence),
            );
        }
        if let Some(result) = self.results.last() {
            let changes = ui::pluralize(result.changes.unwrap_or(0), "changed path");
            add("result", &format!("r{}, {changes}", result.number));
        }
        if let Some(report) = &self.report {
            add("report", report);
        }
        for step in &self.your_next_steps {
            add("you can", &format!("{}: {}", step.tool, step.why));
        }
        text
    }
}

/// The commands that a person can type to continue a plan, most useful first.
pub fn list_person_commands(
    access: &AgentAccess,
    row: &PlanRow,
) -> Result<Vec<String>, CommandError> {
    let person = crate::home::current_person();
    let steps = api::next_steps(&access.lifecycle, row, &person)?;
    let commands = steps.iter().map(|step| {
        let handle = access.lifecycle.short_handle(step.subject(row.plan.id()))?;
        let command = command_for_step(step, &handle);
        Ok(access.invocation.render_hint(&command))
    });
    commands.collect()
}
