//! The `DaemonSets` that put the CNI plugin on nodes, and which of them are believed.
//!
//! Anybody who may create a DaemonSet may label it as the plugin. One counts where whoever created it can write to nodes all the
//! same: its pods mount folders of their node, and the Pod Security of its namespace admits that.

use crate::decide::placement::{Node, Placement};
use crate::pod::workload::Kind;
use crate::pod::{Pod, object, text};
use crate::policy::pod_security::{Configuration, Level, Question, Server};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// A DaemonSet that puts the CNI plugin on nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plugin {
    /// `namespace/name`
    pub name: String,
    /// Whether it is ours; Linkerd's ignores `linkerd.io/setup-iptables: "false"`.
    pub ours: bool,
    placement: Placement,
}

/// Key and value of the label that everything of our plugin has, or of Linkerd's.
pub fn label(ours: bool) -> (&'static str, &'static str) {
    match ours {
        true => ("app.kubernetes.io/name", "outrigger-cni"),
        false => ("k8s-app", "linkerd-cni"),
    }
}

impl Plugin {
    /// Reads an `apps/v1` `DaemonSet`; nothing where it is not one of the CNI plugin: where it lacks the label, or its pods mount
    /// no folder of their node, without which nothing gets there.
    pub fn read(daemon_set: &Value) -> Option<Self> {
        let template = daemon_set.pointer("/spec/template")?;
        let metadata = daemon_set.get("metadata")?;
        let is = |ours: bool| {
            let (key, value) = label(ours);
            let of = |object: &Value| {
                object
                    .pointer("/metadata/labels")?
                    .get(key)?
                    .as_str()
                    .map(|it| it == value)
            };
            of(daemon_set).or_else(|| of(template)) == Some(true)
        };
        let ours = [true, false].into_iter().find(|ours| is(*ours))?;
        let pod = Pod::new(template);
        if !pod.volumes().iter().any(|volume| object(volume, "hostPath").is_some()) {
            return None;
        }
        // A manifest may leave the namespace to whoever applies it.
        let namespace = text(metadata, "namespace").filter(|namespace| !namespace.is_empty());
        let name = text(metadata, "name").unwrap_or_default();
        Some(Self {
            name: format!("{}/{name}", namespace.unwrap_or("default")),
            ours,
            placement: Placement::of(&pod),
        })
    }

    /// The namespace of the DaemonSet and its pods.
    pub fn namespace(&self) -> &str {
        self.name.split_once('/').map_or("", |(namespace, _)| namespace)
    }

    /// Whether it is meant for `node`.
    pub fn covers(&self, node: &Node) -> bool {
        self.placement.admits(node)
    }

    /// What its own node selector asks for.
    pub(super) fn node_selector(&self) -> &BTreeMap<String, String> {
        self.placement.node_selector()
    }

    /// Why it is not believed to be the plugin: its namespace, which has `labels`, refuses such pods. Nothing where it is.
    pub fn objection(
        &self,
        labels: Option<&Map<String, Value>>,
        configuration: &Configuration,
        server: Server,
    ) -> Option<String> {
        let namespace = self.namespace();
        let question = Question {
            server,
            configuration,
            namespace,
            labels,
            user: Kind::DaemonSet.creator().unwrap_or_default(),
        };
        let admission = question.admission();
        let enforced = admission.policies().enforce;
        let is_refused = enforced.level != Level::Privileged && admission.exemption().is_none();
        is_refused.then(|| {
            format!("namespace {namespace} enforces {enforced}, which refuses pods that mount folders of their node")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Release;
    use serde_json::json;

    fn daemon_set(labels: &Value, volume: &Value) -> Value {
        json!({
            "metadata": {"namespace": "tools", "name": "x", "labels": labels},
            "spec": {"template": {"spec": {"volumes": [volume]}}},
        })
    }

    fn host_path() -> Value {
        json!({"name": "net", "hostPath": {"path": "/etc/cni/net.d"}})
    }

    #[test]
    fn a_plugin_has_the_label_and_mounts_folders_of_the_node() {
        let linkerds = json!({"k8s-app": "linkerd-cni"});
        let plugin = Plugin::read(&daemon_set(&linkerds, &host_path())).unwrap();
        assert_eq!(
            (plugin.name.as_str(), plugin.namespace(), plugin.ours),
            ("tools/x", "tools", false)
        );
        let ours = json!({"app.kubernetes.io/name": "outrigger-cni"});
        assert!(Plugin::read(&daemon_set(&ours, &host_path())).unwrap().ours);
        assert_eq!(
            Plugin::read(&daemon_set(&json!({"k8s-app": "kube-proxy"}), &host_path())),
            None
        );
        assert_eq!(
            Plugin::read(&daemon_set(&linkerds, &json!({"name": "net", "emptyDir": {}}))),
            None
        );
        let mut nowhere = daemon_set(&linkerds, &host_path());
        nowhere["metadata"]["namespace"] = Value::Null;
        assert_eq!(Plugin::read(&nowhere).unwrap().name, "default/x");
    }

    #[test]
    fn whoever_could_not_write_to_nodes_is_not_believed() {
        let plugin = Plugin::read(&daemon_set(&json!({"k8s-app": "linkerd-cni"}), &host_path())).unwrap();
        let objection = |labels: Value, configuration: &Configuration| {
            plugin.objection(labels.as_object(), configuration, Release(36).into())
        };
        let level = |level: &str| json!({"pod-security.kubernetes.io/enforce": level});
        let open = Configuration::default();
        assert_eq!(objection(json!({}), &open), None);
        assert_eq!(objection(level("privileged"), &open), None);
        let words = "namespace tools enforces baseline:latest, which refuses pods that mount folders of their node";
        assert_eq!(objection(level("baseline"), &open).as_deref(), Some(words));
        let closed = |exempt: &[&str]| {
            let document = json!({
                "apiVersion": "pod-security.admission.config.k8s.io/v1", "kind": "PodSecurityConfiguration",
                "defaults": {"enforce": "restricted"}, "exemptions": {"namespaces": exempt},
            });
            Configuration::read(&document).unwrap()
        };
        assert!(objection(json!({}), &closed(&[])).is_some_and(|why| why.contains("restricted")));
        assert_eq!(objection(level("privileged"), &closed(&[])), None);
        assert_eq!(objection(json!({}), &closed(&["tools"])), None);
    }
}
