//! How pods of the webhook go: in a roll-out, and with their node.

use outrigger::egress::gateway::options::Timings as GatewayTimings;
use outrigger::webhook::options::Timings;
use serde_json::Value;

use crate::accepted::objects;
use crate::program::printed;

/// What of a pod's volumes is not lost with its node: all else the cluster autoscaler takes for local storage, and leaves the
/// node alone (`HasLocalStorage` of its `drainability/rules/localstorage`).
const ELSEWHERE: [&str; 4] = ["configMap", "downwardAPI", "projected", "secret"];

fn of_kind(objects: &[Value], kind: &str) -> Vec<Value> {
    objects.iter().filter(|it| it["kind"] == kind).cloned().collect()
}

#[test]
fn a_replica_is_given_longer_than_it_takes_to_stop() {
    let rendered = objects(&printed(&["install"]), &[]);
    let [deployment] = &of_kind(&rendered, "Deployment")[..] else {
        panic!("one Deployment")
    };
    let given = deployment["spec"]["template"]["spec"]["terminationGracePeriodSeconds"].as_u64();
    let Timings { linger, drain, .. } = Timings::DEFAULT;
    assert!(given.unwrap() > (linger + drain).as_secs());
    assert_eq!(deployment["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"], 0);
}

#[test]
fn a_gateway_is_given_longer_than_it_takes_to_stop() {
    let gateway = "--set=egress.enabled=true,egress.gateway.enabled=true,egress.gateway.clusterNetworks={10.0.0.0/8}";
    let only = "--show-only=templates/egress/gateway.yaml";
    let rendered = objects(&printed(&["install", gateway, only]), &[]);
    let [deployment] = &of_kind(&rendered, "Deployment")[..] else {
        panic!("one Deployment")
    };
    let given = deployment["spec"]["template"]["spec"]["terminationGracePeriodSeconds"].as_u64();
    let GatewayTimings { linger, drain, .. } = GatewayTimings::default();
    assert!(given.unwrap() > (linger + drain).as_secs());
    assert_eq!(deployment["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"], 0);
}

#[test]
fn no_pod_keeps_its_node_from_being_taken_away() {
    let all = "--set=probe.enabled=true,cniEnabled=true,certificates.clients.name=api-servers";
    let controller = "--set=egress.enabled=true,egress.controller.enabled=true";
    let gateway = "--set=egress.gateway.enabled=true,egress.gateway.clusterNetworks={10.0.0.0/8},\
                   egress.gateway.trustBundle.configMap=system";
    for mode in ["self", "secret"] {
        let mode = format!("--set=certificates.mode={mode}");
        let rendered = objects(&printed(&["install", "--ha", all, controller, gateway, &mode]), &[]);
        let deployments = of_kind(&rendered, "Deployment");
        assert_eq!(deployments.len(), 4);
        for deployment in deployments {
            for volume in deployment["spec"]["template"]["spec"]["volumes"].as_array().unwrap() {
                let is_elsewhere = ELSEWHERE.iter().any(|kind| !volume[kind].is_null());
                assert!(is_elsewhere, "{volume}");
            }
        }
        let budgets = of_kind(&rendered, "PodDisruptionBudget");
        assert!(budgets.len() == 3 && budgets.iter().all(|it| it["spec"]["maxUnavailable"] == 1));
    }
}

/// Who takes the chart away does not mean to delete every policy that goes by its `CustomResourceDefinitions`.
#[test]
fn what_helm_keeps_is_not_uninstalled() {
    let kinds = |command: &str| {
        let rendered = objects(&printed(&[command, "--set=egress.enabled=true"]), &[]);
        of_kind(&rendered, "CustomResourceDefinition").len()
    };
    assert_eq!((kinds("install"), kinds("uninstall")), (2, 0));
}
