//! The ledger: what plans used, and what is set aside for those at work. Rows of their own, no events.
//!
//! Whoever works holds a *reservation*, which is a ticket: it is settled once, by what was really used,
//! and is gone then. So nothing is charged twice, however often it is told, and nothing is forgotten as
//! long as the ticket is there. A holder whose authority ended without settling is charged all that was
//! set aside for it; should it tell after all, what it tells counts instead.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::plan::Limits;
use crate::{Epoch, Money, PlanId, Span, Timestamp};

/// What is limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Means {
    /// Money, in millionths.
    Cost,
    /// Tokens, read and written.
    Tokens,
    /// Time, in microseconds.
    Time,
}

impl Means {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Cost, Self::Tokens, Self::Time];

    /// So much of it, for people.
    pub fn shown(self, amount: u64) -> String {
        match self {
            Self::Cost => Money(amount).to_string(),
            Self::Tokens => format!("{amount} tokens"),
            Self::Time => span(amount).to_string(),
        }
    }
}

/// So much of everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Amount {
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

impl Amount {
    /// So much of one of them.
    pub fn of(self, means: Means) -> u64 {
        match means {
            Means::Cost => self.cost,
            Means::Tokens => self.tokens,
            Means::Time => self.time,
        }
    }

    fn of_mut(&mut self, means: Means) -> &mut u64 {
        match means {
            Means::Cost => &mut self.cost,
            Means::Tokens => &mut self.tokens,
            Means::Time => &mut self.time,
        }
    }

    /// Both together.
    #[must_use]
    pub fn plus(mut self, other: Self) -> Self {
        for means in Means::ALL {
            *self.of_mut(means) = self.of(means).saturating_add(other.of(means));
        }
        self
    }

    /// Without the other, nothing at least.
    #[must_use]
    pub fn less(mut self, other: Self) -> Self {
        for means in Means::ALL {
            *self.of_mut(means) = self.of(means).saturating_sub(other.of(means));
        }
        self
    }

    /// The time in it.
    pub fn span(self) -> Span {
        span(self.time)
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
pub struct Account {
    /// Used for good.
    #[serde(default)]
    pub settled: Amount,
    /// Of that, what was charged because nobody told what was used.
    #[serde(default)]
    pub forfeited: Amount,
    /// Set aside for those at work.
    #[serde(default)]
    pub reserved: Amount,
}

/// What is set aside for one holder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reservation {
    /// The plan it works on.
    pub plan: PlanId,
    /// Its authority.
    pub epoch: Epoch,
    /// How much.
    pub amount: Amount,
    /// Since when.
    pub at: Timestamp,
    /// What it was charged when its authority ended, if that was before it told what it used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forfeited: Option<Amount>,
}

/// The rows that a decision about a plan's means is made on.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ledger {
    /// All plans together.
    pub global: Account,
    /// The plan.
    pub plan: Account,
    /// Of the plan, by epoch.
    pub reservations: Vec<Reservation>,
}

impl Ledger {
    /// Whose account it is.
    pub fn account(&self, account: AccountName) -> &Account {
        match account {
            AccountName::Global => &self.global,
            AccountName::Plan(_) => &self.plan,
        }
    }

    /// What is set aside for the holder of this epoch, or was.
    pub fn reservation(&self, epoch: Epoch) -> Option<&Reservation> {
        self.reservations
            .iter()
            .find(|reservation| reservation.epoch == epoch)
    }

    /// Sets means aside.
    pub(crate) fn reserve(&mut self, reservation: Reservation) {
        self.on_both(|account| account.reserved = account.reserved.plus(reservation.amount));
        self.reservations.push(reservation);
    }

    /// Charges what was used, once. Says whether it was to be charged.
    pub(crate) fn settle(&mut self, epoch: Epoch, used: Amount) -> bool {
        let Some(reservation) = self.take(epoch) else {
            return false;
        };
        self.on_both(|account| match reservation.forfeited {
            None => account.reserved = account.reserved.less(reservation.amount),
            Some(charged) => {
                account.settled = account.settled.less(charged);
                account.forfeited = account.forfeited.less(charged);
            }
        });
        self.charge(used);
        true
    }

