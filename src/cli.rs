//! The command line: arguments, exit codes, printing.

pub mod logging;
pub mod network_validator;
pub mod proxy_init;
