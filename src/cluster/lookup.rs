//! Single objects asked of the API server: with a deadline, once for all who ask at the same time, and remembered.

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::mem;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::OnceCell;
use tokio::time::timeout;

/// How long a request waits for one object; two such waits leave most of the webhook's five seconds.
pub(super) const DEADLINE: Duration = Duration::from_millis(500);

/// Longest name of an object (RFC 1123 subdomain).
const NAME_LIMIT: usize = 253;

/// Why an object could not be asked for.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LookupError {
    /// The API server answered with an error, or could not be reached.
    #[error("the API server was asked: {0}")]
    Failed(#[source] Box<kube::Error>),
    /// The API server did not answer in time.
    #[error("the API server did not answer within {} ms", DEADLINE.as_millis())]
    Late,
}

/// Answers by question.
///
/// The answers last asked for are remembered, in two halves: when the young half is full it becomes the old one, and what
/// nobody has asked for since then is forgotten.
pub(super) struct Lookups<K, V> {
    halves: Mutex<Halves<K, V>>,
    half: usize,
}

type Half<K, V> = HashMap<K, Arc<OnceCell<V>>>;

struct Halves<K, V> {
    young: Half<K, V>,
    old: Half<K, V>,
}

impl<K: Clone + Eq + Hash, V: Clone> Lookups<K, V> {
    /// Remembers up to twice `half` answers; with 0 an answer is shared by those who wait for it, and then forgotten.
    pub(super) fn new(half: usize) -> Self {
        Self {
            halves: Mutex::new(Halves {
                young: Half::new(),
                old: Half::new(),
            }),
            half,
        }
    }

    /// The answer to `key`, from memory or by `fetch`, which at most one caller runs at a time.
    pub(super) async fn ask(
        &self,
        key: K,
        fetch: impl AsyncFnOnce() -> Result<V, kube::Error>,
    ) -> Result<V, LookupError> {
        let cell = self.cell(&key);
        // The deadline covers the wait for another caller too: when that one is late, so is this.
        let answer = match timeout(DEADLINE, cell.get_or_try_init(async || fetch().await)).await {
            Ok(Ok(value)) => Ok(value.clone()),
            Ok(Err(error)) => Err(LookupError::Failed(Box::new(error))),
            Err(_) => Err(LookupError::Late),
        };
        if self.half == 0 {
            self.forget(&key, &cell);
        }
        answer
    }

    fn cell(&self, key: &K) -> Arc<OnceCell<V>> {
        let mut halves = self.halves.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(cell) = halves.young.get(key) {
            return Arc::clone(cell);
        }
        if self.half > 0 && halves.young.len() >= self.half {
            halves.old = mem::take(&mut halves.young);
        }
        let cell = halves.old.remove(key).unwrap_or_default();
        halves.young.insert(key.clone(), Arc::clone(&cell));
        cell
    }

    fn forget(&self, key: &K, cell: &Arc<OnceCell<V>>) {
        let mut halves = self.halves.lock().unwrap_or_else(PoisonError::into_inner);
        if halves.young.get(key).is_some_and(|known| Arc::ptr_eq(known, cell)) {
            halves.young.remove(key);
        }
    }
}

impl<K, V> fmt::Debug for Lookups<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lookups")
            .field("half", &self.half)
            .finish_non_exhaustive()
    }
}

/// Whether `name` can be the name of an object. Others are never put into the path of a question: a client may have
/// written anything into an owner reference.
pub(super) fn is_name(name: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-' || byte == b'.';
    name.len() <= NAME_LIMIT && name.bytes().all(inner) && name.starts_with(|c: char| c.is_ascii_alphanumeric())
}
