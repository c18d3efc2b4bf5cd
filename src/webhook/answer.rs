//! From a review to its answer: what the server calls for every request.

mod preview;
mod spoken;

use super::metrics::{AnswerLabels, LinkerdRequest};
use super::reload::Reloaded;
use super::review::{Operation, Outcome, Review};
use crate::cluster::events::{Event, Reason};
use crate::cluster::{self, Cluster, LookupError};
use crate::config::Installation;
use crate::config::annotation::CREATED_BY;
use crate::decide::{self, Caution, Decision, Facts, Inputs, Round, Setup, SetupError, SkipReason, Trace};
use crate::inject::Owner;
use crate::pod::Pod;
use crate::pod::workload::Kind;
use crate::policy::pod_security::Server;
use crate::policy::{Release, Requester};
use serde_json::Value;
use std::str::Utf8Error;
use std::sync::Arc;
use std::time::SystemTime;

/// How `linkerd.io/created-by` begins on pods that we injected, whatever our version was.
const OURS: &str = "outrigger/";

/// What an answer is made from.
#[derive(Debug)]
pub struct App {
    /// The configuration, reloaded when its files change.
    pub setup: Arc<Reloaded<Setup>>,
    /// The cluster.
    pub cluster: Arc<Cluster>,
}

/// An answer, and what is told of it elsewhere.
#[derive(Debug)]
pub struct Answer {
    /// Whether the object is admitted, and how it is changed.
    pub outcome: Outcome,
    /// What the client is told beside that.
    pub warnings: Vec<String>,
    /// What the audit log gets.
    pub audit: Vec<(&'static str, String)>,
    /// What the owner gets; not published where nothing is stored (dry-run).
    pub event: Option<Event>,
    /// The owner for the log line, as in `deployment/web`; the object's name is logged where there is none.
    pub owner: Option<String>,
    /// The kinds of what the pod's author should know.
    pub cautions: Vec<Caution>,
    /// The kinds of policies that stood in the way of a pod that is denied.
    pub refused_by: Vec<&'static str>,
    /// Labels of the metric. `outcome`, `decision` and `redirection` are logged too.
    pub labels: AnswerLabels,
    /// What Linkerd would count; nothing where it would fail before it counts.
    pub linkerd: Option<LinkerdCount>,
}

/// What Linkerd would count.
#[derive(Debug)]
pub struct LinkerdCount {
    /// Labels of the request.
    pub request: LinkerdRequest,
    /// Reasons for leaving the object alone, joined by commas, and empty where it is changed; nothing where Linkerd counts
    /// no response: a service that is left alone, and every denial.
    pub skipped: Option<String>,
}

/// Why configuration files cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// A file is no text.
    #[error("{what} are no UTF-8 text: {source}")]
    Text {
        /// Which of them.
        what: &'static str,
        /// Where it ends to be.
        source: Utf8Error,
    },
    /// What they say cannot be used.
    #[error(transparent)]
    Setup(#[from] SetupError),
}

/// Reads the files' contents for the control plane in `namespace`: values, later documents over earlier ones; without trust
/// anchors those of the values count.
pub fn read(values: &[&[u8]], trust_anchors: Option<&[u8]>, namespace: &str) -> Result<Installation, ReadError> {
    let text = |bytes, what| std::str::from_utf8(bytes).map_err(|source| ReadError::Text { what, source });
    let anchors = trust_anchors
        .map(|bytes| text(bytes, "the trust anchors"))
        .transpose()?;
    let documents: Result<Vec<_>, _> = values.iter().map(|values| text(values, "the values")).collect();
    Ok(Installation::parse(&documents?, anchors, namespace).map_err(SetupError::from)?)
}

/// Completes a configuration, for [`App`].
pub fn complete(installation: Installation) -> Result<Arc<Setup>, ReadError> {
    Ok(Arc::new(Setup::of(installation).map_err(SetupError::from)?))
}

impl App {
    /// Answers a review; an error where the question cannot be decided now, which is for the failure policy.
    pub async fn admit(&self, review: &Review) -> Result<Answer, LookupError> {
        match Kind::named(&review.kind.group, &review.kind.kind) {
            Some(kind @ (Kind::Pod | Kind::Service)) if is_creation(review) => self.decide(review, kind).await,
            Some(kind) if review.dry_run && kind.template_pointer().is_some_and(|path| !path.is_empty()) => {
                self.preview(review, kind).await
            }
            _ => Ok(Answer::untouched()),
        }
    }

