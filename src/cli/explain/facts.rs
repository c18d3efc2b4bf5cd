//! What is known of the cluster: from the manifests, from flags, and from a live API server where one is named.

use super::{Arguments, Entry, installation};
use crate::cli::input;
use crate::cluster::{Cluster, Namespace};
use crate::decide::coverage::Plugin;
use crate::decide::{self, Coverage, Facts, Inputs, Setup};
use crate::inject::Owner;
use crate::pod::Pod;
use crate::pod::workload::Kind;
use crate::policy::Release;
use crate::policy::pod_security::{self, Configuration, Server};
use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use std::sync::Arc;

mod live;

/// Which nodes have the CNI plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Cni {
    /// All of them.
    All,
    /// None of them.
    None,
    /// These.
    Nodes(Vec<String>),
}

/// Reads `--cni`.
pub(super) fn cni(text: &str) -> Result<Cni> {
    match text {
        "all" => Ok(Cni::All),
        "none" => Ok(Cni::None),
        nodes if nodes.split(',').all(|node| !node.trim().is_empty()) => Ok(Cni::Nodes(
            nodes.split(',').map(|node| node.trim().to_owned()).collect(),
        )),
        _ => bail!("expected all, none or names of nodes, separated by commas"),
    }
}

/// Everything that decisions depend on beside the pod.
pub(super) struct Known {
    cluster: Cluster,
    setup: Setup,
    declared: Option<Coverage>,
    server: Server,
    namespace: String,
    user: Option<String>,
    /// What nobody said and was taken for granted.
    pub(super) assumptions: Vec<String>,
}

impl Known {
    /// Gathers what manifests, flags and, where one is named, the cluster say.
    pub(super) fn find(arguments: &Arguments, objects: &[Value]) -> Result<Self> {
        let mut assumptions = Vec::new();
        let mut objects = objects.to_vec();
        let mut server = arguments.server_version.map(Server::from);
        let mut documents: Vec<String> = arguments
            .values
            .iter()
            .map(|path| input::text(path))
            .collect::<Result<_>>()?;
        if arguments.context.is_some() || arguments.kubeconfig.is_some() {
            let found = live::ask(arguments)?;
            server = server.or(found.server);
            if documents.is_empty() {
                documents.extend(found.values);
            }
            // What the manifests say comes later, and wins.
            objects.splice(0..0, found.objects);
        }
        let declared = declared(arguments.cni.as_ref(), &mut objects);
        let setup = Setup::of(installation(arguments, &documents, &mut assumptions)?)?;
        if server.is_none() {
            assumptions.push(format!("no server is asked: Kubernetes {} is assumed", Release::NEWEST));
        }
        let server = server.unwrap_or_else(|| Release::NEWEST.into());
        Ok(Self {
            setup: with_configuration(setup, &objects)?,
            cluster: Cluster::of_manifests(&objects, Some(server))?,
            declared,
            server,
            namespace: default_namespace(arguments, &objects),
            user: arguments.user.clone(),
            assumptions,
        })
    }

    /// The decision for one object; nothing where it is neither a workload nor a service.
    pub(super) fn explain(&self, object: &Value) -> Option<Entry> {
        let kind = Kind::of(object).filter(|kind| *kind != Kind::Namespace)?;
        let pod = Pod::new(object);
        let name = pod.name().unwrap_or_default().to_owned();
        let own = object.pointer("/metadata/namespace").and_then(Value::as_str);
        let namespace_name = own.unwrap_or(&self.namespace).to_owned();
        let namespace = self.cluster.known_namespace(&namespace_name);
        let mut decision = match kind.template_pointer() {
            None => decide::annotate(
                kind,
                object,
                &self.setup.installation,
                &view(&namespace_name, namespace.as_deref()),
            ),
            Some(pointer) => {
                let template = object.pointer(pointer).unwrap_or(&Value::Null);
                self.decide(kind, template, &name, (&namespace_name, namespace.as_deref()))
            }
        };
        if namespace.is_none() {
            let fact =
                format!("namespace {namespace_name} is not known: it is taken to have no labels and no annotations");
            decision.trace.insert(0, fact);
        }
        let template = kind
            .template_pointer()
            .map(|pointer| object.pointer(pointer).cloned().unwrap_or_default());
        let before = template.unwrap_or_else(|| object.clone());
        Some(Entry {
            workload: format!("{}/{name}", kind.name()),
            namespace: namespace_name,
            decision,
            before,
        })
    }

