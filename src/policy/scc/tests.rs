//! Tables of constraints, pods and answers, one line a rule.

use serde_json::{Value, json};

use super::constraint::Constraint;
use super::*;
use crate::pod::Pod;
use crate::policy::{Grants, Requester, Usable};
use crate::policy::{UserIds, Verdict};

mod built_in;
mod choice;
mod container_rules;
mod order;
mod pod_rules;
mod tailoring;

/// Annotations of a namespace that OpenShift has seen.
fn allotment() -> Value {
    json!({
        "openshift.io/sa.scc.uid-range": "1000680000/10000",
        "openshift.io/sa.scc.supplemental-groups": "1000680000/10000",
        "openshift.io/sa.scc.mcs": "s0:c26,c10",
    })
}

/// The controller that makes a Deployment's pods.
fn controller() -> Requester {
    Requester {
        user: "system:serviceaccount:kube-system:replicaset-controller".to_owned(),
        groups: vec!["system:serviceaccounts".to_owned(), "system:authenticated".to_owned()],
    }
}

/// A cluster with constraints and RBAC objects, and who asks.
struct Scene {
    constraints: Constraints,
    grants: Grants,
    annotations: Value,
    labels: Value,
    requester: Requester,
    server: Release,
}

/// What an admission says, without borrowing from it.
#[derive(Debug, PartialEq)]
struct Answer {
    constraint: Option<String>,
    users: Option<UserIds>,
    message: String,
    /// The pod as it is stored.
    pod: Value,
}

impl Scene {
    fn new(constraints: &[Value]) -> Self {
        Self {
            constraints: Constraints::compile(constraints),
            grants: Grants::default(),
            annotations: allotment(),
            labels: json!({}),
            requester: controller(),
            server: Release(34),
        }
    }

    /// One constraint that everybody may use.
    fn one(changes: Value) -> Self {
        let mut constraint = built_in::constraint("one", changes);
        constraint["groups"] = json!(["system:authenticated"]);
        Self::new(&[constraint])
    }

    fn built_in() -> Self {
        Self::new(&built_in::all())
    }

    fn granting(self, objects: &[Value]) -> Self {
        Self {
            grants: Grants::compile(objects, Usable::SecurityContextConstraints),
            ..self
        }
    }

    fn ask(&self, pod: &Value) -> Answer {
        let question = Question {
            constraints: &self.constraints,
            grants: &self.grants,
            server: self.server,
            namespace: "shop",
            labels: self.labels.as_object(),
            annotations: self.annotations.as_object(),
            requester: &self.requester,
        };
        let admission = question.admission();
        let review = admission.review(&Pod::new(pod));
        let mut answer = Answer {
            constraint: None,
            users: None,
            message: match review.verdict() {
                Verdict::Allowed => String::new(),
                Verdict::Denied { message } => message,
                Verdict::Unknown { why } => format!("unknown: {why}"),
            },
            pod: pod.clone(),
        };
        if let Review::Admitted(admitted) = review {
            admitted.apply(&mut answer.pod);
            answer.constraint = Some(admitted.constraint.to_owned());
            answer.users = Some(admitted.users);
        }
        answer
    }

    /// The message without what all have in common.
    fn refusal(&self, pod: &Value) -> String {
        let message = self.ask(pod).message;
        message.replace("unable to validate against any security context constraint: ", "")
    }
}

/// A pod with one container, changed at each pointer (RFC 6901). `$` stands for the container's security context, `@`
/// for the pod's.
fn pod(changes: &[(&str, Value)]) -> Value {
    let mut pod = json!({"metadata": {"name": "web"}, "spec": {"containers": [{"name": "app"}]}});
    for (pointer, value) in changes {
        let pointer = pointer
            .replace('$', "/spec/containers/0/securityContext")
            .replace('@', "/spec/securityContext");
        let setting = Setting {
            pointer,
            value: value.clone(),
        };
        setting.apply(&mut pod);
    }
    pod
}

/// What a constraint with these changes says to a pod with those; the name of the constraint is left out.
fn refusal(constraint: Value, changes: &[(&str, Value)]) -> String {
    Scene::one(constraint)
        .refusal(&pod(changes))
        .replace("provider one: ", "")
}

/// The field at `pointer` of the pod that is stored.
fn stored(constraint: Value, changes: &[(&str, Value)], pointer: &str) -> Value {
    let pointer = pointer
        .replace('$', "/spec/containers/0/securityContext")
        .replace('@', "/spec/securityContext");
    let answer = Scene::one(constraint).ask(&pod(changes));
    assert_eq!(answer.message, "");
    answer.pod.pointer(&pointer).cloned().unwrap_or_default()
}
