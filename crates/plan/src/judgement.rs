//! Judgements: what the rules said about a plan, and about which snapshot they said it.
//!
//! Judging may be slow and happens outside of any transaction. A judgement therefore names the plan
//! version and the rule revisions it was made on; [`crate::decide()`] takes it only if both are still
//! those and every rule in force was judged.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::invariant::{Gate, Rule, RuleRef, RuleScope};
use crate::{Caller, Digest, ErasableText, PlanId, PlanVersion, ResourceCommit, Timestamp};

/// What the rules said at a gate.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GateJudgement {
    /// The version of the plan that was judged.
    pub version: PlanVersion,
    /// The revisions of the scopes whose rules judged it.
    pub revisions: BTreeMap<RuleScope, u64>,
    /// What exactly was judged: what is to land, and on what.
    pub subject: Digest,
    /// The digest of the recorded changes that rules were asked about and that others could still be added
    /// to: recording one moves no version.
    pub recorded: Option<Digest>,
    /// The plan's targets as they were, with their own rules.
    pub targets: PlanTargets,
    /// One for each rule in force at the gate.
    pub verdicts: Vec<RuleVerdict>,
}

/// What a plan would land on, looked at by whoever can reach it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PlanTargets {
    /// The commit that each is at.
    pub tips: Vec<ResourceCommit>,
    /// The rules in the `planwright.yaml` of those commits. They change only by landing there.
    pub rules: Vec<Rule>,
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
    /// That is not known yet.
    Open(PendingVerdictReason),
}

/// What a verdict waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PendingVerdictReason {
    /// A person has to look.
    Person,
    /// Its check has not been run on this result.
    Check,
}

impl PendingVerdictReason {
    /// In words, for people.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Person => "nobody has judged it yet",
            Self::Check => "it has not been checked yet",
        }
    }
}

/// The latest judgement that blocked a plan, stored beside it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GateVerdict {
    /// The plan.
    pub plan: PlanId,
    /// The gate that did not open.
    pub gate: Gate,
    /// The version that was judged; once the plan moved on, the verdict is history.
    pub version: PlanVersion,
    /// The revisions of the rules that judged it; once they changed, judging again may help.
    pub revisions: BTreeMap<RuleScope, u64>,
    /// The commits that the plan's targets were at.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tips: Vec<ResourceCommit>,
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
    /// It did not fail: this is what its verdict waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits: Option<PendingVerdictReason>,
}

/// What one rule said about a result; kept, so that nobody has to ask it again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleEvidence {
    /// The plan.
    pub plan: PlanId,
    /// Which entry into execute produced the result that was judged.
    pub entry: u32,
    /// What exactly was judged. Of another subject it says nothing.
    #[serde(default)]
    pub subject: Digest,
    /// What the rule said.
    pub verdict: RuleVerdict,
    /// When.
    pub at: Timestamp,
}

impl RuleEvidence {
    /// The order in which it is told: by rule, then by subject.
    pub fn compare_by_rule(one: &Self, other: &Self) -> std::cmp::Ordering {
        let key = |of: &Self| (of.verdict.rule.clone(), of.subject);
        key(one).cmp(&key(other))
    }
}

/// A rule that a result does not meet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnmetRule {
    /// Which wording of which rule.
    pub rule: RuleRef,
    /// What was found.
    pub evidence: ErasableText,
}

/// What a person said of a rule that asks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PersonRuling {
    /// Which wording of which rule.
    pub rule: RuleRef,
    /// What exactly they looked at.
    pub subject: Digest,
    /// What they said.
    pub outcome: RuleOutcome,
    /// Who.
    pub by: Caller,
    /// When.
    pub at: Timestamp,
}

/// How many rules held at a gate: the one event a passing judgement adds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleCounts {
    /// Rules that held.
    pub held: u32,
    /// Advisory rules that failed.
    pub advised: u32,
    /// Rules that failed and were waived.
    pub waived: u32,
}
