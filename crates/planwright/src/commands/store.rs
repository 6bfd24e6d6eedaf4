//! `planwright store`: migrates, backs up and verifies the store.

use std::path::{Path, PathBuf};

use clap::Subcommand;
use serde_json::json;
use store::StoreError;

use crate::cli::App;
use crate::commands::CommandAnswer;
use crate::error::CommandError;
use crate::exit::CommandExit;
use crate::ui;

/// Maintain the store
#[derive(Debug, Subcommand)]
pub enum StoreCommand {
    /// Migrate the store to the latest schema
    Migrate,
    /// Write a consistent copy of the store to a new file
    Backup {
        /// File to write; must not exist
        file: PathBuf,
    },
    /// Check that every plan matches its events and that no event was changed
    Verify,
}

impl StoreCommand {
    pub fn run(self, app: &App) -> Result<CommandAnswer, CommandError> {
        let store = app.lifecycle()?.store();
        match self {
            Self::Migrate => {
                let (before, after) = store.migrate_schema()?;
                let text = if before == after {
                    format!("The store already has schema {after}.\n")
                } else {
                    format!("Migrated the store from schema {before} to {after}.\n")
                };
                Ok(CommandAnswer::new(
                    json!({ "before": before, "after": after }),
                    text,
                ))
            }
            Self::Backup { file } => {
                store
                    .write_backup(&file)
                    .map_err(|error| backup_error(error, &file))?;
                let text = format!("Backed up the store to {}\n", file.display());
                Ok(CommandAnswer::new(json!({ "file": file }), text))
            }
            Self::Verify => {
                let verified = store::verify::verify_store(store)?;
                let mut text = format!(
                    "Checked {} and {}.\n",
                    ui::pluralize(verified.plans, "plan"),
                    ui::pluralize(verified.events, "event")
                );
                for problem in &verified.problems {
                    text.push_str(&format!(
                        "{}\n",
                        ui::style_text(ui::BAD, ui::escape_controls(problem))
                    ));
                }
                if verified.problems.is_empty() {
                    text.push_str(
                        "All hash chains are intact, and every plan matches its events.\n",
                    );
                }
                let exit = if verified.problems.is_empty() {
                    CommandExit::Ok
                } else {
                    CommandExit::Error
                };
                let data = json!({
                    "plans": verified.plans,
                    "events": verified.events,
                    "problems": verified.problems,
                });
                Ok(CommandAnswer {
                    exit,
                    ..CommandAnswer::new(data, text)
                })
            }
        }
    }
}

/// Tells problems with the target file apart from problems with the store.
fn backup_error(error: StoreError, file: &Path) -> CommandError {
    match error {
        StoreError::Unusable { place, why } if Path::new(&place) == file => CommandError::new(
            CommandExit::Error,
            format!("{place} cannot be written: {why}"),
        )
        .with_hint("planwright store backup FILE"),
        StoreError::Unusable { place, why } => CommandError::new(
            CommandExit::Error,
            format!("{place} cannot be copied: {why}"),
        )
        .with_hint("planwright init"),
        other => other.into(),
    }
}
