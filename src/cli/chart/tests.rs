use super::*;

fn target(namespace_object: Option<Value>) -> Target {
    Target {
        namespace: "linkerd-cni".to_owned(),
        release: Release::NEWEST,
        namespace_object,
    }
}

fn namespace(labels: &Value) -> Value {
    json!({"metadata": {"name": "linkerd-cni", "labels": labels}})
}

#[test]
fn the_agent_is_not_installed_where_its_volumes_are_refused() {
    for level in ["baseline", "restricted"] {
        let refusing = namespace(&json!({"pod-security.kubernetes.io/enforce": level}));
        let error = CNI
            .render(json!({}), &target(Some(refusing.clone())))
            .unwrap_err()
            .to_string();
        let begins = format!("namespace linkerd-cni has pod-security.kubernetes.io/enforce={level}, which refuses");
        assert!(error.starts_with(&begins), "{error}");
        // What is applied opens it.
        assert!(
            CNI.render(json!({"createNamespace": true}), &target(Some(refusing)))
                .is_ok()
        );
    }
    let privileged = namespace(&json!({"pod-security.kubernetes.io/enforce": "privileged"}));
    for harmless in [
        None,
        Some(privileged),
        Some(namespace(&json!({}))),
        Some(namespace(&Value::Null)),
    ] {
        assert!(CNI.render(json!({}), &target(harmless)).is_ok());
    }
}

#[test]
fn objects_are_created_in_the_order_that_helm_has() {
    let values = json!({"probe": {"enabled": true}, "autoscaling": {"enabled": true}});
    let manifests = WEBHOOK.render(values, &target(None)).unwrap();
    let kinds: Vec<_> = manifests.iter().map(Manifest::kind).collect();
    let place = |kind: &str| kinds.iter().position(|it| *it == kind).unwrap();
    let order = [
        "PodDisruptionBudget",
        "ServiceAccount",
        "Secret",
        "ConfigMap",
        "ClusterRole",
        "Role",
        "Service",
        "Deployment",
        "HorizontalPodAutoscaler",
        "MutatingWebhookConfiguration",
        "ValidatingAdmissionPolicy",
    ];
    assert!(order.is_sorted_by_key(|kind| place(kind)), "{kinds:?}");
    assert!(!kinds.contains(&"Pod"), "tests are none of it");
}

#[test]
fn a_value_cannot_become_anything_else() {
    let hostile = "x\"\n- {a: b}\n# {{ .Values.image }} <&>\u{2028}";
    let values = json!({"webhook": {"podAnnotations": {"note": hostile}, "nodeSelector": {"a: b": hostile}}});
    let manifests = WEBHOOK.render(values, &target(None)).unwrap();
    let deployment = manifests.iter().find(|it| it.kind() == "Deployment").unwrap();
    let template = deployment.object.pointer("/spec/template").unwrap();
    assert_eq!(template.pointer("/metadata/annotations/note"), Some(&hostile.into()));
    assert_eq!(template.pointer("/spec/nodeSelector/a: b"), Some(&hostile.into()));
}

#[test]
fn a_value_that_is_taken_away_is_not_printed() {
    let values = json!({"webhook": {"runAsUser": null}});
    let manifests = WEBHOOK.render(values, &target(None)).unwrap();
    let deployment = manifests.iter().find(|it| it.kind() == "Deployment").unwrap();
    assert!(!deployment.text.contains("runAsUser:"), "{}", deployment.text);
}
