//! The CNI plugin: where it is meant to be, and whether it is there.

use crate::cli::check::code::Code;
use crate::cli::check::finding::{Finding, count};
use crate::decide::coverage::Plugin;
use crate::decide::placement::Node;
use serde_json::Value;

/// A DaemonSet of the plugin, and how far it has got.
struct Installed {
    plugin: Plugin,
    desired: u64,
    ready: u64,
}

/// Judges the plugins among `daemon_sets`, which are believed to be the plugin. `declared` is `cniEnabled` of the values;
/// `unredirected` are workloads that want no redirection.
pub(in crate::cli::check) fn judge(
    daemon_sets: &[&Value],
    nodes: &[Value],
    declared: bool,
    unredirected: &[String],
) -> Vec<Finding> {
    let installed: Vec<_> = daemon_sets.iter().filter_map(|it| Installed::read(it)).collect();
    if installed.is_empty() {
        return vec![match declared {
            true => Finding::failed(
                Code::CniDeclaredAbsent,
                "the values say cniEnabled, and there is no plugin",
            ),
            false => Finding::ok(
                Code::CniAbsent,
                "no CNI plugin: pods are redirected by their init container",
            ),
        }];
    }
    let mut findings: Vec<_> = installed.iter().map(Installed::readiness).collect();
    findings.extend(uncovered(&installed, nodes, declared));
    findings.extend(several(&installed));
    let foreign = installed.iter().any(|it| !it.plugin.ours);
    if foreign && !unredirected.is_empty() {
        let message = format!(
            "Linkerd's plugin redirects {} all the same",
            count(unredirected.len(), "workload")
        );
        findings.push(Finding::warning(Code::CniIgnoresAnnotation, message).with(unredirected.iter().cloned()));
    }
    findings
}

/// `DaemonSets` that say that they are the plugin, and are not taken for it.
pub(in crate::cli::check) fn disbelieved(lines: Vec<String>) -> Option<Finding> {
    let message = format!("{} not taken for the plugin", are(lines.len()));
    (!lines.is_empty()).then(|| Finding::warning(Code::CniDisbelieved, message).with(lines))
}

fn are(daemon_sets: usize) -> String {
    let verb = if daemon_sets == 1 { "is" } else { "are" };
    format!("{} {verb}", count(daemon_sets, "DaemonSet"))
}

impl Installed {
    fn read(daemon_set: &Value) -> Option<Self> {
        let number = |key: &str| {
            let number = daemon_set.pointer("/status").and_then(|status| status.get(key));
            number.and_then(Value::as_u64).unwrap_or_default()
        };
        Some(Self {
            plugin: Plugin::read(daemon_set)?,
            desired: number("desiredNumberScheduled"),
            ready: number("numberReady"),
        })
    }

    fn readiness(&self) -> Finding {
        let Self { plugin, desired, ready } = self;
        let whose = if plugin.ours { "our" } else { "Linkerd's" };
        let message = format!("{whose} plugin {}: ready on {ready} of {desired} nodes", plugin.name);
        match (ready < desired, *ready) {
            (false, _) => Finding::ok(Code::CniReady, message),
            (true, 0) => Finding::failed(Code::CniNotReady, message),
            (true, _) => Finding::warning(Code::CniNotReady, message),
        }
    }
}

/// Linux nodes that no plugin is meant for.
fn uncovered(installed: &[Installed], nodes: &[Value], declared: bool) -> Option<Finding> {
    let is_covered = |node: &Node| installed.iter().any(|it| it.plugin.covers(node));
    let bare: Vec<_> = nodes
        .iter()
        .map(Node::read)
        .filter(|node| !node.is_windows() && !is_covered(node))
        .map(|node| node.name)
        .collect();
    if bare.is_empty() {
        return None;
    }
    let message = format!(
        "no plugin is meant for {} of {}",
        bare.len(),
        count(nodes.len(), "node")
    );
    Some(
        match declared {
            true => Finding::failed(Code::CniNodesUncovered, message + ", and the values say cniEnabled"),
            false => Finding::warning(Code::CniNodesUncovered, message),
        }
        .with(bare),
    )
}

