//! Wrong values are refused by helm and by the program, with the key and with what is allowed, before anything is printed.

use std::process::Output;

use crate::helm::helm;
use crate::program::outrigger;

/// A chart, an assignment that it refuses, the key as helm's schema names it, and words of the program's refusal.
const WRONG: [(&str, &str, &str, &str); 23] = [
    (
        "outrigger",
        "webhook.failurePolicy=Maybe",
        "/webhook/failurePolicy",
        "webhook.failurePolicy: \"Maybe\" is not allowed: expected one of \"Ignore\", \"Fail\"",
    ),
    (
        "outrigger",
        "webhook.replica=3",
        "/webhook",
        "webhook.replica: there is no such key; expected one of affinity, excludedNamespaces,",
    ),
    (
        "outrigger",
        "replicas=3",
        "''",
        "replicas: there is no such key; expected one of autoscaling, certificates,",
    ),
    (
        "outrigger",
        "webhook.replicas=0",
        "/webhook/replicas",
        "webhook.replicas: 0 is not allowed: expected integer, at least 1",
    ),
    (
        "outrigger",
        "webhook.replicas=two",
        "/webhook/replicas",
        "webhook.replicas: \"two\" is not allowed: expected integer, at least 1",
    ),
    (
        "outrigger",
        "webhook.logLevel=loud",
        "/webhook/logLevel",
        "webhook.logLevel: \"loud\" is not allowed: expected one of \"error\", \"warn\", \"info\", \"debug\", \"trace\"",
    ),
    (
        "outrigger",
        "certificates.mode=selff",
        "/certificates/mode",
        "certificates.mode: \"selff\" is not allowed: expected one of \"self\", \"cert-manager\", \"secret\"",
    ),
    (
        "outrigger",
        "certificates.caBundle=-----BEGIN",
        "/certificates/caBundle",
        "certificates.caBundle: \"-----BEGIN\" is not allowed: expected base64, or empty",
    ),
    (
        "outrigger",
        "probe.namespaces={Shop}",
        "/probe/namespaces/0",
        "probe.namespaces[0]: \"Shop\" is not allowed: expected the name of a namespace: at most 63",
    ),
    (
        "outrigger",
        "webhook.tolerations[0].efect=NoExecute",
        "/webhook/tolerations/0",
        "webhook.tolerations[0].efect: there is no such key; expected one of effect, key, operator,",
    ),
    (
        "outrigger",
        "networkPolicy.apiServerPorts={70000}",
        "/networkPolicy/apiServerPorts/0",
        "networkPolicy.apiServerPorts[0]: 70000 is not allowed: expected integer from 1 to 65535",
    ),
    (
        "outrigger",
        "webhook.resources.limits.memory=much",
        "/webhook/resources/limits/memory",
        "webhook.resources.limits.memory: \"much\" is not allowed: expected a quantity such as 100m or 20Mi",
    ),
    (
        "outrigger",
        "image=outrigger:1",
        "/image",
        "image: \"outrigger:1\" is not allowed: expected object",
    ),
    (
        "outrigger",
        "name=injector",
        "/name",
        "name: \"injector\" is not allowed: expected one of \"linkerd-proxy-injector\", \"linkerd-outrigger\"",
    ),
    (
        "outrigger",
        "certificates.clients.kind=File",
        "/certificates/clients/kind",
        "certificates.clients.kind: \"File\" is not allowed: expected one of \"ConfigMap\", \"Secret\"",
    ),
    (
        "outrigger",
        "certificates.clients.key=a/b",
        "/certificates/clients/key",
        "certificates.clients.key: \"a/b\" is not allowed: expected the key of a ConfigMap or Secret",
    ),
    (
        "outrigger",
        "imagePullSecrets[0].name=Pull",
        "/imagePullSecrets/0/name",
        "imagePullSecrets[0].name: \"Pull\" is not allowed: expected the name of an object",
    ),
    (
        "outrigger",
        "egress.gateway.ports={443,443}",
        "/egress/gateway/ports",
        "egress.gateway.ports: [443,443] is not allowed: expected each of them once",
    ),
    (
        "outrigger",
        "egress.gateway.clusterNetworks={300.0.0.0/8}",
        "/egress/gateway/clusterNetworks/0",
        "egress.gateway.clusterNetworks[0]: \"300.0.0.0/8\" is not allowed: expected a network such as 10.96.0.0/12",
    ),
    (
        "outrigger",
        "egress.gateway.clusterNetworks={10.0.0.0}",
        "/egress/gateway/clusterNetworks/0",
        "egress.gateway.clusterNetworks[0]: \"10.0.0.0\" is not allowed: expected a network such as 10.96.0.0/12",
    ),
    (
        "outrigger-cni",
        "binDir=opt/cni",
        "/binDir",
        "binDir: \"opt/cni\" is not allowed: expected an absolute path",
    ),
    (
        "outrigger-cni",
        "maxUnavailable=some",
        "/maxUnavailable",
        "maxUnavailable: \"some\" is not allowed: expected a number of pods or a percentage such as 10%",
    ),
    (
        "outrigger-cni",
        "repair=often",
        "/repair",
        "repair: \"often\" is not allowed: expected boolean",
    ),
];

