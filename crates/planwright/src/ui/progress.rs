//! How work goes, while it goes: one line that renews itself on a terminal, a line per step elsewhere,
//! JSON lines for programs.

use std::io::{IsTerminal, Write};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use actors::Usage;
use lifecycle::{Aside, Happening};
use plan::plan::Remedy;
use plan::{Phase, Plan};
use serde_json::json;

use crate::cli::Format;

use super::{BOLD, DIM, WARN, clean, one_line, styled};

/// How often the line renews itself.
const TICK: Duration = Duration::from_millis(120);

/// Steps are told this often at most where every one of them is a line for ever.
const BETWEEN_STEPS: Duration = Duration::from_secs(2);

const WHEEL: [char; 8] = ['⠋', '⠙', '⠸', '⠴', '⠦', '⠧', '⠇', '⠏'];

/// For whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Audience {
    /// A person who watches.
    Terminal,
    /// A log that somebody may read.
    Lines,
    /// A program.
    Json,
}

impl Audience {
    /// For whom it is in this format.
    pub fn of(format: Format) -> Self {
        match format {
            Format::Json => Self::Json,
            Format::Human if std::io::stderr().is_terminal() => Self::Terminal,
            Format::Human => Self::Lines,
        }
    }
}

/// Shows how work goes until it is dropped.
pub struct Progress {
    audience: Audience,
    state: Arc<Mutex<State>>,
    ticker: Option<(Sender<()>, JoinHandle<()>)>,
    asides: Asides,
}

/// Tells what takes its time on the way: where it is shown how work goes, or in a line of its own.
#[derive(Clone)]
pub struct Asides {
    audience: Audience,
    shown: Arc<Mutex<Shown>>,
}

/// Where asides are told.
#[derive(Clone, Default)]
enum Shown {
    /// Nowhere in particular.
    #[default]
    Alone,
    /// In the line that shows how the work on one plan goes.
    Progress(Arc<Mutex<State>>),
    /// By whoever works on many plans and says of which one it is.
    By(Arc<TellAside>),
}

/// Told what is done about a plan.
type TellAside = dyn Fn(&Plan, &str) + Send + Sync;

impl Asides {
    /// For this audience.
    pub fn new(audience: Audience) -> Self {
        Self {
            audience,
            shown: Arc::default(),
        }
    }

    /// Asides are told by this, until what is given back is dropped.
    pub fn told_by(&self, tell: impl Fn(&Plan, &str) + Send + Sync + 'static) -> ToldBy<'_> {
        *self.shown() = Shown::By(Arc::new(tell));
        ToldBy(self)
    }

    /// Something begins that takes its time.
    pub fn tell(&self, plan: &Plan, aside: Aside<'_>) {
        let (words, step) = match aside {
            Aside::Checks(rule) => (format!("checking `{}`", rule.draft.name), String::new()),
            Aside::SetsUp(command) => ("setting up".to_owned(), command.to_owned()),
            Aside::Follows(holder) => ("waiting for another landing".to_owned(), holder.to_owned()),
        };
        let line = match step.as_str() {
            "" => words.clone(),
            step => format!("{words} · {}", shown(step)),
        };
        // Not told under the lock: whoever tells may take a while.
        let place = self.shown().clone();
        let state = match place {
            Shown::Progress(state) => state,
            Shown::By(tell) => return tell(plan, &line),
            Shown::Alone => {
                if self.audience != Audience::Json {
                    let _ = writeln!(anstream::stderr().lock(), "{}", styled(DIM, line));
                }
                return;
            }
        };
        let mut state = lock(&state);
        state.doing = words;
        state.step = step;
        match self.audience {
            Audience::Terminal => {}
            Audience::Lines => state.write_line(),
            Audience::Json => state.write_json(plan, None),
        }
    }

    fn shown(&self) -> MutexGuard<'_, Shown> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Somebody tells asides as long as this lives. Whoever tells them mostly has the engine, and the engine has them.
pub struct ToldBy<'a>(&'a Asides);

impl Drop for ToldBy<'_> {
    fn drop(&mut self) {
        *self.0.shown() = Shown::Alone;
    }
}

struct State {
    began: Instant,
    doing: String,
    step: String,
    used: Usage,
    told_a_step: Option<Instant>,
    /// A step came too soon after another to be told.
    held_back: bool,
}

impl Progress {
    /// Shows how work goes from now on.
    pub fn show(audience: Audience, asides: &Asides) -> Self {
        let state = Arc::new(Mutex::new(State {
            began: Instant::now(),
            doing: "waiting".to_owned(),
            step: String::new(),
            used: Usage::default(),
            told_a_step: None,
            held_back: false,
        }));
        let tick: Option<Tick> = match audience {
            Audience::Terminal => Some(renew),
            Audience::Lines => Some(catch_up),
            Audience::Json => None,
        };
        let ticker = tick.map(|tick| {
            let (end, ended) = channel::<()>();
            let state = Arc::clone(&state);
            (end, std::thread::spawn(move || tick(&state, &ended)))
        });
        *asides.shown() = Shown::Progress(Arc::clone(&state));
        Self {
            audience,
            state,
            ticker,
            asides: asides.clone(),
        }
    }

