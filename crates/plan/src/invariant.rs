//! Invariants: named rules with a scope, a check and the gates they are judged at.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::judgement::PlanTargets;
use crate::{Caller, Digest, Plan, PlanId, QualifiedName, Span, Timestamp};

/// Where a repository says how it wants to be worked on.
pub const REPOSITORY_CONFIG_FILE: &str = "planwright.yaml";

/// Where a rule holds. The order is the order of precedence: later is narrower.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum RuleScope {
    /// Every plan.
    Global,
    /// Plans that work on a project.
    Project(QualifiedName),
    /// Plans that work on a resource whose target commit has the rule in its `planwright.yaml`. It is read
    /// there whenever it is judged, and not stored.
    Repository(String),
    /// A plan that works on a resource, by the `planwright.yaml` of its working tree at use. Frozen into the
    /// plan, and not stored anywhere else.
    WorkingTree(String),
    /// Plans of an action.
    Action(QualifiedName),
    /// One plan.
    Plan(PlanId),
}

impl RuleScope {
    /// How narrow it is: a narrower rule replaces a wider one of its name. Two of one width hold together.
    fn narrowness(&self) -> u8 {
        match self {
            Self::Global => 0,
            Self::Project(_) => 1,
            // Neither replaces the other: what is committed and what was read at use both hold.
            Self::Repository(_) | Self::WorkingTree(_) => 2,
            Self::Action(_) => 3,
            Self::Plan(_) => 4,
        }
    }

    /// Is it narrower than another?
    pub fn is_narrower_than(&self, other: &Self) -> bool {
        self.narrowness() > other.narrowness()
    }
}

impl fmt::Display for RuleScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Global => f.write_str("global"),
            Self::Project(name) => write!(f, "project:{}", name.full_name()),
            Self::Repository(resource) => write!(f, "repository:{resource}"),
            Self::WorkingTree(resource) => write!(f, "working-tree:{resource}"),
            Self::Action(name) => write!(f, "action:{}", name.full_name()),
            Self::Plan(id) => write!(f, "plan:{id}"),
        }
    }
}

impl From<RuleScope> for String {
    fn from(scope: RuleScope) -> Self {
        scope.to_string()
    }
}

impl TryFrom<String> for RuleScope {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl FromStr for RuleScope {
    type Err = String;

    fn from_str(given: &str) -> Result<Self, String> {
        if given == "global" {
            return Ok(Self::Global);
        }
        if let Some(name) = given.strip_prefix("project:") {
            return Ok(Self::Project(
                name.parse().map_err(|error| format!("{error}"))?,
            ));
        }
        if let Some(resource) = given.strip_prefix("repository:") {
            return Ok(Self::Repository(resource.to_owned()));
        }
        if let Some(resource) = given.strip_prefix("working-tree:") {
            return Ok(Self::WorkingTree(resource.to_owned()));
        }
        if let Some(name) = given.strip_prefix("action:") {
            return Ok(Self::Action(
                name.parse().map_err(|error| format!("{error}"))?,
            ));
        }
        if let Some(id) = given.strip_prefix("plan:") {
            return Ok(Self::Plan(id.parse().map_err(|error| format!("{error}"))?));
        }
        Err(format!(
            "`{given}` is no scope: global, project:NAME, repository:NAME, working-tree:NAME, action:NAME \
             or plan:ID"
        ))
    }
}

/// Where a plan is judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Gate {
    /// Before strategize starts.
    Strategize,
    /// Before a strategy is executed.
    Execute,
    /// On the result of execute; decides about apply.
    Result,
    /// Before a result is applied.
    Apply,
}

impl Gate {
    /// Every gate, in the order of a plan's life.
    pub const ALL: [Self; 4] = [Self::Strategize, Self::Execute, Self::Result, Self::Apply];

    /// As it is typed and shown.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Strategize => "strategize",
            Self::Execute => "execute",
            Self::Result => "result",
            Self::Apply => "apply",
        }
    }

    /// Is there a result to judge?
    pub fn has_result(self) -> bool {
        match self {
            Self::Strategize | Self::Execute => false,
            Self::Result | Self::Apply => true,
        }
    }

    /// The gates whose rules are judged here: the result's bear on apply too, where a failing one
    /// blocks.
    pub fn judged_gates(self) -> &'static [Self] {
        match self {
            Self::Strategize => &[Self::Strategize],
            Self::Execute => &[Self::Execute],
            Self::Result => &[Self::Result],
            Self::Apply => &[Self::Result, Self::Apply],
        }
    }
}

