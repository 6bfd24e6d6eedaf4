//! Commands: requests to change a plan, an action, a project or a rule. They carry everything a
//! decision needs that is not stored, such as new ids and judgements, so that repeating a decision
//! gives the same answer.
//!
//! Each command is a struct in its family's file in `decide/`, with all that the engine has to know
//! about it: who may submit it, which rows it reads, and what it decides. This file only lists them.

use serde_json::{Value, json};

use crate::authority::CommandAudience;
use crate::changeset::{ChangesetEntry, Node};
use crate::decide::DecisionInput;
use crate::judgement::GateJudgement;
use crate::plan::{PlanLimits, ProfileSource};
use crate::reads::{CommandTarget, ReadSet};
use crate::stage::ResultContent;
use crate::{
    ActorDefinition, ChangesetId, Decision, Digest, Epoch, PlanActors, PlanId, PlanVersion,
    Profile, QualifiedName, Refusal, RepositoryPolicy, ResourceCommit, Timestamp, Verb,
};

/// What the engine has to know about one kind of command.
pub(crate) trait CommandDefinition {
    fn header(&self) -> CommandHeader;

    /// Returns the rows that the decision reads. By default the plan and its lease, to be changed.
    fn reads(&self, target: &CommandTarget) -> ReadSet {
        target.plan_reads()
    }

    /// Returns the caller's arguments: what a repetition under the same idempotency key must share.
    /// Leaves out generated ids and judgements, which differ on each attempt.
    fn arguments(&self) -> Value;

    /// Returns the judgement, if the command carries one.
    fn judgement_mut(&mut self) -> Option<&mut GateJudgement> {
        None
    }

    fn decide(&self, input: DecisionInput<'_>) -> Result<Decision, Refusal>;
}

/// The name of a command, who may submit it, and under which epoch.
pub(crate) struct CommandHeader {
    pub verb: Verb,
    pub audience: CommandAudience,
    pub epoch: Option<Epoch>,
}

impl CommandHeader {
    pub fn new(verb: Verb, audience: CommandAudience) -> Self {
        Self {
            verb,
            audience,
            epoch: None,
        }
    }

    /// A command of the holder of this epoch.
    pub fn for_holder(verb: Verb, epoch: Epoch) -> Self {
        Self {
            verb,
            audience: CommandAudience::Holders,
            epoch: Some(epoch),
        }
    }
}

macro_rules! commands {
    ($($family:ident: $($name:ident),+;)+) => {
        $(pub use crate::decide::$family::{$($name),+};)+

        /// A request to the engine.
        #[derive(Debug, Clone, PartialEq)]
        pub enum Command {
            $($($name($name),)+)+
        }

        $($(
            impl From<$name> for Command {
                fn from(command: $name) -> Self {
                    Self::$name(command)
                }
            }
        )+)+

        impl Command {
            fn definition(&self) -> &dyn CommandDefinition {
                match self { $($(Self::$name(command) => command,)+)+ }
            }

            fn definition_mut(&mut self) -> &mut dyn CommandDefinition {
                match self { $($(Self::$name(command) => command,)+)+ }
            }
        }
    };
}

commands! {
    action: CreateAction, ArchiveAction;
    rule: AddRule, RemoveRule;
    project: CreateProject, LinkResource, UnlinkResource, RelinkResource, PauseProject,
        ResumeProject, DeleteProject;
    create: CreatePlan, UndoLanding;
    claim: ClaimPhase, RenewLease, ReleaseLease, ReclaimLease;
    ledger: ReserveBudget, SettleUsage;
    advance: RecordBases, CompleteStrategize, ExecutePlan, CompleteExecute, ApproveResult, ApplyPlan;
    pick: PickResult;
    changeset: OpenChangeset, RecordChange, SealChangeset;
    land: PrepareApply, WithdrawApply, CompleteApply, ConstrainApply;
    halt: FailRun, AskPerson, AnswerQuestion, ExpireQuestion;
    permission: AskPermission, AnswerPermission;
    rework: RetryPhase, ReviseWork, RevertPlan, CancelPlan;
    gate: WaiveRule, RecordRuling, KeepEvidence;
}

impl Command {
    /// Returns the kind of command, without its details.
    pub fn verb(&self) -> Verb {
        self.definition().header().verb
    }

