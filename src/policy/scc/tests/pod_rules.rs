//! What rules about a whole pod fill in and refuse.

use super::*;

#[test]
fn se_linux_options_are_exact_but_for_the_order_of_categories() {
    assert_eq!(
        stored(json!({}), &[], "@/seLinuxOptions"),
        json!({"level": "s0:c26,c10"})
    );
    let level = |level: &str| [("@/seLinuxOptions", json!({"level": level}))];
    assert_eq!(
        stored(json!({}), &level("s0:c10,c26"), "@/seLinuxOptions/level"),
        "s0:c10,c26"
    );
    assert_eq!(
        refusal(json!({}), &level("s0:c1,c2")),
        "[.spec.securityContext.seLinuxOptions.level: Invalid value: \"s0:c1,c2\": must be s0:c26,c10, \
         .containers[0].seLinuxOptions.level: Invalid value: \"s0:c1,c2\": must be s0:c26,c10]"
    );
    assert_eq!(
        refusal(
            json!({}),
            &[(
                "$/seLinuxOptions",
                json!({"level": "s0:c26,c10", "type": "spc_t", "user": "u", "role": "r"})
            )]
        ),
        "[.containers[0].seLinuxOptions.role: Invalid value: \"r\": must be , \
         .containers[0].seLinuxOptions.type: Invalid value: \"spc_t\": must be , \
         .containers[0].seLinuxOptions.user: Invalid value: \"u\": must be ]"
    );
    let any = || json!({"seLinuxContext": {"type": "RunAsAny"}});
    assert_eq!(stored(any(), &[], "@/seLinuxOptions"), Value::Null);
    let typed = json!({"seLinuxContext": {"type": "MustRunAs", "seLinuxOptions": {"type": "t"}}});
    assert_eq!(
        stored(typed, &[], "@/seLinuxOptions"),
        json!({"level": "s0:c26,c10", "type": "t"})
    );
    assert_eq!(
        refusal(json!({"seLinuxContext": {"type": "X"}}), &[]),
        "error creating provider for SCC one in namespace shop: Unrecognized SELinuxContext strategy type X"
    );
}

#[test]
fn groups_lie_in_the_ranges() {
    assert_eq!(stored(json!({}), &[], "@/fsGroup"), 1_000_680_000);
    // Of what the namespace has been allotted, a pod may have the first alone.
    assert_eq!(
        refusal(json!({}), &[("@/fsGroup", json!(1_000_680_001))]),
        ".spec.securityContext.fsGroup: Invalid value: [1000680001]: 1000680001 is not an allowed group"
    );
    let groups =
        || json!({"supplementalGroups": {"type": "MustRunAs", "ranges": [{"min": 5, "max": 6}, {"min": 9, "max": 9}]}});
    assert_eq!(stored(groups(), &[], "@/supplementalGroups"), json!([5]));
    assert_eq!(
        stored(
            groups(),
            &[("@/supplementalGroups", json!([6, 9]))],
            "@/supplementalGroups"
        ),
        json!([6, 9])
    );
    assert_eq!(
        refusal(groups(), &[("@/supplementalGroups", json!([7, 5]))]),
        ".spec.securityContext.supplementalGroups: Invalid value: [7,5]: 7 is not an allowed group"
    );
    assert_eq!(
        refusal(groups(), &[("@/supplementalGroups", json!([]))]),
        ".spec.securityContext.supplementalGroups: Invalid value: []: unable to validate empty groups against required ranges"
    );
    let any = || json!({"fsGroup": {"type": "RunAsAny"}});
    assert_eq!(stored(any(), &[], "@/fsGroup"), Value::Null);
    let allotted = json!({"supplementalGroups": {"type": "MustRunAs"}});
    assert_eq!(
        stored(
            allotted,
            &[("@/supplementalGroups", json!([1_000_689_999]))],
            "@/fsGroup"
        ),
        1_000_680_000
    );
}

