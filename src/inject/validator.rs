//! The init container `linkerd-network-validator`, which proves that the CNI plugin has set the rules.

use super::NETWORK_VALIDATOR;
use super::container::Container;
use super::{proxy, proxy_init};
use crate::config::Config;
use crate::config::values::NOBODY;
use serde_json::{Map, Value};
use std::borrow::Cow;

/// The validator for one pod.
pub(super) fn container(config: &Config) -> Container<'_> {
    let values = &config.values;
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
    // Linkerd's image cannot prove it.
    let fenced = values.outrigger.egress_fence && proxy_init::has_own_image(values);
    Container {
        name: NETWORK_VALIDATOR,
        image: proxy_init::rules_image(values),
        image_pull_policy: proxy_init::rules_pull_policy(values),
        command: vec!["/usr/lib/linkerd/linkerd2-network-validator"],
        args: arguments
            .into_iter()
            .flat_map(|(flag, value)| [flag.into(), value])
            .chain(fenced.then_some("--egress-fence".into()))
            .collect(),
        resources: proxy::resources(values),
        security_context: security_context(config),
        ..Container::default()
    }
}

/// As confined as the proxy. The values choose user and group, but neither root nor the proxy's: the rules exempt those,
/// so that the validator would see nothing redirected and keep the pod from running.
fn security_context(config: &Config) -> Map<String, Value> {
    let mut context = config.values.network_validator.security_context.clone();
    proxy::confine(&mut context, config.variant);
    let group = other_than(proxy::group(config), &context, "runAsGroup");
    context.insert("runAsUser".to_owned(), user(config).into());
    context.insert("runAsGroup".to_owned(), group.into());
    context
}

/// The user that the validator runs as.
pub fn user(config: &Config) -> i64 {
    let context = &config.values.network_validator.security_context;
    other_than(Some(proxy::user(config)), context, "runAsUser")
}

/// The ID of the values, or another where that is root's or `exempt`.
fn other_than(exempt: Option<i64>, context: &Map<String, Value>, field: &str) -> i64 {
    let given = context.get(field).and_then(Value::as_i64).filter(|&id| id != 0);
    let mut choices = [given, Some(NOBODY)].into_iter().flatten();
    choices.find(|&id| Some(id) != exempt).unwrap_or(NOBODY - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Installation, Layers};
    use crate::pod::Pod;
    use serde_json::json;

    #[test]
    fn the_validator_is_never_the_proxy() {
        for (values, annotations, ids) in [
            ("", json!({}), (65534, 65534)),
            ("", json!({"config.linkerd.io/proxy-uid": "65534"}), (65533, 65534)),
            ("", json!({"config.linkerd.io/proxy-gid": "65534"}), (65534, 65533)),
            (
                "proxy: {securityContext: {runAsUser: 7, runAsGroup: 65534}}",
                json!({}),
                (65534, 65533),
            ),
            (
                "networkValidator: {securityContext: {runAsUser: 2102}}",
                json!({}),
                (65534, 65534),
            ),
            (
                "networkValidator: {securityContext: {runAsUser: 7, runAsGroup: 0}}",
                json!({}),
                (7, 65534),
            ),
            (
                "{proxy: {uid: 65534}, networkValidator: {securityContext: {runAsUser: 65534}}}",
                json!({}),
                (65533, 65534),
            ),
        ] {
            let installation = Installation::parse(&[values], None, "linkerd").unwrap();
            let object = json!({"metadata": {"annotations": annotations}});
            let layers = Layers {
                namespace: None,
                pod: &Pod::new(&object),
                workload: None,
            };
            let context = security_context(&Config::effective(&installation, &layers));
            let id = |field: &str| context.get(field).and_then(Value::as_i64).unwrap();
            assert_eq!((id("runAsUser"), id("runAsGroup")), ids, "{values} {annotations}");
        }
    }
}
