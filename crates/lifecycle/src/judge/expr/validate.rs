//! Validates expressions: known variables, fields and functions, limited loops, and a boolean result.

use std::collections::HashMap;

use cel::common::ast::{EntryExpr, Expr, IdedExpr};
use cel::{Context, ExecutionError, Program, Value};

use super::facts::text_value;
use super::type_name;
use crate::RuleProblem;

const MAX_LOOP_DEPTH: u32 = 2;
/// The variables that an expression can use.
const VARIABLES: [(&str, VariableShape); 8] = [
    ("plan", VariableShape::Fields(PLAN_FIELDS)),
    ("action", VariableShape::Fields(ACTION_FIELDS)),
    ("arguments", VariableShape::Any),
    ("phase", VariableShape::Any),
    ("attempt", VariableShape::Any),
    ("changes", VariableShape::Changes),
    ("totals", VariableShape::Fields(TOTALS_FIELDS)),
    ("target", VariableShape::Fields(TARGET_FIELDS)),
];
const PLAN_FIELDS: &[&str] = &[
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
const ACTION_FIELDS: &[&str] = &["name", "description", "read_only", "reusable"];
const TOTALS_FIELDS: &[&str] = &["files", "insertions", "deletions", "lines", "size"];
const TARGET_FIELDS: &[&str] = &["resource", "branch"];
const CHANGE_FIELDS: &[&str] = &[
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

/// What is known about a variable before evaluation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum VariableShape {
    /// An object with exactly these fields.
    Fields(&'static [&'static str]),
    /// The list of changes.
    Changes,
    /// Unknown.
    Any,
}

pub(super) fn validate_expression(program: &Program) -> Result<(), RuleProblem> {
    let mut walker = ExpressionWalker {
        known_names: VARIABLES
            .map(|(name, shape)| (name.to_owned(), shape))
            .to_vec(),
        max_depth: 0,
        depth: 0,
        problem: None,
    };
    walker.visit_node(program.expression());
    if let Some(problem) = walker.problem {
        return Err(RuleProblem(problem));
    }
    if walker.max_depth > MAX_LOOP_DEPTH {
        return Err(RuleProblem(format!(
            "loops nest {} deep; at most {MAX_LOOP_DEPTH} are allowed",
            walker.max_depth
        )));
    }
    check_result_type(program)
}

/// Checks types by evaluating the expression on example values. Other errors, such as missing arguments, are
/// ignored.
fn check_result_type(program: &Program) -> Result<(), RuleProblem> {
    let mut context = Context::default();
    for (name, value) in example_values() {
        context.add_variable_from_value(name, value);
    }
    match program.execute(&context) {
        Ok(Value::Bool(_)) => Ok(()),
        Ok(other) => Err(RuleProblem(format!(
            "it is {}, not true or false",
            type_name(&other)
        ))),
        Err(
            error @ (ExecutionError::UnsupportedBinaryOperator(..)
            | ExecutionError::UnsupportedTargetType { .. }
            | ExecutionError::NoSuchOverload(_)),
        ) => Err(RuleProblem(format!("type error: {error}"))),
        Err(_) => Ok(()),
    }
}

