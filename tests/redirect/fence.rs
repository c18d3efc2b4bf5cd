//! The fence, packet by packet: what still leaves the pod, by whom and over what, in every rendering and both families.

use crate::netns::{Netns, OUTRIGGER, PROXY_UID, assert_done, stderr};
use crate::rules::{MODES, args, native};
use crate::traffic::{PEER_V4, PEER_V6, POD_V4, POD_V6, Pair, ask, ask_udp, become_user, listen};
use outrigger::redirect::apply::{Mode, Options, Wait, apply, check, remove};
use outrigger::redirect::{Fence, PortList, Redirection, name_servers};
use rustix::net::{AddressFamily, Protocol, RawProtocol, SendFlags, SocketType, sendto, socket};
use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::Command;

/// 25 is an exception that somebody listed; 7070 is reached directly.
const RULES: &str = "-p 4143 -o 4140 -u 2102 --inbound-ports-to-ignore 4190,4191,7070 --outbound-ports-to-ignore 25";
const FENCE: &str = " --egress-fence --egress-dns 10.77.0.1,fd77::1";
const APP: u32 = 1000;
/// Addresses of the peer that are no name servers of the pod.
const STRANGERS: [&str; 2] = ["10.77.0.9", "fd77::9"];

/// A fenced pod in which a proxy and an application listen, and a peer with services over TCP and UDP.
fn fenced(mode: &str, fence: &str) -> Pair {
    let pair = Pair::new();
    pair.peer.ip(&["addr", "add", "10.77.0.9/24", "dev", "eth0"]);
    pair.peer.ip(&["addr", "add", "fd77::9/64", "dev", "eth0", "nodad"]);
    for port in [25, 8000] {
        listen(&pair.peer, &format!("[::]:{port}"), |_| "peer".to_owned());
    }
    for (address, port) in addresses(PEER_V4, PEER_V6)
        .into_iter()
        .chain(addresses(STRANGERS[0], STRANGERS[1]))
        .flat_map(|ip| [(ip, 53), (ip, 443)])
    {
        answer_udp(&pair.peer, SocketAddr::new(address, port));
    }
    for (port, name) in [(4140, "outbound"), (4143, "inbound"), (4191, "admin"), (7070, "app")] {
        listen(&pair.pod, &format!("[::]:{port}"), move |_| name.to_owned());
    }
    for address in addresses(POD_V4, POD_V6) {
        answer_udp(&pair.pod, SocketAddr::new(address, 5353));
    }
    assert_done(&pair.pod.proxy_init(args(mode, &format!("{RULES}{fence}"))));
    pair
}

fn addresses(v4: &str, v6: &str) -> [IpAddr; 2] {
    [v4, v6].map(|address| address.parse().expect("these are addresses"))
}

/// Answers every datagram to an address, until the test ends.
fn answer_udp(namespace: &Netns, address: SocketAddr) {
    let socket = namespace
        .inside(|| UdpSocket::bind(address))
        .expect("the address is there");
    std::thread::spawn(move || {
        let mut datagram = [0; 100];
        while let Ok((_, from)) = socket.recv_from(&mut datagram) {
            let _gone = socket.send_to(b"heard", from);
        }
    });
}

fn assert_closed(answer: &str, what: &str) {
    assert!(answer.starts_with("ERR "), "{what}: {answer}");
}

#[test]
fn connections_go_to_the_proxy_and_what_else_leaves_is_the_proxys() {
    for mode in MODES {
        let pair = fenced(mode, FENCE);
        for peer in addresses(PEER_V4, PEER_V6) {
            let at = |port| SocketAddr::new(peer, port);
            for user in [APP, 0] {
                assert_eq!(ask(&pair.pod, user, at(8000)), "outbound", "{mode} {peer}");
                assert_closed(
                    &ask_udp(&pair.pod, user, at(443)),
                    &format!("{mode}, QUIC to {peer} by {user}"),
                );
                assert_eq!(ask_udp(&pair.pod, user, at(53)), "heard", "{mode} {peer}");
            }
            assert_eq!(ask(&pair.pod, PROXY_UID, at(8000)), "peer", "{mode} {peer}");
            assert_eq!(ask_udp(&pair.pod, PROXY_UID, at(443)), "heard", "{mode} {peer}");
            // The exception that somebody listed, and that port over UDP, which nobody did.
            assert_eq!(ask(&pair.pod, APP, at(25)), "peer", "{mode} {peer}");
            assert_closed(&ask_udp(&pair.pod, APP, at(25)), mode);
        }
        for stranger in addresses(STRANGERS[0], STRANGERS[1]) {
            let at = SocketAddr::new(stranger, 53);
            assert_closed(&ask_udp(&pair.pod, APP, at), &format!("{mode}, DNS of {stranger}"));
            assert_eq!(ask_udp(&pair.pod, PROXY_UID, at), "heard", "{mode} {stranger}");
        }
    }
}

