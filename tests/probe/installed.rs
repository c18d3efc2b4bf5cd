//! `webhook-config/probe` as somebody installs it: its pod, its rights, and room for many findings.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Patch, PatchParams};
use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use kube::{Api, Client};
use outrigger::policy::probe::{Answer, Finding, Refuser, Report};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::LIMIT;
use crate::cluster::{Cluster, Namespace, Options, Verb, call, granted, poll, repository, shared};
use crate::prober::{FINDINGS, Prober, finding, install, until_found};
use crate::scene::{ENFORCE, INJECT, PLAIN};

/// A client with the token of a kubeconfig.
pub(crate) async fn client_of(kubeconfig: &Path) -> Client {
    let file = Kubeconfig::read_from(kubeconfig).unwrap();
    let config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await;
    Client::try_from(config.unwrap()).unwrap()
}

#[tokio::test]
async fn what_is_installed_has_the_rights_that_it_needs_and_no_others() {
    let cluster = Cluster::start(Options::default()).await.unwrap();
    let client = cluster.client().await;
    cluster.webhook_kubeconfig().await;
    let namespace = Namespace::create(&client, "shop", &[], &[INJECT]).await;
    install(&cluster);
    let mut prober = Prober::start(&cluster, PLAIN).await;
    let admitted = |finding: &Value| finding["cni"]["verdict"] == "admitted";
    until_found(&client, &prober, &namespace.name, admitted).await;
    prober.until("/ready", "ok").await;

    // No server has all of these: where one has them they are watched.
    let is_everywhere = |right: &String| !right.ends_with("podsecuritypolicies") && !right.ends_with("constraints");
    let files = ["rbac.yaml", "grant/create-pods.yaml"].map(|file| format!("webhook-config/probe/{file}"));
    let mut wanted: BTreeSet<_> = files.iter().flat_map(|file| granted(file)).collect();
    wanted.retain(is_everywhere);
    let used = || {
        let log = cluster.audit_log();
        let asked = log.iter().filter(|event| event.is_of_the_probe());
        let (refused, allowed): (Vec<_>, Vec<_>) = asked.partition(|event| event.code() == 403);
        assert!(refused.is_empty(), "{refused:#?}");
        let rights = allowed.iter().filter_map(|event| event.right());
        rights.filter(is_everywhere).collect::<BTreeSet<_>>()
    };
    poll(LIMIT, async || (used() == wanted).then_some(())).await;
    assert_eq!(used(), wanted, "used and granted");
    assert!(prober.stop().await.success());

    the_deployment_is_restricted_clean(&client).await;
    many_findings_have_room(&cluster, &client).await;
}

/// Creates a pod as the Deployment makes them where `restricted` is enforced.
async fn the_deployment_is_restricted_clean(client: &Client) {
    let path = "/apis/apps/v1/namespaces/linkerd/deployments/outrigger-probe";
    let deployment = call(client, Verb::Get, path, None).await.unwrap().body;
    let mut pod = deployment["spec"]["template"].clone();
    pod["metadata"]["name"] = "probe".into();
    let namespace = Namespace::create(client, "control-plane", &[(ENFORCE, "restricted")], &[]).await;
    let account = json!({"metadata": {"name": "outrigger-probe"}});
    namespace.post("api/v1", "serviceaccounts", &account).await;
    let created = namespace.create_pod(&pod).await;
    assert_eq!(created.code, 201, "{}", created.message());
}

/// The API server takes what two thousand namespaces with long names have to say, from the probe's account.
async fn many_findings_have_room(cluster: &Cluster, client: &Client) {
    let words = "not for you ".repeat(100);
    let finding = Finding {
        at: 1,
        labels: "0123456789abcdef".to_owned(),
        plain: Answer::Admitted,
        init_container: Answer::refused(Refuser::Webhook("deny.example.com".to_owned()), &words),
        cni: Answer::refused(Refuser::Webhook("deny.example.com".to_owned()), &words),
    };
    let names: Vec<_> = (0..2000).map(|number| format!("n{number:062}")).collect();
    let all: Vec<_> = names.iter().map(|name| (name.as_str(), &finding)).collect();
    let (data, left_out) = Report::write(&all);
    assert_eq!(left_out, 0);
    let token = cluster.account_kubeconfig("outrigger-probe").await;
    let api = Api::<ConfigMap>::namespaced(client_of(&token).await, "linkerd");
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": data});
    let parameters = PatchParams::apply("outrigger-probe").force();
    let applied = api
        .patch("outrigger-probe-findings", &parameters, &Patch::Apply(&object))
        .await;
    applied.expect("the API server takes it");
    let stored = call(client, Verb::Get, FINDINGS, None).await.unwrap().body;
    assert_eq!(stored["data"].as_object().unwrap().len(), 2001);
}

