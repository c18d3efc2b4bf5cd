//! What the server is started with.

use crate::policy::pod_security::Server;
use serde_json::Value;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::time::Duration;

/// Names of Linkerd's injector: of the Service that API servers call, of the Secret with its certificate, and of the
/// registration.
pub const SERVICE: &str = "linkerd-proxy-injector";
/// See [`SERVICE`].
pub const SECRET: &str = "linkerd-proxy-injector-k8s-tls";
/// See [`SERVICE`].
pub const REGISTRATION: &str = "linkerd-proxy-injector-webhook-config";

/// The folder in which its certificate is mounted.
pub const TLS_FOLDER: &str = "/var/run/linkerd/tls";

/// What the server is started with. [`Options::in_cluster`] has the paths and ports of Linkerd's injector.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where reviews are answered, over TLS.
    pub listen: SocketAddr,
    /// Where probes and metrics are answered.
    pub admin_listen: SocketAddr,
    /// Where the server's certificate comes from.
    pub certificate: CertificateSource,
    /// The name of the `MutatingWebhookConfiguration` by which API servers call the server.
    pub registration: String,
    /// The name of the Service that it names, in the control plane's namespace.
    pub service: String,
    /// Who may connect; everybody where nothing says.
    pub clients: Option<ClientFiles>,
    /// The values document.
    pub values: Option<PathBuf>,
    /// Values that lie over that document.
    pub overrides: Option<PathBuf>,
    /// The trust anchors, in PEM.
    pub trust_anchors: Option<PathBuf>,
    /// The namespace of the control plane.
    pub linkerd_namespace: String,
    /// Where facts about the cluster come from.
    pub facts: FactSource,
    /// How long things may take.
    pub timings: Timings,
}

/// Where the server's certificate comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CertificateSource {
    /// `tls.crt` and `tls.key` of a folder.
    Folder(PathBuf),
    /// The Secret of that name in the control plane's namespace, which the replicas look after themselves.
    Secret(String),
    /// It is made for this process, and lasts as long.
    Process,
}

/// Who may connect to the port for reviews.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientFiles {
    /// The file with the certificates of the authority of their certificates, in PEM.
    pub authority: PathBuf,
    /// Their names: common names of their certificates, or DNS names. Where there are none, all names will do.
    pub names: Vec<String>,
}

/// Where facts about the cluster come from.
#[derive(Clone, Debug)]
pub enum FactSource {
    /// An API server: that of the kubeconfig, else of the usual one, else of the pod's service account.
    Server {
        /// The kubeconfig.
        kubeconfig: Option<PathBuf>,
    },
    /// Objects, and lists of them: each Namespace, Node, DaemonSet, ReplicaSet and Job; others are passed over.
    Manifests {
        /// The objects.
        objects: Vec<Value>,
        /// The API server.
        server: Option<Server>,
    },
}

/// How long things may take.
#[derive(Clone, Copy, Debug)]
pub struct Timings {
    /// How often files are compared.
    pub reload: Duration,
    /// From the first byte of a request to its answer. Less than the five seconds after which the API server gives up, so
    /// that it gets our reason instead of a silence.
    pub request: Duration,
    /// For a TLS handshake.
    pub handshake: Duration,
    /// For a body, from its head to its last byte: an API server sends it at once.
    pub body: Duration,
    /// For the head of a connection's first request; as long as Linkerd's injector.
    pub head: Duration,
    /// For a connection between two requests. More than the 90 seconds after which an API server leaves by itself, so that
    /// none is closed just when it is needed.
    pub idle: Duration,
    /// How long bundles vouch for a certificate of the replicas' own before it is shown: API servers learn of a bundle by a
    /// watch, most within a second; one whose watch has failed tries again after half a minute.
    pub settle: Duration,
    /// Between the first signal and the moment when no more connections are accepted: until then API servers' nodes must have
    /// heard that this pod is not to be sent to any more. kube-proxy waits for a second between two updates of its rules
    /// (`minSyncPeriod`), and takes several for one of many Services. API servers use the connections that they have once
    /// more meanwhile, and an answer tells them to leave. A refused connection may be a pod that is created without a proxy.
    pub linger: Duration,
    /// For requests that are under way after that. More than a request may take.
    pub drain: Duration,
}

impl Timings {
    /// Those of a server in a cluster.
    pub const DEFAULT: Self = Self {
        reload: Duration::from_secs(10),
        request: Duration::from_millis(4500),
        handshake: Duration::from_secs(5),
        body: Duration::from_secs(2),
        head: Duration::from_secs(15),
        idle: Duration::from_secs(2 * 60),
        settle: Duration::from_secs(2 * 60),
        linger: Duration::from_secs(10),
        drain: Duration::from_secs(5),
    };
}

impl Default for Timings {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl Options {
    /// In a cluster, where Linkerd's injector has everything.
    pub fn in_cluster() -> Self {
        Self {
            listen: any(8443),
            admin_listen: any(9995),
            certificate: CertificateSource::Folder(TLS_FOLDER.into()),
            registration: REGISTRATION.to_owned(),
            service: SERVICE.to_owned(),
            clients: None,
            values: Some("/var/run/linkerd/config/values".into()),
            overrides: None,
            trust_anchors: Some("/var/run/linkerd/identity/trust-roots/ca-bundle.crt".into()),
            linkerd_namespace: "linkerd".to_owned(),
            facts: FactSource::Server { kubeconfig: None },
            timings: Timings::default(),
        }
    }

    /// Alone, for a cluster that consists of `objects`: no files, and nobody to notice that it stops.
    pub fn standalone(objects: Vec<Value>, server: Option<Server>) -> Self {
        Self {
            certificate: CertificateSource::Process,
            values: None,
            trust_anchors: None,
            facts: FactSource::Manifests { objects, server },
            timings: Timings {
                linger: Duration::ZERO,
                ..Timings::default()
            },
            ..Self::in_cluster()
        }
    }
}

/// A text that is no address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no address: expected HOST:PORT or :PORT")]
pub struct AddressError(String);

/// Reads an address as Linkerd's flags have it: `:8443` is that port on every address of the node.
pub fn address(text: &str) -> Result<SocketAddr, AddressError> {
    let error = || AddressError(text.to_owned());
    if let Some(port) = text.strip_prefix(':') {
        return port.parse().map(any).map_err(|_number| error());
    }
    text.to_socket_addrs()
        .ok()
        .and_then(|mut found| found.next())
        .ok_or_else(error)
}

fn any(port: u16) -> SocketAddr {
    SocketAddr::from((std::net::Ipv6Addr::UNSPECIFIED, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_linkerds_flags_have_them() {
        assert_eq!(address(":8443").unwrap().to_string(), "[::]:8443");
        assert_eq!(address("127.0.0.1:0").unwrap().to_string(), "127.0.0.1:0");
        assert_eq!(address("[::1]:9995").unwrap().to_string(), "[::1]:9995");
        assert_eq!(address("localhost:1").unwrap().port(), 1);
        for text in ["", ":", "8443", ":65536", "127.0.0.1", "a b:1"] {
            assert_eq!(address(text), Err(AddressError(text.to_owned())));
        }
    }

    #[test]
    fn a_request_ends_before_the_api_server_gives_up_and_before_the_drain_does() {
        let timings = Timings::default();
        assert!(timings.request < Duration::from_secs(5));
        assert!(timings.request < timings.drain);
        assert!(timings.body * 2 < timings.request);
    }
}
