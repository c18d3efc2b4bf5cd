//! The accept loop: TCP, TLS, HTTP/1.1 and HTTP/2, with a limit on everything that a client can draw out.

mod activity;

use super::admin::Peer;
use super::clients::Refusals;
use super::metrics::{Connections, Counted};
use super::options::Timings;
use activity::{Activity, End, retire_idlest};
use axum::extract::Request;
use axum::http::Version;
use axum::http::header::{CONNECTION, HeaderValue};
use axum::{Extension, Router};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use std::collections::HashMap;
use std::future::pending;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{self, JoinSet};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tower::ServiceExt;
use tracing::{debug, error, warn};

/// Connections of a port that are open at the same time. An API server speaks HTTP/1.1 (Kubernetes#75791), a request at a time,
/// and keeps at most 25 that are idle. Each costs some 60 KiB while it is idle, most of it TLS: 15 MiB for all.
const CONNECTIONS: usize = 256;

/// Bytes of a head that are buffered, and of a body at a time: more than any API server's head has.
const BUFFER: usize = 64 << 10;

/// Requests that one HTTP/2 connection may have under way, as many as Go's server allows a client by default.
const STREAMS: u32 = 250;

/// Bytes that a client may send ahead on one stream, and on all of a connection: one body that waits for room must not hold
/// up the others of its connection.
const WINDOWS: (u32, u32) = (128 << 10, 1 << 20);

/// How often an idle HTTP/2 connection is asked whether it is still there, and how long it may take to say so.
const PING: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(15));

/// How long accepting pauses after an error that another attempt would meet again, such as too many open files.
const PAUSE: Duration = Duration::from_millis(200);

/// How long a connection that must end is given to say so: a client of HTTP/2 takes its next request elsewhere.
const FAREWELL: Duration = Duration::from_secs(1);

/// What clients may draw out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Connections that are open. One more takes the place of an idle one, or waits where all are busy.
    pub(super) connections: usize,
    /// How long a TLS handshake may take.
    pub(super) handshake: Duration,
    /// How long a connection may be open until the head of its first request is there.
    pub(super) head: Duration,
    /// How long it may idle after a request, the head of the next one included.
    pub(super) idle: Duration,
}

/// How far the port is from serving as usual.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Serving,
    /// It takes connections and requests, and says with each answer in HTTP/1.1 that the next request must go elsewhere.
    Parting,
    /// It takes no connections, and no requests but those under way.
    Stopped,
}

impl Limits {
    /// The limits of a server with `timings`.
    pub(super) fn within(timings: &Timings) -> Self {
        Self {
            connections: CONNECTIONS,
            handshake: timings.handshake,
            head: timings.head,
            idle: timings.idle,
        }
    }
}

/// A port that is listened on.
pub(super) struct Listener {
    socket: TcpListener,
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
    refusals: Refusals,
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
        // Its own deadline counts the wait for a request, too; `Activity` tells the two apart.
        http1.http1().header_read_timeout(None).max_buf_size(BUFFER);
        let mut http2 = auto::Builder::new(TokioExecutor::new()).http2_only();
        http2
            .http2()
            .timer(TokioTimer::new())
            .keep_alive_interval(PING.0)
            .keep_alive_timeout(PING.1)
            .initial_stream_window_size(WINDOWS.0)
            .initial_connection_window_size(WINDOWS.1)
            .max_concurrent_streams(STREAMS);
        let serving = Serving {
            router,
            tls,
            http1,
            http2,
            limits,
            metrics,
            refusals: Refusals::default(),
        };
        Self {
            socket,
            serving: Arc::new(serving),
        }
    }

    /// Serves until `stop`, from `part` on so that clients leave by themselves, then lets requests under way finish until
    /// `enough`; connections that are left are cut.
    ///
    /// A client of HTTP/1.1 that sends a request just when its idle connection is closed cannot know whether it was carried
    /// out: an API server gives up. One that was told with an answer opens another connection.
    pub(super) async fn serve(
        self,
        part: impl Future<Output = ()>,
        stop: impl Future<Output = ()>,
        enough: impl Future<Output = ()>,
    ) {
        let (stage, follow) = watch::channel(Stage::Serving);
        let mut open = Open::default();
        let (mut part, mut stop, mut enough) = (pin!(part), pin!(stop), pin!(enough));
        loop {
            let stream = tokio::select! {
                () = &mut stop => break,
                () = &mut part, if *stage.borrow() == Stage::Serving => {
                    stage.send_replace(Stage::Parting);
                    continue;
                }
                () = open.one_ends() => continue,
                (stream, _) = accept(&self.socket) => stream,
            };
            tokio::select! {
                () = &mut stop => break,
                () = open.place(self.serving.limits.connections) => {}
            }
            open.spawn(|activity| connection(Arc::clone(&self.serving), stream, follow.clone(), activity));
        }
        drop(self.socket);
        stage.send_replace(Stage::Stopped);
        while !open.tasks.is_empty() {
            tokio::select! {
                () = open.one_ends() => {}
                () = &mut enough => {
                    warn!(left = open.tasks.len(), "connections are cut off");
                    return;
                }
            }
        }
    }

    /// Serves for as long as it is polled.
    pub(super) async fn serve_always(self) {
        self.serve(pending(), pending(), pending()).await;
    }
}

