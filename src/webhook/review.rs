//! An `AdmissionReview` in, an `AdmissionReview` out: `admission.k8s.io/v1` and `v1beta1`.
//!
//! The envelope is our own: the patch is a base64 string and every denial has its code. Unknown fields are ignored, what
//! must be there is asked for by name, and nothing in a body can make this module panic.

mod reply;
mod weight;

pub use reply::{Outcome, Reply, WARNING_LIMIT};
pub use weight::weight;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::{Map, Value};
use std::fmt;
use std::str::Utf8Error;

/// The largest body that is read, in bytes: room for an object at the API server's own limit (3 MiB) and its old self.
pub const BODY_LIMIT: usize = 8 << 20;

/// How much of a client's text an error or a log line repeats, in bytes: the longest name that Kubernetes allows.
const QUOTE_LIMIT: usize = 253;

/// What the API server asks.
#[derive(Clone, Debug, PartialEq)]
pub struct Review {
    /// The version of the review, echoed in the answer.
    pub version: Version,
    /// The request's identity, echoed in the answer.
    pub uid: String,
    /// What kind of object is admitted.
    pub kind: GroupVersionKind,
    /// Through which sub-resource, such as `ephemeralcontainers`.
    pub sub_resource: Option<String>,
    /// The object's name, where the client chose one.
    pub name: Option<String>,
    /// The object's namespace, where its kind has one.
    pub namespace: Option<String>,
    /// What is done to the object.
    pub operation: Operation,
    /// Who does it.
    pub user: User,
    /// Whether nothing will be stored.
    pub dry_run: bool,
    /// The object, without `metadata.managedFields`.
    pub object: Value,
}

/// A version of the review.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// `admission.k8s.io/v1`
    V1,
    /// `admission.k8s.io/v1beta1`
    V1Beta1,
}

impl Version {
    /// The version as `apiVersion` has it.
    pub fn api_version(self) -> &'static str {
        match self {
            Self::V1 => "admission.k8s.io/v1",
            Self::V1Beta1 => "admission.k8s.io/v1beta1",
        }
    }
}

/// A kind of object in a version of its group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct GroupVersionKind {
    /// The API group, empty for the core group.
    pub group: String,
    /// The version.
    pub version: String,
    /// The kind.
    pub kind: String,
}

/// What is done to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Operation {
    /// It is created.
    Create,
    /// It is changed.
    Update,
    /// It is deleted.
    Delete,
    /// A connection to it is opened.
    Connect,
}

/// Who asks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct User {
    /// The user's name; `system:serviceaccount:NAMESPACE:NAME` for a service account.
    #[serde(rename = "username")]
    pub name: String,
    /// The user's groups.
    #[serde(deserialize_with = "null_as_default")]
    pub groups: Vec<String>,
}

/// Why a body is no question that can be answered.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReviewError {
    /// There is no body.
    #[error("the body is empty: expected an AdmissionReview in JSON")]
    Empty,
    /// The body is no text (RFC 8259, section 8.1).
    #[error("the body is no UTF-8 text: {0}")]
    Text(Utf8Error),
    /// The body ends too early.
    #[error("the body ends early: {0}")]
    Truncated(serde_json::Error),
    /// The body is no JSON.
    #[error("the body is no JSON: {0}")]
    Syntax(serde_json::Error),
    /// The body is JSON of another shape.
    #[error("the body is no AdmissionReview: {path}: {message}")]
    Shape {
        /// The field, dotted.
        path: String,
        /// What was expected and what was found.
        message: String,
    },
    /// The body is another kind of object.
    #[error("kind is {0:?}: expected \"AdmissionReview\"")]
    Kind(String),
    /// The review has a version that is not known.
    #[error("apiVersion is {0:?}: expected \"admission.k8s.io/v1\" or \"admission.k8s.io/v1beta1\"")]
    Version(String),
    /// A field that must be there is not, or is empty.
    #[error("{0} is missing")]
    Missing(&'static str),
}

impl ReviewError {
    /// The error in one word, for metrics.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::Truncated(_) => "truncated",
            Self::Text(_) | Self::Syntax(_) => "no_json",
            Self::Shape { .. } => "shape",
            Self::Kind(_) => "kind",
            Self::Version(_) => "version",
            Self::Missing(_) => "missing",
        }
    }
}

