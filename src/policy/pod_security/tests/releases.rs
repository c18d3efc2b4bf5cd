//! What differs by the server's release at the same policy version, and what a server does before it judges.

use super::*;

const SECCOMP: &str = "/metadata/annotations/seccomp.security.alpha.kubernetes.io~1pod";
const APP_ARMOR: &str = "/metadata/annotations/container.apparmor.security.beta.kubernetes.io~1app";

/// The detail for a pod that `server` readies for storage first.
fn stored(policy: &str, server: Server, changes: &[(&str, Value)]) -> String {
    judge(super::policy(policy), server, &Pod::new(&pod(changes)), true).detail
}

#[test]
fn releases_before_1_24_say_both_of_a_pair() {
    let pod = pod(&[("$/capabilities/add", json!(["NET_ADMIN"]))]);
    let both = concat!(
        r#"non-default capabilities (container "app" must not include "NET_ADMIN" in securityContext.capabilities.add), "#,
        r#"unrestricted capabilities (container "app" must not include "NET_ADMIN" in securityContext.capabilities.add)"#,
    );
    assert_eq!(detail("restricted:latest", server(23), &pod), both);
    assert!(both.ends_with(&detail("restricted:latest", server(24), &pod)));
}

#[test]
fn selinux_before_1_26_leaves_out_user_and_role() {
    let user = pod(&[("@/seLinuxOptions/user", json!("u"))]);
    let words = "seLinuxOptions (pod set forbidden securityContext.seLinuxOptions: ";
    assert_eq!(detail("baseline:latest", server(25), &user), format!("{words})"));
    assert_eq!(
        detail("baseline:latest", server(26), &user),
        format!("{words}user may not be set)")
    );
}

#[test]
fn app_armor_before_1_30_is_annotations_only() {
    let pod = pod(&[
        ("@/appArmorProfile/type", json!("Unconfined")),
        (APP_ARMOR, json!("unconfined")),
    ]);
    assert_eq!(
        detail("baseline:latest", server(29), &pod),
        r#"forbidden AppArmor profile (container.apparmor.security.beta.kubernetes.io/app="unconfined")"#
    );
}

#[test]
fn image_volumes_are_allowed_from_1_33() {
    let pod = pod(&[("/spec/volumes", json!([{"name": "v", "image": {}}]))]);
    let refused = r#"restricted volume types (volume "v" uses restricted volume type "unknown")"#;
    assert_eq!(detail("restricted:v1.0", server(32), &pod), refused);
    assert_eq!(detail("restricted:v1.0", server(33), &pod), "");
}

#[test]
fn the_gate_for_user_namespaces_counts_from_1_29_to_1_34() {
    let root = pod(&[("/spec/hostUsers", json!(false)), ("$/runAsUser", json!(0))]);
    let unmasked = pod(&[("/spec/hostUsers", json!(false)), ("$/procMount", json!("Unmasked"))]);
    for release in 23..38 {
        let gated = Server {
            user_namespaces: true,
            ..server(release)
        };
        let spared = detail("restricted:v1.23", gated, &root).is_empty();
        assert_eq!(spared, (29..35).contains(&release), "runAsUser on 1.{release}");
        let spared = detail("baseline:v1.23", gated, &unmasked).is_empty();
        assert_eq!(spared, (31..35).contains(&release), "procMount on 1.{release}");
        assert!(!detail("baseline:v1.23", server(release), &unmasked).is_empty());
    }
}

#[test]
fn an_emulating_server_forgets_newer_checks() {
    let pod = pod(&[("/spec/containers/0/livenessProbe/httpGet/host", json!("h"))]);
    for (release, emulated, refused) in [
        (34, None, true),
        (34, Some(33), false),
        (36, Some(34), true),
        (36, Some(33), false),
    ] {
        let server = Server {
            emulated: emulated.map(Release),
            ..server(release)
        };
        assert_eq!(
            !detail("baseline:latest", server, &pod).is_empty(),
            refused,
            "1.{release} as {emulated:?}"
        );
    }
}

#[test]
fn seccomp_annotations_stand_for_fields_up_to_1_26() {
    let annotated = |value: &str| [("@/seccompProfile", json!(null)), (SECCOMP, json!(value))];
    for (value, on_1_26) in [
        ("runtime/default", ""),
        ("docker/default", ""),
        ("localhost/x", ""),
        (
            "localhost/",
            r#"pod or container "app" must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost""#,
        ),
        (
            "unconfined",
            r#"pod must not set securityContext.seccompProfile.type to "Unconfined""#,
        ),
    ] {
        let detail = stored("restricted:latest", server(26), &annotated(value));
        let expected = if on_1_26.is_empty() {
            String::new()
        } else {
            format!("seccompProfile ({on_1_26})")
        };
        assert_eq!(detail, expected, "{value}");
        assert!(
            stored("restricted:latest", server(27), &annotated(value)).contains("pod or container"),
            "{value}"
        );
    }
    let given = pod(&annotated("runtime/default"));
    assert!(detail("restricted:latest", server(26), &given).contains("pod or container"));
}

#[test]
fn seccomp_fields_stand_for_annotations_up_to_1_26() {
    let unconfined: &[_] = &[("@/seccompProfile/type", json!("Unconfined"))];
    let refused = r#"seccompProfile (forbidden annotation seccomp.security.alpha.kubernetes.io/pod="unconfined")"#;
    assert_eq!(stored("baseline:v1.18", server(26), unconfined), refused);
    assert_eq!(stored("baseline:v1.18", server(27), unconfined), "");
}

#[test]
fn app_armor_annotations_and_fields_are_brought_in_step_from_1_30() {
    let annotated: &[_] = &[(APP_ARMOR, json!("unconfined"))];
    let quoted = r#""container.apparmor.security.beta.kubernetes.io/app="unconfined"""#;
    let must_not = "must not set AppArmor profile type to";
    let annotation = format!("forbidden AppArmor profile (annotation {must_not} {quoted})");
    let both =
        |who: &str| format!(r#"forbidden AppArmor profiles ({who} and annotation {must_not} "Unconfined", {quoted})"#);
    assert_eq!(
        stored("baseline:latest", server(36), annotated),
        both(r#"container "app""#)
    );
    assert_eq!(detail("baseline:latest", server(36), &pod(annotated)), annotation);
    let windows: &[_] = &[(APP_ARMOR, json!("unconfined")), ("/spec/os/name", json!("windows"))];
    assert_eq!(stored("baseline:latest", server(36), windows), annotation);

    // The pod's own profile is not repeated in the container; up to 1.33 it reaches the annotation.
    let field: &[_] = &[("@/appArmorProfile/type", json!("Unconfined"))];
    let both_of_pod: &[_] = &[
        ("@/appArmorProfile/type", json!("Unconfined")),
        (APP_ARMOR, json!("unconfined")),
    ];
    assert_eq!(stored("baseline:latest", server(36), both_of_pod), both("pod"));
    assert_eq!(stored("baseline:latest", server(33), field), both("pod"));
    let alone = format!(r#"forbidden AppArmor profile (pod {must_not} "Unconfined")"#);
    assert_eq!(stored("baseline:latest", server(34), field), alone);
}

#[test]
fn proc_mount_is_reset_before_1_33() {
    let unmasked: &[_] = &[("$/procMount", json!("Unmasked"))];
    assert_eq!(stored("baseline:latest", server(32), unmasked), "");
    assert!(stored("baseline:latest", server(33), unmasked).contains("procMount"));
    assert!(detail("baseline:latest", server(32), &pod(unmasked)).contains("procMount"));
}
