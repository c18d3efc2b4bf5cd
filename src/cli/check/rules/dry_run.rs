//! What the API server said to a pod that it was asked to create without storing it.

use crate::cli::check::code::Code;
use crate::cli::check::finding::Finding;
use crate::config::annotation::SETUP_IPTABLES;
use crate::inject::{NETWORK_VALIDATOR, PROXY, PROXY_INIT};
use crate::pod::{Pod, container_name};
use serde_json::Value;

/// The containers that injection adds: who refuses them names them.
const INJECTED: [&str; 3] = [PROXY, PROXY_INIT, NETWORK_VALIDATOR];

/// An answer to `dryRun=All`.
#[derive(Clone, Debug)]
pub(in crate::cli::check) struct DryRun {
    /// The namespace of the pod.
    pub(in crate::cli::check) namespace: String,
    /// Status of the answer.
    pub(in crate::cli::check) code: u16,
    /// The pod, or a `Status`.
    pub(in crate::cli::check) body: Value,
    /// Warnings beside it, in order.
    pub(in crate::cli::check) warnings: Vec<String>,
}

/// What a dry run can be compared with.
#[derive(Clone, Copy, Debug)]
pub(in crate::cli::check) struct Expected<'a> {
    /// Names of the injector's webhooks.
    pub(in crate::cli::check) webhooks: &'a [&'a str],
    /// The redirection that this program decides on; nothing where it sees less than the webhook does.
    pub(in crate::cli::check) redirection: Option<&'a str>,
}

/// Whether a finding says that nobody could be asked, wherever the pod is.
pub(in crate::cli::check) fn is_about_the_call(code: Code) -> bool {
    [
        Code::DryRunUnanswered,
        Code::DryRunTls,
        Code::DryRunTimeout,
        Code::DryRunConnectionRefused,
        Code::DryRunUnreachable,
    ]
    .contains(&code)
}

/// Judges an answer.
pub(in crate::cli::check) fn judge(answer: &DryRun, expected: &Expected<'_>) -> Finding {
    match (200..300).contains(&answer.code) {
        true => admitted(answer, expected),
        false => refused(answer, expected),
    }
}

fn admitted(answer: &DryRun, expected: &Expected<'_>) -> Finding {
    let namespace = &answer.namespace;
    let pod = Pod::new(&answer.body);
    let has = |name: &str| pod.all_containers().any(|container| container_name(container) == name);
    if has(PROXY) {
        let redirection = pod.annotation(SETUP_IPTABLES).unwrap_or_else(|| match has(PROXY_INIT) {
            true => "init-container",
            false => "cni",
        });
        return match expected.redirection {
            Some(wanted) if wanted != redirection => {
                let message = format!(
                    "a pod in {namespace} is given {redirection} by the webhook, where this outrigger decides on {wanted}"
                );
                Finding::warning(Code::DryRunDiffers, message)
            }
            _ => {
                let message = format!("a pod in {namespace} is injected, with {redirection}");
                Finding::ok(Code::DryRunInjected, message)
            }
        };
    }
    if let Some(warning) = skipped(&answer.warnings) {
        let message = format!("a pod in {namespace} is left alone by the webhook: {warning}");
        return Finding::warning(Code::DryRunSkipped, message);
    }
    let message = format!("a pod in {namespace} is created without a proxy, and nobody says why");
    Finding::failed(Code::DryRunNotInjected, message)
}

/// The webhook's word that it leaves a pod alone: `REASON: skip: …`.
fn skipped(warnings: &[String]) -> Option<&String> {
    let says = |warning: &&String| {
        let rest = warning.split_once(": ").map(|(_, rest)| rest);
        rest.is_some_and(|rest| rest.starts_with("skip"))
    };
    warnings.iter().find(says)
}

fn refused(answer: &DryRun, expected: &Expected<'_>) -> Finding {
    let namespace = &answer.namespace;
    let message = answer.body.get("message").and_then(Value::as_str).unwrap_or_default();
    let ours = |before: &str| {
        let of = |name: &&str| message.contains(&format!("{before} \"{name}\""));
        expected.webhooks.iter().any(of)
    };
    let said = |words: &str| format!("{words}: {message}");
    if ours("failed calling webhook") || ours("failed to call webhook") {
        return uncalled(message);
    }
    if ours("admission webhook") && message.contains("denied the request") {
        return Finding::failed(
            Code::DryRunDenied,
            said(&format!("the webhook denies a plain pod in {namespace}")),
        );
    }
    // RBAC's words; those of policies name the pod.
    if message.contains("forbidden: User ") {
        return Finding::unknown(Code::DryRunNotTried, message);
    }
    if INJECTED.iter().any(|name| message.contains(name)) {
        let words = format!("a plain pod in {namespace} is refused for what injection added");
        return Finding::failed(Code::DryRunInjectionRefused, said(&words));
    }
    Finding::warning(
        Code::DryRunRefused,
        said(&format!(
            "a plain pod in {namespace} is refused, before or after injection"
        )),
    )
}

