//! The forms that a page shows for the next steps of a plan. `api` decides which steps there are.

use api::NextStep;
use plan::event::RemovedChangeResolution;

/// Which forms to show.
#[derive(Debug, Default)]
pub struct OfferedForms {
    pub land: bool,
    pub land_on_branch: bool,
    pub revise: bool,
    pub answer: bool,
    /// The agent waits for a tool call to be allowed or rejected.
    pub permission: bool,
    /// The answers to a change that landed and was then removed.
    pub resolutions: Vec<&'static str>,
    pub retry: bool,
    pub undo: bool,
    pub cancel: bool,
    /// Rules that ask a person.
    pub rulings: Vec<String>,
    pub waivers: Vec<String>,
    /// Nothing goes on until a worker runs.
    pub needs_worker: bool,
}

impl OfferedForms {
    pub fn new(steps: &[NextStep]) -> Self {
        let mut forms = Self::default();
        for step in steps {
            match step {
                NextStep::Apply { .. } | NextStep::FinishLanding => forms.land = true,
                NextStep::ApplyToBranch => forms.land_on_branch = true,
                NextStep::Revise => forms.revise = true,
                NextStep::Answer => forms.answer = true,
                NextStep::AllowToolCall { .. } => forms.permission = true,
                NextStep::ResolveRemovedChange { resolution } => {
                    forms.resolutions.push(match resolution {
                        RemovedChangeResolution::Landed => "landed",
                        RemovedChangeResolution::Again => "again",
                        RemovedChangeResolution::Drop => "drop",
                    });
                }
                NextStep::Retry => forms.retry = true,
                NextStep::Undo => forms.undo = true,
                NextStep::Cancel => forms.cancel = true,
                NextStep::ApproveRule { rule } => forms.rulings.push(rule.to_string()),
                NextStep::Waive { rule } => forms.waivers.push(rule.to_string()),
                NextStep::StartWorker => forms.needs_worker = true,
                // Shown on the page anyway, or done in a terminal.
                NextStep::Explain
                | NextStep::Diff
                | NextStep::ReadTranscript
                | NextStep::Wait
                | NextStep::Run { .. }
                | NextStep::ClaimPhase { .. }
                | NextStep::EnterExecute
                | NextStep::HolderCommand { .. }
                | NextStep::Reclaim
                | NextStep::RejectToolCall { .. }
                | NextStep::RejectRule { .. }
                | NextStep::ApplyRest { .. }
                | NextStep::RetryFresh
                | NextStep::RaiseLimits { .. }
                | NextStep::RaiseBudget { .. }
                | NextStep::ResumeProject { .. } => {}
            }
        }
        forms
    }
}
