//! Runs the program of an agent and holds the conversation with it, until all its processes are gone.
//!
//! One thread reads each output, one writes the input, one waits for the supervisor. All of them report to
//! one loop, which alone changes the conversation.

use std::fs::File;
use std::io::{Read, Write};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::time::{Duration, Instant};

use plan::permission::{PermissionContext, PermissionVerdict, ToolPolicy};
use plan::permission_question::ProposedToolCall;
use plan::stage::FailureCategory;
use plan::transcript::{NoticeLevel, PermissionStatus, TranscriptContent};
use sandbox::{
    IsolationLevel, ProcessSpec, ProgramExit, ProgramInput, RunEnding, RunStopper, SandboxError,
    Supervisor,
};

use super::AcpTimeouts;
use super::dialogue::{AcpDialogue, DialogueStep, OpenRequest, PendingPermission, PermissionReply};
use super::permission_queue::PermissionQueue;
use crate::command::entry_sender::EntrySender;
use crate::command::line_reader::LineReader;
use crate::command::run_report::TerminationReason;
use crate::command::transcript::TranscriptWriter;
use crate::excerpt::TextExcerpt;
use crate::run_tools::AskedQuestion;
use crate::secrets::SecretValues;
use crate::stream::EntryCleaner;
use crate::{AskPersonFn, Assignment, PersonDecision, Report, Stop, Workplace};

/// How often to check whether a run must end, and to report progress.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// How many lines may wait. Each may be long, so an agent that floods its output waits instead.
const MAX_WAITING_LINES: usize = 8;

/// What a conversation needs besides the program.
pub(super) struct AgentConversation<'a> {
    pub(super) tools: &'a ToolPolicy,
    pub(super) timeouts: AcpTimeouts,
    pub(super) time_limit: Option<Duration>,
    pub(super) secrets: &'a SecretValues,
    pub(super) assignment: &'a Assignment,
    pub(super) workplace: &'a Workplace<'a>,
    /// What the agent asked the person by the tools of its run.
    pub(super) question: Option<&'a AskedQuestion>,
}

pub(super) struct FinishedConversation {
    pub(super) dialogue: AcpDialogue,
    pub(super) termination: Option<TerminationReason>,
    pub(super) exit: ProgramExit,
    /// What the program wrote to its standard error.
    pub(super) errors: TextExcerpt,
}

enum AgentEvent {
    Line { text: String, was_cut: bool },
    ErrorLine(String),
    Started(IsolationLevel),
    Ended(Result<RunEnding, SandboxError>),
}

impl AgentConversation<'_> {
    /// Starts the program and returns when all its processes are gone.
    pub(super) fn hold(
        &self,
        (supervisor, process_spec, input): (&Supervisor, &ProcessSpec, ProgramInput),
        dialogue: AcpDialogue,
        transcript: &mut TranscriptWriter,
    ) -> Result<FinishedConversation, Report> {
        let internal = |message| Report::failed(FailureCategory::Internal, message);
        let mut running = supervisor
            .start_program(process_spec)
            .map_err(|error| internal(format!("it cannot be supervised: {error}")))?;
        let stopper = running.stopper();
        let output = running.take_output();
        let (sender, receiver) = sync_channel(MAX_WAITING_LINES);
        std::thread::scope(|threads| {
            if let Some((output, errors)) = output {
                let output_sender = sender.clone();
                threads.spawn(move || self.read_messages(output, &output_sender));
                let error_sender = sender.clone();
                threads.spawn(move || self.read_errors(errors, &error_sender));
            }
            threads.spawn(move || {
                let ending = running.wait_reporting_start(|isolation| {
                    let _ = sender.send(AgentEvent::Started(isolation));
                });
                let _ = sender.send(AgentEvent::Ended(ending));
            });
            let mut moderator = ConversationLoop {
                conversation: self,
                dialogue,
                questions: PermissionQueue::default(),
                transcript,
                cleaner: EntryCleaner::new(self.secrets, &self.assignment.sandboxes),
                sender: EntrySender::new(self.workplace.on_progress),
                errors: TextExcerpt::default(),
                outgoing: None,
                is_confined: false,
                started_at: Instant::now(),
                last_activity: Instant::now(),
                termination: None,
                stop_at: None,
                is_stopping: false,
                stopper,
            };
            let (decision_sender, decisions) = channel();
            let spawner = ThreadSpawner {
                spawn_writer: &|writer, lines| {
                    threads.spawn(move || write_lines(writer, &lines));
                },
                spawn_question: &|ask_person, call, stop| {
                    let decision_sender = decision_sender.clone();
                    threads.spawn(move || {
                        let _ = decision_sender.send(ask_person(call, &stop));
                    });
                },
            };
            let ending = moderator.run((&receiver, &decisions), input, &spawner);
            moderator.questions.withdraw_all();
            // Threads that still read must not wait for this one.
            drop(receiver);
            match ending {
                Some(Ok(ending)) => Ok(moderator.finish(ending.ended)),
                Some(Err(error)) => Err(Report::failed(
                    FailureCategory::Transient,
                    format!("its supervisor failed: {error}"),
                )),
                None => Err(internal("its exit status was lost".to_owned())),
            }
        })
    }

    fn read_messages(&self, reader: impl Read, sender: &SyncSender<AgentEvent>) {
        let mut lines = LineReader::new(reader, self.secrets.longest_len());
        while let Ok(Some(line)) = lines.next_line() {
            let text = self.secrets.hide_in_line(&line).into_owned();
            let was_cut = lines.was_cut();
            if sender.send(AgentEvent::Line { text, was_cut }).is_err() {
                return;
            }
        }
    }

    fn read_errors(&self, reader: impl Read, sender: &SyncSender<AgentEvent>) {
        let mut lines = LineReader::new(reader, self.secrets.longest_len());
        while let Ok(Some(line)) = lines.next_line() {
            let text = self.secrets.hide_in_line(&line).into_owned();
            if sender.send(AgentEvent::ErrorLine(text)).is_err() {
                return;
            }
        }
    }
}

