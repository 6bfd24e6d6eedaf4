//! A question about one tool call, which a person answers while the agent waits.
//!
//! The question belongs to the run that asked it: it is part of the lease holder, so that every way to end
//! the run voids it.

use serde::{Deserialize, Serialize};

use crate::transcript::ToolKind;
use crate::{Caller, Digest, Epoch, ErasableText, PlanId, PlanVersion, Timestamp};

/// A tool call that an agent wants to make, as it is shown to the person who decides.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProposedToolCall {
    /// The agent's own name for the tool.
    pub tool: String,
    pub tool_kind: ToolKind,
    /// The call in one line, for example `run cargo test`.
    pub summary: ErasableText,
    /// What the tool gets, as the agent wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<ErasableText>,
    /// Why a person is asked.
    pub reason: String,
}

/// A tool call that a person was asked about, and what they answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PermissionQuestion {
    /// Names the question. An answer repeats it.
    pub digest: Digest,
    pub call: ProposedToolCall,
    pub asked_at: Timestamp,
    /// `None` while the question is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<PermissionAnswer>,
}

/// A person's answer. It holds for this call only.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PermissionAnswer {
    pub allowed: bool,
    pub by: Caller,
    pub at: Timestamp,
}

impl ProposedToolCall {
    pub const MAX_TOOL_CHARS: usize = 200;

    /// Returns the digest that names a question about this call. It covers everything that is shown, and the
    /// version makes it differ from every other question of the plan.
    pub fn digest_for(&self, plan_id: PlanId, epoch: Epoch, version: PlanVersion) -> Digest {
        let (plan_id, version) = (plan_id.to_string(), version.0.to_be_bytes());
        let input = self.input.as_ref().map_or("", ErasableText::as_str);
        Digest::hash_parts([
            plan_id.as_bytes(),
            &epoch.0.to_be_bytes(),
            &version,
            self.tool.as_bytes(),
            self.tool_kind.as_str().as_bytes(),
            self.summary.as_str().as_bytes(),
            input.as_bytes(),
            self.reason.as_bytes(),
        ])
    }
}
