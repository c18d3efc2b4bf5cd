//! The checks of the baseline level, but for profiles.

use std::collections::BTreeSet;

use serde_json::Value;

use super::evaluation::Finding;
use super::subject::{Subject, strings};
use super::wording::{containers, plural, quoted, setters};
use crate::pod;
use crate::policy::Release;

/// Capabilities that a container may add; names are compared exactly.
const CAPABILITIES: [&str; 13] = [
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
];

/// Sysctls that a pod may set, each with the first policy version that allows it.
const SYSCTLS: [(&str, u32); 14] = [
    ("kernel.shm_rmid_forced", 0),
    ("net.ipv4.ip_local_port_range", 0),
    ("net.ipv4.ip_unprivileged_port_start", 0),
    ("net.ipv4.ping_group_range", 0),
    ("net.ipv4.tcp_syncookies", 0),
    ("net.ipv4.ip_local_reserved_ports", 27),
    ("net.ipv4.tcp_fin_timeout", 29),
    ("net.ipv4.tcp_keepalive_intvl", 29),
    ("net.ipv4.tcp_keepalive_probes", 29),
    ("net.ipv4.tcp_keepalive_time", 29),
    ("net.ipv4.tcp_rmem", 32),
    ("net.ipv4.tcp_wmem", 32),
    ("net.ipv4.tcp_notsent_lowat", 37),
    ("net.ipv4.tcp_slow_start_after_idle", 37),
];

/// Types of `seLinuxOptions` that may be set, each with the first policy version that allows it.
const SE_LINUX_TYPES: [(&str, u32); 5] = [
    ("", 0),
    ("container_t", 0),
    ("container_init_t", 0),
    ("container_kvm_t", 0),
    ("container_engine_t", 31),
];

/// `capabilities_baseline`
pub(super) fn capabilities(subject: &Subject<'_>) -> Option<Finding> {
    let found = subject.offenders(|container| {
        let added = strings(container.setting("capabilities"), "add");
        added.filter(|added| !CAPABILITIES.contains(added))
    });
    finding(&found.names, "non-default capabilities", || {
        let (who, what) = (containers(&found.names), quoted(&found.values));
        format!("{who} must not include {what} in securityContext.capabilities.add")
    })
}

/// `hostNamespaces`
pub(super) fn host_namespaces(subject: &Subject<'_>) -> Option<Finding> {
    let shared = |key: &&str| pod::boolean(subject.pod.spec(), key) == Some(true);
    let shared: Vec<_> = ["hostNetwork", "hostPID", "hostIPC"]
        .into_iter()
        .filter(shared)
        .collect();
    finding(&shared, "host namespaces", || {
        let set: Vec<_> = shared.iter().map(|key| format!("{key}=true")).collect();
        set.join(", ")
    })
}

/// `hostPathVolumes`
pub(super) fn host_path_volumes(subject: &Subject<'_>) -> Option<Finding> {
    let volumes = subject
        .pod
        .volumes()
        .iter()
        .filter(|volume| pod::object(volume, "hostPath").is_some());
    let names: Vec<_> = volumes
        .map(|volume| pod::text(volume, "name").unwrap_or_default())
        .collect();
    finding(&names, "hostPath volumes", || {
        format!("{} {}", plural(names.len(), "volume", "volumes"), quoted(&names))
    })
}

/// `hostPorts`
pub(super) fn host_ports(subject: &Subject<'_>) -> Option<Finding> {
    let host_port = |port| pod::integer(port, "hostPort").filter(|&number| number != 0);
    let found = subject.offenders(|container| pod::list(container.value, "ports").filter_map(host_port));
    finding(&found.names, "hostPort", || {
        // Sorted as texts: 443 before 80.
        let ports: BTreeSet<_> = found.values.iter().map(ToString::to_string).collect();
        let ports: Vec<_> = ports.into_iter().collect();
        let uses = plural(found.names.len(), "uses", "use");
        let noun = plural(ports.len(), "hostPort", "hostPorts");
        format!("{} {uses} {noun} {}", containers(&found.names), ports.join(", "))
    })
}

/// `hostProbesAndHostLifecycle`
pub(super) fn host_probes(subject: &Subject<'_>) -> Option<Finding> {
    // 1.34 has the check behind its own release, not behind the policy version, where it emulates an older one.
    if subject.server.offers() < Release(34) {
        return None;
    }
    let found = subject.offenders(|container| probe_hosts(container.value));
    finding(&found.names, "probe or lifecycle host", || {
        let names: BTreeSet<_> = found.names.iter().copied().collect();
        let names: Vec<_> = names.into_iter().collect();
        let uses = plural(names.len(), "uses", "use");
        let noun = plural(
            found.values.len(),
            "probe or lifecycle host",
            "probe or lifecycle hosts",
        );
        format!("{} {uses} {noun} {}", containers(&names), quoted(&found.values))
    })
}

/// The hosts that the probes and lifecycle handlers of `container` call.
fn probe_hosts(container: &Value) -> impl Iterator<Item = &str> {
    let probes = ["livenessProbe", "readinessProbe", "startupProbe"].map(|key| container.get(key));
    let lifecycle = container.get("lifecycle");
    let handlers = ["postStart", "preStop"].map(|key| lifecycle.and_then(|lifecycle| lifecycle.get(key)));
    let all = probes.into_iter().chain(handlers).flatten().flat_map(handler_hosts);
    all.flatten().filter(|host| !host.is_empty())
}

