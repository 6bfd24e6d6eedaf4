//! Tells the usage of a run from that of its session: with some agents, the totals of a resumed session
//! include earlier runs.

use crate::{EarlierSession, Usage};

/// The increase since `before`; the whole total if it is smaller, because then it is another count.
pub(crate) fn usage_since(total: u64, before: u64) -> u64 {
    total.checked_sub(before).unwrap_or(total)
}

/// Does `total` include the earlier runs of the session, given that this run alone used at least
/// `run_minimum`? Versions of the same agent differ, and none says.
pub(crate) fn includes_earlier_runs(
    total: Usage,
    run_minimum: Usage,
    earlier: &EarlierSession,
) -> bool {
    let before = earlier.used;
    let has_tokens = |usage: Usage| usage.input_tokens > 0 || usage.output_tokens > 0;
    has_tokens(run_minimum)
        && total.input_tokens >= before.input_tokens.saturating_add(run_minimum.input_tokens)
        && total.output_tokens
            >= before
                .output_tokens
                .saturating_add(run_minimum.output_tokens)
}
