//! `cargo xtask test`: starts a PostgreSQL server and runs all tests.

use std::process::ExitCode;

use crate::axe::find_or_install_axe;
use crate::debian_packages::find_or_install_tools;
use crate::postgres::{Durability, GuardedServer, ServerPrograms};
use crate::signals::StopSignals;
use crate::step::{CargoStep, StepReport};

/// The invocations that together run every test.
const TEST_STEPS: &[CargoStep] = &[
    CargoStep {
        name: "tests",
        arguments: &["test", "--no-fail-fast"],
        environment: &[],
    },
    // Shuttle's scheduler replaces the operating system's, which needs a separate build.
    CargoStep {
        name: "interleavings",
        arguments: &[
            "test",
            "--package=planwright-store",
            "--package=planwright-lifecycle",
            "--features=planwright-store/shuttle,planwright-lifecycle/shuttle",
            "--test=interleavings",
        ],
        environment: &[],
    },
    CargoStep {
        name: "interleavings of the group commit",
        arguments: &[
            "test",
            "--package=planwright-store",
            "--features=planwright-store/shuttle",
            "--lib",
            "group",
        ],
        environment: &[],
    },
];

/// The short chaos trials, each also with planted bugs. They start the `planwright` program, which must be built.
const TRIAL_STEPS: &[CargoStep] = &[
    CargoStep {
        name: "build for trials",
        arguments: &["build", "--package=planwright"],
        environment: &[],
    },
    CargoStep {
        name: "trials",
        arguments: &["test", "--package=planwright-prove", "--test=trial"],
        environment: &[],
    },
];

/// Run all tests, with a temporary PostgreSQL server.
#[derive(clap::Args)]
pub struct TestArgs {
    /// Run only the tests whose name contains one of these.
    #[arg(long, num_args = 1.., value_name = "NAME")]
    filter: Vec<String>,

    /// Passed to the first `cargo test`.
    #[arg(last = true, value_name = "ARGUMENT")]
    cargo_arguments: Vec<String>,
}

pub fn run(arguments: &TestArgs) -> anyhow::Result<ExitCode> {
    let signals = StopSignals::register()?;
    let programs = ServerPrograms::find_or_install(&signals)?;
    let mut report = StepReport::new(&signals);
    run_all(&programs, arguments, &mut report)?;
    Ok(report.print_summary())
}

/// Runs every test without a filter, as part of a longer run.
pub fn run_unfiltered(
    programs: &ServerPrograms,
    report: &mut StepReport<'_>,
) -> anyhow::Result<()> {
    run_all(
        programs,
        &TestArgs {
            filter: Vec::new(),
            cargo_arguments: Vec::new(),
        },
        report,
    )
}

/// Runs the short chaos trials.
pub fn run_trials(programs: &ServerPrograms, report: &mut StepReport<'_>) -> anyhow::Result<()> {
    let cluster = GuardedServer::start(programs, Durability::Throwaway)?;
    for step in TRIAL_STEPS {
        report.run_step(step, &[], &cluster.environment())?;
    }
    Ok(())
}

fn run_all(
    programs: &ServerPrograms,
    arguments: &TestArgs,
    report: &mut StepReport<'_>,
) -> anyhow::Result<()> {
    find_or_install_tools(report.signals())?;
    find_or_install_axe(report.signals())?;
    let server = GuardedServer::start(programs, Durability::Throwaway)?;
    let environment = server.environment();
    for (index, step) in TEST_STEPS.iter().enumerate() {
        let cargo_arguments = if index == 0 {
            select_packages(&arguments.cargo_arguments)
        } else {
            Vec::new()
        };
        report.run_step(
            step,
            &with_filter(&cargo_arguments, &arguments.filter),
            &environment,
        )?;
    }
    Ok(())
}

/// Adds `--workspace` unless the arguments name packages.
fn select_packages(cargo_arguments: &[String]) -> Vec<String> {
    let names_one = |word: &String| word.starts_with("-p") || word.starts_with("--package");
    let own = cargo_arguments.iter().take_while(|word| *word != "--");
    let all = (!own.into_iter().any(names_one)).then(|| "--workspace".to_owned());
    all.into_iter().chain(cargo_arguments.to_vec()).collect()
}

/// Puts the filter behind `--`, where `cargo test` passes arguments to the test binaries.
fn with_filter(cargo_arguments: &[String], filter: &[String]) -> Vec<String> {
    let mut all = cargo_arguments.to_vec();
    if !filter.is_empty() {
        if !all.iter().any(|argument| argument == "--") {
            all.push("--".to_owned());
        }
        all.extend_from_slice(filter);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_filter(cargo_arguments: &str, filter: &str, expected: &str) {
        let words = |text: &str| {
            text.split_whitespace()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        assert_eq!(
            with_filter(&words(cargo_arguments), &words(filter)),
            words(expected)
        );
    }

    #[test]
    fn all_packages_are_tested_unless_some_are_named() {
        let select = |text: &str| {
            let words: Vec<_> = text.split_whitespace().map(str::to_owned).collect();
            select_packages(&words).join(" ")
        };
        assert_eq!(select(""), "--workspace");
        assert_eq!(select("--lib -- -p"), "--workspace --lib -- -p");
        for named in ["--package xtask", "--package=xtask", "-p xtask", "-pxtask"] {
            assert_eq!(select(named), named);
        }
    }

    #[test]
    fn a_filter_goes_to_the_test_binaries() {
        check_filter("", "", "");
        check_filter("--test it", "", "--test it");
        check_filter("", "lease", "-- lease");
        check_filter("--test it", "lease crash", "--test it -- lease crash");
        check_filter(
            "--test it -- --nocapture",
            "lease",
            "--test it -- --nocapture lease",
        );
    }
}