    /// Charges what was used without having been set aside.
    pub(crate) fn charge(&mut self, used: Amount) {
        self.on_both(|account| account.settled = account.settled.plus(used));
    }

    /// Charges what was set aside for a holder that can no longer be relied on to tell.
    pub(crate) fn forfeit(&mut self, epoch: Epoch, until: Timestamp) {
        let Some(mut reservation) = self.take(epoch) else {
            return;
        };
        let charge = reservation.when_fenced(until);
        self.on_both(|account| {
            account.reserved = account.reserved.less(reservation.amount);
            account.settled = account.settled.plus(charge);
            account.forfeited = account.forfeited.plus(charge);
        });
        reservation.forfeited = Some(charge);
        self.reservations.push(reservation);
    }

    fn take(&mut self, epoch: Epoch) -> Option<Reservation> {
        let place = self
            .reservations
            .iter()
            .position(|reservation| reservation.epoch == epoch)?;
        Some(self.reservations.remove(place))
    }

    fn on_both(&mut self, change: impl Fn(&mut Account)) {
        change(&mut self.global);
        change(&mut self.plan);
    }
}

impl Reservation {
    /// Its holder may still settle it as it stands.
    pub fn is_open(&self) -> bool {
        self.forfeited.is_none()
    }

    /// What is charged if its holder is not heard of again: all money and tokens that were set aside. The
    /// time is known better: it worked until then at most, and no longer than it might.
    fn when_fenced(&self, until: Timestamp) -> Amount {
        let worked = u64::try_from(until.since(self.at).0).unwrap_or(0);
        let most = match self.amount.time {
            0 => u64::MAX,
            limited => limited,
        };
        Amount {
            time: worked.min(most),
            ..self.amount
        }
    }
}

/// What an actor tells of its use while it works. Nothing is set aside that it cannot tell of: whoever
/// reports no money would otherwise keep others from theirs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Metering {
    /// Nothing but that it works, which takes time.
    #[default]
    Time,
    /// Tokens, too.
    Tokens,
    /// Tokens and money.
    Cost,
}

impl Metering {
    /// Does it tell of this?
    pub fn tells_of(self, means: Means) -> bool {
        match means {
            Means::Time => true,
            Means::Tokens => matches!(self, Self::Tokens | Self::Cost),
            Means::Cost => self == Self::Cost,
        }
    }
}

/// What all plans together may use. A wish of whoever has them worked on, given with each reservation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Budget {
    /// Money.
    pub cost: Option<Money>,
    /// Tokens.
    pub tokens: Option<u64>,
}

/// What one run may use of what is limited.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Grant(pub Vec<Allowance>);

/// What one run may use of one thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Allowance {
    /// Of what.
    pub means: Means,
    /// Whose limit leaves the least.
    pub account: AccountName,
    /// That limit.
    pub limit: u64,
    /// What was used of it before.
    pub spent: u64,
    /// What this run may use.
    pub left: u64,
}

impl Allowance {
    /// Is it used up by a run that used this?
    pub fn is_used_up_by(&self, used: Amount) -> bool {
        used.of(self.means) >= self.left
    }

    /// Is four fifths of the limit gone?
    pub fn is_nearly_used_up_by(&self, used: Amount) -> bool {
        let gone = self.spent.saturating_add(used.of(self.means));
        u128::from(gone) * 5 >= u128::from(self.limit) * 4
    }

    /// How much of the limit is gone, for people.
    pub fn shown(&self, used: Amount) -> String {
        let gone = self.spent.saturating_add(used.of(self.means));
        format!(
            "{} of {} {}",
            self.means.shown(gone),
            self.means.shown(self.limit),
            whose(self.account)
        )
    }
}

