use super::*;
use crate::decide::SkipReasons;
use crate::webhook::reload::Source;
use serde_json::json;

/// An app for a cluster of manifests and the newest server.
fn app(objects: &Value, values: &'static str) -> App {
    let parse = move |[_]: [&[u8]; 1]| read(&[values.as_bytes()], Some(b"anchors"), "linkerd").and_then(complete);
    App {
        setup: Arc::new(Reloaded::load([Source::Nothing], parse).unwrap()),
        cluster: cluster(objects, Some(Release::NEWEST)),
    }
}

fn cluster(objects: &Value, release: Option<Release>) -> Arc<Cluster> {
    let objects = objects.as_array().unwrap();
    Arc::new(Cluster::of_manifests(objects, release.map(Server::from)).unwrap())
}

fn shop(level: &str) -> Value {
    let labels = json!({"pod-security.kubernetes.io/enforce": level});
    let annotations = json!({"linkerd.io/inject": "enabled"});
    json!([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop", "labels": labels, "annotations": annotations}}])
}

fn review(group: &str, kind: &str, object: &Value, dry_run: bool) -> Review {
    let request = json!({
        "uid": "u", "kind": {"group": group, "version": "v1", "kind": kind}, "namespace": "shop", "operation": "CREATE",
        "dryRun": dry_run, "object": object,
    });
    let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request});
    Review::parse(review.to_string().as_bytes()).unwrap()
}

fn pod() -> Value {
    json!({"metadata": {"name": "web"}, "spec": {"containers": [{"name": "web", "image": "web:1"}]}})
}

async fn admit(app: &App, group: &str, kind: &str, object: Value, dry_run: bool) -> Answer {
    app.admit(&review(group, kind, &object, dry_run)).await.unwrap()
}

const VALUES: &str = "linkerdVersion: v1";

#[tokio::test]
async fn a_pod_is_patched_and_the_audit_log_told() {
    let app = app(&shop("privileged"), VALUES);
    let answer = admit(&app, "", "Pod", pod(), false).await;
    let Outcome::Admitted { patch: Some(patch) } = &answer.outcome else {
        panic!("{answer:?}")
    };
    let patch: Value = serde_json::from_slice(patch).unwrap();
    assert!(patch.as_array().unwrap().len() > 5);
    assert!(answer.warnings.is_empty());
    assert!(answer.audit.contains(&("reason", "init_container_admitted".to_owned())));
    assert_eq!(
        (answer.labels.redirection, answer.labels.level),
        ("init-container", "privileged")
    );
    assert_eq!(answer.linkerd.unwrap().skipped.as_deref(), Some(""));
}

#[tokio::test]
async fn a_dry_run_is_told_the_decision() {
    let app = app(&shop("privileged"), VALUES);
    let answer = admit(&app, "", "Pod", pod(), true).await;
    assert!(
        answer.warnings[0].starts_with("init_container_admitted: inject, init-container: "),
        "{:?}",
        answer.warnings
    );
}

#[tokio::test]
async fn a_pod_that_nothing_fits_is_denied_with_403() {
    let app = app(&shop("baseline"), VALUES);
    let Outcome::Denied { code, message } = admit(&app, "", "Pod", pod(), false).await.outcome else {
        panic!()
    };
    assert_eq!(code, 403);
    assert!(
        message.contains("violates PodSecurity \"baseline:latest\""),
        "{message}"
    );
}

#[tokio::test]
async fn a_kind_of_policy_that_refuses_every_candidate_is_audited_once() {
    let mut objects = shop("privileged");
    objects.as_array_mut().unwrap().push(
        json!({"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "small", "namespace": "shop"},
            "spec": {"limits": [{"type": "Container", "max": {"memory": "1Mi"}}]}}),
    );
    let values = "{linkerdVersion: v1, cniEnabled: true, proxy: {resources: {memory: {request: 20Mi, limit: 20Mi}}}}";
    let mut plain = pod();
    plain["spec"]["containers"][0]["resources"] = json!({"limits": {"memory": "1Mi"}});
    let answer = admit(&app(&objects, values), "", "Pod", plain, false).await;
    assert!(
        matches!(answer.outcome, Outcome::Denied { code: 403, .. }),
        "{answer:?}"
    );
    let audited: Vec<_> = answer.audit.iter().filter(|(by, _)| *by == "limit-range").collect();
    assert_eq!(audited, [&("limit-range", "small".to_owned())]);
}

