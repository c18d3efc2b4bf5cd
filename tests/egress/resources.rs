//! The resources on a real API server.

use outrigger::egress::Policy;
use outrigger::egress::compile::{GLOBAL_NAMESPACE, Surroundings, compile};
use outrigger::egress::policies::Policies;
use outrigger::egress::spec::Spec;
use serde_json::{Value, json};

use crate::cluster::{Cluster, Namespace, Options, Verb, call};
use crate::{define, definitions, policy};

const API: &str = "apis/outrigger.linkerd.io/v1alpha1";

fn ports(protocol: &str) -> Value {
    json!([{"port": 5432, "protocol": protocol}])
}

fn good() -> Vec<Value> {
    vec![
        json!({"hosts": ["api.github.com"]}),
        json!({"hosts": ["API.GitHub.com.", "*.example.com", "bücher.example", "xn--bcher-kva.test", "1password.com"]}),
        json!({"allowlist": "Enabled"}),
        json!({"addresses": ["203.0.113.0/24", "2001:db8::/32", "192.0.2.1"], "ports": ports("TCP")}),
        json!({"addresses": ["192.0.2.53"], "ports": [{"port": 53, "protocol": "UDP"}, {"port": 53, "protocol": "TCP"}]}),
        json!({"hosts": ["a.example"], "tls": {"mode": "Optional"}, "mode": "Observe", "traceHeaders": "Preserve"}),
        json!({"hosts": ["a.example"], "tls": {"origination": {"caCertificates": {"configMap": "ca"}}}, "placement": "Gateway"}),
        json!({
            "hosts": ["a.example"],
            "workloads": {
                "serviceAccounts": ["web", "api"],
                "podSelector": {"matchLabels": {"app": "web"}, "matchExpressions": [{"key": "gpu", "operator": "DoesNotExist"}]},
            },
        }),
    ]
}