fn several(installed: &[Installed]) -> Option<Finding> {
    let (ours, foreign): (Vec<_>, Vec<_>) = installed.iter().partition(|it| it.plugin.ours);
    let both = !ours.is_empty() && !foreign.is_empty();
    let names = installed.iter().map(|it| it.plugin.name.clone());
    both.then(|| Finding::warning(Code::CniTwoPlugins, "our plugin and Linkerd's are both there").with(names))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::slice;

    fn plugin(labels: &Value, selector: &Value, desired: u64, ready: u64) -> Value {
        json!({
            "metadata": {"namespace": "linkerd-cni", "name": "cni", "labels": labels},
            "spec": {"template": {"spec": {
                "nodeSelector": selector, "tolerations": [{"operator": "Exists"}],
                "volumes": [{"name": "net", "hostPath": {"path": "/etc/cni/net.d"}}]}}},
            "status": {"desiredNumberScheduled": desired, "numberReady": ready},
        })
    }

    fn ours(selector: &Value, desired: u64, ready: u64) -> Value {
        plugin(
            &json!({"app.kubernetes.io/name": "outrigger-cni"}),
            selector,
            desired,
            ready,
        )
    }

    fn codes(daemon_sets: &[Value], declared: bool, unredirected: &[String]) -> Vec<(&'static str, &'static str)> {
        let node = |name: &str, pool: &str, os: &str| json!({"metadata": {"name": name, "labels": {"pool": pool, "kubernetes.io/os": os}}});
        let nodes = [
            node("a", "mesh", "linux"),
            node("b", "batch", "linux"),
            node("w", "batch", "windows"),
        ];
        let daemon_sets: Vec<_> = daemon_sets.iter().collect();
        let findings = judge(&daemon_sets, &nodes, declared, unredirected);
        findings
            .iter()
            .map(|finding| (finding.code.word(), finding.status.word()))
            .collect()
    }

    #[test]
    fn a_plugin_is_where_its_daemon_set_is_ready() {
        let everywhere = json!({});
        assert_eq!(codes(&[], false, &[]), [("cni_absent", "ok")]);
        assert_eq!(codes(&[], true, &[]), [("cni_declared_absent", "failed")]);
        assert_eq!(codes(&[ours(&everywhere, 2, 2)], true, &[]), [("cni_ready", "ok")]);
        assert_eq!(
            codes(&[ours(&everywhere, 2, 1)], false, &[]),
            [("cni_not_ready", "warning")]
        );
        assert_eq!(
            codes(&[ours(&everywhere, 2, 0)], false, &[]),
            [("cni_not_ready", "failed")]
        );
    }

    #[test]
    fn linux_nodes_without_a_plugin_are_named() {
        let on_mesh = ours(&json!({"pool": "mesh"}), 1, 1);
        let uncovered = |status| [("cni_ready", "ok"), ("cni_nodes_uncovered", status)];
        assert_eq!(codes(slice::from_ref(&on_mesh), false, &[]), uncovered("warning"));
        assert_eq!(codes(&[on_mesh], true, &[]), uncovered("failed"));
    }

    #[test]
    fn linkerds_plugin_ignores_that_nobody_wants_rules() {
        let theirs = plugin(&json!({"k8s-app": "linkerd-cni"}), &json!({}), 1, 1);
        let unredirected = ["shop/Deployment/web".to_owned()];
        assert_eq!(
            codes(slice::from_ref(&theirs), false, &unredirected),
            [("cni_ready", "ok"), ("cni_ignores_annotation", "warning")]
        );
        let both = codes(&[theirs, ours(&json!({}), 1, 1)], false, &[]);
        assert_eq!(both[2], ("cni_two_plugins", "warning"));
    }
}
