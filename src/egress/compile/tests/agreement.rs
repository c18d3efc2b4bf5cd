//! What the proxies let through is what the decision lets through: a model of how Linkerd reads its resources, asked about the
//! same connections.

use super::*;
use crate::egress::connection::{Connection, Presented, Traffic, Workload};
use crate::egress::host::{Host, HostPattern, Name};
use crate::egress::ruling::{Outcome, Reason};
use ipnet::IpNet;
use proptest::prelude::*;
use std::net::IpAddr;

const PATTERNS: [&str; 4] = ["*.x.example", "a.x.example", "*.a.x.example", "z.test"];
const HOSTS: [&str; 5] = [
    "a.x.example",
    "b.x.example",
    "c.a.x.example",
    "z.test",
    "x.example.evil.test",
];
const PORTS: [u16; 3] = [80, 443, 8443];
/// Outside, in a policy's range, a metadata service.
const ADDRESSES: [&str; 3] = ["198.51.100.1", "203.0.113.7", "169.254.169.254"];

/// A policy, or what is none.
fn any_policy() -> impl Strategy<Value = (bool, Value)> {
    let pick = |words: &'static [&'static str]| prop::sample::select(words);
    let hosts = prop::collection::btree_set(pick(&PATTERNS), 1..3);
    let ports = prop::collection::btree_map(prop::sample::select(&PORTS), pick(&["HTTP", "GRPC", "Detect"]), 0..3);
    let tls = pick(&["", "Enforced", "Optional"]);
    let allowlist = pick(&["Enabled", "Disabled"]);
    let kind = (any::<bool>(), any::<bool>(), pick(&["Enforce", "Enforce", "Observe"]));
    (hosts, ports, tls, allowlist, kind).prop_map(|(hosts, ports, tls, allowlist, (is_wide, is_address, mode))| {
        let mut spec = json!({"allowlist": allowlist, "mode": mode});
        if is_address {
            spec["addresses"] = json!(["203.0.113.0/24"]);
            spec["ports"] = json!([{"port": 8443, "protocol": "TCP"}]);
            return (is_wide, spec);
        }
        spec["hosts"] = json!(hosts);
        if !ports.is_empty() {
            let ports = ports
                .iter()
                .map(|(port, protocol)| json!({"port": port, "protocol": protocol}));
            spec["ports"] = ports.collect();
        }
        if !tls.is_empty() {
            spec["tls"] = json!({"mode": tls});
        }
        (is_wide, spec)
    })
}

