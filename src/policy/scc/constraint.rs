//! A `SecurityContextConstraints` object, read once from its JSON.

use std::ops::RangeInclusive;

use serde_json::Value;

use super::order;
use super::volumes::VolumeTypes;
use crate::pod;
use crate::policy::Requester;

/// One `SecurityContextConstraints` object.
///
/// A field of the wrong type reads as absent; an API server lets none through.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "the object has as many switches")]
pub(super) struct Constraint {
    pub(super) name: String,
    pub(super) rank: order::Rank,
    /// The names of users who may use it, whatever RBAC says.
    pub(super) users: Vec<String>,
    /// The groups whose members may.
    pub(super) groups: Vec<String>,
    pub(super) privileged: bool,
    pub(super) host_network: bool,
    pub(super) host_ports: bool,
    pub(super) host_pid: bool,
    pub(super) host_ipc: bool,
    pub(super) read_only_root: bool,
    /// Whether a pod must have a user namespace of its own.
    pub(super) user_namespace: bool,
    pub(super) escalation: bool,
    pub(super) default_escalation: Option<bool>,
    pub(super) capabilities: Capabilities,
    pub(super) run_as_user: UserStrategy,
    pub(super) se_linux: SeLinuxStrategy,
    pub(super) fs_group: GroupStrategy,
    pub(super) supplemental_groups: GroupStrategy,
    /// Profiles as annotations write them; `*` is any.
    pub(super) seccomp: Vec<String>,
    pub(super) volumes: VolumeTypes,
    /// The drivers allowed; none stands for all.
    pub(super) flex_drivers: Vec<String>,
    pub(super) unsafe_sysctls: Vec<String>,
    pub(super) forbidden_sysctls: Vec<String>,
}

/// What a constraint says of capabilities; names are compared as they are written.
#[derive(Clone, Debug, Default)]
pub(super) struct Capabilities {
    pub(super) allowed: Vec<String>,
    pub(super) default_add: Vec<String>,
    pub(super) required_drop: Vec<String>,
}

/// `runAsUser`
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum UserStrategy {
    Any,
    NotRoot,
    /// One user, which the object must name.
    One(Option<i64>),
    /// A range; the namespace's where the object names neither end.
    Range(Option<i64>, Option<i64>),
    Unknown(String),
}

/// `seLinuxContext`
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SeLinuxStrategy {
    Any,
    /// Exactly these options; an empty level is the namespace's.
    One(SeLinux),
    Unknown(String),
}

/// `fsGroup` and `supplementalGroups`
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum GroupStrategy {
    Any,
    /// Groups in the ranges; in the namespace's where there are none.
    Within(Vec<RangeInclusive<i64>>),
    Unknown(String),
}

/// `seLinuxOptions`; what is absent is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SeLinux {
    pub(super) level: String,
    pub(super) role: String,
    pub(super) kind: String,
    pub(super) user: String,
}

