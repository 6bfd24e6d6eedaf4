//! How work goes, while it goes: one line that renews itself on a terminal, a line per step elsewhere,
//! JSON lines for programs.

use std::io::{IsTerminal, Write};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use actors::Usage;
use lifecycle::{DriveProgress, EngineProgress};
use plan::plan::ResultRemedy;
use plan::{Phase, Plan};
use serde_json::json;

use crate::cli::CliFormat;

use super::{BOLD, DIM, WARN, escape_controls, style_text, truncate_line};

/// How often the line renews itself.
const REDRAW_INTERVAL: Duration = Duration::from_millis(120);

/// Steps are told this often at most where every one of them is a line for ever.
const STEP_LINE_INTERVAL: Duration = Duration::from_secs(2);

const SPINNER_FRAMES: [char; 8] = ['⠋', '⠙', '⠸', '⠴', '⠦', '⠧', '⠇', '⠏'];

/// For whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProgressAudience {
    /// A person who watches.
    Terminal,
    /// A log that somebody may read.
    Lines,
    /// A program.
    Json,
}

impl ProgressAudience {
    /// For whom it is in this format.
    pub fn for_format(format: CliFormat) -> Self {
        match format {
            CliFormat::Json => Self::Json,
            CliFormat::Human if std::io::stderr().is_terminal() => Self::Terminal,
            CliFormat::Human => Self::Lines,
        }
    }
}

/// Shows how work goes until it is dropped.
pub struct ProgressDisplay {
    audience: ProgressAudience,
    state: Arc<Mutex<ProgressState>>,
    ticker: Option<(Sender<()>, JoinHandle<()>)>,
    slow_steps: SlowStepReporter,
}

/// Tells what takes its time on the way: where it is shown how work goes, or in a line of its own.
#[derive(Clone)]
pub struct SlowStepReporter {
    audience: ProgressAudience,
    destination: Arc<Mutex<ReportDestination>>,
}

/// Where asides are told.
#[derive(Clone, Default)]
enum ReportDestination {
    /// Nowhere in particular.
    #[default]
    Stderr,
    /// In the line that shows how the work on one plan goes.
    Progress(Arc<Mutex<ProgressState>>),
    /// By whoever works on many plans and says of which one it is.
    Callback(Arc<SlowStepCallback>),
}

/// Told what is done about a plan.
type SlowStepCallback = dyn Fn(&Plan, &str) + Send + Sync;

impl SlowStepReporter {
    /// For this audience.
    pub fn new(audience: ProgressAudience) -> Self {
        Self {
            audience,
            destination: Arc::default(),
        }
    }

    /// Asides are told by this, until what is given back is dropped.
    pub fn redirect_to(
        &self,
        tell: impl Fn(&Plan, &str) + Send + Sync + 'static,
    ) -> RedirectGuard<'_> {
        *self.lock_destination() = ReportDestination::Callback(Arc::new(tell));
        RedirectGuard(self)
    }

    /// Something begins that takes its time.
    pub fn report_step(&self, plan: &Plan, slow_step: EngineProgress<'_>) {
        let (words, step) = match slow_step {
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
            "" => words.clone(),
            step => format!("{words} · {}", fit_step(step)),
        };
        // Not told under the lock: whoever tells may take a while.
        let place = self.lock_destination().clone();
        let state = match place {
            ReportDestination::Progress(state) => state,
            ReportDestination::Callback(tell) => return tell(plan, &line),
            ReportDestination::Stderr => {
                if self.audience != ProgressAudience::Json {
                    let _ = writeln!(anstream::stderr().lock(), "{}", style_text(DIM, line));
                }
                return;
            }
        };
        let mut state = lock_state(&state);
        state.doing = words;
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

/// Somebody tells asides as long as this lives. Whoever tells them mostly has the engine, and the engine has them.
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
    last_step_written: Option<Instant>,
    /// A step came too soon after another to be told.
    has_pending_step: bool,
}

impl ProgressDisplay {
    /// Shows how work goes from now on.
    pub fn start(audience: ProgressAudience, slow_steps: &SlowStepReporter) -> Self {
        let state = Arc::new(Mutex::new(ProgressState {
            began: Instant::now(),
            doing: "waiting".to_owned(),
            step: String::new(),
            used: Usage::default(),
            last_step_written: None,
            has_pending_step: false,
        }));
        let tick: Option<TickerFn> = match audience {
            ProgressAudience::Terminal => Some(redraw_until_ended),
            ProgressAudience::Lines => Some(write_pending_until_ended),
            ProgressAudience::Json => None,
        };
        let ticker = tick.map(|tick| {
            let (end, ended) = channel::<()>();
            let state = Arc::clone(&state);
            (end, std::thread::spawn(move || tick(&state, &ended)))
        });
        *slow_steps.lock_destination() = ReportDestination::Progress(Arc::clone(&state));
        Self {
            audience,
            state,
            ticker,
            slow_steps: slow_steps.clone(),
        }
    }