#[tokio::test]
async fn the_dry_run_of_a_workload_is_answered_but_never_changed() {
    let app = app(&shop("baseline"), VALUES);
    let workload = json!({"metadata": {"name": "web"}, "spec": {"template": pod()}});
    let answer = admit(&app, "apps", "Deployment", workload.clone(), true).await;
    assert_eq!(answer.outcome, Outcome::Admitted { patch: None });
    assert_eq!(
        answer.warnings[0],
        "no_redirection_admitted: deny for pods of Deployment/web"
    );
    assert!(
        answer
            .warnings
            .iter()
            .any(|line| line.contains("init-container: violates")),
        "{:?}",
        answer.warnings
    );
    let answer = admit(&app, "apps", "Deployment", workload, false).await;
    assert!(answer.warnings.is_empty());
    let cron_job = json!({"metadata": {"name": "n"}, "spec": {"jobTemplate": {"spec": {"template": pod()}}}});
    let answer = admit(&app, "batch", "CronJob", cron_job, true).await;
    assert_eq!(
        answer.warnings[0],
        "no_redirection_admitted: deny for pods of CronJob/n"
    );
}

#[tokio::test]
async fn services_get_their_opaque_ports_and_nothing_else() {
    let app = app(&shop("restricted"), VALUES);
    let service = json!({"metadata": {"name": "db"}, "spec": {"ports": [{"port": 5432}]}});
    let Outcome::Admitted { patch } = admit(&app, "", "Service", service.clone(), false).await.outcome else {
        panic!()
    };
    assert!(String::from_utf8(patch.unwrap()).unwrap().contains("5432"));
    let answer = admit(&app, "", "Service", service.clone(), true).await;
    assert_eq!(
        answer.warnings,
        ["unsupported_resource: skip: this resource kind is unsupported"]
    );
    let told = [
        ("decision", "skip"),
        ("reason", "unsupported_resource"),
        ("redirection", "none"),
    ];
    assert_eq!(answer.audit, told.map(|(key, value)| (key, value.to_owned())));
    assert_eq!(answer.labels.level, "", "Pod Security has no opinion on services");
    // A Service of another API group shares only the name.
    let foreign = admit(&app, "serving.knative.dev", "Service", service, false).await;
    assert_eq!(foreign.outcome, Outcome::Admitted { patch: None });
}

#[tokio::test]
async fn an_unknown_namespace_is_named() {
    let app = app(&json!([]), VALUES);
    let answer = admit(&app, "", "Pod", pod(), false).await;
    assert!(answer.audit.contains(&("reason", "namespace_not_found".to_owned())));
    let Outcome::Denied { code, message } = answer.outcome else {
        panic!()
    };
    assert_eq!((code, message.as_str()), (404, "namespaces \"shop\" not found"));
}

