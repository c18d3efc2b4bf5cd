use super::*;
use serde_json::json;

const CONFIG: &str = r#"{"cniVersion": "1.1.0", "name": "net", "linkerd": {"incoming-proxy-port": 4143,
    "outgoing-proxy-port": 4140, "proxy-uid": 2102, "inbound-ports-to-ignore": ["4191", "4190", "4567"],
    "outbound-ports-to-ignore": ["4567"], "subnets-to-ignore": ["10.0.0.0/8"]}}"#;
const BARE: &str = r#"{"cniVersion": "1.1.0", "name": "net"}"#;

fn read(pod: &Value, config: &str) -> Result<Rules, Failure> {
    let config = NetworkConfig::parse(config)?;
    let name = PodName {
        namespace: "app".to_owned(),
        name: "web".to_owned(),
        uid: None,
    };
    rules(&Pod::new(pod), &name, &config)
}

fn pod(annotations: &Value, proxy: &Value) -> Value {
    let mut proxy = proxy.clone();
    proxy["name"] = json!(PROXY);
    json!({"metadata": {"annotations": annotations}, "spec": {"containers": [{"name": "app"}], "initContainers": [proxy]}})
}

/// Everything that a test here looks at, as text: ports, owners, lists.
fn shown(rules: &Rules) -> String {
    let it = &rules.redirection;
    let subnets = &it.skip_inbound_subnets;
    let (uid, gid) = (it.proxy_uid.unwrap_or_default(), it.proxy_gid.unwrap_or_default());
    let (inbound, outbound) = (&it.skip_inbound_ports, &it.skip_outbound_ports);
    format!(
        "{} {} {uid} {gid} in[{inbound}] out[{outbound}] [{subnets}] v6 {}",
        it.inbound_port, it.outbound_port, rules.options.ipv6
    )
}

#[test]
fn a_pod_that_says_nothing_gets_what_the_configuration_says() {
    let plain = pod(&json!({}), &json!({}));
    assert_eq!(
        shown(&read(&plain, CONFIG).unwrap()),
        "4143 4140 2102 0 in[4190,4191,4567] out[4567] [10.0.0.0/8] v6 false"
    );
    assert_eq!(
        shown(&read(&plain, BARE).unwrap()),
        "4143 4140 2102 0 in[4190,4191] out[] [] v6 false"
    );
    assert_eq!(read(&plain, BARE).unwrap().options.mode, Mode::Auto);
}

#[test]
fn what_the_proxy_really_does_wins() {
    let proxy = json!({
        "securityContext": {"runAsUser": 1_000_650_001, "runAsGroup": 3000},
        "ports": [{"name": "linkerd-proxy", "containerPort": 1}],
        "env": [
            {"name": "LINKERD2_PROXY_CONTROL_LISTEN_ADDR", "value": "[::]:5190"},
            {"name": "LINKERD2_PROXY_ADMIN_LISTEN_ADDR", "value": "[::]:5191"},
            {"name": "LINKERD2_PROXY_OUTBOUND_LISTEN_ADDR", "value": "127.0.0.1:5140"},
            {"name": "LINKERD2_PROXY_OUTBOUND_LISTEN_ADDRS", "value": "127.0.0.1:5140,[::1]:5140"},
            {"name": "LINKERD2_PROXY_INBOUND_LISTEN_ADDR", "value": "[::]:5143"},
        ],
    });
    let annotations = json!({
        "config.linkerd.io/proxy-uid": "7", "config.linkerd.io/inbound-port": "9",
        "config.linkerd.io/skip-inbound-ports": "22,6000-8000", "config.linkerd.io/skip-outbound-ports": "25",
        "config.linkerd.io/skip-subnets": "192.168.0.0/16, fd00::/8",
    });
    assert_eq!(
        shown(&read(&pod(&annotations, &proxy), CONFIG).unwrap()),
        "5143 5140 1000650001 3000 in[5190,5191,22,6000-8000] out[25] [192.168.0.0/16,fd00::/8] v6 true"
    );
}

#[test]
fn annotations_stand_in_for_a_container_that_says_nothing() {
    let annotations = json!({
        "config.linkerd.io/proxy-uid": "7", "config.linkerd.io/proxy-gid": "8", "config.linkerd.io/inbound-port": "1143",
        "config.linkerd.io/outbound-port": "1140", "config.linkerd.io/admin-port": "1191",
        "config.linkerd.io/control-port": "1190", "config.linkerd.io/skip-inbound-ports": "",
    });
    assert_eq!(
        shown(&read(&pod(&annotations, &json!({})), CONFIG).unwrap()),
        "1143 1140 7 8 in[1190,1191] out[4567] [10.0.0.0/8] v6 false"
    );
    let declared = json!({"ports": [{"name": "linkerd-proxy", "containerPort": 2143}, {"name": "linkerd-admin", "containerPort": 2191}]});
    assert_eq!(
        shown(&read(&pod(&json!({}), &declared), BARE).unwrap()),
        "2143 4140 2102 0 in[4190,2191] out[] [] v6 false"
    );
}

#[test]
fn the_control_plane_reaches_the_api_server_directly() {
    let mut control = pod(&json!({"config.linkerd.io/skip-outbound-ports": "443,25"}), &json!({}));
    control["metadata"]["labels"] = json!({"linkerd.io/control-plane-component": "destination"});
    assert_eq!(
        read(&control, CONFIG)
            .unwrap()
            .redirection
            .skip_outbound_ports
            .to_string(),
        "443,6443,25"
    );
}

