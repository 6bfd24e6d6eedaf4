//! Checks that every call an actor made was allowed by a person, for the run that asked, and that each request was
//! answered at most once.

use std::collections::BTreeMap;

use plan::{Digest, Event, RecordedEvent};

use super::asking_actor::MadeCall;

/// The requests of one plan, as its log tells them.
#[derive(Debug, Default)]
pub struct PermissionLog {
    /// Requests that were answered.
    pub answers: usize,
    /// The epoch in which each input was allowed.
    allowed: BTreeMap<String, u64>,
    pub violations: Vec<String>,
}

struct PendingRequest {
    digest: Digest,
    epoch: u64,
    input: String,
    is_answered: bool,
}

impl PermissionLog {
    pub fn read(history: &[RecordedEvent]) -> Self {
        let mut log = Self::default();
        let mut open: Option<PendingRequest> = None;
        for recorded in history {
            match &recorded.event {
                Event::PermissionAsked {
                    epoch,
                    digest,
                    call,
                } => {
                    let input = call.input.as_ref().map(ToString::to_string);
                    open = Some(PendingRequest {
                        digest: *digest,
                        epoch: epoch.0,
                        input: input.unwrap_or_default(),
                        is_answered: false,
                    });
                }
                Event::PermissionAnswered { digest, allowed } => {
                    log.answers += 1;
                    let plan_id = recorded.plan;
                    let asked = open.as_mut().filter(|asked| asked.digest == *digest);
                    match asked {
                        Some(asked) if !asked.is_answered && recorded.by.is_person() => {
                            asked.is_answered = true;
                            if *allowed {
                                log.allowed.insert(asked.input.clone(), asked.epoch);
                            }
                        }
                        Some(_) => log.violations.push(format!(
                            "{plan_id}: a request was answered twice, or not by a person"
                        )),
                        None => log.violations.push(format!(
                            "{plan_id}: an answer was accepted although nobody waited for it"
                        )),
                    }
                }
                // Each of them ends the run that asked.
                Event::Claimed { .. }
                | Event::Released { .. }
                | Event::Reclaimed { .. }
                | Event::Failed { .. }
                | Event::Asked { .. }
                | Event::ExecuteCompleted { .. }
                | Event::Cancelled { .. } => open = None,
                _ => {}
            }
        }
        log
    }

    /// Checks a call that an actor of this plan made.
    pub fn check_call(&mut self, call: &MadeCall) {
        let mut allowed = self.allowed.iter();
        let is_allowed =
            allowed.any(|(input, epoch)| *epoch == call.epoch && input.contains(&call.command));
        if !is_allowed {
            self.violations.push(format!(
                "{}: an actor made a call that nobody allowed in epoch {}: {}",
                call.plan_id, call.epoch, call.command
            ));
        }
    }
}
