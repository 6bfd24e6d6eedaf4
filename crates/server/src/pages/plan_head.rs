//! The head of a plan's pages: what it is, where it stands, and what can be done.

use api::PlanStanding;
use api::plans::MIN_REQUEST_DIGITS;
use api::results::list_results;
use api::standing::StandingTone;
use api::view::{PermissionView, PlanErrorView, ResultView};
use plan::changeset::TreePath;
use plan::stage::ConstraintKind;
use plan::{LandingOptions, PlanId};

use super::offered_forms::OfferedForms;
use super::visible::{format_age, visible};
use crate::engine_access::EngineView;
use crate::failure::EngineFailure;

/// What all pages of a plan show.
pub struct PlanHead {
    pub plan_id: String,
    pub handle: String,
    pub goal: String,
    pub agent: String,
    /// The rest of a goal of several lines.
    pub details: String,
    pub standing: &'static str,
    pub class: &'static str,
    /// The icon of its standing.
    pub icon: &'static str,
    pub version: u64,
    pub facts: Vec<String>,
    pub report: String,
    pub question: String,
    /// The tool call that the agent waits for.
    pub permission: Option<PermissionCard>,
    pub error: String,
    /// What to tell the agent about a conflict with the target; nothing if there is none.
    pub conflict_feedback: String,
    pub target: String,
    /// `review`, `activity`, `why`, or nothing for the preview.
    pub tab: &'static str,
    pub is_live: bool,
    /// Its results, oldest first.
    pub results: Vec<ResultLink>,
    /// The number of the last result; 0 if there is none.
    pub last_result: u32,
    /// Digest of the result that a landing would land; empty if there is none.
    pub result_digest: String,
}

/// One result, as the head links to it.
pub struct ResultLink {
    pub number: u32,
    pub title: String,
    pub is_shown: bool,
    /// What is shown is what changed since this one.
    pub is_compared: bool,
}

impl PlanHead {
    /// Marks what is shown: nothing for the current result, `r2`, `r1..r3` or `r1..`.
    pub fn with_results(mut self, results: &[ResultView], shown: &str) -> Self {
        let (from, to) = match shown.split_once("..") {
            Some((from, "")) => (from, format!("r{}", results.len())),
            Some((from, to)) => (from, to.to_owned()),
            None if shown.is_empty() => ("", format!("r{}", results.len())),
            None => ("", shown.to_owned()),
        };
        self.results = results
            .iter()
            .map(|result| ResultLink {
                number: result.number,
                title: describe_result(result),
                is_shown: to == format!("r{}", result.number),
                is_compared: from == format!("r{}", result.number),
            })
            .collect();
        self.last_result = results.last().map_or(0, |result| result.number);
        self
    }

    /// `from r1 to r3`, or `since r2`.
    pub fn range_in_words(&self, shown: &str) -> String {
        let (from, to) = shown.split_once("..").unwrap_or((shown, ""));
        match to.is_empty() || to == format!("r{}", self.last_result) {
            true => format!("since {from}"),
            false => format!("from {from} to {to}"),
        }
    }

    /// What the button of the footer does.
    pub fn describe_decision(&self, forms: &OfferedForms) -> String {
        let shown = self.results.iter().find(|result| result.is_shown);
        let shown = shown.map_or(self.last_result, |result| result.number);
        let last = self.last_result;
        let place = match self.target.is_empty() {
            true => String::new(),
            false => format!(" and lands it on {}", self.target),
        };
        if forms.land && shown != last {
            return format!("You look at r{shown}. The button approves r{last}{place}.");
        }
        if forms.land && last > 0 {
            return format!("Approves r{last}{place}.");
        }
        if forms.undo {
            return "Makes a plan that takes this change back.".to_owned();
        }
        if forms.retry {
            return "Queues the plan again.".to_owned();
        }
        String::new()
    }
}

/// How many paths of a conflict the agent is told.
const MAX_CONFLICT_PATHS: usize = 20;

fn describe_conflict(target: &str, paths: &[TreePath]) -> String {
    let names: Vec<String> = paths
        .iter()
        .take(MAX_CONFLICT_PATHS)
        .map(|path| visible(&path.to_string()))
        .collect();
    format!(
        "{target} changed the same lines since you began: {}. Start from what is there now, and make your change again.",
        names.join(", ")
    )
}

fn describe_result(result: &ResultView) -> String {
    let source = match result.source {
        "picked" => "A part, picked",
        "created" => "Created",
        _ => "Made",
    };
    let report = result.report.as_deref().unwrap_or_default();
    let report = visible(report.lines().next().unwrap_or_default());
    format!("{source} by {}. {report}", visible(&result.by))
}

/// A tool call, as a person decides it.
pub struct PermissionCard {
    pub request: String,
    pub summary: String,
    pub input: String,
    pub reason: String,
}

impl PermissionCard {
    fn new(view: &PermissionView) -> Self {
        Self {
            request: view.request.to_string(),
            summary: visible(&view.summary),
            input: visible(view.input.as_deref().unwrap_or_default()),
            reason: visible(&view.reason),
        }
    }

