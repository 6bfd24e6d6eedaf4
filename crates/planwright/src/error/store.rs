//! Exit codes, kinds and hints for errors of the store and for handles that do not resolve.

use lifecycle::HandleError;
use store::StoreError;

use super::{CommandError, capitalize_sentence};
use crate::exit::CommandExit;

impl From<StoreError> for CommandError {
    fn from(error: StoreError) -> Self {
        let message = error.to_string();
        let message = match error {
            // These messages begin with a path or address, which must not be capitalized.
            StoreError::Unusable { .. }
            | StoreError::NotAStore { .. }
            | StoreError::NewerSchema { .. }
            | StoreError::OlderSchema { .. }
            | StoreError::NetworkFileSystem { .. }
            | StoreError::Busy { .. }
            | StoreError::Corrupt { .. } => message,
            StoreError::Full { .. }
            | StoreError::Unreachable { .. }
            | StoreError::NoSuchPlan { .. }
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
                .with_hint("Use the newer planwright that wrote it, or choose another --store."),
            StoreError::NotAStore { .. } => base
                .with_kind("not_a_store")
                .with_hint("Point --store at another file. This one was not changed."),
            StoreError::NetworkFileSystem { .. } => {
                base.with_kind("network_file_system").with_hint(
                    "Keep the store on a local disk, or share plans through --store postgres://…",
                )
            }
            StoreError::Full { .. } => base
                .with_kind("full")
                .with_hint("Free some space and repeat the command. Nothing was stored."),
            StoreError::Unreachable { .. } => base.with_kind("unreachable").with_hint(
                "Check that the server is running and repeat the command. Nothing was stored.",
            ),
            StoreError::Busy { .. } => base
                .with_kind("busy")
                .with_hint("Nothing was stored. Repeat the command."),
            StoreError::Corrupt { .. } => base
                .with_kind("corrupt")
                .with_hint("planwright store verify"),
            StoreError::Unusable { .. } => base
                .with_kind("unusable")
                .with_hint("Choose another location with --store sqlite:PATH or PLANWRIGHT_HOME."),
            StoreError::Database { .. } => base
                .with_kind("database")
                .with_hint("Nothing was stored. Repeat the command.")
                .with_hint("planwright doctor"),
            StoreError::NoSuchPlan { .. } => {
                base.with_kind("no_such_plan").with_hint("planwright list")
            }
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
            HandleError::Ambiguous { candidates, .. } => Self::usage(message)
                .with_kind("ambiguous_handle")
                .with_hint(format!("Use one of: {}", candidates.join(", "))),
            HandleError::Store(error) => error.into(),
        }
    }
}
