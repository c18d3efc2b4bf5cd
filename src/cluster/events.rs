//! Events on the owners of pods: what was done to their pods, where `kubectl describe` shows it.
//!
//! Publishing never makes a request wait and never fails it: events go through a bounded queue, and what does not fit is
//! counted and dropped. Equal events of an owner are one event with a count, as with Linkerd's, which is counted up every few
//! seconds however often a controller tries again.

use super::lookup::is_name;
use super::owner::Owner;
use k8s_openapi::api::core::v1;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use kube::api::{ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::json;
use std::collections::HashMap;
use std::future;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};
use tracing::{debug, warn};

/// The component that Linkerd's events name; people filter by it.
const COMPONENT: &str = "linkerd-proxy-injector";

/// Events that wait to be published: a burst of a few hundred pods, in less than 200 KiB.
const QUEUE: usize = 256;

/// Events that can still be counted up instead of published anew: as many as Linkerd's injector remembers (the default of
/// client-go), in 400 KiB.
const REMEMBERED: usize = 4096;

/// How long an event that was published is left alone: what happens meanwhile is counted up at once.
const PAUSE: Duration = Duration::from_secs(5);

/// How long one call may take.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Bytes of an owner's name that an event's name begins with: 253 may be a name (RFC 1123 subdomain), and a dot and the time in
/// nanoseconds, sixteen digits in base 16, follow.
const STEM_LIMIT: usize = 253 - 1 - 16;

/// Longest message that every API for events takes, in characters.
const MESSAGE_LIMIT: usize = 1024;

/// Why an event is published.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// A pod was injected.
    Injected,
    /// A pod was left alone.
    InjectionSkipped,
}

coded! { Reason, self: Self => &'static str {
    Self::Injected => "Injected",
    Self::InjectionSkipped => "InjectionSkipped",
} }

/// Something to tell the owner of a pod.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Event {
    /// The owner.
    pub owner: Owner,
    /// The namespace of pod and owner.
    pub namespace: String,
    /// Why.
    pub reason: Reason,
    /// What people read.
    pub message: String,
}

/// Where events are handed in.
#[derive(Clone, Debug)]
pub struct Events {
    queue: mpsc::Sender<Event>,
    counts: Arc<Counts>,
}

/// What became of events.
#[derive(Debug, Default)]
pub struct Counts {
    /// Published, or counted up.
    pub sent: AtomicU64,
    /// Refused by the API server, or not taken in time.
    pub failed: AtomicU64,
    /// Dropped, because too many were waiting.
    pub dropped: AtomicU64,
}

impl Events {
    /// Where to hand events in, and what publishes them through `client` for as long as it is polled. Without a client
    /// they are passed over.
    pub fn through(client: Option<Client>) -> (Self, impl Future<Output = ()>) {
        let (queue, waiting) = mpsc::channel(QUEUE);
        let counts = Arc::new(Counts::default());
        let publisher = client.map(|client| Publisher {
            client,
            posted: HashMap::new(),
            secret: RandomState::new(),
            counts: Arc::clone(&counts),
            failing: false,
        });
        let run = async move {
            match publisher {
                Some(publisher) => publisher.run(waiting).await,
                None => future::pending().await,
            }
        };
        (Self { queue, counts }, run)
    }

    /// Hands in an event. One for an owner that cannot exist is passed over; a long message is cut.
    pub fn publish(&self, mut event: Event) {
        if !event.owner.can_exist() || !is_name(&event.namespace) {
            return;
        }
        if let Some((end, _)) = event.message.char_indices().nth(MESSAGE_LIMIT) {
            event.message.truncate(end);
        }
        event.message.shrink_to_fit();
        match self.queue.try_send(event) {
            Ok(()) | Err(mpsc::error::TrySendError::Closed(_)) => {}
            Err(mpsc::error::TrySendError::Full(_)) => count(&self.counts.dropped, 1),
        }
    }

    /// What became of events so far.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }
}

struct Publisher {
    client: Client,
    posted: HashMap<Key, Posted>,
    secret: RandomState,
    counts: Arc<Counts>,
    failing: bool,
}

/// What is remembered of an event, which is as long as people make it: a hash. Its secret is this process's own, so that
/// nobody can make two events collide, and among so few none does by chance.
type Key = u64;

/// An event that was published.
#[derive(Clone, Copy, Debug)]
struct Posted {
    /// When it was, in nanoseconds since 1970: the end of its name.
    first: i128,
    count: i32,
    written: Instant,
}

