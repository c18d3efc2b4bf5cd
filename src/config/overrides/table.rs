//! The table of annotations, in ascending order of key.

use crate::config::annotation::{EGRESS_DNS, EGRESS_FENCE};

use super::{BOOLEAN, Override, Setter};

/// What `config.linkerd.io/default-inbound-policy` may say.
const POLICIES: [&str; 6] = [
    "all-unauthenticated",
    "all-authenticated",
    "cluster-unauthenticated",
    "cluster-authenticated",
    "deny",
    "audit",
];

/// Every row.
pub(in crate::config) fn rows() -> &'static [Override] {
    &ROWS
}

/// The row of one annotation.
pub(in crate::config) fn row(annotation: &str) -> Option<&'static Override> {
    ROWS.binary_search_by(|row| row.annotation.cmp(annotation))
        .ok()
        .and_then(|index| ROWS.get(index))
}

const fn inherited(annotation: &'static str, values_key: &'static str, setter: Setter) -> Override {
    Override {
        annotation,
        values_key,
        inherited: true,
        setter,
    }
}

/// A row whose annotation counts on pods only.
const fn own(annotation: &'static str, values_key: &'static str, setter: Setter) -> Override {
    Override {
        annotation,
        values_key,
        inherited: false,
        setter,
    }
}

use Setter::{
    Boolean, CloseWait, Cores, Elsewhere, Guard, Integer, Milliseconds, NameServers, Port, Ports, Quantity, Ratio,
    Seconds, Switch, Text, User, WholeSeconds, Word,
};

