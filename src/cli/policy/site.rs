//! The workloads of manifests and the namespaces that they are in, and what becomes of their pods.

use crate::cli::installation::{self, ControlPlane};
use crate::cli::manifests::Manifests;
use crate::cli::objects::Object;
use crate::cli::{note, workload};
use crate::cluster::{self, Cluster};
use crate::config::Installation;
use crate::config::annotation::{INJECT, inject_mode};
use crate::decide::{self, Coverage, Decision, Facts, Inputs, Round, Setup, Trace};
use crate::inject::Owner;
use crate::pod::workload::Kind;
use crate::pod::{DEFAULT_ACCOUNT, Pod};
use crate::policy::pod_security::{self, Server};
use crate::policy::probe::Word;
use crate::policy::{Installed, Release, Requester, Verdict};
use anyhow::{Context, Result, anyhow, ensure};
use clap::{ArgGroup, Args, ValueEnum};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

/// Arguments of `policy labels`, `policy psp` and `policy scc`.
#[derive(Args, Clone, Debug)]
#[command(group(ArgGroup::new("input").required(true).args(["filename", "kustomize"])))]
pub(in crate::cli) struct Arguments {
    #[command(flatten)]
    manifests: Manifests,
    /// yaml, with the reasons as comments, or json
    #[arg(short, long, value_enum, default_value = "yaml", value_name = "FORMAT")]
    pub(super) output: Format,
    /// Values of the installation (YAML), as in the ConfigMap linkerd-config; later files lie over earlier ones
    #[arg(long, value_name = "FILE")]
    values: Vec<PathBuf>,
    /// Which nodes have the CNI plugin: all or none [default: those that its DaemonSet in the manifests is meant for]
    #[arg(long, value_enum, value_name = "NODES", hide_possible_values = true)]
    cni: Option<Cni>,
    /// Release of the API server, 1.NN [default: for psp 1.24, the last that has it, else the newest known]
    #[arg(long, value_name = "RELEASE")]
    server_version: Option<Release>,
    /// Namespace of objects that name none [default: the only Namespace of the manifests, or default]
    #[arg(short, long, value_name = "NAME", value_parser = installation::namespace)]
    namespace: Option<String>,
    #[command(flatten)]
    pub(super) control_plane: ControlPlane,
}

/// How objects are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// Documents, with the reasons as comments.
    Yaml,
    /// One `List`.
    Json,
}

/// Which nodes have the CNI plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Cni {
    /// All of them.
    All,
    /// None of them.
    None,
}

/// Everything that decisions depend on, and the pods to decide about.
pub(super) struct Site {
    cluster: Cluster,
    setup: Setup,
    declared: Option<Coverage>,
    pub(super) server: Server,
    /// By name.
    pub(super) spaces: Vec<Space>,
}

/// A namespace with workloads.
pub(super) struct Space {
    pub(super) name: String,
    /// The Namespace, where the manifests have it.
    pub(super) object: Option<Value>,
    pub(super) labels: Map<String, Value>,
    /// What it says, and that its pods are injected where neither it nor they say anything of that.
    pub(super) annotations: Map<String, Value>,
    pub(super) workloads: Vec<Workload>,
}

/// A workload.
pub(super) struct Workload {
    /// `Kind/name`
    pub(super) title: String,
    /// The pod, or the template that pods are made from, after the API's defaulting.
    pub(super) pod: Value,
    /// Who creates the pods; empty for a pod, which its author does.
    pub(super) requester: Requester,
    owner: Option<Owner>,
}

impl Site {
    /// Reads what the arguments name; `release` is assumed where they do not say which.
    pub(super) fn read(arguments: &Arguments, release: Release) -> Result<Self> {
        let objects = arguments.manifests.objects()?;
        let documents = installation::documents(&arguments.values)?;
        if documents.is_empty() {
            note("no values are given: the defaults of Linkerd's chart are assumed\n");
        }
        if arguments.server_version.is_none() {
            note(&format!("Kubernetes {release} is assumed\n"));
        }
        let documents: Vec<_> = documents.iter().map(String::as_str).collect();
        let installation = Installation::parse(&documents, None, &arguments.control_plane.linkerd_namespace);
        let setup = Setup::of(installation.context("linkerd-config")?.with_placeholders())?;
        let server = arguments.server_version.unwrap_or(release).into();
        let values: Vec<_> = objects.iter().map(|object| object.value.clone()).collect();
        workload::check_each(&objects)?;
        let mut site = Self {
            cluster: Cluster::of_manifests(&values, Some(server))?,
            declared: arguments.cni.map(|cni| match cni {
                Cni::All => Coverage::Declared,
                Cni::None => Coverage::None,
            }),
            setup,
            server,
            spaces: Vec::new(),
        };
        site.cluster.set_pod_security(&site.setup.pod_security);
        site.spaces = site.find_spaces(&objects, arguments.namespace.as_deref());
        ensure!(
            !site.spaces.is_empty(),
            "no pods, and nothing that makes pods, in {}",
            arguments.manifests.names()
        );
        Ok(site)
    }

