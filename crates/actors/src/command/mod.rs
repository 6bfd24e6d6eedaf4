//! An actor that is a program: started in the sandbox with its assignment, listened to while it works, and
//! judged by how it ended.
//!
//! What is said on the way is hidden where it is a secret, bounded where it is long, and kept in full in
//! the run's transcript. Nothing here looks at what changed in the sandbox.

mod desk;
mod ear;
mod environment;
mod lines;
mod reach;
mod teller;
mod transcript;
mod verdict;
mod words;

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use plan::actor::{CommandLine, Stdin};
use plan::ledger::Metering;
use plan::stage::Category;
use sandbox::{Ending, Errand, Isolated, SandboxError, Supervisor};

pub use reach::command_reach;

use crate::{
    Actor, Ambient, Assignment, Outcome, Report, Usage, Workplace, program, report_file, stream,
};
use desk::Desk;
use ear::{Ear, Pipe};
use environment::Environment;
use transcript::Transcript;
use verdict::{Cut, Evidence};
use words::Form;

/// How often a run is looked at: whether it shall end, and what is to be told of it.
const TICK: Duration = Duration::from_millis(50);

/// Starts a program.
pub struct CommandActor {
    line: CommandLine,
    ambient: Ambient,
    supervisor: Supervisor,
}

impl CommandActor {
    /// An actor that starts this program, supervised.
    pub fn new(line: CommandLine, ambient: Ambient, supervisor: Supervisor) -> Self {
        Self {
            line,
            ambient,
            supervisor,
        }
    }

    fn run(&self, assignment: &Assignment, workplace: &Workplace<'_>) -> Result<Report, Report> {
        let Some(form) = Form::choose(&self.line, assignment, workplace.strategy_wanted) else {
            return Ok(Report::of(Outcome::Done));
        };
        if workplace.stop.is_asked() {
            return Ok(Report::of(Outcome::Stopped));
        }
        if !workplace.run.is_absolute() {
            return Err(lacking(
                "a program needs a directory for its run".to_owned(),
            ));
        }
        let transcript = Transcript::start(&workplace.run.join("transcript.jsonl"));
        let mut transcript = transcript.map_err(|error| unusable(workplace, &error))?;
        let ran = self.run_in(&form, assignment, workplace, &mut transcript)?;
        match form.without_conversation(&self.line, assignment) {
            Some(afresh) if ran.forgot() => {
                transcript.note("the conversation cannot be gone on with: it is started afresh");
                let ran = self.run_in(&afresh, assignment, workplace, &mut transcript)?;
                Ok(ran.report)
            }
            Some(_) | None => Ok(ran.report),
        }
    }

    fn run_in(
        &self,
        form: &Form<'_>,
        assignment: &Assignment,
        workplace: &Workplace<'_>,
        transcript: &mut Transcript,
    ) -> Result<Ran, Report> {
        let desk = Desk::lay(&workplace.run, assignment, &form.prompt)
            .map_err(|error| unusable(workplace, &error))?;
        let first = assignment.sandboxes.first();
        let directory = first.map_or(desk.tmp.as_path(), |sandbox| sandbox.path.as_path());
        let mut words = form.words(directory, &self.ambient).map_err(lacking)?;
        let named = words.first().cloned().unwrap_or_default();
        let program = self.find(&named, directory)?;
        let place = (assignment, workplace, &desk);
        let confinement = reach::confinement(&self.line, &self.ambient, &program, place);
        words[0] = program.into_os_string();
        let environment = Environment::of(&self.line, &self.ambient, assignment, &desk);
        let errand = Errand {
            command: words,
            directory: directory.to_owned(),
            environment: environment.variables,
            input: match self.line.stdin {
                Stdin::Assignment => Some(desk.assignment.clone()),
                Stdin::Prompt => Some(desk.prompt.clone()),
                Stdin::None => None,
            },
            confinement,
            locks: workplace.locks.clone(),
        };

        let secrets = &environment.secrets;
        let earlier = form.conversation(assignment);
        let ear = Ear::new(&self.line, secrets, transcript, workplace, earlier);
        let (ending, cut) = self.attend(&errand, &ear, workplace)?;
        // One that ended before anybody looked has made the call all the same.
        let cut = cut.or_else(|| ear.breach().map(Cut::Guarded));
        let (heard, errors) = ear.end();
        let began = heard.began;
        let report = report_file::read(&desk.report, secrets);
        let mut judged = verdict::judge(Evidence {
            program: named.to_string_lossy().into_owned(),
            phase: assignment.phase,
            output: self.line.output,
            cut,
            ended: ending.ended,
            heard,
            errors,
            report,
        });
        if let Outcome::Failed { message, .. } = &mut judged.outcome {
            *message = secrets.hide(message).into_owned();
        }
        Ok(Ran {
            report: judged,
            began,
        })
    }

