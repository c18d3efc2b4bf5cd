//! The code of every line, the section that it stands in, and what cures it.

use serde::{Serialize, Serializer};

/// A part of the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Section {
    Cluster,
    Permissions,
    Installation,
    Takeover,
    Certificates,
    Webhook,
    Cni,
    Workloads,
    NetworkPolicies,
    Proxies,
}

impl Section {
    /// The word in JSON.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Cluster => "cluster",
            Self::Permissions => "permissions",
            Self::Installation => "installation",
            Self::Takeover => "takeover",
            Self::Certificates => "certificates",
            Self::Webhook => "webhook",
            Self::Cni => "cni",
            Self::Workloads => "workloads",
            Self::NetworkPolicies => "network-policies",
            Self::Proxies => "proxies",
        }
    }
}

/// Codes with their word, section, and cure; the cure is empty where there is nothing to do.
macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident $word:literal $section:ident $cure:literal)*) => {
        /// What a line is about. The words are stable.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub(super) enum Code { $($(#[$doc])* $name,)* }

        impl Code {
            /// Every code.
            pub(super) const ALL: &[Self] = &[$(Self::$name,)*];

            /// The word, in text and JSON.
            pub(super) fn word(self) -> &'static str {
                match self { $(Self::$name => $word,)* }
            }

            /// Where the line stands.
            pub(super) fn section(self) -> Section {
                match self { $(Self::$name => Section::$section,)* }
            }

            /// What to do about it.
            pub(super) fn cure(self) -> &'static str {
                match self { $(Self::$name => $cure,)* }
            }
        }
    };
}

