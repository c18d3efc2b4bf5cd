//! In which order constraints are tried: priority, then restrictiveness, then name.

use std::cmp::Reverse;

use super::constraint::{Constraint, SeLinuxStrategy, UserStrategy};

/// Where a constraint stands before its name counts; a lesser one is tried first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank {
    priority: Reverse<i64>,
    points: i32,
}

impl Rank {
    /// The rank of `constraint`, whose object has `priority`. Source of the points: OpenShift's `ByRestrictions`.
    pub(super) fn of(constraint: &Constraint, priority: i64) -> Self {
        let counted = |allowed: bool, points: i32| if allowed { points } else { 0 };
        let points = counted(constraint.privileged, 1_600_000)
            + counted(constraint.host_ports, 800_000)
            + counted(constraint.host_network, 400_000)
            + volumes(constraint)
            + users(&constraint.run_as_user)
            + se_linux(&constraint.se_linux)
            + capabilities(constraint);
        Self {
            priority: Reverse(priority),
            points,
        }
    }

    #[cfg(test)]
    pub(super) fn points(self) -> i32 {
        self.points
    }
}

fn volumes(constraint: &Constraint) -> i32 {
    if constraint.volumes.allow_host_paths() {
        200_000
    } else if constraint.volumes.are_trivial() {
        0
    } else {
        100_000
    }
}

fn users(strategy: &UserStrategy) -> i32 {
    match strategy {
        UserStrategy::Any => 40_000,
        UserStrategy::NotRoot => 30_000,
        UserStrategy::Range(..) => 20_000,
        UserStrategy::One(_) => 10_000,
        UserStrategy::Unknown(_) => 0,
    }
}

fn se_linux(strategy: &SeLinuxStrategy) -> i32 {
    match strategy {
        SeLinuxStrategy::Any => 40_000,
        SeLinuxStrategy::One(_) => 10_000,
        SeLinuxStrategy::Unknown(_) => 0,
    }
}

fn capabilities(constraint: &Constraint) -> i32 {
    let capabilities = &constraint.capabilities;
    let count = |names: &[String]| i32::try_from(names.len()).unwrap_or(i32::MAX);
    let has_all = |names: &[String]| names.iter().any(|name| name.eq_ignore_ascii_case("ALL"));
    let allowed = if capabilities.allowed.iter().any(|name| name == "*") || has_all(&capabilities.allowed) {
        4_000
    } else {
        count(&capabilities.allowed).saturating_mul(10)
    };
    let dropped = if has_all(&capabilities.required_drop) {
        3_000
    } else {
        count(&capabilities.required_drop).saturating_mul(50)
    };
    let added = count(&capabilities.default_add).saturating_mul(300);
    5_000_i32
        .saturating_add(added)
        .saturating_add(allowed)
        .saturating_sub(dropped)
        .clamp(0, 9_999)
}
