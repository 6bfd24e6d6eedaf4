//! Changesets.

use std::ffi::OsString;

use plan::ChangesetId;
use plan::changeset::{ChangesetEntry, Node, PathOperation};
use plan::command::ChangesetSelector;
use serde_json::json;

use crate::cli::App;
use crate::commands::plumbing::phases::ShowPlanArgs;
use crate::commands::plumbing::{HolderArgs, answer_with_receipt};
use crate::commands::{CommandAnswer, revise};
use crate::error::CommandError;
use crate::wire::ChangesetView;

/// A new changeset.
#[derive(Debug, clap::Args)]
pub struct OpenChangesetArgs {
    #[command(flatten)]
    holder: HolderArgs,
    /// Its unit of work.
    #[arg(long, value_name = "N", default_value = "main")]
    node: Node,
}

/// A change.
#[derive(Debug, clap::Args)]
pub struct RecordChangeArgs {
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
    operation: PathOperation,
    /// Hash of the content before.
    #[arg(long, value_name = "H", value_parser = parse_hash)]
    before: Option<String>,
    /// Hash of the content after.
    #[arg(long, value_name = "H", value_parser = parse_hash)]
    after: Option<String>,
    /// Where a renamed path came from.
    #[arg(long, value_name = "P")]
    from: Option<OsString>,
    /// File mode after, in octal.
    #[arg(long, value_name = "MODE", value_parser = parse_mode)]
    mode: Option<String>,
    /// The tool that did it.
    #[arg(long, value_name = "TOOL")]
    tool: Option<String>,
}

/// A changeset to close.
#[derive(Debug, clap::Args)]
pub struct SealChangesetArgs {
    #[command(flatten)]
    holder: HolderArgs,
    /// Which.
    #[arg(long, value_name = "C")]
    changeset: ChangesetId,
}

pub fn open_changeset(args: &OpenChangesetArgs, app: &App) -> Result<CommandAnswer, CommandError> {
    let call = args.holder.conditions.apply_to(app.new_call());
    let plan_id = app.resolve_plan(&args.holder.id)?;
    let done =
        app.lifecycle()?
            .open_changeset(plan_id, args.holder.epoch(), args.node.clone(), &call)?;
    answer_with_receipt(app, &done)
}

pub fn record_change(args: &RecordChangeArgs, app: &App) -> Result<CommandAnswer, CommandError> {
    let into = match (args.changeset, &args.node) {
        (Some(id), _) => ChangesetSelector::Changeset(id),
        (None, Some(node)) => ChangesetSelector::Node(node.clone()),
        (None, None) => ChangesetSelector::OnlyOpen,
    };
    if args.from.is_some() != (args.operation == PathOperation::Rename) {
        return Err(CommandError::usage(
            "--from goes with --operation rename, and a rename needs it.",
        ));
    }
    let entry = ChangesetEntry {
        from: args
            .from
            .as_ref()
            .map(revise::parse_tree_path)
            .transpose()?,
        before: args.before.clone(),
        after: args.after.clone(),
        mode: args.mode.clone(),
        tool: args.tool.clone(),
        ..ChangesetEntry::new(revise::parse_tree_path(&args.path)?, args.operation)
    };
    let call = args.holder.conditions.apply_to(app.new_call());
    let plan_id = app.resolve_plan(&args.holder.id)?;
    let done = app
        .lifecycle()?
        .record_change(plan_id, args.holder.epoch(), into, entry, &call)?;
    answer_with_receipt(app, &done)
}

pub fn seal_changeset(args: &SealChangesetArgs, app: &App) -> Result<CommandAnswer, CommandError> {
    let call = args.holder.conditions.apply_to(app.new_call());
    let plan_id = app.resolve_plan(&args.holder.id)?;
    let done =
        app.lifecycle()?
            .seal_changeset(plan_id, args.holder.epoch(), args.changeset, &call)?;
    answer_with_receipt(app, &done)
}

pub fn list_changesets(args: &ShowPlanArgs, app: &App) -> Result<CommandAnswer, CommandError> {
    let plan_id = app.resolve_plan(&args.id)?;
    let changesets = app.lifecycle()?.list_changesets(plan_id)?;
    let views: Vec<ChangesetView> = changesets
        .iter()
        .map(|(changeset, entries)| ChangesetView::new(changeset, entries))
        .collect();
    Ok(CommandAnswer::new(
        json!({ "plan_id": plan_id, "changesets": views }),
        String::new(),
    ))
}

fn parse_hash(text: &str) -> Result<String, String> {
    if (1..=128).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic()) {
        Ok(text.to_owned())
    } else {
        Err("a hash is 1 to 128 letters, digits and signs".to_owned())
    }
}

fn parse_mode(text: &str) -> Result<String, String> {
    if (3..=6).contains(&text.len()) && text.bytes().all(|b| (b'0'..=b'7').contains(&b)) {
        Ok(text.to_owned())
    } else {
        Err("a mode is octal, as in 100644".to_owned())
    }
}
