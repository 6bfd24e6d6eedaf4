//! Events: what happened to a plan. The log of them is the truth; the plan is derived.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::argument::ArgumentValue;
use crate::changeset::{Node, TreePath};
use crate::decision::DecisionNode;
use crate::invariant::{Gate, RuleRef};
use crate::judgement::{RuleCounts, RuleOutcome, UnmetRule};
use crate::plan::{PlanLimits, PlanOrigin, ProfileSource};
use crate::stage::{LandingConstraint, LandingIntent, PlanFailure, PlanQuestion, ResultContent};
use crate::{
    ActorDefinition, Caller, ChangesetId, Digest, Epoch, ErasableText, LandingOptions, Phase,
    PlanActors, PlanId, PlanResource, PlanVersion, Profile, QualifiedName, RepositoryPolicy,
    ResourceCommit, Timestamp,
};

/// One event as it stands in the log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RecordedEvent {
    /// The plan it happened to.
    pub plan: PlanId,
    /// Its number within the plan, from 1; the plan's version after it.
    pub version: PlanVersion,
    /// When.
    pub at: Timestamp,
    /// On whose word.
    pub by: Caller,
    /// What happened.
    pub event: Event,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "type")]
pub enum Event {
    /// The plan came to be.
    Created(Box<PlanCreated>),
    /// Every rule at the gate held, was advisory or was waived.
    GateHeld {
        /// The gate.
        gate: Gate,
        /// How many.
        counts: RuleCounts,
        /// What each rule decided.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        decisions: Vec<DecisionNode>,
    },
    /// Somebody claimed the phase.
    Claimed {
        /// The phase.
        phase: Phase,
        /// The name the holder gave itself.
        owner: String,
        /// Its authority.
        epoch: Epoch,
        /// A person asked for it.
        asked: bool,
    },
    /// The holder's sandboxes are ready.
    BasesRecorded {
        /// Which holder.
        epoch: Epoch,
        /// What work on each resource starts from.
        bases: Vec<ResourceCommit>,
    },
    /// Decisions were recorded.
    DecisionsRecorded {
        /// In the order of their numbers.
        decisions: Vec<DecisionNode>,
    },
    /// The strategy is in.
    StrategizeCompleted {
        /// The holder that handed it in.
        epoch: Epoch,
    },
    /// The plan was moved into execute.
    ExecuteEntered {
        /// A person asked for it.
        asked: bool,
    },
    /// A changeset was closed for good.
    ChangesetSealed {
        /// Which.
        changeset: ChangesetId,
        /// Of which unit of work.
        node: Node,
        /// How many entries.
        entries: u64,
        /// Digest of the entries.
        digest: Digest,
    },
    /// The result is in.
    ExecuteCompleted {
        /// The holder that handed it in.
        epoch: Epoch,
        /// What it is.
        result: ResultContent,
        /// The rules about it that it does not meet.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        unmet: Vec<UnmetRule>,
    },
    /// The result was signed.
    Approved {
        /// What exactly was signed.
        content: Digest,
        /// How it shall arrive.
        #[serde(default, skip_serializing_if = "LandingOptions::is_default")]
        how: LandingOptions,
        /// The wordings of the rules in force when it was signed.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        rules: Vec<RuleRef>,
        /// What its targets were at.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        tips: Vec<ResourceCommit>,
        /// Given by this profile instead of a person.
        by_profile: Option<Profile>,
        /// Given by `apply` for the landing it began.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        once: bool,
    },
    /// The plan was moved into apply.
    ApplyEntered {
        /// A person asked for it.
        asked: bool,
    },
    /// What is about to be done to the targets was stored: the point of no return.
    ApplyPrepared {
        /// By which holder.
        epoch: Epoch,
        /// What is about to be done.
        intent: LandingIntent,
    },
    /// It was taken back, nothing having been done.
    ApplyWithdrawn {
        /// By which holder.
        epoch: Epoch,
    },
    /// Everything landed.
    Landed {
        /// By which holder.
        epoch: Epoch,
    },
    /// It cannot land as it is.
    Constrained {
        /// Why.
        constraint: LandingConstraint,
    },
    /// Work ended with an error.
    Failed {
        /// Which.
        failure: PlanFailure,
    },
    /// A retry was scheduled by the engine itself.
    RetryScheduled {
        /// Not before this moment.
        retry_at: Timestamp,
    },
    /// A retry was asked for by a person.
    Retried {
        /// Start from scratch, or keep partial work.
        fresh: bool,
        /// The limits from now on.
        limits: PlanLimits,
        /// The epoch from now on, if a result is given up and execute begins again.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        restarts_execute: Option<Epoch>,
    },
    /// A person is asked.
    Asked {
        /// What.
        question: PlanQuestion,
    },
    /// The question was answered.
    Answered {
        /// What was said.
        answer: ErasableText,
        /// In apply past the point of no return: what is to become of the change.
        fate: Option<RemovedChangeResolution>,
    },
    /// Nobody answered in time.
    QuestionExpired,
    /// The work was sent back with feedback.
    Revised {
        /// To this phase.
        to: Phase,
        /// The epoch from now on.
        epoch: Epoch,
        /// What to do better.
        feedback: ErasableText,
        /// Paths that go back to where they were.
        dropped: Vec<TreePath>,
        /// Nobody asked for it: rules about the result are not met.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        automatic: bool,
    },
    /// Back to strategize.
    Reverted {
        /// The epoch from now on.
        epoch: Epoch,
        /// Why.
        reason: ErasableText,
        /// Nobody asked for it.
        automatic: bool,
    },
    /// The holder gave its lease back.
    Released {
        /// Which holder.
        epoch: Epoch,
    },
    /// The lease of a holder that is gone was taken from it.
    Reclaimed {
        /// Who held it.
        owner: String,
        /// The epoch from now on.
        epoch: Epoch,
    },
    /// A rule was set aside for this plan.
    Waived {
        /// Which wording of which rule.
        rule: RuleRef,
        /// Why.
        reason: ErasableText,
    },
    /// A person said whether a rule that asks holds.
    RuledOn {
        /// Which wording of which rule.
        rule: RuleRef,
        /// What exactly they looked at.
        subject: Digest,
        /// What they said.
        outcome: RuleOutcome,
    },
    /// The plan ended without landing.
    Cancelled {
        /// The epoch from now on.
        epoch: Epoch,
        /// Why.
        reason: Option<ErasableText>,
    },
}

