//! The plan: everything the events add up to.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::argument::ArgumentValue;
use crate::base::SandboxStartPoint;
use crate::invariant::RuleRef;
use crate::judgement::{PersonRuling, UnmetRule};
use crate::profile::AutomationStep;
use crate::stage::{
    ApplyState, ManualLandingReason, QueueEntry, RefMove, ResultContent, WorkState,
};
use crate::{
    ActorDefinition, Caller, Digest, Epoch, ErasableText, LandingOptions, Money, Phase, PlanActors,
    PlanId, PlanResource, PlanStage, PlanVersion, Profile, QualifiedName, RepositoryPolicy,
    ResourceCommit, SandboxPreparation, Span, Timestamp, Verb,
};

/// A plan at one version. Built by [`crate::evolve()`] only.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Its id.
    pub id: PlanId,
    /// The number of its events.
    pub version: PlanVersion,
    /// What it is for.
    pub goal: ErasableText,
    /// The action it was made of.
    pub action: Option<QualifiedName>,
    /// The arguments given to that action.
    pub arguments: BTreeMap<String, ArgumentValue>,
    /// Who works on it.
    pub actors: PlanActors,
    /// How they are started, where that was known at use. Whoever is not defined here works through
    /// plumbing or in a program of their own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub definitions: Vec<ActorDefinition>,
    /// A strategy was asked for, to be looked at before execute.
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
    /// What work on them starts from, once somebody looked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bases: Vec<ResourceCommit>,
    /// What its next holder finds there.
    #[serde(default, skip_serializing_if = "SandboxPreparation::is_default")]
    pub entrance: SandboxPreparation,
    /// How its resources want to be worked on.
    #[serde(default, skip_serializing_if = "RepositoryPolicy::is_default")]
    pub ways: RepositoryPolicy,
    /// What it may use.
    pub limits: PlanLimits,
    /// Where it comes from.
    pub origin: PlanOrigin,
    /// Phase and state.
    pub stage: PlanStage,
    /// The current fencing number.
    pub epoch: Epoch,
    /// How often the phase was tried since it was entered, from 1.
    pub attempt: u32,
    /// How often since a person last looked after it.
    pub unattended_attempts: u32,
    /// How often each phase was entered.
    pub entries: BTreeMap<Phase, u32>,
    /// How often it went back to strategize.
    pub reversions: u32,
    /// How often of those by itself.
    pub automatic_reversions: u32,
    /// A person asked for the phase it is in. Holds across answer, release and reclaim.
    pub asked: bool,
    /// How many decisions were recorded.
    pub decisions: u32,
    /// What execute left.
    pub result: Option<ResultContent>,
    /// The signature on that result.
    pub approval: Option<Approval>,
    /// What was done to its targets, once it landed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub landed: Vec<RefMove>,
    /// The rules about that result that it does not meet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unmet: Vec<UnmetRule>,
    /// How often in a row it was sent back for such rules by itself, since a person last looked.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub fixes: u32,
    /// Rules set aside for this plan.
    pub waivers: Vec<RuleWaiver>,
    /// What people said of rules that ask.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rulings: Vec<PersonRuling>,
    /// When and by whom each verb was last carried out.
    pub done: BTreeMap<Verb, CompletedCommand>,
    /// When it came to be.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
}

/// Where a plan's profile was said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProfileSource {
    /// By a flag of the command.
    Flag,
    /// By the action.
    Action,
    /// By the repository's `planwright.yaml`.
    Repository,
    /// By the user's settings.
    User,
    /// Nowhere.
    Default,
}

impl ProfileSource {
    /// As it is shown.
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
    /// Tries of a phase before it waits for a person.
    pub attempts: u32,
    /// How long one run of an actor may take.
    #[serde(
        default,
        rename = "timeout_seconds",
        with = "crate::time::in_seconds",
        skip_serializing_if = "Option::is_none"
    )]
    pub timeout: Option<Span>,
    /// How much money all runs may cost.
    #[serde(
        default,
        rename = "cost_micros",
        skip_serializing_if = "Option::is_none"
    )]
    pub cost: Option<Money>,
    /// How many tokens all runs may read and write.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// How long all runs may take together.
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

/// What is done about a result that does not meet its rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResultRemedy {
    /// It is sent back to whoever made it, with what was found.
    Fix,
    /// It is begun anew with another strategy.
    Revert,
}

