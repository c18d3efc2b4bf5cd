//! Random pods near the line between allowed and refused: a known pod, changed in a few places.
//!
//! The same seed and number give the same pod. Every change keeps to what a typed reader decodes: null anywhere, but
//! never a wrong type.

use serde_json::{Value, json};

/// A small generator of numbers: `SplitMix64` (Steele, Lea and Flood 2014).
#[derive(Debug)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64, number: u64) -> Self {
        let mut dice = Self(seed);
        Self(dice.next() ^ number.wrapping_mul(0xd134_2543_de82_ef95))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(bound).unwrap()).unwrap()
    }

    pub(crate) fn one_in(&mut self, chances: usize) -> bool {
        self.below(chances) == 0
    }

    pub(crate) fn pick<'t, T>(&mut self, items: &'t [T]) -> &'t T {
        &items[self.below(items.len())]
    }
}

/// What changes can be made of: for the pod and for its containers, places and the values to put there.
#[derive(Debug)]
pub(crate) struct Mutator {
    of_pod: Vec<(&'static str, Vec<Value>)>,
    of_container: Vec<(&'static str, Vec<Value>)>,
    annotations: Vec<String>,
    profiles: Vec<Value>,
    volumes: Vec<Value>,
}

const LISTS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];
const NAMES: [&str; 10] = [
    "app",
    "web",
    "a",
    "b",
    "10",
    "9",
    "linkerd-proxy",
    "linkerd-init",
    "",
    "we\"ird\\\n",
];

impl Mutator {
    pub(crate) fn new() -> Self {
        let parse = |table: &'static [(&str, &str)]| {
            let values = |json: &str| serde_json::from_str(json).unwrap_or_else(|error| panic!("{json}: {error}"));
            table.iter().map(|&(place, json)| (place, values(json))).collect()
        };
        Self {
            of_pod: parse(OF_POD),
            of_container: parse(OF_CONTAINER),
            annotations: annotations(),
            profiles: PROFILES
                .iter()
                .map(|profile| json!(profile))
                .chain([Value::Null])
                .collect(),
            volumes: serde_json::from_str(VOLUMES).unwrap(),
        }
    }

    /// Changes `pod` in up to nine places, mostly in one to three.
    pub(crate) fn mutate(&self, pod: &mut Value, dice: &mut Dice) {
        let changes = *dice.pick(&[1, 1, 1, 1, 2, 2, 2, 3, 3, 4, 6, 9]);
        for _ in 0..changes {
            match dice.below(16) {
                0..5 => {
                    let (place, values) = dice.pick(&self.of_pod);
                    *at(pod, place) = dice.pick(values).clone();
                }
                5..11 => self.mutate_containers(pod, dice),
                11 | 12 => self.annotate(pod, dice),
                13 => push(at(pod, "spec/volumes"), dice.pick(&self.volumes).clone()),
                14 => add_container(pod, dice),
                _ => remove(pod, dice),
            }
        }
    }

    /// Puts a value in the same place of some containers.
    fn mutate_containers(&self, pod: &mut Value, dice: &mut Dice) {
        let (place, values) = dice.pick(&self.of_container);
        for list in LISTS {
            for container in items(pod, list) {
                if dice.one_in(2) {
                    *at(container, place) = dice.pick(values).clone();
                }
            }
        }
    }

    fn annotate(&self, pod: &mut Value, dice: &mut Dice) {
        // The first are those that some check reads in every fixture, and the values that are allowed somewhere.
        let keys = if dice.one_in(2) {
            &self.annotations[..5]
        } else {
            &self.annotations
        };
        let values = if dice.one_in(2) {
            &self.profiles[..6]
        } else {
            &self.profiles
        };
        let key = dice.pick(keys).clone();
        let annotations = at(pod, "metadata/annotations");
        if !annotations.is_object() {
            *annotations = json!({});
        }
        annotations[key] = dice.pick(values).clone();
    }
}

fn annotations() -> Vec<String> {
    let mut keys = vec!["seccomp.security.alpha.kubernetes.io/pod".to_owned()];
    let names = ["container1", "initcontainer1", "container1/x", "ghost"];
    for name in names.into_iter().chain(NAMES) {
        keys.push(format!("container.seccomp.security.alpha.kubernetes.io/{name}"));
        keys.push(format!("container.apparmor.security.beta.kubernetes.io/{name}"));
    }
    keys
}