/// What a plan starts with; frozen from then on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlanCreated {
    /// What it is for.
    pub goal: ErasableText,
    /// The action it was made of.
    pub action: Option<QualifiedName>,
    /// The arguments given to that action.
    pub arguments: BTreeMap<String, ArgumentValue>,
    /// Who works on it.
    pub actors: PlanActors,
    /// How they are started, where that is known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub definitions: Vec<ActorDefinition>,
    /// A strategy is to be looked at before execute.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub strategy_wanted: bool,
    /// Where it stops and asks.
    pub profile: Profile,
    /// Where that was said.
    pub profile_source: ProfileSource,
    /// It may write nothing.
    pub read_only: bool,
    /// The resources it works on.
    pub resources: Vec<PlanResource>,
    /// What work on them starts from, where that is known already.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bases: Vec<ResourceCommit>,
    /// How its resources want to be worked on.
    #[serde(default, skip_serializing_if = "RepositoryPolicy::is_default")]
    pub ways: RepositoryPolicy,
    /// What it may use.
    pub limits: PlanLimits,
    /// Where it comes from.
    pub origin: PlanOrigin,
    /// The result it starts with, if it comes from another plan.
    pub result: Option<ResultContent>,
}

/// What becomes of a change that landed and was removed again by somebody.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RemovedChangeResolution {
    /// It counts as landed.
    Landed,
    /// It is brought in again.
    Again,
    /// It is given up.
    Drop,
}

impl Event {
    /// The type as it stands in the log.
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
