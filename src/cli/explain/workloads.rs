//! Live workloads, read from the cluster.
//!
//! What is explained is the next pod, so that whatever another object made stands for that object: a pod for its Deployment,
//! a Job for its `CronJob`. A pod that nothing makes stands for itself as it would be created once more.

use super::selection::{Selection, Type};
use super::{Arguments, Object};
use crate::cli::installation::Connection;
use crate::cli::live::{get, list_labelled, tidied};
use crate::cli::workload::title;
use crate::cli::{describe, note, note_on_terminal};
use crate::cluster::Owner;
use crate::config::annotation::{CREATED_BY, INJECT};
use crate::inject::uninject;
use crate::pod::workload::Kind;
use crate::pod::{Pod, text};
use anyhow::{Context, Result, bail, ensure};
use kube::Client;
use serde_json::Value;
use std::collections::{HashMap, HashSet};

/// How far up owners are followed: a pod, its ReplicaSet, its Deployment, and whatever else there may be. Owners may own each other.
const GENERATIONS: usize = 4;

/// What was read.
pub(super) struct Found {
    pub(super) objects: Vec<Object>,
    /// Whether that is all that was asked for.
    pub(super) complete: bool,
}

/// Kind, namespace and name.
type Place = (Kind, String, String);

struct Reader<'a> {
    client: Client,
    arguments: &'a Arguments,
    namespace: String,
    /// What is known already; nothing where there is no such object, or it may not be read.
    known: HashMap<Place, Option<Value>>,
}

/// Reads the workloads that the arguments name.
pub(super) fn read(arguments: &Arguments) -> Result<Found> {
    let selection = Selection::parse(&arguments.live.workloads)?;
    if let Selection::Named(_) = &selection {
        let live = &arguments.live;
        ensure!(
            !live.all_namespaces,
            "an object that is named is in one namespace: -A takes types alone"
        );
        ensure!(
            live.selector.is_none(),
            "an object that is named needs no selector: -l takes types alone"
        );
    }
    let cluster = &arguments.cluster;
    let connection = Connection::to(cluster.kubeconfig.clone(), cluster.context.clone());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let client = connection.client().await?;
        note_on_terminal("asking the cluster…\n");
        let own = client.default_namespace().to_owned();
        let mut reader = Reader {
            namespace: arguments.assumptions.namespace.clone().unwrap_or(own),
            client,
            arguments,
            known: HashMap::new(),
        };
        match selection {
            Selection::Named(names) => reader.named(&names).await,
            Selection::Listed(types) => reader.listed(&types).await,
        }
    })
}