    fn find(&self, named: &OsStr, directory: &Path) -> Result<PathBuf, Report> {
        program::find(named, self.ambient.path(), Some(directory)).ok_or_else(|| {
            let named = Path::new(named);
            lacking(match named.components().count() {
                0 | 1 => format!(
                    "`{}` is not installed: no directory of PATH has such a program; install it, or \
                     work with another actor",
                    named.display()
                ),
                _ => format!("`{}` is not there, or not a program", named.display()),
            })
        })
    }

    /// Starts the program and stays until nothing of it is left.
    fn attend(
        &self,
        errand: &Errand,
        ear: &Ear<'_>,
        workplace: &Workplace<'_>,
    ) -> Result<(Ending, Option<Cut>), Report> {
        let began = Instant::now();
        let unsupervised = |error: SandboxError| {
            Report::failed(
                Category::Internal,
                format!("it cannot be supervised: {error}"),
            )
        };
        let mut running = self.supervisor.start(errand).map_err(unsupervised)?;
        let limit = self.limit(workplace);
        let stopper = running.stopper();
        let output = running.take_output();
        let mut cut = None;
        let ending = std::thread::scope(|threads| {
            if let Some((output, errors)) = output {
                threads.spawn(|| ear.listen(Pipe::Output, output));
                threads.spawn(|| ear.listen(Pipe::Errors, errors));
            }
            let (tell, told) = channel();
            threads.spawn(move || {
                // Whoever listens does so until the end.
                let ending = running.wait_telling(|isolation| {
                    let _ = tell.send(News::Began(isolation));
                });
                let _ = tell.send(News::Ended(ending));
            });
            loop {
                match told.recv_timeout(TICK) {
                    Ok(News::Ended(ending)) => return Some(ending),
                    Ok(News::Began(isolation)) => ear.teller.begin(isolation),
                    Err(RecvTimeoutError::Disconnected) => return None,
                    Err(RecvTimeoutError::Timeout) => {}
                }
                ear.teller.tick();
                if cut.is_none() {
                    cut = due(began, limit, workplace).or_else(|| ear.breach().map(Cut::Guarded));
                    if cut.is_some() {
                        stopper.stop();
                    }
                }
            }
        });
        match ending {
            Some(Ok(ending)) => Ok((ending, cut)),
            Some(Err(error)) => Err(Report::failed(
                Category::Transient,
                format!("its supervisor ended: {error}"),
            )),
            None => Err(Report::failed(Category::Internal, "nobody waited for it")),
        }
    }

    /// The shorter of what the definition allows and what this run has.
    fn limit(&self, workplace: &Workplace<'_>) -> Option<Duration> {
        let own = self.line.timeout.map(plan::Span::as_duration);
        own.into_iter().chain(workplace.time).min()
    }
}

/// What is heard of a supervised program.
enum News {
    Began(Isolated),
    Ended(Result<Ending, SandboxError>),
}

impl Actor for CommandActor {
    fn work(&self, assignment: &Assignment, workplace: &Workplace<'_>) -> Report {
        self.run(assignment, workplace)
            .unwrap_or_else(|report| report)
    }

    fn metering(&self) -> Metering {
        stream::metering(self.line.output)
    }

    fn strategizes(&self) -> bool {
        self.line.strategize.is_some()
    }
}

/// Why the program has to end now, if it has to.
fn due(began: Instant, limit: Option<Duration>, workplace: &Workplace<'_>) -> Option<Cut> {
    if workplace.stop.is_asked() {
        return Some(Cut::Stopped);
    }
    limit
        .filter(|limit| began.elapsed() >= *limit)
        .map(Cut::TimedOut)
}

/// What came of starting the program once.
struct Ran {
    report: Report,
    /// It took the conversation up, as far as its stream tells.
    began: bool,
}

impl Ran {
    /// Did it fail before it did anything? So it does where it does not know the conversation any more.
    fn forgot(&self) -> bool {
        let Outcome::Failed { category, .. } = self.report.outcome else {
            return false;
        };
        let did_nothing = self.report.summary.is_none() && self.report.usage == Usage::default();
        category == Category::Actor && did_nothing && !self.began
    }
}

fn unusable(workplace: &Workplace<'_>, error: &io::Error) -> Report {
    let place = workplace.run.display();
    lacking(format!(
        "the directory of the run cannot be used ({place}): {error}"
    ))
}

fn lacking(message: String) -> Report {
    Report::failed(Category::Resource, message)
}