/// Does the expression mention the changes? Ignores text in quotes.
pub(in crate::judge) fn is_about_changes(source: &str) -> bool {
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

/// Values for a trial evaluation.
fn example_values() -> HashMap<&'static str, Value> {
    let fields = |names: &[&'static str]| -> HashMap<&'static str, Value> {
        let value = |name: &str| match name {
            "attempt" | "version" | "reversions" | "files" | "insertions" | "deletions"
            | "lines" | "size" => Value::Int(1),
            "read_only" | "reusable" | "binary" => Value::Bool(false),
            _ => text_value("example"),
        };
        names.iter().map(|name| (*name, value(name))).collect()
    };
    VARIABLES
        .into_iter()
        .map(|(name, shape)| {
            let value = match (name, shape) {
                (_, VariableShape::Fields(names)) => Value::from(fields(names)),
                (_, VariableShape::Changes) => {
                    Value::from(vec![Value::from(fields(CHANGE_FIELDS))])
                }
                ("attempt", _) => Value::Int(1),
                ("arguments", _) => Value::from(HashMap::<String, Value>::new()),
                _ => text_value("execute"),
            };
            (name, value)
        })
        .collect()
}

/// Operators are calls too, with names that cannot be typed. A function is known if its name is already taken
/// in a default context.
fn is_known_function(name: &str) -> bool {
    let is_typeable = name.starts_with(|first: char| first.is_ascii_alphabetic());
    !is_typeable
        || Context::default()
            .add_function(name, |any: i64| any)
            .is_err()
}

/// Finds unknown names and fields, and measures the depth of loops.
struct ExpressionWalker {
    /// The variables in scope. Loops add their own.
    known_names: Vec<(String, VariableShape)>,
    depth: u32,
    max_depth: u32,
    problem: Option<String>,
}

impl ExpressionWalker {
    fn note_problem(&mut self, problem: String) {
        self.problem.get_or_insert(problem);
    }

    fn shape_of(&self, node: &IdedExpr) -> VariableShape {
        let Expr::Ident(name) = &node.expr else {
            return VariableShape::Any;
        };
        let mut bound = self.known_names.iter().rev();
        let found = bound.find(|(known, _)| known == name);
        found.map_or(VariableShape::Any, |(_, shape)| *shape)
    }

    fn visit_node(&mut self, node: &IdedExpr) {
        match &node.expr {
            Expr::Unspecified | Expr::Literal(_) => {}
            Expr::Ident(name) => {
                if !self.known_names.iter().any(|(known, _)| known == name) {
                    let known = VARIABLES.map(|(name, _)| name).join(", ");
                    self.note_problem(format!("`{name}` is unknown; use {known}"));
                }
            }
            Expr::Call(call) => {
                if !is_known_function(&call.func_name) {
                    self.note_problem(format!("unknown function `{}`", call.func_name));
                }
                call.target
                    .iter()
                    .for_each(|target| self.visit_node(target));
                call.args
                    .iter()
                    .for_each(|argument| self.visit_node(argument));
            }
            Expr::List(list) => list
                .elements
                .iter()
                .for_each(|element| self.visit_node(element)),
            Expr::Map(map) => map
                .entries
                .iter()
                .for_each(|entry| self.visit_entry(&entry.expr)),
            Expr::Struct(fields) => fields
                .entries
                .iter()
                .for_each(|entry| self.visit_entry(&entry.expr)),
            Expr::Select(select) => {
                self.visit_node(&select.operand);
                let fields = match self.shape_of(&select.operand) {
                    VariableShape::Fields(fields) => fields,
                    VariableShape::Changes => &[],
                    VariableShape::Any => return,
                };
                if !fields.contains(&select.field.as_str()) {
                    let hint = match fields {
                        [] => "`changes` is a list, use it as in changes.all(c, …)".to_owned(),
                        fields => format!("use {}", fields.join(", ")),
                    };
                    self.note_problem(format!("there is no field `{}`: {hint}", select.field));
                }
            }
            Expr::Comprehension(loops) => {
                self.visit_node(&loops.iter_range);
                self.visit_node(&loops.accu_init);
                let outer_names = self.known_names.len();
                let is_over_changes = self.shape_of(&loops.iter_range) == VariableShape::Changes;
                let is_in_changes = |(_, shape): &(String, VariableShape)| {
                    *shape == VariableShape::Fields(CHANGE_FIELDS)
                };
                if is_over_changes && self.known_names.iter().any(is_in_changes) {
                    self.note_problem("loops over `changes` cannot be nested".to_owned());
                }
                let item = match is_over_changes {
                    true => VariableShape::Fields(CHANGE_FIELDS),
                    false => VariableShape::Any,
                };
                self.known_names.extend([
                    (loops.iter_var.clone(), item),
                    (loops.accu_var.clone(), VariableShape::Any),
                ]);
                let second = loops.iter_var2.clone();
                self.known_names
                    .extend(second.map(|name| (name, VariableShape::Any)));
                self.depth += 1;
                self.max_depth = self.max_depth.max(self.depth);
                self.visit_node(&loops.loop_cond);
                self.visit_node(&loops.loop_step);
                self.visit_node(&loops.result);
                self.depth -= 1;
                self.known_names.truncate(outer_names);
            }
        }
    }

    fn visit_entry(&mut self, entry: &EntryExpr) {
        match entry {
            EntryExpr::StructField(field) => self.visit_node(&field.value),
            EntryExpr::MapEntry(entry) => {
                self.visit_node(&entry.key);
                self.visit_node(&entry.value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::check_expression;
    use super::*;

    #[test]
    fn only_functions_of_the_language_are_known() {
        for source in [
            "size(plan.goal) > 1 && plan.goal.contains('a')",
            "plan.goal.startsWith('a') || plan.goal.endsWith('b')",
            "plan.goal.matches('^a')",
            "string(plan.attempt) == '1' && int('1') == 1 && double(1) > 0.5",
            "has(plan.goal) && [1, 2].exists_one(x, x in [1])",
            "[1].map(x, x + 1).filter(x, x > 1).size() == 1",
            "!(plan.read_only) && -plan.attempt < 0 && {'a': 1}['a'] == 1",
        ] {
            assert_eq!(check_expression(source), Ok(()), "{source}");
        }
        for source in ["launch(1)", "plan.goal.explode()", "system('rm')"] {
            let problem = check_expression(source).unwrap_err().to_string();
            assert!(problem.contains("unknown function"), "{problem}");
        }
    }

    #[test]
    fn quoted_text_is_not_about_changes() {
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
    fn valid_expressions_are_accepted() {
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
            assert_eq!(check_expression(good), Ok(()), "{good}");
        }
    }
}
