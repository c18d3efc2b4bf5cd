//! What policies are compiled from: as manifests have it, and as a live cluster does.

use super::live::Found;
use crate::cluster::{resource_of, serves};
use crate::policy::installed::{Source, WITHOUT_POD_SECURITY_POLICIES};
use anyhow::Result;
use kube::api::{DynamicObject, ListParams, TypeMeta};
use kube::{Api, Client, ResourceExt};
use serde_json::Value;
use std::collections::BTreeSet;

/// `object` as the cluster would have it: in the namespace `default` where it is of a policy, needs one and names none.
pub(super) fn placed(object: &Value, default: &str) -> Value {
    let mut placed = object.clone();
    let needs_one = Source::of(object).is_some_and(Source::is_namespaced);
    let metadata = placed.get_mut("metadata").and_then(Value::as_object_mut);
    if let Some(metadata) = metadata.filter(|_| needs_one)
        && metadata.get("namespace").is_none_or(Value::is_null)
    {
        metadata.insert("namespace".to_owned(), default.into());
    }
    placed
}

/// Asks the cluster for its policies, and for those who may use them, as far as they count in `namespaces`.
pub(super) async fn ask(client: &Client, namespaces: &BTreeSet<String>, found: &mut Found) {
    let gone = found
        .server
        .is_some_and(|server| server.release >= WITHOUT_POD_SECURITY_POLICIES);
    let mut wanted = vec![Source::LimitRange, Source::ResourceQuota];
    let policies = [Source::PodSecurityPolicy, Source::Constraint];
    let optional = policies
        .into_iter()
        .filter(|source| !(gone && *source == Source::PodSecurityPolicy));
    for source in optional {
        match serves(client, source).await {
            Ok(true) => wanted.push(source),
            Ok(false) => {}
            Err(error) => withhold(source, error, found),
        }
    }
    if wanted.iter().any(|source| policies.contains(source)) {
        wanted.extend([
            Source::Role,
            Source::ClusterRole,
            Source::RoleBinding,
            Source::ClusterRoleBinding,
        ]);
    }
    for source in wanted {
        match all(client, source, namespaces).await {
            Ok(objects) => found.objects.extend(objects),
            Err(error) => withhold(source, crate::cli::describe(&error), found),
        }
    }
}

fn withhold(source: Source, why: String, found: &mut Found) {
    let resource = source.resource();
    found
        .assumptions
        .push(format!("{resource} are not known, and what they say neither: {why}"));
    found.withheld.push((source, why));
}

/// The objects of `source`, those of `namespaces` alone where they have one: a user may see no others.
async fn all(client: &Client, source: Source, namespaces: &BTreeSet<String>) -> Result<Vec<Value>> {
    let (client, resource) = (|| client.clone(), resource_of(source));
    let apis: Vec<Api<DynamicObject>> = match source.is_namespaced() {
        true => namespaces
            .iter()
            .map(|namespace| Api::namespaced_with(client(), namespace, &resource))
            .collect(),
        false => vec![Api::all_with(client(), &resource)],
    };
    let mut objects = Vec::new();
    for api in apis {
        for mut object in api.list(&ListParams::default()).await? {
            object.managed_fields_mut().clear();
            // In a list, objects do not say it themselves.
            object.types = Some(TypeMeta {
                api_version: source.api_version(),
                kind: source.kind().to_owned(),
            });
            objects.push(serde_json::to_value(object)?);
        }
    }
    Ok(objects)
}
