//! Exit codes, kinds and hints for refusals of the engine and for rules that failed at a gate.

use api::next_steps::{NextStep, RaisedLimit, steps_for_failed_rules};
use plan::invariant::{Gate, RuleName, RuleScope};
use plan::judgement::PendingVerdictReason;
use plan::ledger::AccountName;
use plan::{GateBlocked, Refusal};

use super::{CommandError, RecoveryHint, capitalize_sentence};
use crate::exit::CommandExit;
use crate::step_commands::command_for_step;
use crate::{home, limits, ui};

/// Lists the failed rules. Needs a person if every one of them only waits for a person's verdict.
pub fn from_blocked(blocked: &GateBlocked) -> CommandError {
    let consequence = match blocked.gate {
        // An approval that was given with the same command stays.
        Gate::Apply => "Nothing landed.",
        Gate::Strategize | Gate::Execute | Gate::Result => "The plan did not change.",
    };
    let refusal = capitalize_sentence(&blocked.to_string());
    let mut message = format!("{refusal}. {consequence}");
    let mut hints = Vec::new();
    let plan_id = blocked.plan.to_string();
    for failed in &blocked.failed {
        message.push_str(&format!(
            "\n  {}: {}\n    {}",
            failed.rule,
            ui::escape_controls(&failed.evidence),
            ui::escape_controls(&failed.check)
        ));
        if failed.waits != Some(PendingVerdictReason::Person) && !failed.waivable {
            hints.push(format!(
                "{} cannot be waived. Change the plan or the rule.",
                failed.rule
            ));
        }
    }
    let mut steps = steps_for_failed_rules(&blocked.failed, &home::current_caller());
    steps.push(NextStep::Explain);
    hints.extend(steps.iter().map(|step| command_for_step(step, &plan_id)));
    let data = serde_json::json!({
        "kind": "reconciliation_blocked",
        "plan_id": blocked.plan,
        "gate": blocked.gate,
        "failed": blocked.failed,
    });
    let waits_only = blocked
        .failed
        .iter()
        .all(|one| one.waits == Some(PendingVerdictReason::Person));
    CommandError {
        exit: match waits_only {
            true => CommandExit::NeedsPerson,
            false => CommandExit::Blocked,
        },
        message,
        hints,
        data,
        recovery: None,
    }
}

