//! Every knob of a policy, with what it lets out, closes and observes.

use crate::http2;
use crate::netns::{OUTRIGGER, stderr};
use crate::world::World;
use serde_json::Value;
use std::process::Command;

/// How a host is asked.
#[derive(Clone, Copy, Debug)]
enum By {
    Http,
    /// Without TLS.
    Http2,
    Grpc,
    Tls,
    /// TLS on the port of HTTP.
    TlsOn80,
}

use By::{Grpc, Http, Http2, Tls, TlsOn80};

impl By {
    /// Asks, and says whether the server of `host` answered.
    fn reaches(self, world: &World, host: &str) -> bool {
        let plain = format!("http://{host}/");
        let said = match self {
            Http => world.curl(&[&plain]).text,
            Http2 => http2::ask(world, 80, &[&plain], "text/plain").remove(0).text,
            Grpc => http2::ask(world, 80, &[&plain], "application/grpc").remove(0).text,
            Tls => world.curl(&[&format!("https://{host}/")]).text,
            // Nobody serves TLS there: what counts is the decision.
            TlsOn80 => world.curl(&[&format!("https://{host}:80/")]).text,
        };
        said.starts_with(&format!("server {host}\n"))
    }

    fn word(self) -> &'static str {
        match self {
            Http => "http",
            Http2 => "http2",
            Grpc => "grpc",
            Tls | TlsOn80 => "tls",
        }
    }
}

const LISTED: &str = "www.example.com";
const UNLISTED: &str = "www.example.net";

