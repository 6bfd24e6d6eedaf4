//! Makes calls through the `planwright` program, as a script would.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context;
use plan::{ChangesetId, PlanId};
use serde_json::Value;

use crate::library_client::ACTION_NAME;
use crate::operation::{CallAnswer, CallReceipt, CallRefusal, ClientCall, ObservedPlan, Operation};

/// The program and its environment.
pub struct ProgramClient {
    pub path: PathBuf,
    /// The store's address.
    pub store: String,
    /// A home directory without settings.
    pub home: PathBuf,
}

impl ProgramClient {
    /// Makes a call and parses the answer. Nobody kills the program here, so an empty or invalid answer, or an error about
    /// the arguments, fails the trial.
    pub fn perform_call(&self, call: &ClientCall) -> anyhow::Result<CallAnswer> {
        let output = new_command(&self.path)
            .args(render_arguments(call))
            .env_clear()
            .env("PLANWRIGHT_STORE", &self.store)
            .env("PLANWRIGHT_HOME", &self.home)
            .stdin(Stdio::null())
            .output()
            .context("could not start the program")?;
        let envelope: Option<Value> = serde_json::from_slice(&output.stdout).ok();
        let answer = envelope.and_then(|envelope| parse_answer(call, &envelope));
        answer.with_context(|| {
            format!(
                "the program ended with {} on `{}`: {}{}",
                output.status,
                call.operation,
                String::from_utf8_lossy(&output.stdout),
                String::from_utf8_lossy(&output.stderr)
            )
        })
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the harness starts processes itself; it is not part of the product"
)]
/// A command whose process is not supervised by the product.
pub fn new_command(program: &Path) -> Command {
    Command::new(program)
}

fn render_arguments(call: &ClientCall) -> Vec<String> {
    let label = call.label();
    let plan_id = call.operation.plan_id().map(|plan_id| plan_id.to_string());
    let epoch = call.operation.epoch().map(|epoch| epoch.to_string());
    let mut arguments: Vec<String> = Vec::new();
    let mut push = |parts: &[&str]| arguments.extend(parts.iter().map(|part| (*part).to_owned()));
    let seconds = |ms: u32| ms.div_ceil(1000).max(1).to_string();
    match &call.operation {
        // The program creates the plan but does not claim it.
        Operation::Use | Operation::UseAndStart { .. } => push(&["use", ACTION_NAME]),
        Operation::Start {
            phase, lease_ms, ..
        } => {
            push(&["plumbing", &format!("start-{phase}")]);
            push(&["--owner", &label, "--lease-seconds", &seconds(*lease_ms)]);
        }
        Operation::Complete { phase, .. } => push(&["plumbing", &format!("complete-{phase}")]),
        Operation::ExecutePlan { .. } => push(&["plumbing", "execute-plan"]),
        Operation::ApplyPlan { .. } => push(&["plumbing", "apply-plan"]),
        Operation::Approve { .. } => push(&["plumbing", "approve"]),
        Operation::PrepareApply { .. } => push(&["plumbing", "prepare-apply"]),
        Operation::WithdrawApply { .. } => push(&["plumbing", "withdraw-apply"]),
        Operation::Constrain { .. } => push(&["plumbing", "constrain"]),
        Operation::Renew { lease_ms, .. } => {
            push(&["plumbing", "renew", "--lease-seconds", &seconds(*lease_ms)]);
        }
        Operation::Release { .. } => push(&["plumbing", "release"]),
        Operation::Reclaim { .. } => push(&["plumbing", "reclaim"]),
        Operation::Fail { transient, .. } => {
            let category = if *transient { "transient" } else { "actor" };
            push(&[
                "plumbing",
                "fail",
                "--category",
                category,
                "--message",
                &label,
            ]);
        }
        Operation::Ask { .. } => push(&["plumbing", "ask", "--question", &label]),
        Operation::Answer { .. } => push(&["plumbing", "answer"]),
        // The program has no command to expire a question: a worker does that.
        Operation::ExpireQuestion { .. } | Operation::Show { .. } => push(&["plumbing", "show"]),
        Operation::Retry { .. } => push(&["plumbing", "retry"]),
        Operation::Revise { .. } => push(&["plumbing", "revise"]),
        Operation::Revert { .. } => push(&["plumbing", "revert"]),
        Operation::Cancel { .. } => push(&["plumbing", "cancel"]),
        Operation::OpenChangeset { node, .. } => {
            push(&["plumbing", "open-changeset", "--node", node]);
        }
        Operation::RecordChange { node, .. } => {
            push(&["plumbing", "record-change", "--node", node]);
            push(&["--path", &label, "--operation", "create"]);
        }
        Operation::SealChangeset { changeset, .. } => {
            push(&[
                "plumbing",
                "seal-changeset",
                "--changeset",
                &changeset.to_string(),
            ]);
        }
        Operation::AddRule { rule, holds, .. } => {
            push(&["invariant", "add", rule, "--expr", &holds.to_string()]);
        }
        Operation::RemoveRule { rule, .. } => push(&["invariant", "remove", rule]),
        Operation::List => push(&["list", "--limit", "12"]),
    }
    if let Some(epoch) = &epoch {
        push(&["--epoch", epoch]);
    }
    push(&["--format", "json"]);
    if let Some(plan_id) = &plan_id {
        match call.operation {
            Operation::AddRule { .. } | Operation::RemoveRule { .. } => push(&["--plan", plan_id]),
            _ => push(&[plan_id]),
        }
    }
    match call.operation {
        Operation::Answer { .. } | Operation::Revise { .. } => push(&[&label]),
        Operation::Cancel { .. } | Operation::Revert { .. } => push(&["--reason", &label]),
        _ => {}
    }
    arguments
}