/// The next connection, and where it comes from.
pub(crate) async fn accept(socket: &TcpListener) -> (TcpStream, SocketAddr) {
    loop {
        match socket.accept().await {
            Ok(accepted) => return accepted,
            // The client is gone already; the next one is not to blame.
            Err(error) if is_of_connection(&error) => debug!(%error, "connection lost before it was accepted"),
            Err(error) => {
                warn!(%error, "cannot accept connections");
                sleep(PAUSE).await;
            }
        }
    }
}

/// The connections that are open.
#[derive(Default)]
struct Open {
    tasks: JoinSet<()>,
    activities: HashMap<task::Id, Arc<Activity>>,
}

impl Open {
    fn spawn<F: Future<Output = ()> + Send + 'static>(&mut self, connection: impl FnOnce(Arc<Activity>) -> F) {
        let activity = Arc::new(Activity::new());
        let id = self.tasks.spawn(connection(Arc::clone(&activity))).id();
        self.activities.insert(id, activity);
    }

    /// Waits until a connection ends; for ever where there is none.
    async fn one_ends(&mut self) {
        let id = match self.tasks.join_next_with_id().await {
            Some(Ok((id, ()))) => id,
            Some(Err(error)) => {
                error!(%error, "a connection's task failed");
                error.id()
            }
            None => pending().await,
        };
        self.activities.remove(&id);
    }

    /// Waits until fewer than `limit` are open, for which idle ones are let go. Silent clients must not keep others out.
    async fn place(&mut self, limit: usize) {
        while self.tasks.len() >= limit {
            if retire_idlest(self.activities.values()) {
                debug!("too many connections, the idlest is let go");
            }
            // By the next look one that is busy now may be idle.
            let _ended_or_not = timeout(FAREWELL, self.one_ends()).await;
        }
    }
}

/// Whether accepting failed because of the connection that was to be accepted.
fn is_of_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

async fn connection(serving: Arc<Serving>, stream: TcpStream, stage: watch::Receiver<Stage>, activity: Arc<Activity>) {
    serving.metrics.accepted.inc();
    let _counted = Counted::new(&serving.metrics.open);
    if let Err(error) = stream.set_nodelay(true) {
        debug!(%error, "TCP_NODELAY not set");
    }
    let failure = match &serving.tls {
        None => {
            let peer = Peer(stream.peer_addr().map(|peer| peer.ip()).ok());
            let router = serving.router.clone().layer(Extension(peer));
            let service = (router, &serving.http1);
            serving.http(stream, service, stage, activity).await.err()
        }
        Some(tls) => match timeout(serving.limits.handshake, tls.accept(stream)).await {
            Ok(Ok(stream)) => {
                let http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
                let protocol = if http2 { &serving.http2 } else { &serving.http1 };
                let service = (serving.router.clone(), protocol);
                serving.http(stream, service, stage, activity).await.err()
            }
            Ok(Err(error)) => Some(serving.refusals.tell(&error)),
            Err(_) => Some(("handshake_late", "no handshake in time".to_owned())),
        },
    };
    if let Some((reason, error)) = failure {
        serving.metrics.failed(reason);
        debug!(reason, error, "connection failed");
    }
}

impl Serving {
    /// Serves requests until the client leaves, is too slow or too idle, or the server is to stop.
    async fn http(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        (router, protocol): (Router, &auto::Builder<TokioExecutor>),
        mut stage: watch::Receiver<Stage>,
        activity: Arc<Activity>,
    ) -> Result<(), (&'static str, String)> {
        let (requests, now) = (Arc::clone(&activity), stage.clone());
        let service = service_fn(move |request: Request<Incoming>| {
            let (busy, now, version) = (requests.request(), now.clone(), request.version());
            let answer = router.clone().oneshot(request);
            async move {
                let mut answer = answer.await;
                if let Ok(answer) = &mut answer
                    && version < Version::HTTP_2
                    && *now.borrow() != Stage::Serving
                {
                    answer
                        .headers_mut()
                        .insert(CONNECTION, HeaderValue::from_static("close"));
                }
                drop(busy);
                answer
            }
        });
        let mut connection = pin!(protocol.serve_connection(TokioIo::new(stream), service));
        let failed = |error: Box<dyn std::error::Error + Send + Sync>| ("http", error.to_string());
        let end = tokio::select! {
            served = &mut connection => return served.map_err(failed),
            end = activity.end(self.limits.head, self.limits.idle) => Some(end),
            _stopped = stage.wait_for(|stage| *stage == Stage::Stopped) => None,
        };
        connection.as_mut().graceful_shutdown();
        match end {
            None => connection.await.map_err(failed),
            Some(end) => {
                let _last_words = timeout(FAREWELL, connection).await;
                match end {
                    End::Idle => Ok(()),
                    End::Silent => Err(("silent", "no request in time".to_owned())),
                    End::Retired => Err(("retired", "its place was needed".to_owned())),
                }
            }
        }
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
mod tests;