    /// The digits that a person types in a terminal.
    pub fn short_request(&self) -> &str {
        &self.request[..MIN_REQUEST_DIGITS]
    }
}

pub fn read_head(
    engine: &EngineView<'_>,
    plan_id: PlanId,
    tab: &'static str,
) -> Result<(PlanHead, OfferedForms), EngineFailure> {
    let lifecycle = engine.lifecycle;
    let row = lifecycle.get_plan(plan_id)?;
    let view = api::plans::get_plan_view(lifecycle, plan_id)?;
    let summary = api::plan_list::summarize_plan(lifecycle, &row, engine.viewer)?;
    let forms = OfferedForms::new(&summary.next_steps);
    let age = lifecycle.store().now()?.0 - summary.updated_at.0;
    let mut facts = vec![view.actors.execution.clone()];
    if let Some(resource) = view.resources.first() {
        facts.push(resource.project.clone());
    }
    facts.push(format!("profile {}", view.profile));
    if view.used.seconds > 0 {
        facts.push(format_age(
            i64::try_from(view.used.seconds)
                .unwrap_or(i64::MAX)
                .saturating_mul(1_000_000),
        ));
    }
    if view.used.cost_micros > 0 {
        facts.push(format_cost(view.used.cost_micros));
    }
    if view.attempt > 1 {
        facts.push(format!("attempt {}", view.attempt));
    }
    facts.push(format!("{} ago", format_age(age)));
    let goal = visible(&view.goal);
    let (goal, details) = goal.split_once('\n').unwrap_or((&goal, ""));
    let target = view.resources.iter().find_map(|one| one.target.as_deref());
    let target = target.map_or("", |target| {
        target.strip_prefix("refs/heads/").unwrap_or(target)
    });
    let results = match tab.is_empty() {
        true => Vec::new(),
        false => list_results(lifecycle, plan_id)?,
    };
    let result_digest = row.plan.result().map_or_else(String::new, |result| {
        result.digest(&LandingOptions::default()).to_string()
    });
    let conflict_feedback = match &view.error {
        Some(PlanErrorView::Constraint {
            category: ConstraintKind::Conflict,
            paths,
            ..
        }) if !paths.is_empty() => describe_conflict(target, paths),
        Some(PlanErrorView::Constraint { .. } | PlanErrorView::Failure { .. }) | None => {
            String::new()
        }
    };
    Ok((
        PlanHead {
            conflict_feedback,
            plan_id: plan_id.to_string(),
            handle: summary.handle,
            goal: goal.to_owned(),
            details: details.to_owned(),
            agent: view.actors.execution.clone(),
            standing: summary.standing.as_str(),
            class: tone_class(summary.standing),
            icon: standing_icon(summary.standing),
            version: view.version,
            facts,
            report: visible(view.report.as_deref().unwrap_or_default()),
            question: view.question.map_or(String::new(), |it| visible(&it.text)),
            permission: view.permission.as_ref().map(PermissionCard::new),
            error: match view.error {
                Some(
                    PlanErrorView::Failure { message, .. }
                    | PlanErrorView::Constraint { message, .. },
                ) => visible(&message),
                None => String::new(),
            },
            target: target.to_owned(),
            tab,
            is_live: is_live(summary.standing),
            results: Vec::new(),
            last_result: 0,
            result_digest,
        }
        .with_results(&results, ""),
        forms,
    ))
}

/// Money in dollars; nothing if it is none.
pub fn format_cost(micros: u64) -> String {
    if micros == 0 {
        return String::new();
    }
    #[expect(clippy::cast_precision_loss, reason = "shown with two digits")]
    let dollars = micros as f64 / 1_000_000.0;
    format!("${dollars:.2}")
}

/// The class of a standing's colour and icon.
pub fn tone_class(standing: PlanStanding) -> &'static str {
    match standing.tone() {
        _ if is_live(standing) => "working",
        StandingTone::Good => "good",
        StandingTone::Neutral | StandingTone::Quiet => "waiting",
        StandingTone::Attention => "attention",
        StandingTone::Bad => "bad",
    }
}

/// The icon of a standing: its id in the shell, without `i-`.
pub fn standing_icon(standing: PlanStanding) -> &'static str {
    match standing {
        PlanStanding::Thinking | PlanStanding::Working | PlanStanding::Landing => "working",
        PlanStanding::NeedsAnswer => "question",
        PlanStanding::WaitingForPerson
        | PlanStanding::StrategyReady
        | PlanStanding::NeedsReview
        | PlanStanding::Approved
        | PlanStanding::Interrupted => "review",
        PlanStanding::Blocked => "blocked",
        PlanStanding::Conflict => "conflict",
        PlanStanding::Failed => "failed",
        PlanStanding::Waiting | PlanStanding::Ready => "waiting",
        PlanStanding::Landed | PlanStanding::Done => "landed",
        PlanStanding::Undone => "undone",
        PlanStanding::Cancelled => "cancelled",
    }
}

/// Whether something happens with the plan right now.
fn is_live(standing: PlanStanding) -> bool {
    matches!(
        standing,
        PlanStanding::Thinking | PlanStanding::Working | PlanStanding::Landing
    )
}
