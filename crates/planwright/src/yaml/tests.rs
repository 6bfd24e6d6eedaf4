//! Valid and invalid action files and settings.

mod actors;

use std::fmt::Write;

use plan::argument::ArgumentValue;
use plan::invariant::Gate;

use super::*;

/// The required keys of an action, in two lines.
const ACTION_HEAD: &str = "name: tidy\ndescription: Tidy up\n";

#[track_caller]
fn parse_valid(source: &str) -> ActionDefinition {
    parse_action(source, "f")
        .unwrap_or_else(|problem| panic!("{problem}\n{}", problem.excerpt(source)))
}

/// Checks that `source` is refused with exactly this `LINE:COLUMN: message`.
#[track_caller]
fn expect_problem(source: &str, expected: &str) {
    let problem = parse_action(source, "f").expect_err(source);
    assert_eq!(problem.to_string(), format!("f:{expected}"), "{source}");
}

/// Checks a table of `SOURCE => LINE:COLUMN: message` lines, with `⏎` for a line break and `⇥` for a tab.
/// `around` completes the source.
#[track_caller]
fn expect_problems(around: fn(&str) -> String, table: &str) {
    for row in table.trim().lines() {
        let (source, expected) = row.trim().split_once(" => ").expect(row);
        expect_problem(
            &around(&source.replace('⏎', "\n").replace('⇥', "\t")),
            expected,
        );
    }
}

fn whole_file(source: &str) -> String {
    source.to_owned()
}

/// Puts the source after the head, from line 3 on.
fn after_head(source: &str) -> String {
    format!("{ACTION_HEAD}{source}")
}

/// Puts the source into an argument `n` after `type: `, on line 4 from column 19 on.
fn with_argument(source: &str) -> String {
    after_head(&format!("arguments:\n- {{name: n, type: {source}}}\n"))
}

/// Puts the source into a rule `r`, from line 5 on.
fn with_rule(source: &str) -> String {
    after_head(&format!("invariants:\n- name: r\n  {source}"))
}

#[track_caller]
fn expect_hint(source: &str, expected: &str) {
    let problem = parse_action(source, "f").expect_err(source);
    assert_eq!(problem.hint.as_deref(), Some(expected), "{problem}");
}

const FULL_ACTION: &str = r#"
# A comment.
name: acme/tidy
description: Tidy up 🎉
long_description: |
  Line one: with a colon.
  Line two.
strategy_actor: planner
execution_actor: acme/worker
invariant_actor: judge
arguments:
  - name: count
    type: integer
    default: -3
    min: -5
    max: 10.5
    description: "How many: roughly"
  - {name: ratio, type: float, default: 2}
  - {name: force, type: boolean, default: false}
  - {name: paths, type: list, default: ["no", b], max: 3}
  - {name: who, type: string, pattern: '[a-z]+\d*', default: no}
  - {name: must, type: string, required: true}
invariants:
  - name: small
    expr: args.count < 10 && !args.force
    at: [result, apply]
    advisory: true
  - {name: asked, expr: "plan.goal != ''", at: strategize, non_overridable: true}
  - {name: always, expr: 'true'}
automation_profile: supervised
read_only: true
reusable: false
"#;

#[test]
fn every_key_is_read() {
    let action = parse_valid(FULL_ACTION);
    assert_eq!(action.name.full_name(), "acme/tidy");
    assert_eq!(action.description, "Tidy up 🎉");
    let long = action.long_description.unwrap();
    assert_eq!(long, "Line one: with a colon.\nLine two.\n");
    let actors = action.actors.unwrap();
    assert_eq!(actors.strategy.full_name(), "local/planner");
    assert_eq!(actors.execution.full_name(), "acme/worker");
    assert_eq!(actors.invariant.unwrap().full_name(), "local/judge");
    assert_eq!(action.automation_profile, Some(plan::Profile::Supervised));
    assert!(action.read_only && !action.reusable);

    let count = &action.arguments[0];
    assert_eq!((count.min, count.max), (Some(-5.0), Some(10.5)));
    assert_eq!(count.description.as_deref(), Some("How many: roughly"));
    let defaults: Vec<_> = action
        .arguments
        .iter()
        .map(|spec| spec.default.clone())
        .collect();
    let expected = [
        Some(ArgumentValue::Integer(-3)),
        Some(ArgumentValue::Float(2.0)),
        Some(ArgumentValue::Boolean(false)),
        Some(ArgumentValue::List(vec!["no".into(), "b".into()])),
        Some(ArgumentValue::String("no".into())),
        None,
    ];
    assert_eq!(defaults, expected);
    assert!(action.arguments[5].required);

    let [small, asked, always] = &action.invariants[..] else {
        panic!("{:?}", action.invariants)
    };
    assert_eq!(small.check.source(), "args.count < 10 && !args.force");
    assert_eq!(small.at, [Gate::Result, Gate::Apply]);
    assert!(small.advisory && !small.non_overridable);
    assert_eq!(asked.at, [Gate::Strategize]);
    assert!(!asked.advisory && asked.non_overridable);
    assert_eq!(always.at, Gate::ALL);
}

