use super::*;
use crate::decide::Coverage;
use crate::policy::Release;
use crate::policy::probe::Word;
use serde_json::json;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

fn objects() -> Vec<Value> {
    let daemon_set = |name: &str| {
        json!({"apiVersion": "apps/v1", "kind": "DaemonSet",
            "metadata": {"name": name, "namespace": "linkerd-cni", "labels": {"k8s-app": name}},
            "spec": {"template": {"spec": {"nodeSelector": {"zone": "a"}, "containers": [{"name": "a"}],
                "volumes": [{"name": "net", "hostPath": {"path": "/etc/cni/net.d"}}]}}}})
    };
    vec![
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop",
            "labels": {"pod-security.kubernetes.io/enforce": "baseline"},
            "annotations": {"linkerd.io/inject": "enabled", "kubectl.kubernetes.io/last-applied-configuration": "{}"}}}),
        json!({"apiVersion": "v1", "kind": "List", "items": [
            {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", "labels": {"zone": "a"}},
                "spec": {"taints": [{"key": "gpu", "effect": "NoSchedule"}]}},
            {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n0", "labels": {"zone": "b"}}},
            daemon_set("linkerd-cni"),
            daemon_set("kube-proxy"),
        ]}),
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}),
    ]
}

/// Coverage for a pod with this `spec`.
fn coverage(index: &mut Index, spec: &Value) -> Arc<Coverage> {
    index.facts(&Pod::new(&json!({"spec": spec}))).coverage.unwrap()
}

#[test]
fn manifests_are_a_cluster() {
    let mut index = Index::from_objects(&objects(), None).unwrap();
    assert!(index.settled());
    let shop = index.namespaces.get("shop").unwrap();
    assert_eq!(shop.labels["kubernetes.io/metadata.name"], "shop");
    assert_eq!(shop.labels["pod-security.kubernetes.io/enforce"], "baseline");
    assert_eq!(
        Value::Object(shop.annotations.clone()),
        json!({"linkerd.io/inject": "enabled"})
    );
    assert_eq!(
        index.nodes.iter().map(|node| node.name.as_str()).collect::<Vec<_>>(),
        ["n0", "n1"]
    );
    assert_eq!(index.nodes.get("n1").unwrap().taints[0].key, "gpu");
    assert_eq!(
        index
            .plugins
            .iter()
            .map(|plugin| plugin.name.as_str())
            .collect::<Vec<_>>(),
        ["linkerd-cni/linkerd-cni"]
    );

    let facts = index.facts(&Pod::new(&json!({})));
    assert!(facts.foreign_plugin);
    assert_eq!((facts.server, facts.troubles.len()), (None, 0));
}

#[test]
fn coverage_is_judged_for_the_nodes_that_a_pod_can_land_on() {
    let mut index = Index::from_objects(&objects(), None).unwrap();
    let bound = |node: &str| {
        let field = json!({"key": "metadata.name", "operator": "In", "values": [node]});
        let terms = json!({"nodeSelectorTerms": [{"matchFields": [field]}]});
        let affinity = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}});
        json!({"affinity": affinity, "tolerations": [{"operator": "Exists"}]})
    };
    // The DaemonSet's pods do not tolerate the taint of n1, and are not meant for n0.
    assert_eq!(*coverage(&mut index, &json!({})), Coverage::None);
    assert_eq!(*coverage(&mut index, &bound("n0")), Coverage::None);
    assert_eq!(*coverage(&mut index, &json!({"nodeName": "n0"})), Coverage::None);
    let untainted = json!({"metadata": {"name": "n1", "labels": {"zone": "a"}}, "spec": {}});
    let (name, node) = node(serde_json::from_value(untainted).unwrap());
    index.nodes.apply(name, node.unwrap());
    assert_eq!(*coverage(&mut index, &bound("n1")), Coverage::All { nodes: 1 });
    assert_eq!(
        *coverage(&mut index, &json!({"nodeName": "n1"})),
        Coverage::All { nodes: 1 }
    );
    assert_eq!(
        *coverage(&mut index, &json!({"nodeSelector": {"zone": "c"}})),
        Coverage::NoNodes
    );
    assert!(matches!(
        *coverage(&mut index, &json!({})),
        Coverage::Some {
            covered: 1,
            nodes: 2,
            ..
        }
    ));
}

