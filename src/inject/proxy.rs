//! The container `linkerd-proxy`.

use super::container::{Amounts, Container, ContainerPort, Exec, HttpGet, Lifecycle, Probe, Resources, VolumeMount};
use super::{PROXY, volumes};
use crate::config::values::{self, Values};
use crate::config::{Config, Variant};
use crate::pod::{Pod, list, text};
use serde_json::{Map, Value, json};

/// How long a classic sidecar holds the application back.
const AWAIT_TIMEOUT: &str = "--timeout=2m";

/// The proxy for one pod, without its environment.
pub(super) fn container<'a>(config: &'a Config, pod: &Pod<'a>) -> Container<'a> {
    let values = &config.values;
    let native = values.proxy.native_sidecar;
    Container {
        name: PROXY,
        image: image(values),
        image_pull_policy: pull_policy(values),
        ports: vec![
            ContainerPort {
                container_port: values.proxy.ports.inbound,
                name: "linkerd-proxy",
            },
            ContainerPort {
                container_port: values.proxy.ports.admin,
                name: "linkerd-admin",
            },
        ],
        lifecycle: if native { None } else { lifecycle(values) },
        liveness_probe: Some(probe("/live", values, &values.proxy.liveness_probe)),
        readiness_probe: Some(probe("/ready", values, &values.proxy.readiness_probe)),
        startup_probe: (native && values.proxy.r#await).then(|| startup_probe(values)),
        resources: resources(values),
        restart_policy: native.then_some("Always"),
        security_context: security_context(config),
        termination_message_policy: Some("FallbackToLogsOnError"),
        volume_mounts: volume_mounts(values, pod),
        ..Container::default()
    }
}

/// Image of the proxy, of `linkerd-init` and of the validator.
pub(super) fn image(values: &Values) -> String {
    format!("{}:{}", values.proxy.image.name, values.proxy_version())
}

/// Pull policy of that image.
pub(super) fn pull_policy(values: &Values) -> &str {
    let own = &values.proxy.image.pull_policy;
    if own.is_empty() { &values.image_pull_policy } else { own }
}

/// Resources of the proxy, of `linkerd-init` and of the validator.
pub(super) fn resources(values: &Values) -> Resources<'_> {
    let values::Resources {
        cpu,
        memory,
        ephemeral_storage,
    } = &values.proxy.resources;
    Resources {
        limits: Amounts {
            cpu: &cpu.limit,
            ephemeral_storage: &ephemeral_storage.limit,
            memory: &memory.limit,
        },
        requests: Amounts {
            cpu: &cpu.request,
            ephemeral_storage: &ephemeral_storage.request,
            memory: &memory.request,
        },
    }
}

/// The user that the proxy runs as, which the redirect rules exempt: an annotation's, else that of
/// `proxy.securityContext`, else `proxy.uid`.
pub fn user(config: &Config) -> i64 {
    let proxy = &config.values.proxy;
    let own = proxy.security_context.get("runAsUser").and_then(Value::as_i64);
    own.filter(|_| config.set_by("proxy.uid").is_none())
        .unwrap_or(proxy.uid)
}

/// Whether that user comes from `proxy.securityContext`.
pub(super) fn user_of_context(config: &Config) -> bool {
    let given = config.values.proxy.security_context.get("runAsUser");
    given.is_some_and(Value::is_i64) && config.set_by("proxy.uid").is_none()
}

/// The group that the proxy runs as, which the redirect rules may exempt; nothing where it is its image's.
pub(super) fn group(config: &Config) -> Option<i64> {
    let proxy = &config.values.proxy;
    let own = proxy.security_context.get("runAsGroup").and_then(Value::as_i64);
    Some(proxy.gid).filter(|&group| group >= 0).or(own)
}

/// The proxy's security context: `restricted` whatever the values say, which may only add fields that `restricted` admits
/// (the configuration holds no others).
fn security_context(config: &Config) -> Map<String, Value> {
    let values = &config.values;
    let mut context = values.proxy.security_context.clone();
    confine(&mut context, config.variant);
    context.insert("runAsUser".to_owned(), user(config).into());
    if let Some(group) = group(config) {
        context.insert("runAsGroup".to_owned(), group.into());
    }
    context
}

