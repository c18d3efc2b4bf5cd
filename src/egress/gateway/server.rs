//! The process: its parts put together, started in order and stopped in order.

use super::files::Files;
use super::knowledge::Knowledge;
use super::limits::Sources;
use super::options::{FactSource, Options, Port, Timings};
use super::originate::Trust;
use super::record::Records;
use super::resolve::Resolver;
use super::watches::Watches;
use super::{Client, Gateway, own_address, tcp, udp};
use crate::cluster::connect;
use crate::egress::connection::Traffic;
use crate::egress::gateway::dial::Fence;
use crate::webhook::metrics::{Connections, Counted, Reloads};
use crate::webhook::{Admin, Phase, ServeError, accept, listen, note, reached, serve_admin};
use futures::future::BoxFuture;
use prometheus_client::encoding::text;
use prometheus_client::registry::Registry;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::fmt;
use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep};
use tracing::{debug, error, info, warn};

/// A gateway that listens already, and serves once [`Server::run`] does.
pub struct Server {
    gateway: Arc<Gateway>,
    facts: Facts,
    tcp: Vec<(NonZeroU16, TcpListener)>,
    udp: Vec<(NonZeroU16, UdpSocket)>,
    admin: BoxFuture<'static, ()>,
    admin_address: SocketAddr,
    connections: Connections,
    reloads: Reloads,
    places: Arc<Semaphore>,
    stopping: Arc<AtomicBool>,
}

/// Where it learns what it goes by.
#[derive(Clone)]
enum Facts {
    Files(Arc<Files>),
    Cluster(Arc<Watches>),
}

impl Server {
    /// Loads everything and listens. What is wrong with files or addresses is found here.
    ///
    /// # Errors
    /// Where anything is.
    pub async fn bind(options: Options) -> Result<Self, ServeError> {
        raise_file_limit();
        let mut registry = Registry::default();
        let ours = registry.sub_registry_with_prefix("outrigger_egress");
        let (records, connections) = (Records::register(ours), Connections::register(ours));
        let reloads = Reloads::register_files(ours);
        let (known, facts) = Facts::new(options.facts, options.namespace, options.timings, ours).await?;
        let gateway = Arc::new(Gateway {
            known,
            resolver: Resolver::load(options.resolv_conf)?,
            trust: Trust::load(options.trust_bundle)?,
            fence: Fence {
                internal: options.internal,
            },
            records,
            places: Sources::new(options.limits.per_source),
            timings: options.timings,
        });
        let stopping = Arc::new(AtomicBool::new(false));
        let admin = admin(&stopping, facts.clone(), registry);
        let (admin_address, admin) = serve_admin(options.admin_listen, admin).await?;
        let (tcp, udp) = sockets(&options.ports).await?;
        Ok(Self {
            gateway,
            facts,
            tcp,
            udp,
            admin: Box::pin(admin),
            admin_address,
            connections,
            reloads,
            places: Arc::new(Semaphore::new(options.limits.connections)),
            stopping,
        })
    }

    /// Where probes and metrics are answered.
    pub fn admin_address(&self) -> SocketAddr {
        self.admin_address
    }

    /// Serves until `phase` says to stop: readiness goes first, connections are taken for a while longer, requests under way
    /// finish, and what is left after that is cut off.
    pub async fn run(self, phase: watch::Receiver<Phase>) {
        for (port, address) in self.addresses() {
            info!(port, %address, "listening");
        }
        info!(address = %self.admin_address, "probes and metrics");
        let Timings {
            linger, drain, reload, ..
        } = self.gateway.timings;
        let (tell, told) = watch::channel(false);
        let mut tasks = JoinSet::new();
        for (port, socket) in self.tcp {
            let door = Door {
                gateway: Arc::clone(&self.gateway),
                connections: self.connections.clone(),
                places: Arc::clone(&self.places),
                port,
                stopping: told.clone(),
            };
            tasks.spawn(door.serve(socket));
        }
        let mut datagrams = JoinSet::new();
        for (port, socket) in self.udp {
            datagrams.spawn(udp::serve(Arc::clone(&self.gateway), socket, port));
        }
        let stop = async {
            reached(phase.clone(), Phase::Draining).await;
            info!("stopping");
            self.stopping.store(true, Ordering::Relaxed);
            tokio::select! {
                () = sleep(linger) => {}
                () = reached(phase.clone(), Phase::Aborting) => {}
            }
            tell.send_replace(true);
            tokio::select! {
                () = async { while tasks.join_next().await.is_some() {} } => {}
                () = sleep(drain) => warn!("connections are cut off"),
                () = reached(phase.clone(), Phase::Aborting) => {}
            }
        };
        tokio::select! {
            () = stop => {}
            // In a task of its own: what reads files must not keep probes waiting.
            _ended = tokio::spawn(self.admin) => {}
            () = look_again(&self.gateway, &self.facts, &self.reloads, reload) => {}
            () = self.facts.watch() => {}
        }
        info!("stopped");
    }

    /// The ports, and where each comes in.
    pub fn addresses(&self) -> Vec<(u16, SocketAddr)> {
        let tcp = self.tcp.iter().map(|(port, socket)| (port, socket.local_addr()));
        let udp = self.udp.iter().map(|(port, socket)| (port, socket.local_addr()));
        let all = tcp
            .chain(udp)
            .filter_map(|(port, address)| Some((port.get(), address.ok()?)));
        all.collect()
    }
}

