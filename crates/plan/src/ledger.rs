//! The ledger: what plans used, and what is set aside for those at work. Rows of their own, no events.
//!
//! Whoever works holds a *reservation*, which is a ticket: it is settled once, by what was really used,
//! and is gone then. So nothing is charged twice, however often it is told, and nothing is forgotten as
//! long as the ticket is there. A holder whose authority ended without settling is charged all that was
//! set aside for it; should it tell after all, what it tells counts instead.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::plan::PlanLimits;
use crate::{Epoch, Money, PlanId, Span, Timestamp};

/// What is limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BudgetUnit {
    /// Money, in millionths.
    Cost,
    /// Tokens, read and written.
    Tokens,
    /// Time, in microseconds.
    Time,
}

impl BudgetUnit {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Cost, Self::Tokens, Self::Time];

    /// So much of it, for people.
    pub fn format_amount(self, amount: u64) -> String {
        match self {
            Self::Cost => Money(amount).to_string(),
            Self::Tokens => format!("{amount} tokens"),
            Self::Time => span_from_micros(amount).to_string(),
        }
    }
}

/// So much of everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct BudgetAmount {
    /// Money.
    #[serde(default, rename = "cost_micros", skip_serializing_if = "is_nothing")]
    pub cost: u64,
    /// Tokens.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub tokens: u64,
    /// Time.
    #[serde(default, rename = "time_micros", skip_serializing_if = "is_nothing")]
    pub time: u64,
}

impl BudgetAmount {
    /// So much of one of them.
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

    /// Both together.
    #[must_use]
    pub fn saturating_add(mut self, other: Self) -> Self {
        for unit in BudgetUnit::ALL {
            *self.in_unit_mut(unit) = self.in_unit(unit).saturating_add(other.in_unit(unit));
        }
        self
    }

    /// Without the other, nothing at least.
    #[must_use]
    pub fn saturating_sub(mut self, other: Self) -> Self {
        for unit in BudgetUnit::ALL {
            *self.in_unit_mut(unit) = self.in_unit(unit).saturating_sub(other.in_unit(unit));
        }
        self
    }

    /// The time in it.
    pub fn time_span(self) -> Span {
        span_from_micros(self.time)
    }
}

/// Whose means they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AccountName {
    /// Of all plans together.
    Global,
    /// Of one plan.
    Plan(PlanId),
}

impl fmt::Display for AccountName {
    /// As it is stored: `global`, `plan:ID`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Global => f.pad("global"),
            Self::Plan(plan) => f.pad(&format!("plan:{plan}")),
        }
    }
}

/// What came of an account.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct BudgetAccount {
    /// Used for good.
    #[serde(default)]
    pub settled: BudgetAmount,
    /// Of that, what was charged because nobody told what was used.
    #[serde(default)]
    pub forfeited: BudgetAmount,
    /// Set aside for those at work.
    #[serde(default)]
    pub reserved: BudgetAmount,
}

/// What is set aside for one holder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct BudgetReservation {
    /// The plan it works on.
    pub plan: PlanId,
    /// Its authority.
    pub epoch: Epoch,
    /// How much.
    pub amount: BudgetAmount,
    /// Since when.
    pub at: Timestamp,
    /// What it was charged when its authority ended, if that was before it told what it used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forfeited: Option<BudgetAmount>,
}

/// The rows that a decision about a plan's means is made on.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BudgetLedger {
    /// All plans together.
    pub global: BudgetAccount,
    /// The plan.
    pub plan: BudgetAccount,
    /// Of the plan, by epoch.
    pub reservations: Vec<BudgetReservation>,
}

impl BudgetLedger {
    /// Whose account it is.
    pub fn account(&self, account: AccountName) -> &BudgetAccount {
        match account {
            AccountName::Global => &self.global,
            AccountName::Plan(_) => &self.plan,
        }
    }

    /// What is set aside for the holder of this epoch, or was.
    pub fn reservation(&self, epoch: Epoch) -> Option<&BudgetReservation> {
        self.reservations
            .iter()
            .find(|reservation| reservation.epoch == epoch)
    }

    /// Sets means aside.
    pub(crate) fn add_reservation(&mut self, reservation: BudgetReservation) {
        self.update_both_accounts(|account| {
            account.reserved = account.reserved.saturating_add(reservation.amount)
        });
        self.reservations.push(reservation);
    }

    /// Charges what was used, once. Says whether it was to be charged.
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

    /// Charges what was used without having been set aside.
    pub(crate) fn charge_usage(&mut self, used: BudgetAmount) {
        self.update_both_accounts(|account| account.settled = account.settled.saturating_add(used));
    }

    /// Charges what was set aside for a holder that can no longer be relied on to tell.
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
    /// Its holder may still settle it as it stands.
    pub fn is_open(&self) -> bool {
        self.forfeited.is_none()
    }

    /// What is charged if its holder is not heard of again: all money and tokens that were set aside. The
    /// time is known better: it worked until then at most, and no longer than it might.
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

/// What an actor tells of its use while it works. Nothing is set aside that it cannot tell of: whoever
/// reports no money would otherwise keep others from theirs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MeteringLevel {
    /// Nothing but that it works, which takes time.
    #[default]
    Time,
    /// Tokens, too.
    Tokens,
    /// Tokens and money.
    Cost,
}

