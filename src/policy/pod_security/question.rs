//! One question about one pod as JSON, one answer as JSON: the core of `policy evaluate --json-lines`.

use serde_json::{Map, Value, json};

use super::{Policy, PolicyError, Server, default, evaluate};
use crate::pod::Pod;

/// Whether the pod of a question goes through the API's defaulting first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Defaulting {
    /// The pod is judged exactly as given.
    AsGiven,
    /// The pod is judged as the API server would see it; see [`default`].
    Defaulted,
}

#[derive(Debug, thiserror::Error)]
enum QuestionError {
    #[error("question: expected an object with level, version and pod")]
    NoObject,
    #[error("{0}: missing, or no text: expected a text")]
    NoText(&'static str),
    #[error("pod: missing, or no object: expected a pod")]
    NoPod,
    #[error("{key}: {error}")]
    Policy { key: &'static str, error: PolicyError },
}

/// Answers `{id, level, version, pod}` with `{id, allowed, reason, detail}`.
///
/// `id` is any JSON value and comes back as it is; a question without one gets an answer without one. A question that
/// cannot be answered gets `{id, error}`.
pub fn answer(mut question: Value, server: Server, defaulting: Defaulting) -> Value {
    let id = question.as_object_mut().and_then(|question| question.remove("id"));
    let mut answer = reply(&mut question, server, defaulting)
        .unwrap_or_else(|error| Map::from_iter([("error".to_owned(), Value::String(error.to_string()))]));
    if let Some(id) = id {
        answer.insert("id".to_owned(), id);
    }
    Value::Object(answer)
}

fn reply(question: &mut Value, server: Server, defaulting: Defaulting) -> Result<Map<String, Value>, QuestionError> {
    let question = question.as_object_mut().ok_or(QuestionError::NoObject)?;
    let mut pod = question
        .remove("pod")
        .filter(Value::is_object)
        .ok_or(QuestionError::NoPod)?;
    let text = |key| {
        question
            .get(key)
            .and_then(Value::as_str)
            .ok_or(QuestionError::NoText(key))
    };
    let policy = Policy {
        level: text("level")?
            .parse()
            .map_err(|error| QuestionError::Policy { key: "level", error })?,
        version: text("version")?
            .parse()
            .map_err(|error| QuestionError::Policy { key: "version", error })?,
    };
    if defaulting == Defaulting::Defaulted {
        default(&mut pod);
    }
    let evaluation = evaluate(policy, server, &Pod::new(&pod));
    Ok(Map::from_iter([
        ("allowed".to_owned(), json!(evaluation.allowed)),
        ("reason".to_owned(), json!(evaluation.reason)),
        ("detail".to_owned(), json!(evaluation.detail)),
    ]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Release;

    fn ask(question: Value, defaulting: Defaulting) -> Value {
        answer(question, Release(36).into(), defaulting)
    }

    #[test]
    fn echoes_the_id_and_judges_as_told() {
        let question = json!({
            "id": {"any": [1, null]}, "level": "restricted", "version": "v1.0",
            "pod": {"spec": {"securityContext": {"runAsNonRoot": true}, "volumes": [{"name": "v"}]}},
        });
        let detail = r#"restricted volume types (volume "v" uses restricted volume type "unknown")"#;
        let refused = json!({
            "id": {"any": [1, null]}, "allowed": false, "reason": "restricted volume types", "detail": detail,
        });
        assert_eq!(ask(question.clone(), Defaulting::AsGiven), refused);
        let allowed = json!({"id": {"any": [1, null]}, "allowed": true, "reason": "", "detail": ""});
        assert_eq!(ask(question, Defaulting::Defaulted), allowed);
    }

    #[test]
    fn an_id_is_absent_or_null_as_it_was() {
        let question = json!({"level": "privileged", "version": "latest", "pod": {}});
        assert_eq!(ask(question.clone(), Defaulting::AsGiven).get("id"), None);
        let mut with_null = question;
        with_null["id"] = Value::Null;
        assert_eq!(ask(with_null, Defaulting::AsGiven).get("id"), Some(&Value::Null));
    }

    #[test]
    fn says_what_is_wrong_with_a_question() {
        for (question, error) in [
            (json!([]), "question: expected an object with level, version and pod"),
            (
                json!({"id": 1, "level": "baseline", "version": "latest"}),
                "pod: missing, or no object: expected a pod",
            ),
            (
                json!({"id": 1, "version": "latest", "pod": {}}),
                "level: missing, or no text: expected a text",
            ),
            (
                json!({"id": 1, "level": "strict", "version": "latest", "pod": {}}),
                r#"level: "strict" must be one of privileged, baseline, restricted"#,
            ),
            (
                json!({"id": 1, "level": "baseline", "version": "1.25", "pod": {}}),
                r#"version: "1.25" must be "latest" or "v1.x""#,
            ),
        ] {
            let id = question.get("id").cloned();
            let answer = ask(question, Defaulting::AsGiven);
            assert_eq!(
                (answer.get("id"), answer.get("error")),
                (id.as_ref(), Some(&json!(error)))
            );
        }
    }
}
