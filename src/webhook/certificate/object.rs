//! Single objects of the API server, each with the time that it is there.
//!
//! The API server's clock is the one that counts: it judges certificates, and it is the same for all replicas, whatever the
//! clocks of their nodes say. What is read may hold a key, so nothing of it is ever logged; a typed client would, where it
//! cannot be read.

use axum::http::header::{DATE, HeaderMap};
use axum::http::{Request, StatusCode};
use hyper::body::{Body as _, Bytes};
use kube::Client;
use kube::api::{GetParams, Patch, PatchParams, PostParams, WatchParams};
use kube::client::Body;
use kube::core::Status;
use kube::core::request::{self, Request as Builder};
use serde::Serialize;
use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::time::{Duration, SystemTime};
use tokio::time::{sleep, timeout};

/// How long one question may take.
const TIMEOUT: Duration = Duration::from_secs(10);

/// How long a watch lasts, in seconds: less than the 295 that an API server allows.
const WATCH: u32 = 290;

/// How long a change goes unnoticed where there is no watch.
const WITHOUT_WATCH: Duration = Duration::from_secs(30);

/// Who writes, for managed fields.
const MANAGER: &str = "outrigger-webhook";

/// An object, by its name.
#[derive(Clone)]
pub(crate) struct Object {
    client: Client,
    /// Its kind, and its namespace where it has one, for messages.
    shown: String,
    requests: Builder,
    name: String,
}

/// What the API server says of an object.
#[derive(Debug)]
pub(super) struct Answer {
    /// Seconds since 1970, by its clock.
    pub(super) now: i64,
    /// The object; nothing where there is none.
    pub(super) body: Option<Bytes>,
}

/// Why something cannot be done with an object.
#[derive(Debug, thiserror::Error)]
#[error("cannot {what} {object}: {why}")]
pub(super) struct Trouble {
    what: &'static str,
    object: String,
    why: String,
}

impl Object {
    /// A Secret.
    pub(crate) fn secret(client: Client, namespace: &str, name: &str) -> Self {
        Self {
            client,
            shown: format!("Secret {namespace}/{name}"),
            requests: Builder::new(format!("/api/v1/namespaces/{namespace}/secrets")),
            name: name.to_owned(),
        }
    }

    /// A `MutatingWebhookConfiguration`.
    pub(crate) fn registration(client: Client, name: &str) -> Self {
        Self {
            client,
            shown: format!("MutatingWebhookConfiguration {name}"),
            requests: Builder::new("/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"),
            name: name.to_owned(),
        }
    }

    /// Its name, without the namespace.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Reads it.
    pub(super) async fn read(&self) -> Result<Answer, Trouble> {
        let request = self.requests.get(&self.name, &GetParams::default());
        let (status, now, body) = self.send("read", request).await?;
        match status {
            StatusCode::NOT_FOUND => Ok(Answer { now, body: None }),
            status if status.is_success() => Ok(Answer { now, body: Some(body) }),
            status => Err(self.trouble("read", &reason(status, &body))),
        }
    }

    /// Creates it; says whether nobody else was quicker.
    pub(super) async fn create(&self, object: &impl Serialize) -> Result<bool, Trouble> {
        let body = serde_json::to_vec(object).map_err(|error| self.trouble("create", &error))?;
        let parameters = PostParams {
            field_manager: Some(MANAGER.to_owned()),
            ..PostParams::default()
        };
        self.write("create", self.requests.create(&parameters, body)).await
    }

    /// Changes it; says whether nobody else was quicker, which the patch must tell by the object's version.
    pub(super) async fn patch<P: Serialize + fmt::Debug>(&self, patch: &Patch<P>) -> Result<bool, Trouble> {
        let parameters = PatchParams {
            field_manager: Some(MANAGER.to_owned()),
            ..PatchParams::default()
        };
        self.write("patch", self.requests.patch(&self.name, &parameters, patch))
            .await
    }

    /// Waits until something happens to it after `version`, or may have happened.
    pub(super) async fn changed(&self, version: &str) {
        let watch = WatchParams::default()
            .fields(&format!("metadata.name={}", self.name))
            .timeout(WATCH)
            .disable_bookmarks();
        let Ok(request) = self.requests.watch_metadata(&watch, version) else {
            return sleep(WITHOUT_WATCH).await;
        };
        match self.client.send(request.map(Body::from)).await {
            Ok(response) if response.status().is_success() => {
                // Whatever comes is a sign to read it again, and so is the end.
                let mut body = response.into_body();
                let _event_or_end = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await;
            }
            Ok(_) | Err(_) => sleep(WITHOUT_WATCH).await,
        }
    }

    async fn write(
        &self,
        what: &'static str,
        request: Result<Request<Vec<u8>>, request::Error>,
    ) -> Result<bool, Trouble> {
        let (status, _, body) = self.send(what, request).await?;
        match status {
            StatusCode::CONFLICT => Ok(false),
            status if status.is_success() => Ok(true),
            status => Err(self.trouble(what, &reason(status, &body))),
        }
    }

    /// Sends a request: the status, the time and the body of the answer.
    async fn send(
        &self,
        what: &'static str,
        request: Result<Request<Vec<u8>>, request::Error>,
    ) -> Result<(StatusCode, i64, Bytes), Trouble> {
        let request = request.map_err(|error| self.trouble(what, &error))?;
        let answer = async {
            let response = self.client.send(request.map(Body::from)).await?;
            let (status, now) = (response.status(), time(response.headers()));
            Ok((status, now, response.into_body().collect_bytes().await?))
        };
        match timeout(TIMEOUT, answer).await {
            Ok(answer) => answer.map_err(|error: kube::Error| self.trouble(what, &deepest(&error))),
            Err(_) => Err(self.trouble(what, &"the API server does not answer")),
        }
    }

    pub(super) fn trouble(&self, what: &'static str, why: &dyn fmt::Display) -> Trouble {
        Trouble {
            what,
            object: self.to_string(),
            why: why.to_string(),
        }
    }
}

impl fmt::Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Object").field(&self.shown).finish()
    }
}

/// The time of an answer (RFC 9110, section 6.6.1), which every API server sends; ours where something between us takes it
/// away.
fn time(headers: &HeaderMap) -> i64 {
    let date = headers.get(DATE).and_then(|date| date.to_str().ok());
    let date = date.and_then(|date| httpdate::parse_http_date(date).ok());
    let time = date.unwrap_or_else(SystemTime::now);
    let seconds = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(seconds.as_secs()).unwrap_or(i64::MAX)
}

/// What the API server says of a refusal.
fn reason(status: StatusCode, body: &[u8]) -> String {
    match serde_json::from_slice::<Status>(body) {
        Ok(said) if !said.message.is_empty() => said.message,
        Ok(_) | Err(_) => status.to_string(),
    }
}

/// What is at the bottom of an error: "client error" alone helps nobody.
fn deepest(error: &dyn std::error::Error) -> String {
    let mut error = error;
    while let Some(deeper) = error.source() {
        error = deeper;
    }
    error.to_string()
}
