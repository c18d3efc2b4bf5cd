//! The real helm.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::LazyLock;

use tempfile::TempDir;

use crate::cluster::{Cluster, built, repository};

static HOME: LazyLock<TempDir> = LazyLock::new(|| TempDir::new().unwrap());

/// The folder of the program.
pub(crate) fn folder() -> PathBuf {
    built("helm").unwrap_or_else(|message| panic!("{message}"))
}

/// Runs helm on the charts of the repository, with folders of its own and no cluster.
pub(crate) fn helm(arguments: &[&str]) -> Output {
    // A kubeconfig that is not there: what needs a cluster fails.
    with(&HOME.path().join("none"), arguments)
}

/// Runs helm on a cluster.
pub(crate) fn helm_on(cluster: &Cluster, arguments: &[&str]) -> Output {
    with(&cluster.kubeconfig(), arguments)
}

fn with(kubeconfig: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(folder().join("helm"));
    for variable in ["HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"] {
        command.env(variable, HOME.path());
    }
    command.env("KUBECONFIG", kubeconfig);
    command.args(arguments).current_dir(repository().join("charts"));
    command.output().expect("helm runs")
}

/// What `helm template` prints for a chart, for the Kubernetes of a minor release, tests left out.
pub(crate) fn template(chart: &str, namespace: &str, minor: u32, arguments: &[&str]) -> String {
    let release = format!("1.{minor}");
    let mut all = vec![
        "template",
        chart,
        chart,
        "--skip-tests",
        "--namespace",
        namespace,
        "--kube-version",
        &release,
    ];
    all.extend(arguments);
    let output = helm(&all);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "helm {all:?}: {said}");
    String::from_utf8(output.stdout).expect("helm prints text")
}
