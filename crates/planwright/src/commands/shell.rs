//! `planwright shell`.

use lifecycle::{Claim, DEFAULT_LEASE, OpenSandbox, SubmitExceptions};
use plan::PlanId;
use plan::stage::ResultContent;
use sandbox::{ProcessPresence, SandboxOpening};
use serde_json::json;

use crate::cli::{App, CliFormat};
use crate::commands::{CommandAnswer, answer_for_move, path};
use crate::error::CommandError;
use crate::exit::CommandExit;
use crate::settings;
use crate::ui;

/// Enter a plan's sandbox. Ending with a changed tree sends the plan back and hands your version in.
#[derive(Debug, clap::Args)]
pub struct ShellArgs {
    /// The plan.
    id: String,
    /// Which of its resources, where it has several.
    #[arg(long, value_name = "NAME")]
    resource: Option<String>,
    /// Submit even if conflict markers remain.
    #[arg(long)]
    allow_markers: bool,
}

/// Starts a shell there, and takes in what was done.
pub fn run(args: &ShellArgs, app: &App) -> Result<CommandAnswer, CommandError> {
    if app.format == CliFormat::Json {
        return Err(CommandError::usage(
            "A shell is for people; use `path` in a script.",
        ));
    }
    let plan_id = app.resolve_plan(&args.id)?;
    let lifecycle = app.lifecycle()?;
    // What is changed there now would be handed in as the work of whoever has it.
    if let Some(holder) = lifecycle.get_plan(plan_id)?.plan.stage.holder() {
        let handle = lifecycle.short_handle(plan_id)?;
        return Err(CommandError::new(
            CommandExit::Conflict,
            format!("{} is working in the sandbox.", holder.owner),
        )
        .with_hint(format!("See the changes: planwright diff {handle}"))
        .with_hint(format!("Once it is done: planwright wait {handle}")));
    }
    // Before a git of ours or the person's runs there.
    let sandboxes = lifecycle.open_sandboxes(plan_id)?;
    let wanted = args.resource.as_deref();
    let entered = sandboxes
        .iter()
        .find(|one| wanted.is_none_or(|wanted| one.sandbox.resource == wanted))
        .ok_or_else(|| {
            CommandError::new(CommandExit::NotFound, "The plan has no such sandbox.")
                .with_hint(format!("planwright path {}", args.id))
        })?;
    if entered.opened == SandboxOpening::InUse {
        let handle = lifecycle.short_handle(plan_id)?;
        return Err(in_use_error(&handle));
    }
    let before = read_sandbox_trees(app, plan_id)?;
    open_shell(app, entered)?;
    if read_sandbox_trees(app, plan_id)? == before {
        let text = "Nothing changed; the plan is as it was.\n";
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
                "What you changed stays in the sandbox and was not handed in: {}",
                error.message
            ),
            ..error
        });
    }
    let holder = ShellHolder::sign_in(app)?;
    let claim = lifecycle.start_execute(plan_id, &holder.owner, DEFAULT_LEASE, &call)?;
    submit_work(app, &claim, args.allow_markers)
}

/// Claims a plan that was sent back, lets the person work in its sandbox, and hands in what they made.
/// What cannot be handed in stays where it is, and so does the plan.
pub fn work_by_hand(
    app: &App,
    plan_id: PlanId,
    allow_markers: bool,
) -> Result<CommandAnswer, CommandError> {
    let lifecycle = app.lifecycle()?;
    let call = app.new_call();
    let holder = ShellHolder::sign_in(app)?;
    let claim = lifecycle.start_execute(plan_id, &holder.owner, DEFAULT_LEASE, &call)?;
    if claim.sandboxes().len() != 1 {
        claim.release()?;
        return Err(CommandError::usage(
            "Working by hand needs exactly one sandbox. Work in the directories and hand the result in through plumbing.",
        )
        .with_hint(format!("planwright path {plan_id}")));
    }
    let opened = match lifecycle.open_held_sandboxes(&claim) {
        Ok(opened) => opened,
        Err(error) => {
            // It waits for whoever comes next.
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
    claim.hold_while(DEFAULT_LEASE, || open_shell(app, &entered))?;
    submit_work(app, &claim, allow_markers)
}

/// Lets the person work in a sandbox that was opened for them.
fn open_shell(app: &App, entered: &OpenSandbox) -> Result<(), CommandError> {
    for remark in path::sandbox_warnings(entered, &entered.sandbox.resource) {
        anstream::eprintln!("{}", ui::escape_controls(&remark.text));
    }
    let sandboxes = &app.lifecycle()?.local_host()?.sandboxes;
    let variables = settings::shell_git_variables();
    sandboxes
        .run_shell(&entered.sandbox.path, &settings::user_shell(), &variables)
        .map_err(|error| lifecycle::LifecycleError::Sandbox(error).into())
}

fn in_use_error(handle: &str) -> CommandError {
    CommandError::new(CommandExit::Conflict, "Somebody is working in the sandbox.")
        .with_hint(format!("Look at the changes: planwright diff {handle}"))
        .with_hint(format!("Once it is done: planwright wait {handle}"))
}

/// The person who works by hand, as a holder of plans. Signed in, so that others see at once when their terminal is
/// gone and need not wait for the lease.
struct ShellHolder {
    owner: String,
    _presence: ProcessPresence,
}

impl ShellHolder {
    fn sign_in(app: &App) -> Result<Self, CommandError> {
        let moment = app.clock.now().0;
        let process = std::process::id();
        let owner = format!(
            "{} (shell {process}-{moment:x})",
            crate::home::current_person()
        );
        let sandboxes = &app.lifecycle()?.local_host()?.sandboxes;
        let presence = sandboxes.register_presence(&owner);
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
    let (plan, epoch) = (claim.plan().id, claim.epoch());
    let (lifecycle, call) = (app.lifecycle()?, app.new_call());
    let result = ResultContent::default();
    let allowed = SubmitExceptions {
        conflict_markers: allow_markers,
        ..SubmitExceptions::default()
    };
    // Its rules are asked, which may take a while.
    let submitted = claim.hold_while(DEFAULT_LEASE, || {
        lifecycle.complete_execute_with(plan, epoch, &result, allowed, &call)
    });
    let done = match submitted {
        Ok(done) => done,
        Err(error) => {
            // It waits again, and the next visit goes on where this one ended.
            let _ = app.lifecycle()?.release_lease(plan, epoch, &app.new_call());
            return Err(error.into());
        }
    };
    let mut answer = answer_for_move(app, &done)?;
    let changes = done.plan.result.iter().flat_map(|result| &result.trees);
    let changes: u64 = changes.filter_map(|tree| tree.changes).sum();
    answer.text.push_str(&format!(
        "Handed in: {}\n",
        ui::pluralize(changes, "changed file")
    ));
    Ok(answer)
}

/// What the sandboxes of a plan hold at this moment.
fn read_sandbox_trees(
    app: &App,
    plan_id: plan::PlanId,
) -> Result<Vec<(String, String)>, CommandError> {
    let diffs = app.lifecycle()?.view_sandbox_changes(plan_id)?;
    Ok(diffs
        .into_iter()
        .map(|one| (one.resource, one.comparison.new_tree().to_owned()))
        .collect())
}
