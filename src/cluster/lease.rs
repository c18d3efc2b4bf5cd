//! One of several replicas does the work: the one that holds a `Lease` (`coordination.k8s.io/v1`).
//!
//! Times and rules are those of client-go's leader election. No two clocks are compared: whoever waits counts, by its own
//! clock, for how long the Lease has not changed. Every write names the version that it is made of, so that of two writers one
//! loses.

use k8s_openapi::api::coordination::v1;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::api::PostParams;
use kube::{Api, Client};
use std::pin::pin;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tracing::{debug, info, warn};

/// How long a Lease counts that nobody renews; the holder itself stops before.
const DURATION: Duration = Duration::from_secs(15);
const DEADLINE: Duration = Duration::from_secs(10);

/// How often it is looked at, and renewed.
const RETRY: Duration = Duration::from_secs(2);

/// How long one call may take: a holder has time for another try before its deadline.
const TIMEOUT: Duration = Duration::from_secs(4);

/// What the API server answers where an object is not the one any more that a write was made of (RFC 9110, 15.5.10).
const CONFLICT: u16 = 409;

/// A Lease, and who wants it.
pub(super) struct Lease {
    api: Api<v1::Lease>,
    name: String,
    identity: String,
}

/// What a waiting replica is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// Somebody else holds it.
    Waiting,
    /// It is ours.
    Leading,
    /// It cannot be read or written, and why.
    Failing(String),
}

/// What was seen of it, and since when nothing else has been.
#[derive(Default)]
struct Seen {
    version: Option<String>,
    since: Option<Instant>,
}

impl Lease {
    /// The Lease `name` in `namespace`, for `identity`, which no other replica has.
    pub(super) fn new(client: Client, namespace: &str, name: &str, identity: &str) -> Self {
        Self {
            api: Api::namespaced(client, namespace),
            name: name.to_owned(),
            identity: identity.to_owned(),
        }
    }

    /// Does `work` for as long as the Lease is held, again and again; whoever asks is `told` how it stands.
    pub(super) async fn hold(&self, work: impl AsyncFn(), told: impl Fn(Standing)) {
        loop {
            let held = self.acquire(&told).await;
            info!(lease = self.name, identity = self.identity, "leading");
            told(Standing::Leading);
            {
                let (keep, work) = (pin!(self.keep(held)), pin!(work()));
                tokio::select! {
                    () = keep => {}
                    () = work => {}
                }
            }
            warn!(lease = self.name, "no longer leading");
            told(Standing::Waiting);
        }
    }

    /// Gives it up where it is held, so that nobody has to wait until it has run out.
    pub(super) async fn release(&self) {
        let Ok(lease) = self.read().await else { return };
        if holder(&lease) != Some(&self.identity) {
            return;
        }
        let mut lease = lease;
        let spec = lease.spec.get_or_insert_default();
        spec.holder_identity = None;
        if let Err(error) = self.write(&lease).await {
            debug!(error = describe(&error), "the Lease is not given up");
        }
    }

    /// Waits until it is ours.
    async fn acquire(&self, told: &impl Fn(Standing)) -> (v1::Lease, Instant) {
        let mut seen = Seen::default();
        let mut failing = false;
        loop {
            let begun = Instant::now();
            let tried = match self.read().await {
                Ok(lease) if self.is_free(&lease, &mut seen) => self.write(&self.taken(lease)).await.map(Some),
                Ok(_) => Ok(None),
                Err(error) => Err(error),
            };
            match tried {
                Ok(Some(held)) => return (held, begun),
                Ok(None) => {
                    failing = false;
                    told(Standing::Waiting);
                }
                // Somebody else was faster.
                Err(Error::Call(kube::Error::Api(status))) if status.code == CONFLICT => {}
                Err(error) => {
                    let why = format!("Lease {}: {}", self.name, describe(&error));
                    if !std::mem::replace(&mut failing, true) {
                        warn!(error = why, "the Lease cannot be had, trying again");
                    }
                    told(Standing::Failing(why));
                }
            }
            sleep(RETRY).await;
        }
    }

    /// Renews what is held, until it is lost or could not be renewed for too long, whatever is being waited for then.
    async fn keep(&self, (mut held, mut renewed): (v1::Lease, Instant)) {
        while let Ok(Some(lease)) = timeout_at(renewed + DEADLINE, self.renew(held)).await {
            (held, renewed) = lease;
        }
    }

