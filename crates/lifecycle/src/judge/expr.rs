//! Rules of kind `expr`: a CEL expression over the plan and what it changed that must be true.
//!
//! CEL always ends, but not always soon. So the source is short, loops nest at most twice, what changed is
//! gone through in no loop within another, and judging has a deadline after which the rule fails.
//!
//! Its parser goes as deep as the brackets do, up to a limit of its own that the stack of an
//! ordinary thread does not reach to; and a stack that overflows ends the process. So whatever
//! looks at an expression does it on a deeper one.

use std::collections::HashMap;
use std::sync::mpsc;
use std::time::Duration;

use cel::common::ast::{EntryExpr, Expr, IdedExpr};
use cel::objects::Key;
use cel::{Context, ExecutionError, ParseErrors, Program, Value};
use plan::argument::ArgumentValue;
use plan::judgement::RuleOutcome;
use plan::{Action, Plan};
use store::Snapshot;

use super::matter::{Change, Changes};
use crate::ExprProblem;

/// Longest source.
const MAX_BYTES: usize = 4096;
/// A stack for the deepest expression there can be, with room to spare.
const STACK_BYTES: usize = 64 * 1024 * 1024;
/// Deepest loop in a loop.
const MAX_LOOPS: u32 = 2;
/// After this long the rule has failed.
const DEADLINE: Duration = Duration::from_secs(2);
/// The names an expression can use, and what is in them.
const VARIABLES: [(&str, Shape); 8] = [
    ("plan", Shape::Fields(PLAN)),
    ("action", Shape::Fields(ACTION)),
    ("arguments", Shape::Any),
    ("phase", Shape::Any),
    ("attempt", Shape::Any),
    ("changes", Shape::Changes),
    ("totals", Shape::Fields(TOTALS)),
    ("target", Shape::Fields(TARGET)),
];
const PLAN: &[&str] = &[
    "id",
    "goal",
    "action",
    "phase",
    "state",
    "attempt",
    "version",
    "reversions",
    "profile",
    "read_only",
    "strategy_actor",
    "execution_actor",
];
const ACTION: &[&str] = &["name", "description", "read_only", "reusable"];
const TOTALS: &[&str] = &["files", "insertions", "deletions", "lines", "size"];
const TARGET: &[&str] = &["resource", "branch"];
const CHANGE: &[&str] = &[
    "resource",
    "path",
    "from",
    "operation",
    "insertions",
    "deletions",
    "size",
    "binary",
    "mode",
];

/// What is known of a name before anything is judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// It has these fields, and no others.
    Fields(&'static [&'static str]),
    /// It is what changed.
    Changes,
    /// Nothing.
    Any,
}

/// Can this source be judged? Found out when a rule is added, not when it first matters.
pub(super) fn check(source: &str) -> Result<(), ExprProblem> {
    std::thread::scope(|scope| {
        let checking = thread().spawn_scoped(scope, || check_here(source));
        let checked = checking.map(std::thread::ScopedJoinHandle::join);
        match checked {
            Ok(Ok(checked)) => checked,
            Ok(Err(_)) => Err(ExprProblem("its parser gave up on it".to_owned())),
            Err(error) => Err(ExprProblem(format!("it could not be checked: {error}"))),
        }
    })
}

/// A thread whose stack is deep enough for any source that is short enough.
fn thread() -> std::thread::Builder {
    std::thread::Builder::new()
        .name("expr".to_owned())
        .stack_size(STACK_BYTES)
}

fn check_here(source: &str) -> Result<(), ExprProblem> {
    let program = compile(source)?;
    let mut walk = Walk {
        bound: VARIABLES
            .map(|(name, shape)| (name.to_owned(), shape))
            .to_vec(),
        deepest: 0,
        depth: 0,
        problem: None,
    };
    walk.visit(program.expression());
    if let Some(problem) = walk.problem {
        return Err(ExprProblem(problem));
    }
    if walk.deepest > MAX_LOOPS {
        return Err(ExprProblem(format!(
            "loops nest {} deep; at most {MAX_LOOPS} are allowed",
            walk.deepest
        )));
    }
    check_kind(&program)
}

