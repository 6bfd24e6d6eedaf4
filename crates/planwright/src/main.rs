//! The `planwright` binary.

fn main() {}
