//! The head of a plan's pages: what it is, where it stands, and what can be done.

use api::PlanStanding;
use api::plans::MIN_REQUEST_DIGITS;
use api::standing::StandingTone;
use api::view::{PermissionView, PlanErrorView};
use plan::PlanId;

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
    pub version: u64,
    pub facts: Vec<String>,
    pub report: String,
    pub question: String,
    /// The tool call that the agent waits for.
    pub permission: Option<PermissionCard>,
    pub error: String,
    pub target: String,
    /// `review`, `activity`, `why`, or nothing for the preview.
    pub tab: &'static str,
    pub is_live: bool,
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
    Ok((
        PlanHead {
            plan_id: plan_id.to_string(),
            handle: summary.handle,
            goal: goal.to_owned(),
            details: details.to_owned(),
            agent: view.actors.execution.clone(),
            standing: summary.standing.as_str(),
            class: tone_class(summary.standing),
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
        },
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

/// Whether something happens with the plan right now.
fn is_live(standing: PlanStanding) -> bool {
    matches!(
        standing,
        PlanStanding::Thinking | PlanStanding::Working | PlanStanding::Landing
    )
}