/// Go's words for what kept the API server from an answer.
fn uncalled(message: &str) -> Finding {
    const CAUSES: [(Code, &[&str]); 4] = [
        (Code::DryRunTls, &["x509:", "tls:", "TLS", "certificate"]),
        (
            Code::DryRunTimeout,
            &[
                "context deadline exceeded",
                "Client.Timeout",
                "i/o timeout",
                "handshake timeout",
            ],
        ),
        (Code::DryRunConnectionRefused, &["connection refused"]),
        (Code::DryRunUnreachable, &[""]),
    ];
    // A handshake that takes too long is slow, not wrong.
    let slow = message.contains("handshake timeout");
    let fits = |(code, words): &&(Code, &[&str])| {
        !(slow && *code == Code::DryRunTls) && words.iter().any(|word| message.contains(word))
    };
    let code = CAUSES
        .iter()
        .find(fits)
        .map_or(Code::DryRunUnreachable, |(code, _)| *code);
    Finding::failed(code, format!("the API server cannot ask the webhook: {message}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::check::finding::Status;
    use serde_json::json;

    const NAME: &str = "linkerd-proxy-injector.linkerd.io";

    fn judged(code: u16, body: Value, warnings: &[&str]) -> (Code, Status) {
        let answer = DryRun {
            namespace: "shop".to_owned(),
            code,
            body,
            warnings: warnings.iter().map(|&text| text.to_owned()).collect(),
        };
        let expected = Expected {
            webhooks: &[NAME],
            redirection: Some("cni"),
        };
        let finding = judge(&answer, &expected);
        (finding.code, finding.status)
    }

    fn refusal(message: &str) -> (Code, Status) {
        judged(500, json!({"message": message}), &[])
    }

    #[test]
    fn a_call_that_failed_is_told_apart_by_the_servers_words() {
        let failed = |cause: &str| {
            let post = "failed to call webhook: Post \"https://linkerd-proxy-injector.linkerd.svc:443/?timeout=5s\"";
            refusal(&format!(
                "Internal error occurred: failed calling webhook \"{NAME}\": {post}: {cause}"
            ))
        };
        for (cause, code) in [
            (
                "dial tcp 10.0.0.1:443: connect: connection refused",
                Code::DryRunConnectionRefused,
            ),
            ("context deadline exceeded", Code::DryRunTimeout),
            ("dial tcp 10.0.0.1:443: i/o timeout", Code::DryRunTimeout),
            ("net/http: TLS handshake timeout", Code::DryRunTimeout),
            (
                "tls: failed to verify certificate: x509: certificate signed by unknown authority",
                Code::DryRunTls,
            ),
            ("remote error: tls: internal error", Code::DryRunTls),
            ("service \"linkerd-proxy-injector\" not found", Code::DryRunUnreachable),
            (
                "no endpoints available for service \"linkerd-proxy-injector\"",
                Code::DryRunUnreachable,
            ),
        ] {
            assert_eq!(failed(cause), (code, Status::Failed), "{cause}");
        }
    }

    #[test]
    fn a_refusal_names_who_refuses() {
        let denied = format!("admission webhook \"{NAME}\" denied the request: no way is left");
        assert_eq!(refusal(&denied), (Code::DryRunDenied, Status::Failed));
        let other = "admission webhook \"policy.example.com\" denied the request: no";
        assert_eq!(refusal(other), (Code::DryRunRefused, Status::Warning));
        let rbac = "pods is forbidden: User \"dev\" cannot create resource \"pods\" in API group \"\"";
        assert_eq!(refusal(rbac), (Code::DryRunNotTried, Status::Unknown));
        let level = "pods \"outrigger-check\" is forbidden: violates PodSecurity \"baseline:latest\": …";
        assert_eq!(refusal(level), (Code::DryRunRefused, Status::Warning));
        let default = "pods \"outrigger-check\" is forbidden: violates PodSecurity \"baseline:latest\": non-default \
                       capabilities (container \"linkerd-init\" must not include \"NET_ADMIN\", \"NET_RAW\" …)";
        assert_eq!(refusal(default), (Code::DryRunInjectionRefused, Status::Failed));
    }

    #[test]
    fn a_pod_without_proxy_was_left_alone_or_not_seen() {
        let bare = json!({"spec": {"containers": [{"name": "check"}]}});
        assert_eq!(
            judged(201, bare.clone(), &[]),
            (Code::DryRunNotInjected, Status::Failed)
        );
        let skip = "injection_enable_annotation_absent: skip: neither the namespace nor the pod …";
        assert_eq!(judged(201, bare, &[skip]), (Code::DryRunSkipped, Status::Warning));
        let injected = |redirection: &str| {
            json!({"metadata": {"annotations": {SETUP_IPTABLES: redirection}},
                "spec": {"initContainers": [{"name": "linkerd-proxy"}], "containers": [{"name": "check"}]}})
        };
        assert_eq!(judged(201, injected("cni"), &[]), (Code::DryRunInjected, Status::Ok));
        assert_eq!(
            judged(201, injected("init-container"), &[]),
            (Code::DryRunDiffers, Status::Warning)
        );
    }
}
