//! What later hands will say to the values that apply to a pod: the API server, the container runtime and `linkerd-init`.
//!
//! Every field is looked at where it has its final value, so that a fault is found whoever wrote it. Values stay as Linkerd
//! has them; only a quantity that is none keeps the pod out, because the API server cannot even read the pod then.

use super::overrides::NAME_SERVERS;
use super::problem::{Consequence, Problem, quote};
use super::values::{Bounds, Image, Values};
use super::{Config, Installation};
use crate::pod::Quantity;
use crate::redirect;

/// Largest user or group that the API server takes, 2^31 - 1.
pub(super) const LARGEST_ID: i64 = 2_147_483_647;

/// A field that is not what it should be.
struct Fault {
    key: &'static str,
    found: String,
    expected: String,
    consequence: Consequence,
}

/// What was found wrong so far.
#[derive(Default)]
struct Faults(Vec<Fault>);

impl Faults {
    fn unless(&mut self, valid: bool, (key, found): (&'static str, impl ToString), expected: &str) {
        if !valid {
            self.0.push(Fault {
                key,
                found: found.to_string(),
                expected: expected.to_owned(),
                consequence: Consequence::Kept,
            });
        }
    }
}

impl Config {
    /// Looks at every value that is passed on as it is.
    pub(super) fn validate(&mut self, installation: &Installation) {
        let mut faults = Faults::default();
        ports(&mut faults, &self.values);
        users(&mut faults, &self.values);
        images(&mut faults, self);
        resources(&mut faults, self);
        rules(&mut faults, &self.values);
        name_servers(&mut faults, &self.values.outrigger.egress_dns);
        probes(&mut faults, &self.values);
        for Fault {
            key,
            found,
            expected,
            consequence,
        } in faults.0
        {
            let found = self.as_written(key).unwrap_or_else(|| quote(&found));
            self.report(installation, key, format!("{found} is not {expected}"), consequence);
        }
        self.variables(installation);
    }

    /// The value of the annotation that set a field, in quotes.
    fn as_written(&self, key: &str) -> Option<String> {
        self.set_by(key)?.value.clone()
    }

    /// Adds a problem with a field, under the name of what set it.
    pub(super) fn report(&mut self, installation: &Installation, key: &str, fault: String, consequence: Consequence) {
        let (key, origin) = match self.set_by(key) {
            Some(field) => (field.key.clone(), field.origin),
            None => (key.to_owned(), installation.origin(key)),
        };
        self.problems.push(Problem {
            key,
            fault,
            origin,
            consequence,
        });
    }

