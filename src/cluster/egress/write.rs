//! Writing: objects, deletions and statuses, one call each.

use super::known::{Key, Stamp, is_ours, resource};
use super::plan::Apply;
use crate::egress::compile::kinds::Kind;
use axum::http;
use axum::http::uri::InvalidUri;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams, Preconditions, Request};
use kube::{Api, Client};
use serde::Serialize;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::timeout;

/// Who writes, as `metadata.managedFields` has it.
const MANAGER: &str = "outrigger";

/// How long one call may take: a little longer than the webhooks that the API server asks may (30 s), so that it is the API
/// server that says which one is silent.
const TIMEOUT: Duration = Duration::from_secs(35);

/// What the API server answers (RFC 9110, 15.5.5 and 15.5.10; RFC 6585, 4).
const NOT_FOUND: u16 = 404;
const CONFLICT: u16 = 409;
const TOO_MANY: u16 = 429;
const SERVER_ERRORS: u16 = 500;

/// Why something was not written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The API server does not take it as it is.
    Refused(String),
    /// The API server, or a webhook that it asks, has failed: what comes next would fail as well.
    Failing(String),
    /// Nobody answers.
    Unreachable(String),
}

impl Fault {
    /// The fault in a word, for metrics.
    pub(super) fn word(&self) -> &'static str {
        match self {
            Self::Refused(_) => "refused",
            Self::Failing(_) => "failing",
            Self::Unreachable(_) => "unreachable",
        }
    }
}

/// Writes an object as it is wanted; the stamp that it has now.
///
/// One that is there already is known to be ours, and is replaced: whatever others have changed in what it says or added to it
/// goes, which applying it again would leave. Where none is known, nobody is overruled: another's object that has come meanwhile
/// stays as it is.
pub(super) async fn apply(client: &Client, apply: &Apply) -> Result<Stamp, Fault> {
    if apply.seen.is_none() {
        return create(client, apply).await;
    }
    let api = api(client, &apply.key)?;
    for is_last in [false, false, true] {
        let Some(there) = answer(api.get_opt(&apply.key.name)).await? else {
            return create(client, apply).await;
        };
        if !is_ours(&there.metadata) {
            return Err(Fault::Refused(
                "it has lost its label, and is somebody else's".to_owned(),
            ));
        }
        let wanted = replaced(&there, &apply.object)?;
        if wanted == there {
            return Ok(Stamp::of(&there.metadata));
        }
        // The API server writes nothing where it finds, with its defaults, the same.
        let request = Request::new(api.resource_url()).replace(&apply.key.name, &parameters(), bytes(&wanted)?);
        let written = async {
            match send(client, request.map_err(kube::Error::BuildRequest)?).await {
                // Others write its status meanwhile.
                Err(kube::Error::Api(status)) if status.code == CONFLICT && !is_last => Ok(None),
                other => other.map(Some),
            }
        };
        if let Some(written) = answer(written).await? {
            return Ok(Stamp::of(&written.metadata));
        }
    }
    Err(Fault::Refused("others change it all the time".to_owned()))
}

/// The stamp of an object that is there as it is wanted, without a default of the API server's.
pub(super) async fn look(client: &Client, apply: &Apply) -> Result<Option<Stamp>, Fault> {
    let there = answer(api(client, &apply.key)?.get_opt(&apply.key.name)).await?;
    let Some(there) = there.filter(|there| is_ours(&there.metadata)) else {
        return Ok(None);
    };
    let is_wanted = replaced(&there, &apply.object)? == there;
    Ok(is_wanted.then(|| Stamp::of(&there.metadata)))
}

async fn create(client: &Client, apply: &Apply) -> Result<Stamp, Fault> {
    let api = api(client, &apply.key)?;
    let request = Request::new(api.resource_url()).create(&parameters(), bytes(&apply.object)?);
    let created = async { send(client, request.map_err(kube::Error::BuildRequest)?).await };
    Ok(Stamp::of(&answer(created).await?.metadata))
}

