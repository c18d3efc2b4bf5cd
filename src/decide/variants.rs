//! Ways to inject that a policy takes where it refuses what the values say.

use super::outcome::Draft;
use super::policies::{Judges, Opinion, Opinions, kind};
use super::users::{self, NoUsers};
use crate::config::{Config, Figures, Users, Variant};
use crate::inject;
use crate::pod::Pod;
use crate::policy::scc;

/// What may be tried for one pod.
#[derive(Debug)]
pub(super) struct Variants {
    /// Users that OpenShift's constraint admits, where those of the values are not; with the constraint's name.
    users: Option<(String, Result<Users, NoUsers>)>,
    /// In every one of them, and in the plain candidate.
    pub(super) figures: Figures,
}

impl Variants {
    /// Reads what OpenShift lets the pod do, `pod` being the one that its constraints judge.
    pub(super) fn of(judges: &Judges<'_>, pod: &Pod<'_>, config: &Config) -> Self {
        let figures = judges.demanded(pod);
        let Some(scc::Review::Admitted(admitted)) = judges.constraint(pod) else {
            return Self { users: None, figures };
        };
        let wanted = Users {
            proxy: inject::proxy_user(config),
            validator: inject::validator_user(config),
        };
        // A user that somebody asked for is not overruled.
        if config.set_by("proxy.uid").is_some() && !admitted.users.admits(wanted.proxy) {
            return Self { users: None, figures };
        }
        let chosen = users::choose(&admitted.users, wanted, pod);
        let differs = chosen != Ok(wanted);
        Self {
            users: differs.then(|| (admitted.constraint.to_owned(), chosen)),
            figures,
        }
    }

    /// The variants that answer to what policies say of the plain candidate, the smallest change first.
    pub(super) fn to_try(&self, said: &Opinions) -> Vec<Variant> {
        let denied_by = |by| said.iter().any(|opinion| opinion.by == by && opinion.denies());
        let by_constraints = denied_by(kind::CONSTRAINTS);
        let users = match &self.users {
            Some((_, Ok(users))) if by_constraints => Some(*users),
            Some(_) | None => None,
        };
        let mut variants = Vec::new();
        let mut add = |without_seccomp, users| {
            variants.push(Variant {
                without_seccomp,
                users,
                figures: self.figures,
            });
        };
        if users.is_some() {
            add(false, users);
        }
        if by_constraints || denied_by(kind::POD_SECURITY_POLICY) {
            add(true, None);
            if users.is_some() {
                add(true, users);
            }
        }
        variants
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
            "the proxy runs as user {proxy}, linkerd-init or the validator as {validator}: the policy admits no other"
        ));
    }
}
