//! Plumbing commands that claim a phase, keep its lease and end its work.

use std::io::Read;

use lifecycle::SubmitExceptions;
use plan::command::{AskPerson, CompleteStrategize, FailRun, ReleaseLease, RenewLease};
use plan::decision::ReportedDecision;
use plan::stage::{FailureCategory, ResultContent};
use plan::{ErasableText, Phase, Span};
use serde_json::json;

use crate::cli::App;
use crate::commands::plumbing::{HolderArgs, answer_with_receipt, lease_span};
use crate::commands::{CommandAnswer, ConditionArgs};
use crate::error::CommandError;
use crate::exit::CommandExit;
use api::view::SandboxView;

#[derive(Debug, clap::Args)]
pub struct StartPhaseArgs {
    /// Plan ID or handle
    #[arg(add = crate::completion::plans())]
    id: String,
    /// Name of the claimer, shown to others
    #[arg(long, value_name = "NAME", value_parser = parse_owner)]
    owner: String,
    /// Seconds until the lease expires unless it is renewed
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=86_400))]
    lease_seconds: u32,
    #[command(flatten)]
    conditions: ConditionArgs,
}

#[derive(Debug, clap::Args)]
pub struct CompleteStrategizeArgs {
    #[command(flatten)]
    holder: HolderArgs,
    /// Decisions as a JSON list of {kind, question, choice, …}; - reads standard input
    #[arg(long, value_name = "JSON")]
    decisions: Option<String>,
}

#[derive(Debug, clap::Args)]
pub struct CompleteExecuteArgs {
    #[command(flatten)]
    holder: HolderArgs,
    /// Report text; - reads standard input
    #[arg(long, value_name = "TEXT")]
    report: Option<String>,
    /// Submit even if nothing changed
    #[arg(long)]
    allow_empty: bool,
    /// Submit even if conflict markers remain
    #[arg(long)]
    allow_markers: bool,
}

#[derive(Debug, clap::Args)]
pub struct RenewLeaseArgs {
    #[command(flatten)]
    holder: HolderArgs,
    /// Seconds until the lease expires, from now
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=86_400))]
    lease_seconds: u32,
}

#[derive(Debug, clap::Args)]
pub struct ReclaimLeaseArgs {
    /// Plan ID or handle; without it, reclaim every expired lease
    #[arg(add = crate::completion::plans())]
    id: Option<String>,
    #[command(flatten)]
    conditions: ConditionArgs,
}

#[derive(Debug, clap::Args)]
pub struct FailWorkArgs {
    #[command(flatten)]
    holder: HolderArgs,
    /// Failure category: transient, timeout, actor, strategy, resource, budget, unanswered, lost or internal
    #[arg(long, value_name = "C")]
    category: FailureCategory,
    /// Error message
    #[arg(long, value_name = "M")]
    message: String,
}

#[derive(Debug, clap::Args)]
pub struct AskQuestionArgs {
    #[command(flatten)]
    holder: HolderArgs,
    /// Question to ask
    #[arg(long, value_name = "Q")]
    question: String,
    /// Seconds to wait for an answer before giving up
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    patience_seconds: Option<u32>,
}

pub fn start_phase(
    phase: Phase,
    args: &StartPhaseArgs,
    app: &App,
) -> Result<CommandAnswer, CommandError> {
    let lifecycle = app.lifecycle()?;
    let plan_id = app.resolve_plan(&args.id)?;
    let call = args.conditions.apply_to(app.new_call());
    let lease = lease_span(args.lease_seconds);
    let claim = match phase {
        Phase::Strategize => {
            lifecycle
                .claims()
                .start_strategize(plan_id, &args.owner, lease, &call)?
        }
        Phase::Execute => lifecycle
            .claims()
            .start_execute(plan_id, &args.owner, lease, &call)?,
        Phase::Apply => lifecycle
            .claims()
            .start_apply(plan_id, &args.owner, lease, &call)?,
    };
    let mut answer = answer_with_receipt(app, claim.outcome())?;
    let sandboxes: Vec<SandboxView> = claim.sandboxes().iter().map(SandboxView::from).collect();
    answer.data["sandboxes"] = json!(sandboxes);
    Ok(answer)
}

