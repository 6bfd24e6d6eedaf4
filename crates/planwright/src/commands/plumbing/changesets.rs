//! Changesets.

use std::ffi::OsString;

use plan::ChangesetId;
use plan::changeset::{Entry, Node, Operation};
use plan::command::Into;
use serde_json::json;

use crate::cli::App;
use crate::commands::plumbing::moves::LookArgs;
use crate::commands::plumbing::{HolderArgs, answered};
use crate::commands::{Answer, revise};
use crate::error::CommandError;
use crate::wire::ChangesetView;

/// A new changeset.
#[derive(Debug, clap::Args)]
pub struct OpenArgs {
    #[command(flatten)]
    holder: HolderArgs,
    /// Its unit of work.
    #[arg(long, value_name = "N", default_value = "main")]
    node: Node,
}

/// A change.
#[derive(Debug, clap::Args)]
pub struct RecordArgs {
    #[command(flatten)]
    holder: HolderArgs,
    /// Into this changeset.
    #[arg(long, value_name = "C", conflicts_with = "node")]
    changeset: Option<ChangesetId>,
    /// Into the open changeset of this unit of work.
    #[arg(long, value_name = "N")]
    node: Option<Node>,
    /// What changed.
    #[arg(long, value_name = "P")]
    path: OsString,
    /// create, modify, delete or rename.
    #[arg(long, value_name = "O")]
    operation: Operation,
    /// Hash of the content before.
    #[arg(long, value_name = "H", value_parser = hash)]
    before: Option<String>,
    /// Hash of the content after.
    #[arg(long, value_name = "H", value_parser = hash)]
    after: Option<String>,
    /// Where a renamed path came from.
    #[arg(long, value_name = "P")]
    from: Option<OsString>,
    /// File mode after, in octal.
    #[arg(long, value_name = "MODE", value_parser = mode)]
    mode: Option<String>,
    /// The tool that did it.
    #[arg(long, value_name = "TOOL")]
    tool: Option<String>,
}

/// A changeset to close.
#[derive(Debug, clap::Args)]
pub struct SealArgs {
    #[command(flatten)]
    holder: HolderArgs,
    /// Which.
    #[arg(long, value_name = "C")]
    changeset: ChangesetId,
}

pub fn open(args: &OpenArgs, app: &App) -> Result<Answer, CommandError> {
    let call = args.holder.conditions.apply(app.call());
    let plan = app.plan(&args.holder.id)?;
    let done =
        app.lifecycle()?
            .open_changeset(plan, args.holder.epoch(), args.node.clone(), &call)?;
    answered(app, &done)
}

pub fn record(args: &RecordArgs, app: &App) -> Result<Answer, CommandError> {
    let into = match (args.changeset, &args.node) {
        (Some(id), _) => Into::Changeset(id),
        (None, Some(node)) => Into::Node(node.clone()),
        (None, None) => Into::OnlyOpen,
    };
    if args.from.is_some() != (args.operation == Operation::Rename) {
        return Err(CommandError::usage(
            "--from goes with --operation rename, and a rename needs it.",
        ));
    }
    let entry = Entry {
        from: args.from.as_ref().map(revise::tree_path).transpose()?,
        before: args.before.clone(),
        after: args.after.clone(),
        mode: args.mode.clone(),
        tool: args.tool.clone(),
        ..Entry::new(revise::tree_path(&args.path)?, args.operation)
    };
    let call = args.holder.conditions.apply(app.call());
    let plan = app.plan(&args.holder.id)?;
    let done = app
        .lifecycle()?
        .record_change(plan, args.holder.epoch(), into, entry, &call)?;
    answered(app, &done)
}

pub fn seal(args: &SealArgs, app: &App) -> Result<Answer, CommandError> {
    let call = args.holder.conditions.apply(app.call());
    let plan = app.plan(&args.holder.id)?;
    let done = app
        .lifecycle()?
        .seal_changeset(plan, args.holder.epoch(), args.changeset, &call)?;
    answered(app, &done)
}

pub fn list(args: &LookArgs, app: &App) -> Result<Answer, CommandError> {
    let plan = app.plan(&args.id)?;
    let changesets = app.lifecycle()?.changesets(plan)?;
    let views: Vec<ChangesetView> = changesets
        .iter()
        .map(|(changeset, entries)| ChangesetView::new(changeset, entries))
        .collect();
    Ok(Answer::new(
        json!({ "plan_id": plan, "changesets": views }),
        String::new(),
    ))
}

fn hash(text: &str) -> Result<String, String> {
    if (1..=128).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic()) {
        Ok(text.to_owned())
    } else {
        Err("a hash is 1 to 128 letters, digits and signs".to_owned())
    }
}

fn mode(text: &str) -> Result<String, String> {
    if (3..=6).contains(&text.len()) && text.bytes().all(|b| (b'0'..=b'7').contains(&b)) {
        Ok(text.to_owned())
    } else {
        Err("a mode is octal, as in 100644".to_owned())
    }
}
