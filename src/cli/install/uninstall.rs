//! `outrigger uninstall`: what there is to delete, for `kubectl delete`.

use super::{CNI_NAMESPACE, Options, below, cni_values};
use crate::cli::chart::values::{Nulls, lay};
use crate::cli::chart::{CNI, Chart, Manifest, WEBHOOK};
use crate::cli::installation::namespace;
use crate::cli::print;
use crate::pod::manifest::to_yaml;
use crate::policy::Release;
use anyhow::Result;
use clap::Args;
use serde_json::{Map, Value, json};

/// Arguments of `uninstall`.
#[derive(Args, Clone, Debug)]
pub(in crate::cli) struct Arguments {
    /// Namespace that it is installed in
    #[arg(short, long, value_name = "NAME", default_value = "linkerd", value_parser = namespace)]
    namespace: String,
    /// The CNI plugin too
    #[arg(long)]
    cni: bool,
    /// With --cni, namespace that the plugin is installed in
    #[arg(long, value_name = "NAME", default_value = CNI_NAMESPACE, value_parser = namespace, requires = "cni")]
    cni_namespace: String,
    #[command(flatten)]
    options: Options,
}

/// The first release where the probe is confined by a policy, and needs no list of namespaces.
const CONFINED_PROBES: Release = Release(30);

/// Prints what there is to delete, in that order.
pub(in crate::cli) fn run(arguments: &Arguments) -> Result<()> {
    let (values, of_plugin) = below("cni", arguments.options.values()?)?;
    let mut objects = arguments.objects(WEBHOOK, &arguments.namespace, values)?;
    if arguments.cni {
        let mut all = cni_values(&arguments.namespace, false);
        lay(&mut all, of_plugin, Nulls::Stay);
        objects.extend(arguments.objects(CNI, &arguments.cni_namespace, all)?);
    }
    let mut text = String::new();
    for object in &objects {
        text.push_str("---\n");
        text.push_str(&to_yaml(object)?);
    }
    print(&text)
}

impl Arguments {
    /// The objects of a chart, their names alone: those that `values` mean and, as far as every server knows their kinds,
    /// all others that values can mean.
    fn objects(&self, chart: Chart, namespace: &str, values: Value) -> Result<Vec<Value>> {
        let target = self.options.target(namespace)?;
        let mut all = every_object(chart, target.release);
        lay(&mut all, values, Nulls::Stay);
        let mut manifests = chart.render(all, &target)?;
        // As Helm does: who takes the chart away does not mean to delete all that is of these kinds.
        manifests.retain(|manifest| !is_kept(&manifest.object));
        manifests.reverse();
        manifests.sort_by_key(turn);
        Ok(manifests.iter().map(|manifest| reference(&manifest.object)).collect())
    }
}

/// The values of a chart that ask for every object whose kind every server knows.
fn every_object(chart: Chart, release: Release) -> Value {
    if chart == CNI {
        return json!({"resourceQuota": {"enabled": true}});
    }
    json!({
        "cniEnabled": true,
        "autoscaling": {"enabled": true},
        "networkPolicy": {"enabled": true},
        "monitoring": {"dashboards": {"enabled": true}},
        "egress": {"enabled": true, "controller": {"enabled": true}},
        "probe": {"enabled": release >= CONFINED_PROBES},
    })
}

/// Whether Helm leaves it there too.
fn is_kept(object: &Value) -> bool {
    object.pointer("/metadata/annotations/helm.sh~1resource-policy") == Some(&Value::from("keep"))
}

/// When an object goes: first what sends pods to the webhook, last what confines the rights of accounts; what is between
/// goes in the opposite order of creation.
fn turn(manifest: &Manifest) -> u8 {
    match manifest.kind() {
        "MutatingWebhookConfiguration" => 0,
        "ValidatingAdmissionPolicy" | "ValidatingAdmissionPolicyBinding" => 2,
        "Namespace" => 3,
        _ => 1,
    }
}

/// As much of an object as it takes to delete it.
fn reference(object: &Value) -> Value {
    let part = |object: &Value, keys: &[&str]| -> Map<String, Value> {
        let found = keys
            .iter()
            .filter_map(|key| Some(((*key).to_owned(), object.get(key)?.clone())));
        found.collect()
    };
    let mut reference = part(object, &["apiVersion", "kind"]);
    let metadata = object.get("metadata").unwrap_or(&Value::Null);
    reference.insert("metadata".to_owned(), part(metadata, &["name", "namespace"]).into());
    reference.into()
}