impl Grant {
    /// What is used up by a run that used this.
    pub fn used_up_by(&self, used: Amount) -> Option<&Allowance> {
        self.0
            .iter()
            .find(|allowance| allowance.is_used_up_by(used))
    }
}

/// What leaves nothing to work with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Over {
    /// Of what.
    pub means: Means,
    /// Whose limit.
    pub account: AccountName,
    /// That limit.
    pub limit: u64,
    /// What was used of it.
    pub spent: u64,
    /// What is set aside for others at work.
    pub reserved: u64,
}

impl Over {
    /// Is it gone for good? Otherwise those it is set aside for may leave something.
    pub fn is_spent(&self) -> bool {
        self.spent >= self.limit
    }
}

impl fmt::Display for Over {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |amount| self.means.shown(amount);
        let (limit, spent, whose) = (shown(self.limit), shown(self.spent), whose(self.account));
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

fn whose(account: AccountName) -> &'static str {
    match account {
        AccountName::Global => "for all plans",
        AccountName::Plan(_) => "for this plan",
    }
}

/// What a run of a plan may use, by the limits that are in force; or what leaves nothing.
pub fn grant(
    ledger: &Ledger,
    plan: PlanId,
    limits: &Limits,
    budget: &Budget,
    metering: Metering,
) -> Result<Grant, Over> {
    let mut grant = Grant::default();
    for means in Means::ALL {
        let look = |account, limit: Option<u64>| {
            let look = |limit| allow(ledger, account, means, limit, metering);
            limit.map(look).transpose()
        };
        let own = look(AccountName::Plan(plan), limits.of(means))?;
        let shared = look(AccountName::Global, budget.of(means))?;
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
        let of_others = ledger.global.reserved.less(ledger.plan.reserved);
        if metering.tells_of(means) && of_others.of(means) > 0 {
            return Err(shared.denied(of_others.of(means)));
        }
        grant.0.push(shared);
    }
    Ok(grant)
}

fn allow(
    ledger: &Ledger,
    account: AccountName,
    means: Means,
    limit: u64,
    metering: Metering,
) -> Result<Allowance, Over> {
    let spent = ledger.account(account).settled.of(means);
    let reserved = ledger.account(account).reserved.of(means);
    let taken = spent.saturating_add(reserved);
    let allowance = Allowance {
        means,
        account,
        limit,
        spent,
        left: limit.saturating_sub(taken),
    };
    if spent >= limit || (taken >= limit && metering.tells_of(means)) {
        return Err(allowance.denied(reserved));
    }
    Ok(allowance)
}

impl Allowance {
    fn denied(self, reserved: u64) -> Over {
        Over {
            means: self.means,
            account: self.account,
            limit: self.limit,
            spent: self.spent,
            reserved,
        }
    }
}

impl Grant {
    /// What is set aside for it: everything it may use and tells of, for nobody knows what a run costs
    /// before it ends.
    pub(crate) fn to_reserve(&self, metering: Metering) -> Amount {
        let mut amount = Amount::default();
        for allowance in &self.0 {
            if metering.tells_of(allowance.means) {
                *amount.of_mut(allowance.means) = allowance.left;
            }
        }
        amount
    }
}

impl Limits {
    /// How much of it the plan may use.
    pub fn of(&self, means: Means) -> Option<u64> {
        match means {
            Means::Cost => self.cost.map(|money| money.0),
            Means::Tokens => self.tokens,
            Means::Time => self.time.map(|time| u64::try_from(time.0).unwrap_or(0)),
        }
    }
}

impl Budget {
    /// How much of it all plans together may use.
    pub fn of(&self, means: Means) -> Option<u64> {
        match means {
            Means::Cost => self.cost.map(|money| money.0),
            Means::Tokens => self.tokens,
            Means::Time => None,
        }
    }
}

fn span(micros: u64) -> Span {
    Span(i64::try_from(micros).unwrap_or(i64::MAX))
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks like this")]
fn is_nothing(amount: &u64) -> bool {
    *amount == 0
}