#[test]
fn volumes_are_of_the_types_allowed() {
    let volume = |volume: Value| [("/spec/volumes", json!([volume]))];
    let types = |types: Value| json!({"volumes": types});
    assert_eq!(
        refusal(json!({}), &volume(json!({"hostPath": {"path": "/"}}))),
        "spec.volumes[0]: Invalid value: \"hostPath\": hostPath volumes are not allowed to be used"
    );
    for (allowed, volume_of, refused) in [
        (json!(["secret"]), json!({"name": "x"}), Some("emptyDir")),
        (json!(["emptyDir"]), json!({"name": "x"}), None),
        (json!([]), json!({"emptyDir": {}}), Some("emptyDir")),
        (json!(["none"]), json!({"secret": {}}), Some("secret")),
        (json!(null), json!({"cephfs": {}}), None),
        (json!(["cephFS"]), json!({"cephfs": {}}), None),
        (json!(["*"]), json!({"vsphereVolume": {}}), None),
        // Only the switch of its own decides on host paths.
        (json!(["*"]), json!({"hostPath": {}}), Some("hostPath")),
        (json!(["hostPath"]), json!({"hostPath": {}}), Some("hostPath")),
    ] {
        let expected = refused.map_or_else(String::new, |word| {
            format!("spec.volumes[0]: Invalid value: \"{word}\": {word} volumes are not allowed to be used")
        });
        let found = refusal(types(allowed.clone()), &volume(volume_of.clone()));
        assert_eq!(found, expected, "{allowed} {volume_of}");
    }
    let host = json!({"volumes": [], "allowHostDirVolumePlugin": true});
    assert_eq!(refusal(host, &volume(json!({"hostPath": {}}))), "");
    let unknown = refusal(json!({}), &volume(json!({"name": "x", "image": {}})));
    assert_eq!(
        unknown,
        "spec.volumes[0]: Invalid value: \"\": unknown volume type for volume: x"
    );
}

