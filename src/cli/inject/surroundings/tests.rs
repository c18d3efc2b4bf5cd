use super::*;
use crate::cli::inject::{Injector, Options};
use crate::cli::input;
use crate::config::values::Values;
use crate::inject::Redirection;
use crate::inject::uninject::uninject;
use serde_json::json;

const WEB: &str = "\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec: {template: {spec: {containers: [{name: web, image: web}]}}}
";

fn namespace(level: &str) -> String {
    let labels = json!({"pod-security.kubernetes.io/enforce": level});
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop", "labels": labels}}).to_string()
}

/// A node with the CNI plugin, and one without.
fn nodes() -> String {
    let node =
        |name, pool| json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"pool": pool}}});
    let labels = json!({"k8s-app": "linkerd-cni"});
    let plugin = json!({"apiVersion": "apps/v1", "kind": "DaemonSet",
        "metadata": {"name": "linkerd-cni", "namespace": "linkerd-cni", "labels": labels},
        "spec": {"template": {"spec": {"nodeSelector": {"pool": "mesh"}, "containers": [{"name": "install", "image": "cni"}],
            "volumes": [{"name": "net", "hostPath": {"path": "/etc/cni/net.d"}}]}}}});
    json!({"apiVersion": "v1", "kind": "List", "items": [node("a", "mesh"), node("b", "batch"), plugin]}).to_string()
}

fn object(text: &str) -> Value {
    manifest::read(text).unwrap().remove(0).value
}

fn installation(values: &str) -> Installation {
    Installation::parse(&["linkerdVersion: v1", values], Some("anchors"), "linkerd").unwrap()
}

/// What `texts` tell of their cluster.
fn surroundings(values: &str, texts: &[&str]) -> Option<Surroundings> {
    let source = |text: &&str| input::Source::of_text("app.yaml", text);
    let mut sources = Sources {
        all: texts.iter().map(source).collect(),
        ..Sources::default()
    };
    Surroundings::find(&mut sources, &installation(values)).unwrap()
}

fn injector(redirection: Option<Redirection>, values: &str, texts: &[&str]) -> Injector {
    let options = Options {
        manual: true,
        redirection,
        ..Options::default()
    };
    let installation = installation(values);
    let injector = Injector::new(&installation, Values::clone(&installation.values), options);
    injector.among(surroundings(values, texts))
}

/// What becomes of `workload` among `others`, with its warnings.
fn injected(values: &str, workload: &str, others: &[&str]) -> Result<(Value, Vec<String>), String> {
    by_flag(None, values, workload, others)
}

fn by_flag(
    redirection: Option<Redirection>,
    values: &str,
    workload: &str,
    others: &[&str],
) -> Result<(Value, Vec<String>), String> {
    let injector = injector(redirection, values, &[&[workload], others].concat());
    let changed = injector.reinject(&object(workload))?;
    Ok((changed.value, changed.warnings))
}

/// The names of the init containers.
fn inits(workload: &Value) -> Vec<&str> {
    let inits = workload["spec"]["template"]["spec"]["initContainers"].as_array();
    inits.into_iter().flatten().map(crate::pod::container_name).collect()
}

