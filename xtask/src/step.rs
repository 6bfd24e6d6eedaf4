//! A named cargo invocation, and the summary of several.
//!
//! A failing step does not stop the following ones, so that one run shows all failures.

use std::ffi::OsString;
use std::fmt;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Context;

use crate::signals::{self, StopSignals};
use crate::{cargo, child};

pub struct CargoStep {
    /// The name in the summary.
    pub name: &'static str,
    pub arguments: &'static [&'static str],
    pub environment: &'static [(&'static str, &'static str)],
}

/// The outcomes of the steps so far.
pub struct StepReport<'a> {
    signals: &'a StopSignals,
    outcomes: Vec<StepOutcome>,
}

impl<'a> StepReport<'a> {
    /// After a signal, the report runs no more steps.
    pub fn new(signals: &'a StopSignals) -> Self {
        Self {
            signals,
            outcomes: Vec::new(),
        }
    }

    pub fn signals(&self) -> &'a StopSignals {
        self.signals
    }

    /// Runs `step` with additional arguments and environment variables.
    pub fn run_step(
        &mut self,
        step: &CargoStep,
        arguments: &[String],
        environment: &[(&str, OsString)],
    ) -> anyhow::Result<()> {
        if self.signals.received_signal().is_some() {
            return Ok(());
        }
        let mut command = cargo::cargo_command();
        command.args(step.arguments).args(arguments);
        command.envs(step.environment.iter().copied());
        command.envs(environment.iter().map(|(name, value)| (name, value)));
        let shown: Vec<_> = command
            .get_args()
            .map(|argument| argument.to_string_lossy())
            .collect();
        eprintln!("\n── {}: cargo {}", step.name, shown.join(" "));

        let start = Instant::now();
        let status = child::run_child(&mut command, self.signals).context("could not run cargo")?;
        self.outcomes.push(StepOutcome {
            name: step.name,
            passed: status.success(),
            duration: start.elapsed(),
        });
        Ok(())
    }

    /// Prints the summary and returns the exit code.
    pub fn print_summary(&self) -> ExitCode {
        eprintln!("\n{self}");
        if let Some(signal) = self.signals.received_signal() {
            eprintln!("interrupted");
            return signals::signal_exit_code(signal);
        }
        if self.outcomes.iter().all(|outcome| outcome.passed) {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        }
    }
}

impl fmt::Display for StepReport<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self
            .outcomes
            .iter()
            .map(|outcome| outcome.name.len())
            .max()
            .unwrap_or(0);
        write!(f, "summary:")?;
        for outcome in &self.outcomes {
            let verdict = if outcome.passed { "ok" } else { "FAILED" };
            let seconds = outcome.duration.as_secs_f64();
            write!(
                f,
                "\n  {:width$}  {verdict:6}  {seconds:7.1} s",
                outcome.name
            )?;
        }
        Ok(())
    }
}

struct StepOutcome {
    name: &'static str,
    passed: bool,
    duration: Duration,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn make_outcome(name: &'static str, passed: bool, milliseconds: u64) -> StepOutcome {
        StepOutcome {
            name,
            passed,
            duration: Duration::from_millis(milliseconds),
        }
    }

    #[test]
    fn the_summary_names_every_step() {
        let signals = StopSignals::register().unwrap();
        let mut report = StepReport::new(&signals);
        report.outcomes.push(make_outcome("format", true, 420));
        report
            .outcomes
            .push(make_outcome("interleavings", false, 61_250));
        assert_eq!(
            report.to_string(),
            "summary:\n  format         ok          0.4 s\n  interleavings  FAILED     61.2 s"
        );
        assert_eq!(
            format!("{:?}", report.print_summary()),
            format!("{:?}", ExitCode::FAILURE)
        );
    }
}