/// Starts the threads that the loop needs later.
struct ThreadSpawner<'s, 'a> {
    spawn_writer: &'s dyn Fn(File, Receiver<String>),
    spawn_question: &'s dyn Fn(&'a AskPersonFn<'a>, ProposedToolCall, Stop),
}

/// Writes lines until the conversation ends or the program is gone. Then the program's input ends.
fn write_lines(mut writer: File, lines: &Receiver<String>) {
    for line in lines {
        let written = writer
            .write_all(line.as_bytes())
            .and_then(|()| writer.write_all(b"\n"));
        if written.is_err() {
            return;
        }
    }
}

/// What to do with a permission request, and why.
enum PermissionStep {
    Answer(PermissionReply, String),
    AskPerson(String),
}

/// The loop that alone changes the conversation.
struct ConversationLoop<'a> {
    conversation: &'a AgentConversation<'a>,
    dialogue: AcpDialogue,
    /// Tool calls that wait for a person.
    questions: PermissionQueue,
    transcript: &'a mut TranscriptWriter,
    cleaner: EntryCleaner<'a>,
    sender: EntrySender<'a>,
    errors: TextExcerpt,
    /// Lines for the program. Dropping it ends the program's input.
    outgoing: Option<Sender<String>>,
    is_confined: bool,
    started_at: Instant,
    /// When the agent said something, or was asked something.
    last_activity: Instant,
    termination: Option<TerminationReason>,
    /// When to end the program.
    stop_at: Option<Instant>,
    is_stopping: bool,
    stopper: RunStopper,
}

impl<'a> ConversationLoop<'a> {
    /// Returns how the program ended.
    fn run(
        &mut self,
        (receiver, decisions): (&Receiver<AgentEvent>, &Receiver<PersonDecision>),
        input: ProgramInput,
        spawner: &ThreadSpawner<'_, 'a>,
    ) -> Option<Result<RunEnding, SandboxError>> {
        let (mut input, mut ended) = (Some(input), None);
        loop {
            match receiver.recv_timeout(POLL_INTERVAL) {
                // What the program wrote before its end may still be on its way.
                Ok(AgentEvent::Ended(ending)) => ended = Some(ending),
                Ok(AgentEvent::Started(isolation)) => {
                    self.is_confined = isolation.confines_files();
                    self.sender.report_start(isolation);
                    if let Some(Ok(writer)) = input.take().map(ProgramInput::into_writer) {
                        let (outgoing, lines) = channel();
                        (spawner.spawn_writer)(writer, lines);
                        self.outgoing = Some(outgoing);
                    }
                    let first = self.dialogue.start();
                    self.perform(vec![first]);
                }
                Ok(AgentEvent::Line { text, was_cut }) => self.receive_line(&text, was_cut),
                Ok(AgentEvent::ErrorLine(text)) => {
                    self.transcript.record_line("stderr", &text);
                    self.errors.push(&text);
                    self.errors.push("\n");
                }
                Err(RecvTimeoutError::Disconnected) => return ended,
                Err(RecvTimeoutError::Timeout) => self.transcript.flush(),
            }
            if let Ok(decision) = decisions.try_recv() {
                self.receive_decision(decision);
            }
            self.ask_next_question(spawner);
            self.sender.send_due();
            self.end_if_due();
        }
    }

