//! `planwright review`: notes on a result before it lands: viewed files, chosen hunks, draft comments.

use std::collections::BTreeSet;

use api::plans::{self, ReviseRequest};
use api::reviews::{self, ChosenHunks, NewComment, ReviewChange, RewrittenComment, ViewedMark};
use api::view::{CommentStanding, DraftCommentView, HunkCounts, ReviewView, ReviewedFileView};
use clap::Subcommand;
use plan::PlanId;
use plan::changeset::TreePath;
use plan::review::{CommentId, DiffSide, HunkChoice, HunkStanding};

use crate::cli::App;
use crate::commands::drop::resolve_hunks;
use crate::commands::plan_arg::{may_name_plan, resolve_optional_plan};
use crate::commands::run::edit_text;
use crate::commands::{
    CommandAnswer, ConditionArgs, PlanArg, continue_unless_detached, hunk_picker,
};
use crate::error::CommandError;
use crate::ui;
use crate::wire::UserMessage;

/// Note comments and choices on a result, and send them to the agent
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct ReviewArgs {
    #[command(flatten)]
    plan: PlanArg,
    /// Go through the hunks one by one and choose which land
    #[arg(long)]
    pick: bool,
    #[command(subcommand)]
    change: Option<ReviewCommand>,
}

#[derive(Debug, Subcommand)]
enum ReviewCommand {
    /// Comment on lines of a changed file
    #[command(override_usage = "planwright review add [OPTIONS] [PLAN] <PATH:LINE[-LINE]> [TEXT]")]
    Add(AddArgs),
    /// Change the text of a draft comment
    #[command(override_usage = "planwright review edit [PLAN] <NUMBER> [TEXT]")]
    Edit {
        /// Plan, number of the comment and its new text; without a text, opens your editor
        #[arg(value_name = "WORD", required = true, num_args = 1..=3)]
        words: Vec<String>,
    },
    /// Delete draft comments
    #[command(override_usage = "planwright review drop [PLAN] <NUMBER>...")]
    Drop {
        /// Plan and numbers of comments
        #[arg(value_name = "WORD", required = true)]
        words: Vec<String>,
    },
    /// Accept hunks
    Accept(ChooseArgs),
    /// Reject hunks: they stay out when you land the accepted ones
    Reject(ChooseArgs),
    /// Mark files as viewed, until their content changes
    Viewed(ViewedArgs),
    /// Send the draft comments to the agent, with a message
    #[command(override_usage = "planwright review send [OPTIONS] [PLAN] [MESSAGE]")]
    Send(SendArgs),
}

#[derive(Debug, clap::Args)]
struct AddArgs {
    /// Plan, place and text; without a text, opens your editor
    #[arg(value_name = "WORD", required = true, num_args = 1..=3)]
    words: Vec<String>,
    /// The lines are those before the change
    #[arg(long)]
    old: bool,
    /// The file is in this resource, if the plan has several
    #[arg(long, value_name = "NAME")]
    resource: Option<String>,
}

#[derive(Debug, clap::Args)]
struct ChooseArgs {
    /// Plan ID or handle, or @ for the plan you used last
    id: String,
    /// Hunks, as listed by `diff --hunks`
    #[arg(value_name = "HUNK", required = true)]
    hunks: Vec<String>,
}

#[derive(Debug, clap::Args)]
struct ViewedArgs {
    /// Plan ID or handle, or @ for the plan you used last
    id: String,
    /// Changed files
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<String>,
    /// Take the marks back
    #[arg(long)]
    not: bool,
}

#[derive(Debug, clap::Args)]
struct SendArgs {
    /// Plan and message
    #[arg(value_name = "WORD", num_args = 0..=2)]
    words: Vec<String>,
    /// Send only this comment; repeat for more
    #[arg(long, value_name = "NUMBER")]
    comment: Vec<CommentId>,
    /// Leave the work to a worker instead of continuing here
    #[arg(long)]
    detach: bool,
    #[command(flatten)]
    conditions: ConditionArgs,
}

pub fn run(args: &ReviewArgs, app: &App) -> Result<CommandAnswer, CommandError> {
    match &args.change {
        None => {
            let plan_id = args.plan.resolve(app)?;
            if args.pick {
                hunk_picker::pick_hunks(app, plan_id)?;
            }
            show_review(app, plan_id)
        }
        Some(ReviewCommand::Add(args)) => add_comment(args, app),
        Some(ReviewCommand::Edit { words }) => edit_comment(words, app),
        Some(ReviewCommand::Drop { words }) => drop_comments(words, app),
        Some(ReviewCommand::Accept(args)) => choose_hunks(args, HunkChoice::Accepted, app),
        Some(ReviewCommand::Reject(args)) => choose_hunks(args, HunkChoice::Rejected, app),
        Some(ReviewCommand::Viewed(args)) => mark_viewed(args, app),
        Some(ReviewCommand::Send(args)) => send_comments(args, app),
    }
}

