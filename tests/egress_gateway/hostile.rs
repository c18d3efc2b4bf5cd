//! Requests and hellos that no honest client sends.

use crate::world::World;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::io::{Read as _, Write as _};
use std::net::Shutdown;
use std::sync::Arc;

const SPEC: &str = "{hosts: [www.example.com], allowlist: Enabled, tls: {mode: Optional}}";

/// What comes back for bytes that are sent as they are, until the gateway closes.
fn raw(world: &World, port: u16, bytes: &[u8]) -> Vec<u8> {
    let mut stream = world.connect(port);
    // A refusal may come, and the connection end, before all is said; a reset after the last byte is as good an end.
    let _refused = stream.write_all(bytes).and_then(|()| stream.shutdown(Shutdown::Write));
    let mut answer = Vec::new();
    let _end = stream.read_to_end(&mut answer);
    answer
}

/// The first words of each answer.
fn answers(world: &World, requests: &str) -> Vec<String> {
    let bytes = raw(world, 80, requests.as_bytes());
    let text = String::from_utf8_lossy(&bytes).replace("HTTP/1.0 ", "HTTP/1.1 ");
    let mut found = Vec::new();
    // Status lines begin where heads or bodies end; servers tell the version, too.
    for answer in text.split("HTTP/1.1 ").skip(1) {
        let status = answer[..3].to_owned();
        let line = answer
            .lines()
            .find(|line| line.starts_with("egress ") || line.starts_with("server "));
        found.push(format!("{status} {}", line.unwrap_or_default()));
    }
    found
}

#[test]
fn every_request_of_a_connection_is_judged_by_itself() {
    let world = World::new();
    let gateway = world.gateway(&[SPEC]);
    let get = |host: &str, end: &str| format!("GET / HTTP/1.1\r\nHost: {host}\r\n{end}\r\n");
    let pipelined = [
        get("www.example.com", ""),
        get("www.example.net", ""),
        get("WWW.example.com.", "Connection: close\r\n"),
    ];
    let expected = [
        "200 server www.example.com",
        "403 egress denied: host_not_listed: www.example.net",
        "200 server www.example.com",
    ];
    assert_eq!(answers(&world, &pipelined.concat()), expected);

    // One message by its length and two by its encoding: the encoding counts, and nothing after it is read (RFC 9112, section
    // 6.1).
    let inner = get("www.example.net", "Connection: close\r\n");
    for heads in [
        format!("Content-Length: {}\r\nTransfer-Encoding: chunked\r\n", inner.len() + 5),
        format!("Transfer-Encoding: chunked\r\nContent-Length: {}\r\n", inner.len() + 5),
    ] {
        let smuggled = format!("POST / HTTP/1.1\r\nHost: www.example.com\r\n{heads}\r\n0\r\n\r\n{inner}");
        assert_eq!(answers(&world, &smuggled), ["200 server www.example.com"], "{heads}");
    }
    assert_eq!(world.internet.visits("www.example.net"), 0);
    drop(gateway);
}

