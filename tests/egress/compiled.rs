//! What policies compile to, on a real API server with the resources of Linkerd and of the Gateway API.

use std::collections::BTreeSet;
use std::fs;

use outrigger::egress::Policy;
use outrigger::egress::compile::{Compiled, GLOBAL_NAMESPACE, GatewayService, Surroundings, compile};
use outrigger::egress::policies::Policies;
use serde_json::json;

use crate::cluster::{Cluster, Namespace, Options};
use crate::conformance_folder::conformance;
use crate::{define, foreign, policy};

/// Policies that together compile to everything that there is.
fn everything() -> Compiled {
    let hosts: Vec<_> = (0..40).map(|number| format!("h{number}.example")).collect();
    let specs = [
        (
            "closed",
            json!({"hosts": ["API.github.com", "*.bücher.example"], "allowlist": "Enabled"}),
        ),
        (
            "plain",
            json!({"hosts": hosts, "ports": [{"port": 8080, "protocol": "HTTP"}], "traceHeaders": "Preserve"}),
        ),
        (
            "rpc",
            json!({"hosts": ["rpc.example"], "ports": [{"port": 50051, "protocol": "GRPC"}], "tls": {"mode": "Optional"}}),
        ),
        (
            "database",
            json!({"addresses": ["203.0.113.0/24", "2001:db8::/32", "::/0"], "ports": [{"port": 5432, "protocol": "TCP"}]}),
        ),
        (
            "metadata",
            json!({"hosts": ["metadata.google.internal"], "ports": [{"port": 80, "protocol": "HTTP"}]}),
        ),
        ("mild", json!({"hosts": ["c.example"], "tls": {"mode": "Optional"}})),
    ];
    let policies = specs
        .iter()
        .map(|(name, spec)| Policy::read(&policy(name, spec), "shop").unwrap().unwrap());
    let name = "n".repeat(253);
    let long = policy(&name, &json!({"hosts": ["d.example"], "ports": [{"port": 8443}]}));
    let mut wide = policy("wide", &json!({"hosts": ["e.example"], "ports": [{"port": 9443}]}));
    wide["kind"] = "ClusterEgressPolicy".into();
    // By itself: beside what the proxy lets out there is no NetworkPolicy.
    let mut gated = policy(
        "gated",
        &json!({
            "hosts": ["f.example"], "ports": [{"port": 443}, {"port": 8443, "protocol": "TCP"}], "allowlist": "Enabled", "placement": "Gateway",
            "workloads": {"podSelector": {"matchLabels": {"app": "web"}, "matchExpressions": [{"key": "gpu", "operator": "DoesNotExist"}]}},
        }),
    );
    gated["metadata"]["namespace"] = "bank".into();
    let others = [long, wide].map(|object| Policy::read(&object, "shop").unwrap().unwrap());
    let policies = Policies::new(policies.chain(others));
    let surroundings = Surroundings {
        gateway: Some(GatewayService {
            name: "outrigger-egress-gateway".to_owned(),
            namespace: "linkerd".to_owned(),
        }),
        cluster_networks: ["10.96.0.0/12", "fd00::/8"]
            .map(|network| network.parse().unwrap())
            .to_vec(),
        ..Surroundings::read([], GLOBAL_NAMESPACE, "default")
    };
    let mut all = compile(&policies, &surroundings);
    let gated = Policy::read(&gated, "").unwrap().unwrap();
    let gated = compile(&Policies::new([gated]), &surroundings);
    all.objects.extend(gated.objects);
    all.verdicts.extend(gated.verdicts);
    all
}

#[tokio::test]
async fn the_server_takes_everything_that_policies_compile_to() {
    let Some(folder) = conformance() else { return };
    let cluster = Cluster::start(Options::default()).await.unwrap();
    let client = cluster.client().await;
    for name in ["shop", "bank", GLOBAL_NAMESPACE] {
        Namespace::create_named(&client, name, &[], &[]).await;
    }
    define(&cluster, &foreign::linkerd(&folder));
    let compiled = everything();
    let bad: Vec<_> = compiled.verdicts.iter().filter(|verdict| !verdict.is_good()).collect();
    assert!(bad.is_empty(), "{bad:?}");
    let kinds: BTreeSet<_> = compiled
        .objects
        .iter()
        .map(|object| object["kind"].as_str().unwrap())
        .collect();
    assert_eq!(
        Vec::from_iter(kinds),
        [
            "EgressNetwork",
            "GRPCRoute",
            "HTTPRoute",
            "NetworkPolicy",
            "TCPRoute",
            "TLSRoute"
        ]
    );
    for release in ["1.2", "1.4"] {
        let definitions = foreign::gateway_api(release);
        define(&cluster, &definitions);
        let scratch = tempfile::TempDir::new().unwrap();
        let file = scratch.path().join("list.json");
        let list = json!({"apiVersion": "v1", "kind": "List", "items": compiled.objects});
        fs::write(&file, list.to_string()).unwrap();
        let output = cluster.kubectl(["apply", "--validate=strict", "--filename", file.to_str().unwrap()]);
        let said = String::from_utf8_lossy(&output.stderr);
        // The resources say of themselves that they are old; no newer form is read by Linkerd.
        let unexpected = said.lines().find(|line| !line.contains("deprecated"));
        assert!(output.status.success() && unexpected.is_none(), "{release}: {said}");
        let taken = String::from_utf8_lossy(&output.stdout).lines().count();
        assert_eq!(taken, compiled.objects.len());
    }
}
