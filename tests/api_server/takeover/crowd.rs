//! Many pods, created for as long as something goes on, and what became of each.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::linkerd::Recorded;
use crate::cluster::{Namespace, Reply};
use crate::mesh;

/// How many pods are created at once.
const CREATORS: usize = 4;

/// A pod that is created again and again.
#[derive(Clone)]
pub(crate) struct Shape {
    /// How the names of its pods begin.
    pub(crate) start: &'static str,
    pub(crate) namespace: Namespace,
    pub(crate) pod: Value,
}

impl Shape {
    /// The pod of a recorded request, with another name.
    pub(crate) fn of(start: &'static str, namespace: &Namespace, recorded: &Recorded) -> Self {
        Self {
            start,
            namespace: namespace.clone(),
            pod: recorded.pod.clone(),
        }
    }

    /// What becomes of one more pod, which is not created.
    pub(crate) async fn fate(&self) -> Fate {
        fate(&self.namespace.try_pod(&self.numbered(0)).await)
    }

    fn numbered(&self, number: usize) -> Value {
        let mut pod = self.pod.clone();
        match pod["metadata"]["generateName"].is_string() {
            true => pod["metadata"]["generateName"] = format!("{}-", self.start).into(),
            false => pod["metadata"]["name"] = format!("{}-{number}", self.start).into(),
        }
        pod
    }
}

/// What became of a pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fate {
    /// Linkerd's injector has injected it.
    Linkerds,
    /// Ours has, with this redirection.
    Ours(&'static str),
    /// The API server refuses it, for what a policy or our webhook says.
    Denied,
    /// It runs without a proxy.
    Bare,
    /// It has something twice, or half.
    Doubled(String),
    /// The API server cannot do its work.
    Failed(String),
}

/// A pod's namespace and fate, with the step that was done last when it was created.
#[derive(Clone, Debug)]
pub(crate) struct Told {
    pub(crate) step: &'static str,
    pub(crate) namespace: String,
    pub(crate) fate: Fate,
}

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    next: AtomicUsize,
    step: Mutex<&'static str>,
    told: Mutex<Vec<Told>>,
}

/// Pods that are being created.
pub(crate) struct Crowd {
    shared: Arc<Shared>,
    count: watch::Receiver<usize>,
    tasks: JoinSet<()>,
}

impl Crowd {
    /// Begins; `first` is the number of the first pod, so that a second crowd has other names.
    pub(crate) fn start(shapes: &[Shape], first: usize, step: &'static str) -> Self {
        let shared = Arc::new(Shared {
            next: AtomicUsize::new(first),
            step: Mutex::new(step),
            ..Shared::default()
        });
        let (sender, count) = watch::channel(0);
        let (sender, shapes) = (Arc::new(sender), Arc::<[Shape]>::from(shapes));
        let mut tasks = JoinSet::new();
        for _ in 0..CREATORS {
            let (shared, sender, shapes) = (shared.clone(), sender.clone(), shapes.clone());
            tasks.spawn(async move {
                while !shared.stop.load(Ordering::Relaxed) {
                    let number = shared.next.fetch_add(1, Ordering::Relaxed);
                    let shape = &shapes[number % shapes.len()];
                    let step = *shared.step.lock().unwrap();
                    let reply = shape.namespace.create_pod(&shape.numbered(number)).await;
                    let told = Told {
                        step,
                        namespace: shape.namespace.name.clone(),
                        fate: fate(&reply),
                    };
                    shared.told.lock().unwrap().push(told);
                    sender.send_modify(|count| *count += 1);
                }
            });
        }
        Self { shared, count, tasks }
    }

    /// What is created from now on comes after `step`.
    pub(crate) fn after(&self, step: &'static str) {
        *self.shared.step.lock().unwrap() = step;
    }

    /// Waits until `number` more pods are created.
    pub(crate) async fn more(&mut self, number: usize) {
        let wanted = *self.count.borrow() + number;
        self.at_least(wanted).await;
    }

