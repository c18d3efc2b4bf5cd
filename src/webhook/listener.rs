//! The accept loop: TCP, TLS, HTTP/1.1 and HTTP/2, with a limit on everything that a client can draw out.

use super::metrics::{Connections, Counted};
use axum::Router;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tracing::{debug, error, warn};

/// Connections of a port that are open at the same time. An API server keeps one or two.
pub(super) const CONNECTIONS: usize = 512;

/// Bytes of a head that are buffered, and of a body at a time: more than any API server's head has.
const BUFFER: usize = 64 << 10;

/// Requests that one HTTP/2 connection may have under way, as many as Go's server allows a client by default.
const STREAMS: u32 = 250;

/// How often an idle HTTP/2 connection is asked whether it is still there, and how long it may take to say so.
const PING: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(15));

/// How long accepting pauses after an error that another attempt would meet again, such as too many open files.
const PAUSE: Duration = Duration::from_millis(200);

/// What clients may draw out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Connections that are open; more wait in the kernel's queue.
    pub(super) connections: usize,
    /// How long a TLS handshake may take.
    pub(super) handshake: Duration,
    /// How long the head of a request may take; in HTTP/1.1 this is also how long a connection may idle.
    pub(super) head: Duration,
}

/// A port that is listened on.
pub(super) struct Listener {
    socket: TcpListener,
    slots: Arc<Semaphore>,
    serving: Arc<Serving>,
}

/// What every connection needs.
struct Serving {
    router: Router,
    tls: Option<TlsAcceptor>,
    http1: auto::Builder<TokioExecutor>,
    http2: auto::Builder<TokioExecutor>,
    limits: Limits,
    metrics: Connections,
}

impl Listener {
    /// Serves `router` on `socket` once [`Listener::serve`] runs; in plain HTTP/1.1 where there is no `tls`.
    pub(super) fn new(
        socket: TcpListener,
        router: Router,
        tls: Option<TlsAcceptor>,
        limits: Limits,
        metrics: Connections,
    ) -> Self {
        let mut http1 = auto::Builder::new(TokioExecutor::new()).http1_only();
        http1
            .http1()
            .timer(TokioTimer::new())
            .header_read_timeout(limits.head)
            .max_buf_size(BUFFER);
        let mut http2 = auto::Builder::new(TokioExecutor::new()).http2_only();
        http2
            .http2()
            .timer(TokioTimer::new())
            .keep_alive_interval(PING.0)
            .keep_alive_timeout(PING.1)
            .max_concurrent_streams(STREAMS);
        let serving = Serving {
            router,
            tls,
            http1,
            http2,
            limits,
            metrics,
        };
        Self {
            socket,
            slots: Arc::new(Semaphore::new(limits.connections)),
            serving: Arc::new(serving),
        }
    }

    /// The address that is listened on.
    pub(super) fn address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Serves until `stop`, then lets requests under way finish until `enough`; connections that are left are cut.
    pub(super) async fn serve(self, stop: impl Future<Output = ()>, enough: impl Future<Output = ()>) {
        let graceful = GracefulShutdown::new();
        let mut connections = JoinSet::new();
        let mut stop = pin!(stop);
        loop {
            tokio::select! {
                () = &mut stop => break,
                (stream, slot) = self.accept() => {
                    let watcher = graceful.watcher();
                    connections.spawn(connection(Arc::clone(&self.serving), stream, watcher, slot));
                }
                Some(ended) = connections.join_next() => {
                    if let Err(error) = ended {
                        error!(%error, "a connection's task failed");
                    }
                }
            }
        }
        drop(self.socket);
        tokio::select! {
            () = graceful.shutdown() => {}
            () = enough => warn!(left = connections.len(), "connections are cut off"),
        }
    }

