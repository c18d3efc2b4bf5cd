//! Linkerd's documented example: the policy of emojivoto, without the CNI plugin and with it.

use kube::Client;
use serde_json::{Value, json};

use crate::cluster::{AuditEvent, Reply, Verb, call, create, plugin, poll};
use crate::mesh;
use crate::printed::{manifests, pods, printed};
use crate::scene::{CNI, PLAIN, Scene};
use crate::site::{LIMIT, POLICIES, Place, install, is_meshed, policy_of, seccomp_profiles, shared, start};

/// Who the workloads run as, beside `default`.
const ACCOUNTS: [&str; 3] = ["emoji", "voting", "web"];

/// What the policy lets nobody have.
const REFUSED: &str = "PodSecurityPolicy: unable to admit pod: [spec.securityContext.hostPID: Invalid value: true: Host PID is not \
     allowed to be used]";

/// The documented policy, with the rights to use it: what is printed, but for profiles of seccomp, which it says nothing of.
fn documented(namespace: &str, cni: &str) -> (Vec<Value>, String) {
    let manifests = manifests("emojivoto").replace("emojivoto", namespace);
    let mut objects = printed(&["psp", "--server-version", "1.24", "--cni", cni], &manifests);
    let policy = &mut objects[0];
    policy["metadata"].as_object_mut().unwrap().remove("annotations");
    let range = json!({"rule": "MustRunAs", "ranges": [{"min": 10001, "max": 65535}]});
    let (any, of_linkerd_init) = (json!({"rule": "RunAsAny"}), ["NET_ADMIN", "NET_RAW"]);
    let added = of_linkerd_init.into_iter().filter(|_| cni == "none");
    let capabilities: Vec<_> = ["NET_BIND_SERVICE"].into_iter().chain(added).collect();
    let spec = json!({
        "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true,
        "allowedCapabilities": capabilities, "requiredDropCapabilities": ["ALL"],
        "fsGroup": range, "supplementalGroups": range, "runAsUser": any, "seLinux": any,
        "volumes": ["configMap", "downwardAPI", "emptyDir", "persistentVolumeClaim", "projected", "secret"],
    });
    assert_eq!(policy["spec"], spec);
    let subjects = objects[2]["subjects"].as_array().unwrap();
    let accounts: Vec<_> = subjects
        .iter()
        .map(|subject| subject["name"].as_str().unwrap())
        .collect();
    assert_eq!(accounts, ["default", "emoji", "voting", "web"]);
    (objects, manifests)
}

/// A pod that the policy lets nobody have.
fn without_policy() -> Value {
    json!({
        "metadata": {"name": "spy"},
        "spec": {"hostPID": true, "serviceAccountName": "web", "containers": [{"name": "spy", "image": "spy"}]},
    })
}

/// Creates a pod of each workload, before injection and after it: the injected ones.
async fn through_both(name: &str, values: &str, cni: &str, redirection: &str) -> Vec<Value> {
    let scene = Scene::in_cluster(shared().await, values).await;
    let place = Place::create(name, &[], &ACCOUNTS).await;
    let (objects, manifests) = documented(name, cni);
    install(&scene.client, &objects).await;
    let workloads = pods(&manifests);
    assert_eq!(workloads.len(), 4);

    let (controller, first) = &workloads[0];
    place.until(controller, first, |reply| is_meshed(reply, None)).await;
    for (controller, pod) in &workloads {
        let reply = place.make(controller, pod).await;
        assert!(is_meshed(&reply, None), "{} {}", reply.code, reply.body);
        assert_eq!(policy_of(&reply.body), objects[0]["metadata"]["name"].as_str());
    }
    let refused = place.make(controller, &without_policy()).await;
    assert_eq!(refused.message(), format!("pods \"spy\" is forbidden: {REFUSED}"));

    place.namespace.label(&[scene.registration.label()]).await;
    place
        .until(controller, first, |reply| is_meshed(reply, Some(redirection)))
        .await;
    let mut injected = Vec::new();
    for (controller, pod) in &workloads {
        let reply = place.make(controller, pod).await;
        assert!(is_meshed(&reply, Some(redirection)), "{} {}", reply.code, reply.body);
        assert_eq!(policy_of(&reply.body), objects[0]["metadata"]["name"].as_str());
        assert_eq!(seccomp_profiles(&reply.body), [&Value::Null; 0], "{}", reply.body);
        // The server has no native sidecars.
        let containers = reply.body["spec"]["containers"].as_array().unwrap();
        assert!(containers.iter().any(|container| container["name"] == "linkerd-proxy"));
        injected.push(reply.body);
    }
    let refused = place.make(controller, &without_policy()).await;
    assert_eq!(refused.message(), format!("pods \"spy\" is forbidden: {REFUSED}"));
    injected
}

