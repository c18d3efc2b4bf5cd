//! Pods that are created for as long as something goes on, and what became of each.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use kube::Client;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::LIMIT;
use crate::cluster::{Reply, Verb, call, poll};
use crate::{mesh, pod};

/// How many pods are created at once.
const CREATORS: usize = 4;

/// How long a creator rests after each request, so that they are spread over all that goes on.
const PAUSE: Duration = Duration::from_millis(100);

const PODS: &str = "/api/v1/namespaces/shop/pods";

/// Creators of pods.
pub(super) struct Creations {
    told: Arc<Told>,
    creators: JoinSet<()>,
}

/// What is known of all pods together.
#[derive(Default)]
pub(super) struct Told {
    wanted: usize,
    enough: AtomicBool,
    next: AtomicUsize,
    /// Pods that were created with one proxy.
    pub(super) created: AtomicUsize,
    /// Requests that were made again, for there was no API server to answer them.
    pub(super) retried: AtomicUsize,
    /// What was answered instead.
    pub(super) failed: Mutex<Vec<String>>,
}

/// What became of a request.
enum Fate {
    /// The API server is away, or not ready for anything yet.
    Away,
    Created,
    Failed(String),
}

impl Creations {
    /// Starts to create pods in namespace `shop`.
    pub(super) fn start(client: &Client, wanted: usize) -> Self {
        let told = Arc::new(Told {
            wanted,
            ..Told::default()
        });
        let mut creators = JoinSet::new();
        for _ in 0..CREATORS {
            creators.spawn(Arc::clone(&told).create_all(client.clone()));
        }
        Self { told, creators }
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.told.created.load(Ordering::Relaxed)
    }

    /// Waits until there are `more`.
    pub(super) async fn more(&self, more: usize) {
        let enough = self.count() + more;
        let reached = async || (self.count() >= enough).then_some(());
        let reached = poll(LIMIT, reached).await;
        reached.unwrap_or_else(|| panic!("no more pods than {}: {:?}", self.count(), self.told.failed));
    }

    /// Creates what is wanted at least, and no more.
    pub(super) async fn finish(mut self) -> Arc<Told> {
        self.told.enough.store(true, Ordering::Relaxed);
        while let Some(ended) = self.creators.join_next().await {
            ended.unwrap();
        }
        self.told
    }
}

impl Told {
    async fn create_all(self: Arc<Self>, client: Client) {
        loop {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            if number >= self.wanted && self.enough.load(Ordering::Relaxed) {
                return;
            }
            match self.create(&client, &format!("web-{number}")).await {
                Ok(()) => {
                    self.created.fetch_add(1, Ordering::Relaxed);
                }
                Err(why) => self.failed.lock().unwrap().push(why),
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Creates a pod, again and again for as long as there is no API server.
    async fn create(&self, client: &Client, name: &str) -> Result<(), String> {
        let begun = Instant::now();
        while begun.elapsed() < LIMIT {
            match create(client, name).await {
                Fate::Away => self.retried.fetch_add(1, Ordering::Relaxed),
                Fate::Created => return Ok(()),
                Fate::Failed(why) => return Err(why),
            };
            tokio::time::sleep(PAUSE).await;
        }
        Err("the API server stays away".to_owned())
    }
}

async fn create(client: &Client, name: &str) -> Fate {
    let created = call(client, Verb::Create, PODS, Some(&pod(name, &json!({})))).await;
    match created {
        Err(_) => Fate::Away,
        // The answer to a request before was lost with the API server.
        Ok(reply) if reply.code == 409 => match call(client, Verb::Get, &format!("{PODS}/{name}"), None).await {
            Err(_) => Fate::Away,
            Ok(reply) => fate(&reply),
        },
        Ok(reply) => fate(&reply),
    }
}

/// Whatever is said of a webhook is our failure.
fn fate(reply: &Reply) -> Fate {
    let text = reply.body.to_string();
    let starting = reply.code == 403 && text.contains("not yet ready to handle request");
    match reply.code {
        200 | 201 if is_injected(&reply.body) => Fate::Created,
        429 | 500.. if !text.contains("webhook") => Fate::Away,
        _ if starting => Fate::Away,
        code => Fate::Failed(format!("{code} {text}")),
    }
}

fn is_injected(pod: &Value) -> bool {
    mesh::redirection(pod) == Some("cni")
}

/// How many pods there are, and how many of them have one proxy.
pub(super) async fn stored(client: &Client) -> (usize, usize) {
    let list = call(client, Verb::Get, PODS, None).await.unwrap().body;
    let pods = list["items"].as_array().unwrap();
    (pods.len(), pods.iter().filter(|pod| is_injected(pod)).count())
}
