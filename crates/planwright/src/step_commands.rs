//! The command to type for each next step of a plan. `api` decides which steps there are.

use api::NextStep;
use api::plans::MIN_REQUEST_DIGITS;
use lifecycle::Lifecycle;
use plan::event::RemovedChangeResolution;
use plan::landing_options::LandingDestination;
use plan::stage::WorkState;
use plan::{Digest, Epoch, LandingOptions, Phase, PlanId, PlanStage, Verb};
use store::PlanRow;

use crate::cli::App;
use crate::error::CommandError;
use crate::invocation::quote_word;
use crate::{home, limits};

impl App {
    /// Returns what the caller of this command can do next with a plan, most useful first.
    pub fn next_steps(&self, row: &PlanRow) -> Result<Vec<NextStep>, CommandError> {
        Ok(api::next_steps(
            self.lifecycle()?,
            row,
            &home::current_caller(),
        )?)
    }

    /// Returns the commands for all next steps of a plan.
    pub fn next_commands(&self, row: &PlanRow) -> Result<Vec<String>, CommandError> {
        let steps = self.next_steps(row)?;
        self.commands_for_steps(row.plan.id(), &steps)
    }

    /// Like [`App::next_commands`], for one plan that is shown. Judges the rules of a result by what is stored: a result
    /// with an open question or a rejection is not offered to be landed first.
    pub fn next_commands_after_judging(&self, row: &PlanRow) -> Result<Vec<String>, CommandError> {
        let is_result = matches!(row.plan.stage(), PlanStage::Execute(WorkState::Complete));
        if !is_result {
            return self.next_commands(row);
        }
        let caller = home::current_caller();
        match api::diagnosis::diagnose_plan(self.lifecycle()?, row.plan.id(), &caller) {
            Ok(why) => self.commands_for_steps(row.plan.id(), &why.next_steps),
            // What keeps its rules from being read is told by what needs them.
            Err(_) => self.next_commands(row),
        }
    }

    /// Returns the command that continues a plan that waits for a person or was interrupted. Any other plan
    /// goes on by itself, or has ended.
    pub fn next_command(&self, row: &PlanRow) -> Result<Option<String>, CommandError> {
        if !row.needs_person() && !api::plans::is_interrupted(self.lifecycle()?, row)? {
            return Ok(None);
        }
        Ok(self.next_commands_after_judging(row)?.into_iter().next())
    }

    pub fn commands_for_steps(
        &self,
        plan_id: PlanId,
        steps: &[NextStep],
    ) -> Result<Vec<String>, CommandError> {
        commands_for_steps(self.lifecycle()?, plan_id, steps)
    }

    /// Returns the command for a step that was offered on this plan.
    pub fn command_for_step(
        &self,
        plan_id: PlanId,
        step: &NextStep,
    ) -> Result<String, CommandError> {
        let handle = self.lifecycle()?.short_handle(step.subject(plan_id))?;
        Ok(command_for_step(step, &handle))
    }
}

/// Returns the commands for steps that were offered on this plan.
pub fn commands_for_steps(
    lifecycle: &Lifecycle,
    plan_id: PlanId,
    steps: &[NextStep],
) -> Result<Vec<String>, CommandError> {
    let commands = steps.iter().map(|step| {
        let handle = lifecycle.short_handle(step.subject(plan_id))?;
        Ok(command_for_step(step, &handle))
    });
    commands.collect()
}

/// Returns the command that takes a step, with placeholders for texts. `handle` names the step's plan.
pub fn command_for_step(step: &NextStep, handle: &str) -> String {
    match step {
        NextStep::Explain => format!("planwright why {handle}"),
        NextStep::Diff => format!("planwright diff {handle}"),
        NextStep::ReadTranscript => format!("planwright log {handle} --transcript"),
        NextStep::Wait => format!("planwright wait {handle}"),
        NextStep::Run { .. } => format!("planwright run {handle}"),
        NextStep::StartWorker => "planwright work".to_owned(),
        NextStep::ClaimPhase { phase } => {
            let verb = match phase {
                Phase::Strategize => Verb::StartStrategize,
                Phase::Execute => Verb::StartExecute,
                Phase::Apply => Verb::StartApply,
            };
            format!("planwright plumbing {verb} {handle} --owner NAME")
        }
        NextStep::EnterExecute => {
            let verb = Verb::ExecutePlan;
            format!("planwright plumbing {verb} {handle}")
        }
        NextStep::HolderCommand { verb, epoch } => holder_command(*verb, handle, *epoch),
        NextStep::Reclaim => format!("planwright plumbing reclaim {handle}"),
        NextStep::Answer => format!("planwright answer {handle} \"TEXT\""),
        NextStep::AllowToolCall { request } => answer_permission_command(*request, handle, "allow"),
        NextStep::RejectToolCall { request } => {
            answer_permission_command(*request, handle, "reject")
        }
        NextStep::ResolveRemovedChange { resolution } => {
            let answer = match resolution {
                RemovedChangeResolution::Landed => "landed",
                RemovedChangeResolution::Again => "again",
                RemovedChangeResolution::Drop => "drop",
            };
            format!("planwright answer {handle} {answer}")
        }
        NextStep::ApproveRule { rule } => format!("planwright approve {handle} --rule {rule}"),
        NextStep::RejectRule { rule } => {
            format!("planwright approve {handle} --rule {rule} --reject \"TEXT\"")
        }
        NextStep::Waive { rule } => {
            format!("planwright waive {handle} {rule} --reason \"TEXT\"")
        }
        NextStep::Apply { options } => {
            let flags = options.as_ref();
            let flags = flags.map(|options| landing_flags(options, None));
            format!("planwright apply {handle}{}", flags.unwrap_or_default())
        }
        NextStep::ApplyToBranch => format!("planwright apply {handle} --as branch NAME"),
        NextStep::FinishLanding | NextStep::ApplyRest { .. } => {
            format!("planwright apply {handle}")
        }
        NextStep::Retry => format!("planwright retry {handle}"),
        NextStep::RetryFresh => format!("planwright retry {handle} --fresh"),
        NextStep::RaiseLimits { limits } => {
            let flags = limits.iter().map(|limit| limits::raise_limit_flag(*limit));
            let flags: Vec<String> = flags.collect();
            format!("planwright retry {handle} {}", flags.join(" "))
        }
        NextStep::RaiseBudget { limit } => limits::raise_budget_command(*limit),
        NextStep::ResumeProject { project } => format!("planwright project resume {project}"),
        NextStep::Revise => format!("planwright revise {handle} \"TEXT\""),
        NextStep::Undo => format!("planwright undo {handle}"),
        NextStep::Cancel => format!("planwright cancel {handle}"),
    }
}

