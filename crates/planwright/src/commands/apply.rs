//! `planwright apply`: approves a result and lands it. Also used by `run` and `undo`.

use std::collections::BTreeSet;

use api::landing::{self, LandingRequest, default_landing_options};
use api::plans;
use api::view::LandedPlanView;
use lifecycle::{LandingOutcome, PartSelection, PickMode};
use plan::landing_options::LandingDestination;
use plan::plan::PlanOrigin;
use plan::stage::{ApplyState, ConstraintKind, RefMove};
use plan::{Digest, LandingOptions, Plan, PlanId, PlanStage};
use sandbox::{Repository, ResourceLocation};
use serde_json::json;
use store::PlanRow;

use crate::cli::App;
use crate::commands::drop::resolve_hunks;
use crate::commands::hunk_picker::{self, PickedHunks};
use crate::commands::plan_arg::may_name_plan;
use crate::commands::{CommandAnswer, ConditionArgs, PlanArg, diff, first_landing, goal_line};
use crate::error::CommandError;
use crate::exit::CommandExit;
use crate::invocation::quote_word;
use crate::step_commands::landing_flags;
use crate::wire::UserMessage;
use crate::{notify, publish, ui};

/// Approve a result and land it, exactly once or not at all
#[derive(Debug, clap::Args)]
pub struct ApplyArgs {
    #[command(flatten)]
    plan: PlanArg,
    /// Apply without asking for confirmation
    #[arg(long, short)]
    yes: bool,
    #[command(flatten)]
    landing: LandingArgs,
    #[command(flatten)]
    conditions: ConditionArgs,
    /// Land only this hunk, as listed by `diff --hunks`; repeat for more
    #[arg(long, value_name = "HUNK")]
    hunk: Vec<String>,
    /// Choose the hunks to land one by one
    #[arg(long, conflicts_with_all = ["hunk", "paths"])]
    pick: bool,
    /// What becomes of the parts that do not land: a new plan (plan), or nothing (drop)
    #[arg(long, value_name = "WHAT", value_enum, default_value_t = RestHandling::Plan)]
    rest: RestHandling,
    /// Land only these paths
    #[arg(last = true, value_name = "PATHSPEC")]
    paths: Vec<String>,
}

/// What becomes of the parts of a result that do not land.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum RestHandling {
    Plan,
    Drop,
}

/// How a result lands; shared by `apply` and `approve`.
#[derive(Debug, clap::Args)]
pub struct LandingArgs {
    /// Land as one commit on the branch (commit, the default), on a new branch (branch NAME), or in the
    /// working tree only (uncommitted)
    #[arg(long = "as", num_args = 1..=2, value_names = ["HOW", "NAME"])]
    shape: Vec<String>,
    /// Land as a merge commit, with the plan's own commit as second parent
    #[arg(long)]
    merge: bool,
    /// Land even if nothing changes
    #[arg(long)]
    allow_empty: bool,
    /// Message of the commit [default: the plan's goal]
    #[arg(long, short, value_name = "TEXT")]
    message: Option<String>,
}

impl LandingArgs {
    /// Refuses `--as branch PLAN`, where the name of the branch was forgotten and the next word was taken for it.
    pub fn refuse_plan_as_branch(&self, app: &App) -> Result<(), CommandError> {
        let [how, word] = self.shape.as_slice() else {
            return Ok(());
        };
        if how != "branch" || !may_name_plan(app, word)? {
            return Ok(());
        }
        Err(CommandError::usage(format!(
            "`{word}` names a plan, and no plan comes before the flags."
        ))
        .with_hint(format!("planwright apply {word} --as branch NAME"))
        .with_hint(format!(
            "If the branch is to be called that: planwright apply @ --as branch {word}"
        )))
    }

