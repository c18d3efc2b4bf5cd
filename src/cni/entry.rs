//! Our entry of a network configuration, as the agent installs it.
//!
//! It starts from a template, that of Linkerd's chart as well as one of our own, and says where on the node things are.

use super::conflist::PLUGIN;
use serde_json::{Map, Value, json};

/// What the entry tells the plugin about the node. Paths are those of the node, not of the agent's container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// The credentials for the API server.
    pub kubeconfig: String,
    /// The agent's socket.
    pub socket: String,
    /// Namespace and prefix of the names of the agent's own pods, which start without the plugin.
    pub own_pods: Option<(String, String)>,
}

/// The template where none is given: Linkerd's ports and user.
pub fn default_template() -> Value {
    json!({
        "log_level": "info",
        "linkerd": {
            "incoming-proxy-port": 4143,
            "outgoing-proxy-port": 4140,
            "proxy-uid": 2102,
            "inbound-ports-to-ignore": ["4190", "4191"],
        },
    })
}

/// The entry made of `template`, an object. Its type is ours; name and version are those of the list that it goes into.
pub fn entry(template: &Value, node: &Node) -> Value {
    let mut entry = template.as_object().cloned().unwrap_or_default();
    for key in ["name", "cniVersion", "prevResult"] {
        entry.remove(key);
    }
    entry.insert("type".to_owned(), PLUGIN.into());
    set(&mut entry, "kubernetes", "kubeconfig", node.kubeconfig.as_str().into());
    set(&mut entry, "outrigger", "socket", node.socket.as_str().into());
    if let Some((namespace, prefix)) = &node.own_pods {
        let own = json!({"namespace": namespace, "name-prefix": prefix});
        set(&mut entry, "outrigger", "own-pods", own);
    }
    entry.into()
}

/// Sets `object.key` of the entry; what is no object there becomes one.
fn set(entry: &mut Map<String, Value>, object: &str, key: &str, value: Value) {
    let object = entry.entry(object).or_insert_with(|| json!({}));
    if !object.is_object() {
        *object = json!({});
    }
    if let Some(object) = object.as_object_mut() {
        object.insert(key.to_owned(), value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_of_linkerds_chart_is_taken() {
        let template = json!({
            "name": "linkerd-cni", "type": "linkerd-cni", "log_level": "info", "policy": {"type": "k8s"},
            "kubernetes": {"kubeconfig": "__KUBECONFIG_FILEPATH__"},
            "linkerd": {"proxy-uid": 2102}, "outrigger": {"exclude-namespaces": ["infra"]},
        });
        let node = Node {
            kubeconfig: "/run/outrigger/kubeconfig".to_owned(),
            socket: "/run/outrigger/cni.sock".to_owned(),
            own_pods: Some(("linkerd-cni".to_owned(), "outrigger-cni-".to_owned())),
        };
        let expected = json!({
            "type": "outrigger-cni", "log_level": "info", "policy": {"type": "k8s"},
            "kubernetes": {"kubeconfig": "/run/outrigger/kubeconfig"},
            "linkerd": {"proxy-uid": 2102},
            "outrigger": {
                "exclude-namespaces": ["infra"],
                "socket": "/run/outrigger/cni.sock",
                "own-pods": {"namespace": "linkerd-cni", "name-prefix": "outrigger-cni-"},
            },
        });
        assert_eq!(entry(&template, &node), expected);
        let bare = entry(&Value::Null, &Node { own_pods: None, ..node });
        assert_eq!(bare["outrigger"], json!({"socket": "/run/outrigger/cni.sock"}));
    }
}
