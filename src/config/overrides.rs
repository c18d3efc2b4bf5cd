//! What each annotation overrides: one row an annotation.
//!
//! Source: Linkerd's injector, whose keys, grammars and inheritance these are.

use super::grammar;
use super::values::Values;
use crate::pod::Quantity;
use crate::redirect::name_servers;

/// An annotation and what its value does.
#[derive(Debug)]
pub(super) struct Override {
    /// The annotation's key.
    pub(super) annotation: &'static str,
    /// The key of the values document that it overrides, dotted.
    pub(super) values_key: &'static str,
    /// Whether pods inherit it from their namespace.
    pub(super) inherited: bool,
    /// How its value is read and where it goes.
    pub(super) setter: Setter,
}

/// How a value is read, and the field that takes it.
#[derive(Debug)]
pub(super) enum Setter {
    /// Any text.
    Text(fn(&mut Values) -> &mut String),
    /// One of these words.
    Word(&'static [&'static str], fn(&mut Values) -> &mut String),
    /// A 32-bit integer.
    Port(fn(&mut Values) -> &mut i32),
    /// A 64-bit integer.
    Integer(fn(&mut Values) -> &mut i64),
    /// A 64-bit integer without which the pod would be unsafe.
    User(fn(&mut Values) -> &mut i64),
    /// An unsigned number of seconds.
    Seconds(fn(&mut Values) -> &mut u64),
    /// `true` or `false`, as Go reads it.
    Boolean(fn(&mut Values) -> &mut bool),
    /// `enabled` or `disabled`.
    Switch(fn(&mut Values) -> &mut bool),
    /// `enabled` or `disabled`, where the pod would be unsafe with the default.
    Guard(fn(&mut Values) -> &mut bool),
    /// Addresses and subnets of name servers, without which the pod would be unable to run.
    NameServers(fn(&mut Values) -> &mut String),
    /// A duration, kept in whole milliseconds.
    Milliseconds(fn(&mut Values) -> &mut String),
    /// A duration, kept in whole seconds.
    WholeSeconds(fn(&mut Values) -> &mut String),
    /// A resource quantity.
    Quantity(fn(&mut Values) -> &mut String),
    /// A quantity of cores, which also sets a number of worker threads.
    Cores(fn(&mut Values) -> (&mut String, &mut i64)),
    /// A share between 0 and 1, both excluded.
    Ratio(fn(&mut Values) -> &mut f64),
    /// The seconds for which closed connections stay tracked.
    CloseWait(fn(&mut Values) -> &mut i64),
    /// Ports by number, range or name of a container port; read with the pod at hand.
    Ports,
    /// Read with namespace and pod at hand; with what is accepted.
    Elsewhere(&'static str),
}

/// An annotation that overrides the values, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Described {
    /// Its key.
    pub annotation: &'static str,
    /// The key of the values document that it overrides, dotted; empty where there is none.
    pub values_key: &'static str,
    /// Whether pods inherit it from their namespace.
    pub inherited: bool,
    /// What is accepted.
    pub accepted: String,
    /// Whether the pod is denied for a value that is not accepted, which is ignored otherwise.
    pub denies: bool,
}

/// Every annotation that overrides the values, in ascending order of key.
pub fn described() -> impl Iterator<Item = Described> {
    rows().iter().map(|row| Described {
        annotation: row.annotation,
        values_key: row.values_key,
        inherited: row.inherited,
        accepted: row.setter.accepted(),
        denies: row.setter.denies(),
    })
}

/// Why a value was not taken.
#[derive(Debug, PartialEq, Eq)]
pub struct Unreadable {
    /// What would be right.
    pub expected: String,
    /// Whether the pod must not run with the default instead.
    pub fatal: bool,
}

impl Setter {
    /// What is accepted, in words.
    fn accepted(&self) -> String {
        let accepted = match self {
            Self::Text(_) => "text",
            Self::Word(words, _) => return format!("one of {}", words.join(", ")),
            Self::Port(_) => "a port number",
            Self::Integer(_) => "an integer",
            Self::User(_) => "a user ID other than 0",
            Self::Seconds(_) => "a number of seconds",
            Self::Boolean(_) => BOOLEAN,
            Self::Switch(_) | Self::Guard(_) => "enabled or disabled",
            Self::NameServers(_) => NAME_SERVERS,
            Self::Milliseconds(_) | Self::WholeSeconds(_) | Self::CloseWait(_) => "a duration such as 500ms or 1m30s",
            Self::Quantity(_) | Self::Cores(_) => "a resource quantity such as 100m or 250Mi",
            Self::Ratio(_) => "a number between 0 and 1, both excluded",
            Self::Ports => PORTS,
            Self::Elsewhere(accepted) => accepted,
        };
        accepted.to_owned()
    }

    /// Whether the pod would be unsafe or unable to run with the default in the place of a value that is not accepted.
    const fn denies(&self) -> bool {
        matches!(
            self,
            Self::User(_) | Self::Quantity(_) | Self::Cores(_) | Self::Guard(_) | Self::NameServers(_)
        )
    }

    /// Reads `text` into its field; the field keeps its value where the text cannot be read.
    pub(super) fn set(&self, values: &mut Values, text: &str) -> Result<(), Unreadable> {
        self.assign(values, text).ok_or_else(|| Unreadable {
            expected: self.accepted(),
            fatal: self.denies(),
        })
    }

