//! Whether a pod may be injected at all: Linkerd's rules and words, and what those forget.

use super::{Namespace, Round, Trace};
use crate::config::Installation;
use crate::config::annotation::{ADMISSION_WEBHOOKS, CNI_RESOURCE, CONTROL_PLANE_COMPONENT, MIRROR_POD, inject_mode};
use crate::inject::{NETWORK_VALIDATOR, PROXY, PROXY_INIT, SERVICE_ACCOUNT};
use crate::pod::{Pod, boolean, container_name, image, list, text};
use serde_json::Value;
use std::fmt;

/// Why a pod is left alone. The first group are Linkerd's reasons, in its order and words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SkipReason {
    /// `hostNetwork: true`: the rules would be the node's.
    HostNetworkEnabled,
    /// The pod has a proxy.
    SidecarAlreadyExists,
    /// The object has no pod template.
    UnsupportedResource,
    /// The namespace's `linkerd.io/inject` is no word of its.
    InvalidInjectAnnotationAtNamespace,
    /// The pod's `linkerd.io/inject` is no word of its.
    InvalidInjectAnnotationAtWorkload,
    /// The pod says `disabled` where the namespace says otherwise.
    InjectionDisableAnnotationPresent,
    /// Nobody asks for injection.
    InjectionEnableAnnotationAbsent,
    /// The proxy would have no token.
    AutomountDisabled,
    /// The pod is for Windows nodes, where the proxy does not run.
    WindowsPod,
    /// The pod is the API server's copy of a static pod, which the kubelet runs as its file says.
    MirrorPod,
    /// The pod's runtime takes neither `NET_ADMIN` nor a CNI plugin.
    UnsupportedRuntime,
    /// The pod is in `kube-system`.
    SystemNamespace,
    /// The node cannot do without the pod.
    NodeCriticalPod,
    /// The pod is part of Linkerd's control plane or of the CNI plugin.
    ControlPlanePod,
    /// A label of the namespace keeps the API server from asking the webhook.
    WebhooksDisabled,
    /// No redirection fits, and the operator wants such pods admitted without a proxy.
    NoRedirectionAdmitted,
}

coded! { SkipReason, self: Self => &'static str {
    Self::HostNetworkEnabled => "host_network_enabled",
    Self::SidecarAlreadyExists => "sidecar_already_exists",
    Self::UnsupportedResource => "unsupported_resource",
    Self::InvalidInjectAnnotationAtNamespace => "invalid_inject_annotation_at_ns",
    Self::InvalidInjectAnnotationAtWorkload => "invalid_inject_annotation_at_workload",
    Self::InjectionDisableAnnotationPresent => "injection_disable_annotation_present",
    Self::InjectionEnableAnnotationAbsent => "injection_enable_annotation_absent",
    Self::AutomountDisabled => "disabled_automount_service_account_token_account",
    Self::WindowsPod => "windows_pod",
    Self::MirrorPod => "mirror_pod",
    Self::UnsupportedRuntime => "unsupported_runtime",
    Self::SystemNamespace => "system_namespace",
    Self::NodeCriticalPod => "node_critical_pod",
    Self::ControlPlanePod => "control_plane_pod",
    Self::WebhooksDisabled => "webhooks_disabled",
    Self::NoRedirectionAdmitted => "no_redirection_admitted",
} }

impl SkipReason {
    /// Whether the pod is the cluster's or Linkerd's own, which is never touched, whatever it carries.
    pub fn is_of_the_cluster(self) -> bool {
        matches!(
            self,
            Self::MirrorPod
                | Self::SystemNamespace
                | Self::NodeCriticalPod
                | Self::ControlPlanePod
                | Self::WebhooksDisabled
        )
    }
}

impl fmt::Display for SkipReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::HostNetworkEnabled => "hostNetwork is enabled",
            Self::SidecarAlreadyExists => "pod has a sidecar injected already",
            Self::UnsupportedResource => "this resource kind is unsupported",
            Self::InvalidInjectAnnotationAtNamespace => {
                "invalid value for annotation \"linkerd.io/inject\" at namespace"
            }
            Self::InvalidInjectAnnotationAtWorkload => "invalid value for annotation \"linkerd.io/inject\" at workload",
            Self::InjectionDisableAnnotationPresent => "pod has the annotation \"linkerd.io/inject:disabled\"",
            Self::InjectionEnableAnnotationAbsent => {
                "neither the namespace nor the pod have the annotation \"linkerd.io/inject:enabled\""
            }
            Self::AutomountDisabled => {
                "automountServiceAccountToken set to \"false\", with Values.identity.serviceAccountTokenProjection set to \"false\""
            }
            Self::WindowsPod => "the pod is for Windows nodes, where the proxy does not run",
            Self::MirrorPod => "the pod mirrors a static pod, which the kubelet runs as its file says",
            Self::UnsupportedRuntime => "the pod runs on Fargate, which takes neither NET_ADMIN nor a CNI plugin",
            Self::SystemNamespace => "pods of kube-system are left alone",
            Self::NodeCriticalPod => "pods of priority class system-node-critical are left alone",
            Self::ControlPlanePod => "pods of Linkerd's control plane and of its CNI plugin are left alone",
            Self::WebhooksDisabled => {
                "config.linkerd.io/admission-webhooks: disabled at the namespace keeps the API server from asking the webhook"
            }
            Self::NoRedirectionAdmitted => "no way to redirect the pod's traffic is left, and onRefused is skip",
        })
    }
}

