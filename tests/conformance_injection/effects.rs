//! What each annotation does to an injected pod, from the pod and from its namespace: one row an effect.

use crate::requests::{answer, apply};
use serde_json::{Value, json};

/// Annotation (without `config.linkerd.io/` where it has that), value, where the effect shows, what shows there, and
/// whether pods inherit it from their namespace.
type Row = (&'static str, &'static str, &'static str, &'static str, bool);

/// `NAME` is a variable of the proxy without its prefix, `--flag` an argument of `linkerd-init`, `container/path` a field.
#[rustfmt::skip]
const ROWS: [Row; 52] = [
    ("access-log", "apache", "ACCESS_LOG", "apache", true),
    ("admin-port", "1", "ADMIN_LISTEN_ADDR", "0.0.0.0:1", true),
    ("admin-port", "1", "linkerd-proxy/startupProbe/httpGet/port", "1", true),
    ("admin-port", "1", "linkerd-proxy/ports/1/containerPort", "1", true),
    ("admin-port", "1", "--inbound-ports-to-ignore", "4190,1,4567,4568", true),
    ("control-port", "+2", "CONTROL_LISTEN_ADDR", "0.0.0.0:2", true),
    ("control-port", "2", "--inbound-ports-to-ignore", "2,4191,4567,4568", true),
    ("debug-image", "d", "linkerd-debug/image", "d:dev-undefined", false),
    ("debug-image-pull-policy", "Never", "linkerd-debug/imagePullPolicy", "Never", false),
    ("debug-image-version", "v", "linkerd-debug/image", "cr.l5d.io/linkerd/debug:v", false),
    ("default-inbound-policy", "deny", "INBOUND_DEFAULT_POLICY", "deny", true),
    ("enable-debug-sidecar", "t", "linkerd-debug/name", "linkerd-debug", true),
    ("enable-external-profiles", "1", "DESTINATION_PROFILE_SUFFIXES", ".", true),
    ("enable-gateway", "true", "INBOUND_GATEWAY_SUFFIXES", "svc.cluster.local.", false),
    ("image-pull-policy", "Always", "linkerd-proxy/imagePullPolicy", "Always", true),
    ("image-pull-policy", "Always", "linkerd-init/imagePullPolicy", "Always", true),
    ("inbound-port", "3", "INBOUND_LISTEN_ADDR", "0.0.0.0:3", true),
    ("inbound-port", "3", "--incoming-proxy-port", "3", true),
    ("opaque-ports", "db, 7-9,x,", "INBOUND_PORTS_DISABLE_PROTOCOL_DETECTION", "3306,7-9", true),
    ("outbound-port", "4", "OUTBOUND_LISTEN_ADDRS", "127.0.0.1:4", true),
    ("outbound-port", "4", "--outgoing-proxy-port", "4", true),
    ("proxy-additional-env", r#"[{"name":"LINKERD2_PROXY_X","value":"y"}]"#, "X", "y", true),
    ("proxy-admin-shutdown", "enabled", "SHUTDOWN_ENDPOINT_ENABLED", "true", true),
    ("proxy-cpu-limit", "2500m", "CORES_MAX", "3", true),
    ("proxy-cpu-limit", "2500m", "linkerd-init/resources/limits/cpu", "2500m", true),
    ("proxy-cpu-ratio-limit", "0.25", "CORES_MAX_RATIO", "0.25", false),
    ("proxy-cpu-request", "1500m", "CORES_MIN", "2", true),
    ("proxy-cpu-request", "1500m", "linkerd-proxy/resources/requests/cpu", "1500m", true),
    ("proxy-disable-inbound-protocol-detect-timeout", "true", "INBOUND_DETECT_TIMEOUT", "365d", true),
    ("proxy-disable-outbound-protocol-detect-timeout", "true", "OUTBOUND_DETECT_TIMEOUT", "365d", true),
    ("proxy-ephemeral-storage-limit", "1Gi", "linkerd-proxy/resources/limits/ephemeral-storage", "1Gi", true),
    ("proxy-ephemeral-storage-request", "1M", "linkerd-init/resources/requests/ephemeral-storage", "1M", true),
    ("proxy-gid", "7", "--proxy-gid", "7", true),
    ("proxy-gid", "7", "linkerd-proxy/securityContext/runAsGroup", "7", true),
    ("proxy-image", "r/p", "linkerd-init/image", "r/p:dev-undefined", true),
    ("proxy-inbound-connect-timeout", "1.5s", "INBOUND_CONNECT_TIMEOUT", "1500ms", true),
    ("proxy-inbound-discovery-cache-unused-timeout", "1m", "INBOUND_DISCOVERY_IDLE_TIMEOUT", "60s", true),
    ("proxy-log-format", "json", "LOG_FORMAT", "json", true),
    ("proxy-log-http-headers", "insecure", "LOG", "warn,linkerd=info,hickory=error", true),
    ("proxy-log-level", "a\"b", "LOG", "a\"b,[{headers}]=off,[{request}]=off", true),
    ("proxy-memory-limit", "250Mi", "linkerd-proxy/resources/limits/memory", "250Mi", true),
    ("proxy-memory-request", "20Mi", "linkerd-init/resources/requests/memory", "20Mi", true),
    ("proxy-metrics-hostname-labels", "T", "OUTBOUND_METRICS_HOSTNAME_LABELS", "true", true),
    ("proxy-outbound-connect-timeout", "2s", "OUTBOUND_CONNECT_TIMEOUT", "2000ms", true),
    ("proxy-outbound-discovery-cache-unused-timeout", "1999ms", "OUTBOUND_DISCOVERY_IDLE_TIMEOUT", "1s", true),
    ("proxy-require-identity-inbound-ports", "80", "INBOUND_PORTS_REQUIRE_IDENTITY", "80", true),
    ("proxy-uid", "9", "--proxy-uid", "9", true),
    ("proxy-version", "v9", "linkerd-proxy/image", "cr.l5d.io/linkerd/proxy:v9", true),
    ("shutdown-grace-period", "3s", "SHUTDOWN_GRACE_PERIOD", "3000ms", true),
    ("skip-inbound-ports", "25", "--inbound-ports-to-ignore", "4190,4191,25", true),
    ("skip-outbound-ports", "443", "--outbound-ports-to-ignore", "443", true),
    ("skip-subnets", "10.0.0.0/8", "--subnets-to-ignore", "10.0.0.0/8", true),
];

/// The pod with annotations of its own and of its namespace.
fn injected(pod: Value, namespace: Value, values: &Value) -> Value {
    let (mut pod, mut namespace) = (pod, namespace);
    namespace["linkerd.io/inject"] = "enabled".into();
    // Where a row is about the debug container, it is there.
    if pod.to_string().contains("debug-image") || namespace.to_string().contains("debug-image") {
        pod["config.linkerd.io/enable-debug-sidecar"] = "true".into();
    }
    let app = json!({"name": "app", "image": "app", "ports": [{"name": "db", "containerPort": 3306}]});
    let object = json!({"metadata": {"annotations": pod}, "spec": {"containers": [app]}});
    let case = json!({
        "request": {"kind": "Pod", "namespace": "shop", "object": object},
        "nsAnnotations": namespace, "clusterObjects": [], "valuesMerge": values, "valuesUnset": [], "trustAnchors": "CA",
    });
    apply(&object, json!(answer(&case).patch))
}

fn container<'a>(pod: &'a Value, name: &str) -> Option<&'a Value> {
    let lists = ["initContainers", "containers"]
        .into_iter()
        .filter_map(|list| pod["spec"][list].as_array());
    lists.flatten().find(|container| container["name"] == name)
}

