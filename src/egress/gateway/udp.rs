//! Datagrams: judged by the port where they come, and carried to and fro for as long as any come.

use super::activity::Activity;
use super::judge::Question;
use super::limits::Place;
use super::{Client, Gateway};
use crate::egress::connection::{Presented, Traffic};
use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::net::UdpSocket;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::JoinSet;
use tracing::{debug, warn};

/// The largest datagram (RFC 768).
const DATAGRAM: usize = 64 << 10;

/// Datagrams that wait for a server; more are dropped, as a full socket would.
const WAITING: usize = 16;

/// Clients of one port that are carried at a time.
const CLIENTS: usize = 4096;

/// Those that are carried, by their addresses.
#[derive(Default)]
struct Flows(Mutex<HashMap<SocketAddr, Sender<Vec<u8>>>>);

/// Carries datagrams that come on `socket` until it is dropped.
pub(super) async fn serve(gateway: Arc<Gateway>, socket: UdpSocket, port: NonZeroU16) {
    let (socket, flows) = (Arc::new(socket), Arc::new(Flows::default()));
    let own = super::own_address(socket.local_addr());
    let mut tasks = JoinSet::new();
    let mut buffer = vec![0; DATAGRAM];
    loop {
        let received = tokio::select! {
            received = socket.recv_from(&mut buffer) => received,
            Some(_ended) = tasks.join_next() => continue,
        };
        let (length, peer) = match received {
            Ok(received) => received,
            // Of an answer that a client did not take.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => continue,
            Err(error) => {
                warn!(%error, "cannot receive datagrams");
                tokio::time::sleep(super::PAUSE).await;
                continue;
            }
        };
        let datagram = buffer.get(..length).unwrap_or_default();
        if flows.take(peer, datagram) {
            continue;
        }
        let client = Client {
            source: peer.ip().to_canonical(),
            port,
            arrived: own,
        };
        let Some(place) = gateway
            .places
            .place(client.source)
            .filter(|_| flows.all().len() < CLIENTS)
        else {
            gateway.crowded(&client, Traffic::Udp);
            continue;
        };
        let (sender, receiver) = channel(WAITING);
        flows.all().insert(peer, sender);
        flows.take(peer, datagram);
        let end = End(Arc::clone(&flows), peer, place);
        let (gateway, socket) = (Arc::clone(&gateway), Arc::clone(&socket));
        tasks.spawn(async move { flow(gateway, client, (socket, peer), receiver, end).await });
    }
}

impl Flows {
    /// Whether the client is carried already; its datagram is then, too, where there is room.
    fn take(&self, peer: SocketAddr, datagram: &[u8]) -> bool {
        let all = self.all();
        let Some(flow) = all.get(&peer) else { return false };
        if let Err(error) = flow.try_send(datagram.to_vec()) {
            debug!(%peer, %error, "a datagram was dropped");
        }
        true
    }

    fn all(&self) -> MutexGuard<'_, HashMap<SocketAddr, Sender<Vec<u8>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Forgets a client when it is dropped.
struct End(
    Arc<Flows>,
    SocketAddr,
    #[expect(dead_code, reason = "it is held")] Place,
);

impl Drop for End {
    fn drop(&mut self) {
        self.0.all().remove(&self.1);
    }
}

/// One client, until it is silent for long. One that is refused is remembered as long, so that each of its datagrams is not a
/// decision of its own.
async fn flow(
    gateway: Arc<Gateway>,
    client: Client,
    back: (Arc<UdpSocket>, SocketAddr),
    mut datagrams: Receiver<Vec<u8>>,
    _end: End,
) {
    let activity = Activity::new();
    let idle = gateway.timings.datagrams;
    let work = async {
        match begin(&gateway, &client).await {
            Some(server) => carry(&server, back, &mut datagrams, &activity).await,
            None => while datagrams.recv().await.is_some() {},
        }
    };
    tokio::select! {
        () = work => {}
        () = activity.silence(idle) => {}
    }
}

/// The way to the server, where the client may have one.
async fn begin(gateway: &Gateway, client: &Client) -> Option<UdpSocket> {
    gateway.known.wait_for(client.source).await;
    let verdict = gateway.judge(client, &Question::new(Traffic::Udp, Presented::Nothing));
    let Some(host) = verdict.host.as_ref().filter(|_| verdict.passes()) else {
        gateway.records.decided(client, &verdict);
        return None;
    };
    match gateway.dial_udp(client, host, verdict.is_unfenced).await {
        Ok(socket) => {
            gateway.records.decided(client, &verdict);
            Some(socket)
        }
        Err(failure) => {
            gateway.records.failed(client, &verdict, &failure);
            None
        }
    }
}

async fn carry(
    server: &UdpSocket,
    (back, peer): (Arc<UdpSocket>, SocketAddr),
    datagrams: &mut Receiver<Vec<u8>>,
    activity: &Activity,
) {
    loop {
        tokio::select! {
            datagram = datagrams.recv() => {
                let Some(datagram) = datagram else { return };
                activity.touch();
                if let Err(error) = server.send(&datagram).await {
                    debug!(%error, "a datagram was not sent");
                }
            }
            received = server.readable() => {
                if received.is_err() {
                    return;
                }
                match read(server) {
                    Ok(answer) => {
                        activity.touch();
                        if let Err(error) = back.send_to(&answer, peer).await {
                            debug!(%error, "an answer was not sent");
                        }
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Err(error) => debug!(%error, "the server took no datagram"),
                }
            }
        }
    }
}

thread_local! {
    /// One buffer for all clients of a thread.
    static SHARED: std::cell::RefCell<Vec<u8>> = std::cell::RefCell::new(vec![0; DATAGRAM]);
}

fn read(server: &UdpSocket) -> io::Result<Vec<u8>> {
    SHARED.with_borrow_mut(|buffer| {
        let length = server.try_recv(buffer)?;
        Ok(buffer.get(..length).unwrap_or_default().to_vec())
    })
}
