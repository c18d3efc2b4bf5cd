//! Where the configuration of the Linkerd installation comes from: files, a cluster, or the chart's defaults.

use super::input;
use super::names::is_label;
use crate::config::{ConfigError, Installation};
use anyhow::{Context, Result, anyhow};
use clap::Args;
use std::path::{Path, PathBuf};

mod cluster;
mod trust_anchors;

pub(super) use cluster::{Connection, OVERRIDES};

/// Flags that say where the configuration comes from.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Configuration of the installation")]
pub(super) struct Source {
    /// Values of the installation (YAML), as in the ConfigMap linkerd-config; later files lie over earlier ones
    #[arg(long, value_name = "FILE")]
    values: Vec<PathBuf>,
    /// Use the chart's default values instead of asking the cluster
    #[arg(long)]
    ignore_cluster: bool,
    /// Trust anchors of the installation (PEM), instead of those of the values
    #[arg(long, value_name = "FILE")]
    trust_anchors: Option<PathBuf>,
    #[command(flatten)]
    control_plane: ControlPlane,
    #[command(flatten)]
    cluster: Connection,
}

/// Where Linkerd is.
#[derive(Args, Clone, Debug)]
pub(super) struct ControlPlane {
    /// Namespace of Linkerd's control plane
    #[arg(
        short = 'L',
        long,
        value_name = "NAME",
        env = "LINKERD_NAMESPACE",
        hide_env_values = true,
        default_value = "linkerd",
        value_parser = namespace
    )]
    pub(super) linkerd_namespace: String,
}

impl Source {
    /// Reads the configuration: `--values` where it is given, the defaults with `--ignore-cluster`, else the cluster's.
    pub(super) fn read(&self) -> Result<Installation> {
        let anchors = self.trust_anchors.as_deref().map(trust_anchors).transpose()?;
        let documents = match self.place() {
            Place::Defaults => Vec::new(),
            Place::Cluster => self.cluster.values(&self.control_plane.linkerd_namespace)?,
            Place::Files => documents(&self.values)?,
        };
        let documents: Vec<_> = documents.iter().map(String::as_str).collect();
        let namespace = &self.control_plane.linkerd_namespace;
        let installation = Installation::parse(&documents, anchors.as_deref(), namespace);
        installation.context("linkerd-config")
    }

    /// The same with everything that a proxy needs: the values that the flags leave must have it.
    pub(super) fn read_whole(&self) -> Result<Installation> {
        let mut installation = self.read()?;
        let namespace = &self.control_plane.linkerd_namespace;
        if installation.trust_anchors.trim().is_empty() && self.place() == Place::Cluster {
            // Where somebody else keeps the certificate authority, the values have none.
            if let Some(anchors) = self.cluster.trust_roots(namespace)? {
                installation.set_trust_anchors(&anchors);
            }
        }
        let missing = installation.trust_anchors.trim().is_empty();
        if self.trust_anchors.is_none() && !missing {
            let place = match self.place() {
                Place::Cluster => format!("of namespace {namespace}"),
                Place::Files | Place::Defaults => format!("of {}", names(&self.values)),
            };
            trust_anchors::check(&installation.trust_anchors)
                .with_context(|| format!("identityTrustAnchorsPEM {place}"))?;
        }
        Ok(installation)
    }

    fn place(&self) -> Place {
        match (self.values.as_slice(), self.ignore_cluster) {
            ([], true) => Place::Defaults,
            ([], false) => Place::Cluster,
            (_, _) => Place::Files,
        }
    }
}

/// Where the values come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Defaults,
    Cluster,
    Files,
}

fn names(files: &[PathBuf]) -> String {
    let names: Vec<_> = files.iter().map(|path| path.display().to_string()).collect();
    names.join(", ")
}

/// Reads a file of trust anchors, and checks that they are some.
pub(super) fn trust_anchors(path: &Path) -> Result<String> {
    let anchors = input::text(path)?;
    trust_anchors::check(&anchors).with_context(|| path.display().to_string())?;
    Ok(anchors)
}

/// Reads files of values, each also by itself, so that an error names its file.
pub(super) fn documents(files: &[PathBuf]) -> Result<Vec<String>> {
    let read = |path: &PathBuf| {
        let text = input::text(path)?;
        Installation::parse(&[&text], None, "").with_context(|| path.display().to_string())?;
        Ok(text)
    };
    files.iter().map(read).collect()
}

/// Checks that a proxy can be made from `installation`; says which flag would mend it.
pub(super) fn check(installation: &Installation) -> Result<()> {
    let Err(error) = installation.check() else {
        return Ok(());
    };
    let hint = |what, flag| anyhow!("--manual needs {what}: give {flag}, or --values with the installation's values");
    Err(if error == ConfigError::NoVersion {
        hint("the proxy's version", "--proxy-version")
    } else if error == ConfigError::NoTrustAnchors {
        hint("the installation's trust anchors", "--trust-anchors")
    } else {
        error.into()
    })
}

/// Reads the name of a namespace.
pub(super) fn namespace(text: &str) -> Result<String> {
    is_label(text)
        .then(|| text.to_owned())
        .ok_or_else(|| anyhow!("{text:?} is no name of a namespace: expected up to 63 of a-z, 0-9 and -"))
}
