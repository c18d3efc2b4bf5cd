//! What policies say, all together: they are swapped as one.

use super::originate::Authorities;
use crate::egress::policies::Policies;
use crate::egress::policy::{Id, Policy};
use crate::egress::spec::CaCertificates;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use tracing::warn;

/// All that policies say, with the authorities that they name.
#[derive(Debug, Default)]
pub(super) struct Rules {
    pub(super) policies: Policies,
    /// Those that cannot be read: nobody knows what they close.
    unreadable: Vec<Id>,
    authorities: HashMap<MapKey, Held>,
    /// Where the ConfigMaps of cluster-wide policies are.
    namespace: String,
}

/// A ConfigMap: namespace and name.
pub(super) type MapName = (String, String);

/// A key of it.
type MapKey = (MapName, String);

/// What ConfigMaps hold.
pub(super) type Maps = HashMap<MapName, BTreeMap<String, Arc<str>>>;

/// What policies are made rules of.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) policies: Vec<Policy>,
    pub(super) unreadable: Vec<Id>,
}

#[derive(Clone, Debug)]
struct Held {
    pem: Arc<str>,
    /// None where what is there cannot be used.
    authorities: Option<Arc<Authorities>>,
}

impl Rules {
    /// Those of `found`, with authorities from `maps`; what has not changed since `before` is not read again. ConfigMaps of
    /// cluster-wide policies are in `namespace`.
    pub(super) fn new(found: Found, maps: &Maps, namespace: &str, before: Option<&Self>) -> Self {
        let mut authorities = HashMap::new();
        for policy in &found.policies {
            // It may come yet; until then no certificate is taken.
            let Some((name, key)) = names(policy, namespace) else {
                continue;
            };
            let Some(pem) = maps.get(&name).and_then(|data| data.get(&key)) else {
                continue;
            };
            let place = (name, key);
            let known = before.and_then(|before| before.authorities.get(&place));
            let held = known.filter(|known| known.pem == *pem).cloned();
            let held = held.unwrap_or_else(|| read(policy, &place, pem));
            authorities.insert(place, held);
        }
        Self {
            // Of the others, only those count that the proxies enforce, as for `egress check`.
            policies: Policies::new(found.policies).enforceable(),
            unreadable: found.unreadable,
            authorities,
            namespace: namespace.to_owned(),
        }
    }

    /// The authorities that a policy names; nothing where they are not there.
    pub(super) fn authorities(&self, policy: &Id, named: &CaCertificates) -> Option<Arc<Authorities>> {
        let place = place(policy, named, &self.namespace);
        self.authorities.get(&place)?.authorities.clone()
    }

    /// A policy that holds in `namespace` and cannot be read.
    pub(super) fn unreadable_in(&self, namespace: &str) -> Option<&Id> {
        let holds = |id: &&Id| id.namespace.as_deref().is_none_or(|it| it == namespace);
        self.unreadable.iter().find(holds)
    }
}

/// The ConfigMap that `policy` names, and the key; that of a cluster-wide one is in `namespace`.
pub(super) fn names(policy: &Policy, namespace: &str) -> Option<MapKey> {
    let named = policy.origination.as_ref()?.ca_certificates.as_ref()?;
    Some(place(&policy.id, named, namespace))
}

fn place(policy: &Id, named: &CaCertificates, namespace: &str) -> MapKey {
    let namespace = policy.namespace.as_deref().unwrap_or(namespace).to_owned();
    ((namespace, named.config_map.clone()), named.key.clone())
}

fn read(policy: &Policy, (name, key): &MapKey, pem: &Arc<str>) -> Held {
    let read = Authorities::read(pem.as_bytes(), true);
    if let Err(error) = &read {
        // This policy alone is closed for it: whose address is whose, and what others allow, must not wait for that.
        warn!(policy = %policy.id, config_map = name.1, key, %error, "a policy's authorities cannot be used");
    }
    Held {
        pem: Arc::clone(pem),
        authorities: read.ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(namespace: Option<&str>) -> Id {
        Id {
            namespace: namespace.map(str::to_owned),
            name: "broken".to_owned(),
        }
    }

    #[test]
    fn what_cannot_be_read_closes_its_namespace_and_no_other() {
        let closes = |unreadable: Option<&str>, namespace: &str| {
            let found = Found {
                unreadable: vec![id(unreadable)],
                ..Found::default()
            };
            let rules = Rules::new(found, &Maps::new(), "linkerd", None);
            rules.unreadable_in(namespace).is_some()
        };
        assert!(closes(Some("shop"), "shop") && !closes(Some("shop"), "bank"));
        assert!(closes(None, "shop") && closes(None, "bank"));
    }
}
