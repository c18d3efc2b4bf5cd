//! The CNI plugin, as a container runtime runs it: see `outrigger::cni`.

use std::process::ExitCode;

fn main() -> ExitCode {
    outrigger::cni::plugin::main()
}