/// Where `linkerd.io/inject` decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnnotatedAt {
    /// At the namespace.
    Namespace,
    /// At the pod.
    Workload,
}

impl AnnotatedAt {
    /// The word in metrics.
    pub fn word(self) -> &'static str {
        match self {
            Self::Namespace => "namespace",
            Self::Workload => "workload",
        }
    }
}

/// Whether a pod may be injected.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Eligibility {
    /// Why not; empty where it may.
    pub reasons: Vec<SkipReason>,
    /// Where `linkerd.io/inject` decided.
    pub annotated_at: Option<AnnotatedAt>,
}

/// Judges `pod`, which is on its way where `round` says. Every reason is found, not only the first.
pub fn judge(
    pod: &Pod<'_>,
    namespace: &Namespace<'_>,
    installation: &Installation,
    round: Round,
    trace: &mut Trace,
) -> Eligibility {
    let (asked, annotated_at) = asked_for(pod, namespace, trace);
    let projection = installation.values.identity.service_account_token_projection;
    let critical = text(pod.spec(), "priorityClassName") == Some("system-node-critical");
    let control_plane = [CONTROL_PLANE_COMPONENT, CNI_RESOURCE]
        .into_iter()
        .any(|label| pod.label(label).is_some());
    let found = [
        (pod.host_network(), SkipReason::HostNetworkEnabled),
        (has_sidecar(pod), SkipReason::SidecarAlreadyExists),
        (
            asked.is_err(),
            asked.err().unwrap_or(SkipReason::InjectionEnableAnnotationAbsent),
        ),
        (!projection && !has_api_token(pod, round), SkipReason::AutomountDisabled),
        (is_windows(pod), SkipReason::WindowsPod),
        (pod.annotation(MIRROR_POD).is_some(), SkipReason::MirrorPod),
        (is_fargate(pod), SkipReason::UnsupportedRuntime),
        (namespace.name == "kube-system", SkipReason::SystemNamespace),
        (critical, SkipReason::NodeCriticalPod),
        (control_plane, SkipReason::ControlPlanePod),
        // Who is asked all the same is registered for such namespaces too.
        (
            round == Round::First && has_webhooks_disabled(namespace),
            SkipReason::WebhooksDisabled,
        ),
    ];
    let reasons = found
        .into_iter()
        .filter_map(|(applies, reason)| applies.then_some(reason))
        .collect();
    Eligibility { reasons, annotated_at }
}

fn has_webhooks_disabled(namespace: &Namespace<'_>) -> bool {
    let label = namespace.labels.and_then(|labels| labels.get(ADMISSION_WEBHOOKS));
    label.is_some_and(|value| value == "disabled")
}

/// Why Linkerd's own injector leaves `pod` alone: its reasons, and no others. It reads `linkerd.io/inject` as annotation alone.
pub(super) fn of_linkerd(
    pod: &Pod<'_>,
    namespace: &Namespace<'_>,
    installation: &Installation,
    round: Round,
) -> Vec<SkipReason> {
    let annotated = |annotations| inject_mode(annotations, None).map(|(value, _)| value);
    let (asked, _) = asked(annotated(pod.annotations()), annotated(namespace.annotations));
    let projection = installation.values.identity.service_account_token_projection;
    let found = [
        pod.host_network().then_some(SkipReason::HostNetworkEnabled),
        has_sidecar(pod).then_some(SkipReason::SidecarAlreadyExists),
        asked.err(),
        (!projection && !has_api_token(pod, round)).then_some(SkipReason::AutomountDisabled),
    ];
    found.into_iter().flatten().collect()
}

fn lacks_image(container: &Value) -> bool {
    text(container, "image").is_none_or(str::is_empty)
}

/// What `linkerd.io/inject` says, as annotation or else as label, at the pod and at the namespace.
fn asked_for(
    pod: &Pod<'_>,
    namespace: &Namespace<'_>,
    trace: &mut Trace,
) -> (Result<(), SkipReason>, Option<AnnotatedAt>) {
    let at_pod = inject_mode(pod.annotations(), pod.labels());
    let at_namespace = inject_mode(namespace.annotations, namespace.labels);
    let mut say = |place: fmt::Arguments<'_>, value: Option<(&str, &str)>| match value {
        Some((value, source)) => trace.note(format_args!("{place} has {source} linkerd.io/inject={value}")),
        None => trace.note(format_args!("{place} has no linkerd.io/inject")),
    };
    say(format_args!("namespace {}", namespace.name), at_namespace);
    say(format_args!("pod"), at_pod);
    asked(at_pod.map(|(value, _)| value), at_namespace.map(|(value, _)| value))
}