    fn finish(self, exit: ProgramExit) -> FinishedConversation {
        self.sender.send_all();
        self.transcript.flush();
        FinishedConversation {
            dialogue: self.dialogue,
            termination: self.termination,
            exit,
            errors: self.errors,
        }
    }

    fn receive_line(&mut self, line: &str, was_cut: bool) {
        self.transcript.record_line("stdout", line);
        self.last_activity = Instant::now();
        if was_cut {
            self.receive_cut_line(line);
            return;
        }
        let steps = self.dialogue.receive(line, &self.cleaner);
        self.perform(steps);
    }

    /// A line that is too long to be read. Of an update, only what it shows is lost.
    fn receive_cut_line(&mut self, line: &str) {
        let start = &line[..line.floor_char_boundary(4096)];
        if start.contains("\"session/update\"") {
            let text = "an update of the agent was too long and was left out".to_owned();
            let level = NoticeLevel::Warning;
            self.record(TranscriptContent::Notice { level, text });
        } else if self.termination.is_none() {
            let how = "sent a message that is too long to be read".to_owned();
            self.terminate(TerminationReason::ProtocolViolated(how));
        }
    }

    fn perform(&mut self, steps: Vec<DialogueStep>) {
        for step in steps {
            match step {
                DialogueStep::Send(line) => {
                    self.last_activity = Instant::now();
                    let hidden = self.conversation.secrets.hide_in_line(&line);
                    self.transcript.record_line("stdin", &hidden);
                    if let Some(outgoing) = &self.outgoing {
                        let _ = outgoing.send(line);
                    }
                }
                DialogueStep::Record(entry) => self.record(entry),
                DialogueStep::Decide(pending) => self.decide_permission(pending),
            }
        }
        if self.dialogue.ending().is_some() {
            // The end of its input tells the agent to exit.
            self.outgoing = None;
            let exit_at = Instant::now() + self.conversation.timeouts.exit;
            self.stop_at.get_or_insert(exit_at);
        }
    }

    fn record(&self, entry: TranscriptContent) {
        self.sender.send(vec![self.cleaner.clean_entry(entry)]);
    }

    fn decide_permission(&mut self, pending: PendingPermission) {
        let (answer, reason) = match self.rule_on(&pending) {
            PermissionStep::Answer(answer, reason) => (answer, reason),
            PermissionStep::AskPerson(reason) => match self.questions.push(pending, reason) {
                Ok(()) => return,
                Err((rejected, reason)) => {
                    return self.answer_permission(&rejected, PermissionReply::Reject, reason);
                }
            },
        };
        self.answer_permission(&pending, answer, reason);
    }

    fn answer_permission(
        &mut self,
        pending: &PendingPermission,
        answer: PermissionReply,
        reason: String,
    ) {
        let status = match answer {
            PermissionReply::Allow => PermissionStatus::Allowed,
            PermissionReply::Reject => PermissionStatus::Rejected,
            PermissionReply::Cancel => PermissionStatus::Cancelled,
        };
        let entry = pending.request.to_entry(status, reason);
        self.record(TranscriptContent::Permission(entry));
        let step = self.dialogue.answer_permission(pending, answer);
        self.perform(vec![step]);
    }

    fn rule_on(&self, pending: &PendingPermission) -> PermissionStep {
        if self.dialogue.is_cancelled() {
            let reason = "the turn is cancelled".to_owned();
            return PermissionStep::Answer(PermissionReply::Cancel, reason);
        }
        let context = PermissionContext {
            is_confined: self.is_confined,
            profile: self.conversation.workplace.profile,
        };
        let ruling = self.conversation.tools.rule_on(&pending.request, context);
        let reason = ruling.reason.to_string();
        let reject = |reason| PermissionStep::Answer(PermissionReply::Reject, reason);
        match ruling.verdict {
            PermissionVerdict::Reject => reject(reason),
            PermissionVerdict::Allow | PermissionVerdict::Ask if !pending.can_allow_once() => {
                reject("the agent does not offer to allow only this call".to_owned())
            }
            PermissionVerdict::Allow => PermissionStep::Answer(PermissionReply::Allow, reason),
            PermissionVerdict::Ask if self.conversation.workplace.ask_person.is_none() => {
                reject(format!("{reason}, and nobody can be asked"))
            }
            PermissionVerdict::Ask => PermissionStep::AskPerson(reason),
        }
    }

