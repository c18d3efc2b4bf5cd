//! What a constraint fills in for a container, and what it holds against it.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::constraint::SeLinux;
use super::judge::{Judge, Place};
use super::pod_rules::Inherited;
use super::provider::Users;
use super::seccomp;
use super::wording::{invalid, required};
use crate::pod;
use crate::policy::quoting::go_quoted;

/// The capabilities of a container: names as they are written.
struct Names<'p> {
    add: Vec<&'p str>,
    /// Nothing where the field is absent.
    drop: Option<Vec<&'p str>>,
}

impl<'a, 'p> Judge<'a, 'p> {
    /// Fills in and checks `container`, which stands at `place` and takes from the pod what it does not say itself.
    pub(super) fn container(&mut self, place: Place, container: &'p Value, inherited: &Inherited<'p>) {
        let context = pod::object(container, "securityContext");
        let flag = |key| context.and_then(|context| pod::boolean(context, key));
        let path = self.path(place);
        let user = self.user(place, context, inherited);
        let non_root = self.non_root(place, flag("runAsNonRoot").or(inherited.non_root), user);
        let se_linux = context.and_then(|context| SeLinux::read(context, "seLinuxOptions"));
        let capabilities = self.capabilities(place, context);
        let read_only_root = self.read_only_root(place, flag("readOnlyRootFilesystem"));
        let privileged = flag("privileged") == Some(true);
        let profile = self.container_profile(place, container, context, inherited);
        let adds = capabilities
            .as_ref()
            .map(|names| names.add.as_slice())
            .unwrap_or_default();
        let exempt = privileged || adds.contains(&"CAP_SYS_ADMIN");
        let escalation = self.escalation(place, flag("allowPrivilegeEscalation"), exempt);

        self.check_user(&path, user, non_root);
        self.check_se_linux(&path, se_linux.as_ref().or(inherited.se_linux.as_ref()));
        let constraint = self.provider.constraint;
        let key = [seccomp::CONTAINER, pod::container_name(container)].concat();
        self.errors.extend(seccomp::check(&constraint.seccomp, &key, &profile));
        let mut refuse = |refused: bool, key: &str, found: bool, detail: &str| {
            if refused {
                self.errors.push(invalid(format_args!("{path}.{key}"), found, detail));
            }
        };
        let detail = "Privileged containers are not allowed";
        refuse(!constraint.privileged && privileged, "privileged", true, detail);
        self.check_capabilities(&path, capabilities.as_ref());
        self.check_host(&path);
        let mut refuse = |refused: bool, key: &str, found: bool, detail: &str| {
            if refused {
                self.errors.push(invalid(format_args!("{path}.{key}"), found, detail));
            }
        };
        let detail = "ReadOnlyRootFilesystem must be set to true";
        let refused = constraint.read_only_root && !read_only_root;
        refuse(refused, "readOnlyRootFilesystem", false, detail);
        let detail = "Allowing privilege escalation for containers is not allowed";
        let refused = !constraint.escalation && escalation;
        refuse(refused, "allowPrivilegeEscalation", true, detail);
    }

    /// The user that the container runs as.
    fn user(&mut self, place: Place, context: Option<&Value>, inherited: &Inherited<'_>) -> Option<i64> {
        let own = context.and_then(|context| pod::integer(context, "runAsUser"));
        own.or(inherited.user).or_else(|| {
            let given = self.provider.users.given()?;
            self.settings.context(place.pointer(), "runAsUser", json!(given));
            Some(given)
        })
    }

    /// Whether the kubelet is to see to it that the container does not run as root.
    fn non_root(&mut self, place: Place, own: Option<bool>, user: Option<i64>) -> Option<bool> {
        let given = match user {
            Some(user) => user > 0,
            None => self.provider.users == Users::NotRoot,
        };
        if own.is_none() && given {
            self.settings.context(place.pointer(), "runAsNonRoot", json!(true));
            return Some(true);
        }
        own
    }

    fn read_only_root(&mut self, place: Place, own: Option<bool>) -> bool {
        own.unwrap_or_else(|| {
            let given = self.provider.constraint.read_only_root;
            if given {
                self.settings
                    .context(place.pointer(), "readOnlyRootFilesystem", json!(true));
            }
            given
        })
    }

    fn escalation(&mut self, place: Place, own: Option<bool>, exempt: bool) -> bool {
        own.unwrap_or_else(|| {
            let constraint = self.provider.constraint;
            let given = constraint.default_escalation.filter(|_| !exempt);
            let given = given.or_else(|| (!constraint.escalation).then_some(false));
            if let Some(given) = given {
                self.settings
                    .context(place.pointer(), "allowPrivilegeEscalation", json!(given));
            }
            given.unwrap_or_default()
        })
    }

    /// The seccomp profile in force: the container's field, else its annotation, else the pod's. An annotation is
    /// written into the field.
    fn container_profile(
        &mut self,
        place: Place,
        container: &'p Value,
        context: Option<&'p Value>,
        inherited: &Inherited<'p>,
    ) -> String {
        let own = seccomp::of_field(context);
        let Some(annotation) = seccomp::of_container(self.pod, container) else {
            return own.unwrap_or_else(|| inherited.seccomp.clone()).into_owned();
        };
        let field = seccomp::to_field(annotation);
        let in_force = own.unwrap_or_else(|| inherited.seccomp.clone());
        if seccomp::to_field(&in_force) != field {
            self.settings.context(place.pointer(), "seccompProfile", field);
        }
        annotation.to_owned()
    }

