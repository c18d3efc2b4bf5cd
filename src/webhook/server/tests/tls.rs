//! Protocols, certificates that change, clients that are slow or wrong.

use super::client::{Connection, Mount, Pair, tls};
use super::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

#[tokio::test]
async fn both_protocols_and_both_versions_of_tls_answer() {
    let server = start(options()).await;
    let mut http1 = Connection::http1(server.address).await;
    let mut http2 = Connection::http2(server.address).await;
    for uid in ["a", "b", "c"] {
        assert!(admits(&http1.ask(&review(uid)).await, uid));
        assert!(admits(&http2.ask(&review(uid)).await, uid));
    }
    server.metric("outrigger_connections_total 2").await;
    let old = tls(server.address, &[b"http/1.1"], &[&rustls::version::TLS12]).await;
    assert_eq!(
        old.get_ref().1.protocol_version(),
        Some(rustls::ProtocolVersion::TLSv1_2)
    );
}

#[tokio::test]
async fn a_rotated_certificate_is_shown_to_new_connections_and_drops_none() {
    let pairs = [Pair::new(), Pair::new(), Pair::new()];
    let mut mount = Mount::new(&pairs[0].certificate, &pairs[0].key);
    let mut options = options();
    options.certificate = CertificateSource::Folder(mount.path().to_owned());
    let server = start(options).await;
    let (mut http1, mut http2) = (
        Connection::http1(server.address).await,
        Connection::http2(server.address).await,
    );
    assert_eq!(http2.certificate, pairs[0].der);
    assert!(admits(&http1.ask(&review("before")).await, "before"));

    for pair in &pairs[1..] {
        mount.swap(&pair.certificate, &pair.key);
        eventually("the new certificate is shown", async || {
            let mut fresh = Connection::http2(server.address).await;
            admits(&fresh.ask(&review("fresh")).await, "fresh") && fresh.certificate == pair.der
        })
        .await;
        assert!(admits(&http1.ask(&review("kept")).await, "kept"));
        assert!(admits(&http2.ask(&review("kept")).await, "kept"));
    }
    server
        .metric("outrigger_reloads_total{files=\"certificate\",outcome=\"used\"} 2")
        .await;
}

#[tokio::test]
async fn a_bad_pair_is_kept_out_and_a_good_one_after_it_comes_in() {
    let (first, second) = (Pair::new(), Pair::new());
    let mut mount = Mount::new(&first.certificate, &first.key);
    let mut options = options();
    options.certificate = CertificateSource::Folder(mount.path().to_owned());
    let server = start(options).await;

    let bad = [
        (&second.certificate, &first.key),
        (&second.certificate, &"none".to_owned()),
    ];
    for (count, (certificate, key)) in bad.into_iter().enumerate() {
        mount.swap(certificate, key);
        server
            .metric(&format!(
                "outrigger_reloads_total{{files=\"certificate\",outcome=\"failed\"}} {}",
                count + 1
            ))
            .await;
        server.metric("outrigger_reload_failing{files=\"certificate\"} 1").await;
        let mut connection = Connection::http2(server.address).await;
        assert_eq!(connection.certificate, first.der);
        assert!(admits(&connection.ask(&review("u")).await, "u"));
    }
    mount.swap(&second.certificate, &second.key);
    server.metric("outrigger_reload_failing{files=\"certificate\"} 0").await;
    assert_eq!(Connection::http1(server.address).await.certificate, second.der);
}

/// Waits until the server closes the connection, whatever it says before that.
async fn closed(mut stream: impl AsyncReadExt + Unpin) -> Vec<u8> {
    let mut said = Vec::new();
    // A reset closes it too.
    let end = timeout(PATIENCE, stream.read_to_end(&mut said)).await;
    let _bytes_or_reset = end.expect("the connection stays open");
    said
}

#[tokio::test]
async fn a_handshake_that_does_not_come_is_cut_off() {
    let mut options = options();
    options.timings.handshake = Duration::from_millis(50);
    let server = start(options).await;
    let mut half = TcpStream::connect(server.address).await.unwrap();
    half.write_all(&[0x16, 0x03]).await.unwrap();
    closed(half).await;
    closed(TcpStream::connect(server.address).await.unwrap()).await;
    server
        .metric("outrigger_connections_failed_total{reason=\"handshake_late\"} 2")
        .await;
}

