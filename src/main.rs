//! The `outrigger` command.

fn main() {}
