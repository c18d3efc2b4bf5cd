//! Pod Security in its own words: the texts that the rest of the product reproduces.

use serde_json::json;

use crate::cluster::{Namespace, shared};
use crate::pod;

const ENFORCE: &str = "pod-security.kubernetes.io/enforce";
const VERSION: &str = "pod-security.kubernetes.io/enforce-version";

#[tokio::test]
async fn baseline_refuses_net_admin() {
    let client = shared().await.client().await;
    let namespace = Namespace::create(&client, "baseline", &[(ENFORCE, "baseline"), (VERSION, "v1.25")], &[]).await;
    let reply = namespace
        .create_pod(&pod("web", &json!({"capabilities": {"add": ["NET_ADMIN", "KILL"]}})))
        .await;
    assert_eq!(reply.code, 403);
    assert_eq!(
        reply.message(),
        "pods \"web\" is forbidden: violates PodSecurity \"baseline:v1.25\": non-default capabilities (container \
         \"web\" must not include \"NET_ADMIN\" in securityContext.capabilities.add)"
    );
    assert_eq!(
        namespace
            .create_pod(&pod("web", &json!({"capabilities": {"add": ["KILL"]}})))
            .await
            .code,
        201
    );
}

#[tokio::test]
async fn restricted_names_every_field() {
    let client = shared().await.client().await;
    let namespace = Namespace::create(&client, "restricted", &[(ENFORCE, "restricted")], &[]).await;
    let reply = namespace.create_pod(&pod("web", &json!({}))).await;
    assert_eq!(reply.code, 403);
    assert_eq!(
        reply.message(),
        "pods \"web\" is forbidden: violates PodSecurity \"restricted:latest\": allowPrivilegeEscalation != false \
         (container \"web\" must set securityContext.allowPrivilegeEscalation=false), unrestricted capabilities \
         (container \"web\" must set securityContext.capabilities.drop=[\"ALL\"]), runAsNonRoot != true (pod or \
         container \"web\" must set securityContext.runAsNonRoot=true), seccompProfile (pod or container \"web\" must \
         set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\")"
    );
    let clean = json!({
        "allowPrivilegeEscalation": false,
        "capabilities": {"drop": ["ALL"]},
        "runAsNonRoot": true,
        "seccompProfile": {"type": "RuntimeDefault"},
    });
    assert_eq!(namespace.create_pod(&pod("web", &clean)).await.code, 201);
}

#[tokio::test]
async fn a_warning_admits() {
    let client = shared().await.client().await;
    let namespace = Namespace::create(&client, "warn", &[("pod-security.kubernetes.io/warn", "baseline")], &[]).await;
    let reply = namespace.create_pod(&pod("web", &json!({"privileged": true}))).await;
    assert_eq!(reply.code, 201);
    assert_eq!(
        reply.warnings,
        [
            "would violate PodSecurity \"baseline:latest\": privileged (container \"web\" must not set \
          securityContext.privileged=true)"
        ]
    );
}