/// Servers before 1.30 do not take the policy. What kubectl makes of that, and of what comes after, is the README's `&&`.
#[tokio::test]
async fn where_the_policy_is_not_taken_nobody_may_create_pods() {
    let without = "--runtime-config=admissionregistration.k8s.io/v1/validatingadmissionpolicies=false,\
                   admissionregistration.k8s.io/v1/validatingadmissionpolicybindings=false";
    let unused = "--disable-admission-plugins=ValidatingAdmissionPolicy";
    let options = Options {
        flags: [without, unused].map(str::to_owned).to_vec(),
        ..Options::default()
    };
    let cluster = Cluster::start(options).await.unwrap();
    let client = cluster.client().await;
    cluster.webhook_kubeconfig().await;
    let installed = run_in_readme(&cluster, "kubectl apply -f webhook-config/probe/dry-run-only.yaml");
    let words = String::from_utf8_lossy(&installed.stderr);
    assert!(
        !installed.status.success() && words.contains("no matches for kind \"ValidatingAdmissionPolicy\""),
        "{words}"
    );
    let path = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    let roles = async || call(&client, Verb::Get, path, None).await.unwrap().body.to_string();
    let found = roles().await;
    assert!(found.contains("\"linkerd-outrigger-probe\"") && !found.contains("probe-dry-run"));

    // Whoever does not read it applies the folder.
    let folder = repository().join("webhook-config/probe");
    let applied = cluster.kubectl(["apply".as_ref(), "--filename".as_ref(), folder.as_os_str()]);
    let words = String::from_utf8_lossy(&applied.stdout);
    assert!(words.contains("deployment.apps/outrigger-probe created"), "{words}");
    assert!(!roles().await.contains("probe-dry-run"), "{words}");
}

/// Runs the block of commands of `webhook-config/probe/README.md` that has `line`.
fn run_in_readme(cluster: &Cluster, line: &str) -> Output {
    let readme = fs::read_to_string(repository().join("webhook-config/probe/README.md")).unwrap();
    let mut blocks = readme
        .split("```sh\n")
        .skip(1)
        .filter_map(|rest| rest.split("```").next());
    let block = blocks.find(|block| block.contains(line)).unwrap();
    let mut shell = Command::new("sh");
    shell.args(["-c", block]).current_dir(repository());
    let cache = TempDir::new().unwrap();
    shell
        .env("KUBECONFIG", cluster.kubeconfig())
        .env("KUBECACHEDIR", cache.path());
    shell.output().unwrap()
}

/// The policy goes no earlier than what it confines.
#[test]
fn the_right_to_create_pods_is_deleted_before_the_policy() {
    let readme = fs::read_to_string(repository().join("webhook-config/probe/README.md")).unwrap();
    let (_, deletion) = readme.split_once("kubectl delete ").unwrap();
    let at = |file| deletion.find(file).unwrap();
    assert!(at("create-pods.yaml") < at("&&") && at("&&") < at("dry-run-only.yaml"));
}

#[tokio::test]
async fn before_1_30_it_asks_in_listed_namespaces_alone() {
    let cluster = shared().await;
    let client = cluster.client().await;
    cluster.webhook_kubeconfig().await;
    // Whether they ask for injection does not matter: they are listed.
    let listed = Namespace::create(&client, "listed", &[], &[]).await;
    let refused = Namespace::create(&client, "refused", &[], &[INJECT]).await;
    let meshed = Namespace::create(&client, "meshed", &[], &[INJECT]).await;
    cluster.apply("webhook-config/probe/rbac.yaml");
    let folder = TempDir::new().unwrap();
    let rights = folder.path().join("rights.yaml");
    let mut program = Command::new(env!("CARGO_BIN_EXE_outrigger"));
    program.args([
        "install",
        "--server-version=1.29",
        "--show-only=templates/probe/listed-namespaces.yaml",
    ]);
    program.arg(format!("--set=probe.enabled=true,probe.namespaces={{{}}}", listed.name));
    fs::write(&rights, program.output().unwrap().stdout).unwrap();
    let output = cluster.kubectl(["apply".as_ref(), "--filename".as_ref(), rights.as_os_str()]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));

    let token = cluster.account_kubeconfig("outrigger-probe").await;
    let flags = [
        "--listed-only",
        "--namespace",
        &listed.name,
        "--namespace",
        &refused.name,
    ];
    let prober = Prober::start_as(&token, PLAIN, &flags);
    let admitted = |finding: &Value| finding["init-container"]["verdict"] == "admitted";
    until_found(&client, &prober, &listed.name, admitted).await;
    let forbidden = |finding: &Value| finding["plain"]["by"] == "forbidden";
    until_found(&client, &prober, &refused.name, forbidden).await;
    assert_eq!(finding(&client, &meshed.name).await, Value::Null);
}
