//! The values document of a Linkerd installation, as far as injection reads it.
//!
//! Every default is the one of Linkerd's `linkerd-control-plane` chart, so that a document that lacks a key (an older
//! installation's, a hand-written one) means what the chart would have made of it. `null` means absent.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

mod proxy;

pub use proxy::{
    Bounds, Collector, Control, MeshIdentity, Metrics, Ports, Probe, Proxy, Resources, Runtime, StartupProbe, Streams,
    Tracing, Workers,
};

/// What the `values` key of the ConfigMap `linkerd-config` says about injection.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Values {
    /// DNS domain of the cluster, without a final dot.
    pub cluster_domain: String,
    /// Comma-separated CIDRs that the proxy takes for cluster addresses.
    pub cluster_networks: String,
    /// Whether the CNI plugin is on every node (`install --no-init-container`).
    pub cni_enabled: bool,
    /// Whether proxy and rules leave IPv6 alone.
    #[serde(rename = "disableIPv6")]
    pub disable_ipv6: bool,
    /// How identities are proven.
    pub identity: Identity,
    /// Trust anchors (PEM); the mounted ones win over these.
    #[serde(rename = "identityTrustAnchorsPEM")]
    pub identity_trust_anchors_pem: String,
    /// Domain of identities; the cluster domain where empty.
    pub identity_trust_domain: String,
    /// Pull policy of images that name none of their own.
    pub image_pull_policy: String,
    /// Version of the control plane, the tag of images that name none of their own.
    pub linkerd_version: String,
    /// The proxy container.
    pub proxy: Proxy,
    /// The init container `linkerd-init`.
    pub proxy_init: ProxyInit,
    /// The init container `linkerd-network-validator`.
    pub network_validator: NetworkValidator,
    /// The container `linkerd-debug`.
    pub debug_container: DebugContainer,
    /// Our own settings; Linkerd's chart has none of them.
    pub outrigger: Settings,
}

impl Default for Values {
    fn default() -> Self {
        Self {
            cluster_domain: "cluster.local".to_owned(),
            cluster_networks: "10.0.0.0/8,100.64.0.0/10,172.16.0.0/12,192.168.0.0/16,fd00::/8".to_owned(),
            cni_enabled: false,
            disable_ipv6: true,
            identity: Identity::default(),
            identity_trust_anchors_pem: String::new(),
            identity_trust_domain: String::new(),
            image_pull_policy: "IfNotPresent".to_owned(),
            linkerd_version: String::new(),
            proxy: Proxy::default(),
            proxy_init: ProxyInit::default(),
            network_validator: NetworkValidator::default(),
            debug_container: DebugContainer::default(),
            outrigger: Settings::default(),
        }
    }
}

impl Values {
    /// The domain of identities.
    pub fn trust_domain(&self) -> &str {
        if self.identity_trust_domain.is_empty() {
            &self.cluster_domain
        } else {
            &self.identity_trust_domain
        }
    }

    /// The version of the proxy, which the pod's annotation names.
    pub fn proxy_version(&self) -> &str {
        if self.proxy.image.version.is_empty() {
            &self.linkerd_version
        } else {
            &self.proxy.image.version
        }
    }
}

/// `identity`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Identity {
    /// Whether the proxy gets a token volume of its own instead of the application's API token.
    pub service_account_token_projection: bool,
}

impl Default for Identity {
    fn default() -> Self {
        Self {
            service_account_token_projection: true,
        }
    }
}

/// An image.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Image {
    /// Repository, without a tag.
    pub name: String,
    /// `Always`, `IfNotPresent` or `Never`; the general one where empty.
    pub pull_policy: String,
    /// Tag; the control plane's version where empty.
    pub version: String,
}

