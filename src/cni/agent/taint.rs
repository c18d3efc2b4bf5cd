//! Removes the start-up taint, which keeps pods off this node until the plugin is there, and touches no other.
//!
//! The patch tests the very taint that it removes. Where somebody else has changed the list in between, so that another
//! taint is at that place, the API server refuses the patch, and the list is read again: no list is ever written back.

use super::Shared;
use crate::cni::conflist::folder::Reading;
use crate::pod::{list, text};
use futures::StreamExt as _;
use k8s_openapi::api::core::v1;
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{Config, Event, watcher};
use kube::{Api, Client};
use serde_json::{Value, json};
use std::pin::pin;
use std::time::Duration;
use tokio::time::{sleep, timeout};
use tracing::{info, warn};

/// Attempts in a row; each fails only where somebody else has changed taints since the list was read.
const ATTEMPTS: u32 = 20;

/// How long one call may take.
const TIMEOUT: Duration = Duration::from_secs(10);

/// How soon it is tried again after a failure of another kind.
const PAUSE: Duration = Duration::from_secs(5);

/// Why a taint stays.
#[derive(Debug, thiserror::Error)]
pub enum TaintError {
    /// The API server refuses, or cannot be reached.
    #[error("node {node}: {source}")]
    Api {
        /// The node.
        node: String,
        /// What it says.
        source: Box<kube::Error>,
    },
    /// It did not answer.
    #[error("node {0}: no answer in time")]
    Late(String),
    /// The taints changed each time.
    #[error("node {0}: its taints changed again and again")]
    Contested(String),
}

/// Removes the taint each time it is there while the node is ready, for as long as it is polled.
pub(super) async fn keep_off(shared: &Shared, key: &str) {
    let config = Config::default().fields(&format!("metadata.name={}", shared.node));
    let mut events = pin!(watcher(nodes(shared.client()), config).default_backoff());
    let mut ready = shared.readiness();
    let (mut tainted, mut failing) = (false, false);
    loop {
        let is_ready = ready.borrow_and_update().is_ok();
        if tainted && is_ready {
            match remove(shared.client(), &shared.node, key).await {
                Ok(count) => {
                    tainted = false;
                    shared.metrics.taints.inc_by(count);
                    info!(
                        node = shared.node,
                        key, "the node is ready for pods: start-up taint removed"
                    );
                }
                Err(error) => {
                    warn!(%error, "the start-up taint cannot be removed, trying again");
                    sleep(PAUSE).await;
                    continue;
                }
            }
        }
        tokio::select! {
            changed = ready.changed() => {
                if changed.is_err() {
                    return;
                }
            }
            event = events.next() => match event {
                Some(Ok(Event::Apply(node) | Event::InitApply(node))) => {
                    failing = false;
                    shared.set_reading(reading(&node.data));
                    tainted = positions(&node.data, key).next().is_some();
                }
                Some(Ok(_)) => {}
                Some(Err(error)) => {
                    if !failing {
                        warn!(%error, "the node cannot be watched, trying again");
                    }
                    failing = true;
                    // Who may not look is ready all the same.
                    if shared.reading().is_none() {
                        shared.set_reading(Reading::GoesOn);
                    }
                }
                None => return,
            },
        }
    }
}

/// Removes all taints called `key` from `node`; how many there were.
///
/// # Errors
/// Where the API server refuses, or others change the taints each time.
pub async fn remove(client: &Client, node: &str, key: &str) -> Result<u64, TaintError> {
    let api = nodes(client);
    let error = |source| TaintError::Api {
        node: node.to_owned(),
        source: Box::new(source),
    };
    let late = |_elapsed| TaintError::Late(node.to_owned());
    let (mut removed, mut refused) = (0, None);
    for attempt in 0..ATTEMPTS {
        let found = timeout(TIMEOUT, api.get(node)).await.map_err(late)?.map_err(error)?;
        let Some((index, taint)) = positions(&found.data, key).next() else {
            return Ok(removed);
        };
        // What is refused although nothing has changed is not refused by the test.
        match refused.take() {
            Some((place, source)) if place == (index, taint.clone()) => return Err(error(source)),
            Some(_) | None => {}
        }
        let (patch, parameters) = (patch(index, taint), PatchParams::default());
        let patching = api.patch(node, &parameters, &patch);
        match timeout(TIMEOUT, patching).await.map_err(late)? {
            Ok(_) => removed += 1,
            Err(source) if matches!(code(&source), 409 | 422) => {
                if code(&source) == 422 {
                    refused = Some(((index, taint.clone()), source));
                }
                sleep(Duration::from_millis(5 << attempt.min(6))).await;
            }
            Err(source) => return Err(error(source)),
        }
    }
    Err(TaintError::Contested(node.to_owned()))
}

/// The HTTP status of a refusal: 409 where somebody else was faster in the store, 422 where the test failed.
fn code(error: &kube::Error) -> u16 {
    if let kube::Error::Api(status) = error {
        status.code
    } else {
        0
    }
}

fn nodes(client: &Client) -> Api<DynamicObject> {
    Api::all_with(client.clone(), &ApiResource::erase::<v1::Node>(&()))
}

/// How the runtime of a node reads network configurations.
fn reading(node: &Value) -> Reading {
    let runtime = node.pointer("/status/nodeInfo/containerRuntimeVersion");
    Reading::of(runtime.and_then(Value::as_str).unwrap_or_default())
}

/// Where in the list of taints those called `key` are.
fn positions<'a>(node: &'a Value, key: &'a str) -> impl Iterator<Item = (usize, &'a Value)> {
    let taints = list(node.get("spec").unwrap_or(&Value::Null), "taints");
    taints
        .enumerate()
        .filter(move |(_, taint)| text(taint, "key") == Some(key))
}

fn patch(index: usize, taint: &Value) -> Patch<Value> {
    let path = format!("/spec/taints/{index}");
    let operations = json!([
        {"op": "test", "path": path, "value": taint},
        {"op": "remove", "path": path},
    ]);
    // What is no patch would be refused, and is none of ours.
    serde_json::from_value(operations).map_or(Patch::Merge(Value::Null), Patch::Json)
}
