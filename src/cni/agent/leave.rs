//! What becomes of the plugin when the agent stops.
//!
//! It stays: during a roll-out, a restart or a drain pods go on to start, and without the plugin they would be un-meshed.
//! It goes only where the agent is being uninstalled: where it was told so, or where its DaemonSet is gone or going. Where
//! that cannot be found out, it stays.
//!
//! Whoever deletes everything at once deletes the agent's account and rights as well, and an API server that lost its keys, or is
//! just starting, refuses the agent in the same words. So a refusal says nothing. What tells the two apart is a watch on the
//! DaemonSet: it was allowed when it began, and goes on to tell when nothing else is answered any more; whoever restarts the API
//! server ends it.

use super::socket::SocketFile;
use super::{Options, Shared};
use futures::StreamExt as _;
use k8s_openapi::api::apps::v1::DaemonSet;
use kube::api::{ObjectMeta, PartialObjectMeta};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{Config, Event, watcher};
use kube::{Api, Client};
use std::pin::pin;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tracing::{error, info, warn};

/// How long the question may take; the kubelet waits 30 s for the whole end.
const TIMEOUT: Duration = Duration::from_secs(5);

/// How long it is waited, where the question is refused, for the watch to tell that the DaemonSet goes: who deletes a namespace
/// deletes its pods and accounts within seconds of it, in no order.
const PATIENCE: Duration = Duration::from_secs(10);

/// Attempts to take the plugin away while others change the configuration.
const ATTEMPTS: u32 = 10;

/// What happens to the plugin when the agent stops.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Farewell {
    /// It stays.
    Keep,
    /// It goes.
    Remove,
    /// It goes where this DaemonSet, by namespace and name, is gone or going.
    Ask(String, String),
}

/// What is known of the DaemonSet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Fate {
    /// Nobody has told.
    #[default]
    Unknown,
    Stays,
    /// It is gone or going.
    Goes,
    /// The API server does not let the agent know.
    Refused,
}

/// Follows the DaemonSet that the farewell depends on, and notes what becomes of it.
pub(super) async fn follow(client: Client, farewell: Farewell, fate: watch::Sender<Fate>) {
    let Farewell::Ask(namespace, name) = farewell else {
        return;
    };
    let api = Api::<PartialObjectMeta<DaemonSet>>::namespaced(client, &namespace);
    let config = Config::default().fields(&format!("metadata.name={name}"));
    let mut events = pin!(watcher(api, config).default_backoff());
    let (mut listed, mut failing) = (Fate::Goes, false);
    while let Some(event) = events.next().await {
        let told = match event {
            // Goes, unless it is listed.
            Ok(Event::Init) => {
                listed = Fate::Goes;
                continue;
            }
            Ok(Event::InitApply(found)) => {
                listed = of(&found.metadata);
                continue;
            }
            Ok(Event::InitDone) => listed,
            Ok(Event::Apply(found)) => of(&found.metadata),
            Ok(Event::Delete(_)) => Fate::Goes,
            Err(error) => {
                if !failing {
                    warn!(%error, namespace, name, "the DaemonSet cannot be watched: where all is deleted at once, the plugin may stay");
                }
                failing = true;
                continue;
            }
        };
        failing = false;
        fate.send_replace(told);
    }
}

fn of(metadata: &ObjectMeta) -> Fate {
    match metadata.deletion_timestamp {
        Some(_) => Fate::Goes,
        None => Fate::Stays,
    }
}

/// Takes the plugin away where the agent is being uninstalled, and last of all the socket on which it was asked.
pub(super) async fn leave(shared: &Shared, options: &Options, socket: &SocketFile) {
    let goes = match &options.farewell {
        Farewell::Keep => false,
        Farewell::Remove => true,
        Farewell::Ask(namespace, name) => match ask(&shared.client, namespace, name).await {
            Fate::Goes => true,
            Fate::Stays => false,
            Fate::Unknown => *shared.fate.borrow() == Fate::Goes,
            Fate::Refused => {
                let mut told = shared.fate.subscribe();
                let goes = told.wait_for(|fate| *fate == Fate::Goes);
                matches!(timeout(PATIENCE, goes).await, Ok(Ok(_)))
            }
        },
    };
    if !goes {
        info!("the plugin stays installed");
        return;
    }
    for _ in 0..ATTEMPTS {
        match shared.with_installer(|installer| installer.remove()).await {
            Ok(report) if report.errors.is_empty() => {
                info!(files = ?report.changed, kept = ?report.kept, "the plugin is removed");
                if let Err(error) = socket.remove() {
                    warn!(%error, "the socket is not removed");
                }
                return;
            }
            Ok(report) => warn!(errors = ?report.errors, problems = ?report.problems, "trying again"),
            Err(error) => warn!(%error, "the plugin cannot be removed, trying again"),
        }
        sleep(Duration::from_millis(500)).await;
    }
    error!("the plugin is not removed, or not all of it");
}

async fn ask(client: &Client, namespace: &str, name: &str) -> Fate {
    let api = Api::<DaemonSet>::namespaced(client.clone(), namespace);
    match timeout(TIMEOUT, api.get_metadata_opt(name)).await {
        Ok(Ok(None)) => Fate::Goes,
        Ok(Ok(Some(found))) => of(&found.metadata),
        Ok(Err(kube::Error::Api(status))) if [401, 403].contains(&status.code) => Fate::Refused,
        Ok(Err(_)) | Err(_) => Fate::Unknown,
    }
}
