//! Starting, changing, filling up and stopping.

use crate::netns::{OUTRIGGER, stderr};
use crate::world::{PATIENCE, World, objects, text};
use std::io::{Read as _, Write as _};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

const OPEN: &str = "{hosts: [www.example.com], allowlist: Enabled, tls: {mode: Optional}}";
const SHUT: &str = "{hosts: [api.github.com], allowlist: Enabled}";

/// Asks again and again until the answer is as wanted.
fn until(world: &World, status: u16) {
    let begin = Instant::now();
    loop {
        let answer = world.curl(&["http://www.example.com/"]);
        if answer.status == status {
            return;
        }
        assert!(begin.elapsed() < PATIENCE, "{answer:?}");
        thread::sleep(Duration::from_millis(200));
    }
}

#[test]
fn a_source_that_is_no_pod_is_closed() {
    let world = World::new();
    let gateway = world.gateway_with(&objects(&[OPEN]).replace("10.88.0.2", "10.88.0.3"), &[]);
    world
        .curl(&["http://www.example.com/"])
        .assert_refused("source_unknown", "no host");
    let decision = gateway.assert_decided("denied", "source_unknown");
    assert_eq!(
        (&decision["source"], &decision["namespace"]),
        (&"10.88.0.2".into(), &"".into())
    );
    assert_eq!(world.curl(&["https://www.example.com/"]).status, 0);
    gateway.assert_decided("denied", "source_unknown");
    assert_eq!(world.internet.visits("www.example.com"), 0);
}

#[test]
fn policies_are_read_again_and_broken_ones_change_nothing() {
    let world = World::new();
    let gateway = world.gateway(&[OPEN]);
    until(&world, 200);
    world.write("objects.yaml", &objects(&[SHUT]));
    until(&world, 403);
    world.write("objects.yaml", &objects(&["{hosts: ['*'], allowlist: Enabled}"]));
    let kept = gateway.wait(|line| line["files"] == "objects" && line["level"] == "WARN");
    assert!(kept["error"].as_str().unwrap().contains("spec.hosts[0]"), "{kept}");
    until(&world, 403);
    // What closes everything else must not be taken away by a file that was cut short.
    for (content, why) in [("", "holds no objects"), (&*objects(&[]), "there is no policy")] {
        world.write("objects.yaml", content);
        gateway.wait(|line| line["error"].as_str().is_some_and(|error| error.contains(why)));
        until(&world, 403);
    }
    let metrics = world.metrics();
    assert!(
        metrics.contains("outrigger_egress_reload_failing{files=\"objects\"} 1\n"),
        "{metrics}"
    );
    world.write("objects.yaml", &objects(&[OPEN]));
    until(&world, 200);
}

#[test]
fn a_gateway_without_policies_to_go_by_does_not_start() {
    let world = World::new();
    let broken = world.write("broken.yaml", &objects(&["{hosts: [localhost]}"]));
    let missing = broken.with_file_name("missing.yaml");
    let empty = world.write("empty.yaml", "# nothing\n");
    let junk = world.write("junk.yaml", "junk\n");
    let open = world.write("open.yaml", &objects(&[]));
    let opaque = objects(&["{hosts: ['*.example.com'], ports: [{port: 5432, protocol: TCP}]}"]);
    let opaque = world.write("opaque.yaml", &opaque);
    for (path, why) in [
        (&broken, "spec.hosts[0]: \"localhost\" is no host name"),
        (
            &opaque,
            "the gateway cannot enforce it as it is written: port 5432, protocol TCP: it shows no host",
        ),
        (&missing, "cannot read "),
        (&empty, "1 of the files holds no objects"),
        (&junk, "an object is \"junk\": expected a map"),
        (&open, "there is no policy, and everything would go out"),
    ] {
        let mut command = Command::new(OUTRIGGER);
        command.args([
            "egress-gateway",
            "--admin-listen",
            "127.0.0.1:0",
            "--listen",
            "80=127.0.0.1:0",
            "--cluster-network",
            "10.96.0.0/12",
            "--objects",
        ]);
        let output = world.inside.run(command.arg(path));
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        assert!(stderr(&output).contains(why), "{}", stderr(&output));
    }
}

