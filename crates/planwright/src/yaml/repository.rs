//! A repository's `planwright.yaml`, out of its tree.

use plan::action::ActionDefinition;
use plan::actor::{ActorKind, Isolation};
use plan::how::Shape as Arrival;
use plan::invariant::RuleDraft;
use plan::ways::Clean;
use plan::{ActorDefinition, How, Money, Name, Profile};

use super::fields::{Fields, Shape};
use super::problem::Flaw;
use super::rule::{self, RULE};
use super::tree::Node;
use super::value::{boolean, is_nothing, list, parsed, prose, text, written};
use super::{action, actor};
use crate::limits::{self, LimitsSaid};

/// What a repository says about work on it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RepositoryFile {
    /// A command that makes a new sandbox ready.
    pub setup: Option<String>,
    /// Ignored files to copy into it.
    pub include: Vec<String>,
    /// When sandboxes are removed.
    pub clean: Clean,
    /// How results arrive.
    pub arrival: How,
    /// Who works.
    pub actor: Option<Name>,
    /// How actors are started.
    pub actors: Vec<ActorDefinition>,
    /// What can be used there.
    pub actions: Vec<ActionDefinition>,
    /// Where plans stop and ask.
    pub profile: Option<Profile>,
    /// What plans may use.
    pub limits: LimitsSaid,
    /// Rules of plans that land here. They hold for every plan once they are on the branch that plans land
    /// on, and before for those that are made in a working tree which has them.
    pub invariants: Vec<RuleDraft>,
}

static FILE: Shape<'_> = Shape {
    what: "planwright.yaml",
    place: "at the top level",
    keys: &[
        "actor",
        "actors",
        "actions",
        "profile",
        "sandbox",
        "apply",
        "limits",
        "invariants",
    ],
    refused: &[],
    others: &[&SANDBOX, &APPLY, &LIMITS, &RULE],
};

static SANDBOX: Shape<'_> = Shape {
    what: "`sandbox`",
    place: "under `sandbox`",
    keys: &["setup", "include", "clean"],
    refused: &[],
    others: &[&FILE, &APPLY, &LIMITS],
};

static APPLY: Shape<'_> = Shape {
    what: "`apply`",
    place: "under `apply`",
    keys: &["as", "merge"],
    refused: &[],
    others: &[&FILE, &SANDBOX, &LIMITS],
};

static LIMITS: Shape<'_> = Shape {
    what: "`limits`",
    place: "under `limits`",
    keys: &["attempts", "timeout", "cost", "tokens", "time"],
    refused: &[],
    others: &[&FILE, &SANDBOX, &APPLY],
};

pub(super) fn read(root: &Node) -> Result<RepositoryFile, Flaw> {
    let mut file = RepositoryFile::default();
    if is_nothing(root) {
        return Ok(file);
    }
    let fields = Fields::of(root, &FILE)?;
    file.actor = fields.optional("actor", parsed)?;
    let actors = fields.optional("actors", list)?.unwrap_or_default();
    for node in actors {
        let actor = actor::read(node).and_then(|actor| of_a_repository(actor, node));
        let actor = actor.map_err(|flaw| flaw.under("actors"))?;
        if file.actors.iter().any(|other| other.name == actor.name) {
            let message = format!("actor `{}` is defined twice", actor.name);
            return Err(Flaw::new(node.at, message).under("actors"));
        }
        file.actors.push(actor);
    }
    for node in fields.optional("actions", list)?.unwrap_or_default() {
        let action = action::read(node).map_err(|flaw| flaw.under("actions"))?;
        if file.actions.iter().any(|other| other.name == action.name) {
            let message = format!("action `{}` is defined twice", action.name);
            return Err(Flaw::new(node.at, message).under("actions"));
        }
        file.actions.push(action);
    }
    file.profile = fields.optional("profile", parsed)?;
    file.limits = fields.optional("limits", limits)?.unwrap_or_default();
    file.invariants = rule::rules_at(&fields, "invariants")?;
    fields.optional("sandbox", |node| {
        let fields = Fields::of(node, &SANDBOX)?;
        file.setup = fields.optional("setup", prose)?;
        let include = fields.optional("include", list)?.unwrap_or_default();
        file.include = include.iter().map(prose).collect::<Result<_, _>>()?;
        file.clean = fields.optional("clean", clean)?.unwrap_or_default();
        Ok(())
    })?;
    fields.optional("apply", |node| {
        let fields = Fields::of(node, &APPLY)?;
        file.arrival.shape = fields.optional("as", arrival)?.unwrap_or_default();
        file.arrival.merge = fields.optional("merge", boolean)?.unwrap_or(false);
        if file.arrival.merge && file.arrival.shape != Arrival::Commit {
            return Err(Flaw::new(node.at, "`merge` is for landing as a commit"));
        }
        Ok(())
    })?;
    Ok(file)
}

/// Whoever clones a repository has not chosen what is in it: an actor that it defines works confined, with
/// nothing of the person's, and under a name of its own.
fn of_a_repository(mut actor: ActorDefinition, node: &Node) -> Result<ActorDefinition, Flaw> {
    const OWN: &str = "make it an actor of your own: planwright actor add FILE";
    if actors::preset(&actor.name.to_string()).is_some() {
        let message = format!(
            "`{}` is a well-known agent; a repository cannot say what it is",
            actor.name
        );
        return Err(Flaw::new(node.at, message).hint("give it another name"));
    }
    let ActorKind::Command(line) = &mut actor.kind else {
        return Ok(actor);
    };
    let wanted = [
        ("env", !line.env.is_empty()),
        ("writable", !line.writable.is_empty()),
        ("readable", !line.readable.is_empty()),
        ("isolation: off", line.isolation == Isolation::Off),
    ];
    if let Some((key, _)) = wanted.into_iter().find(|(_, wanted)| *wanted) {
        let message = format!("a repository cannot give an actor `{key}`");
        return Err(Flaw::new(node.at, message).hint(OWN));
    }
    line.isolation = Isolation::Required;
    Ok(actor)
}

fn limits(node: &Node) -> Result<LimitsSaid, Flaw> {
    let fields = Fields::of(node, &LIMITS)?;
    Ok(LimitsSaid {
        attempts: fields.optional("attempts", |node| read_as(node, limits::attempts))?,
        timeout: fields.optional("timeout", parsed)?,
        cost: fields.optional("cost", |node| read_as(node, str::parse::<Money>))?,
        tokens: fields.optional("tokens", |node| read_as(node, limits::tokens))?,
        time: fields.optional("time", parsed)?,
    })
}

/// A single value, as it is written, read like this.
fn read_as<T, E: std::fmt::Display>(
    node: &Node,
    read: impl Fn(&str) -> Result<T, E>,
) -> Result<T, Flaw> {
    read(&written(node)?).map_err(|error| Flaw::new(node.at, error.to_string()))
}

fn clean(node: &Node) -> Result<Clean, Flaw> {
    match text(node)?.as_str() {
        "on_apply" => Ok(Clean::OnApply),
        "on_terminal" => Ok(Clean::OnTerminal),
        "manual" => Ok(Clean::Manual),
        _ => Err(Flaw::new(
            node.at,
            "expected on_apply, on_terminal or manual",
        )),
    }
}

fn arrival(node: &Node) -> Result<Arrival, Flaw> {
    match text(node)?.as_str() {
        "commit" => Ok(Arrival::Commit),
        "uncommitted" => Ok(Arrival::Uncommitted),
        _ => Err(Flaw::new(node.at, "expected commit or uncommitted")
            .hint("a new branch is named when it is landed: planwright apply ID --as branch NAME")),
    }
}
