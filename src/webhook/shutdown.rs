//! Signals to stop.

use axum::extract::{Request, State};
use axum::http::header::CONNECTION;
use axum::http::{HeaderValue, Version};
use axum::middleware::Next;
use axum::response::Response;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// How far the server has been told to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// It serves.
    Serving,
    /// It finishes what it has begun.
    Draining,
    /// It leaves at once.
    Aborting,
}

/// Follows SIGTERM and SIGINT: the first drains the server, the second aborts it.
pub fn signals() -> io::Result<watch::Receiver<Phase>> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let (phase, follow) = watch::channel(Phase::Serving);
    tokio::spawn(async move {
        for next in [Phase::Draining, Phase::Aborting] {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            phase.send_replace(next);
        }
    });
    Ok(follow)
}

/// Waits until the server has been told to be in `phase`, or past it.
pub(super) async fn reached(mut follow: watch::Receiver<Phase>, phase: Phase) {
    if follow.wait_for(|now| *now >= phase).await.is_err() {
        // Nobody is left to tell.
        std::future::pending::<()>().await;
    }
}
/// Has clients of HTTP/1.1 leave with their answer once the server is `stopping`. API servers are such clients of webhooks, and
/// keep connections: one that is closed while it idles may have a request under way, which fails.
pub(super) async fn dismiss(State(stopping): State<Arc<AtomicBool>>, request: Request, next: Next) -> Response {
    let leaves = request.version() <= Version::HTTP_11;
    let mut response = next.run(request).await;
    if leaves && stopping.load(Ordering::Relaxed) {
        response
            .headers_mut()
            .insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::Router;
    use axum::body::Body;
    use axum::middleware::from_fn_with_state;
    use axum::routing::get;
    use tower::ServiceExt as _;

    #[tokio::test]
    async fn clients_of_http_1_are_sent_away_once_the_server_is_stopping() {
        for (version, stopping, leaves) in [
            (Version::HTTP_11, true, true),
            (Version::HTTP_11, false, false),
            (Version::HTTP_2, true, false),
        ] {
            let state = Arc::new(AtomicBool::new(stopping));
            let router = Router::new().route("/", get(async || "answer"));
            let router = router.layer(from_fn_with_state(state, dismiss));
            let request = Request::builder().version(version).body(Body::empty()).unwrap();
            let response = router.oneshot(request).await.unwrap();
            let said = response.headers().get(CONNECTION).map(HeaderValue::as_bytes);
            assert_eq!(said, leaves.then_some(b"close".as_slice()), "{version:?} {stopping}");
        }
    }
}