    /// Takes in what happened.
    pub fn update(&self, plan: &Plan, engine_progress: &DriveProgress) {
        let mut state = lock_state(&self.state);
        let before = state.doing.clone();
        match engine_progress {
            DriveProgress::ActorStarted { actor, phase } => {
                let verb = match phase {
                    Phase::Strategize => "thinking",
                    Phase::Execute => "working",
                    Phase::Apply => "landing",
                };
                state.doing = format!("{verb} ({actor})");
                state.step = String::new();
            }
            DriveProgress::ActorProgress(actors::RunProgress::Started { isolation }) => {
                state.step = isolation.clone();
            }
            DriveProgress::ActorProgress(actors::RunProgress::Step(step)) => {
                state.step = step.clone()
            }
            DriveProgress::ActorProgress(actors::RunProgress::UsageChanged(used)) => {
                state.used = *used
            }
            DriveProgress::LandingStarted => {
                state.doing = "landing".to_owned();
                state.step = String::new();
            }
            DriveProgress::SentBack(remedy) => {
                state.doing = match remedy {
                    ResultRemedy::Fix => "sent back: rules are not met".to_owned(),
                    ResultRemedy::Revert => "begins anew: rules are not met".to_owned(),
                };
                state.step = String::new();
            }
            DriveProgress::NearLimit(_)
            | DriveProgress::LandingEnded(_)
            | DriveProgress::Idle
            | DriveProgress::Retrying(_)
            | DriveProgress::EngineFailure(_) => {}
        }
        let warning = match engine_progress {
            DriveProgress::NearLimit(how) => Some(format!("nearing a limit: {how}")),
            DriveProgress::Retrying(what) => Some(what.clone()),
            _ => None,
        };
        if let Some(warning) = warning
            .as_ref()
            .filter(|_| self.audience != ProgressAudience::Json)
        {
            if self.audience == ProgressAudience::Terminal {
                // The line that renews itself comes again below.
                draw_line("");
            }
            let _ = writeln!(anstream::stderr().lock(), "{}", style_text(WARN, warning));
            return;
        }
        match self.audience {
            ProgressAudience::Terminal => {}
            ProgressAudience::Lines => {
                let changed = state.doing != before;
                let quiet = state
                    .last_step_written
                    .is_none_or(|at| at.elapsed() >= STEP_LINE_INTERVAL);
                let step = matches!(
                    engine_progress,
                    DriveProgress::ActorProgress(actors::RunProgress::Step(_))
                );
                if changed || (step && quiet) {
                    state.write_line();
                } else if step {
                    state.has_pending_step = true;
                }
            }
            ProgressAudience::Json => state.write_json(plan, warning.as_deref()),
        }
    }

    /// Says that it waits, and for what.
    pub fn show_waiting(&self, what: &str) {
        let mut state = lock_state(&self.state);
        if state.doing == what {
            return;
        }
        state.doing = what.to_owned();
        state.step = String::new();
        if self.audience == ProgressAudience::Lines {
            let _ = writeln!(anstream::stderr().lock(), "{what}");
        }
    }
}

impl Drop for ProgressDisplay {
    fn drop(&mut self) {
        *self.slow_steps.lock_destination() = ReportDestination::Stderr;
        if let Some((end, ticking)) = self.ticker.take() {
            drop(end);
            let _ = ticking.join();
        }
    }
}

/// What goes on beside the work, until it is over.
type TickerFn = fn(&Mutex<ProgressState>, &Receiver<()>);

/// Renews the line until it is over.
fn redraw_until_ended(state: &Mutex<ProgressState>, ended: &Receiver<()>) {
    let mut turn = 0;
    while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(REDRAW_INTERVAL) {
        let line = lock_state(state).render_line(SPINNER_FRAMES[turn % SPINNER_FRAMES.len()]);
        draw_line(&line);
        turn += 1;
    }
    draw_line("");
}

/// Tells steps that were held back, if nothing came after them: whoever waits sees what for.
fn write_pending_until_ended(state: &Mutex<ProgressState>, ended: &Receiver<()>) {
    while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(STEP_LINE_INTERVAL) {
        let mut state = lock_state(state);
        if state.has_pending_step {
            state.write_line();
        }
    }
}

impl ProgressState {
    fn write_line(&mut self) {
        self.last_step_written = Some(Instant::now());
        self.has_pending_step = false;
        let _ = writeln!(anstream::stderr().lock(), "{}", self.summarize());
    }

    fn write_json(&self, plan: &Plan, warning: Option<&str>) {
        let line = json!({
            "progress": {
                "plan_id": plan.id,
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

    fn render_line(&self, spinner: char) -> String {
        let words = truncate_line(&self.summarize(), terminal_width().saturating_sub(3));
        let (doing, rest) = match words.split_once(" · ") {
            Some((doing, rest)) => (doing.to_owned(), format!(" · {rest}")),
            None => (words, String::new()),
        };
        format!(
            "{spinner} {}{}",
            style_text(BOLD, doing),
            style_text(DIM, rest)
        )
    }
}

/// A step as it fits on a line.
fn fit_step(step: &str) -> String {
    truncate_line(&escape_controls(step), 100)
}

/// Renews the line; an empty one takes it away.
fn draw_line(line: &str) {
    // Taking a line away is no colour, which some do not want.
    let _ = std::io::stderr().lock().write_all(b"\r\x1b[2K");
    let mut stderr = anstream::stderr().lock();
    let _ = write!(stderr, "{line}").and_then(|()| stderr.flush());
}

/// How wide the terminal is.
fn terminal_width() -> usize {
    match rustix::termios::tcgetwinsize(std::io::stderr()) {
        Ok(size) if size.ws_col > 20 => usize::from(size.ws_col),
        Ok(_) | Err(_) => 80,
    }
}

/// As on a clock: `0:07`, `12:30`, `1:02:03`.
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
    fn times_and_numbers_read_well() {
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