/// What the values at pod and namespace come to.
fn asked(at_pod: Option<&str>, at_namespace: Option<&str>) -> (Result<(), SkipReason>, Option<AnnotatedAt>) {
    let valid = |value: Option<&str>| value.is_none_or(|value| ["enabled", "disabled", "ingress"].contains(&value));
    if !valid(at_namespace) {
        return (Err(SkipReason::InvalidInjectAnnotationAtNamespace), None);
    }
    if !valid(at_pod) {
        return (Err(SkipReason::InvalidInjectAnnotationAtWorkload), None);
    }
    match (enables(at_namespace), at_pod) {
        (true, Some("disabled")) => (
            Err(SkipReason::InjectionDisableAnnotationPresent),
            Some(AnnotatedAt::Workload),
        ),
        (true, _) => (Ok(()), Some(AnnotatedAt::Namespace)),
        (false, value) if enables(value) => (Ok(()), Some(AnnotatedAt::Workload)),
        (false, _) => (Err(SkipReason::InjectionEnableAnnotationAbsent), None),
    }
}

/// Whether `linkerd.io/inject` has pods injected.
fn enables(value: Option<&str>) -> bool {
    value.is_some_and(|value| ["enabled", "ingress"].contains(&value))
}

/// Whether the namespace asks for its pods to be injected.
pub(super) fn asks_for_injection(namespace: &Namespace<'_>) -> bool {
    enables(inject_mode(namespace.annotations, namespace.labels).map(|(value, _)| value))
}

/// A proxy of Linkerd's, whatever its registry, or of Istio's; or what an earlier injection left.
fn has_sidecar(pod: &Pod<'_>) -> bool {
    let proxy = |container: &Value| {
        [PROXY, "istio-proxy"].contains(&container_name(container)) && !lacks_image(container)
            || has_image(container, &["linkerd/proxy", "istio-release/proxyv2"])
    };
    let init = |container: &Value| {
        [PROXY_INIT, NETWORK_VALIDATOR, "istio-init"].contains(&container_name(container))
            || has_image(container, &["linkerd/proxy-init", "istio-release/proxy_init"])
    };
    let mut containers = pod.init_containers().iter().chain(pod.containers());
    containers.any(|container| proxy(container)) || pod.init_containers().iter().any(|container| init(container))
}

/// Whether the container's image is one of `repositories`, in any registry.
fn has_image(container: &Value, repositories: &[&str]) -> bool {
    let repository = image(text(container, "image").unwrap_or_default()).repository;
    repositories.iter().any(|known| {
        repository
            .strip_suffix(known)
            .is_some_and(|registry| registry.ends_with('/'))
    })
}

/// Whether the first container has the API token, which the proxy shares where it has no token of its own. The API server
/// mounts it: before that there is nothing to look at.
fn has_api_token(pod: &Pod<'_>, round: Round) -> bool {
    let mounted = round == Round::First
        || pod.containers().first().is_some_and(|container| {
            list(container, "volumeMounts").any(|mount| text(mount, "mountPath") == Some(SERVICE_ACCOUNT))
        });
    boolean(pod.spec(), "automountServiceAccountToken") != Some(false) && mounted
}

/// Whether the pod can only run on Windows: by `os`, by node selector, or because every affinity term asks for it.
fn is_windows(pod: &Pod<'_>) -> bool {
    const LABELS: [&str; 2] = ["kubernetes.io/os", "beta.kubernetes.io/os"];
    let spec = pod.spec();
    if spec.get("os").and_then(|os| text(os, "name")) == Some("windows") {
        return true;
    }
    let selector = spec.get("nodeSelector");
    if LABELS
        .into_iter()
        .any(|label| selector.and_then(|it| text(it, label)) == Some("windows"))
    {
        return true;
    }
    let terms: Vec<_> = pod
        .required_node_affinity()
        .into_iter()
        .flat_map(|required| list(required, "nodeSelectorTerms"))
        .collect();
    let asks = |expression: &Value| {
        LABELS.contains(&text(expression, "key").unwrap_or_default())
            && text(expression, "operator") == Some("In")
            && list(expression, "values").count() > 0
            && list(expression, "values").all(|value| value.as_str() == Some("windows"))
    };
    !terms.is_empty() && terms.iter().all(|term| list(term, "matchExpressions").any(asks))
}

/// AWS Fargate: its own webhook labels the pods and names the scheduler.
fn is_fargate(pod: &Pod<'_>) -> bool {
    pod.label("eks.amazonaws.com/fargate-profile").is_some()
        || text(pod.spec(), "schedulerName") == Some("fargate-scheduler")
}