/// Is it about numbers where it speaks of numbers, and true or false in the end? Tried on an example, which
/// arguments that are not there do not spoil.
fn check_kind(program: &Program) -> Result<(), ExprProblem> {
    let mut context = Context::default();
    for (name, value) in example() {
        context.add_variable_from_value(name, value);
    }
    match program.execute(&context) {
        Ok(Value::Bool(_)) => Ok(()),
        Ok(other) => Err(ExprProblem(format!(
            "it is {}, not true or false",
            kind_of(&other)
        ))),
        Err(
            error @ (ExecutionError::UnsupportedBinaryOperator(..)
            | ExecutionError::UnsupportedTargetType { .. }
            | ExecutionError::NoSuchOverload(_)),
        ) => Err(ExprProblem(format!("it does not fit together: {error}"))),
        Err(_) => Ok(()),
    }
}

/// Could it depend on what changed? What stands in quotes is not asked.
pub(super) fn is_about_changes(source: &str) -> bool {
    let mut quote = None;
    let mut unquoted = String::new();
    let mut letters = source.chars();
    while let Some(letter) = letters.next() {
        match (quote, letter) {
            (Some(_), '\\') => drop(letters.next()),
            (Some(open), closing) if open == closing => quote = None,
            (None, '"' | '\'') => {
                quote = Some(letter);
                unquoted.push(' ');
            }
            (Some(_), _) => {}
            (None, _) => unquoted.push(letter),
        }
    }
    let mut words = unquoted.split(|char: char| !char.is_alphanumeric() && char != '_');
    words.any(|word| matches!(word, "changes" | "totals"))
}

/// What each of these expressions says about a plan and its changes, in their order.
pub(super) fn judge_all(
    sources: &[&str],
    snapshot: &Snapshot,
    changes: &Changes,
) -> std::vec::IntoIter<RuleOutcome> {
    let mut outcomes = Vec::new();
    let facts = match sources.is_empty() {
        true => return outcomes.into_iter(),
        false => variables(&snapshot.row.plan, snapshot.action.as_ref(), changes),
    };
    while outcomes.len() < sources.len() {
        let rest = sources[outcomes.len()..].iter();
        let rest = rest.map(ToString::to_string).collect();
        outcomes.extend(judge_some(rest, facts.clone()));
    }
    outcomes.into_iter()
}

