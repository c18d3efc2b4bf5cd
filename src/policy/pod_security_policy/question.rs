//! One question about one pod as JSON, one answer as JSON: the part of `policy evaluate --json-lines` that is about
//! policies of this kind.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::digest::digest;
use super::object::{items, or_empty};
use super::{Admitted, NO_POLICIES, Policies, Question, Refusal};
use crate::pod::Pod;
use crate::policy::Release;
use crate::policy::pod_security::default;
use crate::policy::{Grants, Requester};

/// A question, but for its id.
#[derive(Debug, Default, Deserialize)]
#[serde(default, expecting = "an object")]
struct Asked {
    #[serde(deserialize_with = "or_empty")]
    namespace: String,
    #[serde(deserialize_with = "or_empty")]
    user: String,
    #[serde(deserialize_with = "items")]
    groups: Vec<String>,
    #[serde(deserialize_with = "items")]
    policies: Vec<Value>,
    /// By policy, the users and groups that may use it.
    #[serde(deserialize_with = "or_empty")]
    grants: BTreeMap<String, Option<Vec<String>>>,
    #[serde(deserialize_with = "or_empty")]
    pod: Map<String, Value>,
}

/// Whether `question` is for [`answer`]: whether it has policies.
pub fn is_asked(question: &Value) -> bool {
    question.get("policies").is_some()
}

/// Answers `{id, namespace, user, groups, policies, grants, pod}` with `{id, admit: {allowed, policy, pod}, validate:
/// {allowed}}` where a policy takes the pod; else `admit` has `{allowed, errors}` and there is no `validate`. `grants`
/// maps a policy's name to the users and groups that may use it.
///
/// The pod goes through the API's defaulting first. `pod` of the answer is what a policy may change: `{annotations,
/// securityContext, runtimeClassName, containers}`, the latter by place. `id` is any JSON value and comes back as it
/// is. A question that cannot be answered gets `{id, error}`.
pub fn answer(mut question: Value, release: Release) -> Value {
    let id = question.as_object_mut().and_then(|question| question.remove("id"));
    let mut answer = match serde_path_to_error::deserialize(question) {
        Ok(asked) => reply(asked, release),
        Err(error) => Map::from_iter([("error".to_owned(), json!(error.to_string()))]),
    };
    if let Some(id) = id {
        answer.insert("id".to_owned(), id);
    }
    Value::Object(answer)
}

fn reply(asked: Asked, release: Release) -> Map<String, Value> {
    let mut json = Value::Object(asked.pod);
    default(&mut json);
    let pod = Pod::new(&json);
    let policies = Policies::compile(&asked.policies);
    let grants = Grants::listed(asked.grants.iter().flat_map(|(policy, subjects)| {
        let subjects = subjects.iter().flatten();
        subjects.map(|subject| (policy.as_str(), subject.as_str()))
    }));
    let requester = Requester {
        user: asked.user,
        groups: asked.groups,
    };
    let question = Question {
        release,
        policies: &policies,
        grants: &grants,
        namespace: &asked.namespace,
        requester: &requester,
        service_account: pod.service_account(),
    };
    let admission = question.admission();
    let admitted = admission.admit(&pod);
    let mut answer = Map::new();
    if let Ok(admitted) = &admitted {
        let validated = admission.validate_admitted(&pod, admitted);
        answer.insert("validate".to_owned(), phase(validated.map(|_| Map::new())));
    }
    answer.insert(
        "admit".to_owned(),
        phase(admitted.map(|admitted| taken(&json, &admitted))),
    );
    answer
}

fn taken(pod: &Value, admitted: &Admitted<'_>) -> Map<String, Value> {
    let mut pod = pod.clone();
    admitted.apply(&mut pod);
    Map::from_iter([
        ("policy".to_owned(), json!(admitted.policy())),
        ("pod".to_owned(), digest(&Pod::new(&pod))),
    ])
}

fn phase(outcome: Result<Map<String, Value>, Refusal>) -> Value {
    let (allowed, mut phase) = match outcome {
        Ok(phase) => (true, phase),
        Err(refusal) => (false, Map::from_iter([("errors".to_owned(), errors(refusal))])),
    };
    phase.insert("allowed".to_owned(), json!(allowed));
    Value::Object(phase)
}

fn errors(refusal: Refusal) -> Value {
    match refusal {
        Refusal::NoPolicies => json!([NO_POLICIES]),
        Refusal::Refused { objections, .. } => objections.into_iter().map(|objection| objection.error).collect(),
    }
}
