//! Pods with a user namespace of their own (`hostUsers: false`), written to from the node.

use crate::netns::{Netns, OUTRIGGER, assert_done, output, stderr};
use crate::rules::native;
use crate::traffic::{Pair, ask, listen};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

/// Holds a network namespace that belongs to a user namespace in which root here is the proxy's user.
struct Holder(Child);

impl Holder {
    fn new() -> Self {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-user=2102", "--net", "sh", "-c", "echo ready; read end"]);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("apt-get install util-linux");
        let mut ready = [0; 6];
        let stdout = child.stdout.as_mut().expect("it is piped");
        std::io::Read::read_exact(stdout, &mut ready).expect("it says when it is ready");
        Self(child)
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        // It ends when nobody can write to it any more.
        drop(self.0.stdin.take());
        let _ended = self.0.wait();
    }
}

#[test]
fn native_rules_mean_the_users_of_the_pod() {
    let holder = Holder::new();
    let pod = Netns::attach(holder.0.id());
    let pair = Pair::of(pod, Netns::new());
    listen(&pair.peer, "[::]:8000", |_| "peer".to_owned());
    listen(&pair.pod, "[::]:4140", |_| "proxy".to_owned());
    let run = |mode: &str| {
        let mut command = Command::new(OUTRIGGER);
        command.args([
            "proxy-init",
            "--iptables-mode",
            mode,
            "-p",
            "4143",
            "-o",
            "4140",
            "-u",
            "2102",
            "--netns",
        ]);
        output(command.arg(pair.pod.path()))
    };
    for mode in ["nft", "legacy"] {
        let refused = run(mode);
        assert_eq!(refused.status.code(), Some(1), "{mode}: {}", stderr(&refused));
        assert!(
            !pair
                .pod
                .nat(&format!("iptables-{mode}"))
                .concat()
                .contains("PROXY_INIT"),
            "{mode}"
        );
    }
    assert_done(&run("auto"));
    assert!(native(&pair.pod).contains("skuid 2102"));
    let peer = SocketAddr::from(([10, 77, 0, 1], 8000));
    assert_eq!(ask(&pair.pod, 0, peer), "peer", "root here is 2102 there");
    assert_eq!(ask(&pair.pod, 1000, peer), "proxy");
}