impl MeteringLevel {
    /// Does it tell of this?
    pub fn reports_unit(self, unit: BudgetUnit) -> bool {
        match unit {
            BudgetUnit::Time => true,
            BudgetUnit::Tokens => matches!(self, Self::Tokens | Self::Cost),
            BudgetUnit::Cost => self == Self::Cost,
        }
    }
}

/// What all plans together may use. A wish of whoever has them worked on, given with each reservation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct GlobalBudget {
    /// Money.
    pub cost: Option<Money>,
    /// Tokens.
    pub tokens: Option<u64>,
}

/// What one run may use of what is limited.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct BudgetGrant(pub Vec<BudgetAllowance>);

/// What one run may use of one thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct BudgetAllowance {
    /// Of what.
    pub means: BudgetUnit,
    /// Whose limit leaves the least.
    pub account: AccountName,
    /// That limit.
    pub limit: u64,
    /// What was used of it before.
    pub spent: u64,
    /// What this run may use.
    pub left: u64,
}

impl BudgetAllowance {
    /// Is it used up by a run that used this?
    pub fn is_exhausted_by(&self, used: BudgetAmount) -> bool {
        used.in_unit(self.means) >= self.left
    }

    /// Is four fifths of the limit gone?
    pub fn is_nearly_exhausted_by(&self, used: BudgetAmount) -> bool {
        let gone = self.spent.saturating_add(used.in_unit(self.means));
        u128::from(gone) * 5 >= u128::from(self.limit) * 4
    }

    /// How much of the limit is gone, for people.
    pub fn format_usage(&self, used: BudgetAmount) -> String {
        let gone = self.spent.saturating_add(used.in_unit(self.means));
        format!(
            "{} of {} {}",
            self.means.format_amount(gone),
            self.means.format_amount(self.limit),
            describe_account(self.account)
        )
    }
}

impl BudgetGrant {
    /// What is used up by a run that used this.
    pub fn find_exhausted(&self, used: BudgetAmount) -> Option<&BudgetAllowance> {
        self.0
            .iter()
            .find(|allowance| allowance.is_exhausted_by(used))
    }
}

/// What leaves nothing to work with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BudgetShortfall {
    /// Of what.
    pub means: BudgetUnit,
    /// Whose limit.
    pub account: AccountName,
    /// That limit.
    pub limit: u64,
    /// What was used of it.
    pub spent: u64,
    /// What is set aside for others at work.
    pub reserved: u64,
}

impl BudgetShortfall {
    /// Is it gone for good? Otherwise those it is set aside for may leave something.
    pub fn is_spent(&self) -> bool {
        self.spent >= self.limit
    }
}

impl fmt::Display for BudgetShortfall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |amount| self.means.format_amount(amount);
        let (limit, spent, whose) = (
            shown(self.limit),
            shown(self.spent),
            describe_account(self.account),
        );
        if self.is_spent() {
            return write!(f, "{spent} of {limit} {whose} are spent");
        }
        let reserved = shown(self.reserved);
        write!(
            f,
            "{spent} of {limit} {whose} are spent, and {reserved} are set aside for plans at work"
        )
    }
}

fn describe_account(account: AccountName) -> &'static str {
    match account {
        AccountName::Global => "for all plans",
        AccountName::Plan(_) => "for this plan",
    }
}

/// What a run of a plan may use, by the limits that are in force; or what leaves nothing.
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
        // A share that is cut short is overshot soonest. It is given to one who works alone, so that not
        // everybody at work takes the last call that is too many.
        let of_others = ledger.global.reserved.saturating_sub(ledger.plan.reserved);
        if metering.reports_unit(unit) && of_others.in_unit(unit) > 0 {
            return Err(shared.into_shortfall(of_others.in_unit(unit)));
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
        means: unit,
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
            means: self.means,
            account: self.account,
            limit: self.limit,
            spent: self.spent,
            reserved,
        }
    }
}

impl BudgetGrant {
    /// What is set aside for it: everything it may use and tells of, for nobody knows what a run costs
    /// before it ends.
    pub(crate) fn amount_to_reserve(&self, metering: MeteringLevel) -> BudgetAmount {
        let mut amount = BudgetAmount::default();
        for allowance in &self.0 {
            if metering.reports_unit(allowance.means) {
                *amount.in_unit_mut(allowance.means) = allowance.left;
            }
        }
        amount
    }
}

impl PlanLimits {
    /// How much of it the plan may use.
    pub fn limit_for(&self, unit: BudgetUnit) -> Option<u64> {
        match unit {
            BudgetUnit::Cost => self.cost.map(|money| money.0),
            BudgetUnit::Tokens => self.tokens,
            BudgetUnit::Time => self.time.map(|time| u64::try_from(time.0).unwrap_or(0)),
        }
    }
}

impl GlobalBudget {
    /// How much of it all plans together may use.
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

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks like this")]
fn is_nothing(amount: &u64) -> bool {
    *amount == 0
}
