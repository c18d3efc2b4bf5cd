//! The agent of the node: installs the plugin, keeps it installed, tells it about pods, and tells the cluster that the node
//! is ready for them.
//!
//! [`install`] is all about files and knows no API server; the rest is a handful of loops that share one state. The agent
//! watches the pods of its own node and no others. It leaves the plugin in place when it stops, for pods that start
//! without one would be un-meshed, unless it is being uninstalled: [`Agent::leave`].

pub mod install;
pub mod taint;

mod credentials;
mod leave;
mod metrics;
mod pods;
mod probe;
mod repair;
mod socket;
mod upkeep;

pub use credentials::TokenSource;
pub use leave::Farewell;
pub use repair::EVENT_REASON;

use crate::cni::conflist::folder::Reading;
use install::{Installer, Layout};
use kube::{Client, Config};
use metrics::Metrics;
use pods::Pods;
use serde_json::Value;
use socket::SocketFile;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::net::UnixListener;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;

/// What the agent is started with.
#[derive(Clone, Debug)]
pub struct Options {
    /// Name of this node.
    pub node: String,
    /// Where things are.
    pub layout: Layout,
    /// Our entry of a network configuration.
    pub entry: Value,
    /// Where the plugin's questions are answered.
    pub socket: PathBuf,
    /// Where the plugin's token comes from.
    pub token: TokenSource,
    /// Key of the start-up taint.
    pub taint: String,
    /// What happens to the plugin when the agent stops.
    pub farewell: Farewell,
    /// Where the runtime binds the network namespaces of pods; without it, pods that have no rules are not repaired.
    pub netns_dir: Option<PathBuf>,
}

/// Why the agent cannot start.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The client of the API server cannot be set up.
    #[error("cannot set up the client of the API server: {0}")]
    Client(#[from] kube::Error),
    /// The socket cannot be listened on.
    #[error("cannot listen on {}: {source}", path.display())]
    Socket {
        /// Its path.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
}

/// The agent.
pub struct Agent {
    shared: Arc<Shared>,
    options: Options,
    listener: Option<UnixListener>,
    socket: SocketFile,
    /// What goes on until the very end.
    beside: JoinSet<()>,
}

/// What the loops share.
struct Shared {
    node: String,
    config: Config,
    client: Client,
    installer: Arc<Mutex<Installer>>,
    pods: Arc<Pods>,
    metrics: Arc<Metrics>,
    ready: watch::Sender<Result<(), String>>,
    /// How the runtime of this node reads network configurations; `None` until the node is seen.
    reading: Mutex<Option<Reading>>,
    /// Something new is to be installed.
    wake: Notify,
    /// What was told of the agent's DaemonSet.
    fate: watch::Sender<leave::Fate>,
}

impl Agent {
    /// An agent that listens already; it works once [`Agent::work`] does.
    ///
    /// # Errors
    /// Where the way to the API server or the socket cannot be used.
    pub fn bind(config: Config, options: Options) -> Result<Self, AgentError> {
        let (listener, socket) = socket::bind(&options.socket).map_err(|source| AgentError::Socket {
            path: options.socket.clone(),
            source,
        })?;
        let installer = Installer::new(options.layout.clone(), options.entry.clone());
        let shared = Shared {
            node: options.node.clone(),
            client: Client::try_from(config.clone())?,
            config,
            installer: Arc::new(Mutex::new(installer)),
            pods: Arc::new(Pods::new()),
            metrics: Arc::new(Metrics::new()),
            ready: watch::Sender::new(Err("starting".to_owned())),
            reading: Mutex::new(None),
            wake: Notify::new(),
            fate: watch::Sender::default(),
        };
        Ok(Self {
            shared: Arc::new(shared),
            options,
            listener: Some(listener),
            socket,
            beside: JoinSet::new(),
        })
    }

    /// Tells whether a pod could be set up now, and the metrics, from now on.
    pub fn health(&self) -> Health {
        Health(Arc::clone(&self.shared))
    }

    /// Works for as long as it is polled.
    pub async fn work(&mut self) {
        let shared = &*self.shared;
        // It goes on while the agent leaves, and is not begun anew then.
        let (client, farewell) = (shared.client.clone(), self.options.farewell.clone());
        self.beside.spawn(leave::follow(client, farewell, shared.fate.clone()));
        let serve = async {
            if let Some(listener) = self.listener.take() {
                socket::serve(listener, Arc::clone(&shared.pods), Arc::clone(&shared.metrics)).await;
            }
        };
        tokio::join!(
            serve,
            shared.pods.follow(shared.client.clone(), &shared.node),
            credentials::keep(shared, &self.options.token),
            upkeep::keep_installed(shared),
            taint::keep_off(shared, &self.options.taint),
            async {
                if let Some(folder) = &self.options.netns_dir {
                    repair::keep_repaired(shared, folder).await;
                }
            },
        );
    }

    /// Says good-bye: takes the plugin away where it is being uninstalled, and leaves it otherwise.
    pub async fn leave(self) {
        leave::leave(&self.shared, &self.options, &self.socket).await;
    }
}

impl fmt::Debug for Agent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Agent")
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

/// How the agent is.
#[derive(Clone)]
pub struct Health(Arc<Shared>);

impl Health {
    /// Whether a pod could be set up now; the error says why not.
    ///
    /// # Errors
    /// In a sentence.
    pub fn ready(&self) -> Result<(), String> {
        self.0.ready.borrow().clone()
    }

    /// The metrics as text.
    ///
    /// # Errors
    /// Where they cannot be encoded.
    pub fn metrics(&self) -> Result<String, fmt::Error> {
        self.0.metrics.encode()
    }
}

impl fmt::Debug for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Health").field(&self.ready()).finish()
    }
}

impl Shared {
    fn client(&self) -> &Client {
        &self.client
    }

    /// Does what takes a while with the installer, off the thread that answers.
    async fn with_installer<T: Send + 'static>(&self, work: impl FnOnce(&mut Installer) -> T + Send + 'static) -> T {
        let installer = Arc::clone(&self.installer);
        let done =
            tokio::task::spawn_blocking(move || work(&mut installer.lock().unwrap_or_else(PoisonError::into_inner)));
        match done.await {
            Ok(done) => done,
            Err(panic) => std::panic::resume_unwind(panic.into_panic()),
        }
    }

    async fn install_credentials(&self, text: String) {
        self.with_installer(|installer| installer.set_credentials(text)).await;
        self.wake.notify_one();
    }

    fn reading(&self) -> Option<Reading> {
        *self.reading.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set_reading(&self, reading: Reading) {
        let before = self
            .reading
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .replace(reading);
        if before != Some(reading) {
            self.wake.notify_one();
        }
    }

    fn readiness(&self) -> watch::Receiver<Result<(), String>> {
        self.ready.subscribe()
    }

    fn set_ready(&self, state: Result<(), String>) {
        self.metrics.ready.set(i64::from(state.is_ok()));
        let changed = self.ready.send_if_modified(|ready| {
            let changed = *ready != state;
            ready.clone_from(&state);
            changed
        });
        match state {
            Ok(()) if changed => tracing::info!("ready"),
            Err(why) if changed => tracing::warn!(why, "not ready"),
            Ok(()) | Err(_) => {}
        }
    }
}
