//! What is known of the cluster: from the manifests, from flags, and from a live API server where one is named.

use super::egress::Egress;
use super::{Arguments, Entry, Object};
use crate::cli::installation::trust_anchors;
use crate::cli::workload::{self, Workload, namespace_of};
use crate::cluster::{Cluster, Namespace};
use crate::config::Installation;
use crate::decide::linkerd::Linkerds;
use crate::decide::{self, Coverage, Facts, Inputs, Round, Setup, Trace};
use crate::pod::Pod;
use crate::pod::workload::Kind;
use crate::policy::pod_security::{self, Configuration, Server};
use crate::policy::probe::Standing;
use crate::policy::{Release, Requester};
use anyhow::{Context, Result};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::SystemTime;

mod cni;
mod live;
mod policies;

pub(super) use cni::{Cni, cni};
pub(in crate::cli) use policies::placed;

/// Everything that decisions depend on beside the pod.
pub(in crate::cli) struct Known {
    cluster: Cluster,
    setup: Setup,
    declared: Option<Coverage>,
    server: Server,
    namespace: String,
    user: Option<String>,
    groups: Vec<String>,
    /// What nobody said and was taken for granted.
    assumptions: Vec<String>,
    /// Namespaces of workloads that neither manifests nor cluster have.
    unknown_namespaces: BTreeSet<String>,
    /// The egress policies, where there are any.
    egress: Option<Egress>,
}

impl Known {
    /// Gathers what manifests, flags and, where one is named, the cluster say.
    pub(super) fn find(arguments: &Arguments, objects: &[Object]) -> Result<Self> {
        let given = &arguments.assumptions;
        let named = given
            .namespace
            .clone()
            .or_else(|| workload::only_namespace(objects).map(str::to_owned));
        let live = live::ask(arguments, &|default| {
            placed_namespaces(objects, named.as_deref().unwrap_or(default))
        })?;
        let namespace = named.unwrap_or(live.namespace);
        let (mut found, mut assumptions) = (live.objects, live.assumptions);
        // What the manifests say comes later, and wins.
        found.extend(objects.iter().map(|object| placed(&object.value, &namespace)));
        let declared = given
            .cni
            .as_ref()
            .and_then(|cni| cni.declare(&mut found, &mut assumptions));
        let setup = Setup::of(installation(arguments, live.values, &mut assumptions)?)?;
        let server = given.server_version.map(Server::from).or(live.server);
        if server.is_none() {
            assumptions.push(format!(
                "no server is asked: Kubernetes {}, the newest release known, is assumed",
                Release::NEWEST
            ));
        }
        let server = server.unwrap_or_else(|| Release::NEWEST.into());
        if server.release > Release::NEWEST {
            assumptions.push(format!(
                "Kubernetes {} is newer than what is known here: it is taken to judge as {} does",
                server.release,
                Release::NEWEST
            ));
        }
        workload::check_each(objects)?;
        let cluster = Cluster::of_manifests(&found, Some(server))?;
        for (source, why) in live.withheld {
            cluster.withhold(source, &why);
        }
        if given.cni.is_none() {
            for (list, why) in live.unseen {
                cluster.withhold_nodes(list, &why);
            }
        }
        let setup = with_configuration(setup, objects)?;
        // Where a flag says which nodes have the plugin, nobody else is asked.
        if given.cni.is_none() {
            cluster.set_pod_security(&setup.pod_security);
            let disbelieved = cluster.disbelieved_plugins().into_iter();
            assumptions.extend(disbelieved.map(|(name, why)| disbelief(&name, &why)));
        }
        let mut unknown_namespaces = placed_namespaces(objects, &namespace);
        unknown_namespaces.retain(|name| cluster.known_namespace(name).is_none());
        Ok(Self {
            setup,
            cluster,
            declared,
            server,
            namespace,
            user: given.user.clone(),
            groups: given.groups.clone(),
            assumptions,
            unknown_namespaces,
            egress: Egress::read(&found, &given.control_plane.linkerd_namespace),
        })
    }

