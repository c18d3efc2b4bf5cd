//! Asking every policy about every candidate, and taking the best that is admitted.

mod refuse;
mod standing;

use super::fence;
use super::outcome::{Draft, Tailoring};
use super::policies::{Judges, Opinion, Opinions};
use super::ranking::{self, Candidate};
use super::variants::{self, Variants};
use super::{Caution, Coverage, Decision, DenyReason, InjectReason, Inputs, Round, Trace};
use crate::config::{Config, Users, Variant};
use crate::inject::{self, Made, Metadata, Redirection, Shape, ShapeError};
use crate::pod::{Pod, container_name};
use serde_json::Value;
use standing::{Standing, note};
use std::cell::OnceCell;
use std::sync::Arc;

/// One pod's choice.
#[derive(Clone, Copy, Debug)]
pub(super) struct Choice<'a> {
    pub(super) inputs: &'a Inputs<'a>,
    pub(super) made: &'a Arc<Made>,
    pub(super) pod: &'a Pod<'a>,
    /// The redirection that `linkerd.io/setup-iptables` asks for.
    pub(super) asked: Option<Redirection>,
}

/// A candidate with the verdicts on it.
struct Judged<'a> {
    candidate: Candidate,
    shape: Shape<'a>,
    opinions: Opinions,
    /// What policies say of the variant that comes nearest, where every one is denied.
    nearest: Option<Opinions>,
    without_debug: bool,
    variant: Variant,
    /// Whether quotas' demands gave the containers figures.
    filled: bool,
}

/// What came of the candidates that were not taken at once.
#[derive(Default)]
struct Attempts<'a> {
    /// Redirections, each with what stands against it.
    obstacles: Vec<String>,
    /// The best of those that may be taken for want of a better one.
    second_best: Option<Judged<'a>>,
    /// The first name that the pod has and injection needs.
    taken: Option<ShapeError>,
}

impl<'a> Attempts<'a> {
    /// Keeps a candidate that is not admitted, for want of a better one.
    fn put_by(&mut self, judged: Judged<'a>, standing: &Standing<'_>) {
        if !standing.denies(&judged.opinions) || standing.is_refused_anyway() {
            self.second_best.get_or_insert(judged);
        }
    }

    /// The candidate that is taken now that none is admitted.
    fn second_best(&mut self, standing: &Standing<'_>, draft: &mut Draft) -> Option<Judged<'a>> {
        let mut judged = self.second_best.take()?;
        if standing.is_refused_anyway() {
            judged.candidate.reason = InjectReason::RefusedAnyway;
            for obstacle in self.obstacles.drain(..) {
                draft.warn(Caution::NoRedirectionEither, obstacle);
            }
        }
        Some(judged)
    }
}

/// The opinions of every policy on the pod that is not changed, or was not judged with any redirection.
pub(super) fn as_it_came(inputs: &Inputs<'_>, trace: &mut Trace) -> Vec<Opinion> {
    let pod = Pod::new(inputs.pod);
    let judges = Judges::of(inputs, &pod, trace);
    let opinions = match before_webhooks(&judges, inputs) {
        Some(changed) => judges.review(&Pod::new(&changed), None),
        None => judges.review(&pod, None),
    };
    opinions.into_vec()
}

/// The pod that policies judge, where the first round is to come and changes it.
pub(super) fn before_webhooks(judges: &Judges<'_>, inputs: &Inputs<'_>) -> Option<Value> {
    let is_to_come = inputs.facts.round == Round::First;
    is_to_come.then(|| judges.after_first_round(inputs.pod)).flatten()
}

impl<'a> Choice<'a> {
    /// Chooses, and completes `draft`.
    pub(super) fn make(&self, mut draft: Draft, metadata: Metadata) -> Decision {
        let mut standing = self.standing(&mut draft);
        let user = inject::proxy_user(self.config());
        match self.plain(user, &standing) {
            Ok(plain) => standing.plain = plain,
            Err(reason) => {
                draft.policies.extend(standing.before().iter().cloned());
                return draft.deny(reason);
            }
        }
        let user = standing.plain.users.map_or(user, |users| users.proxy);
        let starved = ranking::starved(self.pod, self.config(), user);
        let ranking = ranking::rank(self.asked, self.inputs.facts.coverage, &starved);
        let mut attempts = Attempts::default();
        let best = ranking
            .candidates
            .into_iter()
            .find_map(|candidate| self.attempt(&candidate, &standing, (&mut draft, &mut attempts)));
        attempts.obstacles.extend(ranking.impossible);
        match best.or_else(|| attempts.second_best(&standing, &mut draft)) {
            Some(judged) => self.inject(draft, judged, metadata, &starved),
            None => self.refuse(draft, attempts, &standing),
        }
    }

