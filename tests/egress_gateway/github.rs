//! An agent that may reach `https://api.github.com` and nothing else: by its own TLS, or by TLS that the gateway makes.

use crate::world::{World, objects};

#[test]
fn passthrough_leaves_everything_else_unreachable() {
    let world = World::new();
    let gateway = world.gateway(&["{hosts: [api.github.com], ports: [{port: 443}], allowlist: Enabled}"]);
    let answer = world.curl(&["https://api.github.com/user"]);
    answer.assert_from("api.github.com");
    assert!(answer.text.contains("\npath /user\n"), "{answer:?}");
    gateway.assert_decided("allowed", "listed");
    for (url, reason) in [
        ("https://www.example.net/", "host_not_listed"),
        ("https://example.com.evil.test/", "host_not_listed"),
        ("https://203.0.113.12/", "name_missing"),
        ("http://api.github.com/", "port_not_listed"),
        ("http://www.example.net/", "host_not_listed"),
        ("http://api.github.com:8080/", "port_not_listed"),
    ] {
        let answer = world.curl(&[url]);
        assert_ne!(answer.status, 200, "{url}: {answer:?}");
        gateway.assert_decided("denied", reason);
    }
    // The address of a host that is closed, dialled in the name of one that is open, leads to the open one.
    let forged = world.curl(&[
        "--resolve",
        "api.github.com:443:203.0.113.12",
        "https://api.github.com/",
    ]);
    forged.assert_from("api.github.com");
    // Ports that nobody takes in lead nowhere.
    let elsewhere = world.curl(&["--max-time", "5", "http://203.0.113.12:8443/"]);
    assert_eq!(elsewhere.status, 0, "{elsewhere:?}");
    for closed in ["www.example.net", "example.com.evil.test"] {
        assert_eq!(world.internet.visits(closed), 0, "{closed}");
    }
}

const ORIGINATED: &str = "{hosts: [api.github.com, expired.test, misnamed.test, untrusted.test], \
                          ports: [{port: 80, protocol: Detect}], allowlist: Enabled, tls: {origination: {}}}";

#[test]
fn origination_takes_no_wrong_certificate() {
    let world = World::new();
    let gateway = world.gateway(&[ORIGINATED]);
    for (version, argument) in [("HTTP/1.1", "--http1.1"), ("HTTP/2.0", "--http2-prior-knowledge")] {
        let answer = world.curl(&[argument, "http://api.github.com/user"]);
        answer.assert_from("api.github.com");
        assert!(answer.text.contains("\nsni api.github.com\n"), "{answer:?}");
        assert!(answer.text.contains(&format!("\nversion {version}\n")), "{answer:?}");
        gateway.assert_decided("allowed", "listed");
        for host in ["expired.test", "misnamed.test", "untrusted.test"] {
            let answer = world.curl(&[argument, &format!("http://{host}/")]);
            let line = format!("egress failed: certificate_refused: {host}\n");
            assert_eq!((answer.status, answer.text), (502, line));
            let decision = gateway.assert_failed("certificate_refused");
            let why = decision["error"].as_str().unwrap();
            assert!(why.starts_with("its certificate is refused: "), "{why}");
        }
    }
    let answer = world.curl(&["http://www.example.net/"]);
    answer.assert_refused("host_not_listed", "www.example.net");
    assert_eq!(world.internet.visits("www.example.net"), 0);
}

#[test]
fn origination_takes_the_authorities_that_a_policy_names() {
    let world = World::new();
    let spec = "{hosts: [api.github.com], ports: [{port: 80, protocol: HTTP}], \
                tls: {origination: {caCertificates: {configMap: github-ca}}}}";
    let nobody = world.write("nobody.pem", &crate::authority::Authority::new().pem());
    let arguments = ["--trust-bundle", nobody.to_str().unwrap()];
    let map = |pem: &str| {
        let lines = pem.trim_end().replace('\n', "\n    ");
        let head = "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: github-ca, namespace: shop}\n";
        format!("{}{head}data:\n  ca.crt: |\n    {lines}\n", objects(&[spec]))
    };
    let ask = || world.curl(&["http://api.github.com/"]);
    let gateway = world.gateway_with(&objects(&[spec]), &arguments);
    assert_eq!(ask().text, "egress failed: authorities_missing: api.github.com\n");
    gateway.assert_failed("authorities_missing");
    drop(gateway);
    let gateway = world.gateway_with(&map(&crate::authority::Authority::new().pem()), &arguments);
    assert_eq!(ask().text, "egress failed: certificate_refused: api.github.com\n");
    drop(gateway);
    let gateway = world.gateway_with(&map(&world.internet.authority.pem()), &arguments);
    ask().assert_from("api.github.com");
    gateway.assert_decided("allowed", "listed");
}