    /// Decides about a pod or a service that is created.
    async fn decide(&self, review: &Review, kind: Kind) -> Result<Answer, LookupError> {
        let name = review.namespace.as_deref().unwrap_or_default();
        let Some(namespace) = self.cluster.namespace(name).await? else {
            return Ok(Answer::denied(
                404,
                format!("namespaces {name:?} not found"),
                "namespace_not_found",
            ));
        };
        let setup = self.setup.current();
        if kind == Kind::Service {
            let mut decision = decide::annotate(
                kind,
                &review.object,
                &setup.installation,
                &namespace.view(),
                Trace::off(),
            );
            // Pod Security judges pods alone: whatever stands there is nobody's opinion.
            decision.policies.clear();
            return Ok(Answer::of_service(decision, name, review.dry_run));
        }
        let owner = self.cluster.owner(name, &review.object).await;
        let named = owner.as_ref().map(|owner| Owner {
            kind: owner.known_kind(),
            name: owner.name.clone(),
        });
        let question = Question {
            template: &review.object,
            namespace: &namespace,
            owner: named.as_ref(),
            requester: &Requester {
                user: review.user.name.clone(),
                groups: review.user.groups.clone(),
            },
            round: Round::Second,
        };
        let decision = self.ask(&setup, &question);
        Ok(match is_ours_already(&decision, &review.object) {
            true => Answer::again(decision),
            false => Answer::of_pod(decision, review, owner),
        })
    }

    /// Asks for the decision with what the cluster is known to be.
    fn ask(&self, setup: &Setup, question: &Question<'_>) -> Decision {
        let known = self.cluster.facts(&Pod::new(question.template));
        let coverage = known.coverage_with(setup);
        let namespace = question.namespace;
        let probe = known
            .findings
            .word(&namespace.name, Some(&namespace.labels), SystemTime::now());
        let server = known.server.unwrap_or_else(|| Server::from(Release::NEWEST));
        let inputs = Inputs {
            pod: question.template,
            namespace: namespace.view(),
            owner: question.owner,
            requester: question.requester,
            installation: &setup.installation,
            facts: Facts {
                server,
                pod_security: &setup.pod_security,
                coverage: &coverage,
                old_kubelets: known.old_kubelets.as_deref(),
                foreign_plugin: known.foreign_plugin,
                stale: !known.troubles.is_empty(),
                policies: &known.policies,
                probe: &probe,
                round: question.round,
            },
        };
        let mut decision = decide::decide(&inputs, Trace::off());
        // A pod that is left alone is left alone by every release.
        if known.server.is_none() && !matches!(decision.outcome, decide::Outcome::Skip(_)) {
            let text = format!(
                "the API server has not told its release: Kubernetes {server} is assumed",
                server = server.release
            );
            decision.warn(Caution::ReleaseAssumed, text);
        }
        decision
    }
}

/// What a decision is asked about.
struct Question<'a> {
    template: &'a Value,
    namespace: &'a cluster::Namespace,
    owner: Option<&'a Owner>,
    requester: &'a Requester,
    round: Round,
}

/// Sub-resources, such as a pod's ephemeral containers, and changes are none of injection's business.
fn is_creation(review: &Review) -> bool {
    review.operation == Operation::Create && review.sub_resource.is_none()
}

/// Whether the pod has our proxy, and nothing is to be said of it.
///
/// With `reinvocationPolicy: IfNeeded` the API server asks about a pod again when anybody has changed it since we did, and
/// somebody always has: its own plugins come by a second time, to mount the API token in the containers that we added.
fn is_ours_already(decision: &Decision, pod: &Value) -> bool {
    let meshed = match &decision.outcome {
        decide::Outcome::Skip(reasons) => reasons.contains(SkipReason::SidecarAlreadyExists),
        decide::Outcome::Inject { .. } | decide::Outcome::Deny(_) => false,
    };
    meshed
        && decision.warnings.is_empty()
        && Pod::new(pod)
            .annotation(CREATED_BY)
            .is_some_and(|by| by.starts_with(OURS))
}