/// Sets the fields that Pod Security's `restricted` level asks of a container, users apart.
pub(super) fn confine(context: &mut Map<String, Value>, variant: Variant) {
    for (field, value) in [
        ("allowPrivilegeEscalation", json!(false)),
        ("capabilities", json!({"drop": ["ALL"]})),
        ("readOnlyRootFilesystem", json!(true)),
        ("runAsNonRoot", json!(true)),
        ("seccompProfile", json!({"type": "RuntimeDefault"})),
    ] {
        context.insert(field.to_owned(), value);
    }
    if variant.without_seccomp {
        context.remove("seccompProfile");
    }
    // Absent means false; a value of the operator's would be the only way for it to be true.
    context.remove("privileged");
}

fn lifecycle(values: &Values) -> Option<Lifecycle> {
    let port = format!("--port={}", values.proxy.ports.admin);
    let command = [
        "/usr/lib/linkerd/linkerd-await".to_owned(),
        AWAIT_TIMEOUT.to_owned(),
        port,
    ];
    let post_start = values.proxy.r#await.then(|| Exec::new(command));
    let seconds = values.proxy.wait_before_exit_seconds;
    let pre_stop = (seconds != 0).then(|| Exec::new(["/bin/sleep".to_owned(), seconds.to_string()]));
    (post_start.is_some() || pre_stop.is_some()).then_some(Lifecycle { post_start, pre_stop })
}

fn probe(path: &'static str, values: &Values, timing: &values::Probe) -> Probe {
    Probe {
        http_get: Some(HttpGet {
            path,
            port: values.proxy.ports.admin,
        }),
        initial_delay_seconds: Some(timing.initial_delay_seconds),
        timeout_seconds: Some(timing.timeout_seconds),
        ..Probe::default()
    }
}

fn startup_probe(values: &Values) -> Probe {
    let timing = &values.proxy.startup_probe;
    Probe {
        http_get: Some(HttpGet {
            path: "/ready",
            port: values.proxy.ports.admin,
        }),
        initial_delay_seconds: Some(timing.initial_delay_seconds),
        period_seconds: Some(timing.period_seconds),
        failure_threshold: Some(timing.failure_threshold),
        ..Probe::default()
    }
}

fn volume_mounts<'a>(values: &Values, pod: &Pod<'a>) -> Vec<VolumeMount<'a>> {
    let mount = |mount_path, name| VolumeMount {
        mount_path,
        name,
        read_only: false,
    };
    let mut mounts = vec![mount(IDENTITY_FOLDER, volumes::END_ENTITY)];
    if values.proxy.tracing.enabled {
        mounts.push(mount("/var/run/linkerd/podinfo", volumes::PODINFO));
    }
    if values.identity.service_account_token_projection {
        mounts.push(mount(TOKENS, volumes::IDENTITY_TOKEN));
    } else {
        mounts.extend(api_token(pod));
    }
    mounts
}

/// Where the proxy keeps its key and certificate.
pub(super) const IDENTITY_FOLDER: &str = "/var/run/linkerd/identity/end-entity";

/// Where the token with which the proxy proves its identity is mounted.
pub(super) const TOKENS: &str = "/var/run/secrets/tokens";

/// Where the API server mounts an account's token.
pub(crate) const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// The first application container's mount of the API token, which the proxy shares where it has no token of its own.
pub(super) fn api_token<'a>(pod: &Pod<'a>) -> Option<VolumeMount<'a>> {
    let container = pod.containers().first()?;
    let mount = list(container, "volumeMounts").find(|mount| text(mount, "mountPath") == Some(SERVICE_ACCOUNT))?;
    let read_only = mount.get("readOnly").and_then(Value::as_bool).unwrap_or(false);
    Some(VolumeMount {
        mount_path: SERVICE_ACCOUNT,
        name: text(mount, "name")?,
        read_only,
    })
}
