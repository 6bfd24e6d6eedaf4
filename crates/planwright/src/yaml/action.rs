//! Reads the definition of an action.

use std::fmt::Display;

use plan::action::{ActionDefinition, PlanActors};
use plan::argument::{ArgumentSpec, ArgumentType, ArgumentValue};
use plan::invariant::RuleDraft;

use super::actor::{TOOLS_SCHEMA, read_tools};
use super::fields::{MappingFields, MappingSchema};
use super::problem::{FilePosition, YamlFlaw, truncate_escaped};
use super::rule::{self, RULE_SCHEMA};
use super::tree::YamlNode;
use super::value::{
    read_boolean, read_integer, read_list, read_nonempty_text, read_number, read_parsed, read_text,
};

pub(super) static ACTION_SCHEMA: MappingSchema<'_> = MappingSchema {
    what: "an action",
    place: "at the top level",
    keys: &[
        "name",
        "description",
        "long_description",
        "actor",
        "strategy_actor",
        "execution_actor",
        "invariant_actor",
        "arguments",
        "invariants",
        "definition_of_done",
        "automation_profile",
        "read_only",
        "reusable",
        "tools",
    ],
    refused: &[
        (
            "estimation_actor",
            "is not supported",
            "remove the key: plans are not estimated",
        ),
        (
            "review_actor",
            "is not supported",
            "remove the key: rules and people review results",
        ),
        (
            "apply_actor",
            "is not supported",
            "remove the key: results are applied without an agent",
        ),
        (
            "state",
            "is not part of a definition: `action archive` sets it",
            "remove the key: a new action is available",
        ),
    ],
    others: &[&ARGUMENT_SCHEMA, &RULE_SCHEMA, &TOOLS_SCHEMA],
};

pub(super) static ARGUMENT_SCHEMA: MappingSchema<'_> = MappingSchema {
    what: "an argument",
    place: "under an argument",
    keys: &[
        "name",
        "type",
        "required",
        "default",
        "min",
        "max",
        "pattern",
        "description",
    ],
    refused: &[],
    others: &[&ACTION_SCHEMA, &RULE_SCHEMA],
};

pub(super) fn read(root: &YamlNode) -> Result<ActionDefinition, YamlFlaw> {
    let fields = MappingFields::from_node(root, &ACTION_SCHEMA)?;
    Ok(ActionDefinition {
        name: fields.required("name", read_parsed)?,
        description: fields.required("description", read_nonempty_text)?,
        long_description: fields.optional("long_description", read_nonempty_text)?,
        actors: read_actors(&fields)?,
        arguments: read_unique_items(&fields, "arguments", read_argument, |spec| {
            spec.name.as_str()
        })?,
        invariants: read_invariants(&fields)?,
        automation_profile: fields.optional("automation_profile", read_parsed)?,
        read_only: fields.optional("read_only", read_boolean)?.unwrap_or(false),
        reusable: fields.optional("reusable", read_boolean)?.unwrap_or(true),
        tools: fields.optional("tools", read_tools)?.unwrap_or_default(),
    })
}

/// Reads `invariants` and `definition_of_done` into one list of rules with unique names.
fn read_invariants(fields: &MappingFields<'_, '_>) -> Result<Vec<RuleDraft>, YamlFlaw> {
    let mut found = rule::read_rules_at(fields, "invariants")?;
    if let Some(entry) = fields.get("definition_of_done") {
        for draft in rule::read_definition_of_done(&entry.value)? {
            rule::check_unique_name(&found, &draft, &entry.value)?;
            found.push(draft);
        }
    }
    Ok(found)
}

fn read_actors(fields: &MappingFields<'_, '_>) -> Result<Option<PlanActors>, YamlFlaw> {
    const HINT: &str = "set `actor` alone, or both `strategy_actor` and `execution_actor`";
    let refuse = |key: &str, why: &str| {
        let at = fields
            .get(key)
            .map_or(FilePosition::START, |entry| entry.at);
        Err(YamlFlaw::new(at, format!("`{key}` {why}")).with_hint(HINT))
    };
    let actor = fields.optional("actor", read_parsed)?;
    let strategy = fields.optional("strategy_actor", read_parsed)?;
    let execution = fields.optional("execution_actor", read_parsed)?;
    let invariant = fields.optional("invariant_actor", read_parsed)?;
    match (actor, strategy, execution) {
        (None, None, None) if invariant.is_some() => {
            refuse("invariant_actor", "also needs `actor`")
        }
        (None, None, None) => Ok(None),
        (Some(actor), None, None) => Ok(Some(PlanActors {
            invariant,
            ..PlanActors::for_both_phases(actor)
        })),
        (None, Some(strategy), Some(execution)) => Ok(Some(PlanActors {
            strategy,
            execution,
            invariant,
        })),
        (Some(_), Some(_), _) => refuse("strategy_actor", "cannot be combined with `actor`"),
        (Some(_), None, Some(_)) => refuse("execution_actor", "cannot be combined with `actor`"),
        (None, Some(_), None) => refuse("strategy_actor", "also needs `execution_actor`"),
        (None, None, Some(_)) => refuse("execution_actor", "also needs `strategy_actor`"),
    }
}

