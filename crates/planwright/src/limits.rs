//! Limits of plans: flags, values from config files, and how they override each other.

use api::next_steps::RaisedLimit;
use api::plan_config::LimitOverrides;
use plan::ledger::{BudgetUnit, GlobalBudget};
use plan::{Money, Span};

/// Flags that set a plan's limits.
#[derive(Debug, Clone, Copy, clap::Args)]
pub struct LimitArgs {
    /// Time limit for one run of the agent: 90s, 20m or 2h.
    #[arg(long, value_name = "TIME")]
    timeout: Option<Span>,
    /// Attempts per phase before the plan waits for you.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    attempts: Option<u32>,
    /// Cost limit for all runs in US dollars, such as 2.50. Counts what the agent reports.
    #[arg(long, value_name = "AMOUNT")]
    max_cost: Option<Money>,
    /// Token limit for all runs, input and output. Counts what the agent reports.
    #[arg(long, value_name = "N", value_parser = parse_tokens)]
    max_tokens: Option<u64>,
    /// Time limit for all runs together: 90s, 20m or 2h.
    #[arg(long, value_name = "TIME")]
    max_time: Option<Span>,
}

impl LimitArgs {
    pub fn overrides(&self) -> LimitOverrides {
        LimitOverrides {
            attempts: self.attempts,
            timeout: self.timeout,
            cost: self.max_cost,
            tokens: self.max_tokens,
            time: self.max_time,
        }
    }

    /// Returns each flag and whether it was given.
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

/// Parses a positive number of tokens that fits the store's signed integers.
pub fn parse_tokens(given: &str) -> Result<u64, String> {
    let number = given.parse::<u64>().ok();
    number
        .filter(|number| (1..=i64::MAX.unsigned_abs()).contains(number))
        .ok_or_else(|| {
            format!(
                "`{}` is not a number of tokens",
                given.chars().take(40).collect::<String>()
            )
        })
}

/// Parses a number of attempts, 1 to 1000.
pub fn parse_attempts(given: &str) -> Result<u32, String> {
    let number = given.parse::<u32>().ok();
    number
        .filter(|number| (1..=1000).contains(number))
        .ok_or_else(|| "expected a whole number from 1 to 1000".to_owned())
}

/// Builds the global budget from two settings, which were checked when they were loaded.
pub fn parse_budget(cost: Option<&str>, token_limit: Option<&str>) -> GlobalBudget {
    GlobalBudget {
        cost: cost.and_then(|cost| cost.parse().ok()),
        tokens: token_limit.and_then(|limit| parse_tokens(limit).ok()),
    }
}

/// The flag that sets a plan's limit to this one.
pub fn raise_limit_flag(raised: RaisedLimit) -> String {
    let value = format_amount(raised.unit, raised.limit);
    match raised.unit {
        BudgetUnit::Cost => format!("--max-cost {value}"),
        BudgetUnit::Tokens => format!("--max-tokens {value}"),
        BudgetUnit::Time => format!("--max-time {value}"),
    }
}

/// The command that sets the budget of all plans to this limit.
pub fn raise_budget_command(raised: RaisedLimit) -> String {
    let value = format_amount(raised.unit, raised.limit);
    let key = match raised.unit {
        BudgetUnit::Cost => "budget.cost",
        // There is no global time limit.
        BudgetUnit::Tokens | BudgetUnit::Time => "budget.tokens",
    };
    format!("planwright config set {key} {value}")
}

/// Formats an amount for a flag, rounded up to whole cents, tokens or minutes.
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
