//! Documents that are made from the program: compared here, and written anew with
//! `PLANWRIGHT_UPDATE_DOCS=1 cargo test -p planwright --test it reference`.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;

use clap::{Arg, ArgAction, Command, CommandFactory};
use plan::project::{PlanResource, ResourceKind};
use plan::stage::{
    ApplyState, ConstraintKind, FailureCategory, LandingConstraint, LandingIntent, LeaseHolder,
    PlanEnding, PlanFailure, PlanQuestion, QueueEntry, WorkState,
};
use plan::{Caller, Epoch, Plan, PlanStage, Timestamp, Verb};
use planwright::cli::Cli;
use planwright::{Call, Lifecycle, MemoryStore, PlanActors, UseRequest, plan};

#[expect(
    clippy::disallowed_methods,
    reason = "whoever wants the documents written says so by this variable"
)]
fn compare_page(name: &str, made: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../docs")
        .join(name);
    if std::env::var_os("PLANWRIGHT_UPDATE_DOCS").is_some() {
        std::fs::write(&path, made).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == made,
        "docs/{name} is not what the program says; write it anew with \
         PLANWRIGHT_UPDATE_DOCS=1 cargo test -p planwright --test it reference"
    );
}

#[test]
fn the_reference_of_commands_is_what_the_program_says() {
    let mut text =
        "# Command line\n\n<!-- Made from the program; see tests/it/reference.rs. -->\n".to_owned();
    let mut root = Cli::command();
    root.build();
    text.push_str("\nEvery command takes `--format human|json` and `--store STORE`.\n");
    document_command(&root, &mut text);
    text.push_str("\n## Exit codes\n\n| code | meaning |\n| ---: | --- |\n");
    let shell = crate::shell::TranscriptShell::new();
    let codes = shell.run_quietly(&["help", "exit-codes"]);
    for code in codes["exit_codes"].as_array().unwrap() {
        writeln!(
            text,
            "| {} | {} |",
            code["code"],
            code["meaning"].as_str().unwrap()
        )
        .unwrap();
    }
    compare_page("cli.md", &text);
}

/// One command and those below it.
fn document_command(command: &Command, text: &mut String) {
    let name = command.get_bin_name().unwrap_or("planwright");
    writeln!(text, "\n## `{name}`\n").unwrap();
    let about = command.get_long_about().or(command.get_about());
    writeln!(
        text,
        "{}",
        about.map(ToString::to_string).unwrap_or_default()
    )
    .unwrap();
    let has_commands = command.get_subcommands().next().is_some();
    if !has_commands {
        let usage = command.clone().render_usage().to_string();
        writeln!(
            text,
            "\n```text\n{}\n```",
            usage.trim_start_matches("Usage: ")
        )
        .unwrap();
    }
    let arguments: Vec<&Arg> = command
        .get_arguments()
        .filter(|one| !one.is_hide_set() && !is_global(one))
        .collect();
    if !arguments.is_empty() && !has_commands {
        text.push('\n');
        arguments.iter().for_each(|one| explain_argument(one, text));
    }
    for one in command.get_subcommands() {
        if one.get_name() != "help" || name == "planwright" {
            document_command(one, text);
        }
    }
}

fn is_global(argument: &Arg) -> bool {
    ["help", "version", "format", "store"].contains(&argument.get_id().as_str())
}

fn explain_argument(argument: &Arg, text: &mut String) {
    let values: Vec<String> = argument
        .get_value_names()
        .unwrap_or_default()
        .iter()
        .map(ToString::to_string)
        .collect();
    let takes_value = !matches!(argument.get_action(), ArgAction::SetTrue);
    let mut shown = match argument.get_long() {
        Some(long) if takes_value => format!("--{long} {}", values.join(" ")),
        Some(long) => format!("--{long}"),
        None => values.join(" "),
    };
    if let Some(short) = argument.get_short() {
        shown = format!("-{short}, {shown}");
    }
    let help = argument.get_long_help().or(argument.get_help());
    let help = help.map(ToString::to_string).unwrap_or_default();
    let help = help.replace("\n\n", ". ");
    let help = help.trim_end_matches('.');
    let defaults: Vec<_> = argument
        .get_default_values()
        .iter()
        .map(|value| value.to_string_lossy().into_owned())
        .collect();
    let default = if defaults.is_empty() || !takes_value {
        String::new()
    } else {
        format!(" Default: `{}`.", defaults.join(" "))
    };
    writeln!(text, "- `{}`: {help}.{default}", shown.trim()).unwrap();
}

