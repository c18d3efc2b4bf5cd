mod round_trip;

use super::*;
use serde_json::json;

fn installation(values: &str) -> Installation {
    Installation::parse(&["linkerdVersion: v1", values], Some("anchors"), "linkerd").unwrap()
}

fn injector(values: &str, change: impl FnOnce(&mut Values), options: Options) -> Injector {
    let installation = installation(values);
    let mut changed = Values::clone(&installation.values);
    change(&mut changed);
    Injector::new(&installation, changed, options)
}

fn annotating() -> Injector {
    injector("", |_| {}, Options::default())
}

fn manual() -> Injector {
    let options = Options {
        manual: true,
        ..Options::default()
    };
    injector("", |_| {}, options)
}

fn deployment(annotations: &Value, spec: &Value) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"template": {"metadata": {"annotations": annotations}, "spec": spec}}})
}

fn application() -> Value {
    json!({"containers": [{"name": "app", "image": "x"}]})
}

fn pod_annotations(injector: &Injector, annotations: &Value) -> Value {
    let object = deployment(annotations, &application());
    injector.reinject(&object).unwrap().value["spec"]["template"]["metadata"]["annotations"].clone()
}

fn error(injector: &Injector, object: &Value) -> String {
    injector.reinject(object).unwrap_err()
}

fn names(list: &Value) -> Vec<&str> {
    let names = list
        .as_array()
        .map(|items| items.iter().map(crate::pod::container_name).collect());
    names.unwrap_or_default()
}

#[test]
fn ingress_mode_of_a_label_is_kept() {
    let mut object = deployment(&json!({}), &application());
    object["spec"]["template"]["metadata"]["labels"] = json!({"linkerd.io/inject": "ingress"});
    let annotated = annotating().reinject(&object).unwrap().value;
    assert_eq!(
        annotated["spec"]["template"]["metadata"]["annotations"]["linkerd.io/inject"],
        "ingress"
    );
    assert!(
        manual()
            .reinject(&object)
            .unwrap()
            .value
            .to_string()
            .contains("LINKERD2_PROXY_INGRESS_MODE")
    );
    let untouched = annotating().inject(&object).unwrap().value;
    assert_eq!(
        untouched["spec"]["template"]["metadata"].get("annotations"),
        Some(&json!({}))
    );
}

#[test]
fn annotations_have_the_webhook_inject() {
    assert_eq!(
        pod_annotations(&annotating(), &json!({"a": "b", "linkerd.io/inject": "junk"})),
        json!({"a": "b", "linkerd.io/inject": "enabled"})
    );
    let options = Options {
        debug: true,
        redirection: Some(Redirection::Cni),
        manual: false,
    };
    let injector = injector(
        "",
        |values| {
            values.proxy.ports.admin = 1;
            values.proxy_init.close_wait_timeout_secs = 90;
        },
        options,
    );
    let expected = json!({
        "config.linkerd.io/admin-port": "1",
        "config.linkerd.io/close-wait-timeout": "1m30s",
        "config.linkerd.io/enable-debug-sidecar": "true",
        "linkerd.io/inject": "enabled",
        "linkerd.io/setup-iptables": "cni",
    });
    assert_eq!(pod_annotations(&injector, &json!({})), expected);
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop", "annotations": {"linkerd.io/inject": "disabled"}}});
    let injected = injector.reinject(&namespace).unwrap();
    assert_eq!(injected.outcome, Outcome::Annotated);
    assert_eq!(
        injected.value["metadata"]["annotations"],
        json!({"config.linkerd.io/admin-port": "1", "linkerd.io/inject": "enabled", "linkerd.io/setup-iptables": "cni"})
    );
}

#[test]
fn what_the_author_asked_for_survives() {
    let ingress = json!({"linkerd.io/inject": "ingress"});
    assert_eq!(pod_annotations(&annotating(), &ingress), ingress);
    // The installation's own ingress mode is no reason to say nothing (Linkerd's inject says nothing then).
    let of_installation = injector("proxy: {isIngress: true}", |_| {}, Options::default());
    assert_eq!(
        pod_annotations(&of_installation, &json!({}))["linkerd.io/inject"],
        "enabled"
    );
    let asked = json!({"linkerd.io/inject": "enabled", "linkerd.io/setup-iptables": "false"});
    assert_eq!(pod_annotations(&annotating(), &asked), asked);
    let written = json!({"linkerd.io/created-by": "x", "linkerd.io/setup-iptables": "cni"});
    assert_eq!(
        pod_annotations(&annotating(), &written),
        json!({"linkerd.io/inject": "enabled"})
    );

    let object = deployment(&ingress, &application());
    let proxy = manual().reinject(&object).unwrap().value["spec"]["template"]["spec"]["initContainers"][1].clone();
    assert!(
        proxy["env"]
            .as_array()
            .unwrap()
            .iter()
            .any(|it| it["name"] == "LINKERD2_PROXY_INGRESS_MODE")
    );
}

