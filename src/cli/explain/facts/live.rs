//! What a live cluster says: namespaces, nodes, where the CNI plugin is, its policies, its release and Linkerd's
//! configuration.

use super::super::Arguments;
use crate::cli::installation::Connection;
use crate::cli::live::policies::{Policies, Scope};
use crate::cli::live::resource::{CONFIG_MAPS, DAEMON_SETS, NAMESPACES, NODES};
use crate::cli::live::{NOT_FOUND, Resource, get, list, plugin_places, plugin_pods, tidied};
use crate::cli::{describe, note_on_terminal};
use crate::cluster::{NodeList, server_of};
use crate::egress::compile::kinds::{NETWORK, POLICIES};
use crate::policy::installed::Source;
use crate::policy::pod_security::Server;
use crate::policy::probe::CONFIG_MAP;
use anyhow::{Context, Result};
use kube::Client;
use serde_json::Value;
use std::collections::BTreeSet;

/// What the cluster says.
#[derive(Default)]
pub(super) struct Found {
    pub(super) objects: Vec<Value>,
    pub(super) values: Vec<String>,
    pub(super) server: Option<Server>,
    /// What tells where the CNI plugin is and cannot be seen, and why.
    pub(super) unseen: Vec<(NodeList, String)>,
    /// What policies are compiled from and cannot be seen, and why.
    pub(super) withheld: Vec<(Source, String)>,
    /// The namespace of objects that name none.
    pub(super) namespace: String,
    /// What could not be asked.
    pub(super) assumptions: Vec<String>,
}

/// Which namespaces are of interest, given the default one.
type Wanted<'a> = dyn Fn(&str) -> BTreeSet<String> + 'a;

/// Asks the cluster that the arguments name; where they name none, nobody.
pub(super) fn ask(arguments: &Arguments, wanted: &Wanted<'_>) -> Result<Found> {
    let cluster = &arguments.cluster;
    let mut found = Found {
        namespace: "default".to_owned(),
        ..Found::default()
    };
    if cluster.context.is_none() && cluster.kubeconfig.is_none() && !arguments.is_live() {
        return Ok(found);
    }
    let connection = Connection::to(cluster.kubeconfig.clone(), cluster.context.clone());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let client = connection.client().await?;
        note_on_terminal("asking the cluster…\n");
        client.default_namespace().clone_into(&mut found.namespace);
        let info = client.apiserver_version().await.context("release of the API server")?;
        found.server = server_of(&info);
        let namespaces = wanted(&found.namespace);
        let everywhere = arguments.live.all_namespaces;
        if everywhere {
            let all = list(&client, &NAMESPACES, None, |namespace| Some(tidied(namespace))).await;
            found.objects.extend(all.context("namespaces")?);
        } else {
            for name in &namespaces {
                let namespace = get(&client, &NAMESPACES, None, name).await;
                let namespace = namespace.with_context(|| format!("namespace {name}"))?;
                found.objects.extend(namespace.map(tidied));
            }
        }
        nodes(&client, &mut found).await;
        let scope = match everywhere {
            true => Scope::Everywhere,
            false => Scope::Namespaces(&namespaces),
        };
        policies(&client, scope, &mut found).await;
        egress(&client, scope, &mut found).await;
        let control_plane = &arguments.assumptions.control_plane.linkerd_namespace;
        // What a probe reports, where there is one.
        match get(&client, &CONFIG_MAPS, Some(control_plane), CONFIG_MAP).await {
            Ok(findings) => found.objects.extend(findings.map(tidied)),
            Err(error) => found.assumptions.push(format!(
                "what a probe has found out is not known: {}",
                describe(&error.into())
            )),
        }
        if arguments.assumptions.values.is_empty() {
            let values = connection.find_values(&client, control_plane).await;
            match values {
                Ok(values) => found.values = values,
                Err(error) => found.assumptions.push(describe(&error)),
            }
        }
        Ok(found)
    })
}

/// The nodes, and what puts the CNI plugin on them.
async fn nodes(client: &Client, found: &mut Found) {
    for (resource, of) in [(NODES, NodeList::Nodes), (DAEMON_SETS, NodeList::Plugins)] {
        match list(client, &resource, None, |object| Some(tidied(object))).await {
            Ok(objects) => found.objects.extend(objects),
            Err(error) => found.unseen.push((of, describe(&error.into()))),
        }
    }
    for place in plugin_places(&found.objects) {
        // What its level is decides whether it is believed; unknown is as good as without labels.
        if let Ok(namespace) = get(client, &NAMESPACES, None, &place.namespace).await {
            found.objects.extend(namespace.map(tidied));
        }
        match plugin_pods(client, &place).await {
            Ok(pods) => found.objects.extend(pods),
            Err(error) => found.assumptions.push(format!(
                "whether the CNI plugin of {} is failing on its nodes is not known, and it is taken to work: {}",
                place.namespace,
                describe(&error.into())
            )),
        }
    }
}

/// The policies that count in `scope`.
async fn policies(client: &Client, scope: Scope<'_>, found: &mut Found) {
    let release = found.server.map(|server| server.release);
    let policies = Policies::ask(client, release, scope).await;
    found.objects.extend(policies.objects);
    for (source, why) in policies.withheld {
        let resource = source.resource();
        found
            .assumptions
            .push(format!("{resource} are not known, and what they say neither: {why}"));
        found.withheld.push((source, why));
    }
}

/// The egress policies that count in `scope`, and the `EgressNetworks` beside which they do.
async fn egress(client: &Client, scope: Scope<'_>, found: &mut Found) {
    let places: Vec<_> = match scope {
        Scope::Everywhere => vec![None],
        Scope::Namespaces(names) => names.iter().map(|name| Some(name.as_str())).collect(),
    };
    let [policies, cluster_wide] = &POLICIES;
    let local = places.iter().flat_map(|place| [(policies, *place), (&NETWORK, *place)]);
    for (kind, place) in [(cluster_wide, None)].into_iter().chain(local) {
        let resource = Resource::of_kind(kind);
        match list(client, &resource, place, |object| Some(tidied(object))).await {
            Ok(objects) => found.objects.extend(objects),
            // Who has not installed them has none.
            Err(kube::Error::Api(status)) if status.code == NOT_FOUND => {}
            Err(error) => found.assumptions.push(format!(
                "{} are not known, and what they say neither: {}",
                resource.plural,
                describe(&error.into())
            )),
        }
    }
}
