//! `planwright apply`.

use lifecycle::Driven;
use plan::how::Shape;
use plan::plan::Origin;
use plan::stage::{ConstraintKind, Landing};
use plan::{How, PlanId, Stage};
use serde_json::json;
use store::PlanRow;

use crate::cli::App;
use crate::commands::{Answer, Conditions, diff, goal_line, view_with_receipt};
use crate::error::CommandError;
use crate::exit::Exit;
use crate::typed::quoted;
use crate::wire::Message;
use crate::{notify, ui};

/// Sign a result and land it: exactly once, or not at all.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The plan.
    id: String,
    /// Do not ask.
    #[arg(long, short)]
    yes: bool,
    #[command(flatten)]
    arrival: Arrival,
    #[command(flatten)]
    conditions: Conditions,
    /// Only these paths; the rest becomes a plan of its own.
    #[arg(last = true, value_name = "PATHSPEC")]
    paths: Vec<String>,
}

/// How a result arrives.
#[derive(Debug, clap::Args)]
pub struct Arrival {
    /// commit (one commit on the branch; the default), branch NAME (on a new branch), or
    /// uncommitted (in the working tree alone).
    #[arg(long = "as", num_args = 1..=2, value_names = ["HOW", "NAME"])]
    shape: Vec<String>,
    /// Keep the plan's own commit as a second parent.
    #[arg(long)]
    merge: bool,
    /// Land it even if nothing changes.
    #[arg(long)]
    allow_empty: bool,
}

impl Arrival {
    /// What was said, or what the repository wants.
    pub fn how_or(&self, usual: &How) -> Result<How, CommandError> {
        let said = self.how()?;
        if self.shape.is_empty() && !self.merge {
            return Ok(How {
                allow_empty: said.allow_empty,
                ..usual.clone()
            });
        }
        Ok(said)
    }

    /// As the engine knows it.
    pub fn how(&self) -> Result<How, CommandError> {
        let words: Vec<&str> = self.shape.iter().map(String::as_str).collect();
        let shape = match words.as_slice() {
            [] | ["commit"] => Shape::Commit,
            ["uncommitted"] => Shape::Uncommitted,
            ["branch", name] => Shape::Branch(branch_name(name)?),
            ["branch"] => {
                return Err(CommandError::usage("Name the new branch: --as branch NAME"));
            }
            ["commit" | "uncommitted", other] => {
                return Err(CommandError::usage(format!(
                    "`{other}` after --as {}: write the plan before the flags.",
                    words[0]
                )));
            }
            _ => {
                return Err(CommandError::usage(format!(
                    "`{}` is no way to land: use commit, branch NAME or uncommitted.",
                    words.join(" ")
                )));
            }
        };
        if self.merge && shape != Shape::Commit {
            return Err(CommandError::usage("--merge is for landing as a commit."));
        }
        Ok(How {
            shape,
            merge: self.merge,
            paths: Vec::new(),
            allow_empty: self.allow_empty,
        })
    }
}

/// The name of a branch, which may be given in full.
fn branch_name(name: &str) -> Result<String, CommandError> {
    match name.strip_prefix("refs/heads/") {
        Some(short) => Ok(short.to_owned()),
        None if name.starts_with("refs/") => Err(CommandError::usage(format!(
            "`{name}` is not a branch: use --as branch NAME."
        ))),
        None => Ok(name.to_owned()),
    }
}

/// Signs and lands.
pub fn run(args: &Args, app: &App) -> Result<Answer, CommandError> {
    let plan = app.plan(&args.id)?;
    let call = args.conditions.apply(app.call());
    let row = app.lifecycle()?.get_plan(plan)?;
    let how = How {
        paths: args.paths.clone(),
        ..args.arrival.how_or(usual(&row))?
    };
    if !args.yes && to_be_signed(&row) {
        confirm(app, &row, "apply", &how.paths)?;
    }
    land(app, plan, &how, &call)
}

/// How a result arrives if nothing is said: as `approve` signed it, or as its repository wants. What an earlier
/// `apply` was asked for was for that one alone.
pub fn usual(row: &PlanRow) -> &How {
    let signed = row.plan.valid_approval();
    let signed = signed.filter(|approval| !approval.once || row.plan.is_prepared());
    signed.map_or(&row.plan.ways.arrival, |approval| &approval.how)
}

