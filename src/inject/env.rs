//! The environment of the proxy. Order and names are those of Linkerd's injector; later variables may refer to earlier.

use super::container::{EnvVar, FieldRef, FieldSource};
use super::{PROXY, parameters, proxy, volumes};
use crate::config::values::Values;
use crate::config::{Config, Installation};
use crate::pod::{Pod, integer, list};
use serde::ser::{Serialize, SerializeSeq, Serializer};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::BTreeSet;

/// What the environment is made from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Source<'a> {
    pub(super) installation: &'a Installation,
    pub(super) config: &'a Config,
}

/// The variables of the proxy around the one that holds the pod's ports: all that depends on the pod itself.
#[derive(Clone, Debug)]
pub(super) struct Variables<V> {
    pub(super) before: Vec<V>,
    pub(super) after: Vec<V>,
}

/// Variables, as JSON, with the pod's ports among them: the whole list.
pub(super) struct WithPorts<'a> {
    variables: &'a Variables<Box<RawValue>>,
    ports: EnvVar<'a>,
}

impl<V> Variables<V> {
    /// Every variable in another form.
    pub(super) fn map<W>(&self, form: impl Fn(&V) -> W) -> Variables<W> {
        Variables {
            before: self.before.iter().map(&form).collect(),
            after: self.after.iter().map(&form).collect(),
        }
    }
}

impl Variables<Box<RawValue>> {
    /// The environment of the proxy of `pod`.
    pub(super) fn with_ports_of(&self, pod: &Pod<'_>) -> WithPorts<'_> {
        let ports = EnvVar::Value {
            name: "LINKERD2_PROXY_INBOUND_PORTS".into(),
            value: inbound_ports(pod).into(),
        };
        WithPorts { variables: self, ports }
    }
}

impl Serialize for WithPorts<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Variables { before, after } = self.variables;
        let mut list = serializer.serialize_seq(None)?;
        before.iter().try_for_each(|it| list.serialize_element(it))?;
        list.serialize_element(&self.ports)?;
        after.iter().try_for_each(|it| list.serialize_element(it))?;
        list.end()
    }
}

/// Variables under construction.
struct Environment<'a> {
    variables: Vec<EnvVar<'a>>,
}

impl<'a> Environment<'a> {
    /// Room for what every proxy has, so that the list grows at most once.
    fn roomy() -> Self {
        Self {
            variables: Vec::with_capacity(48),
        }
    }

    fn set(&mut self, name: &'static str, value: impl Into<Cow<'a, str>>) {
        self.variables.push(EnvVar::Value {
            name: name.into(),
            value: value.into(),
        });
    }

    fn set_unless_empty(&mut self, name: &'static str, value: &'a str) {
        if !value.is_empty() {
            self.set(name, value);
        }
    }

    fn set_if(&mut self, condition: bool, name: &'static str, value: impl Into<Cow<'a, str>>) {
        if condition {
            self.set(name, value);
        }
    }

    fn field(&mut self, name: &'static str, field_path: &'static str) {
        self.variables.push(EnvVar::Field {
            name,
            value_from: FieldSource {
                field_ref: FieldRef { field_path },
            },
        });
    }
}

/// Every variable of the proxy but the pod's ports.
pub(super) fn variables<'a>(source: &Source<'a>) -> Variables<EnvVar<'a>> {
    Variables {
        before: before_ports(source),
        after: after_ports(source),
    }
}

fn before_ports<'a>(source: &Source<'a>) -> Vec<EnvVar<'a>> {
    let mut env = Environment::roomy();
    let values = &source.config.values;
    pod_fields(&mut env);
    cores(&mut env, values);
    logs_and_control_plane(&mut env, source);
    timeouts(&mut env, values);
    listeners(&mut env, values);
    env.variables
}

