//! Clients of HTTP/2 and of gRPC.

use crate::world::{NOWHERE, PATIENCE, World};
use http_body_util::{BodyExt as _, Full};
use hyper::Request;
use hyper::body::Bytes;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::net::Ipv4Addr;

/// What came back.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) text: String,
    /// `grpc-status` of the trailers.
    pub(crate) grpc_status: Option<String>,
}

/// Asks for each of `uris` over one connection to `port`, all at the same time, with the content type `kind`.
pub(crate) fn ask(world: &World, port: u16, uris: &[&str], kind: &str) -> Vec<Response> {
    world.pod.inside(|| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let address: Ipv4Addr = NOWHERE.parse().unwrap();
            let stream = tokio::net::TcpStream::connect((address, port)).await.unwrap();
            let (sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
                .await
                .unwrap();
            tokio::spawn(connection);
            let asked = uris.iter().map(|uri| {
                let mut sender = sender.clone();
                let request = Request::post(*uri)
                    .header("content-type", kind)
                    .header("te", "trailers");
                let request = request.body(Full::new(Bytes::from_static(b"12345"))).unwrap();
                async move {
                    let response = sender.send_request(request).await.unwrap();
                    let status = response.status().as_u16();
                    let body = response.into_body().collect().await.unwrap();
                    let trailer = body
                        .trailers()
                        .and_then(|trailers| trailers.get("grpc-status"))
                        .cloned();
                    Response {
                        status,
                        text: String::from_utf8(body.to_bytes().to_vec()).unwrap(),
                        grpc_status: trailer.map(|value| value.to_str().unwrap().to_owned()),
                    }
                }
            });
            let asked = futures::future::join_all(asked);
            tokio::time::timeout(PATIENCE, asked)
                .await
                .expect("every stream is answered")
        })
    })
}

#[test]
fn every_stream_of_a_connection_is_judged_by_itself() {
    let world = World::new();
    let gateway = world.gateway(&["{hosts: ['*.example.com'], allowlist: Enabled, tls: {mode: Optional}}"]);
    let uris = [
        "http://www.example.com/a",
        "http://WWW.example.com./b",
        "http://www.example.net/",
        "http://db.example.com/c",
    ];
    let responses = ask(&world, 80, &uris, "application/grpc");
    let begins = |text: &str| {
        responses
            .iter()
            .filter(|response| response.text.starts_with(text))
            .count()
    };
    assert_eq!(begins("server www.example.com\nversion HTTP/2.0\n"), 2, "{responses:?}");
    assert_eq!(begins("server db.example.com\nversion HTTP/2.0\n"), 1, "{responses:?}");
    assert_eq!(responses[2].status, 403);
    assert_eq!(responses[2].text, "egress denied: host_not_listed: www.example.net\n");
    // Trailers come through, and the header that asks for them.
    assert_eq!(responses[0].grpc_status.as_deref(), Some("0"));
    assert!(responses[0].text.contains("\nte: trailers\n") && responses[0].text.contains("\nbytes 5\n"));
    // Streams to one host share a connection.
    assert_eq!(world.internet.visits("www.example.com"), 1);
    assert_eq!(gateway.wait(|line| line["outcome"] == "denied")["traffic"], "grpc");
    gateway.wait(|line| line["host"] == "db.example.com" && line["traffic"] == "grpc");
}

#[test]
fn curl_speaks_http2() {
    let world = World::new();
    let gateway = world.gateway(&["{hosts: [www.example.com], allowlist: Enabled, tls: {mode: Optional}}"]);
    let answer = world.curl(&["--http2-prior-knowledge", "http://www.example.com/"]);
    answer.assert_from("www.example.com");
    assert!(answer.text.contains("version HTTP/2.0\n"), "{answer:?}");
    assert_eq!(gateway.assert_decided("allowed", "listed")["traffic"], "http2");
    // An upgrade to a protocol within which nobody looks is not passed on: the answer comes without.
    let answer = world.curl(&["--http2", "http://www.example.com/"]);
    answer.assert_from("www.example.com");
    assert!(answer.text.contains("version HTTP/1.1\n"), "{answer:?}");
    assert!(
        !answer.text.contains("\nupgrade:") && !answer.text.contains("\nhttp2-settings:"),
        "{answer:?}"
    );
    let answer = world.curl(&["--http2", "https://www.example.com/"]);
    assert!(answer.text.contains("version HTTP/2.0\n"), "{answer:?}");
}

#[test]
fn bodies_of_any_size_come_through() {
    let world = World::new();
    let gateway = world.gateway(&["{hosts: [www.example.com], tls: {mode: Optional}}"]);
    let body = world.write("body", &"0123456789abcdef".repeat(3 << 16));
    let body = format!("@{}", body.display());
    for arguments in [
        // Curl waits for leave to send it (100 Continue).
        &["--http1.1", "http://www.example.com/"][..],
        &[
            "--http1.1",
            "--header",
            "Transfer-Encoding: chunked",
            "http://www.example.com/",
        ],
        &["--http2-prior-knowledge", "http://www.example.com/"],
        &["https://www.example.com/"],
    ] {
        let answer = world.curl(&[&["--data-binary", &body], arguments].concat());
        answer.assert_from("www.example.com");
        assert!(answer.text.contains("\nbytes 3145728\n"), "{answer:?}");
        gateway.assert_decided("allowed", "listed");
    }
}
