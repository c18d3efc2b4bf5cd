//! The quality-of-service class of a pod: whether injection takes `Guaranteed` from it.
//!
//! Spec: `ComputePodQOS` of Kubernetes. A pod whose figures are set for it as a whole (Kubernetes 1.34) keeps its class.

use crate::config::Config;
use crate::inject;
use crate::pod::{Pod, Quantity, container_name, object};
use serde_json::Value;

/// What must have a limit, and a request that is the same or left to the API server, in every container.
const RESOURCES: [&str; 2] = ["cpu", "memory"];

/// What takes the class `Guaranteed` from `pod`, in words; nothing where nothing does.
pub(super) fn lost_guarantee(pod: &Pod<'_>, config: &Config) -> Option<String> {
    let resources = &config.values.proxy.resources;
    let proxy = [&resources.cpu, &resources.memory];
    let kept = proxy
        .iter()
        .all(|bounds| is_fixed(Some(&bounds.limit), Some(&bounds.request)));
    let debug = config.debug && !pod.all_containers().any(|it| container_name(it) == inject::DEBUG);
    if kept && !debug || !is_guaranteed(pod) {
        return None;
    }
    let why = match kept {
        true => "linkerd-debug has no limits",
        false => "proxy-cpu-limit and -memory-limit, with requests like them, keep it so",
    };
    Some(format!("the pod is Guaranteed no more: {why}"))
}

fn is_guaranteed(pod: &Pod<'_>) -> bool {
    let mut containers = pod.containers().iter().chain(pod.init_containers());
    let whole = object(pod.spec(), "resources").is_some();
    !whole && !pod.containers().is_empty() && containers.all(|container| holds_fixed_figures(container))
}

fn holds_fixed_figures(container: &Value) -> bool {
    let Some(resources) = object(container, "resources") else {
        return false;
    };
    let figure = |half: &str, name: &str| {
        let figure = resources.get(half)?.get(name)?;
        Some(figure.as_str().map_or_else(|| figure.to_string(), str::to_owned))
    };
    RESOURCES
        .into_iter()
        .all(|name| is_fixed(figure("limits", name).as_deref(), figure("requests", name).as_deref()))
}

/// Whether there is a limit, and no other request. An empty text is none.
fn is_fixed(limit: Option<&str>, request: Option<&str>) -> bool {
    let limit = limit.and_then(Quantity::parse).filter(|limit| *limit != Quantity::ZERO);
    let request = request.filter(|text| !text.is_empty()).map(Quantity::parse);
    limit.is_some() && request.is_none_or(|request| request == limit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Installation, Layers};
    use serde_json::json;

    #[test]
    fn only_what_was_guaranteed_can_be_lost() {
        let fixed = json!({"limits": {"cpu": 1, "memory": "1Gi"}, "requests": {"cpu": "1000m"}});
        let burst = json!({"limits": {"cpu": 1, "memory": "1Gi"}, "requests": {"memory": "1Mi"}});
        let ours = "proxy: {resources: {cpu: {limit: 100m, request: '0.1'}, memory: {limit: 250Mi}}}";
        let spec = |resources: &Value| json!({"containers": [{"name": "a", "resources": resources}]});
        let mut with_init = spec(&fixed);
        with_init["initContainers"] = json!([{"name": "i"}]);
        let mut whole = spec(&fixed);
        whole["resources"] = json!({"limits": {"cpu": 2}});
        let debug = json!({"config.linkerd.io/enable-debug-sidecar": "true"});
        for (values, spec, annotations, lost) in [
            ("", spec(&fixed), json!({}), Some("proxy-cpu-limit")),
            ("", spec(&burst), json!({}), None),
            ("", spec(&json!({})), json!({}), None),
            ("", with_init, json!({}), None),
            ("", whole, json!({}), None),
            (ours, spec(&fixed), json!({}), None),
            (ours, spec(&fixed), debug, Some("linkerd-debug")),
            (
                ours,
                spec(&fixed),
                json!({"config.linkerd.io/proxy-memory-request": "20Mi"}),
                Some("proxy-cpu-limit"),
            ),
        ] {
            let object = json!({"metadata": {"annotations": annotations}, "spec": spec});
            let pod = Pod::new(&object);
            let installation = Installation::parse(&[values], None, "linkerd").unwrap();
            let layers = Layers {
                namespace: None,
                pod: &pod,
                workload: None,
            };
            let text = lost_guarantee(&pod, &Config::effective(&installation, &layers));
            assert_eq!(text.is_some(), lost.is_some(), "{object}");
            assert!(text.unwrap_or_default().contains(lost.unwrap_or_default()), "{object}");
        }
    }
}