impl fmt::Display for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Gate {
    type Err = String;

    fn from_str(given: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|gate| gate.as_str() == given)
            .ok_or_else(|| {
                format!("`{given}` is no gate: use strategize, execute, result or apply")
            })
    }
}

/// The name of a rule.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RuleName(String);

impl RuleName {
    /// As it is stored and shown.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RuleName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl FromStr for RuleName {
    type Err = String;

    fn from_str(given: &str) -> Result<Self, String> {
        let ok = (1..=64).contains(&given.len())
            && given
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-_.".contains(&b));
        if ok {
            Ok(Self(given.to_owned()))
        } else {
            Err("the name of a rule is 1 to 64 lower-case letters, digits, `-`, `_` and `.`".into())
        }
    }
}

/// How a rule is checked. Judging it is the engine's business.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RuleCheck {
    /// A CEL expression over plan, action, arguments and what changed that must be true.
    Expr(String),
    /// Every changed path matches one of these globs.
    Allow(Vec<String>),
    /// No changed path matches any of these globs.
    Forbid(Vec<String>),
    /// A command that must succeed in a clean checkout of the result.
    Command {
        /// As it would be typed.
        command: String,
        /// After this long it has failed.
        #[serde(
            default,
            rename = "timeout_seconds",
            with = "crate::time::in_seconds",
            skip_serializing_if = "Option::is_none"
        )]
        timeout: Option<Span>,
    },
    /// Something that somebody has to look at: a person, or the actor that judges for the action.
    Ask(String),
}

impl RuleCheck {
    /// Its kind, as it is typed and shown.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Expr(_) => "expr",
            Self::Allow(_) => "allow",
            Self::Forbid(_) => "forbid",
            Self::Command { .. } => "command",
            Self::Ask(_) => "ask",
        }
    }

    /// The check as a person wrote it.
    pub fn source(&self) -> String {
        match self {
            Self::Expr(source) | Self::Ask(source) => source.clone(),
            Self::Allow(globs) | Self::Forbid(globs) => globs.join(" "),
            Self::Command { command, .. } => command.clone(),
        }
    }

    /// The gates where this kind of check has a subject: before there is a result, nothing has changed.
    pub fn possible_gates(&self) -> &'static [Gate] {
        match self {
            Self::Expr(_) | Self::Ask(_) => &Gate::ALL,
            Self::Allow(_) | Self::Forbid(_) | Self::Command { .. } => &[Gate::Result, Gate::Apply],
        }
    }

    /// Where it is judged if nobody says. Whoever is asked is asked about the result.
    pub fn default_gates(&self) -> Vec<Gate> {
        match self {
            Self::Expr(_) => Gate::ALL.to_vec(),
            Self::Allow(_) | Self::Forbid(_) | Self::Command { .. } | Self::Ask(_) => {
                vec![Gate::Result, Gate::Apply]
            }
        }
    }
}

/// A rule as it is written, before it belongs to a scope.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleDraft {
    /// Its name, unique in its scope.
    pub name: RuleName,
    /// What must hold.
    pub check: RuleCheck,
    /// Where it is judged.
    pub at: Vec<Gate>,
    /// A failure is told but does not block.
    pub advisory: bool,
    /// No narrower rule replaces it and nobody waives it.
    pub non_overridable: bool,
}

/// A rule in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rule {
    /// Where it holds.
    pub scope: RuleScope,
    /// The scope's revision at which it was added: names this wording of it.
    pub revision: u64,
    /// What it says.
    pub draft: RuleDraft,
    /// When it was added.
    pub added_at: Timestamp,
    /// By whom.
    pub added_by: Caller,
}

