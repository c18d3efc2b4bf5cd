//! What injecting adds, un-injecting takes away.

#![expect(clippy::wildcard_enum_match_arm, reason = "most kinds are alike")]

use super::*;
use proptest::prelude::*;

/// Manifests with and without what injection adds.
fn workload() -> impl Strategy<Value = Value> {
    let entries = prop::collection::btree_map(
        prop::sample::select(vec![
            "app",
            "linkerd.io/inject",
            "linkerd.io/x",
            "config.linkerd.io/admin-port",
            "linkerd.io/created-by",
        ]),
        prop::sample::select(vec!["enabled", "1", "a"]),
        0..4,
    );
    let container = prop::sample::select(vec![
        "app",
        "linkerd-proxy",
        "linkerd-init",
        "linkerd-network-validator",
        "b",
    ])
    .prop_map(|name| json!({"name": name, "image": "x", "volumeMounts": [{"name": "data", "mountPath": "/d"}]}));
    let list = |item| prop::option::of(prop::collection::vec(item, 0..3));
    let volume = prop::sample::select(vec!["data", "linkerd-identity-token"])
        .prop_map(|name| json!({"name": name, "emptyDir": {}}));
    let kinds = prop::sample::select(Kind::WITH_TEMPLATE.to_vec());
    let parts = (
        prop::collection::vec(container.clone().boxed(), 0..3),
        list(container.boxed()),
        list(volume.boxed()),
    );
    (kinds, prop::option::of(entries.clone()), entries, parts).prop_map(|(kind, annotations, labels, parts)| {
        let (mut containers, init_containers, volumes) = parts;
        containers.push(json!({"name": "app", "image": "x"}));
        let template = json!({"metadata": {"annotations": annotations, "labels": labels},
            "spec": {"containers": containers, "initContainers": init_containers, "volumes": volumes, "newField": {"a": null}}});
        let version = match kind {
            Kind::Pod | Kind::ReplicationController => "v1",
            Kind::CronJob | Kind::Job => "batch/v1",
            _ => "apps/v1",
        };
        let mut object = match kind {
            Kind::Pod => template,
            Kind::CronJob => json!({"spec": {"jobTemplate": {"spec": {"template": template}}}}),
            _ => json!({"spec": {"template": template}}),
        };
        object["apiVersion"] = version.into();
        object["kind"] = kind.name().into();
        object["metadata"]["name"] = "web".into();
        object
    })
}

/// Without nulls and empty lists and maps, which mean the same as nothing.
fn compact(value: &Value) -> Value {
    let filled = |value: &Value| !matches!(value, Value::Null) && *value != json!({}) && *value != json!([]);
    match value {
        Value::Object(map) => map
            .iter()
            .map(|(key, value)| (key.clone(), compact(value)))
            .filter(|(_, value)| filled(value))
            .collect(),
        Value::Array(list) => list.iter().map(compact).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

proptest! {
    #[test]
    fn uninjecting_undoes_injecting(object in workload(), by_hand in any::<bool>()) {
        let injector = if by_hand { manual() } else { annotating() };
        let uninjected = |object: &Value| {
            let mut object = object.clone();
            uninject(&mut object);
            object
        };
        let injected = injector.reinject(&object).unwrap().value;
        prop_assert_eq!(compact(&uninjected(&injected)), compact(&uninjected(&object)));
        let again = injector.reinject(&uninjected(&injected)).unwrap().value;
        prop_assert_eq!(compact(&again), compact(&injected));
        prop_assert_eq!(compact(&injector.reinject(&injected).unwrap().value), compact(&injected));
    }
}
