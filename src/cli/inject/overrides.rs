//! The flags of `inject` that override the values.
//!
//! Each is read with the grammar of the annotation that says the same, and shows up as that annotation in the output
//! where it changes a value. Names and meanings are those of Linkerd's `inject`.

use crate::config::difference;
use crate::config::values::Values;
use crate::redirect::PortRange;
use anyhow::{Result, bail};
use clap::{ArgAction, Args};
use std::num::NonZeroU16;

/// Flags that override the values.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Overrides of the installation's values")]
pub(super) struct Overrides {
    /// Image of the proxy, without a tag
    #[arg(long, value_name = "NAME")]
    proxy_image: Option<String>,
    /// Tag of the proxy's image
    #[arg(short = 'v', long, value_name = "TAG")]
    proxy_version: Option<String>,
    /// Pull policy of the proxy's image
    #[arg(long, value_name = "POLICY")]
    image_pull_policy: Option<String>,
    /// Registry of the images, instead of the one that they name
    #[arg(
        long,
        value_name = "REGISTRY",
        env = "LINKERD_DOCKER_REGISTRY",
        hide_env_values = true
    )]
    registry: Option<String>,
    /// Port of the proxy for inbound traffic
    #[arg(long, value_name = "PORT")]
    inbound_port: Option<String>,
    /// Port of the proxy for outbound traffic
    #[arg(long, value_name = "PORT")]
    outbound_port: Option<String>,
    /// Port of the proxy for control
    #[arg(long, value_name = "PORT")]
    control_port: Option<String>,
    /// Port of the proxy for probes and metrics
    #[arg(long, value_name = "PORT")]
    admin_port: Option<String>,
    /// Inbound ports and ranges that pass the proxy by
    #[arg(long, value_name = "PORTS", value_delimiter = ',')]
    skip_inbound_ports: Option<Vec<String>>,
    /// Outbound ports and ranges that pass the proxy by
    #[arg(long, value_name = "PORTS", value_delimiter = ',')]
    skip_outbound_ports: Option<Vec<String>>,
    /// Ports and ranges whose protocol is not detected
    #[arg(long, value_name = "PORTS", value_delimiter = ',')]
    opaque_ports: Option<Vec<String>>,
    /// Inbound ports that only meshed clients may use
    #[arg(long, value_name = "PORTS", value_delimiter = ',')]
    require_identity_on_inbound_ports: Option<Vec<String>>,
    /// User of the proxy
    #[arg(long, value_name = "ID")]
    proxy_uid: Option<String>,
    /// Group of the proxy; negative for none
    #[arg(long, value_name = "ID", allow_negative_numbers = true)]
    proxy_gid: Option<String>,
    /// Log filter of the proxy
    #[arg(long, value_name = "FILTER")]
    proxy_log_level: Option<String>,
    /// CPU that the proxy requests
    #[arg(long, value_name = "QUANTITY", alias = "proxy-cpu")]
    proxy_cpu_request: Option<String>,
    /// CPU that the proxy may use
    #[arg(long, value_name = "QUANTITY")]
    proxy_cpu_limit: Option<String>,
    /// Memory that the proxy requests
    #[arg(long, value_name = "QUANTITY", alias = "proxy-memory")]
    proxy_memory_request: Option<String>,
    /// Memory that the proxy may use
    #[arg(long, value_name = "QUANTITY")]
    proxy_memory_limit: Option<String>,
    /// What inbound traffic without a policy of its own gets
    #[arg(long, value_name = "POLICY")]
    default_inbound_policy: Option<String>,
    /// Seconds that the proxy waits before it stops
    #[arg(long, value_name = "SECONDS")]
    wait_before_exit_seconds: Option<String>,
    /// Apply service profiles to names outside the cluster
    #[arg(long, value_name = "BOOL", action = ArgAction::Set, num_args = 0..=1, require_equals = true, hide_possible_values = true, default_missing_value = "true")]
    enable_external_profiles: Option<bool>,
    /// Run the proxy as an init container that restarts
    #[arg(long, value_name = "BOOL", action = ArgAction::Set, num_args = 0..=1, require_equals = true, hide_possible_values = true, default_missing_value = "true")]
    native_sidecar: Option<bool>,
    /// Put the proxy into ingress mode
    #[arg(long, value_name = "BOOL", action = ArgAction::Set, num_args = 0..=1, require_equals = true, hide_possible_values = true, default_missing_value = "true")]
    ingress: Option<bool>,
    #[arg(long, hide = true)]
    disable_identity: bool,
}

/// The annotation that says the same as a flag.
fn annotation(flag: &str) -> String {
    match flag {
        // The only one that has another name.
        "wait-before-exit-seconds" => "config.alpha.linkerd.io/proxy-wait-before-exit-seconds".to_owned(),
        flag => format!("config.linkerd.io/{flag}"),
    }
}

