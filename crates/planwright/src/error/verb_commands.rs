//! The command to type for each verb of the engine.

use plan::{Plan, Verb};

use crate::commands::is_workable;

/// The everyday commands for these verbs, in their order, without duplicates.
pub fn daily_commands(plan: &Plan, verbs: &[Verb], handle: &str) -> Vec<String> {
    let mut commands: Vec<String> = Vec::new();
    for verb in verbs {
        let command = daily_command(plan, *verb, handle);
        commands.extend(command.filter(|command| !commands.contains(command)));
    }
    commands
}

/// The everyday command for a verb; `None` if people do not use it.
fn daily_command(plan: &Plan, verb: Verb, handle: &str) -> Option<String> {
    // Without definitions of its agents, the engine cannot run the plan; its agents use plumbing.
    let driven_here = is_workable(plan);
    match verb {
        Verb::StartStrategize | Verb::StartExecute | Verb::ExecutePlan if driven_here => {
            Some(format!("planwright run {handle}"))
        }
        Verb::Approve | Verb::ApplyPlan | Verb::StartApply => {
            Some(format!("planwright apply {handle}"))
        }
        // Only the lease holder can do these; others wait for it.
        Verb::CompleteStrategize
        | Verb::CompleteExecute
        | Verb::CompleteApply
        | Verb::PrepareApply
        | Verb::WithdrawApply
        | Verb::Constrain
        | Verb::Renew
        | Verb::Release
        | Verb::Fail
        | Verb::Ask
        | Verb::OpenChangeset
        | Verb::RecordChange
        | Verb::SealChangeset
            if driven_here =>
        {
            Some(format!("planwright wait {handle}"))
        }
        // People use `revise`, which also gives the agent feedback.
        Verb::Revert => None,
        other => Some(command_for_verb(other, handle)),
    }
}

/// The command that submits a verb, everyday or plumbing, with placeholders for missing values.
pub fn command_for_verb(verb: Verb, id: &str) -> String {
    match verb {
        Verb::Answer => format!("planwright answer {id} \"TEXT\""),
        Verb::Retry => format!("planwright retry {id}"),
        Verb::Revise => format!("planwright revise {id} \"TEXT\""),
        Verb::Revert => format!("planwright revert {id} --reason \"TEXT\""),
        Verb::Approve => format!("planwright approve {id}"),
        Verb::Cancel => format!("planwright cancel {id}"),
        Verb::Waive => format!("planwright waive {id} RULE --reason \"TEXT\""),
        Verb::StartStrategize | Verb::StartExecute => {
            format!("planwright plumbing {verb} {id} --owner NAME")
        }
        Verb::ExecutePlan => format!("planwright plumbing {verb} {id}"),
        Verb::ApplyPlan | Verb::StartApply => format!("planwright apply {id}"),
        Verb::Fail => {
            format!("planwright plumbing fail {id} --epoch E --category actor --message \"TEXT\"")
        }
        Verb::Ask => format!("planwright plumbing ask {id} --epoch E --question \"TEXT\""),
        Verb::Constrain => {
            format!(
                "planwright plumbing constrain {id} --epoch E --kind conflict --message \"TEXT\""
            )
        }
        Verb::CompleteStrategize
        | Verb::CompleteExecute
        | Verb::CompleteApply
        | Verb::OpenChangeset
        | Verb::PrepareApply
        | Verb::WithdrawApply
        | Verb::Renew
        | Verb::Release => format!("planwright plumbing {verb} {id} --epoch E"),
        Verb::RecordChange => {
            format!("planwright plumbing {verb} {id} --epoch E --path PATH --operation modify")
        }
        Verb::SealChangeset => format!("planwright plumbing {verb} {id} --epoch E --changeset C"),
        Verb::RuleOn => format!("planwright approve {id} --rule RULE"),
        Verb::Reclaim => format!("planwright plumbing reclaim {id}"),
        Verb::Undo => format!("planwright undo {id}"),
        Verb::Use | Verb::RecordBases | Verb::ExpireQuestion | Verb::Reserve | Verb::Settle => {
            format!("planwright status {id}")
        }
        Verb::CreateAction
        | Verb::ArchiveAction
        | Verb::AddRule
        | Verb::RemoveRule
        | Verb::KeepEvidence
        | Verb::CreateProject
        | Verb::LinkResource
        | Verb::UnlinkResource
        | Verb::RelinkResource
        | Verb::PauseProject
        | Verb::ResumeProject
        | Verb::DeleteProject => "planwright help".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::Cli;

    const ID: &str = "01ARZ3NDEKTSV4RRFFQ69G5FAV";

    #[test]
    fn every_verb_has_a_command_that_parses() {
        for verb in Verb::ALL {
            let command = command_for_verb(*verb, ID);
            let typed = command
                .replace("--epoch E", "--epoch 7")
                .replace("--changeset C", &format!("--changeset {ID}"))
                .replace("RULE", "rule")
                .replace("\"TEXT\"", "text");
            let parsed = Cli::try_parse_from(typed.split(' '));
            assert!(parsed.is_ok(), "{verb}: {command}: {parsed:?}");
        }
    }
}
