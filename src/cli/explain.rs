//! `outrigger explain`: what will become of the pods of manifests, with or without a cluster, or of live workloads, and why.
//!
//! Nothing is written anywhere. The patch of an entry is for the pod, or for the template that pods are made from, not for
//! the workload around it.

use super::Verdict;
use super::installation::{self, ControlPlane};
use super::manifests::Manifests;
use super::objects::Object;
use crate::policy::Release;
use anyhow::Result;
use clap::{ArgGroup, Args, ValueEnum};
use std::path::PathBuf;

mod egress;
mod entry;
mod facts;
mod selection;
mod text;
mod workloads;

pub(super) use entry::Entry;
use facts::Cni;
pub(super) use facts::{Known, is_configuration, placed, with_configuration};
use text::{Detail, Text};

/// Arguments of `explain`.
#[derive(Args, Clone, Debug)]
#[command(group(ArgGroup::new("input").required(true).args(["filename", "kustomize", "workloads"])))]
pub(super) struct Arguments {
    #[command(flatten)]
    manifests: Manifests,
    #[command(flatten)]
    live: Live,
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

/// Which live workloads are read.
#[derive(Args, Clone, Debug)]
struct Live {
    /// Live workloads of the current context's cluster, as kubectl names them: TYPE/NAME…, TYPE NAME…, or TYPE[,TYPE…] for
    /// all of these types
    #[arg(value_name = "TYPE/NAME")]
    workloads: Vec<String>,
    /// Of live workloads those with these labels
    #[arg(short = 'l', long, value_name = "LABELS", requires = "workloads", conflicts_with_all = ["filename", "kustomize"])]
    selector: Option<String>,
    /// Live workloads of all namespaces
    #[arg(short = 'A', long, requires = "workloads", conflicts_with_all = ["filename", "kustomize"])]
    all_namespaces: bool,
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
    /// Namespace of live workloads, and of objects that name none [default: the only Namespace of the manifests, the context's, or
    /// default]
    #[arg(short, long, value_name = "NAME", value_parser = installation::namespace)]
    namespace: Option<String>,
    #[command(flatten)]
    control_plane: ControlPlane,
    /// Who creates the pods [default: the account of the workload's controller]
    #[arg(long = "as", value_name = "USER")]
    user: Option<String>,
    /// A group of that user, beside system:authenticated; may be repeated. Pod Security exempts no groups
    #[arg(long = "as-group", value_name = "GROUP")]
    groups: Vec<String>,
}

/// Which cluster is asked.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Cluster to ask; for what manifests do not say, none by default")]
struct Cluster {
    /// Context of the kubeconfig [default with --kubeconfig or live workloads: its current one]
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
    /// A list with an entry a workload; its patch is for the pod, or the template of the pods.
    Json,
}

/// How many objects make somebody wait who looks on.
const MANY: usize = 2000;

/// Explains, and says whether every pod can be admitted.
pub(super) fn run(arguments: &Arguments) -> Result<Verdict> {
    let (objects, complete) = match arguments.is_live() {
        true => {
            let found = workloads::read(arguments)?;
            (found.objects, found.complete)
        }
        false => (arguments.manifests.objects()?, true),
    };
    let known = Known::find(arguments, &objects)?;
    for assumption in known.assumptions() {
        super::note(&format!("{assumption}\n"));
    }
    if objects.len() >= MANY {
        super::note_on_terminal(&format!("explaining {} objects…\n", objects.len()));
    }
    let mut refused = false;
    // One at a time, for the patches of a whole cluster may be large.
    let entries = objects
        .iter()
        .filter_map(|object| known.explain(&object.value))
        .inspect(|entry| refused |= entry.decision.would_be_refused());
    let found = match arguments.output {
        Format::Json => print_json(entries)?,
        Format::Text => {
            let detail = Detail {
                trace: arguments.trace,
                diff: arguments.diff,
            };
            let mut text = Text::new(detail, super::paint::stdout_paint());
            let found = entries
                .map(|entry| text.add(&entry))
                .try_fold(0, |sum: usize, added| added.map(|()| sum + 1))?;
            super::print(&text.render())?;
            found
        }
    };
    if found == 0 {
        super::note("there is nothing that makes pods, and no Service\n");
    }
    Ok(match (complete, refused) {
        (false, _) => Verdict::BadInput,
        (true, true) => Verdict::No,
        (true, false) => Verdict::Yes,
    })
}

impl Arguments {
    /// Whether workloads are read from a cluster.
    fn is_live(&self) -> bool {
        !self.live.workloads.is_empty()
    }
}

/// Prints a list on one line, and returns how many entries it has.
fn print_json(mut entries: impl Iterator<Item = Entry>) -> Result<usize> {
    let mut found = 0;
    super::print_with(|output| {
        for entry in entries.by_ref() {
            output.write_all(if found == 0 { b"[" } else { b"," })?;
            serde_json::to_writer(&mut *output, &entry)?;
            found += 1;
        }
        output.write_all(if found == 0 { b"[]\n" } else { b"]\n" })
    })?;
    // Where the reader has gone, the verdict still counts every entry.
    Ok(found + entries.count())
}
