//! The egress gateway: the one way out, which closes what no policy lets out.
//!
//! A connection comes in at an address that stands for a port. `tcp` reads its first bytes (`sniff`, `hello`),
//! `judge` asks the policies (`rules`), by the pod that has the source's address (`pods`), and `record` tells log and metrics. What
//! passes is dialled by its *name* (`resolve`, `dial`): the address that the client chose is never used. TLS and what
//! shows no name is carried as it is (`splice`); HTTP is taken apart, and each request judged by itself (`http`).
//!
//! What is known (`knowledge`) comes from `files`, or from `watches` of a cluster.
//!
//! Whatever is not known is closed: the gateway opens nothing by accident. This part of the room does I/O; it decides nothing.

pub mod options;

mod activity;
mod dial;
mod files;
mod hello;
mod http;
mod judge;
mod knowledge;
mod limits;
mod originate;
mod pods;
mod record;
mod resolve;
mod rules;
mod server;
mod sniff;
mod splice;
mod tcp;
mod trace;
mod udp;
mod watches;

pub use options::Options;
pub use server::Server;

use crate::egress::connection::Traffic;
use crate::egress::host::Host;
use crate::egress::ruling::Reason;
use crate::webhook::{ServeError, signals};
use dial::{DialError, Fence};
use judge::Verdict;
use knowledge::Knowledge;
use limits::Sources;
use options::Timings;
use originate::Trust;
use record::{Failure, Records};
use resolve::Resolver;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpStream, UdpSocket};

/// How long receiving pauses after an error that another attempt would meet again.
const PAUSE: Duration = Duration::from_millis(200);

/// Serves until a signal says to stop, on as many threads as there are CPUs for.
///
/// # Errors
/// Where files, addresses or the system do not let it start.
pub fn serve(options: Options) -> Result<(), ServeError> {
    let system = |what| move |source| ServeError::System { what, source };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime.map_err(system("start the runtime"))?.block_on(async {
        let phase = signals().map_err(system("wait for signals"))?;
        Server::bind(options).await?.run(phase).await;
        Ok(())
    })
}

/// What every connection needs.
#[derive(Debug)]
struct Gateway {
    known: Arc<Knowledge>,
    resolver: Resolver,
    trust: Trust,
    fence: Fence,
    records: Records,
    places: Arc<Sources>,
    timings: Timings,
}

/// Who connects, and to which port.
#[derive(Clone, Copy, Debug)]
struct Client {
    source: IpAddr,
    port: NonZeroU16,
    /// The gateway's address that it came to: whatever leads there again would go round for ever.
    arrived: IpAddr,
}

impl Gateway {
    /// A connection to `host`, which may be any where it `is_unfenced`.
    async fn dial(
        &self,
        client: &Client,
        host: &Host,
        port: NonZeroU16,
        is_unfenced: bool,
    ) -> Result<TcpStream, Failure> {
        let addresses = self.addresses(client, host, is_unfenced).await?;
        Ok(dial::connect(&addresses, port.get(), self.timings.connect).await?)
    }

    /// A socket that sends datagrams to `host`.
    async fn dial_udp(&self, client: &Client, host: &Host, is_unfenced: bool) -> Result<UdpSocket, Failure> {
        let addresses = self.addresses(client, host, is_unfenced).await?;
        let connected = async {
            let first = addresses.first().ok_or(io::ErrorKind::AddrNotAvailable)?;
            let any = match first {
                IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
                IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
            };
            let socket = UdpSocket::bind((any, 0)).await?;
            socket.connect((*first, client.port.get())).await?;
            Ok(socket)
        };
        connected.await.map_err(|error| DialError::Unreachable(error).into())
    }

    async fn addresses(&self, client: &Client, host: &Host, is_unfenced: bool) -> Result<Vec<IpAddr>, Failure> {
        let addresses = match host {
            Host::Address(address) => vec![*address],
            Host::Name(name) => self.resolver.addresses(name).await?,
        };
        match is_unfenced {
            true => Ok(addresses),
            false => Ok(self.fence.pass(addresses, client.arrived)?),
        }
    }

    /// Notes that a source has as many connections as it may; of datagrams, each of which would be a line, it is only counted.
    fn crowded(&self, client: &Client, traffic: Traffic) {
        let verdict = Verdict::refusal(traffic, Reason::SourceCrowded);
        match traffic {
            Traffic::Udp => self.records.counted(&verdict),
            Traffic::Http | Traffic::Http2 | Traffic::Grpc | Traffic::Tls | Traffic::Tcp => {
                self.records.decided(client, &verdict);
            }
        }
    }
}

/// The address of a socket; that of nobody where it has none.
fn own_address(bound: io::Result<SocketAddr>) -> IpAddr {
    bound.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |address| address.ip().to_canonical())
}
