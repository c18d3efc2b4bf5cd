use super::*;
use serde_json::json;

fn uninjected(mut object: Value) -> (Value, bool) {
    let found = uninject(&mut object);
    (object, found)
}

#[test]
fn everything_that_injection_adds_is_taken_out() {
    let container = |name: &str| json!({"name": name, "image": "x", "volumeMounts": [{"name": "renamed-lock", "mountPath": "/run"}]});
    let object = json!({"apiVersion": "apps/v1", "kind": "Deployment",
    "metadata": {"name": "web", "annotations": {"linkerd.io/created-by": "x"}},
    "spec": {"template": {
        "metadata": {
            "annotations": {"linkerd.io/inject": "enabled", "linkerd.io/setup-iptables": "cni",
                "outrigger.linkerd.io/owner": "x", "outrigger.linkerd.io/service-account": "web", "config.linkerd.io/admin-port": "1", "viz.linkerd.io/tap": "on"},
            "labels": {"app": "web", "linkerd.io/workload-ns": "shop", "linkerd.io/proxy-deployment": "web"}
        },
        "spec": {
            "initContainers": [container("linkerd-init"), {"name": "linkerd-network-validator"}, {"name": "linkerd-proxy"}],
            "containers": [{"name": "linkerd-proxy"}, {"name": "app", "volumeMounts": [{"name": "data"}]}, {"name": "linkerd-debug"}],
            "volumes": [{"name": "data", "emptyDir": {}}, {"name": "renamed-lock", "emptyDir": {}},
                {"name": "linkerd-podinfo"}, {"name": "linkerd-identity-token"}, {"name": "linkerd-identity-end-entity"}],
            "brandNewField": [null, {}]
        }
    }}});
    let expected = json!({"apiVersion": "apps/v1", "kind": "Deployment",
    "metadata": {"name": "web"},
    "spec": {"template": {
        "metadata": {
            "annotations": {"config.linkerd.io/admin-port": "1", "viz.linkerd.io/tap": "on"},
            "labels": {"app": "web"}
        },
        "spec": {
            "containers": [{"name": "app", "volumeMounts": [{"name": "data"}]}],
            "volumes": [{"name": "data", "emptyDir": {}}],
            "brandNewField": [null, {}]
        }
    }}});
    assert_eq!(uninjected(object), (expected.clone(), true));
    assert_eq!(uninjected(expected.clone()), (expected, false));
}

#[test]
fn what_the_application_uses_stays() {
    let volumes = json!([{"name": "api", "projected": {}}, {"name": "shared", "emptyDir": {}}]);
    let mounts = json!([{"name": "api"}, {"name": "shared"}]);
    let object = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"annotations": {"linkerd.io/inject": "disabled"}, "labels": {}},
    "spec": {
        "initContainers": [{"name": "linkerd-init", "volumeMounts": mounts}, {"name": "own", "volumeMounts": [{"name": "shared"}]}],
        "containers": [], "volumes": volumes
    }});
    let (pod, found) = uninjected(object);
    assert!(found);
    assert_eq!(
        pod["metadata"],
        json!({"annotations": {"linkerd.io/inject": "disabled"}, "labels": {}})
    );
    assert_eq!(pod["spec"]["volumes"], volumes);
    assert_eq!(pod["spec"]["initContainers"].as_array().unwrap().len(), 1);
}

#[test]
fn the_control_plane_and_other_groups_are_left_alone() {
    let control_plane = json!({"apiVersion": "v1", "kind": "Service",
        "metadata": {"labels": {"linkerd.io/control-plane-component": "destination", "linkerd.io/control-plane-ns": "linkerd"}}});
    assert_eq!(uninjected(control_plane.clone()), (control_plane, false));
    let knative = json!({"apiVersion": "serving.knative.dev/v1", "kind": "Service",
        "metadata": {"annotations": {"linkerd.io/inject": "enabled"}}, "spec": {"template": {"spec": {"containers": [{"name": "linkerd-proxy"}]}}}});
    assert_eq!(uninjected(knative.clone()), (knative, false));
}

