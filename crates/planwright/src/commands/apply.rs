//! `planwright apply`: approves a result and lands it. Also used by `run` and `undo`.

use lifecycle::LandingOutcome;
use plan::landing_options::LandingDestination;
use plan::plan::PlanOrigin;
use plan::stage::{ApplyState, ConstraintKind};
use plan::{LandingOptions, PlanId, PlanStage};
use serde_json::json;
use store::PlanRow;

use crate::cli::App;
use crate::commands::{CommandAnswer, ConditionArgs, diff, goal_line, view_with_receipt};
use crate::error::CommandError;
use crate::exit::CommandExit;
use crate::invocation::quote_word;
use crate::wire::UserMessage;
use crate::{notify, ui};

/// Approve a result and land it, exactly once or not at all
#[derive(Debug, clap::Args)]
pub struct ApplyArgs {
    /// Plan ID or handle, or @ for the plan you used last
    id: String,
    /// Apply without asking for confirmation
    #[arg(long, short)]
    yes: bool,
    #[command(flatten)]
    landing: LandingArgs,
    #[command(flatten)]
    conditions: ConditionArgs,
    /// Land only these paths; the rest becomes a new plan
    #[arg(last = true, value_name = "PATHSPEC")]
    paths: Vec<String>,
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
}

impl LandingArgs {
    /// Returns the flags as landing options; without `--as` and `--merge`, the given defaults.
    pub fn options_or(
        &self,
        default_options: &LandingOptions,
    ) -> Result<LandingOptions, CommandError> {
        let requested = self.parse_options()?;
        if self.shape.is_empty() && !self.merge {
            return Ok(LandingOptions {
                allow_empty: requested.allow_empty,
                ..default_options.clone()
            });
        }
        Ok(requested)
    }

