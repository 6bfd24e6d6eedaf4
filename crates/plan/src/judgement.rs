//! Judgements: the verdicts of rules on one version of a plan.
//!
//! Judging can be slow and runs outside of any transaction. A judgement therefore names the plan
//! version and rule revisions it was made on. [`crate::decide()`] accepts it only if both are
//! current and every rule in force was judged.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::invariant::{Gate, Rule, RuleRef, RuleScope};
use crate::{Caller, Digest, ErasableText, PlanId, PlanVersion, ResourceCommit, Timestamp};

/// The verdicts of all rules at a gate.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GateJudgement {
    pub version: PlanVersion,
    /// Revisions of the scopes whose rules were judged.
    pub revisions: BTreeMap<RuleScope, u64>,
    /// Digest of what was judged: what lands, and on what.
    pub subject: Digest,
    /// Digest of the open changeset entries that were judged. Needed because recording a change
    /// does not change the plan's version.
    pub recorded: Option<Digest>,
    /// The plan's targets when they were judged, with their rules.
    pub targets: PlanTargets,
    /// One per rule in force at the gate.
    pub verdicts: Vec<RuleVerdict>,
}

/// What a plan would land on. Read by the caller, because this crate does no I/O.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PlanTargets {
    /// Current commit of each target.
    pub tips: Vec<ResourceCommit>,
    /// Rules in the `planwright.yaml` of those commits.
    pub rules: Vec<Rule>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleVerdict {
    pub rule: RuleRef,
    pub outcome: RuleOutcome,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RuleOutcome {
    Held,
    /// With evidence for people.
    Failed(String),
    /// The check itself could not run, for example because its program is not installed. An agent cannot mend that.
    Broken(String),
    /// Not known yet.
    Open(PendingVerdictReason),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PendingVerdictReason {
    /// A person's ruling.
    Person,
    /// A run of the check on this result.
    Check,
}

impl PendingVerdictReason {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Person => "it is not answered yet",
            Self::Check => "it has not been checked yet",
        }
    }
}

/// The latest judgement that blocked a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GateVerdict {
    pub plan: PlanId,
    pub gate: Gate,
    /// The judged version. If the plan has a later one, the verdict is outdated.
    pub version: PlanVersion,
    /// The judged rule revisions. If they changed, judging again may help.
    pub revisions: BTreeMap<RuleScope, u64>,
    /// Commits of the plan's targets when they were judged.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tips: Vec<ResourceCommit>,
    pub failed: Vec<FailedRule>,
    pub at: Timestamp,
}

/// A rule that blocks a gate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedRule {
    pub rule: RuleRef,
    pub check: String,
    pub evidence: String,
    pub waivable: bool,
    /// Set if the rule did not fail but has no verdict yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits: Option<PendingVerdictReason>,
    /// The check could not run.
    #[serde(default, skip_serializing_if = "is_false")]
    pub broken: bool,
}

/// A stored verdict on a result, so that the check need not run again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleEvidence {
    pub plan: PlanId,
    /// Number of the execute entry that produced the judged result.
    pub entry: u32,
    /// Digest of what was judged. The verdict is valid for this subject only.
    #[serde(default)]
    pub subject: Digest,
    pub verdict: RuleVerdict,
    pub at: Timestamp,
}

impl RuleEvidence {
    /// Orders by rule, then by subject.
    pub fn compare_by_rule(one: &Self, other: &Self) -> std::cmp::Ordering {
        let key = |evidence: &Self| (evidence.verdict.rule.clone(), evidence.subject);
        key(one).cmp(&key(other))
    }
}

/// A rule that a result fails.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnmetRule {
    pub rule: RuleRef,
    pub evidence: ErasableText,
    /// The check could not run, so sending the result back cannot help.
    #[serde(default, skip_serializing_if = "is_false")]
    pub broken: bool,
}

/// A person's verdict on a rule that asks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PersonRuling {
    pub rule: RuleRef,
    /// Digest of what the person looked at.
    pub subject: Digest,
    pub outcome: RuleOutcome,
    pub by: Caller,
    pub at: Timestamp,
}

/// Counts of rules at an open gate, as recorded in its event.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleCounts {
    pub held: u32,
    pub advised: u32,
    pub waived: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_false(value: &bool) -> bool {
    !*value
}
