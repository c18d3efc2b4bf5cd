//! Asking every policy about every candidate, and taking the best that is admitted.

use super::ranking::{self, Candidate};
use super::{Caution, Coverage, Decision, DenyReason, InjectReason, Inputs, Opinion, Outcome, Refusal, SkipReason};
use crate::config::Config;
use crate::config::values::OnRefused;
use crate::inject::{self, Metadata, Prepared, Redirection, Shape, ShapeError, opaque_ports};
use crate::pod::workload::Kind;
use crate::pod::{Pod, container_name};
use crate::policy::Verdict;
use crate::policy::pod_security::{Admission, Exemption, Question, Review};

/// One pod's choice.
#[derive(Clone, Copy, Debug)]
pub(super) struct Choice<'a> {
    pub(super) inputs: &'a Inputs<'a>,
    pub(super) installation: &'a Prepared,
    pub(super) config: &'a Config,
    pub(super) pod: &'a Pod<'a>,
}

/// Pod Security as it stands for the pod, and its verdict on the pod as it came.
struct Standing<'a> {
    admission: Admission<'a>,
    before: Verdict,
}

/// A candidate with the verdict on it.
struct Judged<'a> {
    candidate: Candidate,
    shape: Shape<'a>,
    opinion: Opinion,
    without_debug: bool,
}

/// Pod Security, as it stands for the pod.
fn admission<'a>(inputs: &Inputs<'a>) -> Admission<'a> {
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
    question.admission()
}