fn after_ports<'a>(source: &Source<'a>) -> Vec<EnvVar<'a>> {
    let mut env = Environment::roomy();
    let values = &source.config.values;
    connections(&mut env, values);
    if values.proxy.tracing.enabled {
        tracing(&mut env, source);
    }
    for (direction, scopes) in [("INBOUND", &values.proxy.inbound), ("OUTBOUND", &values.proxy.outbound)] {
        let parameters = parameters::variables(direction, scopes).into_iter();
        env.variables.extend(parameters.map(|(name, value)| EnvVar::Value {
            name: name.into(),
            value: value.into(),
        }));
    }
    env.set_unless_empty(
        "LINKERD2_PROXY_INBOUND_PORTS_DISABLE_PROTOCOL_DETECTION",
        &values.proxy.opaque_ports,
    );
    identity(&mut env, source);
    env.set_unless_empty("LINKERD2_PROXY_ACCESS_LOG", &values.proxy.access_log);
    env.set_unless_empty(
        "LINKERD2_PROXY_SHUTDOWN_GRACE_PERIOD",
        &values.proxy.shutdown_grace_period,
    );
    let given = values.proxy.additional_env.iter().chain(&values.proxy.experimental_env);
    env.variables.extend(given.map(EnvVar::Given));
    env.variables
}

fn pod_fields(env: &mut Environment<'_>) {
    env.field("_pod_name", "metadata.name");
    env.field("_pod_ns", "metadata.namespace");
    env.field("_pod_uid", "metadata.uid");
    env.field("_pod_ip", "status.podIP");
    env.field("_pod_nodeName", "spec.nodeName");
    env.set("_pod_containerName", PROXY);
}

fn cores(env: &mut Environment<'_>, values: &Values) {
    let workers = &values.proxy.runtime.workers;
    let (minimum, bounded) = match values.proxy.cores {
        0 => (workers.minimum.max(1), true),
        cores => (cores, false),
    };
    let nothing = workers.minimum == 0 && workers.maximum == 0 && workers.maximum_cpu_ratio == 0.0;
    if bounded && nothing {
        return;
    }
    env.set("LINKERD2_PROXY_CORES", minimum.to_string());
    env.set("LINKERD2_PROXY_CORES_MIN", minimum.to_string());
    env.set_if(
        bounded && workers.maximum != 0,
        "LINKERD2_PROXY_CORES_MAX",
        workers.maximum.to_string(),
    );
    let ratio = workers.maximum_cpu_ratio;
    env.set_if(
        bounded && ratio != 0.0,
        "LINKERD2_PROXY_CORES_MAX_RATIO",
        ratio.to_string(),
    );
}

fn logs_and_control_plane<'a>(env: &mut Environment<'a>, source: &Source<'a>) {
    let values = &source.config.values;
    let proxy = &values.proxy;
    let namespace = &source.installation.control_plane_namespace;
    let service = |name: &str, port: u16| format!("{name}.{namespace}.svc.{}.:{port}", values.cluster_domain);
    env.set_unless_empty(
        "LINKERD2_PROXY_INBOUND_PORTS_REQUIRE_IDENTITY",
        &proxy.require_identity_on_inbound_ports,
    );
    env.set(
        "LINKERD2_PROXY_SHUTDOWN_ENDPOINT_ENABLED",
        word(proxy.enable_shutdown_endpoint),
    );
    let headers = if proxy.log_http_headers == "insecure" {
        ""
    } else {
        ",[{headers}]=off,[{request}]=off"
    };
    env.set("LINKERD2_PROXY_LOG", format!("{}{headers}", proxy.log_level));
    env.set("LINKERD2_PROXY_LOG_FORMAT", proxy.log_format.as_str());
    env.set(
        "LINKERD2_PROXY_DESTINATION_SVC_ADDR",
        service("linkerd-dst-headless", 8086),
    );
    env.set(
        "LINKERD2_PROXY_DESTINATION_PROFILE_NETWORKS",
        values.cluster_networks.as_str(),
    );
    env.set("LINKERD2_PROXY_POLICY_SVC_ADDR", service("linkerd-policy", 8090));
    env.set(
        "LINKERD2_PROXY_POLICY_WORKLOAD",
        "{\"ns\":\"$(_pod_ns)\", \"pod\":\"$(_pod_name)\"}\n",
    );
    env.set(
        "LINKERD2_PROXY_INBOUND_DEFAULT_POLICY",
        proxy.default_inbound_policy.as_str(),
    );
    env.set(
        "LINKERD2_PROXY_POLICY_CLUSTER_NETWORKS",
        values.cluster_networks.as_str(),
    );
    let streams = &proxy.control.streams;
    env.set(
        "LINKERD2_PROXY_CONTROL_STREAM_INITIAL_TIMEOUT",
        streams.initial_timeout.as_str(),
    );
    env.set(
        "LINKERD2_PROXY_CONTROL_STREAM_IDLE_TIMEOUT",
        streams.idle_timeout.as_str(),
    );
    env.set("LINKERD2_PROXY_CONTROL_STREAM_LIFETIME", streams.lifetime.as_str());
}

