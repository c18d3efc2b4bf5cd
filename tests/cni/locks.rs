//! Somebody holds a lock: a pod's start does not wait for longer than the kubelet may be kept waiting.

use crate::agent::Agent;
use crate::netns::Netns;
use crate::pods::meshed;
use crate::runtime::{Run, config, has_rules};
use rustix::fs::{FlockOperation, flock};
use serde_json::json;
use std::fs::File;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::Path;
use std::time::{Duration, Instant};
use tempfile::NamedTempFile;

/// Within this time the kubelet is told.
const LIMIT: Duration = Duration::from_secs(10);

#[test]
fn the_lock_of_iptables_is_not_waited_for_longer_than_the_kubelet_is() {
    let (agent, namespace) = (Agent::knowing(meshed()), Netns::new());
    let mut config = config(&agent.socket(), Path::new("/nonexistent"));
    config["linkerd"]["iptables-mode"] = json!("legacy");
    let lock = NamedTempFile::new().expect("a file can be made");
    let path = std::env::var("PATH").expect("there is a PATH");
    // The variable is iptables' own, for a lock that is not the machine's.
    let add = Run::new("ADD", &namespace.path(), "app/meshed", &config)
        .with("PATH", &path)
        .with("XTABLES_LOCKFILE", &lock.path().display().to_string());
    let held = File::open(lock.path()).expect("it is there");
    flock(&held, FlockOperation::LockExclusive).expect("nobody else has it");

    let begun = Instant::now();
    let message = add.run().failed(100);
    assert!(begun.elapsed() <= LIMIT, "{:?}", begun.elapsed());
    assert!(message.contains("xtables lock"), "{message}");
    assert!(!has_rules(&namespace));

    drop(held);
    add.run().done();
    assert!(has_rules(&namespace));
}

#[test]
fn whoever_takes_the_name_of_our_lock_keeps_no_pod_from_its_rules() {
    let (agent, namespace) = (Agent::knowing(meshed()), Netns::new());
    let config = config(&agent.socket(), Path::new("/nonexistent"));
    let name = SocketAddr::from_abstract_name("outrigger-redirect").expect("it is a name");
    let _held = namespace
        .inside(|| UnixListener::bind_addr(&name))
        .expect("nobody else has it");

    let begun = Instant::now();
    Run::new("ADD", &namespace.path(), "app/meshed", &config).run().done();
    assert!(begun.elapsed() <= LIMIT, "{:?}", begun.elapsed());
    assert!(has_rules(&namespace));
}