impl Publisher {
    async fn run(mut self, mut waiting: mpsc::Receiver<Event>) {
        let mut batch = Vec::new();
        // How often events have happened that are yet to be told: at most as many as were published a moment ago.
        let mut untold: HashMap<Event, i32> = HashMap::new();
        loop {
            let pause = async {
                match untold.is_empty() {
                    true => future::pending().await,
                    false => sleep(PAUSE).await,
                }
            };
            let received = tokio::select! {
                received = waiting.recv_many(&mut batch, QUEUE) => Some(received),
                () = pause => None,
            };
            if received == Some(0) {
                return;
            }
            for event in batch.drain(..) {
                *untold.entry(event).or_default() += 1;
            }
            let due = untold.extract_if(|event, _| self.is_due(event)).collect::<Vec<_>>();
            for (event, times) in due {
                let error = match timeout(TIMEOUT, self.publish(&event, times)).await {
                    Ok(done) => done.err().map(|error| error.to_string()),
                    Err(_) => Some("no answer in time".to_owned()),
                };
                self.note(times, error.as_deref());
            }
        }
    }

    /// Whether an event is new, or was not told of for a while.
    fn is_due(&self, event: &Event) -> bool {
        let posted = self.posted.get(&self.secret.hash_one(event));
        posted.is_none_or(|posted| posted.written.elapsed() >= PAUSE)
    }

    /// Publishes an event that happened `times` times.
    async fn publish(&mut self, event: &Event, times: i32) -> Result<(), kube::Error> {
        let api = Api::<v1::Event>::namespaced(self.client.clone(), &event.namespace);
        let (key, now) = (self.secret.hash_one(event), Timestamp::now());
        if let Some(posted) = self.posted.get_mut(&key) {
            posted.count = posted.count.saturating_add(times);
            posted.written = Instant::now();
            let patch = Patch::Merge(json!({"count": posted.count, "lastTimestamp": Time(now)}));
            let name = name(&event.owner, posted.first);
            match api.patch_metadata(&name, &PatchParams::default(), &patch).await {
                Ok(_) => return Ok(()),
                // The API server keeps events for an hour.
                Err(kube::Error::Api(status)) if status.is_not_found() => drop(self.posted.remove(&key)),
                Err(error) => return Err(error),
            }
        }
        let first = now.as_nanosecond();
        let object = object(event, &name(&event.owner, first), now, times);
        api.create(&PostParams::default(), &object).await?;
        if self.posted.len() >= REMEMBERED {
            self.posted.clear();
        }
        let (count, written) = (times, Instant::now());
        self.posted.insert(key, Posted { first, count, written });
        Ok(())
    }

    fn note(&mut self, times: i32, error: Option<&str>) {
        let times = u64::try_from(times).unwrap_or_default();
        match error {
            None => count(&self.counts.sent, times),
            Some(error) => {
                count(&self.counts.failed, times);
                if self.failing {
                    debug!(error, "event not published");
                } else {
                    warn!(error, "events cannot be published");
                }
            }
        }
        self.failing = error.is_some();
    }
}

fn count(counter: &AtomicU64, times: u64) {
    counter.fetch_add(times, Ordering::Relaxed);
}

/// The name of an event on `owner` that was published first at `first`.
fn name(owner: &Owner, first: i128) -> String {
    let stem = owner.name.get(..STEM_LIMIT).unwrap_or(&owner.name);
    format!("{}.{first:x}", stem.trim_end_matches(['-', '.']))
}

fn object(event: &Event, name: &str, now: Timestamp, times: i32) -> v1::Event {
    v1::Event {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some(event.namespace.clone()),
            ..ObjectMeta::default()
        },
        involved_object: v1::ObjectReference {
            api_version: Some(event.owner.api_version.clone()),
            kind: Some(event.owner.kind.clone()),
            name: Some(event.owner.name.clone()),
            namespace: Some(event.namespace.clone()),
            uid: Some(event.owner.uid.clone()),
            ..v1::ObjectReference::default()
        },
        reason: Some(event.reason.code().to_owned()),
        message: Some(event.message.clone()),
        type_: Some("Normal".to_owned()),
        source: Some(v1::EventSource {
            component: Some(COMPONENT.to_owned()),
            host: None,
        }),
        count: Some(times),
        first_timestamp: Some(Time(now)),
        last_timestamp: Some(Time(now)),
        ..v1::Event::default()
    }
}
