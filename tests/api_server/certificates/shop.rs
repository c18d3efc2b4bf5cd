//! Namespaces whose pods go to the replicas of a site, and pods that are created in them.

use std::cell::{Cell, RefCell};

use futures::future::join;
use serde_json::json;

use super::site::LIMIT;
use crate::cluster::{Namespace, poll};
use crate::{mesh, pod};

/// Two namespaces, the pods of each go to a replica of its own.
pub(super) struct Shop(pub(super) [Namespace; 2]);

impl Shop {
    /// Tries to create a pod in each of the two namespaces; what is wrong with either.
    pub(super) async fn visit(&self) -> String {
        let (first, second) = join(visit(&self.0[0]), visit(&self.0[1])).await;
        first + &second
    }

    /// Waits until a pod is created by each replica.
    pub(super) async fn open(&self) {
        let open = async || self.visit().await.is_empty().then_some(());
        poll(LIMIT, open).await.expect("pods are created");
    }

    /// Waits until a pod is created by one replica.
    pub(super) async fn open_by(&self, replica: usize) {
        let open = async || visit(&self.0[replica]).await.is_empty().then_some(());
        poll(LIMIT, open).await.expect("pods are created");
    }
}

/// Creates a pod; what is wrong where it is not created with a proxy.
async fn visit(namespace: &Namespace) -> String {
    let mut pod = pod("", &json!({}));
    pod["metadata"] = json!({"generateName": "web-"});
    let reply = namespace.create_pod(&pod).await;
    match (reply.code, mesh::redirection(&reply.body)) {
        (201, Some("cni")) => String::new(),
        (code, redirection) => format!("{code} {redirection:?} {}", reply.message()),
    }
}

/// Pods that are created one after the other, by each replica in turn.
pub(super) struct Visitors<'s> {
    shop: &'s Shop,
    count: Cell<usize>,
    failed: RefCell<Vec<String>>,
}

impl<'s> Visitors<'s> {
    pub(super) fn of(shop: &'s Shop) -> Self {
        Self {
            shop,
            count: Cell::default(),
            failed: RefCell::default(),
        }
    }

    /// One comes to each replica.
    pub(super) async fn come(&self) {
        let failed = self.shop.visit().await;
        self.count.set(self.count.get() + 2);
        self.failed.borrow_mut().extend((!failed.is_empty()).then_some(failed));
    }

    /// They come one after the other for as long as `meanwhile` lasts.
    pub(super) async fn during<T>(&self, meanwhile: impl Future<Output = T>) -> T {
        let keep_coming = async {
            loop {
                self.come().await;
            }
        };
        tokio::select! {
            () = keep_coming => unreachable!("they never end"),
            outcome = meanwhile => outcome,
        }
    }

    pub(super) fn count(&self) -> usize {
        self.count.get()
    }

    pub(super) fn failed(&self) -> Vec<String> {
        self.failed.borrow().clone()
    }
}