/// Policies, and for each way of asking for a host what becomes of it.
type Row<'r> = (&'r [&'r str], &'r [(By, &'r str, &'r str, &'r str)]);

const TABLE: &[Row<'static>] = &[
    // Ports and protocols.
    (
        &["{hosts: [www.example.com], ports: [{port: 80, protocol: HTTP}], allowlist: Enabled}"],
        &[
            (Http, LISTED, "allowed", "listed"),
            (Http2, LISTED, "denied", "protocol_mismatch"),
            (Grpc, LISTED, "denied", "protocol_mismatch"),
            (TlsOn80, LISTED, "denied", "protocol_hidden"),
            (Tls, LISTED, "denied", "port_not_listed"),
            (Http, UNLISTED, "denied", "host_not_listed"),
        ],
    ),
    (
        &["{hosts: [www.example.com], ports: [{port: 80, protocol: HTTP}], allowlist: Enabled, mode: Observe}"],
        &[
            (Http, LISTED, "allowed", "listed"),
            (Http2, LISTED, "observed", "protocol_mismatch"),
            (Tls, LISTED, "observed", "port_not_listed"),
            (Http, UNLISTED, "observed", "host_not_listed"),
            (Tls, UNLISTED, "observed", "host_not_listed"),
        ],
    ),
    (
        &["{hosts: [www.example.com], ports: [{port: 80, protocol: HTTP2}], tls: {mode: Optional}}"],
        &[
            (Http, LISTED, "denied", "protocol_mismatch"),
            (Http2, LISTED, "allowed", "listed"),
            (Grpc, LISTED, "allowed", "listed"),
        ],
    ),
    (
        &["{hosts: [www.example.com], ports: [{port: 80, protocol: GRPC}], tls: {mode: Optional}}"],
        &[
            (Http, LISTED, "denied", "protocol_mismatch"),
            (Http2, LISTED, "denied", "protocol_mismatch"),
            (Grpc, LISTED, "allowed", "listed"),
        ],
    ),
    // The allowlist: off, on, observed.
    (
        &["{hosts: [www.example.com]}"],
        &[
            (Tls, LISTED, "allowed", "listed"),
            (Tls, UNLISTED, "allowed", "no_allowlist"),
            (Http, UNLISTED, "allowed", "no_allowlist"),
        ],
    ),
    (
        &["{hosts: [www.example.com], allowlist: Enabled}"],
        &[
            (Tls, LISTED, "allowed", "listed"),
            (Tls, UNLISTED, "denied", "host_not_listed"),
            (Http, UNLISTED, "denied", "host_not_listed"),
        ],
    ),
    // TLS: enforced unless something else is said, optional, observed.
    (
        &["{hosts: [www.example.com]}"],
        &[
            (Http, LISTED, "denied", "tls_required"),
            (Http2, LISTED, "denied", "tls_required"),
        ],
    ),
    (
        &["{hosts: [www.example.com], tls: {mode: Optional}}"],
        &[(Http, LISTED, "allowed", "listed"), (Tls, LISTED, "allowed", "listed")],
    ),
    (
        &["{hosts: [www.example.com], mode: Observe}"],
        &[
            (Http, LISTED, "observed", "tls_required"),
            (Tls, LISTED, "allowed", "listed"),
        ],
    ),
    // Workloads: those of others leave this one alone.
    (
        &["{hosts: [www.example.com], allowlist: Enabled, workloads: {serviceAccounts: [other]}}"],
        &[
            (Http, LISTED, "allowed", "no_policy"),
            (Tls, UNLISTED, "allowed", "no_policy"),
        ],
    ),
    (
        &["{hosts: [www.example.com], allowlist: Enabled, workloads: {podSelector: {matchLabels: {app: web}}}}"],
        &[(Tls, UNLISTED, "denied", "host_not_listed")],
    ),
    // A policy that is enforced is not weakened by one that observes.
    (
        &[
            "{hosts: [www.example.com], allowlist: Enabled, mode: Observe}",
            "{hosts: [api.github.com], allowlist: Enabled}",
        ],
        &[
            (Tls, UNLISTED, "denied", "host_not_listed"),
            (Tls, LISTED, "allowed", "listed"),
        ],
    ),
];

/// What `outrigger egress check` says: outcome and reason.
fn checked(world: &World, by: By, host: &str) -> (String, String) {
    let port = if matches!(by, Tls) { 443 } else { 80 };
    let mut command = Command::new(OUTRIGGER);
    command.args([
        "egress",
        "check",
        "-n",
        "shop",
        "--service-account",
        "agent",
        "-l",
        "app=web",
        "-o",
        "json",
    ]);
    command.args(["--protocol", by.word(), &format!("{host}:{port}"), "-f"]);
    let output = world.inside.run(command.arg(world.path("objects.yaml")));
    let said: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", stderr(&output)));
    let word = |key: &str| said[key].as_str().unwrap_or_else(|| panic!("{said}")).to_owned();
    (word("outcome"), word("reason"))
}

#[test]
fn each_does_what_it_says() {
    let world = World::new();
    for (specs, rows) in TABLE {
        let gateway = world.gateway(specs);
        for (by, host, outcome, reason) in *rows {
            let reached = by.reaches(&world, host);
            let decision = gateway.assert_decided(outcome, reason);
            assert_eq!(decision["traffic"], by.word(), "{specs:?} {by:?} {host}");
            assert_eq!(
                checked(&world, *by, host),
                (outcome.to_string(), reason.to_string()),
                "{specs:?} {by:?} {host}"
            );
            assert_eq!(reached, *outcome != "denied", "{specs:?} {by:?} {host}: {decision}");
        }
    }
}

#[test]
fn telemetry_that_is_off_leaves_no_host_behind() {
    let world = World::new();
    for (telemetry, shown) in [("Enabled", Value::from(LISTED)), ("Disabled", Value::Null)] {
        let gateway = world.gateway(&[&format!("{{hosts: [www.example.com], telemetry: {telemetry}}}")]);
        assert!(Tls.reaches(&world, LISTED));
        let allowed = gateway.assert_decided("allowed", "listed");
        assert!(!Http.reaches(&world, LISTED));
        let denied = gateway.assert_decided("denied", "tls_required");
        for decision in [allowed, denied] {
            assert_eq!((&decision["host"], &decision["rule"]), (&shown, &shown), "{decision}");
            assert_eq!(decision["policy"], "EgressPolicy/shop/rule-0");
        }
        let host = if telemetry == "Enabled" { LISTED } else { "" };
        let metrics = world.metrics();
        let labels = format!(
            "outrigger_egress_decisions_total{{namespace=\"shop\",service_account=\"agent\",\
             policy=\"EgressPolicy/shop/rule-0\",rule=\"{host}\",traffic=\"tls\",outcome=\"allowed\",reason=\"listed\",failure=\"\"}} 1\n"
        );
        assert!(metrics.contains(&labels), "{metrics}");
        assert_eq!(metrics.contains(LISTED), telemetry == "Enabled", "{metrics}");
    }
}

#[test]
fn a_metric_has_the_host_as_the_policy_writes_it() {
    let world = World::new();
    let gateway = world.gateway(&["{hosts: ['*.example.com'], tls: {mode: Optional}}"]);
    for host in ["www.example.com", "db.example.com"] {
        assert!(Http.reaches(&world, host));
        let decision = gateway.assert_decided("allowed", "listed");
        assert_eq!(
            (&decision["host"], &decision["rule"]),
            (&host.into(), &"*.example.com".into())
        );
    }
    let metrics = world.metrics();
    assert!(
        metrics.contains(
            "rule=\"*.example.com\",traffic=\"http\",outcome=\"allowed\",reason=\"listed\",failure=\"\"} 2\n"
        ),
        "{metrics}"
    );
}
