//! Reads a repository's `planwright.yaml`.

use api::plan_config::LimitOverrides;
use plan::action::ActionDefinition;
use plan::actor::{ActorIsolation, ActorKind};
use plan::invariant::RuleDraft;
use plan::landing_options::LandingDestination;
use plan::repository_policy::SandboxCleanupPolicy;
use plan::{ActorDefinition, LandingOptions, Money, Profile, QualifiedName};

use super::fields::{MappingFields, MappingSchema};
use super::problem::YamlFlaw;
use super::rule::{self, RULE_SCHEMA};
use super::tree::YamlNode;
use super::value::{
    is_empty_node, read_boolean, read_list, read_nonempty_text, read_parsed, read_raw, read_text,
};
use super::{action, actor};
use crate::limits;

/// A parsed `planwright.yaml`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RepositoryFile {
    /// The command that sets up a new sandbox.
    pub setup: Option<String>,
    /// Ignored files to copy into a new sandbox.
    pub include: Vec<String>,
    pub clean: SandboxCleanupPolicy,
    pub landing_options: LandingOptions,
    /// The default agent.
    pub actor: Option<QualifiedName>,
    /// Agents that the repository defines.
    pub actors: Vec<ActorDefinition>,
    pub actions: Vec<ActionDefinition>,
    pub profile: Option<Profile>,
    pub limits: LimitOverrides,
    /// Rules. On the target branch they apply to every plan that lands there; in the working tree, to plans
    /// created from it.
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
        if file.landing_options.merge && file.landing_options.shape != LandingDestination::Commit {
            return Err(YamlFlaw::new(node.at, "`merge` needs `as: commit`"));
        }
        Ok(())
    })?;
    Ok(file)
}

/// Restricts an agent that a repository defines: the user who cloned it did not choose it. It must run
/// confined, gets no access to the user's environment or files, and cannot take a preset's name.
fn restrict_repository_actor(
    mut actor: ActorDefinition,
    node: &YamlNode,
) -> Result<ActorDefinition, YamlFlaw> {
    const OWN: &str = "define it as your own agent: planwright agent add FILE";
    if actors::find_preset(&actor.name.to_string()).is_some() {
        let message = format!(
            "`{}` is a built-in agent; a repository cannot redefine it",
            actor.name
        );
        return Err(YamlFlaw::new(node.at, message).with_hint("give it another name"));
    }
    let (env, writable, readable, isolation) = match &mut actor.kind {
        ActorKind::Command(line) => (
            &line.env,
            &line.writable,
            &line.readable,
            &mut line.isolation,
        ),
        ActorKind::Acp(agent) => (
            &agent.env,
            &agent.writable,
            &agent.readable,
            &mut agent.isolation,
        ),
        ActorKind::Human { .. } => return Ok(actor),
    };
    let forbidden = [
        ("env", !env.is_empty()),
        ("writable", !writable.is_empty()),
        ("readable", !readable.is_empty()),
        ("isolation: off", *isolation == ActorIsolation::Off),
    ];
    if let Some((key, _)) = forbidden.into_iter().find(|(_, is_set)| *is_set) {
        let message = format!("a repository cannot set `{key}` for an agent");
        return Err(YamlFlaw::new(node.at, message).with_hint(OWN));
    }
    *isolation = ActorIsolation::Required;
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

/// Parses a single value, quoted or not, from its text.
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

fn read_landing_mode(node: &YamlNode) -> Result<LandingDestination, YamlFlaw> {
    match read_text(node)?.as_str() {
        "commit" => Ok(LandingDestination::Commit),
        "uncommitted" => Ok(LandingDestination::Uncommitted),
        _ => Err(YamlFlaw::new(node.at, "expected commit or uncommitted")
            .with_hint("name a new branch when you land: planwright apply ID --as branch NAME")),
    }
}
