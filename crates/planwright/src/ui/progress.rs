//! Progress of running work: a trail of what the agent does, with a live line below it on a terminal; JSON
//! lines for programs.

use std::io::{IsTerminal, Write};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use actors::Usage;
use lifecycle::{DriveProgress, EngineProgress};
use plan::plan::{MAX_FIXES, ResultRemedy};
use plan::transcript::TranscriptContent;
use plan::{Phase, Plan};
use serde_json::json;

use crate::cli::CliFormat;

use super::{
    BOLD, DIM, TrailDetail, TrailRenderer, WARN, escape_controls, style_text, truncate_line,
};

const REDRAW_INTERVAL: Duration = Duration::from_millis(120);

const SPINNER_FRAMES: [char; 8] = ['⠋', '⠙', '⠸', '⠴', '⠦', '⠧', '⠇', '⠏'];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProgressAudience {
    /// A person at a terminal: a trail, and a live line that is redrawn in place.
    Terminal,
    /// A log file or pipe: one line for each thing that happened.
    Lines,
    /// A program: one JSON object per line.
    Json,
}

impl ProgressAudience {
    /// Chooses by format, and by whether stderr is a terminal.
    pub fn for_format(format: CliFormat) -> Self {
        match format {
            CliFormat::Json => Self::Json,
            CliFormat::Human if std::io::stderr().is_terminal() => Self::Terminal,
            CliFormat::Human => Self::Lines,
        }
    }
}

/// Shows the progress of one plan until dropped.
pub struct ProgressDisplay {
    audience: ProgressAudience,
    state: Arc<Mutex<ProgressState>>,
    ticker: Option<(Sender<()>, JoinHandle<()>)>,
    slow_steps: SlowStepReporter,
}

/// Reports slow steps of the engine (rule checks, set-up, waiting): in the progress display if one is active,
/// else as a line on stderr.
#[derive(Clone)]
pub struct SlowStepReporter {
    audience: ProgressAudience,
    destination: Arc<Mutex<ReportDestination>>,
}

#[derive(Clone, Default)]
enum ReportDestination {
    #[default]
    Stderr,
    /// The progress display of one plan.
    Progress(Arc<Mutex<ProgressState>>),
    /// A worker with many plans, which names the plan.
    Callback(Arc<SlowStepCallback>),
}

/// Called with the plan and a description of the step.
type SlowStepCallback = dyn Fn(&Plan, &str) + Send + Sync;

impl SlowStepReporter {
    pub fn new(audience: ProgressAudience) -> Self {
        Self {
            audience,
            destination: Arc::default(),
        }
    }

    /// Sends reports to a callback until the guard is dropped.
    pub fn redirect_to(
        &self,
        callback: impl Fn(&Plan, &str) + Send + Sync + 'static,
    ) -> RedirectGuard<'_> {
        *self.lock_destination() = ReportDestination::Callback(Arc::new(callback));
        RedirectGuard(self)
    }

    /// Reports that a slow step begins.
    pub fn report_step(&self, plan: &Plan, slow_step: EngineProgress<'_>) {
        let (doing, step) = match slow_step {
            EngineProgress::CheckingRule(rule) => {
                (format!("checking `{}`", rule.draft.name), String::new())
            }
            EngineProgress::SettingUpSandbox(command) => {
                ("setting up".to_owned(), command.to_owned())
            }
            EngineProgress::FollowingLanding(holder) => {
                ("waiting for another landing".to_owned(), holder.to_owned())
            }
        };
        let line = match step.as_str() {
            "" => doing.clone(),
            step => format!("{doing} · {}", fit_step(step)),
        };
        // Clone, so that the lock is not held while a callback runs: it may be slow.
        let destination = self.lock_destination().clone();
        let state = match destination {
            ReportDestination::Progress(state) => state,
            ReportDestination::Callback(callback) => return callback(plan, &line),
            ReportDestination::Stderr => {
                if self.audience != ProgressAudience::Json {
                    let _ = writeln!(anstream::stderr().lock(), "{}", style_text(DIM, line));
                }
                return;
            }
        };
        let mut state = lock_state(&state);
        state.doing = doing;
        state.step = step;
        match self.audience {
            ProgressAudience::Terminal => {}
            ProgressAudience::Lines => state.write_line(),
            ProgressAudience::Json => state.write_json(plan, None),
        }
    }

    fn lock_destination(&self) -> MutexGuard<'_, ReportDestination> {
        self.destination
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// Resets the destination to stderr when dropped. Callbacks usually hold the engine, and the engine holds the
/// reporter; the reset breaks that cycle.
pub struct RedirectGuard<'a>(&'a SlowStepReporter);

