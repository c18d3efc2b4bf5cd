//! Policies made for pods: whatever the pod, they admit it before injection and after it.

use crate::pods::{mutated, written};
use crate::surroundings::{Surroundings, surroundings};
use crate::{apply, config};
use outrigger::pod::Pod;
use outrigger::policy::needs::{Needs, right};
use outrigger::policy::pod_security_policy::{self, Policies};
use outrigger::policy::{Grants, Release, Requester, Usable, pod_security, scc};
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use serde_json::{Value, json};

/// The last release that has `PodSecurityPolicies`.
const RELEASE: Release = Release(24);

/// What a pod's security context may ask for.
fn pod_demands() -> impl Strategy<Value = Vec<(&'static str, Value)>> {
    let demands = vec![
        ("fsGroup", json!(999)),
        ("fsGroup", json!(20_000)),
        ("supplementalGroups", json!([5, 60_000])),
        ("supplementalGroups", json!([])),
        ("seLinuxOptions", json!({"level": "s0:c1"})),
        (
            "sysctls",
            json!([{"name": "net.core.somaxconn"}, {"name": "kernel.shm_rmid_forced"}]),
        ),
        ("seccompProfile", json!({"type": "Unconfined"})),
        ("runAsUser", json!(0)),
        ("runAsNonRoot", json!(false)),
    ];
    subsequence(demands, 0..4)
}

/// What a container's may.
fn container_demands() -> impl Strategy<Value = Vec<(&'static str, Value)>> {
    let demands = vec![
        ("privileged", json!(true)),
        ("allowPrivilegeEscalation", json!(true)),
        ("readOnlyRootFilesystem", json!(false)),
        ("readOnlyRootFilesystem", json!(true)),
        ("capabilities", json!({"add": ["SYS_TIME", "CAP_SYS_ADMIN"]})),
        ("capabilities", json!({"add": ["ALL"], "drop": ["KILL"]})),
        ("capabilities", json!({"add": ["*"]})),
        ("procMount", json!("Unmasked")),
        (
            "seccompProfile",
            json!({"type": "Localhost", "localhostProfile": "audit.json"}),
        ),
        ("runAsUser", json!(1000)),
        ("runAsNonRoot", json!(true)),
    ];
    subsequence(demands, 0..4)
}

/// Pods such as people write, some of which ask for much.
fn demanding() -> impl Strategy<Value = Value> {
    let volume = select(vec![
        json!({"hostPath": {"path": "/var/log"}}),
        json!({"flexVolume": {"driver": "example.com/d"}}),
        json!({"csi": {"driver": "csi.example.com"}}),
        json!({"cephfs": {"monitors": []}}),
        json!({"vsphereVolume": {}}),
        json!({"emptyDir": {}}),
    ]);
    (
        written(),
        pod_demands(),
        container_demands(),
        prop::option::of(volume),
        any::<bool>(),
    )
        .prop_map(|(mut pod, of_pod, of_container, volume, host_port)| {
            let spec = &mut pod["spec"];
            if !of_pod.is_empty() {
                spec["securityContext"] = of_pod.into_iter().collect();
            }
            if !of_container.is_empty() {
                spec["containers"][0]["securityContext"] = of_container.into_iter().collect();
            }
            for key in ["initContainers", "containers"] {
                for container in spec[key].as_array_mut().into_iter().flatten() {
                    // With others the API server takes no pod, and no policy can name them.
                    container["ports"][0]["containerPort"] = json!(80);
                }
            }
            if host_port {
                spec["containers"][0]["ports"][0]["hostPort"] = json!(8080);
            }
            if let Some(mut volume) = volume {
                volume["name"] = json!("wanted");
                spec["volumes"] = json!([volume]);
            }
            pod
        })
}

/// The pod as the webhook leaves it, after the API's defaulting.
fn injected(pod: &Value, around: &Surroundings) -> Result<Value, TestCaseError> {
    let mut after = apply(pod, &around.decide(pod))?;
    pod_security::default(&mut after);
    Ok(after)
}

fn defaulted(mut pod: Value) -> Value {
    pod_security::default(&mut pod);
    pod
}

/// The policy for the pod `after` injection, alone in its cluster, and the right to use it.
fn psp(after: &Value) -> (Value, Policies, Grants) {
    let pod = Pod::new(after);
    let mut needs = Needs::default();
    needs.add("Pod/web", &pod);
    let made = pod_security_policy::tailored("made", &needs, RELEASE).object;
    let account = pod.service_account().unwrap_or("default");
    let rights = right(Usable::PodSecurityPolicies, "made", "shop-psp", "shop", [account]);
    let policies = Policies::compile([&made]);
    (made, policies, Grants::compile(&rights, Usable::PodSecurityPolicies))
}

fn question<'q>(
    policies: &'q Policies,
    grants: &'q Grants,
    requester: &'q Requester,
    pod: &Pod<'q>,
) -> pod_security_policy::Question<'q> {
    pod_security_policy::Question {
        release: RELEASE,
        policies,
        grants,
        namespace: "shop",
        requester,
        service_account: Some(pod.service_account().unwrap_or("default")),
    }
}

