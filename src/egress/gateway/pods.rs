//! Which workload an address is of.

use crate::egress::connection::Workload;
use crate::pod::DEFAULT_ACCOUNT;
use kube::api::Object;
use serde::Deserialize;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// The pods of a cluster, by their addresses. An address that several have at the same time is nobody's.
///
/// A look-up takes as long however many there are, and so does a change of one.
#[derive(Debug, Default)]
pub(super) struct Pods(RwLock<Book>);

/// A pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Member {
    pub(super) name: String,
    pub(super) workload: Workload,
}

/// A pod with the addresses of its own: what is kept of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    member: Arc<Member>,
    addresses: Box<[IpAddr]>,
}

/// A pod's name, with its namespace.
pub(super) type Key = (String, String);

/// A pod as it is read: whatever else it has is passed over while it is read.
pub(super) type Seen = Object<PodSpec, PodStatus>;

/// What is read of a pod's `spec`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct PodSpec {
    host_network: bool,
    service_account_name: String,
}

/// What is read of its `status`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct PodStatus {
    phase: String,
    #[serde(rename = "podIP")]
    pod_ip: String,
    #[serde(rename = "podIPs")]
    pod_ips: Vec<PodIp>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct PodIp {
    ip: String,
}

#[derive(Debug, Default)]
struct Book {
    entries: HashMap<Key, Entry>,
    /// Who has an address: hardly ever more than one.
    holders: HashMap<IpAddr, Vec<Arc<Member>>>,
}

/// Its name, and what is kept of it: nothing where it has ended, or has no addresses of its own. A pod on its node's network
/// has none: whatever runs there could be it.
pub(super) fn read(pod: Seen, default_namespace: &str) -> (Key, Option<Entry>) {
    let or = |text: Option<String>, default: &str| {
        let text = text.filter(|text| !text.is_empty());
        text.unwrap_or_else(|| default.to_owned())
    };
    let namespace = or(pod.metadata.namespace, default_namespace);
    let name = pod.metadata.name.unwrap_or_default();
    let key = (namespace.clone(), name.clone());
    let status = pod.status.unwrap_or_default();
    let is_over = matches!(&*status.phase, "Succeeded" | "Failed");
    let addresses = addresses(&status);
    if pod.spec.host_network || is_over || addresses.is_empty() {
        return (key, None);
    }
    let workload = Workload {
        namespace,
        service_account: or(Some(pod.spec.service_account_name), DEFAULT_ACCOUNT),
        labels: pod.metadata.labels.unwrap_or_default(),
    };
    let member = Arc::new(Member { name, workload });
    (key, Some(Entry { member, addresses }))
}

/// `status.podIPs`, and `status.podIP` of what writes no list.
fn addresses(status: &PodStatus) -> Box<[IpAddr]> {
    let texts = status.pod_ips.iter().map(|entry| &entry.ip).chain([&status.pod_ip]);
    let mut found: Vec<IpAddr> = texts
        .filter_map(|address| address.parse().ok())
        .map(|address: IpAddr| address.to_canonical())
        .collect();
    found.sort_unstable();
    found.dedup();
    found.into()
}

impl Pods {
    /// The pod that has `address`.
    pub(super) fn of(&self, address: IpAddr) -> Option<Arc<Member>> {
        match self.book().holders.get(&address.to_canonical())?.as_slice() {
            [member] => Some(Arc::clone(member)),
            _ => None,
        }
    }

    /// How many addresses are known.
    pub(super) fn count(&self) -> usize {
        self.book().holders.len()
    }

    /// Adds or replaces a pod; takes it away where nothing of it is kept.
    pub(super) fn apply(&self, key: Key, entry: Option<Entry>) {
        let mut book = self.book_mut();
        // It reports in for whatever happens to it.
        if book.entries.get(&key) == entry.as_ref() {
            return;
        }
        book.delete(&key);
        if let Some(entry) = entry {
            book.insert(key, entry);
        }
    }

    /// Takes a pod away.
    pub(super) fn delete(&self, key: &Key) {
        self.book_mut().delete(key);
    }

