use super::*;
use serde_json::json;

mod agreement;
mod gateway;
mod refused;

fn policy(id: &str, spec: Value) -> Policy {
    let (kind, namespace, name) = match id.split_once('/') {
        Some((namespace, name)) => ("EgressPolicy", namespace, name),
        None => ("ClusterEgressPolicy", "", id),
    };
    let mut object = json!({
        "apiVersion": "outrigger.linkerd.io/v1alpha1", "kind": kind,
        "metadata": {"name": name, "namespace": namespace},
    });
    object["spec"] = spec;
    Policy::read(&object, "default")
        .unwrap()
        .unwrap_or_else(|error| panic!("{error}"))
}

fn compiled<const N: usize>(all: [(&str, Value); N]) -> Compiled {
    compiled_beside(all, &[])
}

fn compiled_beside<const N: usize>(all: [(&str, Value); N], others: &[Value]) -> Compiled {
    let policies = Policies::new(all.map(|(id, spec)| policy(id, spec)));
    compile(&policies, &Surroundings::read(others, GLOBAL_NAMESPACE, "default"))
}

/// Each route: `KIND namespace network:port,… host,… (what it does)`.
fn routes(compiled: &Compiled) -> Vec<String> {
    let mut found = Vec::new();
    for object in &compiled.objects {
        let kind = object["kind"].as_str().unwrap();
        if kind == "EgressNetwork" {
            continue;
        }
        let parents = object["spec"]["parentRefs"].as_array().unwrap();
        let ports: Vec<_> = parents.iter().map(|parent| parent["port"].to_string()).collect();
        let network = parents[0]["name"].as_str().unwrap().trim_start_matches("outrigger-");
        let hosts = object["spec"]["hostnames"].as_array().into_iter().flatten();
        let hosts: Vec<_> = hosts.map(|host| host.as_str().unwrap()).collect();
        let filter = object["spec"]["rules"][0]["filters"][0]["type"]
            .as_str()
            .unwrap_or("as it is");
        let namespace = object["metadata"]["namespace"].as_str().unwrap();
        found.push(format!(
            "{kind} {namespace} {network}:{} {} {filter}",
            ports.join(","),
            hosts.join(",")
        ));
    }
    found
}

