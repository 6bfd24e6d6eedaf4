//! Decodes rows into domain types. A row that does not decode is reported as corrupt.

use std::str::FromStr;
use std::time::{SystemTime, UNIX_EPOCH};

use plan::changeset::ChangesetEntry;
use plan::facts::Lease;
use plan::invariant::{Rule, RuleBook};
use plan::ledger::{AccountName, BudgetLedger};
use plan::{ChangesetId, Digest, Plan, PlanId, Timestamp};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio_postgres::Row;
use tokio_postgres::types::FromSql;

use super::error::corrupt_error;
use crate::event_codec::decode_event;
use crate::plan_columns::decode_plan;
use crate::{Cursor, PlanRow, StoreError, StoredEvent};

/// The columns of one row.
#[derive(Clone, Copy)]
pub(super) struct RowColumns<'a> {
    row: &'a Row,
    place: &'a str,
}

impl<'a> RowColumns<'a> {
    pub fn new(row: &'a Row, place: &'a str) -> Self {
        Self { row, place }
    }

    pub fn get<T: FromSql<'a>>(self, index: usize) -> Result<T, StoreError> {
        self.row
            .try_get(index)
            .map_err(|error| corrupt_error(self.place, error))
    }

    /// Decodes a column that contains a value as JSON.
    pub fn decode_json<T: DeserializeOwned>(self, index: usize) -> Result<T, StoreError> {
        serde_json::from_str(self.get(index)?).map_err(|error| corrupt_error(self.place, error))
    }

    /// Decodes a plan from the bodies of its terms and of its state.
    pub fn decode_plan(self, terms: usize, state: usize) -> Result<Plan, StoreError> {
        let Some(terms) = self.get(terms)? else {
            return Err(corrupt_error(self.place, "a plan has no terms"));
        };
        decode_plan(terms, self.get(state)?).map_err(|error| corrupt_error(self.place, error))
    }

    /// Decodes a column that contains an array of JSON texts.
    pub fn decode_json_list<T: DeserializeOwned>(self, index: usize) -> Result<Vec<T>, StoreError> {
        let texts: Vec<&str> = self.get(index)?;
        texts
            .into_iter()
            .map(|text| {
                serde_json::from_str(text).map_err(|error| corrupt_error(self.place, error))
            })
            .collect()
    }

    /// Parses a column that contains an id or a name.
    pub fn parse_text<T: FromStr<Err: std::fmt::Display>>(
        self,
        index: usize,
    ) -> Result<T, StoreError> {
        let text: &str = self.get(index)?;
        text.parse()
            .map_err(|error| corrupt_error(self.place, error))
    }

    /// Parses a column that contains an array of plan ids.
    pub fn parse_plan_ids(self, index: usize) -> Result<Vec<PlanId>, StoreError> {
        let texts: Vec<&str> = self.get(index)?;
        texts
            .into_iter()
            .map(|text| {
                text.parse()
                    .map_err(|error| corrupt_error(self.place, error))
            })
            .collect()
    }

    pub fn read_count(self, index: usize) -> Result<u64, StoreError> {
        let number: i64 = self.get(index)?;
        u64::try_from(number).map_err(|error| corrupt_error(self.place, error))
    }

    pub fn read_digest(self, index: usize) -> Result<Digest, StoreError> {
        self.read_optional_digest(index)?
            .ok_or_else(|| corrupt_error(self.place, "a digest is missing"))
    }

    /// Reads a digest that may be NULL.
    pub fn read_optional_digest(self, index: usize) -> Result<Option<Digest>, StoreError> {
        let bytes: Option<&[u8]> = self.get(index)?;
        let read = |bytes| {
            Digest::from_bytes(bytes)
                .ok_or_else(|| corrupt_error(self.place, "a digest has the wrong length"))
        };
        bytes.map(read).transpose()
    }

    /// Reads a time of the server's clock.
    pub fn read_timestamp(self, index: usize) -> Result<Timestamp, StoreError> {
        let server_time: SystemTime = self.get(index)?;
        let since = server_time.duration_since(UNIX_EPOCH);
        let micros = since
            .ok()
            .and_then(|since| i64::try_from(since.as_micros()).ok());
        micros
            .map(Timestamp)
            .ok_or_else(|| corrupt_error(self.place, "the server's time is out of range"))
    }

    /// Decodes a lease from three columns (owner, epoch, expiry), or `None` if they are NULL.
    pub fn decode_lease(self, first: usize, plan_id: PlanId) -> Result<Option<Lease>, StoreError> {
        let Some(owner) = self.get::<Option<String>>(first)? else {
            return Ok(None);
        };
        Ok(Some(Lease {
            plan: plan_id,
            owner,
            epoch: plan::Epoch(self.read_count(first + 1)?),
            expires_at: Timestamp(self.get(first + 2)?),
        }))
    }
}

