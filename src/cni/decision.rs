//! Which pods get rules.
//!
//! A pod gets them if and only if it has the proxy, has no init container of its own for them, and does not say that it
//! wants none. Some pods never get them; that is seen from the call alone, so that a node starts without an API server.

use super::call::PodName;
use super::config::NetworkConfig;
use crate::config::annotation::SETUP_IPTABLES;
use crate::inject::{PROXY, PROXY_INIT};
use crate::pod::{Pod, container_name};

/// Why a pod gets no rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exemption {
    /// The call names no pod.
    NotKubernetes,
    /// The configuration leaves its namespace alone; `kube-system` always is.
    ExcludedNamespace,
    /// It is one of the pods that install the plugin.
    OwnPod,
    /// It lives in the node's own network namespace.
    HostNetwork,
    /// It is not meshed.
    NoProxy,
    /// `linkerd-init` sets its rules.
    InitContainer,
    /// `linkerd.io/setup-iptables` is `false`.
    NotWanted,
}

impl Exemption {
    /// The word for it in logs.
    pub const fn word(self) -> &'static str {
        match self {
            Self::NotKubernetes => "not_kubernetes",
            Self::ExcludedNamespace => "excluded_namespace",
            Self::OwnPod => "own_pod",
            Self::HostNetwork => "host_network",
            Self::NoProxy => "no_proxy",
            Self::InitContainer => "init_container",
            Self::NotWanted => "setup_iptables_false",
        }
    }
}

/// What the name alone decides; `None` where the pod has to be looked at.
pub fn exempt_by_name(pod: Option<&PodName>, config: &NetworkConfig<'_>) -> Option<Exemption> {
    match pod {
        None => Some(Exemption::NotKubernetes),
        Some(pod) if config.excludes(&pod.namespace) => Some(Exemption::ExcludedNamespace),
        Some(pod) if config.is_own_pod(&pod.namespace, &pod.name) => Some(Exemption::OwnPod),
        Some(_) => None,
    }
}

/// What the pod itself decides; `None` where it gets rules.
pub fn exempt(pod: &Pod<'_>) -> Option<Exemption> {
    let has = |name| {
        let mut containers = pod.init_containers().iter().chain(pod.containers());
        containers.any(|container| container_name(container) == name)
    };
    let wanted = pod.annotation(SETUP_IPTABLES).or_else(|| pod.label(SETUP_IPTABLES));
    if pod.host_network() {
        Some(Exemption::HostNetwork)
    } else if !has(PROXY) {
        Some(Exemption::NoProxy)
    } else if has(PROXY_INIT) {
        Some(Exemption::InitContainer)
    } else {
        (wanted == Some("false")).then_some(Exemption::NotWanted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn names_decide_before_anybody_is_asked() {
        let default = r#"{"cniVersion": "1.1.0", "name": "net"}"#;
        let own = r#"{"cniVersion": "1.1.0", "name": "net", "outrigger": {"exclude-namespaces": ["infra"],
            "own-pods": {"namespace": "mesh", "name-prefix": "outrigger-cni-"}}}"#;
        let table = [
            (default, "kube-system/dns", Some(Exemption::ExcludedNamespace)),
            (default, "linkerd-cni/cni-daemon", Some(Exemption::ExcludedNamespace)),
            (default, "app/meshed", None),
            (own, "kube-system/dns", Some(Exemption::ExcludedNamespace)),
            (own, "infra/x", Some(Exemption::ExcludedNamespace)),
            (own, "linkerd-cni/cni-daemon", None),
            (own, "mesh/outrigger-cni-x2x4z", Some(Exemption::OwnPod)),
            (own, "mesh/web", None),
            (own, "app/outrigger-cni-x2x4z", None),
        ];
        for (config, path, expected) in table {
            let (namespace, name) = path.split_once('/').unwrap();
            let pod = PodName {
                namespace: namespace.to_owned(),
                name: name.to_owned(),
                uid: None,
            };
            let config = NetworkConfig::parse(config).unwrap();
            assert_eq!(exempt_by_name(Some(&pod), &config), expected, "{path}");
        }
        assert_eq!(
            exempt_by_name(None, &NetworkConfig::parse(default).unwrap()),
            Some(Exemption::NotKubernetes)
        );
    }

    fn pod(metadata: &Value, init: &[&str], containers: &[&str], spec: &Value) -> Value {
        let list = |names: &[&str]| names.iter().map(|name| json!({"name": name})).collect::<Value>();
        let mut pod = json!({"metadata": metadata, "spec": spec});
        pod["spec"]["initContainers"] = list(init);
        pod["spec"]["containers"] = list(containers);
        pod
    }

    #[test]
    fn a_pod_gets_rules_when_it_has_a_proxy_and_no_other_way() {
        let annotated = |value: &str| json!({"annotations": {"linkerd.io/setup-iptables": value}});
        let labelled = json!({"labels": {"linkerd.io/setup-iptables": "false"}});
        let both = json!({"labels": {"linkerd.io/setup-iptables": "false"},
            "annotations": {"linkerd.io/setup-iptables": "cni"}});
        let none = json!({});
        let host = json!({"hostNetwork": true});
        let table = [
            (pod(&none, &[], &["app"], &none), Some(Exemption::NoProxy)),
            (pod(&annotated("cni"), &[], &["app"], &none), Some(Exemption::NoProxy)),
            (pod(&none, &[], &["linkerd-proxy", "app"], &none), None),
            (
                pod(&none, &["linkerd-network-validator", "linkerd-proxy"], &["app"], &none),
                None,
            ),
            (
                pod(&none, &["linkerd-init"], &["linkerd-proxy"], &none),
                Some(Exemption::InitContainer),
            ),
            (
                pod(&annotated("cni"), &["linkerd-init"], &["linkerd-proxy"], &none),
                Some(Exemption::InitContainer),
            ),
            (
                pod(&annotated("false"), &[], &["linkerd-proxy"], &none),
                Some(Exemption::NotWanted),
            ),
            (pod(&annotated("true"), &[], &["linkerd-proxy"], &none), None),
            (pod(&annotated("nonsense"), &[], &["linkerd-proxy"], &none), None),
            (
                pod(&labelled, &[], &["linkerd-proxy"], &none),
                Some(Exemption::NotWanted),
            ),
            (pod(&both, &[], &["linkerd-proxy"], &none), None),
            (pod(&none, &[], &["linkerd-proxy"], &host), Some(Exemption::HostNetwork)),
            (Value::Null, Some(Exemption::NoProxy)),
        ];
        for (pod, expected) in table {
            assert_eq!(exempt(&Pod::new(&pod)), expected, "{pod}");
        }
    }
}