/// A pod's whole way: both rounds of the plugin, with the webhook in between.
fn admitted_by_psp(pod: Value, around: &Surroundings) -> Result<(), TestCaseError> {
    let mut pod = defaulted(pod);
    let (_, policies, grants) = psp(&injected(&pod, around)?);
    let nobody = Requester::default();
    let given = pod.clone();
    let admission = question(&policies, &grants, &nobody, &Pod::new(&given)).admission();
    match admission.admit(&Pod::new(&given)) {
        Ok(admitted) => admitted.apply(&mut pod),
        Err(refusal) => return Err(TestCaseError::fail(refusal.to_string())),
    }
    let after = injected(&pod, around)?;
    admission
        .review(&Pod::new(&after))
        .map(drop)
        .map_err(|refusal| TestCaseError::fail(refusal.to_string()))
}

fn restricted_v2() -> Value {
    json!({
        "kind": "SecurityContextConstraints",
        "metadata": {"name": "restricted-v2"},
        "allowPrivilegeEscalation": false,
        "allowedCapabilities": ["NET_BIND_SERVICE"],
        "requiredDropCapabilities": ["ALL"],
        "runAsUser": {"type": "MustRunAsRange"},
        "seLinuxContext": {"type": "MustRunAs"},
        "fsGroup": {"type": "MustRunAs"},
        "supplementalGroups": {"type": "RunAsAny"},
        "seccompProfiles": ["runtime/default"],
        "volumes": ["configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret"],
        "groups": ["system:authenticated"],
    })
}

/// The same on OpenShift, where `restricted-v2` may come first.
fn admitted_by_scc(pod: Value, around: &Surroundings) -> Result<(), TestCaseError> {
    let mut pod = defaulted(pod);
    let after = injected(&pod, around)?;
    let mut needs = Needs::default();
    needs.add("Pod/web", &Pod::new(&after));
    let usable = Usable::SecurityContextConstraints;
    let objects = [scc::tailored("made", &needs).object, restricted_v2()];
    let account = Pod::new(&after).service_account().unwrap_or("default").to_owned();
    let annotations = json!({
        "openshift.io/sa.scc.uid-range": "1000680000/10000",
        "openshift.io/sa.scc.mcs": "s0:c26,c10",
    });
    let admission = scc::Question {
        constraints: &scc::Constraints::compile(&objects),
        grants: &Grants::compile(&right(usable, "made", "shop-scc", "shop", [account.as_str()]), usable),
        server: Release::NEWEST,
        namespace: "shop",
        labels: None,
        annotations: annotations.as_object(),
        requester: &Requester {
            user: "system:serviceaccount:kube-system:replicaset-controller".to_owned(),
            groups: vec!["system:authenticated".to_owned()],
        },
    };
    let admission = admission.admission();
    let given = pod.clone();
    match admission.review(&Pod::new(&given)) {
        scc::Review::Admitted(admitted) => admitted.apply(&mut pod),
        scc::Review::Exempt => return Ok(()),
        other @ (scc::Review::Refused { .. } | scc::Review::Unknown { .. }) => {
            return Err(TestCaseError::fail(format!("{other:?}")));
        }
    }
    let after = injected(&pod, around)?;
    match admission.review(&Pod::new(&after)) {
        scc::Review::Admitted(_) | scc::Review::Exempt => Ok(()),
        other @ (scc::Review::Refused { .. } | scc::Review::Unknown { .. }) => {
            Err(TestCaseError::fail(format!("{other:?}")))
        }
    }
}

/// What the API demands of a policy beyond its types.
fn check_policy(made: &Value) -> Result<(), TestCaseError> {
    let names = |key: &str| made["spec"][key].as_array().cloned().unwrap_or_default();
    let (allowed, dropped) = (names("allowedCapabilities"), names("requiredDropCapabilities"));
    prop_assert!(dropped.iter().all(|name| !allowed.contains(name)), "{}", made);
    prop_assert!(dropped.is_empty() || !allowed.contains(&json!("*")), "{}", made);
    for path in names("allowedHostPaths") {
        prop_assert!(!path["pathPrefix"].as_str().unwrap().is_empty());
    }
    let paths_open = names("volumes").contains(&json!("hostPath")) && names("allowedHostPaths").is_empty();
    prop_assert!(!paths_open, "{}", made);
    Ok(())
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_policy_made_for_a_pod_admits_it((pod, around) in (demanding(), surroundings())) {
        admitted_by_psp(pod.clone(), &around)?;
        admitted_by_scc(pod, &around)?;
    }

    #[test]
    fn a_policy_made_for_anything_is_one(pod in mutated()) {
        let (made, policies, _) = psp(&defaulted(pod));
        prop_assert!(policies.unusable().is_empty(), "{:?}", policies.unusable());
        check_policy(&made)?;
    }
}