    pub fn to_request(&self) -> Result<LandingRequest, CommandError> {
        let words: Vec<&str> = self.shape.iter().map(String::as_str).collect();
        let destination = match words.as_slice() {
            [] => None,
            ["commit"] => Some(LandingDestination::Commit),
            ["uncommitted"] => Some(LandingDestination::Uncommitted),
            ["branch", name] => Some(LandingDestination::Branch(parse_branch_name(name)?)),
            ["branch"] => {
                return Err(CommandError::usage("Name the new branch: --as branch NAME"));
            }
            ["commit" | "uncommitted", other] => {
                return Err(CommandError::usage(format!(
                    "Unexpected `{other}` after --as {}. Put the plan before the flags.",
                    words[0]
                )));
            }
            _ => {
                return Err(CommandError::usage(format!(
                    "Unknown --as value `{}`. Use commit, branch NAME or uncommitted.",
                    words.join(" ")
                )));
            }
        };
        let is_commit = matches!(destination, None | Some(LandingDestination::Commit));
        if self.merge && !is_commit {
            return Err(CommandError::usage("--merge only works with --as commit."));
        }
        let makes_commit = destination != Some(LandingDestination::Uncommitted);
        if self.message.is_some() && !makes_commit {
            return Err(CommandError::usage(
                "--message needs a commit; --as uncommitted makes none.",
            ));
        }
        Ok(LandingRequest {
            destination,
            merge: self.merge,
            allow_empty: self.allow_empty,
            paths: Vec::new(),
            message: self.message.clone(),
        })
    }
}

/// Accepts a short branch name or a full `refs/heads/…` name; returns the short one.
fn parse_branch_name(name: &str) -> Result<String, CommandError> {
    match name.strip_prefix("refs/heads/") {
        Some(short) => Ok(short.to_owned()),
        None if name.starts_with("refs/") => Err(CommandError::usage(format!(
            "`{name}` is not a branch. Use --as branch NAME."
        ))),
        None => Ok(name.to_owned()),
    }
}

pub fn run(args: &ApplyArgs, app: &App) -> Result<CommandAnswer, CommandError> {
    if !args.plan.is_given() {
        args.landing.refuse_plan_as_branch(app)?;
    }
    let plan_id = args.plan.resolve(app)?;
    let call = args.conditions.apply_to(app.new_call());
    let row = app.lifecycle()?.get_plan(plan_id)?;
    if landing::needs_approval(&row.plan) {
        for path in &args.paths {
            plans::match_changed_paths(app.lifecycle()?, plan_id, path)?;
        }
    }
    let options = args.landing.to_request()?.options_to_land(&row.plan);
    if args.pick {
        let picked = hunk_picker::pick_hunks(app, plan_id)?;
        if !args.yes {
            confirm_picked(app, &row, &picked, args.rest)?;
        }
        return land_picked(app, plan_id, &picked, args.rest, &options, &call);
    }
    let selection = PartSelection {
        hunks: match landing::is_pickable(&row.plan) {
            true => resolve_hunks(app, plan_id, &args.hunk)?,
            false => BTreeSet::new(),
        },
        paths: args.paths.clone(),
    };
    if !args.yes && landing::needs_approval(&row.plan) {
        confirm_landing(app, &row, &LandingPrompt::Apply(&options, &args.paths))?;
    }
    land_parts(app, &row.plan, None, &selection, args.rest, &options, &call)
}

/// Lands the accepted hunks of a result.
pub fn land_picked(
    app: &App,
    plan_id: PlanId,
    picked: &PickedHunks,
    rest: RestHandling,
    options: &LandingOptions,
    call: &lifecycle::Call,
) -> Result<CommandAnswer, CommandError> {
    picked.require_landable()?;
    if picked.is_whole_result() {
        return land_plan(app, plan_id, options, call);
    }
    let selection = PartSelection {
        hunks: picked.accepted.clone(),
        paths: Vec::new(),
    };
    let shown = Some(picked.shown);
    let plan = app.lifecycle()?.get_plan(plan_id)?.plan;
    land_parts(app, &plan, shown, &selection, rest, options, call)
}

fn land_parts(
    app: &App,
    plan: &Plan,
    shown: Option<Digest>,
    selection: &PartSelection,
    rest: RestHandling,
    options: &LandingOptions,
    call: &lifecycle::Call,
) -> Result<CommandAnswer, CommandError> {
    let mode = match rest {
        RestHandling::Plan => PickMode::TakeSelectedKeepRest,
        RestHandling::Drop => PickMode::TakeSelected,
    };
    let call = landing::pick_for_landing(app.lifecycle()?, plan, shown, selection, mode, call)?;
    let landed = land_plan(app, plan.id(), options, &call);
    landed.map_err(|error| name_way_back(app, plan.id(), error))
}

