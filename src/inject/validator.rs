//! The init container `linkerd-network-validator`, which proves that the CNI plugin has set the rules.

use super::NETWORK_VALIDATOR;
use super::container::Container;
use super::{proxy, proxy_init};
use crate::config::values::{NetworkValidator, Values};
use serde_json::{Map, Value};
use std::borrow::Cow;

/// Linkerd's `nobody`: not the proxy's user, whose traffic the rules exempt.
const NOBODY: i64 = 65534;

/// The validator for one pod.
pub(super) fn container(values: &Values) -> Container<'_> {
    let validator = &values.network_validator;
    let or = |given: &str, ipv4: &str, ipv6: &str| match (given, values.disable_ipv6) {
        ("", true) => ipv4.to_owned(),
        ("", false) => ipv6.to_owned(),
        (given, _) => given.to_owned(),
    };
    let arguments: [(&str, Cow<'_, str>); 5] = [
        ("--log-format", validator.log_format.as_str().into()),
        ("--log-level", validator.log_level.as_str().into()),
        // Nobody need answer there: with the rules in place the connection ends at the validator itself.
        (
            "--connect-addr",
            or(&validator.connect_addr, "1.1.1.1:20001", "[fd00::1]:20001").into(),
        ),
        (
            "--listen-addr",
            or(&validator.listen_addr, "0.0.0.0:4140", "[::]:4140").into(),
        ),
        ("--timeout", validator.timeout.as_str().into()),
    ];
    Container {
        name: NETWORK_VALIDATOR,
        image: proxy_init::rules_image(values),
        image_pull_policy: proxy_init::rules_pull_policy(values),
        command: vec!["/usr/lib/linkerd/linkerd2-network-validator"],
        args: arguments
            .into_iter()
            .flat_map(|(flag, value)| [flag.into(), value])
            .collect(),
        resources: proxy::resources(values),
        security_context: security_context(validator),
        ..Container::default()
    }
}

/// As confined as the proxy; the values choose the user, which is never root.
fn security_context(validator: &NetworkValidator) -> Map<String, Value> {
    let mut context = validator.security_context.clone();
    proxy::confine(&mut context);
    for field in ["runAsUser", "runAsGroup"] {
        if context.get(field).and_then(Value::as_i64).unwrap_or(0) == 0 {
            context.insert(field.to_owned(), NOBODY.into());
        }
    }
    context
}
