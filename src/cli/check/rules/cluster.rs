//! Releases of server and kubelets, and nodes on which no proxy can be redirected to.

use super::{label, name};
use crate::cli::chart::OLDEST;
use crate::cli::check::code::Code;
use crate::cli::check::finding::{Finding, count};
use crate::pod::{list, text};
use crate::policy::Release;
use crate::policy::pod_security::Server;
use serde_json::Value;
use std::collections::BTreeSet;

/// How many releases a kubelet may be older than the API server (Kubernetes' version skew policy, from 1.28; two before).
const SKEW: u32 = 3;

/// What runs pods on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Platform {
    Usual,
    Windows,
    /// AWS Fargate: neither `NET_ADMIN` nor `DaemonSets`.
    Fargate,
    /// A kubelet that stands for somebody's service: no node to put a plugin on.
    Virtual,
    /// GKE Autopilot: no writable host paths, and `NET_ADMIN` only where the cluster was made so.
    Autopilot,
}

/// What there is to judge.
#[derive(Clone, Copy, Debug)]
pub(in crate::cli::check) struct Hosts<'a> {
    /// The API server; nothing where it did not tell its release.
    pub(in crate::cli::check) server: Option<Server>,
    /// Nothing where they may not be read.
    pub(in crate::cli::check) nodes: Option<&'a [Value]>,
    /// Whether the installation wants native sidecars.
    pub(in crate::cli::check) native: bool,
}

/// Judges server and nodes.
pub(in crate::cli::check) fn judge(hosts: &Hosts<'_>) -> Vec<Finding> {
    let nodes = hosts.nodes.unwrap_or_default();
    let Some(server) = hosts.server else {
        let message = format!(
            "the API server answers, and does not tell its release: Kubernetes {} is assumed",
            Release::NEWEST
        );
        let mut findings = vec![Finding::unknown(Code::ApiServer, message)];
        findings.extend(platforms(nodes));
        return findings;
    };
    let release = server.release;
    let emulated = server
        .emulated
        .map(|emulated| format!(", which emulates {emulated}"))
        .unwrap_or_default();
    let message = format!("the API server answers: Kubernetes {release}{emulated}");
    let mut findings = vec![Finding::ok(Code::ApiServer, message)];
    if release < OLDEST {
        let message = format!("Kubernetes {release} is older than {OLDEST}, the oldest that is supported");
        findings.push(Finding::failed(Code::ServerTooOld, message));
    }
    if release > Release::NEWEST {
        let message = format!(
            "Kubernetes {release} is newer than {}, the newest that this outrigger knows",
            Release::NEWEST
        );
        findings.push(Finding::warning(Code::ServerNewerThanKnown, message));
    }
    findings.extend(hosts.native.then(|| sidecars(release, hosts.nodes)));
    findings.extend(skew(release, nodes));
    findings.extend(platforms(nodes));
    findings
}

/// Native sidecars are on by default from 1.29 on, in the API server and in each kubelet.
fn sidecars(release: Release, nodes: Option<&[Value]>) -> Finding {
    let wanted = Release::NATIVE_SIDECARS;
    if release < wanted {
        let message = format!(
            "native sidecars need Kubernetes {wanted}, this is {release}: proxies are ordinary containers, and Jobs do not end by themselves"
        );
        return Finding::warning(Code::ServerWithoutNativeSidecars, message);
    }
    let well = Finding::ok(Code::NativeSidecars, "server and kubelets have native sidecars");
    let Some(nodes) = nodes else {
        return well.unless_unseen(&["nodes"]);
    };
    let old: Vec<_> = kubelets(nodes).filter(|(_, kubelet)| *kubelet < wanted).collect();
    if old.is_empty() {
        let telling: BTreeSet<_> = kubelets(nodes).map(|(node, _)| node).collect();
        let silent = nodes.iter().map(name).filter(|node| !telling.contains(node));
        let silent: Vec<_> = silent.map(str::to_owned).collect();
        if silent.is_empty() {
            return well;
        }
        let message = format!("{} not tell which release it is", do_not(silent.len()));
        return Finding::unknown(Code::NativeSidecars, message).with(silent);
    }
    let message = format!(
        "{} older than {wanted}: pods that can land there get the proxy as an ordinary container",
        are(old.len())
    );
    Finding::warning(Code::KubeletWithoutNativeSidecars, message).with(lines(&old))
}

