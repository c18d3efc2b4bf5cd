//! `outrigger explain`: what will become of the pods of manifests, and why, with or without a cluster.
//!
//! Nothing is written anywhere. The patch of an entry is for the pod, or for the template that pods are made from, not for
//! the workload around it.

use super::input::{self, Folder};
use super::objects::{self, Object};
use super::{Failure, Verdict};
use crate::pod::manifest;
use crate::pod::structure;
use crate::pod::workload::Kind;
use crate::policy::Release;
use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};
use std::path::PathBuf;

mod entry;
mod facts;
mod text;

use entry::Entry;
use facts::{Cni, Known};
use text::Detail;

/// Arguments of `explain`.
#[derive(Args, Clone, Debug)]
pub(super) struct Arguments {
    /// Manifests: a file, a folder (every .yaml, .yml and .json file below it), or - for standard input; may be repeated
    #[arg(short, long = "filename", value_name = "FILE", required = true)]
    filename: Vec<PathBuf>,
    /// text for people, json for machines
    #[arg(short, long, value_enum, default_value = "text", value_name = "FORMAT")]
    output: Format,
    /// In text, every fact that was looked at, in order; in JSON they always are
    #[arg(long)]
    trace: bool,
    /// In text, how each pod (or the template that pods are made from) is changed
    #[arg(long)]
    diff: bool,
    #[command(flatten)]
    assumptions: Assumptions,
    #[command(flatten)]
    cluster: Cluster,
}

/// What holds whatever manifests and cluster say.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "What to assume")]
struct Assumptions {
    /// Values of the installation (YAML), as in the ConfigMap linkerd-config; later files lie over earlier ones
    #[arg(long, value_name = "FILE")]
    values: Vec<PathBuf>,
    /// Trust anchors of the installation (PEM), instead of those of the values
    #[arg(long, value_name = "FILE")]
    trust_anchors: Option<PathBuf>,
    #[arg(
        long,
        value_name = "all|none|NODE,…",
        value_parser = facts::cni,
        help = "Nodes that have the CNI plugin: all, none, or their names \
                [default: those that its DaemonSet is meant for]"
    )]
    cni: Option<Cni>,
    /// Release of the API server, 1.NN [default: the server's, or the newest known]
    #[arg(long, value_name = "RELEASE")]
    server_version: Option<Release>,
    /// Namespace of objects that name none [default: the only Namespace of the manifests, the context's, or default]
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
    /// A group of that user, beside system:authenticated; may be repeated. Pod Security exempts no groups
    #[arg(long = "as-group", value_name = "GROUP")]
    groups: Vec<String>,
}

/// Which cluster is asked.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Cluster to ask for what the manifests do not say; none by default")]
struct Cluster {
    /// Context of the kubeconfig [default with --kubeconfig: its current one]
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// The kubeconfig, instead of $KUBECONFIG or ~/.kube/config
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
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
    let objects = objects::read(&input::read(&arguments.filename, Folder::Manifests)?)?;
    let names = || arguments.filename.iter().map(|file| file.display().to_string());
    ensure!(
        !objects.is_empty(),
        "no objects in {}",
        names().collect::<Vec<_>>().join(", ")
    );
    check(&objects)?;
    let known = Known::find(arguments, &objects)?;
    for assumption in &known.assumptions {
        super::note(&format!("{assumption}\n"));
    }
    let entries: Vec<_> = objects
        .iter()
        .filter_map(|object| known.explain(&object.value))
        .collect();
    if entries.is_empty() {
        super::note("there is nothing that makes pods, and no Service\n");
    }
    match arguments.output {
        Format::Json => {
            let list = serde_json::to_value(&entries).context("entries")?;
            super::print(&manifest::to_json(&list))?;
        }
        Format::Text => {
            let detail = Detail {
                trace: arguments.trace,
                diff: arguments.diff,
            };
            super::print(&text::render(&entries, detail, super::paint::stdout_paint())?)?;
        }
    }
    Ok(match entries.iter().any(|entry| entry.decision.would_be_refused()) {
        true => Verdict::No,
        false => Verdict::Yes,
    })
}

/// Checks that every workload is one that an API server would take in, and says so of every one that is not.
fn check(objects: &[Object]) -> Result<()> {
    let mut faults = Vec::new();
    for object in objects {
        let text = |key: &str| object.value.get(key).is_some_and(serde_json::Value::is_string);
        if !(text("kind") && text("apiVersion")) {
            super::note(&format!("{}: no kind and apiVersion: passed over\n", object.place));
        }
        let Some(kind) = Kind::of(&object.value) else { continue };
        if let Err(fault) = structure::of_workload(kind, &object.value) {
            faults.push(format!("Error: {}: {fault}\n", object.title()));
        }
    }
    match faults.is_empty() {
        true => Ok(()),
        false => Err(Failure(faults.concat()).into()),
    }
}
