//! The port for probes and metrics, in plain HTTP: what Linkerd's has, `/live`, and `/log-level`.

use super::log;
use axum::body::{Body, to_bytes};
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Extension, Router};
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;
use tracing::{error, info};

/// Longest word that is read for a level.
const WORD: usize = 64;

/// How long it may take to arrive.
const WAIT: Duration = Duration::from_secs(2);

/// What the port tells about.
#[derive(Clone)]
pub struct Admin {
    ready: Arc<dyn Fn() -> Result<(), String> + Send + Sync>,
    metrics: Arc<dyn Fn() -> Result<String, fmt::Error> + Send + Sync>,
}

/// Where a request comes from; nothing where that is not known.
#[derive(Clone, Copy, Debug)]
pub(super) struct Peer(pub(super) Option<IpAddr>);

impl Admin {
    /// A port that asks `ready`, whose error says why not, and `metrics` each time.
    pub fn new(
        ready: impl Fn() -> Result<(), String> + Send + Sync + 'static,
        metrics: impl Fn() -> Result<String, fmt::Error> + Send + Sync + 'static,
    ) -> Self {
        Self {
            ready: Arc::new(ready),
            metrics: Arc::new(metrics),
        }
    }

    /// The router of the port.
    pub(super) fn router(self) -> Router {
        Router::new()
            .route("/live", get("ok\n"))
            .route("/ping", get("pong\n"))
            .route("/ready", get(ready))
            .route("/metrics", get(metrics))
            .route("/log-level", get(level).put(set_level))
            .with_state(self)
    }
}

impl fmt::Debug for Admin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Admin").finish_non_exhaustive()
    }
}

async fn ready(State(admin): State<Admin>) -> Response {
    match (admin.ready)() {
        Ok(()) => "ok\n".into_response(),
        Err(why) => (StatusCode::INTERNAL_SERVER_ERROR, format!("not ready: {why}\n")).into_response(),
    }
}

async fn metrics(State(admin): State<Admin>) -> Response {
    match (admin.metrics)() {
        Ok(text) => {
            let form = "application/openmetrics-text; version=1.0.0; charset=utf-8";
            ([(CONTENT_TYPE, form)], text).into_response()
        }
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
    }
}

/// How much is logged now.
async fn level() -> Response {
    match log::level() {
        Some(level) => format!("{level}\n").into_response(),
        None => (StatusCode::NOT_FOUND, "this process has no log of its own\n").into_response(),
    }
}

/// Logs more or less from now on, until the process ends: as of the proxy's `/proxy-log-level`, only for who is in the pod, or
/// comes by `kubectl port-forward`, which needs a right of its own.
async fn set_level(Extension(Peer(peer)): Extension<Peer>, body: Body) -> Response {
    if !peer.is_some_and(|peer| peer.to_canonical().is_loopback()) {
        let why = "only from within the pod, or by kubectl port-forward\n";
        return (StatusCode::FORBIDDEN, why).into_response();
    }
    let word = match timeout(WAIT, to_bytes(body, WORD)).await {
        Ok(Ok(word)) => String::from_utf8_lossy(&word).trim().to_owned(),
        Ok(Err(_)) | Err(_) => String::new(),
    };
    let before = log::level();
    let level = match word.parse() {
        Ok(level) => level,
        Err(error) => return (StatusCode::BAD_REQUEST, format!("{error}\n")).into_response(),
    };
    if let Err(error) = log::change(level) {
        error!(%error, "the log level cannot be changed");
        return (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response();
    }
    if before != Some(level) {
        info!(before = before.map(tracing::field::display), after = %level, "log level changed");
    }
    format!("{level}\n").into_response()
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::Request;
    use tower::ServiceExt;

    async fn put(peer: Option<&str>, body: &'static str) -> (StatusCode, String) {
        let router = Admin::new(|| Ok(()), || Ok(String::new())).router();
        let peer = Peer(peer.map(|peer| peer.parse().unwrap()));
        let request = Request::put("/log-level").body(Body::from(body)).unwrap();
        let response = router.layer(Extension(peer)).oneshot(request).await.unwrap();
        let status = response.status();
        let text = to_bytes(response.into_body(), 1000).await.unwrap();
        (status, String::from_utf8(text.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn only_who_is_in_the_pod_changes_how_much_is_logged() {
        for peer in [None, Some("192.0.2.1"), Some("2001:db8::1"), Some("::ffff:192.0.2.1")] {
            let (status, text) = put(peer, "debug").await;
            assert_eq!(status, StatusCode::FORBIDDEN, "{peer:?}");
            assert!(text.contains("kubectl port-forward"), "{text}");
        }
        for peer in ["127.0.0.1", "::1", "::ffff:127.0.0.1"] {
            let (status, text) = put(Some(peer), "loud").await;
            assert_eq!(status, StatusCode::BAD_REQUEST, "{peer}");
            assert!(text.starts_with("\"loud\" is no log level"), "{text}");
        }
        let long = "a word that is longer than any level, and would only fill memory and log of whoever reads it";
        assert_eq!(put(Some("::1"), long).await.0, StatusCode::BAD_REQUEST);
    }
}
