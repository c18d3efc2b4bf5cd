//! Lists of ports and subnets as sets of intervals, and back.

use crate::redirect::rules::Matches;
use crate::redirect::{Family, PortRange};
use ipnet::{IpNet, Ipv4Subnets, Ipv6Subnets};

/// What the elements of a set are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Port,
    Source(Family),
    Destination(Family),
}

impl Key {
    /// The number by which nft knows the type (`enum datatypes` of its sources): it decides only how nft shows the set.
    pub(super) const fn type_number(self) -> u32 {
        match self {
            Self::Port => 13,
            Self::Source(Family::V4) | Self::Destination(Family::V4) => 7,
            Self::Source(Family::V6) | Self::Destination(Family::V6) => 8,
        }
    }

    /// In bytes.
    pub(super) const fn length(self) -> u8 {
        match self {
            Self::Port => 2,
            Self::Source(Family::V4) | Self::Destination(Family::V4) => 4,
            Self::Source(Family::V6) | Self::Destination(Family::V6) => 16,
        }
    }

    fn highest(self) -> u128 {
        match self {
            Self::Port => u16::MAX.into(),
            Self::Source(Family::V4) | Self::Destination(Family::V4) => u32::MAX.into(),
            Self::Source(Family::V6) | Self::Destination(Family::V6) => u128::MAX,
        }
    }
}

/// A value and whether an interval ends before it; else one begins at it.
pub(super) type Element = (u128, bool);

/// What a rule asks of a set: what is looked up, and the elements.
pub(super) fn of(matches: &Matches) -> Option<(Key, Vec<Element>)> {
    let (key, intervals) = if !matches.ports.is_empty() {
        (
            Key::Port,
            matches
                .ports
                .iter()
                .map(|range| (range.first().into(), range.last().into()))
                .collect(),
        )
    } else if let Some(net) = matches.from.first() {
        (Key::Source(family(*net)), matches.from.iter().map(interval).collect())
    } else {
        (
            Key::Destination(family(*matches.to.first()?)),
            matches.to.iter().map(interval).collect(),
        )
    };
    Some((key, elements(intervals, key)))
}

/// The list that a set holds, put where `key` says; `None` where it holds what no list makes.
pub(super) fn fill(matches: &mut Matches, key: Key, mut elements: Vec<Element>) -> Option<()> {
    elements.sort_unstable_by_key(|&(value, ends)| (value, !ends));
    let mut intervals = Vec::new();
    let mut begun = None;
    for (value, ends) in elements {
        match (begun, ends) {
            (None, false) => begun = Some(value),
            (Some(first), true) => {
                intervals.push((first, value.checked_sub(1)?));
                begun = None;
            }
            // nft puts an end before the first interval.
            (None, true) if value == 0 => {}
            (None, true) | (Some(_), false) => return None,
        }
    }
    intervals.extend(begun.map(|first| (first, key.highest())));
    match key {
        Key::Port => matches.ports = intervals.into_iter().map(range).collect::<Option<_>>()?,
        Key::Source(family) => matches.from = nets(intervals, family)?,
        Key::Destination(family) => matches.to = nets(intervals, family)?,
    }
    Some(())
}

fn elements(mut intervals: Vec<(u128, u128)>, key: Key) -> Vec<Element> {
    intervals.sort_unstable();
    let mut merged: Vec<(u128, u128)> = Vec::with_capacity(intervals.len());
    for (first, last) in intervals {
        match merged.last_mut() {
            Some(previous) if first <= previous.1.saturating_add(1) => previous.1 = previous.1.max(last),
            Some(_) | None => merged.push((first, last)),
        }
    }
    let end = |last: u128| (last < key.highest()).then(|| (last + 1, true));
    merged
        .into_iter()
        .flat_map(|(first, last)| [Some((first, false)), end(last)])
        .flatten()
        .collect()
}

const fn family(net: IpNet) -> Family {
    match net {
        IpNet::V4(_) => Family::V4,
        IpNet::V6(_) => Family::V6,
    }
}

fn interval(net: &IpNet) -> (u128, u128) {
    match net {
        IpNet::V4(net) => (net.network().to_bits().into(), net.broadcast().to_bits().into()),
        IpNet::V6(net) => (net.network().to_bits(), net.broadcast().to_bits()),
    }
}

fn range((first, last): (u128, u128)) -> Option<PortRange> {
    PortRange::new(first.try_into().ok()?, last.try_into().ok()?)
}

fn nets(intervals: Vec<(u128, u128)>, family: Family) -> Option<Vec<IpNet>> {
    let mut nets = Vec::new();
    for (first, last) in intervals {
        match family {
            Family::V4 => {
                let ends: (u32, u32) = (first.try_into().ok()?, last.try_into().ok()?);
                nets.extend(Ipv4Subnets::new(ends.0.into(), ends.1.into(), 0).map(IpNet::V4));
            }
            Family::V6 => nets.extend(Ipv6Subnets::new(first.into(), last.into(), 0).map(IpNet::V6)),
        }
    }
    Some(IpNet::aggregate(&nets))
}
