//! Judgements: what the rules said about a plan, and about which snapshot they said it.
//!
//! Judging may be slow and happens outside of any transaction. A judgement therefore names the plan
//! version and the rule revisions it was made on; [`crate::decide()`] takes it only if both are still
//! those and every rule in force was judged.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::invariant::{Gate, RuleRef, Scope};
use crate::{PlanId, Timestamp, Version};

/// What the rules said at a gate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judgement {
    /// The version of the plan that was judged.
    pub version: Version,
    /// The revisions of the scopes whose rules judged it.
    pub revisions: BTreeMap<Scope, u64>,
    /// One for each rule in force at the gate.
    pub verdicts: Vec<RuleVerdict>,
}

/// What one rule said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleVerdict {
    /// Which wording of which rule.
    pub rule: RuleRef,
    /// What it said.
    pub outcome: RuleOutcome,
}

/// Did the rule hold?
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RuleOutcome {
    /// Yes.
    Held,
    /// No; this is the evidence.
    Failed(String),
}

/// The latest judgement that blocked a plan, stored beside it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// The plan.
    pub plan: PlanId,
    /// The gate that did not open.
    pub gate: Gate,
    /// The version that was judged; once the plan moved on, the verdict is history.
    pub version: Version,
    /// The revisions of the rules that judged it; once they changed, judging again may help.
    pub revisions: BTreeMap<Scope, u64>,
    /// The rules that failed, with their evidence.
    pub failed: Vec<FailedRule>,
    /// When.
    pub at: Timestamp,
}

/// A rule that failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedRule {
    /// Which wording of which rule.
    pub rule: RuleRef,
    /// The check as it was written.
    pub check: String,
    /// What was found.
    pub evidence: String,
    /// Could it be waived?
    pub waivable: bool,
}

/// What one rule said about the result of execute; kept for apply.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evidence {
    /// The plan.
    pub plan: PlanId,
    /// Which entry into execute produced the result that was judged.
    pub entry: u32,
    /// What the rule said.
    pub verdict: RuleVerdict,
    /// When.
    pub at: Timestamp,
}

/// How many rules held at a gate: the one event a passing judgement adds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Rules that held.
    pub held: u32,
    /// Advisory rules that failed.
    pub advised: u32,
    /// Rules that failed and were waived.
    pub waived: u32,
}
