//! The facts that a line may ask for, each read off the answer or off the patched pod.

use crate::answer::Answer;
use ipnet::IpNet;
use outrigger::pod::{Pod, container_name, list, text};
use outrigger::policy::pod_security::{Policy, default, evaluate};
use serde_json::{Value, json};

/// What is there instead of what `key` asks for; nothing where it holds.
pub(crate) fn fault(key: &str, expected: &Value, answer: Option<&Answer>) -> Option<String> {
    let Some(answer) = answer else {
        return Some("explain has no such workload".to_owned());
    };
    let (holds, found) = answer.look(key, expected);
    (!holds).then(|| found.to_string())
}

impl Answer {
    /// Whether the fact holds, and what is there.
    fn look(&self, key: &str, expected: &Value) -> (bool, Value) {
        let same = |found: Value| (found == *expected, found);
        match key {
            "inject" => same((self.entry["outcome"] == "inject").into()),
            "mode" => self.mode(expected),
            "mode_not" => {
                let (is, found) = self.mode(expected);
                (!is, found)
            }
            "reason" => self.reason(expected),
            "psa" => self.pod_security(expected),
            "native" => same(self.native()),
            "proxy_drop" => same(self.proxy()["securityContext"]["capabilities"]["drop"].clone()),
            "seccomp" => self.seccomp(expected),
            "projected_token" => same(self.projected_token().into()),
            "all_resources" => same(self.all_resources().into()),
            "labels_valid" => same(self.labels_are_valid().into()),
            "uid_in" => self.user(|user| (expected[0].as_i64()..=expected[1].as_i64()).contains(&user)),
            "uid_not" => self.user(|user| !expected.as_array().unwrap().contains(&json!(user))),
            "init_order" => same(self.init_order(expected)),
            "patch_empty" => same((self.entry["patch"] == json!([])).into()),
            "patch_noop" => same((self.after == self.before).into()),
            "annotation" => self.annotations(expected),
            "skip_subnets_v4" => same(self.subnets(|net| matches!(net, IpNet::V4(_)))),
            "skip_subnets_v6" => same(self.subnets(|net| matches!(net, IpNet::V6(_)))),
            "inbound_skip" => self.skipped_ports("inbound", expected),
            "outbound_skip" => self.skipped_ports("outbound", expected),
            _ => (false, "no check for this key".into()),
        }
    }

    fn mode(&self, expected: &Value) -> (bool, Value) {
        let found = &self.entry["redirection"];
        let holds = match expected.as_str().unwrap() {
            "any" => true,
            "init" => found == "init-container",
            mode => found == mode,
        };
        (holds, found.clone())
    }

    /// Every word stands somewhere in reason, message or warnings.
    fn reason(&self, expected: &Value) -> (bool, Value) {
        let said = json!([self.entry["reason"], self.entry["message"], self.entry["warnings"]]);
        let text = said.to_string().to_lowercase();
        let mut words = list_of(expected).into_iter();
        (words.all(|word| text.contains(&word.to_lowercase())), said)
    }

    /// The patched pod is admitted at a policy.
    fn pod_security(&self, expected: &Value) -> (bool, Value) {
        let (level, version) = expected.as_str().unwrap().split_once(':').unwrap();
        let policy = Policy {
            level: level.parse().unwrap(),
            version: version.parse().unwrap(),
        };
        let mut pod = self.after.clone();
        default(&mut pod);
        let evaluation = evaluate(policy, self.server, &Pod::new(&pod));
        (evaluation.allowed, evaluation.detail.into())
    }

    /// True for a native sidecar, false for an ordinary container, null for anything else.
    fn native(&self) -> Value {
        let named = |key| list(&self.after["spec"], key).find(|it| container_name(it) == "linkerd-proxy");
        match (named("initContainers"), named("containers")) {
            (Some(proxy), None) if text(proxy, "restartPolicy") == Some("Always") => true.into(),
            (None, _) => false.into(),
            _ => Value::Null,
        }
    }

    /// `true`, `false` or the type that every injected container has.
    fn seccomp(&self, expected: &Value) -> (bool, Value) {
        let types: Vec<_> = self
            .injected()
            .map(|it| it["securityContext"]["seccompProfile"]["type"].clone())
            .collect();
        let holds = match expected {
            Value::Bool(any) => types.iter().all(|it| it.is_string() == *any),
            one => types.iter().all(|it| it == one),
        };
        (holds, types.into())
    }

