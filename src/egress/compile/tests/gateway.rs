//! Policies for the gateway: where they send what they list, and what keeps pods from going around it.

use super::*;

/// What policies compile to where the gateway is `gate` in `linkerd`.
fn with_gateway<const N: usize>(all: [(&str, Value); N]) -> Compiled {
    let gateway = GatewayService {
        name: "gate".to_owned(),
        namespace: "linkerd".to_owned(),
    };
    compiled_for(Some(gateway), all)
}

/// The same for any gateway, in a cluster with one network.
fn compiled_for<const N: usize>(gateway: Option<GatewayService>, all: [(&str, Value); N]) -> Compiled {
    let surroundings = Surroundings {
        gateway,
        cluster_networks: vec!["10.0.0.0/8".parse().unwrap()],
        ..Surroundings::read([], GLOBAL_NAMESPACE, "default")
    };
    let all = all.map(|(id, mut spec)| {
        if spec["placement"].is_null() {
            spec["placement"] = "Gateway".into();
        }
        policy(id, spec)
    });
    compile(&Policies::new(all), &surroundings)
}

/// Each route: where it comes from, and where it leads.
fn ways(compiled: &Compiled) -> Vec<String> {
    let is_route = |object: &&Value| object["kind"] == "TCPRoute";
    let way = |object: &Value| {
        let (parent, backend) = (
            &object["spec"]["parentRefs"][0],
            &object["spec"]["rules"][0]["backendRefs"][0],
        );
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (namespace, network) = (text(&object["metadata"]["namespace"]), text(&parent["name"]));
        let (service, of) = (text(&backend["name"]), text(&backend["namespace"]));
        format!(
            "{namespace} {network}:{} {service}.{of}:{}",
            parent["port"], backend["port"]
        )
    };
    compiled.objects.iter().filter(is_route).map(way).collect()
}

fn fences(compiled: &Compiled) -> Vec<&Value> {
    let is_fence = |object: &&Value| object["kind"] == "NetworkPolicy";
    compiled.objects.iter().filter(is_fence).collect()
}

fn message<'c>(compiled: &'c Compiled, policy: &str) -> &'c str {
    let verdict = compiled
        .verdicts
        .iter()
        .find(|verdict| verdict.policy.ends_with(policy));
    &verdict.unwrap().conditions[1].message
}

#[test]
fn what_is_for_the_gateway_is_sent_to_the_port_of_the_same_number() {
    let workloads = json!({"podSelector": {"matchLabels": {"app": "web"}}});
    let compiled = with_gateway([
        (
            "shop/a",
            json!({"hosts": ["*.a.example"], "allowlist": "Enabled", "workloads": workloads}),
        ),
        (
            "shop/b",
            json!({"hosts": ["b.example"], "ports": [{"port": 443}, {"port": 5432, "protocol": "TCP"}]}),
        ),
    ]);
    assert_eq!(
        ways(&compiled),
        [
            "shop outrigger-outside:80 gate.linkerd:80",
            "shop outrigger-outside:443 gate.linkerd:443",
            "shop outrigger-outside:5432 gate.linkerd:5432",
        ]
    );
    // Other pods of the namespace have no allowlist: for those that have, the NetworkPolicy closes the rest.
    let open = networks(&compiled);
    assert!(open.contains(&"shop outrigger-outside Allow ".to_owned()), "{open:?}");
    let expected = [
        "EgressPolicy/shop/a Accepted Programmed",
        "EgressPolicy/shop/b Accepted Programmed",
    ];
    assert_eq!(verdicts(&compiled), expected);

    let [fence] = fences(&compiled)[..] else {
        panic!("one for the allowlist")
    };
    assert_eq!(fence["spec"]["podSelector"], json!({"matchLabels": {"app": "web"}}));
    assert_eq!(fence["spec"]["policyTypes"], json!(["Egress"]));
    let ways = fence["spec"]["egress"].as_array().unwrap();
    assert_eq!(ways.len(), 3);
    assert_eq!(ways[2]["to"], json!([{"ipBlock": {"cidr": "10.0.0.0/8"}}]));
    assert_eq!(
        ways[1]["to"][0]["namespaceSelector"]["matchLabels"]["kubernetes.io/metadata.name"],
        "linkerd"
    );
}

#[test]
fn an_allowlist_of_all_workloads_closes_what_does_not_go_through_the_gateway() {
    let compiled = with_gateway([("shop/a", json!({"hosts": ["a.example"], "allowlist": "Enabled"}))]);
    let closed = networks(&compiled);
    assert!(
        closed.contains(&"shop outrigger-outside Deny ".to_owned()),
        "{closed:?}"
    );
    assert_eq!(fences(&compiled)[0]["spec"]["podSelector"], json!({}));
}

