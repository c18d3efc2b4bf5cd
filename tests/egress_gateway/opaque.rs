//! What shows no name: a port is bound to the one host that the workload's policies list there.

use crate::world::{NOWHERE, World};
use std::io::{Read as _, Write as _};
use std::net::UdpSocket;
use std::time::Duration;

/// What the database says first, and then to a line; nothing where the gateway closes.
fn talk(world: &World) -> String {
    let mut stream = world.connect(5432);
    let mut answer = [0; 64];
    let mut heard = String::new();
    for line in ["SELECT 1\n", "SELECT 2\n"] {
        match stream.read(&mut answer) {
            Ok(length @ 1..) => heard.push_str(&String::from_utf8_lossy(&answer[..length])),
            _ => return heard,
        }
        stream.write_all(line.as_bytes()).unwrap();
    }
    heard
}

/// Whether a datagram comes back.
fn echoes(world: &World) -> bool {
    let socket = world.pod.inside(|| UdpSocket::bind("0.0.0.0:0")).unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    socket.connect((NOWHERE, 5353)).unwrap();
    let mut answer = [0; 64];
    // A datagram may be lost.
    (0..6).any(|_| {
        socket.send(b"ping").unwrap();
        socket
            .recv(&mut answer)
            .is_ok_and(|length| &answer[..length] == b"ping")
    })
}

#[test]
fn a_port_leads_to_the_host_that_is_listed_there() {
    let world = World::new();
    for spec in [
        "{hosts: [db.example.com], ports: [{port: 5432, protocol: TCP}], allowlist: Enabled}",
        "{addresses: [203.0.113.18], ports: [{port: 5432, protocol: TCP}], allowlist: Enabled}",
    ] {
        let gateway = world.gateway(&[spec]);
        assert_eq!(talk(&world), "welcome\nheard\n", "{spec}");
        let decision = gateway.assert_decided("allowed", "listed");
        let shown = decision["host"]
            .as_str()
            .or_else(|| decision["address"].as_str())
            .unwrap();
        assert!(spec.contains(shown), "{decision}");
        assert_eq!(
            (&decision["rule"], &decision["traffic"]),
            (&shown.into(), &"tcp".into())
        );
    }
}

#[test]
fn a_port_that_leads_nowhere_or_to_several_is_closed() {
    let world = World::new();
    for (specs, outcome, reason) in [
        (
            &[
                "{hosts: [db.example.com], ports: [{port: 5432, protocol: TCP}], allowlist: Enabled}",
                "{hosts: [www.example.com], ports: [{port: 5432, protocol: TCP}]}",
            ][..],
            "denied",
            "name_missing",
        ),
        (
            &["{hosts: [db.example.com], ports: [{port: 5433, protocol: TCP}], allowlist: Enabled}"],
            "denied",
            "name_missing",
        ),
        (
            &["{addresses: [203.0.113.0/24], ports: [{port: 5432, protocol: TCP}], allowlist: Enabled}"],
            "denied",
            "name_missing",
        ),
        // What would pass must have somewhere to go.
        (&["{hosts: [db.example.com]}"], "denied", "destination_unknown"),
    ] {
        let gateway = world.gateway(specs);
        assert_eq!(talk(&world), "", "{specs:?}");
        gateway.assert_decided(outcome, reason);
    }
}

#[test]
fn names_tell_hosts_apart_on_an_opaque_port_where_they_are_shown() {
    let world = World::new();
    let gateway = world.gateway(&[
        "{hosts: [api.github.com], ports: [{port: 443, protocol: TCP}], allowlist: Enabled}",
        "{hosts: [www.example.com], ports: [{port: 443, protocol: TCP}]}",
    ]);
    world.curl(&["https://api.github.com/"]).assert_from("api.github.com");
    gateway.assert_decided("allowed", "listed");
    assert_eq!(world.curl(&["https://www.example.net/"]).status, 0);
    gateway.assert_decided("denied", "host_not_listed");
}

#[test]
fn datagrams_go_to_and_fro() {
    let world = World::new();
    let open = "{hosts: [db.example.com], ports: [{port: 5353, protocol: UDP}], allowlist: Enabled}";
    let gateway = world.gateway(&[open]);
    assert!(echoes(&world));
    let decision = gateway.assert_decided("allowed", "listed");
    assert_eq!(
        (&decision["host"], &decision["traffic"]),
        (&"db.example.com".into(), &"udp".into())
    );
    drop(gateway);
    let gateway = world.gateway(&["{hosts: [db.example.com], allowlist: Enabled}"]);
    assert!(!echoes(&world));
    gateway.assert_decided("denied", "name_missing");
}
