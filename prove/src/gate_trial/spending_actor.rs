//! The actor of the `gates` trial. It changes some files, records them and the tokens it will use, and then reports its
//! usage after every call, as coding agents do.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use serde_json::{Value, json};

use super::trial_records::{EpochRecord, append_epoch_record};
use crate::worker_trial::trial_actor::{RECORDS_DIR_VARIABLE, epoch_of_report, read_variable};

/// The most tokens that one call uses.
pub const MAX_TOKENS_PER_CALL: u64 = 100;

/// The price of a token, in millionths.
pub const MICROS_PER_TOKEN: u64 = 1000;

/// The interval between two calls: long enough for the engine to stop the actor.
const CALL_INTERVAL: Duration = Duration::from_millis(500);

/// Runs the actor.
#[expect(
    clippy::print_stdout,
    reason = "an actor reports its usage on standard output"
)]
pub fn run() -> anyhow::Result<ExitCode> {
    let report = PathBuf::from(read_variable("PLANWRIGHT_REPORT")?);
    let plan_id = read_variable("PLANWRIGHT_PLAN")?;
    let files = change_files(&std::env::current_dir()?, &plan_id)?;
    let calls: Vec<u64> = (0..fastrand::usize(1..=2))
        .map(|_| fastrand::u64(10..=MAX_TOKENS_PER_CALL))
        .collect();
    let record = EpochRecord {
        plan_id,
        epoch: epoch_of_report(&report)?,
        files,
        tokens: calls.iter().sum(),
        settled: false,
    };
    append_epoch_record(Path::new(&read_variable(RECORDS_DIR_VARIABLE)?), &record)?;
    let mut used = 0;
    for (number, tokens) in calls.iter().enumerate() {
        std::thread::sleep(CALL_INTERVAL);
        used += tokens;
        let message = json!({
            "id": number.to_string(),
            "content": [{"type": "text", "text": "Going on."}],
            "usage": usage_json(*tokens),
        });
        println!(
            "{}",
            json!({"type": "assistant", "message": message, "total_cost_usd": cost_in_dollars(used)})
        );
        std::io::stdout().flush()?;
    }
    let end = json!({
        "type": "result", "subtype": "success", "result": "Done.",
        "usage": usage_json(used), "total_cost_usd": cost_in_dollars(used),
    });
    println!("{end}");
    Ok(ExitCode::SUCCESS)
}

/// Writes files, some of which break sample rules, and removes others that an earlier run may have written. Returns the
/// written paths.
fn change_files(sandbox: &Path, plan_id: &str) -> anyhow::Result<Vec<String>> {
    let mut files = vec![format!("docs/{plan_id}.md")];
    for (percent, directory) in [(25, "secret"), (25, "many/one"), (25, "many/two")] {
        let path = format!("{directory}/{plan_id}.txt");
        match fastrand::u8(..100) < percent {
            true => files.push(path),
            false => drop(std::fs::remove_file(sandbox.join(path))),
        }
    }
    for path in &files {
        let full_path = sandbox.join(path);
        std::fs::create_dir_all(full_path.parent().unwrap_or(sandbox))?;
        std::fs::write(full_path, format!("{path} {}\n", fastrand::u64(..)))?;
    }
    Ok(files)
}

fn usage_json(tokens: u64) -> Value {
    json!({"input_tokens": tokens - tokens / 2, "output_tokens": tokens / 2})
}

#[expect(clippy::cast_precision_loss, reason = "a few thousand at most")]
fn cost_in_dollars(tokens: u64) -> f64 {
    (tokens * MICROS_PER_TOKEN) as f64 / 1e6
}
