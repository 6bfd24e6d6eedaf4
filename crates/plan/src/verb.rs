//! The names of everything that can be asked of the engine.

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! verbs {
    ($($(#[$doc:meta])* $variant:ident = $text:literal,)*) => {
        /// What a command does, without its details.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "kebab-case")]
        pub enum Verb {
            $($(#[$doc])* $variant,)*
        }

        impl Verb {
            /// Every verb, in the order of a plan's life.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// As it is typed.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }
        }
    };
}

verbs! {
    /// Store a new action.
    CreateAction = "create-action",
    /// Take an action out of use.
    ArchiveAction = "archive-action",
    /// Add a rule to a scope.
    AddRule = "add-rule",
    /// Remove a rule from its scope.
    RemoveRule = "remove-rule",
    /// Store a new project.
    CreateProject = "create-project",
    /// Add a resource to a project.
    LinkResource = "link-resource",
    /// Take a resource from a project.
    UnlinkResource = "unlink-resource",
    /// Say where a resource lies now.
    RelinkResource = "relink-resource",
    /// Keep a project's plans from starting to work.
    PauseProject = "pause-project",
    /// Let a project's plans start again.
    ResumeProject = "resume-project",
    /// Remove a project.
    DeleteProject = "delete-project",
    /// Make a plan of an action or a goal.
    Use = "use",
    /// Claim the strategize phase.
    StartStrategize = "start-strategize",
    /// Say what the sandboxes start from.
    RecordBases = "record-bases",
    /// Hand in the strategy.
    CompleteStrategize = "complete-strategize",
    /// Move a finished strategy into execute.
    ExecutePlan = "execute-plan",
    /// Claim the execute phase.
    StartExecute = "start-execute",
    /// Open a changeset.
    OpenChangeset = "open-changeset",
    /// Record one change.
    RecordChange = "record-change",
    /// Close a changeset for good.
    SealChangeset = "seal-changeset",
    /// Hand in the result.
    CompleteExecute = "complete-execute",
    /// Sign the result.
    Approve = "approve",
    /// Move a finished result into apply.
    ApplyPlan = "apply-plan",
    /// Claim the apply phase.
    StartApply = "start-apply",
    /// Store what is about to be done to the targets.
    PrepareApply = "prepare-apply",
    /// Take that back, nothing having been done.
    WithdrawApply = "withdraw-apply",
    /// Record that everything landed.
    CompleteApply = "complete-apply",
    /// Record that it cannot land as it is.
    Constrain = "constrain",
    /// Keep a lease.
    Renew = "renew",
    /// Set means aside for a holder's work.
    Reserve = "reserve",
    /// Charge what a holder used.
    Settle = "settle",
    /// Give a lease back.
    Release = "release",
    /// Take a lease from a holder that is gone.
    Reclaim = "reclaim",
    /// End work with an error.
    Fail = "fail",
    /// Ask a person.
    Ask = "ask",
    /// Answer the question.
    Answer = "answer",
    /// Give up on an unanswered question.
    ExpireQuestion = "expire-question",
    /// Try the phase again.
    Retry = "retry",
    /// Send the work back with feedback.
    Revise = "revise",
    /// Go back to strategize.
    Revert = "revert",
    /// Set a rule aside for this plan.
    Waive = "waive",
    /// Say whether a rule that asks holds.
    RuleOn = "rule-on",
    /// Keep what checks said of a subject.
    KeepEvidence = "keep-evidence",
    /// End the plan without landing.
    Cancel = "cancel",
    /// Make a plan that takes a landed one back.
    Undo = "undo",
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