/// Maps a refusal to its exit code, kind and hints. The message is the refusal's own text, except for `Held`.
pub fn from_refusal(refusal: &Refusal) -> CommandError {
    let new = |exit, kind: &str| {
        CommandError::new(exit, capitalize_sentence(&refusal.to_string())).with_kind(kind)
    };
    match refusal {
        Refusal::NoSuchPlan(_) => new(CommandExit::NotFound, "no_such_plan").with_hint("planwright list"),
        Refusal::NoSuchAction(_) => new(CommandExit::NotFound, "no_such_action").with_hint("planwright action list"),
        Refusal::NoSuchProject(name) => CommandError {
            recovery: Some(RecoveryHint::MissingProject(name.clone())),
            ..new(CommandExit::NotFound, "no_such_project")
        },
        Refusal::NoSuchResource { project, .. } => new(CommandExit::NotFound, "no_such_resource")
            .with_hint(format!("planwright project show {project}")),
        Refusal::NoSuchRule { .. } => new(CommandExit::NotFound, "no_such_rule").with_hint("planwright rule list"),
        Refusal::NoRuleOnPlan { plan, .. } => new(CommandExit::NotFound, "no_such_rule")
            .with_hint(format!("planwright rule list --effective {plan}")),
        Refusal::NoSuchChangeset { plan, .. } => new(CommandExit::NotFound, "no_such_changeset")
            .with_hint(format!("planwright plumbing changesets {plan}")),
        Refusal::VersionMismatch { .. } => new(CommandExit::Conflict, "version_mismatch")
            .with_hint("Look at what changed, then repeat with the new --if-version, or without it."),
        Refusal::WrongState { verb, done, possible_verbs, .. } => {
            let mut error = new(CommandExit::Conflict, "wrong_state");
            if let Some(done) = done {
                error.data["done"] = serde_json::json!({ "at": done.at, "by": done.by.to_string() });
            }
            error.recovery = Some(RecoveryHint::OtherVerbs {
                verb: *verb,
                possible_verbs: possible_verbs.clone(),
            });
            error
        }
        Refusal::Final { ending, .. } => {
            let mut error = new(CommandExit::Conflict, "final");
            error.data["ending"] = serde_json::json!({ "at": ending.at, "by": ending.by.to_string() });
            error.recovery = Some(RecoveryHint::PlanEnded);
            error.with_hint("A finished plan does not change. Start a new plan to continue.")
        }
        Refusal::Held { holder, expires_at } => {
            let mut error = new(CommandExit::Conflict, "held");
            error.message = format!("{} is already working on this plan", holder.owner);
            error.data = serde_json::json!({
                "kind": "held",
                "owner": holder.owner,
                "epoch": holder.epoch,
                "since": holder.since,
                "expires_at": expires_at,
            });
            error.recovery = Some(RecoveryHint::WaitForHolder);
            error
        }
        Refusal::Fenced { .. } => new(CommandExit::Conflict, "fenced")
            .with_hint("Another holder took over, or the work is finished. Stop working on it."),
        Refusal::NotDue { .. } => new(CommandExit::Conflict, "not_due"),
        Refusal::OverBudget(over) if over.account == AccountName::Global => new(CommandExit::Conflict, "over_budget")
            .with_hint(limits::raise_budget_command(RaisedLimit::new(over.unit, over.spent, over.limit))),
        Refusal::OverBudget(over) => new(CommandExit::Conflict, "over_budget")
            .with_hint(format!("planwright retry ID {}", limits::raise_limit_flag(RaisedLimit::new(over.unit, over.spent, over.limit)))),
        Refusal::LimitTooLow { unit, limit, spent } => new(CommandExit::Conflict, "limit_too_low")
            .with_hint(format!("planwright retry ID {}", limits::raise_limit_flag(RaisedLimit::new(*unit, *spent, *limit)))),
        Refusal::LeaseRuns { .. } => {
            new(CommandExit::Conflict, "lease_runs").with_hint("Reclaim it after that: planwright plumbing reclaim ID")
        }
        Refusal::QuestionOpen => new(CommandExit::Conflict, "question_open"),
        Refusal::PermissionOutdated => new(CommandExit::Conflict, "permission_outdated")
            .with_hint("Look at what it asks now: planwright status ID"),
        Refusal::ToolPolicyUnsupported { .. } => new(CommandExit::Usage, "tool_policy_unsupported")
            .with_hint("Use an agent marked (ACP), which asks before it calls tools: planwright agent list"),
        Refusal::PermissionAnswered(_) => new(CommandExit::Conflict, "permission_answered"),
        Refusal::NotAuthorized { .. } => new(CommandExit::NeedsPerson, "not_authorized")
            .with_hint("Ask a person to do this."),
        Refusal::NeedsPerson { .. } => new(CommandExit::NeedsPerson, "needs_person"),
        Refusal::ApprovalVoid(_) => {
            new(CommandExit::NeedsPerson, "approval_void").with_hint("Review the current result and approve it: planwright apply ID")
        }
        Refusal::RuleOfRepository => new(CommandExit::Usage, "rule_of_repository"),
        Refusal::NothingToJudge { .. } => {
            new(CommandExit::Usage, "nothing_to_judge").with_hint("Check it at a gate that has a result: --at result or --at apply")
        }
        Refusal::RuleDoesNotAsk { rule, .. } => new(CommandExit::Usage, "not_asking").with_hint(format!(
            "To land anyway: planwright waive ID {} --reason \"TEXT\"",
            rule.name
        )),
        Refusal::NothingToFix => new(CommandExit::NeedsPerson, "nothing_to_fix")
            .with_hint("planwright revise ID \"TEXT\""),
        Refusal::NeedsApproval => new(CommandExit::NeedsPerson, "needs_approval").with_hint("planwright apply ID"),
        Refusal::NeedsFate => new(CommandExit::Usage, "needs_fate"),
        // The store answers this itself.
        Refusal::CompletionNotRead { .. } => new(CommandExit::Error, "completion_not_read"),
        Refusal::PointOfNoReturn { .. } => new(CommandExit::Conflict, "point_of_no_return"),
        Refusal::JudgementStale { .. } => {
            new(CommandExit::Conflict, "judgement_stale").with_hint("The plan or its rules kept changing. Repeat the command.")
        }
        Refusal::ReversionLimit(_) => new(CommandExit::Conflict, "reversion_limit"),
        Refusal::EmptyResult => new(CommandExit::Conflict, "empty_result")
            .with_hint("Nothing changed. To accept an empty result, pass --allow-empty"),
        Refusal::NothingPicked => new(CommandExit::Usage, "nothing_picked")
            .with_hint("To give up the whole result: planwright cancel ID"),
        Refusal::ResultChanged => new(CommandExit::Conflict, "result_changed")
            .with_hint("Look at it again: planwright diff ID --hunks"),
        Refusal::NoSuchComment(_) => new(CommandExit::NotFound, "no_such_comment")
            .with_hint("List your draft comments: planwright review ID"),
        Refusal::ReviewTooLarge { .. } => new(CommandExit::Usage, "review_too_large")
            .with_hint("Send your comments, or land a part of the result, and go on after that."),
        Refusal::PickMismatch => new(CommandExit::Usage, "pick_does_not_fit"),
        Refusal::RestWaits => new(CommandExit::Conflict, "rest_waits").with_hint(
            "Land it first, or leave the new parts out for good: planwright drop ID",
        ),
        Refusal::BasesMismatch => new(CommandExit::Usage, "bases_do_not_fit"),
        Refusal::MovesMismatch => new(CommandExit::Usage, "moves_do_not_fit"),
        Refusal::NotLanded { .. } => new(CommandExit::Conflict, "not_landed"),
        Refusal::NothingToUndo => new(CommandExit::Conflict, "nothing_to_undo"),
        Refusal::ActionExists { name, .. } => {
            new(CommandExit::Conflict, "action_exists").with_hint(format!("planwright action show {name}"))
        }
        Refusal::ActionArchived { .. } => {
            new(CommandExit::Conflict, "action_archived").with_hint("planwright action list")
        }
        Refusal::ActionUsedUp { plan, .. } => {
            new(CommandExit::Conflict, "action_used_up").with_hint(format!("planwright status {plan}"))
        }
        Refusal::ProjectExists { name, .. } => new(CommandExit::Conflict, "project_exists")
            .with_hint(format!("Look at it: planwright project show {name}"))
            .with_hint("Change it with project link, unlink or relink, or choose another name."),
        Refusal::ProjectEmpty(name) => new(CommandExit::Conflict, "project_empty").with_hint(format!(
            "Add what it works on: planwright project link {name} --git PATH"
        )),
        Refusal::ProjectPaused { project, .. } => new(CommandExit::Conflict, "project_paused")
            .with_hint(format!("planwright project resume {project}")),
        Refusal::ProjectInUse { count, plans, .. } => {
            let mut error = new(CommandExit::Conflict, "project_in_use")
                .with_hint("Wait for these plans or cancel them. With --force they lose their repository.");
            error.data = serde_json::json!({ "kind": "project_in_use", "count": count, "plans": plans });
            error
        }
        Refusal::ResourceExists { project, name } => new(CommandExit::Conflict, "resource_exists").with_hint(format!(
            "If it moved: planwright project relink {project} {name} --git PATH"
        )),
        Refusal::PlaceTaken { .. } => new(CommandExit::Conflict, "place_taken"),
        Refusal::ResourceKind { project, name, .. } => new(CommandExit::Conflict, "resource_kind").with_hint(format!(
            "Unlink it first: planwright project unlink {project} {name}"
        )),
        Refusal::BadResource { .. } => new(CommandExit::Usage, "bad_resource"),
        Refusal::ResourceNotInPlan(_) => new(CommandExit::NotFound, "no_such_resource"),
        Refusal::NoActor => new(CommandExit::Usage, "no_actor").with_hint("planwright config set actor NAME"),
        Refusal::NoGoal => new(CommandExit::Usage, "no_goal"),
        Refusal::BadText { .. } => new(CommandExit::Usage, "bad_text"),
        Refusal::Arguments(_) => new(CommandExit::Usage, "bad_arguments"),
        Refusal::BadDecision { .. } => new(CommandExit::Usage, "bad_decision"),
        Refusal::RuleExists { scope, name } => new(CommandExit::Conflict, "rule_exists")
            .with_hint(rule_removal_hint(scope, name)),
        Refusal::NonOverridable { rule } => new(CommandExit::Blocked, "non_overridable").with_hint(rule_removal_hint(&rule.scope, &rule.name)),
        Refusal::NodeHasOpenChangeset { open } => new(CommandExit::Conflict, "node_has_open_changeset").with_hint(format!(
            "Record into it, or seal it: planwright plumbing seal-changeset {} --epoch {} --changeset {}",
            open.plan, open.epoch, open.id
        )),
        Refusal::NoOpenChangeset { .. } => {
            new(CommandExit::Conflict, "no_open_changeset").with_hint("planwright plumbing open-changeset ID --epoch E")
        }
        Refusal::AmbiguousChangeset { open } => {
            let nodes: Vec<String> = open.iter().map(|one| format!("--node {} ({})", one.node, one.id)).collect();
            new(CommandExit::Conflict, "ambiguous_changeset").with_hint(format!("One of: {}", nodes.join(", ")))
        }
        Refusal::ReadOnly(_) => new(CommandExit::Conflict, "read_only"),
    }
}

