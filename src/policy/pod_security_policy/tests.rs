//! Policies, pods and answers, one line a rule; what the rules do together is compared with upstream's plugin by
//! `tests/conformance_pod_security_policy.rs`.

use serde_json::{Value, json};

use super::*;
use crate::pod::Pod;
use crate::policy::Release;
use crate::policy::{Grants, Requester, Usable};

mod any_input;
mod choice;
mod rules;
mod use_of_policies;
mod volumes;

/// Puts `value` at a JSON pointer, with objects made on the way.
fn put(object: &mut Value, pointer: &str, value: &Value) {
    let mut place = object;
    for token in pointer.split('/').skip(1) {
        place = match token.parse::<usize>() {
            Ok(index) => &mut place[index],
            Err(_) => &mut place[token.replace("~1", "/")],
        };
    }
    *place = value.clone();
}

/// A policy that takes every pod as it is but for the node's namespaces, then changed at each pointer.
fn policy(name: &str, changes: &[(&str, Value)]) -> Value {
    let any = json!({"rule": "RunAsAny"});
    let mut policy = json!({
        "metadata": {"name": name, "annotations": {"seccomp.security.alpha.kubernetes.io/allowedProfileNames": "*"}},
        "spec": {
            "privileged": true, "volumes": ["*"], "allowedCapabilities": ["*"],
            "runAsUser": any, "fsGroup": any, "supplementalGroups": any, "seLinux": any,
        },
    });
    for (pointer, value) in changes {
        put(&mut policy, pointer, value);
    }
    policy
}

/// A pod of two containers and one init container, changed likewise; `$` stands for the security context of the first
/// container, `@` for the pod's.
fn pod(changes: &[(&str, Value)]) -> Value {
    let mut pod = json!({
        "metadata": {"name": "web"},
        "spec": {"initContainers": [{"name": "init"}], "containers": [{"name": "app"}, {"name": "side"}]},
    });
    for (pointer, value) in changes {
        let pointer = pointer
            .replace('$', "/spec/containers/0/securityContext")
            .replace('@', "/spec/securityContext");
        put(&mut pod, &pointer, value);
    }
    pod
}

/// Asks as somebody who may use every policy that there is.
fn ask<T>(policies: &[Value], pod: &Value, question: impl FnOnce(&Admission<'_>, &Pod<'_>) -> T) -> T {
    let policies = Policies::compile(policies);
    let grants = Grants::compile([], Usable::PodSecurityPolicies);
    let requester = Requester {
        user: "admin".to_owned(),
        groups: vec!["system:masters".to_owned()],
    };
    let admission = Question {
        release: Release(24),
        policies: &policies,
        grants: &grants,
        namespace: "shop",
        requester: &requester,
        service_account: None,
    }
    .admission();
    question(&admission, &Pod::new(pod))
}

/// What the policies say in the first round; empty where one takes the pod.
fn objections(policies: &[Value], pod: &Value) -> Vec<String> {
    ask(policies, pod, |admission, pod| match admission.admit(pod) {
        Ok(_) => Vec::new(),
        Err(Refusal::NoPolicies) => vec![NO_POLICIES.to_owned()],
        Err(Refusal::Refused { objections, .. }) => objections.into_iter().map(|objection| objection.error).collect(),
    })
}

/// A change to the policy, one to the pod, what the policy then says.
type Row<'r> = (&'r str, Value, &'r str, Value, &'r str);

fn judge(rows: &[Row<'_>]) {
    for (of_policy, rule, of_pod, value, error) in rows {
        let policies = [policy("p", &[(of_policy, rule.clone())])];
        let pod = pod(&[(of_pod, value.clone())]);
        let said = objections(&policies, &pod);
        let expected: Vec<_> = Some(*error).filter(|error| !error.is_empty()).into_iter().collect();
        assert_eq!(said, expected, "{of_policy}: {rule}, {of_pod}: {value}");
    }
}
