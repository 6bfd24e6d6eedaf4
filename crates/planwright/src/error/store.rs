//! What went wrong with the store, or with finding a plan in it.

use lifecycle::HandleError;
use store::StoreError;

use super::{CommandError, sentence};
use crate::exit::Exit;

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
            | StoreError::Unsupported { .. } => sentence(&message),
        };
        let base = Self::new(Exit::Error, message);
        match error {
            StoreError::OlderSchema { .. } => {
                base.kind("older_schema").hint("planwright store migrate")
            }
            StoreError::NewerSchema { .. } => base
                .kind("newer_schema")
                .hint("Use the newer planwright that wrote it, or another --store."),
            StoreError::NotAStore { .. } => base
                .kind("not_a_store")
                .hint("Point --store at another file; this one was left as it is."),
            StoreError::NetworkFileSystem { .. } => base.kind("network_file_system").hint(
                "Keep the store on a local disk, or share plans through --store postgres://…",
            ),
            StoreError::Full { .. } => base
                .kind("full")
                .hint("Free some space and run the command again; nothing was stored."),
            StoreError::Unreachable { .. } => base
                .kind("unreachable")
                .hint("Is the server running? Nothing was stored; repeat when it is."),
            StoreError::Busy { .. } => base
                .kind("busy")
                .hint("Nothing was stored; repeat the command."),
            StoreError::Corrupt { .. } => base.kind("corrupt").hint("planwright store verify"),
            StoreError::Unusable { .. } => base
                .kind("unusable")
                .hint("Give another place: --store sqlite:PATH, or set PLANWRIGHT_HOME."),
            StoreError::Database { .. } => base
                .kind("database")
                .hint("Nothing was stored; repeat the command.")
                .hint("planwright doctor"),
            StoreError::Unsupported { .. } => base.kind("unsupported"),
        }
    }
}

impl From<HandleError> for CommandError {
    fn from(error: HandleError) -> Self {
        let message = sentence(&error.to_string());
        match error {
            HandleError::NotAHandle(_) => Self::usage(message)
                .kind("not_a_handle")
                .hint("planwright list"),
            HandleError::Unknown(_) | HandleError::NoPlans => Self::new(Exit::NotFound, message)
                .kind("no_such_plan")
                .hint("planwright list"),
            HandleError::Ambiguous { plans, .. } => {
                let named: Vec<String> = plans.iter().take(5).map(ToString::to_string).collect();
                Self::usage(message)
                    .kind("ambiguous_handle")
                    .hint(format!("Give more of it: {}", named.join(", ")))
            }
            HandleError::Store(error) => error.into(),
        }
    }
}
