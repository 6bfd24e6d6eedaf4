//! An actor of the `work` trial that speaks the Agent Client Protocol, asks before it makes a tool call, and records
//! each call that it made.

use std::io::{BufRead, Write};
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::trial_actor::{ActorRun, append_record, read_records, read_variable};

/// Planted bug: the permission of an earlier run of the plan is used again. Set to `1`.
pub const STALE_PERMISSION_VARIABLE: &str = "PROVE_STALE_PERMISSION";

/// A tool call that the actor made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MadeCall {
    pub plan_id: String,
    pub epoch: u64,
    /// What the actor asked for. Different for each call.
    pub command: String,
}

/// Reads the recorded calls.
pub fn read_made_calls(records_dir: &Path) -> anyhow::Result<Vec<MadeCall>> {
    read_records(&records_dir.join("calls"))
}

/// Runs the actor.
pub fn run() -> anyhow::Result<ExitCode> {
    let mut input = std::io::stdin().lock();
    while let Some(message) = read_message(&mut input)? {
        let id = message["id"].clone();
        match message["method"].as_str() {
            Some("initialize") => reply(&id, &json!({"protocolVersion": 1}))?,
            Some("session/new") => reply(&id, &json!({"sessionId": "s"}))?,
            Some("session/prompt") => {
                let reason = work(&mut input)?;
                reply(&id, &json!({ "stopReason": reason }))?;
            }
            Some(_) | None => {}
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Works on the prompt. Returns why the turn ends.
fn work(input: &mut impl BufRead) -> anyhow::Result<&'static str> {
    let run = ActorRun::begin()?;
    let start = &run.start;
    let call = MadeCall {
        plan_id: start.plan_id.clone(),
        epoch: start.epoch,
        command: format!("make {}-{}", start.process, fastrand::u64(..)),
    };
    let is_broken = read_variable(STALE_PERMISSION_VARIABLE)? == "1";
    let calls = run.records_dir.join("calls");
    let was_allowed = || -> anyhow::Result<bool> {
        let earlier: Vec<MadeCall> = read_records(&calls)?;
        Ok(earlier.iter().any(|one| one.plan_id == call.plan_id))
    };
    if is_broken && was_allowed()? {
        append_record(&calls, &call)?;
    } else {
        match ask(input, &call.command)? {
            PersonAnswer::Allowed => append_record(&calls, &call)?,
            PersonAnswer::Rejected => {}
            PersonAnswer::Cancelled => return Ok("cancelled"),
        }
    }
    run.change_file()?;
    run.report_done()?;
    Ok("end_turn")
}

enum PersonAnswer {
    Allowed,
    Rejected,
    Cancelled,
}

fn ask(input: &mut impl BufRead, command: &str) -> anyhow::Result<PersonAnswer> {
    let tool_call = json!({"toolCallId": "c", "kind": "execute", "rawInput": {"command": command}});
    let options = json!([{"optionId": "yes", "kind": "allow_once"}, {"optionId": "no", "kind": "reject_once"}]);
    send(&json!({
        "jsonrpc": "2.0", "id": "ask", "method": "session/request_permission",
        "params": {"sessionId": "s", "toolCall": tool_call, "options": options},
    }))?;
    while let Some(message) = read_message(input)? {
        if message["method"] == "session/cancel" {
            return Ok(PersonAnswer::Cancelled);
        }
        if message["id"] == "ask" {
            return Ok(match message["result"]["outcome"]["optionId"].as_str() {
                Some("yes") => PersonAnswer::Allowed,
                Some("no") => PersonAnswer::Rejected,
                Some(_) | None => PersonAnswer::Cancelled,
            });
        }
    }
    Ok(PersonAnswer::Cancelled)
}

fn read_message(input: &mut impl BufRead) -> anyhow::Result<Option<Value>> {
    let mut line = String::new();
    if input.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    serde_json::from_str(&line)
        .map(Some)
        .context("a message is not JSON")
}

fn reply(id: &Value, result: &Value) -> anyhow::Result<()> {
    send(&json!({"jsonrpc": "2.0", "id": id, "result": result}))
}

fn send(message: &Value) -> anyhow::Result<()> {
    let mut output = std::io::stdout().lock();
    writeln!(output, "{message}")?;
    Ok(output.flush()?)
}
