//! What the chart installs, with each part missing once; and twice.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;
use tempfile::TempDir;

use crate::answer::Answer;
use crate::cluster::{Cluster, Namespace, Options, UNASKED, create};
use crate::installation::VALUES;

/// A template of the chart, what is said while it is missing, and words of that.
const PARTS: [(&str, &str, &str); 5] = [
    (
        "rbac",
        "webhook_lacks_rights",
        "failed: linkerd/linkerd-proxy-injector lacks ",
    ),
    (
        "certificates",
        "serving_certificate_missing",
        "failed: there is no Secret linkerd/outrigger-certificates, ",
    ),
    (
        "service",
        "webhook_without_endpoints",
        "failed: there is no Service linkerd/linkerd-proxy-injector\n",
    ),
    (
        "deployment",
        "injector_missing",
        "failed: no Deployment runs outrigger webhook\n",
    ),
    (
        "mutating-webhook-configuration",
        "webhook_not_registered",
        "failed: no MutatingWebhookConfiguration calls an injector\n",
    ),
];

struct Site {
    cluster: Cluster,
    folder: TempDir,
}

impl Site {
    /// Prints the objects of `outrigger install` into a file: all, or those of a template.
    fn printed(&self, template: Option<&str>, flags: &[&str]) -> PathBuf {
        let mut install = Command::new(env!("CARGO_BIN_EXE_outrigger"));
        install.args(["install", "--server-version=1.36"]).args(flags);
        install.args(template.map(|template| format!("--show-only=templates/{template}.yaml")));
        let output = install.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let file = self.folder.path().join("objects.yaml");
        fs::write(&file, output.stdout).unwrap();
        file
    }

    fn kubectl(&self, command: &str, file: &Path) {
        let output = self.cluster.kubectl([command, "--filename", file.to_str().unwrap()]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

#[tokio::test]
async fn what_is_missing_of_an_installation_is_named_and_so_is_what_is_there_twice() {
    let cluster = Cluster::start(Options::default()).await.unwrap();
    let client = cluster.client().await;
    Namespace::create_named(&client, "linkerd", &[UNASKED], &[]).await;
    let values = json!({"metadata": {"name": "linkerd-config"}, "data": {"values": VALUES}});
    create(&client, "/api/v1/namespaces/linkerd/configmaps", &values).await;
    let folder = TempDir::new().unwrap();
    let site = Site { cluster, folder };
    let kubeconfig = site.cluster.kubeconfig();
    site.kubectl("apply", &site.printed(None, &[]));
    Answer::until(&kubeconfig, &[], "webhook_rights").await;
    for (template, code, words) in PARTS {
        let file = site.printed(Some(template), &[]);
        site.kubectl("delete", &file);
        let answer = Answer::until(&kubeconfig, &[], code).await;
        assert_eq!(answer.status, Some(1), "{answer:#?}");
        let said = answer.says(code);
        assert!(said.starts_with(words), "{template}: {said}");
        for other in PARTS.iter().filter(|(other, ..)| *other != template) {
            let said = if answer.has(other.1) {
                answer.says(other.1)
            } else {
                String::new()
            };
            assert!(!said.starts_with(other.2), "{template}: {said}");
        }
        site.kubectl("apply", &file);
    }

    site.kubectl("apply", &site.printed(None, &["--set=name=linkerd-outrigger"]));
    let answer = Answer::until(&kubeconfig, &[], "webhook_ours_twice").await;
    let said = answer.says("webhook_ours_twice");
    for registration in [
        "linkerd-outrigger-webhook-config: ",
        "linkerd-proxy-injector-webhook-config: ",
    ] {
        assert!(said.contains(registration), "{said}");
    }
    let said = answer.says("installed_twice");
    assert_eq!(
        said,
        "warning: 2 Deployments run outrigger webhook\nlinkerd/linkerd-outrigger\nlinkerd/linkerd-proxy-injector"
    );
}
