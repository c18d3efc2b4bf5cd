use super::*;
use crate::egress::connection::Workload;
use crate::egress::host::Host;
use crate::egress::policies::Policies;
use serde_json::{Value, json};
use std::num::NonZeroU16;

fn policy(name: &str, spec: Value) -> Policy {
    let (kind, namespace, name) = match name.split_once('/') {
        Some((namespace, name)) => ("EgressPolicy", namespace, name),
        None => ("ClusterEgressPolicy", "", name),
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

fn policies<const N: usize>(all: [(&str, Value); N]) -> Policies {
    Policies::new(all.map(|(name, spec)| policy(name, spec)))
}

fn agent() -> Workload {
    Workload {
        namespace: "agents".to_owned(),
        service_account: "agent".to_owned(),
        labels: [("app".to_owned(), "agent".to_owned())].into(),
    }
}

fn to(host: &str, port: u16, traffic: Traffic) -> Connection {
    Connection {
        host: if host.is_empty() {
            Presented::Nothing
        } else {
            Presented::of([Some(host)])
        },
        address: None,
        port: NonZeroU16::new(port).unwrap(),
        traffic,
    }
}

/// Outcome, reason and policy of each connection.
fn check(policies: &Policies, expected: &[(&str, u16, Traffic, &str)]) {
    let workload = agent();
    for (host, port, traffic, answer) in expected {
        let decision = policies.ruling(&workload);
        let decision = decision.decide(&to(host, *port, *traffic));
        let name = decision
            .policy
            .map_or_else(String::new, |policy| format!(" {}", policy.id.name));
        let found = format!("{} {}{name}", decision.outcome.word(), decision.reason.code());
        assert_eq!(found, *answer, "{host}:{port} {}", traffic.word());
    }
}

use Traffic::{Grpc, Http, Http2, Tcp, Tls, Udp};

#[test]
fn an_agent_reaches_one_host_and_nothing_else() {
    let policies = policies([(
        "agents/github",
        json!({"hosts": ["api.github.com"], "allowlist": "Enabled"}),
    )]);
    check(
        &policies,
        &[
            ("api.github.com", 443, Tls, "allowed listed github"),
            ("API.GitHub.com.", 443, Tls, "allowed listed github"),
            ("api.github.com", 80, Http, "denied tls_required github"),
            ("api.github.com", 443, Grpc, "denied tls_required github"),
            ("api.github.com", 8443, Tls, "denied port_not_listed"),
            ("api.github.com", 443, Udp, "denied port_not_listed"),
            ("api.github.com.evil.test", 443, Tls, "denied host_not_listed"),
            ("github.com", 443, Tls, "denied host_not_listed"),
            ("www.example.net", 443, Tls, "denied host_not_listed"),
            ("140.82.121.6", 443, Tls, "denied address_not_listed"),
            ("0x8c527906", 443, Tls, "denied address_not_listed"),
            ("", 443, Tls, "denied name_missing"),
            ("", 443, Tcp, "denied name_missing"),
            ("a b", 80, Http, "denied name_malformed"),
            ("169.254.169.254", 80, Http, "denied metadata_address"),
        ],
    );
}

#[test]
fn without_an_allowlist_what_is_not_listed_passes_unchanged() {
    let policies = policies([("agents/github", json!({"hosts": ["api.github.com"]}))]);
    check(
        &policies,
        &[
            ("api.github.com", 80, Http, "denied tls_required github"),
            ("www.example.net", 80, Http, "allowed no_allowlist"),
            ("", 5432, Tcp, "allowed no_allowlist"),
            ("metadata.google.internal", 80, Http, "denied metadata_address"),
            ("[fd00:ec2::254]", 80, Http, "denied metadata_address"),
        ],
    );
    let decision = policies.ruling(&agent()).decide(&to("www.example.net", 80, Http));
    assert_eq!(decision.knobs, Knobs::UNCHANGED);
    // Nobody is for this one.
    let other = Workload {
        namespace: "shop".to_owned(),
        ..agent()
    };
    let decision = policies.ruling(&other).decide(&to("169.254.169.254", 80, Http));
    assert_eq!(
        (decision.outcome, decision.reason),
        (Outcome::Allowed, Reason::NoPolicy)
    );
}

#[test]
fn a_port_is_held_to_its_protocol() {
    let spec = |protocol: &str, tls: &str| json!({"hosts": ["a.example"], "ports": [{"port": 443, "protocol": protocol}], "tls": {"mode": tls}});
    for (protocol, passing) in [
        ("HTTP", vec![Http]),
        ("HTTP2", vec![Http2, Grpc]),
        ("GRPC", vec![Grpc]),
        ("TCP", vec![Http, Http2, Grpc, Tls, Tcp]),
        ("UDP", vec![Udp]),
        ("Detect", vec![Http, Http2, Grpc, Tls]),
    ] {
        let policies = policies([("agents/a", spec(protocol, "Optional"))]);
        for traffic in Traffic::ALL {
            let decision = policies.ruling(&agent()).decide(&to("a.example", 443, traffic));
            let listed = decision.reason == Reason::Listed;
            assert_eq!(
                listed,
                passing.contains(&traffic),
                "{protocol} {}: {decision:?}",
                traffic.word()
            );
        }
    }
    check(
        &policies([("agents/a", spec("GRPC", "Optional"))]),
        &[
            ("a.example", 443, Http2, "denied protocol_mismatch a"),
            ("a.example", 443, Tls, "denied protocol_hidden a"),
        ],
    );
    let both = json!({"hosts": ["a.example"], "ports": [{"port": 443, "protocol": "GRPC"}, {"port": 443}], "tls": {"mode": "Optional"}});
    check(
        &policies([("agents/a", both)]),
        &[("a.example", 443, Http, "allowed listed a")],
    );
}

#[test]
fn the_more_exact_name_decides_then_the_stricter_policy() {
    let policies = policies([
        (
            "agents/any",
            json!({"hosts": ["*.example.com"], "tls": {"mode": "Optional"}, "allowlist": "Enabled"}),
        ),
        ("agents/deep", json!({"hosts": ["*.a.example.com"]})),
        (
            "agents/one",
            json!({"hosts": ["www.a.example.com"], "tls": {"mode": "Optional"}}),
        ),
        (
            "strict",
            json!({"hosts": ["*.example.com"], "ports": [{"port": 80}], "traceHeaders": "Preserve"}),
        ),
    ]);
    check(
        &policies,
        &[
            ("www.a.example.com", 80, Http, "allowed listed one"),
            ("x.a.example.com", 80, Http, "denied tls_required deep"),
            ("x.example.com", 80, Http, "denied tls_required strict"),
            ("x.example.com", 443, Http, "allowed listed any"),
            ("example.com", 443, Tls, "denied host_not_listed"),
        ],
    );
}

#[test]
fn addresses_are_for_what_has_no_name() {
    let spec = json!({
        "addresses": ["203.0.113.0/24", "2001:db8::/32"], "allowlist": "Enabled", "placement": "Gateway",
        "ports": [{"port": 5432, "protocol": "TCP"}, {"port": 53, "protocol": "UDP"}],
    });
    let policies = policies([("agents/database", spec)]);
    check(
        &policies,
        &[
            ("203.0.113.7", 5432, Tcp, "allowed listed database"),
            ("::ffff:203.0.113.7", 5432, Tls, "allowed listed database"),
            ("2001:db8::1", 53, Udp, "allowed listed database"),
            ("203.0.113.7", 53, Tcp, "denied port_not_listed"),
            ("198.51.100.7", 5432, Tcp, "denied address_not_listed"),
        ],
    );
    // What a connection says does not matter where it is known to lead elsewhere.
    let forged = Connection {
        address: Some("198.51.100.7".parse().unwrap()),
        ..to("203.0.113.7", 5432, Tcp)
    };
    assert_eq!(
        policies.ruling(&agent()).decide(&forged).reason,
        Reason::AddressNotListed
    );
}

#[test]
fn metadata_services_are_open_only_to_who_names_them() {
    let open = |spec: Value| policies([("agents/cloud", spec)]);
    let range = json!({"addresses": ["0.0.0.0/0"], "ports": [{"port": 80, "protocol": "TCP"}]});
    check(
        &open(range),
        &[
            ("169.254.169.254", 80, Http, "denied metadata_address"),
            ("169.254.169.253", 80, Http, "allowed listed cloud"),
        ],
    );
    let one = json!({"addresses": ["169.254.169.254"], "ports": [{"port": 80, "protocol": "TCP"}]});
    check(
        &open(one),
        &[
            ("169.254.169.254", 80, Http, "allowed listed cloud"),
            ("0xa9fea9fe", 80, Http, "allowed listed cloud"),
            ("100.100.100.200", 80, Http, "denied metadata_address"),
            ("metadata.google.internal", 80, Http, "denied metadata_address"),
        ],
    );
    let wildcard = json!({"hosts": ["*.google.internal"], "tls": {"mode": "Optional"}});
    check(
        &open(wildcard),
        &[("metadata.google.internal", 80, Http, "denied metadata_address")],
    );
    let name = json!({"hosts": ["metadata.google.internal"], "tls": {"mode": "Optional"}});
    check(
        &open(name),
        &[("metadata.google.internal", 80, Http, "allowed listed cloud")],
    );
    // A name that is listed does not open the address that a client dials under it.
    let policies = open(json!({"hosts": ["a.example"], "tls": {"mode": "Optional"}}));
    let forged = Connection {
        address: Some("169.254.169.254".parse().unwrap()),
        ..to("a.example", 80, Http)
    };
    assert_eq!(
        policies.ruling(&agent()).decide(&forged).reason,
        Reason::MetadataAddress
    );
}

#[test]
fn what_is_observed_goes_out_and_is_recorded() {
    let observed = json!({"hosts": ["a.example"], "allowlist": "Enabled", "mode": "Observe"});
    check(
        &policies([("agents/a", observed.clone())]),
        &[
            ("a.example", 443, Tls, "allowed listed a"),
            ("a.example", 80, Http, "observed tls_required a"),
            ("b.example", 443, Tls, "observed host_not_listed"),
            ("169.254.169.254", 80, Http, "observed metadata_address"),
        ],
    );
    // An allowlist that is enforced is not weakened by one that observes.
    let both = policies([("agents/a", observed), ("all", json!({"allowlist": "Enabled"}))]);
    check(
        &both,
        &[
            ("b.example", 443, Tls, "denied host_not_listed"),
            ("169.254.169.254", 80, Http, "denied metadata_address"),
            ("a.example", 80, Http, "observed tls_required a"),
        ],
    );
}

#[test]
fn a_policy_is_for_the_workloads_that_it_selects() {
    let of = |workloads: Value| {
        policies([(
            "agents/a",
            json!({"workloads": workloads, "hosts": ["a.example"], "allowlist": "Enabled"}),
        )])
    };
    for (workloads, is_selected) in [
        (json!({"serviceAccounts": ["agent", "other"]}), true),
        (json!({"serviceAccounts": ["other"]}), false),
        (json!({"podSelector": {"matchLabels": {"app": "agent"}}}), true),
        (json!({"podSelector": {"matchLabels": {"app": "web"}}}), false),
        (
            json!({"serviceAccounts": ["agent"], "podSelector": {"matchLabels": {"app": "web"}}}),
            false,
        ),
        (
            json!({"podSelector": {"matchExpressions": [{"key": "app", "operator": "In", "values": ["agent"]}]}}),
            true,
        ),
        (
            json!({"podSelector": {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["agent"]}]}}),
            false,
        ),
        (
            json!({"podSelector": {"matchExpressions": [{"key": "gpu", "operator": "DoesNotExist"}]}}),
            true,
        ),
        (
            json!({"podSelector": {"matchExpressions": [{"key": "gpu", "operator": "Exists"}]}}),
            false,
        ),
    ] {
        let policies = of(workloads.clone());
        assert_eq!(
            policies.ruling(&agent()).policies().len() == 1,
            is_selected,
            "{workloads}"
        );
    }
}

