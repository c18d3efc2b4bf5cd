//! The init container `linkerd-init`, which sets the redirect rules.

use super::container::{Container, VolumeMount};
use super::proxy;
use super::{PROXY_INIT, ShapeError};
use crate::config::values::{NOBODY, Values};
use crate::config::{Config, quote};
use serde_json::{Map, Value, json};
use std::borrow::Cow;

/// `linkerd-init` for one pod.
pub(super) fn container(config: &Config) -> Result<Container<'_>, ShapeError> {
    let values = &config.values;
    let init = &values.proxy_init;
    let args = arguments(config, proxy::user(config))?;
    if init.close_wait_timeout_secs != 0 && !init.run_as_root {
        return Err(ShapeError::CloseWaitNeedsRoot);
    }
    Ok(Container {
        name: PROXY_INIT,
        image: rules_image(values),
        image_pull_policy: rules_pull_policy(values),
        command: vec!["/usr/lib/linkerd/linkerd2-proxy-init"],
        args,
        resources: proxy::resources(values),
        security_context: security_context(config),
        termination_message_policy: Some("FallbackToLogsOnError"),
        volume_mounts: vec![VolumeMount {
            mount_path: &init.xt_mount_path.mount_path,
            name: &init.xt_mount_path.name,
            read_only: false,
        }],
        ..Container::default()
    })
}

/// Whether `linkerd-init` and the validator are ours.
pub(super) fn has_own_image(values: &Values) -> bool {
    !values.outrigger.image.name.is_empty()
}

/// Image of `linkerd-init` and of the validator: ours where the configuration names it, else the proxy's.
pub(super) fn rules_image(values: &Values) -> String {
    let image = &values.outrigger.image;
    match (has_own_image(values), image.version.as_str()) {
        (false, _) => proxy::image(values),
        (true, "") => format!("{}:{}", image.name, env!("CARGO_PKG_VERSION")),
        (true, version) => format!("{}:{version}", image.name),
    }
}

/// Pull policy of that image.
pub(super) fn rules_pull_policy(values: &Values) -> &str {
    let own = &values.outrigger.image.pull_policy;
    match (has_own_image(values), own.as_str()) {
        (false, _) => proxy::pull_policy(values),
        (true, "") => &values.image_pull_policy,
        (true, policy) => policy,
    }
}

fn arguments(config: &Config, user: i64) -> Result<Vec<Cow<'_, str>>, ShapeError> {
    let values = &*config.values;
    let (init, proxy) = (&values.proxy_init, &values.proxy);
    let mut arguments: Vec<Cow<'_, str>> = Vec::with_capacity(24);
    match init.iptables_mode.as_str() {
        // Our image needs no iptables: it speaks netlink, and falls back to what it finds.
        "nft" | "legacy" | "" if has_own_image(values) => arguments.extend(["--iptables-mode", "auto"].map(Cow::from)),
        "nft" | "" => arguments.extend(
            [
                "--firewall-bin-path",
                "iptables-nft",
                "--firewall-save-bin-path",
                "iptables-nft-save",
            ]
            .map(Cow::from),
        ),
        "legacy" => {}
        mode => return Err(ShapeError::IptablesMode(quote(mode))),
    }
    if values.disable_ipv6 {
        arguments.push("--ipv6=false".into());
    }
    if values.outrigger.egress_fence {
        arguments.extend(fence(config)?);
    }
    let mut flag = |name: &'static str, value: Cow<'_, str>| {
        if !value.is_empty() {
            arguments.extend([name.into(), Cow::Owned(value.into_owned())]);
        }
    };
    let gid = if proxy.gid >= 0 {
        proxy.gid.to_string()
    } else {
        String::new()
    };
    let close_wait = match init.close_wait_timeout_secs {
        0 => String::new(),
        seconds => seconds.to_string(),
    };
    flag("--incoming-proxy-port", proxy.ports.inbound.to_string().into());
    flag("--outgoing-proxy-port", proxy.ports.outbound.to_string().into());
    flag("--proxy-uid", user.to_string().into());
    flag("--proxy-gid", gid.into());
    flag("--inbound-ports-to-ignore", ignored_inbound(values).into());
    flag("--outbound-ports-to-ignore", init.ignore_outbound_ports.as_str().into());
    flag("--timeout-close-wait-secs", close_wait.into());
    flag("--log-format", init.log_format.as_str().into());
    flag("--log-level", init.log_level.as_str().into());
    flag("--subnets-to-ignore", init.skip_subnets.as_str().into());
    Ok(arguments)
}

/// What closes the ways around the proxy; Linkerd's image cannot.
fn fence(config: &Config) -> Result<Vec<Cow<'_, str>>, ShapeError> {
    let values = &config.values;
    if !has_own_image(values) {
        return Err(ShapeError::FenceNeedsOwnImage);
    }
    let mut arguments = vec!["--egress-fence".into()];
    // An annotation with an empty list closes DNS.
    if config.set_by("outrigger.egressDNS").is_some() || !values.outrigger.egress_dns.is_empty() {
        arguments.extend(["--egress-dns".into(), values.outrigger.egress_dns.as_str().into()]);
    }
    Ok(arguments)
}

/// The proxy's own ports pass the proxy by, and those that the configuration names.
fn ignored_inbound(values: &Values) -> String {
    let ports = &values.proxy.ports;
    let own = format!("{},{}", ports.control, ports.admin);
    match values.proxy_init.ignore_inbound_ports.as_str() {
        "" => own,
        ignored => format!("{own},{ignored}"),
    }
}

fn security_context(config: &Config) -> Map<String, Value> {
    let init = &config.values.proxy_init;
    // A user of 0 would be root.
    let nobody = |id: i64| if id == 0 { NOBODY } else { id };
    let (user, group) = match init.run_as_root {
        true => (0, 0),
        false => (nobody(init.run_as_user), nobody(init.run_as_group)),
    };
    // The connection-tracking timeout is a file that only a privileged container can write.
    let privileged = init.privileged || init.close_wait_timeout_secs != 0;
    let context = json!({
        "allowPrivilegeEscalation": privileged,
        "capabilities": {"add": ["NET_ADMIN", "NET_RAW"], "drop": ["ALL"]},
        "privileged": privileged,
        "readOnlyRootFilesystem": true,
        "runAsGroup": group,
        "runAsNonRoot": !init.run_as_root,
        "runAsUser": user,
    });
    let mut context = context.as_object().cloned().unwrap_or_default();
    if !config.variant.without_seccomp {
        context.insert("seccompProfile".to_owned(), json!({"type": "RuntimeDefault"}));
    }
    context
}
