//! `outrigger proxy-init` as a program of its own. Its file has capabilities, and then it cannot be started where they are
//! dropped; so what carries them does nothing else.

use std::process::ExitCode;

fn main() -> ExitCode {
    outrigger::cli::proxy_init::main(std::env::args_os())
}
