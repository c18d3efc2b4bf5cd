//! Objects, pods and answers, one line a rule.

use serde_json::{Value, json};

use super::*;

mod quotas;
mod ranges;
mod whole;

/// The newest server, as far as a whole pod's figures are concerned.
const SERVER: Release = Release(36);

/// Requests and limits of a container, each as `cpu memory`; `-` is absent.
fn container(name: &str, requests: &str, limits: &str) -> Value {
    let figures = |text: &str| {
        let parts = ["cpu", "memory"]
            .into_iter()
            .zip(text.split(' '))
            .filter(|(_, value)| *value != "-");
        Value::Object(parts.map(|(key, value)| (key.to_owned(), json!(value))).collect())
    };
    json!({"name": name, "resources": {"requests": figures(requests), "limits": figures(limits)}})
}

fn pod(init: &[Value], containers: &[Value]) -> Value {
    json!({"spec": {"initContainers": init, "containers": containers}})
}

/// A sidecar of Kubernetes.
fn sidecar(mut container: Value) -> Value {
    container["restartPolicy"] = json!("Always");
    container
}

fn range(name: &str, entries: &Value) -> Value {
    json!({"kind": "LimitRange", "metadata": {"name": name}, "spec": {"limits": entries}})
}

fn quota(name: &str, hard: &Value) -> Value {
    json!({"kind": "ResourceQuota", "metadata": {"name": name}, "spec": {"hard": hard}})
}

fn review_on(server: Release, objects: &[Value], pod: &Value) -> Result<(), Refusal> {
    Limits::compile(objects).review(&Pod::new(pod), server)
}

/// What is said to `pod`; empty where it is admitted.
fn message(objects: &[Value], pod: &Value) -> String {
    review_on(SERVER, objects, pod).map_or_else(|refusal| refusal.message, |()| String::new())
}