/// The same of as many of them as can be judged before one takes too long, that one included.
fn judge_some(sources: Vec<String>, facts: HashMap<&'static str, Value>) -> Vec<RuleOutcome> {
    let wanted = sources.len();
    let (answer, answered) = mpsc::channel();
    let judging = thread().spawn(move || {
        for source in sources {
            if answer.send(evaluate(&source, &facts)).is_err() {
                // Nobody listens any more; that is the deadline's doing.
                return;
            }
        }
    });
    if let Err(error) = judging {
        return vec![RuleOutcome::Failed(format!("it could not be judged: {error}")); wanted];
    }
    let mut outcomes = Vec::new();
    while outcomes.len() < wanted {
        let outcome = answered.recv_timeout(DEADLINE);
        let failed = match outcome {
            Ok(outcome) => {
                outcomes.push(outcome);
                continue;
            }
            Err(mpsc::RecvTimeoutError::Timeout) => {
                format!("judging it took longer than {} seconds", DEADLINE.as_secs())
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => "judging it was given up".to_owned(),
        };
        outcomes.push(RuleOutcome::Failed(failed));
        break;
    }
    outcomes
}

fn evaluate(source: &str, variables: &HashMap<&'static str, Value>) -> RuleOutcome {
    let program = match compile(source) {
        Ok(program) => program,
        Err(problem) => return RuleOutcome::Failed(problem.to_string()),
    };
    let mut context = Context::default();
    for (name, value) in variables {
        context.add_variable_from_value(*name, value.clone());
    }
    match program.execute(&context) {
        Ok(Value::Bool(true)) => RuleOutcome::Held,
        Ok(Value::Bool(false)) => {
            let culprits = culprits(&program, &context, variables);
            RuleOutcome::Failed(format!("it is false{culprits}"))
        }
        Ok(other) => RuleOutcome::Failed(format!("it is {}, not true or false", kind_of(&other))),
        Err(ExecutionError::NoSuchKey(key)) => RuleOutcome::Failed(format!("there is no `{key}`")),
        Err(error) => RuleOutcome::Failed(format!("it could not be judged: {error}")),
    }
}

/// How many changes are named that an expression is false for, and how many are looked at for that.
const NAMED: usize = 5;
const LOOKED_AT: usize = 2000;

/// The changes that make an expression false which goes through all of them: of each alone, it is false.
fn culprits(
    program: &Program,
    context: &Context<'_, '_>,
    variables: &HashMap<&'static str, Value>,
) -> String {
    let Expr::Comprehension(loops) = &program.expression().expr else {
        return String::new();
    };
    let is_of_changes = matches!(&loops.iter_range.expr, Expr::Ident(name) if name == "changes");
    let (true, Some(Value::List(changes))) = (is_of_changes, variables.get("changes")) else {
        return String::new();
    };
    let mut named: Vec<String> = Vec::new();
    for change in changes.iter().take(LOOKED_AT) {
        let mut alone = context.new_inner_scope();
        alone.add_variable_from_value("changes", Value::from(vec![change.clone()]));
        if let (Ok(Value::Bool(false)), Value::Map(fields)) = (program.execute(&alone), change)
            && let Some(Value::String(path)) = fields.map.get(&Key::from("path"))
        {
            named.push(path.to_string());
        }
    }
    let more = match named.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    named.truncate(NAMED);
    match named.is_empty() {
        true => String::new(),
        false => format!(" for {}{more}", named.join(", ")),
    }
}

fn compile(source: &str) -> Result<Program, ExprProblem> {
    if source.trim().is_empty() {
        return Err(ExprProblem("it is empty".to_owned()));
    }
    if source.len() > MAX_BYTES {
        return Err(ExprProblem(format!("it is longer than {MAX_BYTES} bytes")));
    }
    Program::compile(source).map_err(|errors| unreadable(&errors))
}

/// The first thing the parser stumbled over, without what it would have liked better.
fn unreadable(errors: &ParseErrors) -> ExprProblem {
    let Some(first) = errors.errors.first() else {
        return ExprProblem("it cannot be read".to_owned());
    };
    if first.msg.contains("Recursion limit") {
        return ExprProblem("it nests too deep".to_owned());
    }
    let said = first.msg.trim_start_matches("Syntax error: ");
    let said = said.split(" expecting ").next().unwrap_or_default();
    let said = said.replace("'<EOF>'", "its end");
    ExprProblem(format!("it cannot be read: {said}"))
}

fn variables(
    plan: &Plan,
    action: Option<&Action>,
    changes: &Changes,
) -> HashMap<&'static str, Value> {
    let number = |number: u32| Value::Int(i64::from(number));
    let plan_fields = HashMap::from([
        ("id", text(&plan.id.to_string())),
        ("goal", text(plan.goal.as_str())),
        (
            "action",
            text(
                &plan
                    .action
                    .as_ref()
                    .map(ToString::to_string)
                    .unwrap_or_default(),
            ),
        ),
        ("phase", text(plan.phase().as_str())),
        ("state", text(plan.stage.state().as_str())),
        ("attempt", number(plan.attempt)),
        (
            "version",
            Value::Int(i64::try_from(plan.version.0).unwrap_or(i64::MAX)),
        ),
        ("reversions", number(plan.reversions)),
        ("profile", text(plan.profile.as_str())),
        ("read_only", Value::Bool(plan.read_only)),
        ("strategy_actor", text(&plan.actors.strategy.to_string())),
        ("execution_actor", text(&plan.actors.execution.to_string())),
    ]);
    let action_fields: HashMap<&str, Value> = match action {
        None => HashMap::new(),
        Some(action) => HashMap::from([
            ("name", text(&action.name().to_string())),
            ("description", text(&action.definition.description)),
            ("read_only", Value::Bool(action.definition.read_only)),
            ("reusable", Value::Bool(action.definition.reusable)),
        ]),
    };
    let arguments: HashMap<String, Value> = plan
        .arguments
        .iter()
        .map(|(name, value)| (name.clone(), argument(value)))
        .collect();
    let resource = plan.resources.first();
    let target = resource.and_then(|resource| resource.target.as_deref());
    let branch = target.map(|target| target.strip_prefix("refs/heads/").unwrap_or(target));
    let target = HashMap::from([
        ("resource", text(resource.map_or("", |one| &one.name))),
        ("branch", text(branch.unwrap_or_default())),
    ]);
    let totals = totals(changes);
    HashMap::from([
        ("plan", Value::from(plan_fields)),
        ("action", Value::from(action_fields)),
        ("arguments", Value::from(arguments)),
        ("phase", text(plan.phase().as_str())),
        ("attempt", number(plan.attempt)),
        ("target", Value::from(target)),
        ("totals", totals),
        (
            "changes",
            Value::from(changes.0.iter().map(change).collect::<Vec<_>>()),
        ),
    ])
}

