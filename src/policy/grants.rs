//! Who may `use` which PodSecurityPolicy or `SecurityContextConstraints`: the answers of the server's RBAC authorizer, as an index.
//!
//! What other authorizers grant is not seen. An aggregated `ClusterRole` counts with the rules that its controller
//! wrote into it.
//!
//! Spec: `rbac.authorization.k8s.io/v1`.

mod rbac;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use self::rbac::Subject;
use crate::pod;

pub use rbac::{Binding, Role};

/// The group to which the API server lets no authorizer refuse anything.
const SYSTEM_MASTERS: &str = "system:masters";

/// The group of everybody whose name the API server knows.
const AUTHENTICATED: &str = "system:authenticated";

/// What the name of a service account begins with, as a user.
const ACCOUNT: &str = "system:serviceaccount:";

/// What is used by a grant of the verb `use`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Usable {
    /// `podsecuritypolicies`
    PodSecurityPolicies,
    /// `securitycontextconstraints` of OpenShift
    SecurityContextConstraints,
}

/// Every grant of a cluster, by whom it is for.
#[derive(Clone, Debug, Default)]
pub struct Grants {
    cluster: Subjects,
    namespaces: BTreeMap<String, Subjects>,
}

/// A user, as the API server knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Requester {
    /// The user's name.
    pub user: String,
    /// Every group that the user is in, `system:authenticated` among them.
    pub groups: Vec<String>,
}

/// What one requester may use in one namespace.
#[derive(Clone, Debug)]
pub(in crate::policy) struct Granted<'g>(Vec<&'g Names>);

#[derive(Clone, Debug, Default)]
struct Subjects {
    users: BTreeMap<String, Names>,
    groups: BTreeMap<String, Names>,
}

/// Names of policies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Names {
    every: bool,
    listed: BTreeSet<String>,
}

impl Requester {
    /// The user `name` with the groups that its name tells of: those of a service account, and `system:authenticated`.
    pub fn named(name: &str) -> Self {
        Self::authenticated(name, &[])
    }

    /// The account `name` of `namespace`, in those groups alone that the plugin asks for it with: what is granted to
    /// `system:authenticated` reaches a pod through its creator only.
    pub fn service_account(namespace: &str, name: &str) -> Self {
        Self {
            user: user_of_account(namespace, name),
            groups: account_groups(namespace).into(),
        }
    }

    /// The user `name` in `groups` and `system:authenticated`; a service account that no group is given for is in its own,
    /// as with the API server's impersonation.
    pub fn authenticated(name: &str, groups: &[String]) -> Self {
        let account = name.strip_prefix(ACCOUNT).and_then(|account| account.split_once(':'));
        let mut groups = match account {
            Some((namespace, _)) if groups.is_empty() => account_groups(namespace).into(),
            _ => groups.to_vec(),
        };
        if !groups.iter().any(|group| group == AUTHENTICATED) {
            groups.push(AUTHENTICATED.to_owned());
        }
        Self {
            user: name.to_owned(),
            groups,
        }
    }
}

/// The groups of every account of `namespace`.
fn account_groups(namespace: &str) -> [String; 2] {
    [
        "system:serviceaccounts".to_owned(),
        format!("system:serviceaccounts:{namespace}"),
    ]
}

fn user_of_account(namespace: &str, name: &str) -> String {
    format!("{ACCOUNT}{namespace}:{name}")
}

impl Usable {
    /// The API groups in which the server asks for the right, any of which will do.
    pub(in crate::policy) fn groups(self) -> &'static [&'static str] {
        match self {
            Self::PodSecurityPolicies => &["policy", "extensions"],
            Self::SecurityContextConstraints => &["security.openshift.io"],
        }
    }

    /// The resource on which the right is.
    pub(in crate::policy) fn resource(self) -> &'static str {
        match self {
            Self::PodSecurityPolicies => "podsecuritypolicies",
            Self::SecurityContextConstraints => "securitycontextconstraints",
        }
    }

    fn is_in(self, rule: &Value) -> bool {
        let has = |key, wanted: &[&str]| texts(rule, key).any(|item| item == "*" || wanted.contains(&item));
        has("verbs", &["use"]) && has("resources", &[self.resource()]) && has("apiGroups", self.groups())
    }
}

