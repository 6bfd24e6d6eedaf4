//! Records the decisions that an agent reports while it works.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use actors::Stop;
use plan::command::RecordDecision;
use plan::decision::ReportedDecision;

use crate::Claim;

/// How long to retry while the store is unavailable. The agent waits for the answer.
const RETRY_TIMEOUT: Duration = Duration::from_secs(10);
const RETRY_INTERVAL: Duration = Duration::from_millis(200);

/// Records decisions under a claim. A claim that was lost is refused by its epoch.
pub(super) struct DecisionRecorder<'a> {
    claim: &'a Claim,
    stop: &'a Stop,
    last_number: AtomicU32,
}

impl<'a> DecisionRecorder<'a> {
    pub(super) fn new(claim: &'a Claim, stop: &'a Stop) -> Self {
        Self {
            claim,
            stop,
            last_number: AtomicU32::new(0),
        }
    }

    /// Commits a decision. Fails with the reason, for the agent.
    pub(super) fn record(&self, decision: &ReportedDecision) -> Result<(), String> {
        let (plan_id, epoch) = (self.claim.plan().id(), self.claim.epoch());
        let number = self.last_number.fetch_add(1, Ordering::SeqCst) + 1;
        // With a key, a commit whose outcome is unknown can be repeated.
        let key = format!("decision {number} of epoch {epoch}");
        let call = self.claim.call().with_key(key);
        let began = Instant::now();
        loop {
            let decision = decision.clone();
            let command = RecordDecision { epoch, decision };
            let recorded = self.claim.lifecycle.submit_command(plan_id, command, &call);
            match recorded {
                Ok(_) => return Ok(()),
                Err(error)
                    if error.is_store_unavailable()
                        && began.elapsed() < RETRY_TIMEOUT
                        && !self.stop.wait_for_request(RETRY_INTERVAL) => {}
                Err(error) => return Err(error.to_string()),
            }
        }
    }
}
