//! What went wrong with the store, or with finding a plan in it.

use lifecycle::HandleError;
use store::StoreError;

use super::{CommandError, capitalize_sentence};
use crate::exit::CommandExit;

impl From<StoreError> for CommandError {
    fn from(error: StoreError) -> Self {
        let message = error.to_string();
        let message = match error {
            // These begin with a place, which stays as it is written.
            StoreError::Unusable { .. }
            | StoreError::NotAStore { .. }
            | StoreError::NewerSchema { .. }
            | StoreError::OlderSchema { .. }
            | StoreError::NetworkFileSystem { .. }
            | StoreError::Busy { .. }
            | StoreError::Corrupt { .. } => message,
            StoreError::Full { .. }
            | StoreError::Unreachable { .. }
            | StoreError::Database { .. }
            | StoreError::Unsupported { .. } => capitalize_sentence(&message),
        };
        let base = Self::new(CommandExit::Error, message);
        match error {
            StoreError::OlderSchema { .. } => base
                .with_kind("older_schema")
                .with_hint("planwright store migrate"),
            StoreError::NewerSchema { .. } => base
                .with_kind("newer_schema")
                .with_hint("Use the newer planwright that wrote it, or another --store."),
            StoreError::NotAStore { .. } => base
                .with_kind("not_a_store")
                .with_hint("Point --store at another file; this one was left as it is."),
            StoreError::NetworkFileSystem { .. } => {
                base.with_kind("network_file_system").with_hint(
                    "Keep the store on a local disk, or share plans through --store postgres://…",
                )
            }
            StoreError::Full { .. } => base
                .with_kind("full")
                .with_hint("Free some space and run the command again; nothing was stored."),
            StoreError::Unreachable { .. } => base
                .with_kind("unreachable")
                .with_hint("Is the server running? Nothing was stored; repeat when it is."),
            StoreError::Busy { .. } => base
                .with_kind("busy")
                .with_hint("Nothing was stored; repeat the command."),
            StoreError::Corrupt { .. } => base
                .with_kind("corrupt")
                .with_hint("planwright store verify"),
            StoreError::Unusable { .. } => base
                .with_kind("unusable")
                .with_hint("Give another place: --store sqlite:PATH, or set PLANWRIGHT_HOME."),
            StoreError::Database { .. } => base
                .with_kind("database")
                .with_hint("Nothing was stored; repeat the command.")
                .with_hint("planwright doctor"),
            StoreError::Unsupported { .. } => base.with_kind("unsupported"),
        }
    }
}

impl From<HandleError> for CommandError {
    fn from(error: HandleError) -> Self {
        let message = capitalize_sentence(&error.to_string());
        match error {
            HandleError::NotAHandle(_) => Self::usage(message)
                .with_kind("not_a_handle")
                .with_hint("planwright list"),
            HandleError::Unknown(_) | HandleError::NoPlans => {
                Self::new(CommandExit::NotFound, message)
                    .with_kind("no_such_plan")
                    .with_hint("planwright list")
            }
            HandleError::Ambiguous { plans, .. } => {
                let named: Vec<String> = plans.iter().take(5).map(ToString::to_string).collect();
                Self::usage(message)
                    .with_kind("ambiguous_handle")
                    .with_hint(format!("Give more of it: {}", named.join(", ")))
            }
            HandleError::Store(error) => error.into(),
        }
    }
}
