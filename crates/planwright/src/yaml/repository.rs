//! A repository's `planwright.yaml`, out of its tree.

use plan::action::ActionDefinition;
use plan::actor::{ActorIsolation, ActorKind};
use plan::how::LandingDestination as Arrival;
use plan::invariant::RuleDraft;
use plan::ways::SandboxCleanupPolicy;
use plan::{ActorDefinition, LandingOptions, Money, Profile, QualifiedName};

use super::fields::{MappingFields, MappingSchema};
use super::problem::YamlFlaw;
use super::rule::{self, RULE_SCHEMA};
use super::tree::YamlNode;
use super::value::{
    is_empty_node, read_boolean, read_list, read_nonempty_text, read_parsed, read_raw, read_text,
};
use super::{action, actor};
use crate::limits::{self, LimitOverrides};

/// What a repository says about work on it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RepositoryFile {
    /// A command that makes a new sandbox ready.
    pub setup: Option<String>,
    /// Ignored files to copy into it.
    pub include: Vec<String>,
    /// When sandboxes are removed.
    pub clean: SandboxCleanupPolicy,
    /// How results arrive.
    pub landing_options: LandingOptions,
    /// Who works.
    pub actor: Option<QualifiedName>,
    /// How actors are started.
    pub actors: Vec<ActorDefinition>,
    /// What can be used there.
    pub actions: Vec<ActionDefinition>,
    /// Where plans stop and ask.
    pub profile: Option<Profile>,
    /// What plans may use.
    pub limits: LimitOverrides,
    /// Rules of plans that land here. They hold for every plan once they are on the branch that plans land
    /// on, and before for those that are made in a working tree which has them.
    pub invariants: Vec<RuleDraft>,
}

static FILE_SCHEMA: MappingSchema<'_> = MappingSchema {
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
    others: &[&SANDBOX_SCHEMA, &APPLY_SCHEMA, &LIMITS_SCHEMA, &RULE_SCHEMA],
};

static SANDBOX_SCHEMA: MappingSchema<'_> = MappingSchema {
    what: "`sandbox`",
    place: "under `sandbox`",
    keys: &["setup", "include", "clean"],
    refused: &[],
    others: &[&FILE_SCHEMA, &APPLY_SCHEMA, &LIMITS_SCHEMA],
};

static APPLY_SCHEMA: MappingSchema<'_> = MappingSchema {
    what: "`apply`",
    place: "under `apply`",
    keys: &["as", "merge"],
    refused: &[],
    others: &[&FILE_SCHEMA, &SANDBOX_SCHEMA, &LIMITS_SCHEMA],
};

static LIMITS_SCHEMA: MappingSchema<'_> = MappingSchema {
    what: "`limits`",
    place: "under `limits`",
    keys: &["attempts", "timeout", "cost", "tokens", "time"],
    refused: &[],
    others: &[&FILE_SCHEMA, &SANDBOX_SCHEMA, &APPLY_SCHEMA],
};

pub(super) fn read(root: &YamlNode) -> Result<RepositoryFile, YamlFlaw> {
    let mut file = RepositoryFile::default();
    if is_empty_node(root) {
        return Ok(file);
    }
    let fields = MappingFields::from_node(root, &FILE_SCHEMA)?;
    file.actor = fields.optional("actor", read_parsed)?;
    let actors = fields.optional("actors", read_list)?.unwrap_or_default();
    for node in actors {
        let actor = actor::read(node).and_then(|actor| restrict_repository_actor(actor, node));
        let actor = actor.map_err(|flaw| flaw.under_key("actors"))?;
        if file.actors.iter().any(|other| other.name == actor.name) {
            let message = format!("agent `{}` is defined twice", actor.name);
            return Err(YamlFlaw::new(node.at, message).under_key("actors"));
        }
        file.actors.push(actor);
    }
    for node in fields.optional("actions", read_list)?.unwrap_or_default() {
        let action = action::read(node).map_err(|flaw| flaw.under_key("actions"))?;
        if file.actions.iter().any(|other| other.name == action.name) {
            let message = format!("action `{}` is defined twice", action.name);
            return Err(YamlFlaw::new(node.at, message).under_key("actions"));
        }
        file.actions.push(action);
    }
    file.profile = fields.optional("profile", read_parsed)?;
    file.limits = fields.optional("limits", read_limits)?.unwrap_or_default();
    file.invariants = rule::read_rules_at(&fields, "invariants")?;
    fields.optional("sandbox", |node| {
        let fields = MappingFields::from_node(node, &SANDBOX_SCHEMA)?;
        file.setup = fields.optional("setup", read_nonempty_text)?;
        let include = fields.optional("include", read_list)?.unwrap_or_default();
        file.include = include
            .iter()
            .map(read_nonempty_text)
            .collect::<Result<_, _>>()?;
        file.clean = fields.optional("clean", read_cleanup)?.unwrap_or_default();
        Ok(())
    })?;
    fields.optional("apply", |node| {
        let fields = MappingFields::from_node(node, &APPLY_SCHEMA)?;
        file.landing_options.shape = fields
            .optional("as", read_landing_mode)?
            .unwrap_or_default();
        file.landing_options.merge = fields.optional("merge", read_boolean)?.unwrap_or(false);
        if file.landing_options.merge && file.landing_options.shape != Arrival::Commit {
            return Err(YamlFlaw::new(node.at, "`merge` is for landing as a commit"));
        }
        Ok(())
    })?;
    Ok(file)
}