    pub fn parse_options(&self) -> Result<LandingOptions, CommandError> {
        let words: Vec<&str> = self.shape.iter().map(String::as_str).collect();
        let shape = match words.as_slice() {
            [] | ["commit"] => LandingDestination::Commit,
            ["uncommitted"] => LandingDestination::Uncommitted,
            ["branch", name] => LandingDestination::Branch(parse_branch_name(name)?),
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
        if self.merge && shape != LandingDestination::Commit {
            return Err(CommandError::usage("--merge only works with --as commit."));
        }
        Ok(LandingOptions {
            shape,
            merge: self.merge,
            paths: Vec::new(),
            allow_empty: self.allow_empty,
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
    let plan_id = app.resolve_plan(&args.id)?;
    let call = args.conditions.apply_to(app.new_call());
    let row = app.lifecycle()?.get_plan(plan_id)?;
    let options = LandingOptions {
        paths: args.paths.clone(),
        ..args.landing.options_or(default_landing_options(&row))?
    };
    if !args.yes && needs_approval(&row) {
        confirm_landing(app, &row, &LandingPrompt::Apply(&options))?;
    }
    land_plan(app, plan_id, &options, &call)
}

/// Returns the landing options to use without flags: those of a valid `approve`, otherwise the
/// repository's. Options of an earlier `apply` count only while that landing is prepared.
pub fn default_landing_options(row: &PlanRow) -> &LandingOptions {
    let approval = row.plan.valid_approval();
    let approval = approval.filter(|approval| !approval.once || row.plan.is_prepared());
    approval.map_or(&row.plan.policy().landing, |approval| &approval.options)
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
    }
    describe_landing(app, outcome)
}

/// What the person is asked to confirm.
pub enum LandingPrompt<'a> {
    Apply(&'a LandingOptions),
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
            LandingPrompt::Apply(options) => {
                let command = format!("planwright apply {handle} --yes");
                with_landing_flags(command, options, default_landing_options(row))
            }
            LandingPrompt::Undo => format!("planwright undo {handle} --yes"),
        }));
    }
    let paths = match prompt {
        LandingPrompt::Apply(options) => options.paths.as_slice(),
        LandingPrompt::Undo => &[],
    };
    let summary = diff::summarize_changes(
        &app.lifecycle()?.sandboxes().view_changes(row.plan.id())?,
        paths,
    )?;
    let targets: Vec<String> = row.plan.resources().iter().map(describe_target).collect();
    let targets = targets.join(", ");
    let question = match prompt {
        LandingPrompt::Undo => format!("Undo this on {targets}?"),
        LandingPrompt::Apply(_) => format!("Land this on {targets}?"),
    };
    let goal = ui::truncate_line(row.plan.goal().as_str(), 70);
    let question = format!("{summary}{goal}\n{question} [y/N] ");
    let answer = ui::ask_person(&question).unwrap_or_default().to_lowercase();
    if matches!(answer.as_str(), "y" | "yes") {
        return Ok(());
    }
    let declined = |message| {
        CommandError::new(CommandExit::NeedsPerson, message)
            .with_hint(format!("planwright diff {handle}"))
    };
    Err(match prompt {
        LandingPrompt::Apply(_) => declined("Nothing landed; the plan is unchanged.")
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

fn needs_approval(row: &PlanRow) -> bool {
    let can_approve = match row.plan.stage() {
        PlanStage::Apply(landing) => matches!(landing, ApplyState::Constrained(_)),
        PlanStage::Strategize(_) | PlanStage::Execute(_) => true,
    };
    can_approve && row.plan.has_targets() && row.plan.result().is_some()
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
            text.push_str(&goal_line(&done.plan));
            let mut data = view_with_receipt(app, &done)?;
            data["kept"] = json!(kept);
            data["rest"] = json!(rest);
            let mut answer = CommandAnswer::new(data, text);
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
                    level: "warn",
                    text: format!("The rest is now plan {rest}."),
                });
                answer = answer.with_hint(format!("planwright apply {rest}"));
            }
            let on_a_branch = done.plan.approval();
            let on_a_branch = on_a_branch.is_some_and(|approval| {
                matches!(approval.options.shape, LandingDestination::Branch(_))
            });
            if done.plan.has_targets() && !on_a_branch {
                answer = answer.with_hint(format!("planwright undo {handle}"));
            }
            Ok(answer)
        }
        LandingOutcome::Constrained(done) => {
            let handle = app.lifecycle()?.short_handle(done.plan.id())?;
            Err(constrained_error(app, &done, &handle)?)
        }
        LandingOutcome::NeedsAnswer(done) => {
            let handle = app.lifecycle()?.short_handle(done.plan.id())?;
            let question = done.plan.stage().question();
            let text = question.map_or_else(String::new, |question| question.text.to_string());
            let mut error = CommandError::new(CommandExit::NeedsPerson, text)
                .with_hint(format!(
                    "Count it as landed: planwright answer {handle} landed"
                ))
                .with_hint(format!("Land it again: planwright answer {handle} again"))
                .with_hint(format!(
                    "Give it up and cancel the plan: planwright answer {handle} drop"
                ));
            error.data = view_with_receipt(app, &done)?;
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
    let handle = app.lifecycle()?.short_handle(done.plan.id())?;
    let message = match (done.plan.stage().failure(), done.plan.stage().ending()) {
        (Some(failure), _) => format!("Nothing landed: {}", failure.message),
        (None, Some(ending)) => format!("Nothing landed: {} cancelled the plan.", ending.by),
        (None, None) => "Nothing landed.".to_owned(),
    };
    let mut error = CommandError::new(CommandExit::NotLanded, message);
    if done.plan.stage().failure().is_some() {
        error = error.with_hint(repeat_apply_command(&done.plan, &handle));
    }
    error.data = view_with_receipt(app, done)?;
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

/// Returns the `apply` command with the flags of the valid approval, as far as they differ from the
/// repository's defaults.
pub fn repeat_apply_command(plan: &plan::Plan, handle: &str) -> String {
    let command = format!("planwright apply {handle}");
    match plan.valid_approval() {
        Some(approval) => with_landing_flags(command, &approval.options, &plan.policy().landing),
        None => command,
    }
}

/// Appends the flags for these options, as far as they differ from the options that apply without flags.
fn with_landing_flags(
    mut command: String,
    options: &LandingOptions,
    defaults: &LandingOptions,
) -> String {
    if options.shape != defaults.shape {
        command.push_str(&match &options.shape {
            LandingDestination::Commit => " --as commit".to_owned(),
            LandingDestination::Branch(name) => format!(" --as branch {}", quote_word(name)),
            LandingDestination::Uncommitted => " --as uncommitted".to_owned(),
        });
    }
    if options.merge && !defaults.merge {
        command.push_str(" --merge");
    }
    if options.allow_empty {
        command.push_str(" --allow-empty");
    }
    if !options.paths.is_empty() {
        let paths: Vec<String> = options.paths.iter().map(|path| quote_word(path)).collect();
        command.push_str(&format!(" -- {}", paths.join(" ")));
    }
    command
}

fn constrained_error(
    app: &App,
    done: &lifecycle::OperationOutcome,
    handle: &str,
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
        ConstraintKind::Conflict if constraint.paths.is_empty() => {
            vec![format!("planwright cancel {handle}")]
        }
        ConstraintKind::Conflict => vec![format!(
            "Have the agent resolve it: planwright revise {handle} \"TEXT\""
        )],
        ConstraintKind::LocalEdits => {
            let mut hints = vec![
                "Commit or stash these paths. Edits elsewhere are fine.".to_owned(),
                repeat_apply_command(&done.plan, handle),
            ];
            if done.plan.resources().iter().any(|one| one.target.is_some()) {
                let aside = format!("planwright apply {handle} --as branch NAME");
                hints.push(format!("Or land on a new branch: {aside}"));
            }
            hints
        }
        ConstraintKind::OperationInProgress => vec![
            "Finish or abort it first.".to_owned(),
            repeat_apply_command(&done.plan, handle),
        ],
        ConstraintKind::ApprovalVoid => {
            vec![format!(
                "Approve the current result: planwright apply {handle}"
            )]
        }
        ConstraintKind::Gate => vec![format!("planwright why {handle}")],
    };
    error.data = view_with_receipt(app, done)?;
    Ok(error)
}
