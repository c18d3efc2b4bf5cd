//! Which user IDs a policy lets containers run as.

use std::ops::RangeInclusive;

/// The user IDs that a policy admits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UserIds {
    /// Every one.
    Any,
    /// Every one but root's.
    NotRoot,
    /// Those in the ranges; a container that names none gets the first of the first.
    Within(Vec<RangeInclusive<i64>>),
}

impl UserIds {
    /// Whether a container may run as `user`.
    pub fn admits(&self, user: i64) -> bool {
        match self {
            Self::Any => true,
            Self::NotRoot => user != 0,
            Self::Within(ranges) => ranges.iter().any(|range| range.contains(&user)),
        }
    }

    /// What a container gets that names no user; nothing where its image decides.
    pub fn given(&self) -> Option<i64> {
        match self {
            Self::Any | Self::NotRoot => None,
            Self::Within(ranges) => ranges
                .iter()
                .find(|range| !range.is_empty())
                .map(|range| *range.start()),
        }
    }

    /// A user ID that is admitted, none of `taken`, and not root's: `wanted` where that will do, else the lowest. The one
    /// that containers are given by default is the last resort, because one that comes later would get it too.
    pub fn pick(&self, wanted: i64, taken: &[i64]) -> Option<i64> {
        let free = |user: &i64| *user > 0 && !taken.contains(user);
        if self.admits(wanted) && free(&wanted) {
            return Some(wanted);
        }
        // Kubernetes takes no greater user ID.
        let from_wanted = [wanted.max(1)..=i64::from(i32::MAX)];
        let ranges = match self {
            Self::Any | Self::NotRoot => from_wanted.as_slice(),
            Self::Within(ranges) => ranges,
        };
        let given = self.given();
        // Each step meets another of `taken`, so this ends soon however wide a range is.
        let mut candidates = ranges.iter().cloned().flatten().filter(free);
        candidates
            .find(|user| Some(*user) != given)
            .or_else(|| given.filter(free))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_gives_its_first_and_picks_it_last() {
        let range = UserIds::Within(vec![1000..=1003]);
        assert_eq!(range.given(), Some(1000));
        assert_eq!(range.pick(2102, &[]), Some(1001));
        assert_eq!(range.pick(2102, &[1000, 1001, 1003]), Some(1002));
        assert_eq!(range.pick(1003, &[1000]), Some(1003));
        assert_eq!(range.pick(1000, &[]), Some(1000));
        assert_eq!(range.pick(2102, &[1001, 1002, 1003]), Some(1000));
        assert_eq!(range.pick(2102, &[1000, 1001, 1002, 1003]), None);
    }

    #[test]
    fn several_ranges_are_one_after_the_other() {
        let ranges = UserIds::Within(vec![5..=5, 9..=9]);
        assert_eq!(ranges.pick(2102, &[5]), Some(9));
        assert!(!ranges.admits(6));
    }

    #[test]
    fn an_empty_range_has_none() {
        #[expect(clippy::reversed_empty_ranges, reason = "what an annotation of size 0 says")]
        let range = UserIds::Within(vec![10..=9]);
        assert_eq!((range.given(), range.pick(10, &[])), (None, None));
    }

    #[test]
    fn root_is_never_picked() {
        assert_eq!(UserIds::Within(vec![0..=0]).pick(0, &[]), None);
        assert_eq!(UserIds::Within(vec![0..=1]).pick(0, &[]), Some(1));
        assert_eq!(UserIds::Any.pick(0, &[]), Some(1));
        assert!(UserIds::Any.admits(0) && !UserIds::NotRoot.admits(0));
    }

    #[test]
    fn without_a_range_the_next_free_one_follows_the_wanted() {
        assert_eq!(UserIds::NotRoot.pick(2102, &[]), Some(2102));
        assert_eq!(UserIds::NotRoot.pick(2102, &[2102, 2103]), Some(2104));
    }
}
