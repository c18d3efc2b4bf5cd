//! The answer, written straight to bytes.

use super::Version;
use base64_simd::STANDARD;
use serde::{Serialize, Serializer};
use std::borrow::Cow;

/// The longest warning, in characters; clients may cut longer ones.
pub const WARNING_LIMIT: usize = 120;

/// Characters of all warnings of an answer: past this the API server may drop them all.
const WARNINGS_LIMIT: usize = 4096;

/// The longest message of a denial, in characters: it may name some hundred containers, and repeat a client's text. Who
/// reads it, reads it whole on a screen or not at all.
const MESSAGE_LIMIT: usize = 8192;

/// What stands before the patch, which is base64.
const PATCH_FIELDS: &[u8] = br#","patchType":"JSONPatch","patch":""#;

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
    /// What the client is told beside that. Each is cut at 120 characters, control characters become spaces; what is past
    /// 4,096 characters in all is left out, and said to be.
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
                warnings: all_presentable(self.warnings),
                audit_annotations: Annotations(self.audit),
            },
        };
        let size = ENVELOPE_SIZE + patch.map_or(0, |patch| STANDARD.encoded_length(patch.len()));
        let mut bytes = Vec::with_capacity(size);
        serde_json::to_writer(&mut bytes, &review)?;
        if let Some(patch) = patch {
            append_patch(&mut bytes, patch);
        }
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

/// Puts `patch` behind the other fields of the response, which is the last of the review. A serializer would look for
/// something to escape in every character of it.
fn append_patch(review: &mut Vec<u8>, patch: &[u8]) {
    const END: &[u8] = b"}}";
    review.truncate(review.len().saturating_sub(END.len()));
    review.extend_from_slice(PATCH_FIELDS);
    STANDARD.encode_append(patch, review);
    review.push(b'"');
    review.extend_from_slice(END);
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

/// The warnings from the first on, as many as fit.
fn all_presentable(warnings: &[String]) -> Vec<Cow<'_, str>> {
    let mut room = WARNINGS_LIMIT - WARNING_LIMIT;
    let mut all: Vec<_> = warnings
        .iter()
        .map(|text| presentable(text))
        .take_while(|text| {
            let length = text.chars().count();
            let fits = length <= room;
            room = room.saturating_sub(length);
            fits
        })
        .collect();
    if all.len() < warnings.len() {
        let left_out = warnings.len() - all.len();
        all.push(Cow::Owned(format!(
            "warnings_left_out: {left_out} more warnings are left out"
        )));
    }
    all
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