#[test]
fn without_the_fence_all_of_that_is_open() {
    for mode in MODES {
        let pair = fenced(mode, "");
        for (peer, stranger) in addresses(PEER_V4, PEER_V6)
            .into_iter()
            .zip(addresses(STRANGERS[0], STRANGERS[1]))
        {
            assert_eq!(ask_udp(&pair.pod, APP, SocketAddr::new(peer, 443)), "heard", "{mode}");
            assert_eq!(
                ask_udp(&pair.pod, APP, SocketAddr::new(stranger, 53)),
                "heard",
                "{mode}"
            );
            assert_eq!(raw(&pair.pod, peer), [Ok(()); 3], "{mode} {peer}");
        }
    }
}

#[test]
fn other_protocols_are_closed() {
    for mode in MODES {
        let pair = fenced(mode, FENCE);
        for peer in addresses(PEER_V4, PEER_V6) {
            assert_eq!(raw(&pair.pod, peer), [Err(rustix::io::Errno::PERM); 3], "{mode} {peer}");
        }
    }
}

/// What root gets who sends an echo request, something of SCTP, and something of a protocol for experiments (RFC 3692).
fn raw(namespace: &Netns, to: IpAddr) -> [rustix::io::Result<()>; 3] {
    let (family, icmp, request) = match to {
        IpAddr::V4(_) => (AddressFamily::INET, 1, 8),
        IpAddr::V6(_) => (AddressFamily::INET6, 58, 128),
    };
    [icmp, 132, 253].map(|protocol| {
        namespace.inside(|| {
            let protocol = Protocol::from_raw(RawProtocol::new(protocol).expect("it is not 0"));
            let socket = socket(family, SocketType::RAW, Some(protocol)).expect("root may");
            let packet = [request, 0, 0, 0, 0, 1, 0, 1];
            sendto(&socket, &packet, SendFlags::empty(), &SocketAddr::new(to, 0)).map(drop)
        })
    })
}

#[test]
fn answers_leave_and_what_stays_in_the_pod_passes() {
    for mode in MODES {
        let pair = fenced(mode, FENCE);
        for (pod, loopback) in addresses(POD_V4, POD_V6).into_iter().zip(addresses("127.0.0.1", "::1")) {
            assert_eq!(ask(&pair.peer, 0, SocketAddr::new(pod, 7070)), "app", "{mode} {pod}");
            assert_eq!(
                ask(&pair.peer, 0, SocketAddr::new(pod, 8080)),
                "inbound",
                "{mode} {pod}"
            );
            assert_eq!(
                ask_udp(&pair.peer, 0, SocketAddr::new(pod, 5353)),
                "heard",
                "{mode} {pod}"
            );
            // A closed port is told at once.
            assert_closed(&ask_udp(&pair.peer, 0, SocketAddr::new(pod, 5354)), mode);
            for address in [pod, loopback] {
                assert_eq!(
                    ask(&pair.pod, APP, SocketAddr::new(address, 7070)),
                    "app",
                    "{mode} {address}"
                );
            }
        }
    }
}

#[test]
fn the_proxys_own_ports_are_for_the_proxy_and_for_what_is_redirected() {
    for mode in MODES {
        let pair = fenced(mode, FENCE);
        for address in addresses(POD_V4, POD_V6)
            .into_iter()
            .chain(addresses("127.0.0.1", "::1"))
        {
            for port in [4140, 4143] {
                let at = SocketAddr::new(address, port);
                for user in [APP, 0] {
                    assert_closed(&ask(&pair.pod, user, at), &format!("{mode} {at} by {user}"));
                }
                assert!(
                    ["outbound", "inbound"].contains(&ask(&pair.pod, PROXY_UID, at).as_str()),
                    "{mode} {at}"
                );
            }
            // Applications wait for the proxy there, and end it.
            assert_eq!(ask(&pair.pod, APP, SocketAddr::new(address, 4191)), "admin", "{mode}");
        }
    }
}

