//! `policy labels`: the strictest level of Pod Security that admits every pod of a namespace, injected.

use super::paper::{Sheet, print_all};
use super::site::{Arguments, Site, Space, Workload, refusal};
use crate::cli::{Verdict, note};
use crate::decide::{Decision, Outcome};
use crate::policy::Release;
use crate::policy::needs::{Note, Tailored};
use crate::policy::pod_security::Level;
use anyhow::Result;
use serde_json::{Map, Value, json};

const PREFIX: &str = "pod-security.kubernetes.io/";

/// From the strictest on.
const LEVELS: [Level; 3] = [Level::Restricted, Level::Baseline, Level::Privileged];

/// What the API server writes into an object, which is none of a manifest's.
const WRITTEN_BY_SERVER: [&str; 6] = [
    "creationTimestamp",
    "generation",
    "managedFields",
    "resourceVersion",
    "selfLink",
    "uid",
];

/// kubectl's copy of the whole object.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Why a workload forbids a level.
struct Obstacle<'s> {
    level: Level,
    title: &'s str,
    why: String,
}

/// Finds and prints the labels.
pub(super) fn run(arguments: &Arguments) -> Result<Verdict> {
    let site = Site::read(arguments, Release::NEWEST)?;
    let (mut verdict, mut sheets) = (Verdict::Yes, Vec::new());
    for space in &site.spaces {
        let privileged = labels_of(&site, space, Level::Privileged);
        let (mut possible, mut obstacles) = (Vec::new(), Vec::new());
        for workload in &space.workloads {
            let decision = site.decide(space, &privileged, workload);
            match objection(&decision, false) {
                // No level helps, so that none is milder for its sake.
                Some(why) => {
                    note(&format!(
                        "{}: {} cannot be admitted: {why}\n",
                        space.name, workload.title
                    ));
                    verdict = Verdict::No;
                }
                None => possible.push((workload, matches!(decision.outcome, Outcome::Inject { .. }))),
            }
        }
        let level = LEVELS.into_iter().find(|level| {
            let found = obstacles_to(&site, space, *level, &possible);
            let none = found.is_empty();
            obstacles.extend(found);
            none
        });
        sheets.push(sheet(&site, space, level.unwrap_or(Level::Privileged), &obstacles));
    }
    print_all(&sheets, arguments.output)?;
    Ok(verdict)
}

/// The workloads that `level` keeps out, or out of the mesh.
fn obstacles_to<'s>(
    site: &Site,
    space: &'s Space,
    level: Level,
    workloads: &[(&'s Workload, bool)],
) -> Vec<Obstacle<'s>> {
    let labels = labels_of(site, space, level);
    let found = workloads.iter().filter_map(|(workload, meshed)| {
        let why = objection(&site.decide(space, &labels, workload), *meshed)?;
        let title = workload.title.as_str();
        Some(Obstacle { level, title, why })
    });
    found.collect()
}

/// What keeps the pod out, or out of the mesh where it is to be `meshed`.
fn objection(decision: &Decision, meshed: bool) -> Option<String> {
    let left_out = meshed && !matches!(decision.outcome, Outcome::Inject { .. });
    refusal(decision).or_else(|| left_out.then(|| format!("not injected: {}", decision.message())))
}

/// The namespace's labels, with those of Pod Security at `level`.
fn labels_of(site: &Site, space: &Space, level: Level) -> Map<String, Value> {
    let mut labels = space.labels.clone();
    labels.retain(|key, _| !key.starts_with(PREFIX));
    labels.extend(entries(site, level));
    labels
}

/// What is enforced is pinned to the release it was found for; warnings and audits tell what is to come, too.
fn entries(site: &Site, level: Level) -> impl Iterator<Item = (String, Value)> {
    let entries = [
        ("audit", Level::Restricted.to_string()),
        ("audit-version", "latest".to_owned()),
        ("enforce", level.to_string()),
        ("enforce-version", format!("v{}", site.server.release)),
        ("warn", Level::Restricted.to_string()),
        ("warn-version", "latest".to_owned()),
    ];
    entries
        .into_iter()
        .map(|(name, value)| (format!("{PREFIX}{name}"), value.into()))
}

/// The namespace with its labels, and what forbids stricter ones.
fn sheet(site: &Site, space: &Space, level: Level, obstacles: &[Obstacle<'_>]) -> Sheet {
    let known = space.object.clone().map(own_part);
    let head = match &known {
        Some(_) => Vec::new(),
        None => vec![
            "Only the labels: kubectl apply --server-side --field-manager=outrigger leaves the rest alone".to_owned(),
        ],
    };
    let mut object =
        known.unwrap_or_else(|| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": space.name}}));
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        let labels = metadata.entry("labels").or_insert(Value::Null);
        let mut own = labels.as_object().cloned().unwrap_or_default();
        own.extend(entries(site, level));
        *labels = own.into();
    }
    let path = ["metadata".to_owned(), "labels".to_owned(), format!("{PREFIX}enforce")];
    let notes = obstacles.iter().map(|Obstacle { level, title, why }| Note {
        path: path.to_vec(),
        text: format!("not {level}: {title}: {why}"),
    });
    let content = Tailored {
        notes: notes.collect(),
        object,
    };
    Sheet { head, content }
}

/// A Namespace without what the API server and kubectl wrote into it.
fn own_part(mut object: Value) -> Value {
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
    }
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.retain(|key, _| !WRITTEN_BY_SERVER.contains(&key.as_str()));
        if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
            annotations.remove(LAST_APPLIED);
        }
    }
    object
}
