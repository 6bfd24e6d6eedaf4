//! Runs the scenarios of `features/` at the root of the repository. Any that fails, is skipped or
//! has a step nobody defined fails the run.
//!
//! Words on the command line choose scenarios: by their tag, or by a part of their name.

#![allow(
    clippy::unwrap_used,
    reason = "a step whose set-up fails has failed, and the panic says where"
)]
#![allow(
    clippy::needless_pass_by_value,
    reason = "steps get what stands in the feature as values"
)]

mod scenario_commands;
mod scenario_store;
mod steps;
mod world;

use std::process::ExitCode;

use cucumber::World as _;
use cucumber::gherkin::{Feature, Scenario};
use cucumber::writer::Stats;

use crate::world::World;

const FEATURES_DIR: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../features");

fn main() -> ExitCode {
    // What starts with a dash is for the test harness that this is not.
    let wanted: Vec<String> = std::env::args()
        .skip(1)
        .filter(|word| !word.starts_with('-'))
        .collect();
    let choose = wanted.clone();
    // Not on tokio: the PostgreSQL store blocks on a runtime of its own.
    let told = futures::executor::block_on(
        World::cucumber()
            .with_default_cli()
            // Scenarios measure races; they must not be the race.
            .max_concurrent_scenarios(1)
            .fail_on_skipped()
            .filter_run(FEATURES_DIR, move |feature, _, scenario| {
                choose.is_empty() || choose.iter().any(|word| is_named(feature, scenario, word))
            }),
    );
    let nothing_ran = wanted.is_empty() && told.passed_steps() == 0;
    if told.execution_has_failed() || nothing_ran {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}

fn is_named(feature: &Feature, scenario: &Scenario, word: &str) -> bool {
    let tagged = |tags: &[String]| tags.iter().any(|tag| tag == word.trim_start_matches('@'));
    tagged(&feature.tags)
        || tagged(&scenario.tags)
        || feature.name.contains(word)
        || scenario.name.contains(word)
}