impl Drop for RedirectGuard<'_> {
    fn drop(&mut self) {
        *self.0.lock_destination() = ReportDestination::Stderr;
    }
}

struct ProgressState {
    began: Instant,
    doing: String,
    step: String,
    used: Usage,
    trail: TrailRenderer,
    /// Counts the frames of the spinner.
    frame: usize,
    /// What happened while a question is on the terminal; `None` while the display draws.
    held_lines: Option<String>,
}

/// Keeps a display from drawing until dropped.
pub struct DisplayPause<'a>(&'a ProgressDisplay);

impl Drop for DisplayPause<'_> {
    fn drop(&mut self) {
        let held = lock_state(&self.0.state).held_lines.take();
        let _ = write!(anstream::stderr().lock(), "{}", held.unwrap_or_default());
    }
}

impl ProgressDisplay {
    /// Starts the display and sends slow steps to it.
    pub fn start(audience: ProgressAudience, slow_steps: &SlowStepReporter) -> Self {
        let state = Arc::new(Mutex::new(ProgressState {
            began: Instant::now(),
            doing: "waiting".to_owned(),
            step: String::new(),
            used: Usage::default(),
            trail: new_trail(),
            frame: 0,
            held_lines: None,
        }));
        let ticker = (audience == ProgressAudience::Terminal).then(|| {
            let (end, ended) = channel::<()>();
            let state = Arc::clone(&state);
            (
                end,
                std::thread::spawn(move || redraw_until_ended(&state, &ended)),
            )
        });
        *slow_steps.lock_destination() = ReportDestination::Progress(Arc::clone(&state));
        Self {
            audience,
            state,
            ticker,
            slow_steps: slow_steps.clone(),
        }
    }

    /// Clears the live line and draws nothing until the pause is dropped, so that a question can be asked.
    pub fn pause(&self) -> DisplayPause<'_> {
        let mut state = lock_state(&self.state);
        state.held_lines = Some(String::new());
        if self.audience == ProgressAudience::Terminal {
            draw_line("");
        }
        drop(state);
        DisplayPause(self)
    }

    /// Updates the display with an event of the drive loop.
    pub fn update(&self, plan: &Plan, progress: &DriveProgress) {
        let mut state = lock_state(&self.state);
        let before = state.doing.clone();
        let lines = state.apply_progress(plan, progress);
        if self.audience == ProgressAudience::Json {
            let warning = match progress {
                DriveProgress::NearLimit(usage) => Some(format!("nearing a limit: {usage}")),
                DriveProgress::Retrying(reason) => Some(reason.clone()),
                DriveProgress::ActorStarted { .. }
                | DriveProgress::AgentRunning { .. }
                | DriveProgress::AgentEntry(_)
                | DriveProgress::LandingStarted
                | DriveProgress::LandingEnded(_)
                | DriveProgress::SentBack(_)
                | DriveProgress::Idle
                | DriveProgress::EngineFailure(_) => None,
            };
            let is_news = match progress {
                DriveProgress::AgentEntry(entry) => {
                    matches!(entry.content, TranscriptContent::Usage(_))
                        || entry.content.describe_activity().is_some()
                }
                _ => true,
            };
            if is_news {
                state.write_json(plan, warning.as_deref());
            }
            return;
        }
        if let Some(held) = &mut state.held_lines {
            held.push_str(&lines);
        } else if !lines.is_empty() {
            if self.audience == ProgressAudience::Terminal {
                // The live line moves below the trail at once, so that it does not flicker.
                draw_line(&format!("{lines}{}", state.render_line()));
            } else {
                let _ = write!(anstream::stderr().lock(), "{lines}");
            }
        }
        let is_told = matches!(
            progress,
            DriveProgress::ActorStarted { .. } | DriveProgress::SentBack(_)
        );
        if self.audience == ProgressAudience::Lines && state.doing != before && !is_told {
            state.write_line();
        }
    }

    /// Shows what the display waits for. Repeating the same message writes nothing.
    pub fn show_waiting(&self, message: &str) {
        let mut state = lock_state(&self.state);
        if state.doing == message {
            return;
        }
        state.doing = message.to_owned();
        state.step = String::new();
        if self.audience == ProgressAudience::Lines {
            let _ = writeln!(anstream::stderr().lock(), "{message}");
        }
    }
}

