//! Builds a command for every verb that fits the current plan.

use planwright_plan as plan;

use plan::changeset::{ChangesetEntry, Node, PathOperation, TreePath};
use plan::command::{
    AnswerPermission, AnswerQuestion, ApplyPlan, ApproveResult, AskPermission, AskPerson,
    CancelPlan, ClaimPhase, CompleteApply, CompleteExecute, CompleteStrategize, ConstrainApply,
    EditReview, ExecutePlan, ExpireQuestion, FailRun, KeepEvidence, OpenChangeset, PickResult,
    PrepareApply, ReclaimLease, RecordBases, RecordChange, RecordDecision, RecordRuling,
    ReleaseLease, RenewLease, ReserveBudget, RetryPhase, RevertPlan, ReviseWork, SealChangeset,
    SettleUsage, UndoLanding, WaiveRule, WithdrawApply,
};
use plan::command::{ChangesetSelector, LinkedPlan, ReclaimGrounds};
use plan::decision::{DecisionKind, ReportedDecision};
use plan::judgement::{PlanTargets, RuleOutcome};
use plan::ledger::{BudgetAmount, GlobalBudget, MeteringLevel};
use plan::permission_question::ProposedToolCall;
use plan::plan::PlanLimits;
use plan::review::{
    CommentId, CommentPlace, DiffSide, ReviewComment, ReviewEdit, ReviewedFile, ViewedContent,
};
use plan::stage::{
    ConstraintKind, FailureCategory, IgnoredPaths, RefMove, ResultContent, ResultTree,
};
use plan::transcript::ToolKind;
use plan::{ChangesetId, Command, Digest, Money, Phase, PlanId, ResourceCommit, Verb};

use crate::world::{ANSWER_TIMEOUT, CommandInput, PlanWorld};

const GLOBAL_BUDGET: GlobalBudget = GlobalBudget {
    cost: Some(Money(1_000_000)),
    tokens: Some(1_000_000),
};

pub fn sample_comment() -> ReviewComment {
    ReviewComment {
        place: CommentPlace {
            file: ReviewedFile {
                resource: "main".into(),
                path: TreePath::new("src/1.rs").unwrap(),
            },
            side: DiffSide::New,
            first_line: 3,
            last_line: 4,
        },
        quote: "let one = 1;\nlet two = 2;".into(),
        text: "use constants".into(),
    }
}