/// How often in a row a result is sent back by itself because rules are not met.
pub const MAX_FIXES: u32 = 3;

/// Automatic reversions per plan.
pub const MAX_AUTOMATIC_REVERSIONS: u32 = 3;

/// Where a plan comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlanOrigin {
    /// Somebody used an action or gave a goal.
    Use,
    /// It takes back what another landed.
    UndoOf(PlanId),
    /// It is what another could not land.
    RestOf(PlanId),
}

/// A signature on a result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Approval {
    /// What exactly was signed.
    pub content: Digest,
    /// How it shall arrive.
    #[serde(default, skip_serializing_if = "LandingOptions::is_default")]
    pub how: LandingOptions,
    /// The wordings of the rules in force when it was signed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<RuleRef>,
    /// What its targets were at.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tips: Vec<ResourceCommit>,
    /// On whose word.
    pub by: Caller,
    /// Given by this profile instead of a person.
    pub by_profile: Option<Profile>,
    /// Given by `apply` for the landing it began: how that was to arrive says nothing about the next one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub once: bool,
    /// When.
    pub at: Timestamp,
}

/// A rule set aside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleWaiver {
    /// Which wording of which rule.
    pub rule: RuleRef,
    /// By whom.
    pub by: Caller,
    /// Why.
    pub reason: ErasableText,
    /// When.
    pub at: Timestamp,
}

/// The last time a verb was carried out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompletedCommand {
    /// When.
    pub at: Timestamp,
    /// On whose word.
    pub by: Caller,
    /// Under which epoch, where the verb has one.
    pub epoch: Option<Epoch>,
}

impl Plan {
    /// The phase it is in.
    pub fn phase(&self) -> Phase {
        self.stage.phase()
    }

    /// The number of the current entry into its phase; with plan and phase, the run key.
    pub fn entry_number(&self, phase: Phase) -> u32 {
        self.entries.get(&phase).copied().unwrap_or(0)
    }

    /// Does the holder with this authority have it?
    pub fn is_held_by(&self, epoch: Epoch) -> bool {
        let holder = self.stage.holder();
        holder.is_some_and(|holder| holder.epoch == epoch)
    }

    /// Past the point of no return: a stored intent is neither landed nor withdrawn.
    pub fn is_prepared(&self) -> bool {
        self.stage.intent().is_some()
    }

    /// The projects its resources belong to, each once, by name.
    pub fn projects(&self) -> BTreeSet<&QualifiedName> {
        self.resources
            .iter()
            .map(|resource| &resource.project)
            .collect()
    }

    /// The resource that its results and moves call so.
    pub fn resource(&self, name: &str) -> Option<&PlanResource> {
        self.resources.iter().find(|resource| resource.name == name)
    }

    /// Does it land on anything? If not, its report is its result and needs no approval.
    pub fn has_targets(&self) -> bool {
        !self.resources.is_empty() && !self.read_only
    }

    /// May this step happen without a person? Whoever asked for a strategy wants to see it first.
    pub fn allows_unattended(&self, step: AutomationStep) -> bool {
        let needs_strategy_review = self.strategy_wanted && step == AutomationStep::StartExecute;
        self.profile.allows_unattended(step) && !needs_strategy_review
    }

    /// From when on the engine can take it further without a person; never while somebody works.
    pub fn due_at(&self) -> Option<Timestamp> {
        if let Some(question) = self.stage.question() {
            // Nobody needs to answer any more once its time is over.
            return question.deadline;
        }
        if self.needs_person() || self.stage.is_final() || self.stage.holder().is_some() {
            return None;
        }
        let queued = self.stage.queue_entry();
        Some(queued.map_or(self.updated_at, QueueEntry::due_at))
    }

    /// How an actor is started, where that was known at use.
    pub fn actor_definition(&self, actor: &QualifiedName) -> Option<&ActorDefinition> {
        self.definitions.iter().find(|one| one.name == *actor)
    }

    /// Who works in a phase; nobody brings a result in but the engine itself.
    pub fn actor_for_phase(&self, phase: Phase) -> Option<&QualifiedName> {
        match phase {
            Phase::Strategize => Some(&self.actors.strategy),
            Phase::Execute => Some(&self.actors.execution),
            Phase::Apply => None,
        }
    }

