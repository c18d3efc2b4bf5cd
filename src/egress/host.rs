//! Names of hosts, as connections show them and as policies write them.
//!
//! A name is compared in one form: A-labels (RFC 5890) in lower case, without the dot at its end. What is an address is
//! never a name, in whatever way it is written: `0x7f.1`, `2130706433` and full-width digits are addresses, as they are
//! for a browser (WHATWG URL, "host parsing", which the crate `url` implements).

use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use url::Host as Parsed;

/// A name of DNS: A-labels in lower case, no dot at its end.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct Name(String);

/// What a connection or a request names as its destination.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Host {
    /// A name.
    Name(Name),
    /// An address; one of IPv4 is never written as one of IPv6.
    Address(IpAddr),
}

/// Why a text is no host.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no host name: {fault}")]
pub struct HostError {
    text: String,
    fault: &'static str,
}

/// Which hosts a policy means: one name, or every name below one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostPattern {
    is_wildcard: bool,
    name: Name,
}

/// How exactly a pattern names a host: the greater, the more exactly.
///
/// A pattern without wildcard names more exactly than one with; of two with, the one with more labels does.
pub type Exactness = (Reverse<bool>, usize);

/// RFC 1035, section 2.3.4: octets of a label.
const LABEL: usize = 63;

/// The same: octets of a name, without the dot at its end.
const NAME: usize = 253;

/// How much of a text is repeated: names are no longer.
const QUOTED: usize = NAME;

/// What has a meaning in URLs and never stands in a name. `url` would decode the first.
const FOREIGN: [char; 8] = ['%', '/', '\\', '@', '?', '#', '*', ','];

impl Host {
    /// Reads the host of an SNI, an authority (without its port) or an argument.
    ///
    /// An address of IPv6 may be in brackets. Letters of any case and script are taken (UTS 46), and a dot at the end.
    pub fn parse(text: &str) -> Result<Self, HostError> {
        let fault = |fault| HostError::new(text, fault);
        if text.contains(|c: char| FOREIGN.contains(&c) || c.is_whitespace() || c.is_control()) {
            return Err(fault("it holds a character that no name has"));
        }
        let bare = text.strip_prefix('[').map_or(Some(text), |rest| rest.strip_suffix(']'));
        let bare = bare.ok_or_else(|| fault("the bracket is never closed"))?;
        if bare.contains(':') || bare.len() != text.len() {
            let address: Result<Ipv6Addr, _> = bare.parse();
            return match address {
                Ok(address) => Ok(Self::Address(IpAddr::V6(address).to_canonical())),
                Err(_) => Err(fault("what has a colon or brackets must be an address of IPv6")),
            };
        }
        match Parsed::parse(text) {
            Ok(Parsed::Ipv4(address)) => Ok(Self::Address(address.into())),
            Ok(Parsed::Ipv6(address)) => Ok(Self::Address(IpAddr::V6(address).to_canonical())),
            Ok(Parsed::Domain(name)) => {
                let name = name.strip_suffix('.').unwrap_or(&name);
                match fault_of(name) {
                    Some(found) => Err(fault(found)),
                    None => Ok(Self::Name(Name(name.to_ascii_lowercase()))),
                }
            }
            Err(_) => Err(fault("it is neither a name nor an address")),
        }
    }
}

/// What is wrong with a name. Underscores are none of a host's (RFC 952), but services have them.
fn fault_of(name: &str) -> Option<&'static str> {
    let is_odd = |c: char| !c.is_ascii_alphanumeric() && c != '-' && c != '_';
    if name.len() > NAME {
        Some("a name has at most 253 characters")
    } else if name.split('.').any(str::is_empty) {
        Some("a label is empty")
    } else if name.split('.').any(|label| label.len() > LABEL) {
        Some("a label has at most 63 characters")
    } else if name.split('.').any(|label| label.contains(is_odd)) {
        Some("labels consist of letters, digits and hyphens")
    } else {
        None
    }
}

impl Name {
    /// The name itself.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn labels(&self) -> usize {
        self.0.split('.').count()
    }
}

impl HostError {
    fn new(text: &str, fault: &'static str) -> Self {
        let text = text.chars().take(QUOTED).collect();
        Self { text, fault }
    }
}

impl HostPattern {
    /// Reads a name, or `*.` and a name: then every name below it, one or more labels deep, and not the name itself, as in
    /// the Gateway API (`Hostname`) and in Linkerd's proxy.
    ///
    /// Fails on an address, on a name of one label (which search domains would complete inside of the cluster), on a
    /// wildcard elsewhere, alone, or right above a top-level domain, and on what the Gateway API takes for no name.
    pub fn parse(text: &str) -> Result<Self, HostError> {
        let fault = |fault| Err(HostError::new(text, fault));
        let (is_wildcard, rest) = match text.strip_prefix("*.") {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        if rest == "*" {
            return fault("a wildcard alone would mean every host: name a domain, as in \"*.example.com\"");
        }
        if rest.contains('*') {
            return fault("a wildcard may only be the whole first label, as in \"*.example.com\"");
        }
        let name = match Host::parse(rest) {
            Ok(Host::Name(name)) => name,
            Ok(Host::Address(_)) => return fault("it is an address, which belongs into addresses"),
            Err(_) if rest.contains(':') => return fault("a port belongs into ports, and a scheme nowhere"),
            Err(error) => return fault(error.fault),
        };
        let at_edge = |label: &str| label.starts_with('-') || label.ends_with('-') || label.contains('_');
        if name.labels() < 2 {
            return fault(match is_wildcard {
                true => "it would mean every host of a top-level domain: name one below it, as in \"*.example.com\"",
                false => "a name outside of the cluster has a dot, as in \"example.com\"",
            });
        }
        if name.0.split('.').any(at_edge) {
            return fault("labels consist of letters, digits, and hyphens between them");
        }
        Ok(Self { is_wildcard, name })
    }

    /// Whether it means `name`.
    pub fn covers(&self, name: &Name) -> bool {
        if !self.is_wildcard {
            return self.name == *name;
        }
        let below = name.0.strip_suffix(self.name.as_str());
        below.is_some_and(|below| below.len() > 1 && below.ends_with('.'))
    }

    /// How exactly it names hosts.
    pub fn exactness(&self) -> Exactness {
        (Reverse(self.is_wildcard), self.name.labels())
    }

    /// Whether it means a single name.
    pub fn is_exact(&self) -> bool {
        !self.is_wildcard
    }
}

impl TryFrom<String> for Name {
    type Error = HostError;

    fn try_from(text: String) -> Result<Self, HostError> {
        match Host::parse(&text)? {
            Host::Name(name) => Ok(name),
            Host::Address(_) => Err(HostError::new(&text, "it is an address")),
        }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => name.fmt(f),
            Self::Address(address) => address.fmt(f),
        }
    }
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_wildcard { "*." } else { "" })?;
        self.name.fmt(f)
    }
}

#[cfg(test)]
mod tests;
