//! The baseline for `planwright status`: opens a store's file and selects one plan's row.

#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark prints, and stops at the first unexpected result"
)]

use rusqlite::{Connection, OpenFlags};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let connection =
        Connection::open_with_flags(&arguments[0], OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    let body: String = connection
        .query_row(
            "SELECT body FROM plans WHERE plan_id = ?1",
            [&arguments[1]],
            |row| row.get(0),
        )
        .unwrap();
    println!("{body}");
}
