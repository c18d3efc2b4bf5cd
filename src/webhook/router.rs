//! HTTP: one handler for every path, as Linkerd's injector has it; POST alone.
//!
//! A request that is no review gets an error status, which the API server treats as the failure policy says; what a review
//! asks is always answered with 200. Reading, deciding and writing share one deadline; reading has one of its own within it.

mod body;

use super::answer::{Answer, App};
use super::metrics::{Counted, Metrics};
use super::options::Timings;
use super::review::{BODY_LIMIT, Outcome, Reply, Review, ReviewError, quote};
use crate::cluster::LookupError;
use crate::cluster::events::Events;
use crate::pod::Pod;
use axum::Router;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use body::Room;
use futures::FutureExt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::time::timeout;
use tracing::{error, info, warn};

/// What every request needs.
#[derive(Debug)]
pub(super) struct Entrance {
    app: App,
    events: Events,
    metrics: Arc<Metrics>,
    room: Room,
    deadline: Duration,
    body_deadline: Duration,
}

/// Why a request gets no review for an answer.
#[derive(Debug, thiserror::Error)]
enum Refusal {
    #[error("the body has more than {BODY_LIMIT} bytes")]
    TooLarge,
    #[error("the body has more JSON values than any pod")]
    TooHeavy,
    #[error("the body did not arrive within {} ms", .0.as_millis())]
    SlowBody(Duration),
    #[error("too much at once: no room for the body within {} ms", body::WAIT.as_millis())]
    Full,
    #[error("the body did not arrive: {0}")]
    Body(String),
    #[error("{0}")]
    Review(#[from] ReviewError),
    #[error("no answer within {} ms", .0.as_millis())]
    Late(Duration),
    #[error("the namespace is not known and cannot be read: {0}")]
    Lookup(#[from] LookupError),
    #[error("a fault of the webhook; its log says more")]
    Fault(&'static str),
}

impl Entrance {
    pub(super) fn new(app: App, events: Events, metrics: Arc<Metrics>, timings: &Timings) -> Self {
        Self {
            app,
            events,
            metrics,
            room: Room::new(),
            deadline: timings.request,
            body_deadline: timings.body,
        }
    }

    /// The router of the webhook's port.
    pub(super) fn router(self) -> Router {
        Router::new().fallback_service(post(handle).with_state(Arc::new(self)))
    }

    async fn answer(&self, request: Request, started: Instant) -> Result<Vec<u8>, Refusal> {
        let (body, place) = self.room.body(request, self.body_deadline).await?;
        let _tree = self.room.tree(&body).await?;
        let review = Review::parse(&body)?;
        drop((body, place));
        let answer = surviving(self.app.admit(&review), &review.uid).await??;
        let reply = Reply {
            version: review.version,
            uid: &review.uid,
            outcome: &answer.outcome,
            warnings: &answer.warnings,
            audit: &answer.audit,
        };
        let bytes = reply.to_json().map_err(|error| {
            error!(uid = quote(&review.uid), %error, "answer cannot be written");
            Refusal::Fault("encode")
        })?;
        self.note(&review, answer, started.elapsed());
        Ok(bytes)
    }

    /// Tells log, metrics and owner about an answer.
    fn note(&self, review: &Review, answer: Answer, elapsed: Duration) {
        log(review, &answer, elapsed);
        self.metrics.admission.answered(&answer.labels, elapsed.as_secs_f64());
        self.metrics.admission.warned(&answer.cautions);
        // Who only tries something out is told, and nobody else need be.
        if matches!(answer.outcome, Outcome::Denied { .. }) && !review.dry_run {
            self.metrics.admission.denied(&answer.refused_by);
        }
        if let Some(linkerd) = &answer.linkerd {
            self.metrics
                .count_as_linkerd(&linkerd.request, linkerd.skipped.as_deref());
        }
        if let Some(event) = answer.event.filter(|_| !review.dry_run) {
            self.events.publish(event);
        }
    }
}

async fn handle(State(entrance): State<Arc<Entrance>>, request: Request) -> Response {
    let started = Instant::now();
    let _counted = Counted::new(&entrance.metrics.admission.in_flight);
    let answer = timeout(entrance.deadline, entrance.answer(request, started)).await;
    match answer.unwrap_or(Err(Refusal::Late(entrance.deadline))) {
        Ok(bytes) => ([(CONTENT_TYPE, "application/json")], bytes).into_response(),
        Err(refusal) => {
            let (status, reason) = (refusal.status(), refusal.reason());
            entrance.metrics.admission.refused(reason);
            warn!(reason, status = status.as_u16(), message = %refusal, "request refused");
            (status, format!("{refusal}\n")).into_response()
        }
    }
}

impl Refusal {
    fn status(&self) -> StatusCode {
        match self {
            Self::TooLarge | Self::TooHeavy => StatusCode::PAYLOAD_TOO_LARGE,
            Self::SlowBody(_) => StatusCode::REQUEST_TIMEOUT,
            Self::Body(_) | Self::Review(_) => StatusCode::BAD_REQUEST,
            Self::Full | Self::Late(_) | Self::Lookup(_) => StatusCode::SERVICE_UNAVAILABLE,
            Self::Fault(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// The refusal in one word, for log and metrics.
    fn reason(&self) -> &'static str {
        match self {
            Self::TooLarge => "too_large",
            Self::TooHeavy => "too_heavy",
            Self::SlowBody(_) => "slow_body",
            Self::Full => "full",
            Self::Body(_) => "body",
            Self::Review(error) => error.code(),
            Self::Late(_) => "late",
            Self::Lookup(_) => "lookup",
            Self::Fault(reason) => reason,
        }
    }
}

/// Runs `answer`. One that panics costs its own request and nothing else: the API server's others, and the connection that
/// they share, must not suffer from one pod.
async fn surviving<T>(answer: impl Future<Output = T>, uid: &str) -> Result<T, Refusal> {
    AssertUnwindSafe(answer).catch_unwind().await.map_err(|panic| {
        let text = panic
            .downcast_ref::<&str>()
            .copied()
            .or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        error!(
            uid = quote(uid),
            panic = text.map(quote),
            "a request made the webhook panic"
        );
        Refusal::Fault("panic")
    })
}

/// The one line that the log has for an answer. What a client wrote is quoted, cut and never more than a name.
fn log(review: &Review, answer: &Answer, elapsed: Duration) {
    let name = answer.owner.as_deref().or_else(|| Pod::new(&review.object).name());
    let denied = match &answer.outcome {
        Outcome::Admitted { .. } => None,
        Outcome::Denied { message, .. } => Some(quote(message)),
    };
    info!(
        uid = quote(&review.uid),
        namespace = review.namespace.as_deref().map(quote),
        kind = quote(&review.kind.kind),
        name = name.map(quote),
        decision = answer.labels.decision,
        redirection = answer.labels.redirection,
        dry_run = review.dry_run,
        ms = (elapsed.as_secs_f64() * 1e6).round() / 1e3,
        denied,
        "answered"
    );
}

#[cfg(test)]
mod tests;
