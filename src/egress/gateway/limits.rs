//! How many connections are open, in all and of one source.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Counts what each source has open.
#[derive(Debug)]
pub(super) struct Sources {
    limit: usize,
    open: Mutex<HashMap<IpAddr, usize>>,
}

/// A place of a source, until it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    sources: Arc<Sources>,
    source: IpAddr,
}

impl Sources {
    /// Lets every source have `limit` open.
    pub(super) fn new(limit: usize) -> Arc<Self> {
        let open = Mutex::default();
        Arc::new(Self { limit, open })
    }

    /// A place for one more of `source`; nothing where it has as many as it may.
    pub(super) fn place(self: &Arc<Self>, source: IpAddr) -> Option<Place> {
        let mut open = self.open();
        let count = open.entry(source).or_default();
        if *count >= self.limit {
            return None;
        }
        *count += 1;
        drop(open);
        Some(Place {
            sources: Arc::clone(self),
            source,
        })
    }

    fn open(&self) -> MutexGuard<'_, HashMap<IpAddr, usize>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut open = self.sources.open();
        if let Some(count) = open.get_mut(&self.source) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.source);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_has_its_places_and_no_other() {
        let sources = Sources::new(2);
        let (one, other): (IpAddr, IpAddr) = ("10.0.0.1".parse().unwrap(), "10.0.0.2".parse().unwrap());
        let first = sources.place(one);
        let second = sources.place(one);
        assert!(first.is_some() && second.is_some() && sources.place(one).is_none());
        assert!(sources.place(other).is_some());
        drop(first);
        assert!(sources.place(one).is_some());
        drop(second);
        assert!(sources.open().is_empty());
    }
}