pub fn complete_strategize(
    args: &CompleteStrategizeArgs,
    app: &App,
) -> Result<CommandAnswer, CommandError> {
    let decisions = match &args.decisions {
        None => Vec::new(),
        Some(text) => parse_decisions(&read_text_or_stdin(text)?)?,
    };
    args.holder
        .submit_command(CompleteStrategize::new(args.holder.epoch(), decisions), app)
}

pub fn complete_execute(
    args: &CompleteExecuteArgs,
    app: &App,
) -> Result<CommandAnswer, CommandError> {
    let report = args.report.as_deref().map(read_text_or_stdin).transpose()?;
    let result = ResultContent {
        report: report.map(ErasableText::from),
        trees: Vec::new(),
    };
    let call = args.holder.conditions.apply_to(app.new_call());
    let plan_id = app.resolve_plan(&args.holder.id)?;
    let (lifecycle, epoch) = (app.lifecycle()?, args.holder.epoch());
    let allowed = SubmitExceptions {
        empty_result: args.allow_empty,
        conflict_markers: args.allow_markers,
    };
    let done = lifecycle.complete_execute_with(plan_id, epoch, &result, allowed, &call)?;
    answer_with_receipt(app, &done)
}

pub fn renew_lease(args: &RenewLeaseArgs, app: &App) -> Result<CommandAnswer, CommandError> {
    args.holder.submit_command(
        RenewLease::new(args.holder.epoch(), lease_span(args.lease_seconds)),
        app,
    )
}

pub fn release_lease(args: &HolderArgs, app: &App) -> Result<CommandAnswer, CommandError> {
    args.submit_command(
        ReleaseLease {
            epoch: args.epoch(),
        },
        app,
    )
}

pub fn reclaim_leases(args: &ReclaimLeaseArgs, app: &App) -> Result<CommandAnswer, CommandError> {
    let call = args.conditions.apply_to(app.new_call());
    let lifecycle = app.lifecycle()?;
    if let Some(id) = &args.id {
        return answer_with_receipt(
            app,
            &lifecycle
                .leases()
                .reclaim_lease(app.resolve_plan(id)?, &call)?,
        );
    }
    let reclaimed = lifecycle.leases().reclaim_expired_leases(1000, &call)?;
    let views = reclaimed
        .iter()
        .map(|plan| api::plans::get_plan_view(lifecycle, plan.id()))
        .collect::<Result<Vec<_>, _>>()?;
    Ok(CommandAnswer::new(
        json!({ "reclaimed": views }),
        String::new(),
    ))
}

pub fn fail_work(args: &FailWorkArgs, app: &App) -> Result<CommandAnswer, CommandError> {
    args.holder.submit_command(
        FailRun::new(args.holder.epoch(), args.category, args.message.clone()),
        app,
    )
}

pub fn ask_question(args: &AskQuestionArgs, app: &App) -> Result<CommandAnswer, CommandError> {
    let patience = args
        .patience_seconds
        .map(|seconds| Span::from_seconds(i64::from(seconds)));
    args.holder.submit_command(
        AskPerson::new(args.holder.epoch(), args.question.clone(), patience),
        app,
    )
}

fn parse_owner(text: &str) -> Result<String, String> {
    if (1..=200).contains(&text.len()) && !text.chars().any(char::is_control) {
        Ok(text.to_owned())
    } else {
        Err("an owner is 1 to 200 printable characters".to_owned())
    }
}

fn parse_decisions(text: &str) -> Result<Vec<ReportedDecision>, CommandError> {
    serde_json::from_str(text).map_err(|error| {
        CommandError::usage(format!(
            "--decisions is not a valid JSON list of decisions: {error}"
        ))
        .with_hint(r#"[{"kind": "strategy_choice", "question": "How?", "choice": "Like this."}]"#)
    })
}

/// Returns the text, or standard input for `-`. Reads at most one byte over the limit, enough for the engine
/// to refuse the text.
fn read_text_or_stdin(text: &str) -> Result<String, CommandError> {
    if text != "-" {
        return Ok(text.to_owned());
    }
    let mut read = String::new();
    let limit = ErasableText::MAX_BYTES as u64 + 1;
    std::io::stdin()
        .take(limit)
        .read_to_string(&mut read)
        .map_err(|error| {
            CommandError::new(
                CommandExit::Error,
                format!("Standard input cannot be read: {error}"),
            )
        })?;
    Ok(read)
}
