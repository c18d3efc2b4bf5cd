//! The checks of seccomp and `AppArmor` profiles, and how annotations stand in for their fields.
//!
//! Both kinds of profile began as annotations. A server that stores a pod brings annotations and fields in step, by its
//! release, before it asks Pod Security; for the time of a check the functions here read as if that had been done.

use std::collections::BTreeSet;

use serde_json::Value;

use super::evaluation::Finding;
use super::subject::{Container, Offenders, Subject};
use super::wording::{containers, plural, quoted, setters};
use crate::pod;
use crate::policy::quoting::go_quoted;

/// Annotation of the pod's seccomp profile.
const SECCOMP_OF_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
/// Prefix of the annotation of a container's seccomp profile; the container's name follows.
const SECCOMP_OF_CONTAINER: &str = "container.seccomp.security.alpha.kubernetes.io/";
/// Prefix of the annotation of a container's `AppArmor` profile; the container's name follows.
const APP_ARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";

/// `appArmorProfile`
pub(super) fn app_armor(subject: &Subject<'_>) -> Option<Finding> {
    let annotations = app_armor_annotations(subject);
    // Before 1.30 there are no fields and no sentence.
    if !subject.server.since(30) {
        let bad: Vec<_> = annotations.into_iter().collect();
        let detail = bad.join(", ");
        return (!bad.is_empty()).then(|| Finding {
            reason: app_armor_reason(bad.len()),
            detail,
        });
    }
    let of_pod = app_armor_of_pod(subject).filter(|kind| !is_allowed(kind));
    let mut found = subject.offenders(|container| app_armor_of(subject, container).filter(|kind| !is_allowed(kind)));
    found.values.extend(of_pod);
    let bad = found.values.len() + annotations.len();
    if bad == 0 {
        return None;
    }
    let mut who = Vec::new();
    if of_pod.is_some() || !found.names.is_empty() {
        who.push(setters(of_pod.is_some(), &found.names));
    }
    if !annotations.is_empty() {
        who.push(plural(annotations.len(), "annotation", "annotations").to_owned());
    }
    let values = found
        .values
        .iter()
        .copied()
        .chain(annotations.iter().map(String::as_str));
    let detail = format!(
        "{} must not set AppArmor profile type to {}",
        who.join(" and "),
        quoted(values)
    );
    Some(Finding {
        reason: app_armor_reason(bad),
        detail,
    })
}

fn app_armor_reason(values: usize) -> &'static str {
    plural(values, "forbidden AppArmor profile", "forbidden AppArmor profiles")
}

/// The bad `AppArmor` annotations as `key="value"`, those of no container too.
fn app_armor_annotations(subject: &Subject<'_>) -> BTreeSet<String> {
    let allowed = |value: &str| matches!(value, "" | "runtime/default") || value.starts_with("localhost/");
    let present = subject
        .annotations()
        .filter(|&(key, value)| key.starts_with(APP_ARMOR) && !allowed(value));
    let mut bad: BTreeSet<_> = present
        .map(|(key, value)| format!("{key}={}", go_quoted(value)))
        .collect();
    // 1.30 to 1.33 write a container's profile, its own or the pod's, into the annotation that is not there.
    if subject.stored && subject.server.since(30) && !subject.server.since(34) && !subject.is_windows() {
        let names = subject.containers_where(|container| {
            let effective = app_armor_field(container.context).or_else(|| app_armor_of_pod(subject));
            let annotation = subject.annotation(APP_ARMOR, container.name());
            effective == Some("Unconfined") && annotation.is_none()
        });
        bad.extend(
            names
                .iter()
                .map(|name| format!("{APP_ARMOR}{name}={}", go_quoted("unconfined"))),
        );
    }
    bad
}

fn app_armor_field(context: Option<&Value>) -> Option<&str> {
    profile(context, "appArmorProfile")
}

fn app_armor_of_pod<'p>(subject: &Subject<'p>) -> Option<&'p str> {
    app_armor_field(subject.pod.security_context())
}

/// The `AppArmor` profile type of a container: its field, else what a storing server (1.30 and newer) makes of its
/// annotation. Only an annotation that says `unconfined` makes a difference to the check.
fn app_armor_of<'p>(subject: &Subject<'p>, container: Container<'p>) -> Option<&'p str> {
    let field = app_armor_field(container.context);
    if field.is_some() || !subject.stored || subject.is_windows() || app_armor_of_pod(subject) == Some("Unconfined") {
        return field;
    }
    let annotation = subject.annotation(APP_ARMOR, container.name());
    annotation.filter(|&value| value == "unconfined").map(|_| "Unconfined")
}

