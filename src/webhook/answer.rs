//! From a review to its answer: what the server calls for every request.

use super::metrics::{AnswerLabels, LinkerdRequest};
use super::reload::Reloaded;
use super::review::{Outcome, Review};
use crate::cluster::Cluster;
use crate::cluster::events::Event;
use std::sync::Arc;

/// What an answer is made from.
#[derive(Debug)]
pub struct App {
    /// The configuration, reloaded when its files change.
    pub installation: Arc<Reloaded<Installation>>,
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
    /// Labels of the metric. `decision` and `redirection` are logged too.
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

/// The configuration.
#[derive(Debug)]
pub struct Installation;

impl Installation {
    /// Reads the values document and the trust anchors.
    pub fn parse(_values: &[u8], _trust_anchors: &[u8]) -> Result<Arc<Self>, std::io::Error> {
        Ok(Arc::new(Self))
    }
}

impl App {
    /// Answers a review.
    pub async fn admit(&self, review: &Review) -> Answer {
        let namespace = review.namespace.as_deref().unwrap_or_default();
        let owner = self.cluster.owner(namespace, &review.object).await;
        let known = self.cluster.namespace(namespace).await.ok().flatten();
        Answer {
            outcome: Outcome::Admitted { patch: None },
            warnings: Vec::new(),
            audit: Vec::new(),
            event: None,
            owner: owner.map(|owner| format!("{}/{}", owner.kind.to_ascii_lowercase(), owner.name)),
            labels: AnswerLabels {
                decision: "not_decided",
                redirection: "none",
                level: "privileged",
            },
            linkerd: known.map(|known| LinkerdCount {
                request: LinkerdRequest {
                    owner_kind: "",
                    namespace: known.name.clone(),
                    annotation_at: "",
                },
                skipped: None,
            }),
        }
    }
}
