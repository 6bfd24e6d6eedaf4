//! The assignment that an agent is given, serializable as JSON. In that JSON, erasable texts are
//! plain strings.

use std::collections::BTreeMap;
use std::path::PathBuf;

use plan::argument::ArgumentValue;
use plan::decision::{Confidence, DecisionKind, DecisionNode};
use plan::review::{DiffSide, ReviewComment};
use plan::{Epoch, ErasableText, Phase, PlanId};
use serde::{Serialize, Serializer};

use crate::Usage;

/// The work of one phase.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Assignment {
    pub plan: PlanId,
    /// Strategize: decide what to do and change nothing. Execute: do it.
    pub phase: Phase,
    /// Starts at 1.
    pub attempt: u32,
    /// The same for every attempt since the phase was entered.
    pub run_key: String,
    pub goal: String,
    /// From the action, if it has one.
    pub description: Option<String>,
    /// The arguments of the action.
    #[serde(serialize_with = "plain_arguments")]
    pub arguments: BTreeMap<String, ArgumentValue>,
    /// Nothing may be changed; the result is a report.
    pub read_only: bool,
    /// One per resource; the first is the working directory.
    pub sandboxes: Vec<AssignedSandbox>,
    /// The rules that the result will be checked against.
    pub rules: Vec<AssignedRule>,
    /// The decisions made so far.
    #[serde(serialize_with = "plain_decisions")]
    pub strategy: Vec<DecisionNode>,
    /// Feedback on earlier results, from people and rules, oldest first.
    pub feedback: Vec<Finding>,
    /// The result was sent back; the last of `feedback` says why.
    pub revises: bool,
    /// Paths whose changes were reverted; the agent must not change them again.
    pub dropped: Vec<String>,
    /// Paths of which a person took parts of the changes out; the agent must not make them again.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub taken_out: Vec<String>,
    /// Paths in which a merge left conflicts to resolve.
    pub conflicts: Vec<String>,
    /// Answers to questions asked since the phase was entered, oldest first.
    pub answers: Vec<Finding>,
    /// Why earlier attempts ended or the plan was sent back to strategize, oldest first.
    pub findings: Vec<Finding>,
    pub limits: AssignmentLimits,
    /// The session of an earlier run of this agent on this plan, on this host.
    pub earlier: Option<EarlierSession>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AssignedSandbox {
    /// The plan's name for the resource.
    pub resource: String,
    /// The working tree.
    pub path: PathBuf,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AssignedRule {
    pub name: String,
    /// The condition, as text.
    pub says: String,
    /// It only warns.
    pub advisory: bool,
}

/// A note for the agent: an answer, feedback or an error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The question of an answer, or the category of an error.
    pub about: String,
    pub text: String,
    /// With feedback: comments on lines of the result.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub comments: Vec<AssignedComment>,
}

impl Finding {
    pub fn new(about: String, text: &(impl ToString + ?Sized)) -> Self {
        Self {
            about,
            text: text.to_string(),
            comments: Vec::new(),
        }
    }

    /// Returns the text and every comment with the code that it quotes.
    pub fn full_text(&self) -> String {
        let comments = self.comments.iter().map(AssignedComment::describe);
        let parts = std::iter::once(self.text.trim().to_owned()).chain(comments);
        let parts: Vec<String> = parts.filter(|part| !part.is_empty()).collect();
        parts.join("\n\n")
    }
}

/// A comment of a person on lines of a result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AssignedComment {
    /// The plan's name for the resource.
    pub resource: String,
    pub path: String,
    /// `old`: the lines are those before the change.
    pub side: DiffSide,
    /// From 1.
    pub first_line: u32,
    pub last_line: u32,
    /// The lines as they were when the person commented on them.
    pub quote: String,
    pub text: String,
}

impl AssignedComment {
    pub fn new(comment: &ReviewComment) -> Self {
        let place = &comment.place;
        Self {
            resource: place.file.resource.clone(),
            path: place.file.path.to_string(),
            side: place.side,
            first_line: place.first_line,
            last_line: place.last_line,
            quote: comment.quote.to_string(),
            text: comment.text.to_string(),
        }
    }

    fn describe(&self) -> String {
        let lines = match (self.first_line, self.last_line) {
            (first, last) if first == last => format!("line {first}"),
            (first, last) => format!("lines {first} to {last}"),
        };
        let side = match self.side {
            DiffSide::Old => " before the change",
            DiffSide::New => "",
        };
        let quote: String = self
            .quote
            .split('\n')
            .map(|line| format!("> {line}\n"))
            .collect();
        format!("{}, {lines}{side}:\n{quote}{}", self.path, self.text.trim())
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct AssignmentLimits {
    /// How long this run may take.
    pub seconds: Option<u64>,
    /// How many attempts a phase has before it waits for a person.
    pub attempts: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct EarlierSession {
    /// The agent's own id for the conversation.
    pub session: String,
    /// Reported usage of the session so far.
    #[serde(skip)]
    pub used: Usage,
    /// Later runs of the session that reported nothing because their worker was killed.
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
