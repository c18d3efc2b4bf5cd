//! A large cluster with many policies, and its life.

use crate::NAMESPACE;
use crate::cluster::{Verb, call};
use crate::objects::{self, Object};
use kube::Client;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// Its namespaces.
pub(crate) const NAMESPACES: usize = 2000;

/// Its `PodSecurityPolicies`.
pub(crate) const POLICIES: usize = 50;

/// Time between two changes: those of a busy cluster.
const PERIOD: Duration = Duration::from_millis(20);

/// Where policies are.
const OF_POLICIES: &str = "/apis/policy/v1beta1/podsecuritypolicies";

/// Where rights are.
const OF_RIGHTS: &str = "/apis/rbac.authorization.k8s.io/v1";

/// Creates the namespaces and the policies, each of which every service account may use.
pub(crate) async fn fill(client: &Client) {
    let namespaces = (0..NAMESPACES).map(|index| objects::namespace(&format!("scale-{index}"), "baseline"));
    let policies = (0..POLICIES).flat_map(|index| {
        let [role, binding] = rights(index);
        [(OF_POLICIES.to_owned(), policy(index)), role, binding]
    });
    objects::create(client, namespaces.chain(policies)).await;
}

/// The name of a policy.
pub(crate) fn policy_name(index: usize) -> String {
    format!("policy-{index:02}")
}

/// A policy as a hardened cluster has it, which takes the pod with the proxy and without linkerd-init.
fn policy(index: usize) -> Value {
    let ranges = json!({"rule": "MustRunAs", "ranges": [{"min": 1, "max": 65535}]});
    json!({
        "metadata": {
            "name": policy_name(index),
            "annotations": {"seccomp.security.alpha.kubernetes.io/allowedProfileNames": "runtime/default"},
        },
        "spec": {
            "privileged": false, "allowPrivilegeEscalation": false, "requiredDropCapabilities": ["ALL"],
            "volumes": ["configMap", "emptyDir", "projected", "secret", "downwardAPI", "persistentVolumeClaim"],
            "runAsUser": {"rule": "MustRunAsNonRoot"}, "seLinux": {"rule": "RunAsAny"},
            "fsGroup": ranges, "supplementalGroups": ranges,
        },
    })
}

/// The right to use a policy.
fn rights(index: usize) -> [Object; 2] {
    let (api, name) = ("rbac.authorization.k8s.io", policy_name(index));
    let rule = json!({"apiGroups": ["policy"], "resources": ["podsecuritypolicies"], "resourceNames": [name],
        "verbs": ["use"]});
    let role = json!({"metadata": {"name": name}, "rules": [rule]});
    let binding = json!({
        "metadata": {"name": name},
        "subjects": [{"kind": "Group", "apiGroup": api, "name": "system:serviceaccounts"}],
        "roleRef": {"apiGroup": api, "kind": "ClusterRole", "name": name},
    });
    [
        (format!("{OF_RIGHTS}/clusterroles"), role),
        (format!("{OF_RIGHTS}/clusterrolebindings"), binding),
    ]
}

/// The life of the cluster.
pub(crate) struct Changes {
    task: JoinHandle<usize>,
    stop: oneshot::Sender<()>,
}

impl Changes {
    /// Ends it, and returns how many objects changed.
    pub(crate) async fn stop(self) -> usize {
        self.stop.send(()).unwrap();
        self.task.await.unwrap()
    }
}

/// Changes one object after the other: namespaces, that of the pod among them, policies and the node.
pub(crate) fn change(client: Client) -> Changes {
    let (stop, mut stopped) = oneshot::channel();
    let task = tokio::spawn(async move {
        let mut ticks = tokio::time::interval(PERIOD);
        let mut changes = 0;
        loop {
            tokio::select! {
                _ = ticks.tick() => {}
                _ = &mut stopped => return changes,
            }
            let path = match changes % 4 {
                0 => format!("/api/v1/namespaces/{NAMESPACE}"),
                1 => format!("/api/v1/namespaces/scale-{}", changes % NAMESPACES),
                2 => format!("{OF_POLICIES}/{}", policy_name(changes % POLICIES)),
                _ => "/api/v1/nodes/node-0".to_owned(),
            };
            let label = json!({"metadata": {"labels": {"change": changes.to_string()}}});
            let reply = call(&client, Verb::Patch, &path, Some(&label)).await.unwrap();
            assert!(reply.accepted(), "{path}: {}", reply.body);
            changes += 1;
        }
    });
    Changes { task, stop }
}