/// What shows at `place`, as text.
fn shown(pod: &Value, place: &str) -> Option<String> {
    let found = match place.split_once('/') {
        Some((name, path)) => container(pod, name)?.pointer(&format!("/{path}"))?,
        None if place.starts_with("--") => {
            let arguments = container(pod, "linkerd-init")?["args"].as_array()?;
            arguments.iter().skip_while(|argument| **argument != place).nth(1)?
        }
        None => {
            let name = format!("LINKERD2_PROXY_{place}");
            let variables = container(pod, "linkerd-proxy")?["env"].as_array()?;
            &variables.iter().find(|variable| variable["name"] == name)?["value"]
        }
    };
    Some(found.as_str().map_or_else(|| found.to_string(), str::to_owned))
}

#[test]
fn each_annotation_has_its_effect_and_pods_inherit_what_linkerd_has_them_inherit() {
    let plain = injected(json!({}), json!({}), &json!({}));
    for (annotation, value, place, expected, inherited) in ROWS {
        let annotations = json!({format!("config.linkerd.io/{annotation}"): value});
        let own = injected(annotations.clone(), json!({}), &json!({}));
        assert_eq!(shown(&own, place).as_deref(), Some(expected), "{annotation} at {place}");
        let of_namespace = injected(json!({}), annotations, &json!({}));
        let from_namespace = shown(&of_namespace, place).as_deref() == Some(expected);
        assert_eq!(from_namespace, inherited, "{annotation} of the namespace at {place}");
        assert_ne!(
            shown(&plain, place).as_deref(),
            Some(expected),
            "{annotation} changes nothing at {place}"
        );
    }
}

#[test]
fn containers_stand_where_linkerd_puts_them() {
    let names = |values: Value| {
        let pod = injected(
            json!({"config.linkerd.io/enable-debug-sidecar": "true"}),
            json!({}),
            &values,
        );
        ["initContainers", "containers"].map(|list| {
            let containers = pod["spec"][list].as_array().unwrap().iter();
            let names = containers.map(|it| it["name"].as_str().unwrap().trim_start_matches("linkerd-").to_owned());
            names.collect::<Vec<_>>().join(" ")
        })
    };
    for (values, init, rest) in [
        (json!({}), "init proxy", "app debug"),
        (json!({"cniEnabled": true}), "network-validator proxy", "app debug"),
        (json!({"proxy": {"nativeSidecar": false}}), "init", "proxy app debug"),
        (
            json!({"proxy": {"nativeSidecar": false, "await": false}}),
            "init",
            "app debug proxy",
        ),
        (
            json!({"cniEnabled": true, "proxy": {"nativeSidecar": false}}),
            "network-validator",
            "proxy app debug",
        ),
    ] {
        assert_eq!(names(values.clone()), [init, rest], "{values}");
    }
}