#[test]
fn labels_alone_do_not_count() {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": "shop", "labels": {"linkerd.io/inject": "enabled"}}});
    let expected = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}});
    assert_eq!(uninjected(namespace), (expected, false));
    let annotated =
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"annotations": {"linkerd.io/inject": "enabled"}}});
    assert!(uninjected(annotated).1);
}

#[test]
fn wrong_types_are_left_alone() {
    for object in [
        json!(null),
        json!([]),
        json!({"apiVersion": "v1", "kind": "Pod"}),
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": 1, "spec": []}),
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"annotations": [], "labels": "x"}, "spec": {"containers": {}, "volumes": 1}}),
        json!({"apiVersion": "batch/v1", "kind": "CronJob", "spec": {"jobTemplate": null}}),
    ] {
        assert_eq!(uninjected(object.clone()), (object, false));
    }
}

#[test]
fn volumes_of_old_versions_are_known_by_where_they_are_mounted() {
    let pod = |name: &str, path: &str| {
        json!({"apiVersion": "v1", "kind": "Pod", "spec": {
            "containers": [
                {"name": "app", "volumeMounts": [{"name": "data", "mountPath": "/var/run/linkerd/podinfo"}]},
                {"name": "linkerd-proxy", "volumeMounts": [{"name": name, "mountPath": path}]},
            ],
            "volumes": [{"name": "podinfo", "downwardAPI": {}}, {"name": "data", "emptyDir": {}}, {"name": "linkerd-secrets"}],
        }})
    };
    let volumes = |pod: Value| uninjected(pod).0["spec"]["volumes"].to_string();
    let data = json!([{"name": "data", "emptyDir": {}}]).to_string();
    assert_eq!(volumes(pod("podinfo", "var/run/linkerd/podinfo")), data);
    assert_eq!(volumes(pod("podinfo", "/var/run/linkerd/podinfo")), data);
    let both = json!([{"name": "podinfo", "downwardAPI": {}}, {"name": "data", "emptyDir": {}}]).to_string();
    assert_eq!(volumes(pod("podinfo", "/etc/podinfo")), both);
    assert_eq!(volumes(pod("data", "/var/run/linkerd/podinfo")), both);
}

#[test]
fn the_node_selector_that_injection_adds_is_told_from_others() {
    let deployment = |annotations: Value, selector: Value| {
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"template": {
            "metadata": {"annotations": annotations}, "spec": {"containers": [], "nodeSelector": selector}}}})
    };
    let mark = json!({"outrigger.linkerd.io/node-selector": "cni"});
    let spec = |object| uninjected(object).0["spec"]["template"]["spec"].clone();
    let both = json!({"cni": "yes", "disk": "ssd"});
    assert_eq!(
        spec(deployment(mark.clone(), both.clone())),
        json!({"containers": [], "nodeSelector": {"disk": "ssd"}})
    );
    assert_eq!(
        spec(deployment(mark.clone(), json!({"cni": "yes"}))),
        json!({"containers": []})
    );
    assert_eq!(spec(deployment(json!({}), both.clone()))["nodeSelector"], both);
    assert_eq!(spec(deployment(mark, Value::Null))["nodeSelector"], Value::Null);
}

#[test]
fn what_marks_a_part_of_linkerd_stays() {
    let labels = json!({"linkerd.io/cni-resource": "true", "linkerd.io/extension": "viz", "linkerd.io/is-control-plane": "true"});
    let mut namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "viz", "labels": labels}});
    assert_eq!(uninjected(namespace.clone()), (namespace.clone(), false));
    namespace["metadata"]["labels"]["linkerd.io/inject"] = json!("enabled");
    assert_eq!(uninjected(namespace).0["metadata"]["labels"], labels);
}
