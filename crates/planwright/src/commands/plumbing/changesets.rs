//! Plumbing commands that open, fill, seal and show changesets.

use std::ffi::OsString;

use plan::ChangesetId;
use plan::changeset::{ChangesetEntry, Node, PathOperation};
use plan::command::{ChangesetSelector, RecordChange, SealChangeset};
use serde_json::json;

use crate::cli::App;
use crate::commands::plumbing::phases::ShowPlanArgs;
use crate::commands::plumbing::{HolderArgs, answer_with_receipt};
use crate::commands::{CommandAnswer, revise};
use crate::error::CommandError;
use api::view::ChangesetView;

#[derive(Debug, clap::Args)]
pub struct OpenChangesetArgs {
    #[command(flatten)]
    holder: HolderArgs,
    /// Unit of work the changeset belongs to
    #[arg(long, value_name = "N", default_value = "main")]
    node: Node,
}

#[derive(Debug, clap::Args)]
pub struct RecordChangeArgs {
    #[command(flatten)]
    holder: HolderArgs,
    /// Record into this changeset
    #[arg(long, value_name = "C", conflicts_with = "node")]
    changeset: Option<ChangesetId>,
    /// Record into the open changeset of this unit of work
    #[arg(long, value_name = "N")]
    node: Option<Node>,
    /// Changed path
    #[arg(long, value_name = "P")]
    path: OsString,
    /// Kind of change: create, modify, delete or rename
    #[arg(long, value_name = "O")]
    operation: PathOperation,
    /// Hash of the old content
    #[arg(long, value_name = "H", value_parser = parse_hash)]
    before: Option<String>,
    /// Hash of the new content
    #[arg(long, value_name = "H", value_parser = parse_hash)]
    after: Option<String>,
    /// Old path of a rename
    #[arg(long, value_name = "P")]
    from: Option<OsString>,
    /// New file mode, in octal
    #[arg(long, value_name = "MODE", value_parser = parse_mode)]
    mode: Option<String>,
    /// Tool that made the change
    #[arg(long, value_name = "TOOL")]
    tool: Option<String>,
}

#[derive(Debug, clap::Args)]
pub struct SealChangesetArgs {
    #[command(flatten)]
    holder: HolderArgs,
    /// Changeset to seal
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
            "--from is required for --operation rename, and only allowed there.",
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
    args.holder
        .submit_command(RecordChange::new(args.holder.epoch(), into, entry), app)
}

pub fn seal_changeset(args: &SealChangesetArgs, app: &App) -> Result<CommandAnswer, CommandError> {
    args.holder
        .submit_command(SealChangeset::new(args.holder.epoch(), args.changeset), app)
}

pub fn list_changesets(args: &ShowPlanArgs, app: &App) -> Result<CommandAnswer, CommandError> {
    let plan_id = app.resolve_plan(&args.id)?;
    let changesets = app.lifecycle()?.history().list_changesets(plan_id)?;
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
        Err("a hash is 1 to 128 printable ASCII characters".to_owned())
    }
}

fn parse_mode(text: &str) -> Result<String, String> {
    if (3..=6).contains(&text.len()) && text.bytes().all(|b| (b'0'..=b'7').contains(&b)) {
        Ok(text.to_owned())
    } else {
        Err("a mode is octal, as in 100644".to_owned())
    }
}
