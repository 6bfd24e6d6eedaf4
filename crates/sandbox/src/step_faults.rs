//! Fault points: where tests make a step fail, or kill the process.
//!
//! In production nothing is installed and a point costs one branch.

use std::fmt;
use std::sync::Arc;

macro_rules! steps {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// A place between two effects, named after what was just done.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Step { $($(#[$doc])* $name,)* }

        impl Step {
            /// Every step, in the order in which a plan passes them.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// As tests write it.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }
        }
    };
}

steps! {
    /// The vault exists.
    VaultMade = "vault-made",
    /// The base is pinned in the user's repository.
    BasePinned = "base-pinned",
    /// The files of a new sandbox are there, its repository is not.
    FilesLaidOut = "files-laid-out",
    /// The sandbox has its repository, but is not declared whole.
    RepositoryMade = "repository-made",
    /// The sandbox is whole.
    SandboxReady = "sandbox-ready",
    /// The tree is written, nothing points to it.
    TreeWritten = "tree-written",
    /// The checkpoint points to it.
    Checkpointed = "checkpointed",
    /// The fence is at this holder's epoch.
    Fenced = "fenced",
    /// The commit to land exists in the vault.
    Committed = "committed",
    /// Its objects are in the user's repository.
    ObjectsCopied = "objects-copied",
    /// They are pinned there.
    Pinned = "pinned",
    /// The index is locked.
    IndexLocked = "index-locked",
    /// The new files lie ready.
    Staged = "staged",
    /// The journal is durable.
    Journalled = "journalled",
    /// The new index is in place.
    IndexPlaced = "index-placed",
    /// The branch points to the commit.
    RefMoved = "ref-moved",
    /// Some of the files are exchanged.
    SomeExchanged = "some-exchanged",
    /// All of them are.
    AllExchanged = "all-exchanged",
    /// The index knows how they look.
    IndexRefreshed = "index-refreshed",
    /// The index is free again.
    Unlocked = "unlocked",
    /// Journal and displaced files are gone.
    JournalRemoved = "journal-removed",
    /// Pins are gone.
    Unpinned = "unpinned",
    /// Work that did not land has its rescue ref.
    Rescued = "rescued",
    /// The sandbox was moved out of the way.
    SandboxSetAside = "sandbox-set-aside",
}

/// Decides what happens at each step. A fault that kills the process simply does not return.
#[derive(Clone, Default)]
pub struct StepFaults(Option<Arc<dyn Fn(Step) -> std::io::Result<()> + Send + Sync>>);

impl StepFaults {
    /// Faults as this function says.
    pub fn new(decide: impl Fn(Step) -> std::io::Result<()> + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(decide)))
    }

    /// The step was done; does the next one happen?
    pub(crate) fn check_step(&self, step: Step) -> std::io::Result<()> {
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