fn handler_hosts(handler: &Value) -> [Option<&str>; 2] {
    ["httpGet", "tcpSocket"].map(|key| handler.get(key).and_then(|call| pod::text(call, "host")))
}

/// `privileged`
pub(super) fn privileged(subject: &Subject<'_>) -> Option<Finding> {
    let names = subject.containers_where(|container| container.flag("privileged") == Some(true));
    finding(&names, "privileged", || {
        format!("{} must not set securityContext.privileged=true", containers(&names))
    })
}

/// `procMount`
pub(super) fn proc_mount(subject: &Subject<'_>) -> Option<Finding> {
    if subject.spared_in_user_namespace(31) {
        None
    } else {
        masked_proc_mount(subject)
    }
}

/// The part of `procMount` that the restricted level keeps in a user namespace.
pub(super) fn masked_proc_mount(subject: &Subject<'_>) -> Option<Finding> {
    // Before 1.33 the feature is off and the field is reset to its default.
    if subject.stored && subject.server.offers() < Release(33) {
        return None;
    }
    let found = subject.offenders(|container| {
        let mount = container.setting("procMount").and_then(Value::as_str);
        mount.filter(|&mount| mount != "Default")
    });
    finding(&found.names, "procMount", || {
        format!(
            "{} must not set securityContext.procMount to {}",
            containers(&found.names),
            quoted(&found.values)
        )
    })
}

/// `seLinuxOptions`
pub(super) fn se_linux_options(subject: &Subject<'_>) -> Option<Finding> {
    let allowed = |kind: &str| {
        SE_LINUX_TYPES
            .iter()
            .any(|&(name, since)| name == kind && subject.minor >= since)
    };
    let breaks = |options: &Value| {
        !allowed(part(options, "type")) || ["user", "role"].iter().any(|key| !part(options, key).is_empty())
    };
    let bad = |context| pod::object(context, "seLinuxOptions").filter(|options| breaks(options));

    let of_pod = subject.pod.security_context().and_then(bad);
    let of_containers: Vec<(&str, &Value)> = subject
        .containers
        .iter()
        .filter_map(|container| Some((container.name(), container.context.and_then(bad)?)))
        .collect();
    let options: Vec<_> = of_pod
        .into_iter()
        .chain(of_containers.iter().map(|&(_, options)| options))
        .collect();
    finding(&options, "seLinuxOptions", || {
        let names: Vec<_> = of_containers.iter().map(|&(name, _)| name).collect();
        let types: BTreeSet<_> = options
            .iter()
            .map(|&options| part(options, "type"))
            .filter(|t| !allowed(t))
            .collect();
        let set = |key| options.iter().any(|&options| !part(options, key).is_empty());
        let words = se_linux_words(subject, &types, set("user"), set("role"));
        format!(
            "{} set forbidden securityContext.seLinuxOptions: {words}",
            setters(of_pod.is_some(), &names)
        )
    })
}

fn se_linux_words(subject: &Subject<'_>, types: &BTreeSet<&str>, user: bool, role: bool) -> String {
    let mut words = Vec::new();
    if !types.is_empty() {
        words.push(format!("{} {}", plural(types.len(), "type", "types"), quoted(types)));
    }
    // Releases before 1.26 forget to name the other two where no type is bad.
    let named = subject.server.since(26) || !types.is_empty();
    for (set, name) in [(user, "user"), (role, "role")] {
        if set && named {
            words.push(format!("{name} may not be set"));
        }
    }
    words.join("; ")
}

/// A part of `seLinuxOptions`, empty where it is not set.
fn part<'v>(options: &'v Value, key: &str) -> &'v str {
    pod::text(options, key).unwrap_or_default()
}

/// `sysctls`
pub(super) fn sysctls(subject: &Subject<'_>) -> Option<Finding> {
    let allowed = |name: &str| {
        SYSCTLS
            .iter()
            .any(|&(known, since)| name == known && subject.minor >= since)
    };
    let context = subject.pod.security_context();
    let sysctls = context.into_iter().flat_map(|context| pod::list(context, "sysctls"));
    let names = sysctls.map(|sysctl| pod::text(sysctl, "name").unwrap_or_default());
    let names: Vec<_> = names.filter(|name| !allowed(name)).collect();
    finding(&names, "forbidden sysctls", || names.join(", "))
}

/// `windowsHostProcess`
pub(super) fn windows_host_process(subject: &Subject<'_>) -> Option<Finding> {
    let set = |context: &Value| {
        context
            .get("windowsOptions")
            .and_then(|options| pod::boolean(options, "hostProcess"))
            == Some(true)
    };
    let of_pod = subject.pod.security_context().is_some_and(set);
    let names = subject.containers_where(|container| container.context.is_some_and(set));
    (of_pod || !names.is_empty()).then(|| Finding {
        reason: "hostProcess",
        detail: format!(
            "{} must not set securityContext.windowsOptions.hostProcess=true",
            setters(of_pod, &names)
        ),
    })
}

/// A finding where there is an offender.
pub(super) fn finding<T>(offenders: &[T], reason: &'static str, detail: impl FnOnce() -> String) -> Option<Finding> {
    (!offenders.is_empty()).then(|| Finding {
        reason,
        detail: detail(),
    })
}
