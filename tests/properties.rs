//! What holds of every decision, whatever the pod looks like.
#![expect(
    clippy::unwrap_used,
    clippy::unwrap_in_result,
    clippy::indexing_slicing,
    reason = "a failed expectation is how a test fails"
)]

#[path = "properties/pods.rs"]
mod pods;
#[path = "properties/surroundings.rs"]
mod surroundings;
#[path = "properties/tailored.rs"]
mod tailored;

use outrigger::cli::inject::{Injector, Options};
use outrigger::cli::resources;
use outrigger::config::Installation;
use outrigger::config::values::Values;
use outrigger::decide::{Caution, Decision, Outcome, SkipReason, Trace};
use outrigger::inject::uninject::uninject;
use outrigger::pod::{Pod, container_name, structure};
use outrigger::policy::Verdict;
use pods::{json, mutated, written};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use serde_json::Value;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use surroundings::{Surroundings, surroundings};

/// The containers that injection adds.
const OURS: [&str; 4] = [
    "linkerd-proxy",
    "linkerd-init",
    "linkerd-network-validator",
    "linkerd-debug",
];

/// Where a patch may add something, by the start of the pointer.
const PLACES: [&str; 6] = [
    "/metadata/annotations",
    "/metadata/labels",
    "/spec/containers/",
    "/spec/initContainers",
    "/spec/nodeSelector",
    "/spec/volumes",
];

/// Prefixes of annotations and labels that injection may write.
const KEYS: [&str; 5] = [
    "linkerd.io~1",
    "config.linkerd.io~1",
    "config.alpha.linkerd.io~1",
    "config.beta.linkerd.io~1",
    "outrigger.linkerd.io~1",
];

fn apply(pod: &Value, decision: &Decision) -> Result<Value, TestCaseError> {
    let patch: json_patch::Patch = serde_json::from_value(serde_json::to_value(&decision.patch).unwrap()).unwrap();
    let mut patched = pod.clone();
    json_patch::patch(&mut patched, &patch).map_err(|error| TestCaseError::fail(error.to_string()))?;
    Ok(patched)
}

/// The names in a list of the spec, in order.
fn names(pod: &Value, key: &str) -> Vec<String> {
    let list = pod["spec"][key].as_array();
    let names = list.into_iter().flatten().map(|item| container_name(item).to_owned());
    names.collect()
}

fn repeats(names: &[String]) -> usize {
    names.len() - names.iter().collect::<BTreeSet<_>>().len()
}

/// Every name of a container.
fn container_names(pod: &Value) -> Vec<String> {
    ["initContainers", "containers", "ephemeralContainers"]
        .into_iter()
        .flat_map(|key| names(pod, key))
        .collect()
}

fn check_decision(pod: &Value, decision: &Decision, around: &Surroundings) -> Result<(), TestCaseError> {
    prop_assert!(!decision.policies.is_empty() && !decision.trace.facts().is_empty() && !decision.message().is_empty());
    let patched = apply(pod, decision)?;
    match &decision.outcome {
        Outcome::Inject { .. } => check_injected(pod, &patched, around)?,
        Outcome::Skip(_) => {
            let repaired = decision.warnings.iter().any(|it| it.caution == Caution::ProxyRepaired);
            prop_assert!(repaired || patched.get("spec") == pod.get("spec"), "{}", patched);
        }
        Outcome::Deny(_) => prop_assert!(decision.patch.is_empty()),
    }
    check_places(decision)?;
    check_untraced(pod, decision, around)?;
    prop_assert_eq!(&application(&patched, pod), &application(pod, pod));
    check_again(&patched, decision, around)
}

/// Exactly one proxy; no name twice that was not; not refused where the pod as it came is admitted.
fn check_injected(pod: &Value, patched: &Value, around: &Surroundings) -> Result<(), TestCaseError> {
    structure::of_pod(patched).unwrap();
    let containers = container_names(patched);
    let proxies = containers.iter().filter(|name| *name == "linkerd-proxy");
    prop_assert_eq!(proxies.count(), 1, "{:?}", containers);
    prop_assert_eq!(repeats(&containers), repeats(&container_names(pod)));
    prop_assert_eq!(repeats(&names(patched, "volumes")), repeats(&names(pod, "volumes")));
    let admission = around.question();
    let admission = admission.admission();
    let verdict = |pod| admission.review(&Pod::new(pod)).verdict;
    if verdict(pod) == Verdict::Allowed {
        let after = verdict(patched);
        prop_assert!(!matches!(after, Verdict::Denied { .. }), "{:?}", after);
    }
    Ok(())
}

/// The patch adds under paths and keys of injection's only.
fn check_places(decision: &Decision) -> Result<(), TestCaseError> {
    let patch = serde_json::to_value(&decision.patch).unwrap();
    for operation in patch.as_array().into_iter().flatten() {
        let path = operation["path"].as_str().unwrap();
        let known = path == "/metadata" || PLACES.iter().any(|place| path.starts_with(place));
        prop_assert!(known, "{}", path);
        let keys = ["/metadata/annotations/", "/metadata/labels/"];
        if let Some(key) = keys.iter().find_map(|place| path.strip_prefix(place)) {
            prop_assert!(KEYS.iter().any(|prefix| key.starts_with(prefix)), "{}", path);
        }
    }
    Ok(())
}

