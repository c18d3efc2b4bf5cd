use super::*;
use serde_json::json;

fn read(spec: Value) -> Result<Policy, String> {
    let mut object = json!({
        "apiVersion": "outrigger.linkerd.io/v1alpha1", "kind": "EgressPolicy",
        "metadata": {"name": "github", "namespace": "agents"},
    });
    object["spec"] = spec;
    let policy = Policy::read(&object, "default").expect("it is a policy");
    policy.map_err(|error| error.to_string())
}

#[test]
fn what_is_not_written_is_as_documented() {
    let policy = read(json!({"hosts": ["api.github.com"]})).unwrap();
    let ports: Vec<_> = policy
        .ports
        .iter()
        .map(|port| (port.port.get(), port.protocol))
        .collect();
    assert_eq!(ports, [(80, Protocol::Detect), (443, Protocol::Detect)]);
    assert!(!policy.allowlist && policy.telemetry && policy.origination.is_none() && policy.workloads.is_none());
    assert_eq!(
        (policy.trace_headers, policy.mode, policy.placement),
        (TraceHeaders::None, Mode::Enforce, Placement::Client)
    );
    let enforced = [Protocol::Detect, Protocol::Http2, Protocol::Grpc];
    assert!(enforced.iter().all(|it| policy.tls_of(*it) == TlsMode::Enforced));
    let optional = [Protocol::Http, Protocol::Tcp, Protocol::Udp];
    assert!(optional.iter().all(|it| policy.tls_of(*it) == TlsMode::Optional));
    assert_eq!(policy.id.to_string(), "EgressPolicy/agents/github");
}

#[test]
fn what_contradicts_itself_is_refused_with_field_and_way_out() {
    for (spec, expected) in [
        (json!({}), "spec: names no hosts and no addresses"),
        (
            json!({"hosts": ["a.example"], "addresses": ["192.0.2.1"]}),
            "expected one of them",
        ),
        (
            json!({"addresses": ["192.0.2.1"]}),
            "spec.ports: addresses show no name",
        ),
        (
            json!({"addresses": ["192.0.2.1"], "ports": [{"port": 80, "protocol": "HTTP"}]}),
            "protocol TCP or UDP",
        ),
        (
            json!({"hosts": ["a.example"], "ports": [{"port": 25, "protocol": "TCP"}], "tls": {"mode": "Enforced"}}),
            "spec.tls.mode: is Enforced, and nobody looks for TLS on port 25 with protocol TCP",
        ),
        (
            json!({"hosts": ["a.example"], "ports": [{"port": 25, "protocol": "TCP"}], "tls": {"origination": {}}}),
            "spec.tls.origination: port 25 has protocol TCP",
        ),
        (
            json!({"hosts": ["a.example"], "tls": {"mode": "Optional", "origination": {}}}),
            "with origination everything leaves as TLS",
        ),
        (
            json!({"hosts": ["a.example"], "ports": [{"port": 80}, {"port": 80}]}),
            "stands twice",
        ),
        (
            json!({"hosts": ["a.example", "*", "10.0.0.1"]}),
            "spec.hosts[1]: \"*\" is no host name",
        ),
        (
            json!({"hosts": ["a.example", "*", "10.0.0.1"]}),
            "spec.hosts[2]: \"10.0.0.1\" is no host name",
        ),
        (
            json!({"addresses": ["192.0.2.1/24"], "ports": [{"port": 53, "protocol": "UDP"}]}),
            "spec.addresses[0]: \"192.0.2.1/24\" has bits after its prefix",
        ),
        (
            json!({"addresses": ["::ffff:192.0.2.1"], "ports": [{"port": 53, "protocol": "UDP"}]}),
            "expected its IPv4 form",
        ),
        (json!({"hosts": "a.example"}), "spec.hosts: invalid type"),
        (
            json!({"hosts": ["a.example"], "port": 443}),
            "spec.port: unknown field `port`",
        ),
        (
            json!({"hosts": ["a.example"], "ports": [{"port": 0}]}),
            "spec.ports[0].port: ",
        ),
        (
            json!({"hosts": ["a.example"], "ports": [{"port": 1, "protocol": "http"}]}),
            "spec.ports[0].protocol: unknown variant",
        ),
        (
            json!({"hosts": ["a.example"], "mode": "Off"}),
            "spec.mode: unknown variant `Off`",
        ),
        (json!({"hosts": ["a.example"], "allowlist": true}), "spec.allowlist: "),
    ] {
        let error = read(spec.clone()).unwrap_err();
        assert!(
            error.starts_with("EgressPolicy/agents/github: ") && error.contains(expected),
            "{spec}: {error}"
        );
    }
}

#[test]
fn other_objects_are_none_of_ours() {
    let read = |object: Value| Policy::read(&object, "default");
    assert_eq!(read(json!({"apiVersion": "v1", "kind": "Pod"})), None);
    assert_eq!(
        read(json!({"apiVersion": "egressgateway.spidernet.io/v1beta1", "kind": "EgressPolicy"})),
        None
    );
    assert_eq!(
        read(json!({"apiVersion": "outrigger.linkerd.io/v1alpha1", "kind": "Other"})),
        None
    );
    let error = read(json!({"apiVersion": "outrigger.linkerd.io/v1", "kind": "EgressPolicy"}))
        .unwrap()
        .unwrap_err();
    assert!(
        error.to_string().contains("expected outrigger.linkerd.io/v1alpha1"),
        "{error}"
    );
    let error = read(json!({"apiVersion": "outrigger.linkerd.io/v1alpha1", "kind": "ClusterEgressPolicy"}));
    assert!(
        error
            .unwrap()
            .unwrap_err()
            .to_string()
            .contains("metadata.name is missing")
    );
}
