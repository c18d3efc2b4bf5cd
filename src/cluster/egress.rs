//! Egress policies at work: what they compile to is applied, what they do not want any more is deleted, and what becomes of each
//! stands in its status.
//!
//! Watches tell what there is (`watches`); whenever it changes, all policies are compiled, and compared with it (`plan`);
//! what differs is written (`pass`). What was written is not written again unless it is wanted otherwise, or somebody changed
//! it; what was refused is tried again, ever more seldom (`attempts`). Objects of others are never touched. One replica of
//! several works, by a Lease. Whatever goes wrong is tried again later; nothing ends the process.

mod attempts;
mod known;
mod metrics;
mod pass;
mod plan;
mod watches;
mod write;

use super::lease::{Lease, Standing};
use crate::egress::compile::Surroundings;
use known::Known;
use kube::Client;
use metrics::Metrics;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// The Lease of the one that works, in the namespace of the control plane.
pub const LEASE: &str = "outrigger-egress-controller";

/// What a controller is started with.
#[derive(Clone, Debug)]
pub struct Options {
    /// The namespace of the control plane, where the Lease is.
    pub control_plane: String,
    /// What policies are compiled for, but for the `EgressNetworks` of others, which are watched.
    pub surroundings: Surroundings,
    /// What this replica is called in the Lease; no other has that name.
    pub identity: String,
}

/// A controller.
pub struct Controller {
    shared: Arc<Shared>,
    lease: Lease,
}

/// Whether a controller does its work, and its metrics.
#[derive(Clone)]
pub struct Health(Arc<Shared>);

/// What the loops share.
struct Shared {
    client: Client,
    options: Options,
    known: Known,
    state: Mutex<State>,
    metrics: Metrics,
    /// Told of everything that may have to be compiled anew.
    changed: Notify,
}

/// How it goes.
struct State {
    standing: Standing,
    /// Whether the API server takes what is written, or why not.
    written: Result<(), String>,
}

impl Controller {
    /// A controller of the cluster behind `client`; it works once [`Controller::work`] does.
    pub fn new(client: Client, options: Options) -> Self {
        let lease = Lease::new(client.clone(), &options.control_plane, LEASE, &options.identity);
        let state = State {
            standing: Standing::Failing("starting".to_owned()),
            written: Ok(()),
        };
        let shared = Shared {
            client,
            options,
            known: Known::default(),
            state: Mutex::new(state),
            metrics: Metrics::new(),
            changed: Notify::new(),
        };
        Self {
            shared: Arc::new(shared),
            lease,
        }
    }

    /// Tells whether the controller does its work, and its metrics, from now on.
    pub fn health(&self) -> Health {
        Health(Arc::clone(&self.shared))
    }

    /// Works for as long as it is polled.
    pub async fn work(&self) {
        let shared = &*self.shared;
        let work = async || {
            // What an earlier turn knew is out of date.
            shared.known.forget();
            tokio::join!(watches::follow(shared), pass::run(shared));
        };
        let told = |standing| {
            shared.metrics.leads(standing == Standing::Leading);
            shared.state().standing = standing;
        };
        self.lease.hold(work, told).await;
    }

    /// Lets another replica work, once this one does not any more.
    pub async fn leave(&self) {
        self.lease.release().await;
    }
}

impl Health {
    /// Whether this replica waits for its turn, or knows what there is and can write; the error says why not.
    pub fn ready(&self) -> Result<(), String> {
        let state = self.0.state();
        match &state.standing {
            Standing::Waiting => Ok(()),
            Standing::Failing(why) => Err(why.clone()),
            Standing::Leading => self.0.known.heard().and_then(|()| state.written.clone()),
        }
    }

    /// The metrics as text.
    pub fn metrics(&self) -> Result<String, fmt::Error> {
        self.0.metrics.encode()
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Controller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Controller")
            .field("options", &self.shared.options)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Health").finish_non_exhaustive()
    }
}
