//! What policies are compiled from, as manifests have it.

use crate::policy::installed::Source;
use serde_json::Value;

/// `object` as the cluster would have it: in the namespace `default` where it is of a policy, needs one and names none.
pub(in crate::cli) fn placed(object: &Value, default: &str) -> Value {
    let mut placed = object.clone();
    let needs_one = Source::of(object).is_some_and(Source::is_namespaced);
    let metadata = placed.get_mut("metadata").and_then(Value::as_object_mut);
    if let Some(metadata) = metadata.filter(|_| needs_one)
        && metadata.get("namespace").is_none_or(Value::is_null)
    {
        metadata.insert("namespace".to_owned(), default.into());
    }
    placed
}