    /// The next connection and its slot among those that may be open.
    async fn accept(&self) -> (TcpStream, OwnedSemaphorePermit) {
        loop {
            let Ok(slot) = Arc::clone(&self.slots).acquire_owned().await else {
                // Nobody closes the semaphore.
                return std::future::pending().await;
            };
            match self.socket.accept().await {
                Ok((stream, _)) => return (stream, slot),
                // The client is gone already; the next one is not to blame.
                Err(error) if is_of_connection(&error) => debug!(%error, "connection lost before it was accepted"),
                Err(error) => {
                    warn!(%error, "cannot accept connections");
                    sleep(PAUSE).await;
                }
            }
        }
    }
}

/// Whether accepting failed because of the connection that was to be accepted.
fn is_of_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

async fn connection(serving: Arc<Serving>, stream: TcpStream, watcher: Watcher, _slot: OwnedSemaphorePermit) {
    serving.metrics.accepted.inc();
    let _counted = Counted::new(&serving.metrics.open);
    if let Err(error) = stream.set_nodelay(true) {
        debug!(%error, "TCP_NODELAY not set");
    }
    let failure = match &serving.tls {
        None => serving.http(stream, &serving.http1, watcher).await.err(),
        Some(tls) => match timeout(serving.limits.handshake, tls.accept(stream)).await {
            Ok(Ok(stream)) => {
                let http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
                let protocol = if http2 { &serving.http2 } else { &serving.http1 };
                serving.http(stream, protocol, watcher).await.err()
            }
            Ok(Err(error)) => Some(("handshake", error.to_string())),
            Err(_) => Some(("handshake_late", "no handshake in time".to_owned())),
        },
    };
    if let Some((reason, error)) = failure {
        serving.metrics.failed(reason);
        debug!(reason, error, "connection failed");
    }
}

impl Serving {
    /// Serves requests until the client leaves, is too slow, or the server is to stop.
    async fn http(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        protocol: &auto::Builder<TokioExecutor>,
        watcher: Watcher,
    ) -> Result<(), (&'static str, String)> {
        let service = TowerToHyperService::new(self.router.clone());
        let connection = protocol.serve_connection(TokioIo::new(stream), service);
        watcher
            .watch(connection)
            .await
            .map_err(|error| ("http", error.to_string()))
    }
}

/// Listens on `address`; on every address of the node where it names none.
///
/// `[::]` takes IPv4 too, unless the node has no IPv6 at all.
pub(super) async fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    match TcpListener::bind(address).await {
        Err(_) if address.ip() == Ipv6Addr::UNSPECIFIED => {
            TcpListener::bind((Ipv4Addr::UNSPECIFIED, address.port())).await
        }
        bound => bound,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::routing::get;
    use std::future;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    #[tokio::test]
    async fn connections_over_the_limit_wait_for_their_turn() {
        let limits = Limits {
            connections: 1,
            handshake: Duration::from_secs(60),
            head: Duration::from_secs(60),
        };
        let (socket, metrics) = (bind(([127, 0, 0, 1], 0).into()).await.unwrap(), Connections::default());
        let router = Router::new().route("/", get("here\n"));
        let listener = Listener::new(socket, router, None, limits, metrics.clone());
        let address = listener.address().unwrap();
        tokio::spawn(listener.serve(future::pending(), future::pending()));

        let first = TcpStream::connect(address).await.unwrap();
        while metrics.accepted.get() == 0 {
            tokio::task::yield_now().await;
        }
        let mut second = TcpStream::connect(address).await.unwrap();
        second
            .write_all(b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n")
            .await
            .unwrap();
        for _ in 0..1000 {
            tokio::task::yield_now().await;
        }
        assert_eq!((metrics.accepted.get(), metrics.open.get()), (1, 1));

        drop(first);
        let mut answer = String::new();
        let read = timeout(Duration::from_secs(20), second.read_to_string(&mut answer));
        read.await.expect("the second is not served").unwrap();
        assert!(answer.ends_with("\r\n\r\nhere\n"), "{answer}");
    }
}
