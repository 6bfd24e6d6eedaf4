//! `planwright status`.

use lifecycle::Obstacle;
use plan::ledger::{Budget, Ledger, Means};
use plan::plan::Origin;
use plan::stage::Landing;
use plan::takeover::Liveness;
use plan::{Phase, PlanId, Stage};
use store::{PlanFilter, PlanRow};

use crate::cli::App;
use crate::commands::undone::{self, Undone};
use crate::commands::{Answer, list};
use crate::error::CommandError;
use crate::ui;
use crate::wire::PlanView;

/// Show one plan.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The plan: its id, an unambiguous beginning or end of it, or @ for the plan you used last here.
    id: String,
}

/// Shows one plan.
pub fn run(args: &Args, app: &App) -> Result<Answer, CommandError> {
    let lifecycle = app.lifecycle()?;
    let row = lifecycle.get_plan(app.plan(&args.id)?)?;
    let changesets = lifecycle.changesets(row.plan.id)?;
    let ledger = lifecycle.ledger(row.plan.id)?;
    let plan = &row.plan;
    let now = app.clock.now();
    let (mut standing, mut style) = app.standing(&row)?;
    let undone_by = undone_by(app, &row)?;
    if undone_by.is_some() {
        (standing, style) = (list::UNDONE, ui::DIM);
    }
    let mut lines: Vec<(&str, String)> = vec![
        ("plan", plan.id.to_string()),
        (
            "standing",
            format!("{} ({})", ui::styled(style, standing), plan.stage),
        ),
    ];
    if row.verdict_now().is_none() && plan.is_stuck() {
        for unmet in plan.unmet() {
            let found = ui::clean(unmet.evidence.as_str());
            lines.push(("blocked by", format!("{}: {found}", unmet.rule)));
        }
    }
    if let Some(verdict) = row.verdict_now() {
        for failed in &verdict.failed {
            lines.push((
                "blocked by",
                format!(
                    "{} at {}: {}",
                    failed.rule,
                    verdict.gate,
                    ui::clean(&failed.evidence)
                ),
            ));
        }
    }
    if let Some(question) = plan.stage.question() {
        lines.push(("question", ui::clean(question.text.as_str())));
    }
    if let Some(failure) = plan.stage.failure() {
        lines.push((
            "failed",
            format!(
                "{}: {}",
                failure.category,
                ui::clean(failure.message.as_str())
            ),
        ));
    }
    if let Stage::Apply(Landing::Constrained(constraint)) = &plan.stage {
        let kind = constraint.kind.as_str();
        lines.push((
            "constrained",
            format!("{kind}: {}", ui::clean(constraint.message.as_str())),
        ));
        for path in constraint.paths.iter().take(10) {
            lines.push(("", ui::clean(&path.to_string())));
        }
    }
    if let Some(lease) = &row.lease {
        let until = match lifecycle.holder_liveness(&row)? {
            Some(Liveness::Ended) => "(process ended), lease until",
            Some(Liveness::Running) => "until",
            Some(Liveness::Unknown) | None if lease.expires_at < now => "expired",
            Some(Liveness::Unknown) | None => "until",
        };
        lines.push((
            "held by",
            format!(
                "{} {until} {} (epoch {})",
                lease.owner, lease.expires_at, lease.epoch
            ),
        ));
    }
    match lifecycle.obstacle(plan)? {
        Some(Obstacle::Project(refusal)) => lines.push(("waits", refusal.to_string())),
        Some(Obstacle::Host(host)) => lines.push(("waits", format!("waiting for host {host}"))),
        None => {}
    }
    if let Some(retry_at) = plan.stage.waiting().and_then(|queued| queued.retry_at) {
        lines.push(("retry at", retry_at.to_string()));
    }
    if let Some(action) = &plan.action {
        lines.push(("action", action.to_string()));
    }
    for (name, value) in &plan.arguments {
        lines.push((
            "argument",
            ui::one_line(&format!("{name} = {}", value.to_json()), 100),
        ));
    }
    for resource in &plan.resources {
        let target = resource.target.as_deref().unwrap_or_default();
        let target = target.strip_prefix("refs/heads/").unwrap_or(target);
        let onto = if target.is_empty() { "" } else { " onto " };
        lines.push(("works on", format!("{}{onto}{target}", resource.name)));
    }
    for step in &plan.landed {
        let commit: String = step.new.chars().take(10).collect();
        let target = match step.target.strip_prefix("refs/heads/") {
            Some(branch) => format!("on {branch} as {commit}"),
            None => "in the working tree".to_owned(),
        };
        lines.push(("landed", target));
    }
    if !plan.resources.is_empty()
        && let Ok(sandboxes) = lifecycle.sandboxes_of(plan.id)
        && !sandboxes.is_empty()
    {
        // By its command, which makes it safe to enter.
        let handle = lifecycle.short_name(plan.id)?;
        lines.push(("sandbox", format!("planwright path {handle}")));
    }
    if let Some(by) = undone_by {
        lines.push(("undone by", by.to_string()));
    }
    match plan.origin {
        Origin::Use => {}
        Origin::UndoOf(id) => lines.push(("undo of", id.to_string())),
        Origin::RestOf(id) => lines.push(("rest of", id.to_string())),
    }
    lines.push((
        "profile",
        format!("{} ({})", plan.profile, plan.profile_source.as_str()),
    ));
    lines.push(("actors", actors(&plan.actors)));
    lines.push((
        "attempt",
        format!("{} of {}", plan.attempt, Phase::as_str(plan.phase())),
    ));
    lines.push(("limits", ui::limits(plan.limits)));
    lines.extend(means(plan, &ledger, &lifecycle.budget()));
    lines.extend(last_run(app, plan));
    if plan.reversions > 0 {
        lines.push(("reversions", plan.reversions.to_string()));
    }
    for waiver in &plan.waivers {
        let reason = ui::one_line(waiver.reason.as_str(), 80);
        lines.push((
            "waived",
            format!("{} by {}: {reason}", waiver.rule, waiver.by),
        ));
    }
    if !changesets.is_empty() {
        let entries: usize = changesets.iter().map(|(_, entries)| entries.len()).sum();
        let changesets = ui::count(changesets.len() as u64, "changeset");
        lines.push(("changes", format!("{entries} in {changesets}")));
    }
    if let Some(report) = plan
        .result
        .as_ref()
        .and_then(|result| result.report.as_ref())
    {
        lines.push(("report", ui::one_line(report.as_str(), 100)));
    }
    for tree in plan.result.iter().flat_map(|result| &result.trees) {
        let kinds = [
            ("ignored, added", &tree.ignored.forced),
            ("ignored, withheld", &tree.ignored.withheld),
            ("ignored, left out", &tree.ignored.left_out),
        ];
        for (label, paths) in kinds.into_iter().filter(|(_, paths)| !paths.is_empty()) {
            let names = ui::clean(&paths.to_string());
            lines.push((label, format!("{}: {names}", paths.count)));
        }
    }
    if let Some(path) = lifecycle
        .hands()
        .ok()
        .and_then(|hands| hands.workshop.archived(plan.id))
    {
        lines.push(("ignored, kept in", ui::clean(&path.display().to_string())));
    }
    lines.push(("version", plan.version.to_string()));
    let ages = (ui::age(now, plan.created_at), ui::age(now, plan.updated_at));
    lines.push(("created", format!("{}, changed {}", ages.0, ages.1)));
    let mut text = format!("{}\n", ui::styled(ui::BOLD, ui::clean(plan.goal.as_str())));
    for (label, value) in lines {
        text.push_str(&format!(
            "  {}  {value}\n",
            ui::styled(ui::DIM, format!("{label:<11}"))
        ));
    }
    let mut answer = Answer::new(PlanView::new(&row, &changesets, &ledger), text);
    if let Some(next) = app.next_command(&row)? {
        answer = answer.hint(next);
    }
    Ok(answer)
}

