//! An actor that is a program: started in the sandbox with its assignment, listened to while it works, and
//! judged by how it ended.
//!
//! What is said on the way is hidden where it is a secret, bounded where it is long, and kept in full in
//! the run's transcript. Nothing here looks at what changed in the sandbox.

mod environment;
mod invocation;
mod line_reader;
mod output_reader;
mod progress_throttle;
mod reachable_paths;
mod run_dir;
mod run_report;
mod transcript;

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use plan::actor::{ActorStdin, CommandLine};
use plan::ledger::MeteringLevel;
use plan::stage::FailureCategory;
use sandbox::{IsolationLevel, ProcessSpec, RunEnding, SandboxError, Supervisor};

pub use reachable_paths::reachable_command_paths;

use crate::{
    Actor, Assignment, HostEnv, Report, ReportOutcome, Usage, Workplace, program, report_file,
    stream,
};
use environment::RunEnvironment;
use invocation::CommandInvocation;
use output_reader::{Ear, Pipe};
use run_dir::RunDir;
use run_report::{FinishedRun, TerminationReason};
use transcript::TranscriptWriter;

/// How often a run is looked at: whether it shall end, and what is to be told of it.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Starts a program.
pub struct CommandActor {
    command_line: CommandLine,
    host_env: HostEnv,
    supervisor: Supervisor,
}

impl CommandActor {
    /// An actor that starts this program, supervised.
    pub fn new(command_line: CommandLine, host_env: HostEnv, supervisor: Supervisor) -> Self {
        Self {
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
                "a program needs a directory for its run".to_owned(),
            ));
        }
        let transcript = TranscriptWriter::create(&workplace.run_dir.join("transcript.jsonl"));
        let mut transcript = transcript.map_err(|error| run_dir_failure(workplace, &error))?;
        let run = self.run_once(&invocation, assignment, workplace, &mut transcript)?;
        match invocation.with_new_session(&self.command_line, assignment) {
            Some(fresh_invocation) if run.has_forgotten_session() => {
                transcript
                    .add_note("the conversation cannot be gone on with: it is started afresh");
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
        let run_dir = RunDir::create(&workplace.run_dir, assignment, &invocation.prompt)
            .map_err(|error| run_dir_failure(workplace, &error))?;
        let first_sandbox = assignment.sandboxes.first();
        let directory =
            first_sandbox.map_or(run_dir.tmp_dir.as_path(), |sandbox| sandbox.path.as_path());
        let mut words = invocation
            .resolve_words(directory, &self.host_env)
            .map_err(resource_failure)?;
        let program_name = words.first().cloned().unwrap_or_default();
        let program = self.find_program(&program_name, directory)?;
        let run_inputs = (assignment, workplace, &run_dir);
        let confinement = reachable_paths::build_confinement(
            &self.command_line,
            &self.host_env,
            &program,
            run_inputs,
        );
        words[0] = program.into_os_string();
        let environment =
            RunEnvironment::build(&self.command_line, &self.host_env, assignment, &run_dir);
        let process_spec = ProcessSpec {
            command: words,
            directory: directory.to_owned(),
            environment: environment.variables,
            input: match self.command_line.stdin {
                ActorStdin::Assignment => Some(run_dir.assignment_file.clone()),
                ActorStdin::Prompt => Some(run_dir.prompt_file.clone()),
                ActorStdin::None => None,
            },
            confinement,
            locks: workplace.lock_files.clone(),
        };

        let secrets = &environment.secrets;
        let earlier = invocation.resumed_session(assignment);
        let output_reader = Ear::new(&self.command_line, secrets, transcript, workplace, earlier);
        let (ending, termination) =
            self.supervise_process(&process_spec, &output_reader, workplace)?;
        // One that ended before anybody looked has made the call all the same.
        let termination =
            termination.or_else(|| output_reader.breach().map(TerminationReason::GuardBreached));
        let (stream_summary, errors) = output_reader.end();
        let session_started = stream_summary.session_started;
        let report = report_file::read_report(&run_dir.report_file, secrets);
        let mut final_report = run_report::build_report(FinishedRun {
            program: program_name.to_string_lossy().into_owned(),
            phase: assignment.phase,
            output: self.command_line.output,
            termination,
            exit: ending.ended,
            stream_summary,
            errors,
            report,
        });
        if let ReportOutcome::Failed { message, .. } = &mut final_report.outcome {
            *message = secrets.hide_in_text(message).into_owned();
        }
        Ok(CommandRun {
            report: final_report,
            session_started,
        })
    }

    fn find_program(&self, program_name: &OsStr, directory: &Path) -> Result<PathBuf, Report> {
        program::find_program(program_name, self.host_env.path(), Some(directory)).ok_or_else(|| {
            let program_path = Path::new(program_name);
            resource_failure(match program_path.components().count() {
                0 | 1 => format!(
                    "`{}` is not installed: no directory of PATH has such a program; install it, or \
                     work with another actor",
                    program_path.display()
                ),
                _ => format!("`{}` is not there, or not a program", program_path.display()),
            })
        })
    }

    /// Starts the program and stays until nothing of it is left.
    fn supervise_process(
        &self,
        process_spec: &ProcessSpec,
        output_reader: &Ear<'_>,
        workplace: &Workplace<'_>,
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
                // Whoever listens does so until the end.
                let ending = running.wait_reporting_start(|isolation| {
                    let _ = sender.send(SupervisorMessage::Started(isolation));
                });
                let _ = sender.send(SupervisorMessage::Ended(ending));
            });
            loop {
                match receiver.recv_timeout(POLL_INTERVAL) {
                    Ok(SupervisorMessage::Ended(ending)) => return Some(ending),
                    Ok(SupervisorMessage::Started(isolation)) => {
                        output_reader.teller.report_start(isolation)
                    }
                    Err(RecvTimeoutError::Disconnected) => return None,
                    Err(RecvTimeoutError::Timeout) => {}
                }
                output_reader.teller.flush_due();
                if termination.is_none() {
                    termination = due_termination(started_at, limit, workplace)
                        .or_else(|| output_reader.breach().map(TerminationReason::GuardBreached));
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
                format!("its supervisor ended: {error}"),
            )),
            None => Err(Report::failed(
                FailureCategory::Internal,
                "nobody waited for it",
            )),
        }
    }

    /// The shorter of what the definition allows and what this run has.
    fn time_limit(&self, workplace: &Workplace<'_>) -> Option<Duration> {
        let definition_limit = self.command_line.timeout.map(plan::Span::as_duration);
        definition_limit
            .into_iter()
            .chain(workplace.time_limit)
            .min()
    }
}

/// What is heard of a supervised program.
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

/// Why the program has to end now, if it has to.
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

/// What came of starting the program once.
struct CommandRun {
    report: Report,
    /// It took the conversation up, as far as its stream tells.
    session_started: bool,
}

impl CommandRun {
    /// Did it fail before it did anything? So it does where it does not know the conversation any more.
    fn has_forgotten_session(&self) -> bool {
        let ReportOutcome::Failed { category, .. } = self.report.outcome else {
            return false;
        };
        let did_nothing = self.report.summary.is_none() && self.report.usage == Usage::default();
        category == FailureCategory::Actor && did_nothing && !self.session_started
    }
}

fn run_dir_failure(workplace: &Workplace<'_>, error: &io::Error) -> Report {
    let place = workplace.run_dir.display();
    resource_failure(format!(
        "the directory of the run cannot be used ({place}): {error}"
    ))
}

fn resource_failure(message: String) -> Report {
    Report::failed(FailureCategory::Resource, message)
}