fn text(text: &str) -> Value {
    Value::from(text.to_owned())
}

fn count(number: u64) -> Value {
    Value::Int(i64::try_from(number).unwrap_or(i64::MAX))
}

fn totals(changes: &Changes) -> Value {
    let sum = |of: fn(&Change) -> u64| changes.0.iter().map(of).sum::<u64>();
    Value::from(HashMap::from([
        ("files", count(changes.0.len() as u64)),
        ("insertions", count(sum(|one| one.insertions))),
        ("deletions", count(sum(|one| one.deletions))),
        ("lines", count(sum(|one| one.insertions + one.deletions))),
        ("size", count(sum(|one| one.size))),
    ]))
}

fn change(change: &Change) -> Value {
    let from = change.from.as_ref().map(ToString::to_string);
    Value::from(HashMap::from([
        ("resource", text(&change.resource)),
        ("path", text(&change.path.to_string())),
        ("from", text(&from.unwrap_or_default())),
        ("operation", text(change.operation.as_str())),
        ("insertions", count(change.insertions)),
        ("deletions", count(change.deletions)),
        ("size", count(change.size)),
        ("binary", Value::Bool(change.binary)),
        ("mode", text(&change.mode)),
    ]))
}

/// What an expression is tried on before it is a rule.
fn example() -> HashMap<&'static str, Value> {
    let fields = |names: &[&'static str]| -> HashMap<&'static str, Value> {
        let value = |name: &str| match name {
            "attempt" | "version" | "reversions" | "files" | "insertions" | "deletions"
            | "lines" | "size" => Value::Int(1),
            "read_only" | "reusable" | "binary" => Value::Bool(false),
            _ => text("example"),
        };
        names.iter().map(|name| (*name, value(name))).collect()
    };
    VARIABLES
        .into_iter()
        .map(|(name, shape)| {
            let value = match (name, shape) {
                (_, Shape::Fields(names)) => Value::from(fields(names)),
                (_, Shape::Changes) => Value::from(vec![Value::from(fields(CHANGE))]),
                ("attempt", _) => Value::Int(1),
                ("arguments", _) => Value::from(HashMap::<String, Value>::new()),
                _ => text("execute"),
            };
            (name, value)
        })
        .collect()
}

fn argument(value: &ArgumentValue) -> Value {
    match value {
        ArgumentValue::String(text) => Value::from(text.as_str().to_owned()),
        ArgumentValue::Integer(number) => Value::Int(*number),
        ArgumentValue::Float(number) => Value::Float(*number),
        ArgumentValue::Boolean(value) => Value::Bool(*value),
        ArgumentValue::List(items) => Value::from(
            items
                .iter()
                .map(|item| Value::from(item.as_str().to_owned()))
                .collect::<Vec<_>>(),
        ),
    }
}

/// Operators are calls too, by names nobody can type. A name that can still be given to a function
/// has none yet.
fn is_known_function(name: &str) -> bool {
    let typed = name.starts_with(|first: char| first.is_ascii_alphabetic());
    !typed
        || Context::default()
            .add_function(name, |any: i64| any)
            .is_err()
}

fn kind_of(value: &Value) -> String {
    format!("{:?}", value.type_of()).to_lowercase()
}

/// Looks for unknown names and deep loops.
struct Walk {
    /// Names that mean something here; loops add theirs.
    bound: Vec<(String, Shape)>,
    depth: u32,
    deepest: u32,
    /// The first thing that is wrong.
    problem: Option<String>,
}

