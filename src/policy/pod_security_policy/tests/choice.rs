//! Which policy takes a pod, and what is said where none does.

use super::*;
use crate::policy::{Grants, Requester, Usable};

fn chosen(policies: &[Value], pod: &Value) -> String {
    ask(policies, pod, |admission, pod| {
        admission.admit(pod).unwrap().policy().to_owned()
    })
}

#[test]
fn a_policy_that_changes_nothing_comes_before_every_other() {
    let changing = |name| policy(name, &[("/spec/readOnlyRootFilesystem", json!(true))]);
    let refusing = policy("0", &[("/spec/volumes", json!([]))]);
    let pod = pod(&[("/spec/volumes", json!([{"name": "v", "emptyDir": {}}]))]);
    assert_eq!(chosen(&[policy("z", &[]), changing("a"), refusing.clone()], &pod), "z");
    assert_eq!(
        chosen(&[changing("b"), refusing, changing("a"), changing("B")], &pod),
        "B"
    );
}

#[test]
fn nothing_is_said_by_policies_that_may_not_be_used() {
    let policies = Policies::compile(&[policy("p", &[("/spec/volumes", json!([]))])]);
    let json = pod(&[("/spec/volumes", json!([{"name": "v", "emptyDir": {}}]))]);
    let question = Question {
        release: Release(24),
        policies: &policies,
        grants: &Grants::compile([], Usable::PodSecurityPolicies),
        namespace: "shop",
        requester: &Requester::default(),
        service_account: Some("web"),
    };
    let review = |question: &Question<'_>| question.admission().review(&Pod::new(&json)).unwrap_err().to_string();
    let denied = |message: &str| format!("PodSecurityPolicy: {message}");
    assert_eq!(review(&question), denied("unable to admit pod: []"));
    let grants = Grants::listed([("p", "system:serviceaccount:shop:web")]);
    let question = Question {
        grants: &grants,
        ..question
    };
    let said = r#"spec.volumes[0]: Invalid value: "emptyDir": emptyDir volumes are not allowed to be used"#;
    assert_eq!(review(&question), denied(&format!("unable to admit pod: [{said}]")));
    let question = Question {
        policies: &Policies::default(),
        ..question
    };
    assert_eq!(
        review(&question),
        denied("no providers available to validate pod request")
    );
}

#[test]
fn the_second_round_asks_the_policy_of_the_annotation_first_and_changes_nothing() {
    let policies = [
        policy("a", &[]),
        policy("b", &[]),
        policy("c", &[("/spec/readOnlyRootFilesystem", json!(true))]),
    ];
    for (annotation, taken) in [("b", "b"), ("c", "a"), ("none", "a")] {
        let pod = pod(&[("/metadata/annotations/kubernetes.io~1psp", json!(annotation))]);
        ask(&policies, &pod, |admission, pod| {
            assert_eq!(admission.validate(pod), Ok(taken), "{annotation}");
        });
    }
    let refusal = ask(&policies[2..], &pod(&[]), |admission, pod| {
        admission.validate(pod).unwrap_err().to_string()
    });
    assert_eq!(refusal, "PodSecurityPolicy: unable to validate pod: []");
}

#[test]
fn the_server_resets_the_mount_of_proc_between_the_rounds() {
    let policies = [policy("p", &[("/spec/allowedProcMountTypes", json!(["Unmasked"]))])];
    let unmasked = json!({"procMount": "Unmasked"});
    let pod = pod(&[
        ("/spec/initContainers/0/securityContext", unmasked.clone()),
        ("/spec/containers/0/securityContext", unmasked.clone()),
        ("/spec/containers/1/securityContext", unmasked),
    ]);
    ask(&policies, &pod, |admission, pod| {
        let admitted = admission.admit(pod).unwrap();
        assert!(!admitted.mutates());
        let refusal = admission.validate_admitted(pod, &admitted).unwrap_err();
        let Refusal::Refused { phase, objections } = refusal else {
            panic!("{refusal}");
        };
        assert_eq!((phase, objections.len()), (Phase::Validate, 3));
        assert!(admission.review(pod).is_err());
    });
}

#[test]
fn policies_that_cannot_be_built_are_left_out_and_named() {
    let broken = [
        policy("a", &[("/spec/runAsUser", json!({"rule": "MustRunAs"}))]),
        policy("b", &[("/spec/seLinux", json!({"rule": "MustRunAs"}))]),
        policy("c", &[("/spec/fsGroup", json!({"rule": "Any"}))]),
        policy("d", &[("/spec/hostPorts", json!([{"min": 1}, {"min": "80"}]))]),
        json!({"metadata": {"name": "e"}}),
        json!({"metadata": {"name": "f"}, "spec": "none"}),
    ];
    let policies = Policies::compile(&broken);
    assert!(policies.is_empty());
    let said: Vec<_> = policies.unusable().iter().map(ToString::to_string).collect();
    assert_eq!(
        said,
        [
            "PodSecurityPolicy a: spec.runAsUser.ranges: missing: MustRunAs needs it",
            "PodSecurityPolicy b: spec.seLinux.seLinuxOptions: missing: MustRunAs needs it",
            r#"PodSecurityPolicy c: spec.fsGroup.rule: "Any": expected MustRunAs, MayRunAs or RunAsAny"#,
            r#"PodSecurityPolicy d: spec.hostPorts[1].min: invalid type: string "80", expected i32"#,
            r#"PodSecurityPolicy e: spec.runAsUser.rule: "": expected MustRunAs, MustRunAsNonRoot or RunAsAny"#,
            r#"PodSecurityPolicy f: spec: invalid type: string "none", expected an object"#,
        ]
    );
    assert_eq!(objections(&broken, &pod(&[])), [NO_POLICIES]);
}
