//! Compiles policies anew where their objects have changed, and shares the others.

use super::Freshness;
use super::sources::{Hearing, Sources};
use crate::policy::installed::{
    Installed, LimitsByNamespace, Presence, Source, WITHOUT_POD_SECURITY_POLICIES, WithGrants,
};
use crate::policy::pod_security_policy::Policies;
use crate::policy::scc::Constraints;
use crate::policy::{Binding, Release, Role};
use std::sync::Arc;

/// What is between `NAMESPACE` and `NAME`.
const SLASH: char = '/';

/// What was compiled last.
#[derive(Debug, Default)]
pub(in crate::cluster) struct Compiler {
    pod_security_policies: Part<WithGrants<Policies>>,
    constraints: Part<WithGrants<Constraints>>,
    limits: Part<LimitsByNamespace>,
}

/// A part, with the sum of the generations that it was compiled from: none of them ever goes back.
#[derive(Debug)]
struct Part<P>(Option<(u64, Arc<P>)>);

/// Who may use policies.
const GRANTS: [Source; 4] = [
    Source::Role,
    Source::ClusterRole,
    Source::RoleBinding,
    Source::ClusterRoleBinding,
];

impl Compiler {
    /// The policies that `sources` make, judged by a server of `release` where it has told.
    pub(in crate::cluster) fn compile(&mut self, sources: &Sources, release: Option<Release>) -> Installed {
        let gone = release.is_some_and(|release| release >= WITHOUT_POD_SECURITY_POLICIES);
        let served = match gone {
            true => Some(false),
            false => sources.served.pod_security_policies,
        };
        let (roles, bindings) = (|| roles(sources), || bindings(sources));
        let pod_security_policies = with_grants(sources, Source::PodSecurityPolicy, served, |hearings| {
            self.pod_security_policies.of(hearings, || {
                WithGrants::of_pod_security_policies(sources.pod_security_policies.iter(), roles(), bindings())
            })
        });
        let served = sources.served.constraints;
        let constraints = with_grants(sources, Source::Constraint, served, |hearings| {
            self.constraints.of(hearings, || {
                WithGrants::of_constraints(sources.constraints.iter(), roles(), bindings())
            })
        });
        let hearings = [Source::LimitRange, Source::ResourceQuota].map(|source| sources.hearing(source));
        let limits = presence(&hearings, None, || {
            self.limits.of(&hearings, || {
                let all = sources.limit_ranges.named().chain(sources.quotas.named());
                LimitsByNamespace::join(all.filter_map(|(key, limits)| Some((key.split_once(SLASH)?.0, limits))))
            })
        });
        Installed {
            pod_security_policies,
            constraints,
            limits,
        }
    }
}

fn roles(sources: &Sources) -> impl Iterator<Item = &Role> {
    sources.roles.iter().chain(sources.cluster_roles.iter())
}

fn bindings(sources: &Sources) -> impl Iterator<Item = &Binding> {
    sources.role_bindings.iter().chain(sources.cluster_role_bindings.iter())
}

/// What is known of policies that need a grant; `served` says whether the server has any.
fn with_grants<P>(
    sources: &Sources,
    source: Source,
    served: Option<bool>,
    compile: impl FnOnce(&[Hearing]) -> Arc<P>,
) -> Presence<P> {
    let trouble = sources.served.trouble.clone();
    match (served, trouble) {
        (None, Some(why)) => return Presence::Unknown { why },
        (None, None) => return Presence::unheard(),
        (Some(false), _) => return Presence::Absent,
        (Some(true), _) => {}
    }
    let own = sources.hearing(source);
    // Without policies it does not matter who may use them.
    if own.objects() == 0 && matches!(own.freshness, Freshness::Current | Freshness::Stale) {
        return Presence::Absent;
    }
    let hearings: Vec<_> = [own]
        .into_iter()
        .chain(GRANTS.map(|source| sources.hearing(source)))
        .collect();
    presence(&hearings, sources.served.trouble.clone(), || compile(&hearings))
}

/// What is known of a policy that is compiled from several resources.
fn presence<P>(hearings: &[Hearing], trouble: Option<Arc<str>>, compile: impl FnOnce() -> Arc<P>) -> Presence<P> {
    let of = |freshness| hearings.iter().find(move |hearing| hearing.freshness == freshness);
    if let Some(hearing) = of(Freshness::Unavailable) {
        return Presence::Unknown { why: hearing.why() };
    }
    if of(Freshness::Pending).is_some() {
        return Presence::unheard();
    }
    Presence::Present {
        policies: compile(),
        stale: of(Freshness::Stale).map(Hearing::why).or(trouble),
    }
}

impl Hearing {
    fn why(&self) -> Arc<str> {
        let trouble = self.trouble.as_deref().unwrap_or_default();
        format!("{}: {trouble}", self.source.resource()).into()
    }
}

impl<P> Default for Part<P> {
    fn default() -> Self {
        Self(None)
    }
}

impl<P> Part<P> {
    /// The part for what is known now.
    fn of(&mut self, hearings: &[Hearing], compile: impl FnOnce() -> P) -> Arc<P> {
        let generation = hearings.iter().map(|hearing| hearing.generation).sum();
        match &self.0 {
            Some((known, compiled)) if *known == generation => Arc::clone(compiled),
            _ => {
                let compiled = Arc::new(compile());
                self.0 = Some((generation, Arc::clone(&compiled)));
                compiled
            }
        }
    }
}

#[cfg(test)]
mod tests;
