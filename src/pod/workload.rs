//! Which objects have a pod template, and where.
//!
//! Kinds are matched together with their API group: a Knative `Service` or a Volcano `Job` shares only the name.

use serde_json::Value;

/// A kind of object that injection knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// `v1` `Pod`
    Pod,
    /// `v1` `ReplicationController`
    ReplicationController,
    /// `apps` `Deployment`
    Deployment,
    /// `apps` `ReplicaSet`
    ReplicaSet,
    /// `apps` `DaemonSet`
    DaemonSet,
    /// `apps` `StatefulSet`
    StatefulSet,
    /// `batch` `Job`
    Job,
    /// `batch` `CronJob`
    CronJob,
    /// `v1` `Service`: carries opaque ports, never a proxy.
    Service,
    /// `v1` `Namespace`: carries annotations that its pods inherit.
    Namespace,
}

impl Kind {
    /// Every kind that has a pod template, a pod itself first.
    pub const WITH_TEMPLATE: [Self; 8] = [
        Self::Pod,
        Self::ReplicationController,
        Self::Deployment,
        Self::ReplicaSet,
        Self::DaemonSet,
        Self::StatefulSet,
        Self::Job,
        Self::CronJob,
    ];

    /// The kind of `object`, by its `kind` and the group of its `apiVersion`.
    ///
    /// `extensions` is the group that `Deployment`, `DaemonSet` and `ReplicaSet` had before `apps` (Kubernetes 1.15).
    pub fn of(object: &Value) -> Option<Self> {
        let version = object.get("apiVersion").and_then(Value::as_str)?;
        let group = version.split_once('/').map_or("", |(group, _)| group);
        Self::named(group, object.get("kind").and_then(Value::as_str)?)
    }

    /// The kind called `kind` in API group `group` (empty for the core group).
    pub fn named(group: &str, kind: &str) -> Option<Self> {
        Some(match (group, kind) {
            ("", "Pod") => Self::Pod,
            ("", "ReplicationController") => Self::ReplicationController,
            ("", "Service") => Self::Service,
            ("", "Namespace") => Self::Namespace,
            ("apps" | "extensions", "Deployment") => Self::Deployment,
            ("apps" | "extensions", "ReplicaSet") => Self::ReplicaSet,
            ("apps" | "extensions", "DaemonSet") => Self::DaemonSet,
            ("apps", "StatefulSet") => Self::StatefulSet,
            ("batch", "Job") => Self::Job,
            ("batch", "CronJob") => Self::CronJob,
            _ => return None,
        })
    }

    /// The kind as Kubernetes writes it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pod => "Pod",
            Self::ReplicationController => "ReplicationController",
            Self::Deployment => "Deployment",
            Self::ReplicaSet => "ReplicaSet",
            Self::DaemonSet => "DaemonSet",
            Self::StatefulSet => "StatefulSet",
            Self::Job => "Job",
            Self::CronJob => "CronJob",
            Self::Service => "Service",
            Self::Namespace => "Namespace",
        }
    }

    /// The kind in lower case, as Linkerd writes it in labels, metrics and reports.
    pub fn lower_case(self) -> &'static str {
        match self {
            Self::Pod => "pod",
            Self::ReplicationController => "replicationcontroller",
            Self::Deployment => "deployment",
            Self::ReplicaSet => "replicaset",
            Self::DaemonSet => "daemonset",
            Self::StatefulSet => "statefulset",
            Self::Job => "job",
            Self::CronJob => "cronjob",
            Self::Service => "service",
            Self::Namespace => "namespace",
        }
    }

    /// The JSON pointer (RFC 6901) of the pod template: empty for a pod, nothing where there is none.
    pub fn template_pointer(self) -> Option<&'static str> {
        match self {
            Self::Pod => Some(""),
            Self::CronJob => Some("/spec/jobTemplate/spec/template"),
            Self::Service | Self::Namespace => None,
            Self::ReplicationController
            | Self::Deployment
            | Self::ReplicaSet
            | Self::DaemonSet
            | Self::StatefulSet
            | Self::Job => Some("/spec/template"),
        }
    }

    /// The user whose controller creates the pods of this kind; nothing for a pod, which its author creates.
    pub fn creator(self) -> Option<&'static str> {
        match self {
            Self::ReplicationController => Some("system:serviceaccount:kube-system:replication-controller"),
            Self::Deployment | Self::ReplicaSet => Some("system:serviceaccount:kube-system:replicaset-controller"),
            Self::DaemonSet => Some("system:serviceaccount:kube-system:daemon-set-controller"),
            Self::StatefulSet => Some("system:serviceaccount:kube-system:statefulset-controller"),
            Self::Job | Self::CronJob => Some("system:serviceaccount:kube-system:job-controller"),
            Self::Pod | Self::Service | Self::Namespace => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn kinds_are_told_apart_by_group() {
        let kind = |version: &str, kind: &str| Kind::of(&json!({"apiVersion": version, "kind": kind}));
        assert_eq!(kind("v1", "Service"), Some(Kind::Service));
        assert_eq!(kind("serving.knative.dev/v1", "Service"), None);
        assert_eq!(kind("batch.volcano.sh/v1alpha1", "Job"), None);
        assert_eq!(kind("extensions/v1beta1", "Deployment"), Some(Kind::Deployment));
        assert_eq!(kind("apps/v1", "Pod"), None);
        assert_eq!(Kind::of(&json!({"kind": "Pod"})), None);
    }
}
