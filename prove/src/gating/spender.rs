//! The actor of a trial: it changes some files, writes down which and what it will use, and then says with
//! every call what it used so far, as well-known agents do.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use serde_json::{Value, json};

use super::notes::{Note, write};
use crate::working::actor::{LEDGER, epoch, variable};

/// The most that one call takes, in tokens.
pub const CALL: u64 = 100;

/// What a token costs, in millionths.
pub const PRICE: u64 = 1000;

/// Between two calls there is time enough to be stopped.
const BREATH: Duration = Duration::from_millis(500);

/// Works.
#[expect(
    clippy::print_stdout,
    reason = "an actor tells what it used by its output"
)]
pub fn run() -> anyhow::Result<ExitCode> {
    let report = PathBuf::from(variable("PLANWRIGHT_REPORT")?);
    let plan = variable("PLANWRIGHT_PLAN")?;
    let files = change(&std::env::current_dir()?, &plan)?;
    let calls: Vec<u64> = (0..fastrand::usize(1..=2))
        .map(|_| fastrand::u64(10..=CALL))
        .collect();
    let note = Note {
        plan,
        epoch: epoch(&report)?,
        files,
        tokens: calls.iter().sum(),
        told: false,
    };
    write(Path::new(&variable(LEDGER)?), &note)?;
    let mut used = 0;
    for (number, call) in calls.iter().enumerate() {
        std::thread::sleep(BREATH);
        used += call;
        let message = json!({
            "id": number.to_string(),
            "content": [{"type": "text", "text": "Going on."}],
            "usage": usage(*call),
        });
        println!(
            "{}",
            json!({"type": "assistant", "message": message, "total_cost_usd": cost(used)})
        );
        std::io::stdout().flush()?;
    }
    let end = json!({
        "type": "result", "subtype": "success", "result": "Done.",
        "usage": usage(used), "total_cost_usd": cost(used),
    });
    println!("{end}");
    Ok(ExitCode::SUCCESS)
}

/// Files of its own, some of which rules do not like; what it made before may go again.
fn change(sandbox: &Path, plan: &str) -> anyhow::Result<Vec<String>> {
    let mut files = vec![format!("docs/{plan}.md")];
    for (odds, path) in [(25, "secret"), (25, "many/one"), (25, "many/two")] {
        let path = format!("{path}/{plan}.txt");
        match fastrand::u8(..100) < odds {
            true => files.push(path),
            false => drop(std::fs::remove_file(sandbox.join(path))),
        }
    }
    for path in &files {
        let place = sandbox.join(path);
        std::fs::create_dir_all(place.parent().unwrap_or(sandbox))?;
        std::fs::write(place, format!("{path} {}\n", fastrand::u64(..)))?;
    }
    Ok(files)
}

fn usage(tokens: u64) -> Value {
    json!({"input_tokens": tokens - tokens / 2, "output_tokens": tokens / 2})
}

#[expect(clippy::cast_precision_loss, reason = "a few thousand at most")]
fn cost(tokens: u64) -> f64 {
    (tokens * PRICE) as f64 / 1e6
}
