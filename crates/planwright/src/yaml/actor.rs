//! The definition of an actor, out of its tree.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use plan::ActorDefinition;
use plan::actor::{ActorKind, CommandLine, Isolation, Output, Stdin};
use plan::guard::{CallPattern, Guards};

use super::fields::{Fields, Shape};
use super::problem::{Flaw, Position, shown};
use super::tree::{Node, Value};
use super::value::{list, mismatch, parsed, prose, text, written};

const LATER: &str = "is not yet supported";

static COMMAND: Shape<'_> = Shape {
    what: "an actor of kind command",
    place: "in an actor of kind command",
    keys: &[
        "name",
        "kind",
        "description",
        "command",
        "strategize",
        "resume",
        "stdin",
        "output",
        "env",
        "set_env",
        "writable",
        "readable",
        "timeout",
        "isolation",
        "guards",
    ],
    refused: &[
        (
            "args",
            "is refused: a command is one list of words",
            "write the arguments after the program: `command: [program, argument]`",
        ),
        ("model", LATER, "give it as a word of `command`"),
    ],
    others: &[&FORM, &GUARDS],
};

static HUMAN: Shape<'_> = Shape {
    what: "an actor of kind human",
    place: "in an actor of kind human",
    keys: &["name", "kind", "description", "timeout"],
    refused: &[],
    others: &[&COMMAND],
};

static FORM: Shape<'_> = Shape {
    what: "another way to start the program",
    place: "under `strategize` or `resume`",
    keys: &["command"],
    refused: &[],
    others: &[&COMMAND],
};

static GUARDS: Shape<'_> = Shape {
    what: "`guards`",
    place: "under `guards`",
    keys: &["deny", "allow", "calls"],
    refused: &[],
    others: &[&COMMAND],
};

pub(super) fn read(root: &Node) -> Result<ActorDefinition, Flaw> {
    let is_human = kind_of(root)? == Kind::Human;
    let shape = if is_human { &HUMAN } else { &COMMAND };
    let fields = Fields::of(root, shape)?;
    let definition = ActorDefinition {
        name: fields.required("name", parsed)?,
        description: fields.optional("description", prose)?,
        kind: if is_human {
            ActorKind::Human {
                timeout: fields.optional("timeout", parsed)?,
            }
        } else {
            ActorKind::Command(Box::new(command(&fields)?))
        },
    };
    actors::check(&definition).map_err(|problem| {
        let entry = fields.get(problem.key());
        let at = entry.map_or(Position::START, |entry| entry.value.at);
        Flaw::new(at, problem.to_string())
    })?;
    Ok(definition)
}

#[derive(PartialEq, Eq)]
enum Kind {
    Command,
    Human,
}

/// What sort of actor it is, before it is known which keys it has.
fn kind_of(root: &Node) -> Result<Kind, Flaw> {
    let Value::Mapping(entries) = &root.value else {
        return Err(mismatch(root, "an actor as a mapping of keys to values")
            .hint("write lines of `key: value`"));
    };
    let Some(entry) = entries.iter().find(|entry| entry.key == "kind") else {
        return Err(Flaw::new(root.at, "an actor needs the key `kind`")
            .hint("write `kind: command` for a program, `kind: human` for a person"));
    };
    let kinds = [("command", Kind::Command), ("human", Kind::Human)];
    one_of(&entry.value, kinds).map_err(|flaw| flaw.under("kind"))
}

fn command(fields: &Fields<'_, '_>) -> Result<CommandLine, Flaw> {
    Ok(CommandLine {
        command: fields.required("command", texts)?,
        strategize: fields.optional("strategize", form)?,
        resume: fields.optional("resume", form)?,
        stdin: fields
            .optional("stdin", |node| {
                one_of(
                    node,
                    [
                        ("assignment", Stdin::Assignment),
                        ("prompt", Stdin::Prompt),
                        ("none", Stdin::None),
                    ],
                )
            })?
            .unwrap_or_default(),
        output: fields
            .optional("output", |node| {
                one_of(
                    node,
                    [
                        ("text", Output::Text),
                        ("claude-json", Output::ClaudeJson),
                        ("codex-json", Output::CodexJson),
                        ("gemini-json", Output::GeminiJson),
                        ("opencode-json", Output::OpencodeJson),
                    ],
                )
            })?
            .unwrap_or_default(),
        env: fields.optional("env", texts)?.unwrap_or_default(),
        set_env: fields.optional("set_env", variables)?.unwrap_or_default(),
        writable: fields.optional("writable", texts)?.unwrap_or_default(),
        readable: fields.optional("readable", texts)?.unwrap_or_default(),
        timeout: fields.optional("timeout", parsed)?,
        isolation: fields
            .optional("isolation", |node| {
                one_of(
                    node,
                    [
                        ("where_possible", Isolation::WherePossible),
                        ("required", Isolation::Required),
                        ("off", Isolation::Off),
                    ],
                )
            })?
            .unwrap_or_default(),
        guards: fields.optional("guards", guards)?.unwrap_or_default(),
    })
}

fn guards(node: &Node) -> Result<Guards, Flaw> {
    let fields = Fields::of(node, &GUARDS)?;
    Ok(Guards {
        deny: fields.optional("deny", patterns)?.unwrap_or_default(),
        allow: fields.optional("allow", patterns)?.unwrap_or_default(),
        calls: fields.optional("calls", calls)?,
    })
}

fn calls(node: &Node) -> Result<u32, Flaw> {
    let given: Option<NonZeroU32> = written(node)?.parse().ok();
    given
        .map(NonZeroU32::get)
        .ok_or_else(|| mismatch(node, "how many calls a run makes at most"))
}

fn patterns(node: &Node) -> Result<Vec<CallPattern>, Flaw> {
    let items = list(node)?;
    refuse_many(items.get(MAX_ITEMS).map(|item| item.at))?;
    items.iter().map(parsed).collect()
}

/// Most items of a list, and most variables: a definition is frozen into every plan.
const MAX_ITEMS: usize = 256;

fn texts(node: &Node) -> Result<Vec<String>, Flaw> {
    let items = list(node)?;
    refuse_many(items.get(MAX_ITEMS).map(|item| item.at))?;
    items.iter().map(text).collect()
}

fn form(node: &Node) -> Result<Vec<String>, Flaw> {
    Fields::of(node, &FORM)?.required("command", texts)
}

fn variables(node: &Node) -> Result<BTreeMap<String, String>, Flaw> {
    let Value::Mapping(entries) = &node.value else {
        return Err(
            mismatch(node, "a mapping of variables to values").hint("write lines of `NAME: value`")
        );
    };
    refuse_many(entries.get(MAX_ITEMS).map(|entry| entry.at))?;
    let variables = entries.iter().map(|entry| {
        let value = text(&entry.value).map_err(|flaw| flaw.under(&shown(&entry.key, 60)))?;
        Ok((entry.key.clone(), value))
    });
    variables.collect()
}

fn refuse_many(first_too_many: Option<Position>) -> Result<(), Flaw> {
    match first_too_many {
        Some(at) => Err(Flaw::new(at, format!("more than {MAX_ITEMS} items"))),
        None => Ok(()),
    }
}

/// The value that one of a few words stands for.
fn one_of<T, const N: usize>(node: &Node, words: [(&str, T); N]) -> Result<T, Flaw> {
    let given = text(node)?;
    let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
    let expected = format!("`{}` is none of {}", shown(&given, 60), known.join(", "));
    let found = words.into_iter().find(|(word, _)| *word == given);
    found
        .map(|(_, value)| value)
        .ok_or_else(|| Flaw::new(node.at, expected))
}