pub(super) fn decode_plan_row(row: RowColumns<'_>) -> Result<PlanRow, StoreError> {
    let plan = row.decode_plan(6, 1)?;
    let verdict = match row.get::<Option<&str>>(5)? {
        Some(_) => Some(row.decode_json(5)?),
        None => None,
    };
    Ok(PlanRow {
        head: row.read_digest(0)?,
        lease: row.decode_lease(2, plan.id())?,
        verdict,
        plan,
    })
}

/// Builds the rules and revisions of some scopes. Revision 0 counts as absent.
pub(super) fn build_rule_book<'a>(
    revisions: impl Iterator<Item = RowColumns<'a>>,
    rules: Vec<Rule>,
) -> Result<RuleBook, StoreError> {
    let mut book = RuleBook {
        rules,
        ..RuleBook::default()
    };
    for row in revisions {
        let revision = row.read_count(1)?;
        if revision > 0 {
            book.revisions.insert(row.parse_text(0)?, revision);
        }
    }
    // Scopes sort by specificity, their texts do not.
    book.rules.sort_by(|one, other| {
        (&one.scope, &one.draft.name).cmp(&(&other.scope, &other.draft.name))
    });
    Ok(book)
}

/// Decodes an entry and the changeset it belongs to.
pub(super) fn decode_entry(
    row: RowColumns<'_>,
) -> Result<(ChangesetId, ChangesetEntry), StoreError> {
    Ok((row.parse_text(0)?, row.decode_json(1)?))
}

/// Returns the names of the accounts that a plan's work is charged to.
pub(super) fn list_account_names(plan_id: PlanId) -> Vec<String> {
    [AccountName::Global, AccountName::Plan(plan_id)]
        .map(|name| name.to_string())
        .to_vec()
}

/// Builds a ledger from accounts and reservations.
pub(super) fn build_ledger<'a>(
    accounts: impl Iterator<Item = RowColumns<'a>>,
    reservations: impl Iterator<Item = RowColumns<'a>>,
) -> Result<BudgetLedger, StoreError> {
    let mut ledger = BudgetLedger::default();
    let global = AccountName::Global.to_string();
    for row in accounts {
        let account = if row.get::<&str>(0)? == global {
            &mut ledger.global
        } else {
            &mut ledger.plan
        };
        *account = row.decode_json(1)?;
    }
    for row in reservations {
        ledger.reservations.push(row.decode_json(0)?);
    }
    Ok(ledger)
}

pub(super) fn decode_event_row(row: RowColumns<'_>) -> Result<StoredEvent, StoreError> {
    let body: String = row.get(2)?;
    let recorded =
        decode_event(&body, row.get(3)?).map_err(|error| corrupt_error(row.place, error))?;
    Ok(StoredEvent {
        cursor: Some(decode_cursor(row)?),
        recorded,
        body,
        hash: row.read_digest(4)?,
    })
}

/// Decodes two columns into a log position.
pub(super) fn decode_cursor(row: RowColumns<'_>) -> Result<Cursor, StoreError> {
    Ok(Cursor {
        major: row.read_count(0)?,
        minor: row.read_count(1)?,
    })
}

pub(super) fn encode_json<T: Serialize>(value: &T) -> String {
    serde_json::to_string(value).expect("BUG: what is stored always encodes")
}

pub(super) fn to_sql_integer(count: u64) -> i64 {
    i64::try_from(count).expect("BUG: nothing is counted to 2^63")
}
