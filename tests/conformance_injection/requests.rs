//! Admission requests that Linkerd's handler answered: the same answers, but for the differences that were decided on.

use crate::{cases, layers, normal_form};
use outrigger::decide::{Coverage, Decision, Facts, Inputs, Namespace, Outcome, Round, Trace, annotate, decide};
use outrigger::inject::Owner;
use outrigger::pod::workload::Kind;
use outrigger::policy::pod_security::Configuration;
use outrigger::policy::probe::Word;
use outrigger::policy::{Installed, Release, Requester};
use serde_json::{Value, json};
use std::fs;

/// Cases that are not answered here, with what answers them.
const ELSEWHERE: [(&str, &str); 1] = [("err/nons", "the webhook, which looks namespaces up")];

#[test]
fn requests_are_answered_as_by_linkerd() {
    let Some(folder) = cases() else { return };
    let text = fs::read_to_string(folder.join("requests.jsonl")).unwrap();
    let (mut equal, mut pinned, mut elsewhere, mut wrong) = (0, Vec::new(), 0, Vec::new());
    for line in text.lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        let name = case["name"].as_str().unwrap();
        if ELSEWHERE.iter().any(|(known, _)| *known == name) {
            elsewhere += 1;
            continue;
        }
        match (difference(&case), case["differs"].as_str()) {
            (None, _) => equal += 1,
            (Some(_), Some(reason)) => pinned.push(format!("{name} ({reason})")),
            (Some(difference), None) => wrong.push(format!("{name}: {difference}")),
        }
    }
    println!(
        "requests: {} cases, {equal} equal, {} pinned, {elsewhere} elsewhere, {} not yet right",
        text.lines().count(),
        pinned.len(),
        wrong.len()
    );
    println!("pinned: {}", pinned.join(", "));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The first difference from what Linkerd answered.
fn difference(case: &Value) -> Option<String> {
    let object = &case["request"]["object"];
    let decision = answer(case);
    let ours = apply(object, json!(decision.patch));
    let expected = &case["expect"];
    match (&decision.outcome, expected["deny"].as_str()) {
        (Outcome::Deny(reason), Some(theirs)) => {
            let (ours, theirs) = (reason.to_string(), sentence(theirs));
            (!ours.contains(theirs)).then(|| format!("denied with {ours:?}, theirs {theirs:?}"))
        }
        (Outcome::Deny(reason), None) => Some(format!("denied: {reason}")),
        (_, Some(theirs)) => Some(format!("allowed, theirs denied: {theirs}")),
        _ if !expected["patchInvalidJSON"].is_null() => Some("their patch is no JSON".to_owned()),
        _ => {
            let theirs = apply(object, expected["patch"].clone());
            normal_form::difference(&normal_form::of(&ours), &normal_form::of(&theirs))
        }
    }
}

/// A message without the position in a template that Helm puts before it.
fn sentence(message: &str) -> &str {
    match message.strip_prefix("execution error at (") {
        Some(rest) => rest.split_once("): ").map_or(message, |(_, sentence)| sentence),
        None => message,
    }
}

/// Our decision on the case's request.
pub(crate) fn answer(case: &Value) -> Decision {
    let mut document = layers::defaults();
    layers::merge(&mut document, &case["valuesMerge"]);
    layers::remove(&mut document, case["valuesUnset"].as_array().unwrap());
    let installation = layers::installation(document, case["trustAnchors"].as_str());
    let request = &case["request"];
    let owner = owner(&request["object"], &case["clusterObjects"]);
    let coverage = match installation.values.cni_enabled {
        true => Coverage::Declared,
        false => Coverage::None,
    };
    let configuration = Configuration::default();
    let inputs = Inputs {
        pod: &request["object"],
        namespace: Namespace {
            name: request["namespace"].as_str().unwrap(),
            labels: None,
            annotations: case["nsAnnotations"].as_object(),
        },
        owner: owner.as_ref(),
        requester: &Requester::named("somebody"),
        installation: &installation,
        facts: Facts {
            server: Release::NEWEST.into(),
            pod_security: &configuration,
            coverage: &coverage,
            old_kubelets: None,
            foreign_plugin: false,
            stale: false,
            policies: &Installed::compile([], Release::NEWEST),
            probe: &Word::Absent,
            round: Round::Second,
        },
    };
    match request["kind"].as_str().unwrap() {
        "Service" => annotate(
            Kind::Service,
            &request["object"],
            &installation,
            &inputs.namespace,
            Trace::off(),
        ),
        _ => decide(&inputs, Trace::off()),
    }
}

/// What a pod belongs to: its only owner, or that one's own where it is a ReplicaSet or a Job.
fn owner(pod: &Value, cluster: &Value) -> Option<Owner> {
    let reference = only_owner(pod)?;
    let found = cluster
        .as_array()
        .into_iter()
        .flatten()
        .find(|object| object["kind"] == reference["kind"] && object["metadata"]["name"] == reference["name"]);
    let above = found
        .and_then(only_owner)
        .filter(|above| match reference["kind"].as_str() {
            Some("Job") => true,
            Some("ReplicaSet") => {
                ["Job", "StatefulSet", "DaemonSet", "Deployment"].contains(&above["kind"].as_str().unwrap())
            }
            _ => false,
        });
    let reference = above.unwrap_or(reference);
    let kind = Kind::of(reference);
    Some(Owner {
        kind,
        name: reference["name"].as_str()?.to_owned(),
    })
}

fn only_owner(object: &Value) -> Option<&Value> {
    match object.pointer("/metadata/ownerReferences")?.as_array()?.as_slice() {
        [owner] => Some(owner),
        _ => None,
    }
}

/// `object` after `patch`.
pub(crate) fn apply(object: &Value, patch: Value) -> Value {
    let patch: json_patch::Patch = if patch.is_null() {
        json_patch::Patch::default()
    } else {
        serde_json::from_value(patch).unwrap()
    };
    let mut patched = object.clone();
    json_patch::patch(&mut patched, &patch).unwrap();
    patched
}
