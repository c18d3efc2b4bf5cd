//! The cluster's policies, compiled: each rule parsed once, in the order in which they are tried.

use std::collections::BTreeMap;

use serde_json::Value;

use super::capabilities::CapabilityRule;
use super::identity::{GroupRule, Ranges, UserRule};
use super::object::{Identities, Object, PortRange, RuntimeClass, SeLinux, Spec};
use super::profiles::{AppArmorRule, SeccompRule};
use super::se_linux::SeLinuxRule;
use super::sysctls::SysctlRule;
use super::volumes::VolumeRule;
use crate::pod;

/// Every policy of a cluster.
#[derive(Clone, Debug, Default)]
pub struct Policies {
    /// By name, which is the order in which they are tried.
    pub(super) policies: Vec<Policy>,
    unusable: Vec<UnusablePolicy>,
}

/// A policy that the API server leaves out without a word: it is as if the object were not there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("PodSecurityPolicy {policy}: {fault}")]
pub struct UnusablePolicy {
    /// Its name.
    pub policy: String,
    fault: Fault,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum Fault {
    #[error("{path}: {error}")]
    Unreadable { path: String, error: String },
    #[error("spec.{field}.rule: {rule:?}: expected {expected}")]
    Rule {
        field: &'static str,
        rule: String,
        expected: &'static str,
    },
    #[error("spec.{field}.{missing}: missing: {rule} needs it")]
    Missing {
        field: &'static str,
        rule: String,
        missing: &'static str,
    },
}

/// One policy.
#[derive(Clone, Debug)]
pub(super) struct Policy {
    pub(super) name: String,
    pub(super) host: Host,
    pub(super) privileged: bool,
    pub(super) read_only_root_filesystem: bool,
    pub(super) default_allow_privilege_escalation: Option<bool>,
    pub(super) allow_privilege_escalation: bool,
    pub(super) user: UserRule,
    pub(super) group: GroupRule,
    pub(super) fs_group: GroupRule,
    pub(super) supplemental_groups: GroupRule,
    pub(super) se_linux: SeLinuxRule,
    pub(super) seccomp: SeccompRule,
    pub(super) app_armor: AppArmorRule,
    pub(super) capabilities: CapabilityRule,
    pub(super) sysctls: SysctlRule,
    pub(super) volumes: VolumeRule,
    pub(super) runtime_class: Option<RuntimeClass>,
    pub(super) proc_mounts: Vec<String>,
}

/// What of the node a pod may use.
#[derive(Clone, Debug)]
pub(super) struct Host {
    pub(super) network: bool,
    pub(super) pid: bool,
    pub(super) ipc: bool,
    pub(super) ports: Vec<PortRange>,
}

impl Policies {
    /// Compiles policies, objects of `policy/v1beta1`. Of two with one name the last counts.
    pub fn compile<'o>(objects: impl IntoIterator<Item = &'o Value>) -> Self {
        let by_name: BTreeMap<_, _> = objects
            .into_iter()
            .map(|object| {
                let name = object.get("metadata").and_then(|metadata| pod::text(metadata, "name"));
                (name.unwrap_or_default(), object)
            })
            .collect();
        let mut compiled = Self::default();
        for (name, object) in by_name {
            match Policy::compile(name, object) {
                Ok(policy) => compiled.policies.push(policy),
                Err(fault) => compiled.unusable.push(UnusablePolicy {
                    policy: name.to_owned(),
                    fault,
                }),
            }
        }
        compiled
    }

    /// Whether there is no policy that could take a pod: the API server then refuses every pod.
    pub fn is_empty(&self) -> bool {
        self.policies.is_empty()
    }

    /// The policies that are left out, by name.
    pub fn unusable(&self) -> &[UnusablePolicy] {
        &self.unusable
    }
}

impl Policy {
    fn compile(name: &str, object: &Value) -> Result<Self, Fault> {
        let object: Object = serde_path_to_error::deserialize(object).map_err(|error| Fault::Unreadable {
            path: error.path().to_string(),
            error: error.into_inner().to_string(),
        })?;
        let Object { metadata, mut spec } = object;
        Ok(Self {
            name: name.to_owned(),
            capabilities: CapabilityRule::take(&mut spec),
            sysctls: SysctlRule::take(&mut spec),
            volumes: VolumeRule::take(&mut spec),
            seccomp: SeccompRule::read(&metadata),
            app_armor: AppArmorRule::read(&metadata),
            host: Host::take(&mut spec),
            privileged: spec.privileged,
            read_only_root_filesystem: spec.read_only_root_filesystem,
            default_allow_privilege_escalation: spec.default_allow_privilege_escalation,
            // Older than the field, policies without it allow what they allowed.
            allow_privilege_escalation: spec.allow_privilege_escalation.unwrap_or(true),
            user: user_rule(spec.run_as_user)?,
            group: match spec.run_as_group {
                Some(rule) => group_rule("runAsGroup", rule)?,
                None => GroupRule::RunAsAny,
            },
            se_linux: se_linux_rule(spec.se_linux)?,
            fs_group: group_rule("fsGroup", spec.fs_group)?,
            supplemental_groups: group_rule("supplementalGroups", spec.supplemental_groups)?,
            runtime_class: spec.runtime_class,
            proc_mounts: spec.allowed_proc_mount_types,
        })
    }
}

impl Host {
    fn take(spec: &mut Spec) -> Self {
        Self {
            network: spec.host_network,
            pid: spec.host_pid,
            ipc: spec.host_ipc,
            ports: std::mem::take(&mut spec.host_ports),
        }
    }
}

fn ranges(field: &'static str, rule: Identities) -> Result<Ranges, Fault> {
    let Identities { rule, ranges } = rule;
    Ranges::new(ranges).ok_or(Fault::Missing {
        field,
        rule,
        missing: "ranges",
    })
}

fn user_rule(rule: Identities) -> Result<UserRule, Fault> {
    match rule.rule.as_str() {
        "RunAsAny" => Ok(UserRule::RunAsAny),
        "MustRunAsNonRoot" => Ok(UserRule::MustRunAsNonRoot),
        "MustRunAs" => ranges("runAsUser", rule).map(UserRule::MustRunAs),
        _ => Err(Fault::Rule {
            field: "runAsUser",
            rule: rule.rule,
            expected: "MustRunAs, MustRunAsNonRoot or RunAsAny",
        }),
    }
}

fn group_rule(field: &'static str, rule: Identities) -> Result<GroupRule, Fault> {
    match rule.rule.as_str() {
        "RunAsAny" => Ok(GroupRule::RunAsAny),
        "MayRunAs" => ranges(field, rule).map(GroupRule::MayRunAs),
        "MustRunAs" => ranges(field, rule).map(GroupRule::MustRunAs),
        _ => Err(Fault::Rule {
            field,
            rule: rule.rule,
            expected: "MustRunAs, MayRunAs or RunAsAny",
        }),
    }
}

fn se_linux_rule(rule: SeLinux) -> Result<SeLinuxRule, Fault> {
    let SeLinux { rule, se_linux_options } = rule;
    match (rule.as_str(), se_linux_options) {
        ("RunAsAny", _) => Ok(SeLinuxRule::RunAsAny),
        ("MustRunAs", Some(options)) => Ok(SeLinuxRule::MustRunAs(options)),
        ("MustRunAs", None) => Err(Fault::Missing {
            field: "seLinux",
            rule,
            missing: "seLinuxOptions",
        }),
        _ => Err(Fault::Rule {
            field: "seLinux",
            rule,
            expected: "MustRunAs or RunAsAny",
        }),
    }
}
