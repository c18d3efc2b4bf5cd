//! What a probe found out, as it stands for one pod.
//!
//! A dry run was about a pod of the probe's own, so what it shows is taken as exactly as can be: of Pod Security it shows
//! the level in force, by which the pod at hand is then judged itself. Of everybody else it shows a refusal.

use super::policies::{Opinion, kind};
use super::{Inputs, Trace};
use crate::inject::Redirection;
use crate::policy::Verdict;
use crate::policy::pod_security::{Admission, Configuration, Exemption, Level, Policy};
use crate::policy::probe::{Finding, Found, Refuser, Shape, Word, ago};
use std::time::Duration;

/// The policy of an opinion where no dry run was refused.
const DRY_RUN: &str = "dry-run";

/// A finding that says something.
pub(super) struct Probed<'a> {
    finding: &'a Finding,
    /// What the configuration says otherwise.
    pub(super) contradiction: Option<String>,
}

/// Reads what the probe says of the namespace, and corrects what is taken to be Pod Security's policy there.
pub(super) fn read<'a>(
    inputs: &Inputs<'a>,
    admission: Admission<'a>,
    trace: &mut Trace,
) -> (Admission<'a>, Option<Probed<'a>>) {
    let (finding, age) = match inputs.facts.probe {
        Word::Absent => return (admission, None),
        Word::Unknown { why } => {
            trace.note(format_args!("{}: unknown: {why}", kind::PROBE));
            return (admission, None);
        }
        Word::Stale { why } => {
            trace.note(format_args!("{}: stale: {why}", kind::PROBE));
            return (admission, None);
        }
        Word::Found { finding, age } => (&**finding, *age),
    };
    let by = kind::PROBE;
    if let Some(doubt) = finding.doubt() {
        trace.note(format_args!("{by}: unknown: {doubt} (found {})", ago(age)));
        return (admission, None);
    }
    if trace.is_kept() {
        note(finding, age, trace);
    }
    let believed = in_force(&admission);
    let (admission, differs) = corrected(admission, finding);
    let known = is_configured(inputs);
    let contradiction = differs.map(|seen| {
        let (name, believed) = (inputs.namespace.name, said_of(believed));
        format!("namespace {name}: {believed} was expected, a dry run shows {seen}")
    });
    match &contradiction {
        // The decision warns of it.
        Some(_) if known => {}
        Some(text) => trace.note(format_args!("{by}: {text}")),
        None if known => trace.note(format_args!("{by}: confirms what is configured")),
        None => {}
    }
    let probed = Probed {
        finding,
        contradiction: contradiction.filter(|_| known),
    };
    (admission, Some(probed))
}

/// What was found of each shape.
fn note(finding: &Finding, age: Duration, trace: &mut Trace) {
    for shape in Shape::ALL {
        let said = match finding.of(shape) {
            Found::Admitted => "admitted".to_owned(),
            Found::Refused(refusal) => format!("refused by {refusal}"),
            Found::Unknown(answer) => answer.to_string(),
        };
        let (by, word) = (kind::PROBE, shape.word());
        trace.note(format_args!("{by}: found {}: {word}: {said}", ago(age)));
    }
}

/// Whether somebody has said what Pod Security does where no label says so.
fn is_configured(inputs: &Inputs<'_>) -> bool {
    let given = &inputs.installation.values.outrigger.pod_security;
    !given.is_empty() || *inputs.facts.pod_security != Configuration::default()
}

/// Pod Security as dry runs show it, and what they show where that differs.
fn corrected<'a>(admission: Admission<'a>, finding: &Finding) -> (Admission<'a>, Option<String>) {
    let shown = Shape::ALL.into_iter().find_map(|shape| match finding.of(shape) {
        Found::Refused(refusal) => match refusal.by {
            Refuser::PodSecurity(policy) => Some(policy),
            Refuser::ValidatingAdmissionPolicy(_) | Refuser::Webhook(_) | Refuser::Validation | Refuser::Plugin => None,
        },
        Found::Admitted | Found::Unknown(_) => None,
    });
    let enforced = in_force(&admission);
    match shown {
        Some(policy) if enforced == Some(policy) => (admission, None),
        Some(policy) => (admission.seen_to_enforce(policy), Some(policy.to_string())),
        // Every level but privileged refuses what linkerd-init asks for.
        None if finding.of(Shape::InitContainer) == Found::Admitted
            && enforced.is_some_and(|policy| policy.level > Level::Privileged) =>
        {
            (admission.seen_to_exempt(), Some("that it is exempt".to_owned()))
        }
        None => (admission, None),
    }
}

/// What is enforced in the namespace; nothing where it is exempt.
fn in_force(admission: &Admission<'_>) -> Option<Policy> {
    (admission.exemption() != Some(Exemption::Namespace)).then_some(admission.policies().enforce)
}

fn said_of(enforced: Option<Policy>) -> String {
    enforced.map_or_else(|| "an exemption".to_owned(), |policy| policy.to_string())
}

impl Probed<'_> {
    /// The probe's opinion on a candidate; nothing on one of which it has found out nothing. `by_pod_security` is Pod
    /// Security's own answer, which knows more of the pod at hand.
    pub(super) fn opinion(&self, candidate: Redirection, by_pod_security: &Verdict) -> Option<Opinion> {
        let shape = match candidate {
            Redirection::InitContainer => Shape::InitContainer,
            Redirection::Cni => Shape::Cni,
            Redirection::None => return None,
        };
        let (policy, verdict) = match self.finding.of(shape) {
            Found::Admitted => (DRY_RUN.to_owned(), Verdict::Allowed),
            Found::Unknown(answer) => {
                let why = format!("a dry run of such a pod is {answer}");
                (DRY_RUN.to_owned(), Verdict::Unknown { why })
            }
            Found::Refused(refusal) => match &refusal.by {
                Refuser::PodSecurity(policy) => {
                    let message = format!("a dry run of such a pod was refused by pod-security {policy}");
                    let verdict = match by_pod_security {
                        Verdict::Denied { .. } => Verdict::Denied { message },
                        Verdict::Allowed | Verdict::Unknown { .. } => Verdict::Allowed,
                    };
                    (refusal.by.to_string(), verdict)
                }
                by @ (Refuser::ValidatingAdmissionPolicy(_)
                | Refuser::Webhook(_)
                | Refuser::Validation
                | Refuser::Plugin) => {
                    let message = format!("a dry run of such a pod was refused by {refusal}");
                    (by.to_string(), Verdict::Denied { message })
                }
            },
        };
        Some(Opinion {
            by: kind::PROBE,
            policy,
            exempt: None,
            candidate: Some(candidate),
            verdict,
            warning: None,
            audit: None,
        })
    }
}
