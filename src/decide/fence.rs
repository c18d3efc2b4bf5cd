//! What stays open although a pod asks for the fence.

use crate::config::Config;
use crate::config::annotation::EGRESS_DNS;
use crate::inject::{PROXY, Redirection};
use crate::pod::{Pod, boolean, container_name, list, object, text};
use serde_json::Value;

/// With these a container changes the rules, sends below them, or becomes the proxy's user: the fence holds nobody who has
/// one.
const CAPABILITIES: [&str; 5] = ["ALL", "NET_ADMIN", "NET_RAW", "SETUID", "SYS_ADMIN"];

/// The gaps in the fence of `pod`, each a sentence; none where it asks for no fence. The proxy runs as `user`;
/// `foreign_plugin` says that the nodes have Linkerd's CNI plugin.
pub(super) fn gaps(
    (pod, config): (&Pod<'_>, &Config),
    (redirection, foreign_plugin): (Redirection, bool),
    user: i64,
) -> Vec<String> {
    let own = &config.values.outrigger;
    if !own.egress_fence {
        return Vec::new();
    }
    let by_rules = match redirection {
        Redirection::None => Some("nobody sets rules for the pod, so there is no fence".to_owned()),
        Redirection::Cni if foreign_plugin => Some("linkerd-cni sets no fence; outrigger-cni does".to_owned()),
        Redirection::Cni
            if own.egress_dns.is_empty()
                && config.set_by("outrigger.egressDNS").is_none()
                && text(pod.spec(), "dnsPolicy") != Some("None") =>
        {
            Some(format!(
                "the CNI plugin cannot know the pod's name servers, and refuses the pod without {EGRESS_DNS}"
            ))
        }
        Redirection::InitContainer if !config.values.proxy.native_sidecar && !pod.init_containers().is_empty() => {
            Some("the pod's init containers run before linkerd-init, and so before there is a fence".to_owned())
        }
        Redirection::Cni | Redirection::InitContainer => None,
    };
    let containers = pod
        .all_containers()
        .filter(|container| container_name(container) != PROXY);
    let by_containers = containers.filter_map(|container| {
        let why = power(pod, container)
            .or_else(|| (pod.user_of(container) == Some(user)).then(|| format!("runs as the proxy's user, {user}")))?;
        Some(format!(
            "the fence does not hold container {}: it {why}",
            container_name(container)
        ))
    });
    by_rules.into_iter().chain(by_containers).collect()
}

/// What a container has that no rule holds. Root has all that runtimes give, `NET_RAW` and `SETUID` among it, unless it is
/// dropped.
fn power(pod: &Pod<'_>, container: &Value) -> Option<String> {
    let context = object(container, "securityContext");
    if context.and_then(|context| boolean(context, "privileged")) == Some(true) {
        return Some("is privileged".to_owned());
    }
    let sets = context.and_then(|context| object(context, "capabilities"));
    let named = |set| {
        let names = sets.into_iter().flat_map(move |sets| list(sets, set));
        let names = names.filter_map(Value::as_str);
        names.map(|name| name.strip_prefix("CAP_").unwrap_or(name))
    };
    if let Some(held) = named("add").find(|name| CAPABILITIES.contains(name)) {
        return Some(format!("has the capability {held}"));
    }
    let dropped = |name| named("drop").any(|dropped| dropped == name);
    let drops = dropped("ALL") || GIVEN.into_iter().all(dropped);
    (pod.user_of(container) == Some(0) && !drops).then(|| "runs as root without dropping all capabilities".to_owned())
}

/// Those of them that container runtimes give to root.
const GIVEN: [&str; 2] = ["NET_RAW", "SETUID"];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Installation, Layers};
    use serde_json::json;

    /// What is told of a pod with these containers, whose annotation says this.
    fn told(said: &str, redirection: (Redirection, bool), spec: &Value) -> Vec<String> {
        let object = json!({"metadata": {"annotations": {"outrigger.linkerd.io/egress-fence": said}}, "spec": spec});
        let pod = Pod::new(&object);
        let layers = Layers {
            namespace: None,
            pod: &pod,
            workload: None,
        };
        let config = Config::effective(
            &Installation::parse(&["proxy: {nativeSidecar: false}"], None, "linkerd").unwrap(),
            &layers,
        );
        gaps((&pod, &config), redirection, 2102)
    }

    #[test]
    fn whoever_goes_around_is_named() {
        let spec = json!({
            "dnsPolicy": "None",
            "initContainers": [{"name": "first", "securityContext": {"runAsUser": 2102}}],
            "containers": [
                {"name": "app", "securityContext": {"runAsUser": 1000, "capabilities": {"add": ["CHOWN"], "drop": ["ALL"]}}},
                {"name": "sniffer", "securityContext": {"capabilities": {"add": ["CHOWN", "CAP_NET_RAW"]}}},
                {"name": "tool", "securityContext": {"privileged": true}},
                {"name": "root", "securityContext": {"runAsUser": 0, "capabilities": {"drop": ["NET_RAW"]}}},
                {"name": "bare", "securityContext": {"runAsUser": 0, "capabilities": {"drop": ["ALL"]}}},
            ],
        });
        let by_plugin = (Redirection::Cni, false);
        let gaps = told("enabled", by_plugin, &spec);
        let expected = [
            "container first: it runs as the proxy's user, 2102",
            "sniffer: it has the capability NET_RAW",
            "tool: it is privileged",
            "root: it runs as root without dropping all capabilities",
        ];
        assert_eq!(gaps.len(), expected.len(), "{gaps:?}");
        for text in expected {
            assert!(gaps.iter().any(|gap| gap.ends_with(text)), "{text}: {gaps:?}");
        }
        assert!(told("disabled", by_plugin, &spec).is_empty());
    }

    #[test]
    fn whether_anybody_writes_the_rules_is_told() {
        let (plain, own) = (json!({"containers": [{"name": "app"}]}), json!({"dnsPolicy": "None"}));
        let early = json!({"initContainers": [{"name": "first"}]});
        for (redirection, spec, expected) in [
            ((Redirection::InitContainer, true), &plain, None),
            (
                (Redirection::InitContainer, true),
                &early,
                Some("run before linkerd-init"),
            ),
            ((Redirection::None, false), &plain, Some("nobody sets rules")),
            ((Redirection::Cni, true), &plain, Some("linkerd-cni sets no fence")),
            (
                (Redirection::Cni, false),
                &plain,
                Some("refuses the pod without outrigger.linkerd.io/egress-dns"),
            ),
            ((Redirection::Cni, false), &own, None),
        ] {
            let gaps = told("enabled", redirection, spec);
            assert_eq!(gaps.len(), usize::from(expected.is_some()), "{gaps:?}");
            assert!(expected.is_none_or(|expected| gaps[0].contains(expected)), "{gaps:?}");
        }
    }
}
