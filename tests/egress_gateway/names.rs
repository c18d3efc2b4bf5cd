//! Names in every disguise, in requests and in hellos: each leads where it says or nowhere.

use crate::world::World;

const SPEC: &str =
    "{hosts: ['*.example.com', api.github.com, bücher.example], allowlist: Enabled, tls: {mode: Optional}}";

#[test]
fn a_request_reaches_the_host_that_it_names_and_no_other() {
    let world = World::new();
    let gateway = world.gateway(&[SPEC]);
    let ask = |host: &str| world.curl(&["--header", &format!("Host: {host}"), "http://dialled.test/"]);
    for (host, server) in [
        ("www.example.com", "www.example.com"),
        ("WWW.Example.COM", "www.example.com"),
        ("www.example.com.", "www.example.com"),
        ("www.example.com:80", "www.example.com"),
        ("api.github.com", "api.github.com"),
        ("bücher.example", "xn--bcher-kva.example"),
        ("BÜCHER.example", "xn--bcher-kva.example"),
        ("xn--bcher-kva.example", "xn--bcher-kva.example"),
    ] {
        ask(host).assert_from(server);
        let decision = gateway.assert_decided("allowed", "listed");
        assert_eq!(decision["host"], server);
        assert_eq!(decision["policy"], "EgressPolicy/shop/rule-0");
        assert_eq!(
            (&decision["namespace"], &decision["serviceAccount"]),
            (&"shop".into(), &"agent".into())
        );
    }
    for (host, reason, shown) in [
        ("example.com", "host_not_listed", "example.com"),
        ("www.example.net", "host_not_listed", "www.example.net"),
        ("example.com.evil.test", "host_not_listed", "example.com.evil.test"),
        (
            "www.example.com.evil.test",
            "host_not_listed",
            "www.example.com.evil.test",
        ),
        ("203.0.113.11", "address_not_listed", "203.0.113.11"),
        ("3405803787", "address_not_listed", "203.0.113.11"),
        ("[::ffff:203.0.113.11]", "address_not_listed", "203.0.113.11"),
        ("169.254.169.254", "metadata_address", "169.254.169.254"),
        (
            "metadata.google.internal",
            "metadata_address",
            "metadata.google.internal",
        ),
        ("www example com", "name_malformed", "no host"),
        ("user@www.example.com", "name_malformed", "no host"),
        ("www.example.com:http", "name_malformed", "no host"),
        ("www.example.com, api.github.com", "name_malformed", "no host"),
    ] {
        ask(host).assert_refused(reason, shown);
        gateway.assert_decided("denied", reason);
    }
    for (host, reason) in [
        ("loopback.example.com", "address_forbidden"),
        ("metadata.example.com", "address_forbidden"),
        ("cluster.example.com", "address_forbidden"),
        ("closed.example.com", "server_unreachable"),
        ("nowhere.example.com", "name_unknown"),
    ] {
        let answer = ask(host);
        let line = format!("egress failed: {reason}: {host}\n");
        assert_eq!((answer.status, answer.text), (502, line));
        gateway.assert_failed(reason);
    }
    ask("half-dead.example.com").assert_from("api.github.com");
    for untouched in ["example.com", "www.example.net", "example.com.evil.test"] {
        assert_eq!(world.internet.visits(untouched), 0, "{untouched}");
    }
}

#[test]
fn a_range_opens_no_address_that_is_forbidden_to_names() {
    let world = World::new();
    let all = "{addresses: ['0.0.0.0/0', '::/0'], ports: [{port: 80, protocol: TCP}], allowlist: Enabled}";
    let gateway = world.gateway(&[all]);
    let ask = |host: &str| world.curl(&["--header", &format!("Host: {host}"), "http://dialled.test/"]);
    for host in [
        "127.0.0.1",
        "10.96.0.1",
        "[::1]",
        "[64:ff9b:1::a9fe:a9fe]",
        "[2002:7f00:1::]",
    ] {
        assert_eq!(ask(host).status, 502, "{host}");
        gateway.assert_failed("address_forbidden");
    }
    ask("169.254.169.254").assert_refused("metadata_address", "169.254.169.254");
}

#[test]
fn tls_reaches_the_host_that_it_names_and_no_other() {
    let world = World::new();
    let gateway = world.gateway(&[SPEC]);
    for (url, server) in [
        ("https://www.example.com/", "www.example.com"),
        ("https://WWW.EXAMPLE.com/", "www.example.com"),
        ("https://api.github.com./", "api.github.com"),
        ("https://xn--bcher-kva.example/", "xn--bcher-kva.example"),
    ] {
        let answer = world.curl(&[url]);
        answer.assert_from(server);
        assert!(answer.text.contains(&format!("\nsni {server}\n")), "{answer:?}");
        let decision = gateway.assert_decided("allowed", "listed");
        assert_eq!(
            (&decision["host"], &decision["traffic"]),
            (&server.into(), &"tls".into())
        );
    }
    for (url, reason) in [
        ("https://www.example.net/", "host_not_listed"),
        ("https://example.com/", "host_not_listed"),
        ("https://example.com.evil.test/", "host_not_listed"),
        // Clients name no address.
        ("https://203.0.113.11/", "name_missing"),
    ] {
        let answer = world.curl(&[url]);
        assert!(
            answer.status == 0 && (answer.error.contains("alert") || answer.error.contains("unrecognized name")),
            "{url}: {answer:?}"
        );
        gateway.assert_decided("denied", reason);
    }
    // A hello for one host and a request for another: the one that was asked for has it, and answers for itself.
    let fronted = world.curl(&["--header", "Host: www.example.net", "https://www.example.com/"]);
    fronted.assert_from("www.example.com");
    for untouched in ["example.com", "www.example.net", "example.com.evil.test"] {
        assert_eq!(world.internet.visits(untouched), 0, "{untouched}");
    }
}

#[test]
fn python_reaches_what_is_listed_over_both() {
    let world = World::new();
    let gateway = world.gateway(&[SPEC]);
    let script = "
import http.client, socket, ssl
def ask(name, tls):
    raw = socket.create_connection((nowhere, 443 if tls else 80), timeout=30)
    if tls:
        raw = ssl.create_default_context(cafile=ca).wrap_socket(raw, server_hostname=name)
    connection = http.client.HTTPConnection(name)
    connection.sock = raw
    connection.request('POST', '/path', body=b'12345')
    answer = connection.getresponse()
    return answer.status, answer.read().decode().split('\\n')[0]
print(ask('www.example.com', False), ask('www.example.com', True), ask('www.example.net', False))
try:
    print(ask('www.example.net', True))
except (ssl.SSLError, ConnectionError) as error:
    print('closed')
";
    let output = world.python(script);
    let printed = crate::world::text(&output.stdout);
    let expected = "(200, 'server www.example.com') (200, 'server www.example.com') \
                    (403, 'egress denied: host_not_listed: www.example.net')\nclosed\n";
    assert_eq!(printed, expected, "{}", crate::world::text(&output.stderr));
    gateway.wait(|line| line["reason"] == "host_not_listed" && line["traffic"] == "tls");
}
