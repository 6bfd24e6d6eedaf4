//! Fault points between the steps of an operation, where tests make a step fail or kill the
//! process.
//!
//! In production no faults are installed, and a fault point costs one branch.

use std::fmt;
use std::sync::Arc;

macro_rules! steps {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// A point between two effects, named after the effect just completed.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum SandboxStep { $($(#[$doc])* $name,)* }

        impl SandboxStep {
            /// Every step, in the order in which a landing plan passes them; those of a pick are last.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// The name that tests use.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }
        }
    };
}

steps! {
    VaultMade = "vault-made",
    /// The base is pinned in the user's repository.
    BasePinned = "base-pinned",
    /// The files of a new sandbox exist; its repository does not.
    FilesLaidOut = "files-laid-out",
    /// The sandbox has its repository, but is not marked complete.
    RepositoryMade = "repository-made",
    /// The sandbox is marked complete.
    SandboxReady = "sandbox-ready",
    /// The tree is written; no ref points to it.
    TreeWritten = "tree-written",
    /// The checkpoint ref points to the tree.
    Checkpointed = "checkpointed",
    /// The fence is at this holder's epoch.
    Fenced = "fenced",
    /// The commit to land exists in the vault.
    Committed = "committed",
    /// The commit's objects are in the user's repository.
    ObjectsCopied = "objects-copied",
    /// The commit's objects are pinned in the user's repository.
    Pinned = "pinned",
    /// The user's index is locked.
    IndexLocked = "index-locked",
    /// The new files are staged beside the working tree.
    Staged = "staged",
    /// The journal is durable.
    Journalled = "journalled",
    IndexPlaced = "index-placed",
    RefMoved = "ref-moved",
    /// Some of the working tree's files are exchanged.
    SomeExchanged = "some-exchanged",
    AllExchanged = "all-exchanged",
    /// The index has the new files' stat data.
    IndexRefreshed = "index-refreshed",
    /// The index lock is removed.
    Unlocked = "unlocked",
    /// The journal and the displaced files are removed.
    JournalRemoved = "journal-removed",
    Unpinned = "unpinned",
    /// Work that did not land has its rescue ref.
    Rescued = "rescued",
    /// The sandbox is moved aside, to be removed.
    SandboxSetAside = "sandbox-set-aside",
    /// The picked tree is written; no ref points to it.
    PickWritten = "pick-written",
    /// A ref in the vault keeps the picked tree.
    PickKept = "pick-kept",
}

/// Decides what happens at each step. A fault that kills the process does not return.
#[derive(Clone, Default)]
pub struct StepFaults(Option<Arc<dyn Fn(SandboxStep) -> std::io::Result<()> + Send + Sync>>);

impl StepFaults {
    pub fn new(
        decide: impl Fn(SandboxStep) -> std::io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        Self(Some(Arc::new(decide)))
    }

    /// Called after a step; an error stops the operation before the next one.
    pub(crate) fn check_step(&self, step: SandboxStep) -> std::io::Result<()> {
        match &self.0 {
            Some(decide) => decide(step),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for StepFaults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() {
            "Faults(installed)"
        } else {
            "Faults(none)"
        })
    }
}
