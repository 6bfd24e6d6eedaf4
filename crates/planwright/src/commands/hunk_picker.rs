//! Goes through the hunks of a result on a terminal, one at a time, and stores a choice for each at once. Interrupted
//! anywhere, it loses nothing.

use std::collections::BTreeSet;

use api::results::{self, LineDetail, ResultRange};
use api::reviews::{self, ChosenHunks, NewComment, ReviewChange};
use api::view::{ChangesView, FileDiffView, HunkView, ReviewView};
use plan::review::{DiffSide, HunkChoice, HunkStanding};
use plan::{Digest, HunkId, PlanId};

use crate::cli::App;
use crate::commands::{diff, review};
use crate::error::CommandError;
use crate::exit::CommandExit;
use crate::ui::{self, PromptOutcome};

const CONTEXT_LINES: usize = 3;

/// Lines of a hunk on the screen.
const MAX_SHOWN_LINES: usize = 100;

const KEYS: &str = "y,n,a,d,j,k,q,c,?";

const KEY_HELP: &str = "\
y  accept this hunk
n  reject this hunk
a  accept this hunk and all later ones in the file
d  reject this hunk and all later ones in the file
j  leave it for now, go to the next
k  go to the previous
q  stop here; choices are kept
c  comment on this hunk
?  show this list
";

/// What was chosen.
pub struct PickedHunks {
    /// The result that the choices are about.
    pub shown: Digest,
    /// Hunks that were not rejected.
    pub accepted: BTreeSet<HunkId>,
    pub review: ReviewView,
}

impl PickedHunks {
    /// For example `5 of 7 hunks`.
    pub fn describe(&self) -> String {
        let total = self.review.hunks.total as u64;
        format!(
            "{} of {}",
            self.accepted.len(),
            ui::pluralize(total, "hunk")
        )
    }

    pub fn list_rejected(&self) -> BTreeSet<HunkId> {
        let hunks = self.review.files.iter().flat_map(|file| &file.hunks);
        let rejected = hunks.filter(|hunk| hunk.standing == HunkStanding::Rejected);
        rejected.map(|hunk| hunk.id).collect()
    }

    /// Refuses to land while a hunk is undecided, or if nothing is left.
    pub fn require_landable(&self) -> Result<(), CommandError> {
        let undecided = self.review.hunks.undecided as u64;
        if undecided > 0 {
            let hunks = ui::pluralize(undecided, "hunk");
            return Err(CommandError::new(
                CommandExit::Conflict,
                format!("Can't land yet: {hunks} undecided."),
            )
            .with_kind("undecided")
            .with_hint("planwright review ID --pick"));
        }
        if self.accepted.is_empty() {
            return Err(CommandError::new(
                CommandExit::Conflict,
                "Can't land: every hunk is rejected.",
            )
            .with_kind("nothing_picked")
            .with_hint("To give up the whole result: planwright cancel ID"));
        }
        Ok(())
    }

    pub fn is_whole_result(&self) -> bool {
        self.accepted.len() == self.review.hunks.total
    }
}

/// Asks about every hunk of the current result. Returns what is chosen in the end.
pub fn pick_hunks(app: &App, plan_id: PlanId) -> Result<PickedHunks, CommandError> {
    if !ui::can_ask_person(app.format) {
        return Err(
            CommandError::new(CommandExit::NeedsPerson, "Picking hunks needs a terminal.")
                .with_hint("List the hunks: planwright diff ID --hunks")
                .with_hint("planwright review reject ID HUNK..."),
        );
    }
    let detail = LineDetail::Lines {
        context: CONTEXT_LINES,
    };
    let lifecycle = app.lifecycle()?;
    let changes = results::list_hunks(lifecycle, plan_id, ResultRange::Current, &[], detail)?;
    if changes.pickable.is_none() {
        return Err(no_result());
    }
    let steps = list_steps(&changes);
    let mut at = first_open_step(&steps, &review::read_review(app, plan_id)?);
    while let Some(step) = steps.get(at) {
        let review = review::read_review(app, plan_id)?;
        if review.pickable != changes.pickable {
            return Err(plan_changed());
        }
        let standing = standing_of(&review, step.hunk.id);
        write_stderr(&render_step(step, standing));
        let question = format!("({}/{}) Land this hunk [{KEYS}]? ", at + 1, steps.len());
        let PromptOutcome::Answered(key) = ui::ask_person_while(&question, || true) else {
            break;
        };
        match key.as_str() {
            "y" => {
                choose(app, plan_id, [step.hunk.id].into(), HunkChoice::Accepted)?;
                at += 1;
            }
            "n" => {
                choose(app, plan_id, [step.hunk.id].into(), HunkChoice::Rejected)?;
                at += 1;
            }
            "a" | "d" => {
                let rest = steps[at..]
                    .iter()
                    .take_while(|other| other.file_number == step.file_number);
                let rest: BTreeSet<HunkId> = rest.map(|other| other.hunk.id).collect();
                at += rest.len();
                let choice = match key.as_str() {
                    "a" => HunkChoice::Accepted,
                    _ => HunkChoice::Rejected,
                };
                choose(app, plan_id, rest, choice)?;
            }
            "j" => at += 1,
            "k" => at = at.saturating_sub(1),
            "q" => break,
            "c" => comment_on(app, plan_id, step)?,
            _ => write_stderr(KEY_HELP),
        }
    }
    let review = review::read_review(app, plan_id)?;
    let Some(shown) = review
        .pickable
        .filter(|_| review.pickable == changes.pickable)
    else {
        return Err(plan_changed());
    };
    let hunks = review.files.iter().flat_map(|file| &file.hunks);
    let accepted = hunks.filter(|hunk| match hunk.standing {
        HunkStanding::Unmarked | HunkStanding::Accepted => true,
        HunkStanding::Rejected | HunkStanding::Undecided => false,
    });
    Ok(PickedHunks {
        shown,
        accepted: accepted.map(|hunk| hunk.id).collect(),
        review,
    })
}

