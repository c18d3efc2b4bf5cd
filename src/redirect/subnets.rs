//! Subnets and lists of subnets, as annotations and flags write them: `10.0.0.0/8, fd00::/8`.
//!
//! The one parser for the webhook, `proxy-init` and the CNI plugin. As in Linkerd, blanks around an entry and host bits
//! are tolerated, and an entry that is no subnet is an error; unlike there, a list may mix both families.

use ipnet::IpNet;
use std::fmt;
use std::str::FromStr;

/// An address family that rules are written for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        })
    }
}

/// A subnet, and the text it was given as.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Subnet {
    net: IpNet,
    given: String,
}

impl Subnet {
    /// The subnet without host bits.
    pub const fn net(&self) -> IpNet {
        self.net
    }

    /// The text that was read, without the blanks around it; the rules' comments show it.
    pub fn given(&self) -> &str {
        &self.given
    }

    /// The family of its addresses.
    pub const fn family(&self) -> Family {
        match self.net {
            IpNet::V4(_) => Family::V4,
            IpNet::V6(_) => Family::V6,
        }
    }
}

impl fmt::Display for Subnet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.given)
    }
}

impl FromStr for Subnet {
    type Err = SubnetError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let given = text.trim();
        let net: IpNet = given
            .parse()
            .map_err(|_source| SubnetError { entry: text.to_owned() })?;
        Ok(Self {
            net: net.trunc(),
            given: given.to_owned(),
        })
    }
}

/// An entry of a list of subnets that is no subnet.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{entry:?} is no subnet; expected an address and a prefix length, as in 10.0.0.0/8 or fd00::/8")]
pub struct SubnetError {
    entry: String,
}

impl SubnetError {
    /// The entry as it was written.
    pub fn entry(&self) -> &str {
        &self.entry
    }
}

/// Subnets of both families, in the order given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SubnetList(Vec<Subnet>);

impl SubnetList {
    /// Reads a comma-separated list; the empty text is the empty list.
    ///
    /// # Errors
    /// At the first entry that is no subnet.
    pub fn parse(text: &str) -> Result<Self, SubnetError> {
        Self::read(text.split(','))
    }

    /// Reads a list that is already split; no entry, or one empty entry, is the empty list.
    ///
    /// # Errors
    /// At the first entry that is no subnet.
    pub fn read<'a>(entries: impl IntoIterator<Item = &'a str>) -> Result<Self, SubnetError> {
        let entries: Vec<&str> = entries.into_iter().collect();
        if entries == [""] {
            return Ok(Self::default());
        }
        entries.into_iter().map(str::parse).collect::<Result<_, _>>().map(Self)
    }

    /// Whether it holds no subnet.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Every subnet, in the order given.
    pub fn iter(&self) -> impl Iterator<Item = &Subnet> {
        self.0.iter()
    }

    /// The subnets of one family, in the order given.
    pub fn of(&self, family: Family) -> impl Iterator<Item = &Subnet> {
        self.0.iter().filter(move |subnet| subnet.family() == family)
    }

    /// Adds `more` behind what is there.
    pub fn extend(&mut self, more: Self) {
        self.0.extend(more.0);
    }
}

impl fmt::Display for SubnetList {
    /// Writes the form that [`SubnetList::parse`] reads back.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, subnet) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str(",")?;
            }
            subnet.fmt(f)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn host_bits_and_blanks_are_tolerated() {
        let list = SubnetList::parse("1.1.1.1/24 , fd00::1/8").unwrap();
        let nets: Vec<String> = list.iter().map(|subnet| subnet.net().to_string()).collect();
        assert_eq!(nets, ["1.1.1.0/24", "fd00::/8"]);
        assert_eq!(list.to_string(), "1.1.1.1/24,fd00::1/8");
    }

    #[test]
    fn families_are_told_apart() {
        let list = SubnetList::parse("10.1.0.0/16,fd00::/8,0.0.0.0/0,::/0").unwrap();
        let of = |family| list.of(family).map(Subnet::given).collect::<Vec<_>>();
        assert_eq!(of(Family::V4), ["10.1.0.0/16", "0.0.0.0/0"]);
        assert_eq!(of(Family::V6), ["fd00::/8", "::/0"]);
    }

    #[test]
    fn what_is_no_subnet_is_named() {
        for text in [
            "10.0.0.0",
            "10.0.0.0/33",
            "fd00::/129",
            "10.0.0/8",
            "web",
            "10.0.0.0/8,",
            "10.0.0.0/-1",
            "/8",
        ] {
            let error = SubnetList::parse(text).unwrap_err();
            assert!(
                error.to_string().starts_with(&format!("{:?}", error.entry())),
                "{error}"
            );
            assert!(text.split(',').any(|entry| entry == error.entry()), "{error}");
        }
        assert!(SubnetList::parse("").unwrap().is_empty());
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(nets in prop::collection::vec((any::<u32>(), 0_u8..=32, any::<u128>(), 0_u8..=128), 1..9)) {
            let text: Vec<String> = nets
                .iter()
                .flat_map(|&(v4, p4, v6, p6)| {
                    [format!("{}/{p4}", std::net::Ipv4Addr::from(v4)), format!("{}/{p6}", std::net::Ipv6Addr::from(v6))]
                })
                .collect();
            let list = SubnetList::parse(&text.join(" , ")).unwrap();
            prop_assert_eq!(SubnetList::parse(&list.to_string()).unwrap(), list);
        }
    }
}
