//! What plans may use: said by flags, by a repository, by the user, each about what it wants to.

use plan::ledger::{BudgetUnit, GlobalBudget};
use plan::plan::PlanLimits;
use plan::{Money, Span};

/// How long one run of an agent may take where nobody says so. Without an end, one that hangs would
/// keep its plan for ever.
const DEFAULT_RUN_TIMEOUT: Span = Span::from_seconds(3600);

/// Limits as far as somebody said them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LimitOverrides {
    /// Tries of a phase.
    pub attempts: Option<u32>,
    /// How long one run may take.
    pub timeout: Option<Span>,
    /// How much all runs may cost.
    pub cost: Option<Money>,
    /// How many tokens all runs may use.
    pub tokens: Option<u64>,
    /// How long all runs may take together.
    pub time: Option<Span>,
}

impl LimitOverrides {
    /// These and, where they say nothing, those.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            attempts: self.attempts.or(other.attempts),
            timeout: self.timeout.or(other.timeout),
            cost: self.cost.or(other.cost),
            tokens: self.tokens.or(other.tokens),
            time: self.time.or(other.time),
        }
    }

    /// Everything about them, with what is usual where nobody said anything.
    pub fn with_defaults(self) -> PlanLimits {
        self.apply_to(PlanLimits {
            timeout: Some(DEFAULT_RUN_TIMEOUT),
            ..PlanLimits::default()
        })
    }

    /// These instead of those that are in force.
    pub fn apply_to(self, current: PlanLimits) -> PlanLimits {
        PlanLimits {
            attempts: self.attempts.unwrap_or(current.attempts),
            timeout: self.timeout.or(current.timeout),
            cost: self.cost.or(current.cost),
            tokens: self.tokens.or(current.tokens),
            time: self.time.or(current.time),
        }
    }

    /// Was anything said?
    pub fn is_any_set(self) -> bool {
        self != Self::default()
    }
}

/// What a plan may use.
#[derive(Debug, Clone, Copy, clap::Args)]
pub struct LimitArgs {
    /// How long one run of the agent may take, as in 90s, 20m or 2h.
    #[arg(long, value_name = "TIME")]
    timeout: Option<Span>,
    /// How often a phase is tried before it waits for you.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    attempts: Option<u32>,
    /// How much money all its runs may cost, as in 2.50, as far as the agent tells.
    #[arg(long, value_name = "AMOUNT")]
    max_cost: Option<Money>,
    /// How many tokens all its runs may read and write, as far as the agent tells.
    #[arg(long, value_name = "N", value_parser = parse_tokens)]
    max_tokens: Option<u64>,
    /// How long all its runs may take together, as in 90s, 20m or 2h.
    #[arg(long, value_name = "TIME")]
    max_time: Option<Span>,
}

impl LimitArgs {
    /// What they say.
    pub fn overrides(&self) -> LimitOverrides {
        LimitOverrides {
            attempts: self.attempts,
            timeout: self.timeout,
            cost: self.max_cost,
            tokens: self.max_tokens,
            time: self.max_time,
        }
    }

    /// Each flag, and whether it was given.
    pub fn given_flags(&self) -> [(&'static str, bool); 5] {
        [
            ("--timeout", self.timeout.is_some()),
            ("--attempts", self.attempts.is_some()),
            ("--max-cost", self.max_cost.is_some()),
            ("--max-tokens", self.max_tokens.is_some()),
            ("--max-time", self.max_time.is_some()),
        ]
    }
}

/// A number of tokens, more than none.
pub fn parse_tokens(given: &str) -> Result<u64, String> {
    let number = given.parse::<u64>().ok();
    number
        .filter(|number| (1..=i64::MAX.unsigned_abs()).contains(number))
        .ok_or_else(|| {
            format!(
                "`{}` is no number of tokens",
                given.chars().take(40).collect::<String>()
            )
        })
}

/// A number of tries.
pub fn parse_attempts(given: &str) -> Result<u32, String> {
    let number = given.parse::<u32>().ok();
    number
        .filter(|number| (1..=1000).contains(number))
        .ok_or_else(|| "expected a whole number from 1 to 1000".to_owned())
}

/// What all plans together may use, of two settings.
pub fn parse_budget(cost: Option<&str>, token_limit: Option<&str>) -> GlobalBudget {
    GlobalBudget {
        cost: cost.and_then(|cost| cost.parse().ok()),
        tokens: token_limit.and_then(|said| parse_tokens(said).ok()),
    }
}

/// The flag that gives a plan as much again of what it used up.
pub fn raise_limit_flag(unit: BudgetUnit, spent: u64, limit: u64) -> String {
    let value = format_amount(unit, spent.saturating_add(limit));
    match unit {
        BudgetUnit::Cost => format!("--max-cost {value}"),
        BudgetUnit::Tokens => format!("--max-tokens {value}"),
        BudgetUnit::Time => format!("--max-time {value}"),
    }
}

/// The command that gives all plans as much again of what they used up.
pub fn raise_budget_command(unit: BudgetUnit, spent: u64, limit: u64) -> String {
    let value = format_amount(unit, spent.saturating_add(limit));
    let key = match unit {
        BudgetUnit::Cost => "budget.cost",
        // Time has no limit for all plans.
        BudgetUnit::Tokens | BudgetUnit::Time => "budget.tokens",
    };
    format!("planwright config set {key} {value}")
}

/// An amount as it is typed, in whole cents, tokens or minutes, a started one included.
fn format_amount(unit: BudgetUnit, amount: u64) -> String {
    match unit {
        BudgetUnit::Cost => {
            let cents = amount.div_ceil(10_000);
            format!("{}.{:02}", cents / 100, cents % 100)
        }
        BudgetUnit::Tokens => amount.to_string(),
        BudgetUnit::Time => format!("{}m", amount.div_ceil(60_000_000)),
    }
}
