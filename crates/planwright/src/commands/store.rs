//! `planwright store`.

use std::path::{Path, PathBuf};

use clap::Subcommand;
use serde_json::json;
use store::StoreError;

use crate::cli::App;
use crate::commands::Answer;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::ui;

/// Look after the store.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Bring the store's schema up to this program's.
    Migrate,
    /// Write a consistent copy of the store to a new file.
    Backup {
        /// The file to write; it must not exist.
        file: PathBuf,
    },
    /// Check that every plan is what its events say, and that no event was changed.
    Verify,
}

impl Command {
    /// Carries it out.
    pub fn run(self, app: &App) -> Result<Answer, CommandError> {
        let store = app.lifecycle()?.store();
        match self {
            Self::Migrate => {
                let (before, after) = store.migrate()?;
                let text = if before == after {
                    format!("The store has schema {after} already.\n")
                } else {
                    format!("Migrated the store from schema {before} to {after}.\n")
                };
                Ok(Answer::new(
                    json!({ "before": before, "after": after }),
                    text,
                ))
            }
            Self::Backup { file } => {
                store
                    .backup(&file)
                    .map_err(|error| not_copied(error, &file))?;
                let text = format!("Copied the store to {}\n", file.display());
                Ok(Answer::new(json!({ "file": file }), text))
            }
            Self::Verify => {
                let verified = store::verify::verify(store)?;
                let mut text = format!(
                    "Walked {} and {}.\n",
                    ui::count(verified.plans, "plan"),
                    ui::count(verified.events, "event")
                );
                for problem in &verified.problems {
                    text.push_str(&format!("{}\n", ui::styled(ui::BAD, ui::clean(problem))));
                }
                if verified.problems.is_empty() {
                    text.push_str("Every chain is whole, and every plan is what its events say.\n");
                }
                let exit = if verified.problems.is_empty() {
                    Exit::Ok
                } else {
                    Exit::Error
                };
                let data = json!({
                    "plans": verified.plans,
                    "events": verified.events,
                    "problems": verified.problems,
                });
                Ok(Answer {
                    exit,
                    ..Answer::new(data, text)
                })
            }
        }
    }
}

/// What is wrong with the copy is not wrong with the store.
fn not_copied(error: StoreError, file: &Path) -> CommandError {
    match error {
        StoreError::Unusable { place, why } if Path::new(&place) == file => {
            CommandError::new(Exit::Error, format!("{place} cannot be written: {why}"))
                .hint("planwright store backup FILE")
        }
        StoreError::Unusable { place, why } => {
            CommandError::new(Exit::Error, format!("{place} cannot be copied: {why}"))
                .hint("planwright init")
        }
        other => other.into(),
    }
}
