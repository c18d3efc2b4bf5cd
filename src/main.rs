//! The `outrigger` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    outrigger::cli::run(std::env::args_os())
}