fn refused(output: &Output) -> String {
    assert!(!output.status.success());
    assert_eq!(String::from_utf8_lossy(&output.stdout), "", "nothing is printed");
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn a_wrong_value_is_refused_with_what_is_allowed() {
    for (chart, assignment, theirs, ours) in WRONG {
        let set = format!("--set={assignment}");
        let said = refused(&helm(&["template", chart, chart, "--kube-version=1.36", &set]));
        assert!(
            said.contains(&format!("at '{}'", theirs.trim_matches('\''))),
            "{assignment}: {said}"
        );
        let command = if chart == "outrigger" { "install" } else { "install-cni" };
        let output = outrigger(&[command, &set]);
        assert_eq!(output.status.code(), Some(2), "{assignment}");
        let said = refused(&output);
        assert!(said.contains(ours), "{assignment}: {said}");
    }
}

#[test]
fn all_that_is_wrong_is_named_at_once() {
    let said = refused(&outrigger(&[
        "install",
        "--set=a=1,webhook.replicas=0",
        "--set",
        "image.pullPolicy=No",
    ]));
    for wrong in ["\n  a: ", "\n  webhook.replicas: ", "\n  image.pullPolicy: "] {
        assert!(said.contains(wrong), "{said}");
    }
    assert!(said.starts_with("Error: values of the chart outrigger:"), "{said}");
}

#[test]
fn what_only_a_template_can_see_is_refused_by_both_in_the_same_words() {
    for (release, assignment, words) in [
        (
            "1.36",
            "egress.controller.enabled=true",
            "egress.controller.enabled: true, but egress.enabled is false: expected true, for there are no policies without their resources",
        ),
        (
            "1.29",
            "probe.enabled=true",
            "probe.namespaces: empty, but before Kubernetes 1.30 nothing confines the probe to dry runs: name the namespaces in which it may create pods",
        ),
        (
            "1.36",
            "autoscaling.enabled=true,autoscaling.minReplicas=9",
            "autoscaling.maxReplicas: 6 is less than autoscaling.minReplicas, 9",
        ),
        (
            "1.36",
            "certificates.clients.names={kube-apiserver}",
            "certificates.clients.names: of no use while certificates.clients.name names no authority",
        ),
        (
            "1.36",
            "egress.gateway.enabled=true,egress.gateway.clusterNetworks={10.96.0.0/12}",
            "egress.gateway.enabled: the gateway goes by resources that egress.enabled installs: expected egress.enabled=true",
        ),
        (
            "1.36",
            "egress.enabled=true,egress.gateway.enabled=true",
            "egress.gateway.clusterNetworks: empty, but names would lead into the cluster: name the networks of its pods, Services and nodes",
        ),
        (
            "1.36",
            "egress.enabled=true,egress.gateway.enabled=true,egress.gateway.clusterNetworks={10.96.0.0/12},egress.gateway.ports=null",
            "egress.gateway.ports: empty, but the gateway would serve nobody: name the ports that clients dial, such as 443",
        ),
    ] {
        let set = format!("--set={assignment}");
        let version = format!("--kube-version={release}");
        for output in [
            helm(&["template", "outrigger", "outrigger", &version, &set]),
            outrigger(&["install", &version, &set]),
        ] {
            let said = refused(&output);
            assert!(said.contains(words), "{said}");
        }
    }
}

#[test]
fn a_server_that_is_too_old_is_refused_by_both() {
    for (chart, command) in [("outrigger", "install"), ("outrigger-cni", "install-cni")] {
        let said = refused(&helm(&["template", chart, chart, "--kube-version=1.22"]));
        assert!(said.contains("requires kubeVersion: >=1.23.0-0"), "{said}");
        let said = refused(&outrigger(&[command, "--server-version=1.22"]));
        assert!(
            said.contains("Kubernetes 1.22 is too old") && said.contains("1.23 or newer"),
            "{said}"
        );
    }
}

#[test]
fn files_and_flags_that_cannot_be_used_are_named() {
    let cases: [(&[&str], &str); 12] = [
        (&["install", "-f", "none.yaml"], "none.yaml: No such file"),
        (
            &["install", "-f", "outrigger/templates/rbac.yaml"],
            "outrigger/templates/rbac.yaml: ",
        ),
        (
            &["install", "--set", "a"],
            "--set a: expected = and a value after the key",
        ),
        (
            &["install", "--show-only=templates/none.yaml"],
            "--show-only templates/none.yaml: with these values nothing comes from it",
        ),
        (
            &["install", "--set=config.proxy.uid={1}"],
            "values of the chart outrigger: config: values document: proxy.uid",
        ),
        (&["install", "--set=config.outrigger.onRefusd=skip"], "onRefusd"),
        (&["install", "--namespace=A"], "\"A\" is no name of a namespace"),
        (&["install", "--server-version=1.x"], "is no Kubernetes release"),
        (
            &["install", "--cni", "--set=cni=yes"],
            "cni: \"yes\" is not allowed: expected values of a chart",
        ),
        (&["install", "--set=cni.repair=true"], "cni: there is no such key"),
        (&["install", "--create-namespace"], "--cni"),
        (
            &["install-cni", "--context=none", "--kubeconfig=none"],
            "Cannot connect to Kubernetes",
        ),
    ];
    for (arguments, words) in cases {
        let output = outrigger(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        let said = refused(&output);
        assert!(said.contains(words), "{arguments:?}: {said}");
    }
}