    /// Returns which callers other than people may submit the command.
    pub fn audience(&self) -> CommandAudience {
        self.definition().header().audience
    }

    /// Returns the epoch that the command claims, if it needs one.
    pub fn epoch(&self) -> Option<Epoch> {
        self.definition().header().epoch
    }

    /// Returns the rows that the command's decision reads, and how each is locked.
    pub fn reads(&self, target: &CommandTarget) -> ReadSet {
        self.definition().reads(target)
    }

    /// Returns a digest of what a repetition under the same idempotency key must share.
    pub fn fingerprint(&self, if_version: Option<PlanVersion>) -> Digest {
        let arguments = self.definition().arguments();
        Digest::hash_bytes(
            json!([self.verb(), if_version, arguments])
                .to_string()
                .as_bytes(),
        )
    }

    pub(crate) fn judgement_mut(&mut self) -> Option<&mut GateJudgement> {
        self.definition_mut().judgement_mut()
    }

    pub(crate) fn decide(&self, input: DecisionInput<'_>) -> Result<Decision, Refusal> {
        self.definition().decide(input)
    }
}

/// A plan to create from an action or a goal.
#[derive(Debug, Clone, PartialEq)]
pub struct NewPlan {
    pub id: PlanId,
    pub action: Option<QualifiedName>,
    /// Defaults to the action's description.
    pub goal: Option<String>,
    /// Arguments as `name=value` pairs, not yet parsed.
    pub arguments: Vec<(String, String)>,
    /// Actors to use if the action names none.
    pub fallback_actors: Option<PlanActors>,
    /// Actor definitions that the caller knows. Those of actors that do not work on the plan are
    /// dropped.
    pub definitions: Vec<ActorDefinition>,
    /// A person wants to review a strategy before execute.
    pub strategy_wanted: bool,
    /// Overrides the action's profile.
    pub profile: Option<(Profile, ProfileSource)>,
    /// Used if the action sets no profile.
    pub fallback_profile: Option<(Profile, ProfileSource)>,
    pub policy: RepositoryPolicy,
    /// Base commits that are already known.
    pub bases: Vec<ResourceCommit>,
    pub limits: PlanLimits,
    pub projects: Vec<QualifiedName>,
}

/// The changes of one unit of work, as captured from its sandbox.
#[derive(Debug, Clone, PartialEq)]
pub struct CapturedNodeChanges {
    /// Id of the changeset to open if the unit has none.
    pub changeset: ChangesetId,
    pub node: Node,
    /// One entry per path.
    pub entries: Vec<ChangesetEntry>,
}

/// A new plan that starts with a result and is linked to its origin.
#[derive(Debug, Clone, PartialEq)]
pub struct LinkedPlan {
    pub id: PlanId,
    /// Names of its resources in the original plan.
    pub resources: Vec<String>,
    pub result: ResultContent,
}

/// Selects the changeset of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChangesetSelector {
    Changeset(ChangesetId),
    /// The open changeset of this unit of work.
    Node(Node),
    /// The only open changeset. Refused if there are several.
    OnlyOpen,
}

/// Why a holder counts as gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReclaimGrounds {
    /// Its lease expired. Checked against the stored expiry.
    Expired,
    /// The process that holds this epoch is dead. Refused if another holder has claimed the plan
    /// since.
    OwnerDead(Epoch),
    /// The caller watched this lease for its whole length on a monotonic clock and saw no renewal.
    /// Refused if the stored expiry differs: then the lease was renewed.
    Unrenewed { epoch: Epoch, expires_at: Timestamp },
}