#[test]
fn a_redirection_that_a_label_asks_for_survives() {
    for asked in ["false", "cni"] {
        let mut object = deployment(&json!({}), &application());
        object["spec"]["template"]["metadata"]["labels"] = json!({"linkerd.io/setup-iptables": asked});
        let annotated = annotating().reinject(&object).unwrap().value;
        assert_eq!(
            annotated["spec"]["template"]["metadata"]["annotations"],
            json!({"linkerd.io/inject": "enabled", "linkerd.io/setup-iptables": asked})
        );
    }
    let mut object = deployment(&json!({}), &application());
    object["spec"]["template"]["metadata"]["labels"] = json!({"linkerd.io/setup-iptables": "false"});
    let once = manual().reinject(&object).unwrap().value;
    assert_eq!(
        names(&once["spec"]["template"]["spec"]["initContainers"]),
        ["linkerd-proxy"]
    );
    assert_eq!(manual().reinject(&once).unwrap().value, once);
}

#[test]
fn what_a_namespace_asks_for_survives() {
    let namespace = |key: &str, asked: Value| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop", key: asked}});
    let asked = json!({"linkerd.io/inject": "ingress", "linkerd.io/setup-iptables": "cni"});
    for key in ["annotations", "labels"] {
        let injected = annotating().reinject(&namespace(key, asked.clone())).unwrap();
        assert_eq!(injected.value, namespace("annotations", asked.clone()), "{key}");
    }
}

#[test]
fn services_get_opaque_ports_and_nothing_else() {
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "db"}});
    let untouched = Changed::new(service.clone(), Outcome::Skipped);
    assert_eq!(annotating().reinject(&service), Ok(untouched));
    let injector = injector(
        "",
        |values| values.proxy.opaque_ports = "3306".to_owned(),
        Options::default(),
    );
    let expected = json!({"apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "db", "annotations": {"config.linkerd.io/opaque-ports": "3306"}}});
    let annotated = Changed::new(expected, Outcome::Annotated);
    assert_eq!(injector.reinject(&service), Ok(annotated));
}

#[test]
fn what_cannot_be_injected_is_an_error_unless_it_is_disabled() {
    let host = json!({"hostNetwork": true, "containers": [{"name": "istio-proxy", "image": "x"}]});
    assert_eq!(
        error(&annotating(), &deployment(&json!({}), &host)),
        "failed to inject deployment/web: hostNetwork is enabled, pod has a sidecar injected already"
    );
    let disabled = deployment(&json!({"linkerd.io/inject": "disabled"}), &host);
    let skipped = Changed {
        findings: vec![Finding::HostNetwork, Finding::Sidecar, Finding::Disabled],
        ..Changed::new(disabled.clone(), Outcome::Skipped)
    };
    assert_eq!(annotating().reinject(&disabled), Ok(skipped));
    let windows = deployment(
        &json!({}),
        &json!({"os": {"name": "windows"}, "containers": [{"name": "app"}]}),
    );
    let left_alone = annotating().reinject(&windows).unwrap();
    assert_eq!(
        left_alone.warnings,
        ["left alone: the pod is for Windows nodes, where the proxy does not run"]
    );
    let udp = json!({"containers": [{"name": "app", "ports": [{"containerPort": 53, "protocol": "UDP"}]}]});
    let injected = annotating().reinject(&deployment(&json!({}), &udp)).unwrap();
    assert_eq!(
        (injected.outcome, injected.findings),
        (Outcome::Injected, vec![Finding::Udp])
    );

    let unprojected = injector(
        "identity: {serviceAccountTokenProjection: false}",
        |_| {},
        Options::default(),
    );
    assert!(unprojected.reinject(&deployment(&json!({}), &application())).is_ok());
    let without_token = json!({"automountServiceAccountToken": false, "containers": [{"name": "app"}]});
    assert!(error(&unprojected, &deployment(&json!({}), &without_token)).contains("automountServiceAccountToken"));
    let control_plane = json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"labels": {"linkerd.io/control-plane-component": "destination"}}, "spec": application()});
    assert_eq!(
        error(&annotating(), &control_plane),
        "--manual must be set when injecting control plane components"
    );
    assert_eq!(manual().reinject(&control_plane).unwrap().outcome, Outcome::Injected);
}

#[test]
fn other_kinds_and_groups_are_left_alone() {
    for object in [
        json!(null),
        json!("text"),
        json!({"apiVersion": "serving.knative.dev/v1", "kind": "Service", "spec": {"template": {"spec": {"containers": []}}}}),
        json!({"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "spec": {"tasks": []}}),
        json!({"apiVersion": "v1", "kind": "PodList", "items": []}),
    ] {
        let skipped = Changed::new(object.clone(), Outcome::Skipped);
        assert_eq!(manual().reinject(&object), Ok(skipped));
    }
}

#[test]
fn half_a_workload_is_an_error() {
    let object = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {}});
    assert_eq!(
        error(&annotating(), &object),
        "failed to inject deployment/web: spec.template is missing, expected a map with the pods' metadata and spec"
    );
    let object = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}});
    assert_eq!(
        error(&manual(), &object),
        "failed to inject pod/web: spec is missing, expected a map with a list of containers"
    );
    let numbers = deployment(&json!({"config.linkerd.io/admin-port": 4191}), &application());
    assert_eq!(
        error(&annotating(), &numbers),
        "failed to inject deployment/web: spec.template.metadata.annotations[config.linkerd.io/admin-port] is 4191, \
         expected a text: put it in quotes"
    );
}