impl Constraint {
    /// Reads an object with the defaults that OpenShift gives it.
    pub(super) fn read(object: &Value) -> Self {
        let flag = |key| pod::boolean(object, key) == Some(true);
        let capabilities = Capabilities {
            allowed: strings(object, "allowedCapabilities"),
            default_add: strings(object, "defaultAddCapabilities"),
            required_drop: strings(object, "requiredDropCapabilities"),
        };
        let flex = pod::list(object, "allowedFlexVolumes");
        let mut constraint = Self {
            name: object
                .get("metadata")
                .and_then(|metadata| pod::text(metadata, "name"))
                .unwrap_or_default()
                .to_owned(),
            rank: order::Rank::default(),
            users: strings(object, "users"),
            groups: strings(object, "groups"),
            privileged: flag("allowPrivilegedContainer"),
            host_network: flag("allowHostNetwork"),
            host_ports: flag("allowHostPorts"),
            host_pid: flag("allowHostPID"),
            host_ipc: flag("allowHostIPC"),
            read_only_root: flag("readOnlyRootFilesystem"),
            user_namespace: pod::text(object, "userNamespaceLevel") == Some("RequirePodLevel"),
            escalation: pod::boolean(object, "allowPrivilegeEscalation").unwrap_or(true),
            default_escalation: pod::boolean(object, "defaultAllowPrivilegeEscalation"),
            capabilities,
            run_as_user: UserStrategy::read(object),
            se_linux: SeLinuxStrategy::read(object),
            fs_group: GroupStrategy::read(object, "fsGroup"),
            supplemental_groups: GroupStrategy::read(object, "supplementalGroups"),
            seccomp: strings(object, "seccompProfiles"),
            volumes: VolumeTypes::read(object),
            flex_drivers: flex
                .map(|flex| pod::text(flex, "driver").unwrap_or_default().to_owned())
                .collect(),
            unsafe_sysctls: strings(object, "allowedUnsafeSysctls"),
            forbidden_sysctls: strings(object, "forbiddenSysctls"),
        };
        let priority = pod::integer(object, "priority").unwrap_or_default();
        constraint.rank = order::Rank::of(&constraint, priority);
        constraint
    }

    /// Whether the object itself names `who`, or a group of theirs.
    pub(super) fn is_for(&self, who: &Requester) -> bool {
        self.users.contains(&who.user) || self.groups.iter().any(|group| who.groups.contains(group))
    }
}

impl UserStrategy {
    fn read(object: &Value) -> Self {
        let (kind, options) = strategy(object, "runAsUser");
        let number = |key| options.and_then(|options| pod::integer(options, key));
        match kind {
            "RunAsAny" => Self::Any,
            "MustRunAsNonRoot" => Self::NotRoot,
            "MustRunAs" => Self::One(number("uid")),
            "MustRunAsRange" => Self::Range(number("uidRangeMin"), number("uidRangeMax")),
            other => Self::Unknown(other.to_owned()),
        }
    }
}

impl SeLinuxStrategy {
    fn read(object: &Value) -> Self {
        let (kind, options) = strategy(object, "seLinuxContext");
        match kind {
            "RunAsAny" => Self::Any,
            "MustRunAs" => Self::One(
                options
                    .and_then(|options| SeLinux::read(options, "seLinuxOptions"))
                    .unwrap_or_default(),
            ),
            other => Self::Unknown(other.to_owned()),
        }
    }
}

impl GroupStrategy {
    fn read(object: &Value, key: &str) -> Self {
        let (kind, options) = strategy(object, key);
        match kind {
            "RunAsAny" | "" => Self::Any,
            "MustRunAs" => {
                let ranges = options.map(|options| pod::list(options, "ranges"));
                let end = |range, key| pod::integer(range, key).unwrap_or_default();
                let ranges = ranges.into_iter().flatten();
                Self::Within(ranges.map(|range| end(range, "min")..=end(range, "max")).collect())
            }
            other => Self::Unknown(other.to_owned()),
        }
    }
}

impl SeLinux {
    /// Reads `object[key]`, nothing where it is absent.
    pub(super) fn read(object: &Value, key: &str) -> Option<Self> {
        let options = pod::object(object, key)?;
        let field = |key| pod::text(options, key).unwrap_or_default().to_owned();
        Some(Self {
            level: field("level"),
            role: field("role"),
            kind: field("type"),
            user: field("user"),
        })
    }
}

/// The type of the strategy `object[key]`, and its options.
fn strategy<'v>(object: &'v Value, key: &str) -> (&'v str, Option<&'v Value>) {
    let options = pod::object(object, key);
    let kind = options.and_then(|options| pod::text(options, "type"));
    (kind.unwrap_or_default(), options)
}

/// The texts of the list `object[key]`; others are left out.
pub(super) fn strings(object: &Value, key: &str) -> Vec<String> {
    pod::list(object, key)
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect()
}
