//! What an actor is given: everything it needs to know, as a value it can be handed as JSON. That JSON is
//! plain: how the store tells texts apart that can be erased is no concern of an actor's.

use std::collections::BTreeMap;
use std::path::PathBuf;

use plan::argument::ArgumentValue;
use plan::decision::{Confidence, DecisionKind, DecisionNode};
use plan::{Epoch, ErasableText, Phase, PlanId};
use serde::{Serialize, Serializer};

use crate::Usage;

/// The work of one phase.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Assignment {
    /// The plan.
    pub plan: PlanId,
    /// Strategize: decide what to do, change nothing. Execute: do it.
    pub phase: Phase,
    /// How often the phase was tried, from 1.
    pub attempt: u32,
    /// The same for every attempt at this entry into the phase.
    pub run_key: String,
    /// What the plan is for.
    pub goal: String,
    /// More about it, where the action has it.
    pub description: Option<String>,
    /// The arguments given to the action.
    #[serde(serialize_with = "plain_arguments")]
    pub arguments: BTreeMap<String, ArgumentValue>,
    /// Nothing may be changed; the result is a report.
    pub read_only: bool,
    /// Where to work, resource by resource; the first is the working directory.
    pub sandboxes: Vec<SandboxTold>,
    /// The rules the result will be judged by.
    pub rules: Vec<RuleTold>,
    /// What was decided so far.
    #[serde(serialize_with = "plain_decisions")]
    pub strategy: Vec<DecisionNode>,
    /// What a person or a rule said about earlier results, oldest first.
    pub feedback: Vec<Finding>,
    /// The feedback this run is for, if it was sent back; also the last of `feedback`.
    pub revises: bool,
    /// Paths that were put back to what they were; leave them alone.
    pub dropped: Vec<String>,
    /// Paths in which a merge left conflicts to be solved.
    pub conflicts: Vec<String>,
    /// What questions asked since the phase was entered were answered with, oldest first.
    pub answers: Vec<Finding>,
    /// Why earlier attempts ended or the plan was sent back to strategize, oldest first.
    pub findings: Vec<Finding>,
    /// What it may use.
    pub limits: AssignmentLimits,
    /// An earlier run of this actor on this plan, on this host.
    pub earlier: Option<EarlierSession>,
}

/// A sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SandboxTold {
    /// The plan's resource.
    pub resource: String,
    /// Its files.
    pub path: PathBuf,
}

/// A rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RuleTold {
    /// Its name.
    pub name: String,
    /// What it says.
    pub says: String,
    /// It only warns.
    pub advisory: bool,
}

/// Something that was said or happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What it is about: the question of an answer, the category of an error.
    pub about: String,
    /// What was said.
    pub text: String,
}

/// Limits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct AssignmentLimits {
    /// Seconds this run may take.
    pub seconds: Option<u64>,
    /// Tries of a phase before it waits for a person.
    pub attempts: u32,
}

/// An earlier run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct EarlierSession {
    /// The actor's own name for the conversation.
    pub session: String,
    /// What was used for it so far, as far as runs told.
    #[serde(skip)]
    pub used: Usage,
    /// Runs since then that told nothing, because their worker was killed. They went on with this conversation.
    #[serde(skip)]
    pub lost_runs: Vec<Epoch>,
}

fn plain_arguments<S: Serializer>(
    arguments: &BTreeMap<String, ArgumentValue>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(
        arguments
            .iter()
            .map(|(name, value)| (name, value.to_json())),
    )
}

fn plain_decisions<S: Serializer>(
    decisions: &[DecisionNode],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct PlainDecision<'a> {
        number: u32,
        parent: Option<u32>,
        kind: DecisionKind,
        question: &'a str,
        choice: &'a str,
        alternatives: Vec<&'a str>,
        rationale: Option<&'a str>,
        confidence: Option<Confidence>,
    }
    serializer.collect_seq(decisions.iter().map(|node| PlainDecision {
        number: node.number,
        parent: node.parent,
        kind: node.kind,
        question: node.question.as_str(),
        choice: node.choice.as_str(),
        alternatives: node.alternatives.iter().map(ErasableText::as_str).collect(),
        rationale: node.rationale.as_ref().map(ErasableText::as_str),
        confidence: node.confidence,
    }))
}
