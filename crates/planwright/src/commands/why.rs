//! `planwright why`.

use lifecycle::ClaimObstacle;
use plan::judgement::{PendingVerdictReason, RuleCounts};
use plan::stage::{ApplyState, WorkState};
use plan::takeover::HolderLiveness;
use plan::{Phase, PlanStage, Refusal};
use serde_json::json;

use crate::cli::App;
use crate::commands::CommandAnswer;
use crate::error::{CommandError, daily_commands};
use crate::ui;

/// Say why a plan does not move, and what would help.
#[derive(Debug, clap::Args)]
pub struct WhyArgs {
    /// The plan.
    id: String,
}

/// Looks at what a plan waits for.
pub fn run(args: &WhyArgs, app: &App) -> Result<CommandAnswer, CommandError> {
    let lifecycle = app.lifecycle()?;
    let why = lifecycle.diagnose_plan(app.resolve_plan(&args.id)?)?;
    let plan = &why.row.plan;
    let handle = lifecycle.short_handle(plan.id)?;
    let mut reasons = vec![state_reason(&why, app.clock.now())];
    if let Some(now) = &why.gate {
        for failed in &now.failed_rules {
            let verb = match failed.waits {
                Some(_) => "waits",
                None => "fails",
            };
            reasons.push(format!(
                "The {} gate does not open: rule {} {verb}: {}\n    {}",
                now.gate,
                failed.rule,
                ui::escape_controls(&failed.evidence),
                ui::escape_controls(&failed.check)
            ));
        }
        for advice in &now.failed_advisories {
            reasons.push(format!(
                "Rule {} is only advice, and fails: {}\n    {}",
                advice.rule,
                ui::escape_controls(&advice.evidence),
                ui::escape_controls(&advice.check)
            ));
        }
        if now.failed_rules.is_empty() {
            reasons.push(format!(
                "The {} gate is open: {}",
                now.gate,
                describe_counts(&now.counts)
            ));
        }
    }
    let blocking = why.gate.iter().flat_map(|now| &now.failed_rules);
    let mut commands: Vec<String> = blocking
        .filter_map(|failed| match (failed.waits, failed.waivable) {
            (Some(PendingVerdictReason::Person), _) => Some(format!(
                "planwright approve {handle} --rule {}",
                failed.rule.name
            )),
            (Some(PendingVerdictReason::Check) | None, true) => Some(format!(
                "planwright waive {handle} {} --reason \"TEXT\"",
                failed.rule.name
            )),
            (Some(PendingVerdictReason::Check) | None, false) => None,
        })
        .collect();
    commands.extend(why.obstacle.as_ref().and_then(obstacle_remedy));
    let is_interrupted = app.is_interrupted(&why.row)?;
    if is_interrupted {
        commands.extend(app.next_command(&why.row)?);
    }
    let to_review =
        matches!(plan.stage, PlanStage::Execute(WorkState::Complete)) && plan.has_targets();
    if let Some(needed) = plan.manual_landing_reason().filter(|_| to_review) {
        let profile = plan.profile;
        reasons.push(format!(
            "Profile {profile} does not land {needed}: a person has to"
        ));
    }
    if to_review || matches!(plan.stage, PlanStage::Apply(ApplyState::Constrained(_))) {
        // Whoever is blocked is sent here; once is enough.
        let next = app.next_command(&why.row)?;
        commands.extend(next.filter(|_| !why.row.is_blocked()));
    }
    // Whoever holds the plan knows its authority; it is no secret.
    let epoch = format!("--epoch {}", plan.epoch);
    let options = daily_commands(plan, &why.options, &handle).into_iter();
    for command in options.map(|command| command.replace("--epoch E", &epoch)) {
        // Nobody is at work whom it could wait for.
        let is_pointless = is_interrupted && command.starts_with("planwright wait ");
        if !is_pointless && !commands.contains(&command) {
            commands.push(command);
        }
    }
    let text: String = reasons.iter().map(|reason| format!("{reason}\n")).collect();
    let data = json!({
        "plan_id": plan.id,
        "phase": plan.phase(),
        "state": plan.stage.state_name(),
        "reasons": reasons,
        "gate": why.gate.as_ref().map(|now| json!({
            "gate": now.gate, "counts": now.counts, "failed": now.failed_rules, "advice": now.failed_advisories,
        })),
        "options": why.options,
    });
    let mut answer = CommandAnswer::new(data, text);
    for command in commands {
        answer = answer.with_hint(command);
    }
    Ok(answer)
}

/// The command that takes an obstacle out of the way, where there is one.
pub fn obstacle_remedy(obstacle: &ClaimObstacle) -> Option<String> {
    match obstacle {
        ClaimObstacle::Project(Refusal::ProjectPaused { project, .. }) => {
            Some(format!("planwright project resume {project}"))
        }
        ClaimObstacle::Project(_) | ClaimObstacle::Host(_) => None,
    }
}

