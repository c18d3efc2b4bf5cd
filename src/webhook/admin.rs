//! The port for probes and metrics, in plain HTTP: what Linkerd's has, and `/live`.

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use std::fmt;
use std::sync::Arc;

/// What the port tells about.
#[derive(Clone)]
pub struct Admin {
    ready: Arc<dyn Fn() -> Result<(), String> + Send + Sync>,
    metrics: Arc<dyn Fn() -> Result<String, fmt::Error> + Send + Sync>,
}

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
