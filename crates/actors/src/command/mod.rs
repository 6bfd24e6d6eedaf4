//! An actor that runs a program in the sandbox, reads its output while it works, and reports how it
//! ended.
//!
//! Secrets in the output are hidden, long output is shortened, and all of it is kept in the run's
//! transcript. Nothing here checks what changed in the sandbox.

pub(crate) mod entry_sender;
pub(crate) mod environment;
pub(crate) mod failure_hint;
pub(crate) mod invocation;
pub(crate) mod line_reader;
mod output_reader;
mod program_files;
pub(crate) mod program_start;
mod program_variables;
mod reachable_paths;
pub(crate) mod run_dir;
pub(crate) mod run_report;
pub(crate) mod transcript;

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use plan::QualifiedName;
use plan::actor::{ActorOutputFormat, ActorStdin, CommandLine};
use plan::ledger::MeteringLevel;
use plan::stage::FailureCategory;
use sandbox::{IsolationLevel, ProcessSpec, RunEnding, SandboxError, Supervisor};

pub(crate) use program_files::{find_interpreter, read_head};
pub(crate) use program_variables::{expand_moved, program_variable};
pub use reachable_paths::reachable_command_paths;

use crate::run_tools::{AskedQuestion, END_AFTER_QUESTION, RunTools};
use crate::{
    Actor, Assignment, HostEnv, Report, ReportOutcome, Usage, Workplace, report_file, stream,
};
use invocation::CommandInvocation;
use output_reader::{OutputReader, Pipe};
use program_start::{PreparedProgram, resource_failure, run_dir_failure};
use run_report::{FinishedRun, TerminationReason};
use transcript::TranscriptWriter;

/// How often to check whether a run must end, and to report progress.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

pub struct CommandActor {
    name: QualifiedName,
    command_line: CommandLine,
    host_env: HostEnv,
    supervisor: Supervisor,
}

impl CommandActor {
    pub fn new(
        name: QualifiedName,
        command_line: CommandLine,
        host_env: HostEnv,
        supervisor: Supervisor,
    ) -> Self {
        Self {
            name,
            command_line,
            host_env,
            supervisor,
        }
    }

    fn run(&self, assignment: &Assignment, workplace: &Workplace<'_>) -> Result<Report, Report> {
        let Some(invocation) = CommandInvocation::for_assignment(
            &self.command_line,
            assignment,
            workplace.strategy_wanted,
        ) else {
            return Ok(Report::with_outcome(ReportOutcome::Done));
        };
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
        let run = self.run_once(&invocation, assignment, workplace, &mut transcript)?;
        match invocation.with_new_session(&self.command_line, assignment) {
            Some(fresh_invocation) if run.has_forgotten_session() => {
                transcript.add_note("the session cannot be resumed: starting a new one");
                let fresh_run =
                    self.run_once(&fresh_invocation, assignment, workplace, &mut transcript)?;
                Ok(fresh_run.report)
            }
            Some(_) | None => Ok(run.report),
        }
    }

    fn run_once(
        &self,
        invocation: &CommandInvocation<'_>,
        assignment: &Assignment,
        workplace: &Workplace<'_>,
        transcript: &mut TranscriptWriter,
    ) -> Result<CommandRun, Report> {
        // Calls of these tools would not match a list of allowed tools, and end the run.
        let run_tools =
            self.command_line.mcp.is_some() && self.command_line.guards.allow.is_empty();
        let run_tools = run_tools.then(|| RunTools::open(&self.host_env, workplace));
        let run_tools = run_tools.flatten();
        let prepared = PreparedProgram::build(
            (&self.command_line, &self.host_env),
            invocation,
            (assignment, workplace, run_tools.as_ref()),
        )?;
        let PreparedProgram {
            name: program_name,
            run_dir,
            environment,
            mut process_spec,
        } = prepared;
        process_spec.input = match self.command_line.stdin {
            ActorStdin::Assignment => Some(run_dir.assignment_file.clone()),
            ActorStdin::Prompt => Some(run_dir.prompt_file.clone()),
            ActorStdin::None => None,
        };

        let secrets = &environment.secrets;
        let earlier = invocation.resumed_session(assignment);
        let output_reader = OutputReader::new(
            &self.command_line,
            secrets,
            transcript,
            (assignment, workplace),
            earlier,
        );
        let question = run_tools.as_ref().map(RunTools::question);
        let supervise =
            || self.supervise_process(&process_spec, &output_reader, (workplace, question));
        let (ending, termination) = match &run_tools {
            Some(tools) => tools.serve_while((assignment, workplace), secrets, supervise),
            None => supervise(),
        }?;
        // The program may have ended before the breach was noticed.
        let termination =
            termination.or_else(|| output_reader.breach().map(TerminationReason::GuardBreached));
        let (stream_summary, errors, last_error) = output_reader.end();
        let session_started = stream_summary.session_started;
        let report = report_file::read_report(&run_dir.report_file, secrets);
        let mut final_report = run_report::build_report(FinishedRun {
            program: program_name,
            phase: assignment.phase,
            names_its_errors: match self.command_line.output {
                // The last words of a custom script may be about anything.
                ActorOutputFormat::Text | ActorOutputFormat::AiderText => false,
                _ => true,
            },
            termination,
            exit: ending.ended,
            stream_summary,
            errors,
            last_error,
            report,
            question: question.and_then(AskedQuestion::text),
        });
        if let ReportOutcome::Failed { category, message } = &mut final_report.outcome {
            let failure = (*category, message.as_str());
            let (line, host_env) = (&self.command_line, &self.host_env);
            if let Some(hint) = failure_hint::find_hint(&self.name, line, host_env, failure) {
                message.push('\n');
                message.push_str(&hint);
            }
            *message = secrets.hide_in_text(message).into_owned();
        }
        Ok(CommandRun {
            report: final_report,
            session_started,
        })
    }

