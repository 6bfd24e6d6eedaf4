//! What the engine said no to: a refusal, or rules that failed.

use plan::invariant::{RuleName, Scope};
use plan::judgement::Waits;
use plan::ledger::AccountName;
use plan::{ReconciliationBlocked, Refusal};

use super::{CommandError, WayOut, sentence};
use crate::exit::Exit;
use crate::limits;
use crate::ui;

/// Rules failed at a gate.
pub fn blocked_by(blocked: &ReconciliationBlocked) -> CommandError {
    let mut message = format!("{blocked}. The plan did not move.");
    let mut hints = Vec::new();
    for failed in &blocked.failed {
        message.push_str(&format!(
            "\n  {}: {}\n    {}",
            failed.rule,
            ui::clean(&failed.evidence),
            ui::clean(&failed.check)
        ));
        if failed.waits == Some(Waits::Person) {
            let holds = format!(
                "planwright approve {} --rule {}",
                blocked.plan, failed.rule.name
            );
            let rejected = format!("{holds} --reject \"TEXT\"");
            hints.extend([holds, rejected]);
        } else if failed.waivable {
            hints.push(format!(
                "planwright waive {} {} --reason \"TEXT\"",
                blocked.plan, failed.rule.name
            ));
        } else {
            hints.push(format!(
                "{} cannot be waived: change the plan, or the rule.",
                failed.rule
            ));
        }
    }
    hints.push(format!("planwright why {}", blocked.plan));
    let data = serde_json::json!({
        "kind": "reconciliation_blocked",
        "plan_id": blocked.plan,
        "gate": blocked.gate,
        "failed": blocked.failed,
    });
    let waits_only = blocked
        .failed
        .iter()
        .all(|one| one.waits == Some(Waits::Person));
    CommandError {
        exit: match waits_only {
            true => Exit::NeedsPerson,
            false => Exit::Blocked,
        },
        message,
        hints,
        data,
        way_out: None,
    }
}

