//! Telling by the API server's reply who refuses a pod, or that nobody knows.
//!
//! Texts: those of kube-apiserver 1.22 to 1.36 (`admission/plugin/webhook/errors`, `admission/plugin/policy/validating`,
//! `plugin/resourcequota`, `plugin/limitranger`, `pod-security-admission`), and of OpenShift's.

use super::answer::{Answer, Cause, Refuser};

// Status codes: RFC 9110.
const UNAUTHORIZED: u16 = 401;
const FORBIDDEN: u16 = 403;
const NOT_FOUND: u16 = 404;
const UNPROCESSABLE: u16 = 422;
const TOO_MANY: u16 = 429;
const GATEWAY_TIMEOUT: u16 = 504;
const SERVER_ERRORS: std::ops::Range<u16> = 500..600;

/// What the reply with status `code` and the words `message` says of the pod that was to be created.
///
/// Whoever writes a policy chooses its words, so the beginning of the text counts, which is the API server's, before
/// anything that may stand after it.
pub fn classify(code: u16, message: &str) -> Answer {
    if (200..300).contains(&code) {
        return Answer::Admitted;
    }
    let text = message.strip_prefix("Internal error occurred: ").unwrap_or(message);
    if let Some(answer) = of_webhook(text) {
        return answer;
    }
    let detail = text.split_once(" is forbidden: ").map_or(text, |(_, detail)| detail);
    if let Some(answer) = of_policy(detail) {
        return answer;
    }
    if let Some(cause) = of_another(detail) {
        return Answer::unknown(cause, detail);
    }
    match code {
        FORBIDDEN => Answer::refused(Refuser::Plugin, detail),
        UNPROCESSABLE => Answer::refused(Refuser::Validation, detail),
        UNAUTHORIZED => Answer::unknown(Cause::Forbidden, detail),
        NOT_FOUND => Answer::unknown(Cause::NoNamespace, detail),
        GATEWAY_TIMEOUT => Answer::unknown(Cause::Timeout, detail),
        _ if code == TOO_MANY || SERVER_ERRORS.contains(&code) => Answer::unknown(Cause::Busy, detail),
        _ => Answer::unknown(Cause::Other, detail),
    }
}

/// What a webhook says, or why it says nothing.
fn of_webhook(text: &str) -> Option<Answer> {
    if let Some((name, rest)) = quoted(text, "failed calling webhook ", '"') {
        return Some(Answer::unknown(Cause::WebhookFails, &format!("{name}{rest}")));
    }
    let (name, rest) = quoted(text, "admission webhook ", '"')?;
    if rest.starts_with(" does not support dry run") {
        return Some(Answer::unknown(Cause::NoDryRun, name));
    }
    let words = rest.strip_prefix(" denied the request")?;
    let words = words.strip_prefix(": ").unwrap_or(words);
    Some(Answer::refused(Refuser::Webhook(name.to_owned()), words))
}

/// What a policy of the API server's own says.
fn of_policy(detail: &str) -> Option<Answer> {
    if let Some((policy, rest)) = quoted(detail, "violates PodSecurity ", '"') {
        let by = Refuser::named("pod-security", policy)?;
        return Some(Answer::refused(by, rest.strip_prefix(": ").unwrap_or(rest)));
    }
    let (name, rest) = quoted(detail, "ValidatingAdmissionPolicy ", '\'')?;
    let words = rest.split_once(" denied request: ").map_or(rest, |(_, words)| words);
    let by = Refuser::ValidatingAdmissionPolicy(name.to_owned());
    Some(Answer::refused(by, words))
}

/// Something else than a policy for which a probe is needed.
fn of_another(detail: &str) -> Option<Cause> {
    let starts = |beginnings: &[&str]| beginnings.iter().any(|beginning| detail.starts_with(beginning));
    let found = [
        (
            starts(&[
                "exceeded quota: ",
                "failed quota: ",
                "status unknown for quota: ",
                "insufficient quota ",
            ]),
            Cause::Quota,
        ),
        (is_limit_range(detail), Cause::LimitRange),
        (
            starts(&[
                "unable to validate against any security context constraint",
                "unable to validate against any pod security policy",
                "PodSecurityPolicy: ",
                "no providers available to validate pod request",
            ]),
            Cause::Grant,
        ),
        (
            starts(&["unable to create new content in namespace "]) && detail.contains("being terminated"),
            Cause::Terminating,
        ),
        (starts(&["error looking up service account "]), Cause::NoAccount),
        (
            starts(&["User \""]) && detail.contains(" cannot create resource "),
            Cause::Forbidden,
        ),
    ];
    found.into_iter().find_map(|(applies, cause)| applies.then_some(cause))
}

/// Whether a quota demands figures of every container.
pub(super) fn demands_figures(words: &str) -> bool {
    words.starts_with("failed quota: ") && words.contains("must specify ")
}

/// `maximum cpu usage per Container is 1, but limit is 2`, alone or in a list in brackets.
fn is_limit_range(detail: &str) -> bool {
    let first = detail.strip_prefix('[').unwrap_or(detail);
    let bound = first.starts_with("maximum ") || first.starts_with("minimum ");
    (bound && first.contains(" usage per ")) || first.contains(" max limit to request ratio per ")
}

/// What stands in quotes after `before`, and what comes after them.
fn quoted<'t>(text: &'t str, before: &str, quote: char) -> Option<(&'t str, &'t str)> {
    text.strip_prefix(before)?.strip_prefix(quote)?.split_once(quote)
}