#[tokio::test]
async fn without_the_cni_plugin_the_four_are_admitted_with_the_init_container() {
    for pod in through_both("emojivoto-init", PLAIN, "none", "init-container").await {
        let added = mesh::gained_capabilities(&json!({}), &pod);
        assert_eq!(added, ["\"linkerd-init\""], "{pod}");
    }
}

#[tokio::test]
async fn with_it_they_need_no_net_admin() {
    for pod in through_both("emojivoto-cni", CNI, "all", "cni").await {
        assert_eq!(mesh::gained_capabilities(&json!({}), &pod), [""; 0], "{pod}");
    }
}

#[tokio::test]
async fn taken_from_the_policy_net_admin_is_what_the_denial_names() {
    let name = "emojivoto-neither";
    let scene = Scene::in_cluster(shared().await, PLAIN).await;
    let place = Place::create(name, &[scene.registration.label()], &ACCOUNTS).await;
    let (objects, manifests) = documented(name, "none");
    install(&scene.client, &objects).await;
    let (controller, pod) = pods(&manifests).remove(0);
    place
        .until(controller, &pod, |reply| is_meshed(reply, Some("init-container")))
        .await;

    let path = format!("{POLICIES}/{}", objects[0]["metadata"]["name"].as_str().unwrap());
    let less = json!({"spec": {"allowedCapabilities": ["NET_BIND_SERVICE"]}});
    let reply = call(&scene.client, Verb::Patch, &path, Some(&less)).await.unwrap();
    assert!(reply.accepted(), "{}", reply.body);
    let denied = place
        .until(controller, &pod, |reply| reply.message().contains("denied the request"))
        .await;
    for words in [
        "spec.initContainers[0].securityContext.capabilities.add: Invalid value: \"NET_ADMIN\": capability may not be added",
        "no PodSecurityPolicy that the pod's account or creator may use in namespace emojivoto-neither takes it",
    ] {
        assert!(denied.message().contains(words), "{}", denied.message());
    }
}

/// Two nodes, and Linkerd's plugin on both of them.
async fn install_plugin(client: &Client) {
    for name in ["n1", "n2"] {
        create(client, "/api/v1/nodes", &json!({"metadata": {"name": name}})).await;
    }
    let daemon_set = plugin(false, &json!({}));
    create(client, "/apis/apps/v1/namespaces/default/daemonsets", &daemon_set).await;
}

#[tokio::test]
async fn a_plugin_that_comes_to_the_nodes_lets_in_what_was_denied() {
    let cluster = start().await;
    let scene = Scene::in_cluster(&cluster, PLAIN).await;
    let name = "emojivoto-later";
    let place = Place::within(&cluster, name, &[scene.registration.label()], &ACCOUNTS).await;
    let (objects, manifests) = documented(name, "all");
    install(&scene.client, &objects).await;
    let workloads = pods(&manifests);
    let (controller, first) = &workloads[0];
    let is_denied = |reply: &Reply| reply.message().contains("cni: no CNI plugin is meant for any node");
    place.until(controller, first, is_denied).await;
    install_plugin(&scene.client).await;
    place
        .until(controller, first, |reply| is_meshed(reply, Some("cni")))
        .await;
    for (controller, pod) in &workloads {
        let reply = place.make(controller, pod).await;
        assert!(is_meshed(&reply, Some("cni")), "{} {}", reply.code, reply.body);
        assert_eq!(seccomp_profiles(&reply.body), [&Value::Null; 0], "{}", reply.body);
    }
}

#[tokio::test]
async fn the_webhook_has_every_right_that_it_asks_for() {
    let cluster = shared().await;
    let _scene = Scene::in_cluster(cluster, PLAIN).await;
    let asked = || {
        let log = cluster.audit_log().into_iter();
        let ours = log.filter(AuditEvent::is_of_the_webhook);
        ours.filter_map(|event| Some((event.right()?, event.code())))
            .collect::<Vec<_>>()
    };
    let watched = async || {
        let asked = asked();
        let of_policies = ["list policy/podsecuritypolicies", "watch policy/podsecuritypolicies"];
        let all = of_policies.iter().all(|right| asked.iter().any(|(it, _)| it == right));
        all.then_some(())
    };
    poll(LIMIT, watched).await.expect("the webhook watches policies");
    let refused: Vec<_> = asked().into_iter().filter(|(_, code)| *code == 403).collect();
    assert_eq!(refused, []);
}