/// Whoever clones a repository has not chosen what is in it: an actor that it defines works confined, with
/// nothing of the person's, and under a name of its own.
fn restrict_repository_actor(
    mut actor: ActorDefinition,
    node: &YamlNode,
) -> Result<ActorDefinition, YamlFlaw> {
    const OWN: &str = "define it as your own agent: planwright agent add FILE";
    if actors::find_preset(&actor.name.to_string()).is_some() {
        let message = format!(
            "`{}` is a well-known agent; a repository cannot say what it is",
            actor.name
        );
        return Err(YamlFlaw::new(node.at, message).with_hint("give it another name"));
    }
    let ActorKind::Command(line) = &mut actor.kind else {
        return Ok(actor);
    };
    let wanted = [
        ("env", !line.env.is_empty()),
        ("writable", !line.writable.is_empty()),
        ("readable", !line.readable.is_empty()),
        ("isolation: off", line.isolation == ActorIsolation::Off),
    ];
    if let Some((key, _)) = wanted.into_iter().find(|(_, wanted)| *wanted) {
        let message = format!("a repository cannot set `{key}` for an agent");
        return Err(YamlFlaw::new(node.at, message).with_hint(OWN));
    }
    line.isolation = ActorIsolation::Required;
    Ok(actor)
}

fn read_limits(node: &YamlNode) -> Result<LimitOverrides, YamlFlaw> {
    let fields = MappingFields::from_node(node, &LIMITS_SCHEMA)?;
    Ok(LimitOverrides {
        attempts: fields.optional("attempts", |node| {
            read_scalar_as(node, limits::parse_attempts)
        })?,
        timeout: fields.optional("timeout", read_parsed)?,
        cost: fields.optional("cost", |node| read_scalar_as(node, str::parse::<Money>))?,
        tokens: fields.optional("tokens", |node| read_scalar_as(node, limits::parse_tokens))?,
        time: fields.optional("time", read_parsed)?,
    })
}

/// A single value, as it is written, read like this.
fn read_scalar_as<T, E: std::fmt::Display>(
    node: &YamlNode,
    read: impl Fn(&str) -> Result<T, E>,
) -> Result<T, YamlFlaw> {
    read(&read_raw(node)?).map_err(|error| YamlFlaw::new(node.at, error.to_string()))
}

fn read_cleanup(node: &YamlNode) -> Result<SandboxCleanupPolicy, YamlFlaw> {
    match read_text(node)?.as_str() {
        "on_apply" => Ok(SandboxCleanupPolicy::OnApply),
        "on_terminal" => Ok(SandboxCleanupPolicy::OnTerminal),
        "manual" => Ok(SandboxCleanupPolicy::Manual),
        _ => Err(YamlFlaw::new(
            node.at,
            "expected on_apply, on_terminal or manual",
        )),
    }
}

fn read_landing_mode(node: &YamlNode) -> Result<Arrival, YamlFlaw> {
    match read_text(node)?.as_str() {
        "commit" => Ok(Arrival::Commit),
        "uncommitted" => Ok(Arrival::Uncommitted),
        _ => Err(
            YamlFlaw::new(node.at, "expected commit or uncommitted").with_hint(
                "a new branch is named when it is landed: planwright apply ID --as branch NAME",
            ),
        ),
    }
}
