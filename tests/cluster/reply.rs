//! One request to the API server and all of its answer: the status, the object, the warnings.

use http_body_util::BodyExt;
use hyper::Request;
use hyper::header::{CONTENT_TYPE, HeaderMap, WARNING};
use kube::Client;
use kube::client::Body;
use serde_json::Value;

/// What to do with an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Get,
    Create,
    /// Merges (RFC 7396).
    Patch,
    Delete,
}

/// What the API server answered. Typed clients drop the warnings, and the fields newer than their types.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    pub(crate) code: u16,
    /// The object, or a `Status`; a text where the answer is no JSON.
    pub(crate) body: Value,
    /// The texts of the `Warning` headers, in order.
    pub(crate) warnings: Vec<String>,
}

impl Reply {
    /// Whether the request was carried out.
    pub(crate) fn accepted(&self) -> bool {
        (200..300).contains(&self.code)
    }

    /// The words of a refusal; empty for an object.
    pub(crate) fn message(&self) -> &str {
        self.body["message"].as_str().unwrap_or_default()
    }
}

/// Sends `object` to `path`. An error means that no HTTP answer came.
pub(crate) async fn call(
    client: &Client,
    verb: Verb,
    path: &str,
    object: Option<&Value>,
) -> Result<Reply, kube::Error> {
    let method = match verb {
        Verb::Get => "GET",
        Verb::Create => "POST",
        Verb::Patch => "PATCH",
        Verb::Delete => "DELETE",
    };
    let form = match verb {
        Verb::Get | Verb::Create | Verb::Delete => "application/json",
        Verb::Patch => "application/merge-patch+json",
    };
    let body = object.map_or_else(Vec::new, |object| object.to_string().into_bytes());
    let request = Request::builder().method(method).uri(path).header(CONTENT_TYPE, form);
    let response = client
        .send(request.body(Body::from(body)).expect("the path is valid"))
        .await?;
    let (code, warnings) = (response.status().as_u16(), warnings(response.headers()));
    let bytes = response.into_body().collect().await?.to_bytes();
    let body = serde_json::from_slice(&bytes).unwrap_or_else(|_| String::from_utf8_lossy(&bytes).into());
    Ok(Reply { code, body, warnings })
}

/// Creates `object` at `path`, and returns it as it is stored.
pub(crate) async fn create(client: &Client, path: &str, object: &Value) -> Value {
    let reply = call(client, Verb::Create, path, Some(object)).await;
    let reply = reply.expect("the API server answers");
    assert!(reply.accepted(), "{path}: {} {}", reply.code, reply.body);
    reply.body
}

/// The texts of headers of the form `299 - "text"`, the only one that the API server writes.
fn warnings(headers: &HeaderMap) -> Vec<String> {
    let text = |value: &str| {
        let quoted = value.strip_prefix("299 - \"")?.strip_suffix('"')?;
        Some(quoted.replace("\\\"", "\"").replace("\\\\", "\\"))
    };
    headers
        .get_all(WARNING)
        .iter()
        // The texts are UTF-8, which is more than headers are made for.
        .filter_map(|value| text(str::from_utf8(value.as_bytes()).ok()?))
        .collect()
}
