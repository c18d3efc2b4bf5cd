//! The webhook's account has the rights that it needs, and no others.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::json;

use crate::announce;
use crate::cluster::{FailurePolicy, Webhook, WebhookOptions, granted, poll, shared};
use crate::policies::serve_constraints;
use crate::scene::{CNI, Scene};
use crate::workload::{create, pod_of};

/// Events are published beside the answers, in milliseconds on an idle machine.
const LIMIT: Duration = Duration::from_secs(30);

#[tokio::test]
async fn the_webhook_uses_every_right_that_it_has_and_asks_for_no_other() {
    // Who may use policies is read only where the server has some that are used by a grant.
    serve_constraints(&shared().await.client().await).await;
    let scene = Scene::with_values(CNI).await;
    let _own = with_own_certificate().await;
    let namespace = scene.meshed("baseline").await;
    let deployment = create(&namespace, "Deployment", "shop", None).await;
    let replica_set = create(&namespace, "ReplicaSet", "shop-1", Some(&deployment)).await;
    let job = create(&namespace, "Job", "once", None).await;
    // A namespace that the watch has not seen is looked up.
    let (status, _) = scene.webhook.post(review("no-such-namespace")).await.unwrap();
    assert_eq!(status, 200);

    let cluster = shared().await;
    let used = || {
        let log = cluster.audit_log();
        let asked = log.iter().filter(|event| event.is_of_the_webhook());
        let (refused, allowed): (Vec<_>, Vec<_>) = asked.partition(|event| event.code() == 403);
        assert!(refused.is_empty(), "{refused:#?}");
        allowed
            .iter()
            .filter_map(|event| event.right())
            .collect::<BTreeSet<_>>()
    };
    let mut granted = granted("webhook-config/rbac.yaml");
    // No server since 1.25 has them, and none lets anybody define them.
    granted.retain(|right| !right.ends_with("policy/podsecuritypolicies"));
    let all = async || {
        // An event is published anew, and counted up when the same happens again.
        for owner in [&replica_set, &job] {
            let reply = namespace.create_pod(&pod_of(owner)).await;
            assert_eq!(reply.code, 201, "{}", reply.message());
        }
        (used() == granted).then_some(())
    };
    poll(LIMIT, all).await;
    assert_eq!(used(), granted, "used and granted");
    announce(&format!(
        "rights of the webhook, all used and none refused: {}",
        granted.len()
    ));
}

/// A webhook that looks after its certificate, for a registration that is for nobody.
async fn with_own_certificate() -> Webhook {
    let cluster = shared().await;
    cluster.apply("webhook-config/secret.yaml");
    let mut registration = FailurePolicy::Ignore.manifest();
    for entry in registration["webhooks"].as_array_mut().unwrap() {
        entry["namespaceSelector"] = json!({"matchLabels": {"test/nobody": "called"}});
    }
    let path = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations";
    crate::cluster::create(&cluster.client().await, path, &registration).await;
    let options = WebhookOptions {
        manages_certificate: true,
        ..WebhookOptions::with_values(CNI)
    };
    Webhook::start(cluster, options).await.unwrap()
}

fn review(namespace: &str) -> Vec<u8> {
    let request = json!({
        "uid": "u", "kind": {"group": "", "version": "v1", "kind": "Pod"}, "namespace": namespace,
        "operation": "CREATE", "object": {"metadata": {"name": "web"}},
    });
    let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request});
    review.to_string().into_bytes()
}