    /// Takes in what happened.
    pub fn tell(&self, plan: &Plan, happening: &Happening) {
        let mut state = lock(&self.state);
        let before = state.doing.clone();
        match happening {
            Happening::Works { actor, phase } => {
                let verb = match phase {
                    Phase::Strategize => "thinking",
                    Phase::Execute => "working",
                    Phase::Apply => "landing",
                };
                state.doing = format!("{verb} ({actor})");
                state.step = String::new();
            }
            Happening::Progress(actors::Progress::Began { isolation }) => {
                state.step = isolation.clone();
            }
            Happening::Progress(actors::Progress::Step(step)) => state.step = step.clone(),
            Happening::Progress(actors::Progress::Used(used)) => state.used = *used,
            Happening::Lands => {
                state.doing = "landing".to_owned();
                state.step = String::new();
            }
            Happening::SentBack(remedy) => {
                state.doing = match remedy {
                    Remedy::Fix => "sent back: rules are not met".to_owned(),
                    Remedy::Revert => "begins anew: rules are not met".to_owned(),
                };
                state.step = String::new();
            }
            Happening::NearLimit(_)
            | Happening::Landed(_)
            | Happening::Rests
            | Happening::Retries(_)
            | Happening::Trouble(_) => {}
        }
        let warning = match happening {
            Happening::NearLimit(how) => Some(format!("nearing a limit: {how}")),
            Happening::Retries(what) => Some(what.clone()),
            _ => None,
        };
        if let Some(warning) = warning.as_ref().filter(|_| self.audience != Audience::Json) {
            if self.audience == Audience::Terminal {
                // The line that renews itself comes again below.
                draw("");
            }
            let _ = writeln!(anstream::stderr().lock(), "{}", styled(WARN, warning));
            return;
        }
        match self.audience {
            Audience::Terminal => {}
            Audience::Lines => {
                let changed = state.doing != before;
                let quiet = state
                    .told_a_step
                    .is_none_or(|at| at.elapsed() >= BETWEEN_STEPS);
                let step = matches!(happening, Happening::Progress(actors::Progress::Step(_)));
                if changed || (step && quiet) {
                    state.write_line();
                } else if step {
                    state.held_back = true;
                }
            }
            Audience::Json => state.write_json(plan, warning.as_deref()),
        }
    }

    /// Says that it waits, and for what.
    pub fn waits(&self, what: &str) {
        let mut state = lock(&self.state);
        if state.doing == what {
            return;
        }
        state.doing = what.to_owned();
        state.step = String::new();
        if self.audience == Audience::Lines {
            let _ = writeln!(anstream::stderr().lock(), "{what}");
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        *self.asides.shown() = Shown::Alone;
        if let Some((end, ticking)) = self.ticker.take() {
            drop(end);
            let _ = ticking.join();
        }
    }
}

/// What goes on beside the work, until it is over.
type Tick = fn(&Mutex<State>, &Receiver<()>);

/// Renews the line until it is over.
fn renew(state: &Mutex<State>, ended: &Receiver<()>) {
    let mut turn = 0;
    while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(TICK) {
        let line = lock(state).line(WHEEL[turn % WHEEL.len()]);
        draw(&line);
        turn += 1;
    }
    draw("");
}

/// Tells steps that were held back, if nothing came after them: whoever waits sees what for.
fn catch_up(state: &Mutex<State>, ended: &Receiver<()>) {
    while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(BETWEEN_STEPS) {
        let mut state = lock(state);
        if state.held_back {
            state.write_line();
        }
    }
}

impl State {
    fn write_line(&mut self) {
        self.told_a_step = Some(Instant::now());
        self.held_back = false;
        let _ = writeln!(anstream::stderr().lock(), "{}", self.words());
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

    fn words(&self) -> String {
        let mut parts = vec![self.doing.clone(), elapsed(self.began.elapsed())];
        let tokens = self.used.input_tokens + self.used.output_tokens;
        if tokens > 0 {
            parts.push(format!("{} tokens", thousands(tokens)));
        }
        if self.used.cost_micros > 0 {
            parts.push(super::money(self.used.cost_micros));
        }
        if !self.step.is_empty() {
            parts.push(shown(&self.step));
        }
        parts.join(" · ")
    }

    fn line(&self, wheel: char) -> String {
        let words = one_line(&self.words(), width().saturating_sub(3));
        let (doing, rest) = match words.split_once(" · ") {
            Some((doing, rest)) => (doing.to_owned(), format!(" · {rest}")),
            None => (words, String::new()),
        };
        format!("{wheel} {}{}", styled(BOLD, doing), styled(DIM, rest))
    }
}

/// A step as it fits on a line.
fn shown(step: &str) -> String {
    one_line(&clean(step), 100)
}

/// Renews the line; an empty one takes it away.
fn draw(line: &str) {
    // Taking a line away is no colour, which some do not want.
    let _ = std::io::stderr().lock().write_all(b"\r\x1b[2K");
    let mut stderr = anstream::stderr().lock();
    let _ = write!(stderr, "{line}").and_then(|()| stderr.flush());
}

/// How wide the terminal is.
fn width() -> usize {
    match rustix::termios::tcgetwinsize(std::io::stderr()) {
        Ok(size) if size.ws_col > 20 => usize::from(size.ws_col),
        Ok(_) | Err(_) => 80,
    }
}

/// As on a clock: `0:07`, `12:30`, `1:02:03`.
fn elapsed(time: Duration) -> String {
    let seconds = time.as_secs();
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    if hours > 0 {
        format!("{hours}:{minutes:02}:{seconds:02}")
    } else {
        format!("{minutes}:{seconds:02}")
    }
}

fn thousands(number: u64) -> String {
    if number < 10_000 {
        number.to_string()
    } else {
        format!("{}k", number / 1000)
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_numbers_read_well() {
        let check = |seconds, expected| {
            assert_eq!(elapsed(Duration::from_secs(seconds)), expected);
        };
        check(7, "0:07");
        check(750, "12:30");
        check(3723, "1:02:03");
        assert_eq!(thousands(9999), "9999");
        assert_eq!(thousands(123_456), "123k");
    }
}
