//! Small, complete actions, plans, rules and results for tests to adapt.

use plan::action::ActionDefinition;
use plan::argument::{ArgumentSpec, ArgumentType};
use plan::changeset::{ChangesetEntry, PathOperation, TreePath};
use plan::command::ApproveResult;
use plan::command::NewPlan;
use plan::invariant::{Gate, RuleCheck, RuleDraft};
use plan::judgement::PlanTargets;
use plan::permission_question::ProposedToolCall;
use plan::plan::PlanLimits;
use plan::project::{Resource, ResourcePlace};
use plan::stage::{IgnoredPaths, RefMove, ResultContent, ResultTree};
use plan::transcript::ToolKind;
use plan::{Command, LandingOptions, PlanActors, PlanId, Project, QualifiedName, Timestamp};

/// The project of sample plans.
pub const PROJECT_NAME: &str = "sample";
/// The resource of sample results.
pub const RESOURCE_NAME: &str = "sample/main";
pub const OTHER_RESOURCE_NAME: &str = "sample/docs";

/// Parses a name; panics if it is invalid.
pub fn parse_name(text: &str) -> QualifiedName {
    text.parse().unwrap()
}

/// Returns a reusable action without arguments.
pub fn reusable_action(text: &str) -> ActionDefinition {
    ActionDefinition {
        name: parse_name(text),
        description: format!("Do what {text} does"),
        long_description: None,
        actors: Some(PlanActors::for_both_phases(parse_name("robot"))),
        arguments: Vec::new(),
        invariants: Vec::new(),
        automation_profile: None,
        read_only: false,
        reusable: true,
        tools: plan::permission::ToolPolicy::default(),
    }
}

pub fn optional_argument(name: &str, kind: ArgumentType) -> ArgumentSpec {
    ArgumentSpec {
        name: name.to_owned(),
        kind,
        required: false,
        default: None,
        min: None,
        max: None,
        pattern: None,
        description: None,
    }
}

pub fn sample_project() -> Project {
    Project {
        name: parse_name(PROJECT_NAME),
        resources: vec![git_resource("docs"), git_resource("main")],
        paused: None,
        created_at: Timestamp(0),
    }
}

pub fn git_resource(text: &str) -> Resource {
    Resource {
        name: text.parse().unwrap(),
        host: "somewhere".parse().unwrap(),
        place: ResourcePlace::Git {
            path: format!("/src/{text}"),
            branch: "refs/heads/main".to_owned(),
        },
    }
}

/// Returns a plan for a goal, with a resource to land on.
pub fn plan_for_goal(plan_id: PlanId, text: &str) -> NewPlan {
    NewPlan {
        definitions: Vec::new(),
        strategy_wanted: false,
        bases: Vec::new(),
        policy: Default::default(),
        id: plan_id,
        action: None,
        goal: Some(text.to_owned()),
        arguments: Vec::new(),
        fallback_actors: Some(PlanActors::for_both_phases(parse_name("robot"))),
        profile: None,
        fallback_profile: None,
        limits: PlanLimits::default(),
        projects: vec![parse_name(PROJECT_NAME)],
    }
}

/// Returns a plan from an action, with a resource to land on.
pub fn plan_of_action(plan_id: PlanId, action: &QualifiedName) -> NewPlan {
    NewPlan {
        definitions: Vec::new(),
        strategy_wanted: false,
        action: Some(action.clone()),
        goal: None,
        ..plan_for_goal(plan_id, "")
    }
}

/// Returns a rule for these gates. Its expression is `true` or `false`; see
/// [`crate::TestClient::judge_rules`].
pub fn rule_draft(name: &str, expression: &str, gates: &[Gate]) -> RuleDraft {
    RuleDraft {
        name: name.parse().unwrap(),
        check: RuleCheck::Expr(expression.to_owned()),
        at: gates.to_vec(),
        advisory: false,
        non_overridable: false,
    }
}

/// Returns a result on the sample resource. Different words give different results.
pub fn result_content(word: &str) -> ResultContent {
    ResultContent {
        report: Some(format!("did {word}").into()),
        trees: vec![ResultTree {
            resource: RESOURCE_NAME.to_owned(),
            target: "refs/heads/main".to_owned(),
            base: "b".repeat(40),
            tree: format!("tree-of-{word}"),
            changes: None,
            ignored: IgnoredPaths::default(),
            changes_settings: false,
        }],
    }
}

/// Returns the ref move that lands a sample result.
pub fn landing_moves() -> Vec<RefMove> {
    vec![RefMove {
        resource: RESOURCE_NAME.to_owned(),
        target: "refs/heads/main".to_owned(),
        old: "b".repeat(40),
        new: "c".repeat(40),
        onto: None,
    }]
}

/// Parses a path; panics if it is invalid.
pub fn tree_path(bytes: impl Into<Vec<u8>>) -> TreePath {
    TreePath::new(bytes).unwrap()
}

/// Returns an entry that creates a path.
pub fn created_entry(bytes: impl Into<Vec<u8>>) -> ChangesetEntry {
    let mut entry = ChangesetEntry::new(tree_path(bytes), PathOperation::Create);
    entry.after = Some("1".repeat(40));
    entry
}

/// Returns an entry that changes a path from one content to another.
pub fn modified_entry(bytes: impl Into<Vec<u8>>, before: &str, after: &str) -> ChangesetEntry {
    let mut entry = ChangesetEntry::new(tree_path(bytes), PathOperation::Modify);
    entry.before = Some(before.to_owned());
    entry.after = Some(after.to_owned());
    entry
}

/// Approves a result with default landing options.
pub fn approve_command() -> Command {
    Command::from(ApproveResult {
        options: LandingOptions::default(),
        targets: PlanTargets::default(),
        once: false,
        lands: false,
    })
}

/// A tool call that an agent asks for.
pub fn sample_tool_call() -> ProposedToolCall {
    ProposedToolCall {
        tool: "Bash".to_owned(),
        tool_kind: ToolKind::Execute,
        summary: "run cargo test".into(),
        input: Some(r#"{"command":"cargo test"}"#.into()),
        reason: "`tools.ask` has `execute`".to_owned(),
    }
}
