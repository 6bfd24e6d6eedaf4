//! A model server for `cargo xtask agents`. Prints its address and then a line for each request, all as JSON.
//!
//! It ends when its standard input does, so that it never outlives whoever started it.

#![expect(
    clippy::print_stdout,
    reason = "the address and the requests are this program's output"
)]

use std::io::Read;

use planwright_testkit::FakeModel;

fn main() -> std::io::Result<()> {
    let model = FakeModel::start(std::io::stdout())?;
    println!("{{\"address\":\"{}\"}}", model.address());
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}
