//! What a constraint fills in for a whole pod, and what it holds against it.

use std::borrow::Cow;
use std::ops::RangeInclusive;

use serde_json::{Value, json};

use super::constraint::SeLinux;
use super::judge::Judge;
use super::wording::{invalid, required};
use super::{seccomp, sysctls, volumes};
use crate::pod;
use crate::policy::quoting::go_quoted;

/// What containers inherit from their pod, once the constraint has filled it in.
#[derive(Clone, Debug)]
pub(super) struct Inherited<'p> {
    pub(super) user: Option<i64>,
    pub(super) non_root: Option<bool>,
    pub(super) se_linux: Option<SeLinux>,
    /// The seccomp profile, as an annotation; empty where there is none.
    pub(super) seccomp: Cow<'p, str>,
}

impl<'p> Judge<'_, 'p> {
    /// Fills in and checks what is the pod's own.
    pub(super) fn pod(&mut self) -> Inherited<'p> {
        let context = self.pod.security_context();
        let fs_group: Vec<_> = context
            .and_then(|context| pod::integer(context, "fsGroup"))
            .into_iter()
            .collect();
        let groups = context.and_then(|context| context.get("supplementalGroups")?.as_array());
        let groups: Option<Vec<_>> = groups.map(|groups| groups.iter().filter_map(Value::as_i64).collect());
        let ranges = self.provider.supplemental_groups.as_deref();
        let groups = self.given_groups(groups, ranges, "supplementalGroups", |group| json!([group]));
        let ranges = self.provider.fs_group.as_deref();
        let own = Some(fs_group).filter(|groups| !groups.is_empty());
        let fs_group = self.given_groups(own, ranges, "fsGroup", |group| json!(group));
        let se_linux = context
            .and_then(|context| SeLinux::read(context, "seLinuxOptions"))
            .or_else(|| {
                let options = self.provider.se_linux.clone()?;
                self.settings.context("/spec", "seLinuxOptions", options.to_json());
                Some(options)
            });
        let seccomp = self.pod_profile(context);
        self.check_groups(&fs_group, self.provider.fs_group.as_deref(), "fsGroup");
        self.check_groups(
            &groups,
            self.provider.supplemental_groups.as_deref(),
            "supplementalGroups",
        );
        let profiles = &self.provider.constraint.seccomp;
        self.errors.extend(seccomp::check(profiles, seccomp::POD, &seccomp));
        let path = self.path(".spec.securityContext");
        self.check_se_linux(&path, se_linux.as_ref());
        self.check_host_namespaces();
        sysctls::check(self.provider.constraint, self.pod, &mut self.errors);
        // Since 1.35 the path names the constraint here too.
        let spec = if self.spec_paths() {
            self.path(".spec")
        } else {
            "spec".to_owned()
        };
        volumes::check(self.provider.constraint, self.pod, &spec, &mut self.errors);
        Inherited {
            user: context.and_then(|context| pod::integer(context, "runAsUser")),
            non_root: context.and_then(|context| pod::boolean(context, "runAsNonRoot")),
            se_linux,
            seccomp,
        }
    }

    /// The groups that the pod has, or gets: the first that is allowed.
    fn given_groups(
        &mut self,
        own: Option<Vec<i64>>,
        ranges: Option<&[RangeInclusive<i64>]>,
        key: &str,
        value: impl Fn(i64) -> Value,
    ) -> Vec<i64> {
        if let Some(own) = own {
            return own;
        }
        let Some(first) = ranges.and_then(<[_]>::first) else {
            return Vec::new();
        };
        self.settings.context("/spec", key, value(*first.start()));
        vec![*first.start()]
    }

    /// The pod's seccomp profile. The field wins over the annotation, and both are written.
    fn pod_profile(&mut self, context: Option<&'p Value>) -> Cow<'p, str> {
        let own = self.pod.annotation(seccomp::POD).unwrap_or_default();
        let of_field = seccomp::of_field(context);
        let given = || seccomp::default(&self.provider.constraint.seccomp).map(|profile| Cow::from(profile.to_owned()));
        let profile = match &of_field {
            Some(profile) => profile.clone(),
            None if !own.is_empty() => own.into(),
            None => given().unwrap_or_default(),
        };
        if profile.is_empty() {
            return own.into();
        }
        if *profile != *own {
            self.settings.annotation(seccomp::POD, &profile);
        }
        if of_field.is_none_or(|of_field| of_field != profile) {
            self.settings
                .context("/spec", "seccompProfile", seccomp::to_field(&profile));
        }
        profile
    }

    fn check_groups(&mut self, groups: &[i64], ranges: Option<&[RangeInclusive<i64>]>, key: &str) {
        let Some(ranges) = ranges else { return };
        let path = self.path(format_args!(".spec.securityContext.{key}"));
        let printed = || self.printer.numbers(groups);
        if groups.is_empty() {
            let detail = "unable to validate empty groups against required ranges";
            self.errors.push(invalid(&path, printed(), detail));
        }
        let outside = groups
            .iter()
            .filter(|group| !ranges.iter().any(|range| range.contains(group)));
        let outside = outside.map(|group| invalid(&path, printed(), format_args!("{group} is not an allowed group")));
        self.errors.extend(outside.collect::<Vec<_>>());
    }

    /// Checks the options in force at `path`, a security context.
    pub(super) fn check_se_linux(&mut self, path: &str, options: Option<&SeLinux>) {
        let Some(expected) = &self.provider.se_linux else {
            return;
        };
        let Some(options) = options else {
            self.errors.push(required(format_args!("{path}.seLinuxOptions")));
            return;
        };
        let mut check = |key: &str, fits: bool, found: &str, expected: &str| {
            if !fits {
                let path = format_args!("{path}.seLinuxOptions.{key}");
                let detail = format_args!("must be {expected}");
                self.errors.push(invalid(path, go_quoted(found), detail));
            }
        };
        let fits = same_level(&expected.level, &options.level);
        check("level", fits, &options.level, &expected.level);
        check("role", options.role == expected.role, &options.role, &expected.role);
        check("type", options.kind == expected.kind, &options.kind, &expected.kind);
        check("user", options.user == expected.user, &options.user, &expected.user);
    }

    fn check_host_namespaces(&mut self) {
        let constraint = self.provider.constraint;
        let parent = if self.spec_paths() {
            ".spec"
        } else {
            ".spec.securityContext"
        };
        let flag = |key| pod::boolean(self.pod.spec(), key);
        let shared = [
            ("hostNetwork", constraint.host_network, "Host network"),
            ("hostPID", constraint.host_pid, "Host PID"),
            ("hostIPC", constraint.host_ipc, "Host IPC"),
        ];
        for (key, allowed, what) in shared {
            if !allowed && flag(key) == Some(true) {
                let path = self.path(format_args!("{parent}.{key}"));
                let detail = format_args!("{what} is not allowed to be used");
                self.errors.push(invalid(path, true, detail));
            }
        }
        let users = flag("hostUsers");
        if constraint.user_namespace && users != Some(false) {
            let path = self.path(format_args!("{parent}.hostUsers"));
            let found = self.printer.optional(users);
            self.errors
                .push(invalid(path, found, "Host Users must be set to false"));
        }
    }
}

impl SeLinux {
    fn to_json(&self) -> Value {
        let fields = [
            ("level", &self.level),
            ("role", &self.role),
            ("type", &self.kind),
            ("user", &self.user),
        ];
        let set = fields.into_iter().filter(|(_, value)| !value.is_empty());
        Value::Object(set.map(|(key, value)| (key.to_owned(), json!(value))).collect())
    }
}

/// Whether two levels are one: the order of categories does not matter.
fn same_level(expected: &str, found: &str) -> bool {
    let sorted = |categories: &str| {
        let mut categories: Vec<_> = categories.split(',').map(str::to_owned).collect();
        categories.sort_unstable();
        categories
    };
    let parts = |level: &str| {
        level
            .split_once(':')
            .map(|(level, categories)| (level.to_owned(), sorted(categories)))
    };
    expected == found || parts(expected).is_some_and(|expected| parts(found) == Some(expected))
}
