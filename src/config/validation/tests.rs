use super::*;
use crate::config::{Layers, NamespaceLayer};
use crate::pod::Pod;
use serde_json::{Value, json};

fn effective(values: &str, annotations: &Value) -> Config {
    let installation = Installation::parse(&["linkerdVersion: v1", values], Some("anchors"), "linkerd").unwrap();
    let object = json!({"metadata": {"annotations": annotations}});
    let layers = Layers {
        namespace: Some(NamespaceLayer::default()),
        pod: &Pod::new(&object),
        workload: None,
    };
    Config::effective(&installation, &layers)
}

/// The only problem with a configuration.
fn problem(config: &Config) -> (String, Consequence) {
    let [problem] = config.problems.as_slice() else {
        panic!("{:?}", config.problems)
    };
    (problem.to_string(), problem.consequence)
}

#[test]
fn the_defaults_of_the_chart_are_all_right() {
    assert_eq!(
        effective("", &json!({"config.linkerd.io/enable-debug-sidecar": "true"})).problems,
        []
    );
}

#[test]
fn annotations_that_the_api_server_will_refuse_are_taken_with_a_warning() {
    for (key, value, expected) in [
        ("proxy-uid", "-5", "a user ID from 1 to 2147483647"),
        ("proxy-uid", "3000000000", "a user ID from 1 to 2147483647"),
        (
            "proxy-gid",
            "4000000000",
            "a group ID from 0 to 2147483647, or -1 for none",
        ),
        ("proxy-gid", "-5", "a group ID from 0 to 2147483647, or -1 for none"),
        ("inbound-port", "70000", "a port from 1 to 65535"),
        ("outbound-port", "0", "a port from 1 to 65535"),
        ("control-port", "-1", "a port from 1 to 65535"),
        ("admin-port", "-3", "a port from 1 to 65535"),
        ("image-pull-policy", "Sometimes", "one of Always, IfNotPresent, Never"),
        ("proxy-image", "", "the name of an image"),
        ("proxy-image", "a b", "the name of an image"),
        ("proxy-version", "v 1", "the tag of an image"),
        ("close-wait-timeout", "-5s", "a duration of 0 or more"),
        ("skip-inbound-ports", "x", "a port or a range of ports"),
        ("skip-subnets", "10.0.0.0", "a subnet such as 10.0.0.0/8"),
    ] {
        let key = format!("config.linkerd.io/{key}");
        let config = effective("", &json!({ key.as_str(): value }));
        let text = format!("pod annotation {key}: {value:?} is not {expected}");
        assert_eq!(problem(&config), (text, Consequence::Kept));
    }
    let config = effective(
        "",
        &json!({"config.linkerd.io/proxy-uid": "-5", "config.linkerd.io/inbound-port": "70000"}),
    );
    assert_eq!(
        (config.values.proxy.uid, config.values.proxy.ports.inbound),
        (-5, 70000)
    );
}

#[test]
fn a_limit_below_its_request_is_said_of_what_was_written_last() {
    let request = json!({"config.linkerd.io/proxy-cpu-request": "1500m"});
    let config = effective("proxy: {resources: {cpu: {limit: 1}}}", &request);
    let text = r#"pod annotation config.linkerd.io/proxy-cpu-request: "1500m" is not at most the limit, "1""#;
    assert_eq!(problem(&config), (text.to_owned(), Consequence::Kept));
    let both =
        json!({"config.linkerd.io/proxy-memory-request": "1Gi", "config.linkerd.io/proxy-memory-limit": "1000Mi"});
    let text = r#"pod annotation config.linkerd.io/proxy-memory-limit: "1000Mi" is not at least the request, "1Gi""#;
    assert_eq!(problem(&effective("", &both)).0, text);
    assert_eq!(
        effective(
            "proxy: {resources: {memory: {limit: 1Gi, request: 1024Mi}}}",
            &json!({})
        )
        .problems,
        []
    );
}