/// The verdict on a pod that is not changed, or was not judged with any redirection.
pub(super) fn as_it_came(inputs: &Inputs<'_>) -> Opinion {
    opinion(admission(inputs).review(&Pod::new(inputs.pod)), None)
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
    /// Chooses, and completes `decision`.
    pub(super) fn make(&self, mut decision: Decision, asked: Option<Redirection>, metadata: Metadata) -> Decision {
        let Standing { admission, before } = self.standing(&mut decision);
        if let Err(error) = inject::check(self.config) {
            return decision.deny(DenyReason::Shape(error.to_string()));
        }
        let user = inject::proxy_user(self.config);
        let redirected = asked != Some(Redirection::None);
        if let Some(container) = ranking::container_of_user(self.pod, user).filter(|_| redirected) {
            return decision.deny(DenyReason::UserClash {
                container: container.to_owned(),
                user,
            });
        }
        let starved = ranking::starved(self.pod, self.config, user);
        let ranking = ranking::rank(asked, self.inputs.facts.coverage, &starved);
        let mut attempts = Vec::new();
        let (mut second_best, mut taken) = (None, None);
        for candidate in ranking.candidates {
            let redirection = candidate.redirection;
            let judged = self.judge(candidate, &admission, &before);
            let said = judged
                .as_ref()
                .map_or_else(ToString::to_string, |judged| say(&judged.opinion.verdict).to_owned());
            let attempt = format!("{redirection}: {said}");
            decision.trace.push(attempt.clone());
            match judged {
                Ok(judged) if judged.opinion.verdict == Verdict::Allowed || judged.opinion.verdict == before => {
                    return self.inject(decision, judged, metadata, &starved);
                }
                Ok(judged) => {
                    let denied = matches!(judged.opinion.verdict, Verdict::Denied { .. });
                    if denied {
                        attempts.push(attempt);
                        decision.policies.push(judged.opinion.clone());
                    }
                    // What refuses the pod as it came is for the API server to say.
                    if !denied || before != Verdict::Allowed {
                        second_best.get_or_insert(judged);
                    }
                }
                Err(error) => {
                    attempts.push(attempt);
                    if matches!(error, ShapeError::NameTaken { .. }) {
                        taken.get_or_insert(said);
                    }
                }
            }
        }
        if let Some(mut judged) = second_best {
            if before != Verdict::Allowed {
                judged.candidate.reason = InjectReason::RefusedAnyway;
                for attempt in attempts.iter().chain(&ranking.impossible) {
                    decision.warn(Caution::NoRedirectionEither, attempt.clone());
                }
            }
            return self.inject(decision, judged, metadata, &starved);
        }
        if let Some(error) = taken {
            return decision.deny(DenyReason::NameTaken(error));
        }
        attempts.extend(ranking.impossible);
        let obstacle = (!decision.policies.is_empty()).then(|| self.obstacle(&admission));
        self.refuse(decision, Refusal::new(attempts, obstacle, asked), &admission)
    }

    /// Writes down what Pod Security asks for, and its verdict on the pod as it came.
    fn standing(&self, decision: &mut Decision) -> Standing<'_> {
        let facts = &self.inputs.facts;
        let admission = admission(self.inputs);
        let review = admission.review(self.pod);
        let trace = &mut decision.trace;
        trace.push(format!(
            "Kubernetes {}{}",
            facts.server.release,
            if facts.stale { " (stale)" } else { "" }
        ));
        trace.push(match review.exempt {
            Some(exempt) => format!(
                "pod-security enforces {}, from which the {} is exempt",
                review.policy,
                exempt.name()
            ),
            None => format!("pod-security enforces {}", review.policy),
        });
        if let Verdict::Denied { message } = &review.verdict {
            trace.push(format!("pod-security refuses the pod as it came: {message}"));
        }
        trace.push(facts.coverage.to_string());
        for error in review.label_errors {
            decision.warn(Caution::InvalidNamespaceLabel, error.to_string());
        }
        let before = review.verdict;
        Standing { admission, before }
    }

    fn shape(&self, redirection: Redirection, with_debug: bool) -> Result<Shape<'a>, ShapeError> {
        let shape = Shape::new(self.installation, self.config, self.pod, redirection, with_debug)?;
        shape.check_names(self.pod)?;
        Ok(shape)
    }

    fn has_debug_container(&self) -> bool {
        self.pod.all_containers().any(|it| container_name(it) == inject::DEBUG)
    }

    /// Judges one candidate, without the debug container where only that is refused.
    fn judge(
        &self,
        candidate: Candidate,
        admission: &Admission<'_>,
        before: &Verdict,
    ) -> Result<Judged<'a>, ShapeError> {
        let debug = self.config.debug && !self.has_debug_container();
        let review = |shape: &Shape<'_>| {
            opinion(
                admission.review(&self.pod.with(&shape.additions())),
                Some(shape.redirection),
            )
        };
        let mut shape = self.shape(candidate.redirection, debug)?;
        let mut opinion = review(&shape);
        let mut without_debug = false;
        if debug && matches!(opinion.verdict, Verdict::Denied { .. }) && opinion.verdict != *before {
            let bare = self.shape(candidate.redirection, false)?;
            let bare_opinion = review(&bare);
            if bare_opinion.verdict == Verdict::Allowed || bare_opinion.verdict == *before {
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

    fn inject(&self, mut decision: Decision, judged: Judged<'_>, metadata: Metadata, starved: &[&str]) -> Decision {
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
            decision.warn(Caution::DebugContainerRefused, text);
        }
        if redirection == Redirection::Cni {
            self.warn_of_cni(&mut decision, starved, node_selector);
        }
        if redirection == Redirection::None && self.inputs.facts.foreign_plugin {
            let text = "linkerd-cni sets rules whatever linkerd.io/setup-iptables says; outrigger-cni obeys it";
            decision.warn(Caution::PluginIgnoresAnnotation, text.to_owned());
        }
        let wait = self.config.values.proxy.wait_before_exit_seconds;
        if shape.native && wait != 0 {
            decision.warn(
                Caution::NoEffect,
                format!("proxy-wait-before-exit-seconds={wait}: a native sidecar stops last anyway"),
            );
        }
        decision.trace.push(format!("chosen: {redirection}, as {reason}"));
        decision.policies.clear();
        decision.policies.push(opinion);
        decision.patch = shape.into_patch(&metadata.with_redirection(redirection), self.inputs.pod, "");
        decision.outcome = Outcome::Inject { redirection, reason };
        decision
    }

    fn warn_of_cni(&self, decision: &mut Decision, starved: &[&str], node_selector: Option<(String, String)>) {
        let coverage = self.inputs.facts.coverage;
        match coverage {
            Coverage::NoNodes => decision.warn(Caution::NoNodeForPod, coverage.to_string()),
            Coverage::Unknown { .. } => decision.warn(Caution::CniCoverageUnknown, coverage.to_string()),
            Coverage::Declared | Coverage::All { .. } | Coverage::Some { .. } | Coverage::None => {}
        }
        if !starved.is_empty() {
            let names = starved.join(", ");
            let text = format!("init containers have no network until the proxy runs: {names}");
            decision.warn(Caution::InitContainersWithoutNetwork, text);
        }
        if let Some((key, value)) = node_selector {
            let text = format!("the pod gets the node selector {key}={value}");
            decision.warn(Caution::HeldToCniNodes, text);
        }
    }

    fn refuse(&self, mut decision: Decision, refusal: Refusal, admission: &Admission<'_>) -> Decision {
        if self.config.values.outrigger.on_refused == OnRefused::Deny {
            return decision.deny(DenyReason::NoRedirection(refusal));
        }
        for text in refusal.attempts.into_iter().chain(refusal.obstacle) {
            decision.warn(Caution::NotMeshed, text);
        }
        decision.policies.push(opinion(admission.review(self.pod), None));
        let default = &self.installation.values.proxy.opaque_ports;
        let namespace = self.inputs.namespace.annotations;
        decision.patch = opaque_ports::patch(Kind::Pod, self.inputs.pod, namespace, default);
        decision.skip(vec![SkipReason::NoRedirectionAdmitted])
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
