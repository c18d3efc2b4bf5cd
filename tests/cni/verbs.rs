//! Each verb on its own, the plugin run as a runtime runs it.

use crate::agent::Agent;
use crate::netns::Netns;
use crate::pods::{UID, meshed, plain};
use crate::rules::native;
use crate::runtime::{Run, config, has_rules};
use serde_json::{Value, json};
use std::path::Path;

const NOWHERE: &str = "/nonexistent/kubeconfig";

/// A namespace, an agent that knows one pod, and the configuration that leads to it.
struct Scene {
    namespace: Netns,
    agent: Agent,
    config: Value,
}

impl Scene {
    fn new(pod: Value) -> Self {
        let agent = Agent::knowing(pod);
        Self {
            namespace: Netns::new(),
            config: config(&agent.socket(), Path::new(NOWHERE)),
            agent,
        }
    }

    fn run(&self, verb: &str) -> Run {
        Run::new(verb, &self.namespace.path(), "app/meshed", &self.config)
    }
}

#[test]
fn add_gives_the_previous_result_back_byte_for_byte() {
    let scene = Scene::new(meshed());
    let previous =
        r#"{ "cniVersion":"1.1.0", "zzz":12345678901234567890123, "interfaces":[{"name":"eth0","foo":1}],"a":1e0 }"#;
    let text = scene.config.to_string();
    let input = format!(
        "{},\"prevResult\":{previous}}}",
        text.strip_suffix('}').expect("it is an object")
    );
    assert_eq!(scene.run("ADD").input(&input).run().done(), previous);
    assert!(has_rules(&scene.namespace));
    let alone = scene.run("ADD").run().done();
    assert_eq!(alone, r#"{"cniVersion":"1.1.0"}"#);
}

#[test]
fn a_second_add_changes_nothing_and_del_leaves_nothing() {
    let scene = Scene::new(meshed());
    scene.run("CHECK").run().failed(101);
    scene.run("ADD").run().done();
    let rules = native(&scene.namespace);
    assert!(
        rules.contains("skuid 2102") && rules.contains(":4143") && rules.contains(":4140"),
        "{rules}"
    );
    let second = scene.run("ADD").run();
    assert!(second.stderr.contains("there already"), "{}", second.stderr);
    second.done();
    assert_eq!(native(&scene.namespace), rules);
    assert_eq!(scene.run("CHECK").run().done(), "");
    scene
        .namespace
        .tool("nft", &["flush", "chain", "inet", "outrigger", "output"]);
    assert!(
        scene
            .run("CHECK")
            .run()
            .failed(101)
            .starts_with("the rules of pod app/meshed are not in force")
    );
    scene.run("ADD").run().done();
    assert_eq!(native(&scene.namespace), rules, "ADD repairs");
    let asked = scene.agent.asked().len();
    for _ in 0..2 {
        assert_eq!(scene.run("DEL").run().done(), "");
        assert!(!has_rules(&scene.namespace));
    }
    assert_eq!(scene.agent.asked().len(), asked, "DEL asks nobody");
    scene.run("DEL").with("CNI_NETNS", "").run().done();
    scene.run("DEL").with("CNI_NETNS", "/var/run/netns/gone").run().done();
}

#[test]
fn rules_of_iptables_come_and_go_where_they_are_asked_for() {
    for mode in ["nft", "legacy", "plain"] {
        let mut scene = Scene::new(meshed());
        scene.config["linkerd"]["iptables-mode"] = json!(mode);
        let path = std::env::var("PATH").expect("tests have a PATH");
        let run = |verb| scene.run(verb).with("PATH", &path).run();
        run("ADD").done();
        let program = if mode == "plain" {
            "iptables".to_owned()
        } else {
            format!("iptables-{mode}")
        };
        assert!(
            scene.namespace.nat(&program).concat().contains("PROXY_INIT_OUTPUT"),
            "{mode}"
        );
        run("CHECK").done();
        run("DEL").done();
        assert!(!has_rules(&scene.namespace), "{mode}");
        run("CHECK").failed(101);
    }
}

#[test]
fn the_agent_is_asked_for_the_pod_of_the_sandbox() {
    let scene = Scene::new(meshed());
    let args = format!("K8S_POD_NAMESPACE=app;K8S_POD_NAME=meshed;K8S_POD_INFRA_CONTAINER_ID=c0ffee;K8S_POD_UID={UID}");
    scene.run("ADD").with("CNI_ARGS", &args).run().done();
    let expected = json!({"namespace": "app", "name": "meshed", "uid": UID, "sandbox": "c0ffee"});
    assert_eq!(scene.agent.asked(), [expected]);
}

#[test]
fn pods_that_need_no_rules_get_none() {
    let mut by_init = meshed();
    by_init["spec"]["initContainers"][0]["name"] = json!("linkerd-init");
    let mut unwanted = meshed();
    unwanted["metadata"]["annotations"]["linkerd.io/setup-iptables"] = json!("false");
    let mut unmeshed = plain();
    unmeshed["metadata"]["name"] = json!("meshed");
    let mut on_host = meshed();
    on_host["spec"]["hostNetwork"] = json!(true);
    for (pod, why) in [
        (unmeshed, "no_proxy"),
        (by_init, "init_container"),
        (unwanted, "setup_iptables_false"),
        (on_host, "host_network"),
    ] {
        let scene = Scene::new(pod);
        let added = scene.run("ADD").run();
        assert!(added.stderr.contains(why), "{}", added.stderr);
        added.done();
        scene.run("CHECK").run().done();
        assert!(!has_rules(&scene.namespace), "{why}");
    }
}

#[test]
fn some_pods_never_get_rules_and_nobody_is_asked_about_them() {
    let mut scene = Scene::new(meshed());
    scene.config["outrigger"]["own-pods"] = json!({"namespace": "mesh", "name-prefix": "outrigger-cni-"});
    let ours = |args: &str| scene.run("ADD").with("CNI_ARGS", args);
    let own = std::env::temp_dir();
    for args in [
        "K8S_POD_NAMESPACE=kube-system;K8S_POD_NAME=dns",
        "K8S_POD_NAMESPACE=mesh;K8S_POD_NAME=outrigger-cni-abcde",
        "FOO=bar",
        "",
    ] {
        ours(args).run().done();
        // Not even the namespace is looked at.
        ours(args)
            .with("CNI_NETNS", &own.join("gone").display().to_string())
            .run()
            .done();
    }
    let before = std::process::Command::new("nft")
        .args(["list", "ruleset"])
        .output()
        .expect("apt-get install nftables");
    for verb in ["ADD", "CHECK", "DEL"] {
        scene.run(verb).with("CNI_NETNS", "/proc/self/ns/net").run().done();
    }
    let after = std::process::Command::new("nft")
        .args(["list", "ruleset"])
        .output()
        .expect("apt-get install nftables");
    assert_eq!(before.stdout, after.stdout, "the node's own namespace");
    assert!(!has_rules(&scene.namespace));
    assert_eq!(scene.agent.asked(), Vec::<Value>::new());
}

#[test]
fn rules_that_are_simulated_are_not_written() {
    let mut scene = Scene::new(meshed());
    scene.config["linkerd"]["simulate"] = json!(true);
    scene.run("ADD").run().done();
    scene.run("CHECK").run().done();
    assert!(!has_rules(&scene.namespace));
}

#[test]
fn versions_decide_which_verbs_there_are() {
    let mut scene = Scene::new(meshed());
    for (version, check, others) in [
        ("0.3.0", false, false),
        ("0.3.1", false, false),
        ("0.4.0", true, false),
        ("1.0.0", true, false),
        ("1.1.0", true, true),
    ] {
        scene.config["cniVersion"] = json!(version);
        assert_eq!(
            scene.run("ADD").run().done(),
            format!("{{\"cniVersion\":\"{version}\"}}")
        );
        for (verb, there) in [("CHECK", check), ("GC", others), ("STATUS", others)] {
            let outcome = scene.run(verb).run();
            if there {
                assert_eq!(outcome.done(), "", "{verb} {version}");
            } else {
                let message = outcome.failed(1);
                assert!(message.contains(verb) && message.contains(version), "{message}");
                assert!(
                    outcome.stdout.contains(&format!("\"cniVersion\":\"{version}\"")),
                    "{}",
                    outcome.stdout
                );
            }
        }
        scene.run("DEL").run().done();
        let report: Value = serde_json::from_str(&scene.run("VERSION").run().done()).expect("JSON");
        assert_eq!(report["cniVersion"], version);
        assert_eq!(
            report["supportedVersions"],
            json!(["0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"])
        );
    }
    let report = scene.run("VERSION").input("").run().done();
    assert!(report.contains("\"cniVersion\":\"1.1.0\""), "{report}");
}

#[test]
fn gc_needs_nothing_but_its_command() {
    let scene = Scene::new(meshed());
    scene.run("ADD").run().done();
    let mut config = scene.config.clone();
    config["cni.dev/valid-attachments"] = json!([{"containerID": "c0ffee", "ifname": "eth0"}]);
    let gc = ["CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME", "CNI_ARGS"]
        .iter()
        .fold(scene.run("GC"), |run, name| run.with(name, ""));
    assert_eq!(gc.input(&config.to_string()).run().done(), "");
    assert!(has_rules(&scene.namespace), "what is valid stays");
}