/// Whether Linkerd lets a connection of the namespace `shop` out.
fn linkerd_lets_out(objects: &[Value], host: &Name, address: IpAddr, port: u16, traffic: Traffic) -> bool {
    let of = |namespace: &str| -> Vec<&Value> {
        let is_here = |object: &&Value| object["metadata"]["namespace"] == namespace;
        objects.iter().filter(is_here).collect()
    };
    let here = match of("shop") {
        own if own.is_empty() => of(GLOBAL_NAMESPACE),
        own => own,
    };
    let size = |network: &Value| match network["spec"]["networks"].as_array() {
        None => Some(0),
        Some(ranges) => {
            let ranges = ranges
                .iter()
                .map(|range| range["cidr"].as_str().unwrap().parse::<IpNet>().unwrap());
            ranges
                .filter(|range| range.contains(&address))
                .map(|range| range.prefix_len())
                .max()
        }
    };
    let networks = here.iter().filter(|object| object["kind"] == "EgressNetwork");
    let Some((_, network)) = networks
        .filter_map(|it| Some((size(it)?, *it)))
        .max_by_key(|(size, _)| *size)
    else {
        return true;
    };
    let is_open = network["spec"]["trafficPolicy"] == "Allow";
    let on_port = |kind: &str| -> Vec<&Value> {
        let is_on = |route: &&&Value| {
            let mut parents = route["spec"]["parentRefs"].as_array().into_iter().flatten();
            route["kind"] == kind && parents.any(|it| it["name"] == network["metadata"]["name"] && it["port"] == port)
        };
        here.iter().filter(is_on).copied().collect()
    };
    let best = |routes: &[&Value]| {
        let names = |route: &Value| route["spec"]["hostnames"].as_array().cloned().unwrap_or_default();
        let all = routes
            .iter()
            .flat_map(|route| names(route).into_iter().map(move |name| (name, *route)));
        let matching = all.filter_map(|(name, route)| {
            let pattern = HostPattern::parse(name.as_str()?)
                .ok()
                .filter(|pattern| pattern.covers(host))?;
            Some((pattern.exactness(), route.clone()))
        });
        matching.max_by_key(|(exactness, _)| *exactness).map(|(_, route)| route)
    };
    let (grpc, http, tls, tcp) = (
        on_port("GRPCRoute"),
        on_port("HTTPRoute"),
        on_port("TLSRoute"),
        on_port("TCPRoute"),
    );
    let is_http = matches!(traffic, Traffic::Http | Traffic::Http2 | Traffic::Grpc);
    if !grpc.is_empty() {
        return matches!(traffic, Traffic::Grpc | Traffic::Http2) && (best(&grpc).is_some() || is_open);
    }
    if !http.is_empty() {
        let redirects = |route: &Value| route["spec"]["rules"][0]["filters"][0]["type"] == "RequestRedirect";
        return match best(&http).filter(|_| is_http) {
            Some(route) => !redirects(&route),
            None => is_open,
        };
    }
    if !tls.is_empty() {
        return traffic == Traffic::Tls && (best(&tls).is_some() || is_open);
    }
    !tcp.is_empty() || is_open
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn nothing_that_is_denied_is_let_out(specs in prop::collection::vec(any_policy(), 1..5)) {
        let read = |(number, (is_wide, spec)): (usize, &(bool, Value))| {
            let id = if *is_wide { format!("p{number}") } else { format!("shop/p{number}") };
            policy(&id, spec.clone())
        };
        let is_policy = |(_, spec): &&(bool, Value)| {
            let spec: Result<crate::egress::spec::Spec, _> = serde_json::from_value(spec.clone());
            spec.is_ok()
        };
        let policies = Policies::new(specs.iter().filter(is_policy).enumerate().map(read));
        let compiled = compile(&policies, &Surroundings::read([], GLOBAL_NAMESPACE, "default"));
        let enforceable = policies.enforceable();
        // What could not be programmed is said, and may be open.
        let is_programmed = |verdict: &Verdict| verdict.conditions[0].status == "False" || verdict.is_good();
        let shadowed = |verdict: &Verdict| verdict.conditions[1].reason == "Shadowed";
        prop_assume!(compiled.verdicts.iter().all(|verdict| is_programmed(verdict) || shadowed(verdict)));
        let workload = Workload { namespace: "shop".to_owned(), ..Workload::default() };
        let ruling = enforceable.ruling(&workload);
        let all = HOSTS.iter().flat_map(|host| PORTS.iter().map(move |port| (*host, *port)));
        for (host, port) in all {
            for (address, traffic) in ADDRESSES.iter().flat_map(|it| Traffic::ALL.map(|traffic| (*it, traffic))) {
                let Ok(Host::Name(name)) = Host::parse(host) else { unreachable!() };
                let address: IpAddr = address.parse().unwrap();
                let is_seen = !matches!(traffic, Traffic::Udp | Traffic::Tcp);
                let connection = Connection {
                    host: if is_seen { Presented::Name(name.clone()) } else { Presented::Nothing },
                    address: Some(address),
                    port: port.try_into().unwrap(),
                    traffic,
                };
                let decision = ruling.decide(&connection);
                // The proxy does not tell HTTP apart by version, sees no host in TLS beside routes of HTTP, and no UDP; the
                // status and the documentation say so.
                let is_told_apart = !matches!(decision.reason, Reason::ProtocolMismatch | Reason::ProtocolHidden);
                if decision.outcome == Outcome::Denied && is_told_apart && traffic != Traffic::Udp {
                    let is_out = linkerd_lets_out(&compiled.objects, &name, address, port, traffic);
                    prop_assert!(!is_out, "{} {} {} {}: {:?}", host, address, port, traffic.word(), decision);
                }
            }
        }
    }
}