fn skew(release: Release, nodes: &[Value]) -> Option<Finding> {
    let oldest = Release(release.0.saturating_sub(SKEW));
    let off: Vec<_> = kubelets(nodes)
        .filter(|(_, kubelet)| *kubelet > release || *kubelet < oldest)
        .collect();
    let message = format!("{} not of {oldest} to {release}", are(off.len()));
    (!off.is_empty()).then(|| Finding::warning(Code::KubeletSkew, message).with(lines(&off)))
}

fn are(kubelets: usize) -> String {
    let verb = if kubelets == 1 { "is" } else { "are" };
    format!("{} {verb}", count(kubelets, "kubelet"))
}

fn do_not(kubelets: usize) -> String {
    let verb = if kubelets == 1 { "does" } else { "do" };
    format!("{} {verb}", count(kubelets, "kubelet"))
}

fn lines(kubelets: &[(&str, Release)]) -> Vec<String> {
    let line = |(node, release): &(&str, Release)| format!("{node}: kubelet {release}");
    kubelets.iter().map(line).collect()
}

/// Nodes with the release of their kubelet, as far as they tell it.
fn kubelets(nodes: &[Value]) -> impl Iterator<Item = (&str, Release)> {
    nodes.iter().filter_map(|node| {
        let version = node.pointer("/status/nodeInfo/kubeletVersion")?.as_str()?;
        Some((name(node), version.parse().ok()?))
    })
}

fn platforms(nodes: &[Value]) -> Option<Finding> {
    let odd: Vec<_> = nodes
        .iter()
        .map(|node| (name(node), platform(node)))
        .filter(|(_, platform)| *platform != Platform::Usual)
        .collect();
    if nodes.is_empty() {
        return None;
    }
    let hopeless = odd.iter().filter(|(_, it)| *it != Platform::Autopilot).count();
    let lines = odd
        .iter()
        .map(|(node, platform)| format!("{node}: {}", platform.name()));
    let all = count(nodes.len(), "node");
    Some(if hopeless == nodes.len() {
        let message = format!("neither redirection works on any of {all}");
        Finding::failed(Code::PlatformUnsupported, message).with(lines)
    } else if odd.iter().any(|(_, it)| *it == Platform::Autopilot) {
        let message = "GKE Autopilot takes no CNI plugin, and NET_ADMIN only where the cluster was made so";
        Finding::warning(Code::PlatformRestricted, message).with(lines)
    } else if odd.iter().any(|(_, it)| *it != Platform::Windows) {
        let message = format!("neither redirection works on {hopeless} of {all}");
        Finding::warning(Code::PlatformUnsupported, message).with(lines)
    } else {
        let aside = match odd.len() {
            0 => String::new(),
            windows => format!(", {windows} of which run Windows, where no pod is meshed"),
        };
        Finding::ok(Code::PlatformSupported, format!("{all} that can be meshed{aside}"))
    })
}

fn platform(node: &Value) -> Platform {
    let tainted = |key: &str| {
        let spec = node.get("spec");
        spec.is_some_and(|spec| list(spec, "taints").any(|taint| text(taint, "key") == Some(key)))
    };
    if label(node, "eks.amazonaws.com/compute-type") == Some("fargate") {
        Platform::Fargate
    } else if label(node, "type") == Some("virtual-kubelet") || tainted("virtual-kubelet.io/provider") {
        Platform::Virtual
    } else if label(node, "kubernetes.io/os") == Some("windows") {
        Platform::Windows
    } else if name(node).starts_with("gk3-") {
        // GKE names the nodes of Autopilot so, and those of its other clusters gke-.
        Platform::Autopilot
    } else {
        Platform::Usual
    }
}