/// Lands a plan and says what came of it.
pub fn land(
    app: &App,
    plan: PlanId,
    how: &How,
    call: &lifecycle::Call,
) -> Result<Answer, CommandError> {
    // Process numbers come again; with the moment, nobody else has had this name.
    let moment = app.clock.now().0;
    let process = std::process::id();
    let owner = format!("{} (apply {process}-{moment:x})", crate::home::person());
    let driven = app.lifecycle()?.apply(plan, how, &owner, call)?;
    // Whoever brought it in tells it.
    if let Driven::Landed {
        done,
        followed: false,
        ..
    } = &driven
        && !done.repeated
    {
        notify::Told::by(app).tell(&done.plan);
    }
    describe(app, driven)
}

/// Shows what is about to land and asks; without a terminal nobody can be asked.
pub fn confirm(app: &App, row: &PlanRow, verb: &str, paths: &[String]) -> Result<(), CommandError> {
    let handle = app.lifecycle()?.short_name(row.plan.id)?;
    if !ui::can_be_asked(app.format) {
        return Err(CommandError::new(
            Exit::NeedsPerson,
            "A person has to agree to this, and there is no terminal to ask at.",
        )
        .hint(format!("Look at it first: planwright diff {handle}"))
        .hint(format!("planwright {verb} {handle} --yes")));
    }
    let summary = diff::summary(&app.lifecycle()?.look(row.plan.id)?, paths)?;
    let targets: Vec<String> = row.plan.resources.iter().map(target).collect();
    let targets = targets.join(", ");
    let asks = match verb {
        "undo" => format!("Take this back from {targets}?"),
        _ => format!("Land this on {targets}?"),
    };
    let goal = ui::one_line(row.plan.goal.as_str(), 70);
    let question = format!(
        "{summary}{goal}
{asks} [y/N] "
    );
    let answer = ui::ask(&question).unwrap_or_default().to_lowercase();
    if matches!(answer.as_str(), "y" | "yes") {
        return Ok(());
    }
    Err(CommandError::new(
        Exit::NeedsPerson,
        "Nothing was landed; the plan is as it was.",
    )
    .hint(format!("planwright diff {handle}"))
    .hint(format!("planwright revise {handle} \"TEXT\"")))
}

/// Where a change lands, and in which project: a branch is called the same everywhere.
fn target(resource: &plan::PlanResource) -> String {
    match resource.target.as_deref() {
        Some(target) => {
            let branch = target.strip_prefix("refs/heads/").unwrap_or(target);
            format!("{branch} of {}", resource.project)
        }
        None => resource.name.clone(),
    }
}

fn to_be_signed(row: &PlanRow) -> bool {
    let signing = match &row.plan.stage {
        Stage::Apply(landing) => matches!(landing, Landing::Constrained(_)),
        Stage::Strategize(_) | Stage::Execute(_) => true,
    };
    signing && row.plan.has_targets() && row.plan.result.is_some()
}

/// What came of a landing.
pub fn describe(app: &App, driven: Driven) -> Result<Answer, CommandError> {
    match driven {
        Driven::Landed {
            done,
            kept,
            rest,
            followed: _,
        } => {
            let handle = app.lifecycle()?.short_name(done.plan.id)?;
            let mut text = match done.plan.origin {
                Origin::UndoOf(of) => {
                    let of = app.lifecycle()?.short_name(of)?;
                    format!("{} is taken back: {handle} ", ui::styled(ui::BOLD, of))
                }
                Origin::Use | Origin::RestOf(_) => format!("{} ", ui::styled(ui::BOLD, &handle)),
            };
            text.push_str(&landed_words(&done.plan));
            text.push('\n');
            text.push_str(&goal_line(&done.plan));
            let mut data = view_with_receipt(app, &done)?;
            data["kept"] = json!(kept);
            data["rest"] = json!(rest);
            let mut answer = Answer::new(data, text);
            if done.repeated {
                answer.messages.push(Message {
                    level: "info",
                    text: "It had been done before; nothing changed.".to_owned(),
                });
            }
            for path in &kept {
                answer.messages.push(Message {
                    level: "warn",
                    text: format!(
                        "You saved {path} while it was being landed; your version was left as it is."
                    ),
                });
            }
            if let Some(rest) = rest {
                app.remember(rest);
                answer.messages.push(Message {
                    level: "warn",
                    text: format!("What did not land is now plan {rest}."),
                });
                let rest = app.lifecycle()?.short_name(rest)?;
                answer = answer.hint(format!("planwright apply {rest}"));
            }
            let on_a_branch = done.plan.approval.as_ref();
            let on_a_branch =
                on_a_branch.is_some_and(|approval| matches!(approval.how.shape, Shape::Branch(_)));
            if done.plan.has_targets() && !on_a_branch {
                answer = answer.hint(format!("planwright undo {handle}"));
            }
            Ok(answer)
        }
        Driven::Constrained(done) => {
            let handle = app.lifecycle()?.short_name(done.plan.id)?;
            Err(constrained(app, &done, &handle)?)
        }
        Driven::Asks(done) => {
            let handle = app.lifecycle()?.short_name(done.plan.id)?;
            let question = done.plan.stage.question();
            let text = question.map_or_else(String::new, |question| question.text.to_string());
            let mut error = CommandError::new(Exit::NeedsPerson, text)
                .hint(format!("planwright answer {handle} landed"))
                .hint(format!("planwright answer {handle} again"))
                .hint(format!("planwright answer {handle} drop"));
            error.data = view_with_receipt(app, &done)?;
            Err(error)
        }
        Driven::NotLanded(done) => Err(not_landed(app, &done)?),
    }
}