#[test]
fn missing_keys_have_defaults() {
    let action = parse_valid(ACTION_HEAD);
    assert_eq!((action.long_description, action.actors), (None, None));
    assert!(action.arguments.is_empty() && action.invariants.is_empty());
    assert_eq!(action.automation_profile, None);
    assert!(!action.read_only && action.reusable);
}

#[test]
fn actor_key_sets_both_phases() {
    let actors = parse_valid(&format!("{ACTION_HEAD}actor: human\n"))
        .actors
        .unwrap();
    assert_eq!(actors.strategy, actors.execution);
}

#[test]
fn equivalent_yaml_syntax_is_equal() {
    let expected = parse_valid(ACTION_HEAD);
    for source in [
        "{name: tidy, description: Tidy up}",
        "\u{feff}name: tidy\r\ndescription: Tidy up\r\n",
        "name: tidy\rdescription: Tidy up",
        "---\n  description: >-\n    Tidy\n    up\n  \"name\": 'tidy' # as ever\n...\n",
        "? name\n: tidy\n? description\n: Tidy up\narguments: []\ninvariants: []\n",
        "name:\ttidy\ndescription:\tTidy up\n",
    ] {
        assert_eq!(parse_valid(source), expected, "{source}");
    }
}

#[test]
fn yaml_1_1_booleans_and_numbers_are_strings() {
    for word in [
        "no",
        "yes",
        "on",
        "off",
        "y",
        "1_000",
        "12:30",
        "2024-01-01",
        "1.2.3",
        "inf",
    ] {
        let source = format!("name: a\ndescription: {word}\n");
        assert_eq!(parse_valid(&source).description, word);
    }
}

#[test]
fn long_strings_are_accepted() {
    let text = "é".repeat(120_000);
    assert_eq!(
        parse_valid(&format!("name: a\ndescription: {text}\n")).description,
        text
    );
}