impl Drop for ProgressDisplay {
    fn drop(&mut self) {
        *self.slow_steps.lock_destination() = ReportDestination::Stderr;
        if let Some((end, thread)) = self.ticker.take() {
            // Dropping the sender ends the thread's loop.
            drop(end);
            let _ = thread.join();
        }
    }
}

/// Redraws the status line, and clears it at the end.
fn redraw_until_ended(state: &Mutex<ProgressState>, ended: &Receiver<()>) {
    while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(REDRAW_INTERVAL) {
        let mut state = lock_state(state);
        state.frame = (state.frame + 1) % SPINNER_FRAMES.len();
        if state.held_lines.is_none() {
            draw_line(&state.render_line());
        }
    }
    draw_line("");
}

impl ProgressState {
    /// Returns what is added to the trail.
    fn apply_progress(&mut self, plan: &Plan, progress: &DriveProgress) -> String {
        match progress {
            DriveProgress::ActorStarted { actor, phase } => {
                let verb = match phase {
                    Phase::Strategize => "thinking",
                    Phase::Execute => "working",
                    Phase::Apply => "landing",
                };
                let lines = self.end_trail();
                self.begin_step(format!("{verb} ({actor})"));
                lines
            }
            DriveProgress::AgentRunning { isolation } => {
                self.step.clone_from(isolation);
                String::new()
            }
            DriveProgress::AgentEntry(entry) => {
                if let TranscriptContent::Usage(used) = &entry.content {
                    self.used = *used;
                }
                if let Some(activity) = entry.content.describe_activity() {
                    self.step = activity;
                }
                self.trail.render_entry(entry)
            }
            DriveProgress::LandingStarted => {
                let lines = self.end_trail();
                self.begin_step("landing".to_owned());
                lines
            }
            DriveProgress::SentBack(remedy) => {
                let mut lines = self.end_trail();
                lines.push_str(&describe_sent_back(plan, *remedy));
                self.begin_step("sent back".to_owned());
                lines
            }
            DriveProgress::Idle | DriveProgress::LandingEnded(_) => self.end_trail(),
            DriveProgress::NearLimit(usage) => {
                format!(
                    "{}\n",
                    style_text(WARN, format!("nearing a limit: {usage}"))
                )
            }
            DriveProgress::Retrying(reason) => {
                format!("{}\n", style_text(WARN, escape_controls(reason)))
            }
            DriveProgress::EngineFailure(_) => self.end_trail(),
        }
    }

    fn begin_step(&mut self, doing: String) {
        self.doing = doing;
        self.step.clear();
    }

    /// Ends the trail of one run. Another may follow.
    fn end_trail(&mut self) -> String {
        let lines = self.trail.finish();
        self.trail = new_trail();
        lines
    }

    fn write_line(&self) {
        let _ = writeln!(anstream::stderr().lock(), "{}", self.summarize());
    }

