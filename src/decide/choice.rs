//! Asking every policy about every candidate, and taking the best that is admitted.

use super::ranking::{self, Candidate};
use super::{Coverage, Decision, DenyReason, Inputs, Opinion, Outcome, SkipReason};
use crate::config::Config;
use crate::config::values::OnRefused;
use crate::inject::{self, Metadata, Prepared, Redirection, Shape, ShapeError, opaque_ports};
use crate::pod::Pod;
use crate::pod::workload::Kind;
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
struct Facts<'a> {
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
        let Facts { admission, before } = self.facts(&mut decision);
        if let Err(error) = inject::check(self.config) {
            return decision.deny(DenyReason::Shape(error.to_string()));
        }
        let user = inject::proxy_user(self.config);
        if let Some(container) = ranking::container_of_user(self.pod, user) {
            return decision.deny(DenyReason::UserClash {
                container: container.to_owned(),
                user,
            });
        }
        let starved = ranking::starved(self.pod, self.config, user);
        let ranking = ranking::rank(asked, self.inputs.facts.coverage, &starved);
        let mut attempts = Vec::new();
        let mut second_best = None;
        for candidate in ranking.candidates {
            let judged = match self.judge(candidate.clone(), &admission, &before) {
                Ok(judged) => judged,
                Err(error) => {
                    decision.trace.push(format!("{}: {error}", candidate.redirection));
                    attempts.push(format!("{}: {error}", candidate.redirection));
                    continue;
                }
            };
            decision
                .trace
                .push(format!("{}: {}", candidate.redirection, say(&judged.opinion.verdict)));
            match &judged.opinion.verdict {
                Verdict::Allowed => return self.inject(decision, judged, metadata, &starved),
                verdict if *verdict == before => return self.inject(decision, judged, metadata, &starved),
                Verdict::Denied { message } => {
                    attempts.push(format!("{}: {message}", candidate.redirection));
                    decision.policies.push(judged.opinion.clone());
                    // What refuses the pod as it came is for the API server to say.
                    if before != Verdict::Allowed {
                        second_best.get_or_insert(judged);
                    }
                }
                Verdict::Unknown { .. } => second_best = second_best.or(Some(judged)),
            }
        }
        if let Some(judged) = second_best {
            decision.policies.clear();
            return self.inject(decision, judged, metadata, &starved);
        }
        attempts.extend(ranking.impossible);
        self.refuse(decision, attempts, &admission)
    }

    /// Writes down what Pod Security asks for, and its verdict on the pod as it came.
    fn facts(&self, decision: &mut Decision) -> Facts<'_> {
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
        trace.extend(review.label_errors.iter().map(|error| format!("pod-security: {error}")));
        if let Some(warning) = &review.warning {
            trace.push(format!("pod-security warns of the pod as it came: {warning}"));
        }
        if let Verdict::Denied { message } = &review.verdict {
            trace.push(format!("pod-security refuses the pod as it came: {message}"));
        }
        trace.push(facts.coverage.to_string());
        let before = review.verdict;
        Facts { admission, before }
    }

    fn shape(&self, redirection: Redirection, with_debug: bool) -> Result<Shape<'a>, ShapeError> {
        Shape::new(self.installation, self.config, self.pod, redirection, with_debug)
    }

    /// Judges one candidate, without the debug container where only that is refused.
    fn judge(
        &self,
        candidate: Candidate,
        admission: &Admission<'_>,
        before: &Verdict,
    ) -> Result<Judged<'a>, ShapeError> {
        let debug = self.config.debug;
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
            decision.warn("debug_container_refused", text);
        }
        if redirection == Redirection::Cni {
            if *self.inputs.facts.coverage == Coverage::NoNodes {
                decision.warn("no_node_for_pod", self.inputs.facts.coverage.to_string());
            }
            if !starved.is_empty() {
                let text = format!(
                    "init containers have no network until the proxy runs: {}",
                    starved.join(", ")
                );
                decision.warn("init_containers_without_network", text);
            }
            if let Some((key, value)) = node_selector {
                decision.warn(
                    "held_to_cni_nodes",
                    format!("the pod gets the node selector {key}={value}"),
                );
            }
        }
        if redirection == Redirection::None && self.inputs.facts.foreign_plugin {
            let text = "linkerd-cni sets rules whatever linkerd.io/setup-iptables says; outrigger-cni obeys it";
            decision.warn("plugin_ignores_annotation", text.to_owned());
        }
        let wait = self.config.values.proxy.wait_before_exit_seconds;
        if shape.native && wait != 0 {
            decision.warn(
                "no_effect",
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

    fn refuse(&self, mut decision: Decision, attempts: Vec<String>, admission: &Admission<'_>) -> Decision {
        let reason = DenyReason::NoRedirection {
            attempts,
            ways_out: self.ways_out(admission),
        };
        if self.config.values.outrigger.on_refused == OnRefused::Deny {
            return decision.deny(reason);
        }
        decision.warn("not_meshed", reason.to_string());
        let default = &self.installation.values.proxy.opaque_ports;
        let namespace = self.inputs.namespace.annotations;
        decision.patch = opaque_ports::patch(Kind::Pod, self.inputs.pod, namespace, default);
        decision.skip(vec![SkipReason::NoRedirectionAdmitted])
    }

    /// What somebody could do, and which label stands in the way.
    fn ways_out(&self, admission: &Admission<'_>) -> String {
        const ENFORCE: &str = "pod-security.kubernetes.io/enforce";
        let name = self.inputs.namespace.name;
        let label = self
            .inputs
            .namespace
            .labels
            .and_then(|labels| labels.get(ENFORCE))
            .and_then(|it| it.as_str());
        let label = match label {
            Some(level) => format!("namespace {name} has {ENFORCE}={level}"),
            None => format!(
                "the cluster's default for namespace {name} is {}",
                admission.policies().enforce
            ),
        };
        format!(
            "{label}; either put the CNI plugin on the nodes (outrigger-cni or linkerd-cni), or set {ENFORCE}=privileged, \
             or leave the pod out with linkerd.io/inject: disabled"
        )
    }
}
