//! An actor that speaks the Agent Client Protocol with a program: it asks the agent to work, reads what it
//! does as typed updates, and decides the tool calls that the agent asks for.
//!
//! The program is started, confined and ended like one of kind `command`. It is offered neither files nor
//! terminals: it works with its own, inside its confinement.

mod agent_flavor;
mod agent_process;
mod dialogue;
mod message;
mod permission_options;
mod permission_queue;
mod session_setup;
mod tool_call_tracker;
mod turn_error;
mod update_reader;
mod usage_count;

use std::time::Duration;

use plan::actor::{AcpCommand, ActorOutputFormat, CommandLine};
use plan::decision::{DecisionKind, ReportedDecision};
use plan::ledger::MeteringLevel;
use plan::transcript::ChecklistItem;
use plan::{Phase, QualifiedName};
use sandbox::{ProgramExit, ProgramInput, Supervisor};

use crate::command::failure_hint;
use crate::command::invocation::{CommandInvocation, is_valid_session};
use crate::command::program_start::{PreparedProgram, resource_failure, run_dir_failure};
use crate::command::run_report::{self, FinishedRun};
use crate::command::transcript::TranscriptWriter;
use crate::run_tools::{AskedQuestion, END_AFTER_QUESTION, RunTools};
use crate::stream::{StreamSummary, find_error_in_line};
use crate::{
    Actor, Assignment, HostEnv, Report, ReportOutcome, Workplace, build_prompt,
    build_resume_prompt, report_file,
};
use agent_process::{AgentConversation, FinishedConversation};
use dialogue::{AcpDialogue, DialogueEnding, DialogueTask};

pub struct AcpActor {
    name: QualifiedName,
    agent: AcpCommand,
    /// The program and what it gets.
    command_line: CommandLine,
    host_env: HostEnv,
    supervisor: Supervisor,
    timeouts: AcpTimeouts,
}

/// How long to wait for an agent.
#[derive(Debug, Clone, Copy)]
pub struct AcpTimeouts {
    /// For the answer to a request before the prompt.
    pub handshake: Duration,
    /// For any sign of life during a prompt, while no tool runs.
    pub silence: Duration,
    /// For a person to decide a tool call.
    pub person: Duration,
    /// For the end of a turn in which it asked the person a question.
    pub question: Duration,
    /// For the end of a turn that was cancelled.
    pub cancel: Duration,
    /// For the program to exit after the last answer.
    pub exit: Duration,
}

impl Default for AcpTimeouts {
    fn default() -> Self {
        Self {
            handshake: Duration::from_secs(120),
            silence: Duration::from_secs(15 * 60),
            person: Duration::from_secs(10 * 60),
            question: END_AFTER_QUESTION,
            cancel: Duration::from_secs(2),
            exit: Duration::from_secs(2),
        }
    }
}

impl AcpActor {
    pub fn new(
        name: QualifiedName,
        agent: AcpCommand,
        host_env: HostEnv,
        supervisor: Supervisor,
    ) -> Self {
        Self {
            name,
            command_line: agent.to_command_line(),
            agent,
            host_env,
            supervisor,
            timeouts: AcpTimeouts::default(),
        }
    }

    #[must_use]
    pub fn with_timeouts(mut self, timeouts: AcpTimeouts) -> Self {
        self.timeouts = timeouts;
        self
    }

