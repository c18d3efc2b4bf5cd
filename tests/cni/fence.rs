//! The fence that a pod asks for by annotation, written by the plugin.

use crate::agent::Agent;
use crate::netns::{PROXY_UID, assert_done};
use crate::pods::meshed;
use crate::rules::native;
use crate::runtime::{Run, config};
use crate::traffic::{PEER_V4, PEER_V6, Pair, ask, ask_udp, listen};
use serde_json::{Value, json};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::path::Path;

const FENCE: &str = "outrigger.linkerd.io/egress-fence";
const DNS: &str = "outrigger.linkerd.io/egress-dns";
const SKIPPED: &str = "config.linkerd.io/skip-outbound-ports";

fn annotated(annotations: &[(&str, &str)]) -> Value {
    let mut pod = meshed();
    for (key, value) in annotations {
        pod["metadata"]["annotations"][*key] = json!(value);
    }
    pod
}

/// A run of the plugin for a pod, which writes rules in `mode` where one is given. The installation skips port 4567.
fn run(verb: &str, pair: &Pair, agent: &Agent, mode: &str) -> Run {
    let mut config = config(&agent.socket(), Path::new("/nonexistent/kubeconfig"));
    config["linkerd"] = json!({"ipv6": true, "iptables-mode": mode, "outbound-ports-to-ignore": ["4567"]});
    // The programs of iptables are looked for there.
    Run::new(verb, &pair.pod.path(), "app/meshed", &config).with("PATH", "/usr/sbin:/usr/bin")
}

fn addresses() -> [IpAddr; 2] {
    [PEER_V4, PEER_V6].map(|address| address.parse().expect("these are addresses"))
}

#[test]
fn the_plugin_closes_what_goes_around_the_proxy() {
    for mode in ["", "native", "nft", "legacy"] {
        let pair = Pair::new();
        for port in [25, 4567] {
            listen(&pair.peer, &format!("[::]:{port}"), |_| "peer".to_owned());
        }
        listen(&pair.pod, "[::]:4140", |_| "proxy".to_owned());
        let servers: Vec<UdpSocket> = addresses()
            .map(|peer| pair.peer.inside(|| UdpSocket::bind((peer, 53))).expect("it is free"))
            .into();
        let agent = Agent::knowing(annotated(&[
            (FENCE, "enabled"),
            (DNS, "10.77.0.1,fd77::1"),
            (SKIPPED, "25"),
        ]));
        run("ADD", &pair, &agent, mode).run().done();
        run("CHECK", &pair, &agent, mode).run().done();
        for peer in addresses() {
            let at = |port| SocketAddr::new(peer, port);
            assert!(
                ask_udp(&pair.pod, 1000, at(443)).contains("not permitted"),
                "{mode} {peer}"
            );
            assert!(
                ask_udp(&pair.pod, PROXY_UID, at(443)).contains("refused"),
                "{mode} {peer}: it gets there"
            );
            assert_eq!(ask(&pair.pod, 1000, at(25)), "peer", "{mode} {peer}");
            // The installation's exception is none of this pod's author.
            assert_eq!(ask(&pair.pod, 1000, at(4567)), "proxy", "{mode} {peer}");
        }
        for server in servers {
            let at = server.local_addr().expect("it is bound");
            let asked = pair.pod.inside(|| {
                crate::traffic::become_user(1000).expect("root may become anybody");
                let any: IpAddr = if at.is_ipv4() { [0; 4].into() } else { [0_u16; 8].into() };
                UdpSocket::bind((any, 0)).and_then(|socket| socket.send_to(b"?", at))
            });
            asked.expect("its own name server may be asked");
            assert_eq!(server.recv(&mut [0; 9]).expect("it arrives"), 1, "{mode}");
        }
        // Another annotation is other rules, and without one there is nothing left of the fence.
        let others = Agent::knowing(annotated(&[(FENCE, "enabled"), (DNS, "10.77.0.1")]));
        run("CHECK", &pair, &others, mode).run().failed(101);
        let without = Agent::knowing(meshed());
        run("CHECK", &pair, &without, mode).run().failed(101);
        run("ADD", &pair, &without, mode).run().done();
        assert!(
            ask_udp(&pair.pod, 1000, SocketAddr::new(addresses()[0], 443)).contains("refused"),
            "{mode}"
        );
        run("ADD", &pair, &agent, mode).run().done();
        run("DEL", &pair, &agent, mode).run().done();
        assert!(
            ask_udp(&pair.pod, 1000, SocketAddr::new(addresses()[0], 443)).contains("refused"),
            "{mode}"
        );
    }
}

#[test]
fn plugin_and_init_container_write_the_same_fence() {
    let (by_plugin, by_init) = (Pair::new(), Pair::new());
    let agent = Agent::knowing(annotated(&[
        (FENCE, "enabled"),
        (DNS, "10.96.0.10, fd00::a,10.0.0.0/24"),
        (SKIPPED, "25,6000-8000"),
    ]));
    run("ADD", &by_plugin, &agent, "native").run().done();
    let flags = "--iptables-mode native -p 4143 -o 4140 -u 2102 --inbound-ports-to-ignore 4190,4191 \
                 --outbound-ports-to-ignore 25,6000-8000 --egress-fence --egress-dns 10.96.0.10,fd00::a,10.0.0.0/24";
    assert_done(&by_init.pod.proxy_init(flags.split_whitespace()));
    assert!(native(&by_init.pod).contains("chain fence"));
    assert_eq!(native(&by_plugin.pod), native(&by_init.pod));
}

#[test]
fn a_pod_that_is_fenced_in_a_way_that_cannot_be_had_does_not_start() {
    for (annotations, named) in [
        (
            &[(FENCE, "true")][..],
            "egress-fence: \"true\" is none; expected enabled or disabled",
        ),
        (
            &[(FENCE, "enabled")],
            "egress-dns: the plugin cannot know the name servers",
        ),
        (
            &[(FENCE, "enabled"), (DNS, "kube-dns")],
            "egress-dns: \"kube-dns\" is no subnet",
        ),
    ] {
        let pair = Pair::new();
        let agent = Agent::knowing(annotated(annotations));
        let said = run("ADD", &pair, &agent, "").run().failed(102);
        assert!(said.contains(named), "{said}");
        assert_eq!(native(&pair.pod), "", "nothing is half done");
    }
}