/// Requests without their last line, what the answer says, and why.
const REFUSED: [(&str, &str, &str); 13] = [
    (
        "GET / HTTP/1.1\r\nHost: www.example.com\r\nHost: www.example.com\r\n",
        "403 egress denied: names_disagree: no host",
        "names_disagree",
    ),
    (
        "GET / HTTP/1.1\r\nHost: www.example.com\r\nHost: www.example.net\r\n",
        "403 egress denied: names_disagree: no host",
        "names_disagree",
    ),
    (
        "GET http://www.example.net/ HTTP/1.1\r\nHost: www.example.com\r\n",
        "403 egress denied: names_disagree: no host",
        "names_disagree",
    ),
    (
        "GET / HTTP/1.1\r\n",
        "403 egress denied: name_missing: no host",
        "name_missing",
    ),
    (
        "GET / HTTP/1.0\r\n",
        "403 egress denied: name_missing: no host",
        "name_missing",
    ),
    (
        "GET / HTTP/1.1\r\nHost:\r\n",
        "403 egress denied: name_missing: no host",
        "name_missing",
    ),
    (
        "CONNECT www.example.com:443 HTTP/1.1\r\nHost: www.example.com:443\r\n",
        "403 egress denied: request_malformed: no host",
        "request_malformed",
    ),
    (
        "POST / HTTP/1.1\r\nHost: www.example.com\r\nTransfer-Encoding: gzip, chunked\r\n",
        "403 egress denied: request_malformed: no host",
        "request_malformed",
    ),
    (
        "GET / HTTP/1.1\r\nHost: www.example.com\r\nX-A: 1\r\n Host: www.example.net\r\n",
        "400 ",
        "request_malformed",
    ),
    (
        "GET / HTTP/1.1\r\nHost: www.example.com\r\nX-A: 1\rHost: www.example.net\r\n",
        "400 ",
        "request_malformed",
    ),
    (
        "GET / HTTP/1.1\r\nHost : www.example.com\r\n",
        "400 ",
        "request_malformed",
    ),
    (
        "POST / HTTP/1.1\r\nHost: www.example.com\r\nContent-Length: 1\r\nContent-Length: 2\r\n",
        "400 ",
        "request_malformed",
    ),
    (
        "POST / HTTP/1.1\r\nHost: www.example.com\r\nTransfer-Encoding: xchunked\r\n",
        "400 ",
        "request_malformed",
    ),
];

#[test]
fn what_is_no_request_for_one_host_is_refused() {
    let world = World::new();
    let gateway = world.gateway(&[SPEC]);
    let close = "Connection: close\r\n\r\n";
    for (request, answer, reason) in REFUSED {
        assert_eq!(answers(&world, &format!("{request}{close}")), [answer], "{request}");
        gateway.assert_decided("denied", reason);
    }
    assert_eq!(world.internet.visits("www.example.com"), 0);
    let same = "GET http://WWW.example.com/ HTTP/1.1\r\nHost: www.example.com\r\nConnection: close\r\n\r\n";
    assert_eq!(answers(&world, same), ["200 server www.example.com"]);
    // A head without end is no request: what it names is not believed.
    let endless = format!(
        "GET /{} HTTP/1.1\r\nHost: www.example.com\r\n\r\n",
        "a".repeat(20 << 10)
    );
    assert_eq!(raw(&world, 80, endless.as_bytes()), b"");
    gateway.wait(|line| line["reason"] == "name_missing" && line["traffic"] == "tcp");
}

/// A client of TLS for `name` that trusts the internet's authority, and its first flight.
fn hello(world: &World, name: &str) -> (ClientConnection, Vec<u8>) {
    let mut roots = RootCertStore::empty();
    let pem = world.internet.authority.pem();
    roots
        .add(CertificateDer::from_pem_slice(pem.as_bytes()).unwrap())
        .unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap();
    let config = config.with_root_certificates(roots).with_no_client_auth();
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let mut client = ClientConnection::new(Arc::new(config), name).unwrap();
    let mut flight = Vec::new();
    client.write_tls(&mut flight).unwrap();
    (client, flight)
}

/// The same message in records of `size` bytes (RFC 8446, section 5.1, lets them be cut anywhere).
fn fragmented(flight: &[u8], size: usize) -> Vec<u8> {
    let records = flight[5..].chunks(size);
    records
        .flat_map(|part| [&[22, 3, 1][..], &u16::try_from(part.len()).unwrap().to_be_bytes(), part].concat())
        .collect()
}

