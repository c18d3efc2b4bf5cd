//! Which workload an address is of.

use crate::egress::connection::Workload;
use crate::pod::Pod;
use serde_json::Value;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

/// The pods of a cluster, by their addresses. An address that several have at the same time is nobody's.
#[derive(Debug, Default)]
pub(super) struct Pods(HashMap<IpAddr, Option<Arc<Member>>>);

/// A pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Member {
    pub(super) name: String,
    pub(super) workload: Workload,
}

/// The account of pods that name none.
const DEFAULT_ACCOUNT: &str = "default";

impl Pods {
    /// Takes in what is a pod that runs, or will, and has addresses of its own; passes over everything else.
    ///
    /// A pod on its node's network has no address of its own: whatever runs there could be it.
    pub(super) fn take(&mut self, object: &Value, default_namespace: &str) {
        let text = |pointer| object.pointer(pointer).and_then(Value::as_str);
        let on_node = object.pointer("/spec/hostNetwork").and_then(Value::as_bool) == Some(true);
        let is_over = matches!(text("/status/phase"), Some("Succeeded" | "Failed"));
        if text("/kind") != Some("Pod") || text("/apiVersion") != Some("v1") || on_node || is_over {
            return;
        }
        let member = Arc::new(member(object, default_namespace));
        for address in addresses(object) {
            let held = self.0.entry(address).or_insert_with(|| Some(Arc::clone(&member)));
            if held.as_ref() != Some(&member) {
                *held = None;
            }
        }
    }

    /// The pod that has `address`.
    pub(super) fn of(&self, address: IpAddr) -> Option<&Arc<Member>> {
        self.0.get(&address.to_canonical())?.as_ref()
    }

    /// How many addresses are known.
    pub(super) fn count(&self) -> usize {
        self.0.len()
    }
}

fn member(object: &Value, default_namespace: &str) -> Member {
    let pod = Pod::new(object);
    let text = |pointer, default: &str| {
        let text = object
            .pointer(pointer)
            .and_then(Value::as_str)
            .filter(|text| !text.is_empty());
        text.unwrap_or(default).to_owned()
    };
    let labels = pod.labels().into_iter().flatten();
    Member {
        name: pod.name().unwrap_or_default().to_owned(),
        workload: Workload {
            namespace: text("/metadata/namespace", default_namespace),
            service_account: text("/spec/serviceAccountName", DEFAULT_ACCOUNT),
            labels: labels
                .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
                .collect(),
        },
    }
}

/// `status.podIPs`, and `status.podIP` of what writes no list.
fn addresses(object: &Value) -> Vec<IpAddr> {
    let listed = object.pointer("/status/podIPs").and_then(Value::as_array);
    let listed = listed.into_iter().flatten().filter_map(|entry| entry.get("ip"));
    let mut found: Vec<IpAddr> = listed
        .chain(object.pointer("/status/podIP"))
        .filter_map(|address| address.as_str()?.parse().ok())
        .map(|address: IpAddr| address.to_canonical())
        .collect();
    found.sort_unstable();
    found.dedup();
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod(name: &str, address: &str) -> Value {
        json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "shop", "labels": {"app": name}},
            "spec": {"serviceAccountName": "agent"},
            "status": {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}, {"ip": "fd00::7"}]},
        })
    }

    fn known(objects: &[Value], address: &str) -> Option<String> {
        let mut pods = Pods::default();
        for object in objects {
            pods.take(object, "default");
        }
        pods.of(address.parse().unwrap()).map(|member| member.name.clone())
    }

    #[test]
    fn a_pod_is_found_by_each_of_its_addresses() {
        let objects = [pod("web", "10.0.0.7")];
        for address in ["10.0.0.7", "fd00::7", "::ffff:10.0.0.7"] {
            assert_eq!(known(&objects, address).as_deref(), Some("web"), "{address}");
        }
        assert_eq!(known(&objects, "10.0.0.8"), None);
        let member = member(&objects[0], "default");
        assert_eq!(member.workload.labels["app"], "web");
        assert_eq!(
            (&*member.workload.namespace, &*member.workload.service_account),
            ("shop", "agent")
        );
        let bare = json!({"metadata": {"name": "bare"}});
        assert_eq!(super::member(&bare, "here").workload.service_account, "default");
        assert_eq!(super::member(&bare, "here").workload.namespace, "here");
    }

    #[test]
    fn an_address_is_of_nobody_where_it_could_be_of_two() {
        assert_eq!(
            known(
                &[pod("one", "10.0.0.7"), pod("two", "10.0.0.7"), pod("one", "10.0.0.7")],
                "10.0.0.7"
            ),
            None
        );
        let over = |phase: &str| {
            let mut pod = pod("over", "10.0.0.7");
            pod["status"]["phase"] = phase.into();
            pod
        };
        let objects = [over("Succeeded"), pod("next", "10.0.0.7"), over("Failed")];
        assert_eq!(known(&objects, "10.0.0.7").as_deref(), Some("next"));
        let mut on_node = pod("agent", "10.0.0.9");
        on_node["spec"]["hostNetwork"] = true.into();
        assert_eq!(known(&[on_node], "10.0.0.9"), None);
    }
}