impl PlanWorld {
    /// Builds a command. `None` for a verb that is not about an existing plan.
    pub fn command_with(&self, verb: Verb, input: CommandInput) -> Option<Command> {
        let epoch = input.epoch;
        let judgement = self.judgement(input.judged);
        let start = |phase| {
            Command::from(ClaimPhase {
                phase,
                owner: input.owner.into(),
                lease: input.lease,
                judgement: Some(judgement.clone()),
            })
        };
        let targets = self.plan().has_targets();
        Some(match verb {
            Verb::CreateAction
            | Verb::ArchiveAction
            | Verb::AddRule
            | Verb::RemoveRule
            | Verb::CreateProject
            | Verb::LinkResource
            | Verb::UnlinkResource
            | Verb::RelinkResource
            | Verb::PauseProject
            | Verb::ResumeProject
            | Verb::DeleteProject
            | Verb::Use => return None,
            Verb::StartStrategize => start(Phase::Strategize),
            Verb::StartExecute => start(Phase::Execute),
            Verb::StartApply => start(Phase::Apply),
            Verb::CompleteStrategize => Command::from(CompleteStrategize {
                epoch,
                decisions: pick_variant(
                    input,
                    [
                        vec![reported_choice()],
                        vec![],
                        vec![reported_choice(), reported_choice(), reported_choice()],
                    ],
                ),
            }),
            Verb::RecordDecision => Command::from(RecordDecision {
                epoch,
                decision: reported_choice(),
            }),
            Verb::ExecutePlan => Command::from(ExecutePlan { judgement }),
            Verb::OpenChangeset => Command::from(OpenChangeset {
                epoch,
                id: ChangesetId::from_parts(self.commits, u128::from(self.commits)),
                node: pick_variant(input, [Node::main(), "side".parse().unwrap()]),
            }),
            Verb::RecordChange => Command::from(RecordChange {
                epoch,
                into: pick_variant(
                    input,
                    [
                        ChangesetSelector::OnlyOpen,
                        ChangesetSelector::Node(Node::main()),
                        ChangesetSelector::Changeset(self.first_changeset_id()),
                    ],
                ),
                entry: ChangesetEntry::new(
                    tree_path(&format!("src/{}.rs", input.variant % 2)),
                    pick_variant(input, PathOperation::ALL),
                ),
            }),
            Verb::SealChangeset => Command::from(SealChangeset {
                epoch,
                changeset: self.first_changeset_id(),
            }),
            Verb::CompleteExecute => Command::from(CompleteExecute {
                epoch,
                result: pick_variant(
                    input,
                    [self.make_result(targets), self.make_result(!targets)],
                ),
                captured: Vec::new(),
                allow_empty: false,
                judgement,
            }),
            Verb::Pick => Command::from(PickResult {
                shown: match input.variant {
                    0 | 1 => self.result_digest(),
                    _ => Digest::hash_bytes(b"an earlier result"),
                },
                result: self.make_picked_result(),
                reduced: vec![tree_path("src/1.rs")],
                keeps_rest: pick_variant(input, [false, true, false]),
            }),
            Verb::Review => Command::from(EditReview {
                edits: vec![pick_variant(
                    input,
                    [
                        ReviewEdit::AddComment(sample_comment()),
                        ReviewEdit::MarkViewed {
                            file: sample_comment().place.file,
                            content: ViewedContent::Blob("b10b".into()),
                        },
                        ReviewEdit::DropComments([CommentId(1)].into()),
                    ],
                )],
            }),
            Verb::Approve => Command::from(ApproveResult {
                options: plan::LandingOptions::default(),
                targets: PlanTargets::default(),
                once: false,
                lands: false,
            }),
            Verb::RecordBases => Command::from(RecordBases {
                epoch,
                bases: pick_variant(input, [self.base_commits(), Vec::new()]),
            }),
            Verb::ApplyPlan => Command::from(ApplyPlan { judgement }),
            Verb::PrepareApply => Command::from(PrepareApply {
                epoch,
                moves: pick_variant(input, [self.make_moves(targets), self.make_moves(!targets)]),
                judgement,
            }),
            Verb::WithdrawApply => Command::from(WithdrawApply { epoch }),
            Verb::CompleteApply => {
                let both: Vec<String> = self.resource_names();
                let first = both.iter().take(1).cloned().collect();
                let (landed, rest) = pick_variant(
                    input,
                    [
                        (both, None),
                        (first, Some(self.make_linked_plan(&["shop/docs"]))),
                        (Vec::new(), None),
                        (
                            Vec::new(),
                            Some(self.make_linked_plan(&["shop/app", "shop/docs"])),
                        ),
                    ],
                );
                Command::from(CompleteApply {
                    epoch,
                    landed,
                    rest,
                })
            }
            Verb::Constrain => Command::from(ConstrainApply {
                epoch,
                kind: pick_variant(input, ConstraintKind::ALL),
                message: "both sides changed it".into(),
                paths: vec![tree_path("src/0.rs")],
                commits: vec!["c0ffee".into()],
            }),
            Verb::Renew => Command::from(RenewLease {
                epoch,
                lease: input.lease,
            }),
            Verb::Reserve => Command::from(ReserveBudget {
                epoch,
                metering: pick_variant(
                    input,
                    [
                        MeteringLevel::Cost,
                        MeteringLevel::Tokens,
                        MeteringLevel::Time,
                    ],
                ),
                budget: pick_variant(input, [GlobalBudget::default(), GLOBAL_BUDGET]),
            }),
            Verb::Settle => Command::from(SettleUsage {
                epoch,
                used: pick_variant(
                    input,
                    [
                        BudgetAmount::default(),
                        BudgetAmount {
                            cost: 1,
                            tokens: 2,
                            time: 3,
                        },
                    ],
                ),
            }),
            Verb::Release => Command::from(ReleaseLease { epoch }),
            Verb::Reclaim => Command::from(ReclaimLease {
                grounds: pick_variant(
                    input,
                    [
                        ReclaimGrounds::OwnerDead(input.epoch),
                        ReclaimGrounds::Expired,
                    ],
                ),
            }),
            Verb::Fail => Command::from(FailRun {
                epoch,
                category: pick_variant(
                    input,
                    [
                        FailureCategory::Actor,
                        FailureCategory::Transient,
                        FailureCategory::Budget,
                    ],
                ),
                message: "no luck".into(),
            }),
            Verb::Ask => Command::from(AskPerson {
                epoch,
                question: "tabs or spaces?".into(),
                answer_timeout: pick_variant(input, [Some(ANSWER_TIMEOUT), None]),
            }),
            Verb::Answer => Command::from(AnswerQuestion {
                text: pick_variant(input, ["landed", "again", "drop", "spaces", " "]).into(),
            }),
            Verb::ExpireQuestion => Command::from(ExpireQuestion),
            Verb::AskPermission => Command::from(AskPermission {
                epoch,
                call: ProposedToolCall {
                    summary: pick_variant(input, ["run cargo test", "run rm -r build", " "]).into(),
                    ..sample_tool_call()
                },
            }),
            Verb::AnswerPermission => Command::from(AnswerPermission {
                digest: pick_variant(
                    input,
                    [
                        self.permission_digest(),
                        self.permission_digest(),
                        Digest::hash_bytes(b"another call"),
                    ],
                ),
                allowed: pick_variant(input, [true, false, true]),
            }),
            Verb::Retry => Command::from(RetryPhase {
                fresh: pick_variant(input, [false, true]),
                limits: pick_variant(
                    input,
                    [
                        None,
                        Some(PlanLimits {
                            attempts: 2,
                            ..PlanLimits::default()
                        }),
                    ],
                ),
            }),
            Verb::Revise => Command::from(ReviseWork {
                comments: Default::default(),
                feedback: pick_variant(input, ["shorter, please", " "]).into(),
                dropped: vec![tree_path("src/1.rs")],
            }),
            Verb::Revert => Command::from(RevertPlan {
                reason: pick_variant(input, ["the strategy is wrong", "a\0b"]).into(),
            }),
            Verb::Waive => Command::from(WaiveRule {
                rule: pick_variant(input, ["clean", "unknown", "hard"])
                    .parse()
                    .unwrap(),
                reason: "not here".into(),
                targets: PlanTargets::default(),
            }),
            Verb::RuleOn => Command::from(RecordRuling {
                rule: pick_variant(input, ["looked-at", "looked-at", "clean"])
                    .parse()
                    .unwrap(),
                subject: Digest::hash_bytes(b"what is looked at"),
                outcome: pick_variant(
                    input,
                    [
                        RuleOutcome::Held,
                        RuleOutcome::Failed("not like this".into()),
                        RuleOutcome::Held,
                    ],
                ),
                targets: PlanTargets::default(),
            }),
            Verb::KeepEvidence => Command::from(KeepEvidence {
                judgement,
                used: BudgetAmount::default(),
            }),
            Verb::Cancel => Command::from(CancelPlan {
                reason: pick_variant(input, [Some("not needed".into()), None]),
            }),
            Verb::Undo => Command::from(UndoLanding(LinkedPlan {
                resources: self.resource_names(),
                ..self.make_linked_plan(&[])
            })),
        })
    }

