//! Policies that contradict themselves or others, that refer to what is missing, or that go while pods come: the decision
//! is right or the server says why not, and the webhook stays up.

use serde_json::{Value, json};

use crate::cluster::{Reply, Verb, call, create};
use crate::scene::{PLAIN, Scene};
use crate::site::{POLICIES, Place, explain, grant, install, is_meshed, lax, policy_of, shared};

const CONTROLLER: &str = "replicaset-controller";

fn pod() -> Value {
    json!({"metadata": {"generateName": "web-"}, "spec": {"containers": [{"name": "web", "image": "web"}]}})
}

/// The words of a refusal, without the pod's name.
fn reason(reply: &Reply) -> &str {
    let message = reply.message();
    message
        .split_once(" is forbidden: ")
        .map_or(message, |(_, reason)| reason)
}

/// A namespace where every service account may use the policy that `change` makes of one that allows everything.
async fn place_with(scene: &Scene, name: &str, change: impl FnOnce(&mut Value)) -> Place<'static> {
    let place = Place::create(name, &[], &[]).await;
    let mut policy = lax(name);
    change(&mut policy);
    let [role, binding] = grant(name, name);
    install(&scene.client, &[policy, role, binding]).await;
    place
}

/// The words of the server on a pod that it refuses, with the webhook in force as without.
async fn refusal(scene: &Scene, place: &Place<'_>) -> String {
    let is_granted = |reply: &Reply| reply.code == 403 && !reason(reply).ends_with(": []");
    let plain = place.until(CONTROLLER, &pod(), is_granted).await;
    place.namespace.label(&[scene.registration.label()]).await;
    assert_eq!(reason(&place.make(CONTROLLER, &pod()).await), reason(&plain));
    reason(&plain).to_owned()
}

#[tokio::test]
async fn ranges_that_hold_nobody_never_get_into_a_cluster() {
    let client = shared().await.client().await;
    for field in ["runAsUser", "fsGroup", "supplementalGroups"] {
        let mut policy = lax("upside-down");
        policy["spec"][field] = json!({"rule": "MustRunAs", "ranges": [{"min": 9, "max": 3}]});
        let reply = call(&client, Verb::Create, POLICIES, Some(&policy)).await.unwrap();
        assert_eq!(reply.code, 422, "{}", reply.body);
        assert!(
            reply.message().contains("min cannot be greater than max"),
            "{}",
            reply.message()
        );
    }
}

#[tokio::test]
async fn a_policy_whose_default_it_forbids_refuses_in_the_servers_words() {
    let scene = Scene::in_cluster(shared().await, PLAIN).await;
    let place = place_with(&scene, "own-default", |policy| {
        let prefix = "seccomp.security.alpha.kubernetes.io";
        policy["metadata"]["annotations"] = json!({
            format!("{prefix}/defaultProfileName"): "runtime/default",
            format!("{prefix}/allowedProfileNames"): "localhost/of-the-node",
        });
    });
    let words = refusal(&scene, &place.await).await;
    assert!(words.starts_with("PodSecurityPolicy: unable to admit pod: "), "{words}");
    // Whoever asks beforehand reads the same, and that it is not injection's doing.
    let kubeconfig = shared().await.kubeconfig();
    let entry = explain(&kubeconfig, CONTROLLER, "own-default", &pod(), PLAIN);
    assert_eq!(entry["reason"], "refused_anyway", "{entry:#}");
    let trace = entry["trace"].to_string();
    let quoted = serde_json::to_string(&words).unwrap();
    assert!(trace.contains(quoted.trim_matches('"')), "{words}: {trace}");
    assert!(
        words.contains("runtime/default is not an allowed seccomp profile"),
        "{words}"
    );
}

#[tokio::test]
async fn a_policy_that_gives_a_missing_runtime_class_refuses_in_the_servers_words() {
    let scene = Scene::in_cluster(shared().await, PLAIN).await;
    let place = place_with(&scene, "no-class", |policy| {
        policy["spec"]["runtimeClass"] =
            json!({"allowedRuntimeClassNames": ["none-such"], "defaultRuntimeClassName": "none-such"});
    });
    let words = refusal(&scene, &place.await).await;
    assert!(words.contains("none-such"), "{words}");
}

