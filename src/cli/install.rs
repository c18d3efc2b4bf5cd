//! `outrigger install`, `install-cni` and `uninstall`: the objects of the charts, for `kubectl`.
//!
//! What is printed is what Helm would install for the same options. Nothing is printed before everything is known to be
//! right, and no cluster is asked unless one is named.

mod uninstall;

pub(super) use uninstall::Arguments as UninstallArguments;
pub(super) use uninstall::run as uninstall;

use super::chart::values::{Nulls, assign, lay, read};
use super::chart::{CNI, Manifest, Target, WEBHOOK};
use super::input;
use super::installation::{Connection, ControlPlane, namespace};
use super::live::{self, resource};
use super::print;
use crate::cluster::server_of;
use crate::config::Installation;
use crate::policy::Release;
use anyhow::{Context as _, Result, ensure};
use clap::Args;
use serde_json::{Value, json};
use std::path::PathBuf;

/// Where the plugin goes when nobody says otherwise.
const CNI_NAMESPACE: &str = "linkerd-cni";

/// Arguments of `install`.
#[derive(Args, Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag")]
pub(super) struct Arguments {
    /// Namespace to install into: that of Linkerd's control plane
    #[arg(short, long, value_name = "NAME", default_value = "linkerd", value_parser = namespace)]
    namespace: String,
    /// Every node has a CNI plugin: no pod gets an init container (cniEnabled: true)
    #[arg(long)]
    no_init_container: bool,
    /// For high availability: three replicas on different nodes, and pods wait for them (values-ha.yaml of the chart)
    #[arg(long)]
    ha: bool,
    /// The CNI plugin too, before the webhook: the chart outrigger-cni, its values below the key cni, image and
    /// imagePullSecrets those of the webhook where it has none of its own
    #[arg(long)]
    cni: bool,
    /// With --cni, namespace to install the plugin into
    #[arg(long, value_name = "NAME", default_value = CNI_NAMESPACE, value_parser = namespace, requires = "cni")]
    cni_namespace: String,
    /// With --cni, the plugin's namespace too, at Pod Security level privileged
    #[arg(long, requires = "cni")]
    create_namespace: bool,
    #[command(flatten)]
    selection: Selection,
    #[command(flatten)]
    options: Options,
}

/// Arguments of `install-cni`.
#[derive(Args, Clone, Debug)]
pub(super) struct CniArguments {
    /// Namespace to install into
    #[arg(short, long, value_name = "NAME", default_value = CNI_NAMESPACE, value_parser = namespace)]
    namespace: String,
    /// The namespace too, at Pod Security level privileged
    #[arg(long)]
    create_namespace: bool,
    #[command(flatten)]
    control_plane: ControlPlane,
    #[command(flatten)]
    selection: Selection,
    #[command(flatten)]
    options: Options,
}

/// What every chart takes.
#[derive(Args, Clone, Debug)]
struct Options {
    /// Values of the chart (YAML), - for standard input; later files lie over earlier ones
    #[arg(short = 'f', long, value_name = "FILE")]
    values: Vec<PathBuf>,
    /// Values that lie over all files, KEY=VALUE[,KEY=VALUE…] as for Helm; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Release of the API server, 1.N [default: the newest known; with --context or --kubeconfig that of the cluster]
    #[arg(long, visible_alias = "kube-version", value_name = "RELEASE")]
    server_version: Option<Release>,
    #[command(flatten)]
    cluster: Connection,
}

/// What of it is printed.
#[derive(Args, Clone, Debug)]
struct Selection {
    /// Print what this template of the chart makes alone, templates/NAME.yaml; may be repeated
    #[arg(short, long, value_name = "TEMPLATE")]
    show_only: Vec<String>,
}

/// Prints what the webhook consists of.
pub(super) fn run(arguments: &Arguments) -> Result<()> {
    let values = arguments.values()?;
    arguments.selection.print(&arguments.manifests(values)?)
}

/// Prints what the CNI plugin's agent consists of.
pub(super) fn run_cni(arguments: &CniArguments) -> Result<()> {
    let namespace = &arguments.namespace;
    let mut values = cni_values(&arguments.control_plane.linkerd_namespace, arguments.create_namespace);
    lay(&mut values, arguments.options.values()?, Nulls::Stay);
    let manifests = CNI.render(values, &arguments.options.target(namespace)?)?;
    arguments.selection.print(&manifests)
}