/// Adds how to bring back the whole result, if its picked part did not land.
fn name_way_back(app: &App, plan_id: PlanId, error: CommandError) -> CommandError {
    let Ok(lifecycle) = app.lifecycle() else {
        return error;
    };
    let plan = lifecycle.get_plan(plan_id).map(|row| row.plan);
    match (plan, lifecycle.short_handle(plan_id)) {
        (Ok(plan), Ok(handle)) if api::results::is_restorable(&plan) => error.with_hint(format!(
            "The parts that were not picked wait. Bring them back: planwright drop {handle} --restore"
        )),
        (_, _) => error,
    }
}

/// Asks whether to land what was picked.
fn confirm_picked(
    app: &App,
    row: &PlanRow,
    picked: &PickedHunks,
    rest: RestHandling,
) -> Result<(), CommandError> {
    picked.require_landable()?;
    let targets: Vec<String> = row.plan.resources().iter().map(describe_target).collect();
    let rest = match (picked.is_whole_result(), rest) {
        (true, _) => "",
        (false, RestHandling::Plan) => "; the rest becomes a plan",
        (false, RestHandling::Drop) => "; the rest is dropped",
    };
    let question = format!(
        "Land {} on {}{rest}? [y/N] ",
        picked.describe(),
        targets.join(", ")
    );
    let answer = ui::ask_person(&question).unwrap_or_default().to_lowercase();
    if matches!(answer.as_str(), "y" | "yes") {
        return Ok(());
    }
    let handle = app.lifecycle()?.short_handle(row.plan.id())?;
    let message = "Nothing landed; the plan is unchanged and your choices are kept.";
    Err(CommandError::new(CommandExit::NeedsPerson, message)
        .with_hint(format!("planwright review {handle}")))
}

/// Approves and lands a plan, and describes the outcome.
pub fn land_plan(
    app: &App,
    plan_id: PlanId,
    options: &LandingOptions,
    call: &lifecycle::Call,
) -> Result<CommandAnswer, CommandError> {
    // Process ids are reused; the time makes the owner name unique.
    let moment = app.clock.now().0;
    let process = std::process::id();
    let owner = format!(
        "{} (apply {process}-{moment:x})",
        crate::home::current_person()
    );
    let outcome = app
        .lifecycle()?
        .landing()
        .approve_and_land(plan_id, options, &owner, call)?;
    // Only the process that landed the plan notifies; a follower or a repeated call does not.
    if let LandingOutcome::Landed {
        done,
        followed: false,
        ..
    } = &outcome
        && !done.repeated
    {
        notify::PersonNotifier::from_settings(app).notify(&done.plan);
        let proposal = first_landing::propose_rule(app, &done.plan);
        let author_note = find_missing_author(app, &done.plan);
        let mut answer = describe_landing(app, outcome)?;
        answer.messages.extend(author_note.map(|text| UserMessage {
            level: "warn",
            text,
        }));
        answer.messages.extend(proposal.map(|text| UserMessage {
            level: "info",
            text,
        }));
        return Ok(answer);
    }
    describe_landing(app, outcome)
}

/// Warns that git has no author for the commit that landed. git itself would refuse to commit.
fn find_missing_author(app: &App, plan: &Plan) -> Option<String> {
    let makes_commit = |step: &RefMove| step.target.starts_with("refs/heads/");
    if !plan.landed().iter().any(makes_commit) {
        return None;
    }
    let git_env = crate::settings::read_git_env();
    let located = app
        .lifecycle()
        .ok()?
        .projects()
        .locate_resources(plan)
        .ok()?;
    let mut repositories = located
        .into_iter()
        .filter_map(|resource| match resource.location {
            ResourceLocation::Git { path, .. } => Repository::open(&git_env, &path).ok(),
            ResourceLocation::Dir { .. } => None,
        });
    repositories.find(|repository| repository.identity().is_none())?;
    Some(
        "The author of the commit is Planwright, because git knows no name and email for you. Set both: \
         git config --global user.name NAME"
            .to_owned(),
    )
}

/// What the person is asked to confirm.
pub enum LandingPrompt<'a> {
    /// With the paths to land, if not all.
    Apply(&'a LandingOptions, &'a [String]),
    Undo,
}

