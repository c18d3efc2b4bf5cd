//! The process: its parts put together, started in order and stopped in order.

use super::admin::Admin;
use super::answer::{self, App};
use super::certificate::{
    Certificate, CertificateError, Object, Service, Upkeep, look, not_after, server_config, validity,
};
use super::clients::Clients;
use super::listener::{Limits, Listener, bind};
use super::metrics::{Connections, Metrics, Reloads};
use super::options::{CertificateSource, FactSource, Options, Timings};
use super::reload::{Change, LoadError, Reloaded, Source};
use super::router::Entrance;
use super::shutdown::{Phase, reached};
use crate::cluster::events::Events;
use crate::cluster::index::ObjectsError;
use crate::cluster::{Access, Cluster, ConnectError, connect};
use crate::decide::Setup;
use futures::future::{self, BoxFuture};
use kube::Client;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::server::danger::ClientCertVerifier;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep};
use tokio_rustls::TlsAcceptor;
use tracing::{info, warn};

/// Why the server cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// An address cannot be listened on.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system says.
        source: io::Error,
    },
    /// Files cannot be read or used.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// No certificate could be made.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// TLS cannot be set up.
    #[error("cannot set up TLS: {0}")]
    Tls(#[from] rustls::Error),
    /// There is no client of an API server.
    #[error("cannot set up the client of the API server: {0}")]
    Connect(#[from] ConnectError),
    /// A manifest cannot be used.
    #[error(transparent)]
    Objects(#[from] ObjectsError),
    /// The system refuses what the process itself needs.
    #[error("cannot {what}: {source}")]
    System {
        /// What it needs.
        what: &'static str,
        /// What the system says.
        source: io::Error,
    },
}

/// A server that listens already, and serves once [`Server::run`] does.
pub struct Server {
    webhook: Listener,
    admin: Listener,
    address: SocketAddr,
    admin_address: SocketAddr,
    certificate: Arc<Certificate>,
    stopping: Arc<AtomicBool>,
    /// What keeps facts, files and events moving.
    background: BoxFuture<'static, ()>,
    timings: Timings,
}

impl Server {
    /// Loads everything and listens. What is wrong with files, addresses or the way to the API server is found here.
    pub async fn bind(options: Options) -> Result<Self, ServeError> {
        let certificate = Arc::new(certificate(&options)?);
        let clients = options.clients.as_ref().map(Clients::load).transpose()?.map(Arc::new);
        let setup = Arc::new(setup(&options)?);
        let (cluster, client) = cluster(&options.facts, &options.linkerd_namespace).await?;
        let cluster = Arc::new(cluster);
        cluster.set_pod_security(&setup.current().pod_security);
        let (events, publish) = Events::through(client.clone());
        let metrics = Arc::new(Metrics::new(Arc::clone(&cluster), events.clone()));
        let stopping = Arc::new(AtomicBool::new(false));

        let timings = options.timings;
        let limits = Limits::within(&timings);
        let (socket, admin_address) = listen(options.admin_listen).await?;
        let router = admin(&cluster, &certificate, &metrics, &stopping).router();
        let admin = Listener::new(socket, router, None, limits, Connections::default());

        let app = App {
            setup: Arc::clone(&setup),
            cluster: Arc::clone(&cluster),
        };
        let entrance = Entrance::new(app, events, Arc::clone(&metrics), &timings);
        let judge = clients
            .clone()
            .map(|clients| -> Arc<dyn ClientCertVerifier> { clients });
        let tls = TlsAcceptor::from(Arc::new(server_config(Arc::clone(&certificate), judge)?));
        let (socket, address) = listen(options.listen).await?;
        let webhook = Listener::new(
            socket,
            entrance.router(),
            Some(tls),
            limits,
            metrics.connections.clone(),
        );

        let files = Watched {
            certificate: Arc::clone(&certificate),
            setup,
            cluster: Arc::clone(&cluster),
            clients,
        };
        let reloading = files.reload(metrics.reloads.clone(), timings.reload);
        let registered = match client {
            Some(client) => look_after(client, &options, Arc::clone(&certificate), &metrics),
            None => Box::pin(future::ready(())),
        };
        let watching = async move { cluster.watch().await };
        let background = Box::pin(async {
            future::join4(watching, publish, reloading, registered).await;
        });
        Ok(Self {
            webhook,
            admin,
            address,
            admin_address,
            certificate,
            stopping,
            background,
            timings,
        })
    }

    /// Where reviews are answered.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where probes and metrics are answered.
    pub fn admin_address(&self) -> SocketAddr {
        self.admin_address
    }

    /// The certificate that clients are shown, in DER; nothing where there is none yet.
    pub fn certificate(&self) -> Option<CertificateDer<'static>> {
        self.certificate.current()?.cert.first().cloned()
    }

    /// Serves until `phase` says to stop: readiness goes first, new connections are taken for a while longer and clients sent
    /// elsewhere, requests that are under way finish, and what is left after that is cut off.
    pub async fn run(self, phase: watch::Receiver<Phase>) {
        info!(address = %self.address, admin_address = %self.admin_address, "listening");
        let aborted = || reached(phase.clone(), Phase::Aborting);
        let part = reached(phase.clone(), Phase::Draining);
        let stop = async {
            reached(phase.clone(), Phase::Draining).await;
            info!("stopping");
            self.stopping.store(true, Ordering::Relaxed);
            tokio::select! {
                () = sleep(self.timings.linger) => {}
                () = aborted() => {}
            }
        };
        let enough = async {
            tokio::select! {
                () = sleep(self.timings.drain) => {}
                () = aborted() => {}
            }
        };
        tokio::select! {
            () = self.webhook.serve(part, stop, enough) => {}
            () = self.admin.serve_always() => {}
            () = self.background => {}
        }
        info!("stopped");
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

/// The port for probes and metrics of another server than the webhook's, and where it listens. It serves for as long as
/// it is polled.
///
/// # Errors
/// Where the address cannot be listened on.
pub async fn serve_admin(
    address: SocketAddr,
    admin: Admin,
) -> Result<(SocketAddr, impl Future<Output = ()>), ServeError> {
    let (socket, address) = listen(address).await?;
    let limits = Limits::within(&Timings::default());
    let listener = Listener::new(socket, admin.router(), None, limits, Connections::default());
    Ok((address, listener.serve_always()))
}

/// What the webhook's port for probes and metrics tells.
fn admin(
    cluster: &Arc<Cluster>,
    certificate: &Certificate,
    metrics: &Arc<Metrics>,
    stopping: &Arc<AtomicBool>,
) -> Admin {
    let (cluster, metrics, stopping) = (Arc::clone(cluster), Arc::clone(metrics), Arc::clone(stopping));
    let standing = matches!(certificate, Certificate::Own(_)).then(|| Arc::clone(&metrics.certificate.standing));
    let ready = move || {
        if stopping.load(Ordering::Relaxed) {
            return Err("stopping".to_owned());
        }
        if !cluster.settled() {
            return Err("the cluster is not known yet".to_owned());
        }
        standing.as_ref().map_or(Ok(()), |standing| standing.ready())
    };
    Admin::new(ready, move || metrics.encode())
}

/// The socket for `address`, and the address that it has: a port of 0 stands for any that is free.
pub(crate) async fn listen(address: SocketAddr) -> Result<(TcpListener, SocketAddr), ServeError> {
    let bound = async {
        let socket = bind(address).await?;
        let address = socket.local_addr()?;
        Ok((socket, address))
    };
    bound.await.map_err(|source| ServeError::Listen { address, source })
}

/// The configuration, and how it is read again.
fn setup(options: &Options) -> Result<Reloaded<Setup>, LoadError> {
    let files = [&options.values, &options.overrides, &options.trust_anchors];
    let sources = files.map(|path| Source::optional(path.as_deref()));
    let mounted = options.trust_anchors.is_some();
    // Where there is no cluster, nothing has to be installed in it.
    let standalone = matches!(options.facts, FactSource::Manifests { .. });
    let namespace = options.linkerd_namespace.clone();
    Reloaded::load(sources, move |[values, overrides, anchors]| {
        let installation = answer::read(&[values, overrides], mounted.then_some(anchors), &namespace)?;
        answer::complete(match standalone {
            true => installation.with_placeholders(),
            false => installation,
        })
    })
}

fn certificate(options: &Options) -> Result<Certificate, ServeError> {
    Ok(match &options.certificate {
        CertificateSource::Folder(folder) => Certificate::load(folder)?,
        CertificateSource::Secret(_) => Certificate::own(),
        CertificateSource::Process => Certificate::make(&[service(options).host()])?,
    })
}

/// The Service that API servers call.
fn service(options: &Options) -> Service {
    Service {
        namespace: options.linkerd_namespace.clone(),
        name: options.service.clone(),
    }
}

/// Looks after the certificate where it is ours, and else whether API servers take it.
fn look_after(
    client: Client,
    options: &Options,
    certificate: Arc<Certificate>,
    metrics: &Arc<Metrics>,
) -> BoxFuture<'static, ()> {
    let registration = Object::registration(client.clone(), &options.registration);
    let service = service(options);
    match &options.certificate {
        CertificateSource::Secret(name) => {
            let upkeep = Upkeep {
                secret: Object::secret(client, &service.namespace, name),
                registration,
                service,
                settle: options.timings.settle,
                certificate,
                metrics: Arc::clone(metrics),
            };
            Box::pin(upkeep.run())
        }
        CertificateSource::Folder(_) => {
            let standing = Arc::clone(&metrics.certificate.standing);
            Box::pin(look(registration, service, certificate, standing))
        }
        CertificateSource::Process => Box::pin(future::ready(())),
    }
}

/// The cluster, and the client of its API server where it has one.
async fn cluster(facts: &FactSource, control_plane: &str) -> Result<(Cluster, Option<Client>), ServeError> {
    let kubeconfig = match facts {
        FactSource::Manifests { objects, server } => return Ok((Cluster::of_manifests(objects, *server)?, None)),
        FactSource::Server { kubeconfig } => kubeconfig.clone(),
    };
    let access = Access {
        kubeconfig,
        ..Access::default()
    };
    let client = connect(&access).await?;
    let cluster = Cluster::connected(client.clone()).with_findings_in(control_plane);
    Ok((cluster, Some(client)))
}

/// What is read again when it changes, and who depends on it.
struct Watched {
    certificate: Arc<Certificate>,
    setup: Arc<Reloaded<Setup>>,
    cluster: Arc<Cluster>,
    clients: Option<Arc<Clients>>,
}

impl Watched {
    /// Compares the files again and again.
    async fn reload(self, metrics: Reloads, pause: Duration) {
        note_validity(&self.certificate, &metrics);
        note_anchors(&self.setup.current(), &metrics);
        // They were read at the start.
        let mut ticks = interval_at(Instant::now() + pause, pause);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            if let Certificate::Files(files) = &*self.certificate
                && note(&files.check(), "certificate", &metrics)
            {
                note_validity(&self.certificate, &metrics);
            }
            if note(&self.setup.check(), "configuration", &metrics) {
                note_anchors(&self.setup.current(), &metrics);
                self.cluster.set_pod_security(&self.setup.current().pod_security);
            }
            if let Some(clients) = &self.clients {
                note(&clients.check(), "client-ca", &metrics);
            }
        }
    }
}

/// Tells log and metrics what a comparison found, and the caller whether there is something new.
pub(crate) fn note(change: &Change, files: &'static str, metrics: &Reloads) -> bool {
    match change {
        Change::None => return false,
        Change::Swapped => info!(files, "files have changed and are in use"),
        Change::Kept(error) => warn!(files, %error, "files have changed and cannot be used, the old ones stay"),
    }
    let usable = matches!(change, Change::Swapped);
    metrics.count(files, usable);
    usable
}

/// Notes for how long the certificate in use is good.
fn note_validity(certificate: &Certificate, metrics: &Reloads) {
    let current = certificate.current();
    let Some(validity) = current.and_then(|current| validity(current.cert.first()?)) else {
        return;
    };
    metrics.certificate(validity);
    let now = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    let end = validity.not_after;
    if end < i64::try_from(now.as_secs()).unwrap_or(i64::MAX) {
        warn!(end, "the certificate has ended: API servers will not call this webhook");
    }
}

/// Notes when the first of the trust anchors ends.
fn note_anchors(setup: &Setup, metrics: &Reloads) {
    let anchors = CertificateDer::pem_slice_iter(setup.installation.trust_anchors.as_bytes());
    let first = anchors.filter_map(|anchor| not_after(&anchor.ok()?)).min();
    metrics.trust_anchors_end.set(first.unwrap_or(0));
}

#[cfg(test)]
mod tests;
