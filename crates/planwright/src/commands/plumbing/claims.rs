//! Claims, and how their work ends.

use std::io::Read;

use lifecycle::SubmitExceptions;
use plan::decision::ReportedDecision;
use plan::stage::{FailureCategory, ResultContent};
use plan::{ErasableText, Phase, Span};
use serde_json::json;

use crate::cli::App;
use crate::commands::plumbing::{HolderArgs, answer_with_receipt, lease_span};
use crate::commands::{CommandAnswer, ConditionArgs};
use crate::error::CommandError;
use crate::exit::CommandExit;
use crate::wire::SandboxView;

/// A claim.
#[derive(Debug, clap::Args)]
pub struct StartPhaseArgs {
    /// The plan.
    id: String,
    /// Who claims it; others are told this name.
    #[arg(long, value_name = "NAME", value_parser = parse_owner)]
    owner: String,
    /// How long the lease runs without a renewal.
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=86_400))]
    lease_seconds: u32,
    #[command(flatten)]
    conditions: ConditionArgs,
}

/// A strategy.
#[derive(Debug, clap::Args)]
pub struct CompleteStrategizeArgs {
    #[command(flatten)]
    holder: HolderArgs,
    /// Decisions as a JSON list of {kind, question, choice, …}; - reads them from standard input.
    #[arg(long, value_name = "JSON")]
    decisions: Option<String>,
}

/// A result.
#[derive(Debug, clap::Args)]
pub struct CompleteExecuteArgs {
    #[command(flatten)]
    holder: HolderArgs,
    /// The report; - reads it from standard input.
    #[arg(long, value_name = "TEXT")]
    report: Option<String>,
    /// Hand it in even if nothing changed.
    #[arg(long)]
    allow_empty: bool,
    /// Submit even if conflict markers remain.
    #[arg(long)]
    allow_markers: bool,
}

/// A renewal.
#[derive(Debug, clap::Args)]
pub struct RenewLeaseArgs {
    #[command(flatten)]
    holder: HolderArgs,
    /// How long it runs from now.
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=86_400))]
    lease_seconds: u32,
}

/// A reclaim.
#[derive(Debug, clap::Args)]
pub struct ReclaimLeaseArgs {
    /// The plan; without one, every plan whose lease has expired.
    id: Option<String>,
    #[command(flatten)]
    conditions: ConditionArgs,
}

/// A failure.
#[derive(Debug, clap::Args)]
pub struct FailWorkArgs {
    #[command(flatten)]
    holder: HolderArgs,
    /// transient, timeout, actor, strategy, resource, budget, unanswered, lost or internal.
    #[arg(long, value_name = "C")]
    category: FailureCategory,
    /// What happened.
    #[arg(long, value_name = "M")]
    message: String,
}

/// A question.
#[derive(Debug, clap::Args)]
pub struct AskQuestionArgs {
    #[command(flatten)]
    holder: HolderArgs,
    /// What is asked.
    #[arg(long, value_name = "Q")]
    question: String,
    /// Give up after so many seconds without an answer.
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
        Phase::Strategize => lifecycle.start_strategize(plan_id, &args.owner, lease, &call)?,
        Phase::Execute => lifecycle.start_execute(plan_id, &args.owner, lease, &call)?,
        Phase::Apply => lifecycle.start_apply(plan_id, &args.owner, lease, &call)?,
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
    let call = args.holder.conditions.apply_to(app.new_call());
    let plan_id = app.resolve_plan(&args.holder.id)?;
    let done =
        app.lifecycle()?
            .complete_strategize(plan_id, args.holder.epoch(), decisions, &call)?;
    answer_with_receipt(app, &done)
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
    let call = args.holder.conditions.apply_to(app.new_call());
    let plan_id = app.resolve_plan(&args.holder.id)?;
    let done = app.lifecycle()?.renew_lease(
        plan_id,
        args.holder.epoch(),
        lease_span(args.lease_seconds),
        &call,
    )?;
    answer_with_receipt(app, &done)
}

pub fn release_lease(args: &HolderArgs, app: &App) -> Result<CommandAnswer, CommandError> {
    let call = args.conditions.apply_to(app.new_call());
    let done = app
        .lifecycle()?
        .release_lease(app.resolve_plan(&args.id)?, args.epoch(), &call)?;
    answer_with_receipt(app, &done)
}

pub fn reclaim_leases(args: &ReclaimLeaseArgs, app: &App) -> Result<CommandAnswer, CommandError> {
    let call = args.conditions.apply_to(app.new_call());
    let lifecycle = app.lifecycle()?;
    if let Some(id) = &args.id {
        return answer_with_receipt(app, &lifecycle.reclaim_lease(app.resolve_plan(id)?, &call)?);
    }
    let reclaimed = lifecycle.reclaim_expired_leases(1000, &call)?;
    let views = reclaimed
        .iter()
        .map(|plan| app.plan_view(plan.id))
        .collect::<Result<Vec<_>, _>>()?;
    Ok(CommandAnswer::new(
        json!({ "reclaimed": views }),
        String::new(),
    ))
}

pub fn fail_work(args: &FailWorkArgs, app: &App) -> Result<CommandAnswer, CommandError> {
    let call = args.holder.conditions.apply_to(app.new_call());
    let plan_id = app.resolve_plan(&args.holder.id)?;
    let done = app.lifecycle()?.fail_work(
        plan_id,
        args.holder.epoch(),
        args.category,
        &args.message,
        &call,
    )?;
    answer_with_receipt(app, &done)
}

pub fn ask_question(args: &AskQuestionArgs, app: &App) -> Result<CommandAnswer, CommandError> {
    let call = args.holder.conditions.apply_to(app.new_call());
    let plan_id = app.resolve_plan(&args.holder.id)?;
    let patience = args
        .patience_seconds
        .map(|seconds| Span::from_seconds(i64::from(seconds)));
    let done = app.lifecycle()?.ask_question(
        plan_id,
        args.holder.epoch(),
        &args.question,
        patience,
        &call,
    )?;
    answer_with_receipt(app, &done)
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
            "The decisions are not the JSON list they should be: {error}"
        ))
        .with_hint(r#"[{"kind": "strategy_choice", "question": "How?", "choice": "Like this."}]"#)
    })
}

/// The text itself, or standard input for `-`; never more than a text may be long.
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
