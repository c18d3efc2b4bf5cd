//! Where Linkerd's injector runs: what changes when ours takes its place.

use super::Subject;
use crate::cli::check::finding::Finding;
use crate::cli::check::gather::Values;
use crate::cli::check::rules::admission::Webhook;
use crate::cli::check::rules::takeover::change::{Change, Registrations};
use crate::cli::check::rules::takeover::{self, Backends, Takeover};
use crate::pod::manifest;
use serde_json::Value;
use std::slice;

impl Subject<'_> {
    /// What stands behind registrations.
    pub(super) fn backends(&self) -> Backends<'_> {
        Backends {
            services: &self.facts.services,
            deployments: self.facts.deployments.as_deref().unwrap_or_default(),
        }
    }

    /// What a takeover changes, and for which workloads; nothing where there is nobody to take over from, or where it cannot
    /// be seen whose injectors there are.
    pub(super) fn takeover(&self) -> (Vec<Finding>, Vec<Change>) {
        let backends = self.backends();
        if self.facts.deployments.is_none() {
            return (Vec::new(), Vec::new());
        }
        let mut findings = Vec::from_iter(takeover::injectors(backends.deployments));
        let planned = takeover::planned();
        let planned = Webhook::all(slice::from_ref(&planned));
        let ours = takeover::ours(&self.webhooks, backends);
        let ours = ours.or_else(|| planned.iter().find(|it| it.is_of_injector()));
        let (Some(linkerds), Some(ours)) = (takeover::linkerds(&self.webhooks, backends), ours) else {
            return (findings, Vec::new());
        };
        let registrations = Registrations {
            today: linkerds,
            then: ours,
        };
        let workloads = self.facts.workloads.iter();
        let changes: Vec<_> = workloads
            .filter_map(|workload| self.change(workload, registrations))
            .collect();
        findings.extend(takeover::judge(&Takeover {
            webhooks: &self.webhooks,
            linkerds,
            ours,
            backends,
            namespaces: self.facts.namespaces.as_deref(),
            daemon_sets: self.facts.daemon_sets.as_deref().unwrap_or_default(),
            control_plane: &self.arguments.control_plane.linkerd_namespace,
            values: self.values().as_ref(),
            changes: &changes,
        }));
        (findings, changes)
    }

    fn change(&self, workload: &Value, registrations: Registrations<'_>) -> Option<Change> {
        let judged = self.judge_with(workload, None)?;
        let linkerds = self.known.linkerds(workload)?;
        let labels = self.namespaces().iter().find_map(|namespace| {
            let is_it = namespace.pointer("/metadata/name")? == judged.namespace.as_str();
            is_it.then(|| namespace.pointer("/metadata/labels"))?
        });
        Change::between(&linkerds, &judged, registrations, labels.unwrap_or(&Value::Null))
    }

    /// The values document as it stands; what is wrong with it has a line of its own.
    fn values(&self) -> Option<Value> {
        let Values::Document(text) = &self.facts.values else {
            return None;
        };
        let documents = manifest::read(text).ok()?;
        documents.into_iter().next().map(|document| document.value)
    }
}