#[test]
fn without_an_allowlist_the_rest_goes_out_as_it_did() {
    let compiled = with_gateway([("shop/a", json!({"hosts": ["a.example"], "ports": [{"port": 443}]}))]);
    let open = networks(&compiled);
    assert!(open.contains(&"shop outrigger-outside Allow ".to_owned()), "{open:?}");
    assert_eq!((ways(&compiled).len(), fences(&compiled).len()), (1, 0));
}

#[test]
fn datagrams_wait_for_another_way() {
    let ports = json!([{"port": 53, "protocol": "UDP"}, {"port": 53, "protocol": "TCP"}]);
    let compiled = with_gateway([("shop/dns", json!({"addresses": ["192.0.2.53"], "ports": ports}))]);
    assert_eq!(ways(&compiled), ["shop outrigger-192-0-2-53-32:53 gate.linkerd:53"]);
    assert_eq!(verdicts(&compiled), ["EgressPolicy/shop/dns Accepted Pending"]);
    assert!(
        compiled.verdicts[0].is_good() && message(&compiled, "dns").starts_with("port 53: the proxy does not see UDP")
    );
}

#[test]
fn what_the_gateway_refuses_is_sent_there_to_be_closed() {
    let refused =
        json!({"hosts": ["*.a.example"], "ports": [{"port": 5432, "protocol": "TCP"}], "allowlist": "Enabled"});
    let compiled = with_gateway([("shop/a", refused)]);
    assert_eq!(ways(&compiled), ["shop outrigger-outside:5432 gate.linkerd:5432"]);
    assert!(networks(&compiled).contains(&"shop outrigger-outside Deny ".to_owned()));
    assert_eq!(fences(&compiled).len(), 1);
    assert_eq!(verdicts(&compiled), ["EgressPolicy/shop/a HostHidden NotAccepted"]);
}

#[test]
fn a_port_is_for_one_placement() {
    let compiled = with_gateway([
        (
            "shop/a",
            json!({"hosts": ["a.example"], "ports": [{"port": 443}], "placement": "Client", "allowlist": "Enabled"}),
        ),
        ("shop/b", json!({"hosts": ["a.example"], "allowlist": "Enabled"})),
    ]);
    // The gateway's, whichever is older: what goes past it would be out of its sight.
    let expected = [
        "shop outrigger-outside:80 gate.linkerd:80",
        "shop outrigger-outside:443 gate.linkerd:443",
    ];
    assert_eq!(ways(&compiled), expected);
    let expected = [
        "EgressPolicy/shop/a Accepted Conflicted",
        "EgressPolicy/shop/b Accepted Programmed",
    ];
    assert_eq!(verdicts(&compiled), expected);
    assert_eq!(fences(&compiled).len(), 1);
    assert!(message(&compiled, "a").contains("go out by the gateway alone"));
}

#[test]
fn a_network_policy_is_made_only_where_it_says_what_is_meant() {
    let allowlist = json!({"hosts": ["a.example"], "allowlist": "Enabled"});
    let mut of_account = allowlist.clone();
    of_account["workloads"] = json!({"serviceAccounts": ["web"]});
    let mut observing = allowlist.clone();
    observing["mode"] = "Observe".into();
    assert!(fences(&with_gateway([("shop/a", observing)])).is_empty());
    let compiled = with_gateway([("shop/a", of_account)]);
    let [fence] = fences(&compiled)[..] else {
        panic!("one for the account")
    };
    assert_eq!(
        fence["spec"]["podSelector"],
        json!({"matchExpressions": [{"key": "outrigger.linkerd.io/service-account", "operator": "In", "values": ["web"]}]})
    );
    // An operator's is for namespaces that have policies of their own, beside that for all others.
    let compiled = with_gateway([("wide", allowlist), ("shop/b", json!({"hosts": ["b.example"]}))]);
    let [fence] = fences(&compiled)[..] else {
        panic!("one for shop")
    };
    assert_eq!(fence["metadata"]["namespace"], "shop");
    assert!(message(&compiled, "wide").contains("linkerd-egress is for namespaces that have no policies"));
}

#[test]
fn without_a_gateway_what_is_for_it_stays_closed() {
    let some = json!({"hosts": ["b.example"], "allowlist": "Enabled", "workloads": {"serviceAccounts": ["web"]}});
    let all = json!({"hosts": ["a.example"], "allowlist": "Enabled"});
    let compiled = compiled_for(None, [("shop/a", all), ("bank/b", some)]);
    assert!(networks(&compiled).contains(&"shop outrigger-outside Deny ".to_owned()));
    assert!(ways(&compiled).is_empty());
    // Whoever had no way out but the gateway has none now.
    let fences = fences(&compiled);
    assert_eq!(fences.len(), 2);
    assert!(
        fences
            .iter()
            .all(|fence| fence["spec"]["egress"].as_array().unwrap().len() == 2)
    );
    let expected = [
        "EgressPolicy/bank/b Accepted Pending",
        "EgressPolicy/shop/a Accepted Pending",
    ];
    assert_eq!(verdicts(&compiled), expected);
}
