//! Reviews of access: what the API server would let somebody do. They are asked, not stored.

use crate::cli::check::rules::permissions::Right;
use crate::cli::live;
use anyhow::Result;
use futures::future::try_join_all;
use kube::Client;
use serde_json::{Value, json};

/// Whose rights are asked for.
#[derive(Clone, Copy, Debug)]
pub(in crate::cli::check) enum Who<'a> {
    /// The user who asks.
    Me,
    /// A service account, namespace and name.
    Account(&'a str, &'a str),
}

/// What the server says to each of `rights`.
///
/// # Errors
/// Where the server does not say it, be it that one may not ask.
pub(in crate::cli::check) async fn ask(
    client: &Client,
    who: Who<'_>,
    rights: Vec<Right>,
) -> Result<Vec<(Right, bool)>> {
    let answers = rights.into_iter().map(async |right| {
        let allowed = review(client, who, &right).await?;
        Ok((right, allowed))
    });
    try_join_all(answers).await
}

async fn review(client: &Client, who: Who<'_>, right: &Right) -> Result<bool> {
    let attributes = json!({
        "verb": right.verb,
        "group": right.group,
        "resource": right.resource,
        "name": right.name,
        "namespace": right.namespace,
    });
    let (kind, path, spec) = match who {
        Who::Me => (
            "SelfSubjectAccessReview",
            "selfsubjectaccessreviews",
            json!({"resourceAttributes": attributes}),
        ),
        Who::Account(namespace, name) => {
            let groups = [
                "system:serviceaccounts".to_owned(),
                format!("system:serviceaccounts:{namespace}"),
                "system:authenticated".to_owned(),
            ];
            let user = format!("system:serviceaccount:{namespace}:{name}");
            (
                "SubjectAccessReview",
                "subjectaccessreviews",
                json!({"resourceAttributes": attributes, "user": user, "groups": groups}),
            )
        }
    };
    let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec});
    let path = format!("/apis/authorization.k8s.io/v1/{path}");
    let answer = live::create(client, &path, &review).await?;
    Ok(answer.pointer("/status/allowed").and_then(Value::as_bool) == Some(true))
}
