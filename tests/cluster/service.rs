//! The webhook's Service and the entries that call it, as the chart renders them, on a machine where nobody but root may
//! serve 443.

use std::net::Ipv4Addr;

use kube::Client;
use serde_json::{Value, json};

use super::{Port, Verb, call};

const SERVICE: &str = "/api/v1/namespaces/linkerd/services/linkerd-proxy-injector";
const REGISTRATION: &str =
    "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/linkerd-proxy-injector-webhook-config";

/// Chooses a port on the address of the Service, which is of the loopback, and has API servers call the webhook there.
pub(crate) async fn reach_on_loopback(client: &Client) -> Port {
    let service = call(client, Verb::Get, SERVICE, None).await.unwrap().body;
    let address: Ipv4Addr = service["spec"]["clusterIP"].as_str().unwrap().parse().unwrap();
    let port = Port::reserve_on(address);
    let number = port.number();
    let patch = json!({"spec": {"ports": [{"name": "proxy-injector", "port": number}]}});
    let patched = call(client, Verb::Patch, SERVICE, Some(&patch)).await.unwrap();
    assert!(patched.accepted(), "{}", patched.body);
    change_entries(client, |entry| entry["clientConfig"]["service"]["port"] = number.into()).await;
    port
}

/// The entries of the registration.
pub(crate) async fn entries(client: &Client) -> Vec<Value> {
    let registration = call(client, Verb::Get, REGISTRATION, None).await.unwrap().body;
    registration["webhooks"].as_array().unwrap().clone()
}

/// Changes every entry of the registration.
pub(crate) async fn change_entries(client: &Client, change: impl FnMut(&mut Value)) {
    let mut entries = entries(client).await;
    entries.iter_mut().for_each(change);
    let patch = json!({"webhooks": entries});
    let patched = call(client, Verb::Patch, REGISTRATION, Some(&patch)).await.unwrap();
    assert!(patched.accepted(), "{}", patched.body);
}