#[test]
fn what_the_proxy_wrote_last_arrives_after_it_has_closed() {
    for mode in MODES {
        let pair = fenced(mode, FENCE);
        for peer in addresses(PEER_V4, PEER_V6) {
            let listener = pair
                .peer
                .inside(|| TcpListener::bind((peer, 9000)))
                .expect("the peer listens");
            let written = pair.pod.inside(|| -> io::Result<usize> {
                become_user(PROXY_UID)?;
                let mut stream = TcpStream::connect((peer, 9000))?;
                stream.set_nonblocking(true)?;
                let mut written = 0;
                while let Ok(more) = stream.write(&[0; 4096]) {
                    written += more;
                }
                Ok(written)
            });
            let (mut stream, _) = listener.accept().expect("the connection stands");
            let mut arrived = Vec::new();
            stream.read_to_end(&mut arrived).expect("it ends in peace");
            assert_eq!(arrived.len(), written.expect("it is written"), "{mode} {peer}");
        }
    }
}

#[test]
fn neighbours_are_still_found() {
    for mode in MODES {
        let pair = fenced(mode, FENCE);
        for namespace in [&pair.pod, &pair.peer] {
            namespace.ip(&["neigh", "flush", "all"]);
        }
        let [_, pod] = addresses(POD_V4, POD_V6);
        assert_eq!(ask(&pair.peer, 0, SocketAddr::new(pod, 7070)), "app", "{mode}");
        let [_, peer] = addresses(PEER_V4, PEER_V6);
        assert_eq!(ask(&pair.pod, PROXY_UID, SocketAddr::new(peer, 8000)), "peer", "{mode}");
    }
}

#[test]
fn a_pod_without_redirection_of_ipv6_has_no_way_out_over_it() {
    for mode in MODES {
        let pair = fenced(mode, &format!("{FENCE} --ipv6=false"));
        let [_, peer] = addresses(PEER_V4, PEER_V6);
        assert_closed(&ask_udp(&pair.pod, APP, SocketAddr::new(peer, 443)), mode);
        assert_ne!(ask(&pair.pod, APP, SocketAddr::new(peer, 8000)), "peer", "{mode}");
    }
}

#[test]
fn the_validator_proves_redirection_and_fence() {
    for mode in MODES {
        let validate = |pair: &Pair, arguments: &[&str]| {
            let mut command = Command::new(OUTRIGGER);
            command.args([
                "network-validator",
                "--log-level",
                "debug",
                "--listen-addr",
                "[::]:5140",
            ]);
            command.args(["--connect-addr", "[fd00::1]:20001"]).args(arguments);
            std::os::unix::process::CommandExt::uid(&mut command, 65534);
            let output = pair.pod.run(&mut command);
            (output.status.code(), stderr(&output))
        };
        let rules = "-p 4143 -o 5140 -u 2102";
        let open = Pair::new();
        assert_done(&open.pod.proxy_init(args(mode, rules)));
        assert_eq!(validate(&open, &["--timeout", "60s"]).0, Some(0), "{mode}");
        let (status, said) = validate(&open, &["--timeout", "300ms", "--egress-fence"]);
        assert_eq!(status, Some(95), "{mode}: {said}");
        assert!(said.contains("no fence"), "{said}");
        let closed = Pair::new();
        assert_done(&closed.pod.proxy_init(args(mode, &format!("{rules}{FENCE}"))));
        let (status, said) = validate(&closed, &["--timeout", "60s", "--egress-fence"]);
        assert_eq!(status, Some(0), "{mode}: {said}");
    }
}

fn redirection(fence: Option<Fence>) -> Redirection {
    Redirection {
        inbound_port: 4143,
        outbound_port: 4140,
        proxy_uid: Some(PROXY_UID),
        skip_inbound_ports: PortList::parse("4190,4191").expect("these are ports").list,
        skip_outbound_ports: PortList::parse("25,6000-8000").expect("these are ports").list,
        fence,
        ..Redirection::default()
    }
}

/// Everything that a mode writes to, the filter tables among it.
fn everything(namespace: &Netns, mode: Mode) -> String {
    let mode = match mode {
        Mode::Native | Mode::Auto | Mode::Plain => return native(namespace),
        Mode::Nft => "nft",
        Mode::Legacy => "legacy",
    };
    let saves = ["iptables", "ip6tables"].map(|program| format!("{program}-{mode}-save"));
    let shown = saves
        .iter()
        .flat_map(|save| ["nat", "filter"].map(|table| namespace.tool(save, &["-t", table])));
    let text: String = shown.collect();
    let ours = text.lines().filter(|line| line.contains("PROXY_INIT"));
    let lines: Vec<&str> = ours.map(|line| line.split(" [").next().unwrap_or_default()).collect();
    lines.join("\n")
}