impl Answer {
    /// What is not ours to change.
    fn untouched() -> Self {
        Self {
            outcome: Outcome::Admitted { patch: None },
            warnings: Vec::new(),
            audit: Vec::new(),
            event: None,
            owner: None,
            cautions: Vec::new(),
            refused_by: Vec::new(),
            labels: AnswerLabels {
                outcome: "skip",
                decision: "not_ours",
                redirection: "none",
                level: "",
            },
            linkerd: None,
        }
    }

    fn denied(code: u16, message: String, decision: &'static str) -> Self {
        Self {
            outcome: Outcome::Denied { code, message },
            audit: spoken::audit_of_denial(decision),
            labels: AnswerLabels {
                outcome: "deny",
                decision,
                redirection: "none",
                level: "",
            },
            ..Self::untouched()
        }
    }

    /// Says nothing: everybody who is told of decisions was told when the pod was injected.
    fn again(decision: Decision) -> Self {
        Self {
            labels: spoken::labels(&decision),
            outcome: spoken::outcome(decision),
            ..Self::untouched()
        }
    }

    fn of_service(decision: Decision, namespace: &str, dry_run: bool) -> Self {
        let annotated = !decision.patch.is_empty();
        let warnings = dry_run.then(|| spoken::warnings_of_dry_run(&decision, None));
        Self {
            warnings: warnings.unwrap_or_default(),
            audit: spoken::audit(&decision),
            linkerd: Some(LinkerdCount {
                request: LinkerdRequest {
                    owner_kind: "",
                    namespace: namespace.to_owned(),
                    annotation_at: "",
                },
                skipped: annotated.then(String::new),
            }),
            labels: spoken::labels(&decision),
            outcome: spoken::outcome(decision),
            ..Self::untouched()
        }
    }

    fn of_pod(decision: Decision, review: &Review, owner: Option<cluster::Owner>) -> Self {
        let namespace = review.namespace.clone().unwrap_or_default();
        let known = owner.as_ref().and_then(cluster::Owner::known_kind);
        let linkerd = LinkerdCount {
            request: LinkerdRequest {
                // Linkerd takes a pod without a single owner for its own.
                owner_kind: match &owner {
                    None => Kind::Pod.lower_case(),
                    Some(_) => known.map_or("", Kind::lower_case),
                },
                namespace: namespace.clone(),
                annotation_at: decision.annotated_at.map_or("", decide::AnnotatedAt::word),
            },
            skipped: skipped(&decision),
        };
        let warnings = match review.dry_run {
            true => spoken::warnings_of_dry_run(&decision, None),
            false => spoken::warnings(&decision),
        };
        Self {
            warnings,
            audit: spoken::audit(&decision),
            owner: owner
                .as_ref()
                .map(|owner| format!("{}/{}", owner.kind.to_ascii_lowercase(), owner.name)),
            event: owner
                .filter(|_| known.is_some())
                .and_then(|owner| event(&decision, owner, namespace)),
            cautions: spoken::cautions(&decision),
            refused_by: spoken::refused_by(&decision),
            labels: spoken::labels(&decision),
            outcome: spoken::outcome(decision),
            linkerd: Some(linkerd),
        }
    }
}

/// Linkerd's reasons for leaving a pod alone, as its metric has them.
fn skipped(decision: &Decision) -> Option<String> {
    match &decision.outcome {
        decide::Outcome::Inject { .. } => Some(String::new()),
        decide::Outcome::Skip(_) if !decision.patch.is_empty() => Some(String::new()),
        decide::Outcome::Skip(reasons) => Some(spoken::skip_reason(reasons)),
        decide::Outcome::Deny(_) => None,
    }
}

/// What the owner is told; of a denial its own controller tells it.
fn event(decision: &Decision, owner: cluster::Owner, namespace: String) -> Option<Event> {
    let (reason, message) = match &decision.outcome {
        decide::Outcome::Inject { .. } => (Reason::Injected, "Linkerd sidecar proxy injected".to_owned()),
        decide::Outcome::Skip(_) => {
            let message = format!("Linkerd sidecar proxy injection skipped: {}", decision.message());
            (Reason::InjectionSkipped, message)
        }
        decide::Outcome::Deny(_) => return None,
    };
    let message = format!("{message} ({})", decision.code());
    Some(Event {
        owner,
        namespace,
        reason,
        message,
    })
}

#[cfg(test)]
mod tests;
