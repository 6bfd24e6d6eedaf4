//! `planwright status`: shows everything about one plan.

use std::collections::BTreeSet;

use plan::ledger::{BudgetLedger, BudgetUnit, GlobalBudget};
use plan::plan::PlanOrigin;
use plan::stage::ApplyState;
use plan::takeover::HolderLiveness;
use plan::{PlanId, PlanStage};

use crate::cli::App;
use crate::commands::event_narrator::{describe_comment, display_resource, holder_name};
use crate::commands::overview::describe_wait;
use crate::commands::run::report_headline;
use crate::commands::why::describe_reason;
use crate::commands::{CommandAnswer, PlanArg};
use crate::error::CommandError;
use crate::{home, ui};
use api::plan_status::read_status;
use api::view::{DiagnosisReason, PermissionView, RuleFindingOutcome, WaitReason};

/// Show a plan
#[derive(Debug, clap::Args)]
pub struct StatusArgs {
    #[command(flatten)]
    plan: PlanArg,
}

pub fn run(args: &StatusArgs, app: &App) -> Result<CommandAnswer, CommandError> {
    let lifecycle = app.lifecycle()?;
    let status = read_status(lifecycle, args.plan.resolve_unannounced(app)?)?;
    let (row, plan) = (&status.row, &status.row.plan);
    let now = app.clock.now();
    let mut lines: Vec<(&str, String)> = vec![
        ("plan", lifecycle.short_handle(plan.id())?),
        ("state", ui::style_standing(status.standing())),
    ];
    if row.current_verdict().is_none() && plan.is_stuck_on_rules() {
        for unmet in plan.unmet_rules() {
            let found = ui::escape_controls(unmet.evidence.as_str());
            let rule = &unmet.rule.name;
            lines.push(("blocked by", format!("`{rule}`: {found}")));
        }
    }
    if let Some(verdict) = row.current_verdict() {
        for failed in &verdict.failed {
            lines.push((
                "blocked by",
                format!(
                    "`{}` at {}: {}",
                    failed.rule.name,
                    verdict.gate,
                    ui::escape_controls(&failed.evidence)
                ),
            ));
        }
    }
    if let Some(question) = plan.stage().question() {
        lines.push(("question", ui::escape_controls(question.text.as_str())));
    }
    if let Some(request) = PermissionView::of_plan(plan) {
        lines.push(("asks to", ui::escape_controls(&request.summary)));
        if let Some(input) = &request.input {
            lines.push(("", ui::escape_controls(input)));
        }
        lines.push(("because", ui::escape_controls(&request.reason)));
    }
    if let Some(failure) = plan.stage().failure() {
        lines.push((
            "failed",
            format!(
                "{}: {}",
                failure.category,
                ui::escape_controls(failure.message.as_str())
            ),
        ));
    }
    if let PlanStage::Apply(ApplyState::Constrained(constraint)) = plan.stage() {
        let kind = constraint.kind.as_str();
        lines.push((
            "constrained",
            format!(
                "{kind}: {}",
                ui::escape_controls(constraint.message.as_str())
            ),
        ));
        for path in constraint.paths.iter().take(10) {
            lines.push(("", ui::escape_controls(&path.to_string())));
        }
    }
    if let Some(lease) = &row.lease {
        let until = format!("for {}", ui::format_delay(now, lease.expires_at));
        let validity = match status.holder_liveness {
            Some(HolderLiveness::Ended) => format!("(process ended), lease {until}"),
            Some(HolderLiveness::Unknown) | None if lease.expires_at < now => {
                format!("(expired {})", ui::format_age(now, lease.expires_at))
            }
            Some(HolderLiveness::Running | HolderLiveness::Unknown) | None => until,
        };
        lines.push((
            "held by",
            format!("{} {validity}", holder_name(&lease.owner)),
        ));
    }
    if let Some(obstacle) = &status.obstacle {
        let waits = describe_wait(&WaitReason::of_obstacle(Some(obstacle.clone())));
        let waits = waits.strip_prefix("waits ").unwrap_or(&waits);
        lines.push(("waits", waits.to_owned()));
    }
    if let Some(retry_at) = plan
        .stage()
        .queue_entry()
        .and_then(|queued| queued.retry_at)
    {
        let delay = ui::format_delay(now, retry_at);
        lines.push(("retries", format!("in {delay}")));
    }
    if let Some(action) = plan.action() {
        lines.push(("action", action.to_string()));
    }
    for (name, value) in plan.arguments() {
        lines.push((
            "argument",
            ui::truncate_line(&format!("{name} = {}", value.to_json()), 100),
        ));
    }
    for resource in plan.resources() {
        let target = resource.target.as_deref().unwrap_or_default();
        let target = target.strip_prefix("refs/heads/").unwrap_or(target);
        let branch = match target {
            "" => String::new(),
            branch => format!(", branch {branch}"),
        };
        lines.push((
            "works on",
            format!("{}{branch}", display_resource(&resource.name)),
        ));
    }
    for step in plan.landed() {
        let commit: String = step.new.chars().take(10).collect();
        let target = match step.target.strip_prefix("refs/heads/") {
            Some(branch) => format!("on {branch} as {commit}"),
            None => "in the working tree".to_owned(),
        };
        lines.push(("landed", target));
    }
    if status.has_sandbox {
        // Show the command instead of the path: it cleans the git configuration before anyone enters.
        let handle = lifecycle.short_handle(plan.id())?;
        lines.push(("sandbox", format!("planwright path {handle}")));
    }
    if let Some(by) = status.undone_by {
        lines.push(("undone by", lifecycle.short_handle(by)?));
    }
    match plan.origin() {
        PlanOrigin::Use => {}
        PlanOrigin::UndoOf(id) => lines.push(("undo of", lifecycle.short_handle(id)?)),
        PlanOrigin::RestOf(id) => lines.push(("rest of", lifecycle.short_handle(id)?)),
    }
    lines.push((
        "profile",
        format!("{} ({})", plan.profile(), plan.profile_source().as_str()),
    ));
    lines.push(("agent", describe_actors(plan.actors())));
    if plan.attempt() > 1 {
        let attempt = plan.attempt();
        lines.push(("attempt", format!("{attempt} ({})", plan.phase().as_str())));
    }
    lines.push(("limits", ui::format_limits(plan.limits())));
    lines.extend(describe_usage(plan, &status.ledger, &lifecycle.budget()));
    let last_run = status.last_run.as_ref();
    lines.extend(last_run.map(|record| ("last run", ui::describe_run(record))));
    if plan.reversions() > 0 {
        lines.push(("reversions", plan.reversions().to_string()));
    }
    for waiver in plan.waivers() {
        let reason = ui::truncate_line(waiver.reason.as_str(), 80);
        lines.push((
            "waived",
            format!("{} by {}: {reason}", waiver.rule, waiver.by),
        ));
    }
    if !status.changesets.is_empty() {
        let entries = status.changesets.iter().flat_map(|(_, entries)| entries);
        let paths: BTreeSet<_> = entries
            .map(|entry| (&entry.resource, &entry.path))
            .collect();
        lines.push(("changes", ui::pluralize(paths.len() as u64, "file")));
    }
    for comment in &status.sent_comments {
        lines.push(("comment", describe_comment(comment)));
    }
    let drafts = lifecycle
        .read_review(plan.id(), app.new_call().caller())?
        .comments
        .len() as u64;
    if drafts > 0 {
        let drafts = ui::pluralize(drafts, "draft comment");
        let handle = lifecycle.short_handle(plan.id())?;
        lines.push(("review", format!("{drafts}: planwright review {handle}")));
    }
    if let Some(report) = plan.result().and_then(|result| result.report.as_ref()) {
        lines.push((
            "report",
            ui::truncate_line(report_headline(plan, report.as_str()), 100),
        ));
    }
    for tree in plan.result().into_iter().flat_map(|result| &result.trees) {
        let kinds = [
            ("ignored, added", &tree.ignored.forced),
            ("ignored, withheld", &tree.ignored.withheld),
            ("ignored, left out", &tree.ignored.left_out),
        ];
        for (label, paths) in kinds.into_iter().filter(|(_, paths)| !paths.is_empty()) {
            let names = ui::escape_controls(&paths.to_string());
            lines.push((label, format!("{}: {names}", paths.count)));
        }
    }
    if let Some(path) = &status.archive {
        lines.push((
            "ignored, kept in",
            ui::escape_controls(&path.display().to_string()),
        ));
    }
    let ages = (
        ui::format_age(now, plan.created_at()),
        ui::format_age(now, plan.updated_at()),
    );
    let ages = match ages.0 == ages.1 {
        true => ages.0,
        false => format!("{}, changed {}", ages.0, ages.1),
    };
    lines.push(("created", ages));
    // Rules that block it are listed above.
    if !row.is_blocked()
        && let Some(reason) = describe_rest(app, plan.id())
    {
        lines.push(("now", reason));
    }
    let mut text = format!(
        "{}\n",
        ui::style_text(ui::BOLD, ui::escape_controls(plan.goal().as_str()))
    );
    for (label, value) in lines {
        text.push_str(&format!(
            "  {}  {value}\n",
            ui::style_text(ui::DIM, format!("{label:<11}"))
        ));
    }
    let mut answer = CommandAnswer::new(&status.view, text);
    if let Some(next) = app.next_command(row)? {
        answer = answer.with_hint(next);
    }
    Ok(answer)
}