/// Why a landing that somebody else did came to nothing.
fn not_landed(app: &App, done: &lifecycle::Done) -> Result<CommandError, CommandError> {
    let handle = app.lifecycle()?.short_name(done.plan.id)?;
    let message = match (done.plan.stage.failure(), done.plan.stage.ending()) {
        (Some(failure), _) => format!("Nothing was landed: {}", failure.message),
        (None, Some(ending)) => format!("Nothing was landed: {} cancelled it.", ending.by),
        (None, None) => "Nothing was landed.".to_owned(),
    };
    let mut error = CommandError::new(Exit::NotLanded, message);
    if done.plan.stage.failure().is_some() {
        error = error.hint(apply_again(&done.plan, &handle));
    }
    error.data = view_with_receipt(app, done)?;
    Ok(error)
}

fn landed_words(plan: &plan::Plan) -> String {
    if !plan.has_targets() {
        return "is done".to_owned();
    }
    let places: Vec<String> = plan
        .landed
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

/// The command that lands a plan in the way it was last asked for.
pub fn apply_again(plan: &plan::Plan, handle: &str) -> String {
    let mut command = format!("planwright apply {handle}");
    let Some(how) = plan.valid_approval().map(|approval| &approval.how) else {
        return command;
    };
    let usual = &plan.ways.arrival;
    if how.shape != usual.shape {
        command.push_str(&match &how.shape {
            Shape::Commit => " --as commit".to_owned(),
            Shape::Branch(name) => format!(" --as branch {}", quoted(name)),
            Shape::Uncommitted => " --as uncommitted".to_owned(),
        });
    }
    if how.merge && !usual.merge {
        command.push_str(" --merge");
    }
    if how.allow_empty {
        command.push_str(" --allow-empty");
    }
    if !how.paths.is_empty() {
        let paths: Vec<String> = how.paths.iter().map(|path| quoted(path)).collect();
        command.push_str(&format!(" -- {}", paths.join(" ")));
    }
    command
}

fn constrained(
    app: &App,
    done: &lifecycle::Done,
    handle: &str,
) -> Result<CommandError, CommandError> {
    let Stage::Apply(Landing::Constrained(constraint)) = &done.plan.stage else {
        return Ok(CommandError::new(
            Exit::Conflict,
            "It cannot land as it is.",
        ));
    };
    let mut message = format!("Nothing was landed: {}.", constraint.message.as_str());
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
    let mut error = CommandError::new(Exit::Conflict, message);
    error.hints = match constraint.kind {
        ConstraintKind::Conflict if constraint.paths.is_empty() => {
            vec![format!("planwright cancel {handle}")]
        }
        ConstraintKind::Conflict => vec![format!(
            "Have it solved on top of the target: planwright revise {handle} \"TEXT\""
        )],
        ConstraintKind::LocalEdits => {
            let mut hints = vec![
                "Commit or stash these paths; edits elsewhere are no problem.".to_owned(),
                apply_again(&done.plan, handle),
            ];
            if done.plan.resources.iter().any(|one| one.target.is_some()) {
                let aside = format!("planwright apply {handle} --as branch NAME");
                hints.push(format!("Leave your files alone: {aside}"));
            }
            hints
        }
        ConstraintKind::OperationInProgress => vec![
            "Finish or abort it first.".to_owned(),
            apply_again(&done.plan, handle),
        ],
        ConstraintKind::ApprovalVoid => {
            vec![format!(
                "Sign it again as it can be: planwright apply {handle}"
            )]
        }
        ConstraintKind::Gate => vec![format!("planwright why {handle}")],
    };
    error.data = view_with_receipt(app, done)?;
    Ok(error)
}