codes! {
    ApiServer "api_server" Cluster ""
    ServerTooOld "server_too_old" Cluster
        "upgrade the server: nothing is installed there, and what is there already was never tested on it"
    ServerNewerThanKnown "server_newer_than_known" Cluster
        "take a newer outrigger: policies of this release may have changed"
    NativeSidecars "native_sidecars" Cluster ""
    ServerWithoutNativeSidecars "server_without_native_sidecars" Cluster
        "upgrade the server to 1.29, or set proxy.nativeSidecar=false so that it is plain what happens"
    KubeletWithoutNativeSidecars "kubelet_without_native_sidecars" Cluster
        "upgrade these nodes to 1.29, or keep Jobs off them"
    KubeletSkew "kubelet_skew" Cluster
        "bring kubelets within what Kubernetes supports: never newer than the server, at most three releases older"
    PlatformSupported "platform_supported" Cluster ""
    PlatformUnsupported "platform_unsupported" Cluster
        "keep meshed workloads on other nodes: neither NET_ADMIN nor a CNI plugin is to be had on these"
    PlatformRestricted "platform_restricted" Cluster
        "Autopilot: create the cluster with --workload-policies=allow-net-admin, or keep meshed workloads off these nodes"
    NotReadable "not_readable" Cluster
        "ask as somebody who may, or have these rights granted; what hangs on it was not checked"

    MayInstall "may_install" Permissions ""
    MayNotInstall "may_not_install" Permissions
        "install as somebody who may; outrigger install and install-cni print what is created"
    WebhookRights "webhook_rights" Permissions ""
    WebhookLacksRights "webhook_lacks_rights" Permissions
        "install again: outrigger install --show-only templates/rbac.yaml prints them, and outrigger install-cni that to the pods of the CNI plugin"

    LinkerdConfiguration "linkerd_configuration" Installation ""
    LinkerdMissing "linkerd_missing" Installation
        "install Linkerd's control plane, or name its namespace with --linkerd-namespace"
    ConfigurationInvalid "configuration_invalid" Installation
        "mend the values of the ConfigMap linkerd-config: no pod is injected with these"
    InjectorRunning "injector_running" Installation ""
    InjectorMissing "injector_missing" Installation
        "install again (docs/install.md), or start the Deployment again"
    InjectorNotReady "injector_not_ready" Installation
        "see the events and logs of its pods: kubectl -n NAMESPACE describe deployment DEPLOYMENT"
    InjectorVersion "injector_version" Installation ""
    InjectorVersionSkew "injector_version_skew" Installation
        "use the outrigger of the webhook's version: other versions may decide otherwise"
    TwoInjectors "two_injectors" Installation
        "delete one of them: two injectors behind one Service answer in turn, and decide differently"
    InstalledTwice "installed_twice" Installation
        "uninstall one, with its namespace and values: outrigger uninstall; they share registrations and cluster roles"
    LinkerdInjector "linkerd_injector" Installation ""
    PluginNamespaceLevel "plugin_namespace_level" Installation
        "label the namespace pod-security.kubernetes.io/enforce=privileged, as outrigger install-cni --create-namespace does"
    PoliciesPresent "policies_present" Installation ""

    ProbeFindings "probe_findings" Installation ""
    ProbeFindingsDoubtful "probe_findings_doubtful" Installation
        "see the probe's log, and docs/probe.md: what it does not tell is unknown to decisions"

    TakeoverRegistration "takeover_registration" Takeover ""
    TakeoverOrder "takeover_order" Takeover
        "give our registration a name that comes before Linkerd's: each pod goes to both, and the first injects"
    TakeoverCoverage "takeover_coverage" Takeover
        "make the selectors of our registration those of Linkerd's, or label these namespaces"
    TakeoverTwice "takeover_twice" Takeover
        "leave one registration beside ours, and no Service that sends to both"
    TakeoverElsewhere "takeover_elsewhere" Takeover
        "ask again with --linkerd-namespace: what its linkerd-config says was not looked at"
    TakeoverUpgrade "takeover_upgrade" Takeover ""
    TakeoverPlugin "takeover_plugin" Takeover ""
    TakeoverSettings "takeover_settings" Takeover
        "say it in webhook-config/ where you want it so"
    TakeoverUnchanged "takeover_unchanged" Takeover ""
    TakeoverRedirected "takeover_redirected" Takeover ""
    TakeoverAdmitted "takeover_admitted" Takeover ""
    TakeoverDenied "takeover_denied" Takeover
        "see to them first: outrigger explain tells the ways out"
    TakeoverLeftAlone "takeover_left_alone" Takeover
        "see to them first: they lose their proxy with their next pod (docs/decision.md has each reason)"
    TakeoverMeshed "takeover_meshed" Takeover
        "see whether you want them meshed: else linkerd.io/inject: disabled"

    CaBundle "ca_bundle" Certificates ""
    CaBundleUnusable "ca_bundle_unusable" Certificates
        "put the base64 of the CA certificate in PEM into clientConfig.caBundle: see certs/README.md"
    ServingCertificate "serving_certificate" Certificates ""
    ServingCertificateMissing "serving_certificate_missing" Certificates
        "install again, or make the Secret: see docs/certificates.md"
    ServingCertificateUnreadable "serving_certificate_unreadable" Certificates
        "make the Secret anew: see certs/README.md"
    ServingCertificateEnding "serving_certificate_ending" Certificates
        "renew it: two thirds of its life are over, and whoever should have renewed it has not"
    ServingCertificateExpired "serving_certificate_expired" Certificates
        "renew it now: the API server does not talk to the webhook"
    ServingCertificateNotTrusted "serving_certificate_not_trusted" Certificates
        "make certificate and caBundle agree: one CA, and the name SERVICE.NAMESPACE.svc in the certificate"
    Handshake "handshake" Certificates ""
    HandshakeFailed "handshake_failed" Certificates
        "make caBundle, the Secret and what the webhook presents agree, and renew what has ended: see certs/README.md"
    HandshakeBroken "handshake_broken" Certificates
        "see what listens at that address: the webhook speaks TLS on 8443 and plain HTTP on 9995; its log tells of handshakes that fail"
    HandshakeNotTried "handshake_not_tried" Certificates
        "kubectl -n NAMESPACE port-forward deployment/DEPLOYMENT 8443, then --webhook-address localhost:8443"
    TrustAnchors "trust_anchors" Certificates ""
    TrustAnchorsUnreadable "trust_anchors_unreadable" Certificates
        "put certificates in PEM into the ConfigMap linkerd-identity-trust-roots: no proxy gets an identity with these"
    TrustAnchorsEnding "trust_anchors_ending" Certificates
        "rotate them: add the new anchor to the bundle first, restart what is meshed, then take the old one out"
    TrustAnchorsExpired "trust_anchors_expired" Certificates
        "replace them and restart the control plane and all that is meshed"

    WebhookRegistered "webhook_registered" Webhook ""
    WebhookNotRegistered "webhook_not_registered" Webhook
        "install again (docs/install.md, docs/takeover.md): no pod is sent to the webhook"
    WebhookRegisteredTwice "webhook_registered_twice" Webhook
        "docs/takeover.md: ours first, and then let Linkerd's select nothing; each pod goes to both"
    WebhookOursTwice "webhook_ours_twice" Webhook
        "delete one of them, and what is behind it: each pod waits for both, and the second finds nothing to do"
    WebhookWithoutPods "webhook_without_pods" Webhook
        "add the rule CREATE of pods, as outrigger install has it"
    WebhookWithoutEndpoints "webhook_without_endpoints" Webhook
        "see to the Service and the pods behind it: the API server has nobody to ask"
    SelectorFits "selector_fits" Webhook ""
    SelectorNeverMatches "selector_never_matches" Webhook
        "mend namespaceSelector: a selector sees labels only, never annotations"
    NamespacesNotSelected "namespaces_not_selected" Webhook
        "mend namespaceSelector or the labels of these namespaces: a selector sees labels only, never annotations"
    SelectorRewritten "selector_rewritten" Webhook
        "put these expressions into your manifests, else GitOps and AKS overwrite each other; a namespace labelled control-plane is never meshed"
    NoDeadlock "no_deadlock" Webhook ""
    FailurePolicyDeadlock "failure_policy_deadlock" Webhook
        "exclude them as outrigger install --ha does: with failurePolicy Fail they cannot start while the webhook is away, nor it without them"
    WebhookOrder "webhook_order" Webhook ""
    WebhookNotReinvoked "webhook_not_reinvoked" Webhook
        "set reinvocationPolicy: IfNeeded, so that what later webhooks add is seen"
    MatchConditionsUnknown "match_conditions_unknown" Webhook
        "print the registration for this server with outrigger install --server-version; where it fails closed, label namespaces without meshed pods config.linkerd.io/admission-webhooks=disabled"
    DryRunUnsupported "dry_run_unsupported" Webhook
        "set sideEffects: NoneOnDryRun, else dry runs of pods fail"
    DryRunInjected "dry_run_injected" Webhook ""
    DryRunDiffers "dry_run_differs" Webhook
        "use the webhook's version of outrigger; else see what it knows otherwise: its log, and /metrics for watches that fail"
    DryRunSkipped "dry_run_skipped" Webhook
        "see the reason in docs/decision.md"
    DryRunDenied "dry_run_denied" Webhook
        "see the reason: outrigger explain tells the ways out"
    DryRunInjectionRefused "dry_run_injection_refused" Webhook
        "tell Outrigger what it cannot see: the cluster's default in outrigger.podSecurity of the values (docs/decision.md)"
    DryRunRefused "dry_run_refused" Webhook
        "what refused the plain, restricted-clean pod refuses others too"
    DryRunNotInjected "dry_run_not_injected" Webhook
        "the webhook was not called, or did not answer and failurePolicy Ignore let the pod pass: see the other lines of this section"
    DryRunTimeout "dry_run_timeout" Webhook
        "open the webhook's port (8443) from the control plane to the nodes in firewall or security group, or see why the webhook is slow"
    DryRunConnectionRefused "dry_run_connection_refused" Webhook
        "nobody listens there: see to the Deployment DEPLOYMENT of NAMESPACE and to the Service's targetPort"
    DryRunTls "dry_run_tls" Webhook
        "make certificate and caBundle agree: see certs/README.md"
    DryRunUnreachable "dry_run_unreachable" Webhook
        "see to the Service, its endpoints, and the network between API server and nodes"
    DryRunUnanswered "dry_run_unanswered" Webhook
        "the API server waits for some webhook longer than is waited for it here (see timeoutSeconds of all), or the way to it is bad: try again"
    DryRunNotTried "dry_run_not_tried" Webhook
        ""

    CniReady "cni_ready" Cni ""
    CniAbsent "cni_absent" Cni ""
    CniDeclaredAbsent "cni_declared_absent" Cni
        "install the plugin (outrigger install-cni), or set cniEnabled=false: pods are given no init container and would wait for rules for ever"
    CniNotReady "cni_not_ready" Cni
        "see the pods of the DaemonSet on these nodes: new pods wait there until the plugin is in the chain"
    CniNodesUncovered "cni_nodes_uncovered" Cni
        "let the DaemonSet tolerate and select these nodes, else pods that only fit there need NET_ADMIN"
    CniTwoPlugins "cni_two_plugins" Cni
        "remove one: two plugins in the chain write rules twice"
    CniDisbelieved "cni_disbelieved" Cni
        "put the plugin into a namespace with pod-security.kubernetes.io/enforce=privileged: elsewhere its pods are refused, and its label is anybody's"
    CniIgnoresAnnotation "cni_ignores_annotation" Cni
        "replace Linkerd's plugin by ours: it sets rules where linkerd.io/setup-iptables is false"
    CniNeeded "cni_needed" Cni
        "install a CNI plugin first (outrigger install-cni): without one these pods are refused"
    CniNotNeeded "cni_not_needed" Cni ""

    WorkloadsAdmitted "workloads_admitted" Workloads ""
    WorkloadsNone "workloads_none" Workloads ""
    WorkloadRefused "workload_refused" Workloads
        "outrigger explain tells the ways out; docs/decision.md has each reason"
    WorkloadLeftAlone "workload_left_alone" Workloads
        "these asked for the mesh and do not get it: docs/decision.md has each reason"
    WorkloadWarned "workload_warned" Workloads
        "docs/decision.md has each warning"
    WorkloadNotSelected "workload_not_selected" Workloads
        "their pods are never sent to the webhook: mend objectSelector or their labels"
    UidClash "uid_clash" Workloads
        "run the container as another user, or move the proxy with config.linkerd.io/proxy-uid: its traffic passes the proxy by"
    UidExemptInit "uid_exempt_init_container" Workloads
        "right if the init container needs network before the proxy runs; its traffic is not meshed"

    NetworkPolicies "network_policies" NetworkPolicies ""
    NetworkPolicyWithoutProxyPort "network_policy_without_proxy_port" NetworkPolicies
        "allow the proxy's inbound port too: opaque and multi-cluster traffic arrives on it, whatever port was meant"
    NetworkPolicyVoid "network_policy_void" NetworkPolicies
        "limit ports with Linkerd's Server and AuthorizationPolicy: whoever reaches the proxy's port reaches every port behind it"

    ProxiesPresent "proxies_present" Proxies ""
    PodWithoutProxy "pod_without_proxy" Proxies
        "restart them: kubectl rollout restart"
    PodLeftAlone "pod_left_alone" Proxies
        "a restart changes nothing: docs/decision.md has each reason"
    PodDeniedNow "pod_denied_now" Proxies
        "they run un-meshed, and would not come up again: outrigger explain tells the ways out"
    ProxyVersion "proxy_version" Proxies ""
    ProxyVersionSkew "proxy_version_skew" Proxies
        "restart them: kubectl rollout restart"
    ProxyNotReady "proxy_not_ready" Proxies
        "see the log of the container linkerd-proxy, and of linkerd-network-validator where the pod still starts"
    RunningUidClash "running_uid_clash" Proxies
        "run the container as another user: its traffic passes the proxy by"
}

impl Serialize for Code {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.word())
    }
}

impl Serialize for Section {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.word())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn each_code_has_a_word_of_its_own_that_the_document_explains() {
        let document = include_str!("../../../docs/check.md");
        let words: BTreeSet<_> = Code::ALL.iter().map(|code| code.word()).collect();
        assert_eq!(words.len(), Code::ALL.len());
        for code in Code::ALL {
            let row = document
                .lines()
                .find(|line| line.starts_with(&format!("| `{}` |", code.word())));
            let row = row.unwrap_or_else(|| panic!("docs/check.md has no row for {}", code.word()));
            assert!(
                row.ends_with(&format!("| {} |", code.cure())) || code.cure().is_empty(),
                "{row}"
            );
        }
    }
}