/// Specs that are refused, and what the server says.
fn bad() -> Vec<(Value, &'static str)> {
    let host = |host: &str| json!({"hosts": [host]});
    let with = |key: &str, value: Value| {
        let mut spec = json!({"hosts": ["a.example"]});
        spec[key] = value;
        spec
    };
    vec![
        (json!({}), "it would do nothing"),
        (json!({"hosts": []}), "should have at least 1 items"),
        (host("*"), "expected a name with a dot"),
        (host("*.com"), "expected a name with a dot"),
        (host("a.*.b"), "may only be the whole first label"),
        (host("*a.example.com"), "may only be the whole first label"),
        (host("*.*.example.com"), "may only be the whole first label"),
        (host("localhost"), "expected a name with a dot"),
        (host("10.0.0.1"), "it is an address"),
        (host("0x7f.1"), "it is an address"),
        (host("[::1]"), "without scheme, port or path"),
        (host("a.example:443"), "without scheme, port or path"),
        (host("https://a.example"), "without scheme, port or path"),
        (host("a..example"), "expected a name with a dot"),
        (host("a b.example"), "without scheme, port or path"),
        (with("addresses", json!(["192.0.2.1"])), "expected one of them"),
        (json!({"addresses": ["192.0.2.1"]}), "addresses show no name"),
        (
            json!({"addresses": ["192.0.2.1"], "ports": ports("HTTP")}),
            "addresses show no name",
        ),
        (
            json!({"addresses": ["a.example"], "ports": ports("TCP")}),
            "expected an address, or a range",
        ),
        (
            with("ports", json!([{"port": 0}])),
            "should be greater than or equal to 1",
        ),
        (
            with("ports", json!([{"port": 65536}])),
            "should be less than or equal to 65535",
        ),
        (
            with("ports", json!([{"port": 443, "protocol": "https"}])),
            "Unsupported value: \"https\"",
        ),
        (with("ports", json!([{"port": 443}, {"port": 443}])), "Duplicate value"),
        (with("allowlist", json!("On")), "Unsupported value: \"On\""),
        (with("telemetry", json!(false)), "must be of type string"),
        (with("traceHeaders", json!("Jaeger")), "Unsupported value: \"Jaeger\""),
        (with("mode", json!("Off")), "Unsupported value: \"Off\""),
        (with("placement", json!("Node")), "Unsupported value: \"Node\""),
        (
            with("tls", json!({"mode": "Optional", "origination": {}})),
            "everything leaves as TLS",
        ),
        (
            json!({"hosts": ["a.example"], "ports": ports("TCP"), "tls": {"mode": "Enforced"}}),
            "nobody looks for TLS on ports with protocol TCP or UDP",
        ),
        (
            json!({"hosts": ["a.example"], "ports": ports("UDP"), "tls": {"origination": {}}}),
            "tls.origination is for protocol",
        ),
        (
            with(
                "workloads",
                json!({"podSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}}),
            ),
            "values are for the operators In and NotIn",
        ),
        (
            with(
                "workloads",
                json!({"podSelector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}}),
            ),
            "Unsupported value: \"Near\"",
        ),
    ]
}

#[tokio::test]
async fn the_server_takes_good_policies_and_refuses_bad_ones_as_the_program_does() {
    let cluster = Cluster::start(Options::default()).await.unwrap();
    define(&cluster, &definitions());
    let client = cluster.client().await;
    let namespace = Namespace::create(&client, "shop", &[], &[]).await;
    for (number, spec) in good().iter().enumerate() {
        let object = policy(&format!("good-{number}"), spec);
        let reply = namespace.post(API, "egresspolicies", &object).await;
        assert!(
            reply.accepted() && reply.warnings.is_empty(),
            "{spec}: {} {:?}",
            reply.body,
            reply.warnings
        );
        // What is not written means the same to both.
        let stored: Spec = serde_json::from_value(reply.body["spec"].clone()).unwrap();
        assert_eq!(stored, serde_json::from_value(spec.clone()).unwrap(), "{spec}");
        Policy::read(&reply.body, "default").unwrap().unwrap();
        let mut wide = object.clone();
        wide["kind"] = "ClusterEgressPolicy".into();
        let path = format!("/{API}/clusteregresspolicies?dryRun=All");
        let reply = call(&client, Verb::Create, &path, Some(&wide)).await.unwrap();
        assert!(reply.accepted(), "{spec}: {}", reply.body);
    }
    for (spec, why) in bad() {
        let object = policy("bad", &spec);
        let reply = namespace.post(API, "egresspolicies", &object).await;
        assert_eq!(reply.code, 422, "{spec}: {}", reply.body);
        assert!(reply.message().contains(why), "{spec}: {}", reply.message());
        assert!(Policy::read(&object, "default").unwrap().is_err(), "{spec}");
    }
}

#[tokio::test]
async fn the_status_is_seen_by_kubectl() {
    let cluster = Cluster::start(Options::default()).await.unwrap();
    define(&cluster, &definitions());
    let client = cluster.client().await;
    let namespace = Namespace::create(&client, "shop", &[], &[]).await;
    let object = policy(
        "web",
        &json!({"hosts": ["a.example"], "workloads": {"serviceAccounts": ["web"]}}),
    );
    let created = namespace.post(API, "egresspolicies", &object).await;
    let read = Policy::read(&created.body, "default").unwrap().unwrap();
    let compiled = compile(
        &Policies::new([read]),
        &Surroundings::read([], GLOBAL_NAMESPACE, "default"),
    );
    let mut conditions = serde_json::to_value(&compiled.verdicts[0].conditions).unwrap();
    for condition in conditions.as_array_mut().unwrap() {
        condition["lastTransitionTime"] = "2026-01-01T00:00:00Z".into();
        condition["observedGeneration"] = created.body["metadata"]["generation"].clone();
    }
    let path = format!("/{API}/namespaces/{}/egresspolicies/web/status", namespace.name);
    let patch = json!({"status": {"conditions": conditions}});
    let reply = call(&client, Verb::Patch, &path, Some(&patch)).await.unwrap();
    assert!(reply.accepted(), "{}", reply.body);
    let output = cluster.kubectl(["get", "egresspolicies", "--namespace", &namespace.name]);
    let shown = String::from_utf8(output.stdout).unwrap();
    let words: Vec<_> = shown.split_whitespace().collect();
    let expected = [
        "NAME",
        "HOSTS",
        "ALLOWLIST",
        "MODE",
        "PLACEMENT",
        "ACCEPTED",
        "PROGRAMMED",
        "AGE",
        "web",
        "[\"a.example\"]",
        "Disabled",
        "Enforce",
        "Client",
        "SelectorUnsupported",
        "NotAccepted",
    ];
    assert_eq!(words[..expected.len()], expected, "{shown}");
}
