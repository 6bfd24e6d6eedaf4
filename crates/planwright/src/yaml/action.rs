//! The definition of an action, out of its tree.

use std::fmt::Display;

use plan::action::{ActionDefinition, Actors};
use plan::argument::{ArgumentSpec, ArgumentType, ArgumentValue};
use plan::invariant::RuleDraft;

use super::fields::{Fields, Shape};
use super::problem::{Flaw, Position, shown};
use super::rule::{self, RULE};
use super::tree::Node;
use super::value::{boolean, integer, list, number, parsed, prose, text};

pub(super) static ACTION: Shape<'_> = Shape {
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
    ],
    refused: &[
        (
            "estimation_actor",
            "is refused: nothing here consumes it",
            "plans are not estimated; remove the key",
        ),
        (
            "review_actor",
            "is refused: nothing here consumes it",
            "rules and people review results; remove the key",
        ),
        (
            "apply_actor",
            "is refused: nothing here consumes it",
            "results are applied without an actor; remove the key",
        ),
        (
            "state",
            "is not part of a definition: it is set by `action archive`",
            "a new action is available; remove the key",
        ),
    ],
    others: &[&ARGUMENT, &RULE],
};

pub(super) static ARGUMENT: Shape<'_> = Shape {
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
    others: &[&ACTION, &RULE],
};

pub(super) fn read(root: &Node) -> Result<ActionDefinition, Flaw> {
    let fields = Fields::of(root, &ACTION)?;
    Ok(ActionDefinition {
        name: fields.required("name", parsed)?,
        description: fields.required("description", prose)?,
        long_description: fields.optional("long_description", prose)?,
        actors: actors(&fields)?,
        arguments: each(&fields, "arguments", argument, |spec| spec.name.as_str())?,
        invariants: invariants(&fields)?,
        automation_profile: fields.optional("automation_profile", parsed)?,
        read_only: fields.optional("read_only", boolean)?.unwrap_or(false),
        reusable: fields.optional("reusable", boolean)?.unwrap_or(true),
    })
}

/// The rules of its plans, and those that say when the work is done.
fn invariants(fields: &Fields<'_, '_>) -> Result<Vec<RuleDraft>, Flaw> {
    let mut found = rule::rules_at(fields, "invariants")?;
    if let Some(entry) = fields.get("definition_of_done") {
        for draft in rule::definition_of_done(&entry.value)? {
            rule::require_new(&found, &draft, &entry.value)?;
            found.push(draft);
        }
    }
    Ok(found)
}

fn actors(fields: &Fields<'_, '_>) -> Result<Option<Actors>, Flaw> {
    const HINT: &str = "give `actor` alone, or both `strategy_actor` and `execution_actor`";
    let refuse = |key: &str, why: &str| {
        let at = fields.get(key).map_or(Position::START, |entry| entry.at);
        Err(Flaw::new(at, format!("`{key}` {why}")).hint(HINT))
    };
    let actor = fields.optional("actor", parsed)?;
    let strategy = fields.optional("strategy_actor", parsed)?;
    let execution = fields.optional("execution_actor", parsed)?;
    let invariant = fields.optional("invariant_actor", parsed)?;
    match (actor, strategy, execution) {
        (None, None, None) if invariant.is_some() => {
            refuse("invariant_actor", "needs `actor` beside it")
        }
        (None, None, None) => Ok(None),
        (Some(actor), None, None) => Ok(Some(Actors {
            invariant,
            ..Actors::both(actor)
        })),
        (None, Some(strategy), Some(execution)) => Ok(Some(Actors {
            strategy,
            execution,
            invariant,
        })),
        (Some(_), Some(_), _) => refuse("strategy_actor", "cannot stand beside `actor`"),
        (Some(_), None, Some(_)) => refuse("execution_actor", "cannot stand beside `actor`"),
        (None, Some(_), None) => refuse("strategy_actor", "needs `execution_actor` beside it"),
        (None, None, Some(_)) => refuse("execution_actor", "needs `strategy_actor` beside it"),
    }
}

/// Most arguments, and most rules, of an action: checking a pattern is not for free.
const MAX_ITEMS: usize = 256;

/// The items of a list of mappings, whose names differ.
fn each<T>(
    fields: &Fields<'_, '_>,
    key: &str,
    read: fn(&Node) -> Result<T, Flaw>,
    name: fn(&T) -> &str,
) -> Result<Vec<T>, Flaw> {
    let nodes = fields.optional(key, list)?.unwrap_or_default();
    if let Some(extra) = nodes.get(MAX_ITEMS) {
        let message = format!("`{key}`: more than {MAX_ITEMS} items");
        return Err(Flaw::new(extra.at, message));
    }
    let mut items: Vec<T> = Vec::new();
    for node in nodes {
        let item = read(node)?;
        if let Some(first) = items.iter().position(|other| name(other) == name(&item)) {
            let message = format!("`{key}` names `{}` twice", name(&item));
            let hint = format!("it is first named in line {}", nodes[first].at.line);
            return Err(Flaw::new(node.at, message).hint(hint));
        }
        items.push(item);
    }
    Ok(items)
}

fn argument(node: &Node) -> Result<ArgumentSpec, Flaw> {
    let fields = Fields::of(node, &ARGUMENT)?;
    let kind = fields.required("type", argument_type)?;
    let mut spec = ArgumentSpec {
        name: fields.required("name", text)?,
        kind,
        required: fields.optional("required", boolean)?.unwrap_or(false),
        default: fields.optional("default", |node| value(node, kind))?,
        min: fields.optional("min", number)?,
        max: fields.optional("max", number)?,
        pattern: fields.optional("pattern", text)?,
        description: fields.optional("description", text)?,
    };
    spec.check().map_err(|problem| {
        let default = spec.default.take().and(fields.get("default"));
        let at = match default {
            Some(entry) if spec.check().is_ok() => entry.value.at,
            Some(_) | None => node.at,
        };
        Flaw::new(at, one_line(&problem))
    })?;
    Ok(spec)
}

fn argument_type(node: &Node) -> Result<ArgumentType, Flaw> {
    const ALL: [ArgumentType; 5] = [
        ArgumentType::String,
        ArgumentType::Integer,
        ArgumentType::Float,
        ArgumentType::Boolean,
        ArgumentType::List,
    ];
    let given = text(node)?;
    ALL.into_iter()
        .find(|kind| kind.to_string() == given)
        .ok_or_else(|| {
            let given = shown(&given, 60);
            let known = ALL.map(|kind| kind.to_string()).join(", ");
            Flaw::new(node.at, format!("`{given}` is no type: use one of {known}"))
        })
}

fn value(node: &Node, kind: ArgumentType) -> Result<ArgumentValue, Flaw> {
    Ok(match kind {
        ArgumentType::String => ArgumentValue::String(text(node)?.into()),
        ArgumentType::Integer => ArgumentValue::Integer(integer(node)?),
        ArgumentType::Float => ArgumentValue::Float(number(node)?),
        ArgumentType::Boolean => ArgumentValue::Boolean(boolean(node)?),
        ArgumentType::List => {
            let items = list(node)?.iter().map(|item| text(item).map(Into::into));
            ArgumentValue::List(items.collect::<Result<_, _>>()?)
        }
    })
}

/// The errors of regular expressions draw over several lines; the last one says it.
fn one_line(problem: &impl Display) -> String {
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
