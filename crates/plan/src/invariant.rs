//! Rules: a name, a scope, a check and the gates where it is judged. Called `invariant` in JSON and
//! YAML.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::judgement::PlanTargets;
use crate::{Caller, Digest, Plan, PlanId, QualifiedName, Span, Timestamp};

/// The repository's config file, relative to its root.
pub const REPOSITORY_CONFIG_FILE: &str = "planwright.yaml";

/// Which plans a rule applies to. Later variants are narrower.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum RuleScope {
    Global,
    Project(QualifiedName),
    /// Plans on a resource whose target commit has the rule in its `planwright.yaml`. Read from
    /// there at each judgement, never stored.
    Repository(String),
    /// A plan on a resource whose working tree had the rule in `planwright.yaml` at creation.
    /// Frozen into the plan and stored nowhere else.
    WorkingTree(String),
    Action(QualifiedName),
    Plan(PlanId),
}

impl RuleScope {
    /// A narrower rule replaces a wider one with the same name. Two of equal narrowness both apply.
    fn narrowness(&self) -> u8 {
        match self {
            Self::Global => 0,
            Self::Project(_) => 1,
            // Neither replaces the other: the committed rule and the rule frozen at creation both
            // apply.
            Self::Repository(_) | Self::WorkingTree(_) => 2,
            Self::Action(_) => 3,
            Self::Plan(_) => 4,
        }
    }

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

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "global" {
            return Ok(Self::Global);
        }
        if let Some(name) = text.strip_prefix("project:") {
            return Ok(Self::Project(
                name.parse().map_err(|error| format!("{error}"))?,
            ));
        }
        if let Some(resource) = text.strip_prefix("repository:") {
            return Ok(Self::Repository(resource.to_owned()));
        }
        if let Some(resource) = text.strip_prefix("working-tree:") {
            return Ok(Self::WorkingTree(resource.to_owned()));
        }
        if let Some(name) = text.strip_prefix("action:") {
            return Ok(Self::Action(
                name.parse().map_err(|error| format!("{error}"))?,
            ));
        }
        if let Some(id) = text.strip_prefix("plan:") {
            return Ok(Self::Plan(id.parse().map_err(|error| format!("{error}"))?));
        }
        Err(format!(
            "`{text}` is not a scope: use global, project:NAME, repository:NAME, working-tree:NAME, action:NAME \
             or plan:ID"
        ))
    }
}

/// A point where a plan's rules are judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Gate {
    Strategize,
    Execute,
    /// On the result of execute. A failure blocks apply.
    Result,
    /// Before a result lands.
    Apply,
}

impl Gate {
    /// In the order a plan passes them.
    pub const ALL: [Self; 4] = [Self::Strategize, Self::Execute, Self::Result, Self::Apply];

    /// Returns the name as typed and shown.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Strategize => "strategize",
            Self::Execute => "execute",
            Self::Result => "result",
            Self::Apply => "apply",
        }
    }

    /// Returns whether a result exists at this gate.
    pub fn has_result(self) -> bool {
        match self {
            Self::Strategize | Self::Execute => false,
            Self::Result | Self::Apply => true,
        }
    }

    /// Returns the gates whose rules are judged here. Apply also judges the rules of the result
    /// gate, and there a failure blocks.
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

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|gate| gate.as_str() == text)
            .ok_or_else(|| {
                format!("`{text}` is not a gate: use strategize, execute, result or apply")
            })
    }
}

/// The name of a rule, unique within its scope.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RuleName(String);

impl RuleName {
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

    fn from_str(text: &str) -> Result<Self, String> {
        let ok = (1..=64).contains(&text.len())
            && text
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-_.".contains(&b));
        if ok {
            Ok(Self(text.to_owned()))
        } else {
            Err("a rule name is 1 to 64 lower-case letters, digits, `-`, `_` and `.`".into())
        }
    }
}

/// How a rule is checked. This crate only stores checks; it does not run them.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RuleCheck {
    /// A CEL expression over plan, action, arguments and changes. It must be true.
    Expr(String),
    /// Every changed path matches one of these globs.
    Allow(Vec<String>),
    /// No changed path matches any of these globs.
    Forbid(Vec<String>),
    /// A shell command that must succeed in a clean checkout of the result.
    Command {
        command: String,
        /// A command that runs longer fails.
        #[serde(
            default,
            rename = "timeout_seconds",
            with = "crate::time::in_seconds",
            skip_serializing_if = "Option::is_none"
        )]
        timeout: Option<Span>,
    },
    /// A question to a person, or to the actor that judges rules for the action.
    Ask(String),
}

impl RuleCheck {
    /// Returns the kind as typed and shown.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Expr(_) => "expr",
            Self::Allow(_) => "allow",
            Self::Forbid(_) => "forbid",
            Self::Command { .. } => "command",
            Self::Ask(_) => "ask",
        }
    }

    /// Returns the check as a person wrote it.
    pub fn source(&self) -> String {
        match self {
            Self::Expr(source) | Self::Ask(source) => source.clone(),
            Self::Allow(globs) | Self::Forbid(globs) => globs.join(" "),
            Self::Command { command, .. } => command.clone(),
        }
    }

    /// Returns the gates where this kind of check can run. Checks of changes need a result.
    pub fn possible_gates(&self) -> &'static [Gate] {
        match self {
            Self::Expr(_) | Self::Ask(_) => &Gate::ALL,
            Self::Allow(_) | Self::Forbid(_) | Self::Command { .. } => &[Gate::Result, Gate::Apply],
        }
    }

    /// Returns the gates used if the rule names none. A question is about the result.
    pub fn default_gates(&self) -> Vec<Gate> {
        match self {
            Self::Expr(_) => Gate::ALL.to_vec(),
            Self::Allow(_) | Self::Forbid(_) | Self::Command { .. } | Self::Ask(_) => {
                vec![Gate::Result, Gate::Apply]
            }
        }
    }
}

