//! One TCP connection: what it speaks, whether it may, and its bytes on their way.

use super::activity::Activity;
use super::judge::Question;
use super::sniff::{Sniffed, Speech, sniff};
use super::splice::splice;
use super::{Client, Gateway, http};
use crate::egress::connection::{Presented, Traffic};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::timeout;
use tracing::debug;

/// Alerts that end a handshake before it begins (RFC 8446, section 6): a record of version 3.3 with two bytes, fatal.
const ACCESS_DENIED: [u8; 7] = [21, 3, 3, 0, 2, 2, 49];
const UNRECOGNIZED_NAME: [u8; 7] = [21, 3, 3, 0, 2, 2, 112];

/// How long a refused client's further bytes are read and thrown away, and how many: what is closed with bytes unread is
/// reset, and then the client may never see the alert.
const FAREWELL: (Duration, u64) = (Duration::from_secs(1), 64 << 10);

/// Serves a connection until it ends.
pub(super) async fn serve(
    gateway: Arc<Gateway>,
    mut stream: TcpStream,
    client: Client,
    stopping: watch::Receiver<bool>,
) {
    if let Err(error) = stream.set_nodelay(true) {
        debug!(%error, "TCP_NODELAY not set");
    }
    gateway.known.wait_for(client.source).await;
    let Sniffed { speech, bytes } = if gateway.is_opaque(&client) {
        Sniffed {
            speech: Speech::Opaque,
            bytes: Vec::new(),
        }
    } else {
        match sniff(&mut stream, gateway.timings.detect).await {
            Ok(sniffed) => sniffed,
            Err(error) => return debug!(%error, "a client said nothing"),
        }
    };
    let question = match speech {
        // Their state is large: connections that are only spliced must not have room for it.
        Speech::Http1 => return Box::pin(http::serve(gateway, client, (bytes, stream), false, stopping)).await,
        Speech::Http2 => return Box::pin(http::serve(gateway, client, (bytes, stream), true, stopping)).await,
        Speech::Tls(hello) => Question::tls(&hello),
        Speech::Opaque => Question::new(Traffic::Tcp, Presented::Nothing),
    };
    closed(gateway, stream, client, (bytes, question)).await;
}

/// What is not opened: TLS of the application's own, judged by the name that it shows, and what shows no name, judged by the
/// port where it came.
async fn closed(gateway: Arc<Gateway>, mut stream: TcpStream, client: Client, (bytes, question): (Vec<u8>, Question)) {
    let verdict = gateway.judge(&client, &question);
    let Some(host) = verdict.host.as_ref().filter(|_| verdict.passes()) else {
        gateway.records.decided(&client, &verdict);
        if question.traffic == Traffic::Tls {
            let is_named = question.host != Presented::Nothing;
            part(stream, if is_named { &ACCESS_DENIED } else { &UNRECOGNIZED_NAME }).await;
        }
        return;
    };
    match gateway.dial(&client, host, client.port, verdict.is_unfenced).await {
        Ok(server) => {
            gateway.records.decided(&client, &verdict);
            drop(verdict);
            carry(&gateway, stream, server, bytes).await;
        }
        Err(failure) => {
            gateway.records.failed(&client, &verdict, &failure);
            let _gone = stream.shutdown().await;
        }
    }
}

/// Hands over what was read already, and then carries bytes until both sides are done or silent.
async fn carry(gateway: &Gateway, mut client: TcpStream, mut server: TcpStream, bytes: Vec<u8>) {
    let activity = Activity::new();
    let carried = async {
        server.write_all(&bytes).await?;
        drop(bytes);
        splice(&mut client, &mut server, &activity).await
    };
    let ended: io::Result<()> = tokio::select! {
        carried = carried => carried,
        () = activity.silence(gateway.timings.idle) => Err(io::ErrorKind::TimedOut.into()),
    };
    if let Err(error) = ended {
        debug!(%error, "a connection broke off");
    }
}

/// Tells a client why, and lets it leave.
async fn part(mut stream: TcpStream, alert: &[u8]) {
    let told = async {
        stream.write_all(alert).await?;
        stream.shutdown().await?;
        tokio::io::copy(&mut stream.take(FAREWELL.1), &mut tokio::io::sink()).await
    };
    if let Ok(Err(error)) = timeout(FAREWELL.0, told).await {
        debug!(%error, "a refused client had left");
    }
}
