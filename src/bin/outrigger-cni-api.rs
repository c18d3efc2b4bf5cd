//! What `outrigger-cni` asks the API server with when there is no agent: see `outrigger::cni::plugin`.

use std::process::ExitCode;

fn main() -> ExitCode {
    outrigger::cni::plugin::api::main()
}
