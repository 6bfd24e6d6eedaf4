//! Claims, and how their work ends.

use std::io::Read;

use lifecycle::SubmitExceptions;
use plan::decision::ReportedDecision;
use plan::stage::{Category, ResultContent};
use plan::{Phase, Span, Text};
use serde_json::json;

use crate::cli::App;
use crate::commands::plumbing::{HolderArgs, answered, lease};
use crate::commands::{Answer, Conditions};
use crate::error::CommandError;
use crate::exit::Exit;
use crate::wire::SandboxView;

/// A claim.
#[derive(Debug, clap::Args)]
pub struct StartArgs {
    /// The plan.
    id: String,
    /// Who claims it; others are told this name.
    #[arg(long, value_name = "NAME", value_parser = owner)]
    owner: String,
    /// How long the lease runs without a renewal.
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=86_400))]
    lease_seconds: u32,
    #[command(flatten)]
    conditions: Conditions,
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
pub struct RenewArgs {
    #[command(flatten)]
    holder: HolderArgs,
    /// How long it runs from now.
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=86_400))]
    lease_seconds: u32,
}

/// A reclaim.
#[derive(Debug, clap::Args)]
pub struct ReclaimArgs {
    /// The plan; without one, every plan whose lease has expired.
    id: Option<String>,
    #[command(flatten)]
    conditions: Conditions,
}

/// A failure.
#[derive(Debug, clap::Args)]
pub struct FailArgs {
    #[command(flatten)]
    holder: HolderArgs,
    /// transient, timeout, actor, strategy, resource, budget, unanswered, lost or internal.
    #[arg(long, value_name = "C")]
    category: Category,
    /// What happened.
    #[arg(long, value_name = "M")]
    message: String,
}

/// A question.
#[derive(Debug, clap::Args)]
pub struct AskArgs {
    #[command(flatten)]
    holder: HolderArgs,
    /// What is asked.
    #[arg(long, value_name = "Q")]
    question: String,
    /// Give up after so many seconds without an answer.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    patience_seconds: Option<u32>,
}

pub fn start(phase: Phase, args: &StartArgs, app: &App) -> Result<Answer, CommandError> {
    let lifecycle = app.lifecycle()?;
    let plan = app.plan(&args.id)?;
    let call = args.conditions.apply(app.call());
    let lease = lease(args.lease_seconds);
    let claim = match phase {
        Phase::Strategize => lifecycle.start_strategize(plan, &args.owner, lease, &call)?,
        Phase::Execute => lifecycle.start_execute(plan, &args.owner, lease, &call)?,
        Phase::Apply => lifecycle.start_apply(plan, &args.owner, lease, &call)?,
    };
    let mut answer = answered(app, claim.done())?;
    let sandboxes: Vec<SandboxView> = claim.sandboxes().iter().map(SandboxView::from).collect();
    answer.data["sandboxes"] = json!(sandboxes);
    Ok(answer)
}

pub fn complete_strategize(
    args: &CompleteStrategizeArgs,
    app: &App,
) -> Result<Answer, CommandError> {
    let decisions = match &args.decisions {
        None => Vec::new(),
        Some(text) => decisions(&given_or_stdin(text)?)?,
    };
    let call = args.holder.conditions.apply(app.call());
    let plan = app.plan(&args.holder.id)?;
    let done = app
        .lifecycle()?
        .complete_strategize(plan, args.holder.epoch(), decisions, &call)?;
    answered(app, &done)
}

pub fn complete_execute(args: &CompleteExecuteArgs, app: &App) -> Result<Answer, CommandError> {
    let report = args.report.as_deref().map(given_or_stdin).transpose()?;
    let result = ResultContent {
        report: report.map(Text::from),
        trees: Vec::new(),
    };
    let call = args.holder.conditions.apply(app.call());
    let plan = app.plan(&args.holder.id)?;
    let (lifecycle, epoch) = (app.lifecycle()?, args.holder.epoch());
    let allowed = SubmitExceptions {
        empty: args.allow_empty,
        markers: args.allow_markers,
    };
    let done = lifecycle.complete_execute_with(plan, epoch, &result, allowed, &call)?;
    answered(app, &done)
}

pub fn renew(args: &RenewArgs, app: &App) -> Result<Answer, CommandError> {
    let call = args.holder.conditions.apply(app.call());
    let plan = app.plan(&args.holder.id)?;
    let done =
        app.lifecycle()?
            .renew(plan, args.holder.epoch(), lease(args.lease_seconds), &call)?;
    answered(app, &done)
}

pub fn release(args: &HolderArgs, app: &App) -> Result<Answer, CommandError> {
    let call = args.conditions.apply(app.call());
    let done = app
        .lifecycle()?
        .release(app.plan(&args.id)?, args.epoch(), &call)?;
    answered(app, &done)
}

pub fn reclaim(args: &ReclaimArgs, app: &App) -> Result<Answer, CommandError> {
    let call = args.conditions.apply(app.call());
    let lifecycle = app.lifecycle()?;
    if let Some(id) = &args.id {
        return answered(app, &lifecycle.reclaim(app.plan(id)?, &call)?);
    }
    let reclaimed = lifecycle.reclaim_expired(1000, &call)?;
    let views = reclaimed
        .iter()
        .map(|plan| app.view(plan.id))
        .collect::<Result<Vec<_>, _>>()?;
    Ok(Answer::new(json!({ "reclaimed": views }), String::new()))
}

pub fn fail(args: &FailArgs, app: &App) -> Result<Answer, CommandError> {
    let call = args.holder.conditions.apply(app.call());
    let plan = app.plan(&args.holder.id)?;
    let done = app.lifecycle()?.fail(
        plan,
        args.holder.epoch(),
        args.category,
        &args.message,
        &call,
    )?;
    answered(app, &done)
}

pub fn ask(args: &AskArgs, app: &App) -> Result<Answer, CommandError> {
    let call = args.holder.conditions.apply(app.call());
    let plan = app.plan(&args.holder.id)?;
    let patience = args
        .patience_seconds
        .map(|seconds| Span::seconds(i64::from(seconds)));
    let done = app
        .lifecycle()?
        .ask(plan, args.holder.epoch(), &args.question, patience, &call)?;
    answered(app, &done)
}

fn owner(text: &str) -> Result<String, String> {
    if (1..=200).contains(&text.len()) && !text.chars().any(char::is_control) {
        Ok(text.to_owned())
    } else {
        Err("an owner is 1 to 200 printable characters".to_owned())
    }
}

fn decisions(text: &str) -> Result<Vec<ReportedDecision>, CommandError> {
    serde_json::from_str(text).map_err(|error| {
        CommandError::usage(format!(
            "The decisions are not the JSON list they should be: {error}"
        ))
        .hint(r#"[{"kind": "strategy_choice", "question": "How?", "choice": "Like this."}]"#)
    })
}

/// The text itself, or standard input for `-`; never more than a text may be long.
fn given_or_stdin(text: &str) -> Result<String, CommandError> {
    if text != "-" {
        return Ok(text.to_owned());
    }
    let mut read = String::new();
    let limit = Text::MAX_BYTES as u64 + 1;
    std::io::stdin()
        .take(limit)
        .read_to_string(&mut read)
        .map_err(|error| {
            CommandError::new(
                Exit::Error,
                format!("Standard input cannot be read: {error}"),
            )
        })?;
    Ok(read)
}