    /// What is known of `cluster` alone, whose nodes have the CNI plugin as `declared` or, where it says nothing, as they
    /// show.
    pub(in crate::cli) fn of_cluster(
        cluster: Cluster,
        setup: Setup,
        server: Server,
        declared: Option<Coverage>,
    ) -> Self {
        cluster.set_pod_security(&setup.pod_security);
        Self {
            cluster,
            setup,
            declared,
            server,
            namespace: "default".to_owned(),
            user: None,
            groups: Vec::new(),
            assumptions: Vec::new(),
            unknown_namespaces: BTreeSet::new(),
            egress: None,
        }
    }

    /// The same, `namespace` being that of objects that name none.
    pub(in crate::cli) fn in_namespace(mut self, namespace: &str) -> Self {
        namespace.clone_into(&mut self.namespace);
        self
    }

    /// How much a probe tells; nothing where none reports.
    pub(in crate::cli) fn probe_standing(&self) -> Option<Standing> {
        self.cluster.probe_standing(SystemTime::now())
    }

    /// The `DaemonSets` that say that they are the CNI plugin and are not believed, and why not.
    pub(in crate::cli) fn disbelieved_plugins(&self) -> BTreeMap<Arc<str>, String> {
        self.cluster.disbelieved_plugins()
    }

    /// The namespace called `name`, where it is known.
    pub(in crate::cli) fn namespace(&self, name: &str) -> Option<Arc<Namespace>> {
        self.cluster.known_namespace(name)
    }

    /// What nobody said and was taken for granted, a sentence each.
    pub(super) fn assumptions(&self) -> impl Iterator<Item = String> {
        let of_namespaces = self.unknown_namespaces.iter().map(|name| unknown_namespace(name));
        self.assumptions.iter().cloned().chain(of_namespaces)
    }

    /// The decision for one object; nothing where it is neither a workload nor a service.
    pub(in crate::cli) fn explain(&self, object: &Value) -> Option<Entry> {
        self.explain_with(object, self.declared.as_ref())
    }

    /// What Linkerd's own injector makes of the pods of a workload.
    pub(in crate::cli) fn linkerds(&self, object: &Value) -> Option<Linkerds> {
        let name = namespace_of(object, &self.namespace);
        let namespace = self.cluster.known_namespace(name);
        let workload = Workload::read(object, name, &self.cluster)?;
        let namespace = view(name, namespace.as_deref());
        Some(self.with_inputs(&workload, namespace, None, decide::linkerd::linkerds))
    }

    /// The same where the CNI plugin is as `declared` or, where that says nothing, as the nodes show.
    pub(in crate::cli) fn explain_with(&self, object: &Value, declared: Option<&Coverage>) -> Option<Entry> {
        let kind = Kind::of(object).filter(|kind| *kind != Kind::Namespace)?;
        let namespace_name = namespace_of(object, &self.namespace);
        let namespace = self.cluster.known_namespace(namespace_name);
        let namespace = view(namespace_name, namespace.as_deref());
        let workload = Workload::read(object, namespace_name, &self.cluster);
        let unknown = self
            .unknown_namespaces
            .get(namespace_name)
            .map(|name| unknown_namespace(name));
        let trace = Trace::after(self.assumptions.iter().cloned().chain(unknown));
        let before = workload.as_ref().map_or(object, |workload| workload.template).clone();
        let pod = workload.as_ref().map(|workload| Pod::new(workload.template));
        let egress = self.egress.as_ref().zip(pod);
        let egress = egress.and_then(|(egress, pod)| egress.of(namespace_name, &pod));
        let decision = match workload {
            None => decide::annotate(kind, object, &self.setup.installation, &namespace, trace),
            Some(workload) => self.with_inputs(&workload, namespace, declared, |inputs| decide::decide(inputs, trace)),
        };
        Some(Entry {
            workload: workload::title(kind, object),
            namespace: namespace_name.to_owned(),
            decision,
            before,
            egress,
        })
    }

