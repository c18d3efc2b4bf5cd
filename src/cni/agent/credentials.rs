//! The credentials that the plugin asks the API server with: a kubeconfig on the node, renewed long before it ends.
//!
//! They are those of an account that may get pods and nothing else, asked for with a `TokenRequest`; the agent's own, which
//! can do more, never lie on the node. Where there is no such account, a token file is copied each time it changes.
//! Nothing here logs a token.

use super::Shared;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::jiff::Timestamp;
use kube::api::PostParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::Duration;
use tokio::time::{sleep, timeout};
use tracing::{info, warn};

/// Life that is asked for, in seconds; the API server grants 10 minutes at least.
const LIFE: i64 = 3600;

/// A token is renewed after this part of its life.
const PART: u32 = 3;

/// Shortest time between two renewals, whatever life the API server grants.
const SHORTEST: Duration = Duration::from_secs(2);

/// Pauses after a failure double up to this.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// How often a token file is compared.
const FILE_INTERVAL: Duration = Duration::from_secs(2);

/// How often the credentials are tried, in case the API server forgets its keys.
const TRIAL: Duration = Duration::from_secs(120);

/// How long one call may take.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Where the plugin's token comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenSource {
    /// A service account, by namespace and name.
    Account(String, String),
    /// A file.
    File(PathBuf),
}

/// A token, and the time for which it is good.
struct Token {
    text: String,
    /// When it ends, in seconds since 1970, and how long that is; `None` where nobody says.
    life: Option<(i64, Duration)>,
}

/// Why there are no credentials.
#[derive(Debug, thiserror::Error)]
enum CredentialsError {
    #[error("no token for service account {0}: {1}")]
    Request(String, #[source] Box<kube::Error>),
    #[error("no answer in time")]
    Late,
    #[error("the API server granted no token")]
    Nothing,
    #[error("token file {0}: {1}")]
    File(PathBuf, std::io::Error),
}

/// Keeps the credentials good for as long as it is polled.
pub(super) async fn keep(shared: &Shared, source: &TokenSource) {
    let mut pause = Duration::from_secs(1);
    let mut known = String::new();
    loop {
        let rest = match token(shared.client(), source).await {
            Ok(token) => {
                pause = Duration::from_secs(1);
                if token.text != known {
                    known.clone_from(&token.text);
                    install(shared, &token).await;
                }
                good_for(shared, &token, source).await;
                continue;
            }
            Err(error) => {
                shared.metrics.renewed("failed");
                warn!(%error, "the plugin's credentials cannot be renewed, trying again");
                pause
            }
        };
        sleep(rest).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

async fn token(client: &Client, source: &TokenSource) -> Result<Token, CredentialsError> {
    let (namespace, name) = match source {
        TokenSource::Account(namespace, name) => (namespace, name),
        TokenSource::File(path) => return from_file(path),
    };
    let request = TokenRequest {
        spec: TokenRequestSpec {
            expiration_seconds: Some(LIFE),
            ..TokenRequestSpec::default()
        },
        ..TokenRequest::default()
    };
    let api = Api::<ServiceAccount>::namespaced(client.clone(), namespace);
    let parameters = PostParams::default();
    let granted = timeout(TIMEOUT, api.create_token_request(name, &parameters, &request)).await;
    let granted = granted.map_err(|_late| CredentialsError::Late)?;
    let granted = granted.map_err(|error| CredentialsError::Request(format!("{namespace}/{name}"), Box::new(error)))?;
    let status = granted.status.ok_or(CredentialsError::Nothing)?;
    let end = status.expiration_timestamp.0.as_second();
    let left = end.saturating_sub(Timestamp::now().as_second());
    Ok(Token {
        text: status.token,
        life: Some((end, Duration::from_secs(u64::try_from(left).unwrap_or_default()))),
    })
}

fn from_file(path: &PathBuf) -> Result<Token, CredentialsError> {
    #[expect(clippy::disallowed_methods, reason = "the kubelet writes it")]
    let text = std::fs::read_to_string(path).map_err(|error| CredentialsError::File(path.clone(), error))?;
    Ok(Token {
        text: text.trim().to_owned(),
        life: None,
    })
}

async fn install(shared: &Shared, token: &Token) {
    let text = kubeconfig(&shared.config, &token.text);
    shared.install_credentials(text).await;
    shared.metrics.renewed("done");
    if let Some((end, life)) = token.life {
        shared.metrics.credentials_end.set(end);
        info!(seconds = life.as_secs(), "the plugin's credentials are renewed");
    } else {
        info!("the plugin's credentials are renewed");
    }
}

/// Waits until it is time for another token: a part of its life, or until it is refused.
async fn good_for(shared: &Shared, token: &Token, source: &TokenSource) {
    let renewal = match token.life {
        Some((_, life)) => renewal(life),
        None => return sleep(FILE_INTERVAL).await,
    };
    let refused = async {
        loop {
            sleep(TRIAL).await;
            if is_refused(&kubeconfig(&shared.config, &token.text)).await {
                warn!(
                    ?source,
                    "the API server does not accept the plugin's credentials any more"
                );
                return;
            }
        }
    };
    tokio::select! {
        () = sleep(renewal) => {}
        () = refused => {}
    }
}

/// How long a token that has `life` left is used.
fn renewal(life: Duration) -> Duration {
    (life / PART).max(SHORTEST)
}

/// Whether the API server says that it does not know the credentials; silence says nothing.
async fn is_refused(kubeconfig: &str) -> bool {
    let ask = async {
        let file = Kubeconfig::from_yaml(kubeconfig).ok()?;
        let config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default())
            .await
            .ok()?;
        let api = Api::<k8s_openapi::api::core::v1::Pod>::namespaced(Client::try_from(config).ok()?, "kube-system");
        api.get_metadata_opt("outrigger-cni-status").await.err()
    };
    match timeout(TIMEOUT, ask).await {
        Ok(Some(kube::Error::Api(status))) => status.code == 401,
        Ok(_) | Err(_) => false,
    }
}

/// The credentials file, in the form of Linkerd's installer, for the API server of `config`.
fn kubeconfig(config: &Config, token: &str) -> String {
    let mut cluster = json!({"server": config.cluster_url.to_string().trim_end_matches('/')});
    if let Some(authority) = authority(config) {
        set(&mut cluster, "certificate-authority-data", STANDARD.encode(authority));
    }
    if let Some(name) = &config.tls_server_name {
        set(&mut cluster, "tls-server-name", name.clone());
    }
    let document = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "local", "cluster": cluster}],
        "users": [{"name": "outrigger-cni", "user": {"token": token}}],
        "contexts": [{"name": "linkerd-cni-context", "context": {"cluster": "local", "user": "outrigger-cni"}}],
        "current-context": "linkerd-cni-context",
    });
    format!("{document:#}\n")
}

