//! The plan: the state that its events add up to, and what follows from that state.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::argument::ArgumentValue;
use crate::base::SandboxStartPoint;
use crate::invariant::RuleRef;
use crate::judgement::{PersonRuling, UnmetRule};
use crate::profile::AutomationStep;
use crate::stage::{
    ApplyState, ManualLandingReason, QueueEntry, RefMove, ResultContent, UnpickedRest, WorkState,
};
use crate::{
    ActorDefinition, Caller, Digest, Epoch, ErasableText, LandingOptions, Money, Phase, PlanActors,
    PlanId, PlanResource, PlanStage, PlanVersion, Profile, QualifiedName, RepositoryPolicy,
    ResourceCommit, SandboxPreparation, Span, Timestamp,
};

/// A plan at one version: its frozen terms and its running state. Only [`crate::evolve()`] builds and
/// changes it; all other code reads it through its methods.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Shared by all versions of the plan.
    pub(crate) terms: Arc<PlanTerms>,
    pub(crate) state: PlanState,
}

/// What a plan is to do, for whom and how. Frozen at creation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlanTerms {
    pub(crate) id: PlanId,
    pub(crate) goal: ErasableText,
    /// The action the plan was created from.
    pub(crate) action: Option<QualifiedName>,
    /// Arguments of that action.
    pub(crate) arguments: BTreeMap<String, ArgumentValue>,
    pub(crate) actors: PlanActors,
    /// How actors are started, as known at creation. An actor without a definition claims the plan
    /// through plumbing commands or runs in its own program.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) definitions: Vec<ActorDefinition>,
    /// A person asked to review a strategy before execute.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) strategy_wanted: bool,
    /// Where the engine stops and asks a person.
    pub(crate) profile: Profile,
    pub(crate) profile_source: ProfileSource,
    /// The plan must not change any file.
    pub(crate) read_only: bool,
    pub(crate) resources: Vec<PlanResource>,
    /// Policy from the repositories' `planwright.yaml`, frozen at creation.
    #[serde(
        rename = "ways",
        default,
        skip_serializing_if = "RepositoryPolicy::is_default"
    )]
    pub(crate) policy: RepositoryPolicy,
    pub(crate) origin: PlanOrigin,
    pub(crate) created_at: Timestamp,
    /// Who gave the command that created the plan.
    pub(crate) created_by: Caller,
}

/// Where a plan stands. Every event changes it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlanState {
    /// Number of recorded events.
    pub(crate) version: PlanVersion,
    /// Base commit of each resource, once known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) bases: Vec<ResourceCommit>,
    /// What the next holder does to its sandboxes before it starts work.
    #[serde(
        rename = "entrance",
        default,
        skip_serializing_if = "SandboxPreparation::is_default"
    )]
    pub(crate) sandbox_preparation: SandboxPreparation,
    pub(crate) limits: PlanLimits,
    pub(crate) stage: PlanStage,
    /// The current lease number. Commands with a lower epoch are refused.
    pub(crate) epoch: Epoch,
    /// Attempts since the phase was entered, from 1.
    pub(crate) attempt: u32,
    /// Attempts since the phase was entered or a person retried or answered, from 1.
    pub(crate) unattended_attempts: u32,
    /// Number of times each phase was entered.
    pub(crate) entries: BTreeMap<Phase, u32>,
    /// Number of times the plan went back to strategize.
    pub(crate) reversions: u32,
    /// Reversions that the engine made without a person.
    pub(crate) automatic_reversions: u32,
    /// A person asked for the current phase. Kept across answer, release and reclaim.
    pub(crate) asked: bool,
    /// Number of recorded decisions. Nodes are numbered from 1.
    pub(crate) decisions: u32,
    /// The result of the last completed execute phase.
    pub(crate) result: Option<ResultContent>,
    /// A person picked a part of the result and has not acted on it since.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) picked: bool,
    /// What picks left out, if it is to land later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) rest: Option<UnpickedRest>,
    /// Approval of that result. May be void; see [`Plan::valid_approval`].
    pub(crate) approval: Option<Approval>,
    /// The ref moves of the landing, once the plan has landed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) landed: Vec<RefMove>,
    /// Rules that the result fails.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) unmet: Vec<UnmetRule>,
    /// Consecutive automatic fixes for failed rules since a person last intervened.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) fixes: u32,
    /// Rules waived for this plan.
    pub(crate) waivers: Vec<RuleWaiver>,
    /// People's verdicts on rules that ask a person.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) rulings: Vec<PersonRuling>,
    /// Time of the last event.
    pub(crate) updated_at: Timestamp,
}