impl Rule {
    /// A rule that a file says. Its revision is made of what it says: another wording is another rule.
    pub fn from_file(scope: RuleScope, draft: RuleDraft, file: &str) -> Self {
        let encoded = serde_json::to_vec(&draft).expect("BUG: a rule always encodes");
        let digest = Digest::hash_bytes(&encoded);
        let mut prefix = [0; 8];
        prefix.copy_from_slice(&digest.as_bytes()[..8]);
        Self {
            scope,
            // Every store holds it as a signed number.
            revision: u64::from_be_bytes(prefix) >> 1,
            draft,
            added_at: Timestamp(0),
            added_by: Caller::Person(file.to_owned()),
        }
    }

    /// The reference to exactly this wording.
    pub fn reference(&self) -> RuleRef {
        RuleRef {
            scope: self.scope.clone(),
            name: self.draft.name.clone(),
            revision: self.revision,
        }
    }
}

/// One wording of one rule.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RuleRef {
    /// Its scope.
    pub scope: RuleScope,
    /// Its name.
    pub name: RuleName,
    /// Its revision.
    pub revision: u64,
}

impl fmt::Display for RuleRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name, self.scope)
    }
}

/// The rules of some scopes, with the revision of each. A scope nobody wrote to is at revision 0.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RuleBook {
    /// How often each scope was changed.
    pub revisions: BTreeMap<RuleScope, u64>,
    /// The rules in them.
    pub rules: Vec<Rule>,
}

impl RuleBook {
    /// The revision of a scope.
    pub fn revision(&self, scope: &RuleScope) -> u64 {
        self.revisions.get(scope).copied().unwrap_or(0)
    }

    /// A rule by its scope and name.
    pub fn find_rule(&self, scope: &RuleScope, name: &RuleName) -> Option<&Rule> {
        self.rules
            .iter()
            .find(|rule| &rule.scope == scope && &rule.draft.name == name)
    }

    /// The rules in force, by name: a narrower rule replaces a wider one of the same name unless
    /// the wider is non-overridable; all others hold together.
    pub fn effective_rules(&self) -> Vec<&Rule> {
        let mut rules: Vec<&Rule> = self.rules.iter().collect();
        rules.sort_by(|one, other| {
            (&one.draft.name, &one.scope).cmp(&(&other.draft.name, &other.scope))
        });
        let same = |one: &Rule, other: &Rule| one.draft.name == other.draft.name;
        let overruled = |rule: &Rule| {
            self.rules.iter().any(|wider| {
                same(rule, wider)
                    && wider.draft.non_overridable
                    && rule.scope.is_narrower_than(&wider.scope)
            })
        };
        let replaced = |rule: &Rule| {
            !rule.draft.non_overridable
                && self.rules.iter().any(|narrower| {
                    same(rule, narrower)
                        && narrower.scope.is_narrower_than(&rule.scope)
                        && !overruled(narrower)
                })
        };
        rules.retain(|rule| !overruled(rule) && !replaced(rule));
        rules
    }

    /// These rules, those that were frozen into a plan at use, and those of its targets. A target's rule
    /// that says the same as a frozen one is that rule: it is judged once, and committing it voids nothing.
    #[must_use]
    pub fn with_plan_rules(mut self, plan: &Plan, targets: &PlanTargets) -> Self {
        let frozen = plan.frozen_rules();
        let is_frozen = |rule: &&Rule| match &rule.scope {
            RuleScope::Repository(resource) => frozen.iter().any(|one| {
                one.scope == RuleScope::WorkingTree(resource.clone()) && one.draft == rule.draft
            }),
            RuleScope::Global
            | RuleScope::Project(_)
            | RuleScope::WorkingTree(_)
            | RuleScope::Action(_)
            | RuleScope::Plan(_) => false,
        };
        let others = targets.rules.iter().filter(|rule| !is_frozen(rule));
        self.rules.extend(others.cloned());
        self.rules.extend(frozen);
        self
    }

    /// The rules in force that are judged at one of these gates.
    pub fn effective_rules_at(&self, gates: &[Gate]) -> Vec<&Rule> {
        let judged = |rule: &&Rule| rule.draft.at.iter().any(|gate| gates.contains(gate));
        self.effective_rules().into_iter().filter(judged).collect()
    }
}

/// The stored scopes whose rules bear on a plan: all that never change about it.
pub fn scopes_for_plan<'a>(
    plan_id: PlanId,
    action: Option<&QualifiedName>,
    projects: impl IntoIterator<Item = &'a QualifiedName>,
) -> Vec<RuleScope> {
    let mut scopes = vec![RuleScope::Global];
    scopes.extend(projects.into_iter().cloned().map(RuleScope::Project));
    scopes.extend(action.cloned().map(RuleScope::Action));
    scopes.push(RuleScope::Plan(plan_id));
    scopes
}

