//! Exit codes: the single table behind the program, `help exit-codes` and `docs/cli.md`.

/// The exit status of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommandExit {
    Ok,
    /// A malformed file, a broken store.
    Error,
    /// A bad flag, a malformed id, a wrong argument.
    Usage,
    NotFound,
    /// State, version, lease or merge conflict.
    Conflict,
    /// A rule failed at a gate.
    Blocked,
    NeedsPerson,
    /// The plan ended or halted without landing.
    NotLanded,
    /// Timed out waiting.
    TimedOut,
    /// The commit may or may not have happened.
    Unknown,
    Interrupted,
}

impl CommandExit {
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

    pub fn description(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Error => "error: a malformed file, a broken store",
            Self::Usage => "usage: a bad flag, a malformed id, a wrong --arg",
            Self::NotFound => "not found",
            Self::Conflict => "conflict: state, version, lease or merge",
            Self::Blocked => "blocked by a gate",
            Self::NeedsPerson => "a person is needed",
            Self::NotLanded => "the plan failed or ended without landing",
            Self::TimedOut => "timed out waiting",
            Self::Unknown => "outcome unknown: repeat with the same --idempotency-key",
            Self::Interrupted => "interrupted",
        }
    }
}