impl Walk {
    fn wrong(&mut self, problem: String) {
        self.problem.get_or_insert(problem);
    }

    fn shape_of(&self, node: &IdedExpr) -> Shape {
        let Expr::Ident(name) = &node.expr else {
            return Shape::Any;
        };
        let mut bound = self.bound.iter().rev();
        let found = bound.find(|(known, _)| known == name);
        found.map_or(Shape::Any, |(_, shape)| *shape)
    }

    fn visit(&mut self, node: &IdedExpr) {
        match &node.expr {
            Expr::Unspecified | Expr::Literal(_) => {}
            Expr::Ident(name) => {
                if !self.bound.iter().any(|(known, _)| known == name) {
                    let known = VARIABLES.map(|(name, _)| name).join(", ");
                    self.wrong(format!("`{name}` is unknown; use {known}"));
                }
            }
            Expr::Call(call) => {
                if !is_known_function(&call.func_name) {
                    self.wrong(format!("there is no function `{}`", call.func_name));
                }
                call.target.iter().for_each(|target| self.visit(target));
                call.args.iter().for_each(|argument| self.visit(argument));
            }
            Expr::List(list) => list.elements.iter().for_each(|element| self.visit(element)),
            Expr::Map(map) => map
                .entries
                .iter()
                .for_each(|entry| self.visit_entry(&entry.expr)),
            Expr::Struct(fields) => fields
                .entries
                .iter()
                .for_each(|entry| self.visit_entry(&entry.expr)),
            Expr::Select(select) => {
                self.visit(&select.operand);
                let fields = match self.shape_of(&select.operand) {
                    Shape::Fields(fields) => fields,
                    Shape::Changes => &[],
                    Shape::Any => return,
                };
                if !fields.contains(&select.field.as_str()) {
                    let has = match fields {
                        [] => "a list; go through it as in changes.all(c, …)".to_owned(),
                        fields => format!("there is {}", fields.join(", ")),
                    };
                    self.wrong(format!("there is no `{}` here: {has}", select.field));
                }
            }
            Expr::Comprehension(loops) => {
                self.visit(&loops.iter_range);
                self.visit(&loops.accu_init);
                let outside = self.bound.len();
                let of_changes = self.shape_of(&loops.iter_range) == Shape::Changes;
                let is_in_changes = |(_, shape): &(String, Shape)| *shape == Shape::Fields(CHANGE);
                if of_changes && self.bound.iter().any(is_in_changes) {
                    self.wrong("changes are gone through within changes".to_owned());
                }
                let item = match of_changes {
                    true => Shape::Fields(CHANGE),
                    false => Shape::Any,
                };
                self.bound.extend([
                    (loops.iter_var.clone(), item),
                    (loops.accu_var.clone(), Shape::Any),
                ]);
                let second = loops.iter_var2.clone();
                self.bound.extend(second.map(|name| (name, Shape::Any)));
                self.depth += 1;
                self.deepest = self.deepest.max(self.depth);
                self.visit(&loops.loop_cond);
                self.visit(&loops.loop_step);
                self.visit(&loops.result);
                self.depth -= 1;
                self.bound.truncate(outside);
            }
        }
    }

