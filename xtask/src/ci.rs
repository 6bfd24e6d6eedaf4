//! `cargo xtask ci`: all checks that must pass before a change is merged. `.ci/run` only calls this.

use std::process::ExitCode;

use crate::postgres::ServerPrograms;
use crate::signals::StopSignals;
use crate::step::{CargoStep, StepReport};
use crate::test;

/// The checks before the tests.
const CHECK_STEPS: &[CargoStep] = &[
    CargoStep {
        name: "format",
        arguments: &["fmt", "--all", "--check"],
        environment: &[],
    },
    CargoStep {
        name: "lints",
        arguments: &[
            "clippy",
            "--workspace",
            "--all-targets",
            "--",
            "-D",
            "warnings",
        ],
        environment: &[],
    },
    CargoStep {
        name: "docs",
        arguments: &["doc", "--workspace", "--no-deps"],
        environment: &[("RUSTDOCFLAGS", "-D warnings")],
    },
    CargoStep {
        name: "tidy",
        arguments: &["xtask", "tidy"],
        environment: &[],
    },
];

/// Check format, lints, docs and tidiness, then run every test and the short chaos trials
#[derive(clap::Args)]
pub struct CiArgs {}

pub fn run(_: &CiArgs) -> anyhow::Result<ExitCode> {
    let signals = StopSignals::register()?;
    // First, so that a missing PostgreSQL is reported at once and not after minutes of compiling.
    let programs = ServerPrograms::find_or_install(&signals)?;
    let mut report = StepReport::new(&signals);
    for step in CHECK_STEPS {
        report.run_step(step, &[], &[])?;
    }
    test::run_unfiltered(&programs, &mut report)?;
    test::run_trials(&programs, &mut report)?;
    Ok(report.print_summary())
}