/// The plan, or whatever it was about, cannot do that.
pub fn refused(refusal: &Refusal) -> CommandError {
    let new = |exit, kind: &str| CommandError::new(exit, sentence(&refusal.to_string())).kind(kind);
    match refusal {
        Refusal::NoSuchPlan(_) => new(Exit::NotFound, "no_such_plan").hint("planwright list"),
        Refusal::NoSuchAction(_) => new(Exit::NotFound, "no_such_action").hint("planwright action list"),
        Refusal::NoSuchProject(name) => CommandError {
            way_out: Some(WayOut::Project(name.clone())),
            ..new(Exit::NotFound, "no_such_project")
        },
        Refusal::NoSuchResource { project, .. } => new(Exit::NotFound, "no_such_resource")
            .hint(format!("planwright project show {project}")),
        Refusal::NoSuchRule { .. } => new(Exit::NotFound, "no_such_rule").hint("planwright invariant list"),
        Refusal::NoRuleOnPlan { plan, .. } => new(Exit::NotFound, "no_such_rule")
            .hint(format!("planwright invariant list --effective {plan}")),
        Refusal::NoSuchChangeset { plan, .. } => new(Exit::NotFound, "no_such_changeset")
            .hint(format!("planwright plumbing changesets {plan}")),
        Refusal::VersionMismatch { .. } => new(Exit::Conflict, "version_mismatch")
            .hint("Look at what changed, then repeat with the new --if-version or without one."),
        Refusal::WrongState { verb, helps, .. } => CommandError {
            way_out: Some(WayOut::Instead {
                verb: *verb,
                helps: helps.clone(),
            }),
            ..new(Exit::Conflict, "wrong_state")
        },
        Refusal::Final { .. } => CommandError {
            way_out: Some(WayOut::Ended),
            ..new(Exit::Conflict, "final")
        }
        .hint("What has ended stays as it is; start a new plan to go on."),
        Refusal::Held { holder, expires_at } => {
            let mut error = new(Exit::Conflict, "held");
            error.message = format!(
                "The plan is held by {} since {} (epoch {})",
                holder.owner, holder.since, holder.epoch
            );
            error.data = serde_json::json!({
                "kind": "held",
                "owner": holder.owner,
                "epoch": holder.epoch,
                "since": holder.since,
                "expires_at": expires_at,
            });
            error.way_out = Some(WayOut::Wait);
            error
        }
        Refusal::Fenced { .. } => new(Exit::Conflict, "fenced")
            .hint("Somebody else took over or the work is finished; do not go on with it."),
        Refusal::NotDue { .. } => new(Exit::Conflict, "not_due"),
        Refusal::OverBudget(over) if over.account == AccountName::Global => new(Exit::Conflict, "over_budget")
            .hint(limits::setting(over.means, over.spent, over.limit)),
        Refusal::OverBudget(over) => new(Exit::Conflict, "over_budget")
            .hint(format!("planwright retry ID {}", limits::flag(over.means, over.spent, over.limit))),
        Refusal::LimitTooLow { means, limit, spent } => new(Exit::Conflict, "limit_too_low")
            .hint(format!("planwright retry ID {}", limits::flag(*means, *spent, *limit))),
        Refusal::LeaseRuns { .. } => {
            new(Exit::Conflict, "lease_runs").hint("It can be reclaimed once it has expired.")
        }
        Refusal::QuestionOpen => new(Exit::Conflict, "question_open"),
        Refusal::NeedsPerson { .. } => new(Exit::NeedsPerson, "needs_person"),
        Refusal::ApprovalVoid(_) => {
            new(Exit::NeedsPerson, "approval_void").hint("Look again, and sign: planwright apply ID")
        }
        Refusal::RuleOfRepository => new(Exit::Usage, "rule_of_repository"),
        Refusal::NothingToJudge { .. } => {
            new(Exit::Usage, "nothing_to_judge").hint("Judge it --at result or --at apply.")
        }
        Refusal::NotAsking { .. } => new(Exit::Usage, "not_asking")
            .hint("To land although it fails: planwright waive ID NAME --reason \"TEXT\""),
        Refusal::NothingToFix => new(Exit::NeedsPerson, "nothing_to_fix")
            .hint("planwright revise ID \"TEXT\""),
        Refusal::NeedsApproval => new(Exit::NeedsPerson, "needs_approval").hint("planwright apply ID"),
        Refusal::NeedsFate => new(Exit::Usage, "needs_fate"),
        Refusal::PointOfNoReturn { .. } => new(Exit::Conflict, "point_of_no_return"),
        Refusal::JudgementStale { .. } => {
            new(Exit::Conflict, "judgement_stale").hint("Repeat the command; plan or rules kept changing.")
        }
        Refusal::ReversionLimit(_) => new(Exit::Conflict, "reversion_limit"),
        Refusal::EmptyResult => new(Exit::Conflict, "empty_result")
            .hint("If that is what was wanted, say so: --allow-empty"),
        Refusal::BasesDoNotFit => new(Exit::Usage, "bases_do_not_fit"),
        Refusal::MovesDoNotFit => new(Exit::Usage, "moves_do_not_fit"),
        Refusal::NotLanded { .. } => new(Exit::Conflict, "not_landed"),
        Refusal::NothingToUndo => new(Exit::Conflict, "nothing_to_undo"),
        Refusal::ActionExists { name, .. } => {
            new(Exit::Conflict, "action_exists").hint(format!("planwright action show {name}"))
        }
        Refusal::ActionArchived { .. } => {
            new(Exit::Conflict, "action_archived").hint("planwright action list")
        }
        Refusal::ActionUsedUp { plan, .. } => {
            new(Exit::Conflict, "action_used_up").hint(format!("planwright status {plan}"))
        }
        Refusal::ProjectExists { name, .. } => new(Exit::Conflict, "project_exists")
            .hint(format!("Look at it: planwright project show {name}"))
            .hint("Change it with project link, unlink or relink, or choose another name."),
        Refusal::ProjectEmpty(name) => new(Exit::Conflict, "project_empty").hint(format!(
            "Add what it works on: planwright project link {name} --git PATH"
        )),
        Refusal::ProjectPaused { project, .. } => new(Exit::Conflict, "project_paused")
            .hint(format!("planwright project resume {project}")),
        Refusal::ProjectInUse { count, plans, .. } => {
            let mut error = new(Exit::Conflict, "project_in_use")
                .hint("Let them end or cancel them; with --force they will not find what they work on.");
            error.data = serde_json::json!({ "kind": "project_in_use", "count": count, "plans": plans });
            error
        }
        Refusal::ResourceExists { project, name } => new(Exit::Conflict, "resource_exists").hint(format!(
            "If it has moved, say so: planwright project relink {project} {name}"
        )),
        Refusal::PlaceTaken { .. } => new(Exit::Conflict, "place_taken"),
        Refusal::ResourceKind { project, name, .. } => new(Exit::Conflict, "resource_kind").hint(format!(
            "Unlink it first: planwright project unlink {project} {name}"
        )),
        Refusal::BadResource { .. } => new(Exit::Usage, "bad_resource"),
        Refusal::NotOfThePlan(_) => new(Exit::NotFound, "no_such_resource"),
        Refusal::NoActor => new(Exit::Usage, "no_actor").hint("planwright config set actor NAME"),
        Refusal::NoGoal => new(Exit::Usage, "no_goal"),
        Refusal::BadText { .. } => new(Exit::Usage, "bad_text"),
        Refusal::Arguments(_) => new(Exit::Usage, "bad_arguments"),
        Refusal::BadDecision { .. } => new(Exit::Usage, "bad_decision"),
        Refusal::RuleExists { scope, name } => new(Exit::Conflict, "rule_exists")
            .hint(format!("Remove it first: {}", removal(scope, name))),
        Refusal::NonOverridable { rule } => new(Exit::Blocked, "non_overridable").hint(format!(
            "It holds until it is removed: {}",
            removal(&rule.scope, &rule.name)
        )),
        Refusal::NodeHasOpenChangeset { open } => new(Exit::Conflict, "node_has_open_changeset").hint(format!(
            "Record into it, or seal it: planwright plumbing seal-changeset {} --epoch {} --changeset {}",
            open.plan, open.epoch, open.id
        )),
        Refusal::NoOpenChangeset { .. } => {
            new(Exit::Conflict, "no_open_changeset").hint("planwright plumbing open-changeset ID --epoch E")
        }
        Refusal::AmbiguousChangeset { open } => {
            let nodes: Vec<String> = open.iter().map(|one| format!("--node {} ({})", one.node, one.id)).collect();
            new(Exit::Conflict, "ambiguous_changeset").hint(format!("One of: {}", nodes.join(", ")))
        }
        Refusal::ReadOnly(_) => new(Exit::Conflict, "read_only"),
    }
}

