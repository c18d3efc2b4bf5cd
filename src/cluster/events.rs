//! Events on the owners of pods: what was done to their pods, where `kubectl describe` shows it.
//!
//! Publishing never makes a request wait and never fails it: events go through a bounded queue, and what does not fit is
//! counted and dropped. Equal events of an owner are one event with a count, as with Linkerd's.

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
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tracing::{debug, warn};

/// The component that Linkerd's events name; people filter by it.
const COMPONENT: &str = "linkerd-proxy-injector";

/// Events that wait to be published: a burst of a few hundred pods, in less than 200 KiB.
const QUEUE: usize = 256;

/// Events that can still be counted up instead of published anew: 200 KiB usually, 3 MiB if all texts are as long as may be.
const REMEMBERED: usize = 512;

/// How long one call may take.
const TIMEOUT: Duration = Duration::from_secs(5);

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

impl Reason {
    /// The reason as the event has it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Injected => "Injected",
            Self::InjectionSkipped => "InjectionSkipped",
        }
    }
}

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
    /// Name and count of events that were published.
    posted: HashMap<Event, (String, i32)>,
    counts: Arc<Counts>,
    failing: bool,
}

impl Publisher {
    async fn run(mut self, mut waiting: mpsc::Receiver<Event>) {
        let mut batch = Vec::new();
        while waiting.recv_many(&mut batch, QUEUE).await > 0 {
            let mut times: HashMap<Event, i32> = HashMap::new();
            for event in batch.drain(..) {
                *times.entry(event).or_default() += 1;
            }
            for (event, times) in times {
                let error = match timeout(TIMEOUT, self.publish(event, times)).await {
                    Ok(done) => done.err().map(|error| error.to_string()),
                    Err(_) => Some("no answer in time".to_owned()),
                };
                self.note(times, error.as_deref());
            }
        }
    }

    /// Publishes an event that happened `times` times.
    async fn publish(&mut self, event: Event, times: i32) -> Result<(), kube::Error> {
        let api = Api::<v1::Event>::namespaced(self.client.clone(), &event.namespace);
        let now = Timestamp::now();
        if let Some((name, count)) = self.posted.get_mut(&event) {
            *count = count.saturating_add(times);
            let patch = Patch::Merge(json!({"count": *count, "lastTimestamp": Time(now)}));
            match api.patch_metadata(name, &PatchParams::default(), &patch).await {
                Ok(_) => return Ok(()),
                // The API server keeps events for an hour.
                Err(kube::Error::Api(status)) if status.is_not_found() => drop(self.posted.remove(&event)),
                Err(error) => return Err(error),
            }
        }
        let name = format!("{}.{:x}", event.owner.name, now.as_nanosecond());
        api.create(&PostParams::default(), &object(&event, &name, now, times))
            .await?;
        if self.posted.len() >= REMEMBERED {
            self.posted.clear();
        }
        self.posted.insert(event, (name, times));
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
        reason: Some(event.reason.name().to_owned()),
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