fn add_container(pod: &mut Value, dice: &mut Dice) {
    let mut container = json!({"name": dice.pick(&NAMES), "image": "i"});
    match dice.below(6) {
        0 => {}
        1 => container["securityContext"] = Value::Null,
        2 => container = Value::Null,
        3 => container = json!({}),
        _ => {
            container["securityContext"] =
                json!({"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}, "runAsNonRoot": true});
        }
    }
    push(at(pod, &format!("spec/{}", dice.pick(&LISTS))), container);
}

/// Takes something away: a context, a list, the last item of one, the annotations.
fn remove(pod: &mut Value, dice: &mut Dice) {
    let list = *dice.pick(&LISTS);
    match dice.below(5) {
        0 => *at(pod, &format!("spec/{list}")) = dice.pick(&[Value::Null, json!([])]).clone(),
        1 => drop(at(pod, &format!("spec/{list}")).as_array_mut().and_then(Vec::pop)),
        2 => items(pod, list).for_each(|container| *at(container, "securityContext") = Value::Null),
        3 => *at(pod, "spec/securityContext") = Value::Null,
        _ => *at(pod, "metadata/annotations") = Value::Null,
    }
}

/// The place `path`, keys joined by `/`, with objects made on the way where there are none.
pub(crate) fn at<'v>(value: &'v mut Value, path: &str) -> &'v mut Value {
    path.split('/').fold(value, |value, key| {
        if !value.is_object() {
            *value = json!({});
        }
        &mut value[key]
    })
}

fn items<'v>(pod: &'v mut Value, list: &str) -> impl Iterator<Item = &'v mut Value> + use<'v> {
    pod["spec"]
        .get_mut(list)
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
}

fn push(list: &mut Value, item: Value) {
    if !list.is_array() {
        *list = json!([]);
    }
    list.as_array_mut().unwrap().push(item);
}

/// Values of annotations.
const PROFILES: [&str; 30] = [
    "runtime/default",
    "docker/default",
    "localhost/",
    "localhost/x",
    "unconfined",
    "",
    "Runtime/Default",
    "localhost",
    "other",
    "q\"uote",
    "back\\slash",
    "tab\there",
    "new\nline\r",
    "nul\0byte",
    "bell\u{7} back\u{8} feed\u{c} vt\u{b} esc\u{1b}",
    "caf\u{e9}",
    "\u{65e5}\u{672c}",
    "\u{1f600}",
    "zero\u{200b}width\u{200d}",
    "no-break\u{a0}space\u{3000}",
    "del\u{7f} c1\u{85}",
    "\u{feff}mark",
    "soft\u{ad}hyphen",
    "private\u{e000}use\u{f8ff}\u{10ffff}",
    "\u{2028}line\u{2029}",
    "combining e\u{301}\u{64b}",
    "\u{301}first",
    "tag\u{e0001} variation\u{fe0f}",
    "unassigned\u{378}\u{ffff}",
    "it's <b>&amp;</b> \u{fffd}",
];

