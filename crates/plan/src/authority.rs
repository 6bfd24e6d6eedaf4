//! Which kinds of callers may submit which commands.
//!
//! This is checked before anything else, so that a caller without authority gets no answer about the
//! plan. What depends on the plan's state, its profile or the lease is left to each command's decision.

use crate::{Caller, Command, Plan, Refusal};

/// Which callers other than people may submit a command. People may submit all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommandAudience {
    /// Only people. They decide what lands, under which rules and limits.
    People,
    /// Workers too. They act within what the plan's profile allows.
    Workers,
    /// Workers, and agents that hold the plan's lease: the epoch is their authority.
    Holders,
    /// Workers, and agents on the plans they created.
    Authors,
    /// Agents, on the plans they created. Workers have no reason to.
    AuthorsOnly,
    /// Workers and agents.
    Everyone,
}

/// Refuses a command that this kind of caller may not submit. `plan` is the plan it concerns.
pub fn check_authority(
    command: &Command,
    caller: &Caller,
    plan: Option<&Plan>,
) -> Result<(), Refusal> {
    let verb = command.verb();
    let is_author = || plan.is_some_and(|plan| plan.created_by() == Some(caller));
    let is_allowed = match (caller, command.audience()) {
        (Caller::Person(_), _) => true,
        (Caller::Worker(_), CommandAudience::People | CommandAudience::AuthorsOnly) => false,
        (
            Caller::Worker(_),
            CommandAudience::Workers
            | CommandAudience::Holders
            | CommandAudience::Authors
            | CommandAudience::Everyone,
        ) => true,
        (Caller::Agent(_), CommandAudience::People | CommandAudience::Workers) => false,
        (Caller::Agent(_), CommandAudience::Holders | CommandAudience::Everyone) => true,
        (Caller::Agent(_), CommandAudience::Authors | CommandAudience::AuthorsOnly) => is_author(),
    };
    match is_allowed {
        true => Ok(()),
        false => Err(Refusal::NotAuthorized {
            verb,
            caller: caller.clone(),
        }),
    }
}