/// The limit on arguments of an action, because checking their patterns takes time.
const MAX_ITEMS: usize = 256;

/// Reads a list of mappings and refuses duplicate names.
fn read_unique_items<T>(
    fields: &MappingFields<'_, '_>,
    key: &str,
    read: fn(&YamlNode) -> Result<T, YamlFlaw>,
    name: fn(&T) -> &str,
) -> Result<Vec<T>, YamlFlaw> {
    let nodes = fields.optional(key, read_list)?.unwrap_or_default();
    if let Some(extra) = nodes.get(MAX_ITEMS) {
        let message = format!("`{key}`: more than {MAX_ITEMS} items");
        return Err(YamlFlaw::new(extra.at, message));
    }
    let mut items: Vec<T> = Vec::new();
    for node in nodes {
        let item = read(node)?;
        if let Some(first) = items.iter().position(|other| name(other) == name(&item)) {
            let message = format!("`{key}` defines `{}` twice", name(&item));
            let hint = format!("first defined on line {}", nodes[first].at.line);
            return Err(YamlFlaw::new(node.at, message).with_hint(hint));
        }
        items.push(item);
    }
    Ok(items)
}

fn read_argument(node: &YamlNode) -> Result<ArgumentSpec, YamlFlaw> {
    let fields = MappingFields::from_node(node, &ARGUMENT_SCHEMA)?;
    let kind = fields.required("type", read_argument_type)?;
    let mut spec = ArgumentSpec {
        name: fields.required("name", read_text)?,
        kind,
        required: fields.optional("required", read_boolean)?.unwrap_or(false),
        default: fields.optional("default", |node| read_argument_value(node, kind))?,
        min: fields.optional("min", read_number)?,
        max: fields.optional("max", read_number)?,
        pattern: fields.optional("pattern", read_text)?,
        description: fields.optional("description", read_text)?,
    };
    spec.check_declaration().map_err(|problem| {
        // If the declaration is valid without its default, the problem is the default: point at it.
        let default = spec.default.take().and(fields.get("default"));
        let at = match default {
            Some(entry) if spec.check_declaration().is_ok() => entry.value.at,
            Some(_) | None => node.at,
        };
        YamlFlaw::new(at, last_error_line(&problem))
    })?;
    Ok(spec)
}

fn read_argument_type(node: &YamlNode) -> Result<ArgumentType, YamlFlaw> {
    const ALL: [ArgumentType; 5] = [
        ArgumentType::String,
        ArgumentType::Integer,
        ArgumentType::Float,
        ArgumentType::Boolean,
        ArgumentType::List,
    ];
    let given = read_text(node)?;
    ALL.into_iter()
        .find(|kind| kind.to_string() == given)
        .ok_or_else(|| {
            let given = truncate_escaped(&given, 60);
            let known = ALL.map(|kind| kind.to_string()).join(", ");
            YamlFlaw::new(
                node.at,
                format!("`{given}` is not a type: use one of {known}"),
            )
        })
}

fn read_argument_value(node: &YamlNode, kind: ArgumentType) -> Result<ArgumentValue, YamlFlaw> {
    Ok(match kind {
        ArgumentType::String => ArgumentValue::String(read_text(node)?.into()),
        ArgumentType::Integer => ArgumentValue::Integer(read_integer(node)?),
        ArgumentType::Float => ArgumentValue::Float(read_number(node)?),
        ArgumentType::Boolean => ArgumentValue::Boolean(read_boolean(node)?),
        ArgumentType::List => {
            let items = read_list(node)?
                .iter()
                .map(|item| read_text(item).map(Into::into));
            ArgumentValue::List(items.collect::<Result<_, _>>()?)
        }
    })
}

/// Reduces an error to one line: regex errors span several lines and give the reason in the last.
fn last_error_line(problem: &impl Display) -> String {
    let text = problem.to_string();
    match (text.split_once('\n'), text.rsplit_once("\nerror: ")) {
        (Some((first, _)), Some((_, last))) => {
            format!(
                "{} {last}",
                first.trim_end_matches("regex parse error:").trim_end()
            )
        }
        _ => text,
    }
}