/// The object that is `there`, saying what is `wanted` and nothing else; labels and annotations of others stay.
fn replaced(there: &DynamicObject, wanted: &Value) -> Result<DynamicObject, Fault> {
    let wanted: DynamicObject =
        serde_json::from_value(wanted.clone()).map_err(|error| Fault::Refused(error.to_string()))?;
    let (mut metadata, mut data) = (there.metadata.clone(), wanted.data);
    if let Some(labels) = wanted.metadata.labels {
        metadata.labels.get_or_insert_default().extend(labels);
    }
    if let Some(annotations) = wanted.metadata.annotations {
        metadata.annotations.get_or_insert_default().extend(annotations);
    }
    if let (Some(status), Value::Object(data)) = (there.data.get("status"), &mut data) {
        data.insert("status".to_owned(), status.clone());
    }
    Ok(DynamicObject {
        types: there.types.clone(),
        metadata,
        data,
    })
}

fn parameters() -> PostParams {
    PostParams {
        field_manager: Some(MANAGER.to_owned()),
        ..PostParams::default()
    }
}

fn bytes(object: &impl Serialize) -> Result<Vec<u8>, Fault> {
    serde_json::to_vec(object).map_err(|error| Fault::Refused(error.to_string()))
}

/// Sends an object. What a server does not know it would drop, and the rest would be something else: so it is told to refuse.
async fn send(client: &Client, mut request: http::Request<Vec<u8>>) -> Result<DynamicObject, kube::Error> {
    let uri = format!("{}&fieldValidation=Strict", request.uri());
    *request.uri_mut() = uri
        .parse()
        .map_err(|error: InvalidUri| kube::Error::HttpError(error.into()))?;
    client.request(request).await
}

/// Deletes the object that has that stamp; one that is gone, or is another one by now, is none of ours any more.
pub(super) async fn delete(client: &Client, key: &Key, stamp: &Stamp) -> Result<(), Fault> {
    let parameters = DeleteParams::default().preconditions(Preconditions {
        uid: Some(stamp.uid.clone()),
        resource_version: None,
    });
    let api = api(client, key)?;
    let deleted = async { api.delete(&key.name, &parameters).await.map(drop) };
    answer(unless(deleted, &[NOT_FOUND, CONFLICT])).await
}

/// Writes conditions into the status of a policy; those of others stay.
pub(super) async fn status(client: &Client, kind: &Kind, policy: &Value, conditions: &Value) -> Result<(), Fault> {
    let text = |pointer| policy.pointer(pointer).and_then(Value::as_str);
    let (namespace, name) = (text("/metadata/namespace"), text("/metadata/name").unwrap_or_default());
    let resource = resource(kind);
    let api: Api<DynamicObject> = match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    };
    let object = json!({
        "apiVersion": kind.api_version(),
        "kind": kind.name,
        "metadata": {"name": name},
        "status": {"conditions": conditions},
    });
    // Nobody else has anything to write into these conditions.
    let parameters = PatchParams::apply(MANAGER).force();
    let patch = Patch::Apply(object);
    let written = async { api.patch_status(name, &parameters, &patch).await.map(drop) };
    answer(unless(written, &[NOT_FOUND])).await
}

fn api(client: &Client, key: &Key) -> Result<Api<DynamicObject>, Fault> {
    let kind = key
        .kind()
        .ok_or_else(|| Fault::Refused("it is of no kind that is known".to_owned()))?;
    Ok(Api::namespaced_with(client.clone(), &key.namespace, &resource(kind)))
}

/// What comes of a call; an answer with one of these codes is as good as none.
async fn unless(call: impl Future<Output = Result<(), kube::Error>>, codes: &[u16]) -> Result<(), kube::Error> {
    match call.await {
        Err(kube::Error::Api(status)) if codes.contains(&status.code) => Ok(()),
        other => other,
    }
}

async fn answer<T>(call: impl Future<Output = Result<T, kube::Error>>) -> Result<T, Fault> {
    match timeout(TIMEOUT, call).await {
        Ok(Ok(written)) => Ok(written),
        Ok(Err(kube::Error::Api(status))) => {
            let message = status.message.clone();
            let is_failing = status.code == TOO_MANY || status.code >= SERVER_ERRORS;
            Err(if is_failing {
                Fault::Failing(message)
            } else {
                Fault::Refused(message)
            })
        }
        Ok(Err(error)) => Err(Fault::Unreachable(error.to_string())),
        Err(_) => Err(Fault::Failing("no answer in time".to_owned())),
    }
}