    /// Tries one candidate; nothing where it is not to be taken before every other was tried.
    fn attempt(
        &self,
        candidate: &Candidate,
        standing: &Standing<'_>,
        (draft, attempts): (&mut Draft, &mut Attempts<'a>),
    ) -> Option<Judged<'a>> {
        let redirection = candidate.redirection;
        match self.judge(candidate, standing) {
            Ok(judged) => {
                let against = standing.against(judged.nearest.as_ref().unwrap_or(&judged.opinions));
                if against.is_empty() {
                    draft
                        .trace
                        .note(format_args!("{redirection}: {}", judged.opinions.say()));
                    return Some(judged);
                }
                for opinion in &against {
                    draft.trace.note(format_args!("{redirection}: {}", opinion.say()));
                }
                let variants = self.variants(standing);
                for opinion in against.into_iter().filter(|opinion| opinion.denies()) {
                    let remedy = variants.no_users(opinion);
                    let remedy = remedy.map(|why| format!("; {why}")).unwrap_or_default();
                    attempts
                        .obstacles
                        .push(format!("{redirection}: {}{remedy}", opinion.say()));
                    draft.policies.push(opinion.clone());
                }
                attempts.put_by(judged, standing);
            }
            Err(error) => {
                draft.trace.note(format_args!("{redirection}: {error}"));
                attempts.obstacles.push(format!("{redirection}: {error}"));
                if matches!(error, ShapeError::NameTaken { .. }) {
                    attempts.taken.get_or_insert(error);
                }
            }
        }
        None
    }

    /// What is asked of policies first, where the proxy would run as `user`; what stands in the way of all.
    fn plain(&self, user: i64, standing: &Standing<'_>) -> Result<Variant, DenyReason> {
        inject::check(self.config()).map_err(|error| DenyReason::Shape(error.to_string()))?;
        Ok(Variant {
            figures: standing.figures(),
            users: self.users_beside_application(user, standing)?,
            ..Variant::default()
        })
    }

    /// Other users than those of the values, where a container of the application is the proxy's: its traffic would go
    /// around the proxy.
    fn users_beside_application(&self, user: i64, standing: &Standing<'_>) -> Result<Option<Users>, DenyReason> {
        let redirected = self.asked != Some(Redirection::None);
        let Some(container) = ranking::container_of_user(self.pod, user).filter(|_| redirected) else {
            return Ok(None);
        };
        let users = self.variants(standing).users_beside(user);
        users.map(Some).ok_or_else(|| DenyReason::UserClash {
            container: container.to_owned(),
            user,
        })
    }

    /// Writes down what the policies ask for, and what they say to the pod as it came.
    fn standing(&self, draft: &mut Draft) -> Standing<'a> {
        let facts = &self.inputs.facts;
        let stale = if facts.stale { " (stale)" } else { "" };
        draft
            .trace
            .note(format_args!("Kubernetes {}{stale}", facts.server.release));
        let judges = Judges::of(self.inputs, self.pod, &mut draft.trace);
        let standing = Standing {
            changed: before_webhooks(&judges, self.inputs),
            judges,
            pod: self.pod,
            before: OnceCell::new(),
            variants: OnceCell::new(),
            plain: Variant::default(),
        };
        if draft.trace.is_kept() {
            note(standing.before(), &mut draft.trace);
        }
        draft.trace.note(facts.coverage);
        for error in &standing.judges.pod_security.policies().errors {
            draft.warn(Caution::InvalidNamespaceLabel, error.to_string());
        }
        let probed = standing.judges.probed.as_ref();
        if let Some(text) = probed.and_then(|probed| probed.contradiction.clone()) {
            draft.warn(Caution::ProbeContradicts, text);
        }
        standing
    }

    /// What may be tried where a policy refuses what the values say.
    fn variants<'s>(&self, standing: &'s Standing<'_>) -> &'s Variants {
        let read = || standing.ask(|judges, pod| Variants::of(judges, pod, self.config()));
        standing.variants.get_or_init(read)
    }

