//! Finding out by dry runs what no API tells: cluster defaults and exemptions of Pod Security, and policies that only the
//! API server or others can judge.
//!
//! A process of its own, with an account of its own, asks for pods that are never created, in each namespace whose pods
//! are injected: soon after the namespace's labels, a policy or a webhook's configuration have changed, and every so often
//! besides. What it finds out it writes into a ConfigMap that the webhook watches, so that no request waits for a probe.
//! Whatever goes wrong is tried again later; nothing ends the process.

mod ask;
mod metrics;
mod namespaces;
mod publish;
mod schedule;
mod triggers;

#[cfg(test)]
mod tests;

use super::facts::Namespace;
use crate::decide::Setup;
use crate::policy::Release;
use crate::policy::probe::{Cause, Finding};
use ask::{Asker, Pace};
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use kube::Client;
use metrics::Metrics;
use schedule::{Schedule, Timing};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tracing::{info, warn};

/// Namespaces that are asked about at the same time: one whose dry runs hang must not hold up all others.
const AT_ONCE: usize = 4;

/// How often the server is asked for its release, which changes with an upgrade; and how soon again when it did not tell.
const RELEASE: Duration = Duration::from_secs(5 * 60);
const RELEASE_AGAIN: Duration = Duration::from_secs(10);

/// How long it may take to tell.
const TELL: Duration = Duration::from_secs(5);

/// How soon what was found out is written where it is new, and where it is only confirmed: all of it is written each time, up
/// to 900 KiB, and a finding counts for an hour.
const SOON: Duration = Duration::from_secs(1);
const LATER: Duration = Duration::from_secs(5 * 60);

/// What a probe is started with.
#[derive(Clone, Debug)]
pub struct Options {
    /// The namespace of the control plane, where findings are written.
    pub control_plane: String,
    /// Namespaces that are asked about although they do not say that their pods are injected.
    pub namespaces: BTreeSet<String>,
    /// Whether others are asked about: the account may create pods in listed namespaces alone.
    pub listed_only: bool,
    /// Time between two dry runs.
    pub pause: Duration,
    /// How old a finding gets before it is found out anew.
    pub period: Duration,
}

/// A probe.
pub struct Probe {
    shared: Arc<Shared>,
    setup: watch::Receiver<Arc<Setup>>,
}

/// Whether a probe does its work, and its metrics.
#[derive(Clone)]
pub struct Health(Arc<Shared>);

/// What the loops share.
struct Shared {
    client: Client,
    options: Options,
    state: Mutex<State>,
    metrics: Metrics,
    /// Something is due earlier than it was.
    wake: Notify,
    /// Something is to be written.
    write: Notify,
}

/// What is known.
struct State {
    schedule: Schedule,
    findings: BTreeMap<String, Finding>,
    release: Option<Release>,
    /// Whether the namespaces were listed once.
    listed: bool,
    /// Whether they are being watched, or why not.
    watched: Result<(), String>,
    /// Whether what was found out is written, or why not.
    written: Result<(), String>,
    /// When findings are to be written at the latest.
    write_by: Option<Instant>,
}

impl Probe {
    /// A probe of the cluster behind `client`, which asks for pods as `setup` makes them; it works once [`Probe::work`]
    /// does.
    pub fn new(client: Client, options: Options, setup: watch::Receiver<Arc<Setup>>) -> Self {
        let not_yet = || Err("starting".to_owned());
        let timing = Timing {
            period: options.period,
            ..Timing::DEFAULT
        };
        let state = State {
            schedule: Schedule::new(timing),
            findings: BTreeMap::new(),
            release: None,
            listed: false,
            watched: not_yet(),
            written: not_yet(),
            write_by: None,
        };
        let shared = Shared {
            client,
            options,
            state: Mutex::new(state),
            metrics: Metrics::new(),
            wake: Notify::new(),
            write: Notify::new(),
        };
        Self {
            shared: Arc::new(shared),
            setup,
        }
    }

    /// Tells whether the probe does its work, and its metrics, from now on.
    pub fn health(&self) -> Health {
        Health(Arc::clone(&self.shared))
    }

    /// Works for as long as it is polled.
    pub async fn work(&mut self) {
        let shared = &*self.shared;
        tokio::join!(
            namespaces::follow(shared),
            triggers::follow(shared),
            releases(shared),
            setups(shared, self.setup.clone()),
            publish::run(shared),
            find_out(shared, &self.setup),
        );
    }
}

impl Health {
    /// Whether namespaces are known and findings are written; the error says why not.
    pub fn ready(&self) -> Result<(), String> {
        let state = self.0.state();
        state.watched.clone().and_then(|()| state.written.clone())
    }