    /// The container's capabilities with what is added and dropped everywhere; nothing where there are none.
    fn capabilities(&mut self, place: Place, context: Option<&'p Value>) -> Option<Names<'a>>
    where
        'p: 'a,
    {
        let own = context.and_then(|context| pod::object(context, "capabilities"));
        let list = |key| {
            let list = own.and_then(|own| own.get(key)?.as_array())?;
            Some(list.iter().filter_map(Value::as_str).collect::<Vec<&'a str>>())
        };
        let (add, drop) = (list("add"), list("drop"));
        let rules = &self.provider.constraint.capabilities;
        let dropped: BTreeSet<&'a str> = drop.iter().flatten().copied().collect();
        let added: BTreeSet<&'a str> = add.iter().flatten().copied().collect();
        let default_add = rules.default_add.iter().map(String::as_str);
        let all_added: BTreeSet<_> = default_add
            .filter(|name| !dropped.contains(name))
            .chain(added.iter().copied())
            .collect();
        let required = rules.required_drop.iter().map(String::as_str);
        let all_dropped: BTreeSet<_> = required.chain(dropped.iter().copied()).collect();
        if all_added.len() == added.len() && all_dropped.len() == dropped.len() {
            return own.map(|_| Names {
                add: add.unwrap_or_default(),
                drop,
            });
        }
        let set = [("add", &all_added), ("drop", &all_dropped)]
            .into_iter()
            .filter(|(_, names)| !names.is_empty());
        let value = set.map(|(key, names)| (key.to_owned(), json!(names))).collect();
        self.settings
            .context(place.pointer(), "capabilities", Value::Object(value));
        Some(Names {
            add: all_added.into_iter().collect(),
            drop: Some(all_dropped.into_iter().collect::<Vec<_>>()).filter(|names| !names.is_empty()),
        })
    }

    fn check_user(&mut self, path: &str, user: Option<i64>, non_root: Option<bool>) {
        let user_path = format_args!("{path}.runAsUser");
        let error = match (&self.provider.users, user) {
            (Users::One(_) | Users::Range(_), None) => Some(required(user_path)),
            (Users::One(one), Some(user)) => {
                (user != *one).then(|| invalid(user_path, user, format_args!("must be: {one}")))
            }
            (Users::Range(range), Some(user)) => (!range.contains(&user)).then(|| {
                let (min, max) = (range.start(), range.end());
                invalid(user_path, user, format_args!("must be in the ranges: [{min}, {max}]"))
            }),
            (Users::NotRoot, _) if non_root == Some(false) => {
                Some(invalid(format_args!("{path}.runAsNonRoot"), false, "must be true"))
            }
            (Users::NotRoot, Some(0)) => Some(invalid(user_path, 0, "running with the root UID is forbidden")),
            (Users::Any | Users::NotRoot, _) => None,
        };
        self.errors.extend(error);
    }

    fn check_capabilities(&mut self, path: &str, names: Option<&Names<'_>>) {
        let rules = &self.provider.constraint.capabilities;
        let Some(names) = names.filter(|_| !rules.allowed.iter().any(|name| name == "*")) else {
            return;
        };
        let allowed = |name: &str| {
            [&rules.allowed, &rules.default_add]
                .into_iter()
                .flatten()
                .any(|it| it == name)
        };
        for name in names.add.iter().filter(|name| !allowed(name)) {
            let path = format_args!("{path}.capabilities.add");
            self.errors
                .push(invalid(path, go_quoted(name), "capability may not be added"));
        }
        let dropped = names.drop.as_deref();
        let has = |name: &String| dropped.is_some_and(|dropped| dropped.contains(&name.as_str()));
        for name in rules.required_drop.iter().filter(|name| !has(name)) {
            let path = format_args!("{path}.capabilities.drop");
            let found = self.printer.capabilities(dropped);
            let detail = format_args!("{name} is required to be dropped but was not found");
            self.errors.push(invalid(path, found, detail));
        }
    }

    /// What the pod takes of its host, said of every container.
    fn check_host(&mut self, path: &str) {
        let constraint = self.provider.constraint;
        let flag = |key| pod::boolean(self.pod.spec(), key) == Some(true);
        if !constraint.host_network && flag("hostNetwork") {
            let path = format_args!("{path}.hostNetwork");
            self.errors
                .push(invalid(path, true, "Host network is not allowed to be used"));
        }
        if !constraint.host_ports {
            for (place, container) in Place::all(self.pod) {
                let ports = pod::list(container, "ports").filter_map(|port| pod::integer(port, "hostPort"));
                for port in ports.filter(|port| *port > 0) {
                    let path = format_args!("{path}{place}.hostPort");
                    self.errors
                        .push(invalid(path, port, "Host ports are not allowed to be used"));
                }
            }
        }
        for (key, allowed, what) in [
            ("hostPID", constraint.host_pid, "Host PID"),
            ("hostIPC", constraint.host_ipc, "Host IPC"),
        ] {
            if !allowed && flag(key) {
                let detail = format_args!("{what} is not allowed to be used");
                self.errors.push(invalid(format_args!("{path}.{key}"), true, detail));
            }
        }
    }
}