/// What flags say as values of the chart of the plugin.
fn cni_values(control_plane: &str, create_namespace: bool) -> Value {
    let mut values = json!({"linkerdNamespace": control_plane});
    if create_namespace {
        lay(&mut values, json!({"createNamespace": true}), Nulls::Stay);
    }
    values
}

/// Takes the values below `key` out of `values`: both.
fn below(key: &str, mut values: Value) -> Result<(Value, Value)> {
    let own = values.as_object_mut().and_then(|values| values.remove(key));
    let own = own.unwrap_or_else(|| json!({}));
    ensure!(
        own.is_object(),
        "{key}: {own} is not allowed: expected values of a chart"
    );
    Ok((values, own))
}

impl Arguments {
    /// The values that lie over those of the charts, what flags say among them.
    fn values(&self) -> Result<Value> {
        let mut values = match self.ha {
            true => WEBHOOK.values("values-ha.yaml")?,
            false => json!({}),
        };
        if self.no_init_container {
            lay(&mut values, json!({"cniEnabled": true}), Nulls::Stay);
        }
        lay(&mut values, self.options.values()?, Nulls::Stay);
        Ok(values)
    }

    fn manifests(&self, values: Value) -> Result<Vec<Manifest>> {
        if !self.cni {
            return self.of_webhook(values);
        }
        let (values, own) = below("cni", values)?;
        let mut of_plugin = cni_values(&self.namespace, self.create_namespace);
        for shared in ["image", "imagePullSecrets"] {
            if let Some(value) = values.get(shared) {
                lay(&mut of_plugin, json!({shared: value}), Nulls::Stay);
            }
        }
        lay(&mut of_plugin, own, Nulls::Stay);
        let mut manifests = CNI.render(of_plugin, &self.options.target(&self.cni_namespace)?)?;
        manifests.extend(self.of_webhook(values)?);
        Ok(manifests)
    }

    fn of_webhook(&self, values: Value) -> Result<Vec<Manifest>> {
        check(&values, &self.namespace)?;
        WEBHOOK.render(values, &self.options.target(&self.namespace)?)
    }
}

/// Checks the values that are meant for the webhook, which would refuse them later.
fn check(values: &Value, namespace: &str) -> Result<()> {
    if let Some(config) = values.get("config").filter(|config| config.is_object()) {
        let read = Installation::from_document(config.clone(), None, namespace);
        read.context("values of the chart outrigger: config")?;
    }
    Ok(())
}

impl Options {
    /// Files and assignments, laid over one another.
    fn values(&self) -> Result<Value> {
        let mut values = json!({});
        if !self.values.is_empty() {
            for file in input::read(&self.values)? {
                lay(
                    &mut values,
                    read(&file.text).with_context(|| file.name.clone())?,
                    Nulls::Stay,
                );
            }
        }
        for assignment in &self.set {
            assign(&mut values, assignment)?;
        }
        Ok(values)
    }

    /// What is known of the cluster that is installed into `namespace` of.
    fn target(&self, namespace: &str) -> Result<Target> {
        let mut target = Target {
            namespace: namespace.to_owned(),
            release: self.server_version.unwrap_or(Release::NEWEST),
            namespace_object: None,
        };
        if self.cluster.is_named() {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(self.ask(&mut target))?;
        }
        Ok(target)
    }

    async fn ask(&self, target: &mut Target) -> Result<()> {
        let client = self.cluster.client().await?;
        if self.server_version.is_none() {
            let info = client.apiserver_version().await.context("release of the API server")?;
            target.release = server_of(&info).map_or(Release::NEWEST, |server| server.release);
        }
        let found = live::get(&client, &resource::NAMESPACES, None, &target.namespace).await;
        target.namespace_object = found.with_context(|| format!("namespace {}", target.namespace))?;
        Ok(())
    }
}

impl Selection {
    fn print(&self, manifests: &[Manifest]) -> Result<()> {
        let of = |template: &str, manifest: &Manifest| {
            let path = manifest.source.split_once('/').map(|(_, path)| path);
            path == Some(template)
        };
        for template in &self.show_only {
            let found = manifests.iter().any(|manifest| of(template, manifest));
            ensure!(found, "--show-only {template}: with these values nothing comes from it");
        }
        let shown = manifests.iter().filter(|manifest| {
            let mut wanted = self.show_only.iter();
            self.show_only.is_empty() || wanted.any(|template| of(template, manifest))
        });
        print(&shown.map(ToString::to_string).collect::<String>())
    }
}
