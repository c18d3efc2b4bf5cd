//! Linkerd's golden files: the same inputs, the same manifests and patches.

use crate::{cases, layers, normal_form};
use outrigger::cli::inject::{Injector, Options};
use outrigger::cli::resources::{Change, change_document};
use outrigger::cli::uninject::uninjected;
use outrigger::config::{Layers, NamespaceLayer, Settings};
use outrigger::inject::patch::Patch;
use outrigger::inject::{Metadata, Owner, Redirection, Shape, opaque_ports};
use outrigger::pod::workload::Kind;
use outrigger::pod::{Pod, manifest};
use serde_json::{Map, Value, json};
use std::fs;
use std::path::{Path, PathBuf};

/// Cases whose answer differs on purpose, with the reason; `docs/compatibility.md` has more on each.
const PINNED: [(&str, &str); 0] = [];

/// Documents, or nothing where the input is refused.
type Answer = Option<Vec<Value>>;

pub(crate) struct Golden<'a> {
    pub(crate) case: &'a Value,
    pub(crate) folder: &'a Path,
}

#[test]
fn golden_files_are_reproduced() {
    let Some(folder) = cases() else { return };
    let goldens: Vec<Value> = serde_json::from_str(&fs::read_to_string(folder.join("goldens.json")).unwrap()).unwrap();
    let (mut equal, mut pinned, mut wrong) = (0, 0, Vec::new());
    for case in &goldens {
        let golden = Golden { case, folder: &folder };
        let name = golden.text("test").to_owned();
        let difference = golden.difference();
        match (difference, PINNED.iter().any(|(pinned, _)| *pinned == name)) {
            (None, false) => equal += 1,
            (Some(_), true) => pinned += 1,
            (None, true) => wrong.push(format!("{name}: pinned, but equal")),
            (Some(difference), false) => wrong.push(format!("{name}: {difference}")),
        }
    }
    println!(
        "goldens: {} cases, {equal} equal, {pinned} pinned, {} wrong",
        goldens.len(),
        wrong.len()
    );
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

impl Golden<'_> {
    pub(crate) fn text(&self, key: &str) -> &str {
        self.case[key].as_str().unwrap_or_default()
    }

    fn flag(&self, key: &str) -> bool {
        self.case[key].as_bool().unwrap_or_default()
    }

    /// The first difference from what Linkerd answered.
    fn difference(&self) -> Option<String> {
        let answers = match self.text("mode") {
            "cli-uninject" => (self.manifests(uninjected), self.golden_manifests()),
            "cli-inject-only" => {
                let injector = self.injector();
                (
                    self.manifests(|object| injector.inject(object)),
                    self.golden_manifests(),
                )
            }
            "cli-uninject-then-inject" => {
                let injector = self.injector();
                (
                    self.manifests(|object| injector.reinject(object)),
                    self.golden_manifests(),
                )
            }
            "webhook-pod-patch" => self.patched(&self.pod_patch()),
            "webhook-opaque-ports-patch" => self.patched(&self.opaque_ports_patch()),
            mode => panic!("unknown mode {mode}"),
        };
        let normal = |answer: Answer| {
            let documents = answer?
                .iter()
                .map(normal_form::of)
                .filter(|document| !document.is_null())
                .collect();
            Some(Value::Array(documents))
        };
        match (normal(answers.0), normal(answers.1)) {
            (Some(ours), Some(theirs)) => normal_form::difference(&ours, &theirs),
            (None, None) => None,
            (ours, _) => Some(format!(
                "accepted by {} alone",
                if ours.is_some() { "us" } else { "Linkerd" }
            )),
        }
    }

    /// The values document of the case, with the layers named by `keys`.
    fn values(&self, keys: &[&str]) -> Value {
        let mut document = layers::defaults();
        for key in keys {
            let mut layer = self.case[*key].as_object().cloned().unwrap_or_default();
            for value in layer.values_mut() {
                if let Some(file) = value.as_str().and_then(|text| text.strip_prefix("@file:")) {
                    *value = fs::read_to_string(self.folder.join(file)).unwrap().into();
                }
            }
            layers::replace(&mut document, &layer);
        }
        document
    }

    pub(crate) fn injector(&self) -> Injector {
        let changed = layers::installation(self.values(&["base", "overrides"]), None);
        let base: &[_] = match self.flag("overrideAnnotationsFromDiff") {
            true => &["base"],
            false => &["base", "overrides"],
        };
        let base = layers::installation(self.values(base), None);
        let options = Options {
            manual: self.flag("injectProxy"),
            debug: self.flag("enableDebugSidecar"),
            ..Options::default()
        };
        Injector::new(&base, changed.values.as_ref().clone(), options)
    }

    /// Every document of the input, changed.
    fn manifests(&self, change: impl Fn(&Value) -> Change) -> Answer {
        let mut documents = Vec::new();
        for file in files(&self.folder.join(self.text("input"))) {
            let text = fs::read_to_string(file).unwrap();
            for document in manifest::read(&text).ok()? {
                documents.push(change_document(&document.value, &change, &mut Vec::new()).ok()?);
            }
        }
        Some(documents)
    }

    fn golden_manifests(&self) -> Answer {
        if self.case["exitCode"] == 1 {
            return None;
        }
        Some(self.documents(self.text("golden")))
    }

    fn documents(&self, file: &str) -> Vec<Value> {
        let text = fs::read_to_string(self.folder.join(file)).unwrap();
        let documents = manifest::read(&text).unwrap();
        documents.into_iter().map(|document| document.value).collect()
    }

    /// The input of a webhook case, with annotations as the texts that the API has.
    fn object(&self) -> Value {
        let mut object = self.documents(self.text("input")).remove(0);
        if let Some(annotations) = object
            .pointer_mut("/metadata/annotations")
            .and_then(Value::as_object_mut)
        {
            for value in annotations.values_mut().filter(|value| !value.is_string()) {
                *value = value.to_string().into();
            }
        }
        object
    }

    fn namespace_annotations(&self) -> Map<String, Value> {
        self.case["nsAnnotations"].as_object().cloned().unwrap_or_default()
    }

    fn pod_patch(&self) -> Patch {
        let installation = layers::installation(self.values(&["base", "overrides"]), None);
        let object = self.object();
        let pod = Pod::new(&object);
        let annotations = self.namespace_annotations();
        let layers = Layers {
            namespace: self.flag("inheritNsAnnotations").then_some(NamespaceLayer {
                annotations: Some(&annotations),
                labels: None,
            }),
            pod: &pod,
            workload: None,
        };
        let made = installation.made(Settings::read(&installation, &layers));
        let config = made.config();
        let owner = Owner {
            kind: Some(Kind::Deployment),
            name: "owner-deployment".to_owned(),
        };
        let namespace = object
            .pointer("/metadata/namespace")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let metadata = Metadata::injected(&installation, config, Some(&owner), namespace);
        let shape = Shape::new(&installation, &made, &pod, Redirection::InitContainer, config.debug).unwrap();
        shape.into_patch(&metadata, &object, "")
    }

    fn opaque_ports_patch(&self) -> Patch {
        let installation = layers::installation(self.values(&["base", "overrides"]), None);
        let object = self.object();
        let kind = if object["kind"] == "Service" {
            Kind::Service
        } else {
            Kind::Pod
        };
        let annotations = self.namespace_annotations();
        opaque_ports::patch(kind, &object, Some(&annotations), &installation.opaque_ports)
    }

    /// The input after our patch, and after Linkerd's.
    fn patched(&self, ours: &Patch) -> (Answer, Answer) {
        let theirs = match self.case["golden"].as_str() {
            Some(file) => serde_json::from_str(&fs::read_to_string(self.folder.join(file)).unwrap()).unwrap(),
            None => json!([]),
        };
        let object = self.object();
        let apply = |patch: Value| Some(vec![crate::requests::apply(&object, patch)]);
        (apply(json!(ours)), apply(theirs))
    }
}

/// The file, or every file below the folder in lexical order.
pub(crate) fn files(path: &Path) -> Vec<PathBuf> {
    if path.is_file() {
        return vec![path.to_owned()];
    }
    let mut entries: Vec<_> = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    entries.iter().flat_map(|entry| files(entry)).collect()
}
