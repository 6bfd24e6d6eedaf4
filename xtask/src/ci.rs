//! `cargo xtask ci`: everything that must hold before a change is merged. `.ci/run` calls this and no more.

use std::process::ExitCode;

use crate::postgres::ServerPrograms;
use crate::signals::Signals;
use crate::step::{Report, Step};
use crate::test;

/// What is checked before the tests run.
const CHECKS: &[Step] = &[
    Step {
        name: "format",
        arguments: &["fmt", "--all", "--check"],
        environment: &[],
    },
    Step {
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
    Step {
        name: "docs",
        arguments: &["doc", "--workspace", "--no-deps"],
        environment: &[("RUSTDOCFLAGS", "-D warnings")],
    },
];

/// Check format, lints and docs, then run every test.
#[derive(clap::Args)]
pub struct Arguments {}

/// Runs every check; the exit code says whether all of them passed.
pub fn run(_: &Arguments) -> anyhow::Result<ExitCode> {
    let signals = Signals::catch()?;
    // First, so that a missing PostgreSQL is found in the first second and not after minutes of compiling.
    let programs = ServerPrograms::find_or_install(&signals)?;
    let mut report = Report::new(&signals);
    for step in CHECKS {
        report.run(step, &[], &[])?;
    }
    test::run_unfiltered(&programs, &mut report)?;
    Ok(report.finish())
}