    /// The same; nothing where the text cannot be read.
    fn assign(&self, values: &mut Values, text: &str) -> Option<()> {
        match self {
            Self::Text(field) => text.clone_into(field(values)),
            Self::Word(words, field) => words.contains(&text).then(|| text.clone_into(field(values)))?,
            Self::Port(field) => *field(values) = text.parse().ok()?,
            Self::Integer(field) => *field(values) = text.parse().ok()?,
            Self::User(field) => *field(values) = text.parse().ok().filter(|&user| user != 0)?,
            Self::Seconds(field) => *field(values) = grammar::unsigned(text)?,
            Self::Boolean(field) => *field(values) = grammar::boolean(text)?,
            Self::Switch(field) | Self::Guard(field) => *field(values) = grammar::switch(text)?,
            Self::NameServers(field) => {
                name_servers(text).ok()?;
                text.clone_into(field(values));
            }
            Self::Milliseconds(field) => *field(values) = span(text, 1_000_000, "ms")?,
            Self::WholeSeconds(field) => *field(values) = span(text, 1_000_000_000, "s")?,
            Self::Quantity(field) => {
                readable(text)?;
                text.clone_into(field(values));
            }
            Self::Cores(fields) => {
                let cores = readable(text)?.ceil().unwrap_or(0);
                let (resource, workers) = fields(values);
                text.clone_into(resource);
                *workers = cores;
            }
            Self::Ratio(field) => {
                let within = |ratio: &f64| (0.0..1.0).contains(ratio) && *ratio > 0.0;
                *field(values) = text.parse().ok().filter(within)?;
            }
            // An empty one is absent.
            Self::CloseWait(_) if text.is_empty() => {}
            Self::CloseWait(field) => *field(values) = grammar::duration(text)? / 1_000_000_000,
            Self::Ports | Self::Elsewhere(_) => {}
        }
        Some(())
    }
}

/// What a switch looks like that Go reads.
pub(super) const BOOLEAN: &str = "true or false";

/// What stands in a list of name servers.
pub(super) const NAME_SERVERS: &str = "a list of addresses and subnets such as 10.96.0.10,fd00::/8";

/// What stands in a list of ports of the pod.
pub(super) const PORTS: &str = "a port, a range of ports or the name of a container port";

/// A quantity that may stand in a container's resources.
fn readable(text: &str) -> Option<Quantity> {
    Quantity::parse(text).filter(|quantity| !quantity.is_negative())
}

/// A duration of zero or more in units of `nanoseconds`, as the proxy reads it: a number and the unit's name.
fn span(text: &str, nanoseconds: i64, unit: &str) -> Option<String> {
    let duration = grammar::duration(text).filter(|&duration| duration >= 0)?;
    Some(format!("{}{unit}", duration / nanoseconds))
}

mod table;

pub(super) use table::{row, rows};

#[cfg(test)]
mod tests {
    use super::*;

    fn set(annotation: &str, text: &str) -> Result<Values, Unreadable> {
        let mut values = Values::default();
        row(annotation).unwrap().setter.set(&mut values, text).map(|()| values)
    }

    #[test]
    fn cores_also_set_worker_threads() {
        let values = set("config.linkerd.io/proxy-cpu-limit", "2500m").unwrap();
        assert_eq!(values.proxy.resources.cpu.limit, "2500m");
        assert_eq!(values.proxy.runtime.workers.maximum, 3);
    }

    #[test]
    fn durations_are_written_as_the_proxy_reads_them() {
        let values = set("config.linkerd.io/proxy-outbound-connect-timeout", "1.001s").unwrap();
        assert_eq!(values.proxy.outbound_connect_timeout, "1001ms");
        let values = set(
            "config.linkerd.io/proxy-inbound-discovery-cache-unused-timeout",
            "999ms",
        )
        .unwrap();
        assert_eq!(values.proxy.inbound_discovery_cache_unused_timeout, "0s");
        assert!(!set("config.linkerd.io/shutdown-grace-period", "-5s").unwrap_err().fatal);
    }

    #[test]
    fn what_would_make_the_pod_unsafe_is_fatal() {
        for (annotation, text) in [
            ("config.linkerd.io/proxy-uid", "0"),
            ("config.linkerd.io/proxy-uid", "x"),
            ("config.linkerd.io/proxy-memory-limit", "1MB"),
            ("config.linkerd.io/proxy-cpu-request", "-1"),
            ("outrigger.linkerd.io/egress-fence", "true"),
            ("outrigger.linkerd.io/egress-dns", "10.96.0.10,kube-dns"),
        ] {
            assert!(set(annotation, text).unwrap_err().fatal, "{annotation}={text}");
        }
        for (annotation, text) in [
            ("config.linkerd.io/proxy-cpu-ratio-limit", "NaN"),
            ("config.linkerd.io/default-inbound-policy", "allow"),
            ("config.linkerd.io/admin-port", "99999999999"),
            ("config.linkerd.io/proxy-await", "true"),
        ] {
            assert!(!set(annotation, text).unwrap_err().fatal, "{annotation}={text}");
        }
    }

    #[test]
    fn rows_are_sorted_for_the_look_up() {
        assert!(rows().windows(2).all(|pair| pair[0].annotation < pair[1].annotation));
    }
}