    /// A person has to do something before it goes on.
    pub fn needs_person(&self) -> bool {
        match &self.stage {
            PlanStage::Strategize(work) => match work {
                WorkState::Queued(_) => {
                    !self.asked && !self.allows_unattended(AutomationStep::StartStrategize)
                }
                WorkState::Complete => !self.allows_unattended(AutomationStep::StartExecute),
                WorkState::AwaitingInput(_) | WorkState::Errored(_) => true,
                WorkState::Processing(_) | WorkState::Cancelled(_) => false,
            },
            PlanStage::Execute(work) => match work {
                WorkState::Complete => {
                    self.automatic_remedy().is_none() && !self.lands_automatically()
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

    /// Why its profile does not land its result, although it lands others.
    pub fn manual_landing_reason(&self) -> Option<ManualLandingReason> {
        let needed = self.result.as_ref()?.manual_landing_reason()?;
        self.allows_unattended(AutomationStep::Apply)
            .then_some(needed)
    }

    /// Will the engine take a finished result into apply by itself?
    pub fn lands_automatically(&self) -> bool {
        if self.has_targets() {
            self.allows_unattended(AutomationStep::Apply) && self.manual_landing_reason().is_none()
        } else {
            // Nothing lands, so there is nothing to review; only `manual` still asks.
            self.profile != Profile::Manual
        }
    }

    /// What the next holder finds in its sandboxes; another base is looked up where it is to start
    /// afresh.
    pub(crate) fn set_sandbox_start(&mut self, start: SandboxStartPoint) {
        if self.resources.is_empty() {
            return;
        }
        if start == SandboxStartPoint::Afresh {
            self.bases.clear();
        }
        self.entrance = SandboxPreparation {
            start,
            ..SandboxPreparation::default()
        };
    }

    /// The commit that work on a resource starts from, once somebody looked.
    pub fn base_commit(&self, resource: &str) -> Option<&str> {
        let base = self.bases.iter().find(|base| base.resource == resource);
        base.map(|base| base.commit.as_str())
    }

    /// Why its signature no longer counts under these rules, if it does not.
    pub fn approval_void_reason(&self, rules: &[RuleRef]) -> Option<String> {
        let approval = self.approval.as_ref()?;
        if self.valid_approval().is_none() {
            return Some("the result has changed since it was signed".to_owned());
        }
        let added = rules.iter().find(|rule| !approval.rules.contains(rule));
        let gone = approval.rules.iter().find(|rule| !rules.contains(rule));
        match (added, gone) {
            (Some(rule), _) => Some(format!("rule {rule} was added or reworded since")),
            (None, Some(rule)) => Some(format!("rule {rule} was removed since")),
            (None, None) => None,
        }
    }

    /// The rules about its result that are not met and that nobody set aside.
    pub fn unmet_rules(&self) -> impl Iterator<Item = &UnmetRule> {
        self.unmet.iter().filter(|unmet| {
            let mut waived = self.waivers.iter();
            !waived.any(|waiver| waiver.rule == unmet.rule)
        })
    }

    /// Its result does not meet its rules, and nothing more is done about that by itself.
    pub fn is_stuck_on_rules(&self) -> bool {
        let complete = matches!(self.stage, PlanStage::Execute(WorkState::Complete));
        complete && self.unmet_rules().next().is_some() && self.automatic_remedy().is_none()
    }

    /// What the engine does by itself about a result that does not meet its rules.
    pub fn automatic_remedy(&self) -> Option<ResultRemedy> {
        let PlanStage::Execute(WorkState::Complete) = self.stage else {
            return None;
        };
        self.unmet_rules().next()?;
        let fixes = self.allows_unattended(AutomationStep::Revise) && self.fixes < MAX_FIXES;
        let reverts = self.allows_unattended(AutomationStep::Revert)
            && self.automatic_reversions < MAX_AUTOMATIC_REVERSIONS;
        match (fixes, reverts) {
            (true, _) => Some(ResultRemedy::Fix),
            (false, true) => Some(ResultRemedy::Revert),
            (false, false) => None,
        }
    }

    /// The signature, if it is on the result as it stands.
    pub fn valid_approval(&self) -> Option<&Approval> {
        let result = self.result.as_ref()?;
        self.approval
            .as_ref()
            .filter(|approval| approval.content == result.digest(&approval.how))
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}