    fn base_commits(&self) -> Vec<ResourceCommit> {
        let base = |resource| ResourceCommit {
            resource,
            commit: format!("b{}", self.plan().epoch()),
        };
        self.resource_names().into_iter().map(base).collect()
    }

    /// Returns a result with trees that differ by epoch.
    pub fn make_result(&self, with_trees: bool) -> ResultContent {
        let tree = |resource: String| ResultTree {
            resource,
            target: "refs/heads/main".into(),
            base: "b0".into(),
            tree: format!("t{}", self.plan().epoch()),
            changes: None,
            ignored: IgnoredPaths::default(),
            changes_settings: false,
        };
        let trees = self.resource_names().into_iter().map(tree).collect();
        ResultContent {
            report: Some("tidied".into()),
            trees: if with_trees { trees } else { Vec::new() },
        }
    }

    /// The digest of the plan's result, as a person was shown it.
    fn result_digest(&self) -> Digest {
        let result = self.plan().result();
        result.map_or(Digest::ZERO, |result| {
            result.digest(&plan::LandingOptions::default())
        })
    }

    /// The digest of the last question about a tool call.
    pub fn permission_digest(&self) -> Digest {
        let holder = self.plan().stage().holder();
        let question = holder.and_then(|holder| holder.permission.as_deref());
        question.map_or(Digest::ZERO, |question| question.digest)
    }

