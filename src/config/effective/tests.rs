use super::*;
use crate::config::NamespaceLayer;
use crate::pod::Pod;
use serde_json::{Value, json};

fn installation() -> Installation {
    Installation::parse(&["linkerdVersion: v1"], Some("anchors"), "linkerd").unwrap()
}

fn effective(namespace: &Value, pod: &Value) -> Config {
    let object = json!({"metadata": {"annotations": pod}, "spec": {"containers": []}});
    let namespace = NamespaceLayer {
        annotations: namespace.as_object(),
        labels: None,
    };
    of_pod(Some(namespace), &object)
}

fn of_pod(namespace: Option<NamespaceLayer<'_>>, object: &Value) -> Config {
    let pod = &Pod::new(object);
    let layers = Layers {
        namespace,
        pod,
        workload: None,
    };
    Config::effective(&installation(), &layers)
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
fn variables_of_a_workload_count_before_those_of_its_template() {
    let list = |name: &str| json!({PROXY_ADDITIONAL_ENV: format!(r#"[{{"name":"{name}"}}]"#)});
    let object = json!({"metadata": {"annotations": list("template")}});
    for (workload, name) in [
        (list("workload"), "workload"),
        (json!({"a": "b"}), "template"),
        (Value::Null, "template"),
    ] {
        let layers = Layers {
            namespace: None,
            pod: &Pod::new(&object),
            workload: workload.as_object(),
        };
        let config = Config::effective(&installation(), &layers);
        assert_eq!(config.values.proxy.additional_env, [json!({"name": name})]);
    }
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
        text.ends_with("… is not a user ID other than 0") && text.len() < 360,
        "{text}"
    );
}

#[test]
fn a_list_of_junk_is_one_problem() {
    let junk = "x,".repeat(125_000);
    let config = effective(&json!({}), &json!({"config.linkerd.io/opaque-ports": junk}));
    let [problem] = config.problems.as_slice() else {
        panic!("{} problems", config.problems.len())
    };
    let text = problem.to_string();
    assert!(text.contains("124997 more") && text.len() < 400, "{text}");
}

#[test]
fn environment_variables_are_never_repeated() {
    for text in [
        r#"[{"name": "TOKEN", "value": "s3cret"},]"#,
        r#""s3cret""#,
        r#"[{"name": ["s3cret"]}]"#,
    ] {
        let config = effective(
            &json!({PROXY_ADDITIONAL_ENV: text}),
            &json!({PROXY_ADDITIONAL_ENV: text}),
        );
        assert_eq!(config.problems.len(), 2);
        assert!(
            !format!("{:?}", config.problems).contains("s3cret"),
            "{:?}",
            config.problems
        );
    }
}

#[test]
fn ingress_mode_is_read_as_annotation_else_as_label_of_the_pod_else_of_its_namespace() {
    let (ingress, enabled, empty) = (
        json!({INJECT: "ingress"}),
        json!({INJECT: "enabled"}),
        json!({INJECT: ""}),
    );
    let none = &Value::Null;
    // Annotations and labels of the pod, then of the namespace, and who sets ingress mode.
    for (pod, namespace, origin) in [
        ([&ingress, none], [none, none], Some("pod annotation")),
        ([none, &ingress], [none, none], Some("pod label")),
        ([&empty, &ingress], [none, none], Some("pod label")),
        ([&enabled, &ingress], [none, none], None),
        ([none, none], [&ingress, none], Some("namespace annotation")),
        ([none, none], [none, &ingress], Some("namespace label")),
        ([none, none], [&enabled, &ingress], None),
        ([&empty, none], [&ingress, none], None),
        ([none, &enabled], [none, &ingress], None),
    ] {
        let object = json!({"metadata": {"annotations": pod[0], "labels": pod[1]}});
        let layer = NamespaceLayer {
            annotations: namespace[0].as_object(),
            labels: namespace[1].as_object(),
        };
        let config = of_pod(Some(layer), &object);
        assert_eq!(
            config.values.proxy.is_ingress,
            origin.is_some(),
            "{pod:?} {namespace:?}"
        );
        let found = config.set_by("proxy.isIngress");
        let found = found.map(|field| format!("{} {}", field.origin, field.place));
        assert_eq!(found.as_deref(), origin, "{pod:?} {namespace:?}");
    }
}

#[test]
fn a_namespace_without_annotations_is_a_namespace() {
    let pod = json!({"spec": {"containers": [{"ports": [{"containerPort": 3306}]}]}});
    let config = of_pod(Some(NamespaceLayer::default()), &pod);
    assert_eq!(config.inherited, [(OPAQUE_PORTS.to_owned(), "3306".to_owned())]);
    assert_eq!(
        config.overridden[0].to_string(),
        "proxy.opaquePorts is narrowed to the pod's own ports: \"3306\""
    );
    assert!(of_pod(None, &pod).inherited.is_empty());
}

#[test]
fn every_field_keeps_its_origin() {
    let documents = ["linkerdVersion: v1\nproxy: {uid: 3, ports: {admin: 1, control: 2}}"];
    let installation = Installation::parse(&documents, Some("anchors"), "linkerd").unwrap();
    let object = json!({"metadata": {"annotations": {"config.linkerd.io/admin-port": "7"}}});
    let annotations = json!({"config.linkerd.io/admin-port": "8", "config.linkerd.io/proxy-uid": "9"});
    let namespace = NamespaceLayer {
        annotations: annotations.as_object(),
        labels: None,
    };
    let layers = Layers {
        namespace: Some(namespace),
        pod: &Pod::new(&object),
        workload: None,
    };
    let config = Config::effective(&installation, &layers);
    for (key, origin) in [
        ("proxy.ports.admin", Origin::Pod),
        ("proxy.uid", Origin::Namespace),
        ("proxy.ports.control", Origin::Values),
        ("proxy.ports.inbound", Origin::Default),
        ("proxy", Origin::Values),
        ("proxyInit.skipSubnets", Origin::Default),
    ] {
        assert_eq!(config.origin(&installation, key), origin, "{key}");
    }
    assert_eq!(
        installation.changes(),
        [
            r#"linkerdVersion is set by the values: "v1""#,
            "proxy.ports.admin is set by the values: 1",
            "proxy.ports.control is set by the values: 2",
            "proxy.uid is set by the values: 3",
        ]
    );
}
