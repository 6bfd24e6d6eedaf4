//! `planwright why`: explains why a plan is not moving.

use lifecycle::ClaimObstacle;
use plan::judgement::{PendingVerdictReason, RuleCounts};
use plan::stage::{ApplyState, WorkState};
use plan::takeover::HolderLiveness;
use plan::{Phase, PlanStage, Refusal};
use serde_json::json;

use crate::cli::App;
use crate::commands::CommandAnswer;
use crate::commands::event_narrator::format_timestamp;
use crate::error::{CommandError, daily_commands};
use crate::ui;

/// Explain why a plan is not moving and what to do about it
#[derive(Debug, clap::Args)]
pub struct WhyArgs {
    /// Plan ID or handle, or @ for the plan you used last
    id: String,
}

pub fn run(args: &WhyArgs, app: &App) -> Result<CommandAnswer, CommandError> {
    let lifecycle = app.lifecycle()?;
    let why = lifecycle.diagnose_plan(app.resolve_plan(&args.id)?)?;
    let plan = &why.row.plan;
    let handle = lifecycle.short_handle(plan.id())?;
    let mut reasons = vec![state_reason(&why, app.clock.now())];
    if let Some(gate) = &why.gate {
        for failed in &gate.failed_rules {
            let outcome = match failed.waits {
                Some(_) => "is pending",
                None => "failed",
            };
            reasons.push(format!(
                "Blocked at the {} gate: rule {} {outcome}: {}\n    {}",
                gate.gate,
                failed.rule,
                ui::escape_controls(&failed.evidence),
                ui::escape_controls(&failed.check)
            ));
        }
        for advice in &gate.failed_advisories {
            reasons.push(format!(
                "Warning: advisory rule {} failed: {}\n    {}",
                advice.rule,
                ui::escape_controls(&advice.evidence),
                ui::escape_controls(&advice.check)
            ));
        }
        if gate.failed_rules.is_empty() {
            reasons.push(format!(
                "The {} gate is open: {}",
                gate.gate,
                describe_counts(&gate.counts)
            ));
        }
    }
    let blocking = why.gate.iter().flat_map(|gate| &gate.failed_rules);
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
    let is_interrupted = api::plans::is_interrupted(lifecycle, &why.row)?;
    if is_interrupted {
        commands.extend(app.next_command(&why.row)?);
    }
    let to_review =
        matches!(plan.stage(), PlanStage::Execute(WorkState::Complete)) && plan.has_targets();
    if let Some(needed) = plan.manual_landing_reason().filter(|_| to_review) {
        let profile = plan.profile();
        reasons.push(format!(
            "Profile {profile} does not land {needed}: a person must apply it"
        ));
    }
    if to_review || matches!(plan.stage(), PlanStage::Apply(ApplyState::Constrained(_))) {
        // For a blocked plan, the next command is `why` itself.
        let next = app.next_command(&why.row)?;
        commands.extend(next.filter(|_| !why.row.is_blocked()));
    }
    // The epoch is not a secret: it fences old holders, it does not authenticate new ones.
    let epoch = format!("--epoch {}", plan.epoch());
    let options = daily_commands(plan, &why.options, &handle).into_iter();
    for command in options.map(|command| command.replace("--epoch E", &epoch)) {
        // An interrupted plan has no process to wait for.
        let is_pointless = is_interrupted && command.starts_with("planwright wait ");
        if !is_pointless && !commands.contains(&command) {
            commands.push(command);
        }
    }
    let text: String = reasons.iter().map(|reason| format!("{reason}\n")).collect();
    let data = json!({
        "plan_id": plan.id(),
        "phase": plan.phase(),
        "state": plan.stage().state_name(),
        "reasons": reasons,
        "gate": why.gate.as_ref().map(|gate| json!({
            "gate": gate.gate, "counts": gate.counts, "failed": gate.failed_rules, "advice": gate.failed_advisories,
        })),
        "options": why.options,
    });
    let mut answer = CommandAnswer::new(data, text);
    for command in commands {
        answer = answer.with_hint(command);
    }
    Ok(answer)
}

/// Returns the command that removes an obstacle, if there is one.
pub fn obstacle_remedy(obstacle: &ClaimObstacle) -> Option<String> {
    match obstacle {
        ClaimObstacle::Project(Refusal::ProjectPaused { project, .. }) => {
            Some(format!("planwright project resume {project}"))
        }
        ClaimObstacle::Project(_) | ClaimObstacle::Host(_) => None,
    }
}