fn add_comment(args: &AddArgs, app: &App) -> Result<CommandAnswer, CommandError> {
    let (plan, rest) = split_plan(app, &args.words, |word| parse_place(word).is_some())?;
    let Some((place, text)) = rest.split_first() else {
        return Err(CommandError::usage(
            "Name the lines: PATH:LINE or PATH:LINE-LINE.",
        ));
    };
    let Some((path, first_line, last_line)) = parse_place(place) else {
        return Err(CommandError::usage(format!(
            "`{place}` does not name lines. Write PATH:LINE or PATH:LINE-LINE."
        )));
    };
    let comment = NewComment {
        resource: args.resource.clone(),
        path: TreePath::new(path).map_err(|error| CommandError::usage(error.to_string()))?,
        side: match args.old {
            true => DiffSide::Old,
            false => DiffSide::New,
        },
        first_line,
        last_line,
        quote: None,
        text: text_or_ask(app, text, "Comment on the lines:")?,
    };
    change_review(app, plan, &[ReviewChange::Comment(comment)])
}

fn edit_comment(words: &[String], app: &App) -> Result<CommandAnswer, CommandError> {
    let (plan, rest) = split_plan(app, words, is_comment_number)?;
    let Some((number, text)) = rest.split_first() else {
        return Err(CommandError::usage("Name the comment by its number."));
    };
    let rewritten = RewrittenComment {
        id: parse_comment_number(number)?,
        text: text_or_ask(app, text, "New text of the comment:")?,
    };
    change_review(app, plan, &[ReviewChange::Rewrite(rewritten)])
}

fn drop_comments(words: &[String], app: &App) -> Result<CommandAnswer, CommandError> {
    let (plan, rest) = split_plan(app, words, is_comment_number)?;
    if rest.is_empty() {
        return Err(CommandError::usage("Name the comments by their numbers."));
    }
    let ids = rest.iter().map(|word| parse_comment_number(word));
    let ids = ids.collect::<Result<_, _>>()?;
    change_review(app, plan, &[ReviewChange::Drop(ids)])
}

fn choose_hunks(
    args: &ChooseArgs,
    choice: HunkChoice,
    app: &App,
) -> Result<CommandAnswer, CommandError> {
    let plan_id = app.resolve_plan(&args.id)?;
    let choices = ChosenHunks {
        hunks: resolve_hunks(app, plan_id, &args.hunks)?,
        choice: Some(choice),
    };
    change_review(app, plan_id, &[ReviewChange::Choose(choices)])
}

fn mark_viewed(args: &ViewedArgs, app: &App) -> Result<CommandAnswer, CommandError> {
    let plan_id = app.resolve_plan(&args.id)?;
    let review = read_review(app, plan_id)?;
    let mut changes = Vec::new();
    for path in &args.paths {
        let matching = review
            .files
            .iter()
            .filter(|file| file.path.as_bytes() == path.as_bytes());
        let marks = matching.map(|file| {
            ReviewChange::View(ViewedMark {
                resource: Some(file.resource.clone()),
                path: file.path.clone(),
                blob: file.blob.clone(),
                viewed: !args.not,
            })
        });
        let before = changes.len();
        changes.extend(marks);
        if changes.len() == before {
            let path = TreePath::new(path.as_bytes());
            let path = path.map_err(|error| CommandError::usage(error.to_string()))?;
            return Err(reviews::ReviewError::NotChanged(path).into());
        }
    }
    change_review(app, plan_id, &changes)
}

fn send_comments(args: &SendArgs, app: &App) -> Result<CommandAnswer, CommandError> {
    let (plan_id, message) = match args.words.as_slice() {
        [] => (resolve_optional_plan(app, None)?, ""),
        [word] if may_name_plan(app, word)? => (app.resolve_plan(word)?, ""),
        [message] => (resolve_optional_plan(app, None)?, message.as_str()),
        [plan, message, ..] => (app.resolve_plan(plan)?, message.as_str()),
    };
    // A repeated request finds no drafts any more, so it could not be told from another one.
    if args.comment.is_empty() && args.conditions.has_key() {
        return Err(CommandError::usage(
            "With --idempotency-key, name the comments to send: --comment NUMBER",
        ));
    }
    let comments = match args.comment.is_empty() {
        true => list_drafts(app, plan_id)?,
        false => args.comment.iter().copied().collect(),
    };
    let call = args.conditions.apply_to(app.new_call());
    if comments.is_empty() {
        return Err(CommandError::usage("There are no draft comments to send.")
            .with_kind("no_comments")
            .with_hint("planwright review add PATH:LINE \"TEXT\"")
            .with_hint("To send a message alone: planwright revise \"TEXT\""));
    }
    let request = ReviseRequest {
        text: message.to_owned(),
        comments,
        ..ReviseRequest::default()
    };
    let gone = describe_lost_places(&read_review(app, plan_id)?, &request.comments);
    let done = plans::revise_plan(app.lifecycle()?, plan_id, &request, &call)?;
    let mut answer = continue_unless_detached(args.detach, app, &done)?;
    answer.messages.extend(gone);
    Ok(answer)
}