    fn decide(
        &self,
        kind: Kind,
        template: &Value,
        name: &str,
        (namespace_name, namespace): (&str, Option<&Namespace>),
    ) -> decide::Decision {
        // A webhook is asked after the API server's defaulting; a manifest has not seen it yet.
        let mut template = template.clone();
        pod_security::default(&mut template);
        let template = &template;
        let known = self.cluster.facts(&Pod::new(template));
        let declared = self.setup.installation.values.cni_enabled.then_some(Coverage::Declared);
        let coverage = self.declared.clone().or(declared);
        let coverage = coverage
            .or_else(|| known.coverage.map(Arc::unwrap_or_clone))
            .unwrap_or(Coverage::None);
        let owner = owner(kind, template, name);
        let account = kind
            .controller_account()
            .map(|account| format!("system:serviceaccount:kube-system:{account}"));
        decide::decide(&Inputs {
            pod: template,
            namespace: view(namespace_name, namespace),
            owner: owner.as_ref(),
            requester: self.user.as_deref().or(account.as_deref()).unwrap_or_default(),
            installation: Ok(&self.setup.installation),
            facts: Facts {
                server: self.server,
                pod_security: &self.setup.pod_security,
                coverage: &coverage,
                foreign_plugin: known.foreign_plugin,
                stale: false,
            },
        })
    }
}

fn view<'a>(name: &'a str, namespace: Option<&'a Namespace>) -> decide::Namespace<'a> {
    decide::Namespace {
        name,
        labels: namespace.map(|namespace| &namespace.labels),
        annotations: namespace.map(|namespace| &namespace.annotations),
    }
}

/// What the pods belong to: the workload itself; for a pod, what it says.
fn owner(kind: Kind, template: &Value, name: &str) -> Option<Owner> {
    if kind != Kind::Pod {
        return Some(Owner {
            kind: Some(kind),
            name: name.to_owned(),
        });
    }
    let owner = crate::cluster::Owner::sole(template)?;
    Some(Owner {
        kind: owner.known_kind(),
        name: owner.name,
    })
}

/// What `--cni` says. Names become nodes, where the manifests do not have them, and plugins that are meant for them.
fn declared(cni: Option<&Cni>, objects: &mut Vec<Value>) -> Option<Coverage> {
    match cni? {
        Cni::All => return Some(Coverage::Declared),
        Cni::None => return Some(Coverage::None),
        Cni::Nodes(names) => {
            objects.retain(|object| Plugin::read(object).is_none());
            for name in names {
                let known = |object: &Value| {
                    object.get("kind").and_then(Value::as_str) == Some("Node")
                        && object.pointer("/metadata/name").and_then(Value::as_str) == Some(name)
                };
                if !objects.iter().any(known) {
                    objects.push(json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}));
                }
                objects.push(json!({
                    "apiVersion": "apps/v1",
                    "kind": "DaemonSet",
                    "metadata": {"name": format!("on-{name}"), "labels": {"app.kubernetes.io/name": "outrigger-cni"}},
                    "spec": {"template": {"spec": {"nodeName": name}}},
                }));
            }
        }
    }
    None
}

/// A file of the API server's admission configuration among the manifests wins over the values.
fn with_configuration(mut setup: Setup, objects: &[Value]) -> Result<Setup> {
    let kind = |object: &Value| {
        ["AdmissionConfiguration", "PodSecurityConfiguration"]
            .into_iter()
            .find(|kind| object.get("kind").and_then(Value::as_str) == Some(kind))
    };
    for (kind, object) in objects.iter().filter_map(|object| Some((kind(object)?, object))) {
        setup.pod_security = Configuration::read(object).with_context(|| kind.to_owned())?;
    }
    Ok(setup)
}

/// Where objects go that name no namespace.
fn default_namespace(arguments: &Arguments, objects: &[Value]) -> String {
    let mut names = objects
        .iter()
        .filter(|object| Kind::of(object) == Some(Kind::Namespace))
        .filter_map(|object| object.pointer("/metadata/name").and_then(Value::as_str));
    let only = names.next().filter(|_| names.next().is_none());
    arguments.namespace.as_deref().or(only).unwrap_or("default").to_owned()
}
