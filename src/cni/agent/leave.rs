//! What becomes of the plugin when the agent stops.
//!
//! It stays: during a roll-out, a restart or a drain pods go on to start, and without the plugin they would be un-meshed.
//! It goes only where the agent is being uninstalled: where it was told so, or where its DaemonSet is gone or going. Where
//! that cannot be found out, it stays.

use super::credentials::{self, TokenSource};
use super::socket::SocketFile;
use super::{Options, Shared};
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
    /// The agent has no right to read it.
    Forbidden,
    /// The API server does not know the agent.
    Unauthorized,
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
                Fate::Unauthorized | Fate::Unknown => sleep(TIMEOUT).await,
            }
        }
    }
    std::future::pending::<()>().await;
}

/// Takes the plugin away where the agent is being uninstalled, and last of all the socket on which it was asked.
pub(super) async fn leave(shared: &Shared, options: &Options, socket: &SocketFile) {
    let saw = || shared.saw_daemon_set.load(Ordering::Relaxed);
    let goes = match &options.farewell {
        Farewell::Keep => false,
        Farewell::Remove => true,
        Farewell::Ask(namespace, name) => match fate(shared, namespace, name).await {
            Fate::Goes => true,
            Fate::Forbidden => saw(),
            Fate::Unauthorized => saw() && plugin_is_refused(shared, &options.token).await,
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

/// Whether the API server does not know the plugin's account either. The agent's token is bound to its pod, and is refused
/// as soon as that is deleted by force; the plugin's is bound to nothing, so it is good for as long as its account is there.
async fn plugin_is_refused(shared: &Shared, source: &TokenSource) -> bool {
    match source {
        TokenSource::Account(..) => {}
        // It may be the agent's own.
        TokenSource::File(_) => return false,
    }
    let wanted = shared
        .with_installer(|installer| installer.wanted_credentials().map(str::to_owned))
        .await;
    match wanted {
        Some(kubeconfig) => credentials::is_refused(&kubeconfig).await,
        None => false,
    }
}

async fn fate(shared: &Shared, namespace: &str, name: &str) -> Fate {
    let api = Api::<DaemonSet>::namespaced(shared.client().clone(), namespace);
    match timeout(TIMEOUT, api.get_metadata_opt(name)).await {
        Ok(Ok(None)) => Fate::Goes,
        Ok(Ok(Some(found))) if found.metadata.deletion_timestamp.is_some() => Fate::Goes,
        Ok(Ok(Some(_))) => Fate::Stays,
        Ok(Err(kube::Error::Api(status))) if status.code == 401 => Fate::Unauthorized,
        Ok(Err(kube::Error::Api(status))) if status.code == 403 => Fate::Forbidden,
        Ok(Err(_)) | Err(_) => Fate::Unknown,
    }
}
