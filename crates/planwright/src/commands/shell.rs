//! `planwright shell`: opens a shell in a sandbox and submits what the person changed there.

use lifecycle::{Claim, DEFAULT_LEASE, OpenSandbox, SubmitExceptions};
use plan::PlanId;
use plan::command::ReleaseLease;
use plan::stage::ResultContent;
use sandbox::{ProcessPresence, SandboxOpening};
use serde_json::json;

use crate::cli::{App, CliFormat};
use crate::commands::{CommandAnswer, PlanArg, answer_for_move, path};
use crate::error::CommandError;
use crate::exit::CommandExit;
use crate::settings;
use crate::ui;

/// Open a shell in a plan's sandbox and submit your changes
///
/// If files changed when the shell exits, the plan is sent back and your version becomes the new result.
#[derive(Debug, clap::Args)]
pub struct ShellArgs {
    #[command(flatten)]
    plan: PlanArg,
    /// Resource to enter, if the plan has several
    #[arg(long, value_name = "NAME")]
    resource: Option<String>,
    /// Submit even if conflict markers remain
    #[arg(long)]
    allow_markers: bool,
}

pub fn run(args: &ShellArgs, app: &App) -> Result<CommandAnswer, CommandError> {
    if app.format == CliFormat::Json {
        return Err(CommandError::usage(
            "`shell` is interactive. Use `planwright path` in scripts.",
        ));
    }
    let plan_id = args.plan.resolve(app)?;
    let lifecycle = app.lifecycle()?;
    // Edits made now would be submitted as the holder's work.
    if let Some(holder) = lifecycle.get_plan(plan_id)?.plan.stage().holder() {
        let handle = lifecycle.short_handle(plan_id)?;
        return Err(CommandError::new(
            CommandExit::Conflict,
            format!("{} is working in the sandbox.", holder.owner),
        )
        .with_hint(format!("See the changes: planwright diff {handle}"))
        .with_hint(format!("Wait until it is done: planwright wait {handle}")));
    }
    // Opening cleans the git configuration, so it must come before any git command runs there.
    let sandboxes = lifecycle.sandboxes().open_sandboxes(plan_id)?;
    let requested = args.resource.as_deref();
    let entered = sandboxes
        .iter()
        .find(|one| requested.is_none_or(|requested| one.sandbox.resource == requested));
    let Some(entered) = entered else {
        let handle = lifecycle.short_handle(plan_id)?;
        return Err(
            CommandError::new(CommandExit::NotFound, "The plan has no such sandbox.")
                .with_hint(format!("planwright path {handle}")),
        );
    };
    if entered.opened == SandboxOpening::InUse {
        let handle = lifecycle.short_handle(plan_id)?;
        return Err(in_use_error(&handle));
    }
    let before = read_sandbox_trees(app, plan_id)?;
    open_shell(entered)?;
    if read_sandbox_trees(app, plan_id)? == before {
        let text = "No changes; nothing was submitted.\n";
        return Ok(CommandAnswer::new(
            json!({ "plan_id": plan_id, "changed": false }),
            text,
        ));
    }
    let call = app.new_call();
    if let Err(error) = lifecycle.revise_plan(plan_id, "changed by hand", Vec::new(), &call) {
        let error = CommandError::from(error);
        return Err(CommandError {
            message: format!(
                "Your changes are still in the sandbox but were not submitted: {}",
                error.message
            ),
            ..error
        });
    }
    let holder = ShellHolder::register(app)?;
    let claim = lifecycle
        .claims()
        .start_execute(plan_id, &holder.owner, DEFAULT_LEASE, &call)?;
    submit_work(app, &claim, args.allow_markers)
}