    /// A part of the plan's result.
    fn make_picked_result(&self) -> ResultContent {
        let result = self.plan().result().cloned();
        let mut picked = result.unwrap_or_else(|| self.make_result(true));
        for tree in &mut picked.trees {
            tree.tree = format!("p{}", self.plan().epoch());
        }
        picked
    }

    fn make_moves(&self, some: bool) -> Vec<RefMove> {
        let one = |resource: String| RefMove {
            resource,
            target: "refs/heads/main".into(),
            old: "b0".into(),
            new: format!("n{}", self.plan().epoch()),
            onto: None,
        };
        if some {
            self.resource_names().into_iter().map(one).collect()
        } else {
            Vec::new()
        }
    }

    fn resource_names(&self) -> Vec<String> {
        let resources = self.plan().resources().iter();
        resources.map(|resource| resource.name.clone()).collect()
    }

    fn make_linked_plan(&self, resources: &[&str]) -> LinkedPlan {
        LinkedPlan {
            id: PlanId::from_parts(self.commits, u128::from(self.commits)),
            resources: resources.iter().map(|one| (*one).to_owned()).collect(),
            result: self.make_result_on(resources),
        }
    }

    /// Returns the result on the named resources, or on all if none is named.
    fn make_result_on(&self, resources: &[&str]) -> ResultContent {
        let mut result = self.make_result(true);
        let wanted = |tree: &ResultTree| resources.contains(&tree.resource.as_str());
        result
            .trees
            .retain(|tree| resources.is_empty() || wanted(tree));
        result
    }

    fn first_changeset_id(&self) -> ChangesetId {
        self.facts
            .changesets
            .first()
            .map_or(ChangesetId::from_parts(1, 1), |open| open.id)
    }
}

pub fn tree_path(text: &str) -> TreePath {
    TreePath::new(text).unwrap()
}

/// A tool call that an agent asks for.
pub fn sample_tool_call() -> ProposedToolCall {
    ProposedToolCall {
        tool: "Bash".into(),
        tool_kind: ToolKind::Execute,
        summary: "run cargo test".into(),
        input: Some(r#"{"command":"cargo test"}"#.into()),
        reason: "`tools.ask` has `execute`".into(),
    }
}

fn pick_variant<T, const N: usize>(input: CommandInput, choices: [T; N]) -> T {
    choices.into_iter().nth(input.variant % N).unwrap()
}

fn reported_choice() -> ReportedDecision {
    ReportedDecision {
        kind: DecisionKind::StrategyChoice,
        question: "where to start?".into(),
        choice: "at the top".into(),
        alternatives: vec!["at the bottom".into()],
        rationale: Some("it reads better".into()),
        confidence: Some(0.75.try_into().unwrap()),
        parent: None,
    }
}
