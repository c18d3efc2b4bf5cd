//! A pod that the API server is asked to create without storing it.

use crate::cli::check::rules::dry_run::DryRun;
use anyhow::{Context, Result};
use hyper::Request;
use hyper::header::{CONTENT_TYPE, HeaderMap, WARNING};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};

/// The pod: clean at every level of Pod Security, with figures that a quota may ask for. Nobody ever runs it.
pub(in crate::cli::check) fn pod(namespace: &str) -> Value {
    let figures = json!({"cpu": "1m", "memory": "1Mi"});
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"generateName": "outrigger-check-", "namespace": namespace},
        "spec": {
            "securityContext": {"runAsNonRoot": true, "runAsUser": 65533, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [{
                "name": "check",
                "image": "registry.k8s.io/pause:3.10",
                "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}},
                "resources": {"requests": figures, "limits": figures},
            }],
        },
    })
}

/// Asks, and returns whatever the server answers, refusals included.
pub(in crate::cli::check) async fn ask(client: &Client, namespace: &str) -> Result<DryRun> {
    let path = format!("/api/v1/namespaces/{namespace}/pods?dryRun=All");
    let request = Request::post(&path).header(CONTENT_TYPE, "application/json");
    let request = request.body(Body::from(serde_json::to_vec(&pod(namespace))?))?;
    let response = client.send(request).await.with_context(|| path.clone())?;
    let (code, warnings) = (response.status().as_u16(), warnings(response.headers()));
    let bytes = response
        .into_body()
        .collect_bytes()
        .await
        .with_context(|| path.clone())?;
    Ok(DryRun {
        namespace: namespace.to_owned(),
        code,
        body: serde_json::from_slice(&bytes).unwrap_or_default(),
        warnings,
    })
}

/// The texts of headers of the form `299 - "text"` (RFC 7234, section 5.5), the only one that the API server writes.
fn warnings(headers: &HeaderMap) -> Vec<String> {
    let text = |value: &str| {
        let quoted = value.strip_prefix("299 - \"")?.strip_suffix('"')?;
        Some(quoted.replace("\\\"", "\"").replace("\\\\", "\\"))
    };
    let all = headers.get_all(WARNING).iter();
    // The texts are UTF-8, which is more than headers are made for.
    all.filter_map(|value| text(str::from_utf8(value.as_bytes()).ok()?))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_are_read_as_the_server_writes_them() {
        let mut headers = HeaderMap::new();
        headers.append(WARNING, "299 - \"a \\\"b\\\": c\"".parse().unwrap());
        headers.append(WARNING, "199 - \"not ours\"".parse().unwrap());
        assert_eq!(warnings(&headers), ["a \"b\": c"]);
    }
}
