use super::*;
use crate::cluster::facts::Taint;
use serde_json::json;
use std::sync::Arc;

fn objects() -> Vec<Value> {
    let daemon_set = |label: &str, name: &str| {
        json!({"apiVersion": "apps/v1", "kind": "DaemonSet",
            "metadata": {"name": name, "namespace": "linkerd-cni", "labels": {"k8s-app": label}},
            "spec": {"template": {"spec": {"nodeSelector": {"kubernetes.io/os": "linux"}, "containers": [{"name": "a"}],
                "tolerations": [{"operator": "Exists"}]}}}})
    };
    vec![
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop",
            "labels": {"pod-security.kubernetes.io/enforce": "baseline"},
            "annotations": {"linkerd.io/inject": "enabled", "kubectl.kubernetes.io/last-applied-configuration": "{}"}}}),
        json!({"apiVersion": "v1", "kind": "List", "items": [
            {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", "labels": {"zone": "a"}},
                "spec": {"taints": [{"key": "gpu", "effect": "NoSchedule"}]}},
            {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n0", "labels": {"zone": "a"}}},
            daemon_set("linkerd-cni", "linkerd-cni"),
            daemon_set("kube-proxy", "kube-proxy"),
        ]}),
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}),
    ]
}

#[test]
fn manifests_are_a_cluster() {
    let mut index = Index::from_objects(&objects()).unwrap();
    assert!(index.settled());
    let shop = index.namespaces.get("shop").unwrap();
    assert_eq!(shop.labels["kubernetes.io/metadata.name"], "shop");
    assert_eq!(shop.labels["pod-security.kubernetes.io/enforce"], "baseline");
    assert_eq!(
        Value::Object(shop.annotations.clone()),
        json!({"linkerd.io/inject": "enabled"})
    );

    let facts = index.facts();
    let nodes = facts.nodes.items.unwrap();
    assert_eq!(nodes.iter().map(|node| &*node.name).collect::<Vec<_>>(), ["n0", "n1"]);
    assert_eq!(
        nodes[1].taints[..],
        [Taint {
            key: "gpu".into(),
            value: "".into(),
            effect: "NoSchedule".into()
        }]
    );
    let (zone, same) = (&nodes[0].labels["zone"], &nodes[1].labels["zone"]);
    assert!(Arc::ptr_eq(zone, same), "texts are shared");

    let plugins = facts.plugins.items.unwrap();
    assert_eq!(
        plugins.iter().map(|plugin| plugin.name.as_str()).collect::<Vec<_>>(),
        ["linkerd-cni"]
    );
    let placement = json!({"nodeSelector": {"kubernetes.io/os": "linux"}, "tolerations": [{"operator": "Exists"}]});
    assert_eq!(plugins[0].pod_spec, placement);
}

#[test]
fn a_manifest_of_the_wrong_shape_is_named() {
    let bad = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", "labels": {"zone": 7}}});
    let error = Index::from_objects(&[bad]).unwrap_err().to_string();
    assert!(error.starts_with("Node \"n1\": invalid type: integer `7`"), "{error}");
}

fn named(name: &str, zone: &str) -> (Arc<str>, Node) {
    let labels = [("zone".into(), zone.into())].into();
    let name: Arc<str> = name.into();
    let node = Node {
        name: Arc::clone(&name),
        labels,
        taints: Vec::new(),
    };
    (name, node)
}

#[test]
fn only_a_real_change_makes_a_new_generation() {
    let mut index = Index::default();
    index.nodes.reset(vec![named("a", "1"), named("b", "1")]);
    let first = index.facts();
    let (name, same) = named("a", "1");
    index.nodes.apply(name, same);
    index.nodes.delete("unknown");
    index.nodes.reset(vec![named("b", "1"), named("a", "1")]);
    let second = index.facts();
    assert_eq!(first.generation, second.generation);
    assert!(Arc::ptr_eq(&first.nodes.items.unwrap(), &second.nodes.items.unwrap()));

    let mut seen = vec![second.generation];
    let mut note = |index: &mut Index| {
        let generation = index.facts().generation;
        assert!(!seen.contains(&generation));
        seen.push(generation);
    };
    let (name, moved) = named("a", "2");
    index.nodes.apply(name, moved);
    note(&mut index);
    index.nodes.delete("b");
    note(&mut index);
    index.nodes.reset(vec![named("a", "3")]);
    note(&mut index);
    index.plugins.reset(Vec::new());
    note(&mut index);
}

#[test]
fn a_failing_watch_makes_known_objects_stale_and_unknown_ones_unavailable() {
    let mut index = Index::default();
    assert_eq!(index.nodes.freshness(), Freshness::Pending);
    assert!(!index.settled());
    index.nodes.fail("forbidden".into());
    index.plugins.fail("forbidden".into());
    index.set_release(None);
    index.namespaces.fail("refused".into());
    assert!(!index.settled(), "namespaces are waited for");
    index.namespaces.reset(Vec::new());
    assert!(index.settled());

    let facts = index.facts();
    assert!(facts.nodes.items.is_none());
    assert_eq!(facts.nodes.trouble.as_deref(), Some("forbidden"));
    index.nodes.reset(vec![named("a", "1")]);
    index.nodes.fail("gone".into());
    let facts = index.facts();
    assert_eq!(facts.nodes.items.unwrap().len(), 1);
    assert_eq!(facts.nodes.trouble.as_deref(), Some("gone"));
    assert_eq!(index.nodes.freshness(), Freshness::Stale);
    let (name, node) = named("a", "1");
    index.nodes.apply(name, node);
    assert_eq!(index.nodes.freshness(), Freshness::Current);
    assert_eq!(index.status()[1].failures, 2);
}

#[test]
fn what_the_server_said_last_of_its_release_stays() {
    let mut index = Index::default();
    index.set_release(Some(Release(36)));
    index.set_release(None);
    assert_eq!(index.facts().release, Some(Release(36)));
}

#[test]
fn texts_that_nobody_has_are_forgotten() {
    let mut texts = Interner::default();
    let kept = texts.share("kept");
    for number in 0..10_000 {
        texts.share(&number.to_string());
    }
    assert!(texts.len() < 3_000, "{}", texts.len());
    assert!(Arc::ptr_eq(&kept, &texts.share("kept")));
}