    /// Starts the program and waits until it and its descendants are gone.
    fn supervise_process(
        &self,
        process_spec: &ProcessSpec,
        output_reader: &OutputReader<'_>,
        (workplace, question): (&Workplace<'_>, Option<&AskedQuestion>),
    ) -> Result<(RunEnding, Option<TerminationReason>), Report> {
        let started_at = Instant::now();
        let unsupervised = |error: SandboxError| {
            Report::failed(
                FailureCategory::Internal,
                format!("it cannot be supervised: {error}"),
            )
        };
        let mut running = self
            .supervisor
            .start_program(process_spec)
            .map_err(unsupervised)?;
        let limit = self.time_limit(workplace);
        let stopper = running.stopper();
        let output = running.take_output();
        let mut termination = None;
        let ending = std::thread::scope(|threads| {
            if let Some((output, errors)) = output {
                threads.spawn(|| output_reader.listen(Pipe::Output, output));
                threads.spawn(|| output_reader.listen(Pipe::Errors, errors));
            }
            let (sender, receiver) = channel();
            threads.spawn(move || {
                // The receiver exists until the end.
                let ending = running.wait_reporting_start(|isolation| {
                    let _ = sender.send(SupervisorMessage::Started(isolation));
                });
                let _ = sender.send(SupervisorMessage::Ended(ending));
            });
            loop {
                match receiver.recv_timeout(POLL_INTERVAL) {
                    Ok(SupervisorMessage::Ended(ending)) => return Some(ending),
                    Ok(SupervisorMessage::Started(isolation)) => {
                        output_reader.sender.report_start(isolation)
                    }
                    Err(RecvTimeoutError::Disconnected) => return None,
                    Err(RecvTimeoutError::Timeout) => {}
                }
                output_reader.sender.send_due();
                if termination.is_none() {
                    termination = due_termination(started_at, limit, workplace)
                        .or_else(|| output_reader.breach().map(TerminationReason::GuardBreached))
                        .or_else(|| {
                            let question = question?;
                            let goes_on = question.is_older_than(END_AFTER_QUESTION);
                            goes_on.then_some(TerminationReason::QuestionAsked)
                        });
                    if termination.is_some() {
                        stopper.stop();
                    }
                }
            }
        });
        match ending {
            Some(Ok(ending)) => Ok((ending, termination)),
            Some(Err(error)) => Err(Report::failed(
                FailureCategory::Transient,
                format!("its supervisor failed: {error}"),
            )),
            None => Err(Report::failed(
                FailureCategory::Internal,
                "its exit status was lost",
            )),
        }
    }

    /// The shorter of the definition's limit and this run's limit.
    fn time_limit(&self, workplace: &Workplace<'_>) -> Option<Duration> {
        let definition_limit = self.command_line.timeout.map(plan::Span::as_duration);
        definition_limit
            .into_iter()
            .chain(workplace.time_limit)
            .min()
    }
}

enum SupervisorMessage {
    Started(IsolationLevel),
    Ended(Result<RunEnding, SandboxError>),
}

impl Actor for CommandActor {
    fn work(&self, assignment: &Assignment, workplace: &Workplace<'_>) -> Report {
        self.run(assignment, workplace)
            .unwrap_or_else(|report| report)
    }

    fn metering(&self) -> MeteringLevel {
        stream::metering_for_output(self.command_line.output)
    }

    fn strategizes(&self) -> bool {
        self.command_line.strategize.is_some()
    }
}

/// Why the program must end now, if it must.
fn due_termination(
    started_at: Instant,
    limit: Option<Duration>,
    workplace: &Workplace<'_>,
) -> Option<TerminationReason> {
    if workplace.stop.is_requested() {
        return Some(TerminationReason::StopRequested);
    }
    limit
        .filter(|limit| started_at.elapsed() >= *limit)
        .map(TerminationReason::TimedOut)
}

/// The result of starting the program once.
struct CommandRun {
    report: Report,
    /// It took up the session, according to its stream.
    session_started: bool,
}

impl CommandRun {
    /// Did it fail before it did anything? Agents do that if they no longer have the session.
    fn has_forgotten_session(&self) -> bool {
        let ReportOutcome::Failed { category, .. } = self.report.outcome else {
            return false;
        };
        let did_nothing = self.report.summary.is_none() && self.report.usage == Usage::default();
        category == FailureCategory::Actor && did_nothing && !self.session_started
    }
}
