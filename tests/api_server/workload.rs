//! Workloads of every kind, each with the plainest of pods.

use serde_json::{Value, json};

use crate::cluster::Namespace;
use crate::pod;

/// Every kind of workload.
pub(crate) const KINDS: [&str; 7] = [
    "Deployment",
    "ReplicaSet",
    "DaemonSet",
    "StatefulSet",
    "ReplicationController",
    "Job",
    "CronJob",
];

/// The API of `kind`, as paths have it.
pub(crate) fn api(kind: &str) -> &'static str {
    match kind {
        "ReplicationController" => "api/v1",
        "Job" | "CronJob" => "apis/batch/v1",
        _ => "apis/apps/v1",
    }
}

/// The resource of `kind`, as paths have it.
pub(crate) fn resource(kind: &str) -> String {
    format!("{}s", kind.to_lowercase())
}

/// A workload of `kind`, owned by `owner`.
pub(crate) fn workload(kind: &str, name: &str, owner: Option<&Value>) -> Value {
    let labels = json!({"app": name});
    let template = json!({"metadata": {"labels": labels}, "spec": pod("web", &json!({}))["spec"]});
    let mut batch = template.clone();
    batch["spec"]["restartPolicy"] = "Never".into();
    let spec = match kind {
        "ReplicationController" => json!({"selector": labels, "template": template}),
        "Job" => json!({"template": batch}),
        "CronJob" => json!({"schedule": "0 0 * * *", "jobTemplate": {"spec": {"template": batch}}}),
        "StatefulSet" => json!({"selector": {"matchLabels": labels}, "template": template, "serviceName": name}),
        _ => json!({"selector": {"matchLabels": labels}, "template": template}),
    };
    json!({"metadata": {"name": name, "ownerReferences": owner.map(|owner| vec![reference(owner)])}, "spec": spec})
}

/// Creates a workload, and returns it as the API server has it.
pub(crate) async fn create(namespace: &Namespace, kind: &str, name: &str, owner: Option<&Value>) -> Value {
    let workload = workload(kind, name, owner);
    let reply = namespace.post(api(kind), &resource(kind), &workload).await;
    assert_eq!(reply.code, 201, "{}", reply.body);
    reply.body
}

/// A pod as the controller of `owner` makes one.
pub(crate) fn pod_of(owner: &Value) -> Value {
    let mut pod = pod("", &json!({}));
    let name = owner["metadata"]["name"].as_str().unwrap();
    pod["metadata"] = json!({"generateName": format!("{name}-"), "ownerReferences": [reference(owner)]});
    pod
}

fn reference(owner: &Value) -> Value {
    json!({
        "apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"], "controller": true,
    })
}
