//! HTTP: every request of a connection is judged by itself, taken apart and written anew.

mod head;
mod upstream;

use super::activity::{Activity, Noted};
use super::judge::{Question, Trusted, Verdict};
use super::record::Failure;
use super::sniff::HEAD;
use super::{Client, Gateway, trace};
use crate::egress::connection::{Presented, Traffic};
use crate::egress::host::Host;
use crate::egress::ruling::Reason;
use http_body_util::{Either, Full};
use hyper::body::{Bytes, Incoming};
use hyper::http::uri::Scheme;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode, Version, header};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::{Mutex, watch};
use tracing::debug;
use upstream::{Server, Upstream, Upstreams};

/// Requests that one connection of HTTP/2 may have under way: as many as Go's server allows a client by default.
const STREAMS: u32 = 250;

/// How often a silent client of HTTP/2 is asked whether it is still there, and how long it may take to say so.
const PING: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(15));

/// What goes back to a client: what the server says, or a line of our own.
type Reply = Response<Either<Incoming, Full<Bytes>>>;

/// One client's connection.
struct Visit {
    gateway: Arc<Gateway>,
    client: Client,
    upstreams: Upstreams,
    /// Held while a connection for several requests at a time is opened, so that they share it.
    opening: Mutex<()>,
    activity: Arc<Activity>,
}

/// Serves the requests of a connection until the client leaves, is silent for too long, or the gateway drains.
pub(super) async fn serve(
    gateway: Arc<Gateway>,
    client: Client,
    (before, stream): (Vec<u8>, TcpStream),
    is_http2: bool,
    mut stopping: watch::Receiver<bool>,
) {
    let timings = gateway.timings;
    let activity = Arc::new(Activity::new());
    // Answers to pings of HTTP/2 are no activity: a client that asks for nothing would keep its place for ever.
    let heard = match is_http2 {
        true => Arc::default(),
        false => Arc::clone(&activity),
    };
    let stream = Noted::new(before, stream, heard);
    let visit = Arc::new(Visit {
        gateway,
        client,
        upstreams: Upstreams::default(),
        opening: Mutex::default(),
        activity: Arc::clone(&activity),
    });
    let visited = Arc::clone(&visit);
    let service = service_fn(move |request| {
        let visit = Arc::clone(&visited);
        async move { Ok::<_, Infallible>(visit.answer(request).await) }
    });
    let protocol = protocol(is_http2, timings.head);
    let mut connection = pin!(protocol.serve_connection(TokioIo::new(stream), service));
    let stopped = async {
        // Whoever could tell is gone where this fails: that is a stop, too.
        let _told = stopping.wait_for(|stopping| *stopping).await;
    };
    let ended = tokio::select! {
        served = &mut connection => Some(served),
        () = activity.silence(timings.idle) => return debug!("a connection was silent for too long"),
        () = stopped => None,
    };
    let served = if let Some(served) = ended {
        served
    } else {
        connection.as_mut().graceful_shutdown();
        tokio::select! {
            served = connection => served,
            () = activity.silence(timings.idle) => return,
        }
    };
    if let Err(error) = served {
        visit.broken(&*error);
    }
}

fn protocol(is_http2: bool, head: Duration) -> auto::Builder<TokioExecutor> {
    let builder = auto::Builder::new(TokioExecutor::new());
    if !is_http2 {
        let mut builder = builder.http1_only();
        let mut http1 = builder.http1();
        http1
            .timer(TokioTimer::new())
            .header_read_timeout(head)
            // A client that has asked everything still listens.
            .half_close(true)
            .max_buf_size(HEAD);
        return builder;
    }
    let mut builder = builder.http2_only();
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(PING.0)
        .keep_alive_timeout(PING.1)
        .max_header_list_size(u32::try_from(HEAD).unwrap_or(u32::MAX))
        .max_concurrent_streams(STREAMS);
    builder
}

impl Visit {
    async fn answer(&self, request: Request<Incoming>) -> Reply {
        self.activity.touch();
        let (mut head, body) = request.into_parts();
        let is_http2 = head.version == Version::HTTP_2;
        let traffic = match (is_http2, head::is_grpc(&head)) {
            (true, true) => Traffic::Grpc,
            (true, false) => Traffic::Http2,
            (false, _) => Traffic::Http,
        };
        let target = match head::target(&head) {
            Ok(target) => target,
            Err(fault) => return self.unreadable(traffic, &fault),
        };
        let question = Question::new(traffic, target.host.clone().into());
        let verdict = self.gateway.judge(&self.client, &question);
        if !verdict.passes() {
            return self.refused(&verdict);
        }
        let server = Server {
            host: target.host.clone(),
            port: verdict
                .origination
                .as_ref()
                .map_or(self.client.port, |origination| origination.port),
            is_tls: verdict.origination.is_some(),
            is_http2,
        };
        trace::rewrite(&mut head.headers, verdict.trace_headers);
        head::strip(&mut head.headers);
        let scheme = if server.is_tls { Scheme::HTTPS } else { Scheme::HTTP };
        if let Err(fault) = head::readdress(&mut head, &target, scheme) {
            return self.unreadable(traffic, &fault);
        }
        let pending = self.gateway.records.pending(&self.client, &verdict);
        match self.forward(server, &verdict, Request::from_parts(head, body)).await {
            Ok(response) => {
                drop(pending);
                returned(response)
            }
            Err(failure) => {
                pending.failed(&failure);
                line(StatusCode::BAD_GATEWAY, "failed", failure.code(), verdict.host.as_ref())
            }
        }
    }

