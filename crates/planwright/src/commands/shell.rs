//! `planwright shell`.

use lifecycle::{Claim, LEASE, OpenSandbox, SubmitExceptions};
use plan::PlanId;
use plan::stage::ResultContent;
use sandbox::{Opened, Presence};
use serde_json::json;

use crate::cli::{App, Format};
use crate::commands::{Answer, moved, path};
use crate::error::CommandError;
use crate::exit::Exit;
use crate::settings;
use crate::ui;

/// Enter a plan's sandbox. Ending with a changed tree sends the plan back and hands your version in.
#[derive(Debug, clap::Args)]
pub struct Args {
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
pub fn run(args: &Args, app: &App) -> Result<Answer, CommandError> {
    if app.format == Format::Json {
        return Err(CommandError::usage(
            "A shell is for people; use `path` in a script.",
        ));
    }
    let plan = app.plan(&args.id)?;
    let lifecycle = app.lifecycle()?;
    // What is changed there now would be handed in as the work of whoever has it.
    if let Some(holder) = lifecycle.get_plan(plan)?.plan.stage.holder() {
        let handle = lifecycle.short_name(plan)?;
        return Err(CommandError::new(
            Exit::Conflict,
            format!("{} is working in the sandbox.", holder.owner),
        )
        .hint(format!("See the changes: planwright diff {handle}"))
        .hint(format!("Once it is done: planwright wait {handle}")));
    }
    // Before a git of ours or the person's runs there.
    let sandboxes = lifecycle.open_sandboxes(plan)?;
    let wanted = args.resource.as_deref();
    let entered = sandboxes
        .iter()
        .find(|one| wanted.is_none_or(|wanted| one.sandbox.resource == wanted))
        .ok_or_else(|| {
            CommandError::new(Exit::NotFound, "The plan has no such sandbox.")
                .hint(format!("planwright path {}", args.id))
        })?;
    if entered.opened == Opened::InUse {
        let handle = lifecycle.short_name(plan)?;
        return Err(in_use(&handle));
    }
    let before = trees(app, plan)?;
    visit(app, entered)?;
    if trees(app, plan)? == before {
        let text = "Nothing changed; the plan is as it was.\n";
        return Ok(Answer::new(
            json!({ "plan_id": plan, "changed": false }),
            text,
        ));
    }
    let call = app.call();
    if let Err(error) = lifecycle.revise(plan, "changed by hand", Vec::new(), &call) {
        let error = CommandError::from(error);
        return Err(CommandError {
            message: format!(
                "What you changed stays in the sandbox and was not handed in: {}",
                error.message
            ),
            ..error
        });
    }
    let hands = Hands::sign_in(app)?;
    let claim = lifecycle.start_execute(plan, &hands.owner, LEASE, &call)?;
    hand_in(app, &claim, args.allow_markers)
}

/// Claims a plan that was sent back, lets the person work in its sandbox, and hands in what they made.
/// What cannot be handed in stays where it is, and so does the plan.
pub fn by_hand(app: &App, plan: PlanId, allow_markers: bool) -> Result<Answer, CommandError> {
    let lifecycle = app.lifecycle()?;
    let call = app.call();
    let hands = Hands::sign_in(app)?;
    let claim = lifecycle.start_execute(plan, &hands.owner, LEASE, &call)?;
    if claim.sandboxes().len() != 1 {
        claim.release()?;
        return Err(CommandError::usage(
            "Working by hand needs exactly one sandbox. Work in the directories and hand the result in through plumbing.",
        )
        .hint(format!("planwright path {plan}")));
    }
    let opened = match lifecycle.open_held_sandboxes(&claim) {
        Ok(opened) => opened,
        Err(error) => {
            // It waits for whoever comes next.
            claim.release()?;
            return Err(error.into());
        }
    };
    let entered = opened.into_iter().find(|one| one.opened != Opened::InUse);
    let Some(entered) = entered else {
        claim.release()?;
        return Err(in_use(&lifecycle.short_name(plan)?));
    };
    claim.while_held(LEASE, || visit(app, &entered))?;
    hand_in(app, &claim, allow_markers)
}

/// Lets the person work in a sandbox that was opened for them.
fn visit(app: &App, entered: &OpenSandbox) -> Result<(), CommandError> {
    for remark in path::remarks(entered, &entered.sandbox.resource) {
        anstream::eprintln!("{}", ui::clean(&remark.text));
    }
    let workshop = &app.lifecycle()?.hands()?.workshop;
    let variables = settings::git_variables();
    workshop
        .run_shell(&entered.sandbox.path, &settings::shell(), &variables)
        .map_err(|error| lifecycle::Error::Sandbox(error).into())
}

fn in_use(handle: &str) -> CommandError {
    CommandError::new(Exit::Conflict, "Somebody is working in the sandbox.")
        .hint(format!("Look at the changes: planwright diff {handle}"))
        .hint(format!("Once it is done: planwright wait {handle}"))
}

/// The person who works by hand, as a holder of plans. Signed in, so that others see at once when their terminal is
/// gone and need not wait for the lease.
struct Hands {
    owner: String,
    _presence: Presence,
}

impl Hands {
    fn sign_in(app: &App) -> Result<Self, CommandError> {
        let moment = app.clock.now().0;
        let process = std::process::id();
        let owner = format!("{} (shell {process}-{moment:x})", crate::home::person());
        let workshop = &app.lifecycle()?.hands()?.workshop;
        let presence = workshop.sign_in(&owner);
        Ok(Self {
            owner,
            _presence: presence.map_err(lifecycle::Error::Sandbox)?,
        })
    }
}

fn hand_in(app: &App, claim: &Claim, allow_markers: bool) -> Result<Answer, CommandError> {
    let (plan, epoch) = (claim.plan().id, claim.epoch());
    let (lifecycle, call) = (app.lifecycle()?, app.call());
    let result = ResultContent::default();
    let allowed = SubmitExceptions {
        markers: allow_markers,
        ..SubmitExceptions::default()
    };
    // Its rules are asked, which may take a while.
    let handed_in = claim.while_held(LEASE, || {
        lifecycle.complete_execute_with(plan, epoch, &result, allowed, &call)
    });
    let done = match handed_in {
        Ok(done) => done,
        Err(error) => {
            // It waits again, and the next visit goes on where this one ended.
            let _ = app.lifecycle()?.release(plan, epoch, &app.call());
            return Err(error.into());
        }
    };
    let mut answer = moved(app, &done)?;
    let changes = done.plan.result.iter().flat_map(|result| &result.trees);
    let changes: u64 = changes.filter_map(|tree| tree.changes).sum();
    answer.text.push_str(&format!(
        "Handed in: {}\n",
        ui::count(changes, "changed file")
    ));
    Ok(answer)
}

/// What the sandboxes of a plan hold at this moment.
fn trees(app: &App, plan: plan::PlanId) -> Result<Vec<(String, String)>, CommandError> {
    let looked = app.lifecycle()?.look_inside(plan)?;
    Ok(looked
        .into_iter()
        .map(|one| (one.resource, one.look.ends_in().to_owned()))
        .collect())
}