/// `proxyInit`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ProxyInit {
    /// Seconds that closed connections stay tracked; 0 leaves the kernel's setting.
    pub close_wait_timeout_secs: i64,
    /// Inbound ports that pass the proxy by.
    pub ignore_inbound_ports: String,
    /// Outbound ports that pass the proxy by.
    pub ignore_outbound_ports: String,
    /// `nft` or `legacy`.
    pub iptables_mode: String,
    /// `plain` or `json`; proxy-init's own default where empty.
    pub log_format: String,
    /// proxy-init's own default where empty.
    pub log_level: String,
    /// Whether the init container is privileged.
    pub privileged: bool,
    /// Group of the init container where it is not root's.
    pub run_as_group: i64,
    /// Whether the init container is root.
    pub run_as_root: bool,
    /// User of the init container where it is not root.
    pub run_as_user: i64,
    /// Destinations that pass the proxy by.
    pub skip_subnets: String,
    /// Where the xtables lock is.
    pub xt_mount_path: MountPath,
}

/// Linkerd's `nobody`, user and group of containers that need none of their own.
pub(crate) const NOBODY: i64 = 65534;

impl Default for ProxyInit {
    fn default() -> Self {
        Self {
            close_wait_timeout_secs: 0,
            ignore_inbound_ports: "4567,4568".to_owned(),
            ignore_outbound_ports: "4567,4568".to_owned(),
            iptables_mode: "nft".to_owned(),
            log_format: String::new(),
            log_level: String::new(),
            privileged: false,
            run_as_group: NOBODY,
            run_as_root: false,
            run_as_user: NOBODY,
            skip_subnets: String::new(),
            xt_mount_path: MountPath::default(),
        }
    }
}

/// `proxyInit.xtMountPath`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MountPath {
    /// Folder in the container.
    pub mount_path: String,
    /// Name of the volume.
    pub name: String,
}

/// Name of the volume of the xtables lock, where the values give it no other.
pub(crate) const LOCK_VOLUME: &str = "linkerd-proxy-init-xtables-lock";

impl Default for MountPath {
    fn default() -> Self {
        Self {
            mount_path: "/run".to_owned(),
            name: LOCK_VOLUME.to_owned(),
        }
    }
}

/// `networkValidator`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NetworkValidator {
    /// Where it connects to; an address that nobody answers where empty.
    pub connect_addr: String,
    /// Where it listens; the proxy's outbound port where empty.
    pub listen_addr: String,
    /// `plain` or `json`
    pub log_format: String,
    /// Log filter.
    pub log_level: String,
    /// Extra fields of its security context.
    pub security_context: Map<String, Value>,
    /// How long it waits for an answer.
    pub timeout: String,
}

impl Default for NetworkValidator {
    fn default() -> Self {
        Self {
            connect_addr: String::new(),
            listen_addr: String::new(),
            log_format: "plain".to_owned(),
            log_level: "debug".to_owned(),
            security_context: Map::new(),
            timeout: "10s".to_owned(),
        }
    }
}

/// `debugContainer`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DebugContainer {
    /// Image of the debug container.
    pub image: Image,
}

impl Default for DebugContainer {
    fn default() -> Self {
        Self {
            image: Image {
                name: "cr.l5d.io/linkerd/debug".to_owned(),
                ..Image::default()
            },
        }
    }
}

/// `outrigger`: settings that only this injector has.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Settings {
    /// Our own image for `linkerd-init` and the validator; where it has no name, both come from the proxy's image, as with
    /// Linkerd.
    pub image: Image,
    /// What becomes of a pod that no redirection fits.
    pub on_refused: OnRefused,
    /// Whether the ways around the proxy are closed.
    pub egress_fence: bool,
    /// Name servers that fenced pods may ask over UDP, addresses and subnets, separated by commas; where it is empty those
    /// of the pod's own `resolv.conf`, which only `linkerd-init` can read.
    #[serde(rename = "egressDNS")]
    pub egress_dns: String,
    /// Whether every ignored value denies the pod.
    pub strict: bool,
    /// What Pod Security does where no label says so: a `PodSecurityConfiguration`.
    pub pod_security: Map<String, Value>,
    /// Whether meshed pods are labelled with their service account: `NetworkPolicies` of egress policies select them by it.
    pub service_account_label: bool,
}

/// What becomes of a pod that every redirection would get refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnRefused {
    /// The pod is denied, with the reason.
    #[default]
    Deny,
    /// The pod is admitted without a proxy, with a warning.
    Skip,
}
