//! Connections to servers, each for the requests of one client's connection: nothing of one client reaches another.

use crate::egress::host::Host;
use hyper::body::Incoming;
use hyper::client::conn::{TrySendError, http1, http2};
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use std::collections::HashMap;
use std::num::NonZeroU16;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tracing::debug;

/// Servers that one client's connection may have open at a time.
const SERVERS: usize = 8;

/// Bytes of a response's head, at most: more than servers send, and what hyper reads at a time.
const HEAD: usize = 64 << 10;

/// How often a silent server of HTTP/2 is asked whether it is still there, and how long it may take to say so.
const PING: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(15));

/// Which server, and how it is spoken to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Server {
    pub(super) host: Host,
    pub(super) port: NonZeroU16,
    pub(super) is_tls: bool,
    pub(super) is_http2: bool,
}

/// The servers that a client's connection has reached.
#[derive(Debug, Default)]
pub(super) struct Upstreams(Mutex<HashMap<Server, Upstream>>);

/// One of them.
#[derive(Debug)]
pub(super) enum Upstream {
    Http1(http1::SendRequest<Incoming>),
    Http2(http2::SendRequest<Incoming>),
}

impl Upstreams {
    /// One that is open and takes a request. Of HTTP/1 it is handed over: it takes one request after the other.
    pub(super) async fn take(&self, server: &Server) -> Option<Upstream> {
        let found = self.all().remove(server)?;
        if let Some(copy) = found.shared() {
            self.keep(server.clone(), copy);
        }
        found.readied().await
    }

    /// Keeps one for further requests.
    pub(super) fn keep(&self, server: Server, upstream: Upstream) {
        let mut all = self.all();
        if all.len() >= SERVERS && !all.contains_key(&server) {
            all.clear();
        }
        all.insert(server, upstream);
    }

    fn all(&self) -> MutexGuard<'_, HashMap<Server, Upstream>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Upstream {
    /// Begins HTTP over a connection.
    pub(super) async fn begin(
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        is_http2: bool,
    ) -> hyper::Result<Self> {
        let stream = TokioIo::new(stream);
        if is_http2 {
            let mut builder = http2::Builder::new(TokioExecutor::new());
            builder.timer(TokioTimer::new());
            builder.keep_alive_interval(PING.0).keep_alive_timeout(PING.1);
            let (sender, connection) = builder.handshake(stream).await?;
            tokio::spawn(run(connection));
            return Ok(Self::Http2(sender));
        }
        let mut builder = http1::Builder::new();
        let (sender, connection) = builder.max_buf_size(HEAD).handshake(stream).await?;
        tokio::spawn(run(connection));
        Ok(Self::Http1(sender))
    }

    /// Another hold of the same connection, where it takes several requests at a time.
    pub(super) fn shared(&self) -> Option<Self> {
        match self {
            Self::Http1(_) => None,
            Self::Http2(sender) => Some(Self::Http2(sender.clone())),
        }
    }

    /// Waits until it takes a request; nothing where it is closed.
    async fn readied(mut self) -> Option<Self> {
        let ready = match &mut self {
            Self::Http1(sender) => sender.ready().await,
            Self::Http2(sender) => sender.ready().await,
        };
        ready.is_ok().then_some(self)
    }

    /// Sends a request, which comes back where the connection ended before it took it.
    pub(super) async fn send(
        &mut self,
        request: Request<Incoming>,
    ) -> Result<Response<Incoming>, Box<TrySendError<Request<Incoming>>>> {
        let sent = match self {
            Self::Http1(sender) => sender.try_send_request(request).await,
            Self::Http2(sender) => sender.try_send_request(request).await,
        };
        sent.map_err(Box::new)
    }
}

/// Moves a connection until its requests are answered and nobody has more.
async fn run(connection: impl Future<Output = hyper::Result<()>>) {
    if let Err(error) = connection.await {
        debug!(%error, "connection to a server failed");
    }
}