/// Shows what is about to land and asks for confirmation. Fails if there is no terminal to ask on.
pub fn confirm_landing(
    app: &App,
    row: &PlanRow,
    prompt: &LandingPrompt<'_>,
) -> Result<(), CommandError> {
    let handle = app.lifecycle()?.short_handle(row.plan.id())?;
    if !ui::can_ask_person(app.format) {
        return Err(CommandError::new(
            CommandExit::NeedsPerson,
            "This needs confirmation, and there is no terminal to ask on.",
        )
        .with_hint(format!("Review the changes: planwright diff {handle}"))
        .with_hint(match prompt {
            LandingPrompt::Apply(options, paths) => {
                let flags = landing_flags(options, Some(default_landing_options(&row.plan)));
                let paths = describe_paths(paths);
                format!("planwright apply {handle} --yes{flags}{paths}")
            }
            LandingPrompt::Undo => format!("planwright undo {handle} --yes"),
        }));
    }
    let paths = match prompt {
        LandingPrompt::Apply(_, paths) => paths,
        LandingPrompt::Undo => &[][..],
    };
    app.announce_current_plan(row.plan.id())?;
    let changes = app.lifecycle()?.sandboxes().view_changes(row.plan.id())?;
    let summary =
        diff::ChangeSummary::of_changes(&changes, paths)?.render_diffstat(diff::MAX_DIFFSTAT_LINES);
    let targets: Vec<String> = row.plan.resources().iter().map(describe_target).collect();
    let targets = targets.join(", ");
    let question = match prompt {
        LandingPrompt::Undo => format!("Undo this on {targets}?"),
        LandingPrompt::Apply(..) => format!("Land this on {targets}?"),
    };
    let question = format!("{summary}{question} [y/N] ");
    let answer = ui::ask_person(&question).unwrap_or_default().to_lowercase();
    if matches!(answer.as_str(), "y" | "yes") {
        return Ok(());
    }
    let declined = |message| {
        CommandError::new(CommandExit::NeedsPerson, message)
            .with_hint(format!("planwright diff {handle}"))
    };
    Err(match prompt {
        LandingPrompt::Apply(..) => declined("Nothing landed; the plan is unchanged.")
            .with_hint(format!("planwright revise {handle} \"TEXT\"")),
        // A landed plan cannot be revised.
        LandingPrompt::Undo => declined("Nothing was undone."),
    })
}

/// Names the branch and its project, because branches of different projects often share a name.
fn describe_target(resource: &plan::PlanResource) -> String {
    match resource.target.as_deref() {
        Some(target) => {
            let branch = target.strip_prefix("refs/heads/").unwrap_or(target);
            format!("{branch} in {}", resource.project)
        }
        None => resource.name.clone(),
    }
}

/// Describes a landing: the answer if it landed, otherwise an error with the next command.
pub fn describe_landing(app: &App, outcome: LandingOutcome) -> Result<CommandAnswer, CommandError> {
    match outcome {
        LandingOutcome::Landed {
            done,
            kept,
            rest,
            followed: _,
        } => {
            let handle = app.lifecycle()?.short_handle(done.plan.id())?;
            let mut text = match done.plan.origin() {
                PlanOrigin::UndoOf(of) => {
                    let of = app.lifecycle()?.short_handle(of)?;
                    format!("Undid {}: {handle} ", ui::style_text(ui::BOLD, of))
                }
                PlanOrigin::Use | PlanOrigin::RestOf(_) => {
                    format!("{} ", ui::style_text(ui::BOLD, &handle))
                }
            };
            text.push_str(&describe_landed(&done.plan));
            text.push('\n');
            text.push_str(&goal_line(app, &done.plan));
            let change = plans::view_change(app.lifecycle()?, &done)?;
            let view = LandedPlanView {
                change,
                kept: kept.clone(),
                rest,
            };
            let mut answer = CommandAnswer::new(view, text);
            if done.repeated {
                answer.messages.push(UserMessage {
                    level: "info",
                    text: "Already done; nothing changed.".to_owned(),
                });
            }
            for path in &kept {
                answer.messages.push(UserMessage {
                    level: "warn",
                    text: format!("You saved {path} during the landing; your version was kept."),
                });
            }
            if let Some(rest) = rest {
                app.remember_plan(rest);
                let rest = app.lifecycle()?.short_handle(rest)?;
                answer.messages.push(UserMessage {
                    level: "info",
                    text: format!("The rest is now plan {rest}."),
                });
            }
            for hint in publish::publish_commands(app, &done.plan)? {
                answer = answer.with_hint(hint);
            }
            for command in next_commands(app, &done)? {
                let is_undone = matches!(done.plan.origin(), PlanOrigin::UndoOf(_));
                answer = answer.with_hint(match command.starts_with("planwright undo ") {
                    true if is_undone => format!("To land it again: {command}"),
                    _ => command,
                });
            }
            Ok(answer)
        }
        LandingOutcome::Constrained(done) => Err(constrained_error(app, &done)?),
        LandingOutcome::NeedsAnswer(done) => {
            let question = done.plan.stage().question();
            let text = question.map_or_else(String::new, |question| question.text.to_string());
            let mut error = CommandError::new(CommandExit::NeedsPerson, text);
            error.hints = next_commands(app, &done)?;
            error.data = json!(plans::view_change(app.lifecycle()?, &done)?);
            Err(error)
        }
        LandingOutcome::NotLanded(done) => Err(not_landed_error(app, &done)?),
    }
}