    /// The proxy mounts a token of its own, and the application's setting is as it was.
    fn projected_token(&self) -> bool {
        let spec = &self.after["spec"];
        let is_token = |volume: &&Value| {
            list(&volume["projected"], "sources").any(|source| source["serviceAccountToken"]["audience"].is_string())
        };
        let mounts = |name: &Value| list(self.proxy(), "volumeMounts").any(|mount| mount["name"] == *name);
        let automount = "automountServiceAccountToken";
        list(spec, "volumes")
            .filter(is_token)
            .any(|volume| mounts(&volume["name"]))
            && spec[automount] == self.before["spec"][automount]
    }

    fn all_resources(&self) -> bool {
        let complete = |it: &Value| {
            ["requests", "limits"]
                .into_iter()
                .flat_map(|kind| ["cpu", "memory"].map(|name| (kind, name)))
                .all(|(kind, name)| it["resources"][kind][name].is_string())
        };
        self.injected().all(complete)
    }

    fn labels_are_valid(&self) -> bool {
        let valid = |value: &str| {
            let ends = |c: char| c.is_ascii_alphanumeric();
            value.len() <= 63
                && value.chars().all(|c| ends(c) || "-_.".contains(c))
                && value.chars().next().is_none_or(ends)
                && value.chars().next_back().is_none_or(ends)
        };
        let labels = self.after["metadata"]["labels"].as_object();
        labels.is_some_and(|labels| labels.values().all(|value| value.as_str().is_some_and(valid)))
    }

    fn user(&self, holds: impl Fn(Option<i64>) -> bool) -> (bool, Value) {
        let user = &self.proxy()["securityContext"]["runAsUser"];
        (user.is_i64() && holds(user.as_i64()), user.clone())
    }

    /// The init containers that `expected` names, in the order in which they run.
    fn init_order(&self, expected: &Value) -> Value {
        let names = list(&self.after["spec"], "initContainers").map(container_name);
        let named: Vec<_> = names
            .filter(|name| list_of(expected).contains(&(*name).to_owned()))
            .collect();
        json!(named)
    }

    fn annotations(&self, expected: &Value) -> (bool, Value) {
        let found = &self.after["metadata"]["annotations"];
        let expected = expected.as_object().unwrap();
        (expected.iter().all(|(key, value)| found[key] == *value), found.clone())
    }

    fn subnets(&self, family: impl Fn(&IpNet) -> bool) -> Value {
        let listed = self.setting("--subnets-to-ignore", "config.linkerd.io/skip-subnets");
        let nets = listed.iter().filter_map(|it| it.parse::<IpNet>().ok()).filter(family);
        nets.map(|net| net.trunc().to_string()).collect()
    }

    fn skipped_ports(&self, direction: &str, expected: &Value) -> (bool, Value) {
        let argument = format!("--{direction}-ports-to-ignore");
        let listed = self.setting(&argument, &format!("config.linkerd.io/skip-{direction}-ports"));
        (
            list_of(expected).iter().all(|port| listed.contains(port)),
            json!(listed),
        )
    }

    /// What the rules are made from: an argument of the init container, or the annotation that the plugin reads.
    fn setting(&self, argument: &str, annotation: &str) -> Vec<String> {
        let inits = list(&self.after["spec"], "initContainers");
        let arguments: Vec<_> = inits
            .filter(|it| container_name(it) == "linkerd-init")
            .flat_map(|it| list(it, "args"))
            .collect();
        let of_init = arguments
            .windows(2)
            .find(|pair| pair[0] == argument)
            .map(|pair| pair[1]);
        let of_annotation = || &self.after["metadata"]["annotations"][annotation];
        list_of(of_init.unwrap_or_else(of_annotation))
    }

    fn proxy(&self) -> &Value {
        let mut injected = self.injected();
        injected
            .find(|it| container_name(it) == "linkerd-proxy")
            .unwrap_or(&Value::Null)
    }

    /// The containers that the patch adds.
    fn injected(&self) -> impl Iterator<Item = &Value> {
        let before = Pod::new(&self.before);
        let known: Vec<_> = before.all_containers().map(container_name).collect();
        let all: Vec<_> = Pod::new(&self.after).all_containers().collect();
        all.into_iter().filter(move |it| !known.contains(&container_name(it)))
    }
}

/// A list, or a text with commas, as texts.
fn list_of(value: &Value) -> Vec<String> {
    let plain = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    match value {
        Value::Null => Vec::new(),
        Value::Array(items) => items.iter().map(plain).collect(),
        one => plain(one).split(',').map(|item| item.trim().to_owned()).collect(),
    }
}
