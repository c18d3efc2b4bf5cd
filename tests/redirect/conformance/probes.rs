//! `redirect/traffic.json`: who answers which connection of a pod and its peer.

use crate::netns::PROXY_UID;
use crate::recorded;
use crate::traffic::{PEER_V4, PEER_V6, POD_V4, POD_V6, Pair, ask, ask_udp, introduction, listen};
use serde_json::Value;
use std::net::{IpAddr, SocketAddr};

const APP_UID: u32 = 1000;

#[test]
fn every_probe_is_answered_alike() {
    let Some(recorded) = recorded("traffic.json") else {
        return;
    };
    let mut faults = Vec::new();
    let mut count = 0;
    for (back, probes) in recorded.as_object().expect("traffic.json has a back end a key") {
        let pair = prepared();
        let mut probes: Vec<(&String, &Value)> = probes.as_object().expect("probes by name").iter().collect();
        // Before the rules, with them, and last without a default route.
        probes.sort_by_key(|(probe, _)| (!probe.starts_with("before:"), probe.starts_with("no default route:")));
        let mut stage = Stage::Before;
        for (probe, recorded) in probes {
            let Some(recorded) = recorded.as_str() else { continue };
            stage = stage.advance(probe, &pair, back);
            let answer = answer(&pair, probe);
            count += 1;
            if answer != recorded {
                faults.push(format!("{back}: {probe}\n  answered {answer}\n  recorded {recorded}"));
            }
        }
    }
    println!(
        "redirect/traffic.json: {} of {count} probes alike",
        count - faults.len()
    );
    assert!(count > 0 && faults.is_empty(), "{}", faults.join("\n"));
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Before,
    Rules,
    NoRoute,
}

impl Stage {
    fn advance(self, probe: &str, pair: &Pair, back: &str) -> Self {
        let wanted = if probe.starts_with("before:") {
            Self::Before
        } else if probe.starts_with("no default route:") {
            Self::NoRoute
        } else {
            Self::Rules
        };
        if self < Self::Rules && wanted >= Self::Rules {
            apply(pair, back);
        }
        if self < Self::NoRoute && wanted == Self::NoRoute {
            pair.pod.ip(&["route", "del", "default"]);
        }
        wanted
    }
}

fn prepared() -> Pair {
    let pair = Pair::new();
    let on = |namespace, address, name: &'static str| {
        listen(namespace, address, move |stream| introduction(name, stream));
    };
    for address in ["[::]:8080", "[::]:4190", "127.0.0.1:7777"] {
        on(&pair.pod, address, "APP");
    }
    for address in ["[::]:8000", "[::]:2525", "[::]:9443"] {
        on(&pair.peer, address, "PEER");
    }
    on(&pair.pod, "[::]:4143", "PROXYIN");
    on(&pair.pod, "[::]:4140", "PROXYOUT");
    pair
}

fn apply(pair: &Pair, back: &str) {
    let mode = if back == "native-nft" { "native" } else { back };
    let rules = "-p 4143 -o 4140 -u 2102 --inbound-ports-to-ignore 4190,4191 --outbound-ports-to-ignore 2525";
    crate::netns::assert_done(
        &pair
            .pod
            .proxy_init(["--iptables-mode", mode].into_iter().chain(rules.split(' '))),
    );
}

/// Does what a probe's name says: `[v6|udp] FROM->TO PORT (why)`.
fn answer(pair: &Pair, probe: &str) -> String {
    let probe = probe
        .trim_start_matches("before: ")
        .trim_start_matches("no default route: ");
    let probe = probe.split(" (").next().unwrap_or_default();
    let (udp, probe) = probe.strip_prefix("udp ").map_or((false, probe), |probe| (true, probe));
    let (v6, probe) = probe.strip_prefix("v6 ").map_or((false, probe), |probe| (true, probe));
    let (from, to) = probe.split_once("->").expect("a probe has two ends");
    let address = target(to.trim_end_matches(" direct"), v6);
    let (namespace, uid) = match from {
        "peer" => (&pair.peer, 0),
        "app" => (&pair.pod, APP_UID),
        "root" => (&pair.pod, 0),
        "proxy uid" => (&pair.pod, PROXY_UID),
        other => panic!("unknown end {other:?}"),
    };
    if udp {
        ask_udp(namespace, uid, address)
    } else {
        ask(namespace, uid, address)
    }
}

fn target(to: &str, v6: bool) -> SocketAddr {
    if let Ok(address) = to.parse() {
        return address;
    }
    // The one probe that names no port goes where Linkerd's validator does.
    let (host, port) = to.rsplit_once(' ').unwrap_or((to, "1404"));
    let host = match (host, v6) {
        ("pod" | "own pod ip" | "own ip", false) => POD_V4,
        ("pod" | "own pod ip" | "own ip", true) => POD_V6,
        ("peer", false) => PEER_V4,
        ("peer", true) => PEER_V6,
        (literal, _) => literal,
    };
    let host: IpAddr = host.parse().unwrap_or_else(|_| panic!("unknown end {to:?}"));
    SocketAddr::new(host, port.parse().unwrap_or_else(|_| panic!("no port in {to:?}")))
}
