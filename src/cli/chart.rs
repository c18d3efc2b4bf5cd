//! The Helm charts of `charts/`, embedded, and rendered as Helm renders them.
//!
//! What is installed by Helm and what is installed by `kubectl` come from the same files: [`Chart::render`] is for a chart
//! and its values what `helm template` is, byte for byte. Of Helm there is as much as our charts use: the values and their
//! schema ([`values`], [`schema`]), the template language with a handful of functions ([`functions`]), and the order in
//! which objects are created ([`manifests`]).

mod functions;
mod manifests;
mod schema;
mod template;
pub(super) mod values;

pub(super) use manifests::Manifest;

use values::Nulls;

use crate::pod::manifest;
use crate::policy::Release;
use anyhow::{Context as _, Result, anyhow, ensure};
use include_dir::{Dir, include_dir};
use serde_json::{Value, json};

/// A chart.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Chart {
    name: &'static str,
    folder: &'static Dir<'static>,
}

/// The webhook, and the probe.
pub(super) const WEBHOOK: Chart = Chart {
    name: "outrigger",
    folder: &include_dir!("$CARGO_MANIFEST_DIR/charts/outrigger"),
};

/// The agent of the node, which installs the CNI plugin.
pub(super) const CNI: Chart = Chart {
    name: "outrigger-cni",
    folder: &include_dir!("$CARGO_MANIFEST_DIR/charts/outrigger-cni"),
};

/// The oldest server that the charts are for: `kubeVersion` of `Chart.yaml`.
pub(super) const OLDEST: Release = Release(23);

/// What a chart is rendered for.
#[derive(Clone, Debug)]
pub(super) struct Target {
    /// The namespace to install into.
    pub(super) namespace: String,
    /// The release of the API server.
    pub(super) release: Release,
    /// What that says of the namespace; nothing where nobody asked it.
    pub(super) namespace_object: Option<Value>,
}

impl Chart {
    /// A file of values of the chart: `values.yaml` or one that lies over it.
    pub(super) fn values(self, file: &str) -> Result<Value> {
        let text = self.text(file)?;
        values::read(text).with_context(|| format!("{file} of the chart {}", self.name))
    }

    /// Every object with these values, which lie over those of the chart, in the order in which they are created.
    ///
    /// # Errors
    /// Where a value is none that the schema allows (all of them are named), the server is older than the chart is made
    /// for, or a template refuses what it is given.
    pub(super) fn render(self, over: Value, target: &Target) -> Result<Vec<Manifest>> {
        ensure!(
            target.release >= OLDEST,
            "Kubernetes {} is too old: the chart {} needs {OLDEST} or newer",
            target.release,
            self.name
        );
        let mut values = self.values("values.yaml")?;
        values::lay(&mut values, over, Nulls::Remove);
        let schema = serde_json::from_str(self.text("values.schema.json")?)?;
        let problems = schema::problems(&schema, &values);
        ensure!(
            problems.is_empty(),
            "values of the chart {}:\n  {}",
            self.name,
            problems.join("\n  ")
        );
        let files = template::render(&self.templates(), &self.context(&values, target)?, target)?;
        manifests::sorted(self.name, &files)
    }

    fn text(self, path: &str) -> Result<&'static str> {
        let file = self.folder.get_file(path).and_then(include_dir::File::contents_utf8);
        file.ok_or_else(|| anyhow!("the chart {} has no file {path}", self.name))
    }

    /// Path and text of every file that is not hidden, in ascending order of path.
    fn files(self) -> Vec<(&'static str, &'static str)> {
        fn visit(folder: &'static Dir<'static>, found: &mut Vec<(&'static str, &'static str)>) {
            found.extend(
                folder
                    .files()
                    .filter_map(|file| Some((file.path().to_str()?, file.contents_utf8()?))),
            );
            for folder in folder.dirs() {
                visit(folder, found);
            }
        }
        let mut found = Vec::new();
        visit(self.folder, &mut found);
        found.sort_unstable();
        found
    }

    /// The templates of manifests, and what they share; notes are for people who have Helm.
    fn templates(self) -> Vec<(&'static str, &'static str)> {
        let mut files = self.files();
        files.retain(|(path, _)| path.starts_with("templates/") && !path.ends_with("NOTES.txt"));
        files
    }

    /// What templates see as `.`, as far as ours look.
    fn context(self, values: &Value, target: &Target) -> Result<Value> {
        let description: Value = self.values("Chart.yaml")?;
        let mut others = self.files();
        others.retain(|(path, _)| !path.starts_with("templates/"));
        let others: serde_json::Map<_, _> = others
            .into_iter()
            .map(|(path, text)| (path.to_owned(), text.into()))
            .collect();
        Ok(json!({
            "Values": values,
            "Release": {"Name": self.name, "Namespace": target.namespace},
            "Chart": {"AppVersion": description.get("appVersion")},
            "Capabilities": {
                "KubeVersion": {"Minor": target.release.0.to_string()},
                // As `helm template`: every group that some server had.
                "APIVersions": ["policy/v1beta1"],
            },
            "Files": others,
        }))
    }
}

impl Target {
    /// What `lookup` answers: the namespace, where it is known.
    fn look_up(&self, kind: &str, name: &str) -> Option<&Value> {
        let known = kind == "Namespace" && name == self.namespace;
        self.namespace_object.as_ref().filter(|_| known)
    }
}

/// The documents of a file of values or of a description of a chart.
fn only_document(text: &str) -> Result<Value> {
    let mut documents = manifest::read(text)?
        .into_iter()
        .map(|document| document.value)
        .filter(|value| !value.is_null());
    let first = documents.next().unwrap_or_else(|| json!({}));
    ensure!(documents.next().is_none(), "expected one document, found several");
    Ok(first)
}

#[cfg(test)]
mod tests;