    fn write_json(&self, plan: &Plan, warning: Option<&str>) {
        let line = json!({
            "progress": {
                "plan_id": plan.id(),
                "phase": plan.phase(),
                "doing": self.doing,
                "step": self.step,
                "elapsed_ms": u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX),
                "usage": self.used,
                "warning": warning,
            }
        });
        let _ = writeln!(anstream::stdout().lock(), "{line}");
    }

    fn summarize(&self) -> String {
        let mut parts = vec![self.doing.clone(), format_elapsed(self.began.elapsed())];
        let tokens = self.used.input_tokens + self.used.output_tokens;
        if tokens > 0 {
            parts.push(format!("{} tokens", format_thousands(tokens)));
        }
        if self.used.cost_micros > 0 {
            parts.push(super::format_money(self.used.cost_micros));
        }
        if !self.step.is_empty() {
            parts.push(fit_step(&self.step));
        }
        parts.join(" · ")
    }

    fn render_line(&self) -> String {
        let spinner = SPINNER_FRAMES[self.frame];
        let summary = truncate_line(&self.summarize(), terminal_width().saturating_sub(3));
        let (doing, rest) = match summary.split_once(" · ") {
            Some((doing, rest)) => (doing.to_owned(), format!(" · {rest}")),
            None => (summary, String::new()),
        };
        format!(
            "{spinner} {}{}",
            style_text(BOLD, doing),
            style_text(DIM, rest)
        )
    }
}

fn new_trail() -> TrailRenderer {
    TrailRenderer::new(TrailDetail::Brief, terminal_width())
}

/// Names the rules that failed, with the end of what their checks said.
fn describe_sent_back(plan: &Plan, remedy: ResultRemedy) -> String {
    const MAX_EVIDENCE_LINES: usize = 4;
    let action = match remedy {
        ResultRemedy::Fix => format!("sent back ({} of {MAX_FIXES})", plan.fixes() + 1),
        ResultRemedy::Revert => "starting over".to_owned(),
    };
    let mut text = String::new();
    for unmet in plan.unmet_rules() {
        let line = format!("`{}` failed; {action}", unmet.rule.name);
        text.push_str(&format!("  {}\n", style_text(WARN, escape_controls(&line))));
        let evidence: Vec<&str> = unmet.evidence.as_str().lines().collect();
        let shown = evidence.len().saturating_sub(MAX_EVIDENCE_LINES);
        let width = terminal_width().saturating_sub(10);
        for line in &evidence[shown..] {
            let line = truncate_line(line, width);
            text.push_str(&format!("        {}\n", style_text(DIM, line)));
        }
    }
    text
}

fn fit_step(step: &str) -> String {
    truncate_line(&escape_controls(step), 100)
}

/// Replaces the status line; an empty one clears it.
fn draw_line(line: &str) {
    // In one write, so that no empty line is ever seen. Bypasses anstream, which would strip the erasing sequences
    // together with colours (`NO_COLOR`).
    let line = match anstream::AutoStream::choice(&std::io::stderr()) {
        anstream::ColorChoice::Never => anstream::adapter::strip_str(line).to_string(),
        _ => line.to_owned(),
    };
    let line = line.replacen('\n', "\x1b[K\n", 1);
    let _ = std::io::stderr()
        .lock()
        .write_all(format!("\r{line}\x1b[K").as_bytes());
}

/// The width of stderr's terminal in columns; 80 if unknown.
pub fn terminal_width() -> usize {
    match rustix::termios::tcgetwinsize(std::io::stderr()) {
        Ok(size) if size.ws_col > 20 => usize::from(size.ws_col),
        Ok(_) | Err(_) => 80,
    }
}

/// Formats a duration like a clock: `0:07`, `12:30`, `1:02:03`.
fn format_elapsed(time: Duration) -> String {
    let seconds = time.as_secs();
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    if hours > 0 {
        format!("{hours}:{minutes:02}:{seconds:02}")
    } else {
        format!("{minutes}:{seconds:02}")
    }
}

fn format_thousands(number: u64) -> String {
    if number < 10_000 {
        number.to_string()
    } else {
        format!("{}k", number / 1000)
    }
}

fn lock_state(state: &Mutex<ProgressState>) -> MutexGuard<'_, ProgressState> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_durations_and_counts() {
        let check = |seconds, expected| {
            assert_eq!(format_elapsed(Duration::from_secs(seconds)), expected);
        };
        check(7, "0:07");
        check(750, "12:30");
        check(3723, "1:02:03");
        assert_eq!(format_thousands(9999), "9999");
        assert_eq!(format_thousands(123_456), "123k");
    }
}
