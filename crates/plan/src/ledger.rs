//! The budget ledger: what plans spent, and what is reserved for running holders. It is stored in
//! its own rows, not in events.
//!
//! Every holder that works has one reservation. Settling it charges the actual usage and removes
//! it, so usage is charged exactly once even if the command is repeated. A holder that loses its
//! lease without settling is charged its whole reservation (forfeited). If it settles later, its
//! actual usage replaces that charge.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::plan::PlanLimits;
use crate::{Epoch, Money, PlanId, Span, Timestamp};

/// What a budget limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BudgetUnit {
    /// Money, in millionths of a dollar.
    Cost,
    /// Tokens read and written.
    Tokens,
    /// Time, in microseconds.
    Time,
}

impl BudgetUnit {
    pub const ALL: [Self; 3] = [Self::Cost, Self::Tokens, Self::Time];

    /// Formats an amount for people.
    pub fn format_amount(self, amount: u64) -> String {
        match self {
            Self::Cost => Money(amount).to_string(),
            Self::Tokens => format!("{amount} tokens"),
            Self::Time => span_from_micros(amount).to_string(),
        }
    }
}

/// An amount of each unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct BudgetAmount {
    /// In millionths of a dollar.
    #[serde(default, rename = "cost_micros", skip_serializing_if = "is_zero")]
    pub cost: u64,
    /// Read and written.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub tokens: u64,
    /// In microseconds.
    #[serde(default, rename = "time_micros", skip_serializing_if = "is_zero")]
    pub time: u64,
}

impl BudgetAmount {
    pub fn in_unit(self, unit: BudgetUnit) -> u64 {
        match unit {
            BudgetUnit::Cost => self.cost,
            BudgetUnit::Tokens => self.tokens,
            BudgetUnit::Time => self.time,
        }
    }

    fn in_unit_mut(&mut self, unit: BudgetUnit) -> &mut u64 {
        match unit {
            BudgetUnit::Cost => &mut self.cost,
            BudgetUnit::Tokens => &mut self.tokens,
            BudgetUnit::Time => &mut self.time,
        }
    }

    #[must_use]
    pub fn saturating_add(mut self, other: Self) -> Self {
        for unit in BudgetUnit::ALL {
            *self.in_unit_mut(unit) = self.in_unit(unit).saturating_add(other.in_unit(unit));
        }
        self
    }

    /// Subtracts each unit, stopping at zero.
    #[must_use]
    pub fn saturating_sub(mut self, other: Self) -> Self {
        for unit in BudgetUnit::ALL {
            *self.in_unit_mut(unit) = self.in_unit(unit).saturating_sub(other.in_unit(unit));
        }
        self
    }

    pub fn time_span(self) -> Span {
        span_from_micros(self.time)
    }
}

/// The owner of an account.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AccountName {
    /// All plans together.
    Global,
    /// One plan.
    Plan(PlanId),
}

impl fmt::Display for AccountName {
    /// Writes the stored form: `global` or `plan:ID`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Global => f.pad("global"),
            Self::Plan(plan) => f.pad(&format!("plan:{plan}")),
        }
    }
}

/// The balance of an account.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct BudgetAccount {
    /// Charged for good.
    #[serde(default)]
    pub settled: BudgetAmount,
    /// The part of `settled` that was charged without a usage report.
    #[serde(default)]
    pub forfeited: BudgetAmount,
    /// Reserved for running holders.
    #[serde(default)]
    pub reserved: BudgetAmount,
}

/// The budget reserved for one holder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct BudgetReservation {
    pub plan: PlanId,
    pub epoch: Epoch,
    pub amount: BudgetAmount,
    pub at: Timestamp,
    /// The charge made when the holder lost its lease before settling.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forfeited: Option<BudgetAmount>,
}

/// The ledger rows that a decision about one plan reads.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BudgetLedger {
    /// The account of all plans together.
    pub global: BudgetAccount,
    /// The account of the plan.
    pub plan: BudgetAccount,
    /// The plan's reservations, one per epoch.
    pub reservations: Vec<BudgetReservation>,
}

impl BudgetLedger {
    pub fn account(&self, account: AccountName) -> &BudgetAccount {
        match account {
            AccountName::Global => &self.global,
            AccountName::Plan(_) => &self.plan,
        }
    }

    /// Returns the reservation of this epoch, open or forfeited.
    pub fn reservation(&self, epoch: Epoch) -> Option<&BudgetReservation> {
        self.reservations
            .iter()
            .find(|reservation| reservation.epoch == epoch)
    }

    /// Adds a reservation to both accounts.
    pub(crate) fn add_reservation(&mut self, reservation: BudgetReservation) {
        self.update_both_accounts(|account| {
            account.reserved = account.reserved.saturating_add(reservation.amount)
        });
        self.reservations.push(reservation);
    }

