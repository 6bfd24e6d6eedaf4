//! One command for every verb, as the plan it is about calls for it.

use planwright_plan as plan;

use plan::changeset::{Entry, Node, Operation, TreePath};
use plan::command::{Grounds, Into, LinkedPlan};
use plan::decision::{DecisionKind, ReportedDecision};
use plan::judgement::{RuleOutcome, Targets};
use plan::ledger::{Amount, Budget, Metering};
use plan::plan::Limits;
use plan::stage::{Category, ConstraintKind, IgnoredPaths, RefMove, ResultContent, ResultTree};
use plan::{Base, ChangesetId, Command, Digest, Money, Phase, PlanId, Verb};

use crate::world::{How, PATIENCE, World};

/// What all plans together may use.
const GLOBAL: Budget = Budget {
    cost: Some(Money(1_000_000)),
    tokens: Some(1_000_000),
};

impl World {
    /// A command; `None` for a verb that is not about a plan that exists.
    pub fn command_with(&self, verb: Verb, how: How) -> Option<Command> {
        let epoch = how.epoch;
        let judgement = self.judgement(how.judged);
        let start = |phase| Command::Start {
            phase,
            owner: how.owner.into(),
            lease: how.lease,
            judgement: Some(judgement.clone()),
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
            Verb::CompleteStrategize => Command::CompleteStrategize {
                epoch,
                decisions: pick(
                    how,
                    [vec![choice()], vec![], vec![choice(), choice(), choice()]],
                ),
            },
            Verb::ExecutePlan => Command::ExecutePlan { judgement },
            Verb::OpenChangeset => Command::OpenChangeset {
                epoch,
                id: ChangesetId::from_parts(self.commits, u128::from(self.commits)),
                node: pick(how, [Node::main(), "side".parse().unwrap()]),
            },
            Verb::RecordChange => Command::RecordChange {
                epoch,
                into: pick(
                    how,
                    [
                        Into::OnlyOpen,
                        Into::Node(Node::main()),
                        Into::Changeset(self.some_changeset()),
                    ],
                ),
                entry: Entry::new(
                    path(&format!("src/{}.rs", how.variant % 2)),
                    pick(how, Operation::ALL),
                ),
            },
            Verb::SealChangeset => Command::SealChangeset {
                epoch,
                changeset: self.some_changeset(),
            },
            Verb::CompleteExecute => Command::CompleteExecute {
                epoch,
                result: pick(how, [self.result(targets), self.result(!targets)]),
                captured: Vec::new(),
                allow_empty: false,
                judgement,
            },
            Verb::Approve => Command::Approve {
                how: plan::How::default(),
                targets: Targets::default(),
                once: false,
            },
            Verb::RecordBases => Command::RecordBases {
                epoch,
                bases: pick(how, [self.bases(), Vec::new()]),
            },
            Verb::ApplyPlan => Command::ApplyPlan { judgement },
            Verb::PrepareApply => Command::PrepareApply {
                epoch,
                moves: pick(how, [self.moves(targets), self.moves(!targets)]),
                judgement,
            },
            Verb::WithdrawApply => Command::WithdrawApply { epoch },
            Verb::CompleteApply => {
                let both: Vec<String> = self.names();
                let first = both.iter().take(1).cloned().collect();
                let (landed, rest) = pick(
                    how,
                    [
                        (both, None),
                        (first, Some(self.linked(&["shop/docs"]))),
                        (Vec::new(), None),
                        (Vec::new(), Some(self.linked(&["shop/app", "shop/docs"]))),
                    ],
                );
                Command::CompleteApply {
                    epoch,
                    landed,
                    rest,
                }
            }
            Verb::Constrain => Command::Constrain {
                epoch,
                kind: pick(how, ConstraintKind::ALL),
                message: "both sides changed it".into(),
                paths: vec![path("src/0.rs")],
                commits: vec!["c0ffee".into()],
            },
            Verb::Renew => Command::Renew {
                epoch,
                lease: how.lease,
            },
            Verb::Reserve => Command::Reserve {
                epoch,
                metering: pick(how, [Metering::Cost, Metering::Tokens, Metering::Time]),
                budget: pick(how, [Budget::default(), GLOBAL]),
            },
            Verb::Settle => Command::Settle {
                epoch,
                used: pick(
                    how,
                    [
                        Amount::default(),
                        Amount {
                            cost: 1,
                            tokens: 2,
                            time: 3,
                        },
                    ],
                ),
            },
            Verb::Release => Command::Release { epoch },
            Verb::Reclaim => Command::Reclaim {
                grounds: pick(how, [Grounds::OwnerDead(how.epoch), Grounds::Expired]),
            },
            Verb::Fail => Command::Fail {
                epoch,
                category: pick(
                    how,
                    [Category::Actor, Category::Transient, Category::Budget],
                ),
                message: "no luck".into(),
            },
            Verb::Ask => Command::Ask {
                epoch,
                question: "tabs or spaces?".into(),
                patience: pick(how, [Some(PATIENCE), None]),
            },
            Verb::Answer => Command::Answer {
                text: pick(how, ["landed", "again", "drop", "spaces", " "]).into(),
            },
            Verb::ExpireQuestion => Command::ExpireQuestion,
            Verb::Retry => Command::Retry {
                fresh: pick(how, [false, true]),
                limits: pick(
                    how,
                    [
                        None,
                        Some(Limits {
                            attempts: 2,
                            ..Limits::default()
                        }),
                    ],
                ),
            },
            Verb::Revise => Command::Revise {
                feedback: pick(how, ["shorter, please", " "]).into(),
                dropped: vec![path("src/1.rs")],
            },
            Verb::Revert => Command::Revert {
                reason: pick(how, ["the strategy is wrong", "a\0b"]).into(),
            },
            Verb::Waive => Command::Waive {
                rule: pick(how, ["clean", "unknown", "hard"]).parse().unwrap(),
                reason: "not here".into(),
                targets: Targets::default(),
            },
            Verb::RuleOn => Command::RuleOn {
                rule: pick(how, ["looked-at", "looked-at", "clean"])
                    .parse()
                    .unwrap(),
                subject: Digest::of(b"what is looked at"),
                outcome: pick(
                    how,
                    [
                        RuleOutcome::Held,
                        RuleOutcome::Failed("not like this".into()),
                        RuleOutcome::Held,
                    ],
                ),
                targets: Targets::default(),
            },
            Verb::KeepEvidence => Command::KeepEvidence {
                judgement,
                used: Amount::default(),
            },
            Verb::Cancel => Command::Cancel {
                reason: pick(how, [Some("not needed".into()), None]),
            },
            Verb::Undo => Command::Undo(LinkedPlan {
                resources: self.names(),
                ..self.linked(&[])
            }),
        })
    }

    /// What work on the plan's resources starts from.
    fn bases(&self) -> Vec<Base> {
        let base = |resource| Base {
            resource,
            commit: format!("b{}", self.plan().epoch),
        };
        self.names().into_iter().map(base).collect()
    }

    /// What an execute of this epoch leaves: other trees with every epoch.
    pub fn result(&self, with_trees: bool) -> ResultContent {
        let tree = |resource: String| ResultTree {
            resource,
            target: "refs/heads/main".into(),
            base: "b0".into(),
            tree: format!("t{}", self.plan().epoch),
            changes: None,
            ignored: IgnoredPaths::default(),
            changes_settings: false,
        };
        let trees = self.names().into_iter().map(tree).collect();
        ResultContent {
            report: Some("tidied".into()),
            trees: if with_trees { trees } else { Vec::new() },
        }
    }

    fn moves(&self, some: bool) -> Vec<RefMove> {
        let one = |resource: String| RefMove {
            resource,
            target: "refs/heads/main".into(),
            old: "b0".into(),
            new: format!("n{}", self.plan().epoch),
            onto: None,
        };
        if some {
            self.names().into_iter().map(one).collect()
        } else {
            Vec::new()
        }
    }

    /// What the plan's resources are called.
    fn names(&self) -> Vec<String> {
        let resources = self.plan().resources.iter();
        resources.map(|resource| resource.name.clone()).collect()
    }

    fn linked(&self, resources: &[&str]) -> LinkedPlan {
        LinkedPlan {
            id: PlanId::from_parts(self.commits, u128::from(self.commits)),
            resources: resources.iter().map(|one| (*one).to_owned()).collect(),
            result: self.result_on(resources),
        }
    }

    /// The result on some of the resources; on all if none is named.
    fn result_on(&self, resources: &[&str]) -> ResultContent {
        let mut result = self.result(true);
        let wanted = |tree: &ResultTree| resources.contains(&tree.resource.as_str());
        result
            .trees
            .retain(|tree| resources.is_empty() || wanted(tree));
        result
    }

    fn some_changeset(&self) -> ChangesetId {
        self.facts
            .changesets
            .first()
            .map_or(ChangesetId::from_parts(1, 1), |open| open.id)
    }
}

pub fn path(text: &str) -> TreePath {
    TreePath::new(text).unwrap()
}

fn pick<T, const N: usize>(how: How, choices: [T; N]) -> T {
    choices.into_iter().nth(how.variant % N).unwrap()
}

fn choice() -> ReportedDecision {
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
