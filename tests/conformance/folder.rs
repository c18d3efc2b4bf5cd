//! Where the conformance cases are.

use std::env;
use std::io::{Write, stderr};
use std::path::{Path, PathBuf};

/// The folder of conformance cases: `OUTRIGGER_CONFORMANCE`, else `../shared/conformance` beside the repository.
///
/// Where the latter is missing it says so, past the capture of the test runner, and returns nothing; with
/// `OUTRIGGER_CONFORMANCE_REQUIRED` set it fails instead, as it does where the variable names no folder.
pub(crate) fn conformance() -> Option<PathBuf> {
    let named = env::var_os("OUTRIGGER_CONFORMANCE").map(PathBuf::from);
    let required = named.is_some() || env::var_os("OUTRIGGER_CONFORMANCE_REQUIRED").is_some();
    let folder = named.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/conformance"));
    if folder.is_dir() {
        return Some(folder);
    }
    assert!(
        !required,
        "{} is no folder: set OUTRIGGER_CONFORMANCE to the folder of cases",
        folder.display()
    );
    writeln!(stderr(), "conformance: not run").expect("standard error can be written");
    None
}