    /// Replaces all pods.
    pub(super) fn reset(&self, pods: impl IntoIterator<Item = (Key, Entry)>) {
        let mut book = Book::default();
        for (key, entry) in pods {
            book.delete(&key);
            book.insert(key, entry);
        }
        // What was there is freed when others may look again.
        let _old = std::mem::replace(&mut *self.book_mut(), book);
    }

    fn book(&self) -> RwLockReadGuard<'_, Book> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn book_mut(&self) -> RwLockWriteGuard<'_, Book> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Book {
    fn insert(&mut self, key: Key, entry: Entry) {
        for address in &entry.addresses {
            self.holders
                .entry(*address)
                .or_default()
                .push(Arc::clone(&entry.member));
        }
        self.entries.insert(key, entry);
    }

    fn delete(&mut self, key: &Key) {
        let Some(gone) = self.entries.remove(key) else { return };
        for address in &gone.addresses {
            if let Some(holders) = self.holders.get_mut(address) {
                holders.retain(|member| !Arc::ptr_eq(member, &gone.member));
                if holders.is_empty() {
                    self.holders.remove(address);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn pod(name: &str, address: &str) -> Value {
        json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "shop", "labels": {"app": name}},
            "spec": {"serviceAccountName": "agent"},
            "status": {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}, {"ip": "fd00::7"}]},
        })
    }

    fn seen(object: &Value) -> (Key, Option<Entry>) {
        read(serde_json::from_value(object.clone()).unwrap(), "default")
    }

    fn known(objects: &[Value], address: &str) -> Option<String> {
        let pods = Pods::default();
        for object in objects {
            let (key, entry) = seen(object);
            pods.apply(key, entry);
        }
        name(&pods, address)
    }

    fn name(pods: &Pods, address: &str) -> Option<String> {
        pods.of(address.parse().unwrap()).map(|member| member.name.clone())
    }

    #[test]
    fn a_pod_is_found_by_each_of_its_addresses() {
        let objects = [pod("web", "10.0.0.7")];
        for address in ["10.0.0.7", "fd00::7", "::ffff:10.0.0.7"] {
            assert_eq!(known(&objects, address).as_deref(), Some("web"), "{address}");
        }
        assert_eq!(known(&objects, "10.0.0.8"), None);
        let member = seen(&objects[0]).1.unwrap().member;
        assert_eq!(member.workload.labels["app"], "web");
        assert_eq!(
            (&*member.workload.namespace, &*member.workload.service_account),
            ("shop", "agent")
        );
        let bare = json!({"metadata": {"name": "bare"}, "spec": {}, "status": {"podIP": "10.0.0.1"}});
        let bare = seen(&bare).1.unwrap().member;
        let workload = &bare.workload;
        assert_eq!(
            (&*workload.namespace, &*workload.service_account),
            ("default", "default")
        );
    }

    #[test]
    fn an_address_is_of_nobody_where_it_could_be_of_two() {
        let (one, two) = (pod("one", "10.0.0.7"), pod("two", "10.0.0.7"));
        assert_eq!(known(&[one.clone(), two, one], "10.0.0.7"), None);
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

    #[test]
    fn what_changes_of_one_pod_changes_nothing_else() {
        let pods = Pods::default();
        let listed = [pod("one", "10.0.0.7"), pod("two", "10.0.0.7"), pod("three", "10.0.0.9")];
        pods.reset(listed.iter().map(seen).map(|(key, entry)| (key, entry.unwrap())));
        assert_eq!(
            (name(&pods, "10.0.0.7"), name(&pods, "10.0.0.9")),
            (None, Some("three".to_owned()))
        );
        pods.delete(&("shop".to_owned(), "one".to_owned()));
        assert_eq!(name(&pods, "10.0.0.7").as_deref(), Some("two"));
        let (key, moved) = seen(&pod("two", "10.0.0.8"));
        pods.apply(key.clone(), moved);
        assert_eq!(
            (name(&pods, "10.0.0.7"), name(&pods, "10.0.0.8")),
            (None, Some("two".to_owned()))
        );
        pods.apply(key, None);
        pods.delete(&("shop".to_owned(), "three".to_owned()));
        assert_eq!((pods.count(), pods.book().entries.len()), (0, 0));
    }
}
