//! `redirect/lab.json`: Linkerd's laboratory of six pods, as namespaces on one bridge.

use crate::netns::{Netns, PROXY_UID, assert_done};
use crate::recorded;
use crate::traffic::{ask, listen};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

const APP_UID: u32 = 1000;

/// What answers at the proxy's ports.
const STAND_IN: &str = "proxy";

/// A pod: its name, the ports of its application, those of the stand-in, and the rules.
struct Plan {
    name: &'static str,
    app: &'static [u16],
    stand_in: &'static [u16],
    rules: &'static str,
    runs: usize,
}

const PLANS: [Plan; 6] = [
    Plan {
        name: "norules",
        app: &[8080, 9090],
        stand_in: &[],
        rules: "",
        runs: 0,
    },
    Plan {
        name: "all",
        app: &[8080],
        stand_in: &[8088, 4140],
        rules: "-p 8088",
        runs: 1,
    },
    Plan {
        name: "listed",
        app: &[8080],
        stand_in: &[4143, 4140],
        rules: "-p 4143 -r 9090 -r 9099 -r 8080",
        runs: 1,
    },
    Plan {
        name: "ignored",
        app: &[7070, 9090],
        stand_in: &[4143, 4140],
        rules: "-p 4143 --inbound-ports-to-ignore 6000-8000",
        runs: 1,
    },
    Plan {
        name: "subnets",
        app: &[9090],
        stand_in: &[8080, 4140],
        rules: "-p 8080 --subnets-to-ignore 0.0.0.0/0",
        runs: 1,
    },
    Plan {
        name: "twice",
        app: &[8080],
        stand_in: &[4140],
        rules: "-p 8080",
        runs: 2,
    },
];

struct Lab {
    bridge: Netns,
    pods: BTreeMap<&'static str, (Netns, IpAddr)>,
}

#[test]
fn every_connection_of_the_laboratory_is_answered_alike() {
    let Some(recorded) = recorded("lab.json") else { return };
    let mut faults = Vec::new();
    let mut count = 0;
    let backs = recorded.as_object().expect("lab.json has a back end a key");
    // The native table must do what the others do.
    let native = backs.get("nft").map(|assertions| ("native", assertions));
    for (mode, assertions) in backs
        .iter()
        .map(|(mode, assertions)| (mode.as_str(), assertions))
        .chain(native)
    {
        let lab = Lab::new(mode);
        for (assertion, recorded) in assertions.as_object().expect("assertions by name") {
            let answer = lab.answer(assertion);
            count += 1;
            if Some(answer.as_str()) != recorded.as_str() {
                faults.push(format!(
                    "{mode}: {assertion}\n  answered {answer}\n  recorded {recorded}"
                ));
            }
        }
    }
    println!(
        "redirect/lab.json: {} of {count} assertions alike",
        count - faults.len()
    );
    assert!(count > 0 && faults.is_empty(), "{}", faults.join("\n"));
}

impl Lab {
    fn new(mode: &str) -> Self {
        let bridge = Netns::new();
        bridge.ip(&["link", "add", "br0", "type", "bridge"]);
        bridge.ip(&["addr", "add", "10.78.0.1/24", "dev", "br0"]);
        bridge.ip(&["link", "set", "br0", "up"]);
        let mut lab = Self {
            bridge,
            pods: BTreeMap::new(),
        };
        for (host, plan) in (10_u8..).zip(&PLANS) {
            lab.add(plan, Ipv4Addr::new(10, 78, 0, host), mode);
        }
        lab
    }

    fn add(&mut self, plan: &Plan, address: Ipv4Addr, mode: &str) {
        let pod = Netns::new();
        let cable = format!("v{}", address.octets()[3]);
        pod.ip(&[
            "link",
            "add",
            "eth0",
            "type",
            "veth",
            "peer",
            "name",
            &cable,
            "netns",
            self.bridge.name(),
        ]);
        self.bridge.ip(&["link", "set", &cable, "master", "br0", "up"]);
        pod.ip(&["addr", "add", &format!("{address}/24"), "dev", "eth0"]);
        pod.ip(&["link", "set", "eth0", "up"]);
        for &port in plan.app {
            let name = plan.name;
            listen(&pod, &format!("0.0.0.0:{port}"), move |_| format!("{name}:{port}"));
        }
        for port in plan.stand_in {
            listen(&pod, &format!("0.0.0.0:{port}"), |_| STAND_IN.to_owned());
        }
        for _ in 0..plan.runs {
            let rules = format!(
                "--iptables-mode {mode} --ipv6=false -o 4140 -u {PROXY_UID} {}",
                plan.rules
            );
            assert_done(&pod.proxy_init(rules.split(' ')));
        }
        self.pods.insert(plan.name, (pod, address.into()));
    }

    /// Does what an assertion's name says: `POD PORT …` from outside, or `out from WHO to WHERE`.
    fn answer(&self, assertion: &str) -> String {
        let (ignored, _) = &self.pods["ignored"];
        let elsewhere = SocketAddr::new(self.pods["norules"].1, 9090);
        match assertion {
            "out from app -> proxy" => return ask(ignored, APP_UID, elsewhere),
            "out from proxy uid -> other pod" => return ask(ignored, PROXY_UID, elsewhere),
            "out from app to loopback -> direct" => {
                return ask(ignored, APP_UID, SocketAddr::from(([127, 0, 0, 1], 9090)));
            }
            _ => {}
        }
        let words = assertion.replace("no rules", "norules");
        let mut words = words.split(' ');
        let pod = words
            .next()
            .and_then(|name| self.pods.get(name))
            .expect("an assertion names a pod");
        let port = words
            .next()
            .and_then(|port| port.parse().ok())
            .expect("an assertion names a port");
        ask(&self.bridge, 0, SocketAddr::new(pod.1, port))
    }
}
