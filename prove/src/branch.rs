//! What must hold of the repository of a trial, whatever landed on it.

use std::collections::{BTreeMap, BTreeSet};

use crate::ground::Ground;

impl Ground {
    /// What is wrong with the branch, the working tree, the repository and the store, if these plans landed: each is
    /// in the branch once, no other is, and nothing was left lying about.
    pub fn problems(&self, landed: &BTreeSet<&str>) -> anyhow::Result<Vec<String>> {
        let mut problems = Vec::new();
        let trailers = "--format=%(trailers:key=Planwright-Plan,valueonly,separator=%x2C)";
        let trailers = self.git(&["log", trailers, "main"])?;
        let mut times: BTreeMap<&str, usize> = BTreeMap::new();
        for plan in trailers.lines().filter(|line| !line.is_empty()) {
            *times.entry(plan).or_default() += 1;
        }
        for (plan, times) in &times {
            if *times > 1 {
                problems.push(format!("{plan} landed {times} times"));
            }
            if !landed.contains(plan) {
                problems.push(format!("{plan} is in the branch and did not land"));
            }
        }
        for plan in landed.iter().filter(|plan| !times.contains_key(*plan)) {
            problems.push(format!("{plan} landed and is not in the branch"));
        }
        let status = self.git(&["status", "--porcelain"])?;
        if !status.is_empty() {
            problems.push(format!("the working tree is not the branch's: {status}"));
        }
        for left in ["index.lock", "planwright", "refs/heads/main.lock"] {
            if self.shop.join(".git").join(left).exists() {
                problems.push(format!("{left} was left in the repository"));
            }
        }
        let sound = self.git(&["fsck", "--no-dangling"]);
        let verified = self.must(&["store", "verify"]);
        let errors = [sound.err(), verified.err()].into_iter().flatten();
        problems.extend(errors.map(|error| error.to_string()));
        Ok(problems)
    }
}
