//! Verbs: the names of all commands.

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! verbs {
    ($($(#[$doc:meta])* $variant:ident = $text:literal,)*) => {
        /// The kind of a command, without its details.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "kebab-case")]
        pub enum Verb {
            $($(#[$doc])* $variant,)*
        }

        impl Verb {
            /// Roughly in the order of a plan's life.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// Returns the name as typed.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }
        }
    };
}

verbs! {
    CreateAction = "create-action",
    ArchiveAction = "archive-action",
    AddRule = "add-rule",
    RemoveRule = "remove-rule",
    CreateProject = "create-project",
    LinkResource = "link-resource",
    UnlinkResource = "unlink-resource",
    /// Change the location of a resource.
    RelinkResource = "relink-resource",
    /// Stop a project's plans from starting work.
    PauseProject = "pause-project",
    ResumeProject = "resume-project",
    DeleteProject = "delete-project",
    /// Create a plan from an action or a goal.
    Use = "use",
    StartStrategize = "start-strategize",
    /// Record the base commits of the sandboxes.
    RecordBases = "record-bases",
    /// Submit the strategy.
    CompleteStrategize = "complete-strategize",
    /// Move a finished strategy into execute.
    ExecutePlan = "execute-plan",
    StartExecute = "start-execute",
    OpenChangeset = "open-changeset",
    RecordChange = "record-change",
    SealChangeset = "seal-changeset",
    /// Submit the result.
    CompleteExecute = "complete-execute",
    /// Replace the result by a part of it.
    Pick = "pick",
    Approve = "approve",
    /// Move a finished result into apply.
    ApplyPlan = "apply-plan",
    StartApply = "start-apply",
    /// Store the landing intent, before any target is changed.
    PrepareApply = "prepare-apply",
    /// Withdraw the landing intent.
    WithdrawApply = "withdraw-apply",
    /// Record that everything landed.
    CompleteApply = "complete-apply",
    /// Record that the result cannot land as it is.
    Constrain = "constrain",
    Renew = "renew",
    /// Reserve budget for a holder's run.
    Reserve = "reserve",
    /// Charge a holder's usage.
    Settle = "settle",
    Release = "release",
    /// Take the lease from a holder that is gone.
    Reclaim = "reclaim",
    Fail = "fail",
    Ask = "ask",
    Answer = "answer",
    /// Ask a person about one tool call, while the run goes on.
    AskPermission = "ask-permission",
    /// Allow or reject the tool call that a person was asked about.
    AnswerPermission = "answer-permission",
    /// Fail the phase because its question was not answered in time.
    ExpireQuestion = "expire-question",
    Retry = "retry",
    /// Send the work back to the actor with feedback.
    Revise = "revise",
    /// Go back to strategize.
    Revert = "revert",
    Waive = "waive",
    /// Record a person's verdict on a rule that asks.
    RuleOn = "rule-on",
    /// Store the verdicts of checks.
    KeepEvidence = "keep-evidence",
    /// End the plan without landing.
    Cancel = "cancel",
    /// Create a plan that undoes a landed one.
    Undo = "undo",
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
