//! The least a program can do: opens a store's file and selects one plan's row. What `status` is
//! measured against.

#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a measuring program"
)]

use rusqlite::{Connection, OpenFlags};

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let connection =
        Connection::open_with_flags(&words[0], OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    let body: String = connection
        .query_row(
            "SELECT body FROM plans WHERE plan_id = ?1",
            [&words[1]],
            |row| row.get(0),
        )
        .unwrap();
    println!("{body}");
}
