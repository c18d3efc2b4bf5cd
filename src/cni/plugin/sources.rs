//! Whom to ask about a pod: the agent first, then the API server, again and again until the deadline.

use super::journal::Journal;
use super::program::{self, Refusal};
use super::{deadline, socket};
use crate::cni::call::{Call, PodName};
use crate::cni::config::NetworkConfig;
use crate::cni::facts::{Reply, Request, is_meant};
use crate::cni::failure::Failure;
use serde_json::Value;
use std::hash::{BuildHasher as _, RandomState};
use std::thread;
use std::time::{Duration, Instant};

/// From the start of the process until there must be an answer. The kubelet is told within 10 s, and what is left is
/// for the rules, which take milliseconds.
const DEADLINE: Duration = Duration::from_millis(8500);

/// How much longer an answer is waited for.
const GRACE: Duration = Duration::from_millis(700);

/// A round that has less time than this can only fail, with a poorer reason than the one before.
const ROUND: Duration = Duration::from_millis(500);

/// The first pause between two rounds; it doubles up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// Whom the configuration names.
#[derive(Clone, Debug)]
struct Sources {
    socket: String,
    kubeconfig: Option<String>,
}

impl Sources {
    fn of(config: &NetworkConfig<'_>) -> Self {
        Self {
            socket: config.socket().to_owned(),
            kubeconfig: config.kubeconfig().map(str::to_owned),
        }
    }
}

/// The pod that the runtime means by `name`.
pub(super) fn pod(
    call: &Call,
    name: &PodName,
    config: &NetworkConfig<'_>,
    begun: Instant,
    journal: &Journal,
) -> Result<Value, Failure> {
    let sources = Sources::of(config);
    let (request, meant, journal) = (Request::about(name, &call.sandbox), name.clone(), journal.clone());
    let answer = within(begun, move |deadline| {
        let mut pause = FIRST_PAUSE;
        loop {
            let why = match sources.pod(&request, &meant, deadline) {
                Ok(pod) => return Ok(pod),
                Err(refusal) if !refusal.passing || Instant::now() + pause + ROUND >= deadline => {
                    return Err(refusal.why);
                }
                Err(refusal) => refusal.why,
            };
            journal.debug(&format!("asked in vain, and will again: {why}"));
            rest(pause);
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    });
    answer.map_err(|why| Failure::TryAgain { pod: name.path(), why })
}

/// Whether anybody could be asked now.
pub(super) fn status(config: &NetworkConfig<'_>, begun: Instant) -> Result<(), String> {
    let sources = Sources::of(config);
    within(begun, move |deadline| sources.status(deadline))
}

impl Sources {
    fn pod(&self, request: &Request, name: &PodName, deadline: Instant) -> Result<Value, Refusal> {
        let agent = match socket::ask(&self.socket, request) {
            Ok(Reply::Pod(pod)) if is_meant(&pod, name) => return Ok(pod),
            Ok(Reply::Pod(_)) => format!("agent at {}: knows another pod of that name", self.socket),
            Ok(Reply::Error(error)) => format!("agent at {}: {error}", self.socket),
            Ok(Reply::Ready(_)) => format!("agent at {}: its answer is to another question", self.socket),
            Err(error) => error,
        };
        let Some(kubeconfig) = &self.kubeconfig else {
            return Err(Refusal {
                why: format!("{agent}; kubernetes.kubeconfig of the network configuration names no credentials"),
                passing: true,
            });
        };
        let other = |why: &str| Refusal {
            why: format!("{agent}; API server: {why}"),
            passing: true,
        };
        match program::pod(kubeconfig, name, deadline) {
            Ok(Some(pod)) if is_meant(&pod, name) => Ok(pod),
            Ok(Some(_)) => Err(other("it has another pod of that name")),
            // The kubelet registers a static pod at about the time at which it starts it.
            Ok(None) => Err(other("it has no such pod")),
            Err(refusal) => Err(Refusal {
                why: format!("{agent}; {}", refusal.why),
                passing: refusal.passing,
            }),
        }
    }

    fn status(&self, deadline: Instant) -> Result<(), String> {
        let agent = match socket::ask(&self.socket, &Request::Status { status: true }) {
            Ok(Reply::Ready(true)) => return Ok(()),
            Ok(Reply::Error(error)) => format!("agent at {}: {error}", self.socket),
            Ok(Reply::Ready(false) | Reply::Pod(_)) => format!("agent at {}: it is not ready", self.socket),
            Err(error) => error,
        };
        let Some(kubeconfig) = &self.kubeconfig else {
            return Err(format!(
                "{agent}; kubernetes.kubeconfig of the network configuration names no credentials"
            ));
        };
        // Whether there is such a pod does not matter: that the server answers proves address and token.
        let any = PodName {
            namespace: "kube-system".to_owned(),
            name: "outrigger-cni-status".to_owned(),
            uid: None,
        };
        let asked = program::pod(kubeconfig, &any, deadline);
        asked.map(drop).map_err(|refusal| format!("{agent}; {}", refusal.why))
    }
}

/// Does `work` until [`DEADLINE`].
fn within<T: Send + 'static>(
    begun: Instant,
    work: impl FnOnce(Instant) -> Result<T, String> + Send + 'static,
) -> Result<T, String> {
    let end = begun + DEADLINE;
    // A little longer, for whoever is asked stops at the end, and says more.
    deadline::within(end + GRACE, move || work(end)).and_then(|done| done)
}

/// Rests for half of `pause` and up to all of it, so that the pods of a node do not ask in step.
fn rest(pause: Duration) {
    let half = pause / 2;
    let milliseconds = u64::try_from(half.as_millis()).unwrap_or(1).max(1);
    let jitter = Duration::from_millis(RandomState::new().hash_one(0) % milliseconds);
    #[expect(clippy::disallowed_methods, reason = "this thread has nothing else to do")]
    thread::sleep(half + jitter);
}
