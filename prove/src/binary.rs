//! Operations through the program, as a script would do them.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context;
use plan::{ChangesetId, PlanId};
use serde_json::Value;

use crate::library::ACTION;
use crate::operation::{Answer, Call, Operation, Receipt, Refused, Seen};

/// Where the program is, and which store it shall use.
pub struct Program {
    /// The program.
    pub path: PathBuf,
    /// The store's address.
    pub store: String,
    /// A home without settings.
    pub home: PathBuf,
}

impl Program {
    /// Makes the call and tells what was answered. Nobody kills the program here: one that says nothing, nothing that
    /// can be understood, or that it was called in a way it does not know, is not to go on with.
    pub fn perform(&self, call: &Call) -> anyhow::Result<Answer> {
        let output = command(&self.path)
            .args(arguments(call))
            .env_clear()
            .env("PLANWRIGHT_STORE", &self.store)
            .env("PLANWRIGHT_HOME", &self.home)
            .stdin(Stdio::null())
            .output()
            .context("the program could not be started")?;
        let envelope: Option<Value> = serde_json::from_slice(&output.stdout).ok();
        let answer = envelope.and_then(|envelope| answer(call, &envelope));
        answer.with_context(|| {
            format!(
                "the program was asked to {} and ended with {}: {}{}",
                call.operation,
                output.status,
                String::from_utf8_lossy(&output.stdout),
                String::from_utf8_lossy(&output.stderr)
            )
        })
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "players of a proof are no business of the product"
)]
pub fn command(program: &Path) -> Command {
    Command::new(program)
}

fn arguments(call: &Call) -> Vec<String> {
    let label = call.label();
    let plan = call.operation.plan().map(|plan| plan.to_string());
    let epoch = call.operation.epoch().map(|epoch| epoch.to_string());
    let mut words: Vec<String> = Vec::new();
    let mut say = |parts: &[&str]| words.extend(parts.iter().map(|part| (*part).to_owned()));
    let seconds = |ms: u32| ms.div_ceil(1000).max(1).to_string();
    match &call.operation {
        // The program makes a plan and leaves it to others.
        Operation::Use | Operation::UseAndStart { .. } => say(&["use", ACTION]),
        Operation::Start {
            phase, lease_ms, ..
        } => {
            say(&["plumbing", &format!("start-{phase}")]);
            say(&["--owner", &label, "--lease-seconds", &seconds(*lease_ms)]);
        }
        Operation::Complete { phase, .. } => say(&["plumbing", &format!("complete-{phase}")]),
        Operation::ExecutePlan { .. } => say(&["plumbing", "execute-plan"]),
        Operation::ApplyPlan { .. } => say(&["plumbing", "apply-plan"]),
        Operation::Approve { .. } => say(&["plumbing", "approve"]),
        Operation::PrepareApply { .. } => say(&["plumbing", "prepare-apply"]),
        Operation::WithdrawApply { .. } => say(&["plumbing", "withdraw-apply"]),
        Operation::Constrain { .. } => say(&["plumbing", "constrain"]),
        Operation::Renew { lease_ms, .. } => {
            say(&["plumbing", "renew", "--lease-seconds", &seconds(*lease_ms)]);
        }
        Operation::Release { .. } => say(&["plumbing", "release"]),
        Operation::Reclaim { .. } => say(&["plumbing", "reclaim"]),
        Operation::Fail { transient, .. } => {
            let category = if *transient { "transient" } else { "actor" };
            say(&[
                "plumbing",
                "fail",
                "--category",
                category,
                "--message",
                &label,
            ]);
        }
        Operation::Ask { .. } => say(&["plumbing", "ask", "--question", &label]),
        Operation::Answer { .. } => say(&["plumbing", "answer"]),
        // The program has no word for it: a worker does it.
        Operation::ExpireQuestion { .. } | Operation::Look { .. } => say(&["plumbing", "show"]),
        Operation::Retry { .. } => say(&["plumbing", "retry"]),
        Operation::Revise { .. } => say(&["plumbing", "revise"]),
        Operation::Revert { .. } => say(&["plumbing", "revert"]),
        Operation::Cancel { .. } => say(&["plumbing", "cancel"]),
        Operation::OpenChangeset { node, .. } => {
            say(&["plumbing", "open-changeset", "--node", node]);
        }
        Operation::RecordChange { node, .. } => {
            say(&["plumbing", "record-change", "--node", node]);
            say(&["--path", &label, "--operation", "create"]);
        }
        Operation::SealChangeset { changeset, .. } => {
            say(&[
                "plumbing",
                "seal-changeset",
                "--changeset",
                &changeset.to_string(),
            ]);
        }
        Operation::AddRule { rule, holds, .. } => {
            say(&["invariant", "add", rule, "--expr", &holds.to_string()]);
        }
        Operation::RemoveRule { rule, .. } => say(&["invariant", "remove", rule]),
        Operation::List => say(&["list", "--limit", "12"]),
    }
    if let Some(epoch) = &epoch {
        say(&["--epoch", epoch]);
    }
    say(&["--format", "json"]);
    if let Some(plan) = &plan {
        match call.operation {
            Operation::AddRule { .. } | Operation::RemoveRule { .. } => say(&["--plan", plan]),
            _ => say(&[plan]),
        }
    }
    match call.operation {
        Operation::Answer { .. } | Operation::Revise { .. } => say(&[&label]),
        Operation::Cancel { .. } | Operation::Revert { .. } => say(&["--reason", &label]),
        _ => {}
    }
    words
}

/// What the envelope says, if it says anything that it may.
fn answer(call: &Call, envelope: &Value) -> Option<Answer> {
    let said = || {
        let texts = envelope["messages"].as_array().into_iter().flatten();
        let texts: Vec<&str> = texts
            .filter_map(|message| message["text"].as_str())
            .collect();
        texts.join("; ")
    };
    let data = &envelope["data"];
    Some(match envelope["exit_code"].as_u64() {
        Some(0) => match call.operation {
            Operation::Look { .. } | Operation::ExpireQuestion { .. } => {
                Answer::Saw(vec![seen(data)?])
            }
            Operation::List => {
                let plans = data["plans"].as_array()?.iter();
                Answer::Saw(plans.map(seen).collect::<Option<_>>()?)
            }
            _ => Answer::Done(receipt(data)),
        },
        Some(5) => Answer::Blocked,
        Some(9) => Answer::Unknown(said()),
        Some(1) => Answer::Failed(said()),
        // Understood and refused has a kind; not understood has none.
        Some(2..=4 | 6) if data["kind"].is_string() => Answer::Refused(Refused {
            why: said(),
            absent: data["kind"] == "no_such_plan",
            ..Refused::default()
        }),
        _ => return None,
    })
}

fn receipt(data: &Value) -> Receipt {
    let told = &data["receipt"];
    let id = |field: &str| data[field].as_str();
    Receipt {
        plan: id("plan_id").and_then(|id| id.parse::<PlanId>().ok()),
        version: told["version"].as_u64(),
        epoch: told["epoch"].as_u64(),
        changeset: id("changeset_id").and_then(|id| id.parse::<ChangesetId>().ok()),
        repeated: told["repeated"].as_bool().unwrap_or(false),
    }
}

fn seen(view: &Value) -> Option<Seen> {
    let lease = view.get("lease").map(|lease| lease["epoch"].as_u64());
    Some(Seen {
        plan: view["plan_id"].as_str()?.parse().ok()?,
        version: view["version"].as_u64()?,
        stage: format!("{}/{}", view["phase"].as_str()?, view["state"].as_str()?),
        epoch: view["epoch"].as_u64(),
        lease,
    })
}
