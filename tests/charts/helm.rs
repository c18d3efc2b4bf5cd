//! The real helm.

use std::process::{Command, Output};
use std::sync::LazyLock;

use tempfile::TempDir;

use crate::cluster::{built, repository};

/// Runs helm on the charts of the repository, with folders of its own and no cluster.
pub(crate) fn helm(arguments: &[&str]) -> Output {
    static HOME: LazyLock<TempDir> = LazyLock::new(|| TempDir::new().unwrap());
    let folder = built("helm").unwrap_or_else(|message| panic!("{message}"));
    let mut command = Command::new(folder.join("helm"));
    for variable in ["HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"] {
        command.env(variable, HOME.path());
    }
    // A kubeconfig that is not there: what needs a cluster fails.
    command.env("KUBECONFIG", HOME.path().join("none"));
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
