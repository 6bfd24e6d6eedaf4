//! Events: the recorded transitions of a plan. The event log is authoritative; the plan is derived.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::argument::ArgumentValue;
use crate::changeset::{Node, TreePath};
use crate::decision::DecisionNode;
use crate::invariant::{Gate, RuleRef};
use crate::judgement::{RuleCounts, RuleOutcome, UnmetRule};
use crate::permission_question::ProposedToolCall;
use crate::plan::{PlanLimits, PlanOrigin, ProfileSource};
use crate::review::ReviewComment;
use crate::stage::{LandingConstraint, LandingIntent, PlanFailure, PlanQuestion, ResultContent};
use crate::{
    ActorDefinition, Caller, ChangesetId, Digest, Epoch, ErasableText, LandingOptions, Phase,
    PlanActors, PlanId, PlanResource, PlanVersion, Profile, QualifiedName, RepositoryPolicy,
    ResourceCommit, Timestamp,
};

/// One event as stored in the log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RecordedEvent {
    pub plan: PlanId,
    /// Number within the plan, from 1. Equals the plan's version after the event.
    pub version: PlanVersion,
    pub at: Timestamp,
    pub by: Caller,
    pub event: Event,
}

/// A transition of a plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "type")]
pub enum Event {
    Created(Box<PlanCreated>),
    /// The gate opened: every rule held, was advisory or was waived.
    GateHeld {
        gate: Gate,
        counts: RuleCounts,
        /// One decision per rule.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        decisions: Vec<DecisionNode>,
    },
    /// A holder claimed the phase.
    Claimed {
        phase: Phase,
        /// Name that the holder gave itself.
        owner: String,
        epoch: Epoch,
        asked: bool,
    },
    /// The holder's sandboxes are ready.
    BasesRecorded {
        epoch: Epoch,
        /// One per resource.
        bases: Vec<ResourceCommit>,
    },
    DecisionsRecorded {
        /// In number order.
        decisions: Vec<DecisionNode>,
    },
    /// The holder submitted the strategy.
    StrategizeCompleted {
        epoch: Epoch,
    },
    ExecuteEntered {
        asked: bool,
    },
    ChangesetSealed {
        changeset: ChangesetId,
        node: Node,
        /// Number of entries.
        entries: u64,
        digest: Digest,
    },
    /// The holder submitted the result.
    ExecuteCompleted {
        epoch: Epoch,
        result: ResultContent,
        /// Rules that the result fails.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        unmet: Vec<UnmetRule>,
    },
    /// A person replaced the result by a part of it.
    ResultPicked {
        /// The plan's new epoch; it fences earlier holders.
        epoch: Epoch,
        result: ResultContent,
        /// Paths of which something was taken out.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        reduced: Vec<TreePath>,
        /// Keep what was taken out, as a plan of its own once the picked part has landed.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        keeps_rest: bool,
    },
    /// The result was approved.
    Approved {
        /// Digest of the approved result and landing options.
        content: Digest,
        /// How the result lands.
        #[serde(
            rename = "how",
            default,
            skip_serializing_if = "LandingOptions::is_default"
        )]
        options: LandingOptions,
        /// The rule revisions in force at approval.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        rules: Vec<RuleRef>,
        /// Commits of the targets at approval.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        tips: Vec<ResourceCommit>,
        /// Set if this profile approved instead of a person.
        by_profile: Option<Profile>,
        /// Given by `apply` for one landing only.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        once: bool,
        /// A person asked the engine to land the result.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        lands: bool,
    },
    ApplyEntered {
        asked: bool,
    },
    /// The landing intent was stored: the point of no return.
    ApplyPrepared {
        epoch: Epoch,
        intent: LandingIntent,
    },
    /// The intent was withdrawn before any target changed.
    ApplyWithdrawn {
        epoch: Epoch,
    },
    /// Every target has the change.
    Landed {
        epoch: Epoch,
    },
    /// The result cannot land as it is.
    Constrained {
        constraint: LandingConstraint,
    },
    /// The run ended with an error.
    Failed {
        failure: PlanFailure,
    },
    /// The engine scheduled a retry.
    RetryScheduled {
        /// Earliest time of the next claim.
        retry_at: Timestamp,
    },
    /// A person asked for a retry.
    Retried {
        /// Start from scratch instead of keeping partial work.
        fresh: bool,
        /// The plan's limits from now on.
        limits: PlanLimits,
        /// Set if the result is discarded and execute starts again: the plan's new epoch.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        restarts_execute: Option<Epoch>,
    },
    /// The holder asked a person.
    Asked {
        question: PlanQuestion,
    },
    Answered {
        answer: ErasableText,
        /// What to do with the change. Set only past the point of no return.
        fate: Option<RemovedChangeResolution>,
    },
    /// The question's deadline passed without an answer.
    QuestionExpired,
    /// The holder asked a person about one tool call, and keeps the plan while it waits. Replaces a question
    /// that is still open. Whatever ends the run voids the question.
    PermissionAsked {
        epoch: Epoch,
        /// Names this question. The answer repeats it.
        digest: Digest,
        call: ProposedToolCall,
    },
    /// A person decided the tool call.
    PermissionAnswered {
        digest: Digest,
        allowed: bool,
    },
    Revised {
        /// The phase to repeat.
        to: Phase,
        /// The plan's new epoch; it fences earlier holders.
        epoch: Epoch,
        feedback: ErasableText,
        /// Comments on lines of the result.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        comments: Vec<ReviewComment>,
        /// Paths to restore to their base version.
        dropped: Vec<TreePath>,
        /// Sent by the engine because the result fails rules.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        automatic: bool,
    },
    /// The plan went back to strategize.
    Reverted {
        /// The plan's new epoch; it fences earlier holders.
        epoch: Epoch,
        reason: ErasableText,
        /// Done by the engine without a person.
        automatic: bool,
    },
    /// The holder released its lease.
    Released {
        epoch: Epoch,
    },
    /// The lease was taken from a holder that is gone.
    Reclaimed {
        /// The previous holder.
        owner: String,
        /// The plan's new epoch; it fences earlier holders.
        epoch: Epoch,
    },
    /// A rule was waived for this plan.
    Waived {
        rule: RuleRef,
        reason: ErasableText,
    },
    /// A person gave a verdict on a rule that asks.
    RuledOn {
        rule: RuleRef,
        /// Digest of what the person looked at.
        subject: Digest,
        outcome: RuleOutcome,
    },
    Cancelled {
        /// The plan's new epoch; it fences earlier holders.
        epoch: Epoch,
        reason: Option<ErasableText>,
    },
}

