//! What policies are compiled from, as a live cluster has it.

use super::{Resource, list, tidied};
use crate::cluster::serves;
use crate::policy::Release;
use crate::policy::installed::{Source, WITHOUT_POD_SECURITY_POLICIES};
use kube::Client;
use serde_json::Value;
use std::collections::BTreeSet;

/// Where objects count.
#[derive(Clone, Copy, Debug)]
pub(in crate::cli) enum Scope<'a> {
    /// In these namespaces alone: a user may see no others. One request each.
    Namespaces(&'a BTreeSet<String>),
    /// Everywhere. One request a page.
    Everywhere,
}

/// The policies of a cluster, and who may use them.
#[derive(Debug, Default)]
pub(in crate::cli) struct Policies {
    /// The objects.
    pub(in crate::cli) objects: Vec<Value>,
    /// Which kinds of policy the server has, of those that not every server has.
    pub(in crate::cli) served: Vec<Source>,
    /// What cannot be seen, and why.
    pub(in crate::cli) withheld: Vec<(Source, String)>,
}

impl Policies {
    /// Asks a server of `release` for those that count in `scope`.
    pub(in crate::cli) async fn ask(client: &Client, release: Option<Release>, scope: Scope<'_>) -> Self {
        let mut found = Self::default();
        let gone = release.is_some_and(|release| release >= WITHOUT_POD_SECURITY_POLICIES);
        let mut wanted = vec![Source::LimitRange, Source::ResourceQuota];
        let policies = [Source::PodSecurityPolicy, Source::Constraint];
        let optional = policies
            .into_iter()
            .filter(|source| !(gone && *source == Source::PodSecurityPolicy));
        for source in optional {
            match serves(client, source).await {
                Ok(true) => found.served.push(source),
                Ok(false) => {}
                Err(error) => found.withheld.push((source, error)),
            }
        }
        wanted.extend(&found.served);
        if !found.served.is_empty() {
            wanted.extend([
                Source::Role,
                Source::ClusterRole,
                Source::RoleBinding,
                Source::ClusterRoleBinding,
            ]);
        }
        for source in wanted {
            match all(client, source, scope).await {
                Ok(objects) => found.objects.extend(objects),
                Err(error) => found.withheld.push((source, crate::cli::describe(&error.into()))),
            }
        }
        found
    }
}

async fn all(client: &Client, source: Source, scope: Scope<'_>) -> Result<Vec<Value>, kube::Error> {
    let resource = Resource::of(source);
    let Scope::Namespaces(namespaces) = scope else {
        return list(client, &resource, None, |object| Some(tidied(object))).await;
    };
    if !source.is_namespaced() {
        return list(client, &resource, None, |object| Some(tidied(object))).await;
    }
    let mut objects = Vec::new();
    for namespace in namespaces {
        objects.extend(list(client, &resource, Some(namespace), |object| Some(tidied(object))).await?);
    }
    Ok(objects)
}