/// Where a plan's profile comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProfileSource {
    Flag,
    Action,
    /// The repository's `planwright.yaml`.
    Repository,
    /// The user's settings.
    User,
    /// Not set anywhere.
    Default,
}

impl ProfileSource {
    /// The source as shown to people.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Flag => "flag",
            Self::Action => "action",
            Self::Repository => "planwright.yaml",
            Self::User => "user",
            Self::Default => "default",
        }
    }
}

/// Hard limits of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PlanLimits {
    /// Attempts per phase before the plan waits for a person.
    pub attempts: u32,
    /// Longest single run of an actor.
    #[serde(
        default,
        rename = "timeout_seconds",
        with = "crate::time::in_seconds",
        skip_serializing_if = "Option::is_none"
    )]
    pub timeout: Option<Span>,
    /// Most that all runs together may cost.
    #[serde(
        default,
        rename = "cost_micros",
        skip_serializing_if = "Option::is_none"
    )]
    pub cost: Option<Money>,
    /// Most tokens that all runs together may read and write.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Most time that all runs together may take.
    #[serde(
        default,
        rename = "time_seconds",
        with = "crate::time::in_seconds",
        skip_serializing_if = "Option::is_none"
    )]
    pub time: Option<Span>,
}

impl Default for PlanLimits {
    fn default() -> Self {
        Self {
            attempts: 3,
            timeout: None,
            cost: None,
            tokens: None,
            time: None,
        }
    }
}

/// What the engine does about a result that fails its rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResultRemedy {
    /// Send the result back to its actor with the evidence.
    Fix,
    /// Go back to strategize for another strategy.
    Revert,
}

/// Most consecutive automatic fixes of a result that fails its rules.
pub const MAX_FIXES: u32 = 3;

/// Most automatic reversions per plan.
pub const MAX_AUTOMATIC_REVERSIONS: u32 = 3;

/// How a plan was created.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlanOrigin {
    /// From an action or a goal.
    Use,
    /// It undoes what another plan landed.
    UndoOf(PlanId),
    /// It holds the part of a result that another plan left unlanded.
    RestOf(PlanId),
}

impl PlanOrigin {
    /// Returns the plan that this one undoes or continues.
    pub fn other_plan(self) -> Option<PlanId> {
        match self {
            Self::Use => None,
            Self::UndoOf(id) | Self::RestOf(id) => Some(id),
        }
    }
}

/// A signature over one result. A different result makes it void.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Approval {
    /// Digest of the signed result and landing options.
    pub content: Digest,
    /// How the result lands.
    #[serde(
        rename = "how",
        default,
        skip_serializing_if = "LandingOptions::is_default"
    )]
    pub options: LandingOptions,
    /// The rule revisions in force when it was signed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<RuleRef>,
    /// Commits of the targets when it was signed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tips: Vec<ResourceCommit>,
    pub by: Caller,
    /// Set if this profile approved instead of a person.
    pub by_profile: Option<Profile>,
    /// Given by `apply` for one landing. Its landing options do not carry over to the next landing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub once: bool,
    /// The engine lands the result without another command of a person.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub lands: bool,
    pub at: Timestamp,
}

/// A rule waived for one plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleWaiver {
    /// The waived revision. A changed rule needs a new waiver.
    pub rule: RuleRef,
    pub by: Caller,
    pub reason: ErasableText,
    pub at: Timestamp,
}

/// The terms.
impl Plan {
    /// Puts stored terms and state together again.
    pub fn from_parts(terms: Arc<PlanTerms>, state: PlanState) -> Self {
        Self { terms, state }
    }

    pub fn terms(&self) -> &Arc<PlanTerms> {
        &self.terms
    }

    pub fn state(&self) -> &PlanState {
        &self.state
    }

    pub fn id(&self) -> PlanId {
        self.terms.id
    }

    pub fn goal(&self) -> &ErasableText {
        &self.terms.goal
    }

    /// The action the plan was created from.
    pub fn action(&self) -> Option<&QualifiedName> {
        self.terms.action.as_ref()
    }

    /// Arguments of that action.
    pub fn arguments(&self) -> &BTreeMap<String, ArgumentValue> {
        &self.terms.arguments
    }

    pub fn actors(&self) -> &PlanActors {
        &self.terms.actors
    }

    /// How actors are started, as known at creation. An actor without a definition claims the plan
    /// through plumbing commands or runs in its own program.
    pub fn definitions(&self) -> &[ActorDefinition] {
        &self.terms.definitions
    }