#[test]
fn users_of_a_pod_with_its_own_user_namespace_are_named_by_native_rules() {
    let mut remote = pod(&json!({}), &json!({}));
    remote["spec"]["hostUsers"] = json!(false);
    let nft = r#"{"cniVersion": "1.1.0", "name": "net", "linkerd": {"iptables-mode": "nft"}}"#;
    assert_eq!(read(&remote, nft).unwrap().options.mode, Mode::Native);
    remote["spec"]["hostUsers"] = json!(true);
    assert_eq!(read(&remote, nft).unwrap().options.mode, Mode::Nft);
}

#[test]
fn junk_is_dropped_with_a_warning_and_a_list_of_junk_is_refused() {
    let lists = |key: &str, value: &str| read(&pod(&json!({key: value}), &json!({})), BARE);
    let rules = lists(SKIP_INBOUND, "22, 80").unwrap();
    assert_eq!(rules.redirection.skip_inbound_ports.to_string(), "4190,4191,22");
    assert!(rules.warnings[0].starts_with("config.linkerd.io/skip-inbound-ports: ignored \" 80\": there is a blank"));
    for (key, value, said) in [
        (SKIP_INBOUND, "all", "no entry of \"all\" is a port"),
        (SKIP_OUTBOUND, "70000", "no entry of \"70000\" is a port"),
        (SKIP_SUBNETS, "10.0.0.0", "\"10.0.0.0\" is no subnet"),
        (PROXY_UID, "root", "\"root\" is no ID"),
        (PROXY_GID, "x", "\"x\" is no ID"),
    ] {
        let failure = lists(key, value).unwrap_err();
        assert_eq!(failure.code(), 102);
        assert!(
            failure.to_string().starts_with(&format!("pod app/web: {key}: {said}")),
            "{failure}"
        );
    }
    let root = read(&pod(&json!({}), &json!({"securityContext": {"runAsUser": 0}})), CONFIG).unwrap_err();
    assert_eq!(root.code(), 102);
}

#[test]
fn a_configuration_that_cannot_be_used_is_refused_before_any_rule() {
    for (linkerd, key) in [
        (
            "\"incoming-proxy-port\": 0",
            "linkerd.incoming-proxy-port: 0 is no port",
        ),
        (
            "\"outgoing-proxy-port\": 70000",
            "linkerd.outgoing-proxy-port: 70000 is no port",
        ),
        (
            "\"ports-to-redirect\": [-1]",
            "linkerd.ports-to-redirect: -1 is no port",
        ),
        (
            "\"inbound-ports-to-ignore\": [\"x\"]",
            "linkerd.inbound-ports-to-ignore: no entry",
        ),
        (
            "\"subnets-to-ignore\": [\"x\"]",
            "linkerd.subnets-to-ignore: \"x\" is no subnet",
        ),
        ("\"iptables-mode\": \"x\"", "linkerd.iptables-mode: "),
    ] {
        let config = format!(r#"{{"cniVersion": "1.1.0", "name": "net", "linkerd": {{{linkerd}}}}}"#);
        let failure = read(&pod(&json!({}), &json!({})), &config).unwrap_err();
        assert_eq!(failure.code(), 7, "{failure}");
        assert!(failure.to_string().contains(key), "{failure}");
    }
    let zero = r#"{"cniVersion": "1.1.0", "name": "net", "linkerd": {"proxy-uid": 0}}"#;
    assert_eq!(
        read(&pod(&json!({}), &json!({})), zero).unwrap().redirection.proxy_uid,
        Some(2102)
    );
}

#[test]
fn a_fence_takes_its_name_servers_from_the_pod_and_its_exceptions_from_the_pods_author() {
    const FENCE: &str = "outrigger.linkerd.io/egress-fence";
    const DNS: &str = "outrigger.linkerd.io/egress-dns";
    let servers = |pod: &Value| {
        let rules = read(pod, CONFIG).unwrap().redirection;
        let ports = rules.skip_outbound_ports.to_string();
        rules.fence.map(|fence| (fence.name_servers.to_string(), ports))
    };
    assert_eq!(
        servers(&pod(&json!({FENCE: "disabled", DNS: "10.96.0.10"}), &json!({}))),
        None
    );
    let given = json!({FENCE: "enabled", DNS: "10.96.0.10,fd00::/64"});
    let told = |servers: &str, ports: &str| Some((servers.to_owned(), ports.to_owned()));
    assert_eq!(servers(&pod(&given, &json!({}))), told("10.96.0.10/32,fd00::/64", ""));
    let listed = json!({FENCE: "enabled", DNS: "", "config.linkerd.io/skip-outbound-ports": "25"});
    assert_eq!(servers(&pod(&listed, &json!({}))), told("", "25"));
    let mut labelled = pod(&listed, &json!({}));
    labelled["metadata"]["labels"] = json!({"linkerd.io/control-plane-component": "destination"});
    assert_eq!(servers(&labelled), told("", "25"));
    let mut own = pod(&json!({FENCE: "enabled"}), &json!({}));
    let refused = |pod: &Value| read(pod, CONFIG).unwrap_err();
    assert!(refused(&own).to_string().contains("expected their addresses"));
    own["spec"]["dnsConfig"] = json!({"nameservers": ["10.0.0.53"]});
    assert_eq!(refused(&own).code(), 102);
    own["spec"]["dnsPolicy"] = json!("None");
    assert_eq!(servers(&own), told("10.0.0.53/32", ""));
    for wrong in [json!({FENCE: "yes"}), json!({FENCE: "enabled", DNS: "kube-dns"})] {
        assert_eq!(refused(&pod(&wrong, &json!({}))).code(), 102, "{wrong}");
    }
}
