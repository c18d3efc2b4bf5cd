//! What each annotation overrides: one row an annotation.
//!
//! Source: Linkerd's injector, whose keys, grammars and inheritance these are.

use super::grammar;
use super::values::Values;
use crate::pod::Quantity;

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
    /// Read with namespace and pod at hand.
    Elsewhere,
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
    /// Reads `text` into its field; the field keeps its value where the text cannot be read.
    pub(super) fn set(&self, values: &mut Values, text: &str) -> Result<(), Unreadable> {
        match self {
            Self::Text(field) => assign(field(values), Some(text.to_owned()), "text"),
            Self::Word(words, field) => {
                let word = words.contains(&text).then(|| text.to_owned());
                assign(field(values), word, &format!("one of {}", words.join(", ")))
            }
            Self::Port(field) => assign(field(values), text.parse().ok(), "a port number"),
            Self::Integer(field) => assign(field(values), text.parse().ok(), "an integer"),
            Self::User(field) => {
                let user = text.parse().ok().filter(|&user| user != 0);
                fatal(assign(field(values), user, "a user ID other than 0"))
            }
            Self::Seconds(field) => assign(field(values), grammar::unsigned(text), "a number of seconds"),
            Self::Boolean(field) => assign(field(values), grammar::boolean(text), "true or false"),
            Self::Switch(field) => assign(field(values), grammar::switch(text), "enabled or disabled"),
            Self::Milliseconds(field) => assign(field(values), span(text, 1_000_000, "ms"), DURATION),
            Self::WholeSeconds(field) => assign(field(values), span(text, 1_000_000_000, "s"), DURATION),
            Self::Quantity(field) => {
                let quantity = readable(text).map(|_| text.to_owned());
                fatal(assign(field(values), quantity, QUANTITY))
            }
            Self::Cores(fields) => {
                let Some(quantity) = readable(text) else {
                    return fatal(Err(unreadable(QUANTITY)));
                };
                let (resource, workers) = fields(values);
                text.clone_into(resource);
                *workers = quantity.ceil().unwrap_or(0);
                Ok(())
            }
            Self::Ratio(field) => {
                let ratio = text
                    .parse()
                    .ok()
                    .filter(|ratio| (0.0..1.0).contains(ratio) && *ratio > 0.0);
                assign(field(values), ratio, "a number between 0 and 1, both excluded")
            }
            Self::CloseWait(_) if text.is_empty() => Ok(()),
            Self::CloseWait(field) => {
                let seconds = grammar::duration(text).map(|nanoseconds| nanoseconds / 1_000_000_000);
                assign(field(values), seconds, DURATION)
            }
            Self::Ports | Self::Elsewhere => Ok(()),
        }
    }
}

/// What a duration looks like.
const DURATION: &str = "a duration such as 500ms or 1m30s";

/// What a quantity looks like.
const QUANTITY: &str = "a resource quantity such as 100m or 250Mi";

/// A quantity that may stand in a container's resources.
fn readable(text: &str) -> Option<Quantity> {
    Quantity::parse(text).filter(|quantity| !quantity.is_negative())
}

/// A duration of zero or more in units of `nanoseconds`, as the proxy reads it: a number and the unit's name.
fn span(text: &str, nanoseconds: i64, unit: &str) -> Option<String> {
    let duration = grammar::duration(text).filter(|&duration| duration >= 0)?;
    Some(format!("{}{unit}", duration / nanoseconds))
}

fn assign<T>(field: &mut T, value: Option<T>, expected: &str) -> Result<(), Unreadable> {
    *field = value.ok_or_else(|| unreadable(expected))?;
    Ok(())
}

fn unreadable(expected: &str) -> Unreadable {
    Unreadable {
        expected: expected.to_owned(),
        fatal: false,
    }
}

fn fatal(result: Result<(), Unreadable>) -> Result<(), Unreadable> {
    result.map_err(|unreadable| Unreadable {
        fatal: true,
        ..unreadable
    })
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