#[test]
fn coverage_is_judged_once_until_something_changes() {
    let mut index = Index::from_objects(&objects(), None).unwrap();
    let first = coverage(&mut index, &json!({}));
    assert!(Arc::ptr_eq(&first, &coverage(&mut index, &json!({"containers": []}))));
    index.nodes.delete("n0");
    let second = coverage(&mut index, &json!({}));
    assert!(!Arc::ptr_eq(&first, &second));
    index.plugins.delete("linkerd-cni/linkerd-cni");
    index.look_after_plugins(Timestamp::now());
    assert!(!Arc::ptr_eq(&second, &coverage(&mut index, &json!({}))));
}

#[test]
fn pods_of_the_plugin_tell_where_it_is_failing() {
    let labels = json!({"app.kubernetes.io/name": "outrigger-cni"});
    let metadata = |name: &str| json!({"name": name, "namespace": "linkerd-cni", "labels": labels});
    let ready = json!({"type": "Ready", "status": "False", "lastTransitionTime": "2024-01-01T00:00:00Z"});
    let node = |name: &str| json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}});
    let objects = [
        json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": metadata("agent"),
            "spec": {"template": {"spec": {"volumes": [{"name": "net", "hostPath": {"path": "/etc/cni/net.d"}}]}}}}),
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata("agent-1"), "spec": {"nodeName": "n1"},
            "status": {"conditions": [ready]}}),
        node("n1"),
        node("n2"),
    ];
    let mut index = Index::from_objects(&objects, None).unwrap();
    let failing = Coverage::Failing {
        failing: 1,
        nodes: 2,
        node: "n1".to_owned(),
    };
    assert_eq!(*coverage(&mut index, &json!({})), failing);
    assert_eq!(
        *coverage(&mut index, &json!({"nodeName": "n2"})),
        Coverage::All { nodes: 1 }
    );
    let status = index.status();
    let pods = status.iter().find(|status| status.resource == "pods").unwrap();
    assert_eq!((pods.objects, pods.freshness), (1, Freshness::Current));
    // Without the plugin nobody cares for its pods.
    index.plugins.delete("linkerd-cni/agent");
    assert!(index.look_after_plugins(Timestamp::now()).is_empty());
    assert_eq!(*coverage(&mut index, &json!({})), Coverage::None);
    assert!(index.status().iter().all(|status| status.resource != "pods"));
}

#[test]
fn a_manifest_of_the_wrong_shape_is_named() {
    let bad = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", "labels": {"zone": 7}}});
    let error = Index::from_objects(&[bad], None).unwrap_err().to_string();
    assert!(
        error.starts_with("Node \"n1\": metadata.labels.zone: invalid type: integer `7`"),
        "{error}"
    );
}

fn named(name: &str, zone: &str) -> (Arc<str>, Node) {
    let node = Node {
        name: name.to_owned(),
        labels: [("zone".to_owned(), zone.to_owned())].into(),
        ..Node::default()
    };
    (name.into(), node)
}

#[test]
fn only_a_real_change_makes_a_new_generation() {
    let mut nodes = Collection::default();
    nodes.reset(vec![named("a", "1"), named("b", "1")]);
    let first = nodes.generation();
    let (name, same) = named("a", "1");
    nodes.apply(name, same);
    nodes.delete("unknown");
    nodes.reset(vec![named("b", "1"), named("a", "1")]);
    assert_eq!(nodes.generation(), first);

    let (name, moved) = named("a", "2");
    nodes.apply(name, moved);
    assert_eq!(nodes.generation(), first + 1);
    nodes.delete("b");
    assert_eq!(nodes.generation(), first + 2);
    nodes.reset(vec![named("a", "3")]);
    assert_eq!(nodes.generation(), first + 3);
}