fn set(object: &mut Value, key: &str, value: String) {
    if let Some(object) = object.as_object_mut() {
        object.insert(key.to_owned(), value.into());
    }
}

/// Who vouches for the API server, in PEM; read anew from its file where there is one.
fn authority(config: &Config) -> Option<String> {
    #[expect(clippy::disallowed_methods, reason = "the authority is a mounted file")]
    let file = config
        .root_cert_file
        .as_ref()
        .and_then(|path| std::fs::read_to_string(path).ok());
    file.or_else(|| Some(config.root_cert.as_ref()?.iter().map(|der| pem(der)).collect()))
}

fn pem(der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let lines: Vec<&str> = (0..text.len())
        .step_by(64)
        .filter_map(|start| text.get(start..text.len().min(start + 64)))
        .collect();
    format!(
        "-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n",
        lines.join("\n")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::pki_types::pem::PemObject as _;

    #[test]
    fn a_token_is_renewed_before_half_of_its_life() {
        for seconds in [600, 3600, 86_400] {
            assert!(renewal(Duration::from_secs(seconds)) < Duration::from_secs(seconds / 2));
        }
        assert_eq!(renewal(Duration::ZERO), SHORTEST);
    }

    #[test]
    fn the_file_is_a_kubeconfig_with_a_bracketed_address() {
        let mut config = Config::new("https://[fd00:10:96::1]:443".parse().unwrap());
        let der = rcgen::generate_simple_self_signed(["a".to_owned()])
            .unwrap()
            .cert
            .der()
            .to_vec();
        config.root_cert = Some(vec![der.clone()]);
        let file = Kubeconfig::from_yaml(&kubeconfig(&config, "t")).unwrap();
        let cluster = file.clusters[0].cluster.as_ref().unwrap();
        assert_eq!(cluster.server.as_deref(), Some("https://[fd00:10:96::1]:443"));
        let authority = STANDARD
            .decode(cluster.certificate_authority_data.as_ref().unwrap())
            .unwrap();
        let authority = String::from_utf8(authority).unwrap();
        let read = rustls::pki_types::CertificateDer::from_pem_slice(authority.as_bytes()).unwrap();
        assert_eq!(read.as_ref(), der);
        assert_eq!(file.current_context.as_deref(), Some("linkerd-cni-context"));
    }
}
