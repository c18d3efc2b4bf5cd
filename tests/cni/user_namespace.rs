//! A pod with a user namespace of its own (`hostUsers: false`), set up from the node.

use crate::agent::Agent;
use crate::netns::Netns;
use crate::pods::meshed;
use crate::rules::native;
use crate::runtime::{Run, config};
use crate::traffic::{Pair, ask, listen};
use serde_json::json;
use std::io::Read as _;
use std::net::SocketAddr;
use std::path::Path;
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
        let stdout = child.stdout.as_mut().expect("it is piped");
        stdout.read_exact(&mut [0; 6]).expect("it says when it is ready");
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
fn rules_mean_the_users_of_the_pod_whatever_mode_is_configured() {
    for mode in ["", "nft", "legacy"] {
        let holder = Holder::new();
        let pair = Pair::of(Netns::attach(holder.0.id()), Netns::new());
        listen(&pair.peer, "[::]:8000", |_| "peer".to_owned());
        listen(&pair.pod, "[::]:4140", |_| "proxy".to_owned());
        let mut pod = meshed();
        pod["spec"]["hostUsers"] = json!(false);
        let agent = Agent::knowing(pod);
        let mut config = config(&agent.socket(), Path::new("/nonexistent/kubeconfig"));
        config["linkerd"]["iptables-mode"] = json!(mode);
        let path = std::env::var("PATH").expect("tests have a PATH");
        let run = |verb| {
            Run::new(verb, &pair.pod.path(), "app/meshed", &config)
                .with("PATH", &path)
                .run()
        };
        run("ADD").done();
        assert!(native(&pair.pod).contains("skuid 2102"), "{mode}");
        let peer = SocketAddr::from(([10, 77, 0, 1], 8000));
        assert_eq!(ask(&pair.pod, 0, peer), "peer", "root here is 2102 there");
        assert_eq!(ask(&pair.pod, 1000, peer), "proxy");
        run("CHECK").done();
        run("DEL").done();
        assert_eq!(native(&pair.pod), "");
        assert_eq!(ask(&pair.pod, 1000, peer), "peer");
    }
}
