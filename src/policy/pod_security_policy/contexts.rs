//! The fields of a pod that policies judge and give defaults to, read once for all policies.

use std::borrow::Cow;

use serde_json::Value;

use super::capabilities::Capabilities;
use super::profiles::{APP_ARMOR, SECCOMP_OF_CONTAINER, SECCOMP_OF_POD, SeccompProfile};
use super::se_linux::Label;
use super::wording::Place;
use crate::pod::{self, Pod};

/// A pod's security contexts. Two that are equal are the same pod to a policy.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Contexts<'a> {
    pub(super) pod: PodContext<'a>,
    /// Init, application, ephemeral, as in [`Pod::all_containers`].
    pub(super) containers: Vec<ContainerContext<'a>>,
}

/// What the pod itself sets.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PodContext<'a> {
    pub(super) supplemental_groups: Option<Vec<i64>>,
    pub(super) fs_group: Option<i64>,
    pub(super) identity: Identity<'a>,
    pub(super) seccomp: SeccompProfile<'a>,
    pub(super) runtime_class: Option<&'a str>,
}

/// What a container sets.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ContainerContext<'a> {
    pub(super) place: Place,
    pub(super) name: &'a str,
    pub(super) identity: Identity<'a>,
    pub(super) seccomp: SeccompProfile<'a>,
    /// The annotation with the container's `AppArmor` profile; empty counts as missing.
    pub(super) app_armor: &'a str,
    pub(super) capabilities: Option<Capabilities<'a>>,
    pub(super) privileged: Option<bool>,
    pub(super) proc_mount: Option<&'a str>,
    pub(super) read_only_root_filesystem: Option<bool>,
    pub(super) allow_privilege_escalation: Option<bool>,
}

/// What a container takes from its pod where it sets nothing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Identity<'a> {
    pub(super) user: Option<i64>,
    pub(super) group: Option<i64>,
    pub(super) non_root: Option<bool>,
    pub(super) se_linux: Option<Label<'a>>,
}

impl<'a> Contexts<'a> {
    /// Reads a pod or a candidate.
    pub(super) fn read(pod: &Pod<'a>) -> Self {
        Self {
            pod: PodContext::read(pod),
            containers: places(pod)
                .zip(pod.all_containers())
                .map(|(place, container)| ContainerContext::read(pod, place, container))
                .collect(),
        }
    }
}

impl<'a> PodContext<'a> {
    fn read(pod: &Pod<'a>) -> Self {
        let context = pod.security_context();
        let groups = context
            .and_then(|context| context.get("supplementalGroups"))
            .and_then(Value::as_array);
        Self {
            supplemental_groups: groups
                .map(|groups| groups.iter().map(|group| group.as_i64().unwrap_or_default()).collect()),
            fs_group: context.and_then(|context| pod::integer(context, "fsGroup")),
            identity: Identity::read(context),
            seccomp: SeccompProfile::read(context, annotation(pod, SECCOMP_OF_POD)),
            runtime_class: pod::text(pod.spec(), "runtimeClassName"),
        }
    }
}

impl<'a> ContainerContext<'a> {
    fn read(pod: &Pod<'a>, place: Place, container: &'a Value) -> Self {
        let context = pod::object(container, "securityContext");
        let flag = |key| context.and_then(|context| pod::boolean(context, key));
        let name = pod::container_name(container);
        let capabilities = context.and_then(|context| pod::object(context, "capabilities"));
        let seccomp = annotation(pod, &[SECCOMP_OF_CONTAINER, name].concat());
        Self {
            place,
            name,
            identity: Identity::read(context),
            seccomp: SeccompProfile::read(context, seccomp),
            app_armor: annotation(pod, &[APP_ARMOR, name].concat()).unwrap_or_default(),
            capabilities: capabilities.map(|capabilities| Capabilities {
                add: texts(capabilities, "add"),
                drop: texts(capabilities, "drop"),
            }),
            privileged: flag("privileged"),
            proc_mount: context.and_then(|context| pod::text(context, "procMount")),
            read_only_root_filesystem: flag("readOnlyRootFilesystem"),
            allow_privilege_escalation: flag("allowPrivilegeEscalation"),
        }
    }

    /// The container's own, else the pod's.
    pub(super) fn effective(&self, pod: &PodContext<'a>) -> Identity<'a> {
        Identity {
            user: self.identity.user.or(pod.identity.user),
            group: self.identity.group.or(pod.identity.group),
            non_root: self.identity.non_root.or(pod.identity.non_root),
            se_linux: self.identity.se_linux.or(pod.identity.se_linux),
        }
    }

    /// The seccomp profile in force, by the name that annotations give it; empty for none.
    pub(super) fn seccomp_in_force<'s>(&'s self, pod: &'s PodContext<'a>) -> &'s str {
        let SeccompProfile { field, annotation } = &self.seccomp;
        let of_pod = [&pod.seccomp.field, &pod.seccomp.annotation];
        [field, annotation]
            .into_iter()
            .chain(of_pod)
            .flatten()
            .next()
            .map(Cow::as_ref)
            .unwrap_or_default()
    }
}

impl<'a> Identity<'a> {
    fn read(context: Option<&'a Value>) -> Self {
        let label = context.and_then(|context| pod::object(context, "seLinuxOptions"));
        Self {
            user: context.and_then(|context| pod::integer(context, "runAsUser")),
            group: context.and_then(|context| pod::integer(context, "runAsGroup")),
            non_root: context.and_then(|context| pod::boolean(context, "runAsNonRoot")),
            se_linux: label.map(|label| {
                let text = |key| pod::text(label, key).unwrap_or_default();
                Label {
                    user: text("user"),
                    role: text("role"),
                    kind: text("type"),
                    level: text("level"),
                }
            }),
        }
    }
}

/// Where the containers of `pod` stand, in the order of [`Pod::all_containers`].
pub(super) fn places(pod: &Pod<'_>) -> impl Iterator<Item = Place> + use<> {
    let lists = [
        ("initContainers", pod.init_containers().len()),
        ("containers", pod.containers().len()),
        ("ephemeralContainers", pod.ephemeral_containers().len()),
    ];
    lists
        .into_iter()
        .flat_map(|(list, count)| (0..count).map(move |index| Place { list, index }))
}

/// The value of an annotation; a null one is empty, as for the API server.
fn annotation<'a>(pod: &Pod<'a>, key: &str) -> Option<&'a str> {
    let value = pod.annotations()?.get(key)?;
    Some(value.as_str().unwrap_or_default())
}

/// The texts of a list; a null item is empty, as for the API server.
fn texts<'a>(object: &'a Value, key: &str) -> Option<Vec<&'a str>> {
    let items = object.get(key)?.as_array()?;
    Some(items.iter().map(|item| item.as_str().unwrap_or_default()).collect())
}
