//! The numbered results of a plan. The numbers follow from the log: the first result is r1.

use plan::stage::ResultContent;
use plan::{Caller, Event, RecordedEvent, Timestamp};

/// One result of a plan.
#[derive(Debug, Clone, PartialEq)]
pub struct NumberedResult {
    /// From 1.
    pub number: u32,
    pub content: ResultContent,
    pub source: ResultSource,
    pub by: Caller,
    pub at: Timestamp,
}

/// Where a result comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResultSource {
    /// The plan was created with it: it undoes or continues another plan.
    Created,
    /// An agent, or a person working in its place, submitted it.
    Executed,
    /// A person took parts out of the one before.
    Picked,
}

pub(crate) fn collect_results(history: &[RecordedEvent]) -> Vec<NumberedResult> {
    let results = history.iter().filter_map(|recorded| {
        let (content, source) = result_of_event(&recorded.event)?;
        Some((recorded, content, source))
    });
    results
        .zip(1..)
        .map(|((recorded, content, source), number)| NumberedResult {
            number,
            content: content.clone(),
            source,
            by: recorded.by.clone(),
            at: recorded.at,
        })
        .collect()
}

/// Returns the result that an event makes, if it makes one.
pub fn result_of_event(event: &Event) -> Option<(&ResultContent, ResultSource)> {
    match event {
        Event::Created(created) => created
            .result
            .as_ref()
            .map(|result| (result, ResultSource::Created)),
        Event::ExecuteCompleted { result, .. } => Some((result, ResultSource::Executed)),
        Event::ResultPicked { result, .. } => Some((result, ResultSource::Picked)),
        Event::GateHeld { .. }
        | Event::Claimed { .. }
        | Event::BasesRecorded { .. }
        | Event::DecisionsRecorded { .. }
        | Event::StrategizeCompleted { .. }
        | Event::ExecuteEntered { .. }
        | Event::ChangesetSealed { .. }
        | Event::Approved { .. }
        | Event::ApplyEntered { .. }
        | Event::ApplyPrepared { .. }
        | Event::ApplyWithdrawn { .. }
        | Event::Landed { .. }
        | Event::Constrained { .. }
        | Event::Failed { .. }
        | Event::RetryScheduled { .. }
        | Event::Retried { .. }
        | Event::Asked { .. }
        | Event::Answered { .. }
        | Event::QuestionExpired
        | Event::PermissionAsked { .. }
        | Event::PermissionAnswered { .. }
        | Event::Revised { .. }
        | Event::Reverted { .. }
        | Event::Released { .. }
        | Event::Reclaimed { .. }
        | Event::Waived { .. }
        | Event::RuledOn { .. }
        | Event::Cancelled { .. } => None,
    }
}
