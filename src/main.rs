//! The `outrigger` program.

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    match args.next().as_deref().and_then(std::ffi::OsStr::to_str) {
        Some("proxy-init") => outrigger::cli::proxy_init::main(std::iter::once("proxy-init".into()).chain(args)),
        Some("network-validator") => {
            outrigger::cli::network_validator::main(std::iter::once("network-validator".into()).chain(args))
        }
        _ => ExitCode::from(2),
    }
}