#[test]
fn the_knobs_are_those_of_the_policy_that_decides() {
    let spec =
        json!({"hosts": ["a.example"], "traceHeaders": "W3C", "telemetry": "Disabled", "tls": {"origination": {}}});
    let policies = policies([("agents/a", spec)]);
    let ruling = policies.ruling(&agent());
    let plain = ruling.decide(&to("a.example", 80, Http));
    assert_eq!((plain.outcome, plain.reason), (Outcome::Allowed, Reason::Listed));
    assert_eq!(plain.knobs.origination.unwrap().port.get(), 443);
    assert!(!plain.knobs.telemetry && plain.knobs.trace_headers == TraceHeaders::W3C);
    // The application's own TLS is left alone.
    assert_eq!(ruling.decide(&to("a.example", 443, Tls)).knobs.origination, None);
    let Ok(Host::Name(name)) = Host::parse("a.example") else {
        panic!("a name")
    };
    let disagreeing = Connection {
        host: Presented::of([Some("a.example"), Some("b.example")]),
        ..to("", 443, Tls)
    };
    assert_eq!(ruling.decide(&disagreeing).reason, Reason::NamesDisagree);
    assert_eq!(Presented::from(Host::Name(name.clone())), Presented::Name(name));
}

#[test]
fn what_the_gateway_cannot_enforce_it_closes() {
    let refused = json!({
        "hosts": ["a.site.example", "*.b.site.example"], "ports": [{"port": 5432, "protocol": "TCP"}, {"port": 443}],
        "placement": "Gateway",
    });
    let open = json!({"hosts": ["*.site.example"], "placement": "Gateway"});
    let all = policies([("agents/a", refused.clone()), ("agents/b", open.clone())]).enforceable();
    let reason = |policies: &Policies, host: &str| {
        let decision = policies.ruling(&agent()).decide(&to(host, 443, Tls));
        (decision.outcome, decision.reason)
    };
    let closed = (Outcome::Denied, Reason::PolicyRefused);
    assert_eq!(reason(&all, "a.site.example"), closed);
    assert_eq!(reason(&all, "x.b.site.example"), closed);
    // What others list stays open.
    assert_eq!(reason(&all, "c.site.example"), (Outcome::Allowed, Reason::Listed));
    let mut with_allowlist = refused.clone();
    with_allowlist["allowlist"] = "Enabled".into();
    let all = policies([("agents/a", with_allowlist), ("agents/b", open)]).enforceable();
    assert_eq!(reason(&all, "www.test"), (Outcome::Denied, Reason::HostNotListed));
    let mut observing = refused.clone();
    observing["mode"] = "Observe".into();
    let all = policies([("agents/a", observing)]).enforceable();
    assert_eq!(
        reason(&all, "a.site.example"),
        (Outcome::Observed, Reason::PolicyRefused)
    );
    // Of the proxies' it does not count at all.
    let mut on_client = refused;
    on_client["placement"] = "Client".into();
    let all = policies([("agents/a", on_client)]).enforceable();
    assert_eq!(reason(&all, "a.site.example"), (Outcome::Allowed, Reason::NoPolicy));
}
