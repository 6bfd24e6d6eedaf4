//! What the commit that lands says.

use plan::{Digest, PlanId};

/// The message of a landing commit, and when it is said to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// The plan.
    pub plan: PlanId,
    /// What it is for; the first line becomes the subject.
    pub goal: String,
    /// The head of the plan's chain of events before it landed.
    pub chain: Digest,
    /// Seconds since 1970.
    pub seconds: i64,
    /// Land it even if the target has it all already.
    pub even_if_empty: bool,
}

impl Message {
    /// Subject, text and trailers.
    pub(crate) fn text(&self) -> String {
        let mut lines = self.goal.trim().lines();
        let subject = lines.next().unwrap_or("Land a plan").trim();
        let rest: Vec<&str> = lines.collect();
        let mut text = format!("{subject}\n\n");
        let rest = rest.join("\n");
        if !rest.trim().is_empty() {
            text.push_str(rest.trim());
            text.push_str("\n\n");
        }
        text.push_str(&format!(
            "Planwright-Plan: {}\nPlanwright-Chain: {}\n",
            self.plan, self.chain
        ));
        text
    }
}
