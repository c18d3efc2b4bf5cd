//! The steps of `docs/takeover.md`, run as they stand there.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::cluster::repository;

/// A certificate with its key and its authority, all PEM.
#[derive(Clone, Debug)]
pub(crate) struct Pair {
    pub(crate) authority: String,
    pub(crate) certificate: String,
    pub(crate) key: String,
}

impl Pair {
    /// Reads what `outrigger certs` has written.
    pub(crate) fn read(folder: &Path) -> Self {
        let read = |name: &str| fs::read_to_string(folder.join(name)).unwrap();
        Self {
            authority: read("ca.crt"),
            certificate: read("tls.crt"),
            key: read("tls.key"),
        }
    }

    /// A new one for `host`.
    pub(crate) fn make(host: &str) -> Self {
        let folder = TempDir::new().unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_outrigger"));
        let output = command
            .args(["certs", "--dns", host, "--out"])
            .arg(folder.path())
            .output();
        let output = output.unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Self::read(folder.path())
    }
}

/// A shell in a folder, as somebody has it who follows the document.
pub(crate) struct Script {
    folder: TempDir,
    kubeconfig: PathBuf,
    document: String,
    /// What the document has the reader set, with this cluster's names.
    names: String,
}

impl Script {
    pub(crate) fn new(kubeconfig: PathBuf, linkerd: &str, application: &str) -> Self {
        let folder = TempDir::new().unwrap();
        let document = fs::read_to_string(repository().join("docs/takeover.md")).unwrap();
        let names = step(&document, "names");
        assert!(names.starts_with("NS=linkerd APP=shop "), "{names}");
        let names = names.replacen("NS=linkerd APP=shop", &format!("NS={linkerd} APP={application}"), 1);
        Self {
            folder,
            kubeconfig,
            document,
            names,
        }
    }

    /// The folder that the steps run in.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// What a step of the document is.
    pub(crate) fn text(&self, name: &str) -> String {
        step(&self.document, name)
    }

    /// Runs a step to its end, and returns what it prints; `change` makes it another.
    pub(crate) async fn run(&self, name: &str, change: impl Fn(String) -> String) -> Result<String, String> {
        let text = format!("{}\n{}", self.names, change(self.text(name)));
        let mut command = Command::new("bash");
        command
            .args(["-euo", "pipefail", "-c", &text])
            .current_dir(self.folder.path())
            .env("KUBECONFIG", &self.kubeconfig)
            .env("HOME", self.folder.path())
            .env("PATH", path());
        let output = tokio::task::spawn_blocking(move || command.output()).await.unwrap();
        let output = output.expect("bash can run");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        match output.status.success() {
            true => Ok(String::from_utf8(output.stdout).unwrap()),
            false => Err(format!("{text}\n{said}")),
        }
    }
}

/// The programs of the machine, and `outrigger` first.
fn path() -> OsString {
    let own = Path::new(env!("CARGO_BIN_EXE_outrigger")).parent().unwrap().to_owned();
    let others = std::env::var_os("PATH").unwrap_or_default();
    std::env::join_paths([own].into_iter().chain(std::env::split_paths(&others))).unwrap()
}

/// The block of `document` below the mark of a step.
fn step(document: &str, name: &str) -> String {
    let mark = format!("<!-- step: {name} -->\n```sh\n");
    let found = document.split(&mark).nth(1);
    let found = found.unwrap_or_else(|| panic!("docs/takeover.md has no step {name}"));
    found.split("```\n").next().unwrap().to_owned()
}