#[tokio::test]
async fn a_grant_of_a_missing_policy_is_none_until_the_policy_comes() {
    let (name, scene) = ("early-grant", Scene::in_cluster(shared().await, PLAIN).await);
    let place = Place::create(name, &[scene.registration.label()], &[]).await;
    // One binding is of a role that never comes.
    let [role, binding] = grant(name, name);
    let [_, astray] = grant(name, "nothing");
    install(&scene.client, &[role, binding, astray]).await;
    let refused = place.make(CONTROLLER, &pod()).await;
    assert_eq!(reason(&refused), "PodSecurityPolicy: unable to admit pod: []");
    install(&scene.client, &[lax(name)]).await;
    place
        .until(CONTROLLER, &pod(), |reply| is_meshed(reply, Some("init-container")))
        .await;
}

#[tokio::test]
async fn of_two_policies_that_contradict_each_other_one_that_takes_the_injected_pod_counts() {
    let scene = Scene::in_cluster(shared().await, PLAIN).await;
    // By name the first to be tried, and it takes the pod as it came; the second takes the injected one, too.
    let place = place_with(&scene, "a-strict", |policy| {
        policy["spec"]["allowedCapabilities"] = json!([]);
        policy["spec"]["requiredDropCapabilities"] = json!(["NET_ADMIN", "NET_RAW"]);
    });
    let place = place.await;
    place
        .until(CONTROLLER, &pod(), |reply| policy_of(&reply.body) == Some("a-strict"))
        .await;
    place.namespace.label(&[scene.registration.label()]).await;
    place
        .until(CONTROLLER, &pod(), |reply| {
            reply.message().contains("denied the request")
        })
        .await;
    let [role, binding] = grant("a-strict", "b-lax");
    install(&scene.client, &[lax("b-lax"), role, binding]).await;
    let admitted = place
        .until(CONTROLLER, &pod(), |reply| is_meshed(reply, Some("init-container")))
        .await;
    assert_eq!(policy_of(&admitted.body), Some("b-lax"));
}

#[tokio::test]
async fn policies_that_go_while_pods_come_leave_no_half_made_pod() {
    let (name, scene) = ("coming-and-going", Scene::in_cluster(shared().await, PLAIN).await);
    let place = place_with(&scene, name, |_| ()).await;
    place.namespace.label(&[scene.registration.label()]).await;
    place
        .until(CONTROLLER, &pod(), |reply| is_meshed(reply, Some("init-container")))
        .await;
    let path = format!("{POLICIES}/{name}");
    let (mut admitted, mut refused) = (0, 0);
    let namespace = place.seen_by(CONTROLLER).await;
    for _ in 0..8 {
        let gone = call(&scene.client, Verb::Delete, &path, None);
        let pods = async || {
            let mut replies = Vec::new();
            for _ in 0..4 {
                replies.push(namespace.create_pod(&pod()).await);
            }
            replies
        };
        let (gone, mut replies) = tokio::join!(gone, pods());
        assert!(gone.unwrap().accepted());
        let ((), more) = tokio::join!(
            async {
                create(&scene.client, POLICIES, &lax(name)).await;
            },
            pods()
        );
        replies.extend(more);
        for reply in replies {
            match reply.code {
                201 => {
                    // Nothing half-made: `redirection` checks that.
                    assert!(is_meshed(&reply, Some("init-container")), "{}", reply.body);
                    admitted += 1;
                }
                403 => {
                    assert!(reply.message().contains("PodSecurityPolicy: "), "{}", reply.message());
                    refused += 1;
                }
                code => panic!("{code} {}", reply.body),
            }
        }
    }
    assert_eq!(admitted + refused, 64);
    place
        .until(CONTROLLER, &pod(), |reply| is_meshed(reply, Some("init-container")))
        .await;
    let log = scene.webhook.log();
    assert!(!log.contains("panic"), "{log}");
}
