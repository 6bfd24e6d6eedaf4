//! The plan's targets: what they are at, and the rules in their own `planwright.yaml`.
//!
//! Read from the commit that the target is at: what somebody changed in a sandbox is not a rule. A landing
//! reads them from the very commit that it lands on or, for a new branch, starts from, and git refuses it if
//! the target is no longer there. Rules that a person has in their working tree at use, and has not committed
//! there, are frozen into the plan.

use plan::invariant::{FILE, Gate, Rule, RuleDraft, Scope};
use plan::judgement::Targets;
use plan::stage::RefMove;
use plan::ways::FileRules;
use plan::{Base, Name, Plan};
use sandbox::{ObjectId, Site, SitePlace};

use super::check_rule;
use crate::perform::object;
use crate::{Error, Lifecycle};

/// What the full names of branches begin with.
const BRANCHES: &str = "refs/heads/";

impl Lifecycle {
    /// The targets as they are now. Without hands nobody can look; then nobody can land, either.
    pub(crate) fn targets_of(&self, plan: &Plan, gate: Gate) -> Result<Targets, Error> {
        let mut targets = Targets::default();
        if self.hands.is_none() {
            return Ok(targets);
        }
        for resource in &plan.resources {
            let looked = self.site(resource).and_then(|site| self.target(&site));
            match looked {
                Ok((tip, rules)) => {
                    targets.tips.extend(tip);
                    targets.rules.extend(rules);
                }
                // Work on what is gone fails for that reason, and says so.
                Err(Error::Sandbox(_) | Error::ResourceGone { .. } | Error::Refused(_))
                    if !gate.has_result() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(targets)
    }

    /// The targets as these moves would find them.
    pub(super) fn targets_at(&self, plan: &Plan, moves: &[RefMove]) -> Result<Targets, Error> {
        let mut targets = Targets::default();
        if self.hands.is_none() {
            return Ok(targets);
        }
        for step in moves {
            let site = self.site_named(plan, &step.resource)?;
            let (tip, rules) = match &site.place {
                // A working tree is merged with as it is, which may be a snapshot that nobody committed:
                // what is not committed is no rule. Those of the branch it would have landed on hold.
                SitePlace::Git { .. } if !step.target.starts_with(BRANCHES) => {
                    self.target(&site)?
                }
                SitePlace::Git { .. } => self.target_at(&site, &object(step.merged_with())?)?,
                SitePlace::Dir { .. } => self.target(&site)?,
            };
            targets.tips.extend(tip);
            targets.rules.extend(rules);
        }
        Ok(targets)
    }

    fn target(&self, site: &Site) -> Result<(Option<Base>, Vec<Rule>), Error> {
        let workshop = &self.hands()?.workshop;
        match &site.place {
            SitePlace::Git { .. } => {
                let tip = workshop.tip(site)?;
                self.target_at(site, &tip)
            }
            // A directory has no commits; its file is read as it is.
            SitePlace::Dir { .. } => Ok((None, self.rules_in(site, None)?)),
        }
    }

    fn target_at(
        &self,
        site: &Site,
        commit: &ObjectId,
    ) -> Result<(Option<Base>, Vec<Rule>), Error> {
        let base = Base {
            resource: site.name.clone(),
            commit: commit.to_string(),
        };
        Ok((Some(base), self.rules_in(site, Some(commit))?))
    }

    /// The rules in a commit's own file.
    fn rules_in(&self, site: &Site, commit: Option<&ObjectId>) -> Result<Vec<Rule>, Error> {
        let text = self.hands()?.workshop.file_at(site, commit, FILE)?;
        let at = commit.map(|commit| format!(" at {}", &commit.as_str()[..10]));
        let drafts = self.drafts_in(site, text, &at.unwrap_or_default())?;
        let scope = Scope::Repository(site.name.clone());
        let rules = drafts.into_iter();
        let rules = rules.map(|draft| Rule::of_file(scope.clone(), draft, FILE));
        Ok(rules.collect())
    }

    /// The rules in the working trees of these projects that the commits they land on do not have in the same
    /// words. A plan that is made now keeps them: whoever wrote a rule and has not committed it means it.
    pub(crate) fn rules_to_freeze(&self, projects: &[Name]) -> Result<Vec<FileRules>, Error> {
        if projects.is_empty() || self.hands.is_none() {
            return Ok(Vec::new());
        }
        // On another host its own file counts; what is wrong otherwise is said by the use itself.
        let sites = self.sites_of_projects(projects).unwrap_or_default();
        let mut frozen = Vec::new();
        for site in &sites {
            let SitePlace::Git { .. } = &site.place else {
                // The file of a directory is read as it is, whenever it matters.
                continue;
            };
            let workshop = &self.hands()?.workshop;
            let text = workshop.file_in_working_tree(site, FILE)?;
            let mut rules = self.drafts_in(site, text, "")?;
            if rules.is_empty() {
                continue;
            }
            // Rules that cannot be read there are not those of the working tree.
            let tip = workshop.tip(site).map_err(Error::from);
            let committed = tip.and_then(|tip| self.rules_in(site, Some(&tip)));
            let committed = committed.unwrap_or_default();
            rules.retain(|draft| !committed.iter().any(|rule| rule.draft == *draft));
            if !rules.is_empty() {
                frozen.push(FileRules {
                    resource: site.name.clone(),
                    rules,
                });
            }
        }
        Ok(frozen)
    }

    /// The rules that a file says, each of which can be judged.
    fn drafts_in(
        &self,
        site: &Site,
        text: Option<Vec<u8>>,
        at: &str,
    ) -> Result<Vec<RuleDraft>, Error> {
        let (Some(read), Some(text)) = (self.inspectors.read_rules, text) else {
            return Ok(Vec::new());
        };
        let problem = |why: String| {
            let path = site.place.path().display();
            Error::Rules(format!("{FILE} of {path}{at} cannot be used: {why}"))
        };
        let text = String::from_utf8(text).map_err(|_| problem("it is not UTF-8".to_owned()))?;
        let drafts = read(&text).map_err(problem)?;
        for draft in &drafts {
            check_rule(draft).map_err(|error| problem(error.to_string()))?;
        }
        Ok(drafts)
    }
}