/// The plan that took this one back.
fn undone_by(app: &App, row: &PlanRow) -> Result<Option<PlanId>, CommandError> {
    let Some(resource) = row
        .plan
        .resources
        .first()
        .filter(|_| undone::is_landed(row))
    else {
        return Ok(None);
    };
    let of = std::slice::from_ref(&resource.project);
    let undone = Undone::by_the_newest(app, &PlanFilter::default(), Some(of))?;
    Ok(undone.by(row.plan.id))
}

/// What was used of what, what is set aside, and what was charged unseen.
fn means(plan: &plan::Plan, ledger: &Ledger, budget: &Budget) -> Vec<(&'static str, String)> {
    let mut lines = Vec::new();
    for means in Means::ALL {
        let label = match means {
            Means::Cost => "cost",
            Means::Tokens => "tokens",
            Means::Time => "time",
        };
        let (account, limit) = (&ledger.plan, plan.limits.of(means));
        let spent = account.settled.of(means);
        if spent > 0 || limit.is_some() {
            let mut text = ui::spent(means, spent, limit);
            let unseen = account.forfeited.of(means);
            if unseen > 0 {
                let unseen = means.shown(unseen);
                text.push_str(&format!(
                    ", {unseen} of it charged in full: its worker vanished without telling"
                ));
            }
            let reserved = account.reserved.of(means);
            if reserved > 0 {
                text.push_str(&format!(", {} set aside", means.shown(reserved)));
            }
            lines.push((label, text));
        }
        if let Some(limit) = budget.of(means) {
            let spent = ui::spent(means, ledger.global.settled.of(means), Some(limit));
            lines.push(("all plans", spent));
        }
    }
    lines
}

/// The newest run of an actor on this host: who, how it ended, how it was confined, what it used.
fn last_run(app: &App, plan: &plan::Plan) -> Option<(&'static str, String)> {
    let runs = app.lifecycle().ok()?.hands().ok()?.workshop.runs(plan.id);
    let record = runs.ok()?.into_iter().rev().find_map(|run| run.record)?;
    Some(("last run", ui::run(&record)))
}

/// Who works on a plan, and who judges.
pub(super) fn actors(actors: &plan::Actors) -> String {
    let plan::Actors {
        strategy,
        execution,
        invariant,
    } = actors;
    let mut told = match strategy == execution {
        true => execution.to_string(),
        false => format!("{strategy} strategizes, {execution} executes"),
    };
    if let Some(judge) = invariant {
        told.push_str(&format!(", {judge} judges"));
    }
    told
}