fn timeouts<'a>(env: &mut Environment<'a>, values: &'a Values) {
    let proxy = &values.proxy;
    env.set_unless_empty("LINKERD2_PROXY_INBOUND_CONNECT_TIMEOUT", &proxy.inbound_connect_timeout);
    env.set_unless_empty(
        "LINKERD2_PROXY_OUTBOUND_CONNECT_TIMEOUT",
        &proxy.outbound_connect_timeout,
    );
    let idle = &proxy.outbound_discovery_cache_unused_timeout;
    env.set_unless_empty("LINKERD2_PROXY_OUTBOUND_DISCOVERY_IDLE_TIMEOUT", idle);
    let idle = &proxy.inbound_discovery_cache_unused_timeout;
    env.set_unless_empty("LINKERD2_PROXY_INBOUND_DISCOVERY_IDLE_TIMEOUT", idle);
    // A year stands for no timeout.
    let (outbound, inbound) = (
        proxy.disable_outbound_protocol_detect_timeout,
        proxy.disable_inbound_protocol_detect_timeout,
    );
    env.set_if(outbound, "LINKERD2_PROXY_OUTBOUND_DETECT_TIMEOUT", "365d");
    env.set_if(inbound, "LINKERD2_PROXY_INBOUND_DETECT_TIMEOUT", "365d");
}

fn listeners(env: &mut Environment<'_>, values: &Values) {
    let ports = &values.proxy.ports;
    let any = if values.disable_ipv6 { "0.0.0.0" } else { "[::]" };
    env.set("LINKERD2_PROXY_CONTROL_LISTEN_ADDR", format!("{any}:{}", ports.control));
    env.set("LINKERD2_PROXY_ADMIN_LISTEN_ADDR", format!("{any}:{}", ports.admin));
    let outbound = format!("127.0.0.1:{}", ports.outbound);
    let both = match values.disable_ipv6 {
        true => outbound.clone(),
        false => format!("{outbound},[::1]:{}", ports.outbound),
    };
    env.set("LINKERD2_PROXY_OUTBOUND_LISTEN_ADDR", outbound);
    env.set("LINKERD2_PROXY_OUTBOUND_LISTEN_ADDRS", both);
    env.set("LINKERD2_PROXY_INBOUND_LISTEN_ADDR", format!("{any}:{}", ports.inbound));
    env.field("LINKERD2_PROXY_INBOUND_IPS", "status.podIPs");
}

/// Ports of init and application containers and of their HTTP probes, in ascending order *as text*.
fn inbound_ports(pod: &Pod<'_>) -> String {
    let mut ports = BTreeSet::new();
    for container in pod.init_containers().iter().chain(pod.containers()) {
        ports.extend(
            list(container, "ports")
                .filter_map(|port| integer(port, "containerPort"))
                .map(|p| p.to_string()),
        );
        let probed = ["readinessProbe", "livenessProbe"]
            .into_iter()
            .filter_map(|probe| integer(container.get(probe)?.get("httpGet")?, "port"));
        ports.extend(probed.map(|port| port.to_string()));
    }
    ports.into_iter().collect::<Vec<_>>().join(",")
}

fn connections<'a>(env: &mut Environment<'a>, values: &'a Values) {
    let services = format!("svc.{}.", values.cluster_domain);
    env.set_if(
        values.proxy.is_gateway,
        "LINKERD2_PROXY_INBOUND_GATEWAY_SUFFIXES",
        services.clone(),
    );
    env.set_if(values.proxy.is_ingress, "LINKERD2_PROXY_INGRESS_MODE", "true");
    let profiles = if values.proxy.enable_external_profiles {
        ".".to_owned()
    } else {
        services
    };
    env.set("LINKERD2_PROXY_DESTINATION_PROFILE_SUFFIXES", profiles);
    env.set("LINKERD2_PROXY_INBOUND_ACCEPT_KEEPALIVE", "10000ms");
    env.set("LINKERD2_PROXY_OUTBOUND_CONNECT_KEEPALIVE", "10000ms");
    env.set("LINKERD2_PROXY_INBOUND_ACCEPT_USER_TIMEOUT", "30s");
    env.set("LINKERD2_PROXY_OUTBOUND_CONNECT_USER_TIMEOUT", "30s");
    env.set(
        "LINKERD2_PROXY_OUTBOUND_METRICS_HOSTNAME_LABELS",
        word(values.proxy.metrics.hostname_labels),
    );
}

