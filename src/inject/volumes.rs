//! Volumes of the injected containers.

use super::Redirection;
use crate::config::values::Values;
use serde_json::{Value, json};

/// Volume of the proxy's key and certificate, in memory.
pub(super) const END_ENTITY: &str = "linkerd-identity-end-entity";
/// Volume of the token with which the proxy proves its identity.
pub(super) const IDENTITY_TOKEN: &str = "linkerd-identity-token";
/// Volume of the pod's labels and annotations, for traces.
pub(super) const PODINFO: &str = "linkerd-podinfo";

/// The volumes, in the order in which they are added.
pub(super) fn volumes(values: &Values, redirection: Redirection) -> Vec<Value> {
    let mut volumes = Vec::with_capacity(4);
    if redirection == Redirection::InitContainer {
        volumes.push(json!({"name": values.proxy_init.xt_mount_path.name, "emptyDir": {}}));
    }
    volumes.push(json!({"name": END_ENTITY, "emptyDir": {"medium": "Memory"}}));
    if values.proxy.tracing.enabled {
        let item = |path: &str| json!({"path": path, "fieldRef": {"fieldPath": format!("metadata.{path}")}});
        volumes.push(json!({"name": PODINFO, "downwardAPI": {"items": [item("labels"), item("annotations")]}}));
    }
    if values.identity.service_account_token_projection {
        // A day, as Linkerd asks for; the audience is that of its identity service.
        let token = json!({"path": IDENTITY_TOKEN, "expirationSeconds": 86400, "audience": "identity.l5d.io"});
        volumes.push(json!({"name": IDENTITY_TOKEN, "projected": {"sources": [{"serviceAccountToken": token}]}}));
    }
    volumes
}
