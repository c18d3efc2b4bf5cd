//! The way to the API server: a kubeconfig's, else the usual one, else that of the pod's service account.

use kube::config::{InferConfigError, KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};
use std::path::PathBuf;
use std::time::Duration;

/// How long the API server may take to accept a connection: a laptop off its VPN should learn of it soon.
const CONNECT: Duration = Duration::from_secs(5);

/// How long it may be silent where nobody says. A watch is silent until something happens; the API server ends it after
/// 290 s, and kube gives it up 5 s later. What is silent for longer is dead: a listing, or a watch that does not begin.
const SILENCE: Duration = Duration::from_secs(5 * 60);

/// Which API server, and as whom.
#[derive(Clone, Debug, Default)]
pub struct Access {
    /// The kubeconfig, instead of `$KUBECONFIG` and `~/.kube/config`.
    pub kubeconfig: Option<PathBuf>,
    /// The context of that file, instead of its current one.
    pub context: Option<String>,
    /// The user to act as.
    pub user: Option<String>,
    /// The groups to act as.
    pub groups: Vec<String>,
    /// How long it may be silent while it answers. Nothing for a client that watches: it waits a little longer than a watch
    /// lasts.
    pub silence: Option<Duration>,
}

/// Why there is no client of an API server.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The kubeconfig cannot be used.
    #[error(transparent)]
    Kubeconfig(#[from] KubeconfigError),
    /// No way to an API server is known.
    #[error(transparent)]
    NoServer(#[from] InferConfigError),
    /// The client cannot be set up.
    #[error(transparent)]
    Client(#[from] kube::Error),
}

/// A client of the API server. Nothing is asked of it yet.
pub async fn connect(access: &Access) -> Result<Client, ConnectError> {
    Ok(Client::try_from(configure(access).await?)?)
}

/// What such a client is made with.
///
/// # Errors
/// Where no way to an API server is known.
pub async fn configure(access: &Access) -> Result<Config, ConnectError> {
    let options = KubeConfigOptions {
        context: access.context.clone(),
        ..KubeConfigOptions::default()
    };
    let mut config = match &access.kubeconfig {
        Some(path) => Config::from_custom_kubeconfig(Kubeconfig::read_from(path)?, &options).await?,
        None if access.context.is_some() => Config::from_kubeconfig(&options).await?,
        None => Config::infer().await?,
    };
    config.connect_timeout = Some(CONNECT);
    config.read_timeout = Some(access.silence.unwrap_or(SILENCE));
    // Else the time that a connection idled before a question would count.
    config.reset_reader_on_write = true;
    if access.user.is_some() {
        config.auth_info.impersonate.clone_from(&access.user);
        config.auth_info.impersonate_groups = Some(access.groups.clone());
    }
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn no_client_waits_for_ever() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kubeconfig");
        #[expect(clippy::disallowed_methods, reason = "a kubeconfig is a file")]
        std::fs::write(
            &path,
            r#"{"current-context": "c", "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}], "users": [{"name": "u", "user": {}}]}"#,
        )
        .unwrap();
        let waits = async |silence| {
            let access = Access {
                kubeconfig: Some(path.clone()),
                silence,
                ..Access::default()
            };
            configure(&access).await.unwrap().read_timeout.unwrap()
        };
        assert_eq!(waits(Some(CONNECT)).await, CONNECT);
        // As long as a watch lasts, and no more than is needed.
        assert!((295..=330).contains(&waits(None).await.as_secs()));
    }
}