#[tokio::test]
async fn heads_that_do_not_end_are_cut_off() {
    let mut options = options();
    options.timings.head = Duration::from_millis(50);
    let server = start(options).await;
    let mut webhook = tls(server.address, &[b"http/1.1"], rustls::ALL_VERSIONS).await;
    webhook
        .write_all(b"POST / HTTP/1.1\r\nhost: localhost\r\nx: ")
        .await
        .unwrap();
    webhook.flush().await.unwrap();
    closed(webhook).await;
    let silent = tls(server.address, &[b"http/1.1"], rustls::ALL_VERSIONS).await;
    closed(silent).await;
    let mut admin = TcpStream::connect(server.admin).await.unwrap();
    admin.write_all(b"GET /live HTTP/1.1\r\n").await.unwrap();
    closed(admin).await;
    server.metric("outrigger_connections_open 0").await;
}

#[tokio::test]
async fn a_client_of_http2_that_asks_nothing_is_cut_off() {
    let mut options = options();
    options.timings.head = Duration::from_millis(50);
    let server = start(options).await;
    let silent = tls(server.address, &[b"h2"], rustls::ALL_VERSIONS).await;
    closed(silent).await;
    server
        .metric("outrigger_connections_failed_total{reason=\"silent\"} 1")
        .await;
    // The preface and a SETTINGS frame are no request.
    let mut polite = tls(server.address, &[b"h2"], rustls::ALL_VERSIONS).await;
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    polite.write_all(preface).await.unwrap();
    closed(polite).await;
    server.metric("outrigger_connections_open 0").await;
}

#[tokio::test]
async fn a_client_that_has_nothing_more_to_ask_is_let_go() {
    let mut options = options();
    options.timings.idle = Duration::from_millis(50);
    let server = start(options).await;
    for http2 in [false, true] {
        let mut connection = match http2 {
            false => Connection::http1(server.address).await,
            true => Connection::http2(server.address).await,
        };
        assert!(admits(&connection.ask(&review("u")).await, "u"));
        server.metric("outrigger_connections_open 0").await;
    }
    assert!(!server.metrics().await.contains("outrigger_connections_failed_total{"));
}

#[tokio::test]
async fn a_client_may_be_idle_for_longer_than_its_first_request_may_take() {
    let mut options = options();
    options.timings.head = Duration::from_millis(200);
    let server = start(options).await;
    let mut http1 = Connection::http1(server.address).await;
    let mut http2 = Connection::http2(server.address).await;
    assert!(admits(&http1.ask(&review("u")).await, "u") && admits(&http2.ask(&review("u")).await, "u"));
    // It comes later, and is late already.
    closed(tls(server.address, &[b"http/1.1"], rustls::ALL_VERSIONS).await).await;
    assert!(admits(&http1.ask(&review("v")).await, "v") && admits(&http2.ask(&review("v")).await, "v"));
}

#[tokio::test]
async fn what_is_no_tls_is_closed() {
    let server = start(options()).await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream
        .write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n")
        .await
        .unwrap();
    closed(stream).await;
    server
        .metric("outrigger_connections_failed_total{reason=\"handshake\"} 1")
        .await;
}

#[tokio::test]
async fn too_large_a_body_is_refused_over_both_protocols() {
    let server = start(options()).await;
    let large = " ".repeat((8 << 20) + 1);
    let mut http2 = Connection::http2(server.address).await;
    let (status, message) = http2.ask(&large).await;
    assert_eq!(
        (status, message.as_str()),
        (413, "the body has more than 8388608 bytes\n")
    );
    assert!(admits(&http2.ask(&review("u")).await, "u"), "the connection goes on");

    let mut http1 = tls(server.address, &[b"http/1.1"], rustls::ALL_VERSIONS).await;
    let head = format!(
        "POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n\r\n",
        large.len()
    );
    http1.write_all(head.as_bytes()).await.unwrap();
    let answer = closed(http1).await;
    assert!(
        answer.starts_with(b"HTTP/1.1 413 "),
        "{}",
        String::from_utf8_lossy(&answer)
    );
}

#[tokio::test]
async fn a_cut_body_is_an_error_and_the_connection_goes_on() {
    let server = start(options()).await;
    let mut connection = Connection::http1(server.address).await;
    let (status, message) = connection.ask(&review("u")[..40]).await;
    assert_eq!(status, 400);
    assert!(message.starts_with("the body ends early: "), "{message}");
    assert!(admits(&connection.ask(&review("u")).await, "u"));
}
