//! `proxy`: the values of the proxy container.

use super::Image;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// `proxy`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[expect(clippy::struct_excessive_bools, reason = "the document has as many switches")]
pub struct Proxy {
    /// Format of access logs; none where empty.
    pub access_log: String,
    /// Further environment variables (`EnvVar` objects).
    pub additional_env: Vec<Value>,
    /// Environment variables after those.
    pub experimental_env: Vec<Value>,
    /// Whether the application waits for the proxy.
    pub r#await: bool,
    /// Streams to the control plane.
    pub control: Control,
    /// Deprecated number of cores; 0 leaves it to `runtime`.
    pub cores: i64,
    /// What inbound traffic without a policy of its own gets.
    pub default_inbound_policy: String,
    /// Whether inbound protocol detection never gives up.
    pub disable_inbound_protocol_detect_timeout: bool,
    /// Whether outbound protocol detection never gives up.
    pub disable_outbound_protocol_detect_timeout: bool,
    /// Whether service profiles apply to names outside the cluster.
    pub enable_external_profiles: bool,
    /// Whether the admin port can shut the proxy down.
    pub enable_shutdown_endpoint: bool,
    /// Group of the proxy; negative for none.
    pub gid: i64,
    /// Image of the proxy, and of `linkerd-init` and the validator.
    pub image: Image,
    /// Inbound parameters, by scope, protocol and name.
    pub inbound: Map<String, Value>,
    /// Outbound parameters, by scope, protocol and name.
    pub outbound: Map<String, Value>,
    /// Inbound connect timeout, as the proxy reads it.
    pub inbound_connect_timeout: String,
    /// Outbound connect timeout, as the proxy reads it.
    pub outbound_connect_timeout: String,
    /// How long unused inbound discovery results are kept.
    pub inbound_discovery_cache_unused_timeout: String,
    /// How long unused outbound discovery results are kept.
    pub outbound_discovery_cache_unused_timeout: String,
    /// Whether the proxy is a multicluster gateway.
    pub is_gateway: bool,
    /// Whether the proxy is in ingress mode.
    pub is_ingress: bool,
    /// Probe of `/live`.
    pub liveness_probe: Probe,
    /// Probe of `/ready`.
    pub readiness_probe: Probe,
    /// Probe of `/ready` that holds the application back (native sidecars).
    pub startup_probe: StartupProbe,
    /// `plain` or `json`.
    pub log_format: String,
    /// `off` masks HTTP headers in logs, `insecure` shows them.
    #[serde(rename = "logHTTPHeaders")]
    pub log_http_headers: String,
    /// Log filter.
    pub log_level: String,
    /// What metrics show.
    pub metrics: Metrics,
    /// Whether the proxy is an init container that restarts (Kubernetes 1.29).
    pub native_sidecar: bool,
    /// Ports whose protocol is not detected.
    pub opaque_ports: String,
    /// Ports of the proxy.
    pub ports: Ports,
    /// Inbound ports that only meshed clients may use.
    pub require_identity_on_inbound_ports: String,
    /// Resources of every injected container but the debug one.
    pub resources: Resources,
    /// Worker threads.
    pub runtime: Runtime,
    /// Extra fields of the proxy's security context.
    pub security_context: Map<String, Value>,
    /// How long the proxy drains.
    pub shutdown_grace_period: String,
    /// Traces.
    pub tracing: Tracing,
    /// User of the proxy.
    pub uid: i64,
    /// How long the proxy sleeps before it stops (classic sidecars), in seconds.
    pub wait_before_exit_seconds: u64,
}

impl Default for Proxy {
    fn default() -> Self {
        Self {
            access_log: String::new(),
            additional_env: Vec::new(),
            experimental_env: Vec::new(),
            r#await: true,
            control: Control::default(),
            cores: 0,
            default_inbound_policy: "all-unauthenticated".to_owned(),
            disable_inbound_protocol_detect_timeout: false,
            disable_outbound_protocol_detect_timeout: false,
            enable_external_profiles: false,
            enable_shutdown_endpoint: false,
            gid: -1,
            image: Image {
                name: "cr.l5d.io/linkerd/proxy".to_owned(),
                ..Image::default()
            },
            inbound: keep_alive(),
            outbound: keep_alive(),
            inbound_connect_timeout: "100ms".to_owned(),
            outbound_connect_timeout: "1000ms".to_owned(),
            inbound_discovery_cache_unused_timeout: "90s".to_owned(),
            outbound_discovery_cache_unused_timeout: "5s".to_owned(),
            is_gateway: false,
            is_ingress: false,
            liveness_probe: Probe {
                initial_delay_seconds: 10,
                timeout_seconds: 1,
            },
            readiness_probe: Probe {
                initial_delay_seconds: 2,
                timeout_seconds: 1,
            },
            startup_probe: StartupProbe::default(),
            log_format: "plain".to_owned(),
            log_http_headers: "off".to_owned(),
            log_level: "warn,linkerd=info,hickory=error".to_owned(),
            metrics: Metrics::default(),
            native_sidecar: true,
            opaque_ports: "25,587,3306,4444,5432,6379,9300,11211".to_owned(),
            ports: Ports::default(),
            require_identity_on_inbound_ports: String::new(),
            resources: Resources::default(),
            runtime: Runtime::default(),
            security_context: Map::new(),
            shutdown_grace_period: String::new(),
            tracing: Tracing::default(),
            uid: 2102,
            wait_before_exit_seconds: 0,
        }
    }
}