    fn run(&self, assignment: &Assignment, workplace: &Workplace<'_>) -> Result<Report, Report> {
        if assignment.phase == Phase::Strategize && !workplace.strategy_wanted {
            return Ok(Report::with_outcome(ReportOutcome::Done));
        }
        if workplace.stop.is_requested() {
            return Ok(Report::with_outcome(ReportOutcome::Stopped));
        }
        if !workplace.run_dir.is_absolute() {
            return Err(resource_failure(
                "a program needs an absolute run directory".to_owned(),
            ));
        }
        let transcript = TranscriptWriter::create(&workplace.run_dir.join("transcript.jsonl"));
        let mut transcript = transcript.map_err(|error| run_dir_failure(workplace, &error))?;
        let invocation = CommandInvocation::in_new_session(&self.command_line.command, assignment);
        let run_tools = RunTools::open(&self.host_env, workplace);
        let mut prepared = PreparedProgram::build(
            (&self.command_line, &self.host_env),
            &invocation,
            (assignment, workplace, run_tools.as_ref()),
        )?;
        let input = ProgramInput::create(workplace.run_dir.join("stdin"))
            .map_err(|error| resource_failure(error.to_string()))?;
        prepared.process_spec.input = Some(input.path().to_owned());
        let mut task = self.dialogue_task(assignment, &prepared);
        let tool_server = run_tools.as_ref().map(|tools| tools.mcp_server().to_acp());
        task.mcp_servers.extend(tool_server);
        let dialogue = AcpDialogue::new(task);
        let question = run_tools.as_ref().map(RunTools::question);
        let conversation = AgentConversation {
            tools: &self.agent.tools,
            timeouts: self.timeouts,
            time_limit: self.time_limit(workplace),
            secrets: &prepared.environment.secrets,
            assignment,
            workplace,
            question,
        };
        let hold = || {
            let program = (&self.supervisor, &prepared.process_spec, input);
            conversation.hold(program, dialogue, &mut transcript)
        };
        let secrets = &prepared.environment.secrets;
        let finished = match &run_tools {
            Some(tools) => tools.serve_while((assignment, workplace), secrets, hold),
            None => hold(),
        }?;
        let question = question.and_then(AskedQuestion::text);
        Ok(self.build_report(finished, (&prepared, question), assignment))
    }

    fn dialogue_task(&self, assignment: &Assignment, prepared: &PreparedProgram) -> DialogueTask {
        let earlier = assignment.earlier.clone().filter(|earlier| {
            assignment.phase == Phase::Execute && is_valid_session(&earlier.session)
        });
        DialogueTask {
            directory: prepared
                .process_spec
                .directory
                .to_string_lossy()
                .into_owned(),
            mode: self.agent.mode.clone(),
            model: self.agent.model.clone(),
            prompt: build_prompt(assignment),
            resume_prompt: build_resume_prompt(assignment),
            mcp_servers: Vec::new(),
            earlier,
        }
    }

    fn build_report(
        &self,
        finished: FinishedConversation,
        (prepared, question): (&PreparedProgram, Option<String>),
        assignment: &Assignment,
    ) -> Report {
        let FinishedConversation {
            dialogue,
            termination,
            exit,
            errors,
        } = finished;
        let secrets = &prepared.environment.secrets;
        let hide = |text: &str| secrets.hide_in_text(text).into_owned();
        let mut summary = StreamSummary::default();
        summary.session = dialogue.session().map(str::to_owned);
        summary.usage = dialogue.usage();
        summary.answer = dialogue.answer().map(hide);
        let is_stopped_here = termination.is_some();
        let exit_code = match exit {
            ProgramExit::Code(code) => Some(code),
            ProgramExit::Signal(_) | ProgramExit::NotStarted(_) => None,
        };
        let (exit, failed_outcome) = match dialogue.ending() {
            // The program may be killed after its last answer.
            Some(DialogueEnding::Completed) => (ProgramExit::Code(0), None),
            Some(DialogueEnding::Cancelled) => (ProgramExit::Code(0), Some(ReportOutcome::Stopped)),
            Some(DialogueEnding::Failed { category, message }) => {
                let message = format!("{} {message}", prepared.name);
                let by_words = || run_report::categorize_failure(&message);
                let category = category.unwrap_or_else(by_words);
                let outcome = ReportOutcome::Failed { category, message };
                (ProgramExit::Code(0), Some(outcome))
            }
            None => {
                // An agent that is stopped here may end without an answer.
                if exit == ProgramExit::Code(0) && !is_stopped_here {
                    let request = dialogue
                        .open_request()
                        .map_or("initialize", |one| one.name());
                    let mut failure = format!("it ended without an answer to `{request}`");
                    let quote = errors.last_lines(run_report::MAX_QUOTE_BYTES);
                    if !quote.trim().is_empty() {
                        failure.push_str(&format!(": {}", quote.trim()));
                    }
                    summary.failure = Some(failure);
                }
                (exit, None)
            }
        };
        let has_asked = question.is_some();
        let last_error = dialogue.last_error().map(str::to_owned);
        let last_error = last_error.or_else(|| find_last_error(&errors.to_text()));
        let last_error = last_error.as_deref().map(hide);
        let mut report = run_report::build_report(FinishedRun {
            program: prepared.name.clone(),
            phase: assignment.phase,
            names_its_errors: true,
            termination,
            exit,
            stream_summary: summary,
            errors,
            last_error,
            report: report_file::read_report(&prepared.run_dir.report_file, secrets),
            question,
        });
        report.exit_code = exit_code;
        if let Some(outcome) = failed_outcome
            && !is_stopped_here
            && !has_asked
        {
            report.outcome = outcome;
        }
        if assignment.phase == Phase::Strategize && report.decisions.is_empty() {
            report.decisions = strategy_from_checklist(&report, dialogue.checklist());
        }
        if let ReportOutcome::Failed { category, message } = &mut report.outcome {
            let failure = (*category, message.as_str());
            let (line, host_env) = (&self.command_line, &self.host_env);
            if let Some(hint) = failure_hint::find_hint(&self.name, line, host_env, failure) {
                message.push('\n');
                message.push_str(&hint);
            }
            *message = crate::excerpt::strip_control_chars(&secrets.hide_in_text(message));
        }
        report
    }

