//! Tests of the checker and of the trials' machinery. The trials themselves are in `trial.rs`.

#![allow(
    clippy::unwrap_used,
    reason = "a test whose set-up fails has failed, and the panic says where"
)]

mod checker;
mod event_stream;
mod interruption;
mod late_change;
mod simulation;
