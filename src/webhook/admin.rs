//! The port for probes and metrics, in plain HTTP: what Linkerd's has, and `/live`.

use super::metrics::Metrics;
use crate::cluster::Cluster;
use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What the port tells about.
#[derive(Clone, Debug)]
pub(super) struct Admin {
    pub(super) metrics: Arc<Metrics>,
    pub(super) cluster: Arc<Cluster>,
    /// Whether the server is about to stop.
    pub(super) stopping: Arc<AtomicBool>,
}

impl Admin {
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

async fn ready(State(admin): State<Admin>) -> Response {
    if admin.cluster.settled() && !admin.stopping.load(Ordering::Relaxed) {
        "ok\n".into_response()
    } else {
        (StatusCode::INTERNAL_SERVER_ERROR, "not ready\n").into_response()
    }
}

async fn metrics(State(admin): State<Admin>) -> Response {
    match admin.metrics.encode() {
        Ok(text) => {
            let form = "application/openmetrics-text; version=1.0.0; charset=utf-8";
            ([(CONTENT_TYPE, form)], text).into_response()
        }
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
    }
}
