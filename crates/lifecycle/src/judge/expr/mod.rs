//! Rules of kind `expr`: a CEL expression over the plan and its changes that must be true.
//!
//! CEL always terminates, but not always soon. So the source is short, loops nest at most twice, loops over
//! the changes do not nest, and evaluation has a deadline after which the rule fails.
//!
//! The parser recurses with each bracket. Its own depth limit is too high for the stack of an ordinary
//! thread, and a stack overflow would kill the process. So expressions are parsed and evaluated on threads
//! with a large stack.

mod facts;
mod shared_map;
mod validate;

use std::sync::mpsc;
use std::time::Duration;

use cel::common::ast::Expr;
use cel::common::types::{CelList, CelMap, CelMapKey, CelString};
use cel::{Context, ExecutionError, ParseErrors, Program, Value};
use plan::judgement::RuleOutcome;
use store::PlanSnapshot;

use super::subject::PathChangeList;
use crate::RuleProblem;
use facts::ExpressionFacts;

pub(super) use validate::is_about_changes;

const MAX_SOURCE_BYTES: usize = 4096;
/// Enough for the deepest expression that the parser accepts.
const STACK_BYTES: usize = 64 * 1024 * 1024;
/// How long one expression may take. Then its rule fails.
const JUDGE_TIMEOUT: Duration = Duration::from_secs(2);

/// Checks that an expression can be evaluated.
pub(super) fn check_expression(source: &str) -> Result<(), RuleProblem> {
    std::thread::scope(|scope| {
        let checking = expression_thread().spawn_scoped(scope, || {
            validate::validate_expression(&compile_expression(source)?)
        });
        let checked = checking.map(std::thread::ScopedJoinHandle::join);
        match checked {
            Ok(Ok(checked)) => checked,
            Ok(Err(_)) => Err(RuleProblem("the expression parser crashed".to_owned())),
            Err(error) => Err(RuleProblem(format!("it could not be checked: {error}"))),
        }
    })
}

/// A thread with a stack for any accepted expression.
fn expression_thread() -> std::thread::Builder {
    std::thread::Builder::new()
        .name("expr".to_owned())
        .stack_size(STACK_BYTES)
}

/// Evaluates the expressions on a plan and its changes. Returns the outcomes in the same order.
pub(super) fn judge_expressions(
    sources: &[&str],
    snapshot: &PlanSnapshot,
    changes: &PathChangeList,
) -> std::vec::IntoIter<RuleOutcome> {
    let mut outcomes = Vec::new();
    let facts = match sources.is_empty() {
        true => return outcomes.into_iter(),
        false => ExpressionFacts::from_plan(&snapshot.row.plan, snapshot.action.as_ref(), changes),
    };
    while outcomes.len() < sources.len() {
        let rest = sources[outcomes.len()..].iter();
        let rest = rest.map(ToString::to_string).collect();
        outcomes.extend(judge_until_timeout(rest, facts.clone()));
    }
    outcomes.into_iter()
}

