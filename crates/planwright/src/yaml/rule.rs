//! Reads rules, which look the same in an action and in `planwright.yaml`.

use lifecycle::default_gates;
use plan::invariant::{Gate, RuleCheck, RuleDraft};

use super::action::{ACTION_SCHEMA, ARGUMENT_SCHEMA};
use super::fields::{MappingFields, MappingSchema};
use super::problem::YamlFlaw;
use super::tree::{YamlNode, YamlValue};
use super::value::{read_boolean, read_list, read_nonempty_text, read_parsed, type_mismatch};

/// The keys for the kind of a rule. Each rule has exactly one.
const RULE_KINDS: [&str; 5] = ["expr", "allow", "forbid", "command", "ask"];

/// The limit on rules in one file, because checking expressions takes time.
const MAX_RULES: usize = 256;

pub(super) static RULE_SCHEMA: MappingSchema<'_> = MappingSchema {
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
    others: &[&ACTION_SCHEMA, &ARGUMENT_SCHEMA],
};

/// Reads the rules under a key and refuses duplicate names.
pub(super) fn read_rules_at(
    fields: &MappingFields<'_, '_>,
    key: &str,
) -> Result<Vec<RuleDraft>, YamlFlaw> {
    read_rules(fields.optional(key, read_list)?.unwrap_or_default())
}

fn read_rules(nodes: &[YamlNode]) -> Result<Vec<RuleDraft>, YamlFlaw> {
    if let Some(extra) = nodes.get(MAX_RULES) {
        return Err(YamlFlaw::new(
            extra.at,
            format!("more than {MAX_RULES} rules"),
        ));
    }
    let mut found: Vec<RuleDraft> = Vec::new();
    for node in nodes {
        let draft = read_rule(node)?;
        check_unique_name(&found, &draft, node)?;
        found.push(draft);
    }
    Ok(found)
}

/// Reads `definition_of_done`: a list of rules, limited to gates that have a result, or one question.
pub(super) fn read_definition_of_done(node: &YamlNode) -> Result<Vec<RuleDraft>, YamlFlaw> {
    match &node.value {
        YamlValue::List(items) => {
            let mut found = read_rules(items)?;
            for draft in &mut found {
                draft.at.retain(|gate| gate.has_result());
            }
            Ok(found)
        }
        YamlValue::Scalar(_) => {
            let check = RuleCheck::Ask(read_nonempty_text(node)?);
            Ok(vec![RuleDraft {
                name: "definition-of-done"
                    .parse()
                    .expect("BUG: the constant is a valid name"),
                at: default_gates(&check),
                check,
                advisory: false,
                non_overridable: false,
            }])
        }
        YamlValue::Mapping(_) => Err(type_mismatch(node, "a string or a list of rules")),
    }
}

pub(super) fn check_unique_name(
    found: &[RuleDraft],
    draft: &RuleDraft,
    node: &YamlNode,
) -> Result<(), YamlFlaw> {
    match found.iter().any(|other| other.name == draft.name) {
        true => Err(YamlFlaw::new(
            node.at,
            format!("rule `{}` is defined twice", draft.name),
        )),
        false => Ok(()),
    }
}

fn read_rule(node: &YamlNode) -> Result<RuleDraft, YamlFlaw> {
    let fields = MappingFields::from_node(node, &RULE_SCHEMA)?;
    let check = read_check(&fields, node)?;
    let at = fields.optional("at", read_gates)?;
    let draft = RuleDraft {
        name: fields.required("name", read_parsed)?,
        at: at.unwrap_or_else(|| default_gates(&check)),
        check,
        advisory: fields.optional("advisory", read_boolean)?.unwrap_or(false),
        non_overridable: fields
            .optional("non_overridable", read_boolean)?
            .unwrap_or(false),
    };
    let possible = draft.check.possible_gates();
    if let Some(gate) = draft.at.iter().find(|gate| !possible.contains(gate)) {
        let kind = draft.check.kind();
        let message = format!("at the {gate} gate there is no result for `{kind}` to check");
        return Err(
            YamlFlaw::new(node.at, message).with_hint("leave `at` out, or write `at: result`")
        );
    }
    Ok(draft)
}

fn read_check(fields: &MappingFields<'_, '_>, node: &YamlNode) -> Result<RuleCheck, YamlFlaw> {
    let given: Vec<&str> = RULE_KINDS
        .into_iter()
        .filter(|kind| fields.get(kind).is_some())
        .collect();
    let [kind] = given.as_slice() else {
        let message = match given.as_slice() {
            [] => "a rule needs a condition".to_owned(),
            several => format!(
                "a rule has one condition; this one has {}",
                several.join(" and ")
            ),
        };
        let hint = format!("use one of {}", RULE_KINDS.join(", "));
        return Err(YamlFlaw::new(node.at, message).with_hint(hint));
    };
    if let Some(entry) = fields.get("timeout").filter(|_| *kind != "command") {
        return Err(YamlFlaw::new(
            entry.at,
            "`timeout` is only for `command` rules",
        ));
    }
    Ok(match *kind {
        "expr" => RuleCheck::Expr(fields.required("expr", read_nonempty_text)?),
        "allow" => RuleCheck::Allow(fields.required("allow", read_globs)?),
        "forbid" => RuleCheck::Forbid(fields.required("forbid", read_globs)?),
        "command" => RuleCheck::Command {
            command: fields.required("command", read_nonempty_text)?,
            timeout: fields.optional("timeout", read_parsed)?,
        },
        _ => RuleCheck::Ask(fields.required("ask", read_nonempty_text)?),
    })
}

/// Reads one glob or a non-empty list.
fn read_globs(node: &YamlNode) -> Result<Vec<String>, YamlFlaw> {
    match &node.value {
        YamlValue::Scalar(_) => Ok(vec![read_nonempty_text(node)?]),
        YamlValue::List(items) if items.is_empty() => Err(YamlFlaw::new(
            node.at,
            "expected a glob, found an empty list",
        )),
        YamlValue::List(items) => items.iter().map(read_nonempty_text).collect(),
        YamlValue::Mapping(_) => Err(type_mismatch(node, "a glob or a list of globs")),
    }
}

/// Reads one gate or a non-empty list without duplicates.
fn read_gates(node: &YamlNode) -> Result<Vec<Gate>, YamlFlaw> {
    let nodes = match &node.value {
        YamlValue::Scalar(_) => std::slice::from_ref(node),
        YamlValue::List(items) if !items.is_empty() => items,
        YamlValue::List(_) => {
            return Err(
                YamlFlaw::new(node.at, "expected a gate, found an empty list")
                    .with_hint("leave `at` out for every gate"),
            );
        }
        YamlValue::Mapping(_) => return Err(type_mismatch(node, "a gate or a list of gates")),
    };
    let mut gates = Vec::new();
    for node in nodes {
        let gate = read_parsed(node)?;
        if gates.contains(&gate) {
            return Err(YamlFlaw::new(node.at, format!("`{gate}` is named twice")));
        }
        gates.push(gate);
    }
    Ok(gates)
}