    fn visit_entry(&mut self, entry: &EntryExpr) {
        match entry {
            EntryExpr::StructField(field) => self.visit(&field.value),
            EntryExpr::MapEntry(entry) => {
                self.visit(&entry.key);
                self.visit(&entry.value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_judged_is_refused_when_it_is_added() {
        let endless = "arguments.l.all(a, arguments.l.all(b, arguments.l.all(c, a + b == c)))";
        let long = format!("plan.goal != '{}'", "x".repeat(5000));
        let deep = format!("{}true{}", "(".repeat(5000), ")".repeat(5000));
        for bad in [
            "",
            "plan.",
            "1 +",
            "goal == 'x'",
            "plan.goal == other",
            "plan.gaol == 'x'",
            "changes.all(c, c.pth != '')",
            "changes.path == 'a'",
            "totals.rows > 3",
            "changes.all(c, changes.all(d, c.path != d.path))",
            "plan.attempt",
            "plan.attempt + 'x' == 'y'",
            endless,
            &long,
            &deep,
        ] {
            assert!(check(bad).is_err(), "{}", &bad[..bad.len().min(80)]);
        }
    }

    #[test]
    fn a_source_that_fits_never_overflows_the_stack() {
        let nested = |open: &str, close: &str, times: usize| {
            format!("{}true{}", open.repeat(times), close.repeat(times))
        };
        for source in [
            nested("(", ")", 20),
            nested("(", ")", 96),
            nested("(", ")", 2000),
            nested("[", "]", 95),
            nested("{1:", "}", 1000),
            nested("size(", ")", 600),
            nested("[1].map(x,", ")", 90),
            nested("true ? true : ", "", 290),
            nested("!", "", 4000),
            nested("", " || true", 500),
            format!("plan{}", ".goal".repeat(700)),
        ] {
            // Whatever is said of it, it is said.
            let _ = check(&source);
            let judging = thread().spawn(move || evaluate(&source, &HashMap::new()));
            judging.unwrap().join().unwrap();
        }
        assert_eq!(check(&nested("(", ")", 20)), Ok(()));
        let deep = check(&nested("(", ")", 2000)).unwrap_err();
        assert!(deep.to_string().contains("nests too deep"), "{deep}");
    }

    #[test]
    fn every_function_of_the_language_is_known_and_no_other() {
        for source in [
            "size(plan.goal) > 1 && plan.goal.contains('a')",
            "plan.goal.startsWith('a') || plan.goal.endsWith('b')",
            "plan.goal.matches('^a')",
            "string(plan.attempt) == '1' && int('1') == 1 && double(1) > 0.5",
            "has(plan.goal) && [1, 2].exists_one(x, x in [1])",
            "[1].map(x, x + 1).filter(x, x > 1).size() == 1",
            "!(plan.read_only) && -plan.attempt < 0 && {'a': 1}['a'] == 1",
        ] {
            assert_eq!(check(source), Ok(()), "{source}");
        }
        for source in ["launch(1)", "plan.goal.explode()", "system('rm')"] {
            let problem = check(source).unwrap_err().to_string();
            assert!(problem.contains("there is no function"), "{problem}");
        }
    }

    #[test]
    fn what_stands_in_quotes_is_not_about_changes() {
        for about in ["totals.files > 1", "'a' == 'b' || changes.exists(c, true)"] {
            assert!(is_about_changes(about), "{about}");
        }
        for other in [
            "!plan.goal.contains('changes')",
            "plan.goal == \"totals\"",
            "plan.goal == 'it\\'s totals'",
            "plan.changes_wanted",
        ] {
            assert!(!is_about_changes(other), "{other}");
        }
    }

    #[test]
    fn what_an_expression_is_false_for_is_named() {
        let change = |path: &str, size: i64| {
            let fields = [("path", text(path)), ("size", Value::Int(size))];
            Value::from(HashMap::from(fields))
        };
        let changes = (0..9).map(|number| change(&format!("src/{number}"), number));
        let variables = HashMap::from([("changes", Value::from(changes.collect::<Vec<_>>()))]);
        let said = |source: &str| evaluate(source, &variables);
        assert_eq!(
            said("changes.all(c, c.size < 7)"),
            RuleOutcome::Failed("it is false for src/7, src/8".into())
        );
        assert_eq!(
            said("changes.all(c, c.size > 7)"),
            RuleOutcome::Failed(
                "it is false for src/0, src/1, src/2, src/3, src/4 and 3 more".into()
            )
        );
        assert_eq!(
            said("size(changes) == 3"),
            RuleOutcome::Failed("it is false".into())
        );
    }

    #[test]
    fn ordinary_rules_are_accepted() {
        for good in [
            "true",
            "plan.attempt <= 3",
            "!has(arguments.path) || arguments.path.startsWith('docs/')",
            "arguments.files.all(f, f.endsWith('.md'))",
            "arguments.files.exists(f, ['a', 'b'].exists(g, f == g))",
            "size(plan.goal) < 200 && action.name == 'tidy'",
            "totals.lines <= 400 && changes.all(c, !c.path.startsWith('migrations/'))",
            "changes.filter(c, c.operation == 'create').all(c, c.size < 1000000 && !c.binary)",
            "phase == 'execute' || attempt < 3 || target.branch != 'main'",
        ] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
    }
}