    fn with_inputs<T>(
        &self,
        workload: &Workload<'_>,
        namespace: decide::Namespace<'_>,
        declared: Option<&Coverage>,
        judge: impl FnOnce(&Inputs<'_>) -> T,
    ) -> T {
        // A webhook is asked after the API server's defaulting; a manifest has not seen it yet.
        let mut template = workload.template.clone();
        pod_security::default(&mut template);
        let known = self.cluster.facts(&Pod::new(&template));
        let declared = declared.cloned().map(Arc::new);
        let coverage = declared.unwrap_or_else(|| known.coverage_with(&self.setup));
        let probe = known.findings.word(namespace.name, namespace.labels, SystemTime::now());
        let user = self.user.as_deref().or(workload.creator);
        let inputs = Inputs {
            pod: &template,
            namespace,
            owner: workload.owner.as_ref(),
            requester: &Requester::authenticated(user.unwrap_or_default(), &self.groups),
            installation: &self.setup.installation,
            facts: Facts {
                server: self.server,
                pod_security: &self.setup.pod_security,
                coverage: &coverage,
                old_kubelets: known.old_kubelets.as_deref(),
                foreign_plugin: known.foreign_plugin,
                stale: false,
                policies: &known.policies,
                probe: &probe,
                round: Round::First,
            },
        };
        judge(&inputs)
    }
}

/// Why a DaemonSet that says that it is the CNI plugin is not taken for it.
fn disbelief(daemon_set: &str, why: &str) -> String {
    format!("DaemonSet {daemon_set} is not taken for the CNI plugin: {why}")
}

fn unknown_namespace(name: &str) -> String {
    format!("namespace {name} is not known: it is taken to have no labels and no annotations")
}

fn view<'a>(name: &'a str, namespace: Option<&'a Namespace>) -> decide::Namespace<'a> {
    decide::Namespace {
        name,
        labels: namespace.map(|namespace| &namespace.labels),
        annotations: namespace.map(|namespace| &namespace.annotations),
    }
}

/// The namespaces of workloads and services.
fn placed_namespaces(objects: &[Object], default: &str) -> BTreeSet<String> {
    let placed = objects
        .iter()
        .filter(|object| Kind::of(&object.value).is_some_and(|kind| kind != Kind::Namespace));
    placed
        .map(|object| namespace_of(&object.value, default).to_owned())
        .collect()
}

/// The installation that the arguments name, else the cluster's. Where nothing names its version or its trust anchors,
/// placeholders stand for them: they decide nothing.
fn installation(arguments: &Arguments, live: Vec<String>, assumptions: &mut Vec<String>) -> Result<Installation> {
    let given = &arguments.assumptions;
    let anchors = given.trust_anchors.as_deref().map(trust_anchors).transpose()?;
    let mut documents = crate::cli::installation::documents(&given.values)?;
    if documents.is_empty() {
        documents.extend(live);
    }
    if documents.is_empty() {
        assumptions.push("no values are given: the defaults of Linkerd's chart are assumed".to_owned());
    }
    let documents: Vec<_> = documents.iter().map(String::as_str).collect();
    let found = Installation::parse(&documents, anchors.as_deref(), &given.control_plane.linkerd_namespace);
    Ok(found.context("linkerd-config")?.with_placeholders())
}

/// A file of the API server's admission configuration among the manifests wins over the values.
pub(in crate::cli) fn with_configuration(mut setup: Setup, objects: &[Object]) -> Result<Setup> {
    for object in objects.iter().filter(|object| is_configuration(&object.value)) {
        setup.pod_security = Configuration::read(&object.value).with_context(|| object.place.clone())?;
    }
    Ok(setup)
}

/// Whether `object` is a file of the API server's admission configuration.
pub(in crate::cli) fn is_configuration(object: &Value) -> bool {
    const KINDS: [&str; 2] = ["AdmissionConfiguration", "PodSecurityConfiguration"];
    KINDS.iter().any(|kind| object.get("kind").is_some_and(|it| it == kind))
}
