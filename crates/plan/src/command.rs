//! Commands: requests to change a plan, an action, a project or a rule. They carry everything a
//! decision needs that is not stored, such as new ids and judgements, so that repeating a decision
//! gives the same answer.
//!
//! Each command is a struct in its family's file in `decide/`, with all that the engine has to know
//! about it: who may submit it, which rows it reads, and what it decides. This file only lists them,
//! with their verbs.

use std::fmt;

use serde::{Deserialize, Serialize};
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
    Profile, QualifiedName, Refusal, RepositoryPolicy, ResourceCommit, Timestamp,
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

/// A command that is complete as its caller states it: it carries no judgement, and nothing of the host has to be read
/// or prepared for it. So a surface may submit it as it is.
pub trait PlainCommand: Into<Command> {}

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

/// Declares [`Verb`] and [`Command`] from one table. A row names a verb, its text, the kinds of events that tell when it
/// was last completed, and its command's struct in `decide/`.
macro_rules! commands {
    ($($(#[$doc:meta])* $verb:ident = $text:literal [$($event:literal),*] $(=> $family:ident::$command:ident)?;)+) => {
        $($(pub use crate::decide::$family::$command;)?)+

        /// The kind of a command, without its details.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "kebab-case")]
        pub enum Verb {
            $($(#[$doc])* $verb,)+
        }

        impl Verb {
            /// Roughly in the order of a plan's life.
            pub const ALL: &'static [Self] = &[$(Self::$verb,)+];

            /// Returns the name as typed.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$verb => $text,)+ }
            }

            /// Returns the kinds of events that tell when the verb was last completed.
            pub(crate) fn completion_events(self) -> &'static [&'static str] {
                match self { $(Self::$verb => &[$($event),*],)+ }
            }
        }

        /// A request to the engine.
        #[derive(Debug, Clone, PartialEq)]
        pub enum Command {
            $($($command($command),)?)+
        }

        $($(
            impl From<$command> for Command {
                fn from(command: $command) -> Self {
                    Self::$command(command)
                }
            }
        )?)+

        impl Command {
            fn definition(&self) -> &dyn CommandDefinition {
                match self { $($(Self::$command(command) => command,)?)+ }
            }

            fn definition_mut(&mut self) -> &mut dyn CommandDefinition {
                match self { $($(Self::$command(command) => command,)?)+ }
            }
        }
    };
}

commands! {
    CreateAction = "create-action" [] => action::CreateAction;
    ArchiveAction = "archive-action" [] => action::ArchiveAction;
    AddRule = "add-rule" [] => rule::AddRule;
    RemoveRule = "remove-rule" [] => rule::RemoveRule;
    CreateProject = "create-project" [] => project::CreateProject;
    LinkResource = "link-resource" [] => project::LinkResource;
    UnlinkResource = "unlink-resource" [] => project::UnlinkResource;
    /// Change the location of a resource.
    RelinkResource = "relink-resource" [] => project::RelinkResource;
    /// Stop a project's plans from starting work.
    PauseProject = "pause-project" [] => project::PauseProject;
    ResumeProject = "resume-project" [] => project::ResumeProject;
    DeleteProject = "delete-project" [] => project::DeleteProject;
    /// Create a plan from an action or a goal.
    Use = "use" ["created"] => create::CreatePlan;
    StartStrategize = "start-strategize" ["claimed"] => claim::ClaimPhase;
    /// Record the base commits of the sandboxes.
    RecordBases = "record-bases" ["bases_recorded"] => advance::RecordBases;
    /// Submit the strategy.
    CompleteStrategize = "complete-strategize" ["strategize_completed"] => advance::CompleteStrategize;
    /// Record a decision of a holder's agent while it works. Its event also accompanies events of other verbs.
    RecordDecision = "record-decision" [] => advance::RecordDecision;
    /// Move a finished strategy into execute.
    ExecutePlan = "execute-plan" ["execute_entered"] => advance::ExecutePlan;
    // Claims of the other phases are `ClaimPhase`, too.
    StartExecute = "start-execute" ["claimed"];
    OpenChangeset = "open-changeset" [] => changeset::OpenChangeset;
    RecordChange = "record-change" [] => changeset::RecordChange;
    SealChangeset = "seal-changeset" ["changeset_sealed"] => changeset::SealChangeset;
    /// Submit the result.
    CompleteExecute = "complete-execute" ["execute_completed"] => advance::CompleteExecute;
    /// Replace the result by a part of it.
    Pick = "pick" ["result_picked"] => pick::PickResult;
    /// Change one's notes on a result: viewed files, chosen hunks, draft comments.
    Review = "review" [] => review::EditReview;
    Approve = "approve" ["approved"] => advance::ApproveResult;
    /// Move a finished result into apply.
    ApplyPlan = "apply-plan" ["apply_entered"] => advance::ApplyPlan;
    StartApply = "start-apply" ["claimed"];
    /// Store the landing intent, before any target is changed.
    PrepareApply = "prepare-apply" ["apply_prepared", "apply_withdrawn", "answered"] => land::PrepareApply;
    /// Withdraw the landing intent.
    WithdrawApply = "withdraw-apply" ["apply_prepared", "apply_withdrawn"] => land::WithdrawApply;
    /// Record that everything landed.
    CompleteApply = "complete-apply" ["landed"] => land::CompleteApply;
    /// Record that the result cannot land as it is.
    Constrain = "constrain" ["constrained"] => land::ConstrainApply;
    Renew = "renew" [] => claim::RenewLease;
    /// Reserve budget for a holder's run.
    Reserve = "reserve" [] => ledger::ReserveBudget;
    /// Charge a holder's usage.
    Settle = "settle" [] => ledger::SettleUsage;
    Release = "release" ["released"] => claim::ReleaseLease;
    /// Take the lease from a holder that is gone.
    Reclaim = "reclaim" ["reclaimed", "failed", "claimed"] => claim::ReclaimLease;
    Fail = "fail" ["failed", "claimed"] => halt::FailRun;
    Ask = "ask" ["asked"] => halt::AskPerson;
    Answer = "answer" ["answered"] => halt::AnswerQuestion;
    /// Ask a person about one tool call, while the run goes on.
    AskPermission = "ask-permission" ["permission_asked"] => permission::AskPermission;
    /// Allow or reject the tool call that a person was asked about.
    AnswerPermission = "answer-permission" ["permission_answered"] => permission::AnswerPermission;
    /// Fail the phase because its question was not answered in time.
    ExpireQuestion = "expire-question" ["question_expired"] => halt::ExpireQuestion;
    Retry = "retry" ["retried"] => rework::RetryPhase;
    /// Send the work back to the actor with feedback.
    Revise = "revise" ["revised"] => rework::ReviseWork;
    /// Go back to strategize.
    Revert = "revert" ["reverted"] => rework::RevertPlan;
    Waive = "waive" ["waived"] => gate::WaiveRule;
    /// Record a person's verdict on a rule that asks.
    RuleOn = "rule-on" ["ruled_on"] => gate::RecordRuling;
    /// Store the verdicts of checks.
    KeepEvidence = "keep-evidence" [] => gate::KeepEvidence;
    /// End the plan without landing.
    Cancel = "cancel" ["cancelled"] => rework::CancelPlan;
    /// Create a plan that undoes a landed one.
    Undo = "undo" ["created"] => create::UndoLanding;
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
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