/// Refuses a list with an entry that is no port; an empty one is a comma too many.
fn check_list(flag: &str, list: Option<&[String]>, is_port: impl Fn(&str) -> bool) -> Result<()> {
    let entries = list.unwrap_or_default().iter();
    match entries.filter(|entry| !entry.is_empty()).find(|entry| !is_port(entry)) {
        Some(entry) => bail!("--{flag}: {entry:?} is not a port or a range of ports"),
        None => Ok(()),
    }
}

impl Overrides {
    /// Overrides `values`. Returns what Linkerd would ignore, and so is ignored here, one sentence a flag.
    pub(super) fn apply(&self, values: &mut Values) -> Result<Vec<String>> {
        if self.disable_identity {
            bail!("--disable-identity is no longer supported; identity is always required");
        }
        self.check_lists()?;
        let mut ignored = Vec::new();
        for (flag, value) in self.given() {
            if flag.ends_with("-port") && value.parse::<NonZeroU16>().is_err() {
                bail!("--{flag}: {value:?} is not a port from 1 to 65535");
            }
            if let Err(unreadable) = difference::set(values, &annotation(flag), value) {
                let sentence = format!("--{flag}: {value:?} is not {}", unreadable.expected);
                // Linkerd passes an unknown policy on, and its webhook ignores it.
                if flag != "default-inbound-policy" {
                    bail!(sentence);
                }
                ignored.push(sentence);
            }
        }
        self.apply_others(values);
        Ok(ignored)
    }

    /// Refuses what can be no port in lists of ports; whether a pod has a port of a name only the webhook can tell.
    fn check_lists(&self) -> Result<()> {
        let port = |entry: &str| entry.parse::<PortRange>().is_ok();
        // These are read with blanks around them.
        let padded = |entry: &str| port(entry.trim());
        let named = |entry: &str| padded(entry) || entry.contains(|c: char| c.is_ascii_alphabetic());
        check_list("skip-inbound-ports", self.skip_inbound_ports.as_deref(), port)?;
        check_list("skip-outbound-ports", self.skip_outbound_ports.as_deref(), port)?;
        check_list("opaque-ports", self.opaque_ports.as_deref(), named)?;
        let identity = self.require_identity_on_inbound_ports.as_deref();
        check_list("require-identity-on-inbound-ports", identity, padded)
    }

    /// The flags that were given, each with its value.
    fn given(&self) -> impl Iterator<Item = (&'static str, &String)> {
        let flags = [
            ("proxy-image", &self.proxy_image),
            ("proxy-version", &self.proxy_version),
            ("inbound-port", &self.inbound_port),
            ("outbound-port", &self.outbound_port),
            ("control-port", &self.control_port),
            ("admin-port", &self.admin_port),
            ("proxy-uid", &self.proxy_uid),
            ("proxy-gid", &self.proxy_gid),
            ("proxy-log-level", &self.proxy_log_level),
            ("proxy-cpu-request", &self.proxy_cpu_request),
            ("proxy-cpu-limit", &self.proxy_cpu_limit),
            ("proxy-memory-request", &self.proxy_memory_request),
            ("proxy-memory-limit", &self.proxy_memory_limit),
            ("default-inbound-policy", &self.default_inbound_policy),
            ("wait-before-exit-seconds", &self.wait_before_exit_seconds),
        ];
        flags
            .into_iter()
            .filter_map(|(flag, value)| Some((flag, value.as_ref()?)))
    }

