use super::*;
use serde_json::json;

fn effective(namespace: &Value, pod: &Value) -> Config {
    let installation = Installation::parse(&["linkerdVersion: v1"], Some("anchors"), "linkerd").unwrap();
    let object = json!({"metadata": {"annotations": pod}, "spec": {"containers": []}});
    let pod = Pod::new(&object);
    Config::effective(
        &installation,
        &Layers {
            namespace: namespace.as_object(),
            pod: &pod,
            workload: None,
        },
    )
}

#[test]
fn the_pod_wins_over_the_namespace_and_only_listed_keys_are_inherited() {
    let config = effective(
        &json!({"config.linkerd.io/admin-port": "1", "config.linkerd.io/control-port": "2",
            "config.linkerd.io/enable-gateway": "true", "config.linkerd.io/unknown": "x", "team": "a"}),
        &json!({"config.linkerd.io/admin-port": "3"}),
    );
    assert_eq!(
        (config.values.proxy.ports.admin, config.values.proxy.ports.control),
        (3, 2)
    );
    assert!(!config.values.proxy.is_gateway);
    assert_eq!(
        config.inherited,
        [("config.linkerd.io/control-port".to_owned(), "2".to_owned())]
    );
    let origins: Vec<_> = config
        .overridden
        .iter()
        .map(|field| (field.values_key, field.origin))
        .collect();
    assert_eq!(
        origins,
        [
            ("proxy.ports.control", Origin::Namespace),
            ("proxy.ports.admin", Origin::Pod)
        ]
    );
}

#[test]
fn an_empty_value_of_the_pod_hides_that_of_the_namespace() {
    let namespace = json!({"config.linkerd.io/skip-outbound-ports": "25", "linkerd.io/inject": "ingress"});
    let config = effective(
        &namespace,
        &json!({"config.linkerd.io/skip-outbound-ports": "", "linkerd.io/inject": "enabled"}),
    );
    assert_eq!(config.values.proxy_init.ignore_outbound_ports, "");
    assert!(!config.values.proxy.is_ingress);
    assert!(config.inherited.is_empty());
}

#[test]
fn a_stable_key_hides_the_others_even_where_it_cannot_be_read() {
    let pod = json!({"config.linkerd.io/proxy-enable-native-sidecar": "maybe", "config.alpha.linkerd.io/proxy-enable-native-sidecar": "false"});
    let config = effective(&json!({}), &pod);
    assert!(config.values.proxy.native_sidecar);
    assert_eq!(config.problems.len(), 1);
    let config = effective(
        &json!({}),
        &json!({"config.beta.linkerd.io/proxy-enable-native-sidecar": "false"}),
    );
    assert!(!config.values.proxy.native_sidecar);
}

#[test]
fn environment_variables_of_both_layers_are_merged_by_name() {
    let key = PROXY_ADDITIONAL_ENV;
    let config = effective(
        &json!({key: r#"[{"name":"A","value":"ns"},{"name":"B","value":"ns"}]"#}),
        &json!({key: r#"[{"name":"B","value":"pod"}]"#}),
    );
    let expected = json!([{"name": "A", "value": "ns"}, {"name": "B", "value": "pod"}]);
    assert_eq!(Value::Array(config.values.proxy.additional_env.clone()), expected);
    let config = effective(&json!({}), &json!({key: "[1]"}));
    assert_eq!(config.problems[0].key, key);
}

#[test]
fn problems_name_key_value_and_accepted_form() {
    let config = effective(&json!({}), &json!({"config.linkerd.io/proxy-uid": "0"}));
    let problem = config.fatal_problem().unwrap();
    assert_eq!(
        problem.to_string(),
        r#"pod annotation config.linkerd.io/proxy-uid: "0" is not a user ID other than 0"#
    );
}

#[test]
fn a_long_value_is_not_repeated_to_its_end() {
    let value = "\"é".repeat(1000);
    let config = effective(&json!({}), &json!({"config.linkerd.io/proxy-uid": value}));
    let text = config.problems[0].to_string();
    assert!(
        text.ends_with("… is not a user ID other than 0") && text.len() < 300,
        "{text}"
    );
}