    /// Replaces a reservation, or its forfeited charge, by the actual usage. Returns `false` and
    /// changes nothing if the reservation was already settled.
    pub(crate) fn settle_reservation(&mut self, epoch: Epoch, used: BudgetAmount) -> bool {
        let Some(reservation) = self.take_reservation(epoch) else {
            return false;
        };
        self.update_both_accounts(|account| match reservation.forfeited {
            None => account.reserved = account.reserved.saturating_sub(reservation.amount),
            Some(charged) => {
                account.settled = account.settled.saturating_sub(charged);
                account.forfeited = account.forfeited.saturating_sub(charged);
            }
        });
        self.charge_usage(used);
        true
    }

    /// Charges usage that was not reserved.
    pub(crate) fn charge_usage(&mut self, used: BudgetAmount) {
        self.update_both_accounts(|account| account.settled = account.settled.saturating_add(used));
    }

    /// Charges the whole reservation of a holder that lost its lease and may never report. The
    /// reservation stays, so that a late report can still correct the charge.
    pub(crate) fn forfeit_reservation(&mut self, epoch: Epoch, until: Timestamp) {
        let Some(mut reservation) = self.take_reservation(epoch) else {
            return;
        };
        let charge = reservation.forfeited_amount(until);
        self.update_both_accounts(|account| {
            account.reserved = account.reserved.saturating_sub(reservation.amount);
            account.settled = account.settled.saturating_add(charge);
            account.forfeited = account.forfeited.saturating_add(charge);
        });
        reservation.forfeited = Some(charge);
        self.reservations.push(reservation);
    }

    fn take_reservation(&mut self, epoch: Epoch) -> Option<BudgetReservation> {
        let position = self
            .reservations
            .iter()
            .position(|reservation| reservation.epoch == epoch)?;
        Some(self.reservations.remove(position))
    }

    fn update_both_accounts(&mut self, change: impl Fn(&mut BudgetAccount)) {
        change(&mut self.global);
        change(&mut self.plan);
    }
}

impl BudgetReservation {
    /// Returns whether the reservation is neither settled nor forfeited.
    pub fn is_open(&self) -> bool {
        self.forfeited.is_none()
    }

    /// Returns the charge for a holder that never reports: all reserved money and tokens. Time is
    /// known better: the holder worked at most until `until`, and at most for its reserved time.
    fn forfeited_amount(&self, until: Timestamp) -> BudgetAmount {
        let worked = u64::try_from(until.span_since(self.at).0).unwrap_or(0);
        let max_time = match self.amount.time {
            0 => u64::MAX,
            limited => limited,
        };
        BudgetAmount {
            time: worked.min(max_time),
            ..self.amount
        }
    }
}

/// What an actor reports about its usage. Units that it does not report are not reserved: an actor
/// that never reports money would block the budget of others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MeteringLevel {
    /// Nothing; the engine measures the time.
    #[default]
    Time,
    /// Tokens.
    Tokens,
    /// Tokens and money.
    Cost,
}

impl MeteringLevel {
    /// Returns whether usage of this unit is known.
    pub fn reports_unit(self, unit: BudgetUnit) -> bool {
        match unit {
            BudgetUnit::Time => true,
            BudgetUnit::Tokens => matches!(self, Self::Tokens | Self::Cost),
            BudgetUnit::Cost => self == Self::Cost,
        }
    }
}

/// Limits for all plans together. Not stored: the caller passes them with each reservation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct GlobalBudget {
    pub cost: Option<Money>,
    pub tokens: Option<u64>,
}

/// What one run may use, for each limited unit.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct BudgetGrant(pub Vec<BudgetAllowance>);

/// What one run may use of one unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct BudgetAllowance {
    #[serde(rename = "means")]
    pub unit: BudgetUnit,
    /// The account whose limit leaves the least.
    pub account: AccountName,
    /// The limit of that account.
    pub limit: u64,
    /// Spent before this run.
    pub spent: u64,
    pub left: u64,
}

impl BudgetAllowance {
    /// Returns whether a run with this usage has reached its allowance.
    pub fn is_exhausted_by(&self, used: BudgetAmount) -> bool {
        used.in_unit(self.unit) >= self.left
    }

    /// Returns whether 80 % of the limit is used.
    pub fn is_nearly_exhausted_by(&self, used: BudgetAmount) -> bool {
        let used_up = self.spent.saturating_add(used.in_unit(self.unit));
        u128::from(used_up) * 5 >= u128::from(self.limit) * 4
    }

    /// Formats the used share of the limit for people.
    pub fn format_usage(&self, used: BudgetAmount) -> String {
        let used_up = self.spent.saturating_add(used.in_unit(self.unit));
        format!(
            "{} of {} {}",
            self.unit.format_amount(used_up),
            self.unit.format_amount(self.limit),
            describe_account(self.account)
        )
    }
}

impl BudgetGrant {
    /// Returns an allowance that a run with this usage has reached.
    pub fn find_exhausted(&self, used: BudgetAmount) -> Option<&BudgetAllowance> {
        self.0
            .iter()
            .find(|allowance| allowance.is_exhausted_by(used))
    }
}

