//! Who owns a pod, and who owns its owner.

use super::lookup::{self, Lookups};
use crate::pod::{self, workload::Kind};
use k8s_openapi::api::{apps::v1::ReplicaSet, batch::v1::Job};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::ObjectMeta;
use kube::{Api, Client};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::fmt;
use tracing::warn;

/// How many owners are remembered, at most twice: a few hundred kilobytes, and 2 MiB if every text is as long as it may be.
const REMEMBERED: usize = 512;

/// Longest `apiVersion`: a group of 253 bytes (RFC 1123 subdomain), a slash, a version of 63 (label).
const VERSION_LIMIT: usize = 253 + 1 + 63;

/// Longest kind: an RFC 1035 label.
const KIND_LIMIT: usize = 63;

/// Longest `uid` that is believed: API servers make UUIDs, of 36 bytes.
const UID_LIMIT: usize = 128;

/// A reference to an owner.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Owner {
    /// Its `apiVersion`.
    pub api_version: String,
    /// Its kind, as Kubernetes writes it.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Its identity.
    pub uid: String,
}

impl Owner {
    /// The only owner of `object`; nothing where there is none, or several.
    pub fn sole(object: &Value) -> Option<Self> {
        let mut references = pod::list(object.get("metadata")?, "ownerReferences");
        let reference = references.next().filter(|_| references.next().is_none())?;
        let text = |key: &str| pod::text(reference, key).unwrap_or_default().to_owned();
        Some(Self {
            api_version: text("apiVersion"),
            kind: text("kind"),
            name: text("name"),
            uid: text("uid"),
        })
    }

    /// Whether there can be such an object. A client may write anything into a reference, of any length: nobody is asked
    /// for it, nobody is told of it and nothing of it is remembered unless this holds.
    pub fn can_exist(&self) -> bool {
        lookup::is_name(&self.name)
            && self.api_version.len() <= VERSION_LIMIT
            && self.kind.len() <= KIND_LIMIT
            && self.uid.len() <= UID_LIMIT
    }

    /// Its kind, where injection knows it.
    pub fn known_kind(&self) -> Option<Kind> {
        let group = self.api_version.split_once('/').map_or("", |(group, _)| group);
        Kind::named(group, &self.kind)
    }
}

impl From<OwnerReference> for Owner {
    fn from(reference: OwnerReference) -> Self {
        Self {
            api_version: reference.api_version,
            kind: reference.kind,
            name: reference.name,
            uid: reference.uid,
        }
    }
}

/// A kind whose objects stand for their own owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum ChildKind {
    ReplicaSet,
    Job,
}

impl ChildKind {
    fn of(kind: Kind) -> Option<Self> {
        [(Kind::ReplicaSet, Self::ReplicaSet), (Kind::Job, Self::Job)]
            .into_iter()
            .find_map(|(other, child)| (kind == other).then_some(child))
    }
}

/// An object whose own owner is asked for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Child {
    kind: ChildKind,
    namespace: String,
    name: String,
    /// Tells an object from an earlier one of its name. Empty for manifests, which seldom have it.
    uid: String,
}

impl Child {
    /// The owner of a pod as something that may have an owner itself.
    pub(super) fn owning(namespace: &str, owner: &Owner) -> Option<Self> {
        owner.can_exist().then_some(Self {
            kind: ChildKind::of(owner.known_kind()?)?,
            namespace: namespace.to_owned(),
            name: owner.name.clone(),
            uid: owner.uid.clone(),
        })
    }

    /// A manifest as something that may have an owner.
    pub(super) fn of(object: &Value) -> Option<Self> {
        let metadata = object.get("metadata")?;
        let text = |key: &str| pod::text(metadata, key).unwrap_or_default().to_owned();
        Some(Self {
            kind: ChildKind::of(Kind::of(object)?)?,
            // The command line's own default, where a manifest names none.
            namespace: Some(text("namespace"))
                .filter(|name| !name.is_empty())
                .unwrap_or_else(|| "default".to_owned()),
            name: text("name"),
            uid: String::new(),
        })
    }

    /// Whether pods are named after `above`, the owner of this object: a ReplicaSet of an Argo Rollout keeps its own name,
    /// since Linkerd knows no others than these.
    pub(super) fn yields_to(&self, above: &Owner) -> bool {
        let controllers = [Kind::Job, Kind::StatefulSet, Kind::DaemonSet, Kind::Deployment];
        self.kind == ChildKind::Job || above.known_kind().is_some_and(|kind| controllers.contains(&kind))
    }

    /// The same object by name alone.
    pub(super) fn by_name(self) -> Self {
        Self {
            uid: String::new(),
            ..self
        }
    }
}

/// Who owns whom, asked of the API server.
pub(super) struct Owners {
    client: Client,
    lookups: Lookups<Child, Option<Owner>>,
}

impl Owners {
    pub(super) fn new(client: Client) -> Self {
        Self {
            client,
            lookups: Lookups::new(REMEMBERED),
        }
    }

    /// The owner of `child`; nothing where it has none or several, or where the API server could not be asked.
    pub(super) async fn above(&self, child: &Child) -> Option<Owner> {
        if !lookup::is_name(&child.namespace) {
            return None;
        }
        let owner = self.lookups.ask(child.clone(), async || self.ask(child).await).await;
        owner.unwrap_or_else(|error| {
            warn!(kind = ?child.kind, namespace = child.namespace, name = child.name, %error, "owner not found");
            None
        })
    }

    async fn ask(&self, child: &Child) -> Result<Option<Owner>, kube::Error> {
        let (client, namespace, name) = (self.client.clone(), &child.namespace, &child.name);
        let metadata = match child.kind {
            ChildKind::Job => metadata(Api::<Job>::namespaced(client, namespace), name).await?,
            ChildKind::ReplicaSet => metadata(Api::<ReplicaSet>::namespaced(client, namespace), name).await?,
        };
        // Another object may bear the name by now.
        let metadata = metadata.filter(|found| found.uid.as_ref().is_none_or(|uid| *uid == child.uid));
        let mut references = metadata.and_then(|found| found.owner_references).unwrap_or_default();
        let sole = references.pop().filter(|_| references.is_empty()).map(Owner::from);
        Ok(sole.filter(Owner::can_exist))
    }
}

async fn metadata<K>(api: Api<K>, name: &str) -> Result<Option<ObjectMeta>, kube::Error>
where
    K: Clone + DeserializeOwned + fmt::Debug,
{
    Ok(api.get_metadata_opt(name).await?.map(|found| found.metadata))
}
