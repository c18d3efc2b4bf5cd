//! Grants: roles and bindings as a server's authorizer reads them.

use super::*;
use crate::policy::{Grants, Requester, Usable};

const RBAC: &str = "rbac.authorization.k8s.io/v1";

fn role(kind: &str, name: &str, rule: &Value) -> Value {
    json!({"apiVersion": RBAC, "kind": kind, "metadata": {"name": name, "namespace": "shop"}, "rules": [rule]})
}

fn binding(kind: &str, role_kind: &str, role: &str, subject: &Value) -> Value {
    json!({
        "apiVersion": RBAC, "kind": kind, "metadata": {"name": "b", "namespace": "shop"},
        "roleRef": {"kind": role_kind, "name": role}, "subjects": [subject],
    })
}

fn rule(policies: &[&str]) -> Value {
    json!({"apiGroups": ["policy"], "resources": ["podsecuritypolicies"], "verbs": ["use"], "resourceNames": policies})
}

fn may(objects: &[Value], user: &str, groups: &[&str], namespace: &str) -> bool {
    let requester = Requester {
        user: user.to_owned(),
        groups: groups.iter().map(|&group| group.to_owned()).collect(),
    };
    Grants::compile(objects, Usable::PodSecurityPolicies)
        .of(&requester, namespace)
        .includes("p")
}

#[test]
fn rules() {
    for (changes, granted) in [
        (json!({}), true),
        (json!({"resourceNames": []}), true),
        (json!({"resourceNames": null}), true),
        (json!({"resourceNames": ["q"]}), false),
        (json!({"resourceNames": ["*"]}), false),
        (json!({"apiGroups": ["extensions"]}), true),
        (json!({"apiGroups": ["", "*"]}), true),
        (json!({"apiGroups": [""]}), false),
        (json!({"apiGroups": null}), false),
        (json!({"resources": ["*"]}), true),
        (json!({"resources": ["podsecuritypolicies/status", "*/status"]}), false),
        (json!({"resources": ["PodSecurityPolicies"]}), false),
        (json!({"verbs": ["*"]}), true),
        (json!({"verbs": ["get", "list"]}), false),
        (json!({"verbs": "use"}), false),
    ] {
        let mut rule = rule(&["p"]);
        rule.as_object_mut()
            .unwrap()
            .extend(changes.as_object().unwrap().clone());
        let objects = [
            role("ClusterRole", "r", &rule),
            binding(
                "ClusterRoleBinding",
                "ClusterRole",
                "r",
                &json!({"kind": "User", "name": "alice"}),
            ),
        ];
        assert_eq!(may(&objects, "alice", &[], "shop"), granted, "{changes}");
    }
}

#[test]
fn bindings_and_where_they_hold() {
    let roles = [
        role("ClusterRole", "cluster", &rule(&["p"])),
        role("Role", "role", &rule(&["p"])),
    ];
    let alice = json!({"kind": "User", "name": "alice"});
    for (kind, role_kind, role, here, elsewhere) in [
        ("ClusterRoleBinding", "ClusterRole", "cluster", true, true),
        ("RoleBinding", "ClusterRole", "cluster", true, false),
        ("RoleBinding", "Role", "role", true, false),
        ("ClusterRoleBinding", "Role", "role", false, false),
        ("RoleBinding", "ClusterRole", "role", false, false),
        ("RoleBinding", "Role", "missing", false, false),
    ] {
        let binding = binding(kind, role_kind, role, &alice);
        // A binding may come before its role.
        let objects = [std::slice::from_ref(&binding), &roles].concat();
        let held = (
            may(&objects, "alice", &[], "shop"),
            may(&objects, "alice", &[], "other"),
        );
        assert_eq!(held, (here, elsewhere), "{kind} of {role_kind} {role}");
    }
}

#[test]
fn subjects() {
    let account = "system:serviceaccount:shop:web";
    for (subject, user, groups, granted) in [
        (json!({"kind": "User", "name": "alice"}), "alice", &[][..], true),
        (json!({"kind": "User", "name": "alice"}), "bob", &["alice"], false),
        (json!({"kind": "User", "name": "*"}), "bob", &[], false),
        (json!({"kind": "Group", "name": "staff"}), "bob", &["staff"], true),
        (json!({"kind": "Group", "name": "staff"}), "staff", &[], false),
        (
            json!({"kind": "ServiceAccount", "name": "web", "namespace": "shop"}),
            account,
            &[],
            true,
        ),
        (json!({"kind": "ServiceAccount", "name": "web"}), account, &[], true),
        (
            json!({"kind": "ServiceAccount", "name": "web", "namespace": "other"}),
            account,
            &[],
            false,
        ),
        (json!({"kind": "User", "name": account}), account, &[], true),
        (json!(null), "", &[], false),
    ] {
        let objects = [
            role("Role", "r", &rule(&["q", "p"])),
            binding("RoleBinding", "Role", "r", &subject),
        ];
        assert_eq!(may(&objects, user, groups, "shop"), granted, "{subject} {user}");
    }
}

#[test]
fn masters_may_use_everything_and_nobody_else_without_a_grant() {
    assert!(may(&[], "root", &["system:masters"], "shop"));
    assert!(!may(&[], "root", &["system:authenticated"], "shop"));
}

#[test]
fn a_service_account_is_not_asked_about_as_authenticated() {
    let web = Requester::service_account("shop", "web");
    assert_eq!(web.user, "system:serviceaccount:shop:web");
    assert_eq!(web.groups, ["system:serviceaccounts", "system:serviceaccounts:shop"]);
    for (spec, account) in [
        (
            json!({"serviceAccountName": "web", "serviceAccount": "old"}),
            Some("web"),
        ),
        (json!({"serviceAccountName": "", "serviceAccount": "old"}), Some("old")),
        (json!({"serviceAccountName": ""}), None),
    ] {
        assert_eq!(Pod::new(&json!({"spec": spec})).service_account(), account);
    }
}

#[test]
fn objects_of_other_kinds_and_shapes_grant_nothing() {
    let fake = json!({"apiVersion": "v1", "kind": "ClusterRole", "metadata": {"name": "r"}, "rules": [rule(&[])]});
    let bound = binding(
        "ClusterRoleBinding",
        "ClusterRole",
        "r",
        &json!({"kind": "User", "name": "alice"}),
    );
    for object in [
        fake,
        json!(null),
        json!([]),
        json!({"apiVersion": RBAC, "kind": 7}),
        json!({"apiVersion": RBAC, "kind": "ClusterRole"}),
    ] {
        assert!(!may(&[object.clone(), bound.clone()], "alice", &[], "shop"), "{object}");
    }
}
