//! What a policy set, written into the pod's JSON.

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::POLICY_ANNOTATION;
use super::capabilities::Capabilities;
use super::contexts::{ContainerContext, Contexts, PodContext};
use super::profiles::{APP_ARMOR, SECCOMP_OF_POD};
use super::se_linux::Label;

/// A key and what it gets.
type Field = (String, Value);

/// Writes into `pod` where `after` differs from `before`, and the name of `policy`.
pub(super) fn apply(pod: &mut Value, before: &Contexts<'_>, after: &Contexts<'_>, policy: &str) {
    let profiles = (&before.pod.seccomp.annotation, &after.pod.seccomp.annotation);
    let mut annotations = vec![
        Some((POLICY_ANNOTATION.to_owned(), json!(policy))),
        set(SECCOMP_OF_POD, profiles.0, profiles.1),
    ];
    let containers = || before.containers.iter().zip(&after.containers);
    annotations.extend(containers().map(|(before, after)| {
        let key = [APP_ARMOR, after.name].concat();
        set(&key, &before.app_armor, &after.app_armor)
    }));
    write(pod, &["metadata", "annotations"], annotations);
    apply_to_pod(pod, &before.pod, &after.pod);
    for (before, after) in containers() {
        let container = pod
            .get_mut("spec")
            .and_then(|spec| spec.get_mut(after.place.list))
            .and_then(|list| list.get_mut(after.place.index));
        if let Some(container) = container {
            apply_to_container(container, before, after);
        }
    }
}

fn apply_to_pod(pod: &mut Value, before: &PodContext<'_>, after: &PodContext<'_>) {
    let class = set("runtimeClassName", &before.runtime_class, &after.runtime_class);
    write(pod, &["spec"], [class]);
    let label = |context: &PodContext<'_>| context.identity.se_linux.map(label);
    let fields = [
        set(
            "supplementalGroups",
            &before.supplemental_groups,
            &after.supplemental_groups,
        ),
        set("fsGroup", &before.fs_group, &after.fs_group),
        set("seLinuxOptions", &label(before), &label(after)),
    ];
    write(pod, &["spec", "securityContext"], fields);
}

fn apply_to_container(container: &mut Value, before: &ContainerContext<'_>, after: &ContainerContext<'_>) {
    let capabilities = |container: &ContainerContext<'_>| container.capabilities.as_ref().map(lists);
    let read_only = |container: &ContainerContext<'_>| container.read_only_root_filesystem;
    let escalation = |container: &ContainerContext<'_>| container.allow_privilege_escalation;
    let fields = [
        set("runAsUser", &before.identity.user, &after.identity.user),
        set("runAsGroup", &before.identity.group, &after.identity.group),
        set("runAsNonRoot", &before.identity.non_root, &after.identity.non_root),
        set("capabilities", &capabilities(before), &capabilities(after)),
        set("readOnlyRootFilesystem", &read_only(before), &read_only(after)),
        set("allowPrivilegeEscalation", &escalation(before), &escalation(after)),
    ];
    write(container, &["securityContext"], fields);
}

/// What `key` gets, where that is something new.
fn set<T: PartialEq + Serialize>(key: &str, before: &T, after: &T) -> Option<Field> {
    (before != after).then(|| (key.to_owned(), json!(after)))
}

fn label(label: Label<'_>) -> Value {
    let Label {
        user,
        role,
        kind,
        level,
    } = label;
    let fields = [("user", user), ("role", role), ("type", kind), ("level", level)];
    let fields = fields.into_iter().filter(|(_, value)| !value.is_empty());
    fields.map(|(key, value)| (key.to_owned(), json!(value))).collect()
}

fn lists(capabilities: &Capabilities<'_>) -> Value {
    let lists = [("add", &capabilities.add), ("drop", &capabilities.drop)];
    let lists = lists.into_iter().filter(|(_, list)| list.is_some());
    lists.map(|(key, list)| (key.to_owned(), json!(list))).collect()
}

/// Writes `fields` into the object at `path`, which is made only for a field.
fn write(value: &mut Value, path: &[&str], fields: impl IntoIterator<Item = Option<Field>>) {
    let mut fields = fields.into_iter().flatten().peekable();
    if fields.peek().is_none() {
        return;
    }
    if let Some(object) = path
        .iter()
        .try_fold(value, |value, key| child(value, key))
        .and_then(as_object)
    {
        object.extend(fields);
    }
}

fn child<'v>(value: &'v mut Value, key: &str) -> Option<&'v mut Value> {
    Some(as_object(value)?.entry(key).or_insert(Value::Null))
}

/// `value` as an object, which it becomes if it is none.
fn as_object(value: &mut Value) -> Option<&mut Map<String, Value>> {
    if !value.is_object() {
        *value = json!({});
    }
    value.as_object_mut()
}
