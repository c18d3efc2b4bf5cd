//! The dry run of a workload: it creates no pod, so the decision for its template is told as a warning.

use super::{Answer, App, Question, spoken};
use crate::cluster::LookupError;
use crate::decide::Round;
use crate::inject::Owner;
use crate::pod::workload::Kind;
use crate::policy::Requester;
use crate::webhook::review::Review;

impl App {
    /// Answers with the decision for the pods of a workload; never patches, never denies.
    pub(super) async fn preview(&self, review: &Review, kind: Kind) -> Result<Answer, LookupError> {
        let name = review.namespace.as_deref().unwrap_or_default();
        let template = kind.template_pointer().and_then(|path| review.object.pointer(path));
        let (Some(namespace), Some(template)) = (self.cluster.namespace(name).await?, template) else {
            return Ok(Answer::untouched());
        };
        let own_name = review
            .object
            .pointer("/metadata/name")
            .and_then(serde_json::Value::as_str);
        let own_name = own_name.or(review.name.as_deref()).unwrap_or_default();
        let owner = Owner {
            kind: Some(kind),
            name: own_name.to_owned(),
        };
        let decision = self.ask(
            &self.setup.current(),
            &Question {
                template,
                namespace: &namespace,
                owner: Some(&owner),
                requester: &Requester::named(kind.creator().unwrap_or_default()),
                round: Round::First,
            },
        );
        let workload = format!("{}/{own_name}", kind.name());
        Ok(Answer {
            warnings: spoken::warnings_of_dry_run(&decision, Some(&workload)),
            audit: spoken::audit(&decision),
            cautions: spoken::cautions(&decision),
            labels: spoken::labels(&decision),
            owner: Some(workload),
            ..Answer::untouched()
        })
    }
}