/// The drafts of the caller's review.
pub fn list_drafts(app: &App, plan_id: PlanId) -> Result<BTreeSet<CommentId>, CommandError> {
    let review = app
        .lifecycle()?
        .read_review(plan_id, app.new_call().caller())?;
    Ok(review.comments.iter().map(|draft| draft.id).collect())
}

pub fn read_review(app: &App, plan_id: PlanId) -> Result<ReviewView, CommandError> {
    let call = app.new_call();
    Ok(reviews::view_review(
        app.lifecycle()?,
        plan_id,
        call.caller(),
    )?)
}

fn change_review(
    app: &App,
    plan_id: PlanId,
    changes: &[ReviewChange],
) -> Result<CommandAnswer, CommandError> {
    reviews::edit_review(app.lifecycle()?, plan_id, changes, &app.new_call())?;
    show_review(app, plan_id)
}

fn show_review(app: &App, plan_id: PlanId) -> Result<CommandAnswer, CommandError> {
    let view = read_review(app, plan_id)?;
    let handle = app.lifecycle()?.short_handle(plan_id)?;
    let mut answer = CommandAnswer::new(&view, render_review(&view, &handle));
    if !view.comments.is_empty() {
        answer = answer.with_hint(format!("planwright review send {handle}"));
    }
    if view.pickable.is_some() && view.hunks.undecided > 0 {
        answer = answer.with_hint(format!("planwright review {handle} --pick"));
    } else if view.pickable.is_some() && view.hunks.rejected > 0 {
        answer = answer.with_hint(format!("planwright apply {handle} --pick"));
    }
    Ok(answer)
}

fn render_review(view: &ReviewView, handle: &str) -> String {
    let result = view.result.map(|number| format!(" r{number}"));
    let mut text = format!(
        "{}{} · {} · {}\n",
        ui::style_text(ui::BOLD, handle),
        result.unwrap_or_default(),
        ui::pluralize(view.files.len() as u64, "file"),
        describe_counts(&view.hunks),
    );
    for file in &view.files {
        text.push_str(&render_file(file));
    }
    if !view.comments.is_empty() {
        text.push_str("Draft comments:\n");
    }
    for comment in &view.comments {
        text.push_str(&render_comment(comment));
    }
    text
}

/// For example `7 hunks: 2 rejected, 1 undecided`.
pub fn describe_counts(counts: &HunkCounts) -> String {
    let hunks = ui::pluralize(counts.total as u64, "hunk");
    let parts = [
        (counts.accepted, "accepted"),
        (counts.rejected, "rejected"),
        (counts.undecided, "undecided"),
    ];
    let parts = parts.into_iter().filter(|(count, _)| *count > 0);
    let parts: Vec<String> = parts
        .map(|(count, word)| format!("{count} {word}"))
        .collect();
    match parts.is_empty() {
        true => hunks,
        false => format!("{hunks}: {}", parts.join(", ")),
    }
}

fn render_file(file: &ReviewedFileView) -> String {
    let mark = match file.viewed {
        true => ui::style_text(ui::GOOD, "✓"),
        false => " ".to_owned(),
    };
    let path = ui::escape_controls(&file.path.to_string());
    let counts = match (file.insertions, file.deletions) {
        (Some(added), Some(removed)) => ui::style_line_counts(added as u64, removed as u64),
        (None, _) | (_, None) => "binary".to_owned(),
    };
    let mut text = format!("  {mark} {path} {counts}\n");
    for hunk in &file.hunks {
        let (word, style) = match hunk.standing {
            HunkStanding::Unmarked => continue,
            HunkStanding::Accepted => ("accepted", ui::GOOD),
            HunkStanding::Rejected => ("rejected", ui::BAD),
            HunkStanding::Undecided => ("undecided", ui::WARN),
        };
        let id = ui::style_text(ui::CODE, &hunk.short);
        text.push_str(&format!("      {id} {}\n", ui::style_text(style, word)));
    }
    text
}

