//! Rules as people would write them, and a second opinion on each that is not the engine's.

use fastrand::Rng;
use plan::invariant::{Gate, Rule, RuleCheck, RuleDraft, RuleRef};
use plan::{Plan, Profile};

/// Few, so that a narrower rule often has the name of a wider one.
const NAMES: [&str; 3] = ["east", "north", "south"];

/// Expressions about the plan alone. The version tells whether what was judged is what went on.
const ABOUT_THE_PLAN: [&str; 8] = [
    "true",
    "true",
    "true",
    "true",
    "plan.version % 2 == 0",
    "plan.attempt < 2",
    "plan.profile != 'auto'",
    "false",
];

/// Expressions about what changed.
const ABOUT_CHANGES: [&str; 2] = [
    "totals.files <= 2",
    "!changes.exists(c, c.path.contains('secret'))",
];

/// A command that fails if anything secret changed.
const COMMAND: &str = "! git diff --name-only HEAD | grep -q secret";

/// What a rule is asked about.
pub struct About<'a> {
    /// The plan as it was judged.
    pub plan: &'a Plan,
    /// The paths that it changed.
    pub files: &'a [String],
}

/// Some rule.
pub fn draft(random: &mut Rng) -> RuleDraft {
    let any = |random: &mut Rng, from: &[&str]| from[random.usize(..from.len())].to_owned();
    let check = match random.u8(..100) {
        0..40 => RuleCheck::Expr(any(random, &ABOUT_THE_PLAN)),
        40..55 => RuleCheck::Expr(any(random, &ABOUT_CHANGES)),
        55..62 => RuleCheck::Allow(vec!["docs/**".to_owned()]),
        62..70 => RuleCheck::Forbid(vec!["secret/**".to_owned()]),
        70..80 => RuleCheck::Command {
            command: COMMAND.to_owned(),
            timeout: None,
        },
        _ => RuleCheck::Ask("Is it any good?".to_owned()),
    };
    let possible: &[Gate] = match &check {
        RuleCheck::Expr(source) if ABOUT_CHANGES.contains(&source.as_str()) => {
            &[Gate::Result, Gate::Apply]
        }
        check => check.possible_gates(),
    };
    let mut at = possible.to_vec();
    random.shuffle(&mut at);
    at.truncate(random.usize(1..=at.len().min(3)));
    RuleDraft {
        name: any(random, &NAMES).parse().expect("BUG: it is a name"),
        check,
        at,
        advisory: random.u8(..100) < 15,
        non_overridable: random.u8(..100) < 15,
    }
}

/// A rule about landing that always holds.
pub fn remark(random: &mut Rng) -> RuleDraft {
    RuleDraft {
        name: NAMES[random.usize(..NAMES.len())]
            .parse()
            .expect("BUG: it is a name"),
        check: RuleCheck::Expr("true".to_owned()),
        at: vec![Gate::Apply],
        advisory: false,
        non_overridable: false,
    }
}

/// A rule as it is typed, without its scope.
pub fn words(draft: &RuleDraft) -> Vec<String> {
    let mut words = vec![draft.name.to_string()];
    words.push(format!("--{}", draft.check.kind()));
    words.push(draft.check.source());
    for gate in &draft.at {
        words.extend(["--at".to_owned(), gate.to_string()]);
    }
    if draft.advisory {
        words.push("--advisory".to_owned());
    }
    if draft.non_overridable {
        words.push("--non-overridable".to_owned());
    }
    words
}

/// Does it hold? `None` of one that asks, which is for people to say.
pub fn holds(check: &RuleCheck, about: &About<'_>) -> Option<bool> {
    let secret = || about.files.iter().any(|path| path.contains("secret"));
    Some(match check {
        RuleCheck::Expr(source) => match source.as_str() {
            "true" => true,
            "false" => false,
            "plan.version % 2 == 0" => about.plan.version.0.is_multiple_of(2),
            "plan.attempt < 2" => about.plan.attempt < 2,
            "plan.profile != 'auto'" => about.plan.profile != Profile::Auto,
            "totals.files <= 2" => about.files.len() <= 2,
            "!changes.exists(c, c.path.contains('secret'))" => !secret(),
            other => unreachable!("BUG: nobody wrote `{other}`"),
        },
        RuleCheck::Allow(_) => about.files.iter().all(|path| path.starts_with("docs/")),
        RuleCheck::Forbid(_) => !about.files.iter().any(|path| path.starts_with("secret/")),
        // Of a plan without a repository there is nothing to run it on.
        RuleCheck::Command { .. } => about.plan.resources.is_empty() || !secret(),
        RuleCheck::Ask(_) => return None,
    })
}

/// Of rules of the same name the narrowest, unless a wider one forbids that; by name.
pub fn in_force<'a>(rules: impl IntoIterator<Item = &'a Rule>) -> Vec<&'a Rule> {
    let mut rules: Vec<&Rule> = rules.into_iter().collect();
    rules.sort_by(|one, other| {
        (&one.draft.name, &one.scope).cmp(&(&other.draft.name, &other.scope))
    });
    let mut kept: Vec<&Rule> = Vec::new();
    for rule in rules {
        match kept.last_mut() {
            Some(wider) if wider.draft.name == rule.draft.name => {
                if !wider.draft.non_overridable {
                    *wider = rule;
                }
            }
            Some(_) | None => kept.push(rule),
        }
    }
    kept
}

/// Those of them that a gate is about. What failed when it was handed in cannot land.
pub fn at<'a>(gate: Gate, rules: &[&'a Rule]) -> Vec<&'a Rule> {
    let is_judged = |rule: &&&Rule| {
        rule.draft.at.contains(&gate)
            || gate == Gate::Apply && rule.draft.at.contains(&Gate::Result)
    };
    rules.iter().filter(is_judged).copied().collect()
}

/// Wordings, for people.
pub fn told<'a>(rules: impl IntoIterator<Item = &'a RuleRef>) -> String {
    let each = rules.into_iter();
    let each = each.map(|rule| format!("{rule} of revision {}", rule.revision));
    match each.collect::<Vec<_>>().join(", ") {
        none if none.is_empty() => "no rule".to_owned(),
        some => some,
    }
}
