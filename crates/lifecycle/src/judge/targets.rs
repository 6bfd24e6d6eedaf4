//! Reads the plan's targets: their current commits, and the rules in their `planwright.yaml`.
//!
//! Rules come from the target's commit, so an agent cannot change them in its sandbox. A landing reads them
//! from the commit it lands on (or, for a new branch, starts from), and git refuses to move the target if it
//! is no longer there. Uncommitted rules in a person's working tree are frozen into the plan at use.

use plan::invariant::{Gate, REPOSITORY_CONFIG_FILE, Rule, RuleDraft, RuleScope};
use plan::judgement::PlanTargets;
use plan::repository_policy::WorkingTreeRules;
use plan::stage::RefMove;
use plan::{Plan, QualifiedName, ResourceCommit};
use sandbox::{LocalResource, ObjectId, ResourceLocation};

use super::check_rule;
use crate::perform::parse_object_id;
use crate::{Gates, LifecycleError};

const BRANCH_PREFIX: &str = "refs/heads/";

impl Gates<'_> {
    /// Reads the current targets. Returns none without a local host, which cannot land anyway.
    pub(crate) fn read_targets(
        &self,
        plan: &Plan,
        gate: Gate,
    ) -> Result<PlanTargets, LifecycleError> {
        let mut targets = PlanTargets::default();
        if self.lifecycle.local_host.is_none() {
            return Ok(targets);
        }
        for resource in plan.resources() {
            let target = self
                .lifecycle
                .projects()
                .locate_resource(resource)
                .and_then(|location| self.read_target(&location));
            match target {
                Ok((tip, rules)) => {
                    targets.tips.extend(tip);
                    targets.rules.extend(rules);
                }
                // A missing resource does not close an early gate: the work fails with that reason.
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

    /// Reads the targets as these moves expect them.
    pub(super) fn read_targets_for_moves(
        &self,
        plan: &Plan,
        moves: &[RefMove],
    ) -> Result<PlanTargets, LifecycleError> {
        let mut targets = PlanTargets::default();
        if self.lifecycle.local_host.is_none() {
            return Ok(targets);
        }
        for step in moves {
            let location = self
                .lifecycle
                .projects()
                .locate_resource_named(plan, &step.resource)?;
            let (tip, rules) = match &location.location {
                // An uncommitted landing merges with a snapshot of the working tree, whose rules are not
                // committed. The rules of the target branch apply.
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
        let sandboxes = &self.lifecycle.local_host()?.sandboxes;
        match &location.location {
            ResourceLocation::Git { .. } => {
                let tip = sandboxes.read_tip(location)?;
                self.read_target_at(location, &tip)
            }
            // A directory has no commits, so its current file applies.
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

    /// Reads the rules in a commit's `planwright.yaml`, or in the current file of a directory.
    fn read_rules_at(
        &self,
        location: &LocalResource,
        commit: Option<&ObjectId>,
    ) -> Result<Vec<Rule>, LifecycleError> {
        let text = self
            .lifecycle
            .local_host()?
            .sandboxes
            .checks()
            .read_file_at(location, commit, REPOSITORY_CONFIG_FILE)?;
        let at_commit = commit.map(|commit| format!(" at {}", &commit.as_str()[..10]));
        let drafts = self.parse_rule_drafts(location, text, &at_commit.unwrap_or_default())?;
        let scope = RuleScope::Repository(location.name.clone());
        let rules = drafts.into_iter();
        let rules =
            rules.map(|draft| Rule::from_file(scope.clone(), draft, REPOSITORY_CONFIG_FILE));
        Ok(rules.collect())
    }

    /// Reads the rules in these projects' working trees that differ from those at the target. A new plan keeps
    /// them, because a rule that is written but not yet committed is meant to apply.
    pub(crate) fn read_uncommitted_rules(
        &self,
        projects: &[QualifiedName],
    ) -> Result<Vec<WorkingTreeRules>, LifecycleError> {
        if projects.is_empty() || self.lifecycle.local_host.is_none() {
            return Ok(Vec::new());
        }
        // On another host, its own file applies. Other errors are reported by the use itself.
        let locations = self
            .lifecycle
            .sandboxes()
            .locate_project_resources(projects)
            .unwrap_or_default();
        let mut frozen = Vec::new();
        for location in &locations {
            let ResourceLocation::Git { .. } = &location.location else {
                // The file of a directory is read at each gate.
                continue;
            };
            let sandboxes = &self.lifecycle.local_host()?.sandboxes;
            let text = sandboxes
                .checks()
                .read_working_tree_file(location, REPOSITORY_CONFIG_FILE)?;
            let mut rules = self.parse_rule_drafts(location, text, "")?;
            if rules.is_empty() {
                continue;
            }
            // If the committed rules cannot be read, all rules of the working tree count as new.
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

    /// Returns whether the rules in a checkout differ from those at the commit that plans land on. Rules there that
    /// cannot be read count as different.
    pub fn rules_differ_from_target(
        &self,
        location: &LocalResource,
    ) -> Result<bool, LifecycleError> {
        let sandboxes = &self.lifecycle.local_host()?.sandboxes;
        let tip = sandboxes.read_tip(location)?;
        let text = sandboxes
            .checks()
            .read_working_tree_file(location, REPOSITORY_CONFIG_FILE)?;
        let here = self.parse_rule_drafts(location, text, "")?;
        Ok(match self.read_rules_at(location, Some(&tip)) {
            Ok(committed) => !here.iter().eq(committed.iter().map(|rule| &rule.draft)),
            Err(_) => true,
        })
    }

    /// Parses the rules in a file and checks that each can be evaluated.
    fn parse_rule_drafts(
        &self,
        location: &LocalResource,
        text: Option<Vec<u8>>,
        at_commit: &str,
    ) -> Result<Vec<RuleDraft>, LifecycleError> {
        let (Some(read), Some(text)) = (self.lifecycle.rule_checks.read_rules, text) else {
            return Ok(Vec::new());
        };
        let problem = |why: String| {
            let path = location.location.path().display();
            LifecycleError::UnreadableRules(format!(
                "{REPOSITORY_CONFIG_FILE} in {path}{at_commit} is invalid: {why}"
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
