//! Annotation and label keys, and where their values come from.

use serde_json::{Map, Value};
use std::fmt;

/// Whether a pod is meshed: `enabled`, `disabled` or `ingress`. Read as annotation, else as label.
pub const INJECT: &str = "linkerd.io/inject";

/// How traffic is redirected: `true`, `false`, `init-container` or `cni`. Read as annotation, else as label; the
/// webhook writes what it chose, and the CNI plugin obeys it.
pub const SETUP_IPTABLES: &str = "linkerd.io/setup-iptables";

/// Who injected the pod.
pub const CREATED_BY: &str = "linkerd.io/created-by";

/// Version of the injected proxy.
pub const PROXY_VERSION: &str = "linkerd.io/proxy-version";

/// Lower-case hex SHA-256 of the trust anchors' text.
pub const TRUST_ROOT_SHA256: &str = "linkerd.io/trust-root-sha256";

/// Label: namespace of the control plane that the pod belongs to.
pub const CONTROL_PLANE_NS: &str = "linkerd.io/control-plane-ns";

/// Label: namespace of the workload.
pub const WORKLOAD_NS: &str = "linkerd.io/workload-ns";

/// Label of the control plane's own objects, which the injector leaves alone.
pub const CONTROL_PLANE_COMPONENT: &str = "linkerd.io/control-plane-component";

/// Label of the CNI plugin's own objects, which the injector leaves alone.
pub const CNI_RESOURCE: &str = "linkerd.io/cni-resource";

/// Label of namespaces: `disabled` keeps the API server from asking Linkerd's webhooks about anything in them.
pub const ADMISSION_WEBHOOKS: &str = "config.linkerd.io/admission-webhooks";

/// Ports whose protocol is not detected, on pods, services and namespaces.
pub const OPAQUE_PORTS: &str = "config.linkerd.io/opaque-ports";

/// Whether the debug container is added.
pub const ENABLE_DEBUG_SIDECAR: &str = "config.linkerd.io/enable-debug-sidecar";

/// How long closed connections stay tracked.
pub const CLOSE_WAIT_TIMEOUT: &str = "config.linkerd.io/close-wait-timeout";

/// Further environment variables of the proxy; those of namespace and pod are merged.
pub const PROXY_ADDITIONAL_ENV: &str = "config.linkerd.io/proxy-additional-env";

/// User of the proxy.
pub const PROXY_UID: &str = "config.linkerd.io/proxy-uid";

/// Full name of an owner whose name is too long for a label.
pub const OWNER_NAME: &str = "outrigger.linkerd.io/owner";

/// Key of the node selector that holds the pod to nodes with the CNI plugin.
pub const NODE_SELECTOR: &str = "outrigger.linkerd.io/node-selector";

/// Whether the ways around the proxy are closed: `enabled` or `disabled`. The webhook writes it where the values say so,
/// and the CNI plugin obeys it.
pub const EGRESS_FENCE: &str = "outrigger.linkerd.io/egress-fence";

/// Name servers that a fenced pod may ask over UDP, addresses and subnets, separated by commas.
pub const EGRESS_DNS: &str = "outrigger.linkerd.io/egress-dns";

/// Annotation that the kubelet puts on the API server's copy of a static pod.
pub const MIRROR_POD: &str = "kubernetes.io/config.mirror";

/// Where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// The chart's default: the document lacks the key.
    Default,
    /// The installation's values document.
    Values,
    /// An annotation or a label of the namespace.
    Namespace,
    /// An annotation or a label of the pod.
    Pod,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Default => "chart default",
            Self::Values => "values",
            Self::Namespace => "namespace",
            Self::Pod => "pod",
        })
    }
}

/// What `linkerd.io/inject` says in the metadata of a pod or of a namespace: its annotation, else its label, and which
/// of the two. An empty value counts as absent.
pub fn inject_mode<'a>(
    annotations: Option<&'a Map<String, Value>>,
    labels: Option<&'a Map<String, Value>>,
) -> Option<(&'a str, &'static str)> {
    let of = |entries: Option<&'a Map<String, Value>>| {
        let value = entries?.get(INJECT)?.as_str()?;
        (!value.is_empty()).then_some(value)
    };
    of(annotations)
        .map(|value| (value, "annotation"))
        .or_else(|| of(labels).map(|value| (value, "label")))
}