/// Evaluates expressions up to and including the first that takes too long. That one's thread is abandoned.
fn judge_until_timeout(sources: Vec<String>, facts: ExpressionFacts) -> Vec<RuleOutcome> {
    let expected = sources.len();
    let (sender, receiver) = mpsc::channel();
    let evaluating = expression_thread().spawn(move || {
        let context = facts.into_context();
        for source in sources {
            if sender.send(evaluate_expression(&source, &context)).is_err() {
                // The receiver gave up after the deadline.
                return;
            }
        }
    });
    if let Err(error) = evaluating {
        return vec![RuleOutcome::Failed(format!("it could not be evaluated: {error}")); expected];
    }
    let mut outcomes = Vec::new();
    while outcomes.len() < expected {
        let failure = match receiver.recv_timeout(JUDGE_TIMEOUT) {
            Ok(outcome) => {
                outcomes.push(outcome);
                continue;
            }
            Err(mpsc::RecvTimeoutError::Timeout) => {
                format!(
                    "evaluation took longer than {} seconds",
                    JUDGE_TIMEOUT.as_secs()
                )
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => "evaluation was aborted".to_owned(),
        };
        outcomes.push(RuleOutcome::Failed(failure));
        break;
    }
    outcomes
}

fn evaluate_expression(source: &str, context: &Context<'_, '_>) -> RuleOutcome {
    let program = match compile_expression(source) {
        Ok(program) => program,
        Err(problem) => return RuleOutcome::Failed(problem.to_string()),
    };
    match program.execute(context) {
        Ok(Value::Bool(true)) => RuleOutcome::Held,
        Ok(Value::Bool(false)) => {
            let failing_changes = name_failing_changes(&program, context);
            RuleOutcome::Failed(format!("it is false{failing_changes}"))
        }
        Ok(other) => RuleOutcome::Failed(format!("it is {}, not true or false", type_name(&other))),
        Err(ExecutionError::NoSuchKey(key)) => RuleOutcome::Failed(format!("there is no `{key}`")),
        Err(error) => RuleOutcome::Failed(format!("it could not be evaluated: {error}")),
    }
}

/// How many failing changes are listed, and how many changes are examined to find them.
const MAX_NAMED_CHANGES: usize = 5;
const MAX_EXAMINED_CHANGES: usize = 2000;

/// Lists the changes for which a loop over `changes` is false, by evaluating it on each change alone.
fn name_failing_changes(program: &Program, context: &Context<'_, '_>) -> String {
    let Expr::Comprehension(loops) = &program.expression().expr else {
        return String::new();
    };
    let is_of_changes = matches!(&loops.iter_range.expr, Expr::Ident(name) if name == "changes");
    let changes = context.get_variable("changes").filter(|_| is_of_changes);
    let changes = changes
        .as_ref()
        .and_then(|all| all.downcast_ref::<CelList>());
    let path = CelMapKey::String(CelString::from("path"));
    let mut named: Vec<String> = Vec::new();
    for change in changes
        .into_iter()
        .flat_map(CelList::inner)
        .take(MAX_EXAMINED_CHANGES)
    {
        let mut alone = context.new_inner_scope();
        alone.add_variable_as_val("changes", Box::new(CelList::from(vec![change.clone()])));
        if let (Ok(Value::Bool(false)), Some(fields)) =
            (program.execute(&alone), change.downcast_ref::<CelMap>())
            && let Some(path) = fields
                .get(&path)
                .and_then(|path| path.downcast_ref::<CelString>())
        {
            named.push(path.inner().to_owned());
        }
    }
    let more = match named.len().saturating_sub(MAX_NAMED_CHANGES) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    named.truncate(MAX_NAMED_CHANGES);
    match named.is_empty() {
        true => String::new(),
        false => format!(" for {}{more}", named.join(", ")),
    }
}

fn compile_expression(source: &str) -> Result<Program, RuleProblem> {
    if source.trim().is_empty() {
        return Err(RuleProblem("it is empty".to_owned()));
    }
    if source.len() > MAX_SOURCE_BYTES {
        return Err(RuleProblem(format!(
            "it is longer than {MAX_SOURCE_BYTES} bytes"
        )));
    }
    Program::compile(source).map_err(|errors| describe_parse_error(&errors))
}

/// The parser's first error, without its list of expected tokens.
fn describe_parse_error(errors: &ParseErrors) -> RuleProblem {
    let Some(first) = errors.errors.first() else {
        return RuleProblem("syntax error".to_owned());
    };
    if first.msg.contains("Recursion limit") {
        return RuleProblem("it is nested too deeply".to_owned());
    }
    let message = first.msg.trim_start_matches("Syntax error: ");
    let message = message.split(" expecting ").next().unwrap_or_default();
    if message.contains("'<EOF>'") {
        return RuleProblem("syntax error: the expression ends too early".to_owned());
    }
    RuleProblem(format!("syntax error: {message}"))
}

fn type_name(value: &Value) -> String {
    format!("{:?}", value.type_of()).to_lowercase()
}

#[cfg(test)]
mod tests {
    use cel::common::types::CelInt;
    use cel::common::value::Val;

    use super::*;

    #[test]
    fn invalid_expressions_are_refused() {
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
            assert!(
                check_expression(bad).is_err(),
                "{}",
                &bad[..bad.len().min(80)]
            );
        }
    }

    #[test]
    fn an_accepted_source_never_overflows_the_stack() {
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
            // Accepted or refused, but not crashed.
            let _ = check_expression(&source);
            let evaluating = expression_thread()
                .spawn(move || evaluate_expression(&source, &Context::default()));
            evaluating.unwrap().join().unwrap();
        }
        assert_eq!(check_expression(&nested("(", ")", 20)), Ok(()));
        let deep = check_expression(&nested("(", ")", 2000)).unwrap_err();
        assert!(deep.to_string().contains("nested too deeply"), "{deep}");
    }

    #[test]
    fn a_false_expression_lists_the_failing_changes() {
        let change = |number: i64| {
            let path: Box<dyn Val> = Box::new(CelString::from(format!("src/{number}")));
            facts::make_shared_map([("path", path), ("size", Box::new(CelInt::from(number)))])
        };
        let mut context = Context::default();
        let changes = facts::make_cel_list((0..9).map(change).collect());
        context.add_variable_as_val("changes", Box::new(changes));
        let outcome_of = |source: &str| evaluate_expression(source, &context);
        assert_eq!(
            outcome_of("changes.all(c, c.size < 7)"),
            RuleOutcome::Failed("it is false for src/7, src/8".into())
        );
        assert_eq!(
            outcome_of("changes.all(c, c.size > 7)"),
            RuleOutcome::Failed(
                "it is false for src/0, src/1, src/2, src/3, src/4 and 3 more".into()
            )
        );
        assert_eq!(
            outcome_of("size(changes) == 3"),
            RuleOutcome::Failed("it is false".into())
        );
    }
}