fn render_comment(comment: &DraftCommentView) -> String {
    let path = ui::escape_controls(&comment.path.to_string());
    let lines = match (comment.first_line, comment.last_line) {
        (first, last) if first == last => first.to_string(),
        (first, last) => format!("{first}-{last}"),
    };
    let side = match comment.side {
        DiffSide::Old => " (before the change)",
        DiffSide::New => "",
    };
    let note = match (comment.place, comment.found_at) {
        (CommentStanding::Current, _) => String::new(),
        (CommentStanding::Moved, Some(line)) => format!(" (now at line {line})"),
        (CommentStanding::Moved | CommentStanding::LinesGone, _) => {
            " (its lines changed)".to_owned()
        }
        (CommentStanding::FileGone, _) => " (the plan no longer changes this file)".to_owned(),
    };
    let note = ui::style_text(ui::WARN, note);
    let mut text = format!("  {} {path}:{lines}{side}{note}\n", comment.id);
    for quoted in comment.quote.split('\n').take(3) {
        let quoted = ui::truncate_line(
            &format!("> {quoted}"),
            ui::terminal_width().saturating_sub(6),
        );
        text.push_str(&format!("      {}\n", ui::style_text(ui::DIM, quoted)));
    }
    for line in comment.text.lines() {
        text.push_str(&format!("      {}\n", ui::escape_controls(line)));
    }
    text
}

/// Says which of the sent comments are about lines that are gone. They are sent with the code that they quote.
fn describe_lost_places(view: &ReviewView, sent: &BTreeSet<CommentId>) -> Vec<UserMessage> {
    let sent = view
        .comments
        .iter()
        .filter(|comment| sent.contains(&comment.id));
    let lost = sent.filter_map(|comment| {
        let what = match comment.place {
            CommentStanding::Current | CommentStanding::Moved => return None,
            CommentStanding::LinesGone => "lines that changed since",
            CommentStanding::FileGone => "a file that the plan no longer changes",
        };
        Some(UserMessage {
            level: "info",
            text: format!(
                "Comment {} is about {what}; it was sent with its quote.",
                comment.id
            ),
        })
    });
    lost.collect()
}

/// Reads `[PLAN] REST…`: the first of several words names a plan unless it is the first of the rest.
fn split_plan<'a>(
    app: &App,
    words: &'a [String],
    is_rest: impl Fn(&str) -> bool,
) -> Result<(PlanId, &'a [String]), CommandError> {
    match words {
        [first, rest @ ..] if !rest.is_empty() && !is_rest(first) => {
            Ok((app.resolve_plan(first)?, rest))
        }
        rest => Ok((resolve_optional_plan(app, None)?, rest)),
    }
}

/// Parses `PATH:LINE` or `PATH:LINE-LINE`.
fn parse_place(word: &str) -> Option<(&str, u32, u32)> {
    let (path, lines) = word.rsplit_once(':').filter(|(path, _)| !path.is_empty())?;
    let (first, last) = lines.split_once('-').unwrap_or((lines, lines));
    let (first, last) = (first.parse().ok()?, last.parse().ok()?);
    Some((path, first, last))
}

/// A word of four digits or more may be a handle.
fn is_comment_number(word: &str) -> bool {
    word.len() < 4 && word.parse::<CommentId>().is_ok()
}

fn parse_comment_number(word: &str) -> Result<CommentId, CommandError> {
    word.parse()
        .map_err(|error: plan::review::ParseCommentIdError| CommandError::usage(error.to_string()))
}

fn text_or_ask(app: &App, text: &[String], question: &str) -> Result<String, CommandError> {
    if let [text, ..] = text {
        return Ok(text.clone());
    }
    if !ui::can_ask_person(app.format) {
        return Err(CommandError::usage("The text is missing."));
    }
    let template = format!("\n# {question}\n# Lines that start with # are left out.\n");
    let typed = match edit_text(app, "comment", &template)? {
        Some(written) => Some(written.trim().to_owned()),
        None => ui::ask_person(&format!("{question} ")),
    };
    let typed = typed.filter(|text| !text.is_empty());
    typed.ok_or_else(|| CommandError::usage("Nothing was written, so nothing changed."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_parsed_from_the_end() {
        assert_eq!(parse_place("a.rs:3"), Some(("a.rs", 3, 3)));
        assert_eq!(parse_place("a:b/c:3-14"), Some(("a:b/c", 3, 14)));
        for bad in [
            "", "a.rs", ":3", "a.rs:", "a.rs:x", "a.rs:-3", "a.rs:3-", "k3f9",
        ] {
            assert_eq!(parse_place(bad), None, "{bad}");
        }
    }
}
