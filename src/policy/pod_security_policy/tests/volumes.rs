//! The rules about volumes.

use super::*;

#[test]
fn volumes() {
    let token = json!([{"name": "t", "projected": {"sources": [
        {"serviceAccountToken": {"path": "token"}},
        {"configMap": {"name": "kube-root-ca.crt"}},
        {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}]}},
    ]}}]);
    let identity =
        json!([{"name": "i", "projected": {"sources": [{"serviceAccountToken": {"path": "token", "audience": "a"}}]}}]);
    judge(&[
        ("/spec/volumes", json!(["secret"]), "/spec/volumes", token, ""),
        (
            "/spec/volumes",
            json!(["secret"]),
            "/spec/volumes",
            identity,
            r#"spec.volumes[0]: Invalid value: "projected": projected volumes are not allowed to be used"#,
        ),
        (
            "/spec/volumes",
            json!(["cephfs"]),
            "/spec/volumes",
            json!([{"name": "c", "cephfs": {}}]),
            r#"spec.volumes[0]: Invalid value: "cephFS": cephFS volumes are not allowed to be used"#,
        ),
        (
            "/spec/volumes",
            json!(["emptyDir"]),
            "/spec/volumes",
            json!([{"name": "new", "image": {"reference": "r"}}]),
            "",
        ),
        (
            "/spec/allowedCSIDrivers",
            json!([{"name": "a"}]),
            "/spec/volumes",
            json!([{"name": "c", "csi": {"driver": "b"}}]),
            r#"spec.volumes[0].csi.driver: Invalid value: "b": Inline CSI driver is not allowed to be used"#,
        ),
        (
            "/spec/allowedFlexVolumes",
            json!([{"driver": "a"}]),
            "/spec/volumes",
            json!([{"name": "f", "flexVolume": {}}]),
            r#"spec.volumes[0].driver: Invalid value: "": Flexvolume driver is not allowed to be used"#,
        ),
    ]);
}

#[test]
fn host_paths() {
    let host = json!([{"name": "v", "hostPath": {"path": "/var/log"}}]);
    let refused = r#"spec.volumes[0].hostPath.pathPrefix: Invalid value: "/var/log": is not allowed to be used"#;
    judge(&[
        (
            "/spec/allowedHostPaths",
            json!([{"pathPrefix": "/var/log/"}]),
            "/spec/volumes",
            host.clone(),
            "",
        ),
        (
            "/spec/allowedHostPaths",
            json!([{"pathPrefix": "/"}]),
            "/spec/volumes",
            host.clone(),
            "",
        ),
        (
            "/spec/allowedHostPaths",
            json!([{"pathPrefix": "/va"}]),
            "/spec/volumes",
            host.clone(),
            refused,
        ),
    ]);
    let read_only = [policy(
        "p",
        &[(
            "/spec/allowedHostPaths",
            json!([{"pathPrefix": "/var", "readOnly": true}]),
        )],
    )];
    let mounts = json!([{"name": "v", "readOnly": true}, {"name": "v"}]);
    let mounting = pod(&[("/spec/volumes", host), ("/spec/containers/1/volumeMounts", mounts)]);
    assert_eq!(
        objections(&read_only, &mounting),
        ["spec.containers[1].volumeMounts[1].readOnly: Invalid value: false: must be read-only"]
    );
}
