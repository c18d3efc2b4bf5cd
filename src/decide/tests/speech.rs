//! What a decision says: messages, warnings, trace, documentation.

use super::*;

#[test]
fn a_pod_that_no_redirection_fits_is_denied_with_every_reason() {
    for level in ["baseline", "restricted"] {
        let decision = case().enforcing(level).decide();
        let message = decision.message();
        for part in [
            "init-container: violates PodSecurity",
            "NET_ADMIN",
            "no CNI plugin",
            &format!("pod-security.kubernetes.io/enforce={level}"),
            "linkerd.io/inject: disabled",
        ] {
            assert!(message.contains(part), "{part}: {message}");
        }
        assert_eq!(decision.code(), "no_redirection_admitted");
        assert!(decision.patch.is_empty() && decision.would_be_refused());
    }
}

#[test]
fn ways_out_are_those_that_lead_out() {
    let refused = |case: Case| case.annotated("linkerd.io/setup-iptables", "cni").decide().message();
    let open = refused(case());
    assert!(open.contains("take linkerd.io/setup-iptables away"), "{open}");
    assert!(!open.contains("enforce=privileged"), "{open}");
    let closed = case().enforcing("baseline").decide().message();
    assert!(closed.contains("enforce=privileged"), "{closed}");
    assert!(!closed.contains("linkerd.io/setup-iptables"), "{closed}");
}

#[test]
fn warnings_and_audits_of_the_server_are_told() {
    let mut case = case().covered(Coverage::Declared);
    case.labels =
        json!({"pod-security.kubernetes.io/warn": "restricted", "pod-security.kubernetes.io/audit": "restricted"});
    case.pod["spec"]["securityContext"] = json!({});
    let decision = case.decide();
    let told = |verb: &str| {
        let start = format!("pod-security {verb}: the pod would violate PodSecurity \"restricted:latest\": ");
        decision.trace.facts().iter().any(|fact| fact.starts_with(&start))
    };
    assert!(told("warns") && told("audits"), "{:?}", decision.trace);
    assert_eq!(decision.word(), "inject");
}

#[test]
fn the_trace_says_where_a_value_comes_from() {
    let key = "config.linkerd.io/proxy-log-level";
    let mut case = case().covered(Coverage::Declared).annotated(key, "debug");
    case.annotations["config.linkerd.io/proxy-await"] = json!("disabled");
    case.pod["spec"]["containers"][0]["ports"] = json!([{"containerPort": 3306}]);
    let trace = case.decide().trace;
    for fact in [
        "linkerdVersion is set by the values: \"v1\"",
        "proxy.logLevel is set by the pod annotation config.linkerd.io/proxy-log-level: \"debug\"",
        "proxy.await is set by the namespace annotation config.linkerd.io/proxy-await: \"disabled\"",
        "proxy.opaquePorts is narrowed to the pod's own ports: \"3306\"",
    ] {
        assert!(trace.facts().iter().any(|it| it == fact), "{fact}: {trace:?}");
    }
}

#[test]
fn the_documentation_lists_every_code() {
    let document = include_str!("../../../docs/decision.md");
    let lists = [
        InjectReason::CODES,
        SkipReason::CODES,
        DenyReason::CODES,
        Caution::CODES,
    ];
    let is_missing = |code: &&&str| !document.contains(&format!("| `{code}` |"));
    let missing: Vec<_> = lists.into_iter().flatten().filter(is_missing).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn an_unreadable_level_is_judged_as_the_server_does_and_quoted() {
    let decision = case().enforcing("restrict").decide();
    assert!(matches!(decision.outcome, Outcome::Deny(_)));
    assert!(
        decision
            .message()
            .contains("pod-security.kubernetes.io/enforce=restrict;"),
        "{}",
        decision.message()
    );
    assert!(
        decision.trace.facts().iter().any(|fact| fact.contains("\"restrict\"")),
        "{:?}",
        decision.trace
    );
}

#[test]
fn authors_are_told_what_they_should_know() {
    let cautions = |case: Case| {
        case.decide()
            .warnings
            .into_iter()
            .map(|it| it.caution)
            .collect::<Vec<_>>()
    };
    assert_eq!(cautions(case().covered(Coverage::NoNodes)), [Caution::NoNodeForPod]);
    assert_eq!(
        cautions(case().enforcing("baseline").covered(partly(Some(("cni", "yes"))))),
        [Caution::HeldToCniNodes]
    );
    let off = Case {
        foreign_plugin: true,
        ..case().annotated("linkerd.io/setup-iptables", "false")
    };
    assert_eq!(cautions(off), [Caution::PluginIgnoresAnnotation]);
    let wait = case().annotated("config.alpha.linkerd.io/proxy-wait-before-exit-seconds", "40");
    assert_eq!(cautions(wait), [Caution::NoEffect]);
    let owner = Some(Owner {
        kind: Some(Kind::Job),
        name: "nightly".to_owned(),
    });
    assert_eq!(
        cautions(Case {
            owner,
            release: 28,
            ..case()
        }),
        [Caution::JobWillNotFinish]
    );
    let unknown = Coverage::Unknown {
        why: "nodes: forbidden".to_owned(),
    };
    let decision = case().enforcing("baseline").covered(unknown.clone()).decide();
    assert_eq!((decision.word(), decision.code()), ("inject", "cni_coverage_unknown"));
    assert!(
        decision.warnings[0].text.contains("nodes: forbidden"),
        "{:?}",
        decision.warnings
    );
    assert_eq!(case().covered(unknown).decide().code(), "init_container_admitted");
}

#[test]
fn a_pod_that_is_refused_for_its_own_sake_hears_what_comes_after() {
    let volumes = json!([{"name": "v", "hostPath": {"path": "/"}}]);
    let decision = case().enforcing("baseline").spec("volumes", volumes).decide();
    assert_eq!((decision.word(), decision.code()), ("inject", "refused_anyway"));
    let either = decision
        .warnings
        .iter()
        .filter(|it| it.caution == Caution::NoRedirectionEither);
    assert_eq!(either.count(), 2, "{:?}", decision.warnings);
}