#[tokio::test]
async fn owners_hear_what_became_of_their_pods() {
    let app = app(&shop("privileged"), VALUES);
    let mut owned = pod();
    owned["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "node", "uid": "1"}]);
    let event = admit(&app, "", "Pod", owned.clone(), false).await.event.unwrap();
    assert_eq!(
        event.message,
        "Linkerd sidecar proxy injected (init_container_admitted)"
    );
    owned["spec"]["hostNetwork"] = json!(true);
    owned["spec"]["containers"][0]["ports"] = json!([{"containerPort": 3306}]);
    let answer = admit(&app, "", "Pod", owned, false).await;
    assert_eq!(
        answer.event.unwrap().message,
        "Linkerd sidecar proxy injection skipped: hostNetwork is enabled (host_network_enabled)"
    );
    assert!(matches!(answer.outcome, Outcome::Admitted { patch: Some(_) }));
    // A pod without an owner has nobody to tell.
    assert_eq!(admit(&app, "", "Pod", pod(), false).await.event, None);
}

#[tokio::test]
async fn nobody_is_told_again_of_a_pod_that_was_injected() {
    let app = app(&shop("privileged"), VALUES);
    let mut injected = pod();
    injected["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "node", "uid": "1"}]);
    let Outcome::Admitted { patch: Some(patch) } = admit(&app, "", "Pod", injected.clone(), false).await.outcome else {
        panic!()
    };
    let patch: json_patch::Patch = serde_json::from_slice(&patch).unwrap();
    json_patch::patch(&mut injected, &patch).unwrap();
    let again = admit(&app, "", "Pod", injected.clone(), true).await;
    assert_eq!(again.outcome, Outcome::Admitted { patch: None });
    assert_eq!((again.warnings.len(), again.audit.len(), again.event), (0, 0, None));
    assert!(again.linkerd.is_none());
    assert_eq!(again.labels.decision, "sidecar_already_exists");
    // A repair is news, and Linkerd's own is worth a word.
    let mut broken = injected.clone();
    let inits = broken["spec"]["initContainers"].as_array_mut().unwrap();
    let proxy = inits.iter_mut().find(|it| it["name"] == "linkerd-proxy").unwrap();
    proxy.as_object_mut().unwrap().remove("restartPolicy");
    let repaired = admit(&app, "", "Pod", broken, false).await;
    assert!(matches!(repaired.outcome, Outcome::Admitted { patch: Some(_) }));
    assert!(
        repaired.warnings[0].starts_with("proxy_repaired: "),
        "{:?}",
        repaired.warnings
    );
    assert!(
        repaired
            .audit
            .contains(&("reason", "sidecar_already_exists".to_owned()))
    );
    injected["metadata"]["annotations"]["linkerd.io/created-by"] = "linkerd/cli".into();
    assert!(admit(&app, "", "Pod", injected, true).await.event.is_some());
}

#[tokio::test]
async fn changes_and_sub_resources_are_left_alone() {
    let app = app(&shop("privileged"), VALUES);
    let mut change = review("", "Pod", &pod(), false);
    change.operation = Operation::Update;
    assert_eq!(
        app.admit(&change).await.unwrap().outcome,
        Outcome::Admitted { patch: None }
    );
    let mut binding = review("", "Pod", &pod(), false);
    binding.sub_resource = Some("ephemeralcontainers".to_owned());
    assert_eq!(
        app.admit(&binding).await.unwrap().outcome,
        Outcome::Admitted { patch: None }
    );
}

#[test]
fn the_metric_joins_linkerds_reasons_and_has_ours_alone() {
    use SkipReason::{HostNetworkEnabled, InjectionEnableAnnotationAbsent, MirrorPod, WindowsPod};
    let linkerds = [
        HostNetworkEnabled,
        WindowsPod,
        InjectionEnableAnnotationAbsent,
        MirrorPod,
    ];
    let label = |reasons: &[SkipReason]| spoken::skip_reason(&SkipReasons::of(reasons.iter().copied()).unwrap());
    assert_eq!(
        label(&linkerds),
        "host_network_enabled,injection_enable_annotation_absent"
    );
    assert_eq!(label(&[WindowsPod, MirrorPod]), "windows_pod");
}

#[tokio::test]
async fn an_assumed_release_is_said_to_be_assumed() {
    let mut app = app(&shop("privileged"), VALUES);
    let assumed = |answer: &Answer| answer.warnings.iter().any(|line| line.starts_with("release_assumed: "));
    assert!(!assumed(&admit(&app, "", "Pod", pod(), false).await));
    app.cluster = cluster(&shop("privileged"), None);
    assert!(assumed(&admit(&app, "", "Pod", pod(), false).await));
}

#[test]
fn files_that_are_no_text_are_named() {
    let error = read(&[&[0xff]], None, "linkerd").unwrap_err().to_string();
    assert!(error.starts_with("the values are no UTF-8 text"), "{error}");
}

/// A client chooses how many containers and annotations a pod has, and everybody waits for its answer: work must not grow
/// with their product. Thousands of millions of comparisons would take minutes, a look-up for each container takes seconds.
#[test]
fn a_pod_of_twenty_thousand_annotated_containers_is_answered() {
    const CONTAINERS: usize = 20_000;
    const PREFIXES: [&str; 2] = [
        "container.apparmor.security.beta.kubernetes.io/",
        "container.seccomp.security.alpha.kubernetes.io/",
    ];
    let (told, answers) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let containers: Vec<_> = (0..CONTAINERS)
            .map(|n| json!({"name": format!("c{n}"), "image": "web:1"}))
            .collect();
        let keys = (0..CONTAINERS).flat_map(|n| PREFIXES.map(|prefix| format!("{prefix}c{n}")));
        let annotations: serde_json::Map<_, _> = keys.map(|key| (key, json!("unconfined"))).collect();
        let mut review = review("", "Pod", &pod(), false);
        review.object["metadata"]["annotations"] = annotations.into();
        review.object["spec"]["containers"] = containers.into();
        for release in [24, 30, 36] {
            let mut app = app(&json!([]), VALUES);
            app.cluster = cluster(&shop("baseline"), Some(Release(release)));
            let answer = runtime.block_on(app.admit(&review)).unwrap();
            told.send(answer.outcome).unwrap();
        }
    });
    for _ in 0..3 {
        let outcome = answers.recv_timeout(std::time::Duration::from_secs(120)).unwrap();
        assert!(matches!(outcome, Outcome::Admitted { patch: Some(_) }), "{outcome:?}");
    }
}