/// A limit that leaves nothing for a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct BudgetShortfall {
    pub unit: BudgetUnit,
    pub account: AccountName,
    /// The limit of that account.
    pub limit: u64,
    /// Already charged.
    pub spent: u64,
    /// Reserved for other running holders.
    pub reserved: u64,
}

impl BudgetShortfall {
    /// Returns whether the limit is spent for good. Otherwise budget can become free when
    /// reservations are settled.
    pub fn is_spent(&self) -> bool {
        self.spent >= self.limit
    }
}

impl fmt::Display for BudgetShortfall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |amount| self.unit.format_amount(amount);
        let (limit, spent, account) = (
            shown(self.limit),
            shown(self.spent),
            describe_account(self.account),
        );
        if self.is_spent() {
            return write!(f, "{spent} spent, limit {limit} {account}");
        }
        let reserved = shown(self.reserved);
        write!(
            f,
            "{spent} spent and {reserved} reserved for running plans, limit {limit} {account}"
        )
    }
}

fn describe_account(account: AccountName) -> &'static str {
    match account {
        AccountName::Global => "for all plans",
        AccountName::Plan(_) => "for this plan",
    }
}

/// Computes what a run of a plan may use under its own and the global limits. Fails with the first
/// limit that leaves nothing.
pub fn grant_budget(
    ledger: &BudgetLedger,
    plan_id: PlanId,
    limits: &PlanLimits,
    budget: &GlobalBudget,
    metering: MeteringLevel,
) -> Result<BudgetGrant, BudgetShortfall> {
    let mut grant = BudgetGrant::default();
    for unit in BudgetUnit::ALL {
        let allowance_for = |account, limit: Option<u64>| {
            let allowance_within =
                |limit| compute_allowance(ledger, account, unit, limit, metering);
            limit.map(allowance_within).transpose()
        };
        let own = allowance_for(AccountName::Plan(plan_id), limits.limit_for(unit))?;
        let shared = allowance_for(AccountName::Global, budget.limit_for(unit))?;
        let Some(shared) = shared else {
            grant.0.extend(own);
            continue;
        };
        if let Some(own) = own.filter(|own| own.left <= shared.left) {
            grant.0.push(own);
            continue;
        }
        // The shared limit is nearly reached, and a run can overshoot what is left by one call.
        // Only one run at a time may take the remainder; with several, each would overshoot.
        let reserved_by_others = ledger.global.reserved.saturating_sub(ledger.plan.reserved);
        if metering.reports_unit(unit) && reserved_by_others.in_unit(unit) > 0 {
            return Err(shared.into_shortfall(reserved_by_others.in_unit(unit)));
        }
        grant.0.push(shared);
    }
    Ok(grant)
}

fn compute_allowance(
    ledger: &BudgetLedger,
    account: AccountName,
    unit: BudgetUnit,
    limit: u64,
    metering: MeteringLevel,
) -> Result<BudgetAllowance, BudgetShortfall> {
    let spent = ledger.account(account).settled.in_unit(unit);
    let reserved = ledger.account(account).reserved.in_unit(unit);
    let taken = spent.saturating_add(reserved);
    let allowance = BudgetAllowance {
        unit,
        account,
        limit,
        spent,
        left: limit.saturating_sub(taken),
    };
    if spent >= limit || (taken >= limit && metering.reports_unit(unit)) {
        return Err(allowance.into_shortfall(reserved));
    }
    Ok(allowance)
}

impl BudgetAllowance {
    fn into_shortfall(self, reserved: u64) -> BudgetShortfall {
        BudgetShortfall {
            unit: self.unit,
            account: self.account,
            limit: self.limit,
            spent: self.spent,
            reserved,
        }
    }
}

impl BudgetGrant {
    /// Returns the amount to reserve: everything the run may use and reports, because its cost is
    /// unknown until it ends.
    pub(crate) fn amount_to_reserve(&self, metering: MeteringLevel) -> BudgetAmount {
        let mut amount = BudgetAmount::default();
        for allowance in &self.0 {
            if metering.reports_unit(allowance.unit) {
                *amount.in_unit_mut(allowance.unit) = allowance.left;
            }
        }
        amount
    }
}

impl PlanLimits {
    pub fn limit_for(&self, unit: BudgetUnit) -> Option<u64> {
        match unit {
            BudgetUnit::Cost => self.cost.map(|money| money.0),
            BudgetUnit::Tokens => self.tokens,
            BudgetUnit::Time => self.time.map(|time| u64::try_from(time.0).unwrap_or(0)),
        }
    }
}

impl GlobalBudget {
    pub fn limit_for(&self, unit: BudgetUnit) -> Option<u64> {
        match unit {
            BudgetUnit::Cost => self.cost.map(|money| money.0),
            BudgetUnit::Tokens => self.tokens,
            BudgetUnit::Time => None,
        }
    }
}

fn span_from_micros(micros: u64) -> Span {
    Span(i64::try_from(micros).unwrap_or(i64::MAX))
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(amount: &u64) -> bool {
    *amount == 0
}
