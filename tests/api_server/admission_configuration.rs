//! What no API shows: cluster defaults and exemptions of Pod Security, read from a file when the API server starts.

use kube::Client;
use serde_json::{Value, json};

use crate::cluster::{Cluster, Namespace, Options, Verb, call};
use crate::pod;

const REFUSAL: &str = "pods \"web\" is forbidden: violates PodSecurity \"baseline:latest\": privileged (container \
                       \"web\" must not set securityContext.privileged=true)";

/// An `AdmissionConfiguration` with this `PodSecurityConfiguration`.
fn pod_security(defaults: &Value, exemptions: &Value) -> Value {
    json!({
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "AdmissionConfiguration",
        "plugins": [{"name": "PodSecurity", "configuration": {
            "apiVersion": "pod-security.admission.config.k8s.io/v1",
            "kind": "PodSecurityConfiguration",
            "defaults": defaults,
            "exemptions": exemptions,
        }}],
    })
}

#[tokio::test]
async fn defaults_and_exemptions_come_with_a_restart_that_keeps_the_data() {
    let mut cluster = Cluster::start(Options::default()).await.unwrap();
    let client = cluster.client().await;
    let plain = Namespace::create(&client, "plain", &[], &[]).await;
    let exempt = Namespace::create_named(&client, "exempt", &[], &[]).await;
    let privileged = pod("web", &json!({"privileged": true}));
    assert_eq!(plain.try_pod(&privileged).await.code, 201);
    let kept = plain.create_pod(&pod("kept", &json!({}))).await.body["metadata"]["uid"].take();

    let exemptions = json!({"namespaces": ["exempt"], "usernames": ["trusted"]});
    let admission = pod_security(&json!({"enforce": "baseline"}), &exemptions);
    let options = Options {
        admission: Some(admission),
        ..Options::default()
    };
    cluster.restart_api_server(options).await.unwrap();

    assert_eq!(plain.pod("kept").await.body["metadata"]["uid"], kept);
    let refused = plain.create_pod(&privileged).await;
    assert_eq!((refused.code, refused.message()), (403, REFUSAL));
    assert_eq!(exempt.create_pod(&privileged).await.code, 201);
    grant_everything_to_everybody(&client).await;
    let by = async |user| {
        plain
            .seen_by(&cluster.client_as(Some(user)).await)
            .try_pod(&privileged)
            .await
    };
    assert_eq!(by("trusted").await.code, 201);
    assert_eq!(by("somebody").await.message(), REFUSAL);
}

async fn grant_everything_to_everybody(client: &Client) {
    let group = "rbac.authorization.k8s.io";
    let binding = json!({
        "metadata": {"name": "everybody"},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": group, "kind": "Group", "name": "system:authenticated"}],
    });
    let path = format!("/apis/{group}/v1/clusterrolebindings");
    assert_eq!(
        call(client, Verb::Create, &path, Some(&binding)).await.unwrap().code,
        201
    );
}