#[test]
fn file_must_be_one_mapping() {
    expect_problem(
        "",
        "1:1: expected an action as a mapping of keys to values, found nothing",
    );
    expect_problems(whole_file, "
        ⏎# only a comment⏎ => 1:1: expected an action as a mapping of keys to values, found nothing
        - name: tidy => 1:1: expected an action as a mapping of keys to values, found a list
        name:tidy => 1:1: expected an action as a mapping of keys to values, found the string `name:tidy`
        42 => 1:1: expected an action as a mapping of keys to values, found the number `42`
        a: b⏎---⏎a: b => 2:1: a second document starts here
        a: b⏎...⏎a: b => 3:1: a second document starts here
        %YAML 1.1⏎---⏎a: b => 1:1: directives (`%…`) are not supported
    ");
    expect_problem(
        &" ".repeat(MAX_FILE_BYTES + 1),
        "1:1: the file has 262145 bytes; the limit is 262144 (256 KiB)",
    );
}

#[test]
fn name_and_description_are_required() {
    expect_problems(whole_file, "
        description: d => 1:1: an action needs the key `name`
        ⏎⏎  name: a => 3:3: an action needs the key `description`
        name: a⏎description: => 2:12: `description`: expected a string, found nothing
        name: a⏎description: ' ' => 2:14: `description`: expected a string, found an empty one
        name: a⏎description: |⏎ => 2:14: `description`: expected a string, found an empty one
        name: a⏎description: 42 => 2:14: `description`: expected a string, found the number `42`
        name: a⏎description: [b] => 2:14: `description`: expected a string, found a list
        name: a⏎description: {b: c} => 2:14: `description`: expected a string, found a mapping
        name: null⏎description: d => 1:7: `name`: expected a string, found `null`
        name: A⏎description: d => 1:7: `name`: `A` is not a name: use lower-case letters, digits, `-`, `_` and `.`, as in `tidy` or `acme/tidy`
    ");
    expect_hint("name: a\ndescription: 42\n", "put it in quotes: \"42\"");
}

#[test]
fn unknown_keys_suggest_the_nearest_key() {
    expect_problems(
        after_head,
        r#"
        readonly: true => 3:1: unknown key `readonly` in an action; did you mean `read_only`?
        profile: auto => 3:1: unknown key `profile` in an action; did you mean `automation_profile`?
        🎉: x => 3:1: unknown key `🎉` in an action
        "\e[31m": x => 3:1: unknown key `\u{1b}[31m` in an action
    "#,
    );
    expect_problem(
        "\u{feff}nane: a\r\n",
        "1:1: unknown key `nane` in an action; did you mean `name`?",
    );
    expect_problem(
        "name: a\r\nnane: a\r\n",
        "2:1: unknown key `nane` in an action; did you mean `name`?",
    );
    expect_problems(
        with_argument,
        "list, defualt: [] => 4:25: unknown key `defualt` in an argument; did you mean `default`?",
    );
    expect_problems(
        with_rule,
        "expression: a => 5:3: unknown key `expression` in a rule; did you mean `expr`?",
    );
    expect_hint(
        &after_head("invariants: [{nam: r}]"),
        "the keys are name, expr, allow, forbid, command, timeout, ask, at, advisory, non_overridable",
    );
}

#[test]
fn misplaced_keys_name_their_place() {
    expect_problems(
        after_head,
        "
        min: 1 => 3:1: unknown key `min` in an action: `min` belongs under an argument
        at: x => 3:1: unknown key `at` in an action: `at` belongs under a rule in `invariants`
    ",
    );
    expect_problems(
        with_argument,
        "list, actor: a => 4:25: unknown key `actor` in an argument: `actor` belongs at the top level",
    );
    expect_problems(
        with_rule,
        "description: a => 5:3: unknown key `description` in a rule: `description` belongs at the top level or under an argument",
    );
}

#[test]
fn duplicate_and_odd_keys_are_refused() {
    expect_problems(
        after_head,
        r#"
        reusable: true⏎"name": b => 4:1: duplicate key `name`
        : a => 3:1: missing key before this `:`
        ? [a]⏎: b => 3:3: a key must be a word, found a list
        {a: b}: c => 3:1: a key must be a word, found a mapping
    "#,
    );
    expect_problems(
        with_argument,
        "list, type: list => 4:25: duplicate key `type`",
    );
    expect_hint(&after_head("name: b\n"), "first set on line 1");
}

#[test]
fn unsupported_keys_are_refused() {
    expect_problems(
        after_head,
        "
        estimation_actor: x => 3:1: `estimation_actor` is not supported
        review_actor: x => 3:1: `review_actor` is not supported
        apply_actor: x => 3:1: `apply_actor` is not supported
        state: archived => 3:1: `state` is not part of a definition: `action archive` sets it
    ",
    );
}

#[test]
fn actor_keys_must_fit_together() {
    expect_problems(
        after_head,
        "
        actor: a⏎strategy_actor: b => 4:1: `strategy_actor` cannot be combined with `actor`
        execution_actor: b⏎actor: a => 3:1: `execution_actor` cannot be combined with `actor`
        strategy_actor: b => 3:1: `strategy_actor` also needs `execution_actor`
        invariant_actor: b => 3:1: `invariant_actor` also needs `actor`
        execution_actor: b => 3:1: `execution_actor` also needs `strategy_actor`
        actor: [a] => 3:8: `actor`: expected a string, found a list
    ",
    );
}

#[test]
fn booleans_are_true_or_false() {
    expect_problems(
        after_head,
        "
        read_only: no => 3:12: `read_only`: expected `true` or `false`, found the string `no`
        reusable: 'true' => 3:11: `reusable`: expected `true` or `false`, found the string `true`
        reusable: TRUE => 3:11: `reusable`: expected `true` or `false`, found the boolean `TRUE`
    ",
    );
    expect_problems(
        with_argument,
        "list, required: 1 => 4:35: `required`: expected `true` or `false`, found the number `1`",
    );
    expect_problems(
        with_rule,
        "expr: a⏎  advisory: => 6:11: `advisory`: expected `true` or `false`, found nothing",
    );
}

#[test]
fn unknown_profiles_are_refused() {
    expect_problems(
        after_head,
        "automation_profile: full => 3:21: `automation_profile`: `full` is not a profile: use manual, supervised, review or auto",
    );
    let endless = after_head(&format!("automation_profile: {}\n", "x".repeat(100_000)));
    assert!(parse_action(&endless, "f").unwrap_err().message.len() < 500);
}

#[test]
fn arguments_are_a_list_of_mappings() {
    expect_problems(after_head, "
        arguments: => 3:10: `arguments`: expected a list, found nothing
        arguments: n => 3:12: `arguments`: expected a list, found the string `n`
        arguments:⏎  n: {type: list} => 4:3: `arguments`: expected a list, found a mapping
        arguments: [n] => 3:13: expected an argument as a mapping of keys to values, found the string `n`
        arguments:⏎- type: list => 4:3: an argument needs the key `name`
        arguments:⏎- name: n => 4:3: an argument needs the key `type`
        arguments:⏎- {name: n, type: list}⏎- {name: n, type: list} => 5:3: `arguments` defines `n` twice
    ");
    let mut many = "arguments:\n".to_owned();
    for index in 0..300 {
        writeln!(many, "- {{name: a{index}, type: list}}").unwrap();
    }
    expect_problem(
        &after_head(&many),
        "260:3: `arguments`: more than 256 items",
    );
}

#[test]
fn invalid_arguments_are_refused() {
    expect_problems(
        with_argument,
        r#"
        integr => 4:19: `type`: `integr` is not a type: use one of string, integer, float, boolean, list
        integer, min: 5, max: 1 => 4:3: argument `n`: `min` 5 is greater than `max` 1
        integer, min: x => 4:33: `min`: expected a finite number, found the string `x`
        integer, min: .inf => 4:33: `min`: expected a finite number, found the number `.inf`
        integer, max: 1e999 => 4:33: `max`: expected a finite number, found the number `1e999`
        boolean, min: 1 => 4:3: argument `n`: `min` and `max` have no meaning for a boolean
        list, pattern: a => 4:3: argument `n`: `pattern` is for strings, not for type list
        string, pattern: '(' => 4:3: argument `n`: `pattern` is not a regular expression: unclosed group
        string, pattern: "\d" => 4:36: unknown escape in a quoted string
    "#,
    );
    expect_problems(after_head, "
        arguments: [{name: N, type: list}] => 3:13: argument `N`: a name is lower-case letters, digits and `_`, starting with a letter
    ");
}

#[test]
fn defaults_must_match_the_type() {
    expect_problems(with_argument, "
        integer, default: 1.5 => 4:37: `default`: expected a 64-bit integer, found the number `1.5`
        integer, default: 9223372036854775808 => 4:37: `default`: expected a 64-bit integer, found the number `9223372036854775808`
        integer, default: '1' => 4:37: `default`: expected a 64-bit integer, found the string `1`
        integer, default: 0x1F => 4:37: `default`: expected a 64-bit integer, found the number `0x1F`
        float, default: nan => 4:35: `default`: expected a finite number, found the string `nan`
        float, default: .nan => 4:35: `default`: expected a finite number, found the number `.nan`
        boolean, default: yes => 4:37: `default`: expected `true` or `false`, found the string `yes`
        string, default: 1.10 => 4:36: `default`: expected a string, found the number `1.10`
        string, default: ~ => 4:36: `default`: expected a string, found nothing
        list, default: a => 4:34: `default`: expected a list, found the string `a`
        list, default: [a, true] => 4:38: `default`: expected a string, found the boolean `true`
        integer, default: 7, max: 5 => 4:37: argument `n`: 7 is more than the maximum, 5
        string, default: b, pattern: a+ => 4:36: argument `n`: `b` does not match `a+`
        list, default: [], required: true => 4:34: argument `n`: it is required, so a default would never be used
        integer, default: 7, min: 9, max: 5 => 4:3: argument `n`: `min` 9 is greater than `max` 5
    ");
}

#[test]
fn invalid_rules_are_refused() {
    expect_problems(
        with_rule,
        "
        expr: true => 5:9: `expr`: expected a string, found the boolean `true`
        expr: '' => 5:9: `expr`: expected a string, found an empty one
        expr: a⏎  at: land => 6:7: `at`: `land` is not a gate: use strategize, execute, result or apply
        expr: a⏎  at: [] => 6:7: `at`: expected a gate, found an empty list
        expr: a⏎  at: [apply, result, apply] => 6:23: `at`: `apply` is named twice
        expr: a⏎  at: {b: c} => 6:7: `at`: expected a gate or a list of gates, found a mapping
        expr: a⏎- {name: r, expr: b} => 6:3: rule `r` is defined twice
        expr: a⏎  allow: b => 4:3: a rule has one condition; this one has expr and allow
        forbid: [] => 5:11: `forbid`: expected a glob, found an empty list
        forbid: {a: b} => 5:11: `forbid`: expected a glob or a list of globs, found a mapping
        command: '' => 5:12: `command`: expected a string, found an empty one
        command: a⏎  timeout: soon => 6:12: `timeout`: `soon` is not a duration such as 90s, 20m or 2h
        ask: a⏎  timeout: 3s => 6:3: `timeout` is only for `command` rules
        forbid: a⏎  at: execute => 4:3: at the execute gate there is no result for `forbid` to check
        expr: !args.force => 5:9: tags (`!name`) are not supported
    ",
    );
    expect_problems(after_head, "
        invariants: [{name: r}] => 3:14: a rule needs a condition
        invariants: [{name: r, ask: a}]⏎definition_of_done: [{name: r, ask: b}] => 4:21: rule `r` is defined twice
        definition_of_done: {a: b} => 3:21: expected a string or a list of rules, found a mapping
        invariants: [{name: R, expr: a}] => 3:21: `name`: a rule name is 1 to 64 lower-case letters, digits, `-`, `_` and `.`
    ");
}

#[test]
fn syntax_errors_are_explained() {
    expect_problems(
        whole_file,
        r#"
        name: a⏎description: fix: this => 2:17: a `:` is not allowed here
        name: a⏎  description: b => 2:14: a `:` is not allowed here
        name: a⏎description:b => 2:1: expected `key: value`, found no `:` after the key
        name: a⏎description: 'b⏎reusable: true => 3:1: missing closing quote
        name: a⏎description: 'b => 2:14: missing closing quote
        name: a⏎description: @b => 2:14: a string cannot start with `@`
        name: a⏎description: - b => 2:14: a list cannot start here
        name: a⏎description: [b => 2:14: unclosed bracket '['
        name: a⏎description: "b" == c => 2:18: unexpected text after the closing quote
        name: a⏎description: [a-z]+ => 2:19: unexpected indentation or syntax
        arguments:⏎  - name: n⏎  type: list => 3:3: unexpected indentation or syntax
    "#,
    );
    let long = format!("name: a\ndescription: {}: b\n", "é".repeat(10_000));
    expect_problem(&long, "2:10014: a `:` is not allowed here");
}

#[test]
fn tabs_for_indentation_are_refused() {
    expect_problems(
        after_head,
        "
        arguments:⏎⇥- name: n => 4:1: a tab is not allowed here
        arguments:⏎  -⇥name: é⏎   ⇥type: list => 4:4: a tab is not allowed here
        long_description:⏎⇥b => 4:1: a tab is not allowed here
    ",
    );
    expect_problem(
        "\tname: a\n\tdescription: b\n",
        "1:1: a tab is not allowed here",
    );
}

#[test]
fn nul_is_refused_everywhere() {
    expect_problem(
        "name: a\ndescription: b\0\n",
        "2:15: a NUL character cannot be stored",
    );
    expect_problem(
        "\u{feff}name: a\r\n# \0",
        "2:3: a NUL character cannot be stored",
    );
    expect_problem(
        "name: a\ndescription: \"b\\0\"\n",
        "2:14: a NUL character cannot be stored",
    );
    expect_problem("\"a\\x00\": b\n", "1:1: a NUL character cannot be stored");
}

#[test]
fn anchors_aliases_tags_and_merge_keys_are_refused() {
    expect_problems(
        whole_file,
        "
        name: a⏎description: &b c => 2:14: anchors (`&name`) are not supported
        &a⏎name: a => 1:1: anchors (`&name`) are not supported
        name: a⏎description: *.rs => 2:14: aliases (`*name`) are not supported
        *a : b => 1:1: aliases (`*name`) are not supported
        name: a⏎description: * b => 2:14: aliases and anchors are not supported
        name: a⏎description: !!str b => 2:14: tags (`!name`) are not supported
        name: a⏎<<: {reusable: true} => 2:1: merge keys (`<<`) are not supported
    ",
    );
}

#[test]
fn alias_bombs_and_deep_nesting_are_refused() {
    let laughs = "a: &a [x, x, x]\nb: &b [*a, *a, *a]\nc: &c [*b, *b, *b]\n";
    expect_problem(laughs, "1:4: anchors (`&name`) are not supported");
    expect_problem(
        &"[".repeat(MAX_FILE_BYTES),
        "1:17: nested more than 16 levels deep",
    );
    expect_problem(
        &"- ".repeat(MAX_FILE_BYTES / 2),
        "1:33: nested more than 16 levels deep",
    );
    expect_problem(
        &"? ".repeat(MAX_FILE_BYTES / 2),
        "1:33: nested more than 16 levels deep",
    );
    expect_problem(
        &"{a: ".repeat(MAX_FILE_BYTES / 4),
        "1:65: nested more than 16 levels deep",
    );
    let mut stairs = String::new();
    for depth in 0..100 {
        writeln!(stairs, "{}a:", " ".repeat(depth)).unwrap();
    }
    expect_problem(&stairs, "17:17: nested more than 16 levels deep");
}

#[test]
fn damaged_files_never_panic() {
    let chars: Vec<char> = FULL_ACTION.chars().collect();
    let replacements = "\t\n\r:'\"[}&*!🎉\0".chars().cycle();
    for (index, replacement) in (0..chars.len()).zip(replacements) {
        let before: String = chars[..index].iter().collect();
        let after: String = chars[index + 1..].iter().collect();
        for source in [format!("{before}{replacement}{after}"), before + &after] {
            if let Err(problem) = parse_action(&source, "f") {
                assert!(problem.line <= source.lines().count() + 1, "{problem}");
                assert_eq!(problem.excerpt(&source).lines().count(), 2, "{problem}");
            }
        }
    }
}

#[test]
fn settings_are_known_keys_with_single_values() {
    const KNOWN: [&str; 3] = ["store", "profile", "limit"];
    let source = "# mine\nprofile: no\nlimit: 010\nstore: 'a b'\n";
    let read = parse_settings(source, "f", &KNOWN).unwrap();
    let shown: Vec<_> = read
        .iter()
        .map(|(key, value, at)| format!("{key}={value} at {}:{}", at.line, at.column))
        .collect();
    assert_eq!(
        shown,
        ["profile=no at 2:10", "limit=010 at 3:8", "store=a b at 4:8"]
    );
    for nothing in ["", "# profile: auto\n", "---\n", "{}"] {
        assert_eq!(parse_settings(nothing, "f", &KNOWN).unwrap(), []);
    }
    let bad = |source: &str, expected: &str| {
        let problem = parse_settings(source, "f", &KNOWN).expect_err(source);
        assert_eq!(problem.to_string(), format!("f:{expected}"));
    };
    bad(
        "profil: auto",
        "1:1: unknown key `profil` in the settings; did you mean `profile`?",
    );
    bad("store: a\nstore: b", "2:1: duplicate key `store`");
    bad(
        "store: [a]",
        "1:8: `store`: expected a single value, found a list",
    );
    bad(
        "store: {a: b}",
        "1:8: `store`: expected a single value, found a mapping",
    );
    bad(
        "store:\n",
        "1:6: `store`: expected a single value, found nothing",
    );
    bad(
        "- store",
        "1:1: expected the settings as a mapping of keys to values, found a list",
    );
}
