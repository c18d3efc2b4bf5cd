//! The guides, run as they are written.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::cluster::{Cluster, repository};
use crate::helm::folder;

/// The blocks of a document that are marked to be run, in order.
pub(crate) fn blocks(document: &str) -> Vec<String> {
    let text = fs::read_to_string(repository().join(document)).unwrap();
    let marked = text.split("<!-- run -->\n```sh\n").skip(1);
    marked
        .map(|rest| rest.split("```").next().unwrap().to_owned())
        .collect()
}

/// A shell that runs a block in a folder that has the charts, with the program, helm and kubectl on `PATH`.
pub(crate) fn shell(cluster: &Cluster, block: &str, folder_of_charts: &Path) -> Command {
    let program = Path::new(env!("CARGO_BIN_EXE_outrigger")).parent().unwrap();
    let mut path = OsString::from(program);
    for part in [folder().into_os_string(), env::var_os("PATH").unwrap()] {
        path.push(":");
        path.push(part);
    }
    let charts = folder_of_charts.join("charts");
    if !charts.exists() {
        std::os::unix::fs::symlink(repository().join("charts"), charts).unwrap();
    }
    let mut shell = Command::new("bash");
    shell
        .args(["-euo", "pipefail", "-c", block])
        .stdin(Stdio::null())
        .current_dir(folder_of_charts);
    shell.env("PATH", path).env("KUBECONFIG", cluster.kubeconfig());
    for variable in ["HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME", "KUBECACHEDIR"] {
        shell.env(variable, folder_of_charts.join("cache"));
    }
    shell
}

/// Runs a block, which must succeed, and returns what it printed.
pub(crate) fn run(cluster: &Cluster, block: &str, folder_of_charts: &Path) -> String {
    let output = shell(cluster, block, folder_of_charts).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{block}: {printed}{said}");
    printed
}
