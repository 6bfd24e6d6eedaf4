//! The rows that a command's decision reads, and how each is locked.

use std::collections::BTreeSet;

use crate::changeset::TreePath;
use crate::invariant::{RuleScope, scopes_for_plan};
use crate::{Plan, PlanId, QualifiedName};

/// The plan a command is about, with the parts of it that never change.
#[derive(Debug, Clone, Default)]
pub struct CommandTarget {
    pub plan_id: Option<PlanId>,
    /// The plan's action. Frozen at use, so it may come from an earlier read.
    pub action: Option<QualifiedName>,
    /// The plan's projects. Also frozen at use.
    pub projects: Vec<QualifiedName>,
}

impl CommandTarget {
    pub fn for_plan(plan: &Plan) -> Self {
        Self {
            plan_id: Some(plan.id()),
            action: plan.action().cloned(),
            projects: plan.projects().into_iter().cloned().collect(),
        }
    }

    /// The plan and its lease, to be changed.
    pub(crate) fn plan_reads(&self) -> ReadSet {
        ReadSet {
            plan: self.plan_id.map(|id| (id, RowAccess::Exclusive)),
            ..ReadSet::default()
        }
    }

    /// The plan with its budget. Commands that end a lease settle its reservation; commands that set
    /// limits compare them with what is already spent.
    pub(crate) fn plan_reads_with_ledger(&self) -> ReadSet {
        ReadSet {
            ledger: LedgerReads::OfPlan,
            ..self.plan_reads()
        }
    }

    /// The plan with what people noted about it.
    pub(crate) fn plan_reads_with_reviews(&self) -> ReadSet {
        ReadSet {
            reviews: ReviewReads::OfPlan,
            ..self.plan_reads()
        }
    }

    /// The plan with its projects, so that a paused or deleted project refuses claims and new plans.
    pub(crate) fn plan_reads_with_projects(&self) -> ReadSet {
        ReadSet {
            projects: ProjectReads::OfPlan,
            ..self.plan_reads()
        }
    }

    /// The plan and the rules that judge it. The action is locked so that its rules cannot change
    /// between the judgement and the commit.
    pub(crate) fn gated_reads(&self) -> ReadSet {
        let shared = |scope| (scope, RowAccess::Shared);
        let action = self.action.clone();
        ReadSet {
            action: action.map(|name| (name, RowAccess::Shared)),
            rules: self.rule_scopes().into_iter().map(shared).collect(),
            ..self.plan_reads()
        }
    }

    /// The scopes whose rules apply to the plan.
    pub(crate) fn rule_scopes(&self) -> Vec<RuleScope> {
        let scopes_for = |plan| scopes_for_plan(plan, self.action.as_ref(), &self.projects);
        self.plan_id.map(scopes_for).unwrap_or_default()
    }
}

/// The rows a decision needs. They stay locked until the commit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReadSet {
    /// A plan and its lease.
    pub plan: Option<(PlanId, RowAccess)>,
    pub action: Option<(QualifiedName, RowAccess)>,
    /// Scopes with their rules and revisions.
    ///
    /// A command that changes the rules of an action or a plan also reads that action or plan
    /// exclusively. Otherwise a scope without a row yet could appear unnoticed.
    pub rules: Vec<(RuleScope, RowAccess)>,
    /// The plan's open changesets.
    pub changesets: ChangesetReads,
    pub projects: ProjectReads,
    /// Spent and reserved amounts.
    pub ledger: LedgerReads,
    pub reviews: ReviewReads,
}

impl ReadSet {
    /// An action, to be changed.
    pub(crate) fn for_action(name: &QualifiedName) -> Self {
        Self {
            action: Some((name.clone(), RowAccess::Exclusive)),
            ..Self::default()
        }
    }

    /// A project, to be changed.
    pub(crate) fn for_project(name: &QualifiedName) -> Self {
        Self {
            projects: ProjectReads::Named(vec![(name.clone(), RowAccess::Exclusive)]),
            ..Self::default()
        }
    }

    /// Returns the union of both sets, each row with the stricter access.
    #[must_use]
    pub fn merge_with(mut self, other: Self) -> Self {
        self.plan = merge_access(self.plan, other.plan);
        self.action = merge_access(self.action, other.action);
        for (scope, access) in other.rules {
            match self.rules.iter_mut().find(|(own, _)| *own == scope) {
                Some((_, own)) => *own = (*own).max(access),
                None => self.rules.push((scope, access)),
            }
        }
        self.changesets = match (self.changesets, other.changesets) {
            (ChangesetReads::None, reads) | (reads, ChangesetReads::None) => reads,
            (ChangesetReads::EntriesAt(mut paths), ChangesetReads::EntriesAt(more)) => {
                paths.extend(more);
                ChangesetReads::EntriesAt(paths)
            }
            (ChangesetReads::All, _) | (_, ChangesetReads::All) => ChangesetReads::All,
        };
        self.projects = self.projects.merge_with(other.projects);
        self.ledger = self.ledger.max(other.ledger);
        self.reviews = self.reviews.max(other.reviews);
        self
    }
}

/// Merges two reads of the same row; a set reads at most one plan and one action.
fn merge_access<T>(
    one: Option<(T, RowAccess)>,
    other: Option<(T, RowAccess)>,
) -> Option<(T, RowAccess)> {
    match (one, other) {
        (Some((row, access)), Some((_, other))) => Some((row, access.max(other))),
        (one, other) => one.or(other),
    }
}

/// The lock mode of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RowAccess {
    /// Others may read the row; nobody may change it.
    Shared,
    /// The decision may change the row.
    Exclusive,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ChangesetReads {
    #[default]
    None,
    /// The changesets, and their entries at these paths.
    EntriesAt(Vec<TreePath>),
    /// The changesets and all their entries.
    All,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum LedgerReads {
    #[default]
    None,
    /// The global account, the plan's account and its reservations. The decision may change them,
    /// so commands that read them run one after the other.
    OfPlan,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReviewReads {
    #[default]
    None,
    /// The reviews of the plan. A command that changes one reads the plan exclusively.
    OfPlan,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ProjectReads {
    #[default]
    None,
    /// The projects with these names. A project read exclusively comes with the unfinished plans
    /// that use it.
    Named(Vec<(QualifiedName, RowAccess)>),
    /// The projects of the plan's resources, locked against changes. A plan's projects never
    /// change.
    OfPlan,
}

impl ProjectReads {
    /// The projects of a new plan, without duplicates. Explicitly empty if there are none, so that a
    /// claim in the same commit does not look for any.
    pub(crate) fn for_new_plan(names: &[QualifiedName]) -> Self {
        let names: BTreeSet<&QualifiedName> = names.iter().collect();
        let shared = |name: &QualifiedName| (name.clone(), RowAccess::Shared);
        Self::Named(names.into_iter().map(shared).collect())
    }

    fn merge_with(self, other: Self) -> Self {
        match (self, other) {
            (Self::None, reads) | (reads, Self::None) => reads,
            (Self::OfPlan, Self::OfPlan) => Self::OfPlan,
            // A plan that is created and claimed at once uses only the projects it is created with.
            (Self::Named(named), Self::OfPlan) | (Self::OfPlan, Self::Named(named)) => {
                Self::Named(named)
            }
            (Self::Named(mut named), Self::Named(more)) => {
                for (name, access) in more {
                    match named.iter_mut().find(|(own, _)| *own == name) {
                        Some((_, own)) => *own = (*own).max(access),
                        None => named.push((name, access)),
                    }
                }
                Self::Named(named)
            }
        }
    }
}