#[test]
fn a_source_has_only_so_many_connections() {
    let world = World::new();
    let gateway = world.gateway_with(
        &objects(&[OPEN]),
        &["--max-connections-per-source", "2", "--detect-timeout", "60s"],
    );
    let held = [world.connect(80), world.connect(80)];
    let mut third = world.connect(80);
    let mut answer = Vec::new();
    let _end = third.read_to_end(&mut answer);
    assert!(answer.is_empty());
    gateway.assert_decided("denied", "source_crowded");
    drop(held);
    until(&world, 200);
}

#[test]
fn a_gateway_that_is_told_to_stop_finishes_what_it_has_begun() {
    let world = World::new();
    let spec = "{hosts: [db.example.com], ports: [{port: 5432, protocol: TCP}], allowlist: Enabled}";
    let gateway = world.gateway(&[spec]);
    let mut stream = world.connect(5432);
    let mut answer = [0; 8];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"welcome\n");
    gateway.signal();
    gateway.wait(|line| line["message"] == "stopping");
    let ready = world.inside.tool("curl", &["--silent", "http://127.0.0.1:9997/ready"]);
    assert_eq!(ready, "not ready: stopping\n");
    // What is open still works, and the process waits for it.
    stream.write_all(b"SELECT 1\n").unwrap();
    stream.read_exact(&mut answer[..6]).unwrap();
    assert_eq!(&answer[..6], b"heard\n");
    drop(stream);
    assert_eq!(gateway.ended(), 0);
}

#[test]
fn authorities_and_name_servers_are_read_again_and_broken_ones_change_nothing() {
    let world = World::new();
    let spec = "{hosts: [www.example.com], ports: [{port: 80, protocol: HTTP}], tls: {origination: {}}}";
    let bundle = world.write("bundle.pem", &crate::authority::Authority::new().pem());
    let bundle = bundle.to_str().unwrap();
    let gateway = world.gateway_with(&objects(&[spec]), &["--trust-bundle", bundle]);
    until(&world, 502);
    gateway.assert_failed("certificate_refused");
    world.write("bundle.pem", &world.internet.authority.pem());
    until(&world, 200);
    world.write("bundle.pem", "no certificate");
    world.write("resolv.conf", "no name server\n");
    for files in ["trust-bundle", "resolv-conf"] {
        gateway.wait(|line| line["files"] == files && line["level"] == "WARN");
    }
    until(&world, 200);
}

#[test]
fn clients_over_the_limit_wait_for_a_place() {
    let world = World::new();
    let _gateway = world.gateway_with(
        &objects(&[OPEN]),
        &["--max-connections", "1", "--detect-timeout", "60s"],
    );
    let held = world.connect(80);
    thread::scope(|scope| {
        let waiting = scope.spawn(|| world.curl(&["http://www.example.com/"]));
        // It has said all by the time that this is answered, and is not heard.
        let metrics = world.metrics();
        assert!(
            metrics.contains("\noutrigger_egress_connections_total 1\n"),
            "{metrics}"
        );
        drop(held);
        waiting.join().unwrap().assert_from("www.example.com");
    });
}

#[test]
fn what_was_observed_becomes_a_policy() {
    let world = World::new();
    let gateway = world.gateway(&["{hosts: [api.github.com], allowlist: Enabled, mode: Observe}"]);
    world.curl(&["https://www.example.net/"]).assert_from("www.example.net");
    gateway.wait(|line| line["outcome"] == "observed");
    let log = world.write("log.jsonl", &gateway.log());
    drop(gateway);
    let output = world
        .inside
        .run(Command::new(OUTRIGGER).args(["egress", "observe", "-f"]).arg(log));
    assert!(output.status.success(), "{}", stderr(&output));
    let learned = text(&output.stdout);
    let strict = objects(&["{hosts: [api.github.com], allowlist: Enabled}"]);
    let gateway = world.gateway_with(&format!("{strict}---\n{learned}"), &[]);
    world.curl(&["https://www.example.net/"]).assert_from("www.example.net");
    let decision = gateway.assert_decided("allowed", "listed");
    assert_eq!(decision["rule"], "www.example.net");
}
