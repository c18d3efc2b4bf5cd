//! A cluster in which Linkerd's injector runs: what `--pre` says of a takeover, and what `check` says on the way.

use std::fs;
use std::path::Path;

use kube::Client;
use serde_json::{Value, json};

use crate::answer::{Answer, text};
use crate::cluster::{self, Cluster, FailurePolicy, Namespace, Options, Verb, call, repository};
use crate::conformance_folder::conformance;
use crate::deployment;
use crate::installation::{ENFORCE, INJECT, post};

const WEBHOOKS: &str = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations";
const LINKERDS: &str = "linkerd-proxy-injector-webhook-config";

/// Linkerd as its command line installs it.
fn linkerd(cluster: &Cluster, conformance: &Path) {
    let file = conformance.join("takeover/linkerd-injector.yaml");
    let output = cluster.kubectl(["apply", "--filename", file.to_str().unwrap()]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// A namespace that enforces `level`, with workloads of one container each, whose pods have these fields.
async fn workloads(client: &Client, name: &str, level: &str, workloads: &[(&str, Value)]) -> Namespace {
    let namespace = Namespace::create_named(client, name, &[(ENFORCE, level)], &[INJECT]).await;
    for (name, spec) in workloads {
        let object = deployment(name, spec);
        post(&namespace, "apis/apps/v1", "deployments", &object).await;
    }
    namespace
}

/// A node, and Linkerd's CNI plugin there.
async fn plugin(client: &Client) {
    let node = json!({"metadata": {"name": "n1", "labels": {"kubernetes.io/os": "linux"}}});
    let reply = call(client, Verb::Create, "/api/v1/nodes", Some(&node)).await.unwrap();
    assert_eq!(reply.code, 201, "{}", reply.body);
    let namespace = Namespace::create_named(client, "linkerd-cni", &[], &[]).await;
    let daemon_set = cluster::plugin(false, &json!({"tolerations": [{"operator": "Exists"}]}));
    post(&namespace, "apis/apps/v1", "daemonsets", &daemon_set).await;
}

#[tokio::test]
async fn before_a_takeover_one_is_told_what_it_changes() {
    let Some(folder) = conformance() else { return };
    let cluster = Cluster::start(Options::default()).await.unwrap();
    let client = cluster.client().await;
    let kubeconfig = cluster.kubeconfig();
    linkerd(&cluster, &folder);
    workloads(
        &client,
        "shop",
        "privileged",
        &[
            ("web", json!({})),
            ("tiles", json!({"nodeSelector": {"kubernetes.io/os": "windows"}})),
            (
                "clash",
                json!({"containers": [{"name": "web", "image": "web", "securityContext": {"runAsUser": 2102}}]}),
            ),
        ],
    )
    .await;
    workloads(&client, "bank", "baseline", &[("web", json!({}))]).await;

    without_plugin(&Answer::to(&kubeconfig, &["--pre"]));
    plugin(&client).await;
    with_plugin(&Answer::to(&kubeconfig, &["--pre"]));
    as_documented(&kubeconfig);
    unusual(&client, &kubeconfig).await;
    many(&client, &kubeconfig).await;
}

fn without_plugin(answer: &Answer) {
    assert_eq!(
        answer.says("takeover_registration"),
        "ok: linkerd-proxy-injector-webhook-config sends pods to Linkerd's injector now, failurePolicy Ignore; \
         linkerd-outrigger-webhook-config will be asked before it\n"
    );
    assert!(
        answer
            .says("linkerd_injector")
            .contains("linkerd/linkerd-proxy-injector (dev-undefined) stays")
    );
    for code in [
        "takeover_coverage",
        "takeover_twice",
        "takeover_upgrade",
        "takeover_settings",
    ] {
        assert_eq!(answer.line(code)["status"], "ok", "{answer:#?}");
    }
    let said = answer.says("takeover_denied");
    assert!(
        said.starts_with("warning: the next pod of 1 workload would be refused: init-container today, then refused\n"),
        "{said}"
    );
    assert!(said.contains("shop/Deployment/clash: container \"web\" runs as user 2102"));
    let said = answer.says("takeover_left_alone");
    assert!(
        said.contains("shop/Deployment/tiles: the pod is for Windows nodes"),
        "{said}"
    );
    // Without a plugin the others stay what they are: injected with linkerd-init, and refused.
    assert!(
        !answer.has("takeover_redirected") && !answer.has("takeover_admitted"),
        "{answer:#?}"
    );
}

fn with_plugin(answer: &Answer) {
    assert!(
        answer
            .says("takeover_plugin")
            .contains("Linkerd's, linkerd-cni/linkerd-cni")
    );
    assert_eq!(
        answer.says("takeover_redirected"),
        "ok: the next pod of 1 workload is redirected otherwise: init-container today, then cni\n\
         shop/Deployment/web: the CNI plugin is on every node that the pod can land on \
         (cni_covers_every_node)"
    );
    assert!(
        answer
            .says("takeover_admitted")
            .contains("would be admitted: refused today, then cni\nbank/Deployment/web: ")
    );
    let changes = answer.json["takeover"].as_array().unwrap();
    assert_eq!(changes.len(), 4, "{changes:#?}");
    let web = changes.iter().find(|it| it["namespace"] == "bank").unwrap();
    assert_eq!(
        (&web["today"], &web["then"], &web["change"]),
        (&json!("refused"), &json!("cni"), &json!("takeover_admitted"))
    );
}

/// Compares the section with that of the documentation.
fn as_documented(kubeconfig: &Path) {
    let (_, printed) = text(kubeconfig, &["--pre"]);
    let section = |text: &str| {
        let (_, rest) = text.split_once("takeover\n--------\n").unwrap();
        rest.split("\n\n").next().unwrap().to_owned()
    };
    let document = fs::read_to_string(repository().join("docs/check.md")).unwrap();
    let shown = document
        .split("<!-- takeover -->\n")
        .nth(1)
        .expect("docs/check.md shows it");
    assert_eq!(section(shown), section(&printed), "printed is\n{printed}");
}

/// A Linkerd that somebody has made his own.
async fn unusual(client: &Client, kubeconfig: &Path) {
    let path = format!("{WEBHOOKS}/{LINKERDS}");
    let mut registration = call(client, Verb::Get, &path, None).await.unwrap().body;
    registration["webhooks"][0]["failurePolicy"] = "Fail".into();
    registration["webhooks"][0]["namespaceSelector"] = json!({"matchLabels": {"kubernetes.io/metadata.name": "shop"}});
    let patch = json!({
        "metadata": {"annotations": {"meta.helm.sh/release-name": "l5d"}},
        "webhooks": registration["webhooks"],
    });
    let patched = call(client, Verb::Patch, &path, Some(&patch)).await.unwrap();
    assert!(patched.accepted(), "{}", patched.body);
    let path = "/api/v1/namespaces/linkerd/configmaps/linkerd-config";
    let map = call(client, Verb::Get, path, None).await.unwrap().body;
    let values = map["data"]["values"].as_str().unwrap();
    let values = values.replace("controllerReplicas: 1\n", "controllerReplicas: 3\n");
    let patched = call(client, Verb::Patch, path, Some(&json!({"data": {"values": values}}))).await;
    assert!(patched.unwrap().accepted());

    let answer = Answer::to(kubeconfig, &["--pre"]);
    let said = answer.says("takeover_registration");
    assert!(
        said.contains("failurePolicy Fail; linkerd-outrigger-webhook-config (webhook-config/ha) will be"),
        "{said}"
    );
    let said = answer.says("takeover_coverage");
    assert!(
        said.contains("bank: ours selects it, Linkerd's wants kubernetes.io/metadata.name In [shop]"),
        "{said}"
    );
    assert!(answer.says("takeover_upgrade").contains("Helm's release l5d"));
    assert_eq!(
        answer.says("takeover_settings"),
        "warning: some settings of linkerd-config do not count any more\ncontrollerReplicas: our Deployment says it itself"
    );
    // Nobody is asked about the bank's pods today.
    assert!(
        answer
            .says("takeover_meshed")
            .contains("would get a proxy: no-proxy today, then cni\nbank/Deployment/web: ")
    );
    let answer = Answer::to(kubeconfig, &["--pre", "--linkerd-namespace", "elsewhere"]);
    let said = answer.says("takeover_elsewhere");
    assert!(
        said.contains("Linkerd's injector is in namespace linkerd, and elsewhere was looked at"),
        "{said}"
    );
}

/// More than anybody reads are counted.
async fn many(client: &Client, kubeconfig: &Path) {
    let names: Vec<_> = (0..30).map(|number| format!("web-{number}")).collect();
    let all: Vec<_> = names.iter().map(|name| (name.as_str(), json!({}))).collect();
    workloads(client, "crowd", "baseline", &all).await;
    let (_, printed) = text(kubeconfig, &["--pre"]);
    let rows = [
        "WORKLOADS  NAMESPACES       TODAY           THEN      REASON",
        "31         bank and 1 more  no-proxy        cni       cni_covers_every_node",
    ];
    for row in rows {
        assert!(printed.contains(row), "{printed}");
    }
    let answer = Answer::to(kubeconfig, &["--pre"]);
    assert_eq!(answer.json["takeover"].as_array().unwrap().len(), 34);
}

/// Each state of the way that `docs/takeover.md` describes.
#[tokio::test]
async fn on_the_way_one_is_told_who_is_asked() {
    let Some(folder) = conformance() else { return };
    let cluster = Cluster::start(Options::default()).await.unwrap();
    let client = cluster.client().await;
    let kubeconfig = cluster.kubeconfig();
    linkerd(&cluster, &folder);
    let answer = Answer::to(&kubeconfig, &[]);
    let said = answer.says("webhook_not_registered");
    assert!(
        said.contains("sends pods to Linkerd's injector, and nothing sends any to ours"),
        "{said}"
    );
    assert!(!answer.has("two_injectors"));

    for file in ["rbac.yaml", "service.yaml", "deployment.yaml"] {
        let text = fs::read_to_string(repository().join("webhook-config").join(file)).unwrap();
        apply(&cluster, &beside(&text));
    }
    apply(&cluster, &beside(&FailurePolicy::Ignore.filled_in(b"nobody's", 443)));
    // The Secret that our Deployment names, not Linkerd's.
    let secret = json!({
        "metadata": {"name": "linkerd-outrigger-k8s-tls"}, "type": "kubernetes.io/tls",
        "stringData": {"tls.crt": "nobody's", "tls.key": "nobody's"},
    });
    let path = "/api/v1/namespaces/linkerd/secrets";
    let reply = call(&client, Verb::Create, path, Some(&secret)).await.unwrap();
    assert_eq!(reply.code, 201, "{}", reply.body);
    let answer = Answer::to(&kubeconfig, &[]);
    assert!(answer.has("serving_certificate_unreadable"), "{answer:#?}");
    let said = answer.says("webhook_registered_twice");
    assert!(
        said.starts_with("warning: ours is asked first, and Linkerd's about the same pods after it"),
        "{said}"
    );
    assert!(
        said.contains("linkerd-outrigger-webhook-config: linkerd-outrigger.linkerd.io, ours"),
        "{said}"
    );
    assert!(!answer.has("two_injectors"), "{answer:#?}");
    let said = answer.says("injector_not_ready");
    assert!(said.contains("Deployment linkerd/linkerd-outrigger"), "{said}");
    let said = Answer::to(&kubeconfig, &["--pre"]).says("takeover_registration");
    assert!(
        said.contains("linkerd-outrigger-webhook-config is asked before it already"),
        "{said}"
    );

    let path = format!("{WEBHOOKS}/{LINKERDS}");
    let mut registration = call(&client, Verb::Get, &path, None).await.unwrap().body;
    registration["webhooks"][0]["namespaceSelector"] =
        json!({"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "DoesNotExist"}]});
    let patch = json!({"webhooks": registration["webhooks"]});
    let patched = call(&client, Verb::Patch, &path, Some(&patch)).await.unwrap();
    assert!(patched.accepted(), "{}", patched.body);
    let answer = Answer::to(&kubeconfig, &[]);
    let said = answer.says("webhook_registered");
    assert!(
        said.starts_with("ok: linkerd-outrigger-webhook-config sends pods to the injector"),
        "{said}"
    );
    assert!(
        answer
            .says("webhook_order")
            .starts_with("ok: no other webhook changes pods"),
        "{answer:#?}"
    );
    let said = Answer::to(&kubeconfig, &["--pre"]).says("takeover_registration");
    assert!(
        said.contains("selects nothing: Linkerd's injector is asked about no pod any more"),
        "{said}"
    );
}

/// The manifests under the names that they have beside Linkerd's, as `docs/takeover.md` makes them.
fn beside(text: &str) -> String {
    text.replace("linkerd-proxy-injector", "linkerd-outrigger").replace(
        "control-plane-component: proxy-injector",
        "control-plane-component: outrigger",
    )
}

fn apply(cluster: &Cluster, text: &str) {
    let folder = tempfile::TempDir::new().unwrap();
    let file = folder.path().join("manifest.yaml");
    fs::write(&file, text).unwrap();
    let output = cluster.kubectl(["apply", "--filename", file.to_str().unwrap()]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
