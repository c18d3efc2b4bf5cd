//! Ways to inject that a policy takes where it refuses what the values say.

use super::outcome::Draft;
use super::policies::{Judges, Opinion, Opinions, kind};
use super::users::{self, NoUsers};
use crate::config::{Config, Users, Variant};
use crate::inject;
use crate::pod::Pod;
use crate::policy::scc;

/// What may be tried for one pod.
#[derive(Debug)]
pub(super) struct Variants {
    /// Users that OpenShift's constraint admits, where those of the values are not; with the constraint's name.
    users: Option<(String, Result<Users, NoUsers>)>,
}

impl Variants {
    /// Reads what OpenShift lets the pod do, `pod` being the one that its constraints judge.
    pub(super) fn of(judges: &Judges<'_>, pod: &Pod<'_>, config: &Config) -> Self {
        let Some(scc::Review::Admitted(admitted)) = judges.constraint(pod) else {
            return Self { users: None };
        };
        let wanted = Users {
            proxy: inject::proxy_user(config),
            validator: inject::validator_user(config),
        };
        let chosen = users::choose(&admitted.users, wanted, pod);
        // A user that somebody asked for is not overruled.
        let overruled = config.set_by("proxy.uid").is_some() && chosen.is_ok_and(|users| users.proxy != wanted.proxy);
        let differs = chosen != Ok(wanted) && !overruled;
        Self {
            users: differs.then(|| (admitted.constraint.to_owned(), chosen)),
        }
    }

    /// The variants of `plain` that answer to what policies say of it, the smallest change first.
    pub(super) fn to_try(&self, said: &Opinions, plain: Variant) -> Vec<Variant> {
        let denied_by = |by| said.iter().any(|opinion| opinion.by == by && opinion.denies());
        let by_constraints = denied_by(kind::CONSTRAINTS);
        let users = match &self.users {
            Some((_, Ok(users))) if by_constraints && plain.users.is_none() => Some(*users),
            Some(_) | None => None,
        };
        let mut variants = Vec::new();
        let mut add = |without_seccomp, users| {
            variants.push(Variant {
                without_seccomp,
                users,
                ..plain
            });
        };
        if users.is_some() {
            add(false, users);
        }
        if by_constraints || denied_by(kind::POD_SECURITY_POLICY) {
            add(true, plain.users);
            if users.is_some() {
                add(true, users);
            }
        }
        variants
    }

    /// Users of which the proxy's is not `taken`, where the namespace lets the proxy be another.
    pub(super) fn users_beside(&self, taken: i64) -> Option<Users> {
        let (_, users) = self.users.as_ref()?;
        users.ok().filter(|users| users.proxy != taken)
    }

    /// Why no other user helps against what OpenShift says.
    pub(super) fn no_users(&self, opinion: &Opinion) -> Option<String> {
        match &self.users {
            Some((constraint, Err(why))) if opinion.by == kind::CONSTRAINTS => {
                Some(format!("SecurityContextConstraints {constraint}: {why}"))
            }
            Some(_) | None => None,
        }
    }
}

/// Says what is done otherwise than the values say.
pub(super) fn explain(variant: Variant, draft: &mut Draft) {
    if variant.without_seccomp {
        draft.trace.note("without seccompProfile, which a policy refuses");
    }
    if let Some(Users { proxy, validator }) = variant.users {
        draft.trace.note(format_args!(
            "the proxy runs as user {proxy}, linkerd-init or the validator as {validator}: policy and application leave no other"
        ));
    }
}