/// The chart's HTTP/2 keep-alive, the same in both directions.
fn keep_alive() -> Map<String, Value> {
    let http2 = serde_json::json!({"http2": {"keepAliveInterval": "10s", "keepAliveTimeout": "3s"}});
    Map::from_iter([("server".to_owned(), http2)])
}

/// `proxy.control`
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Control {
    /// Timeouts of streams.
    pub streams: Streams,
}

/// `proxy.control.streams`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Streams {
    /// Until the first message.
    pub initial_timeout: String,
    /// Between messages.
    pub idle_timeout: String,
    /// Of a whole stream.
    pub lifetime: String,
}

impl Default for Streams {
    fn default() -> Self {
        Self {
            initial_timeout: "3s".to_owned(),
            idle_timeout: "5m".to_owned(),
            lifetime: "1h".to_owned(),
        }
    }
}

/// `proxy.livenessProbe`, `proxy.readinessProbe`
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Probe {
    /// Seconds before the first probe.
    pub initial_delay_seconds: i64,
    /// Seconds that a probe may take.
    pub timeout_seconds: i64,
}

/// `proxy.startupProbe`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StartupProbe {
    /// Seconds before the first probe.
    pub initial_delay_seconds: i64,
    /// Seconds between probes.
    pub period_seconds: i64,
    /// Failures before the pod is given up.
    pub failure_threshold: i64,
}

impl Default for StartupProbe {
    fn default() -> Self {
        Self {
            initial_delay_seconds: 0,
            period_seconds: 1,
            failure_threshold: 120,
        }
    }
}

/// `proxy.metrics`
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Metrics {
    /// Whether outbound metrics carry host names.
    pub hostname_labels: bool,
}

/// `proxy.ports`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Ports {
    /// Probes and metrics.
    pub admin: i32,
    /// Control.
    pub control: i32,
    /// Redirected inbound traffic.
    pub inbound: i32,
    /// Redirected outbound traffic.
    pub outbound: i32,
}

impl Default for Ports {
    fn default() -> Self {
        Self {
            admin: 4191,
            control: 4190,
            inbound: 4143,
            outbound: 4140,
        }
    }
}

/// `proxy.resources`
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct Resources {
    /// Cores.
    pub cpu: Bounds,
    /// Bytes.
    pub memory: Bounds,
    /// Bytes.
    pub ephemeral_storage: Bounds,
}

/// Request and limit of one resource, as quantities; unset where empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Bounds {
    /// What the scheduler sets aside.
    pub request: String,
    /// What is never exceeded.
    pub limit: String,
}

/// `proxy.runtime`
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Runtime {
    /// Worker threads.
    pub workers: Workers,
}

/// `proxy.runtime.workers`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Workers {
    /// The fewest.
    pub minimum: i64,
    /// The most; 0 for no bound.
    pub maximum: i64,
    /// The most, as a share of the node's cores; 0 for no bound.
    #[serde(rename = "maximumCPURatio")]
    pub maximum_cpu_ratio: f64,
}

impl Default for Workers {
    fn default() -> Self {
        Self {
            minimum: 1,
            maximum: 0,
            maximum_cpu_ratio: 0.0,
        }
    }
}

/// `proxy.tracing`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Tracing {
    /// Whether the proxy exports traces.
    pub enabled: bool,
    /// Wire protocol; `opentelemetry` where empty.
    pub protocol: String,
    /// Service name of the proxy's own spans.
    pub trace_service_name: String,
    /// Attributes of every span.
    pub labels: BTreeMap<String, String>,
    /// Where traces go.
    pub collector: Collector,
}

impl Default for Tracing {
    fn default() -> Self {
        let label = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        Self {
            enabled: false,
            protocol: String::new(),
            trace_service_name: "linkerd-proxy".to_owned(),
            labels: BTreeMap::from([
                label("k8s.pod.ip", "$(_pod_ip)"),
                label("k8s.pod.uid", "$(_pod_uid)"),
                label("k8s.container.name", "$(_pod_containerName)"),
            ]),
            collector: Collector::default(),
        }
    }
}

/// `proxy.tracing.collector`
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Collector {
    /// `host:port`
    pub endpoint: String,
    /// Who the collector is in the mesh.
    pub mesh_identity: MeshIdentity,
}

/// `proxy.tracing.collector.meshIdentity`
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MeshIdentity {
    /// Namespace of the collector.
    pub namespace: String,
    /// Account of the collector.
    pub service_account_name: String,
}
