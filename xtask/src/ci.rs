//! `cargo xtask ci`: everything that must hold before a change is merged. `.ci/run` calls this and no more.

use std::process::ExitCode;

use crate::postgres::ServerPrograms;
use crate::signals::StopSignals;
use crate::step::{CargoStep, StepReport};
use crate::test;

/// What is checked before the tests run.
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
];

/// Check format, lints and docs, then run every test.
#[derive(clap::Args)]
pub struct CiArgs {}

/// Runs every check; the exit code says whether all of them passed.
pub fn run(_: &CiArgs) -> anyhow::Result<ExitCode> {
    let signals = StopSignals::register()?;
    // First, so that a missing PostgreSQL is found in the first second and not after minutes of compiling.
    let programs = ServerPrograms::find_or_install(&signals)?;
    let mut report = StepReport::new(&signals);
    for step in CHECK_STEPS {
        report.run_step(step, &[], &[])?;
    }
    test::run_unfiltered(&programs, &mut report)?;
    Ok(report.print_summary())
}