/// Says why the plan does not move, unless its other lines do.
fn describe_rest(app: &App, plan_id: PlanId) -> Option<String> {
    let caller = home::current_caller();
    // Whatever keeps this from being read does not keep the plan from being shown.
    let why = api::diagnosis::diagnose_plan(app.lifecycle().ok()?, plan_id, &caller).ok()?;
    let asked = why.reasons.iter().find_map(|reason| match reason {
        DiagnosisReason::RuleBlocks(finding)
            if finding.outcome == RuleFindingOutcome::NeedsPerson =>
        {
            Some(format!(
                "Rule `{}` asks you: {}",
                finding.rule,
                ui::escape_controls(&finding.check)
            ))
        }
        _ => None,
    });
    if asked.is_some() {
        return asked;
    }
    let reason = why.reasons.first()?;
    match reason {
        DiagnosisReason::Ended { .. }
        | DiagnosisReason::CanContinue
        | DiagnosisReason::QuestionOpen(_)
        | DiagnosisReason::PermissionOpen(_)
        | DiagnosisReason::Failed { .. }
        | DiagnosisReason::RetryAt { .. }
        | DiagnosisReason::Constrained { .. }
        | DiagnosisReason::ProjectPaused { .. }
        | DiagnosisReason::ProjectDeleted { .. }
        | DiagnosisReason::WaitingForHost { .. } => None,
        _ => Some(describe_reason(reason, &why, app.clock.now())),
    }
}

