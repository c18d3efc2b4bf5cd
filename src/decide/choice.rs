//! Asking every policy about every candidate, and taking the best that is admitted.

use super::outcome::Draft;
use super::ranking::{self, Candidate};
use super::{Caution, Coverage, Decision, DenyReason, InjectReason, Inputs, Opinion, Refusal, SkipReason, Trace};
use crate::config::Config;
use crate::config::values::OnRefused;
use crate::inject::{self, Made, Metadata, Redirection, Shape, ShapeError, opaque_ports};
use crate::pod::workload::Kind;
use crate::pod::{Pod, container_name};
use crate::policy::Verdict;
use crate::policy::pod_security::{Admission, Exemption, Question, Review};
use std::cell::OnceCell;

/// One pod's choice.
#[derive(Clone, Copy, Debug)]
pub(super) struct Choice<'a> {
    pub(super) inputs: &'a Inputs<'a>,
    pub(super) made: &'a Made,
    pub(super) pod: &'a Pod<'a>,
    /// The redirection that `linkerd.io/setup-iptables` asks for.
    pub(super) asked: Option<Redirection>,
}

/// Pod Security as it stands for the pod.
struct Standing<'a> {
    admission: Admission<'a>,
    pod: &'a Pod<'a>,
    before: OnceCell<Verdict>,
}

impl Standing<'_> {
    /// The verdict on the pod as it came. Mostly a candidate is admitted, and nobody asks.
    fn before(&self) -> &Verdict {
        self.before.get_or_init(|| self.admission.review(self.pod).verdict)
    }
}

/// A candidate with the verdict on it.
struct Judged<'a> {
    candidate: Candidate,
    shape: Shape<'a>,
    opinion: Opinion,
    without_debug: bool,
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
        let denied = matches!(judged.opinion.verdict, Verdict::Denied { .. });
        // What refuses the pod as it came is for the API server to say.
        if !denied || *standing.before() != Verdict::Allowed {
            self.second_best.get_or_insert(judged);
        }
    }

    /// The candidate that is taken now that none is admitted.
    fn second_best(&mut self, standing: &Standing<'_>, draft: &mut Draft) -> Option<Judged<'a>> {
        let mut judged = self.second_best.take()?;
        if *standing.before() != Verdict::Allowed {
            judged.candidate.reason = InjectReason::RefusedAnyway;
            for obstacle in self.obstacles.drain(..) {
                draft.warn(Caution::NoRedirectionEither, obstacle);
            }
        }
        Some(judged)
    }
}

/// Pod Security, as it stands for the pod. What it says beside its verdicts is of interest to readers of the trace alone.
fn admission<'a>(inputs: &Inputs<'a>, trace: &Trace) -> Admission<'a> {
    let Inputs {
        facts,
        namespace,
        requester,
        ..
    } = *inputs;
    let question = Question {
        server: facts.server,
        configuration: facts.pod_security,
        namespace: namespace.name,
        labels: namespace.labels,
        user: requester,
    };
    match trace.is_kept() {
        true => question.admission(),
        false => question.admission().without_remarks(),
    }
}

/// The verdict on a pod that is not changed, or was not judged with any redirection.
pub(super) fn as_it_came(inputs: &Inputs<'_>, trace: &Trace) -> Opinion {
    opinion(admission(inputs, trace).review(&Pod::new(inputs.pod)), None)
}

/// One policy's words on a candidate.
fn opinion(review: Review<'_>, candidate: Option<Redirection>) -> Opinion {
    Opinion {
        by: "pod-security",
        policy: review.policy.to_string(),
        exempt: review.exempt.map(Exemption::name),
        candidate,
        verdict: review.verdict,
        warning: review.warning,
        audit: review.audit,
    }
}

/// A verdict in a word or a sentence.
fn say(verdict: &Verdict) -> &str {
    match verdict {
        Verdict::Allowed => "admitted",
        Verdict::Denied { message } => message,
        Verdict::Unknown { why } => why,
    }
}