    /// The shorter of the definition's limit and this run's limit.
    fn time_limit(&self, workplace: &Workplace<'_>) -> Option<Duration> {
        let definition_limit = self.agent.timeout.map(plan::Span::as_duration);
        let limits = definition_limit.into_iter().chain(workplace.time_limit);
        limits.min()
    }
}

impl Actor for AcpActor {
    fn work(&self, assignment: &Assignment, workplace: &Workplace<'_>) -> Report {
        self.run(assignment, workplace)
            .unwrap_or_else(|report| report)
    }

    fn metering(&self) -> MeteringLevel {
        metering_for_agent(&self.agent)
    }
}

/// What usage an agent reports, as far as its program tells. The agent itself says nothing about it.
pub(crate) fn metering_for_agent(agent: &AcpCommand) -> MeteringLevel {
    let program = agent.command.first().map(String::as_str);
    let program = program.and_then(|program| program.rsplit('/').next());
    match program {
        Some("claude-agent-acp" | "opencode") => MeteringLevel::Cost,
        Some("codex-acp" | "gemini" | "qwen" | "copilot" | "vibe-acp") => MeteringLevel::Tokens,
        Some(_) | None => MeteringLevel::Time,
    }
}

/// The last error on standard error, where some agents say why they retry. Which agent it is need not be known: what
/// they write differs enough.
fn find_last_error(errors: &str) -> Option<String> {
    const FORMATS: [ActorOutputFormat; 2] = [
        ActorOutputFormat::OpencodeJson,
        ActorOutputFormat::GeminiJson,
    ];
    let mut lines = errors.lines().rev();
    lines.find_map(|line| {
        let mut found = FORMATS
            .iter()
            .map(|format| find_error_in_line(*format, line));
        found.find_map(|error| error)
    })
}

/// The strategy as decisions: the answer, and below it the steps of the agent's checklist. Empty without a
/// checklist, because the answer alone is the strategy then.
fn strategy_from_checklist(report: &Report, checklist: &[ChecklistItem]) -> Vec<ReportedDecision> {
    let decision = |kind, question: &str, choice: &str| ReportedDecision {
        kind,
        question: question.to_owned(),
        choice: choice.to_owned(),
        alternatives: Vec::new(),
        rationale: None,
        confidence: None,
        parent: None,
    };
    let steps: Vec<&ChecklistItem> = checklist
        .iter()
        .filter(|item| !item.text.trim().is_empty())
        .collect();
    let Some(summary) = report.summary.as_deref() else {
        return Vec::new();
    };
    if steps.is_empty() || summary.trim().is_empty() {
        return Vec::new();
    }
    let answer = decision(
        DecisionKind::StrategyChoice,
        "How should it be done?",
        summary,
    );
    let steps = steps.into_iter().enumerate().map(|(at, item)| {
        let question = format!("What is step {}?", at + 1);
        decision(DecisionKind::StrategyChoice, &question, &item.text)
    });
    std::iter::once(answer).chain(steps).collect()
}