impl Platform {
    fn name(self) -> &'static str {
        match self {
            Self::Usual => "usual",
            Self::Windows => "Windows",
            Self::Fargate => "AWS Fargate",
            Self::Virtual => "virtual kubelet",
            Self::Autopilot => "GKE Autopilot",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::check::finding::Status;
    use serde_json::json;

    fn node(name: &str, labels: &Value, kubelet: &str) -> Value {
        json!({"metadata": {"name": name, "labels": labels}, "status": {"nodeInfo": {"kubeletVersion": kubelet}}})
    }

    fn codes(release: u32, nodes: &[Value]) -> Vec<&'static str> {
        let findings = judged(Some(Release(release).into()), Some(nodes));
        findings.iter().map(|finding| finding.code.word()).collect()
    }

    fn judged(server: Option<Server>, nodes: Option<&[Value]>) -> Vec<Finding> {
        let native = true;
        judge(&Hosts { server, nodes, native })
    }

    #[test]
    fn what_nobody_tells_is_unknown() {
        let server = Some(Release(36).into());
        let unknown = |finding: &Finding, code| (finding.code, finding.status) == (code, Status::Unknown);
        let unseen = judged(server, None);
        assert!(unknown(&unseen[1], Code::NativeSidecars), "{unseen:?}");
        assert!(unseen[1].message.ends_with("not looked at: nodes"), "{unseen:?}");
        let silent = judged(server, Some(&[node("n1", &json!({}), "unknown")]));
        assert!(unknown(&silent[1], Code::NativeSidecars), "{silent:?}");
        assert_eq!(silent[1].details, ["n1"]);
        let nameless = judged(None, Some(&[]));
        assert!(
            unknown(&nameless[0], Code::ApiServer) && nameless.len() == 1,
            "{nameless:?}"
        );
    }

    #[test]
    fn old_kubelets_are_named() {
        let node = |kubelet: &str| node("n1", &json!({}), kubelet);
        let well = ["api_server", "native_sidecars", "platform_supported"];
        assert_eq!(codes(36, &[node("v1.34.2-eks-1")]), well);
        assert_eq!(
            codes(31, &[node("v1.28.9")]),
            ["api_server", "kubelet_without_native_sidecars", "platform_supported"]
        );
        assert_eq!(codes(36, &[node("v1.37.0")])[2], "kubelet_skew");
        assert_eq!(codes(36, &[node("v1.32.0")])[2], "kubelet_skew");
        assert_eq!(codes(28, &[])[1], "server_without_native_sidecars");
        assert_eq!(codes(99, &[])[1], "server_newer_than_known");
        assert_eq!(codes(36, &[node("unknown")]), well);
    }

    #[test]
    fn platforms_are_told_by_labels() {
        let of = |name: &str, labels: Value| node(name, &labels, "");
        let usual = of("n1", json!({"kubernetes.io/os": "linux"}));
        let windows = of("w", json!({"kubernetes.io/os": "windows"}));
        let fargate = of("f", json!({"eks.amazonaws.com/compute-type": "fargate"}));
        let tainted = json!({"metadata": {"name": "v"}, "spec": {"taints": [{"key": "virtual-kubelet.io/provider"}]}});
        let found = |nodes: &[&Value]| {
            let nodes: Vec<_> = nodes.iter().map(|&node| node.clone()).collect();
            let finding = platforms(&nodes).unwrap();
            (finding.code.word(), finding.status.word(), finding.details.len())
        };
        assert_eq!(found(&[&usual, &windows]), ("platform_supported", "ok", 0));
        assert_eq!(found(&[&usual, &fargate]), ("platform_unsupported", "warning", 1));
        assert_eq!(
            found(&[&usual, &tainted, &windows]),
            ("platform_unsupported", "warning", 2)
        );
        assert_eq!(found(&[&windows, &fargate]), ("platform_unsupported", "failed", 2));
        let autopilot = of("gk3-pool-1", json!({}));
        assert_eq!(found(&[&autopilot]), ("platform_restricted", "warning", 1));
        assert_eq!(platforms(&[]), None);
    }
}