impl Review {
    /// Reads the body of a request.
    pub fn parse(body: &[u8]) -> Result<Self, ReviewError> {
        // Looked at once as a whole: text by text would cost more than reading it does.
        let text = std::str::from_utf8(body).map_err(ReviewError::Text)?;
        let envelope: Envelope = serde_json::from_str(text).map_err(|error| explain(text, error))?;
        if envelope.kind != "AdmissionReview" {
            return Err(ReviewError::Kind(quote(&envelope.kind).to_owned()));
        }
        let version = match envelope.api_version.as_str() {
            "admission.k8s.io/v1" => Version::V1,
            "admission.k8s.io/v1beta1" => Version::V1Beta1,
            other => return Err(ReviewError::Version(quote(other).to_owned())),
        };
        envelope.request.ok_or(ReviewError::Missing("request"))?.review(version)
    }
}

/// The start of a client's text, short enough to be repeated.
pub(super) fn quote(text: &str) -> &str {
    let ends = text.char_indices().map(|(start, c)| start + c.len_utf8());
    let end = ends.take_while(|end| *end <= QUOTE_LIMIT).last().unwrap_or(0);
    text.get(..end).unwrap_or_default()
}

/// A client's text with its control characters escaped: the log shows it, where each line is one event.
fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for c in text.chars() {
        match c.is_control() {
            true => line.extend(c.escape_debug()),
            false => line.push(c),
        }
    }
    line
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase", expecting = "an object")]
struct Envelope {
    api_version: String,
    kind: String,
    request: Option<Request>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", expecting = "an object")]
struct Request {
    uid: Option<String>,
    kind: Option<GroupVersionKind>,
    sub_resource: Option<String>,
    name: Option<String>,
    namespace: Option<String>,
    operation: Option<Operation>,
    #[serde(default)]
    user_info: User,
    dry_run: Option<bool>,
    object: Option<Object>,
}

impl Request {
    fn review(self, version: Version) -> Result<Review, ReviewError> {
        let full = |text: &String| !text.is_empty();
        let kind = self.kind.filter(|kind| full(&kind.kind));
        Ok(Review {
            version,
            uid: self.uid.filter(full).ok_or(ReviewError::Missing("request.uid"))?,
            kind: kind.ok_or(ReviewError::Missing("request.kind.kind"))?,
            sub_resource: self.sub_resource.filter(full),
            name: self.name.filter(full),
            namespace: self.namespace.filter(full),
            // The field is as old as the review; a hand-written one that lacks it means what the webhook is called for.
            operation: self.operation.unwrap_or(Operation::Create),
            user: self.user_info,
            dry_run: self.dry_run.unwrap_or(false),
            object: self.object.ok_or(ReviewError::Missing("request.object"))?.0,
        })
    }
}

/// An object without its managed fields: often half of its bytes, and nothing that a policy or injection reads.
struct Object(Value);

impl<'de> Deserialize<'de> for Object {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Level::Object
            .deserialize(deserializer)
            .map(|object| Self(Value::Object(object)))
    }
}

#[derive(Clone, Copy)]
enum Level {
    Object,
    Metadata,
}

impl<'de> DeserializeSeed<'de> for Level {
    type Value = Map<String, Value>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Level {
    type Value = Map<String, Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Self::Value, A::Error> {
        let mut object = Map::new();
        while let Some(key) = fields.next_key::<String>()? {
            let value = match (self, key.as_str()) {
                (Self::Metadata, "managedFields") => {
                    fields.next_value::<IgnoredAny>()?;
                    continue;
                }
                (Self::Object, "metadata") => Value::Object(fields.next_value_seed(Self::Metadata)?),
                (Self::Object | Self::Metadata, _) => fields.next_value()?,
            };
            object.insert(key, value);
        }
        Ok(object)
    }
}

fn null_as_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// Reads the body again to find out which field is wrong: only a faulty body pays for the path.
fn explain(body: &str, error: serde_json::Error) -> ReviewError {
    use serde_json::error::Category;
    match error.classify() {
        Category::Eof if body.trim_ascii().is_empty() => ReviewError::Empty,
        Category::Eof => ReviewError::Truncated(error),
        Category::Syntax | Category::Io => ReviewError::Syntax(error),
        Category::Data => {
            let mut json = serde_json::Deserializer::from_str(body);
            let again = serde_path_to_error::deserialize::<_, Envelope>(&mut json).err();
            let path = again
                .as_ref()
                .map_or_else(String::new, |again| again.path().to_string());
            let message = again.map_or(error, serde_path_to_error::Error::into_inner).to_string();
            ReviewError::Shape {
                path: one_line(quote(&path)),
                message: one_line(quote(&message)),
            }
        }
    }
}

#[cfg(test)]
mod tests;