fn tracing<'a>(env: &mut Environment<'a>, source: &Source<'a>) {
    let tracing = &source.config.values.proxy.tracing;
    env.set(
        "LINKERD2_PROXY_TRACE_ATTRIBUTES_PATH",
        "/var/run/linkerd/podinfo/labels",
    );
    env.set(
        "LINKERD2_PROXY_TRACE_ANNOTATIONS_PATH",
        "/var/run/linkerd/podinfo/annotations",
    );
    let protocol = if tracing.protocol.is_empty() {
        "opentelemetry"
    } else {
        &tracing.protocol
    };
    env.set("LINKERD2_PROXY_TRACE_PROTOCOL", protocol);
    env.set("LINKERD2_PROXY_TRACE_SERVICE_NAME", tracing.trace_service_name.as_str());
    env.set(
        "LINKERD2_PROXY_TRACE_COLLECTOR_SVC_ADDR",
        tracing.collector.endpoint.as_str(),
    );
    let mesh = &tracing.collector.mesh_identity;
    let collector = identity_name(source, &format!("{}.{}", mesh.service_account_name, mesh.namespace));
    env.set("LINKERD2_PROXY_TRACE_COLLECTOR_SVC_NAME", collector);
    let attributes: String = tracing
        .labels
        .iter()
        .flat_map(|(key, value)| [key, "=", value, "\n"])
        .collect();
    env.set("LINKERD2_PROXY_TRACE_EXTRA_ATTRIBUTES", attributes);
}

fn identity<'a>(env: &mut Environment<'a>, source: &Source<'a>) {
    let values = &source.config.values;
    let namespace = source.installation.control_plane_namespace.as_str();
    let context = "{\"ns\":\"$(_pod_ns)\", \"nodeName\":\"$(_pod_nodeName)\", \"pod\":\"$(_pod_name)\"}\n";
    env.set("LINKERD2_PROXY_DESTINATION_CONTEXT", context);
    env.field("_pod_sa", "spec.serviceAccountName");
    env.set("_l5d_ns", namespace);
    env.set("_l5d_trustdomain", values.trust_domain());
    env.set("LINKERD2_PROXY_IDENTITY_DIR", proxy::IDENTITY_FOLDER);
    env.set(
        "LINKERD2_PROXY_IDENTITY_TRUST_ANCHORS",
        source.installation.trust_anchors.as_str(),
    );
    let token = match values.identity.service_account_token_projection {
        true => format!("{}/{}", proxy::TOKENS, volumes::IDENTITY_TOKEN),
        false => format!("{}/token", proxy::SERVICE_ACCOUNT),
    };
    env.set("LINKERD2_PROXY_IDENTITY_TOKEN_FILE", token);
    let service = format!(
        "linkerd-identity-headless.{namespace}.svc.{}.:8080",
        values.cluster_domain
    );
    env.set("LINKERD2_PROXY_IDENTITY_SVC_ADDR", service);
    env.set(
        "LINKERD2_PROXY_IDENTITY_LOCAL_NAME",
        identity_name(source, "$(_pod_sa).$(_pod_ns)"),
    );
    env.set(
        "LINKERD2_PROXY_IDENTITY_SVC_NAME",
        identity_name(source, &format!("linkerd-identity.{namespace}")),
    );
    let destination = identity_name(source, &format!("linkerd-destination.{namespace}"));
    env.set("LINKERD2_PROXY_DESTINATION_SVC_NAME", destination.clone());
    env.set("LINKERD2_PROXY_POLICY_SVC_NAME", destination);
}

/// The mesh identity of an account, given as `name.namespace`.
fn identity_name(source: &Source<'_>, account: &str) -> String {
    let namespace = &source.installation.control_plane_namespace;
    format!(
        "{account}.serviceaccount.identity.{namespace}.{}",
        source.config.values.trust_domain()
    )
}

fn word(flag: bool) -> &'static str {
    if flag { "true" } else { "false" }
}