impl Grants {
    /// Compiles `Role`s, `ClusterRole`s and their bindings; other objects are passed over.
    pub fn compile<'o>(objects: impl IntoIterator<Item = &'o Value>, usable: Usable) -> Self {
        let (mut roles, mut bindings) = (Vec::new(), Vec::new());
        for object in objects {
            roles.extend(Role::read(object));
            bindings.extend(Binding::read(object));
        }
        Self::bind(&roles, &bindings, usable)
    }

    /// Compiles what was read of roles and bindings. Of two roles with one name the last counts.
    pub fn bind<'o>(
        roles: impl IntoIterator<Item = &'o Role>,
        bindings: impl IntoIterator<Item = &'o Binding>,
        usable: Usable,
    ) -> Self {
        let names = |role: &'o Role| ((role.namespace.as_deref(), role.name.as_str()), role.names(usable));
        let roles: BTreeMap<_, _> = roles.into_iter().map(names).collect();
        let mut grants = Self::default();
        grants.cluster.group_mut(SYSTEM_MASTERS).every = true;
        for binding in bindings {
            let names = roles.get(&binding.role());
            if let Some(names) = names.filter(|names| ***names != Names::default()) {
                grants.grant(binding, names);
            }
        }
        grants
    }

    /// Grants by policy, each to a list of users or groups by name, in every namespace: the short form of questions.
    pub(in crate::policy) fn listed<'g>(grants: impl IntoIterator<Item = (&'g str, &'g str)>) -> Self {
        let mut compiled = Self::default();
        for (policy, subject) in grants {
            let subjects = &mut compiled.cluster;
            subjects.user_mut(subject.to_owned()).listed.insert(policy.to_owned());
            subjects.group_mut(subject).listed.insert(policy.to_owned());
        }
        compiled
    }

    fn grant(&mut self, binding: &Binding, names: &Names) {
        let subjects = match &binding.namespace {
            None => &mut self.cluster,
            Some(namespace) => self.namespaces.entry(namespace.clone()).or_default(),
        };
        for subject in &binding.subjects {
            match subject {
                Subject::User(name) => subjects.user_mut(name.clone()).add(names),
                Subject::Group(name) => subjects.group_mut(name).add(names),
            }
        }
    }

    /// What `who` may use in `namespace`.
    pub(in crate::policy) fn of(&self, who: &Requester, namespace: &str) -> Granted<'_> {
        let scopes = [Some(&self.cluster), self.namespaces.get(namespace)];
        let granted = scopes.into_iter().flatten().flat_map(|subjects| {
            let groups = who.groups.iter().filter_map(|group| subjects.groups.get(group));
            subjects.users.get(&who.user).into_iter().chain(groups)
        });
        Granted(granted.collect())
    }
}

impl Granted<'_> {
    pub(in crate::policy) fn includes(&self, policy: &str) -> bool {
        self.0.iter().any(|names| names.every || names.listed.contains(policy))
    }
}

impl Subjects {
    fn user_mut(&mut self, name: String) -> &mut Names {
        self.users.entry(name).or_default()
    }

    fn group_mut(&mut self, name: &str) -> &mut Names {
        self.groups.entry(name.to_owned()).or_default()
    }
}

impl Names {
    /// The policies that the rules of a role let one use.
    fn of_rules(role: &Value, usable: Usable) -> Self {
        let mut names = Self::default();
        for rule in pod::list(role, "rules").filter(|rule| usable.is_in(rule)) {
            let mut listed = texts(rule, "resourceNames").peekable();
            // A rule that names nothing is about everything.
            names.every |= listed.peek().is_none();
            names.listed.extend(listed.map(str::to_owned));
        }
        names
    }

    fn add(&mut self, names: &Self) {
        self.every |= names.every;
        self.listed.extend(names.listed.iter().cloned());
    }
}

