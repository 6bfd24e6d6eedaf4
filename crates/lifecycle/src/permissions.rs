//! Questions about single tool calls: an agent asks while it works, and a person allows or rejects.

use std::time::Duration;

use actors::{PersonDecision, Stop};
use plan::command::AskPermission;
use plan::permission_question::{PermissionQuestion, ProposedToolCall};
use plan::{Epoch, PlanId};

use crate::{Call, CommitWatcher, Lifecycle, LifecycleError};

/// Upper bound for one wait for a commit, so that a stop is noticed soon.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(250);

/// Between attempts to store a question while the store is unavailable.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

#[derive(Clone, Copy)]
pub(crate) struct Permissions<'a> {
    lifecycle: &'a Lifecycle,
}

impl Lifecycle {
    pub(crate) fn permissions(&self) -> Permissions<'_> {
        Permissions { lifecycle: self }
    }
}

impl Permissions<'_> {
    /// Asks a person, and waits until they answer, the stop is requested, or this epoch no longer holds the plan.
    pub(crate) fn ask_person(
        &self,
        (plan_id, epoch): (PlanId, Epoch),
        tool_call: &ProposedToolCall,
        stop: &Stop,
        call: &Call,
    ) -> PersonDecision {
        let mut commits = self.lifecycle.watch_commits().ok();
        let ask = || {
            let command = AskPermission {
                epoch,
                call: tool_call.clone(),
            };
            self.lifecycle.submit_command(plan_id, command, call)
        };
        // Asking again is safe: the same question is not opened twice.
        while let Err(error) = ask() {
            let may_be_stored = matches!(error, LifecycleError::CommitUnknown(_));
            if !may_be_stored && !error.is_store_unavailable() {
                return PersonDecision::Unavailable(error.to_string());
            }
            if stop.wait_for_request(RETRY_INTERVAL) {
                return PersonDecision::Withdrawn;
            }
        }
        let mut digest = None;
        loop {
            match self.read_question(plan_id, epoch) {
                Ok(Some(question)) => {
                    // Only one thread of this holder asks, so the first question read is its own.
                    if *digest.get_or_insert(question.digest) != question.digest {
                        return PersonDecision::Withdrawn;
                    }
                    if let Some(decision) = read_decision(&question) {
                        return decision;
                    }
                }
                Ok(None) | Err(LifecycleError::Refused(_)) => return PersonDecision::Withdrawn,
                // An unavailable store says nothing about the answer.
                Err(_) => {}
            }
            if wait_for_change(commits.as_mut(), stop) {
                return PersonDecision::Withdrawn;
            }
        }
    }

    /// The last question of this holder.
    fn read_question(
        &self,
        plan_id: PlanId,
        epoch: Epoch,
    ) -> Result<Option<PermissionQuestion>, LifecycleError> {
        let row = self.lifecycle.get_plan(plan_id)?;
        let holder = row.plan.stage().holder();
        let holder = holder.filter(|holder| holder.epoch == epoch);
        Ok(holder.and_then(|holder| holder.permission.as_deref().cloned()))
    }
}

/// Waits for a commit, for a short time. Returns whether the stop was requested.
fn wait_for_change(commits: Option<&mut CommitWatcher<'_>>, stop: &Stop) -> bool {
    let waited = commits.map(|commits| commits.wait_for_commit(STOP_CHECK_INTERVAL));
    match waited {
        Some(Ok(_)) => stop.is_requested(),
        // It did not wait.
        Some(Err(_)) | None => stop.wait_for_request(STOP_CHECK_INTERVAL),
    }
}

fn read_decision(question: &PermissionQuestion) -> Option<PersonDecision> {
    let answer = question.answer.as_ref()?;
    let by = answer.by.clone();
    Some(match answer.allowed {
        true => PersonDecision::Allowed { by },
        false => PersonDecision::Rejected { by },
    })
}