    /// Names of further environment variables; the variables themselves may be secret.
    fn variables(&mut self, installation: &Installation) {
        let named = |variable: &serde_json::Value| {
            let name = variable
                .get("name")
                .and_then(serde_json::Value::as_str)
                .unwrap_or_default();
            !name.is_empty() && name.bytes().all(|byte| (b' '..=b'~').contains(&byte) && byte != b'=')
        };
        let proxy = &self.values.proxy;
        let lists = [
            ("proxy.additionalEnv", proxy.additional_env.iter().all(named)),
            ("proxy.experimentalEnv", proxy.experimental_env.iter().all(named)),
        ];
        for (key, _) in lists.into_iter().filter(|(_, valid)| !valid) {
            let fault = "a variable has no name that the API server takes: printable ASCII without =".to_owned();
            self.report(installation, key, fault, Consequence::Kept);
        }
    }
}

fn ports(faults: &mut Faults, values: &Values) {
    let ports = &values.proxy.ports;
    for (key, port) in [
        ("proxy.ports.admin", ports.admin),
        ("proxy.ports.control", ports.control),
        ("proxy.ports.inbound", ports.inbound),
        ("proxy.ports.outbound", ports.outbound),
    ] {
        faults.unless((1..=65535).contains(&port), (key, port), "a port from 1 to 65535");
    }
}

fn users(faults: &mut Faults, values: &Values) {
    let (user, group) = (values.proxy.uid, values.proxy.gid);
    // A user of 0 is not for the API server to refuse: no shape is made with it.
    let valid = (0..=LARGEST_ID).contains(&user);
    faults.unless(valid, ("proxy.uid", user), "a user ID from 1 to 2147483647");
    let valid = (-1..=LARGEST_ID).contains(&group);
    let expected = "a group ID from 0 to 2147483647, or -1 for none";
    faults.unless(valid, ("proxy.gid", group), expected);
    let init = &values.proxy_init;
    for (key, id) in [
        ("proxyInit.runAsUser", init.run_as_user),
        ("proxyInit.runAsGroup", init.run_as_group),
    ] {
        faults.unless((0..=LARGEST_ID).contains(&id), (key, id), "an ID from 0 to 2147483647");
    }
}

/// The keys of an image's name, tag and pull policy.
type ImageKeys = [&'static str; 3];

fn images(faults: &mut Faults, config: &Config) {
    let values = &config.values;
    let keys = ["proxy.image.name", "proxy.image.version", "proxy.image.pullPolicy"];
    image(faults, keys, &values.proxy.image);
    if config.debug {
        let keys = [
            "debugContainer.image.name",
            "debugContainer.image.version",
            "debugContainer.image.pullPolicy",
        ];
        image(faults, keys, &values.debug_container.image);
    }
    if !values.outrigger.image.name.is_empty() {
        let keys = [
            "outrigger.image.name",
            "outrigger.image.version",
            "outrigger.image.pullPolicy",
        ];
        image(faults, keys, &values.outrigger.image);
    }
    tag(faults, "linkerdVersion", &values.linkerd_version);
    pull_policy(faults, "imagePullPolicy", &values.image_pull_policy);
}

fn image(faults: &mut Faults, [name, version, policy]: ImageKeys, image: &Image) {
    let valid = !image.name.is_empty() && image.name.bytes().all(|byte| byte.is_ascii_graphic());
    faults.unless(valid, (name, &image.name), "the name of an image");
    tag(faults, version, &image.version);
    pull_policy(faults, policy, &image.pull_policy);
}

/// An empty tag leaves it to the general one.
fn tag(faults: &mut Faults, key: &'static str, tag: &str) {
    let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    // Source: the grammar of image references, which the container runtime reads.
    let valid = tag.len() <= 128
        && tag.bytes().take(1).all(word)
        && tag.bytes().all(|byte| word(byte) || matches!(byte, b'.' | b'-'));
    faults.unless(valid, (key, tag), "the tag of an image");
}

/// An empty policy leaves it to the general one, or to the API server.
fn pull_policy(faults: &mut Faults, key: &'static str, policy: &str) {
    let valid = matches!(policy, "" | "Always" | "IfNotPresent" | "Never");
    faults.unless(valid, (key, policy), "one of Always, IfNotPresent, Never");
}

fn resources(faults: &mut Faults, config: &Config) {
    let resources = &config.values.proxy.resources;
    let keys = |request, limit| (request, limit);
    for ((request, limit), bounds) in [
        (
            keys("proxy.resources.cpu.request", "proxy.resources.cpu.limit"),
            &resources.cpu,
        ),
        (
            keys("proxy.resources.memory.request", "proxy.resources.memory.limit"),
            &resources.memory,
        ),
        (
            keys(
                "proxy.resources.ephemeral-storage.request",
                "proxy.resources.ephemeral-storage.limit",
            ),
            &resources.ephemeral_storage,
        ),
    ] {
        let least = amount(faults, request, &bounds.request);
        let most = amount(faults, limit, &bounds.limit);
        let valid = least.zip(most).is_none_or(|(least, most)| least <= most);
        let of_limit = config.set_by(limit).is_some() || config.set_by(request).is_none();
        let Bounds {
            request: low,
            limit: high,
        } = bounds;
        match of_limit {
            true => faults.unless(valid, (limit, high), &format!("at least the request, {}", quote(low))),
            false => faults.unless(valid, (request, low), &format!("at most the limit, {}", quote(high))),
        }
    }
}

/// One request or limit; empty where there is none.
fn amount(faults: &mut Faults, key: &'static str, text: &str) -> Option<Quantity> {
    let quantity = Quantity::parse(text).filter(|quantity| !quantity.is_negative());
    if quantity.is_none() && !text.is_empty() {
        faults.0.push(Fault {
            key,
            found: text.to_owned(),
            expected: "a resource quantity such as 100m or 250Mi".to_owned(),
            consequence: Consequence::Fatal,
        });
    }
    quantity
}

/// What `linkerd-init` is told, its lists apart.
fn rules(faults: &mut Faults, values: &Values) {
    let init = &values.proxy_init;
    let seconds = init.close_wait_timeout_secs;
    faults.unless(
        seconds >= 0,
        ("proxyInit.closeWaitTimeoutSecs", seconds),
        "a duration of 0 or more",
    );
    let name = init.xt_mount_path.name.as_str();
    let dashed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let ends = name.starts_with('-') || name.ends_with('-');
    let valid = (1..=63).contains(&name.len()) && name.bytes().all(dashed) && !ends;
    faults.unless(valid, ("proxyInit.xtMountPath.name", name), "the name of a volume");
    let path = init.xt_mount_path.mount_path.as_str();
    let valid = !path.is_empty() && !path.contains(':');
    faults.unless(valid, ("proxyInit.xtMountPath.mountPath", path), "the path of a folder");
}

/// An annotation was read already.
fn name_servers(faults: &mut Faults, list: &str) {
    if redirect::name_servers(list).is_err() {
        faults.0.push(Fault {
            key: "outrigger.egressDNS",
            found: list.to_owned(),
            expected: NAME_SERVERS.to_owned(),
            consequence: Consequence::Fatal,
        });
    }
}

fn probes(faults: &mut Faults, values: &Values) {
    let proxy = &values.proxy;
    let (liveness, readiness, startup) = (&proxy.liveness_probe, &proxy.readiness_probe, &proxy.startup_probe);
    for (key, number) in [
        (
            "proxy.livenessProbe.initialDelaySeconds",
            liveness.initial_delay_seconds,
        ),
        ("proxy.livenessProbe.timeoutSeconds", liveness.timeout_seconds),
        (
            "proxy.readinessProbe.initialDelaySeconds",
            readiness.initial_delay_seconds,
        ),
        ("proxy.readinessProbe.timeoutSeconds", readiness.timeout_seconds),
        ("proxy.startupProbe.initialDelaySeconds", startup.initial_delay_seconds),
        ("proxy.startupProbe.periodSeconds", startup.period_seconds),
        ("proxy.startupProbe.failureThreshold", startup.failure_threshold),
    ] {
        let valid = (0..=i64::from(i32::MAX)).contains(&number);
        faults.unless(valid, (key, number), "a number from 0 to 2147483647");
    }
}

#[cfg(test)]
mod tests;