/// What is left of a pod without what injection may add: everything that is the application's, in order.
fn application(pod: &Value, original: &Value) -> Value {
    let mut rest = pod.clone();
    let known = container_names(original);
    let volumes = names(original, "volumes");
    if let Some(spec) = rest.get_mut("spec").and_then(Value::as_object_mut) {
        let added =
            |item: &Value| OURS.contains(&container_name(item)) && !known.iter().any(|it| it == container_name(item));
        for key in ["initContainers", "containers"] {
            if let Some(list) = spec.get_mut(key).and_then(Value::as_array_mut) {
                list.retain(|item| !added(item));
            }
        }
        if let Some(list) = spec.get_mut("volumes").and_then(Value::as_array_mut) {
            list.retain(|item| volumes.iter().any(|it| it == container_name(item)));
        }
        if let Some(selector) = spec.get_mut("nodeSelector").and_then(Value::as_object_mut) {
            selector.remove("example.com/cni~x");
        }
        spec.retain(|_, value| !is_nothing(value));
    }
    if let Some(metadata) = rest.get_mut("metadata").and_then(Value::as_object_mut) {
        for key in ["annotations", "labels"] {
            if let Some(map) = metadata.get_mut(key).and_then(Value::as_object_mut) {
                map.retain(|key, _| !KEYS.iter().any(|prefix| key.replace('/', "~1").starts_with(prefix)));
            }
        }
        metadata.retain(|_, value| !is_nothing(value));
    }
    if let Some(map) = rest.as_object_mut() {
        map.retain(|_, value| !is_nothing(value));
    }
    rest
}

/// Null, `{}` and `[]` mean what a missing field means.
fn is_nothing(value: &Value) -> bool {
    value.is_null()
        || value.as_object().is_some_and(serde_json::Map::is_empty)
        || value.as_array().is_some_and(Vec::is_empty)
}

/// The decision is the same where nobody reads what led to it, and where its configuration was kept.
fn check_untraced(pod: &Value, traced: &Decision, around: &Surroundings) -> Result<(), TestCaseError> {
    let untraced = around.decide_with(pod, Trace::off());
    prop_assert!(untraced.trace.facts().is_empty());
    let mut expected = traced.clone();
    expected.trace = Trace::off();
    for opinion in &mut expected.policies {
        (opinion.warning, opinion.audit) = (None, None);
    }
    prop_assert_eq!(untraced, expected);
    Ok(())
}

/// Deciding about the patched pod changes nothing more.
fn check_again(patched: &Value, first: &Decision, around: &Surroundings) -> Result<(), TestCaseError> {
    let second = around.decide(patched);
    prop_assert_eq!(&apply(patched, &second)?, patched, "{:?}", second.patch);
    match &first.outcome {
        Outcome::Inject { .. } => {
            let Outcome::Skip(reasons) = &second.outcome else {
                return Err(TestCaseError::fail(format!("{:?}", second.outcome)));
            };
            prop_assert!(reasons.contains(SkipReason::SidecarAlreadyExists), "{:?}", reasons);
        }
        outcome @ (Outcome::Skip(_) | Outcome::Deny(_)) => prop_assert_eq!(&second.outcome, outcome),
    }
    Ok(())
}

/// Checks decisions on `pods`, and returns how many of them were injected, left alone and denied.
fn check_decisions(pods: impl Strategy<Value = Value>) -> BTreeMap<&'static str, u32> {
    let counts = RefCell::new(BTreeMap::new());
    let mut runner = TestRunner::new(config());
    let checked = runner.run(&(pods, surroundings()), |(pod, around)| {
        let decision = around.decide(&pod);
        *counts.borrow_mut().entry(decision.word()).or_insert(0) += 1;
        check_decision(&pod, &decision, &around)
    });
    assert!(checked.is_ok(), "{}", checked.unwrap_err());
    counts.into_inner()
}

fn config() -> ProptestConfig {
    let default = ProptestConfig::default();
    ProptestConfig {
        // PROPTEST_CASES asks for more.
        cases: default.cases.max(2000),
        failure_persistence: None,
        ..default
    }
}

#[test]
fn decisions_on_pods_that_people_write() {
    let counts = check_decisions(written());
    println!("pods that people write: {counts:?}");
    assert!(counts["inject"] > 500, "{counts:?}");
}

#[test]
fn decisions_on_pods_of_wrong_types() {
    let counts = check_decisions(mutated());
    println!("pods of wrong types: {counts:?}");
    assert!(counts["inject"] > 200 && counts["deny"] > 200, "{counts:?}");
}

#[test]
fn decisions_on_anything() {
    let counts = check_decisions(json());
    println!("anything: {counts:?}");
    assert!(!counts.contains_key("inject"), "{counts:?}");
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn manifests_of_wrong_types_are_injected_whole_or_not(pod in mutated(), manual in any::<bool>()) {
        let installation = Installation::parse(&["linkerdVersion: v1"], Some("anchors"), "linkerd").unwrap();
        let values = Values::clone(&installation.values);
        let injector = Injector::new(&installation, values, Options { manual, ..Options::default() });
        let mut clean = pod.clone();
        uninject(&mut clean);
        match injector.reinject(&pod) {
            Ok(changed) if manual && changed.outcome == resources::Outcome::Injected => {
                let proxies = container_names(&changed.value).into_iter().filter(|name| name == "linkerd-proxy");
                prop_assert_eq!(proxies.count(), 1);
            }
            Ok(_) => {}
            Err(error) => prop_assert!(error.starts_with("failed to inject ") || error.starts_with("--manual "), "{}", error),
        }
        let mut again = clean.clone();
        prop_assert!(!uninject(&mut again) || again != clean);
        prop_assert_eq!(again, clean);
    }
}
