//! Tests the PostgreSQL store on a real server. Covers what is specific to it: locks, lost
//! responses, cursors, connections, the schema. `conformance` covers what all stores share.

mod concurrency;
mod connect;
mod database;
mod decisions;
mod fault;
mod lost_connections;
mod notify;
mod proxy;
mod read;
mod restart;
mod schema;
mod server_errors;
mod tail;