    /// Lists, booleans, and flags that set more than one value: nothing in them is unreadable by now.
    fn apply_others(&self, values: &mut Values) {
        let proxy = &mut values.proxy;
        let lists = [
            (&self.skip_inbound_ports, &mut values.proxy_init.ignore_inbound_ports),
            (&self.skip_outbound_ports, &mut values.proxy_init.ignore_outbound_ports),
            (&self.opaque_ports, &mut proxy.opaque_ports),
            (
                &self.require_identity_on_inbound_ports,
                &mut proxy.require_identity_on_inbound_ports,
            ),
        ];
        for (list, field) in lists {
            if let Some(list) = list {
                *field = list.join(",");
            }
        }
        let booleans = [
            (self.enable_external_profiles, &mut proxy.enable_external_profiles),
            (self.native_sidecar, &mut proxy.native_sidecar),
            (self.ingress, &mut proxy.is_ingress),
        ];
        for (value, field) in booleans {
            *field = value.unwrap_or(*field);
        }
        if let Some(policy) = &self.image_pull_policy {
            let debug = &mut values.debug_container.image.pull_policy;
            for field in [&mut values.image_pull_policy, &mut proxy.image.pull_policy, debug] {
                field.clone_from(policy);
            }
        }
        if let Some(registry) = &self.registry {
            for image in [&mut proxy.image.name, &mut values.debug_container.image.name] {
                let name = image.rsplit('/').next().unwrap_or_default();
                *image = format!("{}/{name}", registry.trim_end_matches('/'));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use serde_json::{Value, json};

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        overrides: Overrides,
    }

    /// The annotations that the flags stand for, and what was ignored of them.
    fn annotations(arguments: &str) -> Result<(Value, Vec<String>)> {
        let command = Command::try_parse_from(std::iter::once("inject").chain(arguments.split_whitespace()))?;
        let mut values = Values::default();
        let ignored = command.overrides.apply(&mut values)?;
        Ok((json!(difference::annotations(&Values::default(), &values)), ignored))
    }

    #[test]
    fn every_flag_becomes_its_annotation() {
        let cases = [
            (
                "--proxy-image a/b -v v1",
                json!({"proxy-image": "a/b", "proxy-version": "v1"}),
            ),
            ("--image-pull-policy Always", json!({"image-pull-policy": "Always"})),
            (
                "--registry my.reg:5000/x/",
                json!({"proxy-image": "my.reg:5000/x/proxy", "debug-image": "my.reg:5000/x/debug"}),
            ),
            (
                "--inbound-port 1 --outbound-port 2 --control-port 3 --admin-port 4191",
                json!({"inbound-port": "1", "outbound-port": "2", "control-port": "3"}),
            ),
            (
                "--skip-inbound-ports 22,8100-8102 --skip-inbound-ports 9 --skip-outbound-ports 5432",
                json!({"skip-inbound-ports": "22,8100-8102,9", "skip-outbound-ports": "5432"}),
            ),
            (
                "--opaque-ports 3000,mysql --require-identity-on-inbound-ports 8080",
                json!({"opaque-ports": "3000,mysql", "proxy-require-identity-inbound-ports": "8080"}),
            ),
            ("--proxy-uid 7 --proxy-gid -1", json!({"proxy-uid": "7"})),
            (
                "--proxy-cpu 100m --proxy-memory-limit 1Gi",
                json!({"proxy-cpu-request": "100m", "proxy-memory-limit": "1Gi"}),
            ),
            (
                "--native-sidecar=false --enable-external-profiles",
                json!({"proxy-enable-native-sidecar": "false", "enable-external-profiles": "true"}),
            ),
            ("--native-sidecar", json!({})),
            (
                "--default-inbound-policy deny --proxy-log-level debug",
                json!({"default-inbound-policy": "deny", "proxy-log-level": "debug"}),
            ),
        ];
        for (arguments, expected) in cases {
            let expected: Value = expected
                .as_object()
                .unwrap()
                .iter()
                .map(|(key, value)| (format!("config.linkerd.io/{key}"), value.clone()))
                .collect();
            assert_eq!(annotations(arguments).unwrap(), (expected, vec![]), "{arguments}");
        }
        assert_eq!(
            annotations("--ingress").unwrap().0,
            json!({"linkerd.io/inject": "ingress"})
        );
        let wait = json!({"config.alpha.linkerd.io/proxy-wait-before-exit-seconds": "5"});
        assert_eq!(annotations("--wait-before-exit-seconds 5").unwrap().0, wait);
    }

    #[test]
    fn bad_values_are_named() {
        let error = |arguments: &str| annotations(arguments).unwrap_err().to_string();
        assert_eq!(
            error("--proxy-uid 0"),
            "--proxy-uid: \"0\" is not a user ID other than 0"
        );
        assert_eq!(
            error("--proxy-cpu-request lots"),
            "--proxy-cpu-request: \"lots\" is not a resource quantity such as 100m or 250Mi"
        );
        assert!(error("--disable-identity").contains("no longer supported"));
        for (arguments, fault) in [
            (
                "--admin-port 70000",
                "--admin-port: \"70000\" is not a port from 1 to 65535",
            ),
            (
                "--inbound-port 0",
                "--inbound-port: \"0\" is not a port from 1 to 65535",
            ),
            (
                "--control-port x",
                "--control-port: \"x\" is not a port from 1 to 65535",
            ),
            (
                "--skip-inbound-ports 22,junk",
                "--skip-inbound-ports: \"junk\" is not a port or a range of ports",
            ),
            (
                "--skip-outbound-ports 9-3",
                "--skip-outbound-ports: \"9-3\" is not a port or a range of ports",
            ),
            (
                "--opaque-ports 70000",
                "--opaque-ports: \"70000\" is not a port or a range of ports",
            ),
            (
                "--require-identity-on-inbound-ports a",
                "--require-identity-on-inbound-ports: \"a\" is not a port or a range of ports",
            ),
        ] {
            assert_eq!(error(arguments), fault);
        }
        let (annotations, ignored) = annotations("--default-inbound-policy all").unwrap();
        assert_eq!(annotations, json!({}));
        assert!(ignored[0].starts_with("--default-inbound-policy: \"all\" is not one of all-unauthenticated"));
    }
}