/// The command that allows or rejects a tool call.
pub fn answer_permission_command(request: Digest, handle: &str, answer: &str) -> String {
    let request = short_request(request);
    format!("planwright answer {handle} --request {request} {answer}")
}

/// The digits of a permission request that people see and type.
pub fn short_request(request: Digest) -> String {
    request
        .to_string()
        .chars()
        .take(MIN_REQUEST_DIGITS)
        .collect()
}

/// Returns the command of a program that holds the plan. The epoch is not a secret: it fences old holders, it
/// does not authenticate new ones.
fn holder_command(verb: Verb, handle: &str, epoch: Epoch) -> String {
    let values = match verb {
        Verb::Fail => " --category actor --message \"TEXT\"",
        Verb::Ask => " --question \"TEXT\"",
        Verb::Constrain => " --kind conflict --message \"TEXT\"",
        _ => "",
    };
    format!("planwright plumbing {verb} {handle} --epoch {epoch}{values}")
}

/// Returns the flags for these options, each after a space. Leaves out what applies without flags, if that is
/// known.
pub fn landing_flags(options: &LandingOptions, defaults: Option<&LandingOptions>) -> String {
    let mut flags = String::new();
    if defaults.is_none_or(|defaults| options.shape != defaults.shape) {
        flags.push_str(&match &options.shape {
            LandingDestination::Commit => " --as commit".to_owned(),
            LandingDestination::Branch(name) => format!(" --as branch {}", quote_word(name)),
            LandingDestination::Uncommitted => " --as uncommitted".to_owned(),
        });
    }
    if options.merge && defaults.is_none_or(|defaults| !defaults.merge) {
        flags.push_str(" --merge");
    }
    if options.allow_empty {
        flags.push_str(" --allow-empty");
    }
    if let Some(message) = &options.message {
        flags.push_str(&format!(" --message {}", quote_word(message.as_str())));
    }
    if !options.paths.is_empty() {
        let paths: Vec<String> = options.paths.iter().map(|path| quote_word(path)).collect();
        flags.push_str(&format!(" -- {}", paths.join(" ")));
    }
    flags
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use clap::Parser;
    use plan::command::CreateProject;
    use store::MemoryStore;
    use testkit::{SampleTerms, StageSample, TestClient, TestIds, samples};

    use super::*;
    use crate::cli::Cli;

    /// Fills in the placeholders of a command as a person would, and parses it.
    fn assert_parses(command: &str) {
        let typed = command.replace("\"TEXT\"", "text").replace("NAME", "name");
        let parsed = Cli::try_parse_from(typed.split(' '));
        assert!(parsed.is_ok(), "{command}: {parsed:?}");
    }

    #[test]
    fn every_step_of_every_plan_has_a_command_that_parses() {
        let store: Arc<dyn store::Store> = Arc::new(MemoryStore::new());
        let person = TestClient::new(Arc::clone(&store), Arc::new(TestIds::new(7)));
        let project = samples::sample_project();
        let create = CreateProject {
            name: project.name,
            resources: project.resources,
        };
        person.submit(create.into()).unwrap();
        let lifecycle = Lifecycle::on(store);
        let mut parsed = 0;
        for terms in SampleTerms::all() {
            for sample in StageSample::ALL {
                if !sample.is_possible(terms) {
                    continue;
                }
                let plan_id = sample.create_plan(&person, &person, terms);
                let row = lifecycle.get_plan(plan_id).unwrap();
                let steps = api::next_steps(&lifecycle, &row, person.caller()).unwrap();
                for step in &steps {
                    let handle = plan_id.to_string();
                    assert_parses(&command_for_step(step, &handle));
                    parsed += 1;
                }
            }
        }
        assert!(parsed > 500, "{parsed}");
    }

    #[test]
    fn a_landing_is_repeated_as_it_was_approved() {
        let defaults = LandingOptions::default();
        assert_eq!(landing_flags(&defaults, Some(&defaults)), "");
        assert_eq!(landing_flags(&defaults, None), " --as commit");
        let approved = LandingOptions {
            shape: LandingDestination::Branch("fix it".to_owned()),
            merge: true,
            allow_empty: true,
            paths: vec!["src/a b".to_owned()],
            message: Some("Fix it".into()),
        };
        let flags = " --as branch 'fix it' --merge --allow-empty --message 'Fix it' -- 'src/a b'";
        assert_eq!(landing_flags(&approved, Some(&defaults)), flags);
    }
}
