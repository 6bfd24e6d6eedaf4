//! Rules of kind `expr`: a CEL expression over the plan and what it changed that must be true.
//!
//! CEL always ends, but not always soon. So the source is short, loops nest at most twice, what changed is
//! gone through in no loop within another, and judging has a deadline after which the rule fails.
//!
//! Its parser goes as deep as the brackets do, up to a limit of its own that the stack of an
//! ordinary thread does not reach to; and a stack that overflows ends the process. So whatever
//! looks at an expression does it on a deeper one.

mod facts;
mod shared;
mod words;

use std::sync::mpsc;
use std::time::Duration;

use cel::common::ast::Expr;
use cel::common::types::{CelList, CelMap, CelMapKey, CelString};
use cel::{Context, ExecutionError, ParseErrors, Program, Value};
use plan::judgement::RuleOutcome;
use store::PlanSnapshot;

use super::matter::PathChangeList;
use crate::RuleProblem;
use facts::ExpressionFacts;

pub(super) use words::is_about_changes;

/// Longest source.
const MAX_SOURCE_BYTES: usize = 4096;
/// A stack for the deepest expression there can be, with room to spare.
const STACK_BYTES: usize = 64 * 1024 * 1024;
/// After this long the rule has failed.
const JUDGE_TIMEOUT: Duration = Duration::from_secs(2);

/// Can this source be judged? Found out when a rule is added, not when it first matters.
pub(super) fn check_expression(source: &str) -> Result<(), RuleProblem> {
    std::thread::scope(|scope| {
        let checking = expression_thread().spawn_scoped(scope, || {
            words::validate_expression(&compile_expression(source)?)
        });
        let checked = checking.map(std::thread::ScopedJoinHandle::join);
        match checked {
            Ok(Ok(checked)) => checked,
            Ok(Err(_)) => Err(RuleProblem("its parser gave up on it".to_owned())),
            Err(error) => Err(RuleProblem(format!("it could not be checked: {error}"))),
        }
    })
}

/// A thread whose stack is deep enough for any source that is short enough.
fn expression_thread() -> std::thread::Builder {
    std::thread::Builder::new()
        .name("expr".to_owned())
        .stack_size(STACK_BYTES)
}

/// What each of these expressions says about a plan and its changes, in their order.
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

/// The same of as many of them as can be judged before one takes too long, that one included.
fn judge_until_timeout(sources: Vec<String>, facts: ExpressionFacts) -> Vec<RuleOutcome> {
    let expected = sources.len();
    let (answer, answered) = mpsc::channel();
    let judging = expression_thread().spawn(move || {
        let context = facts.into_context();
        for source in sources {
            if answer.send(evaluate_expression(&source, &context)).is_err() {
                // Nobody listens any more; that is the deadline's doing.
                return;
            }
        }
    });
    if let Err(error) = judging {
        return vec![RuleOutcome::Failed(format!("it could not be judged: {error}")); expected];
    }
    let mut outcomes = Vec::new();
    while outcomes.len() < expected {
        let outcome = answered.recv_timeout(JUDGE_TIMEOUT);
        let failed = match outcome {
            Ok(outcome) => {
                outcomes.push(outcome);
                continue;
            }
            Err(mpsc::RecvTimeoutError::Timeout) => {
                format!(
                    "judging it took longer than {} seconds",
                    JUDGE_TIMEOUT.as_secs()
                )
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => "judging it was given up".to_owned(),
        };
        outcomes.push(RuleOutcome::Failed(failed));
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
            let culprits = name_failing_changes(&program, context);
            RuleOutcome::Failed(format!("it is false{culprits}"))
        }
        Ok(other) => RuleOutcome::Failed(format!("it is {}, not true or false", type_name(&other))),
        Err(ExecutionError::NoSuchKey(key)) => RuleOutcome::Failed(format!("there is no `{key}`")),
        Err(error) => RuleOutcome::Failed(format!("it could not be judged: {error}")),
    }
}

/// How many changes are named that an expression is false for, and how many are looked at for that.
const MAX_NAMED_CHANGES: usize = 5;
const MAX_EXAMINED_CHANGES: usize = 2000;

/// The changes that make an expression false which goes through all of them: of each alone, it is false.
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

/// The first thing the parser stumbled over, without what it would have liked better.
fn describe_parse_error(errors: &ParseErrors) -> RuleProblem {
    let Some(first) = errors.errors.first() else {
        return RuleProblem("it cannot be read".to_owned());
    };
    if first.msg.contains("Recursion limit") {
        return RuleProblem("it nests too deep".to_owned());
    }
    let message = first.msg.trim_start_matches("Syntax error: ");
    let message = message.split(" expecting ").next().unwrap_or_default();
    let message = message.replace("'<EOF>'", "its end");
    RuleProblem(format!("it cannot be read: {message}"))
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
            assert!(
                check_expression(bad).is_err(),
                "{}",
                &bad[..bad.len().min(80)]
            );
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
            let _ = check_expression(&source);
            let judging = expression_thread()
                .spawn(move || evaluate_expression(&source, &Context::default()));
            judging.unwrap().join().unwrap();
        }
        assert_eq!(check_expression(&nested("(", ")", 20)), Ok(()));
        let deep = check_expression(&nested("(", ")", 2000)).unwrap_err();
        assert!(deep.to_string().contains("nests too deep"), "{deep}");
    }

    #[test]
    fn what_an_expression_is_false_for_is_named() {
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
