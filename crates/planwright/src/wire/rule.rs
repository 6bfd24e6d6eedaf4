//! Rules as programs see them.

use plan::Timestamp;
use plan::invariant::{Gate, Rule, RuleCheck};
use serde::Serialize;

/// A rule.
#[derive(Debug, Serialize)]
pub struct RuleView {
    /// Its name.
    pub name: String,
    /// Where it holds.
    pub scope: String,
    /// Its scope's revision when it was added.
    pub revision: u64,
    /// Of which kind it is: expr, allow, forbid, command or ask.
    pub kind: &'static str,
    /// What it says, by its kind.
    #[serde(flatten)]
    pub check: RuleCheck,
    /// Where it is judged.
    pub at: Vec<Gate>,
    /// A failure is told but does not block.
    pub advisory: bool,
    /// No narrower rule replaces it and nobody waives it.
    pub non_overridable: bool,
    /// When it was added.
    pub added_at: Timestamp,
    /// By whom.
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