#[test]
fn a_service_accounts_token_passes_for_a_secret() {
    let token = json!({"serviceAccountToken": {"path": "token", "expirationSeconds": 3607}});
    let map = |name: &str, key: &str| json!({"configMap": {"name": name, "items": [{"key": key, "path": key}]}});
    let namespace = json!({"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}]}});
    let refused = |sources: Value| {
        let volumes = json!([{"name": "x", "projected": {"sources": sources}}]);
        !refusal(json!({"volumes": ["secret"]}), &[("/spec/volumes", volumes)]).is_empty()
    };
    let usual = [
        token,
        map("kube-root-ca.crt", "ca.crt"),
        namespace,
        map("openshift-service-ca.crt", "service-ca.crt"),
    ];
    assert!(!refused(json!(usual)));
    // The proxy's token is for another audience, under another path.
    assert!(refused(
        json!([{"serviceAccountToken": {"path": "linkerd-identity-token", "audience": "identity.l5d.io"}}])
    ));
    assert!(refused(json!([map("kube-root-ca.crt", "other")])));
    assert!(refused(json!([map("mine", "ca.crt")])));
    assert!(refused(json!([{"secret": {"name": "s"}}])));
}

#[test]
fn flex_volumes_may_be_held_to_drivers() {
    let flex = || json!({"volumes": ["flexVolume"], "allowedFlexVolumes": [{"driver": "a/b"}]});
    let volume = |driver: &str| [("/spec/volumes", json!([{"flexVolume": {"driver": driver}}]))];
    assert_eq!(refusal(flex(), &volume("a/b")), "");
    assert_eq!(
        refusal(flex(), &volume("c/d")),
        "spec.volumes[0].driver: Invalid value: \"c/d\": Flexvolume driver is not allowed to be used"
    );
}

#[test]
fn the_hosts_namespaces_and_ports_are_off_limits() {
    let shared = |key: &str| {
        let pointer = format!("/spec/{key}");
        refusal(json!({}), &[(pointer.as_str(), json!(true))])
    };
    for (key, what) in [
        ("hostNetwork", "Host network"),
        ("hostPID", "Host PID"),
        ("hostIPC", "Host IPC"),
    ] {
        let expected = format!(
            "[.spec.securityContext.{key}: Invalid value: true: {what} is not allowed to be used, \
             .containers[0].{key}: Invalid value: true: {what} is not allowed to be used]"
        );
        assert_eq!(shared(key), expected);
    }
    let allowed = json!({"allowHostNetwork": true, "allowHostPID": true, "allowHostIPC": true, "allowHostPorts": true});
    let port = (
        "/spec/containers/0/ports",
        json!([{"containerPort": 80, "hostPort": 8080}]),
    );
    assert_eq!(
        refusal(json!({}), std::slice::from_ref(&port)),
        ".containers[0].containers[0].hostPort: Invalid value: 8080: Host ports are not allowed to be used"
    );
    let everything = ["hostNetwork", "hostPID", "hostIPC"].map(|key| format!("/spec/{key}"));
    let changes: Vec<_> = everything
        .iter()
        .map(|key| (key.as_str(), json!(true)))
        .chain([port])
        .collect();
    assert_eq!(refusal(allowed, &changes), "");
}

#[test]
fn a_user_namespace_may_be_demanded() {
    let inner = || json!({"userNamespaceLevel": "RequirePodLevel"});
    assert_eq!(refusal(inner(), &[("/spec/hostUsers", json!(false))]), "");
    assert_eq!(
        refusal(inner(), &[]),
        ".spec.securityContext.hostUsers: Invalid value: null: Host Users must be set to false"
    );
    assert_eq!(refusal(json!({"userNamespaceLevel": "AllowHostLevel"}), &[]), "");
}

#[test]
fn sysctls_are_safe_or_allowed() {
    let sysctl = |name: &str| [("@/sysctls", json!([{"name": name, "value": "1"}]))];
    assert_eq!(refusal(json!({}), &sysctl("net.ipv4.tcp_keepalive_time")), "");
    assert_eq!(
        refusal(json!({}), &sysctl("kernel.msgmax")),
        "spec.securityContext.sysctls[0]: Forbidden: unsafe sysctl \"kernel.msgmax\" is not allowed"
    );
    assert_eq!(
        refusal(
            json!({"allowedUnsafeSysctls": ["kernel.msg*"]}),
            &sysctl("kernel.msgmax")
        ),
        ""
    );
    assert_eq!(
        refusal(
            json!({"forbiddenSysctls": ["net.*"]}),
            &sysctl("net.ipv4.tcp_syncookies")
        ),
        "spec.securityContext.sysctls[0]: Forbidden: sysctl \"net.ipv4.tcp_syncookies\" is not allowed"
    );
}

#[test]
fn servers_differ_in_how_they_print() {
    let on = |server: u32, changes: &[(&str, Value)]| {
        let scene = Scene {
            server: Release(server),
            ..Scene::one(json!({"userNamespaceLevel": "RequirePodLevel"}))
        };
        scene.refusal(&pod(changes)).replace("provider one: ", "")
    };
    let group = ("@/fsGroup", json!(5));
    let inside = ("/spec/hostUsers", json!(false));
    let volume = ("/spec/volumes", json!([{"hostPath": {}}]));
    assert_eq!(
        on(33, &[group.clone(), inside.clone()]),
        ".spec.securityContext.fsGroup: Invalid value: []int64{5}: 5 is not an allowed group"
    );
    assert_eq!(
        on(34, &[group, inside.clone()]),
        ".spec.securityContext.fsGroup: Invalid value: [5]: 5 is not an allowed group"
    );
    assert_eq!(
        on(33, &[]),
        ".spec.securityContext.hostUsers: Invalid value: \"null\": Host Users must be set to false"
    );
    assert_eq!(
        on(35, &[]),
        ".spec.hostUsers: Invalid value: null: Host Users must be set to false"
    );
    assert_eq!(
        on(35, &[inside, volume]),
        ".spec.volumes[0]: Invalid value: \"hostPath\": hostPath volumes are not allowed to be used"
    );
}
