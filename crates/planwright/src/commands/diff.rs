//! `planwright diff`.

use std::io::{IsTerminal, Write};
use std::process::Stdio;

use lifecycle::Looked;
use plan::stage::{IgnoredPaths, PathSummary};
use sandbox::{SandboxError, Shape};
use serde_json::json;

use crate::cli::{App, Format};
use crate::commands::Answer;
use crate::error::CommandError;
use crate::ui;

/// Show what a plan changed: handed in, landed, or as it stands while somebody works.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The plan.
    id: String,
    /// A histogram of changed lines.
    #[arg(long, conflicts_with_all = ["name_only", "patch"])]
    stat: bool,
    /// The paths alone.
    #[arg(long, conflicts_with = "patch")]
    name_only: bool,
    /// Line by line; the default.
    #[arg(long)]
    patch: bool,
    /// Only these paths.
    #[arg(last = true, value_name = "PATHSPEC")]
    paths: Vec<String>,
}

/// Shows it.
pub fn run(args: &Args, app: &App) -> Result<Answer, CommandError> {
    let plan = app.plan(&args.id)?;
    let lifecycle = app.lifecycle()?;
    let looked = lifecycle.look(plan)?;
    if looked.is_empty() {
        let text = "There is nothing to compare: the plan works on no repository, or nobody has \
                    begun to work on it.\n";
        return Ok(Answer::new(
            json!({ "plan_id": plan, "resources": [] }),
            text,
        ));
    }
    let shape = if args.stat {
        Shape::Stat
    } else if args.name_only {
        Shape::NameOnly
    } else {
        Shape::Patch
    };
    if app.format == Format::Json {
        return told(app, plan, &looked, args);
    }
    show(&looked, shape, &args.paths)?;
    Ok(Answer::new(json!(null), String::new()))
}

/// Shows a plan's changes line by line.
pub fn show_patch(app: &App, plan: plan::PlanId) -> Result<(), CommandError> {
    show(&app.lifecycle()?.look(plan)?, Shape::Patch, &[])
}

/// What goes to a program stays as it is, byte for byte, so that it can be applied; a person sees what is
/// in it.
fn show(looked: &[Looked], shape: Shape, paths: &[String]) -> Result<(), CommandError> {
    for one in looked {
        if looked.len() > 1 {
            let mut stdout = anstream::stdout().lock();
            let heading = ui::styled(ui::BOLD, format!("== {} ==", one.resource));
            let _ = writeln!(stdout, "{heading}");
        }
        let shown = if std::io::stdout().is_terminal() {
            show_to_a_person(one, shape, paths)
        } else {
            one.look.show(shape, paths, Stdio::inherit())
        };
        shown.map_err(lifecycle::Error::Sandbox)?;
        if shape == Shape::Stat {
            let _ = write!(anstream::stdout().lock(), "{}", ignored(&one.ignored));
        }
    }
    Ok(())
}

/// What became of ignored files, for people: nothing if there are none.
pub fn ignored(paths: &IgnoredPaths) -> String {
    let mut text = String::new();
    let IgnoredPaths {
        forced,
        withheld,
        left_out,
    } = paths;
    let mut say = |paths: &PathSummary, told: &str, style| {
        if !paths.is_empty() {
            let names = ui::clean(&paths.to_string());
            let note = format!("{told} ({}): {names}", paths.count);
            text.push_str(&format!("{}\n", ui::styled(style, note)));
        }
    };
    say(forced, "Ignored by git, added by the agent", ui::WARN);
    say(
        withheld,
        "Not captured, because it was there before the agent began",
        ui::WARN,
    );
    say(left_out, "Ignored by git and left out", ui::DIM);
    text
}

/// Through a pager where there is one.
fn show_to_a_person(one: &Looked, shape: Shape, paths: &[String]) -> Result<(), SandboxError> {
    let text = one.look.text(shape, paths)?;
    let shown = match shape {
        Shape::Patch => ui::patch(&text),
        Shape::Stat | Shape::NameOnly => ui::clean(&String::from_utf8_lossy(&text)),
    };
    let colourless =
        anstream::AutoStream::choice(&std::io::stdout()) == anstream::ColorChoice::Never;
    let shown = match colourless {
        true => anstream::adapter::strip_str(&shown).to_string(),
        false => shown,
    };
    let in_a_pager = shape == Shape::Patch && one.look.page(shown.as_bytes());
    if !in_a_pager {
        // A reader that went away is no error of ours.
        let _ = write!(anstream::stdout().lock(), "{shown}");
    }
    Ok(())
}

fn told(
    app: &App,
    plan: plan::PlanId,
    looked: &[Looked],
    args: &Args,
) -> Result<Answer, CommandError> {
    let mut resources = Vec::new();
    for one in looked {
        let counted = one
            .look
            .counted(&args.paths)
            .map_err(lifecycle::Error::Sandbox)?;
        let patch = if args.patch {
            let text = one
                .look
                .text(Shape::Patch, &args.paths)
                .map_err(lifecycle::Error::Sandbox)?;
            json!(String::from_utf8_lossy(&text))
        } else {
            json!(null)
        };
        resources.push(json!({
            "resource": one.resource,
            "files": counted,
            "insertions": counted.iter().filter_map(|file| file.insertions).sum::<u64>(),
            "deletions": counted.iter().filter_map(|file| file.deletions).sum::<u64>(),
            "patch": patch,
            "ignored": one.ignored,
        }));
    }
    let view = app.view(plan)?;
    Ok(Answer::new(
        json!({ "plan_id": plan, "resources": resources, "changesets": view.changesets }),
        String::new(),
    ))
}

/// One line on what changed, for people.
pub fn summary(looked: &[Looked], paths: &[String]) -> Result<String, CommandError> {
    let mut text = String::new();
    for one in looked {
        if looked.len() > 1 {
            text.push_str(&format!("{}\n", ui::styled(ui::BOLD, &one.resource)));
        }
        let shown = one
            .look
            .text(Shape::Stat, paths)
            .map_err(lifecycle::Error::Sandbox)?;
        text.push_str(&ui::clean(&String::from_utf8_lossy(&shown)));
        text.push_str(&ignored(&one.ignored));
    }
    Ok(text)
}
