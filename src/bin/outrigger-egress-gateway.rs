//! `outrigger egress-gateway` as a program of its own, for the image: the webhook's does not link what the gateway needs.

use std::process::ExitCode;

fn main() -> ExitCode {
    outrigger::cli::egress_gateway::main(std::env::args_os())
}