impl Reader<'_> {
    async fn named(&mut self, names: &[(&'static Type, String)]) -> Result<Found> {
        let mut found = Vec::new();
        let mut missing = Vec::new();
        for (known, name) in names {
            let object = get(&self.client, &known.resource, Some(&self.namespace), name).await;
            match object.with_context(|| known.resource.plural)? {
                Some(object) => found.push(tidied(object)),
                None => missing.push(format!("{}/{name}", known.kind.lower_case())),
            }
        }
        ensure!(
            missing.is_empty(),
            "not found in namespace {}: {}",
            self.namespace,
            missing.join(", ")
        );
        let objects = self.makers(found).await;
        Ok(Found {
            objects,
            complete: true,
        })
    }

    async fn listed(&mut self, types: &[&'static Type]) -> Result<Found> {
        let live = &self.arguments.live;
        let namespace = (!live.all_namespaces).then_some(self.namespace.as_str());
        let (mut found, mut refused) = (Vec::new(), Vec::new());
        for known in types {
            let keep = |object| Some(tidied(object));
            match list_labelled(&self.client, &known.resource, namespace, live.selector.as_deref(), keep).await {
                Ok(objects) => found.extend(objects),
                Err(kube::Error::Api(status)) => refused.push(format!("{}: {}", known.resource.plural, status.message)),
                Err(error) => return Err(error).context(known.resource.plural),
            }
        }
        if refused.len() == types.len() {
            bail!("{}", refused.join("\n"));
        }
        for refusal in &refused {
            note(&format!("Error: {refusal}\n"));
        }
        for object in &found {
            let place = place(object);
            self.known.extend(place.map(|place| (place, Some(object.clone()))));
        }
        let objects = self.makers(found).await;
        Ok(Found {
            objects,
            complete: refused.is_empty(),
        })
    }

    /// What makes the pods of `objects`, each once.
    async fn makers(&mut self, objects: Vec<Value>) -> Vec<Object> {
        let named = self.known.is_empty();
        let (mut makers, mut seen) = (Vec::new(), HashSet::new());
        for object in objects {
            let (made, maker) = (place(&object), self.maker(object).await);
            let Some(place) = place(&maker) else { continue };
            let (kind, namespace, name) = &place;
            if named && made.as_ref() != Some(&place) {
                let made = made.map_or_else(String::new, |(kind, _, name)| format!("{}/{name}", kind.name()));
                note(&format!("{made}: its next pod is of {}\n", title(*kind, &maker)));
            }
            let object = Object {
                place: format!("{}/{name} in {namespace}", kind.lower_case()),
                value: if *kind == Kind::Pod { anew(maker) } else { maker },
            };
            if seen.insert(place) {
                makers.push(object);
            }
        }
        makers
    }

    /// What makes the pods of `object`: the last of its owners that is there and known to make pods, else itself.
    async fn maker(&mut self, mut object: Value) -> Value {
        for _ in 0..GENERATIONS {
            match self.owner(&object).await {
                Some(owner) => object = owner,
                None => break,
            }
        }
        object
    }

    async fn owner(&mut self, object: &Value) -> Option<Value> {
        let owner = Owner::of(object).filter(Owner::can_exist)?;
        let kind = owner.known_kind().filter(|kind| kind.template_pointer().is_some())?;
        let known = Type::of(kind)?;
        let namespace = text(object.get("metadata")?, "namespace")?.to_owned();
        let place = (kind, namespace.clone(), owner.name.clone());
        if !self.known.contains_key(&place) {
            let found = get(&self.client, &known.resource, Some(&namespace), &owner.name).await;
            let found = found.unwrap_or_else(|error| {
                let why = describe(&error.into());
                note(&format!("what owns {} is not known: {why}\n", owner.name));
                None
            });
            self.known.insert(place.clone(), found.map(tidied));
        }
        let found = self.known.get(&place)?.clone()?;
        // Another object may bear the name by now.
        let uid = found.pointer("/metadata/uid").and_then(Value::as_str);
        (uid == Some(owner.uid.as_str())).then_some(found)
    }
}

fn place(object: &Value) -> Option<Place> {
    let metadata = object.get("metadata")?;
    let text = |key: &str| text(metadata, key).unwrap_or_default().to_owned();
    Some((Kind::of(object)?, text("namespace"), text("name")))
}

/// The pod as its author would create it once more: without what it got while it lived and, where injection has been at it, without what that
/// added. Whether it asks for injection is its author's word.
fn anew(mut pod: Value) -> Value {
    let asks = ["annotations", "labels"].map(|key| {
        let asks = pod.pointer("/metadata")?.get(key)?.get(INJECT)?;
        Some((key, asks.clone()))
    });
    if Pod::new(&pod).annotation(CREATED_BY).is_some() && uninject::uninject(&mut pod) {
        for (key, asks) in asks.into_iter().flatten() {
            let entries = pod.get_mut("metadata").and_then(Value::as_object_mut).map(|metadata| {
                metadata
                    .entry(key)
                    .or_insert_with(|| Value::Object(serde_json::Map::new()))
            });
            if let Some(entries) = entries.and_then(Value::as_object_mut) {
                entries.insert(INJECT.to_owned(), asks);
            }
        }
    }
    if let Some(fields) = pod.as_object_mut() {
        fields.remove("status");
        if let Some(spec) = fields.get_mut("spec").and_then(Value::as_object_mut) {
            for of_life in ["nodeName", "ephemeralContainers"] {
                spec.remove(of_life);
            }
        }
    }
    pod
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_pod_is_created_anew_without_what_injection_added() {
        let app = json!({"name": "web", "image": "web"});
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "web", "annotations": {
                "linkerd.io/inject": "enabled", "linkerd.io/created-by": "outrigger/1", "linkerd.io/setup-iptables": "cni",
            }},
            "spec": {"nodeName": "n1", "ephemeralContainers": [{"name": "sh"}], "containers": [{"name": "linkerd-proxy", "image": "proxy"}, app]},
            "status": {"phase": "Running"},
        });
        let expected = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "web", "annotations": {"linkerd.io/inject": "enabled"}},
            "spec": {"containers": [app]},
        });
        assert_eq!(anew(pod), expected);
        let untouched =
            json!({"metadata": {"annotations": {"linkerd.io/setup-iptables": "cni"}}, "spec": {"containers": [app]}});
        assert_eq!(anew(untouched.clone()), untouched);
    }
}
