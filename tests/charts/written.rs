//! Files that are made from charts and code: up to date, or made anew (`make manifests`).

use std::env;
use std::fs;
use std::path::Path;

/// Checks that the file at `path` of the repository is `wanted`. With `OUTRIGGER_OVERWRITE` set it is made so.
pub(crate) fn is_or_becomes(path: &str, wanted: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    if env::var_os("OUTRIGGER_OVERWRITE").is_some() {
        fs::write(&file, wanted).unwrap();
    }
    let found = fs::read_to_string(&file).unwrap_or_default();
    assert!(
        found == wanted,
        "{path} is not what charts and code say: run `make manifests`"
    );
}