/// Counts the rules of an open gate, by outcome.
fn describe_counts(counts: &RuleCounts) -> String {
    let parts: Vec<String> = [
        (counts.held, "holds", "hold"),
        (counts.waived, "is waived", "are waived"),
        (
            counts.advised,
            "failed but is advisory",
            "failed but are advisory",
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
        "it has no rules".to_owned()
    } else {
        parts.join(", ")
    }
}

fn state_reason(why: &lifecycle::PlanDiagnosis, now: plan::Timestamp) -> String {
    let plan = &why.row.plan;
    if let Some(ending) = plan.stage().ending() {
        return format!(
            "It ended: {} by {}, {}",
            plan.stage().state_name(),
            ending.by,
            ui::format_age(now, ending.at)
        );
    }
    if let Some(holder) = plan.stage().holder() {
        let expired = why
            .row
            .lease
            .as_ref()
            .is_some_and(|lease| lease.expires_at < now);
        let lease = match why.holder_liveness {
            Some(HolderLiveness::Ended) => "its process has ended, and the next worker takes over",
            Some(HolderLiveness::Running) => "its process is running on this host",
            Some(HolderLiveness::Unknown) | None if expired => {
                "its lease has expired and can be reclaimed"
            }
            Some(HolderLiveness::Unknown) | None => "its lease is valid",
        };
        return format!(
            "{} is working on this plan, started {}; {lease}",
            holder.owner,
            ui::format_age(now, holder.since)
        );
    }
    if let Some(question) = plan.stage().question() {
        return format!(
            "It is waiting for an answer: {}",
            ui::escape_controls(question.text.as_str())
        );
    }
    if let Some(failure) = plan.stage().failure() {
        return format!(
            "It failed ({}): {}",
            failure.category,
            ui::escape_controls(failure.message.as_str())
        );
    }
    if let Some(retry_at) = plan
        .stage()
        .queue_entry()
        .and_then(|queued| queued.retry_at)
        .filter(|at| *at > now)
    {
        return format!("It retries at {}", format_timestamp(retry_at));
    }
    match &why.obstacle {
        Some(ClaimObstacle::Project(refusal)) => return format!("It can't start: {refusal}"),
        Some(ClaimObstacle::Host(host)) => {
            return format!("It is waiting for host {host}, which has its repository");
        }
        None => {}
    }
    if let Some(over) = &why.over_budget {
        return format!("It is waiting for budget: {over}");
    }
    if let PlanStage::Apply(ApplyState::Constrained(constraint)) = plan.stage() {
        let mut reason = format!(
            "Nothing landed: {}",
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
    let profile = plan.profile();
    match (plan.stage(), plan.needs_person()) {
        (PlanStage::Strategize(_) | PlanStage::Execute(_), true) => {
            format!(
                "Profile {profile} requires a person to continue ({})",
                plan.stage()
            )
        }
        (PlanStage::Apply(_), true) => format!("A person is needed to continue ({})", plan.stage()),
        (_, false) if plan.stage().queue_entry().is_some() => {
            describe_claim_wait(plan, why.plans_ahead)
        }
        (_, false)
            if why
                .gate
                .as_ref()
                .is_some_and(|gate| !gate.failed_rules.is_empty()) =>
        {
            format!("A gate blocks the plan ({})", plan.stage())
        }
        (_, false) => format!("The plan can continue ({})", plan.stage()),
    }
}

/// Describes what a queued plan is waiting for: a worker, or a program for an undefined agent.
fn describe_claim_wait(plan: &plan::Plan, ahead: Option<usize>) -> String {
    let phase = Phase::as_str(plan.phase());
    let undefined = plan
        .actor_for_phase(plan.phase())
        .filter(|actor| plan.actor_definition(actor).is_none());
    match undefined {
        Some(actor) => format!(
            "Agent `{actor}` has no definition, so workers cannot run it. Another program must claim the {phase} phase \
             (planwright plumbing start-{phase})"
        ),
        None => {
            let queue = match ahead {
                Some(0) | None => String::new(),
                Some(1) => "; 1 plan is ahead of it".to_owned(),
                Some(several) => format!("; {several} plans are ahead of it"),
            };
            format!("It is waiting for a worker to claim the {phase} phase{queue}")
        }
    }
}