#[test]
fn the_table_of_states_is_what_the_core_says() {
    let mut text = "# What can be done to a plan, by where it stands\n\n\
        <!-- Made from crates/plan; see crates/planwright/tests/it/reference.rs. -->\n\n\
        ✓ for every plan; ○ for some: it depends on whether the plan lands on anything, and whether \
        its result is approved.\n\n\
        Not in the tables, because they depend on more than the state: `waive` works until a plan \
        ends; the holder may `renew` and, while an agent works, `record-decision`, and in execute \
        `open-changeset`, `record-change` and `seal-changeset`; `reclaim` takes a lease that has expired.\n"
        .to_owned();
    let stages = all_stages();
    let mut seen: BTreeMap<&str, Vec<&(&str, &str, PlanStage)>> = BTreeMap::new();
    for stage in &stages {
        seen.entry(stage.0).or_default().push(stage);
    }
    let sample = sample_plan();
    for phase in ["strategize", "execute", "apply"] {
        let columns = &seen[phase];
        let names: Vec<&str> = columns.iter().map(|(_, name, _)| *name).collect();
        writeln!(text, "\n## {phase}\n\n| command | {} |", names.join(" | ")).unwrap();
        writeln!(text, "| --- |{}", " :-: |".repeat(names.len())).unwrap();
        for verb in Verb::ALL {
            let marks: Vec<&str> = columns
                .iter()
                .map(|(_, _, stage)| applicability_mark(&sample, stage, *verb))
                .collect();
            if marks.iter().any(|mark| !mark.is_empty()) {
                writeln!(text, "| `{verb}` | {} |", marks.join(" | ")).unwrap();
            }
        }
    }
    compare_page("states.md", &text);
}

/// Can this be done to every plan that stands there, to some, or to none?
fn applicability_mark(sample: &Plan, stage: &PlanStage, verb: Verb) -> &'static str {
    let repository = PlanResource {
        name: "shop/code".to_owned(),
        project: "shop".parse().unwrap(),
        resource: "code".parse().unwrap(),
        kind: ResourceKind::Git,
        target: Some("refs/heads/main".to_owned()),
    };
    let possible = |resources: &[PlanResource]| {
        let plan = testkit::edit_plan(sample, |fields| {
            fields.insert("stage".to_owned(), serde_json::json!(stage));
            fields.insert("resources".to_owned(), serde_json::json!(resources));
        });
        plan::decide::available_verbs(&plan).contains(&verb)
    };
    match (possible(&[]), possible(&[repository])) {
        (true, true) => "✓",
        (true, false) | (false, true) => "○",
        (false, false) => "",
    }
}

/// Any plan; only where it stands matters.
fn sample_plan() -> Plan {
    let engine = Lifecycle::open(MemoryStore::new());
    let request = UseRequest {
        goal: Some("any".to_owned()),
        fallback_actors: Some(PlanActors::for_both_phases("bot".parse().unwrap())),
        ..UseRequest::default()
    };
    let call = Call::by(Caller::Person("ada".to_owned()));
    engine.use_action(request, &call).unwrap().plan
}

/// Every stage: its phase, the name of its column, and itself.
fn all_stages() -> Vec<(&'static str, &'static str, PlanStage)> {
    let (at, epoch) = (Timestamp(0), Epoch(1));
    let queued = || QueueEntry {
        since: at,
        retry_at: None,
    };
    let holder = || LeaseHolder {
        owner: "bot".to_owned(),
        epoch,
        since: at,
        permission: None,
    };
    let question = || PlanQuestion {
        text: "?".into(),
        epoch,
        asked_at: at,
        deadline: None,
    };
    let failure = || PlanFailure {
        category: FailureCategory::Actor,
        message: "!".into(),
        epoch,
        at,
    };
    let ending = || PlanEnding {
        at,
        by: Caller::Person("ada".to_owned()),
        reason: None,
    };
    let constraint = || LandingConstraint {
        kind: ConstraintKind::Conflict,
        message: "!".into(),
        paths: Vec::new(),
        commits: Vec::new(),
        epoch,
        at,
    };
    let work = |phase: &'static str, stage: fn(WorkState) -> PlanStage| {
        [
            (phase, "queued", stage(WorkState::Queued(queued()))),
            (phase, "processing", stage(WorkState::Processing(holder()))),
            (
                phase,
                "awaiting_input",
                stage(WorkState::AwaitingInput(question())),
            ),
            (phase, "complete", stage(WorkState::Complete)),
            (phase, "errored", stage(WorkState::Errored(failure()))),
            (phase, "cancelled", stage(WorkState::Cancelled(ending()))),
        ]
    };
    let prepared = || Some(LandingIntent::default());
    let apply = [
        ("queued", ApplyState::Queued(queued(), None)),
        ("queued, prepared", ApplyState::Queued(queued(), prepared())),
        ("processing", ApplyState::Processing(holder(), None)),
        (
            "processing, prepared",
            ApplyState::Processing(holder(), prepared()),
        ),
        (
            "awaiting_input",
            ApplyState::AwaitingInput(question(), None),
        ),
        (
            "awaiting_input, prepared",
            ApplyState::AwaitingInput(question(), prepared()),
        ),
        ("errored", ApplyState::Errored(failure())),
        ("constrained", ApplyState::Constrained(constraint())),
        ("applied", ApplyState::Applied(ending())),
        ("cancelled", ApplyState::Cancelled(ending())),
    ];
    let mut all = Vec::new();
    all.extend(work("strategize", PlanStage::Strategize));
    all.extend(work("execute", PlanStage::Execute));
    all.extend(apply.map(|(name, landing)| ("apply", name, PlanStage::Apply(landing))));
    all
}
