//! The answer, written straight to bytes.

use super::Version;
use base64::display::Base64Display;
use base64::engine::general_purpose::STANDARD;
use serde::{Serialize, Serializer};
use std::borrow::Cow;

/// The longest warning, in characters; clients may cut longer ones, and the API server drops them all past 4,096.
pub const WARNING_LIMIT: usize = 120;

/// The longest message of a denial, in characters: it may name some hundred containers, and repeat a client's text. Who
/// reads it, reads it whole on a screen or not at all.
const MESSAGE_LIMIT: usize = 8192;

/// Bytes of an answer beside its patch: envelope, warnings and annotations of the usual length.
const ENVELOPE_SIZE: usize = 1024;

/// Whether the object is admitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is.
    Admitted {
        /// RFC 6902 operations as a JSON list, where the object is changed.
        patch: Option<Vec<u8>>,
    },
    /// It is not.
    Denied {
        /// The HTTP status code that the client gets, 400 to 599: 403 where a rule speaks, 422 for an invalid object.
        code: u16,
        /// What the client reads; cut at 8,192 characters.
        message: String,
    },
}

/// An answer to a review.
#[derive(Clone, Copy, Debug)]
pub struct Reply<'a> {
    /// The version of the review that is answered.
    pub version: Version,
    /// The `uid` of its request.
    pub uid: &'a str,
    /// Whether the object is admitted.
    pub outcome: &'a Outcome,
    /// What the client is told beside that. Each is cut at 120 characters, control characters become spaces.
    pub warnings: &'a [String],
    /// Keys and values for the audit log; the API server puts the webhook's name before each key.
    pub audit: &'a [(&'static str, String)],
}

impl Reply<'_> {
    /// Writes the review.
    pub fn to_json(self) -> Result<Vec<u8>, serde_json::Error> {
        let (patch, status) = match self.outcome {
            Outcome::Admitted { patch } => (patch.as_deref(), None),
            Outcome::Denied { code, message } => (None, Some((*code, message.as_str()))),
        };
        let review = AdmissionReview {
            api_version: self.version.api_version(),
            kind: "AdmissionReview",
            response: Response {
                uid: self.uid,
                allowed: status.is_none(),
                status: status.map(|(code, message)| Status {
                    code,
                    message: cut(message, MESSAGE_LIMIT),
                    reason: reason(code),
                }),
                patch: patch.map(Base64),
                patch_type: patch.map(|_| "JSONPatch"),
                warnings: self.warnings.iter().map(|text| presentable(text)).collect(),
                audit_annotations: Annotations(self.audit),
            },
        };
        let size = ENVELOPE_SIZE + base64::encoded_len(patch.map_or(0, <[u8]>::len), true).unwrap_or_default();
        let mut bytes = Vec::with_capacity(size);
        serde_json::to_writer(&mut bytes, &review)?;
        Ok(bytes)
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct AdmissionReview<'a> {
    api_version: &'static str,
    kind: &'static str,
    response: Response<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Response<'a> {
    uid: &'a str,
    allowed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<Status<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    patch: Option<Base64<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    patch_type: Option<&'static str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Annotations::is_empty")]
    audit_annotations: Annotations<'a>,
}

#[derive(Serialize)]
struct Status<'a> {
    code: u16,
    message: Cow<'a, str>,
    reason: &'static str,
}

struct Base64<'a>(&'a [u8]);

impl Serialize for Base64<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&Base64Display::new(self.0, &STANDARD))
    }
}

struct Annotations<'a>(&'a [(&'static str, String)]);

impl Annotations<'_> {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Serialize for Annotations<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(key, value)| (key, value)))
    }
}

/// `metav1.StatusReason` of an HTTP status code.
fn reason(code: u16) -> &'static str {
    match code {
        400 => "BadRequest",
        403 => "Forbidden",
        404 => "NotFound",
        422 => "Invalid",
        500 => "InternalError",
        503 => "ServiceUnavailable",
        _ => "Unknown",
    }
}

/// A warning as it can travel in an HTTP header: the API server drops one that holds a control character.
fn presentable(text: &str) -> Cow<'_, str> {
    let text = cut(text, WARNING_LIMIT);
    match text.contains(char::is_control) {
        true => Cow::Owned(text.replace(char::is_control, " ")),
        false => text,
    }
}

/// A text of at most `limit` characters; one that was cut ends in an ellipsis.
fn cut(text: &str, limit: usize) -> Cow<'_, str> {
    match text.char_indices().nth(limit) {
        None => Cow::Borrowed(text),
        Some(_) => Cow::Owned(text.chars().take(limit - 1).chain(['…']).collect()),
    }
}