/// How to remove a rule.
fn rule_removal_hint(scope: &RuleScope, name: &RuleName) -> String {
    match rule_removal_command(scope, name) {
        Some(command) => format!("Remove it: {command}"),
        None if matches!(scope, RuleScope::Repository(_)) => {
            "Remove it from planwright.yaml on the target branch.".to_owned()
        }
        None => "The plan copied this rule from planwright.yaml. Cancel the plan, edit the file and start a new plan."
            .to_owned(),
    }
}

/// The command that removes a rule. `None` for rules that are defined in a file.
fn rule_removal_command(scope: &RuleScope, name: &RuleName) -> Option<String> {
    let scope = match scope {
        RuleScope::Global => String::new(),
        RuleScope::Project(project) => format!(" --project {project}"),
        RuleScope::Repository(_) | RuleScope::WorkingTree(_) => return None,
        RuleScope::Action(action) => format!(" --action {action}"),
        RuleScope::Plan(plan) => format!(" --plan {plan}"),
    };
    Some(format!("planwright rule remove {name}{scope}"))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::Cli;

    const ID: &str = "01ARZ3NDEKTSV4RRFFQ69G5FAV";

    #[test]
    fn removal_commands_of_all_scopes_parse() {
        let name: RuleName = "calm".parse().unwrap();
        for scope in [
            RuleScope::Global,
            RuleScope::Action("acme/tidy".parse().unwrap()),
            RuleScope::Plan(ID.parse().unwrap()),
        ] {
            let command = rule_removal_command(&scope, &name).unwrap();
            let parsed = Cli::try_parse_from(command.split(' '));
            assert!(parsed.is_ok(), "{command}: {parsed:?}");
        }
    }
}