/// Claims a plan that was sent back, opens a shell in its sandbox and submits the result. If the result is
/// refused, the changes stay in the sandbox and the plan is released.
pub fn work_by_hand(
    app: &App,
    plan_id: PlanId,
    allow_markers: bool,
) -> Result<CommandAnswer, CommandError> {
    let lifecycle = app.lifecycle()?;
    let call = app.new_call();
    let holder = ShellHolder::register(app)?;
    let claim = lifecycle
        .claims()
        .start_execute(plan_id, &holder.owner, DEFAULT_LEASE, &call)?;
    if claim.sandboxes().len() != 1 {
        claim.release()?;
        return Err(CommandError::usage(
            "Working by hand needs exactly one sandbox. Edit the directories and submit the result with plumbing commands.",
        )
        .with_hint(format!("planwright path {plan_id}")));
    }
    let opened = match lifecycle.sandboxes().open_held_sandboxes(&claim) {
        Ok(opened) => opened,
        Err(error) => {
            // Do not keep the lease until it expires.
            claim.release()?;
            return Err(error.into());
        }
    };
    let entered = opened
        .into_iter()
        .find(|one| one.opened != SandboxOpening::InUse);
    let Some(entered) = entered else {
        claim.release()?;
        return Err(in_use_error(&lifecycle.short_handle(plan_id)?));
    };
    claim.hold_while(DEFAULT_LEASE, || open_shell(&entered))?;
    submit_work(app, &claim, allow_markers)
}

/// Runs the person's shell in an opened sandbox, after the warnings about it.
fn open_shell(entered: &OpenSandbox) -> Result<(), CommandError> {
    for remark in path::sandbox_warnings(entered, &entered.sandbox.resource) {
        anstream::eprintln!("{}", ui::escape_controls(&remark.text));
    }
    let variables = settings::shell_git_variables();
    sandbox::run_shell(&entered.sandbox.path, &settings::user_shell(), &variables)
        .map_err(|error| lifecycle::LifecycleError::Sandbox(error).into())
}

fn in_use_error(handle: &str) -> CommandError {
    CommandError::new(
        CommandExit::Conflict,
        "Another process is working in the sandbox.",
    )
    .with_hint(format!("See the changes: planwright diff {handle}"))
    .with_hint(format!("Wait until it is done: planwright wait {handle}"))
}

/// The person in the shell as a lease holder. Registered as present, so that others notice a dead shell at
/// once instead of waiting for its lease to expire.
struct ShellHolder {
    owner: String,
    _presence: ProcessPresence,
}

impl ShellHolder {
    fn register(app: &App) -> Result<Self, CommandError> {
        let moment = app.clock.now().0;
        let process = std::process::id();
        let owner = format!(
            "{} (shell {process}-{moment:x})",
            crate::home::current_person()
        );
        let sandboxes = &app.lifecycle()?.local_host()?.sandboxes;
        let presence = sandboxes.processes().register_presence(&owner);
        Ok(Self {
            owner,
            _presence: presence.map_err(lifecycle::LifecycleError::Sandbox)?,
        })
    }
}

fn submit_work(
    app: &App,
    claim: &Claim,
    allow_markers: bool,
) -> Result<CommandAnswer, CommandError> {
    let (plan, epoch) = (claim.plan().id(), claim.epoch());
    let (lifecycle, call) = (app.lifecycle()?, app.new_call());
    let result = ResultContent::default();
    let allowed = SubmitExceptions {
        conflict_markers: allow_markers,
        ..SubmitExceptions::default()
    };
    // Rule checks may outlast the lease, so it is renewed meanwhile.
    let submitted = claim.hold_while(DEFAULT_LEASE, || {
        lifecycle.complete_execute_with(plan, epoch, &result, allowed, &call)
    });
    let done = match submitted {
        Ok(done) => done,
        Err(error) => {
            // Release the plan; the changes stay in the sandbox for the next shell.
            let _ = app
                .lifecycle()?
                .submit_command(plan, ReleaseLease { epoch }, &app.new_call());
            return Err(error.into());
        }
    };
    let mut answer = answer_for_move(app, &done)?;
    let changes = done
        .plan
        .result()
        .into_iter()
        .flat_map(|result| &result.trees);
    let changes: u64 = changes.filter_map(|tree| tree.changes).sum();
    answer.text.push_str(&format!(
        "Submitted {}\n",
        ui::pluralize(changes, "changed file")
    ));
    Ok(answer)
}

/// Returns the current tree of each sandbox, by resource.
fn read_sandbox_trees(app: &App, plan_id: PlanId) -> Result<Vec<(String, String)>, CommandError> {
    let diffs = app.lifecycle()?.sandboxes().view_sandbox_changes(plan_id)?;
    Ok(diffs
        .into_iter()
        .map(|one| (one.resource, one.comparison.new_tree().to_owned()))
        .collect())
}