/// One hunk with the files that it changes: several if they only make sense together.
struct PickStep<'a> {
    file_number: usize,
    files: Vec<&'a FileDiffView>,
    hunk: &'a HunkView,
}

fn list_steps(changes: &ChangesView) -> Vec<PickStep<'_>> {
    let mut steps: Vec<PickStep<'_>> = Vec::new();
    for (file_number, file) in changes.files.iter().enumerate() {
        for hunk in &file.hunks {
            match steps.iter_mut().find(|step| step.hunk.id == hunk.id) {
                Some(step) => step.files.push(file),
                None => steps.push(PickStep {
                    file_number,
                    files: vec![file],
                    hunk,
                }),
            }
        }
    }
    steps
}

/// Undecided hunks come first, then those without a choice.
fn first_open_step(steps: &[PickStep<'_>], review: &ReviewView) -> usize {
    let first_of = |standing| {
        let mut standings = steps.iter().map(|step| standing_of(review, step.hunk.id));
        standings.position(|other| other == standing)
    };
    first_of(HunkStanding::Undecided)
        .or_else(|| first_of(HunkStanding::Unmarked))
        .unwrap_or(0)
}

fn standing_of(review: &ReviewView, hunk: HunkId) -> HunkStanding {
    let mut hunks = review.files.iter().flat_map(|file| &file.hunks);
    let found = hunks.find(|other| other.id == hunk);
    found.map_or(HunkStanding::Unmarked, |hunk| hunk.standing)
}

fn render_step(step: &PickStep<'_>, standing: HunkStanding) -> String {
    let mut text = String::new();
    for file in &step.files {
        let lines = diff::render_hunk(file, step.hunk);
        let shown: Vec<&str> = lines.lines().take(MAX_SHOWN_LINES).collect();
        let left_out = lines.lines().count() - shown.len();
        let path = ui::escape_controls(&file.path.to_string());
        text.push_str(&format!(
            "{}\n{}\n",
            ui::style_text(ui::BOLD, path),
            shown.join("\n")
        ));
        if left_out > 0 {
            let note = format!("    … {}", ui::pluralize(left_out as u64, "more line"));
            text.push_str(&format!("{}\n", ui::style_text(ui::DIM, note)));
        }
    }
    match standing {
        HunkStanding::Unmarked => {}
        HunkStanding::Accepted => text.push_str(&note_line(ui::GOOD, "accepted so far")),
        HunkStanding::Rejected => text.push_str(&note_line(ui::BAD, "rejected so far")),
        HunkStanding::Undecided => text.push_str(&note_line(
            ui::WARN,
            "undecided: new since you chose a hunk of this file",
        )),
    }
    text
}

fn note_line(style: anstyle::Style, note: &str) -> String {
    format!("  {}\n", ui::style_text(style, note))
}

fn choose(
    app: &App,
    plan_id: PlanId,
    hunks: BTreeSet<HunkId>,
    choice: HunkChoice,
) -> Result<(), CommandError> {
    let choices = ChosenHunks {
        hunks,
        choice: Some(choice),
    };
    let change = ReviewChange::Choose(choices);
    reviews::edit_review(app.lifecycle()?, plan_id, &[change], &app.new_call())?;
    Ok(())
}

fn comment_on(app: &App, plan_id: PlanId, step: &PickStep<'_>) -> Result<(), CommandError> {
    let Some(region) = step.hunk.regions.first() else {
        write_stderr("This hunk has no lines to comment on.\n");
        return Ok(());
    };
    let Some(text) = ui::ask_person("Comment: ").filter(|text| !text.is_empty()) else {
        return Ok(());
    };
    let (side, first, count) = match region.new_lines {
        0 => (DiffSide::Old, region.old_start, region.old_lines),
        count => (DiffSide::New, region.new_start, count),
    };
    let file = step.files[0];
    let path = match (side, &file.from) {
        (DiffSide::Old, Some(from)) => from,
        (DiffSide::Old | DiffSide::New, _) => &file.path,
    };
    let line = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    let comment = NewComment {
        resource: Some(file.resource.clone()),
        path: path.clone(),
        side,
        first_line: line(first),
        last_line: line(first + count - 1),
        quote: None,
        text,
    };
    let change = ReviewChange::Comment(comment);
    reviews::edit_review(app.lifecycle()?, plan_id, &[change], &app.new_call())?;
    Ok(())
}

fn no_result() -> CommandError {
    CommandError::new(
        CommandExit::Conflict,
        "The plan has no result to pick from.",
    )
    .with_kind("nothing_to_pick")
}

fn plan_changed() -> CommandError {
    CommandError::new(CommandExit::Conflict, "The result changed meanwhile.")
        .with_kind("result_changed")
        .with_hint("Your choices are kept. Go on with the new result: planwright review ID --pick")
}

fn write_stderr(text: &str) {
    use std::io::Write;
    let _ = write!(anstream::stderr().lock(), "{text}");
}