/// Parses the JSON envelope. `None` if it is not one that the program may answer with.
fn parse_answer(call: &ClientCall, envelope: &Value) -> Option<CallAnswer> {
    let message_text = || {
        let texts = envelope["messages"].as_array().into_iter().flatten();
        let texts: Vec<&str> = texts
            .filter_map(|message| message["text"].as_str())
            .collect();
        texts.join("; ")
    };
    let data = &envelope["data"];
    Some(match envelope["exit_code"].as_u64() {
        Some(0) => match call.operation {
            Operation::Show { .. } | Operation::ExpireQuestion { .. } => {
                CallAnswer::Observed(vec![parse_plan(data)?])
            }
            Operation::List => {
                let plans = data["plans"].as_array()?.iter();
                CallAnswer::Observed(plans.map(parse_plan).collect::<Option<_>>()?)
            }
            _ => CallAnswer::Done(parse_receipt(data)),
        },
        Some(5) => CallAnswer::Blocked,
        Some(9) => CallAnswer::Unknown(message_text()),
        Some(1) => CallAnswer::Failed(message_text()),
        // A refused command has a kind; invalid arguments have none.
        Some(2..=4 | 6) if data["kind"].is_string() => CallAnswer::Refused(CallRefusal {
            reason: message_text(),
            plan_missing: data["kind"] == "no_such_plan",
            ..CallRefusal::default()
        }),
        _ => return None,
    })
}

fn parse_receipt(data: &Value) -> CallReceipt {
    let receipt = &data["receipt"];
    let id = |field: &str| data[field].as_str();
    CallReceipt {
        plan_id: id("plan_id").and_then(|id| id.parse::<PlanId>().ok()),
        version: receipt["version"].as_u64(),
        epoch: receipt["epoch"].as_u64(),
        changeset: id("changeset_id").and_then(|id| id.parse::<ChangesetId>().ok()),
        repeated: receipt["repeated"].as_bool().unwrap_or(false),
    }
}

fn parse_plan(view: &Value) -> Option<ObservedPlan> {
    let lease = view.get("lease").map(|lease| lease["epoch"].as_u64());
    Some(ObservedPlan {
        plan_id: view["plan_id"].as_str()?.parse().ok()?,
        version: view["version"].as_u64()?,
        stage: format!("{}/{}", view["phase"].as_str()?, view["state"].as_str()?),
        epoch: view["epoch"].as_u64(),
        lease,
    })
}
