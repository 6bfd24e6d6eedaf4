//! The plan's targets: what they are at, and the rules in their own `planwright.yaml`.
//!
//! Read from the commit that the target is at: what somebody changed in a sandbox is not a rule. A landing
//! reads them from the very commit that it lands on or, for a new branch, starts from, and git refuses it if
//! the target is no longer there. Rules that a person has in their working tree at use, and has not committed
//! there, are frozen into the plan.

use plan::invariant::{Gate, REPOSITORY_CONFIG_FILE, Rule, RuleDraft, RuleScope};
use plan::judgement::PlanTargets;
use plan::stage::RefMove;
use plan::ways::WorkingTreeRules;
use plan::{Plan, QualifiedName, ResourceCommit};
use sandbox::{LocalResource, ObjectId, ResourceLocation};

use super::check_rule;
use crate::perform::parse_object_id;
use crate::{Lifecycle, LifecycleError};

/// What the full names of branches begin with.
const BRANCH_PREFIX: &str = "refs/heads/";

impl Lifecycle {
    /// The targets as they are now. Without hands nobody can look; then nobody can land, either.
    pub(crate) fn read_targets(
        &self,
        plan: &Plan,
        gate: Gate,
    ) -> Result<PlanTargets, LifecycleError> {
        let mut targets = PlanTargets::default();
        if self.local_host.is_none() {
            return Ok(targets);
        }
        for resource in &plan.resources {
            let target = self
                .locate_resource(resource)
                .and_then(|location| self.read_target(&location));
            match target {
                Ok((tip, rules)) => {
                    targets.tips.extend(tip);
                    targets.rules.extend(rules);
                }
                // Work on what is gone fails for that reason, and says so.
                Err(
                    LifecycleError::Sandbox(_)
                    | LifecycleError::ResourceGone { .. }
                    | LifecycleError::Refused(_),
                ) if !gate.has_result() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(targets)
    }

    /// The targets as these moves would find them.
    pub(super) fn read_targets_for_moves(
        &self,
        plan: &Plan,
        moves: &[RefMove],
    ) -> Result<PlanTargets, LifecycleError> {
        let mut targets = PlanTargets::default();
        if self.local_host.is_none() {
            return Ok(targets);
        }
        for step in moves {
            let location = self.locate_resource_named(plan, &step.resource)?;
            let (tip, rules) = match &location.location {
                // A working tree is merged with as it is, which may be a snapshot that nobody committed:
                // what is not committed is no rule. Those of the branch it would have landed on hold.
                ResourceLocation::Git { .. } if !step.target.starts_with(BRANCH_PREFIX) => {
                    self.read_target(&location)?
                }
                ResourceLocation::Git { .. } => {
                    self.read_target_at(&location, &parse_object_id(step.merge_parent())?)?
                }
                ResourceLocation::Dir { .. } => self.read_target(&location)?,
            };
            targets.tips.extend(tip);
            targets.rules.extend(rules);
        }
        Ok(targets)
    }

    fn read_target(
        &self,
        location: &LocalResource,
    ) -> Result<(Option<ResourceCommit>, Vec<Rule>), LifecycleError> {
        let sandboxes = &self.local_host()?.sandboxes;
        match &location.location {
            ResourceLocation::Git { .. } => {
                let tip = sandboxes.read_tip(location)?;
                self.read_target_at(location, &tip)
            }
            // A directory has no commits; its file is read as it is.
            ResourceLocation::Dir { .. } => Ok((None, self.read_rules_at(location, None)?)),
        }
    }

    fn read_target_at(
        &self,
        location: &LocalResource,
        commit: &ObjectId,
    ) -> Result<(Option<ResourceCommit>, Vec<Rule>), LifecycleError> {
        let base = ResourceCommit {
            resource: location.name.clone(),
            commit: commit.to_string(),
        };
        Ok((Some(base), self.read_rules_at(location, Some(commit))?))
    }

    /// The rules in a commit's own file.
    fn read_rules_at(
        &self,
        location: &LocalResource,
        commit: Option<&ObjectId>,
    ) -> Result<Vec<Rule>, LifecycleError> {
        let text =
            self.local_host()?
                .sandboxes
                .read_file_at(location, commit, REPOSITORY_CONFIG_FILE)?;
        let at_commit = commit.map(|commit| format!(" at {}", &commit.as_str()[..10]));
        let drafts = self.parse_rule_drafts(location, text, &at_commit.unwrap_or_default())?;
        let scope = RuleScope::Repository(location.name.clone());
        let rules = drafts.into_iter();
        let rules =
            rules.map(|draft| Rule::from_file(scope.clone(), draft, REPOSITORY_CONFIG_FILE));
        Ok(rules.collect())
    }

    /// The rules in the working trees of these projects that the commits they land on do not have in the same
    /// words. A plan that is made now keeps them: whoever wrote a rule and has not committed it means it.
    pub(crate) fn read_uncommitted_rules(
        &self,
        projects: &[QualifiedName],
    ) -> Result<Vec<WorkingTreeRules>, LifecycleError> {
        if projects.is_empty() || self.local_host.is_none() {
            return Ok(Vec::new());
        }
        // On another host its own file counts; what is wrong otherwise is said by the use itself.
        let locations = self.locate_project_resources(projects).unwrap_or_default();
        let mut frozen = Vec::new();
        for location in &locations {
            let ResourceLocation::Git { .. } = &location.location else {
                // The file of a directory is read as it is, whenever it matters.
                continue;
            };
            let sandboxes = &self.local_host()?.sandboxes;
            let text = sandboxes.read_working_tree_file(location, REPOSITORY_CONFIG_FILE)?;
            let mut rules = self.parse_rule_drafts(location, text, "")?;
            if rules.is_empty() {
                continue;
            }
            // Rules that cannot be read there are not those of the working tree.
            let tip = sandboxes.read_tip(location).map_err(LifecycleError::from);
            let committed = tip.and_then(|tip| self.read_rules_at(location, Some(&tip)));
            let committed = committed.unwrap_or_default();
            rules.retain(|draft| !committed.iter().any(|rule| rule.draft == *draft));
            if !rules.is_empty() {
                frozen.push(WorkingTreeRules {
                    resource: location.name.clone(),
                    rules,
                });
            }
        }
        Ok(frozen)
    }

    /// The rules that a file says, each of which can be judged.
    fn parse_rule_drafts(
        &self,
        location: &LocalResource,
        text: Option<Vec<u8>>,
        at_commit: &str,
    ) -> Result<Vec<RuleDraft>, LifecycleError> {
        let (Some(read), Some(text)) = (self.rule_checks.read_rules, text) else {
            return Ok(Vec::new());
        };
        let problem = |why: String| {
            let path = location.location.path().display();
            LifecycleError::UnreadableRules(format!(
                "{REPOSITORY_CONFIG_FILE} of {path}{at_commit} cannot be used: {why}"
            ))
        };
        let text = String::from_utf8(text).map_err(|_| problem("it is not UTF-8".to_owned()))?;
        let drafts = read(&text).map_err(problem)?;
        for draft in &drafts {
            check_rule(draft).map_err(|error| problem(error.to_string()))?;
        }
        Ok(drafts)
    }
}