static ROWS: [Override; 51] = [
    inherited(
        "config.alpha.linkerd.io/proxy-enable-native-sidecar",
        "proxy.nativeSidecar",
        Elsewhere(BOOLEAN),
    ),
    inherited(
        "config.alpha.linkerd.io/proxy-wait-before-exit-seconds",
        "proxy.waitBeforeExitSeconds",
        Seconds(|v| &mut v.proxy.wait_before_exit_seconds),
    ),
    own(
        "config.beta.linkerd.io/proxy-enable-native-sidecar",
        "proxy.nativeSidecar",
        Elsewhere(BOOLEAN),
    ),
    inherited(
        "config.linkerd.io/access-log",
        "proxy.accessLog",
        Text(|v| &mut v.proxy.access_log),
    ),
    inherited(
        "config.linkerd.io/admin-port",
        "proxy.ports.admin",
        Port(|v| &mut v.proxy.ports.admin),
    ),
    own(
        "config.linkerd.io/close-wait-timeout",
        "proxyInit.closeWaitTimeoutSecs",
        CloseWait(|v| &mut v.proxy_init.close_wait_timeout_secs),
    ),
    inherited(
        "config.linkerd.io/control-port",
        "proxy.ports.control",
        Port(|v| &mut v.proxy.ports.control),
    ),
    own(
        "config.linkerd.io/debug-image",
        "debugContainer.image.name",
        Text(|v| &mut v.debug_container.image.name),
    ),
    own(
        "config.linkerd.io/debug-image-pull-policy",
        "debugContainer.image.pullPolicy",
        Text(|v| &mut v.debug_container.image.pull_policy),
    ),
    own(
        "config.linkerd.io/debug-image-version",
        "debugContainer.image.version",
        Text(|v| &mut v.debug_container.image.version),
    ),
    inherited(
        "config.linkerd.io/default-inbound-policy",
        "proxy.defaultInboundPolicy",
        Word(&POLICIES, |v| &mut v.proxy.default_inbound_policy),
    ),
    inherited("config.linkerd.io/enable-debug-sidecar", "", Elsewhere(BOOLEAN)),
    inherited(
        "config.linkerd.io/enable-external-profiles",
        "proxy.enableExternalProfiles",
        Boolean(|v| &mut v.proxy.enable_external_profiles),
    ),
    own(
        "config.linkerd.io/enable-gateway",
        "proxy.isGateway",
        Boolean(|v| &mut v.proxy.is_gateway),
    ),
    inherited(
        "config.linkerd.io/image-pull-policy",
        "proxy.image.pullPolicy",
        Text(|v| &mut v.proxy.image.pull_policy),
    ),
    inherited(
        "config.linkerd.io/inbound-port",
        "proxy.ports.inbound",
        Port(|v| &mut v.proxy.ports.inbound),
    ),
    inherited("config.linkerd.io/opaque-ports", "proxy.opaquePorts", Ports),
    inherited(
        "config.linkerd.io/outbound-port",
        "proxy.ports.outbound",
        Port(|v| &mut v.proxy.ports.outbound),
    ),
    inherited(
        "config.linkerd.io/pod-inbound-ports",
        "proxy.podInboundPorts",
        Elsewhere("anything; it has no effect: the ports are those of the pod's containers"),
    ),
    inherited(
        "config.linkerd.io/proxy-additional-env",
        "proxy.additionalEnv",
        Elsewhere("a JSON list of environment variables"),
    ),
    inherited(
        "config.linkerd.io/proxy-admin-shutdown",
        "proxy.enableShutdownEndpoint",
        Switch(|v| &mut v.proxy.enable_shutdown_endpoint),
    ),
    inherited(
        "config.linkerd.io/proxy-await",
        "proxy.await",
        Switch(|v| &mut v.proxy.r#await),
    ),
    inherited(
        "config.linkerd.io/proxy-cpu-limit",
        "proxy.resources.cpu.limit",
        Cores(|v| (&mut v.proxy.resources.cpu.limit, &mut v.proxy.runtime.workers.maximum)),
    ),
    own(
        "config.linkerd.io/proxy-cpu-ratio-limit",
        "proxy.runtime.workers.maximumCPURatio",
        Ratio(|v| &mut v.proxy.runtime.workers.maximum_cpu_ratio),
    ),
    inherited(
        "config.linkerd.io/proxy-cpu-request",
        "proxy.resources.cpu.request",
        Cores(|v| (&mut v.proxy.resources.cpu.request, &mut v.proxy.runtime.workers.minimum)),
    ),
    inherited(
        "config.linkerd.io/proxy-disable-inbound-protocol-detect-timeout",
        "proxy.disableInboundProtocolDetectTimeout",
        Boolean(|v| &mut v.proxy.disable_inbound_protocol_detect_timeout),
    ),
    inherited(
        "config.linkerd.io/proxy-disable-outbound-protocol-detect-timeout",
        "proxy.disableOutboundProtocolDetectTimeout",
        Boolean(|v| &mut v.proxy.disable_outbound_protocol_detect_timeout),
    ),
    inherited(
        "config.linkerd.io/proxy-enable-native-sidecar",
        "proxy.nativeSidecar",
        Elsewhere(BOOLEAN),
    ),
    inherited(
        "config.linkerd.io/proxy-ephemeral-storage-limit",
        "proxy.resources.ephemeral-storage.limit",
        Quantity(|v| &mut v.proxy.resources.ephemeral_storage.limit),
    ),
    inherited(
        "config.linkerd.io/proxy-ephemeral-storage-request",
        "proxy.resources.ephemeral-storage.request",
        Quantity(|v| &mut v.proxy.resources.ephemeral_storage.request),
    ),
    inherited(
        "config.linkerd.io/proxy-gid",
        "proxy.gid",
        Integer(|v| &mut v.proxy.gid),
    ),
    inherited(
        "config.linkerd.io/proxy-image",
        "proxy.image.name",
        Text(|v| &mut v.proxy.image.name),
    ),
    inherited(
        "config.linkerd.io/proxy-inbound-connect-timeout",
        "proxy.inboundConnectTimeout",
        Milliseconds(|v| &mut v.proxy.inbound_connect_timeout),
    ),
    inherited(
        "config.linkerd.io/proxy-inbound-discovery-cache-unused-timeout",
        "proxy.inboundDiscoveryCacheUnusedTimeout",
        WholeSeconds(|v| &mut v.proxy.inbound_discovery_cache_unused_timeout),
    ),
    inherited(
        "config.linkerd.io/proxy-log-format",
        "proxy.logFormat",
        Text(|v| &mut v.proxy.log_format),
    ),
    inherited(
        "config.linkerd.io/proxy-log-http-headers",
        "proxy.logHTTPHeaders",
        Text(|v| &mut v.proxy.log_http_headers),
    ),
    inherited(
        "config.linkerd.io/proxy-log-level",
        "proxy.logLevel",
        Text(|v| &mut v.proxy.log_level),
    ),
    inherited(
        "config.linkerd.io/proxy-memory-limit",
        "proxy.resources.memory.limit",
        Quantity(|v| &mut v.proxy.resources.memory.limit),
    ),
    inherited(
        "config.linkerd.io/proxy-memory-request",
        "proxy.resources.memory.request",
        Quantity(|v| &mut v.proxy.resources.memory.request),
    ),
    inherited(
        "config.linkerd.io/proxy-metrics-hostname-labels",
        "proxy.metrics.hostnameLabels",
        Boolean(|v| &mut v.proxy.metrics.hostname_labels),
    ),
    inherited(
        "config.linkerd.io/proxy-outbound-connect-timeout",
        "proxy.outboundConnectTimeout",
        Milliseconds(|v| &mut v.proxy.outbound_connect_timeout),
    ),
    inherited(
        "config.linkerd.io/proxy-outbound-discovery-cache-unused-timeout",
        "proxy.outboundDiscoveryCacheUnusedTimeout",
        WholeSeconds(|v| &mut v.proxy.outbound_discovery_cache_unused_timeout),
    ),
    inherited(
        "config.linkerd.io/proxy-require-identity-inbound-ports",
        "proxy.requireIdentityOnInboundPorts",
        Text(|v| &mut v.proxy.require_identity_on_inbound_ports),
    ),
    inherited("config.linkerd.io/proxy-uid", "proxy.uid", User(|v| &mut v.proxy.uid)),
    inherited(
        "config.linkerd.io/proxy-version",
        "proxy.image.version",
        Text(|v| &mut v.proxy.image.version),
    ),
    inherited(
        "config.linkerd.io/shutdown-grace-period",
        "proxy.shutdownGracePeriod",
        Milliseconds(|v| &mut v.proxy.shutdown_grace_period),
    ),
    inherited(
        "config.linkerd.io/skip-inbound-ports",
        "proxyInit.ignoreInboundPorts",
        Text(|v| &mut v.proxy_init.ignore_inbound_ports),
    ),
    inherited(
        "config.linkerd.io/skip-outbound-ports",
        "proxyInit.ignoreOutboundPorts",
        Text(|v| &mut v.proxy_init.ignore_outbound_ports),
    ),
    inherited(
        "config.linkerd.io/skip-subnets",
        "proxyInit.skipSubnets",
        Text(|v| &mut v.proxy_init.skip_subnets),
    ),
    inherited(
        EGRESS_DNS,
        "outrigger.egressDNS",
        NameServers(|v| &mut v.outrigger.egress_dns),
    ),
    inherited(
        EGRESS_FENCE,
        "outrigger.egressFence",
        Guard(|v| &mut v.outrigger.egress_fence),
    ),
];