/// What a plan starts with. Later events change only its limits, bases and result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlanCreated {
    pub goal: ErasableText,
    /// The action the plan was created from.
    pub action: Option<QualifiedName>,
    /// Arguments of that action.
    pub arguments: BTreeMap<String, ArgumentValue>,
    pub actors: PlanActors,
    /// How these actors are started, where known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub definitions: Vec<ActorDefinition>,
    /// A person wants to review a strategy before execute.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub strategy_wanted: bool,
    /// Where the engine stops and asks a person.
    pub profile: Profile,
    pub profile_source: ProfileSource,
    /// The plan must not change any file.
    pub read_only: bool,
    pub resources: Vec<PlanResource>,
    /// Base commits, where already known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bases: Vec<ResourceCommit>,
    /// Policy from the repositories' `planwright.yaml`.
    #[serde(
        rename = "ways",
        default,
        skip_serializing_if = "RepositoryPolicy::is_default"
    )]
    pub policy: RepositoryPolicy,
    pub limits: PlanLimits,
    pub origin: PlanOrigin,
    /// Set if the plan continues or undoes another plan.
    pub result: Option<ResultContent>,
}

/// What to do with a change that landed and was then removed from its target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RemovedChangeResolution {
    /// Count it as landed.
    Landed,
    /// Land it again.
    Again,
    /// Give it up and cancel the plan.
    Drop,
}

impl Event {
    /// Returns the event type as stored in the log.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Created(_) => "created",
            Self::GateHeld { .. } => "gate_held",
            Self::Claimed { .. } => "claimed",
            Self::BasesRecorded { .. } => "bases_recorded",
            Self::DecisionsRecorded { .. } => "decisions_recorded",
            Self::StrategizeCompleted { .. } => "strategize_completed",
            Self::ExecuteEntered { .. } => "execute_entered",
            Self::ChangesetSealed { .. } => "changeset_sealed",
            Self::ExecuteCompleted { .. } => "execute_completed",
            Self::ResultPicked { .. } => "result_picked",
            Self::Approved { .. } => "approved",
            Self::ApplyEntered { .. } => "apply_entered",
            Self::ApplyPrepared { .. } => "apply_prepared",
            Self::ApplyWithdrawn { .. } => "apply_withdrawn",
            Self::Landed { .. } => "landed",
            Self::Constrained { .. } => "constrained",
            Self::Failed { .. } => "failed",
            Self::RetryScheduled { .. } => "retry_scheduled",
            Self::Retried { .. } => "retried",
            Self::Asked { .. } => "asked",
            Self::Answered { .. } => "answered",
            Self::QuestionExpired => "question_expired",
            Self::PermissionAsked { .. } => "permission_asked",
            Self::PermissionAnswered { .. } => "permission_answered",
            Self::Revised { .. } => "revised",
            Self::Reverted { .. } => "reverted",
            Self::Released { .. } => "released",
            Self::Reclaimed { .. } => "reclaimed",
            Self::Waived { .. } => "waived",
            Self::RuledOn { .. } => "ruled_on",
            Self::Cancelled { .. } => "cancelled",
        }
    }
}
