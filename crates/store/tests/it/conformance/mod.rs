//! The behaviour every store must have. Each behaviour is one function that runs on all stores.

mod actions;
mod atomicity;
mod changesets;
mod fresh_reads;
mod keys;
mod leases;
mod ledger;
mod listing;
mod log;
mod migration;
mod projects;
mod reviews;
mod rules;
mod sequences;
mod tampering;
mod transcripts;
mod transitions;
mod values;

/// Defines a test of each behaviour for every store: `memory::…`, `sqlite::…`, `postgres::…`.
macro_rules! on_every_store {
    ($($behaviour:ident,)*) => {
        mod memory {
            $(#[test] fn $behaviour() { super::$behaviour(&crate::store_fixture::StoreFixture::memory()); })*
        }
        $crate::conformance::on_every_database! { $($behaviour,)* }
    };
}

/// The same for the stores with a database, which a test can modify directly.
macro_rules! on_every_database {
    ($($behaviour:ident,)*) => {
        mod sqlite {
            $(#[test] fn $behaviour() { super::$behaviour(&crate::store_fixture::StoreFixture::sqlite()); })*
        }
        mod postgres {
            $(#[test] fn $behaviour() { super::$behaviour(&crate::store_fixture::StoreFixture::postgres()); })*
        }
    };
}

use {on_every_database, on_every_store};