#[test]
fn pod_security_of_the_same_manifests_decides() {
    let (with_rules, with_plugin) = (
        ["linkerd-init", "linkerd-proxy"],
        ["linkerd-network-validator", "linkerd-proxy"],
    );
    let (web, warnings) = injected("", WEB, &[&namespace("privileged")]).unwrap();
    assert_eq!((inits(&web), warnings), (with_rules.to_vec(), vec![]));
    let refused = injected("", WEB, &[&namespace("baseline")]).unwrap_err();
    for part in [
        "failed to inject deployment/web: no way to redirect the pod's traffic is left: init-container: violates PodSecurity",
        "cni: no CNI plugin is meant for any node",
        "namespace shop has pod-security.kubernetes.io/enforce=baseline",
        "where the nodes have the CNI plugin, give --no-init-container",
    ] {
        assert!(refused.contains(part), "{refused}");
    }
    // Whoever says that the nodes have the plugin is believed.
    let declared = injected("cniEnabled: true", WEB, &[&namespace("restricted")])
        .unwrap()
        .0;
    assert_eq!(inits(&declared), with_plugin);
    let flagged = by_flag(Some(Redirection::Cni), "", WEB, &[&namespace("baseline")])
        .unwrap()
        .0;
    assert_eq!(inits(&flagged), with_plugin);
    let asked = WEB.replace(
        "{spec: {containers",
        "{metadata: {annotations: {linkerd.io/setup-iptables: cni}}, spec: {containers",
    );
    assert_eq!(
        inits(&injected("", &asked, &[&namespace("baseline")]).unwrap().0),
        with_plugin
    );
    let asked = asked.replace("iptables: cni", "iptables: init-container");
    assert!(injected("", &asked, &[&namespace("baseline")]).is_err());
    // Of another namespace nothing is known, and of the only one everything that names none.
    let elsewhere = WEB.replace("namespace: shop", "namespace: other");
    assert_eq!(
        inits(&injected("", &elsewhere, &[&namespace("baseline")]).unwrap().0),
        with_rules
    );
    assert!(injected("", &WEB.replace(", namespace: shop", ""), &[&namespace("baseline")]).is_err());
}

#[test]
fn who_is_refused_may_stay_without_a_proxy() {
    let (web, warnings) = injected("outrigger: {onRefused: skip}", WEB, &[&namespace("baseline")]).unwrap();
    assert_eq!(web, object(WEB));
    assert!(
        warnings[0].starts_with("left alone: no way to redirect the pod's traffic is left"),
        "{warnings:?}"
    );
    assert!(
        warnings[1].contains("init-container: violates PodSecurity"),
        "{warnings:?}"
    );
}

#[test]
fn nodes_of_the_same_manifests_count() {
    let (web, warnings) = injected("", WEB, &[&nodes(), &namespace("baseline")]).unwrap();
    assert_eq!(inits(&web), ["linkerd-network-validator", "linkerd-proxy"]);
    assert_eq!(web["spec"]["template"]["spec"]["nodeSelector"], json!({"pool": "mesh"}));
    assert_eq!(warnings, ["the pod gets the node selector pool=mesh"]);
    let mut uninjected = web;
    assert!(uninject(&mut uninjected));
    assert_eq!(uninjected["spec"]["template"]["spec"].get("nodeSelector"), None);
}

#[test]
fn the_choice_is_that_of_explain() {
    let classic = "{metadata: {annotations: {config.linkerd.io/proxy-enable-native-sidecar: 'false'}}, \
                   spec: {initContainers: [{name: migrate, image: web}], ";
    let classic = WEB.replace("{spec: {", classic);
    let exempt = "outrigger: {podSecurity: {exemptions: {namespaces: [shop]}}}";
    for workload in [WEB, &classic] {
        for (level, values) in ["privileged", "baseline", "restricted"]
            .into_iter()
            .flat_map(|level| ["", "cniEnabled: true", exempt].map(|values| (level, values)))
        {
            let others = [namespace(level), nodes()];
            let others: Vec<_> = others.iter().map(String::as_str).collect();
            let mut asked = object(workload);
            asked["spec"]["template"]["metadata"]["annotations"]["linkerd.io/inject"] = json!("enabled");
            let decision = surroundings(values, &others).unwrap().decide(&asked).unwrap();
            let (web, _) = injected(values, workload, &others).unwrap();
            let ours = match inits(&web).contains(&"linkerd-network-validator") {
                true => Redirection::Cni,
                false => Redirection::InitContainer,
            };
            assert_eq!(ours, decision.redirection(), "{level} {values}");
        }
    }
}

#[test]
fn manifests_that_tell_nothing_decide_nothing() {
    assert!(surroundings("", &[WEB]).is_none());
}

#[test]
fn no_kind_of_the_cluster_is_overlooked() {
    let sources = Source::ALL.map(Source::kind);
    let others = [
        "Namespace",
        "Node",
        "DaemonSet",
        "AdmissionConfiguration",
        "PodSecurityConfiguration",
    ];
    for kind in sources.into_iter().chain(others) {
        assert!(may_be_of_cluster(&format!("kind: {kind}")), "{kind}");
    }
    assert!(may_be_of_cluster("kind: \"\\x4eamespace\"") && !may_be_of_cluster(WEB));
}