/// Describes spent, reserved and forfeited budget, for this plan and all plans.
fn describe_usage(
    plan: &plan::Plan,
    ledger: &BudgetLedger,
    budget: &GlobalBudget,
) -> Vec<(&'static str, String)> {
    let mut lines = Vec::new();
    for unit in BudgetUnit::ALL {
        let label = match unit {
            BudgetUnit::Cost => "cost",
            BudgetUnit::Tokens => "tokens",
            BudgetUnit::Time => "time",
        };
        let (account, limit) = (&ledger.plan, plan.limits().limit_for(unit));
        let spent = account.settled.in_unit(unit);
        // Less than a second is of no interest.
        let is_noticeable = spent > 0 && (unit != BudgetUnit::Time || spent >= 1_000_000);
        if is_noticeable || limit.is_some() {
            let mut text = ui::format_spent(unit, spent, limit);
            let forfeited = account.forfeited.in_unit(unit);
            if forfeited > 0 {
                let forfeited = unit.format_amount(forfeited);
                text.push_str(&format!(
                    ", {forfeited} of it charged in full because its worker disappeared"
                ));
            }
            let reserved = account.reserved.in_unit(unit);
            if reserved > 0 {
                text.push_str(&format!(", {} reserved", unit.format_amount(reserved)));
            }
            lines.push((label, text));
        }
        if let Some(limit) = budget.limit_for(unit) {
            let spent = ui::format_spent(unit, ledger.global.settled.in_unit(unit), Some(limit));
            lines.push(("all plans", spent));
        }
    }
    lines
}

pub(super) fn describe_actors(actors: &plan::PlanActors) -> String {
    let plan::PlanActors {
        strategy,
        execution,
        invariant,
    } = actors;
    let mut text = match strategy == execution {
        true => execution.to_string(),
        false => format!("{strategy} strategizes, {execution} executes"),
    };
    if let Some(judge) = invariant {
        text.push_str(&format!(", {judge} judges"));
    }
    text
}
