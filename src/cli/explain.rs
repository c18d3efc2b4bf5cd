//! `outrigger explain`: what will become of the pods of manifests, and why, with or without a cluster.

use super::input;
use super::{Verdict, objects};
use crate::config::Installation;
use crate::pod::manifest;
use crate::policy::Release;
use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use std::path::PathBuf;

mod entry;
mod facts;
mod text;

pub(super) use entry::Entry;
use facts::{Cni, Known};

/// Arguments of `explain`.
#[derive(Args, Clone, Debug)]
pub(super) struct Arguments {
    /// Manifests: a file, a folder (every file below it), or - for standard input; may be repeated
    #[arg(short, long = "filename", value_name = "FILE", required = true)]
    filename: Vec<PathBuf>,
    /// Values of the installation (YAML), as in the ConfigMap linkerd-config; later files lie over earlier ones
    #[arg(long, value_name = "FILE")]
    values: Vec<PathBuf>,
    /// Trust anchors of the installation (PEM), instead of those of the values
    #[arg(long, value_name = "FILE")]
    trust_anchors: Option<PathBuf>,
    /// Nodes that have the CNI plugin: all, none, or their names [default: as the DaemonSets and Nodes of the cluster say]
    #[arg(long, value_name = "all|none|NODE,…", value_parser = facts::cni)]
    cni: Option<Cni>,
    /// Release of the API server, 1.NN [default: the server's, or the newest known]
    #[arg(long, value_name = "RELEASE")]
    server_version: Option<Release>,
    /// Namespace of objects that name none [default: the only Namespace of the manifests, else default]
    #[arg(short, long, value_name = "NAME")]
    namespace: Option<String>,
    /// Namespace of Linkerd's control plane
    #[arg(
        short = 'L',
        long,
        value_name = "NAME",
        env = "LINKERD_NAMESPACE",
        default_value = "linkerd"
    )]
    linkerd_namespace: String,
    /// Who creates the pods [default: the account of the workload's controller]
    #[arg(long = "as", value_name = "USER")]
    user: Option<String>,
    /// Groups of that user; no policy that is judged here asks for them yet
    #[arg(long = "as-group", value_name = "GROUP", requires = "user")]
    groups: Vec<String>,
    /// Ask the cluster of this context of the kubeconfig for what the manifests do not say
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// The kubeconfig, instead of $KUBECONFIG or ~/.kube/config
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Show how each pod is changed
    #[arg(long)]
    diff: bool,
    /// text for people, json for machines
    #[arg(short, long, value_enum, default_value = "text", value_name = "FORMAT")]
    output: Format,
}

/// How the answer is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A table, then each workload with its reasons.
    Text,
    /// A list with an entry a workload.
    Json,
}

/// Explains, and says whether every pod can be admitted.
pub(super) fn run(arguments: &Arguments) -> Result<Verdict> {
    let objects = objects::read(&input::read(&arguments.filename)?)?;
    let known = Known::find(arguments, &objects)?;
    let entries: Vec<_> = objects.iter().filter_map(|object| known.explain(object)).collect();
    let admitted = !entries.iter().any(|entry| entry.decision.would_be_refused());
    match arguments.output {
        Format::Json => {
            let list = serde_json::to_value(&entries).context("entries")?;
            super::print(&manifest::to_json(&list))?;
        }
        Format::Text => {
            for assumption in &known.assumptions {
                super::note(&format!("{assumption}\n"))?;
            }
            super::print(&text::render(&entries, arguments.diff, super::paint::stdout_paint())?)?;
        }
    }
    Ok(if admitted { Verdict::Yes } else { Verdict::No })
}

/// The installation that the arguments name; where nothing names its version or its trust anchors, placeholders stand for
/// them: they decide nothing.
fn installation(arguments: &Arguments, documents: &[String], assumptions: &mut Vec<String>) -> Result<Installation> {
    let anchors = arguments
        .trust_anchors
        .as_ref()
        .map(|path| input::text(path))
        .transpose()?;
    let mut documents: Vec<&str> = documents.iter().map(String::as_str).collect();
    let parse = |documents: &[&str], anchors: Option<&str>| {
        Installation::parse(documents, anchors, &arguments.linkerd_namespace)
    };
    let mut found = parse(&documents, anchors.as_deref())?;
    if documents.is_empty() {
        assumptions.push("no values are given: the defaults of Linkerd's chart are assumed".to_owned());
    }
    if found.values.proxy_version().is_empty() {
        documents.push("linkerdVersion: unknown");
        found = parse(&documents, anchors.as_deref())?;
    }
    if found.trust_anchors.trim().is_empty() {
        found = parse(&documents, Some("unknown"))?;
    }
    Ok(found)
}
