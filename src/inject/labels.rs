//! The label that names a pod's owner.

use crate::config::annotation;
use crate::pod::label::{LABEL_LENGTH, label_value};
use crate::pod::workload::Kind;
use std::collections::BTreeMap;

/// What a pod belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The owner's kind; nothing where it is none that injection knows.
    pub kind: Option<Kind>,
    /// The owner's name.
    pub name: String,
}

impl Owner {
    /// The key of the owner's label, for the kinds that have one.
    fn label(&self) -> Option<String> {
        let kind = self
            .kind
            .filter(|kind| !matches!(kind, Kind::Pod | Kind::Service | Kind::Namespace))?;
        Some(format!("linkerd.io/proxy-{}", kind.lower_case()))
    }

    /// Adds the owner's label. A name that is too long for a label ends in a digest, and stands whole in an annotation;
    /// one that is no label otherwise, such as the start of a generated name, gets none.
    pub(super) fn write(&self, labels: &mut BTreeMap<String, String>, annotations: &mut BTreeMap<String, String>) {
        let Some(label) = self.label() else { return };
        let value = label_value(&self.name);
        if !is_label_value(&value) {
            return;
        }
        if value != self.name {
            annotations.insert(annotation::OWNER_NAME.to_owned(), self.name.clone());
        }
        labels.insert(label, value);
    }
}

/// Whether the API server takes `value` for a label: alphanumerics, with dashes, underscores and dots between them.
fn is_label_value(value: &str) -> bool {
    let inner = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let outer = [value.chars().next(), value.chars().next_back()];
    value.len() <= LABEL_LENGTH && value.chars().all(inner) && outer.iter().flatten().all(char::is_ascii_alphanumeric)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_label_gets_none() {
        for name in [
            "nightly-",
            "-a",
            "a b",
            "caf\u{e9}",
            &format!("_{}", "x".repeat(70)),
            &"\u{e9}".repeat(40),
        ] {
            let (mut labels, mut annotations) = (BTreeMap::new(), BTreeMap::new());
            let owner = Owner {
                kind: Some(Kind::Job),
                name: (*name).to_owned(),
            };
            owner.write(&mut labels, &mut annotations);
            assert!(labels.is_empty() && annotations.is_empty(), "{name}");
        }
        assert!(is_label_value("") && is_label_value("a.b-c_D9"));
    }

    #[test]
    fn only_known_kinds_are_labelled() {
        let written = |kind| {
            let (mut labels, mut annotations) = (BTreeMap::new(), BTreeMap::new());
            Owner {
                kind,
                name: "web".to_owned(),
            }
            .write(&mut labels, &mut annotations);
            labels.into_keys().collect::<Vec<_>>()
        };
        assert_eq!(written(Some(Kind::Deployment)), ["linkerd.io/proxy-deployment"]);
        assert!(written(Some(Kind::Pod)).is_empty());
        assert!(written(None).is_empty());
    }
}
