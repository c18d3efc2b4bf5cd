//! The API server asks about a pod again when anybody has changed it since, as `reinvocationPolicy: IfNeeded` says.
//!
//! It always does, for its own plugin mounts the API token in the containers that injection has added. A policy of the
//! cluster that adds a container to meshed pods stands for every other webhook here.

use std::time::Duration;

use kube::Client;
use serde_json::{Value, json};

use crate::cluster::{FailurePolicy, Namespace, Registration, Verb, call, poll};
use crate::scene::{CNI, INJECT, Scene};
use crate::{mesh, pod};

/// The API server learns of a policy by a watch, in well under a second.
const LIMIT: Duration = Duration::from_secs(30);

const AGAIN: &str = "outrigger_admission_answers_total{outcome=\"skip\",decision=\"sidecar_already_exists\",redirection=\"none\",level=\"baseline\"}";

#[tokio::test]
async fn a_pod_that_another_one_changes_has_one_proxy() {
    let scene = Scene::with_values(CNI).await;
    let namespace = scene.meshed("baseline").await;
    add_container_to_meshed_pods(&scene.client, scene.registration.label().0).await;
    let late = async || {
        let tried = namespace.try_pod(&pod("web", &json!({}))).await;
        (mesh::count(&tried.body, "late") == 1).then_some(tried)
    };
    let tried = poll(LIMIT, late).await.expect("the API server heeds the policy");
    assert_eq!(
        tried.warnings,
        ["cni_covers_every_node: inject, cni: the CNI plugin is on every node that the pod can land on"]
    );

    let before = scene.webhook.metric(AGAIN).await;
    let created = namespace.create_pod(&pod("web", &json!({}))).await;
    assert_eq!(mesh::redirection(&created.body), Some("cni"), "{}", created.message());
    assert_eq!(mesh::count(&created.body, "late"), 1);
    assert!(scene.webhook.metric(AGAIN).await > before, "nobody asked again");
}

#[tokio::test]
async fn a_webhook_that_is_registered_twice_injects_once() {
    let scene = Scene::with_values(CNI).await;
    let second = Registration::create(&scene.client, &scene.webhook, FailurePolicy::Fail).await;
    let once = scene.meshed("baseline").await;
    let labels = [scene.registration.label(), second.label()];
    let twice = Namespace::create(&scene.client, "twice", &labels, &[INJECT]).await;
    let spec = async |namespace: &Namespace| {
        let created = namespace.create_pod(&pod("web", &json!({}))).await;
        assert_eq!(mesh::redirection(&created.body), Some("cni"), "{}", created.message());
        mesh::without_random_names(&created.body["spec"])
    };
    assert_eq!(spec(&once).await, spec(&twice).await);
}

/// What the webhook leaves out of the containers that it adds, the API server puts there: nobody can tell it not to but
/// the author of the pod.
#[tokio::test]
async fn the_api_server_mounts_its_token_in_injected_containers() {
    let scene = Scene::with_values(CNI).await;
    let namespace = scene.meshed("baseline").await;
    for (name, automount) in [("mounted", true), ("not-mounted", false)] {
        let mut pod = pod(name, &json!({}));
        pod["spec"]["automountServiceAccountToken"] = automount.into();
        let created = namespace.create_pod(&pod).await;
        assert_eq!(mesh::redirection(&created.body), Some("cni"), "{}", created.message());
        for container in mesh::containers(&created.body) {
            let mounts = container["volumeMounts"].as_array().into_iter().flatten();
            let tokens = mounts.filter(|mount| mount["mountPath"] == mesh::API_TOKEN).count();
            assert_eq!(tokens, usize::from(automount), "{container}");
        }
    }
}

/// Has the API server add the container `late` to pods with a proxy, in namespaces with `label`.
async fn add_container_to_meshed_pods(client: &Client, label: &str) {
    let name = "add-late-container";
    let create = async |resource: &str, spec: Value| {
        let path = format!("/apis/admissionregistration.k8s.io/v1/{resource}");
        let object = json!({"metadata": {"name": name}, "spec": spec});
        let reply = call(client, Verb::Create, &path, Some(&object)).await.unwrap();
        assert_eq!(reply.code, 201, "{}", reply.message());
    };
    // A policy whose conditions do not match is not asked again, so the condition is part of the change.
    let expression = "object.spec.?initContainers.orValue([]).exists(it, it.name == 'linkerd-proxy') \
        && !object.spec.containers.exists(it, it.name == 'late') \
        ? [JSONPatch{op: 'add', path: '/spec/containers/-', value: Object.spec.containers{name: 'late', image: 'late'}}] \
        : []";
    let policy = json!({
        "reinvocationPolicy": "IfNeeded",
        "failurePolicy": "Fail",
        "matchConstraints": {
            "namespaceSelector": {"matchExpressions": [{"key": label, "operator": "Exists"}]},
            "resourceRules": [{
                "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"],
            }],
        },
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}],
    });
    create("mutatingadmissionpolicies", policy).await;
    create("mutatingadmissionpolicybindings", json!({"policyName": name})).await;
}
