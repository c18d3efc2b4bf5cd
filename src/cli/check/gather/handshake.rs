//! A TLS handshake with the webhook, to see what it presents. Nothing is sent after it.

use crate::cli::check::rules::certificates::Presented;
use crate::webhook::certificate::looker;
use rustls::ALL_VERSIONS;
use rustls::pki_types::ServerName;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

/// From outside a cluster its addresses lead nowhere, and nobody says so: a person waits for this.
const LIMIT: Duration = Duration::from_secs(3);

/// Speaks to `address` as if it were `host`.
pub(in crate::cli::check) async fn present(address: &str, host: &str) -> Presented {
    let unreachable = |why: String| Presented::Unreachable {
        why: format!("{address}: {why}"),
    };
    let name = match ServerName::try_from(host.to_owned()) {
        Ok(name) => name,
        Err(error) => return unreachable(format!("{host}: {error}")),
    };
    let stream = match timeout(LIMIT, TcpStream::connect(address)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return unreachable(error.to_string()),
        Err(_elapsed) => return unreachable(format!("no answer within {} s", LIMIT.as_secs())),
    };
    let broken = |why: String| Presented::Broken {
        why: format!("{address}: {why}"),
    };
    let config = match looker(ALL_VERSIONS) {
        Ok(config) => config,
        Err(error) => return broken(error.to_string()),
    };
    let connector = TlsConnector::from(Arc::new(config));
    let session = match timeout(LIMIT, connector.connect(name, stream)).await {
        Ok(Ok(session)) => session,
        Ok(Err(error)) => return broken(error.to_string()),
        Err(_elapsed) => return broken(format!("no handshake within {} s", LIMIT.as_secs())),
    };
    let (_, connection) = session.get_ref();
    Presented::Chain {
        chain: connection.peer_certificates().unwrap_or_default().to_vec(),
        address: address.to_owned(),
    }
}
