//! Seccomp profiles: constraints write them as annotations do, pods as annotations and as fields.

use std::borrow::Cow;

use serde_json::{Value, json};

use super::wording::forbidden;
use crate::pod::{self, Pod};

/// The annotation of a pod's profile.
pub(super) const POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
/// The annotation of a container's, before its name.
pub(super) const CONTAINER: &str = "container.seccomp.security.alpha.kubernetes.io/";

const RUNTIME_DEFAULT: &str = "runtime/default";
/// What `runtime/default` was called once.
const DOCKER_DEFAULT: &str = "docker/default";
const UNCONFINED: &str = "unconfined";
const LOCALHOST: &str = "localhost/";

/// The profile that the `seccompProfile` of `context` says, as an annotation; nothing where there is no such field, empty
/// where it names nothing known.
pub(super) fn of_field(context: Option<&Value>) -> Option<Cow<'_, str>> {
    let profile = context.and_then(|context| pod::object(context, "seccompProfile"))?;
    Some(match pod::text(profile, "type") {
        Some("Unconfined") => UNCONFINED.into(),
        Some("RuntimeDefault") => RUNTIME_DEFAULT.into(),
        Some("Localhost") => {
            let path = pod::text(profile, "localhostProfile");
            path.map_or(Cow::Borrowed(""), |path| format!("{LOCALHOST}{path}").into())
        }
        _ => "".into(),
    })
}

/// The field for what an annotation says; null where it says nothing known.
pub(super) fn to_field(annotation: &str) -> Value {
    match annotation {
        UNCONFINED => json!({"type": "Unconfined"}),
        RUNTIME_DEFAULT | DOCKER_DEFAULT => json!({"type": "RuntimeDefault"}),
        other => match other.strip_prefix(LOCALHOST) {
            Some(path) if !path.is_empty() => json!({"type": "Localhost", "localhostProfile": path}),
            _ => Value::Null,
        },
    }
}

/// The annotation of one container.
pub(super) fn of_container<'p>(pod: &Pod<'p>, container: &Value) -> Option<&'p str> {
    let annotations = pod.annotations()?;
    let value = annotations.get(&[CONTAINER, pod::container_name(container)].concat())?;
    Some(value.as_str().unwrap_or_default())
}

/// The profile that a constraint with the list `allowed` gives a pod that has none.
pub(super) fn default(allowed: &[String]) -> Option<&str> {
    allowed.iter().map(String::as_str).find(|profile| *profile != "*")
}

/// What is wrong with `profile`, the effective one; `key` is that of the annotation that could say it.
pub(super) fn check(allowed: &[String], key: &str, profile: &str) -> Option<String> {
    if allowed.iter().any(|allowed| allowed == "*") {
        return None;
    }
    let path = format_args!("pod.metadata.annotations[{key}]");
    if allowed.is_empty() {
        return (!profile.is_empty()).then(|| forbidden(path, "seccomp may not be set"));
    }
    let is_default = |profile: &str| matches!(profile, RUNTIME_DEFAULT | DOCKER_DEFAULT);
    let fits = |allowed: &String| allowed == profile || (is_default(allowed) && is_default(profile));
    let named = || {
        let names = allowed.join(" ");
        forbidden(
            path,
            format_args!("{profile} is not an allowed seccomp profile. Valid values are [{names}]"),
        )
    };
    (!allowed.iter().any(fits)).then(named)
}
