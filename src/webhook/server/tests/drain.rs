//! How the server stops.

use super::client::{Connection, tls};
use super::*;
use crate::webhook::signals;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

/// Nothing here ends because this ran out.
const FOREVER: Duration = Duration::from_secs(60 * 60);

/// A server that finishes what it has begun, however long it takes.
fn options() -> Options {
    let mut options = super::options();
    options.timings.request = FOREVER;
    options.timings.body = FOREVER;
    options.timings.drain = FOREVER;
    options
}

/// A request of which the server has everything but the end of its body.
async fn half_sent(server: &Running) -> (TlsStream<TcpStream>, String) {
    let mut stream = tls(server.address, &[b"http/1.1"], rustls::ALL_VERSIONS).await;
    let body = review("slow");
    let (start, rest) = body.split_at(20);
    let head = format!(
        "POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n\r\n{start}",
        body.len()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    server.metric("outrigger_admission_in_flight 1").await;
    (stream, rest.to_owned())
}

async fn refused(address: SocketAddr) {
    eventually("connections are refused", async || {
        TcpStream::connect(address).await.is_err()
    })
    .await;
}

#[tokio::test]
async fn a_request_under_way_finishes() {
    let server = start(options()).await;
    let idle = Connection::http2(server.address).await;
    let (mut stream, rest) = half_sent(&server).await;
    server.phase.send_replace(Phase::Draining);
    refused(server.address).await;
    assert_eq!(server.admin("/ready").await, (500, "not ready: stopping\n".to_owned()));
    assert_eq!(server.admin("/live").await.0, 200);

    stream.write_all(rest.as_bytes()).await.unwrap();
    let mut answer = String::new();
    timeout(PATIENCE, stream.read_to_string(&mut answer))
        .await
        .expect("the connection stays open")
        .unwrap();
    assert!(
        answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.contains("\"uid\":\"slow\""),
        "{answer}"
    );
    server.ended().await;
    drop(idle);
}

#[tokio::test]
async fn connections_are_taken_until_everyone_knows() {
    let mut options = options();
    options.timings.linger = FOREVER;
    let server = start(options).await;
    server.phase.send_replace(Phase::Draining);
    eventually("not ready", async || server.admin("/ready").await.0 == 500).await;
    let mut late = Connection::http2(server.address).await;
    assert!(admits(&late.ask(&review("late")).await, "late"));
    server.phase.send_replace(Phase::Aborting);
    server.ended().await;
}

#[tokio::test]
async fn clients_leave_by_themselves_as_long_as_connections_are_taken() {
    let mut options = options();
    options.timings.linger = FOREVER;
    let server = start(options).await;
    let body = review("u");
    let request = format!(
        "POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut stream = tls(server.address, &[b"http/1.1"], rustls::ALL_VERSIONS).await;
    let (mut under_way, rest) = half_sent(&server).await;
    let mut http2 = Connection::http2(server.address).await;
    server.phase.send_replace(Phase::Draining);
    eventually("not ready", async || server.admin("/ready").await.0 == 500).await;
    // An API server that asks meanwhile is answered, and told that it has to open another connection.
    stream.write_all(request.as_bytes()).await.unwrap();
    under_way.write_all(rest.as_bytes()).await.unwrap();
    for mut stream in [stream, under_way] {
        let mut answer = String::new();
        let read = timeout(PATIENCE, stream.read_to_string(&mut answer));
        read.await.expect("the connection is closed").unwrap();
        assert!(
            answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.contains("\r\nconnection: close\r\n"),
            "{answer}"
        );
    }
    // HTTP/2 has a word for it of its own, and no request is lost.
    assert!(admits(&http2.ask(&review("u")).await, "u"));
    assert!(admits(&http2.ask(&review("v")).await, "v"));
    server.phase.send_replace(Phase::Aborting);
    server.ended().await;
}

#[tokio::test]
async fn what_does_not_finish_in_time_is_cut_off() {
    let mut options = options();
    options.timings.drain = Duration::from_millis(50);
    let server = start(options).await;
    let (mut stream, _rest) = half_sent(&server).await;
    server.phase.send_replace(Phase::Draining);
    server.ended().await;
    let mut answer = Vec::new();
    let _end_or_reset = timeout(PATIENCE, stream.read_to_end(&mut answer))
        .await
        .expect("the connection stays open");
    assert!(answer.is_empty());
}

#[tokio::test]
async fn the_second_signal_aborts() {
    let mut phase = signals().unwrap();
    let server = Server::bind(options()).await.unwrap();
    let (address, admin) = (server.address(), server.admin_address());
    let run = tokio::spawn(server.run(phase.clone()));
    let (told, _) = watch::channel(Phase::Serving);
    let server = Running {
        address,
        admin,
        phase: told,
        run,
    };
    let (_stream, _rest) = half_sent(&server).await;
    for (signal, next) in [("-TERM", Phase::Draining), ("-INT", Phase::Aborting)] {
        assert!(!server.run.is_finished());
        kill(signal);
        timeout(PATIENCE, phase.wait_for(|now| *now == next))
            .await
            .expect("the signal is lost")
            .unwrap();
    }
    server.ended().await;
}

/// Sends a signal to this process.
#[expect(clippy::disallowed_methods, reason = "no crate of ours can send signals")]
fn kill(signal: &str) {
    let status = std::process::Command::new("kill")
        .args([signal, &std::process::id().to_string()])
        .status();
    assert!(status.unwrap().success());
}
