//! The benchmarks behind `cargo xtask bench`. Each compares Planwright with a baseline in the same run, on the same
//! disk, and prints tables for `docs/performance.md`:
//!
//! - `store`: the stores against hand-written loops that write the same rows
//! - `sandbox`: sandboxes against plain git
//! - `work`: workers and agents of kind `acp` against starting the same program directly
//! - `gates`: the cost of evaluating rules
//! - `peers`: complete workflows against other engines
//!
//! Every result is a ratio within a round, and the median of several rounds, because machines are shared and disk
//! speed varies.

#![expect(
    clippy::print_stderr,
    clippy::print_stdout,
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "a benchmark prints, starts itself again, and stops at the first unexpected result"
)]

mod acp_sessions;
mod builtin_drivers;
mod handwritten_loop;
mod peers;
mod postgres;
mod rule_evaluation;
mod sandbox;
mod slow_rule;
mod sqlite;
mod statistics;
mod store_growth;
mod workers;
mod workload;

use std::process::ExitCode;

const USAGE: &str = "usage: planwright-bench store [sqlite|postgres|size] | sandbox | work [acp] | gates \
                     | peers [--only NAME]... [--runs N] | render";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        ["store"] => {
            statistics::print_header();
            sqlite::measure_store();
            postgres::measure_store();
            store_growth::measure_growth();
        }
        ["store", "sqlite"] => sqlite::measure_store(),
        ["store", "postgres"] => postgres::measure_store(),
        ["store", "size"] => store_growth::measure_growth(),
        ["sandbox"] => sandbox::measure_sandboxes(),
        ["work"] => {
            workers::measure_workers();
            acp_sessions::measure_acp_sessions();
        }
        ["work", "acp"] => acp_sessions::measure_acp_sessions(),
        ["gates"] => {
            rule_evaluation::measure_rules();
            slow_rule::measure_slow_rule();
        }
        // Started by the benchmarks themselves.
        ["acp-agent"] => acp_sessions::run_acp_agent(),
        ["stamp"] => workers::write_start_stamp(),
        ["worker", path, plan_id, steps] => {
            sqlite::run_race_process(path, plan_id, steps.parse().unwrap());
        }
        ["drive", name, flags @ ..] => {
            return exit_code(builtin_drivers::run_driver(name, flags));
        }
        ["peers", flags @ ..] => return exit_code(peers::measure_peers(flags)),
        ["render"] => return exit_code(peers::render_report()),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}

fn exit_code(result: Result<(), String>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("planwright-bench: {message}");
            ExitCode::FAILURE
        }
    }
}