#[test]
fn a_failing_watch_makes_known_objects_stale_and_unknown_ones_unavailable() {
    let mut index = Index::default();
    assert_eq!(index.nodes.freshness(), Freshness::Pending);
    assert!(!index.settled());
    index.nodes.fail("forbidden".into());
    index.plugins.reset(Vec::new());
    index.look_after_plugins(Timestamp::now());
    index.set_server(Some(Release(36).into()));
    index.namespaces.fail("refused".into());
    index.sources.complete();
    index.compile();
    assert!(!index.settled(), "namespaces are waited for");
    index.namespaces.reset(Vec::new());
    index.look_after_plugins(Timestamp::now());
    assert!(index.settled());

    let facts = index.facts(&Pod::new(&json!({})));
    assert_eq!(facts.coverage, None);
    assert_eq!(facts.troubles, [("nodes", "forbidden".into())]);
    index.nodes.reset(vec![named("a", "1")]);
    index.nodes.fail("gone".into());
    assert_eq!(index.nodes.freshness(), Freshness::Stale);
    let facts = index.facts(&Pod::new(&json!({})));
    assert!(facts.coverage.is_some());
    assert_eq!(facts.troubles, [("nodes", "gone".into())]);
    let (name, node) = named("a", "1");
    index.nodes.apply(name, node);
    assert_eq!(index.nodes.freshness(), Freshness::Current);
    assert_eq!(index.status()[1].failures, 2);
}

#[test]
fn a_server_that_never_told_its_release_is_waited_for() {
    let mut index = Index::default();
    index.namespaces.reset(Vec::new());
    index.nodes.reset(Vec::new());
    index.plugins.reset(Vec::new());
    index.look_after_plugins(Timestamp::now());
    index.sources.complete();
    index.compile();
    index.set_server(None);
    assert!(!index.settled());
    index.set_server(Some(Release(36).into()));
    index.set_server(None);
    assert!(index.settled());
}

#[test]
fn a_daemon_set_is_the_plugin_where_its_namespace_admits_it() {
    let level = |level: &str| {
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "linkerd-cni",
            "labels": {"pod-security.kubernetes.io/enforce": level}}})
    };
    let of = |level: Value| Index::from_objects(&[objects(), vec![level]].concat(), None).unwrap();
    let facts = |index: &mut Index| {
        let watched = index.look_after_plugins(Timestamp::now()).len();
        (index.facts(&Pod::new(&Value::Null)).foreign_plugin, watched)
    };
    let mut believed = of(level("privileged"));
    assert_eq!((facts(&mut believed), believed.disbelieved().len()), ((true, 1), 0));
    let mut disbelieved = of(level("baseline"));
    assert_eq!(facts(&mut disbelieved), (false, 0));
    assert!(disbelieved.disbelieved().contains_key("linkerd-cni/linkerd-cni"));
    // Where the cluster's own default refuses it, only a label can admit it.
    let document = json!({"apiVersion": "pod-security.admission.config.k8s.io/v1", "kind": "PodSecurityConfiguration",
        "defaults": {"enforce": "baseline"}});
    let configuration = Configuration::read(&document).unwrap();
    let unlabelled = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "linkerd-cni"}});
    for (namespace, expected) in [(level("privileged"), true), (unlabelled, false)] {
        let mut index = of(namespace);
        index.set_pod_security(&configuration);
        assert_eq!(facts(&mut index).0, expected);
    }
}

#[test]
fn nobody_decides_before_it_is_known_where_the_plugin_fails() {
    let mut index = Index::default();
    index.namespaces.reset(Vec::new());
    index.nodes.reset(Vec::new());
    index.sources.complete();
    index.compile();
    index.set_server(Some(Release(36).into()));
    let metadata = json!({"namespace": "linkerd-cni", "name": "cni", "labels": {"k8s-app": "linkerd-cni"}});
    let plugin = Plugin::read(&json!({"metadata": metadata, "spec": {"template": {"spec": {"volumes": [{"name": "net", "hostPath": {"path": "/etc/cni/net.d"}}]}}}})).unwrap();
    index.plugins.reset(vec![("linkerd-cni/cni".into(), plugin)]);
    let look = |index: &mut Index| index.look_after_plugins(Timestamp::now());
    let places = look(&mut index);
    assert!(!index.settled(), "its pods are not listed");
    for place in &places {
        index.plugin_pods.at(place).fail("pods is forbidden".into());
    }
    assert!(!index.settled(), "nobody has looked");
    look(&mut index);
    assert!(index.settled(), "what may not be read holds nobody up");
    index.plugin_pods.retain(&BTreeSet::new());
    assert!(index.settled(), "who decides goes on");
}