/// How the rules of an open gate came out.
fn describe_counts(counts: &RuleCounts) -> String {
    let parts: Vec<String> = [
        (counts.held, "holds", "hold"),
        (counts.waived, "is waived", "are waived"),
        (
            counts.advised,
            "is only advice and fails",
            "are only advice and fail",
        ),
    ]
    .into_iter()
    .filter(|(number, _, _)| *number > 0)
    .map(|(number, one, several)| {
        let verb = if number == 1 { one } else { several };
        format!("{} {verb}", ui::pluralize(number, "rule"))
    })
    .collect();
    if parts.is_empty() {
        "there are no rules for it".to_owned()
    } else {
        parts.join(", ")
    }
}

fn state_reason(why: &lifecycle::PlanDiagnosis, now: plan::Timestamp) -> String {
    let plan = &why.row.plan;
    if let Some(ending) = plan.stage.ending() {
        return format!(
            "It ended: {} at {} by {}",
            plan.stage.state_name(),
            ending.at,
            ending.by
        );
    }
    if let Some(holder) = plan.stage.holder() {
        let expired = why
            .row
            .lease
            .as_ref()
            .is_some_and(|lease| lease.expires_at < now);
        let lease = match why.holder_liveness {
            Some(HolderLiveness::Ended) => {
                "its process has ended, and whoever comes next takes over"
            }
            Some(HolderLiveness::Running) => "its process is running on this host",
            Some(HolderLiveness::Unknown) | None if expired => {
                "its lease has expired and can be reclaimed"
            }
            Some(HolderLiveness::Unknown) | None => "its lease runs",
        };
        return format!(
            "The plan is held by {} since {}; {lease}",
            holder.owner, holder.since
        );
    }
    if let Some(question) = plan.stage.question() {
        return format!(
            "It waits for an answer: {}",
            ui::escape_controls(question.text.as_str())
        );
    }
    if let Some(failure) = plan.stage.failure() {
        return format!(
            "It failed ({}): {}",
            failure.category,
            ui::escape_controls(failure.message.as_str())
        );
    }
    if let Some(retry_at) = plan
        .stage
        .queue_entry()
        .and_then(|queued| queued.retry_at)
        .filter(|at| *at > now)
    {
        return format!("It tries again at {retry_at}");
    }
    match &why.obstacle {
        Some(ClaimObstacle::Project(refusal)) => return format!("It cannot be started: {refusal}"),
        Some(ClaimObstacle::Host(host)) => {
            return format!("It is waiting for host {host}, where its repository lies");
        }
        None => {}
    }
    if let Some(over) = &why.over_budget {
        return format!("It waits for the budget: {over}");
    }
    if let PlanStage::Apply(ApplyState::Constrained(constraint)) = &plan.stage {
        let mut reason = format!(
            "Nothing was landed: {}",
            ui::escape_controls(constraint.message.as_str())
        );
        for path in constraint.paths.iter().take(20) {
            reason.push_str(&format!("\n  {path}"));
        }
        for commit in constraint.commits.iter().take(5) {
            let commit: String = commit.chars().take(10).collect();
            reason.push_str(&format!("\n  changed by {commit}"));
        }
        return reason;
    }
    let profile = plan.profile;
    match (&plan.stage, plan.needs_person()) {
        (PlanStage::Strategize(_) | PlanStage::Execute(_), true) => {
            format!(
                "It is {}, and profile {profile} asks a person before it goes on",
                plan.stage
            )
        }
        (PlanStage::Apply(_), true) => format!("It is {} and waits for a person", plan.stage),
        (_, false) if plan.stage.queue_entry().is_some() => {
            describe_claim_wait(plan, why.plans_ahead)
        }
        (_, false)
            if why
                .gate
                .as_ref()
                .is_some_and(|now| !now.failed_rules.is_empty()) =>
        {
            format!("It is {}, and a gate holds it there", plan.stage)
        }
        (_, false) => format!("It is {} and may go on", plan.stage),
    }
}

/// Whom a plan waits for that anybody may claim.
fn describe_claim_wait(plan: &plan::Plan, ahead: Option<usize>) -> String {
    let phase = Phase::as_str(plan.phase());
    let undefined = plan
        .actor_for_phase(plan.phase())
        .filter(|actor| plan.actor_definition(actor).is_none());
    match undefined {
        Some(actor) => format!(
            "It waits for somebody who works as `{actor}` to claim the {phase} phase: it was begun \
             without a definition of that actor, so a program of its own or plumbing has to"
        ),
        None => {
            let before = match ahead {
                Some(0) | None => String::new(),
                Some(1) => "; 1 plan is due before it".to_owned(),
                Some(several) => format!("; {several} plans are due before it"),
            };
            format!("It waits for a worker to claim the {phase} phase{before}")
        }
    }
}
