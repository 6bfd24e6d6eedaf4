//! Measures the stores against hand-written loops that write exactly the same rows, in the same run
//! on the same disk (`cargo xtask bench store`), sandboxes against plain git (`cargo xtask bench sandbox`),
//! workers against starting the same program directly (`cargo xtask bench work`), what judging costs
//! (`cargo xtask bench gates`), and whole lives against other programs' (`cargo xtask bench peers`). Prints tables for
//! `docs/performance.md`.
//!
//! Every figure is a ratio within a round, and the median of several rounds, because machines are
//! shared and disks have moods.

#![expect(
    clippy::print_stderr,
    clippy::print_stdout,
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "a measuring program: it prints, starts itself again, and stops at the first surprise"
)]

mod drive;
mod fleet;
mod gates;
mod hand;
mod peers;
mod postgres;
mod rounds;
mod sandbox;
mod size;
mod slow_rule;
mod sqlite;
mod work;

use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["store"] => {
            println!("| what | figure | target |");
            println!("| --- | --- | --- |");
            sqlite::measure();
            postgres::measure();
            size::measure();
        }
        ["store", "sqlite"] => sqlite::measure(),
        ["store", "postgres"] => postgres::measure(),
        ["store", "size"] => size::measure(),
        ["sandbox"] => sandbox::measure(),
        ["work"] => fleet::measure(),
        ["gates"] => {
            gates::measure();
            slow_rule::measure();
        }
        ["stamp"] => fleet::stamp(),
        ["worker", path, plan, steps] => sqlite::worker(path, plan, steps.parse().unwrap()),
        ["peers", rest @ ..] => return ended(peers::measure(rest)),
        ["render"] => return ended(peers::render()),
        ["drive", what, rest @ ..] => return ended(drive::run(what, rest)),
        _ => {
            eprintln!(
                "usage: planwright-bench store [sqlite|postgres|size] | sandbox | work | gates | peers [--only NAME]... [--runs N] | render"
            );
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}

fn ended(result: Result<(), String>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("planwright-bench: {why}");
            ExitCode::FAILURE
        }
    }
}