    /// A person asked to review a strategy before execute.
    pub fn strategy_wanted(&self) -> bool {
        self.terms.strategy_wanted
    }

    /// Where the engine stops and asks a person.
    pub fn profile(&self) -> Profile {
        self.terms.profile
    }

    pub fn profile_source(&self) -> ProfileSource {
        self.terms.profile_source
    }

    /// The plan must not change any file.
    pub fn read_only(&self) -> bool {
        self.terms.read_only
    }

    pub fn resources(&self) -> &[PlanResource] {
        &self.terms.resources
    }

    /// Policy from the repositories' `planwright.yaml`, frozen at creation.
    pub fn policy(&self) -> &RepositoryPolicy {
        &self.terms.policy
    }

    pub fn origin(&self) -> PlanOrigin {
        self.terms.origin
    }

    pub fn created_at(&self) -> Timestamp {
        self.terms.created_at
    }
}

/// The state.
impl Plan {
    /// Number of recorded events.
    pub fn version(&self) -> PlanVersion {
        self.state.version
    }

    /// Base commit of each resource, once known.
    pub fn bases(&self) -> &[ResourceCommit] {
        &self.state.bases
    }

    /// What the next holder does to its sandboxes before it starts work.
    pub fn sandbox_preparation(&self) -> &SandboxPreparation {
        &self.state.sandbox_preparation
    }

    pub fn limits(&self) -> PlanLimits {
        self.state.limits
    }

    pub fn stage(&self) -> &PlanStage {
        &self.state.stage
    }

    /// The current lease number. Commands with a lower epoch are refused.
    pub fn epoch(&self) -> Epoch {
        self.state.epoch
    }

    /// Attempts since the phase was entered, from 1.
    pub fn attempt(&self) -> u32 {
        self.state.attempt
    }

    /// Attempts since the phase was entered or a person retried or answered, from 1.
    pub fn unattended_attempts(&self) -> u32 {
        self.state.unattended_attempts
    }

    /// Number of times each phase was entered.
    pub fn entries(&self) -> &BTreeMap<Phase, u32> {
        &self.state.entries
    }

    /// Number of times the plan went back to strategize.
    pub fn reversions(&self) -> u32 {
        self.state.reversions
    }

    /// Reversions that the engine made without a person.
    pub fn automatic_reversions(&self) -> u32 {
        self.state.automatic_reversions
    }

    /// A person asked for the current phase. Kept across answer, release and reclaim.
    pub fn asked(&self) -> bool {
        self.state.asked
    }

    /// Number of recorded decisions. Nodes are numbered from 1.
    pub fn decisions(&self) -> u32 {
        self.state.decisions
    }

    /// The result of the last completed execute phase.
    pub fn result(&self) -> Option<&ResultContent> {
        self.state.result.as_ref()
    }

    /// A person picked a part of the result and has not acted on it since. Until then, nothing is
    /// fixed or landed automatically.
    pub fn is_picked(&self) -> bool {
        self.state.picked
    }

    /// What picks left out, if it is to land later.
    pub fn unpicked_rest(&self) -> Option<&UnpickedRest> {
        self.state.rest.as_ref()
    }

    /// Approval of that result. May be void; see [`Plan::valid_approval`].
    pub fn approval(&self) -> Option<&Approval> {
        self.state.approval.as_ref()
    }

    /// The ref moves of the landing, once the plan has landed.
    pub fn landed(&self) -> &[RefMove] {
        &self.state.landed
    }

    /// Rules that the result fails.
    pub fn unmet(&self) -> &[UnmetRule] {
        &self.state.unmet
    }

    /// Consecutive automatic fixes for failed rules since a person last intervened.
    pub fn fixes(&self) -> u32 {
        self.state.fixes
    }

    /// Rules waived for this plan.
    pub fn waivers(&self) -> &[RuleWaiver] {
        &self.state.waivers
    }

    /// People's verdicts on rules that ask a person.
    pub fn rulings(&self) -> &[PersonRuling] {
        &self.state.rulings
    }

    /// Time of the last event.
    pub fn updated_at(&self) -> Timestamp {
        self.state.updated_at
    }
}

/// What follows from them.
impl Plan {
    pub fn phase(&self) -> Phase {
        self.state.stage.phase()
    }

    /// Returns how often the phase was entered. Together with plan and phase this is the run key.
    pub fn entry_number(&self, phase: Phase) -> u32 {
        self.state.entries.get(&phase).copied().unwrap_or(0)
    }

