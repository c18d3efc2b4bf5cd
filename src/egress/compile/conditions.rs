//! Conditions as they stand in the status of a stored policy.

use super::status::{Condition, Verdict};
use serde_json::{Value, json};

/// How long a message may be, in characters (`charts/outrigger/templates/egress/_schema.tpl`).
const MESSAGE: usize = 32_768;

impl Verdict {
    /// The conditions of the status of `policy`, an object as it is stored, where others stand there; `now` (RFC 3339) is when a
    /// condition's status became another one.
    ///
    /// Conditions of other types are somebody else's, and are not among them.
    pub fn conditions_for(&self, policy: &Value, now: &str) -> Option<Value> {
        let generation = policy.pointer("/metadata/generation");
        let stored = policy.pointer("/status/conditions").and_then(Value::as_array);
        let mut is_due = false;
        let all: Vec<_> = self
            .conditions
            .iter()
            .map(|condition| {
                let of_kind = |stored: &&Value| stored.get("type").and_then(Value::as_str) == Some(condition.kind);
                let stored = stored.into_iter().flatten().find(of_kind);
                let condition = at(condition, stored, generation, now);
                is_due |= stored != Some(&condition);
                condition
            })
            .collect();
        is_due.then(|| all.into())
    }
}

/// `condition` of a policy of `generation`, whose time is that of `stored` where its status is the same.
fn at(condition: &Condition, stored: Option<&Value>, generation: Option<&Value>, now: &str) -> Value {
    let of_stored = |key: &str| stored.and_then(|stored| stored.get(key)?.as_str());
    let is_same = of_stored("status") == Some(condition.status);
    let since = of_stored("lastTransitionTime").filter(|_| is_same).unwrap_or(now);
    let message: String = condition.message.chars().take(MESSAGE).collect();
    json!({
        "type": condition.kind,
        "status": condition.status,
        "reason": condition.reason,
        "message": message,
        "observedGeneration": generation.and_then(Value::as_i64).unwrap_or_default(),
        "lastTransitionTime": since,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::egress::compile::{Surroundings, compile};
    use crate::egress::{Policies, Policy};

    const FIRST: &str = "2026-01-01T00:00:00Z";
    const SECOND: &str = "2026-01-02T00:00:00Z";

    fn verdict(policy: &Value) -> Verdict {
        let read = Policy::read(policy, "default").unwrap().unwrap();
        let compiled = compile(&Policies::new([read]), &Surroundings::default());
        compiled.verdicts.into_iter().next().unwrap()
    }

    #[test]
    fn only_what_differs_is_written_and_only_a_flip_has_a_new_time() {
        let mut policy = json!({
            "apiVersion": "outrigger.linkerd.io/v1alpha1",
            "kind": "EgressPolicy",
            "metadata": {"name": "a", "namespace": "shop", "generation": 1},
            "spec": {"hosts": ["a.example"]},
        });
        let first = verdict(&policy).conditions_for(&policy, FIRST).unwrap();
        let others = json!([{"type": "Loaded", "status": "True"}, first[0], first[1]]);
        policy["status"]["conditions"] = others;
        assert_eq!(verdict(&policy).conditions_for(&policy, SECOND), None);

        policy["metadata"]["generation"] = 2.into();
        let second = verdict(&policy).conditions_for(&policy, SECOND).unwrap();
        assert_eq!(
            (&second[0]["lastTransitionTime"], &second[0]["observedGeneration"]),
            (&FIRST.into(), &2.into())
        );
        assert_eq!(second.as_array().unwrap().len(), 2, "others' conditions are theirs");

        policy["spec"]["workloads"] = json!({"serviceAccounts": ["web"]});
        let third = verdict(&policy).conditions_for(&policy, SECOND).unwrap();
        let shown = |key: &str| third[0][key].as_str().unwrap().to_owned();
        assert_eq!(
            (shown("status"), shown("lastTransitionTime")),
            ("False".to_owned(), SECOND.to_owned())
        );
    }

    #[test]
    fn a_message_has_room_in_the_schema() {
        let policy = json!({
            "apiVersion": "outrigger.linkerd.io/v1alpha1",
            "kind": "EgressPolicy",
            "metadata": {"name": "a", "namespace": "shop"},
            "spec": {"hosts": ["a.example"]},
        });
        let mut verdict = verdict(&policy);
        verdict.conditions[1].message = "ü".repeat(MESSAGE + 1);
        let conditions = verdict.conditions_for(&policy, FIRST).unwrap();
        assert_eq!(conditions[1]["message"].as_str().unwrap().chars().count(), MESSAGE);
    }
}