    /// The metrics as text.
    pub fn metrics(&self) -> Result<String, fmt::Error> {
        {
            let state = self.0.state();
            self.0.metrics.note(state.schedule.len(), &state.findings);
        }
        self.0.metrics.encode()
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has everything found out anew.
    fn doubt_everything(&self, why: &'static str) {
        info!(why, "finding out anew");
        self.state().schedule.doubt_all(Instant::now());
        self.wake.notify_one();
    }

    /// Notes what was found out in `namespace`.
    fn record(&self, namespace: &str, finding: Finding) {
        let now = Instant::now();
        let mut state = self.state();
        let passes = finding
            .answers()
            .iter()
            .any(|answer| answer.cause().is_some_and(Cause::passes));
        if !state.schedule.has(namespace) {
            return;
        }
        let before = state.findings.get(namespace);
        let finding = match before {
            Some(before) => finding.or_known(before),
            None => finding,
        };
        let is_news = !before.is_some_and(|before| before.says_the_same(&finding));
        // Whoever starts anew may refuse for a moment. What fails has its own back-off.
        if is_news && !passes {
            state.schedule.confirm(namespace);
        }
        state.schedule.done(namespace, passes, now);
        if is_news {
            let [plain, init_container, cni] = finding.answers();
            info!(namespace, %plain, %init_container, %cni, "found out");
        }
        state.findings.insert(namespace.to_owned(), finding);
        state.write_within(if is_news { SOON } else { LATER }, now);
        drop(state);
        self.write.notify_one();
    }
}

impl State {
    fn write_within(&mut self, time: Duration, now: Instant) {
        let by = now + time;
        self.write_by = Some(self.write_by.map_or(by, |earlier| earlier.min(by)));
    }
}

/// Asks about one namespace after another, a few at a time.
async fn find_out(shared: &Shared, setup: &watch::Receiver<Arc<Setup>>) {
    let pace = Pace::new(shared.options.pause);
    let asker = Asker {
        client: &shared.client,
        pace: &pace,
        metrics: &shared.metrics,
    };
    let mut asked = FuturesUnordered::new();
    loop {
        let mut next = None;
        while asked.len() < AT_ONCE {
            let due = {
                let mut state = shared.state();
                state
                    .release
                    .map(|release| (release, state.schedule.take(Instant::now())))
            };
            match due {
                Some((release, Ok(namespace))) => {
                    let setup = Arc::clone(&setup.borrow());
                    let known = shared.state().findings.get(&namespace.name).cloned();
                    let asker = &asker;
                    asked.push(Box::pin(async move {
                        let finding = asker.find_out(&setup, &namespace, release, known.as_ref()).await;
                        (namespace, finding)
                    }));
                }
                Some((_, Err(due))) => {
                    next = due;
                    break;
                }
                None => break,
            }
        }
        let later = async {
            match next {
                Some(due) => sleep_until(due).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            Some((namespace, finding)) = asked.next() => shared.record(&namespace.name, finding),
            () = shared.wake.notified() => {}
            () = later => {}
        }
    }
}

/// Asks the server for its release again and again: what injected pods look like depends on it.
async fn releases(shared: &Shared) {
    let mut failing = false;
    loop {
        let told = match timeout(TELL, shared.client.apiserver_version()).await {
            Ok(Ok(info)) => super::server_of(&info).ok_or_else(|| "it is no number".to_owned()),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err("the API server does not answer".to_owned()),
        };
        match &told {
            Err(error) if !failing => warn!(error, "the API server does not tell its release, trying again"),
            Ok(_) | Err(_) => {}
        }
        failing = told.is_err();
        if let Ok(server) = told {
            let before = shared.state().release.replace(server.release);
            match before {
                None => shared.wake.notify_one(),
                Some(before) if before != server.release => {
                    shared.doubt_everything("the API server has another release");
                }
                Some(_) => {}
            }
        }
        sleep(if failing { RELEASE_AGAIN } else { RELEASE }).await;
    }
}

/// Has everything found out anew when the installation's configuration changes.
async fn setups(shared: &Shared, mut setup: watch::Receiver<Arc<Setup>>) {
    while setup.changed().await.is_ok() {
        shared.doubt_everything("the configuration has changed");
    }
    std::future::pending::<()>().await;
}

/// Whether pods of `namespace` are of interest.
fn is_wanted(options: &Options, namespace: &Namespace) -> bool {
    options.namespaces.contains(&namespace.name)
        || (!options.listed_only && crate::decide::rehearsal::is_meshed(&namespace.view()))
}

impl fmt::Debug for Probe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Probe")
            .field("options", &self.shared.options)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Health").finish_non_exhaustive()
    }
}
