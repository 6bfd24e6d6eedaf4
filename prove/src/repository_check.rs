//! Checks the repository of a trial against the plans that landed.

use std::collections::{BTreeMap, BTreeSet};

use crate::trial_env::TrialEnv;

impl TrialEnv {
    /// Lists the problems of branch, working tree, repository and store, given the plans that landed. Each landed plan
    /// must be on the branch once, no other plan may be, and no lock or journal may remain.
    pub fn find_repository_problems(&self, landed: &BTreeSet<&str>) -> anyhow::Result<Vec<String>> {
        let mut problems = Vec::new();
        let trailers = "--format=%(trailers:key=Planwright-Plan,valueonly,separator=%x2C)";
        let trailers = self.run_git(&["log", trailers, "main"])?;
        let mut commit_counts: BTreeMap<&str, usize> = BTreeMap::new();
        for plan in trailers.lines().filter(|line| !line.is_empty()) {
            *commit_counts.entry(plan).or_default() += 1;
        }
        for (plan, count) in &commit_counts {
            if *count > 1 {
                problems.push(format!("{plan} landed {count} times"));
            }
            if !landed.contains(plan) {
                problems.push(format!("{plan} is on the branch but did not land"));
            }
        }
        for plan in landed
            .iter()
            .filter(|plan| !commit_counts.contains_key(*plan))
        {
            problems.push(format!("{plan} landed but is not on the branch"));
        }
        let status = self.run_git(&["status", "--porcelain"])?;
        if !status.is_empty() {
            problems.push(format!(
                "the working tree differs from the branch: {status}"
            ));
        }
        for name in ["index.lock", "planwright", "refs/heads/main.lock"] {
            if self.repository.join(".git").join(name).exists() {
                problems.push(format!("{name} was left in the repository"));
            }
        }
        let fsck = self.run_git(&["fsck", "--no-dangling"]);
        let verified = self.run_checked(&["store", "verify"]);
        let errors = [fsck.err(), verified.err()].into_iter().flatten();
        problems.extend(errors.map(|error| error.to_string()));
        Ok(problems)
    }
}