#[test]
fn the_values_document_is_looked_at_as_well() {
    for (values, text) in [
        (
            "proxy: {uid: -5}",
            r#"proxy.uid: "-5" is not a user ID from 1 to 2147483647"#,
        ),
        (
            "proxy: {ports: {admin: 70000}}",
            r#"proxy.ports.admin: "70000" is not a port from 1 to 65535"#,
        ),
        (
            "imagePullPolicy: Sometimes",
            r#"imagePullPolicy: "Sometimes" is not one of Always, IfNotPresent, Never"#,
        ),
        (
            "proxyInit: {skipSubnets: all}",
            r#"proxyInit.skipSubnets: "all" is not a subnet such as 10.0.0.0/8"#,
        ),
        (
            "proxyInit: {xtMountPath: {name: Run_Lock}}",
            r#"proxyInit.xtMountPath.name: "Run_Lock" is not the name of a volume"#,
        ),
        (
            "proxy: {additionalEnv: [{value: s3cret}]}",
            "proxy.additionalEnv: a variable has no name that the API server takes: printable ASCII without =",
        ),
    ] {
        let expected = (format!("values document: {text}"), Consequence::Kept);
        assert_eq!(problem(&effective(values, &json!({}))), expected);
    }
    let (text, consequence) = problem(&effective("proxy: {resources: {cpu: {limit: lots}}}", &json!({})));
    assert!(
        text.starts_with("values document: proxy.resources.cpu.limit: \"lots\""),
        "{text}"
    );
    assert_eq!(consequence, Consequence::Fatal);
}

#[test]
fn junk_is_dropped_from_lists_by_name() {
    let annotations = json!({
        "config.linkerd.io/skip-inbound-ports": "25,x,6000-8000,\"",
        "config.linkerd.io/skip-outbound-ports": "443,",
        "config.linkerd.io/skip-subnets": "10.0.0.0/8, fd00::/8,10.0.0.0/33",
    });
    let config = effective("", &annotations);
    let init = &config.values.proxy_init;
    assert_eq!(init.ignore_inbound_ports, "25,6000-8000");
    assert_eq!(init.ignore_outbound_ports, "443,");
    assert_eq!(init.skip_subnets, "10.0.0.0/8, fd00::/8");
    let said: Vec<_> = config
        .problems
        .iter()
        .map(|problem| (problem.to_string(), problem.consequence))
        .collect();
    let expected = [
        r#"skip-inbound-ports: none of "x", "\"" is a port or a range of ports"#,
        r#"skip-subnets: "10.0.0.0/33" is not a subnet such as 10.0.0.0/8"#,
    ];
    let expected = expected.map(|text| (format!("pod annotation config.linkerd.io/{text}"), Consequence::Ignored));
    assert_eq!(said, expected);
}

#[test]
fn a_list_of_junk_alone_is_kept() {
    let config = effective("", &json!({"config.linkerd.io/skip-inbound-ports": "80\","}));
    assert_eq!(config.values.proxy_init.ignore_inbound_ports, "80\",");
    assert_eq!(problem(&config).1, Consequence::Kept);
}

#[test]
fn security_contexts_hold_what_restricted_admits() {
    let values = "proxy: {securityContext: {runAsUser: 5, procMount: Unmasked, readOnlyRootFilesystem: false,
        seLinuxOptions: {level: 's0:c1,c2'}, appArmorProfile: {type: Unconfined}}}
networkValidator: {securityContext: {seLinuxOptions: {type: spc_t}}}";
    let config = effective(values, &json!({}));
    let context = json!({"runAsUser": 5, "readOnlyRootFilesystem": false, "seLinuxOptions": {"level": "s0:c1,c2"}});
    assert_eq!(Value::from(config.values.proxy.security_context.clone()), context);
    assert!(config.values.network_validator.security_context.is_empty());
    let said: Vec<_> = config.problems.iter().map(ToString::to_string).collect();
    assert_eq!(
        said,
        [
            r#"values document: proxy.securityContext: none of "appArmorProfile", "procMount" is a field that the restricted level admits with its value"#,
            r#"values document: networkValidator.securityContext: "seLinuxOptions" is not a field that the restricted level admits with its value"#,
        ]
    );
}
