//! `cargo xtask`: set-up, tests and checks of this workspace, each as one command that works from a clean
//! clone. This file only reads the command line; each task is a module of its own.

#![expect(
    clippy::disallowed_methods,
    reason = "a developer's tool starts programs and reads its environment; it is not part of the product"
)]
#![expect(
    clippy::print_stderr,
    reason = "what it says is for the developer at the terminal"
)]

mod agents;
mod api_fuzz;
mod axe;
mod bench;
mod cargo;
mod child;
mod ci;
mod coverage;
mod debian_packages;
mod dist;
mod editors;
mod man;
mod mutants;
mod names;
mod postgres;
mod prove;
mod screenshots;
mod signals;
mod source_scan;
mod step;
mod test;
mod tidy;
mod tools;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

fn main() -> ExitCode {
    match XtaskCli::parse().task.run() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Set-up, tests and checks of the Planwright workspace.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct XtaskCli {
    #[command(subcommand)]
    task: XtaskCommand,
}

#[derive(Subcommand)]
enum XtaskCommand {
    Test(test::TestArgs),
    Ci(ci::CiArgs),
    Bench(bench::BenchArgs),
    Prove(prove::ProveArgs),
    Agents(agents::AgentsArgs),
    ApiFuzz(api_fuzz::ApiFuzzArgs),
    Coverage(coverage::CoverageArgs),
    Mutants(mutants::MutantsArgs),
    Names(names::NamesArgs),
    Man(man::ManArgs),
    Screenshots(screenshots::ScreenshotsArgs),
    Dist(dist::DistArgs),
    Editors(editors::EditorsArgs),
    Tidy(tidy::TidyArgs),
    Postgres(postgres::PostgresArgs),
    #[command(hide = true)]
    PostgresGuard(postgres::GuardArguments),
}

impl XtaskCommand {
    fn run(self) -> anyhow::Result<ExitCode> {
        match self {
            Self::Test(arguments) => test::run(&arguments),
            Self::Ci(arguments) => ci::run(&arguments),
            Self::Bench(arguments) => bench::run(&arguments),
            Self::Prove(arguments) => prove::run(&arguments),
            Self::Agents(arguments) => agents::run(&arguments),
            Self::ApiFuzz(arguments) => api_fuzz::run(&arguments),
            Self::Coverage(arguments) => coverage::run(&arguments),
            Self::Mutants(arguments) => mutants::run(&arguments),
            Self::Names(arguments) => names::run(&arguments),
            Self::Man(arguments) => man::run(&arguments),
            Self::Screenshots(arguments) => screenshots::run(&arguments),
            Self::Dist(arguments) => dist::run(&arguments),
            Self::Editors(arguments) => editors::run(&arguments),
            Self::Tidy(arguments) => tidy::run(&arguments),
            Self::Postgres(arguments) => postgres::run(&arguments),
            Self::PostgresGuard(arguments) => postgres::guard(&arguments),
        }
    }
}