    fn shape(&self, made: &Arc<Made>, redirection: Redirection, with_debug: bool) -> Result<Shape<'a>, ShapeError> {
        let shape = Shape::new(self.inputs.installation, made, self.pod, redirection, with_debug)?;
        shape.check_names(self.pod)?;
        Ok(shape)
    }

    fn config(&self) -> &'a Config {
        self.made.config()
    }

    fn has_debug_container(&self) -> bool {
        self.pod.all_containers().any(|it| container_name(it) == inject::DEBUG)
    }

    /// Judges one candidate: in a variant where policies refuse what the values say, and without the debug container where
    /// only that is refused.
    fn judge(&self, candidate: &Candidate, standing: &Standing<'_>) -> Result<Judged<'a>, ShapeError> {
        let installation = self.inputs.installation;
        let varied = |variant| installation.made(self.made.settings().clone().with_variant(variant));
        let plain = match standing.plain == Variant::default() {
            true => self.judge_shape(candidate, self.made, standing)?,
            false => self.judge_shape(candidate, &varied(standing.plain), standing)?,
        };
        let fits = |judged: &Judged<'_>| standing.against(&judged.opinions).is_empty();
        if fits(&plain) {
            return Ok(plain);
        }
        let mut best = plain;
        for variant in self.variants(standing).to_try(&best.opinions, standing.plain) {
            let judged = self.judge_shape(candidate, &varied(variant), standing)?;
            if fits(&judged) {
                return Ok(judged);
            }
            match (standing.denies(&best.opinions), standing.denies(&judged.opinions)) {
                // What is not known is no reason to keep to what is denied.
                (true, false) => best = judged,
                // What a variant cures stands in nobody's way.
                (true, true) => {
                    let denials = |said| standing.against(said).into_iter().filter(|it| it.denies()).count();
                    if denials(&judged.opinions) <= denials(best.nearest.as_ref().unwrap_or(&best.opinions)) {
                        best.nearest = Some(judged.opinions);
                    }
                }
                (false, _) => {}
            }
        }
        Ok(best)
    }

    fn judge_shape(
        &self,
        candidate: &Candidate,
        made: &Arc<Made>,
        standing: &Standing<'_>,
    ) -> Result<Judged<'a>, ShapeError> {
        let review = |shape: &Shape<'_>| {
            standing.ask(|judges, pod| judges.review(&pod.with(&shape.additions()), Some(shape.redirection)))
        };
        let debug = self.config().debug && !self.has_debug_container();
        let mut shape = self.shape(made, candidate.redirection, debug)?;
        let mut opinions = review(&shape);
        let mut without_debug = false;
        if debug && standing.denies(&opinions) {
            let bare = self.shape(made, candidate.redirection, false)?;
            let bare_opinions = review(&bare);
            if !standing.denies(&bare_opinions) {
                (shape, opinions, without_debug) = (bare, bare_opinions, true);
            }
        }
        shape.node_selector.clone_from(&candidate.node_selector);
        Ok(Judged {
            candidate: candidate.clone(),
            shape,
            opinions,
            nearest: None,
            without_debug,
            variant: made.config().variant,
            filled: made.config().filled,
        })
    }

    fn inject(&self, mut draft: Draft, judged: Judged<'_>, mut metadata: Metadata, starved: &[&str]) -> Decision {
        let Judged {
            candidate:
                Candidate {
                    redirection,
                    reason,
                    node_selector,
                },
            shape,
            opinions,
            nearest: _,
            without_debug,
            variant,
            filled,
        } = judged;
        if filled {
            let text = "a ResourceQuota demands figures of every container: what proxy.resources leaves unset is 100m and \
                        20Mi requested, 1 and 250Mi at most";
            draft.warn(Caution::FiguresFilledIn, text.to_owned());
        }
        if without_debug {
            let text = format!("{} is not added: a policy refuses it", inject::DEBUG);
            draft.warn(Caution::DebugContainerRefused, text);
        }
        if redirection == Redirection::Cni {
            self.warn_of_cni(&mut draft, starved, node_selector.as_ref());
        }
        if redirection == Redirection::None && self.inputs.facts.foreign_plugin {
            let text = "linkerd-cni sets rules whatever linkerd.io/setup-iptables says; outrigger-cni obeys it";
            draft.warn(Caution::PluginIgnoresAnnotation, text.to_owned());
        }
        let user = variant
            .users
            .map_or_else(|| inject::proxy_user(self.config()), |users| users.proxy);
        let foreign = self.inputs.facts.foreign_plugin;
        for text in fence::gaps((self.pod, self.config()), (redirection, foreign), user) {
            draft.warn(Caution::FenceIncomplete, text);
        }
        let wait = self.config().values.proxy.wait_before_exit_seconds;
        if shape.native && wait != 0 {
            draft.warn(
                Caution::NoEffect,
                format!("proxy-wait-before-exit-seconds={wait}: a native sidecar stops last anyway"),
            );
        }
        variants::explain(variant, &mut draft);
        draft.policies = opinions.into_vec();
        metadata.hold_to(node_selector.as_ref());
        draft.tailoring = Tailoring {
            variant,
            node_selector,
            without_debug,
        };
        metadata.vary(variant);
        draft.patch = shape.into_patch(&metadata.with_redirection(redirection), self.inputs.pod, "");
        draft.inject(redirection, reason)
    }

    fn warn_of_cni(&self, draft: &mut Draft, starved: &[&str], node_selector: Option<&(String, String)>) {
        let coverage = self.inputs.facts.coverage;
        match coverage {
            Coverage::NoNodes => draft.warn(Caution::NoNodeForPod, coverage.to_string()),
            Coverage::Unknown { .. } => draft.warn(Caution::CniCoverageUnknown, coverage.to_string()),
            Coverage::Failing { .. } => draft.warn(Caution::CniFailing, coverage.to_string()),
            Coverage::Declared | Coverage::All { .. } | Coverage::Some { .. } | Coverage::None => {}
        }
        if !starved.is_empty() {
            let names = starved.join(", ");
            let text = format!("init containers have no network until the proxy runs: {names}");
            draft.warn(Caution::InitContainersWithoutNetwork, text);
        }
        if let Some((key, value)) = node_selector {
            let text = format!("the pod gets the node selector {key}={value}");
            draft.warn(Caution::HeldToCniNodes, text);
        }
    }
}
