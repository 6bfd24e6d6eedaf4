//! What every store must do. Each behaviour is one function, run on all of them: a difference
//! between the stores is a failure of this suite.

mod actions;
mod changesets;
mod fresh;
mod keys;
mod leases;
mod ledger;
mod listing;
mod log;
mod once;
mod projects;
mod rules;
mod sequences;
mod tampering;
mod values;
mod whole;

/// Makes a test of each behaviour for every store: `memory::…`, `sqlite::…`, `postgres::…`.
macro_rules! on_every_store {
    ($($behaviour:ident,)*) => {
        mod memory {
            $(#[test] fn $behaviour() { super::$behaviour(&crate::bench::Bench::memory()); })*
        }
        $crate::conformance::on_every_database! { $($behaviour,)* }
    };
}

/// The same for the stores that are databases: what is behind a memory store cannot be reached.
macro_rules! on_every_database {
    ($($behaviour:ident,)*) => {
        mod sqlite {
            $(#[test] fn $behaviour() { super::$behaviour(&crate::bench::Bench::sqlite()); })*
        }
        mod postgres {
            $(#[test] fn $behaviour() { super::$behaviour(&crate::bench::Bench::postgres()); })*
        }
    };
}

use {on_every_database, on_every_store};
