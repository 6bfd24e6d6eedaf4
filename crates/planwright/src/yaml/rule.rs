//! Rules, out of their tree: the same in an action and in a repository's `planwright.yaml`.

use lifecycle::default_gates;
use plan::invariant::{Check, Gate, RuleDraft};

use super::action::{ACTION, ARGUMENT};
use super::fields::{Fields, Shape};
use super::problem::Flaw;
use super::tree::{Node, Value};
use super::value::{boolean, list, mismatch, parsed, prose};

/// The kinds of rules; each rule is of one.
const KINDS: [&str; 5] = ["expr", "allow", "forbid", "command", "ask"];

/// Most rules of a file: checking an expression is not for free.
const MAX_RULES: usize = 256;

pub(super) static RULE: Shape<'_> = Shape {
    what: "a rule",
    place: "under a rule in `invariants`",
    keys: &[
        "name",
        "expr",
        "allow",
        "forbid",
        "command",
        "timeout",
        "ask",
        "at",
        "advisory",
        "non_overridable",
    ],
    refused: &[],
    others: &[&ACTION, &ARGUMENT],
};

/// The rules under a key, whose names differ.
pub(super) fn rules_at(fields: &Fields<'_, '_>, key: &str) -> Result<Vec<RuleDraft>, Flaw> {
    rules(fields.optional(key, list)?.unwrap_or_default())
}

fn rules(nodes: &[Node]) -> Result<Vec<RuleDraft>, Flaw> {
    if let Some(extra) = nodes.get(MAX_RULES) {
        return Err(Flaw::new(extra.at, format!("more than {MAX_RULES} rules")));
    }
    let mut found: Vec<RuleDraft> = Vec::new();
    for node in nodes {
        let draft = rule(node)?;
        require_new(&found, &draft, node)?;
        found.push(draft);
    }
    Ok(found)
}

/// What has to be so for the work to be done: rules about the result, or a text that somebody judges.
pub(super) fn definition_of_done(node: &Node) -> Result<Vec<RuleDraft>, Flaw> {
    match &node.value {
        Value::List(items) => {
            let mut found = rules(items)?;
            for draft in &mut found {
                draft.at.retain(|gate| gate.has_result());
            }
            Ok(found)
        }
        Value::Scalar(_) => {
            let check = Check::Ask(prose(node)?);
            Ok(vec![RuleDraft {
                name: "definition-of-done".parse().expect("BUG: it is a name"),
                at: default_gates(&check),
                check,
                advisory: false,
                non_overridable: false,
            }])
        }
        Value::Mapping(_) => Err(mismatch(node, "a text or a list of rules")),
    }
}

/// No two rules of one place have the same name.
pub(super) fn require_new(found: &[RuleDraft], draft: &RuleDraft, node: &Node) -> Result<(), Flaw> {
    match found.iter().any(|other| other.name == draft.name) {
        true => Err(Flaw::new(
            node.at,
            format!("rule `{}` is there twice", draft.name),
        )),
        false => Ok(()),
    }
}

fn rule(node: &Node) -> Result<RuleDraft, Flaw> {
    let fields = Fields::of(node, &RULE)?;
    let check = check(&fields, node)?;
    let at = fields.optional("at", gates)?;
    let draft = RuleDraft {
        name: fields.required("name", parsed)?,
        at: at.unwrap_or_else(|| default_gates(&check)),
        check,
        advisory: fields.optional("advisory", boolean)?.unwrap_or(false),
        non_overridable: fields
            .optional("non_overridable", boolean)?
            .unwrap_or(false),
    };
    let possible = draft.check.gates();
    if let Some(gate) = draft.at.iter().find(|gate| !possible.contains(gate)) {
        let kind = draft.check.kind();
        let message = format!("at the {gate} gate `{kind}` has nothing to judge yet");
        return Err(Flaw::new(node.at, message).hint("leave `at` out, or write `at: result`"));
    }
    Ok(draft)
}

fn check(fields: &Fields<'_, '_>, node: &Node) -> Result<Check, Flaw> {
    let given: Vec<&str> = KINDS
        .into_iter()
        .filter(|kind| fields.get(kind).is_some())
        .collect();
    let [kind] = given.as_slice() else {
        let message = match given.as_slice() {
            [] => "a rule says what must hold".to_owned(),
            several => format!(
                "a rule is of one kind, this one of {}",
                several.join(" and ")
            ),
        };
        let hint = format!("give it one of {}", KINDS.join(", "));
        return Err(Flaw::new(node.at, message).hint(hint));
    };
    if let Some(entry) = fields.get("timeout").filter(|_| *kind != "command") {
        return Err(Flaw::new(entry.at, "`timeout` is for rules by `command`"));
    }
    Ok(match *kind {
        "expr" => Check::Expr(fields.required("expr", prose)?),
        "allow" => Check::Allow(fields.required("allow", globs)?),
        "forbid" => Check::Forbid(fields.required("forbid", globs)?),
        "command" => Check::Command {
            command: fields.required("command", prose)?,
            timeout: fields.optional("timeout", parsed)?,
        },
        _ => Check::Ask(fields.required("ask", prose)?),
    })
}

/// One glob or a list of some.
fn globs(node: &Node) -> Result<Vec<String>, Flaw> {
    match &node.value {
        Value::Scalar(_) => Ok(vec![prose(node)?]),
        Value::List(items) if items.is_empty() => {
            Err(Flaw::new(node.at, "expected a glob, found an empty list"))
        }
        Value::List(items) => items.iter().map(prose).collect(),
        Value::Mapping(_) => Err(mismatch(node, "a glob or a list of globs")),
    }
}

/// One gate or a list of some.
fn gates(node: &Node) -> Result<Vec<Gate>, Flaw> {
    let nodes = match &node.value {
        Value::Scalar(_) => std::slice::from_ref(node),
        Value::List(items) if !items.is_empty() => items,
        Value::List(_) => {
            return Err(Flaw::new(node.at, "expected a gate, found an empty list")
                .hint("leave `at` out for every gate"));
        }
        Value::Mapping(_) => return Err(mismatch(node, "a gate or a list of gates")),
    };
    let mut gates = Vec::new();
    for node in nodes {
        let gate = parsed(node)?;
        if gates.contains(&gate) {
            return Err(Flaw::new(node.at, format!("`{gate}` is named twice")));
        }
        gates.push(gate);
    }
    Ok(gates)
}
