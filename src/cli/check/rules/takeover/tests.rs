use super::super::workloads::Judged;
use super::change::{Fate, Registrations};
use super::*;
use crate::cli::check::finding::Status;
use crate::decide::SkipReason;
use crate::decide::linkerd::Linkerds;
use crate::inject::Redirection;
use serde_json::json;
use std::slice;

/// A configuration called `name` for the injector behind the Service `service`.
fn configuration(name: &str, service: &str, selector: &Value) -> Value {
    json!({
        "metadata": {"name": name, "labels": {"linkerd.io/control-plane-component": "proxy-injector"}},
        "webhooks": [{
            "name": "linkerd-proxy-injector.linkerd.io",
            "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}],
            "clientConfig": {"service": {"namespace": "linkerd", "name": service}},
            "namespaceSelector": selector,
            "failurePolicy": "Ignore",
        }],
    })
}

fn nobody() -> Value {
    json!({"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "DoesNotExist"}]})
}

fn service(name: &str, component: &str) -> Value {
    json!({"metadata": {"namespace": "linkerd", "name": name}, "spec": {"selector": {"app": component}}})
}

fn deployment(component: &str, image: &str) -> Value {
    json!({
        "metadata": {"namespace": "linkerd", "name": component, "labels": {
            "linkerd.io/control-plane-component": if component == "ours" { "outrigger" } else { "proxy-injector" }}},
        "spec": {"template": {
            "metadata": {"labels": {"app": component}}, "spec": {"containers": [{"image": image}]},
        }},
    })
}

/// What stands behind `linkerds` and `ours`.
fn backends() -> (Vec<Value>, Vec<Value>) {
    (
        vec![service("linkerds", "theirs"), service("ours", "ours")],
        vec![
            deployment("theirs", "cr.l5d.io/linkerd/controller:edge-1"),
            deployment("ours", "registry/outrigger:0.1.0"),
        ],
    )
}

fn said_of(configurations: &[Value]) -> Option<(&'static str, Status)> {
    let (services, deployments) = backends();
    let backends = Backends {
        services: &services,
        deployments: &deployments,
    };
    registered(&Webhook::all(configurations), backends).map(|it| (it.code.word(), it.status))
}

#[test]
fn registrations_are_told_by_what_stands_behind_them() {
    let ours = |name| configuration(name, "ours", &json!({}));
    let linkerds = |selector| configuration("m", "linkerds", selector);
    let all = json!({});
    assert_eq!(said_of(&[]), None);
    assert_eq!(said_of(&[ours("a")]), None);
    assert_eq!(
        said_of(&[linkerds(&all)]),
        Some(("webhook_not_registered", Status::Failed))
    );
    let twice = "webhook_registered_twice";
    assert_eq!(said_of(&[ours("a"), linkerds(&all)]), Some((twice, Status::Warning)));
    assert_eq!(said_of(&[ours("z"), linkerds(&all)]), Some((twice, Status::Failed)));
    assert_eq!(said_of(&[ours("a"), linkerds(&nobody())]), None);
    let somebodys = configuration("b", "nobody", &all);
    assert_eq!(said_of(&[ours("a"), somebodys]), Some((twice, Status::Failed)));
}

/// The findings of a takeover from `linkerds` where `namespaces` are there, but for what is said of workloads.
fn judged(linkerds: &Value, values: &Value, namespaces: &[Value], changes: &[Change]) -> Vec<Finding> {
    let (services, deployments) = backends();
    let planned = planned();
    let planned = Webhook::all(slice::from_ref(&planned));
    let webhooks = Webhook::all(slice::from_ref(linkerds));
    judge(&Takeover {
        webhooks: &webhooks,
        linkerds: &webhooks[0],
        ours: &planned[0],
        backends: Backends {
            services: &services,
            deployments: &deployments,
        },
        namespaces: Some(namespaces),
        daemon_sets: &[],
        control_plane: "linkerd",
        values: Some(values),
        changes,
    })
}

fn codes(findings: &[Finding]) -> Vec<&'static str> {
    let bad = findings.iter().filter(|finding| finding.status != Status::Ok);
    bad.map(|finding| finding.code.word()).collect()
}

#[test]
fn a_usual_linkerd_is_taken_over_without_a_word() {
    let theirs = configuration("linkerd-proxy-injector-webhook-config", "linkerds", &json!({}));
    let findings = judged(&theirs, &json!({}), &[], &[]);
    assert_eq!(codes(&findings), [""; 0]);
    assert_eq!(
        findings[0].message,
        "linkerd-proxy-injector-webhook-config sends pods to Linkerd's injector now, failurePolicy Ignore; \
         linkerd-outrigger-webhook-config will be asked before it"
    );
    let gone = configuration("linkerd-proxy-injector-webhook-config", "linkerds", &nobody());
    let findings = judged(&gone, &json!({}), &[], &[]);
    assert!(
        findings[0].message.contains("selects nothing"),
        "{}",
        findings[0].message
    );
}

#[test]
fn an_unusual_linkerd_is_told() {
    let opt_in = json!({"matchLabels": {"mesh": "yes"}});
    let mut theirs = configuration("aaa", "linkerds", &opt_in);
    theirs["metadata"]["annotations"] = json!({HELM_RELEASE: "l5d"});
    theirs["webhooks"][0]["clientConfig"]["service"]["namespace"] = "other".into();
    let asking = |name: &str, labels: Value| json!({"metadata": {"name": name, "labels": labels, "annotations": {"linkerd.io/inject": "enabled"}}});
    let namespaces = [
        asking("shop", json!({})),
        asking("bank", json!({"mesh": "yes"})),
        asking(
            "kube-system",
            json!({"mesh": "yes", "kubernetes.io/metadata.name": "kube-system"}),
        ),
    ];
    let findings = judged(&theirs, &json!({"tolerations": [{}]}), &namespaces, &[]);
    let told = [
        "takeover_order",
        "takeover_coverage",
        "takeover_elsewhere",
        "takeover_settings",
    ];
    assert_eq!(codes(&findings), told);
    assert_eq!(
        findings[1].details,
        [
            "shop: ours selects it, Linkerd's wants mesh In [yes]",
            "kube-system: Linkerd's selects it, ours wants kubernetes.io/metadata.name NotIn [kube-system, linkerd, calico-system, \
             cert-manager, kube-flannel, kube-node-lease, linkerd-cni, tigera-operator]"
        ]
    );
    let upgrade = findings.iter().find(|it| it.code == Code::TakeoverUpgrade).unwrap();
    assert!(upgrade.message.contains("Helm's release l5d"), "{}", upgrade.message);
}

#[test]
fn more_injectors_than_two_are_told() {
    let all = [
        configuration("linkerd-proxy-injector-webhook-config", "linkerds", &json!({})),
        configuration("second", "linkerds", &json!({})),
        configuration("stood-down", "linkerds", &nobody()),
    ];
    let webhooks = Webhook::all(&all);
    let planned = planned();
    let planned = Webhook::all(slice::from_ref(&planned));
    let services = [service("linkerds", "both")];
    let deployments = [deployment("theirs", "controller"), deployment("ours", "outrigger")].map(|mut it| {
        it["spec"]["template"]["metadata"]["labels"]["app"] = "both".into();
        it
    });
    let takeover = Takeover {
        webhooks: &webhooks,
        linkerds: &webhooks[0],
        ours: &planned[0],
        backends: Backends {
            services: &services,
            deployments: &deployments,
        },
        namespaces: None,
        daemon_sets: &[],
        control_plane: "linkerd",
        values: None,
        changes: &[],
    };
    // What nobody can see is not ticked.
    let told: Vec<_> = judge(&takeover).iter().map(|it| it.code).collect();
    assert!(!told.contains(&Code::TakeoverCoverage) && !told.contains(&Code::TakeoverSettings));
    let finding = twice(&takeover);
    assert_eq!(finding.status, Status::Warning);
    let second = "second: linkerd-proxy-injector.linkerd.io";
    assert_eq!(
        finding.details,
        [second, "Service linkerd/linkerds: ours and Linkerd's in turn"]
    );
}

/// How a workload's next pod fares, Linkerd's registration selecting all and ours what it will.
fn change(linkerds: &Linkerds, judged: &Judged, labels: &Value) -> Option<Change> {
    let theirs = configuration("m", "linkerds", &json!({}));
    let theirs = Webhook::all(slice::from_ref(&theirs));
    let planned = planned();
    let planned = Webhook::all(slice::from_ref(&planned));
    let registrations = Registrations {
        today: &theirs[0],
        then: &planned[0],
    };
    Change::between(linkerds, judged, registrations, labels)
}

#[test]
fn each_change_has_a_line_of_its_own() {
    let init = Linkerds::Injected(Redirection::InitContainer);
    let refused = Linkerds::Refused(vec!["no".to_owned()]);
    let alone = Linkerds::LeftAlone(SkipReason::InjectionEnableAnnotationAbsent.into());
    let well = Judged::sample("shop", "Deployment/web");
    let cni = Judged {
        redirection: Redirection::Cni,
        ..well.clone()
    };
    let denied = Judged {
        outcome: "deny",
        refused: true,
        ..well.clone()
    };
    let skipped = Judged {
        outcome: "skip",
        ..well.clone()
    };
    let here = json!({});
    let code = |linkerds, judged| change(linkerds, judged, &here).map(|it| it.code().word());
    for (linkerds, judged, expected) in [
        (&init, &well, None),
        (&init, &cni, Some("takeover_redirected")),
        (&refused, &cni, Some("takeover_admitted")),
        (&refused, &skipped, Some("takeover_admitted")),
        (&refused, &denied, None),
        (&init, &denied, Some("takeover_denied")),
        (&alone, &denied, Some("takeover_denied")),
        (&init, &skipped, Some("takeover_left_alone")),
        (&alone, &skipped, None),
        (&alone, &well, Some("takeover_meshed")),
    ] {
        assert_eq!(code(linkerds, judged), expected, "{linkerds:?} {}", judged.outcome);
    }
    let refused_anyway = Judged {
        refused: true,
        ..cni.clone()
    };
    assert_eq!(code(&init, &refused_anyway), None);
    let left_out = json!({"config.linkerd.io/admission-webhooks": "disabled"});
    let change = change(&init, &cni, &left_out).unwrap();
    assert_eq!((change.then, change.reason), (Fate::LeftAlone, "not_selected"));
    let theirs = configuration("m", "linkerds", &json!({}));
    let findings = judged(&theirs, &json!({}), &[], &[change]);
    assert_eq!(
        findings.last().unwrap().details,
        ["shop/Deployment/web: our registration does not select it, which wants \
          config.linkerd.io/admission-webhooks NotIn [disabled] (not_selected)"]
    );
}