/// `seccompProfile_baseline`
pub(super) fn seccomp(subject: &Subject<'_>) -> Option<Finding> {
    if subject.minor < 19 {
        seccomp_annotations(subject)
    } else {
        bad_seccomp(subject)
    }
}

/// `seccompProfile_restricted`
pub(super) fn seccomp_required(subject: &Subject<'_>) -> Option<Finding> {
    if subject.spared_for_windows() {
        return None;
    }
    if let Some(finding) = bad_seccomp(subject) {
        return Some(finding);
    }
    if seccomp_of_pod(subject).is_some() {
        return None;
    }
    let names = subject.containers_where(|container| seccomp_of(subject, container).is_none());
    (!names.is_empty()).then(|| Finding {
        reason: "seccompProfile",
        detail: format!(
            r#"pod or {} must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost""#,
            containers(&names)
        ),
    })
}

fn bad_seccomp(subject: &Subject<'_>) -> Option<Finding> {
    let of_pod = seccomp_of_pod(subject).filter(|kind| !is_allowed(kind));
    let Offenders { names, mut values } =
        subject.offenders(|container| seccomp_of(subject, container).filter(|kind| !is_allowed(kind)));
    values.extend(of_pod);
    (!values.is_empty()).then(|| Finding {
        reason: "seccompProfile",
        detail: format!(
            "{} must not set securityContext.seccompProfile.type to {}",
            setters(of_pod.is_some(), &names),
            quoted(values)
        ),
    })
}

/// The check before policy version 1.19, which knows annotations only.
fn seccomp_annotations(subject: &Subject<'_>) -> Option<Finding> {
    let allowed =
        |value: &str| matches!(value, "runtime/default" | "docker/default") || value.starts_with("localhost/");
    let bad = |prefix: &str, name: &str, context: Option<&Value>| {
        // A storing server writes the field into the annotation that is not there.
        let unconfined = || (in_step(subject) && seccomp_field(context) == Some("Unconfined")).then_some("unconfined");
        let value = subject
            .annotation(prefix, name)
            .or_else(unconfined)
            .filter(|value| !allowed(value))?;
        Some(format!("{prefix}{name}={}", go_quoted(value)))
    };
    let of_pod = bad(SECCOMP_OF_POD, "", subject.pod.security_context());
    let of_containers = subject
        .containers
        .iter()
        .filter_map(|container| bad(SECCOMP_OF_CONTAINER, container.name(), container.context));
    let forbidden: BTreeSet<_> = of_pod.into_iter().chain(of_containers).collect();
    let forbidden: Vec<_> = forbidden.into_iter().collect();
    (!forbidden.is_empty()).then(|| Finding {
        reason: "seccompProfile",
        detail: format!(
            "forbidden {} {}",
            plural(forbidden.len(), "annotation", "annotations"),
            forbidden.join(", ")
        ),
    })
}

/// Whether the server brings seccomp annotations and fields in step: 1.19 to 1.26.
fn in_step(subject: &Subject<'_>) -> bool {
    subject.stored && !subject.server.since(27)
}

fn seccomp_field(context: Option<&Value>) -> Option<&str> {
    profile(context, "seccompProfile")
}

fn seccomp_of_pod<'p>(subject: &Subject<'p>) -> Option<&'p str> {
    seccomp_field(subject.pod.security_context()).or_else(|| seccomp_annotated(subject, SECCOMP_OF_POD, ""))
}

fn seccomp_of<'p>(subject: &Subject<'p>, container: Container<'p>) -> Option<&'p str> {
    let annotated = || seccomp_annotated(subject, SECCOMP_OF_CONTAINER, container.name());
    seccomp_field(container.context).or_else(annotated)
}

/// The seccomp profile type that a storing server makes of an annotation.
fn seccomp_annotated(subject: &Subject<'_>, prefix: &str, name: &str) -> Option<&'static str> {
    if !in_step(subject) {
        return None;
    }
    match subject.annotation(prefix, name)? {
        "unconfined" => Some("Unconfined"),
        "runtime/default" | "docker/default" => Some("RuntimeDefault"),
        value => value
            .strip_prefix("localhost/")
            .filter(|path| !path.is_empty())
            .map(|_| "Localhost"),
    }
}

/// The type of the profile `context[key]`; a profile without one has an empty type.
fn profile<'v>(context: Option<&'v Value>, key: &str) -> Option<&'v str> {
    let profile = context.and_then(|context| pod::object(context, key))?;
    Some(pod::text(profile, "type").unwrap_or_default())
}

fn is_allowed(kind: &str) -> bool {
    matches!(kind, "RuntimeDefault" | "Localhost")
}