impl Plan {
    /// The stored scopes whose rules bear on it.
    pub fn rule_scopes(&self) -> Vec<RuleScope> {
        scopes_for_plan(self.id, self.action.as_ref(), self.projects())
    }

    /// The rules that its working trees had at use and their target commits had not.
    pub fn frozen_rules(&self) -> Vec<Rule> {
        let files = self.ways.rules.iter();
        let files = files.filter(|file| self.resource(&file.resource).is_some());
        let rules = files.flat_map(|file| {
            let scope = RuleScope::WorkingTree(file.resource.clone());
            let drafts = file.rules.iter().cloned();
            drafts.map(move |draft| Rule::from_file(scope.clone(), draft, REPOSITORY_CONFIG_FILE))
        });
        rules.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn make_rule(scope: RuleScope, name: &str, source: &str, non_overridable: bool) -> Rule {
        Rule {
            scope,
            revision: 1,
            draft: RuleDraft {
                name: name.parse().unwrap(),
                check: RuleCheck::Expr(source.into()),
                at: vec![Gate::Apply],
                advisory: false,
                non_overridable,
            },
            added_at: Timestamp(0),
            added_by: Caller::Person("ada".into()),
        }
    }

    #[test]
    fn a_narrower_rule_replaces_a_wider_one_unless_that_is_non_overridable() {
        let action = RuleScope::Action("tidy".parse().unwrap());
        let plan = RuleScope::Plan(PlanId::from_parts(1, 1));
        let book = RuleBook {
            revisions: BTreeMap::new(),
            rules: vec![
                make_rule(plan, "a", "narrowest", false),
                make_rule(action.clone(), "a", "narrower", false),
                make_rule(RuleScope::Global, "a", "wide", false),
                make_rule(RuleScope::Global, "b", "hard", true),
                make_rule(action, "b", "refused", false),
            ],
        };
        let shown: Vec<_> = book
            .effective_rules()
            .iter()
            .map(|rule| (rule.draft.name.as_str(), rule.draft.check.source()))
            .collect();
        let expected = [("a", "narrowest"), ("b", "hard")];
        assert_eq!(
            shown,
            expected.map(|(name, source)| (name, source.to_owned()))
        );
        assert!(book.effective_rules_at(&[Gate::Strategize]).is_empty());
    }

    #[test]
    fn rules_of_two_projects_hold_together_and_a_repositorys_replaces_both() {
        let project = |name: &str| RuleScope::Project(name.parse().unwrap());
        let mut book = RuleBook {
            revisions: BTreeMap::new(),
            rules: vec![
                make_rule(project("one"), "a", "one", false),
                make_rule(project("two"), "a", "two", false),
                make_rule(RuleScope::Global, "a", "wide", false),
            ],
        };
        let shown = |book: &RuleBook| -> Vec<String> {
            let effective = book.effective_rules();
            effective
                .iter()
                .map(|rule| rule.draft.check.source())
                .collect()
        };
        assert_eq!(shown(&book), ["one", "two"]);
        let of_repository = make_rule(RuleScope::Repository("site".into()), "a", "theirs", false);
        book.rules.push(of_repository);
        assert_eq!(shown(&book), ["theirs"]);
        // What was read from the working tree does not replace it, nor the other way round.
        let of_tree = RuleScope::WorkingTree("site".into());
        book.rules.push(make_rule(of_tree, "a", "here", true));
        assert_eq!(shown(&book), ["theirs", "here"]);
    }

    #[test]
    fn scopes_read_back_what_they_show() {
        for scope in [
            RuleScope::Global,
            RuleScope::Project("x/y".parse().unwrap()),
            RuleScope::Repository("site".into()),
            RuleScope::WorkingTree("site".into()),
            RuleScope::Action("x/y".parse().unwrap()),
            RuleScope::Plan(PlanId::from_parts(5, 6)),
        ] {
            assert_eq!(scope.to_string().parse::<RuleScope>().unwrap(), scope);
        }
    }
}
