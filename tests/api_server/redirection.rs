//! How traffic reaches the proxy, by what the namespace enforces and where the CNI plugin is.

use serde_json::{Value, json};

use crate::cluster::{Reply, shared};
use crate::scene::{CNI, ENFORCE, INJECT, PLAIN, Scene};
use crate::{mesh, pod};

const LEVELS: [&str; 3] = ["privileged", "baseline", "restricted"];

/// A pod that every level admits.
fn clean(name: &str) -> Value {
    let context = json!({
        "allowPrivilegeEscalation": false,
        "capabilities": {"drop": ["ALL"]},
        "runAsNonRoot": true,
        "seccompProfile": {"type": "RuntimeDefault"},
    });
    pod(name, &context)
}

fn outcome(reply: &Reply) -> (u16, Option<&'static str>) {
    (reply.code, mesh::redirection(&reply.body))
}

#[tokio::test]
async fn with_the_cni_plugin_every_level_takes_it() {
    let scene = Scene::with_values(CNI).await;
    for level in LEVELS {
        let reply = scene.meshed(level).await.create_pod(&clean("web")).await;
        assert_eq!(outcome(&reply), (201, Some("cni")), "{level}: {}", reply.message());
    }
}

#[tokio::test]
async fn without_the_cni_plugin_a_level_that_refuses_the_init_container_gets_the_pod_denied() {
    let scene = Scene::with_values(PLAIN).await;
    let reply = scene.meshed("privileged").await.create_pod(&clean("web")).await;
    assert_eq!(outcome(&reply), (201, Some("init-container")), "{}", reply.message());

    for (level, complaint) in [
        ("baseline", "non-default capabilities"),
        ("restricted", "unrestricted capabilities"),
    ] {
        let namespace = scene.meshed(level).await;
        let reply = namespace.create_pod(&clean("web")).await;
        let denial = format!(
            "admission webhook \"linkerd-proxy-injector.linkerd.io\" denied the request: no way to redirect the pod's \
             traffic is left: init-container: violates PodSecurity \"{level}:latest\": {complaint} (container \
             \"linkerd-init\" must not include \"NET_ADMIN\", \"NET_RAW\" in securityContext.capabilities.add); cni: no \
             CNI plugin is meant for any node that the pod can land on; namespace {} has {ENFORCE}={level}; either put the \
             CNI plugin on the nodes (outrigger-cni or linkerd-cni), or set {ENFORCE}=privileged, which opens the namespace \
             for all its pods, or leave the pod out of the mesh with linkerd.io/inject: disabled",
            namespace.name
        );
        assert_eq!((reply.code, reply.message()), (403, &*denial));
        assert_eq!(reply.body["reason"], "Forbidden");
        assert_eq!(namespace.pod("web").await.code, 404);
    }
}

#[tokio::test]
async fn a_pod_that_breaks_the_level_itself_is_refused_in_the_words_of_the_level() {
    for values in [CNI, PLAIN] {
        let scene = Scene::with_values(values).await;
        let reply = scene
            .meshed("baseline")
            .await
            .create_pod(&pod("web", &json!({"privileged": true})))
            .await;
        assert_eq!(reply.code, 403);
        let (forbidden, own) = (
            "pods \"web\" is forbidden: violates PodSecurity \"baseline:latest\": ",
            "privileged (container \"web\" must not set securityContext.privileged=true)",
        );
        let message = reply.message();
        assert!(message.starts_with(forbidden) && message.contains(own), "{message}");
        if values == CNI {
            assert_eq!(message, format!("{forbidden}{own}"));
        }
    }
}

#[tokio::test]
async fn what_is_asked_for_is_done_or_denied() {
    let scene = Scene::with_values(CNI).await;
    let privileged = scene.meshed("privileged").await;
    for (asked, expected) in [
        ("true", Some("cni")),
        ("cni", Some("cni")),
        ("init-container", Some("init-container")),
        ("false", Some("none")),
    ] {
        let mut pod = clean(&format!("asks-{asked}"));
        pod["metadata"]["annotations"] = json!({"linkerd.io/setup-iptables": asked});
        let reply = privileged.create_pod(&pod).await;
        // Nobody can read off a pod whether `true` was asked for or chosen.
        assert_eq!(outcome(&reply), (201, expected), "{asked}: {}", reply.message());
    }
    let annotations = [INJECT, ("linkerd.io/setup-iptables", "maybe")];
    let namespace = scene.namespace("asks", &[], &annotations).await;
    let reply = namespace.create_pod(&clean("web")).await;
    assert_eq!(
        reply.message(),
        "admission webhook \"linkerd-proxy-injector.linkerd.io\" denied the request: linkerd.io/setup-iptables: \
         \"maybe\" is not one of true, false, init-container, cni"
    );
}

#[tokio::test]
async fn an_operator_may_prefer_pods_without_a_proxy_to_no_pods() {
    let scene = Scene::with_values(&format!("{PLAIN}outrigger: {{onRefused: skip}}\n")).await;
    let reply = scene.meshed("baseline").await.create_pod(&clean("web")).await;
    assert_eq!(outcome(&reply), (201, None), "{}", reply.message());
    let warnings: String = reply
        .warnings
        .iter()
        .map(|line| line.strip_prefix("not_meshed: ").unwrap())
        .collect::<Vec<_>>()
        .join(" ");
    for part in [
        "init-container: violates PodSecurity \"baseline:latest\"",
        "no CNI plugin is meant for any node",
    ] {
        assert!(warnings.contains(part), "{warnings}");
    }
}

#[tokio::test]
async fn the_audit_log_has_the_decision() {
    let scene = Scene::with_values(CNI).await;
    let namespace = scene.meshed("restricted").await;
    assert_eq!(namespace.create_pod(&clean("web")).await.code, 201);
    let log = shared().await.audit_log();
    let creation = log.iter().find(|event| event.namespace() == namespace.name);
    let creation = creation.expect("the log is written before the answer");
    for (key, value) in [
        ("decision", "inject"),
        ("reason", "cni_covers_every_node"),
        ("redirection", "cni"),
        ("pod-security", "restricted:latest"),
    ] {
        let key = format!("linkerd-proxy-injector.linkerd.io/{key}");
        assert_eq!(creation.annotation(&key), Some(value), "{key}");
    }
    assert_eq!(
        creation.annotation("pod-security.kubernetes.io/enforce-policy"),
        Some("restricted:latest")
    );
}
