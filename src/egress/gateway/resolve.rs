//! Names to addresses, by the DNS servers of a resolv.conf.
//!
//! A name is asked for as it is: search domains, which every pod's resolv.conf has, would turn a foreign name into one of the
//! cluster's. Where no server answers, what a name had at last is used for a while.

use crate::egress::host::Name;
use crate::webhook::reload::{Change, LoadError, Reloaded, Source};
use hickory_resolver::TokioResolver;
use hickory_resolver::config::LookupIpStrategy;
use hickory_resolver::net::NetError;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::system_conf::parse_resolv_conf;
use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::{Instant, timeout};
use tracing::debug;

/// How long an answer may take, with all attempts.
const PATIENCE: Duration = Duration::from_secs(8);

/// For how long what a name had is used where nobody answers, and for how many names that is remembered.
const REMEMBERED: (Duration, usize) = (Duration::from_secs(60 * 60), 1024);

/// Answers that are kept for as long as they say. Some are large, some 2 KiB.
const CACHED: u64 = 1024;

/// Why a name has no address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ResolveError {
    #[error("there is no such name")]
    NoSuchName,
    #[error("no name server answers: {0}")]
    Failed(String),
}

/// Asks name servers.
pub(super) struct Resolver {
    servers: Reloaded<TokioResolver>,
    remembered: Mutex<HashMap<Name, (Instant, Vec<IpAddr>)>>,
}

impl Resolver {
    /// Asks the servers that `resolv_conf` lists.
    pub(super) fn load(resolv_conf: PathBuf) -> Result<Self, LoadError> {
        Ok(Self {
            servers: Reloaded::load([Source::File(resolv_conf)], |[text]| servers(text))?,
            remembered: Mutex::default(),
        })
    }

    /// Reads the list of servers again where it has changed.
    pub(super) fn check(&self) -> Change {
        self.servers.check()
    }

    /// The addresses of a name, in the order in which to try them.
    pub(super) async fn addresses(&self, name: &Name) -> Result<Vec<IpAddr>, ResolveError> {
        let servers = self.servers.current();
        let asked = timeout(PATIENCE, servers.lookup_ip(format!("{name}.")));
        let failure = match asked.await {
            Ok(Ok(answer)) => {
                let mut addresses: Vec<_> = answer.iter().map(|address| address.to_canonical()).collect();
                // One family or the other first, by turns or by chance: IPv4 is what every cluster can reach.
                addresses.sort_by_key(IpAddr::is_ipv6);
                self.remember(name, &addresses);
                return match addresses.is_empty() {
                    true => Err(ResolveError::NoSuchName),
                    false => Ok(addresses),
                };
            }
            Ok(Err(error)) if error.is_nx_domain() || error.is_no_records_found() => {
                self.remembered().remove(name);
                return Err(ResolveError::NoSuchName);
            }
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("not within {} s", PATIENCE.as_secs()),
        };
        debug!(%name, failure, "name server failed");
        let remembered = self.remembered().get(name).cloned();
        let still_good = remembered.filter(|(then, _)| then.elapsed() < REMEMBERED.0);
        still_good.map_or(Err(ResolveError::Failed(failure)), |(_, addresses)| Ok(addresses))
    }

    fn remember(&self, name: &Name, addresses: &[IpAddr]) {
        let mut all = self.remembered();
        if all.len() >= REMEMBERED.1 && !all.contains_key(name) {
            let oldest = all.iter().min_by_key(|(_, (then, _))| *then);
            let oldest = oldest.map(|(name, _)| name.clone());
            oldest.and_then(|name| all.remove(&name));
        }
        all.insert(name.clone(), (Instant::now(), addresses.to_vec()));
    }

    fn remembered(&self) -> MutexGuard<'_, HashMap<Name, (Instant, Vec<IpAddr>)>> {
        self.remembered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Resolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resolver").finish_non_exhaustive()
    }
}

fn servers(resolv_conf: &[u8]) -> Result<Arc<TokioResolver>, NetError> {
    let (config, options) = parse_resolv_conf(resolv_conf)?;
    let mut builder = TokioResolver::builder_with_config(config, TokioRuntimeProvider::default());
    *builder.options_mut() = options;
    builder.options_mut().cache_size = CACHED;
    builder.options_mut().ip_strategy = LookupIpStrategy::Ipv4AndIpv6;
    Ok(Arc::new(builder.build()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::egress::host::Host;

    #[tokio::test]
    async fn where_nobody_answers_what_was_known_is_used() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("resolv.conf");
        #[expect(clippy::disallowed_methods, reason = "the test plays the kubelet")]
        std::fs::write(
            &path,
            "nameserver 127.0.0.253\noptions timeout:1 attempts:1\nsearch ns.svc.cluster.local\n",
        )
        .unwrap();
        let resolver = Resolver::load(path).unwrap();
        let Ok(Host::Name(name)) = Host::parse("api.github.com") else {
            panic!("it is a name")
        };
        assert!(matches!(resolver.addresses(&name).await, Err(ResolveError::Failed(_))));
        let known: Vec<IpAddr> = vec!["192.0.2.7".parse().unwrap()];
        resolver.remember(&name, &known);
        assert_eq!(resolver.addresses(&name).await, Ok(known));
    }

    #[test]
    fn a_list_without_servers_is_no_list() {
        let error = servers(b"search example.com\n").unwrap_err().to_string();
        assert!(error.contains("no nameservers"), "{error}");
    }
}