    /// Returns who created the plan. `None` for a plan that Planwright made from another one.
    pub fn created_by(&self) -> Option<&Caller> {
        match self.terms.origin {
            PlanOrigin::Use => Some(&self.terms.created_by),
            PlanOrigin::UndoOf(_) | PlanOrigin::RestOf(_) => None,
        }
    }

    /// Returns whether the holder of this epoch holds the plan.
    pub fn is_held_by(&self, epoch: Epoch) -> bool {
        let holder = self.state.stage.holder();
        holder.is_some_and(|holder| holder.epoch == epoch)
    }

    /// Returns whether the plan is past the point of no return: its stored landing intent is
    /// neither landed nor withdrawn.
    pub fn is_prepared(&self) -> bool {
        self.state.stage.intent().is_some()
    }

    /// Returns the projects of the plan's resources, sorted by name.
    pub fn projects(&self) -> BTreeSet<&QualifiedName> {
        self.terms
            .resources
            .iter()
            .map(|resource| &resource.project)
            .collect()
    }

    /// Finds a resource by its name in results and moves, `<project>/<resource>`.
    pub fn resource(&self, name: &str) -> Option<&PlanResource> {
        self.terms
            .resources
            .iter()
            .find(|resource| resource.name == name)
    }

    /// Returns whether the plan lands on anything. If not, its report is the result and needs no
    /// approval.
    pub fn has_targets(&self) -> bool {
        !self.terms.resources.is_empty() && !self.terms.read_only
    }

    /// Returns whether the step needs no person. If a strategy was requested, a person reviews it
    /// before execute under any profile.
    pub fn allows_unattended(&self, step: AutomationStep) -> bool {
        let needs_strategy_review =
            self.terms.strategy_wanted && step == AutomationStep::StartExecute;
        self.terms.profile.allows_unattended(step) && !needs_strategy_review
    }

    /// Returns the earliest time at which the engine can advance the plan without a person. `None`
    /// if the plan is held, final or waiting for a person.
    pub fn due_at(&self) -> Option<Timestamp> {
        if let Some(question) = self.state.stage.question() {
            // The engine expires a question at its deadline, without a person.
            return question.deadline;
        }
        if self.needs_person() || self.state.stage.is_final() || self.state.stage.holder().is_some()
        {
            return None;
        }
        let queued = self.state.stage.queue_entry();
        Some(queued.map_or(self.state.updated_at, QueueEntry::due_at))
    }

    /// Returns how an actor is started, if that was known at creation.
    pub fn actor_definition(&self, actor: &QualifiedName) -> Option<&ActorDefinition> {
        self.terms.definitions.iter().find(|one| one.name == *actor)
    }

    /// Returns the actor of a phase. Apply has none: the engine lands results itself.
    pub fn actor_for_phase(&self, phase: Phase) -> Option<&QualifiedName> {
        match phase {
            Phase::Strategize => Some(&self.terms.actors.strategy),
            Phase::Execute => Some(&self.terms.actors.execution),
            Phase::Apply => None,
        }
    }

    /// Returns whether the plan waits for a person.
    pub fn needs_person(&self) -> bool {
        if self.state.stage.open_permission().is_some() {
            return true;
        }
        match &self.state.stage {
            PlanStage::Strategize(work) => match work {
                WorkState::Queued(_) => {
                    !self.state.asked && !self.allows_unattended(AutomationStep::StartStrategize)
                }
                WorkState::Complete => !self.allows_unattended(AutomationStep::StartExecute),
                WorkState::AwaitingInput(_) | WorkState::Errored(_) => true,
                WorkState::Processing(_) | WorkState::Cancelled(_) => false,
            },
            PlanStage::Execute(work) => match work {
                WorkState::Complete => {
                    self.automatic_remedy().is_none() && !self.may_enter_apply_unattended()
                }
                WorkState::AwaitingInput(_) | WorkState::Errored(_) => true,
                WorkState::Queued(_) | WorkState::Processing(_) | WorkState::Cancelled(_) => false,
            },
            PlanStage::Apply(landing) => match landing {
                ApplyState::AwaitingInput(..)
                | ApplyState::Errored(_)
                | ApplyState::Constrained(_) => true,
                ApplyState::Queued(..)
                | ApplyState::Processing(..)
                | ApplyState::Applied(_)
                | ApplyState::Cancelled(_) => false,
            },
        }
    }

