//! What injection leaves on a pod, read off the pod as the API server has it.

use serde_json::Value;

/// Where the API server mounts its token.
pub(crate) const API_TOKEN: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// The annotation that tells the CNI plugin what was chosen.
const SETUP_IPTABLES: &str = "linkerd.io/setup-iptables";

/// The capabilities that no pod may get from injection where a level is enforced.
const NETWORK_CAPABILITIES: [&str; 2] = ["NET_ADMIN", "NET_RAW"];

/// The containers of a pod, init containers first.
pub(crate) fn containers(pod: &Value) -> impl Iterator<Item = &Value> {
    let list = |key: &str| pod["spec"][key].as_array().into_iter().flatten();
    list("initContainers").chain(list("containers"))
}

/// How often the pod has a container called `name`.
pub(crate) fn count(pod: &Value, name: &str) -> usize {
    containers(pod).filter(|container| container["name"] == name).count()
}

/// The annotation `key` of an object.
pub(crate) fn annotation<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object["metadata"]["annotations"][key].as_str()
}

/// How traffic reaches the pod's proxy; nothing for a pod without one. What the pod has and what it says must agree.
pub(crate) fn redirection(pod: &Value) -> Option<&'static str> {
    let [proxies, inits, validators] =
        ["linkerd-proxy", "linkerd-init", "linkerd-network-validator"].map(|name| count(pod, name));
    let (redirection, said) = match (proxies, inits, validators) {
        (0, 0, 0) => return None,
        (1, 1, 0) => ("init-container", "init-container"),
        (1, 0, 1) => ("cni", "cni"),
        (1, 0, 0) => ("none", "false"),
        counts => panic!("a half-made pod, with {counts:?} proxies, inits and validators: {pod}"),
    };
    assert_eq!(annotation(pod, SETUP_IPTABLES), Some(said), "{pod}");
    for container in containers(pod) {
        assert!(
            container["image"].as_str().is_some_and(|image| !image.is_empty()),
            "{container}"
        );
    }
    Some(redirection)
}

/// The containers of `injected` that have a network capability which the container of that name in `own` has not.
pub(crate) fn gained_capabilities(own: &Value, injected: &Value) -> Vec<String> {
    let has = |container: &Value, capability: &str| {
        let added = container["securityContext"]["capabilities"]["add"].as_array();
        added.is_some_and(|added| added.iter().any(|it| it == capability))
    };
    let had = |name: &Value, capability: &str| {
        containers(own).any(|container| container["name"] == *name && has(container, capability))
    };
    let gained = |container: &Value| {
        NETWORK_CAPABILITIES
            .iter()
            .any(|capability| has(container, capability) && !had(&container["name"], capability))
    };
    let names = containers(injected).filter(|container| gained(container));
    names.map(|container| container["name"].to_string()).collect()
}

/// A pod's spec, with the same name for the API token's volume on every pod.
pub(crate) fn without_random_names(spec: &Value) -> Value {
    let volumes = spec["volumes"].as_array().into_iter().flatten();
    let names = volumes.filter_map(|volume| volume["name"].as_str());
    let random = names.filter(|name| name.starts_with("kube-api-access-"));
    let text = random.fold(spec.to_string(), |text, name| text.replace(name, "kube-api-access"));
    text.parse().unwrap()
}