#[test]
fn a_fence_is_checked_repaired_changed_and_taken_down() {
    let fence = |servers| Fence {
        name_servers: name_servers(servers).expect("these are addresses"),
    };
    let (wanted, other) = (
        redirection(Some(fence("10.96.0.10,fd00::a"))),
        redirection(Some(fence(""))),
    );
    let unfenced = redirection(None);
    for mode in [Mode::Native, Mode::Nft, Mode::Legacy] {
        let namespace = Netns::new();
        let options = Options {
            mode,
            ipv6: true,
            wait: Wait::Usual,
        };
        let put = |rules: &Redirection| {
            namespace
                .inside(|| apply(rules, options))
                .expect("it works here")
                .changed
        };
        let checked = |rules: &Redirection| namespace.inside(|| check(rules, options)).is_ok();
        assert!(put(&unfenced), "{mode}");
        let bare = everything(&namespace, mode);
        assert!(!checked(&wanted), "{mode}");
        assert!(put(&wanted) && checked(&wanted) && !put(&wanted), "{mode}");
        assert!(!checked(&unfenced) && !checked(&other), "{mode}");
        let whole = everything(&namespace, mode);
        for damage in damages(mode) {
            namespace.tool("sh", &["-c", damage]);
            assert!(!checked(&wanted), "{mode}: {damage}");
            assert!(put(&wanted) && checked(&wanted), "{mode}: {damage}");
            assert_eq!(everything(&namespace, mode), whole, "{mode}: {damage}");
        }
        assert!(put(&other) && checked(&other), "{mode}");
        assert!(put(&unfenced) && checked(&unfenced), "{mode}");
        assert_eq!(everything(&namespace, mode), bare, "{mode}");
        assert!(put(&wanted), "{mode}");
        for _ in 0..2 {
            namespace.inside(|| remove(options)).expect("it works here");
            assert_eq!(everything(&namespace, mode), "", "{mode}");
        }
    }
}

fn damages(mode: Mode) -> &'static [&'static str] {
    match mode {
        Mode::Nft => &[
            "ip6tables-nft -F PROXY_INIT_FENCE",
            "iptables-nft -F OUTPUT",
            "iptables-nft -I PROXY_INIT_FENCE -j ACCEPT",
            "iptables-nft -R PROXY_INIT_FENCE 2 -m owner --uid-owner 1000 -j RETURN",
        ],
        Mode::Legacy => &[
            "iptables-legacy -F PROXY_INIT_FENCE",
            "ip6tables-legacy -D PROXY_INIT_FENCE 1",
            "iptables-legacy -F OUTPUT",
        ],
        Mode::Native | Mode::Auto | Mode::Plain => &[
            "nft flush chain inet outrigger fence",
            "nft insert rule inet outrigger fence accept",
            "nft insert rule inet outrigger fence meta l4proto udp return",
            "nft add rule inet outrigger fence udp dport 53 return",
            "nft insert rule inet outrigger fence ct state new return",
        ],
    }
}

#[test]
fn name_servers_are_those_of_the_container_unless_they_are_given() {
    let simulate =
        |more: &str| Netns::new().proxy_init(args("native", &format!("{RULES} --simulate --egress-fence{more}")));
    let said = std::fs::read_to_string("/etc/resolv.conf").expect("a machine has one");
    let own = said
        .lines()
        .find_map(|line| line.strip_prefix("nameserver "))
        .expect("with a name server");
    let rules = |more| String::from_utf8(simulate(more).stdout).expect("rules are text");
    assert!(rules("").contains(&format!("daddr {{ {own}/")), "{own}: {}", rules(""));
    assert!(!rules(" --egress-dns 192.0.2.53").contains(own));
    assert!(rules(" --egress-dns 192.0.2.53").contains("udp dport 53 ip daddr { 192.0.2.53/32 } return"));
    let refused = |more: &str| {
        let output = simulate(more);
        assert_eq!(output.status.code(), Some(1), "{more}");
        stderr(&output)
    };
    assert!(refused(" -u 0").contains("--egress-fence needs --proxy-uid above 0"));
    assert!(refused(" --egress-dns kube-dns").contains("--egress-dns: \"kube-dns\" is no subnet"));
}