#[test]
fn what_is_remembered_of_a_placement_is_as_short_for_a_long_one() {
    let mut index = Index::from_objects(&objects(), None).unwrap();
    let selecting = |zone: &str| json!({"nodeSelector": {"zone": zone.repeat(1 << 20)}});
    let first = coverage(&mut index, &selecting("x"));
    assert!(Arc::ptr_eq(&first, &coverage(&mut index, &selecting("x"))));
    assert!(!Arc::ptr_eq(&first, &coverage(&mut index, &selecting("y"))));
    let debug = format!("{:?}", index.placements);
    assert!(debug.len() < 1 << 10, "{} bytes are kept", debug.len());
}

#[test]
fn what_the_server_said_last_of_its_release_stays() {
    let mut index = Index::default();
    index.set_server(Some(Release(36).into()));
    index.set_server(None);
    assert_eq!(index.facts(&Pod::new(&json!({}))).server, Some(Release(36).into()));
}

#[test]
fn what_a_probe_reports_is_told_by_its_name_and_damage_is_unknown() {
    let map = |name: &str, data: Value| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data});
    let labels = json!({"kubernetes.io/metadata.name": "shop"});
    let said = json!({"verdict": "admitted"});
    let digest = crate::policy::probe::digest(labels.as_object());
    let finding = json!({"at": 1000, "labels": digest, "plain": said, "init-container": said, "cni": said});
    let data = json!({"_format": "1", "shop": finding.to_string(), "bad": "{"});
    let word = |index: &mut Index, name: &str| {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1042);
        let findings = index.facts(&Pod::new(&Value::Null)).findings;
        findings.word(name, labels.as_object(), now)
    };

    let mut index = Index::from_objects(&[map("x", json!(7)), map(CONFIG_MAP, data.clone())], None).unwrap();
    let found = word(&mut index, "shop");
    assert!(
        matches!(&found, Word::Found { age, .. } if age.as_secs() == 42),
        "{found:?}"
    );
    assert!(matches!(word(&mut index, "bad"), Word::Unknown { .. }));
    assert_eq!(index.probe_standing(Duration::from_secs(1042)).unwrap().unreadable, 1);
    let mut none = Index::from_objects(&[map("x", data)], None).unwrap();
    assert_eq!(
        (word(&mut none, "shop"), none.probe_standing(Duration::ZERO)),
        (Word::Absent, None)
    );
    let error = Index::from_objects(&[map(CONFIG_MAP, json!({"shop": 7}))], None).unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("ConfigMap \"outrigger-probe-findings\": data"),
        "{error}"
    );
}

#[test]
fn findings_that_may_not_be_read_are_unknown_and_hold_nobody_up() {
    let mut index = Index::from_objects(&objects(), None).unwrap();
    index.listen_to_probe();
    index.findings.forget();
    assert!(!index.settled(), "they are waited for");
    index.findings.fail("configmaps is forbidden".into());
    assert!(index.settled());
    let findings = index.facts(&Pod::new(&Value::Null)).findings;
    let word = findings.word("shop", None, SystemTime::UNIX_EPOCH);
    assert!(
        matches!(&word, Word::Unknown { why } if why == "configmaps: configmaps is forbidden"),
        "{word:?}"
    );
    let status = index.status();
    let of_probe = status.iter().find(|status| status.resource == "configmaps").unwrap();
    assert_eq!(of_probe.freshness, Freshness::Unavailable);
}