/// The command that removes a rule.
fn removal(scope: &Scope, name: &RuleName) -> String {
    let scope = match scope {
        Scope::Global => String::new(),
        Scope::Project(project) => format!(" --project {project}"),
        // It is nobody's to remove but by landing on the target.
        Scope::Repository(_) => return "Change planwright.yaml on the target branch.".to_owned(),
        Scope::WorkingTree(_) => {
            return "It was copied from planwright.yaml when the plan was made: cancel the plan, change the file \
                    and run it again."
                .to_owned();
        }
        Scope::Action(action) => format!(" --action {action}"),
        Scope::Plan(plan) => format!(" --plan {plan}"),
    };
    format!("planwright invariant remove {name}{scope}")
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::Cli;

    const ID: &str = "01ARZ3NDEKTSV4RRFFQ69G5FAV";

    #[test]
    fn rules_of_every_scope_can_be_removed_as_it_is_said() {
        let name: RuleName = "calm".parse().unwrap();
        for scope in [
            Scope::Global,
            Scope::Action("acme/tidy".parse().unwrap()),
            Scope::Plan(ID.parse().unwrap()),
        ] {
            let command = removal(&scope, &name);
            let parsed = Cli::try_parse_from(command.split(' '));
            assert!(parsed.is_ok(), "{command}: {parsed:?}");
        }
    }
}
