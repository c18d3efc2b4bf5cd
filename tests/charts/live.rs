//! Installed for real: by helm, by `kubectl` with what the program prints, and as `docs/install.md` says.

use std::fs;
use std::process::Output;

use kube::Client;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::accepted::{apply, objects};
use crate::cluster::{Cluster, Namespace, Options, Verb, call, create};
use crate::guide::{blocks, run};
use crate::helm::helm_on;
use crate::program::{outrigger, printed};

const ENFORCE: &str = "pod-security.kubernetes.io/enforce";
const REGISTRATION: &str =
    "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/linkerd-proxy-injector-webhook-config";
const SECRET: &str = "/api/v1/namespaces/linkerd/secrets/outrigger-certificates";

async fn get(client: &Client, path: &str) -> Value {
    call(client, Verb::Get, path, None).await.unwrap().body
}

fn succeeds(output: &Output) {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// What the webhook does with its own certificate.
async fn fill_in(client: &Client) {
    let patch = json!({"data": {"tls.crt": "Q0E="}});
    assert!(
        call(client, Verb::Patch, SECRET, Some(&patch))
            .await
            .unwrap()
            .accepted()
    );
    let mut registration = get(client, REGISTRATION).await;
    for entry in registration["webhooks"].as_array_mut().unwrap() {
        entry["clientConfig"]["caBundle"] = "Q0E=".into();
    }
    let patch = json!({"webhooks": registration["webhooks"]});
    assert!(
        call(client, Verb::Patch, REGISTRATION, Some(&patch))
            .await
            .unwrap()
            .accepted()
    );
}

async fn is_filled_in(client: &Client) {
    assert_eq!(get(client, SECRET).await["data"]["tls.crt"], "Q0E=");
    let registration = get(client, REGISTRATION).await;
    for entry in registration["webhooks"].as_array().unwrap() {
        assert_eq!(entry["clientConfig"]["caBundle"], "Q0E=", "{entry}");
    }
}

#[tokio::test]
async fn what_the_webhook_fills_in_survives_upgrades() {
    let cluster = Cluster::start(Options::default()).await.unwrap();
    let client = cluster.client().await;
    Namespace::create_named(&client, "linkerd", &[], &[]).await;
    succeeds(&helm_on(
        &cluster,
        &["install", "outrigger", "outrigger", "--namespace=linkerd"],
    ));
    fill_in(&client).await;
    let upgrade = [
        "upgrade",
        "outrigger",
        "outrigger",
        "--namespace=linkerd",
        "--values=outrigger/values-ha.yaml",
    ];
    succeeds(&helm_on(&cluster, &upgrade));
    is_filled_in(&client).await;
    assert_eq!(get(&client, REGISTRATION).await["webhooks"][0]["failurePolicy"], "Fail");
    succeeds(&helm_on(&cluster, &["uninstall", "outrigger", "--namespace=linkerd"]));
    assert_eq!(get(&client, REGISTRATION).await["code"], 404);

    let rendered = objects(&printed(&["install", "--server-version=1.36"]), &[]);
    apply(&cluster, &rendered, &[]);
    fill_in(&client).await;
    apply(
        &cluster,
        &objects(&printed(&["install", "--ha", "--server-version=1.36"]), &[]),
        &[],
    );
    is_filled_in(&client).await;
    let second = helm_on(&cluster, &["install", "second", "outrigger", "--namespace=linkerd"]);
    let said = String::from_utf8_lossy(&second.stderr);
    assert!(
        !second.status.success() && said.contains("exists and cannot be imported"),
        "{said}"
    );
    is_filled_in(&client).await;
}

#[tokio::test]
async fn the_agent_is_not_installed_where_its_volumes_are_refused() {
    let cluster = Cluster::start(Options::default()).await.unwrap();
    let client = cluster.client().await;
    for level in ["baseline", "restricted"] {
        Namespace::create_named(&client, level, &[(ENFORCE, level)], &[]).await;
        let namespace = format!("--namespace={level}");
        let kubeconfig = format!("--kubeconfig={}", cluster.kubeconfig().display());
        for output in [
            helm_on(&cluster, &["install", "agent", "outrigger-cni", &namespace]),
            outrigger(&["install-cni", &namespace, &kubeconfig]),
        ] {
            let said = String::from_utf8_lossy(&output.stderr);
            let words = format!("namespace {level} has {ENFORCE}={level}, which refuses the hostPath volumes");
            assert!(!output.status.success() && said.contains(&words), "{said}");
            assert_eq!(String::from_utf8_lossy(&output.stdout), "");
        }
        let sets = get(&client, "/apis/apps/v1/daemonsets").await;
        assert_eq!(sets["items"], json!([]));
    }
    Namespace::create_named(&client, "linkerd-cni", &[(ENFORCE, "privileged")], &[]).await;
    succeeds(&helm_on(
        &cluster,
        &["install", "agent", "outrigger-cni", "--namespace=linkerd-cni"],
    ));
    // Who may not look says so, and prints nothing.
    let text = fs::read_to_string(cluster.kubeconfig()).unwrap();
    let mut configuration: Value = serde_json::from_str(&text).unwrap();
    configuration["users"][0]["user"]["as"] = "stranger".into();
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("kubeconfig");
    fs::write(&file, configuration.to_string()).unwrap();
    let output = outrigger(&["install-cni", &format!("--kubeconfig={}", file.display())]);
    let said = String::from_utf8_lossy(&output.stderr);
    let words = "namespace linkerd-cni: namespaces \"linkerd-cni\" is forbidden: User \"stranger\" cannot get";
    assert_eq!((output.status.code(), &*output.stdout), (Some(2), &b""[..]));
    assert!(said.contains(words), "{said}");
    // The server is asked for its release.
    let kubeconfig = format!("--kubeconfig={}", cluster.kubeconfig().display());
    let asked = printed(&["install-cni", &kubeconfig]);
    assert_eq!(asked, printed(&["install-cni", "--server-version=1.36"]));
}

/// What is deleted is all that was created, whatever the options.
#[tokio::test]
async fn what_is_uninstalled_is_all_that_was_installed() {
    let cluster = Cluster::start(Options::default()).await.unwrap();
    let client = cluster.client().await;
    for name in ["linkerd", "linkerd-cni"] {
        Namespace::create_named(&client, name, &[], &[]).await;
    }
    let everything = "--set=probe.enabled=true,autoscaling.enabled=true,networkPolicy.enabled=true,cniEnabled=true,\
                      monitoring.dashboards.enabled=true,cni.resourceQuota.enabled=true,egress.enabled=true,\
                      egress.controller.enabled=true";
    let install = ["install", "--cni", "--ha", "--server-version=1.36", everything];
    // Those stay, and the policies with them.
    let installed = objects(&printed(&install), &["CustomResourceDefinition"]);
    apply(&cluster, &installed, &[]);
    let names = |objects: &[Value]| {
        let mut names: Vec<_> = objects
            .iter()
            .map(|it| {
                format!(
                    "{} {}/{}",
                    it["kind"], it["metadata"]["namespace"], it["metadata"]["name"]
                )
            })
            .collect();
        names.sort();
        names
    };
    let text = printed(&["uninstall", "--cni", "--server-version=1.36"]);
    let deleted = objects(&text, &[]);
    assert_eq!(names(&deleted), names(&installed));
    let place = |kind: &str, name: &str| {
        let is_it = |it: &Value| it["kind"] == kind && it["metadata"]["name"] == name;
        deleted.iter().position(is_it).unwrap()
    };
    assert_eq!(
        place("MutatingWebhookConfiguration", "linkerd-proxy-injector-webhook-config"),
        0
    );
    let right = place("ClusterRoleBinding", "linkerd-outrigger-probe-dry-run");
    assert!(right < place("ValidatingAdmissionPolicyBinding", "outrigger-probe-dry-run-only"));

    let folder = TempDir::new().unwrap();
    let file = folder.path().join("deleted.yaml");
    fs::write(&file, text).unwrap();
    let output = cluster.kubectl(["delete", "--wait=false", "--filename", file.to_str().unwrap()]);
    succeeds(&output);
    assert_eq!(String::from_utf8_lossy(&output.stdout).lines().count(), installed.len());
}

#[tokio::test]
async fn the_guide_can_be_followed() {
    let blocks = blocks("docs/install.md");
    let (with_helm, without): (Vec<_>, Vec<_>) = blocks.iter().partition(|block| block.contains("helm install"));
    assert!(with_helm.len() == 2 && without.len() == 5, "{blocks:#?}");
    for blocks in [with_helm, without] {
        let cluster = Cluster::start(Options::default()).await.unwrap();
        let client = cluster.client().await;
        Namespace::create_named(&client, "linkerd", &[(ENFORCE, "restricted")], &[]).await;
        cert_manager(&client).await;
        let folder = TempDir::new().unwrap();
        for block in &blocks {
            let uninstalls = block.contains("uninstall");
            if uninstalls {
                assert_eq!(get(&client, REGISTRATION).await["webhooks"][0]["failurePolicy"], "Fail");
            }
            run(&cluster, block, folder.path());
            let is_of_agent = block.contains("install-cni") || block.contains("install outrigger-cni");
            let registered = get(&client, REGISTRATION).await["code"] != 404;
            assert_eq!(registered, !uninstalls && !is_of_agent, "{block}");
        }
    }
}

/// The kinds of cert-manager that the chart uses.
async fn cert_manager(client: &Client) {
    for (kind, plural) in [("Certificate", "certificates"), ("Issuer", "issuers")] {
        let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        let definition = json!({
            "metadata": {"name": format!("{plural}.cert-manager.io")},
            "spec": {
                "group": "cert-manager.io", "scope": "Namespaced", "names": {"kind": kind, "plural": plural},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
            },
        });
        let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        create(client, path, &definition).await;
    }
}
