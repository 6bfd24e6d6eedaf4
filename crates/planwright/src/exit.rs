//! Exit codes: one table for the program, its help and its documentation.

/// How a command ended, as a shell sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommandExit {
    /// It worked.
    Ok,
    /// A malformed file, a broken store.
    Error,
    /// A bad flag, an id that cannot be one, a wrong argument.
    Usage,
    /// There is no such thing.
    NotFound,
    /// State, version, lease or merge conflict.
    Conflict,
    /// A gate did not open.
    Blocked,
    /// A person is needed.
    NeedsPerson,
    /// The plan ended or halted without landing.
    NotLanded,
    /// Timed out waiting.
    TimedOut,
    /// Whether it was done could not be learnt.
    Unknown,
    /// Interrupted.
    Interrupted,
}

impl CommandExit {
    /// Every code.
    pub const ALL: [Self; 11] = [
        Self::Ok,
        Self::Error,
        Self::Usage,
        Self::NotFound,
        Self::Conflict,
        Self::Blocked,
        Self::NeedsPerson,
        Self::NotLanded,
        Self::TimedOut,
        Self::Unknown,
        Self::Interrupted,
    ];

    /// The number.
    pub fn code(self) -> u8 {
        match self {
            Self::Ok => 0,
            Self::Error => 1,
            Self::Usage => 2,
            Self::NotFound => 3,
            Self::Conflict => 4,
            Self::Blocked => 5,
            Self::NeedsPerson => 6,
            Self::NotLanded => 7,
            Self::TimedOut => 8,
            Self::Unknown => 9,
            Self::Interrupted => 130,
        }
    }

    /// What it means.
    pub fn description(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Error => "error: a malformed file, a broken store",
            Self::Usage => "usage: a bad flag, an id that cannot be one, a wrong --arg",
            Self::NotFound => "not found",
            Self::Conflict => "conflict: state, version, lease or merge",
            Self::Blocked => "blocked by a gate",
            Self::NeedsPerson => "a person is needed",
            Self::NotLanded => "the plan ended or halted without landing",
            Self::TimedOut => "timed out waiting",
            Self::Unknown => "outcome unknown: repeat with the same --idempotency-key",
            Self::Interrupted => "interrupted",
        }
    }
}