    /// Tries to renew what is held until it is, and since when it counts; nothing where it is lost.
    async fn renew(&self, mut held: v1::Lease) -> Option<(v1::Lease, Instant)> {
        loop {
            sleep(RETRY).await;
            let begun = Instant::now();
            if let Some(spec) = &mut held.spec {
                spec.renew_time = Some(MicroTime(Timestamp::now()));
            }
            match self.write(&held).await {
                Ok(lease) => return Some((lease, begun)),
                Err(error) => {
                    debug!(error = describe(&error), "the Lease is not renewed");
                    // It may have been written by ourselves, and the answer lost.
                    match self.read().await {
                        Ok(lease) if holder(&lease) == Some(&self.identity) => held = lease,
                        Ok(_) => return None,
                        Err(_) => {}
                    }
                }
            }
        }
    }

    /// Whether nobody holds `lease`, or has not shown up for as long as it counts.
    fn is_free(&self, lease: &v1::Lease, seen: &mut Seen) -> bool {
        let version = &lease.metadata.resource_version;
        let now = Instant::now();
        if seen.version != *version {
            (seen.version, seen.since) = (version.clone(), Some(now));
        }
        let since = *seen.since.get_or_insert(now);
        let seconds = lease.spec.as_ref().and_then(|spec| spec.lease_duration_seconds);
        let seconds = seconds.and_then(|seconds| u64::try_from(seconds).ok());
        let lasts = seconds.map_or(DURATION, Duration::from_secs);
        let holder = holder(lease);
        holder.is_none_or(|holder| *holder == self.identity) || now.duration_since(since) >= lasts
    }

    /// `lease`, taken by us.
    fn taken(&self, mut lease: v1::Lease) -> v1::Lease {
        let is_ours = holder(&lease) == Some(&self.identity);
        let now = Some(MicroTime(Timestamp::now()));
        let spec = lease.spec.get_or_insert_default();
        if !is_ours {
            spec.lease_transitions = Some(spec.lease_transitions.unwrap_or_default().saturating_add(1));
            spec.acquire_time.clone_from(&now);
        }
        spec.holder_identity = Some(self.identity.clone());
        spec.lease_duration_seconds = i32::try_from(DURATION.as_secs()).ok();
        spec.renew_time = now;
        lease
    }

    async fn read(&self) -> Result<v1::Lease, Error> {
        let read = timeout(TIMEOUT, self.api.get(&self.name)).await;
        read.map_err(|_elapsed| Error::NoAnswer)?.map_err(Error::Call)
    }

    async fn write(&self, lease: &v1::Lease) -> Result<v1::Lease, Error> {
        let parameters = PostParams::default();
        let written = timeout(TIMEOUT, self.api.replace(&self.name, &parameters, lease)).await;
        written.map_err(|_elapsed| Error::NoAnswer)?.map_err(Error::Call)
    }
}

fn holder(lease: &v1::Lease) -> Option<&String> {
    let holder = lease.spec.as_ref()?.holder_identity.as_ref();
    holder.filter(|holder| !holder.is_empty())
}

/// Why a Lease was not read or written.
enum Error {
    Call(kube::Error),
    NoAnswer,
}

fn describe(error: &Error) -> String {
    match error {
        Error::Call(kube::Error::Api(status)) => status.message.clone(),
        Error::Call(error) => error.to_string(),
        Error::NoAnswer => "no answer in time".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::Router;
    use axum::extract::Request;

    /// An API server that is as slow to answer as it may be, and then knows nothing.
    #[tokio::test(start_paused = true)]
    async fn a_holder_ends_before_another_may_begin() {
        for pause in [0, 1, 3, 60].map(Duration::from_secs) {
            let slow = Router::new().fallback(async move |_: Request| {
                sleep(pause).await;
                axum::http::StatusCode::SERVICE_UNAVAILABLE
            });
            let lease = Lease::new(Client::new(slow, "default"), "linkerd", "lease", "one");
            let begun = Instant::now();
            lease.keep((v1::Lease::default(), begun)).await;
            assert_eq!(begun.elapsed(), DEADLINE, "{pause:?}");
        }
    }
}
