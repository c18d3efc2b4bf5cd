//! Pods that are meshed become ready under a policy that refuses `NET_ADMIN` and without one, and their traffic passes the
//! proxy on both sides.

use serde_json::{Value, json};

use crate::on_node;
use crate::pods::{Rules, address, deploy, marks, meshed_namespace, name, ready, rules};

/// The names of a pod's init containers.
fn init_containers(pod: &Value) -> Vec<&str> {
    let containers = pod["spec"]["initContainers"].as_array().into_iter().flatten();
    containers.filter_map(|container| container["name"].as_str()).collect()
}

/// What is left on a request that passed the proxy of the client and that of the server.
fn both(client: &Value, server: &Value) -> [String; 2] {
    [
        format!("4140 {} for 8080", name(client)),
        format!("4143 {} for 8080", name(server)),
    ]
}

#[test]
fn the_plugin_meshes_a_restricted_namespace_and_linkerd_init_a_privileged_one() {
    on_node(async |node| {
        meshed_namespace(node, "restricted", "restricted").await;
        meshed_namespace(node, "privileged", "privileged").await;
        deploy(node, "restricted", "web", &json!({}));
        deploy(node, "restricted", "client", &json!({}));
        let init = json!({"linkerd.io/setup-iptables": "init-container"});
        deploy(node, "privileged", "web", &init);
        deploy(node, "privileged", "client", &init);
        deploy(node, "privileged", "plain", &json!({"linkerd.io/inject": "disabled"}));

        let (by_plugin, client) = (
            ready(node, "restricted", "web").await,
            ready(node, "restricted", "client").await,
        );
        assert!(
            init_containers(&by_plugin).contains(&"linkerd-network-validator"),
            "{by_plugin}"
        );
        assert!(!init_containers(&by_plugin).contains(&"linkerd-init"), "{by_plugin}");
        let (by_init, other) = (
            ready(node, "privileged", "web").await,
            ready(node, "privileged", "client").await,
        );
        assert!(init_containers(&by_init).contains(&"linkerd-init"), "{by_init}");
        let plain = ready(node, "privileged", "plain").await;
        assert_eq!(init_containers(&plain), [""; 0]);

        for pod in [&by_plugin, &client, &by_init, &other] {
            assert_eq!(rules(node, address(pod)), Rules::There, "{}", name(pod));
        }
        assert_eq!(rules(node, address(&plain)), Rules::Missing);

        let ask = |namespace: &str, client: &Value, server: &Value| marks(node, namespace, client, address(server));
        assert_eq!(ask("restricted", &client, &by_plugin), both(&client, &by_plugin));
        assert_eq!(ask("privileged", &other, &by_init), both(&other, &by_init));
        // Between the two ways, and from and to a pod that is not meshed.
        assert_eq!(ask("restricted", &client, &by_init), both(&client, &by_init));
        assert_eq!(ask("privileged", &other, &by_plugin), both(&other, &by_plugin));
        assert_eq!(ask("privileged", &plain, &by_plugin), both(&plain, &by_plugin)[1..]);
        assert_eq!(ask("privileged", &other, &plain), both(&other, &plain)[..1]);
        node.delete_namespaces(&["restricted", "privileged"]);
    });
}
