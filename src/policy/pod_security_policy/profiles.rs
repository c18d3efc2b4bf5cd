//! What a policy says of seccomp and `AppArmor` profiles. It says so in annotations of its own, and profiles go by the
//! names that annotations of pods give them: `runtime/default`, `localhost/x`, `unconfined`.

use std::borrow::Cow;

use serde_json::Value;

use super::contexts::{ContainerContext, PodContext};
use super::object::Metadata;
use super::wording::Errors;
use crate::pod;
use crate::policy::quoting::go_quoted;

/// Annotation of the pod's seccomp profile.
pub(super) const SECCOMP_OF_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
/// Prefix of the annotation of a container's seccomp profile; the container's name follows.
pub(super) const SECCOMP_OF_CONTAINER: &str = "container.seccomp.security.alpha.kubernetes.io/";
/// Prefix of the annotation of a container's `AppArmor` profile; the container's name follows.
pub(super) const APP_ARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";

/// Annotation of a policy: the profiles that it allows, separated by commas.
pub(super) const ALLOWED_SECCOMP: &str = "seccomp.security.alpha.kubernetes.io/allowedProfileNames";
/// Annotation of a policy: the profile of pods that name none.
pub(super) const DEFAULT_SECCOMP: &str = "seccomp.security.alpha.kubernetes.io/defaultProfileName";
const ALLOWED_APP_ARMOR: &str = "apparmor.security.beta.kubernetes.io/allowedProfileNames";
const DEFAULT_APP_ARMOR: &str = "apparmor.security.beta.kubernetes.io/defaultProfileName";

/// The runtime's own profile, and its name of old.
const RUNTIME_DEFAULTS: [&str; 2] = ["runtime/default", "docker/default"];

/// What begins the name of a profile on the node.
const LOCALHOST: &str = "localhost/";

/// A seccomp profile as a pod or container gives it, twice over.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct SeccompProfile<'a> {
    /// `securityContext.seccompProfile`, by its annotation's name: empty for a type that has none.
    pub(super) field: Option<Cow<'a, str>>,
    /// The annotation.
    pub(super) annotation: Option<Cow<'a, str>>,
}

/// What a policy says of seccomp.
#[derive(Clone, Debug)]
pub(super) struct SeccompRule {
    /// Empty for none.
    default: String,
    allowed: Allowed,
    /// The list as the policy writes it, for messages.
    written: String,
}

/// The seccomp profiles that may be in force.
#[derive(Clone, Debug)]
enum Allowed {
    Any,
    /// None may be set.
    None,
    /// One of these must be, and no profile is the profile with the empty name.
    Listed(Vec<String>),
}

/// What a policy says of `AppArmor`.
#[derive(Clone, Debug)]
pub(super) struct AppArmorRule {
    /// Empty for none.
    default: String,
    /// `None` for any, else the list as the policy writes it.
    allowed: Option<String>,
}

impl<'a> SeccompProfile<'a> {
    /// Reads the field of a security context beside the `annotation`.
    pub(super) fn read(context: Option<&'a Value>, annotation: Option<&'a str>) -> Self {
        let field = context.and_then(|context| pod::object(context, "seccompProfile"));
        Self {
            field: field.map(name_of_field),
            annotation: annotation.map(Cow::Borrowed),
        }
    }
}

/// The name that annotations give to the profile of a field; empty where they have none.
fn name_of_field(field: &Value) -> Cow<'_, str> {
    match pod::text(field, "type") {
        Some("Unconfined") => Cow::Borrowed("unconfined"),
        Some("RuntimeDefault") => Cow::Borrowed("runtime/default"),
        Some("Localhost") => match pod::text(field, "localhostProfile") {
            Some(profile) => Cow::Owned([LOCALHOST, profile].concat()),
            None => Cow::Borrowed(""),
        },
        _ => Cow::Borrowed(""),
    }
}

/// The field that stands for an annotation, by the field's name for the profile; nothing where no field can.
pub(super) fn field_of_name<'a>(annotation: &Cow<'a, str>) -> Option<Cow<'a, str>> {
    match annotation.as_ref() {
        "unconfined" => Some(Cow::Borrowed("unconfined")),
        name if RUNTIME_DEFAULTS.contains(&name) => Some(Cow::Borrowed("runtime/default")),
        name => name
            .strip_prefix(LOCALHOST)
            .is_some_and(|profile| !profile.is_empty())
            .then(|| annotation.clone()),
    }
}