    fn find_spaces(&self, objects: &[Object], given: Option<&str>) -> Vec<Space> {
        let declared = workload::namespaces(objects);
        let default = given.or_else(|| workload::only_namespace(objects)).unwrap_or("default");
        let mut workloads: BTreeMap<&str, Vec<Workload>> = BTreeMap::new();
        for object in objects {
            let namespace = workload::namespace_of(&object.value, default);
            if let Some(workload) = Workload::read(&object.value, namespace, &self.cluster) {
                workloads.entry(namespace).or_default().push(workload);
            }
        }
        let spaces = workloads.into_iter().map(|(name, workloads)| {
            let known = self.cluster.known_namespace(name);
            let object = declared.get(name).map(|object| (*object).clone());
            Space::new(name.to_owned(), object, known.as_deref(), workloads)
        });
        spaces.collect()
    }

    /// What becomes of the pods of `workload`, were the labels of its namespace `labels`.
    pub(super) fn decide(&self, space: &Space, labels: &Map<String, Value>, workload: &Workload) -> Decision {
        let known = self.cluster.facts(&Pod::new(&workload.pod));
        let declared = self.declared.clone().map(Arc::new);
        let coverage = declared.unwrap_or_else(|| known.coverage_with(&self.setup));
        let inputs = Inputs {
            pod: &workload.pod,
            namespace: decide::Namespace {
                name: &space.name,
                labels: Some(labels),
                annotations: Some(&space.annotations),
            },
            owner: workload.owner.as_ref(),
            requester: &workload.requester,
            installation: &self.setup.installation,
            facts: Facts {
                server: self.server,
                pod_security: &self.setup.pod_security,
                coverage: &coverage,
                old_kubelets: known.old_kubelets.as_deref(),
                foreign_plugin: known.foreign_plugin,
                stale: false,
                // Policies of today must not shape those that are being made.
                policies: &Installed::compile([], self.server.release),
                probe: &Word::Absent,
                round: Round::First,
            },
        };
        decide::decide(&inputs, Trace::off())
    }
}

impl Space {
    fn new(name: String, object: Option<Value>, known: Option<&cluster::Namespace>, workloads: Vec<Workload>) -> Self {
        let labels = known.map(|known| known.labels.clone()).unwrap_or_default();
        let mut annotations = known.map(|known| known.annotations.clone()).unwrap_or_default();
        if inject_mode(Some(&annotations), Some(&labels)).is_none() {
            note(&format!("namespace {name}: {INJECT}: enabled is assumed\n"));
            annotations.insert(INJECT.to_owned(), "enabled".into());
        }
        Self {
            name,
            object,
            labels,
            annotations,
            workloads,
        }
    }
}

impl Workload {
    fn read(object: &Value, namespace: &str, cluster: &Cluster) -> Option<Self> {
        let found = workload::Workload::read(object, namespace, cluster)?;
        let mut pod = found.template.clone();
        pod_security::default(&mut pod);
        Some(Self {
            title: workload::title(Kind::of(object)?, object),
            pod,
            requester: Requester::named(found.creator.unwrap_or_default()),
            owner: found.owner,
        })
    }

    /// The pod after the decision's patch, as a policy sees it.
    pub(super) fn after(&self, decision: &Decision) -> Result<Value> {
        let patched = decision.patch.applied_to(&self.pod);
        let mut pod = patched.map_err(|error| anyhow!("patch of {}: {error}", self.title))?;
        pod_security::default(&mut pod);
        Ok(pod)
    }
}

/// Why a policy, or the webhook, refuses the pod that `decision` makes.
pub(super) fn refusal(decision: &Decision) -> Option<String> {
    let said = decision
        .policies
        .iter()
        .rev()
        .find_map(|opinion| match &opinion.verdict {
            Verdict::Denied { message } => Some(message.clone()),
            Verdict::Allowed | Verdict::Unknown { .. } => None,
        });
    decision
        .would_be_refused()
        .then(|| said.unwrap_or_else(|| decision.message()))
}

/// The names of the service accounts that `pods` run as; the API server fills in `default`.
pub(super) fn accounts<'a>(pods: impl IntoIterator<Item = &'a Value>) -> BTreeSet<&'a str> {
    pods.into_iter()
        .map(|pod| Pod::new(pod).service_account().unwrap_or(DEFAULT_ACCOUNT))
        .collect()
}