#[test]
fn a_hello_in_pieces_is_read_whole() {
    let world = World::new();
    let gateway = world.gateway(&[SPEC]);
    for size in [3, 100] {
        let (client, flight) = hello(&world, "www.example.com");
        let mut stream = world.connect(443);
        for piece in fragmented(&flight, size).chunks(61) {
            stream.write_all(piece).unwrap();
        }
        let mut tls = StreamOwned::new(client, stream);
        tls.write_all(b"GET / HTTP/1.1\r\nHost: www.example.com\r\nConnection: close\r\n\r\n")
            .unwrap();
        let mut answer = String::new();
        tls.read_to_string(&mut answer).unwrap();
        assert!(answer.contains("server www.example.com\n"), "{answer}");
        gateway.assert_decided("allowed", "listed");

        let (_, flight) = hello(&world, "www.example.net");
        // Fatal, access_denied.
        assert_eq!(raw(&world, 443, &fragmented(&flight, size)), [21, 3, 3, 0, 2, 2, 49]);
        gateway.assert_decided("denied", "host_not_listed");
    }
}

#[test]
fn a_hello_that_hides_another_is_closed_where_an_allowlist_is_kept() {
    let world = World::new();
    let (_, flight) = hello(&world, "www.example.com");
    let hidden = with_encrypted_hello(&flight);
    let gateway = world.gateway(&[SPEC]);
    assert_eq!(raw(&world, 443, &hidden), [21, 3, 3, 0, 2, 2, 49]);
    let decision = gateway.assert_decided("denied", "name_encrypted");
    assert_eq!(decision["host"], "www.example.com");
    assert_eq!(world.internet.visits("www.example.com"), 0);
    drop(gateway);
    for (spec, outcome, reason) in [
        ("{hosts: [www.example.com]}", "allowed", "listed"),
        (
            "{hosts: [www.example.com], allowlist: Enabled, mode: Observe}",
            "observed",
            "name_encrypted",
        ),
    ] {
        let gateway = world.gateway(&[spec]);
        raw(&world, 443, &hidden);
        gateway.assert_decided(outcome, reason);
    }
    assert_eq!(world.internet.visits("www.example.com"), 2);
}

/// The same hello with the extension of an encrypted one (RFC 9849), its content noise.
fn with_encrypted_hello(flight: &[u8]) -> Vec<u8> {
    let mut message = flight[5..].to_vec();
    let number = |message: &[u8], place: usize| usize::from(u16::from_be_bytes([message[place], message[place + 1]]));
    let mut place = 4 + 2 + 32;
    place += 1 + usize::from(message[place]);
    place += 2 + number(&message, place);
    place += 1 + usize::from(message[place]);
    // Section 5: an outer hello, a suite, a configuration, 32 bytes of a key and 128 of noise.
    let noise = [&[0, 0, 1, 0, 1, 9, 0, 32][..], &[7; 32], &[0, 128], &[7; 128]].concat();
    let extension = [&[0xfe, 0x0d, 0, u8::try_from(noise.len()).unwrap()][..], &noise].concat();
    let size = u16::try_from(number(&message, place) + extension.len()).unwrap();
    message[place..place + 2].copy_from_slice(&size.to_be_bytes());
    message.splice(place + 2..place + 2, extension);
    let length = u32::try_from(message.len() - 4).unwrap().to_be_bytes();
    message[1..4].copy_from_slice(&length[1..]);
    fragmented(&[&[0; 5], &message[..]].concat(), 16 << 10)
}

#[test]
fn half_a_hello_and_what_is_nothing_known_are_closed_after_a_while() {
    let world = World::new();
    let gateway = world.gateway(&[SPEC]);
    let (_, flight) = hello(&world, "www.example.com");
    for beginning in [&flight[..flight.len() / 2], b"GET / HT", b"SSH-2.0-evil\r\n", b""] {
        let mut stream = world.connect(443);
        stream.write_all(beginning).unwrap();
        let mut answer = Vec::new();
        let _end = stream.read_to_end(&mut answer);
        assert!(answer.is_empty(), "{answer:?}");
        let decision = gateway.assert_decided("denied", "name_missing");
        assert_eq!(
            (&decision["traffic"], &decision["host"]),
            (&"tcp".into(), &serde_json::Value::Null)
        );
    }
}
