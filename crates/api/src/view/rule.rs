//! Views of rules.

use plan::Timestamp;
use plan::invariant::{Gate, Rule, RuleCheck, RuleName, RuleScope};
use serde::Serialize;

#[derive(Debug, Serialize)]
pub struct RuleView {
    pub name: String,
    pub scope: String,
    /// The revision of its scope when it was added.
    pub revision: u64,
    /// `expr`, `allow`, `forbid`, `command` or `ask`.
    pub kind: &'static str,
    /// The condition, under a key named after its kind.
    #[serde(flatten)]
    pub check: RuleCheck,
    /// The gates where it is checked.
    pub at: Vec<Gate>,
    /// A failure warns but does not block.
    pub advisory: bool,
    /// A narrower rule cannot replace it, and it cannot be waived.
    pub non_overridable: bool,
    pub added_at: Timestamp,
    pub added_by: String,
}

impl From<&Rule> for RuleView {
    fn from(rule: &Rule) -> Self {
        Self {
            name: rule.draft.name.to_string(),
            scope: rule.scope.to_string(),
            revision: rule.revision,
            kind: rule.draft.check.kind(),
            check: rule.draft.check.clone(),
            at: rule.draft.at.clone(),
            advisory: rule.draft.advisory,
            non_overridable: rule.draft.non_overridable,
            added_at: rule.added_at,
            added_by: rule.added_by.to_string(),
        }
    }
}

#[derive(Debug, Serialize)]
pub struct RuleListView {
    pub rules: Vec<RuleView>,
}

impl RuleListView {
    pub fn new(rules: &[Rule]) -> Self {
        Self {
            rules: rules.iter().map(RuleView::from).collect(),
        }
    }
}

/// A rule that was removed.
#[derive(Debug, Serialize)]
pub struct RemovedRuleView {
    pub name: RuleName,
    pub scope: RuleScope,
}