    /// Waits until `number` pods are created in all.
    pub(crate) async fn at_least(&mut self, number: usize) {
        self.count
            .wait_for(|count| *count >= number)
            .await
            .expect("the creators go on");
    }

    /// Ends, and tells what became of every pod.
    pub(crate) async fn finish(mut self) -> Vec<Told> {
        self.shared.stop.store(true, Ordering::Relaxed);
        while let Some(ended) = self.tasks.join_next().await {
            ended.expect("a creator ends well");
        }
        let told = std::mem::take(&mut *self.shared.told.lock().unwrap());
        assert_eq!(told.len(), *self.count.borrow());
        told
    }
}

fn fate(reply: &Reply) -> Fate {
    match reply.code {
        201 => {}
        403 => return Fate::Denied,
        code => return Fate::Failed(format!("{code}: {}", reply.message())),
    }
    let pod = &reply.body;
    if mesh::count(pod, "linkerd-proxy") == 0 {
        return Fate::Bare;
    }
    if let Some(fault) = fault(pod) {
        return Fate::Doubled(fault);
    }
    match mesh::annotation(pod, "linkerd.io/created-by") {
        Some(by) if by.starts_with("linkerd/proxy-injector ") => Fate::Linkerds,
        Some(by) if by.starts_with("outrigger/") => Fate::Ours(mesh::redirection(pod).unwrap_or_default()),
        by => Fate::Doubled(format!("created by {by:?}")),
    }
}

/// What an injected pod has twice, or lacks.
fn fault(pod: &Value) -> Option<String> {
    let repeated = |names: Vec<Option<&str>>| names.iter().collect::<BTreeSet<_>>().len() != names.len();
    let containers = mesh::containers(pod).map(|container| container["name"].as_str());
    let volumes = || pod["spec"]["volumes"].as_array().into_iter().flatten();
    let of_kind = |key: &str, value: Value| volumes().filter(|volume| volume[key] == value).count();
    let tokens = volumes()
        .filter(|volume| volume["projected"]["sources"][0]["serviceAccountToken"]["audience"] == "identity.l5d.io")
        .count();
    let [proxies, inits, validators] =
        ["linkerd-proxy", "linkerd-init", "linkerd-network-validator"].map(|name| mesh::count(pod, name));
    let sound = !repeated(containers.collect())
        && !repeated(volumes().map(|volume| volume["name"].as_str()).collect())
        && (proxies, inits + validators, tokens) == (1, 1, 1)
        && of_kind("emptyDir", json!({"medium": "Memory"})) == 1;
    (!sound).then(|| pod["spec"].to_string())
}

/// How many pods had each fate.
pub(crate) fn tally<'a>(told: impl IntoIterator<Item = &'a Told>) -> BTreeMap<Fate, usize> {
    let mut tally = BTreeMap::new();
    for one in told {
        *tally.entry(one.fate.clone()).or_default() += 1;
    }
    tally
}

/// What is said of a crowd: the numbers that must be 0 last.
pub(crate) fn summary(told: &[Told]) -> String {
    let number = |holds: fn(&Fate) -> bool| told.iter().filter(|one| holds(&one.fate)).count();
    format!(
        "{} pods: {} injected by Linkerd's injector, {} by ours, {} denied; {} un-injected, {} injected twice, {} failed",
        told.len(),
        number(|fate| *fate == Fate::Linkerds),
        number(|fate| matches!(fate, Fate::Ours(_))),
        number(|fate| *fate == Fate::Denied),
        number(|fate| *fate == Fate::Bare),
        number(|fate| matches!(fate, Fate::Doubled(_))),
        number(|fate| matches!(fate, Fate::Failed(_))),
    )
}

/// Fails where a pod was not injected, was injected twice, or could not be asked about.
pub(crate) fn must_be_meshed_once(told: &[Told]) {
    let bad = |one: &&Told| !matches!(one.fate, Fate::Linkerds | Fate::Ours(_) | Fate::Denied);
    let bad: Vec<_> = told.iter().filter(bad).collect();
    assert!(bad.is_empty(), "{bad:#?}");
}