/// A rule as written, without a scope.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleDraft {
    pub name: RuleName,
    pub check: RuleCheck,
    /// Gates where the rule is judged.
    pub at: Vec<Gate>,
    /// A failure is reported but does not block.
    pub advisory: bool,
    /// No narrower rule can replace it, and no person can waive it.
    pub non_overridable: bool,
}

/// A rule in a scope.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rule {
    pub scope: RuleScope,
    /// The scope's revision when the rule was added. Identifies this version of the rule.
    pub revision: u64,
    pub draft: RuleDraft,
    pub added_at: Timestamp,
    pub added_by: Caller,
}

impl Rule {
    /// Creates a rule from a file. Its revision is a hash of its content, so a changed rule counts
    /// as a new one.
    pub fn from_file(scope: RuleScope, draft: RuleDraft, file: &str) -> Self {
        let encoded = serde_json::to_vec(&draft).expect("BUG: a rule always encodes");
        let digest = Digest::hash_bytes(&encoded);
        let mut prefix = [0; 8];
        prefix.copy_from_slice(&digest.as_bytes()[..8]);
        Self {
            scope,
            // Stores keep revisions as signed integers, so clear the top bit.
            revision: u64::from_be_bytes(prefix) >> 1,
            draft,
            added_at: Timestamp(0),
            added_by: Caller::Person(file.to_owned()),
        }
    }

    /// Returns a reference to this revision of the rule.
    pub fn reference(&self) -> RuleRef {
        RuleRef {
            scope: self.scope.clone(),
            name: self.draft.name.clone(),
            revision: self.revision,
        }
    }
}

/// A reference to one revision of a rule.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RuleRef {
    pub scope: RuleScope,
    pub name: RuleName,
    pub revision: u64,
}

impl fmt::Display for RuleRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name, self.scope)
    }
}

/// The rules of some scopes, with each scope's revision. A scope without changes is at revision 0.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RuleBook {
    /// Number of changes to each scope.
    pub revisions: BTreeMap<RuleScope, u64>,
    pub rules: Vec<Rule>,
}

impl RuleBook {
    pub fn revision(&self, scope: &RuleScope) -> u64 {
        self.revisions.get(scope).copied().unwrap_or(0)
    }

    pub fn find_rule(&self, scope: &RuleScope, name: &RuleName) -> Option<&Rule> {
        self.rules
            .iter()
            .find(|rule| &rule.scope == scope && &rule.draft.name == name)
    }

    /// Returns the rules in force, sorted by name. A narrower rule replaces a wider one with the
    /// same name, unless the wider one is non-overridable. All others apply together.
    pub fn effective_rules(&self) -> Vec<&Rule> {
        let mut rules: Vec<&Rule> = self.rules.iter().collect();
        rules.sort_by(|one, other| {
            (&one.draft.name, &one.scope).cmp(&(&other.draft.name, &other.scope))
        });
        let same_name = |one: &Rule, other: &Rule| one.draft.name == other.draft.name;
        let overruled = |rule: &Rule| {
            self.rules.iter().any(|wider| {
                same_name(rule, wider)
                    && wider.draft.non_overridable
                    && rule.scope.is_narrower_than(&wider.scope)
            })
        };
        let replaced = |rule: &Rule| {
            !rule.draft.non_overridable
                && self.rules.iter().any(|narrower| {
                    same_name(rule, narrower)
                        && narrower.scope.is_narrower_than(&rule.scope)
                        && !overruled(narrower)
                })
        };
        rules.retain(|rule| !overruled(rule) && !replaced(rule));
        rules
    }

    /// Adds the rules frozen into a plan and those of its targets. A target's rule with the same
    /// content as a frozen one is skipped: it is judged once, and committing it does not void an
    /// approval.
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

    /// Returns the rules in force that are judged at one of these gates.
    pub fn effective_rules_at(&self, gates: &[Gate]) -> Vec<&Rule> {
        let judged = |rule: &&Rule| rule.draft.at.iter().any(|gate| gates.contains(gate));
        self.effective_rules().into_iter().filter(judged).collect()
    }
}

/// Returns the stored scopes whose rules apply to a plan. They never change during the plan.
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
    /// Returns the stored scopes whose rules apply to the plan.
    pub fn rule_scopes(&self) -> Vec<RuleScope> {
        scopes_for_plan(self.id(), self.action(), self.projects())
    }

    /// Returns the rules that the working trees had at creation and the target commits did not.
    pub fn frozen_rules(&self) -> Vec<Rule> {
        let files = self.policy().rules.iter();
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
    fn a_narrower_rule_replaces_a_wider_one_unless_it_is_non_overridable() {
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
    fn rules_of_two_projects_both_apply_and_a_repository_rule_replaces_both() {
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
        let repository_rule = make_rule(RuleScope::Repository("site".into()), "a", "theirs", false);
        book.rules.push(repository_rule);
        assert_eq!(shown(&book), ["theirs"]);
        // A rule from the working tree and one from the repository do not replace each other.
        let working_tree = RuleScope::WorkingTree("site".into());
        book.rules.push(make_rule(working_tree, "a", "here", true));
        assert_eq!(shown(&book), ["theirs", "here"]);
    }

    #[test]
    fn scopes_parse_what_they_display() {
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
