//! What becomes of the plugin when the agent stops.
//!
//! It stays: during a roll-out, a restart or a drain pods go on to start, and without the plugin they would be un-meshed.
//! It goes only where the agent is being uninstalled: where it was told so, or where its DaemonSet is gone or going. Where
//! that cannot be found out, it stays.

use super::Shared;
use super::socket::SocketFile;
use k8s_openapi::api::apps::v1::DaemonSet;
use kube::Api;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::time::{sleep, timeout};
use tracing::{error, info, warn};

/// How long the question may take; the kubelet waits 30 s for the whole end.
const TIMEOUT: Duration = Duration::from_secs(5);

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

/// What is found out about the DaemonSet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Stays,
    Goes,
    Forbidden,
    Unknown,
}

/// Finds out whether the DaemonSet may be read, then rests: where it could be, and may not be read at the end, the rights
/// went first, as when everything is deleted at once.
pub(super) async fn prepare(shared: &Shared, farewell: &Farewell) {
    if let Farewell::Ask(namespace, name) = farewell {
        loop {
            match fate(shared, namespace, name).await {
                Fate::Stays | Fate::Goes => {
                    shared.saw_daemon_set.store(true, Ordering::Relaxed);
                    break;
                }
                Fate::Forbidden => {
                    warn!(
                        namespace,
                        name, "the DaemonSet may not be read: the plugin will stay when the agent stops"
                    );
                    break;
                }
                Fate::Unknown => sleep(TIMEOUT).await,
            }
        }
    }
    std::future::pending::<()>().await;
}

/// Takes the plugin away where the agent is being uninstalled, and last of all the socket on which it was asked.
pub(super) async fn leave(shared: &Shared, farewell: &Farewell, socket: &SocketFile) {
    let goes = match farewell {
        Farewell::Keep => false,
        Farewell::Remove => true,
        Farewell::Ask(namespace, name) => match fate(shared, namespace, name).await {
            Fate::Goes => true,
            Fate::Forbidden => shared.saw_daemon_set.load(Ordering::Relaxed),
            Fate::Stays | Fate::Unknown => false,
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

async fn fate(shared: &Shared, namespace: &str, name: &str) -> Fate {
    let api = Api::<DaemonSet>::namespaced(shared.client().clone(), namespace);
    match timeout(TIMEOUT, api.get_metadata_opt(name)).await {
        Ok(Ok(None)) => Fate::Goes,
        Ok(Ok(Some(found))) if found.metadata.deletion_timestamp.is_some() => Fate::Goes,
        Ok(Ok(Some(_))) => Fate::Stays,
        Ok(Err(kube::Error::Api(status))) if matches!(status.code, 401 | 403) => Fate::Forbidden,
        Ok(Err(_)) | Err(_) => Fate::Unknown,
    }
}