impl SeccompRule {
    pub(super) fn read(policy: &Metadata) -> Self {
        let written = policy.annotation(ALLOWED_SECCOMP);
        let allowed = match written {
            None => Allowed::None,
            Some(written) if written.split(',').any(|name| name == "*") => Allowed::Any,
            Some(written) => Allowed::Listed(written.split(',').map(str::to_owned).collect()),
        };
        Self {
            default: policy.annotation(DEFAULT_SECCOMP).unwrap_or_default().to_owned(),
            allowed,
            written: written.unwrap_or_default().to_owned(),
        }
    }

    /// The annotation of a pod after the policy's default. One that is not empty stays; else the pod's field decides,
    /// even one that has no name; else the policy does.
    pub(super) fn defaulted<'a>(&'a self, given: &SeccompProfile<'a>) -> Option<Cow<'a, str>> {
        let SeccompProfile { field, annotation } = given;
        if annotation.as_ref().is_some_and(|name| !name.is_empty()) {
            return annotation.clone();
        }
        let name = field.clone().unwrap_or(Cow::Borrowed(&self.default));
        if name.is_empty() {
            annotation.clone()
        } else {
            Some(name)
        }
    }

    pub(super) fn check_pod(&self, pod: &PodContext<'_>, errors: &mut Errors) {
        let SeccompProfile { field, annotation } = &pod.seccomp;
        let annotation = annotation.as_ref().filter(|name| !name.is_empty());
        let name = annotation.or(field.as_ref()).map(Cow::as_ref).unwrap_or_default();
        self.check(SECCOMP_OF_POD, "", name, errors);
    }

    pub(super) fn check_container(&self, pod: &PodContext<'_>, container: &ContainerContext<'_>, errors: &mut Errors) {
        let name = container.seccomp_in_force(pod);
        self.check(SECCOMP_OF_CONTAINER, container.name, name, errors);
    }

    fn check(&self, key: &str, container: &str, name: &str, errors: &mut Errors) {
        let path = format_args!("pod.metadata.annotations[{key}{container}]");
        match &self.allowed {
            Allowed::None if !name.is_empty() => errors.forbidden(&path, "seccomp may not be set"),
            Allowed::Listed(names) if !is_listed(names, name) => {
                let written = &self.written;
                let why = format!("{name} is not an allowed seccomp profile. Valid values are {written}");
                errors.forbidden(&path, &why);
            }
            Allowed::Any | Allowed::None | Allowed::Listed(_) => {}
        }
    }
}

/// Whether `name` is one of `names`; the two names of the runtime's own profile are one.
fn is_listed(names: &[String], name: &str) -> bool {
    let listed = |name: &str| names.iter().any(|listed| listed == name);
    listed(name) || RUNTIME_DEFAULTS.contains(&name) && RUNTIME_DEFAULTS.into_iter().any(listed)
}

impl AppArmorRule {
    pub(super) fn read(policy: &Metadata) -> Self {
        Self {
            default: policy.annotation(DEFAULT_APP_ARMOR).unwrap_or_default().to_owned(),
            allowed: policy.annotation(ALLOWED_APP_ARMOR).map(str::to_owned),
        }
    }

    /// The profile of a container which has none; empty for none.
    pub(super) fn default(&self) -> &str {
        &self.default
    }

    pub(super) fn check(&self, container: &ContainerContext<'_>, errors: &mut Errors) {
        let Some(written) = &self.allowed else { return };
        let ContainerContext {
            name,
            app_armor: profile,
            ..
        } = container;
        let path = format_args!("pod.metadata.annotations[{APP_ARMOR}{name}]");
        if profile.is_empty() {
            errors.forbidden(&path, "AppArmor profile must be set");
        } else if !written.split(',').any(|allowed| allowed == *profile) {
            let allowed = go_quoted(written);
            errors.forbidden(
                &path,
                &format!("{profile} is not an allowed profile. Allowed values: {allowed}"),
            );
        }
    }
}