/// Each network: `namespace name policy range,…`.
fn networks(compiled: &Compiled) -> Vec<String> {
    let of = compiled
        .objects
        .iter()
        .filter(|object| object["kind"] == "EgressNetwork");
    of.map(|object| {
        let text = |pointer: &str| {
            object
                .pointer(pointer)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        let ranges = object["spec"]["networks"].as_array().into_iter().flatten();
        let ranges: Vec<_> = ranges.map(|range| range["cidr"].as_str().unwrap()).collect();
        let (namespace, name) = (text("/metadata/namespace"), text("/metadata/name"));
        format!(
            "{namespace} {name} {} {}",
            text("/spec/trafficPolicy"),
            ranges.join(",")
        )
    })
    .collect()
}

/// Each policy's reasons and the last message.
fn verdicts(compiled: &Compiled) -> Vec<String> {
    let verdict = |verdict: &Verdict| {
        let [accepted, programmed] = &verdict.conditions;
        format!("{} {} {}", verdict.policy, accepted.reason, programmed.reason)
    };
    compiled.verdicts.iter().map(verdict).collect()
}

#[test]
fn an_allowlist_closes_everything_but_its_hosts() {
    let compiled = compiled([(
        "agents/github",
        json!({"hosts": ["API.github.com."], "allowlist": "Enabled"}),
    )]);
    assert_eq!(
        networks(&compiled),
        [
            "agents outrigger-outside Deny ",
            "agents outrigger-metadata Deny 169.254.169.254/32,169.254.170.2/32,169.254.0.23/32,100.100.100.200/32,168.63.129.16/32,\
         fd00:ec2::254/128,fd20:ce::254/128",
        ]
    );
    assert_eq!(
        routes(&compiled),
        [
            "HTTPRoute agents outside:80 api.github.com RequestRedirect",
            "TLSRoute agents outside:443 api.github.com as it is",
        ]
    );
    assert_eq!(verdicts(&compiled), ["EgressPolicy/agents/github Accepted Programmed"]);
}

#[test]
fn without_an_allowlist_the_rest_passes() {
    let compiled = compiled([
        ("shop/strict", json!({"hosts": ["a.example"], "ports": [{"port": 443}]})),
        (
            "shop/mild",
            json!({"hosts": ["*.b.example"], "tls": {"mode": "Optional"}}),
        ),
        (
            "shop/rpc",
            json!({"hosts": ["c.example"], "ports": [{"port": 50051, "protocol": "GRPC"}], "tls": {"mode": "Optional"}}),
        ),
    ]);
    assert!(networks(&compiled)[0].contains("outside Allow"));
    assert_eq!(
        routes(&compiled),
        [
            "HTTPRoute shop outside:80,443 *.b.example RequestHeaderModifier",
            "HTTPRoute shop outside:443 a.example RequestRedirect",
        ]
    );
    assert_eq!(
        verdicts(&compiled),
        [
            "EgressPolicy/shop/mild Accepted Programmed",
            "EgressPolicy/shop/rpc Accepted Conflicted",
            "EgressPolicy/shop/strict Accepted Programmed",
        ]
    );
}

#[test]
fn addresses_get_a_network_of_their_own_that_hosts_are_reached_through_too() {
    let tcp = json!([{"port": 5432, "protocol": "TCP"}]);
    let compiled = compiled([
        (
            "shop/database",
            json!({"addresses": ["203.0.113.0/24", "203.0.113.7", "2001:db8::/32"], "ports": tcp, "allowlist": "Enabled"}),
        ),
        ("shop/web", json!({"hosts": ["a.example"], "ports": [{"port": 443}]})),
    ]);
    let found = networks(&compiled);
    assert!(
        found.contains(&"shop outrigger-203-0-113-7-32 Deny 203.0.113.7/32".to_owned()),
        "{found:?}"
    );
    assert!(
        found.contains(&"shop outrigger-2001-db8---32 Deny 2001:db8::/32".to_owned()),
        "{found:?}"
    );
    let found = routes(&compiled);
    for network in ["203-0-113-0-24", "203-0-113-7-32", "2001-db8---32"] {
        assert!(
            found.contains(&format!("TCPRoute shop {network}:5432  as it is")),
            "{found:?}"
        );
        assert!(
            found.contains(&format!("TLSRoute shop {network}:443 a.example as it is")),
            "{found:?}"
        );
    }
    assert_eq!(found.len(), 7, "{found:?}");
}

#[test]
fn a_metadata_service_is_reached_by_who_names_it() {
    let compiled = compiled([
        (
            "cloud/address",
            json!({"addresses": ["169.254.169.254"], "ports": [{"port": 80, "protocol": "TCP"}]}),
        ),
        (
            "cloud/any",
            json!({"addresses": ["0.0.0.0/0"], "ports": [{"port": 80, "protocol": "TCP"}]}),
        ),
        (
            "cloud/name",
            json!({"hosts": ["metadata.goog"], "ports": [{"port": 80, "protocol": "HTTP"}]}),
        ),
    ]);
    let found = routes(&compiled);
    assert!(!networks(&compiled)[1].contains("169.254.169.254"));
    let to_address: Vec<_> = found
        .iter()
        .filter(|route| route.contains("169-254-169-254-32"))
        .collect();
    assert_eq!(to_address.len(), 1, "{found:?}");
    assert!(
        found
            .iter()
            .any(|route| route.starts_with("HTTPRoute cloud metadata:80 metadata.goog")),
        "{found:?}"
    );
    // The one for every address has its port there, and HTTP comes second.
    assert!(
        verdicts(&compiled).contains(&"EgressPolicy/cloud/name Accepted Conflicted".to_owned()),
        "{:?}",
        verdicts(&compiled)
    );
}

#[test]
fn a_port_has_routes_of_one_kind() {
    let compiled = compiled([
        (
            "shop/a",
            json!({"hosts": ["a.example"], "ports": [{"port": 8443}], "allowlist": "Enabled"}),
        ),
        (
            "shop/b",
            json!({"hosts": ["b.example"], "ports": [{"port": 8443, "protocol": "HTTP"}, {"port": 8080, "protocol": "HTTP"}]}),
        ),
    ]);
    assert_eq!(
        routes(&compiled),
        [
            "TLSRoute shop outside:8443 a.example as it is",
            "HTTPRoute shop outside:8080 b.example RequestHeaderModifier",
        ]
    );
    let message = &compiled.verdicts[1].conditions[1].message;
    assert!(
        message.contains("port 8443: EgressPolicy/shop/a has routes of the kind TLSRoute there"),
        "{message}"
    );
    assert!(!compiled.verdicts[1].is_good());
}

#[test]
fn of_two_policies_for_a_host_one_is_compiled() {
    let on_443 = |tls: &str| json!({"hosts": ["a.example"], "ports": [{"port": 443}], "tls": {"mode": tls}});
    let mut wide = on_443("Optional");
    wide["hosts"] = json!(["a.example", "b.example"]);
    let compiled = compiled([
        ("shop/mild", on_443("Optional")),
        ("shop/wide", wide),
        ("strict", on_443("Enforced")),
    ]);
    let found = routes(&compiled);
    assert!(
        found.contains(&"HTTPRoute shop outside:443 a.example RequestRedirect".to_owned()),
        "{found:?}"
    );
    assert!(
        found.contains(&"HTTPRoute shop outside:443 b.example RequestHeaderModifier".to_owned()),
        "{found:?}"
    );
    assert_eq!(
        found.iter().filter(|route| route.contains(" shop ")).count(),
        2,
        "{found:?}"
    );
    assert_eq!(
        verdicts(&compiled),
        [
            "ClusterEgressPolicy/strict Accepted Programmed",
            "EgressPolicy/shop/mild Accepted Shadowed",
            "EgressPolicy/shop/wide Accepted Overridden",
        ]
    );
    let message = &compiled.verdicts[1].conditions[1].message;
    assert!(
        message.contains("ClusterEgressPolicy/strict decides, for it is stricter"),
        "{message}"
    );
}

#[test]
fn an_operators_policies_are_in_every_namespace_that_has_its_own() {
    let host = |host: &str| json!({"hosts": [host], "ports": [{"port": 443}], "allowlist": "Enabled"});
    let compiled = compiled([("shop/a", host("a.example")), ("all", host("all.example"))]);
    let found = routes(&compiled);
    assert_eq!(
        found,
        [
            "TLSRoute linkerd-egress outside:443 all.example as it is",
            "TLSRoute shop outside:443 all.example as it is",
            "TLSRoute shop outside:443 a.example as it is",
        ]
    );
}

#[test]
fn networks_of_others_are_reported() {
    let foreign = |namespace: &str, labels: Value| {
        json!({
            "apiVersion": "policy.linkerd.io/v1alpha1", "kind": "EgressNetwork",
            "metadata": {"name": "theirs", "namespace": namespace, "labels": labels},
        })
    };
    let host = json!({"hosts": ["a.example"]});
    let both = || [("shop/a", host.clone()), ("all", host.clone())];
    let compiled = compiled_beside(both(), &[foreign("shop", json!({}))]);
    assert_eq!(
        verdicts(&compiled),
        [
            "ClusterEgressPolicy/all Accepted ForeignEgressNetwork",
            "EgressPolicy/shop/a Accepted ForeignEgressNetwork",
        ]
    );
    let message = &compiled.verdicts[0].conditions[1].message;
    assert!(message.ends_with("beside it: shop/theirs"), "{message}");
    let compiled = compiled_beside(both(), &[foreign("bank", json!({}))]);
    assert_eq!(
        verdicts(&compiled)[0],
        "ClusterEgressPolicy/all Accepted ForeignEgressNetwork"
    );
    assert_eq!(verdicts(&compiled)[1], "EgressPolicy/shop/a Accepted Programmed");
    let ours = json!({MANAGED_BY.0: MANAGED_BY.1});
    let compiled = compiled_beside(both(), &[foreign("shop", ours)]);
    assert_eq!(verdicts(&compiled)[1], "EgressPolicy/shop/a Accepted Programmed");
}

#[test]
fn what_is_observed_is_not_closed() {
    let spec = json!({"hosts": ["a.example"], "allowlist": "Enabled", "mode": "Observe"});
    let compiled = compiled([("shop/a", spec)]);
    assert!(
        networks(&compiled).iter().all(|network| network.contains(" Allow ")),
        "{:?}",
        networks(&compiled)
    );
    assert_eq!(
        routes(&compiled),
        ["HTTPRoute shop outside:80,443 a.example RequestHeaderModifier"]
    );
}

#[test]
fn a_route_has_sixteen_hosts_at_most_and_names_are_its_own() {
    let hosts: Vec<_> = (0..40).map(|number| format!("h{number}.example")).collect();
    let name = "n".repeat(253);
    let compiled = compiled([(
        &format!("shop/{name}"),
        json!({"hosts": hosts, "ports": [{"port": 443}]}),
    )]);
    // Each of the redirecting routes is for one port.
    assert_eq!(routes(&compiled).len(), 3);
    let names: BTreeSet<_> = compiled
        .objects
        .iter()
        .map(|object| object["metadata"]["name"].as_str().unwrap())
        .collect();
    assert_eq!(names.len(), compiled.objects.len());
    assert!(names.iter().all(|name| name.len() <= 253));
}
