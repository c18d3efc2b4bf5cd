//! What manifests say of the cluster that their pods are for: Namespaces with their Pod Security labels, and whatever else
//! `explain` takes for the cluster.

use crate::cli::explain::{Known, is_configuration, placed, with_configuration};
use crate::cli::input::Sources;
use crate::cli::objects::Object;
use crate::cli::workload::{check_each, only_namespace};
use crate::cluster::Cluster;
use crate::config::Installation;
use crate::decide::coverage::Plugin;
use crate::decide::{Decision, Setup};
use crate::pod::workload::Kind;
use crate::pod::{manifest, text};
use crate::policy::Release;
use crate::policy::installed::Source;
use anyhow::Result;
use memchr::memmem;
use serde_json::Value;
use std::fmt;

/// What is known of a cluster.
pub(super) struct Surroundings {
    known: Known,
}

impl fmt::Debug for Surroundings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Surroundings").finish_non_exhaustive()
    }
}

impl Surroundings {
    /// Reads `sources` for the first time; nothing where they tell nothing of a cluster.
    pub(super) fn find(sources: &mut Sources, installation: &Installation) -> Result<Option<Self>> {
        sources.make_rereadable()?;
        let mut objects = Vec::new();
        for source in &sources.all {
            source.each_piece(|piece| {
                if !may_be_of_cluster(&piece.text) {
                    return Ok(());
                }
                for document in piece.documents()? {
                    let found = manifest::items(&document.value).into_iter();
                    objects.extend(found.filter(|object| is_of_cluster(object)).map(|object| Object {
                        value: object.into_owned(),
                        place: source.name.clone(),
                    }));
                }
                Ok(())
            })?;
        }
        if objects.is_empty() {
            return Ok(None);
        }
        check_each(&objects)?;
        let server = Release::NEWEST.into();
        let namespace = only_namespace(&objects).unwrap_or("default").to_owned();
        let all: Vec<_> = objects.iter().map(|object| placed(&object.value, &namespace)).collect();
        let setup = with_configuration(Setup::of(installation.clone().with_placeholders())?, &objects)?;
        let known = Known::of_cluster(Cluster::of_manifests(&all, Some(server))?, setup, server, None);
        Ok(Some(Self {
            known: known.in_namespace(&namespace),
        }))
    }

    /// What becomes of the pods of `object`; nothing where it makes none.
    pub(super) fn decide(&self, object: &Value) -> Option<Decision> {
        Some(self.known.explain(object)?.decision)
    }
}

/// Whether a document with this `text` may say something about the cluster: most need not be read twice.
fn may_be_of_cluster(text: &str) -> bool {
    /// What the kinds have in common, or one of them alone.
    const WORDS: [&str; 10] = [
        "AdmissionConfiguration",
        "DaemonSet",
        "LimitRange",
        "Namespace",
        "Node",
        "PodSecurity",
        "ResourceQuota",
        "Role",
        "SecurityContextConstraints",
        // Whatever is written otherwise than it reads.
        "\\",
    ];
    WORDS
        .iter()
        .any(|word| memmem::find(text.as_bytes(), word.as_bytes()).is_some())
}

/// Whether `object` says something about the cluster that decisions depend on.
fn is_of_cluster(object: &Value) -> bool {
    let is_node = text(object, "apiVersion") == Some("v1") && text(object, "kind") == Some("Node");
    let kind = Kind::of(object);
    let is_plugin = || kind == Some(Kind::DaemonSet) && Plugin::read(object).is_some();
    is_node || kind == Some(Kind::Namespace) || Source::of(object).is_some() || is_configuration(object) || is_plugin()
}

#[cfg(test)]
mod tests;
