//! Actions, plans, rules and results as tests need them: complete, small, and open to change.

use plan::action::ActionDefinition;
use plan::argument::{ArgumentSpec, ArgumentType};
use plan::changeset::{Entry, Operation, TreePath};
use plan::command::NewPlan;
use plan::invariant::{Check, Gate, RuleDraft};
use plan::judgement::Targets;
use plan::plan::Limits;
use plan::project::{Place, Resource};
use plan::stage::{IgnoredPaths, RefMove, ResultContent, ResultTree};
use plan::{Actors, Command, How, Name, PlanId, Project, Timestamp};

/// The project of sample plans, with what it is called in them.
pub const PROJECT: &str = "sample";
/// The resource on which sample results are.
pub const RESOURCE: &str = "sample/main";
/// Another one.
pub const OTHER_RESOURCE: &str = "sample/docs";

/// A name, checked.
pub fn name(text: &str) -> Name {
    text.parse().unwrap()
}

/// A reusable action that takes no arguments.
pub fn action(text: &str) -> ActionDefinition {
    ActionDefinition {
        name: name(text),
        description: format!("Do what {text} does"),
        long_description: None,
        actors: Some(Actors::both(name("robot"))),
        arguments: Vec::new(),
        invariants: Vec::new(),
        automation_profile: None,
        read_only: false,
        reusable: true,
    }
}

/// The declaration of an optional argument.
pub fn argument(name: &str, kind: ArgumentType) -> ArgumentSpec {
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

/// The project of sample plans.
pub fn project() -> Project {
    Project {
        name: name(PROJECT),
        resources: vec![git("docs"), git("main")],
        paused: None,
        created_at: Timestamp(0),
    }
}

/// A checkout on some host.
pub fn git(text: &str) -> Resource {
    Resource {
        name: text.parse().unwrap(),
        host: "somewhere".parse().unwrap(),
        place: Place::Git {
            path: format!("/src/{text}"),
            branch: "refs/heads/main".to_owned(),
        },
    }
}

/// A plan for a goal, with something to land on.
pub fn goal(id: PlanId, text: &str) -> NewPlan {
    NewPlan {
        definitions: Vec::new(),
        strategy_wanted: false,
        bases: Vec::new(),
        ways: Default::default(),
        id,
        action: None,
        goal: Some(text.to_owned()),
        arguments: Vec::new(),
        fallback_actors: Some(Actors::both(name("robot"))),
        profile: None,
        fallback_profile: None,
        limits: Limits::default(),
        projects: vec![name(PROJECT)],
    }
}

/// A plan of an action, with something to land on.
pub fn use_of(id: PlanId, action: &Name) -> NewPlan {
    NewPlan {
        definitions: Vec::new(),
        strategy_wanted: false,
        action: Some(action.clone()),
        goal: None,
        ..goal(id, "")
    }
}

/// A rule judged at these gates. Its check is the word `true` or `false`; see
/// [`crate::Client::judge`].
pub fn rule(name: &str, holds: &str, at: &[Gate]) -> RuleDraft {
    RuleDraft {
        name: name.parse().unwrap(),
        check: Check::Expr(holds.to_owned()),
        at: at.to_vec(),
        advisory: false,
        non_overridable: false,
    }
}

/// A result on the sample resource; another word is another result.
pub fn result(word: &str) -> ResultContent {
    ResultContent {
        report: Some(format!("did {word}").into()),
        trees: vec![ResultTree {
            resource: RESOURCE.to_owned(),
            target: "refs/heads/main".to_owned(),
            base: "b".repeat(40),
            tree: format!("tree-of-{word}"),
            changes: None,
            ignored: IgnoredPaths::default(),
            changes_settings: false,
        }],
    }
}

/// The move that lands a sample result.
pub fn landing() -> Vec<RefMove> {
    vec![RefMove {
        resource: RESOURCE.to_owned(),
        target: "refs/heads/main".to_owned(),
        old: "b".repeat(40),
        new: "c".repeat(40),
        onto: None,
    }]
}

/// A path, checked.
pub fn path(bytes: impl Into<Vec<u8>>) -> TreePath {
    TreePath::new(bytes).unwrap()
}

/// A change that made a path.
pub fn created(bytes: impl Into<Vec<u8>>) -> Entry {
    let mut entry = Entry::new(path(bytes), Operation::Create);
    entry.after = Some("1".repeat(40));
    entry
}

/// A change from one content to another.
pub fn modified(bytes: impl Into<Vec<u8>>, before: &str, after: &str) -> Entry {
    let mut entry = Entry::new(path(bytes), Operation::Modify);
    entry.before = Some(before.to_owned());
    entry.after = Some(after.to_owned());
    entry
}

/// Signs a result, to land in the usual way.
pub fn approve() -> Command {
    Command::Approve {
        how: How::default(),
        targets: Targets::default(),
        once: false,
    }
}