    /// Asks a person about the next tool call that waits, one at a time.
    fn ask_next_question(&mut self, spawner: &ThreadSpawner<'_, 'a>) {
        let Some(ask_person) = self.conversation.workplace.ask_person else {
            return;
        };
        let Some((entry, call, stop)) = self.questions.open_next(&self.cleaner) else {
            return;
        };
        self.record(TranscriptContent::Permission(entry));
        // The person must see what led to the question.
        self.sender.send_all();
        (spawner.spawn_question)(ask_person, call, stop);
    }

    fn receive_decision(&mut self, decision: PersonDecision) {
        let Some(pending) = self.questions.close_open() else {
            return;
        };
        let (answer, reason) = match decision {
            PersonDecision::Allowed { by } => (PermissionReply::Allow, format!("{by} allowed it")),
            PersonDecision::Rejected { by } => {
                (PermissionReply::Reject, format!("{by} rejected it"))
            }
            PersonDecision::Withdrawn => (PermissionReply::Cancel, "the run is ending".to_owned()),
            PersonDecision::Unavailable(why) => (
                PermissionReply::Reject,
                format!("nobody could be asked: {why}"),
            ),
        };
        self.answer_permission(&pending, answer, reason);
    }

    /// Ends the conversation, and later the program, if it is time.
    fn end_if_due(&mut self) {
        if self.termination.is_none()
            && let Some(reason) = self.due_termination()
        {
            self.terminate(reason);
        }
        // Once is enough: the supervisor kills what does not exit.
        if !self.is_stopping && self.stop_at.is_some_and(|at| Instant::now() >= at) {
            self.is_stopping = true;
            self.outgoing = None;
            self.stopper.stop();
        }
    }

    fn due_termination(&self) -> Option<TerminationReason> {
        let AgentConversation {
            timeouts,
            time_limit,
            workplace,
            ..
        } = self.conversation;
        if self.dialogue.ending().is_some() {
            return None;
        }
        if workplace.stop.is_requested() {
            return Some(TerminationReason::StopRequested);
        }
        if self
            .conversation
            .question
            .is_some_and(|question| question.is_older_than(timeouts.question))
        {
            return Some(TerminationReason::QuestionAsked);
        }
        if let Some((call, waited)) = self.questions.describe_open() {
            // While a person thinks, the agent's clocks stand still.
            return (waited >= timeouts.person).then_some(
                TerminationReason::PermissionUnanswered {
                    call,
                    limit: timeouts.person,
                },
            );
        }
        let elapsed = self.started_at.elapsed();
        let worked = elapsed.saturating_sub(self.questions.total_wait());
        if let Some(limit) = time_limit.filter(|limit| worked >= *limit) {
            return Some(TerminationReason::TimedOut(limit));
        }
        let quiet = self.last_activity.elapsed();
        match self.dialogue.open_request()? {
            OpenRequest::Prompt => (quiet >= timeouts.silence && !self.dialogue.has_running_call())
                .then_some(TerminationReason::Silent(timeouts.silence)),
            request => {
                (quiet >= timeouts.handshake).then(|| TerminationReason::RequestUnanswered {
                    request: request.name(),
                    limit: timeouts.handshake,
                })
            }
        }
    }

    /// Cancels the turn, if one runs, and ends the program soon after.
    fn terminate(&mut self, reason: TerminationReason) {
        self.termination = Some(reason);
        let cancelled = self.dialogue.cancel();
        let grace = match cancelled.is_some() {
            true => self.conversation.timeouts.cancel,
            false => Duration::ZERO,
        };
        self.stop_at = Some(Instant::now() + grace);
        self.perform(cancelled.into_iter().collect());
        for pending in self.questions.withdraw_all() {
            let reason = "the run is ending".to_owned();
            self.answer_permission(&pending, PermissionReply::Cancel, reason);
        }
    }
}