fn texts<'v>(object: &'v Value, key: &str) -> impl Iterator<Item = &'v str> {
    pod::list(object, key).filter_map(Value::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const USABLE: Usable = Usable::SecurityContextConstraints;

    fn role(kind: &str, name: &str, rules: &Value) -> Value {
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": {"name": name, "namespace": "shop"}, "rules": rules})
    }

    fn binding(kind: &str, role: (&str, &str), subjects: &Value) -> Value {
        let (role, name) = role;
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": {"name": "b", "namespace": "shop"}, "roleRef": {"kind": role, "name": name}, "subjects": subjects})
    }

    fn rule(groups: &[&str], verbs: &[&str], names: &[&str]) -> Value {
        json!([{"apiGroups": groups, "resources": [USABLE.resource()], "verbs": verbs, "resourceNames": names}])
    }

    fn allows(objects: &[Value], who: &Requester, namespace: &str, name: &str) -> bool {
        Grants::compile(objects, USABLE).of(who, namespace).includes(name)
    }

    #[test]
    fn a_role_binding_holds_in_its_namespace() {
        let objects = [
            role(
                "ClusterRole",
                "use-nonroot",
                &rule(USABLE.groups(), &["use"], &["nonroot-v2"]),
            ),
            binding(
                "RoleBinding",
                ("ClusterRole", "use-nonroot"),
                &json!([{"kind": "ServiceAccount", "name": "web", "namespace": "shop"}]),
            ),
        ];
        let web = Requester::service_account("shop", "web");
        assert!(allows(&objects, &web, "shop", "nonroot-v2"));
        assert!(!allows(&objects, &web, "other", "nonroot-v2"));
        assert!(!allows(&objects, &web, "shop", "anyuid"));
        assert!(!allows(
            &objects,
            &Requester::service_account("other", "web"),
            "shop",
            "nonroot-v2"
        ));
    }

    #[test]
    fn a_role_is_not_a_cluster_role_of_the_same_name() {
        let objects = [
            role("Role", "r", &rule(&["*"], &["*"], &[])),
            binding("RoleBinding", ("Role", "r"), &json!([{"kind": "Group", "name": "g"}])),
            binding(
                "ClusterRoleBinding",
                ("ClusterRole", "r"),
                &json!([{"kind": "Group", "name": "g"}]),
            ),
        ];
        let member = Requester {
            user: "u".to_owned(),
            groups: vec!["g".to_owned()],
        };
        assert!(allows(&objects, &member, "shop", "any"));
        assert!(!allows(&objects, &member, "other", "any"));
    }

    #[test]
    fn other_groups_verbs_and_junk_grant_nothing() {
        let group = json!([{"kind": "Group", "name": "g"}]);
        let member = Requester {
            user: "u".to_owned(),
            groups: vec!["g".to_owned()],
        };
        for rules in [
            rule(&["policy"], &["use"], &[]),
            rule(USABLE.groups(), &["get"], &[]),
            json!("x"),
            json!([null]),
        ] {
            let objects = [
                role("ClusterRole", "r", &rules),
                binding("ClusterRoleBinding", ("ClusterRole", "r"), &group),
                json!(7),
            ];
            assert!(!allows(&objects, &member, "shop", "any"), "{rules}");
        }
    }

    #[test]
    fn a_controller_is_in_the_groups_of_its_account() {
        let groups = |requester: Requester| requester.groups.join(" ");
        let controller = Requester::named("system:serviceaccount:kube-system:replicaset-controller");
        let own = "system:serviceaccounts system:serviceaccounts:kube-system system:authenticated";
        assert_eq!(groups(controller), own);
        let alice = |given: &[&str]| {
            let given: Vec<_> = given.iter().map(|group| (*group).to_owned()).collect();
            groups(Requester::authenticated("alice", &given))
        };
        assert_eq!(alice(&[]), "system:authenticated");
        assert_eq!(alice(&["a", "system:authenticated"]), "a system:authenticated");
    }

    #[test]
    fn superusers_need_no_grant() {
        let root = Requester {
            user: "root".to_owned(),
            groups: vec![SYSTEM_MASTERS.to_owned()],
        };
        assert!(allows(&[], &root, "shop", "privileged"));
    }
}