impl<'a> Choice<'a> {
    /// Chooses, and completes `draft`.
    pub(super) fn make(&self, mut draft: Draft, metadata: Metadata) -> Decision {
        let standing = self.standing(&mut draft);
        let user = inject::proxy_user(self.config());
        if let Some(fault) = self.fault(user) {
            return draft.deny(fault);
        }
        let starved = ranking::starved(self.pod, self.config(), user);
        let ranking = ranking::rank(self.asked, self.inputs.facts.coverage, &starved);
        let mut attempts = Attempts::default();
        let best = ranking
            .candidates
            .into_iter()
            .find_map(|candidate| self.attempt(candidate, &standing, (&mut draft, &mut attempts)));
        attempts.obstacles.extend(ranking.impossible);
        match best.or_else(|| attempts.second_best(&standing, &mut draft)) {
            Some(judged) => self.inject(draft, judged, metadata, &starved),
            None => self.refuse(draft, attempts, &standing),
        }
    }

    /// Tries one candidate; nothing where it is not to be taken before every other was tried.
    fn attempt(
        &self,
        candidate: Candidate,
        standing: &Standing<'_>,
        (draft, attempts): (&mut Draft, &mut Attempts<'a>),
    ) -> Option<Judged<'a>> {
        let redirection = candidate.redirection;
        match self.judge(candidate, standing) {
            Ok(judged) => {
                let verdict = &judged.opinion.verdict;
                draft.trace.note(format_args!("{redirection}: {}", say(verdict)));
                if *verdict == Verdict::Allowed || verdict == standing.before() {
                    return Some(judged);
                }
                if matches!(verdict, Verdict::Denied { .. }) {
                    attempts.obstacles.push(format!("{redirection}: {}", say(verdict)));
                    draft.policies.push(judged.opinion.clone());
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

    /// What stands in the way of every redirection.
    fn fault(&self, user: i64) -> Option<DenyReason> {
        if let Err(error) = inject::check(self.config()) {
            return Some(DenyReason::Shape(error.to_string()));
        }
        let redirected = self.asked != Some(Redirection::None);
        let container = ranking::container_of_user(self.pod, user).filter(|_| redirected)?;
        Some(DenyReason::UserClash {
            container: container.to_owned(),
            user,
        })
    }

    /// Writes down what Pod Security asks for, and what it says to the pod as it came.
    fn standing(&self, draft: &mut Draft) -> Standing<'a> {
        let facts = &self.inputs.facts;
        let admission = admission(self.inputs, &draft.trace);
        let stale = if facts.stale { " (stale)" } else { "" };
        draft
            .trace
            .note(format_args!("Kubernetes {}{stale}", facts.server.release));
        if draft.trace.is_kept() {
            self.note_review(&admission, &mut draft.trace);
        }
        draft.trace.note(facts.coverage);
        for error in &admission.policies().errors {
            draft.warn(Caution::InvalidNamespaceLabel, error.to_string());
        }
        Standing {
            admission,
            pod: self.pod,
            before: OnceCell::new(),
        }
    }

    /// What Pod Security says to the pod as it came.
    fn note_review(&self, admission: &Admission<'_>, trace: &mut Trace) {
        let review = admission.review(self.pod);
        match review.exempt {
            Some(exempt) => trace.note(format_args!(
                "pod-security enforces {}, from which the {} is exempt",
                review.policy,
                exempt.name()
            )),
            None => trace.note(format_args!("pod-security enforces {}", review.policy)),
        }
        if let Verdict::Denied { message } = &review.verdict {
            trace.note(format_args!("pod-security refuses the pod as it came: {message}"));
        }
    }

    fn shape(&self, redirection: Redirection, with_debug: bool) -> Result<Shape<'a>, ShapeError> {
        let shape = Shape::new(self.inputs.installation, self.made, self.pod, redirection, with_debug)?;
        shape.check_names(self.pod)?;
        Ok(shape)
    }

    fn config(&self) -> &'a Config {
        self.made.config()
    }

    fn has_debug_container(&self) -> bool {
        self.pod.all_containers().any(|it| container_name(it) == inject::DEBUG)
    }

    /// Judges one candidate, without the debug container where only that is refused.
    fn judge(&self, candidate: Candidate, standing: &Standing<'_>) -> Result<Judged<'a>, ShapeError> {
        let admission = &standing.admission;
        let debug = self.config().debug && !self.has_debug_container();
        let review = |shape: &Shape<'_>| {
            opinion(
                admission.review(&self.pod.with(&shape.additions())),
                Some(shape.redirection),
            )
        };
        let mut shape = self.shape(candidate.redirection, debug)?;
        let mut opinion = review(&shape);
        let mut without_debug = false;
        if debug && matches!(opinion.verdict, Verdict::Denied { .. }) && opinion.verdict != *standing.before() {
            let bare = self.shape(candidate.redirection, false)?;
            let bare_opinion = review(&bare);
            if bare_opinion.verdict == Verdict::Allowed || bare_opinion.verdict == *standing.before() {
                (shape, opinion, without_debug) = (bare, bare_opinion, true);
            }
        }
        shape.node_selector.clone_from(&candidate.node_selector);
        Ok(Judged {
            candidate,
            shape,
            opinion,
            without_debug,
        })
    }

    fn inject(&self, mut draft: Draft, judged: Judged<'_>, metadata: Metadata, starved: &[&str]) -> Decision {
        let Judged {
            candidate:
                Candidate {
                    redirection,
                    reason,
                    node_selector,
                },
            shape,
            opinion,
            without_debug,
        } = judged;
        if without_debug {
            let text = format!("{} is not added: pod-security refuses it", inject::DEBUG);
            draft.warn(Caution::DebugContainerRefused, text);
        }
        if redirection == Redirection::Cni {
            self.warn_of_cni(&mut draft, starved, node_selector);
        }
        if redirection == Redirection::None && self.inputs.facts.foreign_plugin {
            let text = "linkerd-cni sets rules whatever linkerd.io/setup-iptables says; outrigger-cni obeys it";
            draft.warn(Caution::PluginIgnoresAnnotation, text.to_owned());
        }
        let wait = self.config().values.proxy.wait_before_exit_seconds;
        if shape.native && wait != 0 {
            draft.warn(
                Caution::NoEffect,
                format!("proxy-wait-before-exit-seconds={wait}: a native sidecar stops last anyway"),
            );
        }
        draft.policies.clear();
        draft.policies.push(opinion);
        draft.patch = shape.into_patch(&metadata.with_redirection(redirection), self.inputs.pod, "");
        draft.inject(redirection, reason)
    }

    fn warn_of_cni(&self, draft: &mut Draft, starved: &[&str], node_selector: Option<(String, String)>) {
        let coverage = self.inputs.facts.coverage;
        match coverage {
            Coverage::NoNodes => draft.warn(Caution::NoNodeForPod, coverage.to_string()),
            Coverage::Unknown { .. } => draft.warn(Caution::CniCoverageUnknown, coverage.to_string()),
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

    /// Completes a draft for which no candidate is left.
    fn refuse(&self, mut draft: Draft, attempts: Attempts<'_>, standing: &Standing<'_>) -> Decision {
        if let Some(error) = attempts.taken {
            return draft.deny(DenyReason::NameTaken(error.to_string()));
        }
        let admission = &standing.admission;
        let obstacle = (!draft.policies.is_empty()).then(|| self.obstacle(admission));
        let refusal = Refusal::new(attempts.obstacles, obstacle, self.asked);
        if self.config().values.outrigger.on_refused == OnRefused::Deny {
            return draft.deny(DenyReason::NoRedirection(refusal));
        }
        for text in refusal.attempts.into_iter().chain(refusal.obstacle) {
            draft.warn(Caution::NotMeshed, text);
        }
        draft.policies.push(opinion(admission.review(self.pod), None));
        let default = &self.inputs.installation.values.proxy.opaque_ports;
        let namespace = self.inputs.namespace.annotations;
        draft.patch = opaque_ports::patch(Kind::Pod, self.inputs.pod, namespace, default);
        draft.skip(SkipReason::NoRedirectionAdmitted)
    }

    /// The setting that Pod Security goes by.
    fn obstacle(&self, admission: &Admission<'_>) -> String {
        const ENFORCE: &str = "pod-security.kubernetes.io/enforce";
        let name = self.inputs.namespace.name;
        let labels = self.inputs.namespace.labels;
        match labels.and_then(|labels| labels.get(ENFORCE)?.as_str()) {
            Some(level) => format!("namespace {name} has {ENFORCE}={level}"),
            None => format!(
                "the cluster's default for namespace {name} is {}",
                admission.policies().enforce
            ),
        }
    }
}