    /// Refuses a request of which nobody can say whom it is for, or what it holds: by the policies' reason where they would close
    /// it, and for that it cannot go on anywhere else.
    fn unreadable(&self, traffic: Traffic, fault: &head::Fault) -> Reply {
        debug!(%fault, "a request was refused");
        let question = Question::new(traffic, fault.shows());
        let verdict = self.gateway.judge(&self.client, &question);
        if verdict.passes() || fault.is_of_form() {
            return self.refused(&verdict.but_refused(Reason::RequestMalformed));
        }
        self.refused(&verdict)
    }

    /// Notes that a connection ended because of what the client sent, which hyper has answered or broken off.
    fn broken(&self, error: &(dyn std::error::Error + 'static)) {
        debug!(error, "a connection of HTTP failed");
        let parsing = error.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_parse);
        if parsing {
            // Of HTTP/1 alone: what is wrong with HTTP/2 is no error of parsing.
            let question = Question::new(Traffic::Http, Presented::Malformed);
            let verdict = self.gateway.judge(&self.client, &question);
            self.gateway
                .records
                .decided(&self.client, &verdict.but_refused(Reason::RequestMalformed));
        }
    }

    fn refused(&self, verdict: &Verdict) -> Reply {
        self.gateway.records.decided(&self.client, verdict);
        line(
            StatusCode::FORBIDDEN,
            "denied",
            verdict.reason.code(),
            verdict.host.as_ref(),
        )
    }

    /// Sends a request to its server, over a connection that this client has already or over a new one.
    async fn forward(
        &self,
        server: Server,
        verdict: &Verdict,
        mut request: Request<Incoming>,
    ) -> Result<Response<Incoming>, Failure> {
        loop {
            let (mut upstream, is_fresh) = self.upstream(&server, verdict).await?;
            match upstream.send(request).await {
                Ok(response) => {
                    self.upstreams.keep(server, upstream);
                    return Ok(response);
                }
                Err(mut failed) => match failed.take_message() {
                    // The server had closed it meanwhile.
                    Some(unsent) if !is_fresh => request = unsent,
                    _ => return Err(Failure::Response(failed.into_error())),
                },
            }
        }
    }

    async fn upstream(&self, server: &Server, verdict: &Verdict) -> Result<(Upstream, bool), Failure> {
        // What is open already waits for nothing that is being opened.
        if let Some(upstream) = self.upstreams.take(server).await {
            return Ok((upstream, false));
        }
        let shared = match server.is_http2 {
            true => Some(self.opening.lock().await),
            false => None,
        };
        if let Some(upstream) = self.upstreams.take(server).await {
            return Ok((upstream, false));
        }
        let upstream = self.open(server, verdict).await?;
        if let Some(copy) = upstream.shared() {
            self.upstreams.keep(server.clone(), copy);
        }
        drop(shared);
        Ok((upstream, true))
    }

    async fn open(&self, server: &Server, verdict: &Verdict) -> Result<Upstream, Failure> {
        let gateway = &self.gateway;
        let trust = match verdict.origination.as_ref().map(|origination| &origination.trust) {
            None => None,
            Some(Trusted::Bundle) => Some(gateway.trust.current()),
            Some(Trusted::Named(authorities)) => Some(Arc::clone(authorities)),
            Some(Trusted::Missing) => return Err(Failure::NoAuthorities),
        };
        let stream = gateway
            .dial(&self.client, &server.host, server.port, verdict.is_unfenced)
            .await?;
        let activity = Arc::clone(&self.activity);
        let begun = match trust {
            None => Upstream::begin(Noted::new(Vec::new(), stream, activity), server.is_http2).await,
            Some(trust) => {
                let patience = gateway.timings.connect;
                let stream = trust.connect(&server.host, server.is_http2, stream, patience).await?;
                Upstream::begin(Noted::new(Vec::new(), stream, activity), server.is_http2).await
            }
        };
        begun.map_err(Failure::Response)
    }
}

/// What a server says, without what is about its own connection.
fn returned(response: Response<Incoming>) -> Reply {
    let (mut head, body) = response.into_parts();
    head::strip(&mut head.headers);
    if head.version != Version::HTTP_2 {
        head.version = Version::HTTP_11;
    }
    Response::from_parts(head, Either::Left(body))
}

/// One line that says what became of a request, why, and of which host.
fn line(status: StatusCode, what: &str, reason: &str, host: Option<&Host>) -> Reply {
    let host = host.map_or_else(|| "no host".to_owned(), ToString::to_string);
    let line = format!("egress {what}: {reason}: {host}\n");
    let mut response = Response::new(Either::Right(Full::new(Bytes::from(line))));
    *response.status_mut() = status;
    let kind = header::HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}
