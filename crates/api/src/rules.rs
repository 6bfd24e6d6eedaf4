//! Rules: what must hold at a gate.

use lifecycle::{Call, Lifecycle, LifecycleError};
use plan::invariant::{Gate, Rule, RuleCheck, RuleDraft, RuleName, RuleScope};
use plan::{PlanId, QualifiedName};
use sandbox::ResourceLocation;
use serde::Deserialize;

/// A rule to add.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AddRuleRequest {
    pub scope: RuleScope,
    pub name: RuleName,
    pub check: RuleCheck,
    /// Where it is checked. Empty means every gate the check applies to.
    #[serde(default)]
    pub at: Vec<Gate>,
    /// A failure warns but does not block.
    #[serde(default)]
    pub advisory: bool,
    /// A narrower rule cannot replace it, and it cannot be waived.
    #[serde(default)]
    pub non_overridable: bool,
}

/// Adds a rule and returns it as it is stored. `None` if it was removed in the meantime.
pub fn add_rule(
    lifecycle: &Lifecycle,
    request: &AddRuleRequest,
    call: &Call,
) -> Result<Option<Rule>, LifecycleError> {
    let mut at = match request.at.is_empty() {
        true => lifecycle::default_gates(&request.check),
        false => request.at.clone(),
    };
    at.sort_unstable();
    at.dedup();
    let draft = RuleDraft {
        name: request.name.clone(),
        check: request.check.clone(),
        at,
        advisory: request.advisory,
        non_overridable: request.non_overridable,
    };
    let rules = lifecycle.rules();
    rules.add_rule(request.scope.clone(), draft, call)?;
    let stored = rules.list_rules()?;
    Ok(stored.find_rule(&request.scope, &request.name).cloned())
}

pub fn remove_rule(
    lifecycle: &Lifecycle,
    scope: &RuleScope,
    name: &RuleName,
    call: &Call,
) -> Result<(), LifecycleError> {
    let rules = lifecycle.rules();
    rules.remove_rule(scope.clone(), name.clone(), call)
}

/// Returns the stored rules of all scopes.
pub fn list_rules(lifecycle: &Lifecycle) -> Result<Vec<Rule>, LifecycleError> {
    Ok(lifecycle.rules().list_rules()?.rules)
}

/// Returns the rules in force for a plan, including those of its repositories.
pub fn list_effective_rules(
    lifecycle: &Lifecycle,
    plan_id: PlanId,
) -> Result<Vec<Rule>, LifecycleError> {
    let book = lifecycle.rules().effective_rules(plan_id)?;
    Ok(book.effective_rules().into_iter().cloned().collect())
}

/// Returns the globs of a check that match no file of a project. A project that cannot be read has none: it must not
/// prevent adding a rule.
pub fn find_unmatched_globs(
    lifecycle: &Lifecycle,
    check: &RuleCheck,
    project: &QualifiedName,
) -> Vec<String> {
    let (RuleCheck::Allow(globs) | RuleCheck::Forbid(globs)) = check else {
        return Vec::new();
    };
    let paths = list_project_paths(lifecycle, project).unwrap_or_default();
    match paths.is_empty() {
        true => Vec::new(),
        false => lifecycle::unmatched_globs(globs, &paths)
            .into_iter()
            .map(str::to_owned)
            .collect(),
    }
}

fn list_project_paths(
    lifecycle: &Lifecycle,
    project: &QualifiedName,
) -> Result<Vec<plan::changeset::TreePath>, LifecycleError> {
    let sandboxes = &lifecycle.local_host()?.sandboxes;
    let mut paths = Vec::new();
    for location in lifecycle
        .sandboxes()
        .locate_project_resources(std::slice::from_ref(project))?
    {
        if let ResourceLocation::Git { .. } = &location.location {
            let tip = sandboxes.read_tip(&location)?;
            paths.extend(sandboxes.checks().list_paths_at(&location, &tip)?);
        }
    }
    Ok(paths)
}
