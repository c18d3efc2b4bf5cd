//! What the decision asks of a cluster, as plain data.

use crate::decide::native_sidecars::OldKubelets;
use crate::decide::{self, Coverage, Setup};
use crate::policy::Installed;
use crate::policy::pod_security::Server;
use crate::policy::probe::{Report, Word};
use serde_json::{Map, Value};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// A namespace.
#[derive(Clone, Debug, PartialEq)]
pub struct Namespace {
    /// Its name.
    pub name: String,
    /// Its labels; every value is a string.
    pub labels: Map<String, Value>,
    /// Its annotations but for kubectl's copy of the whole object; every value is a string.
    pub annotations: Map<String, Value>,
}

impl Namespace {
    /// The same for a decision.
    pub fn view(&self) -> decide::Namespace<'_> {
        decide::Namespace {
            name: &self.name,
            labels: Some(&self.labels),
            annotations: Some(&self.annotations),
        }
    }
}

/// The cluster at one moment, as one pod sees it.
#[derive(Clone, Debug)]
pub struct Facts {
    /// The API server; nothing where it did not tell its release.
    pub server: Option<Server>,
    /// Where the CNI plugin is, among the nodes that the pod can land on; nothing where nodes or plugins are unknown.
    pub coverage: Option<Arc<Coverage>>,
    /// Those of these nodes that have no native sidecars.
    pub old_kubelets: Option<Arc<OldKubelets>>,
    /// Whether a plugin on the nodes is Linkerd's.
    pub foreign_plugin: bool,
    /// The admission policies beside Pod Security; each says itself how far it is known.
    pub policies: Arc<Installed>,
    /// What is missing or out of date of namespaces, nodes and plugins, by resource, and why; empty as long as the watches
    /// stand.
    pub troubles: Vec<(&'static str, Arc<str>)>,
    /// What a probe reports.
    pub findings: Findings,
}

/// What a probe reports, as far as anybody listens.
#[derive(Clone, Debug)]
pub struct Findings {
    pub(super) report: Option<Arc<Report>>,
    pub(super) trouble: Option<Arc<str>>,
}

impl Findings {
    /// What it says at `now` of the namespace `name`, which has `labels`.
    pub fn word(&self, name: &str, labels: Option<&Map<String, Value>>, now: SystemTime) -> Word {
        match (&self.report, &self.trouble) {
            (Some(report), _) => report.word(name, labels, since_1970(now)),
            (None, Some(why)) => Word::Unknown {
                why: format!("configmaps: {why}"),
            },
            (None, None) => Word::Absent,
        }
    }
}

/// A clock that is before 1970 stands at it.
pub(super) fn since_1970(now: SystemTime) -> Duration {
    now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

impl Facts {
    /// Where the CNI plugin is: everywhere, where the values of `setup` say so; else where it was seen, or why it was not.
    pub fn coverage_with(&self, setup: &Setup) -> Arc<Coverage> {
        setup.coverage(self.coverage.clone()).unwrap_or_else(|| {
            let troubles: Vec<_> = self
                .troubles
                .iter()
                .map(|(resource, why)| format!("{resource}: {why}"))
                .collect();
            let why = match troubles.is_empty() {
                true => "nothing is known of the nodes yet".to_owned(),
                false => troubles.join("; "),
            };
            Arc::new(Coverage::Unknown { why })
        })
    }
}
