//! Security contexts of the values document: what they say of the proxy and the validator beyond what those always have.
//!
//! Nothing that Pod Security's `restricted` level would refuse is let through, so that no value of the installation gets
//! the pods of a restricted namespace refused.

use super::problem::{Consequence, misfits};
use super::validation::LARGEST_ID;
use super::values::Values;
use super::{Config, Installation};
use serde_json::{Map, Value};

/// Where a context is.
type Field = fn(&mut Values) -> &mut Map<String, Value>;

impl Config {
    /// Drops the fields that `restricted` refuses.
    pub(super) fn confine_contexts(&mut self, installation: &Installation) {
        let contexts: [(&str, Field, Vec<String>); 2] = [
            (
                "proxy.securityContext",
                |values| &mut values.proxy.security_context,
                unfit(&self.values.proxy.security_context),
            ),
            (
                "networkValidator.securityContext",
                |values| &mut values.network_validator.security_context,
                unfit(&self.values.network_validator.security_context),
            ),
        ];
        for (key, field, unfit) in contexts.into_iter().filter(|(_, _, unfit)| !unfit.is_empty()) {
            field(self.changed()).retain(|name, _| !unfit.contains(name));
            let names: Vec<_> = unfit.iter().map(String::as_str).collect();
            let fault = misfits(&names, "a field that the restricted level admits with its value");
            self.report(installation, key, fault, Consequence::Ignored);
        }
    }
}

/// The fields that are dropped.
fn unfit(context: &Map<String, Value>) -> Vec<String> {
    let unfit = context.iter().filter(|(field, value)| !fits(field, value));
    unfit.map(|(field, _)| field.clone()).collect()
}

/// Whether a field may stay; those that injection overwrites are none of its business.
fn fits(field: &str, value: &Value) -> bool {
    match field {
        "allowPrivilegeEscalation"
        | "capabilities"
        | "privileged"
        | "readOnlyRootFilesystem"
        | "runAsNonRoot"
        | "seccompProfile" => true,
        "runAsUser" | "runAsGroup" => value.as_i64().is_some_and(|id| (0..=LARGEST_ID).contains(&id)),
        "seLinuxOptions" => has_texts(value, |key, text| match key {
            "level" => true,
            "type" => ["", "container_t", "container_init_t", "container_kvm_t"].contains(&text),
            _ => text.is_empty(),
        }),
        "appArmorProfile" => has_texts(value, |key, text| match key {
            "localhostProfile" => true,
            "type" => ["RuntimeDefault", "Localhost"].contains(&text),
            _ => false,
        }),
        _ => false,
    }
}

/// Whether `value` is a map of texts, each of which `fits`.
fn has_texts(value: &Value, fits: impl Fn(&str, &str) -> bool) -> bool {
    let fits = |(key, value): (&String, &Value)| value.as_str().is_some_and(|text| fits(key, text));
    value.as_object().is_some_and(|map| map.iter().all(fits))
}