/// Explains why a landing by another process ended without landing.
fn not_landed_error(
    app: &App,
    done: &lifecycle::OperationOutcome,
) -> Result<CommandError, CommandError> {
    let message = match (done.plan.stage().failure(), done.plan.stage().ending()) {
        (Some(failure), _) => format!("Nothing landed: {}", failure.message),
        (None, Some(ending)) => format!("Nothing landed: {} cancelled the plan.", ending.by),
        (None, None) => "Nothing landed.".to_owned(),
    };
    let mut error = CommandError::new(CommandExit::NotLanded, message);
    error.hints = next_commands(app, done)?;
    error.data = json!(plans::view_change(app.lifecycle()?, done)?);
    Ok(error)
}

fn describe_landed(plan: &plan::Plan) -> String {
    if !plan.has_targets() {
        return "is done".to_owned();
    }
    let places: Vec<String> = plan
        .landed()
        .iter()
        .map(|step| {
            let commit = &step.new[..step.new.len().min(10)];
            match step.target.strip_prefix("refs/heads/") {
                Some(branch) => format!("landed on {branch} as {commit}"),
                None => "landed in the working tree, not committed".to_owned(),
            }
        })
        .collect();
    places.join("; ")
}

/// How many next steps follow a landing. `planwright why` lists all.
const MAX_SHOWN_STEPS: usize = 3;

fn next_commands(
    app: &App,
    done: &lifecycle::OperationOutcome,
) -> Result<Vec<String>, CommandError> {
    let row = app.lifecycle()?.get_plan(done.plan.id())?;
    let mut commands = app.next_commands(&row)?;
    commands.truncate(MAX_SHOWN_STEPS);
    Ok(commands)
}

/// The paths as arguments, if there are any.
fn describe_paths(paths: &[String]) -> String {
    if paths.is_empty() {
        return String::new();
    }
    let paths: Vec<String> = paths.iter().map(|path| quote_word(path)).collect();
    format!(" -- {}", paths.join(" "))
}

fn constrained_error(
    app: &App,
    done: &lifecycle::OperationOutcome,
) -> Result<CommandError, CommandError> {
    let PlanStage::Apply(ApplyState::Constrained(constraint)) = done.plan.stage() else {
        return Ok(CommandError::new(
            CommandExit::Conflict,
            "Can't land this result.",
        ));
    };
    let mut message = format!("Nothing landed: {}.", constraint.message.as_str());
    for path in constraint.paths.iter().take(20) {
        message.push_str(&format!("\n  {path}"));
    }
    if constraint.paths.len() > 20 {
        message.push_str(&format!("\n  and {} more", constraint.paths.len() - 20));
    }
    for commit in constraint.commits.iter().take(5) {
        message.push_str(&format!(
            "\n  changed by {}",
            &commit[..commit.len().min(10)]
        ));
    }
    let mut error = CommandError::new(CommandExit::Conflict, message);
    error.hints = match constraint.kind {
        ConstraintKind::LocalEdits => {
            vec!["Commit or stash these paths. Edits elsewhere are fine.".to_owned()]
        }
        ConstraintKind::OperationInProgress => vec!["Finish or abort it first.".to_owned()],
        ConstraintKind::Conflict | ConstraintKind::ApprovalVoid | ConstraintKind::Gate => {
            Vec::new()
        }
    };
    error.hints.extend(next_commands(app, done)?);
    error.data = json!(plans::view_change(app.lifecycle()?, done)?);
    Ok(error)
}
