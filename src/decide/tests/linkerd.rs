//! What Linkerd's own injector would do with the same pods.

use super::*;
use crate::decide::linkerd::{Linkerds, linkerds};

fn linkerds_of(case: &Case) -> Linkerds {
    case.ask(linkerds)
}

fn init_container() -> Linkerds {
    Linkerds::Injected(Redirection::InitContainer)
}

#[test]
fn the_redirection_is_the_installations_whatever_policies_say() {
    let all = || Coverage::All { nodes: 3 };
    assert_eq!(linkerds_of(&case().covered(all())), init_container());
    for level in ["baseline", "restricted"] {
        let case = case().enforcing(level).covered(all());
        assert!(matches!(linkerds_of(&case), Linkerds::Refused(_)));
        let case = Case {
            values: "{linkerdVersion: v1, cniEnabled: true}",
            ..case
        };
        assert_eq!(linkerds_of(&case), Linkerds::Injected(Redirection::Cni));
    }
    // What is asked for here is nothing to Linkerd's.
    let asked = case().annotated("linkerd.io/setup-iptables", "false");
    assert_eq!(linkerds_of(&asked), init_container());
}

#[test]
fn it_reads_annotations_alone_and_knows_no_windows() {
    let windows = case().spec("nodeSelector", json!({"kubernetes.io/os": "windows"}));
    assert_eq!(linkerds_of(&windows), init_container());
    assert_eq!(windows.decide().code(), "windows_pod");
    let labelled = Case {
        annotations: json!({}),
        labels: json!({"linkerd.io/inject": "enabled"}),
        ..case()
    };
    let absent = SkipReason::InjectionEnableAnnotationAbsent;
    assert_eq!(linkerds_of(&labelled), Linkerds::LeftAlone(absent.into()));
    assert_eq!(labelled.decide().word(), "inject");
    let host = case().spec("hostNetwork", json!(true));
    let host_network = SkipReason::HostNetworkEnabled;
    assert_eq!(linkerds_of(&host), Linkerds::LeftAlone(host_network.into()));
}

#[test]
fn what_its_templates_refuse_is_refused() {
    let denied = case().annotated("config.linkerd.io/close-wait-timeout", "10s");
    let words = "proxyInit.runAsRoot must be set to use proxyInit.closeWaitTimeoutSecs";
    assert_eq!(linkerds_of(&denied), Linkerds::Refused(vec![words.to_owned()]));
    // A proxy that is root is injected, though no kubelet starts it.
    let root = case().annotated("config.linkerd.io/proxy-uid", "0");
    assert_eq!(linkerds_of(&root), init_container());
    assert_eq!(root.decide().word(), "deny");
}
