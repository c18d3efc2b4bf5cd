//! The values document and annotations, one in terms of the other: how the flags of the command line reach the webhook.

use super::annotation::INJECT;
use super::overrides::{self, Override, Setter, Unreadable};
use super::values::Values;
use serde_json::Value;
use std::collections::BTreeMap;

/// The annotations that make of `base` what `values` says, as far as annotations can.
///
/// Source: Linkerd's `inject`, which compares the values before its flags with those after them.
pub fn annotations(base: &Values, values: &Values) -> BTreeMap<String, String> {
    let document = |values: &Values| serde_json::to_value(values).unwrap_or_default();
    let (before, after) = (document(base), document(values));
    let changed = |row: &Override| {
        let pointer = format!("/{}", row.values_key.replace('.', "/"));
        let value = after
            .pointer(&pointer)
            .filter(|value| before.pointer(&pointer) != Some(value))?;
        Some((row.annotation.to_owned(), text(row, value)))
    };
    let mut annotations: BTreeMap<_, _> = overrides::rows()
        .iter()
        .filter(|row| is_derived(row))
        .filter_map(changed)
        .collect();
    // A negative group means none, which no annotation says.
    if values.proxy.gid < 0 {
        annotations.remove("config.linkerd.io/proxy-gid");
    }
    if values.proxy.is_ingress && !base.proxy.is_ingress {
        annotations.insert(INJECT.to_owned(), "ingress".to_owned());
    }
    annotations
}

/// Sets what `annotation` overrides, as it would for a pod that has it. An annotation without a field of its own sets
/// nothing.
pub fn set(values: &mut Values, annotation: &str, text: &str) -> Result<(), Unreadable> {
    match overrides::row(annotation) {
        Some(row) => row.setter.set(values, text),
        None => Ok(()),
    }
}

/// Whether `inject` ever writes the annotation. The debug container's pull policy follows the proxy's there, and of the
/// three spellings of the native sidecar it writes the stable one.
fn is_derived(row: &Override) -> bool {
    let unstable = ["config.alpha.linkerd.io/", "config.beta.linkerd.io/"];
    let spelling =
        matches!(row.setter, Setter::Elsewhere(_)) && unstable.iter().any(|prefix| row.annotation.starts_with(prefix));
    !spelling && row.annotation != "config.linkerd.io/debug-image-pull-policy"
}

/// A field as its annotation writes it.
fn text(row: &Override, value: &Value) -> String {
    match (&row.setter, value) {
        (_, Value::String(text)) => text.clone(),
        (Setter::Switch(_), Value::Bool(on)) => if *on { "enabled" } else { "disabled" }.to_owned(),
        (Setter::CloseWait(_), seconds) => duration(seconds.as_i64().unwrap_or_default()),
        (_, value) => value.to_string(),
    }
}

/// Seconds as Go prints a duration: `1m30s`.
fn duration(seconds: i64) -> String {
    let (hours, minutes, rest) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match (hours, minutes) {
        _ if seconds < 0 => format!("-{}", duration(seconds.saturating_neg())),
        (0, 0) => format!("{rest}s"),
        (0, _) => format!("{minutes}m{rest}s"),
        _ => format!("{hours}h{minutes}m{rest}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn changed(change: impl FnOnce(&mut Values)) -> Value {
        let mut values = Values::default();
        change(&mut values);
        json!(annotations(&Values::default(), &values))
    }

    #[test]
    fn nothing_changed_says_nothing() {
        assert_eq!(changed(|_| {}), json!({}));
        assert_eq!(changed(|values| values.cni_enabled = true), json!({}));
    }

    #[test]
    fn each_change_is_said_by_its_annotation() {
        let annotations = changed(|values| {
            let proxy = &mut values.proxy;
            proxy.ports.admin = 1234;
            proxy.native_sidecar = false;
            proxy.r#await = false;
            proxy.is_ingress = true;
            proxy.opaque_ports = "3000,mysql".to_owned();
            proxy.wait_before_exit_seconds = 3;
            proxy.image.pull_policy = "Always".to_owned();
            values.debug_container.image.pull_policy = "Always".to_owned();
            values.proxy_init.close_wait_timeout_secs = 90;
        });
        let expected = json!({
            "config.linkerd.io/admin-port": "1234",
            "config.linkerd.io/proxy-enable-native-sidecar": "false",
            "config.linkerd.io/proxy-await": "disabled",
            "linkerd.io/inject": "ingress",
            "config.linkerd.io/opaque-ports": "3000,mysql",
            "config.alpha.linkerd.io/proxy-wait-before-exit-seconds": "3",
            "config.linkerd.io/image-pull-policy": "Always",
            "config.linkerd.io/close-wait-timeout": "1m30s",
        });
        assert_eq!(annotations, expected);
    }

    #[test]
    fn a_negative_group_is_no_annotation() {
        let mut base = Values::default();
        base.proxy.gid = 5;
        assert!(annotations(&base, &Values::default()).is_empty());
    }

    #[test]
    fn what_was_set_by_an_annotation_is_said_by_it() {
        for (annotation, value) in [
            ("config.linkerd.io/proxy-cpu-limit", "1500m"),
            ("config.linkerd.io/proxy-await", "disabled"),
            ("config.linkerd.io/proxy-uid", "77"),
            ("config.linkerd.io/shutdown-grace-period", "250ms"),
            ("config.linkerd.io/proxy-cpu-ratio-limit", "0.25"),
        ] {
            let mut values = Values::default();
            set(&mut values, annotation, value).unwrap();
            let expected = BTreeMap::from([(annotation.to_owned(), value.to_owned())]);
            assert_eq!(annotations(&Values::default(), &values), expected);
        }
    }
}
