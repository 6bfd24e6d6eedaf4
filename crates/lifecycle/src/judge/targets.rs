//! The plan's targets: what they are at, and the rules in their own `planwright.yaml`.
//!
//! Read from the commit that the target is at, and from nowhere else: what somebody changed in a sandbox
//! or has not committed yet is no rule. A landing reads them from the very commit that it lands on or, for
//! a new branch, starts from, and git refuses it if the target is no longer there.

use plan::invariant::{Gate, Rule, RuleDraft, Scope};
use plan::judgement::Targets;
use plan::stage::RefMove;
use plan::{Base, Caller, Digest, Plan, Timestamp};
use sandbox::{ObjectId, Site, SitePlace};

use super::check_rule;
use crate::perform::object;
use crate::{Error, Lifecycle};

/// Where a repository says how it wants to be worked on.
const FILE: &str = "planwright.yaml";

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
        let hands = self.hands()?;
        let Some(read) = self.inspectors.read_rules else {
            return Ok(Vec::new());
        };
        let Some(text) = hands.workshop.file_at(site, commit, FILE)? else {
            return Ok(Vec::new());
        };
        let problem = |why: String| {
            let path = site.place.path().display();
            let at = commit.map(|commit| format!(" at {}", &commit.as_str()[..10]));
            let at = at.unwrap_or_default();
            Error::Rules(format!("{FILE} of {path}{at} cannot be used: {why}"))
        };
        let text = String::from_utf8(text).map_err(|_| problem("it is not UTF-8".to_owned()))?;
        let drafts = read(&text).map_err(problem)?;
        let mut rules = Vec::new();
        for draft in drafts {
            check_rule(&draft).map_err(|error| problem(error.to_string()))?;
            rules.push(rule_of(&site.name, draft));
        }
        Ok(rules)
    }
}

/// A rule as a repository has it. Its revision is made of what it says: another wording is another rule.
fn rule_of(resource: &str, draft: RuleDraft) -> Rule {
    let said = serde_json::to_vec(&draft).expect("BUG: a rule always encodes");
    let digest = Digest::of(&said);
    let mut start = [0; 8];
    start.copy_from_slice(&digest.as_bytes()[..8]);
    Rule {
        scope: Scope::Repository(resource.to_owned()),
        // Every store holds it as a signed number.
        revision: u64::from_be_bytes(start) >> 1,
        draft,
        added_at: Timestamp(0),
        added_by: Caller::Person(FILE.to_owned()),
    }
}
