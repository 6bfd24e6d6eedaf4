//! Generates rules, and evaluates them independently of the engine.

use fastrand::Rng;
use plan::invariant::{Gate, Rule, RuleCheck, RuleDraft, RuleRef};
use plan::{Plan, Profile};

/// Few names, so that a rule often overrides one of a wider scope.
const RULE_NAMES: [&str; 3] = ["east", "north", "south"];

/// Expressions about the plan. The version shows whether the plan that passed the gate is the one that was judged.
const PLAN_EXPRESSIONS: [&str; 8] = [
    "true",
    "true",
    "true",
    "true",
    "plan.version % 2 == 0",
    "plan.attempt < 2",
    "plan.profile != 'auto'",
    "false",
];

/// Expressions about the changes.
const CHANGE_EXPRESSIONS: [&str; 2] = [
    "totals.files <= 2",
    "!changes.exists(c, c.path.contains('secret'))",
];

/// A command that fails if a file with `secret` in its path has changed.
const CHECK_COMMAND: &str = "! git diff --name-only HEAD | grep -q secret";

/// What a rule is evaluated on.
pub struct RuleSubject<'a> {
    /// The plan at the time of the judgement.
    pub plan: &'a Plan,
    /// The changed paths.
    pub files: &'a [String],
}

/// A random rule.
pub fn random_draft(random: &mut Rng) -> RuleDraft {
    let pick = |random: &mut Rng, from: &[&str]| from[random.usize(..from.len())].to_owned();
    let check = match random.u8(..100) {
        0..40 => RuleCheck::Expr(pick(random, &PLAN_EXPRESSIONS)),
        40..55 => RuleCheck::Expr(pick(random, &CHANGE_EXPRESSIONS)),
        55..62 => RuleCheck::Allow(vec!["docs/**".to_owned()]),
        62..70 => RuleCheck::Forbid(vec!["secret/**".to_owned()]),
        70..80 => RuleCheck::Command {
            command: CHECK_COMMAND.to_owned(),
            timeout: None,
        },
        _ => RuleCheck::Ask("Is it any good?".to_owned()),
    };
    let possible: &[Gate] = match &check {
        RuleCheck::Expr(source) if CHANGE_EXPRESSIONS.contains(&source.as_str()) => {
            &[Gate::Result, Gate::Apply]
        }
        check => check.possible_gates(),
    };
    let mut at = possible.to_vec();
    random.shuffle(&mut at);
    at.truncate(random.usize(1..=at.len().min(3)));
    RuleDraft {
        name: pick(random, &RULE_NAMES)
            .parse()
            .expect("BUG: it is a name"),
        check,
        at,
        advisory: random.u8(..100) < 15,
        non_overridable: random.u8(..100) < 15,
    }
}

/// A rule at the apply gate that always holds.
pub fn harmless_draft(random: &mut Rng) -> RuleDraft {
    RuleDraft {
        name: RULE_NAMES[random.usize(..RULE_NAMES.len())]
            .parse()
            .expect("BUG: it is a name"),
        check: RuleCheck::Expr("true".to_owned()),
        at: vec![Gate::Apply],
        advisory: false,
        non_overridable: false,
    }
}

/// The command-line arguments for a rule, without its scope.
pub fn draft_arguments(draft: &RuleDraft) -> Vec<String> {
    let mut arguments = vec![draft.name.to_string()];
    arguments.push(format!("--{}", draft.check.kind()));
    arguments.push(draft.check.source());
    for gate in &draft.at {
        arguments.extend(["--at".to_owned(), gate.to_string()]);
    }
    if draft.advisory {
        arguments.push("--advisory".to_owned());
    }
    if draft.non_overridable {
        arguments.push("--non-overridable".to_owned());
    }
    arguments
}

/// Whether the check holds; `None` if a person must answer it.
pub fn evaluate_check(check: &RuleCheck, subject: &RuleSubject<'_>) -> Option<bool> {
    let changes_secret = || subject.files.iter().any(|path| path.contains("secret"));
    Some(match check {
        RuleCheck::Expr(source) => match source.as_str() {
            "true" => true,
            "false" => false,
            "plan.version % 2 == 0" => subject.plan.version().0.is_multiple_of(2),
            "plan.attempt < 2" => subject.plan.attempt() < 2,
            "plan.profile != 'auto'" => subject.plan.profile() != Profile::Auto,
            "totals.files <= 2" => subject.files.len() <= 2,
            "!changes.exists(c, c.path.contains('secret'))" => !changes_secret(),
            other => unreachable!("BUG: nobody wrote `{other}`"),
        },
        RuleCheck::Allow(_) => subject.files.iter().all(|path| path.starts_with("docs/")),
        RuleCheck::Forbid(_) => !subject.files.iter().any(|path| path.starts_with("secret/")),
        // Without a repository the command is not run.
        RuleCheck::Command { .. } => subject.plan.resources().is_empty() || !changes_secret(),
        RuleCheck::Ask(_) => return None,
    })
}

/// The rules in force, by name: of rules with the same name the narrowest, unless a wider one is not overridable.
pub fn effective_rules<'a>(rules: impl IntoIterator<Item = &'a Rule>) -> Vec<&'a Rule> {
    let mut rules: Vec<&Rule> = rules.into_iter().collect();
    rules.sort_by(|one, other| {
        (&one.draft.name, &one.scope).cmp(&(&other.draft.name, &other.scope))
    });
    let mut effective: Vec<&Rule> = Vec::new();
    for rule in rules {
        match effective.last_mut() {
            Some(wider) if wider.draft.name == rule.draft.name => {
                if !wider.draft.non_overridable {
                    *wider = rule;
                }
            }
            Some(_) | None => effective.push(rule),
        }
    }
    effective
}

/// The rules that a gate judges. The apply gate also judges the rules of the result gate.
pub fn rules_at_gate<'a>(gate: Gate, rules: &[&'a Rule]) -> Vec<&'a Rule> {
    let is_judged = |rule: &&&Rule| {
        rule.draft.at.contains(&gate)
            || gate == Gate::Apply && rule.draft.at.contains(&Gate::Result)
    };
    rules.iter().filter(is_judged).copied().collect()
}

/// Names and revisions of rules, for messages.
pub fn format_rules<'a>(rules: impl IntoIterator<Item = &'a RuleRef>) -> String {
    let each = rules.into_iter();
    let each = each.map(|rule| format!("{rule} of revision {}", rule.revision));
    match each.collect::<Vec<_>>().join(", ") {
        none if none.is_empty() => "no rule".to_owned(),
        some => some,
    }
}