impl Facts {
    /// What is known, and where it comes from: of files all of it already.
    async fn new(
        source: FactSource,
        namespace: String,
        timings: Timings,
        registry: &mut Registry,
    ) -> Result<(Arc<Knowledge>, Self), ServeError> {
        match source {
            FactSource::Files(paths) => {
                let files = Files::load(paths, namespace)?;
                // There is no news to wait for.
                let known = Knowledge::new(Duration::ZERO);
                files.tell(&known);
                Ok((known, Self::Files(Arc::new(files))))
            }
            FactSource::Server(access) => {
                let known = Knowledge::new(timings.news);
                let client = connect(&access).await?;
                let watches = Watches::new(client, namespace, Arc::clone(&known), registry);
                Ok((known, Self::Cluster(watches)))
            }
        }
    }

    /// Watches, where there is anything to watch, until it is dropped.
    async fn watch(&self) {
        if let Self::Cluster(watches) = self {
            Arc::clone(watches).run().await;
        }
        std::future::pending::<()>().await;
    }

    fn ready(&self) -> Result<(), String> {
        match self {
            // It listens only once they are read.
            Self::Files(_) => Ok(()),
            Self::Cluster(watches) => watches.ready(),
        }
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("addresses", &self.addresses())
            .finish_non_exhaustive()
    }
}

/// Where the connections to one port come in.
struct Door {
    gateway: Arc<Gateway>,
    connections: Connections,
    places: Arc<Semaphore>,
    port: NonZeroU16,
    stopping: watch::Receiver<bool>,
}

impl Door {
    /// Serves until the gateway stops, and then until the last connection has ended.
    async fn serve(self, socket: TcpListener) {
        let mut open = JoinSet::new();
        while let Some((stream, peer)) = self.next(&socket, &mut open).await {
            // Until there is a place, it waits, and further clients in the system's queue.
            let Some(permit) = self.place(&mut open).await else {
                break;
            };
            self.admit(&mut open, (permit, stream, peer));
        }
        drop(socket);
        while let Some(ended) = open.join_next().await {
            note_end(&ended);
        }
    }

    /// The next connection; nothing when the gateway stops.
    async fn next(&self, socket: &TcpListener, open: &mut JoinSet<()>) -> Option<(TcpStream, SocketAddr)> {
        let mut stopping = self.stopping.clone();
        loop {
            tokio::select! {
                _stopped = stopping.wait_for(|stopping| *stopping) => return None,
                Some(ended) = open.join_next() => note_end(&ended),
                accepted = accept(socket) => return Some(accepted),
            }
        }
    }

    /// A place among all connections; nothing when the gateway stops.
    async fn place(&self, open: &mut JoinSet<()>) -> Option<OwnedSemaphorePermit> {
        let mut stopping = self.stopping.clone();
        let mut place = pin!(Arc::clone(&self.places).acquire_owned());
        loop {
            tokio::select! {
                _stopped = stopping.wait_for(|stopping| *stopping) => return None,
                Some(ended) = open.join_next() => note_end(&ended),
                place = &mut place => return place.ok(),
            }
        }
    }

    fn admit(&self, open: &mut JoinSet<()>, (permit, stream, peer): (OwnedSemaphorePermit, TcpStream, SocketAddr)) {
        let client = Client {
            source: peer.ip().to_canonical(),
            port: self.port,
            arrived: own_address(stream.local_addr()),
        };
        self.connections.accepted.inc();
        let Some(place) = self.gateway.places.place(client.source) else {
            self.gateway.crowded(&client, Traffic::Tcp);
            return;
        };
        let (gateway, stopping) = (Arc::clone(&self.gateway), self.stopping.clone());
        let gauge = self.connections.open.clone();
        open.spawn(async move {
            let _counted = Counted::new(&gauge);
            tcp::serve(gateway, stream, client, stopping).await;
            drop((permit, place));
        });
    }
}

fn note_end(ended: &Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended {
        error!(%error, "a connection's task failed");
    }
}

async fn sockets(ports: &[Port]) -> Result<(Vec<(NonZeroU16, TcpListener)>, Vec<(NonZeroU16, UdpSocket)>), ServeError> {
    let (mut tcp, mut udp) = (Vec::new(), Vec::new());
    for Port { meant, address, is_udp } in ports {
        if *is_udp {
            let bound = UdpSocket::bind(address).await;
            let address = *address;
            udp.push((*meant, bound.map_err(|source| ServeError::Listen { address, source })?));
        } else {
            tcp.push((*meant, listen(*address).await?.0));
        }
    }
    Ok((tcp, udp))
}

fn admin(stopping: &Arc<AtomicBool>, facts: Facts, registry: Registry) -> Admin {
    let stopping = Arc::clone(stopping);
    let ready = move || match stopping.load(Ordering::Relaxed) {
        true => Err("stopping".to_owned()),
        false => facts.ready(),
    };
    let metrics = move || {
        let mut written = String::new();
        text::encode(&mut written, &registry)?;
        Ok(written)
    };
    Admin::new(ready, metrics)
}

/// Compares the files again and again.
async fn look_again(gateway: &Gateway, facts: &Facts, reloads: &Reloads, pause: Duration) {
    // They were read at the start.
    let mut ticks = interval_at(Instant::now() + pause, pause);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        if let Facts::Files(files) = facts
            && note(&files.check(), "objects", reloads)
        {
            files.tell(&gateway.known);
            let policies = gateway.known.rules().map_or(0, |rules| rules.policies.iter().count());
            info!(policies, addresses = gateway.known.pods.count(), "policies in use");
        }
        note(&gateway.trust.check(), "trust-bundle", reloads);
        note(&gateway.resolver.check(), "resolv-conf", reloads);
    }
}

/// Lets the process have as many files as it may: each connection has two.
fn raise_file_limit() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: maximum,
        maximum,
    };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        debug!(%error, "the limit of open files was not raised");
    }
}