/// Places in a pod, and a list of values for each.
const OF_POD: &[(&str, &str)] = &[
    ("spec/hostNetwork", "[true, true, false, null]"),
    ("spec/hostPID", "[true, true, false, null]"),
    ("spec/hostIPC", "[true, true, false, null]"),
    ("spec/hostUsers", "[true, false, false, false, null]"),
    (
        "spec/os",
        r#"[null, {}, {"name": "windows"}, {"name": "windows"}, {"name": "linux"}, {"name": "Windows"}, {"name": null}]"#,
    ),
    ("spec/runtimeClassName", r#"["gvisor", null]"#),
    ("spec/securityContext", "[null, {}]"),
    ("spec/securityContext/runAsNonRoot", "[true, false, null]"),
    ("spec/securityContext/runAsUser", "[0, 0, 1, 2102, null]"),
    ("spec/securityContext/runAsGroup", "[0]"),
    (
        "spec/securityContext/appArmorProfile",
        r#"[null, {}, {"type": "RuntimeDefault"}, {"type": "Localhost", "localhostProfile": "p"}]"#,
    ),
    (
        "spec/securityContext/appArmorProfile/type",
        r#"["Unconfined", "", "unconfined", "Other", null]"#,
    ),
    (
        "spec/securityContext/seccompProfile",
        r#"[null, {}, {"type": "RuntimeDefault"}, {"type": "Localhost", "localhostProfile": "p"}]"#,
    ),
    (
        "spec/securityContext/seccompProfile/type",
        r#"["RuntimeDefault", "Localhost", "Unconfined", "", "runtimeDefault", null]"#,
    ),
    ("spec/securityContext/seLinuxOptions", "[null, {}]"),
    (
        "spec/securityContext/seLinuxOptions/type",
        r#"["container_t", "container_init_t", "container_kvm_t", "container_engine_t", "spc_t", "Container_t", "", null]"#,
    ),
    ("spec/securityContext/seLinuxOptions/user", r#"["system_u", "", null]"#),
    ("spec/securityContext/seLinuxOptions/role", r#"["object_r", "", null]"#),
    ("spec/securityContext/seLinuxOptions/level", r#"["s0:c1,c2"]"#),
    (
        "spec/securityContext/windowsOptions",
        r#"[null, {}, {"runAsUserName": "u"}]"#,
    ),
    ("spec/securityContext/windowsOptions/hostProcess", "[true, false, null]"),
    (
        "spec/securityContext/sysctls",
        r#"[null, [], [null],
            [{"name": "kernel.shm_rmid_forced", "value": "1"}, {"name": "net.ipv4.ip_local_port_range", "value": "1 2"}],
            [{"name": "net.ipv4.tcp_syncookies"}, {"name": "net.ipv4.ping_group_range"}, {"name": "net.ipv4.ip_unprivileged_port_start"}],
            [{"name": "net.ipv4.ip_local_reserved_ports"}], [{"name": "net.ipv4.tcp_keepalive_time"}],
            [{"name": "net.ipv4.tcp_fin_timeout"}, {"name": "net.ipv4.tcp_keepalive_intvl"}, {"name": "net.ipv4.tcp_keepalive_probes"}],
            [{"name": "net.ipv4.tcp_rmem"}, {"name": "net.ipv4.tcp_wmem"}],
            [{"name": "net.ipv4.tcp_slow_start_after_idle"}, {"name": "net.ipv4.tcp_notsent_lowat"}],
            [{"name": "kernel.msgmax"}, {"name": "kernel.msgmax"}, {"name": "net/ipv4/tcp_syncookies"}], [{"name": ""}], [{}],
            [{"name": "net.core.somaxconn"}, {"name": ""}]]"#,
    ),
    ("spec/volumes", "[null, [], [null]]"),
];

/// Places in a container, likewise.
const OF_CONTAINER: &[(&str, &str)] = &[
    ("name", r#"["app", "app", "b", "", null, "\"", "\u00e9\u200b"]"#),
    ("securityContext", "[null, {}]"),
    ("securityContext/allowPrivilegeEscalation", "[true, false, null]"),
    ("securityContext/privileged", "[true, false, null]"),
    ("securityContext/runAsNonRoot", "[true, false, null]"),
    ("securityContext/runAsUser", "[0, 0, 1, 65534, null]"),
    ("securityContext/capabilities", "[null, {}]"),
    (
        "securityContext/capabilities/drop",
        r#"[null, [], ["ALL"], ["all"], ["NET_RAW"], ["NET_RAW", "ALL"], ["CAP_ALL"], [null]]"#,
    ),
    (
        "securityContext/capabilities/add",
        r#"[null, [], [null], ["NET_BIND_SERVICE"], ["NET_ADMIN", "NET_RAW"], ["SYS_CHROOT", "SETUID", "SETPCAP", "SETGID", "SETFCAP"],
            ["MKNOD", "KILL", "FSETID", "FOWNER"], ["DAC_OVERRIDE", "CHOWN", "AUDIT_WRITE"], ["net_bind_service"], ["CAP_CHOWN", "chown"],
            ["ALL"], [""], ["NET_BIND_SERVICE "], ["BPF", "BPF", "SYS_ADMIN"], ["SYS_PTRACE", "NET_BIND_SERVICE"]]"#,
    ),
    (
        "securityContext/procMount",
        r#"["Default", "Unmasked", "Unmasked", "", "default", null]"#,
    ),
    (
        "securityContext/appArmorProfile",
        r#"[null, {}, {"type": "RuntimeDefault"}, {"type": "Localhost", "localhostProfile": "p"}]"#,
    ),
    (
        "securityContext/appArmorProfile/type",
        r#"["Unconfined", "", "unconfined", "Other", null]"#,
    ),
    (
        "securityContext/seccompProfile",
        r#"[null, {}, {"type": "RuntimeDefault"}, {"type": "Localhost", "localhostProfile": "p"}]"#,
    ),
    (
        "securityContext/seccompProfile/type",
        r#"["RuntimeDefault", "Localhost", "Unconfined", "", "runtimeDefault", null]"#,
    ),
    ("securityContext/seLinuxOptions", "[null, {}]"),
    (
        "securityContext/seLinuxOptions/type",
        r#"["container_t", "container_engine_t", "spc_t", "", null]"#,
    ),
    ("securityContext/seLinuxOptions/user", r#"["system_u", "", null]"#),
    ("securityContext/seLinuxOptions/role", r#"["object_r", "", null]"#),
    ("securityContext/windowsOptions", "[null, {}]"),
    ("securityContext/windowsOptions/hostProcess", "[true, false, null]"),
    (
        "ports",
        r#"[null, [], [null], [{}], [{"containerPort": 80}], [{"containerPort": 80, "hostPort": 80}], [{"hostPort": 0, "containerPort": 9}],
            [{"hostPort": 10}, {"hostPort": 443}, {"hostPort": 9}], [{"hostPort": 8080}, {"hostPort": 8080}], [{"hostPort": -1}, {"hostPort": 65535}],
            [{"hostPort": null, "containerPort": 7}], [{"hostPort": 2147483647}]]"#,
    ),
    (
        "livenessProbe",
        r#"[null, {}, {"exec": {"command": ["true"]}}, {"grpc": {"port": 1}}]"#,
    ),
    (
        "livenessProbe/httpGet",
        r#"[null, {"port": 80}, {"port": 80, "host": ""}, {"port": "http", "host": "127.0.0.1"}, {"host": "example.com"}]"#,
    ),
    (
        "livenessProbe/tcpSocket",
        r#"[null, {"port": 80}, {"port": 80, "host": "::1"}, {"host": null}]"#,
    ),
    (
        "readinessProbe/httpGet",
        r#"[null, {"host": "10.0.0.1"}, {"host": "localhost"}]"#,
    ),
    ("readinessProbe/tcpSocket", r#"[null, {"host": "a\"b"}]"#),
    ("startupProbe/httpGet", r#"[{"host": "example.com"}, {}]"#),
    ("startupProbe/tcpSocket", r#"[{"host": "169.254.169.254"}, {}]"#),
    ("lifecycle", "[null, {}]"),
    (
        "lifecycle/postStart",
        r#"[null, {}, {"exec": {}}, {"httpGet": {"host": "h"}}, {"tcpSocket": {"host": "t"}, "httpGet": {"host": "h"}}]"#,
    ),
    (
        "lifecycle/preStop",
        r#"[null, {}, {"sleep": {"seconds": 1}}, {"httpGet": {"host": "h"}}, {"tcpSocket": {"host": "t"}}]"#,
    ),
    ("restartPolicy", r#"["Always", null]"#),
];

/// Volumes: each kind, none, unknown ones, several at once, null and empty values.
const VOLUMES: &str = r#"[
    null, {}, {"name": "none"}, {"name": null}, {"name": "future", "futureSource": {"x": 1}}, {"name": "nulls", "hostPath": null, "nfs": null},
    {"name": "b", "hostPath": {"path": "/var"}}, {"name": "a", "hostPath": {}}, {"name": "host\"", "hostPath": {"path": "/"}},
    {"name": "two", "emptyDir": {}, "hostPath": {"path": "/"}}, {"name": "three", "nfs": {}, "iscsi": {}, "storageos": {}},
    {"name": "v", "configMap": {}}, {"name": "v", "csi": {"driver": "d"}}, {"name": "v", "downwardAPI": {}}, {"name": "v", "emptyDir": {}},
    {"name": "v", "ephemeral": {}}, {"name": "v", "image": {"reference": "r"}}, {"name": "v", "persistentVolumeClaim": {"claimName": "c"}},
    {"name": "v", "projected": {"sources": null}}, {"name": "v", "secret": {"secretName": "s"}}, {"name": "v", "gcePersistentDisk": {}},
    {"name": "v", "awsElasticBlockStore": {}}, {"name": "v", "gitRepo": {}}, {"name": "v", "nfs": {}}, {"name": "v", "iscsi": {}},
    {"name": "v", "glusterfs": {}}, {"name": "v", "rbd": {}}, {"name": "v", "flexVolume": {}}, {"name": "v", "cinder": {}},
    {"name": "v", "cephfs": {}}, {"name": "v", "flocker": {}}, {"name": "v", "fc": {}}, {"name": "v", "azureFile": {}},
    {"name": "v", "vsphereVolume": {}}, {"name": "v", "quobyte": {}}, {"name": "v", "azureDisk": {}}, {"name": "v", "photonPersistentDisk": {}},
    {"name": "v", "portworxVolume": {}}, {"name": "v", "scaleIO": {}}, {"name": "v", "storageos": {}}
]"#;