    /// Returns why this result needs a person to land it, although the profile lands others
    /// automatically.
    pub fn manual_landing_reason(&self) -> Option<ManualLandingReason> {
        let reason = self.state.result.as_ref()?.manual_landing_reason()?;
        self.allows_unattended(AutomationStep::Apply)
            .then_some(reason)
    }

    /// Returns whether the engine moves a finished result into apply without a person.
    pub fn lands_automatically(&self) -> bool {
        if self.state.picked {
            false
        } else if self.has_targets() {
            self.allows_unattended(AutomationStep::Apply) && self.manual_landing_reason().is_none()
        } else {
            // Nothing lands, so there is nothing to review; only `manual` still asks.
            self.terms.profile != Profile::Manual
        }
    }

    /// Returns whether a person asked the engine to land the current result.
    pub fn is_landing_requested(&self) -> bool {
        self.valid_approval().is_some_and(|approval| approval.lands)
    }

    /// Returns whether the engine moves the finished result into apply by itself: because of the profile, or
    /// because a person asked for it.
    pub fn may_enter_apply_unattended(&self) -> bool {
        self.lands_automatically() || self.is_landing_requested()
    }

    /// Sets where the next holder's sandboxes start. [`SandboxStartPoint::Afresh`] also clears the
    /// bases, so that the next holder looks them up again.
    pub(crate) fn set_sandbox_start(&mut self, start: SandboxStartPoint) {
        if self.terms.resources.is_empty() {
            return;
        }
        if start == SandboxStartPoint::Afresh {
            self.state.bases.clear();
        }
        self.state.sandbox_preparation = SandboxPreparation {
            start,
            ..SandboxPreparation::default()
        };
    }

    /// Returns the base commit of a resource, once it is recorded.
    pub fn base_commit(&self, resource: &str) -> Option<&str> {
        let base = self
            .state
            .bases
            .iter()
            .find(|base| base.resource == resource);
        base.map(|base| base.commit.as_str())
    }

    /// Returns why the approval does not count under these rules, or `None` if it does.
    pub fn approval_void_reason(&self, rules: &[RuleRef]) -> Option<String> {
        let approval = self.state.approval.as_ref()?;
        if self.valid_approval().is_none() {
            return Some("the result changed after it was approved".to_owned());
        }
        let added = rules.iter().find(|rule| !approval.rules.contains(rule));
        let removed = approval.rules.iter().find(|rule| !rules.contains(rule));
        match (added, removed) {
            (Some(rule), _) => Some(format!(
                "rule {rule} was added or changed after the approval"
            )),
            (None, Some(rule)) => Some(format!("rule {rule} was removed after the approval")),
            (None, None) => None,
        }
    }

    /// Returns the rules that the result fails and that are not waived.
    pub fn unmet_rules(&self) -> impl Iterator<Item = &UnmetRule> {
        self.state.unmet.iter().filter(|unmet| {
            let mut waivers = self.state.waivers.iter();
            !waivers.any(|waiver| waiver.rule == unmet.rule)
        })
    }

    /// Returns whether the result fails its rules and the engine has no automatic remedy left.
    pub fn is_stuck_on_rules(&self) -> bool {
        let complete = matches!(self.state.stage, PlanStage::Execute(WorkState::Complete));
        complete && self.unmet_rules().next().is_some() && self.automatic_remedy().is_none()
    }

    /// Returns what the engine does without a person about a result that fails its rules.
    pub fn automatic_remedy(&self) -> Option<ResultRemedy> {
        let PlanStage::Execute(WorkState::Complete) = self.state.stage else {
            return None;
        };
        if self.state.picked {
            return None;
        }
        self.unmet_rules().next()?;
        // No agent can mend a check that cannot run. The other rules wait until a person did.
        if self.unmet_rules().any(|unmet| unmet.broken) {
            return None;
        }
        let can_fix =
            self.allows_unattended(AutomationStep::Revise) && self.state.fixes < MAX_FIXES;
        let can_revert = self.allows_unattended(AutomationStep::Revert)
            && self.state.automatic_reversions < MAX_AUTOMATIC_REVERSIONS;
        match (can_fix, can_revert) {
            (true, _) => Some(ResultRemedy::Fix),
            (false, true) => Some(ResultRemedy::Revert),
            (false, false) => None,
        }
    }

    /// Returns the approval if it covers the current result.
    pub fn valid_approval(&self) -> Option<&Approval> {
        let result = self.state.result.as_ref()?;
        self.state
            .approval
            .as_ref()
            .filter(|approval| approval.content == result.digest(&approval.options))
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}
