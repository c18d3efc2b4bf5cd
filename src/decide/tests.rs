use super::*;
use crate::inject::Redirection;
use crate::policy::{Release, Verdict};
use serde_json::json;

mod linkerd;
mod pods;
mod policies;
mod probing;
mod sidecars;
mod speech;

/// A pod in a namespace, and what is known about the cluster.
struct Case {
    pod: Value,
    labels: Value,
    annotations: Value,
    values: &'static str,
    coverage: Coverage,
    old_kubelets: Option<OldKubelets>,
    release: u32,
    owner: Option<Owner>,
    foreign_plugin: bool,
    objects: Vec<Value>,
    probe: Word,
    round: Round,
}

/// A pod that asks for injection and breaks no policy, in a namespace that enforces nothing.
fn case() -> Case {
    let context = json!({"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}});
    let container = json!({"name": "web", "image": "web:1", "securityContext": context});
    let of_pod = json!({"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}});
    Case {
        pod: json!({"metadata": {}, "spec": {"securityContext": of_pod, "containers": [container]}}),
        labels: json!({}),
        annotations: json!({"linkerd.io/inject": "enabled"}),
        values: "linkerdVersion: v1",
        coverage: Coverage::None,
        old_kubelets: None,
        release: 36,
        owner: None,
        foreign_plugin: false,
        objects: Vec::new(),
        probe: Word::Absent,
        round: Round::First,
    }
}

impl Case {
    fn enforcing(mut self, level: &str) -> Self {
        self.labels = json!({"pod-security.kubernetes.io/enforce": level});
        self
    }

    fn covered(mut self, coverage: Coverage) -> Self {
        self.coverage = coverage;
        self
    }

    fn annotated(mut self, key: &str, value: &str) -> Self {
        self.pod["metadata"]["annotations"][key] = value.into();
        self
    }

    fn spec(mut self, key: &str, value: Value) -> Self {
        self.pod["spec"][key] = value;
        self
    }

    fn decide(&self) -> Decision {
        self.ask(|inputs| decide(inputs, Trace::after([])))
    }

    fn ask<T>(&self, question: impl FnOnce(&Inputs<'_>) -> T) -> T {
        let installation = Installation::parse(&[self.values], Some("anchors"), "linkerd").unwrap();
        let setup = Setup::of(installation).unwrap();
        let installation = setup.installation;
        let inputs = Inputs {
            pod: &self.pod,
            namespace: Namespace {
                name: "shop",
                labels: self.labels.as_object(),
                annotations: self.annotations.as_object(),
            },
            owner: self.owner.as_ref(),
            requester: &Requester::named("system:serviceaccount:kube-system:replicaset-controller"),
            installation: &installation,
            facts: Facts {
                server: Server::from(Release(self.release)),
                pod_security: &setup.pod_security,
                coverage: &self.coverage,
                old_kubelets: self.old_kubelets.as_ref(),
                foreign_plugin: self.foreign_plugin,
                stale: false,
                policies: &Installed::compile(&self.objects, Release(self.release)),
                probe: &self.probe,
                round: self.round,
            },
        };
        question(&inputs)
    }
}

fn partly(selector: Option<(&str, &str)>) -> Coverage {
    let selector = selector.map(|(key, value)| (key.to_owned(), value.to_owned()));
    Coverage::Some {
        covered: 1,
        nodes: 2,
        uncovered: "n2".to_owned(),
        selector,
    }
}

fn capabilities(decision: &Decision) -> String {
    serde_json::to_string(&decision.patch).unwrap()
}

#[test]
fn the_redirection_follows_policy_and_plugin() {
    let all = Coverage::All { nodes: 3 };
    let some = partly(Some(("cni", "yes")));
    for (level, coverage, redirection, code) in [
        (
            "privileged",
            Coverage::None,
            Redirection::InitContainer,
            "init_container_admitted",
        ),
        ("privileged", all.clone(), Redirection::Cni, "cni_covers_every_node"),
        (
            "privileged",
            some.clone(),
            Redirection::InitContainer,
            "init_container_admitted",
        ),
        ("baseline", all.clone(), Redirection::Cni, "cni_covers_every_node"),
        ("restricted", all, Redirection::Cni, "cni_covers_every_node"),
        ("restricted", some, Redirection::Cni, "cni_on_some_nodes"),
        (
            "restricted",
            Coverage::NoNodes,
            Redirection::Cni,
            "cni_covers_every_node",
        ),
        (
            "restricted",
            Coverage::Declared,
            Redirection::Cni,
            "cni_covers_every_node",
        ),
    ] {
        let decision = case().enforcing(level).covered(coverage.clone()).decide();
        assert_eq!(
            (decision.redirection(), decision.code()),
            (redirection, code),
            "{level} {coverage:?}"
        );
        let privileged = capabilities(&decision).contains("NET_ADMIN");
        assert_eq!(
            privileged,
            redirection == Redirection::InitContainer,
            "{level} {coverage:?}"
        );
        assert_eq!(decision.policies.len(), 1);
        assert_eq!(decision.policies[0].verdict, Verdict::Allowed);
    }
}

#[test]
fn a_plugin_that_fails_somewhere_is_the_last_resort() {
    let on = |failing| Coverage::Failing {
        failing,
        nodes: 2,
        node: "n1".to_owned(),
    };
    let open = case().covered(on(1)).decide();
    assert_eq!(open.code(), "init_container_admitted");
    let closed = case().enforcing("baseline").covered(on(1)).decide();
    assert_eq!(closed.code(), "cni_failing_on_some_nodes");
    let warnings: Vec<_> = closed.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(warnings, [format!("cni_failing: {}", on(1))]);
    let nowhere = case().enforcing("baseline").covered(on(2)).decide();
    assert_eq!(nowhere.code(), "no_redirection_admitted");
    assert!(nowhere.message().contains(&on(2).to_string()), "{}", nowhere.message());
}

#[test]
fn a_pod_that_nothing_fits_may_be_admitted_without_a_proxy() {
    let values = "linkerdVersion: v1\noutrigger: {onRefused: skip}";
    let decision = Case {
        values,
        ..case().enforcing("baseline")
    }
    .decide();
    assert_eq!(
        decision.outcome,
        Outcome::Skip(SkipReason::NoRedirectionAdmitted.into())
    );
    assert!(decision.patch.is_empty());
    let warnings: Vec<_> = decision.warnings.iter().map(ToString::to_string).collect();
    assert!(
        warnings[0].starts_with("not_meshed: init-container: violates"),
        "{warnings:?}"
    );
    assert!(
        warnings[1].starts_with("not_meshed: cni: no CNI plugin"),
        "{warnings:?}"
    );
    assert_eq!(
        warnings[2],
        "not_meshed: namespace shop has pod-security.kubernetes.io/enforce=baseline"
    );
    assert!(!decision.would_be_refused(), "{:?}", decision.policies);
}

#[test]
fn what_a_policy_refuses_in_the_pod_itself_is_not_ours_to_deny() {
    let volumes = json!([{"name": "v", "hostPath": {"path": "/"}}]);
    let with_cni = case()
        .enforcing("baseline")
        .covered(Coverage::Declared)
        .spec("volumes", volumes.clone())
        .decide();
    assert_eq!(with_cni.redirection(), Redirection::Cni);
    assert!(with_cni.would_be_refused());
    let without = case().enforcing("baseline").spec("volumes", volumes).decide();
    assert_eq!(without.word(), "inject");
    assert!(without.would_be_refused());
}

#[test]
fn what_was_asked_for_is_given_or_denied() {
    let key = "linkerd.io/setup-iptables";
    let redirection = |value, coverage| case().covered(coverage).annotated(key, value).decide();
    assert_eq!(redirection("cni", Coverage::Declared).redirection(), Redirection::Cni);
    assert_eq!(
        redirection("init-container", Coverage::Declared).redirection(),
        Redirection::InitContainer
    );
    let off = redirection("false", Coverage::None);
    assert_eq!((off.redirection(), off.code()), (Redirection::None, "redirection_off"));
    assert!(!capabilities(&off).contains("linkerd-init"));
    assert_eq!(redirection("cni", Coverage::None).code(), "no_redirection_admitted");
    let unknown = redirection("maybe", Coverage::Declared);
    assert!(
        unknown.message().contains("true, false, init-container, cni"),
        "{}",
        unknown.message()
    );
    let asked_in_baseline = case()
        .enforcing("baseline")
        .covered(Coverage::Declared)
        .annotated(key, "init-container")
        .decide();
    assert_eq!(asked_in_baseline.code(), "no_redirection_admitted");
}

#[test]
fn the_choice_is_written_on_the_pod() {
    let decision = case().covered(Coverage::Declared).decide();
    let patch = json!(decision.patch);
    let written = patch.as_array().unwrap().iter().any(|operation| {
        operation["path"] == "/metadata/annotations/linkerd.io~1setup-iptables" && operation["value"] == "cni"
    });
    assert!(written);
}

#[test]
fn a_pod_is_held_to_covered_nodes_only_where_a_label_tells_them_apart() {
    let decision = case()
        .enforcing("baseline")
        .covered(partly(Some(("cni", "yes"))))
        .decide();
    assert!(
        serde_json::to_string(&decision.patch)
            .unwrap()
            .contains("/spec/nodeSelector/cni")
    );
    let decision = case().enforcing("baseline").covered(partly(None)).decide();
    assert!(
        decision.message().contains("no label tells such nodes apart"),
        "{}",
        decision.message()
    );
}

#[test]
fn init_containers_without_network_come_second() {
    let classic = Case {
        values: "linkerdVersion: v1\nproxy: {nativeSidecar: false}",
        ..case()
    };
    let init = json!([{"name": "migrate", "image": "m:1", "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}}}]);
    let mut classic = classic.covered(Coverage::Declared).spec("initContainers", init);
    assert_eq!(classic.decide().redirection(), Redirection::InitContainer);
    for (ports, redirection) in [
        ("1-1023,1024-65535", Redirection::Cni),
        ("1-65534", Redirection::InitContainer),
    ] {
        classic = classic.annotated("config.linkerd.io/skip-outbound-ports", ports);
        assert_eq!(classic.decide().redirection(), redirection, "{ports}");
    }
    let decision = classic.enforcing("restricted").decide();
    assert_eq!(decision.redirection(), Redirection::Cni);
    assert!(
        decision
            .warnings
            .iter()
            .any(|it| it.caution == Caution::InitContainersWithoutNetwork && it.text.contains("migrate"))
    );
}

#[test]
fn the_debug_container_is_left_out_where_it_is_refused() {
    let case = case()
        .covered(Coverage::Declared)
        .annotated("config.linkerd.io/enable-debug-sidecar", "true");
    assert!(capabilities(&case.decide()).contains("linkerd-debug"));
    let decision = case.enforcing("restricted").decide();
    assert_eq!(decision.redirection(), Redirection::Cni);
    assert!(!capabilities(&decision).contains("\"linkerd-debug\""));
    assert_eq!(decision.warnings[0].caution, Caution::DebugContainerRefused);
}

#[test]
fn older_servers_get_classic_sidecars() {
    let proxy = |release| {
        let decision = Case { release, ..case() }.decide();
        json!(decision.patch).as_array().unwrap().last().unwrap()["path"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    assert_eq!(proxy(28), "/spec/containers/0");
    assert_eq!(proxy(29), "/spec/initContainers/1");
}

#[test]
fn errors_of_the_configuration_keep_out_only_what_would_be_injected() {
    let broken = Case { values: "{}", ..case() };
    assert_eq!(broken.decide().code(), "invalid_configuration");
    let bystander = Case {
        annotations: json!({}),
        ..broken
    };
    assert_eq!(bystander.decide().code(), "injection_enable_annotation_absent");
}

#[test]
fn our_image_sets_and_proves_the_rules_where_it_is_named() {
    let values = "linkerdVersion: v1\noutrigger: {image: {name: example.com/outrigger, version: v2}}";
    let init = capabilities(&Case { values, ..case() }.decide());
    assert!(
        init.contains(r#""image":"example.com/outrigger:v2","#) && init.contains(r#""--iptables-mode","auto""#),
        "{init}"
    );
    assert!(
        init.contains("/usr/lib/linkerd/linkerd2-proxy-init") && init.contains("linkerd/proxy:v1"),
        "{init}"
    );
    let cni = capabilities(
        &Case {
            values,
            ..case().covered(Coverage::Declared)
        }
        .decide(),
    );
    assert!(
        cni.contains(r#""image":"example.com/outrigger:v2","#) && cni.contains("linkerd2-network-validator"),
        "{cni}"
    );
    let theirs = capabilities(&case().decide());
    assert!(
        !theirs.contains("outrigger:") && !theirs.contains("--iptables-mode"),
        "{theirs}"
    );
}

#[test]
fn strictness_turns_warnings_into_denials() {
    let key = "config.linkerd.io/proxy-await";
    let lenient = case().annotated(key, "no").decide();
    assert_eq!(
        (lenient.word(), lenient.warnings[0].caution),
        ("inject", Caution::IgnoredValue)
    );
    let strict = Case {
        values: "linkerdVersion: v1\noutrigger: {strict: true}",
        ..case()
    }
    .annotated(key, "no")
    .decide();
    assert_eq!(strict.code(), "invalid_value");
}