#[test]
fn the_redirection_is_what_was_asked_for_else_what_the_installation_has() {
    let inits = |injector: &Injector, asked: &str| {
        let object = deployment(&json!({"linkerd.io/setup-iptables": asked}), &application());
        let value = injector.reinject(&object)?.value;
        Ok::<_, String>(names(&value["spec"]["template"]["spec"]["initContainers"]).join(" "))
    };
    let cni = |redirection| {
        let options = Options {
            manual: true,
            redirection,
            ..Options::default()
        };
        injector("cniEnabled: true", |_| {}, options)
    };
    assert_eq!(inits(&manual(), "").unwrap(), "linkerd-init linkerd-proxy");
    assert_eq!(
        inits(&manual(), "cni").unwrap(),
        "linkerd-network-validator linkerd-proxy"
    );
    assert_eq!(inits(&manual(), "false").unwrap(), "linkerd-proxy");
    assert_eq!(
        inits(&cni(None), "true").unwrap(),
        "linkerd-network-validator linkerd-proxy"
    );
    assert_eq!(
        inits(&cni(None), "init-container").unwrap(),
        "linkerd-init linkerd-proxy"
    );
    let by_flag = inits(&cni(Some(Redirection::Cni)), "init-container");
    assert_eq!(by_flag.unwrap(), "linkerd-network-validator linkerd-proxy");
    assert!(
        inits(&manual(), "maybe")
            .unwrap_err()
            .contains("\"maybe\" is not one of true, false, init-container, cni")
    );
}

#[test]
fn a_flag_wins_over_an_annotation_of_the_template() {
    let options = Options {
        manual: true,
        ..Options::default()
    };
    let injector = injector("", |values| values.proxy.ports.admin = 1234, options);
    let annotations = json!({"config.linkerd.io/admin-port": "9", "config.linkerd.io/control-port": "x"});
    let injected = injector.reinject(&deployment(&annotations, &application())).unwrap();
    let template = &injected.value["spec"]["template"];
    assert_eq!(
        template["metadata"]["annotations"]["config.linkerd.io/admin-port"],
        "1234"
    );
    assert_eq!(
        template["spec"]["initContainers"][1]["readinessProbe"]["httpGet"]["port"],
        1234
    );
    assert_eq!(
        injected.warnings,
        ["pod annotation config.linkerd.io/control-port: \"x\" is not a port number"]
    );
}

#[test]
fn what_would_make_the_pod_unsafe_is_an_error() {
    let containers = json!({"containers": [{"name": "app", "securityContext": {"runAsUser": 2102}}]});
    assert!(error(&manual(), &deployment(&json!({}), &containers)).contains("container \"app\" runs as user 2102"));
    let off = json!({"linkerd.io/setup-iptables": "false"});
    let injected = manual().reinject(&deployment(&off, &containers)).unwrap();
    assert_eq!(injected.outcome, Outcome::Injected);
    let headers = json!({"config.linkerd.io/proxy-log-http-headers": "all"});
    assert!(error(&manual(), &deployment(&headers, &application())).contains("insecure | off"));
    let root = json!({"config.linkerd.io/proxy-uid": "0"});
    assert!(error(&manual(), &deployment(&root, &application())).contains("a user ID other than 0"));
}

#[test]
fn who_is_left_alone_stays_as_it_is() {
    let marked = |key: &str, spec: &Value| {
        let mut object = deployment(&json!({key: "disabled", "linkerd.io/created-by": "x"}), spec);
        object["metadata"]["labels"] = json!({"linkerd.io/control-plane-ns": "linkerd", "app": "web"});
        object
    };
    let critical = json!({"priorityClassName": "system-node-critical", "containers": [{"name": "app"}]});
    for object in [
        marked("team", &critical),
        marked("linkerd.io/inject", &application()),
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"annotations": {"linkerd.io/inject": "enabled"}}}),
    ] {
        let changed = annotating().reinject(&object).unwrap();
        assert_eq!((changed.outcome, changed.value), (Outcome::Skipped, object));
    }
    let meshed = json!({"containers": [{"name": "app"}, {"name": "linkerd-proxy", "image": "x"}]});
    let changed = annotating().reinject(&marked("linkerd.io/inject", &meshed)).unwrap();
    assert_eq!(changed.outcome, Outcome::Skipped);
    assert_eq!(names(&changed.value["spec"]["template"]["spec"]["containers"]), ["app"]);
}
