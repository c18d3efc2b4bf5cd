//! What the plugin asks about a pod, and how: the protocol of the agent's Unix socket.
//!
//! The plugin connects, writes one line of JSON and reads one line of JSON; then both close. Lines end with LF, are
//! UTF-8 and at most [`LINE_LIMIT`] bytes long. Keys that either side does not know are passed over, so that plugin and
//! agent may differ in age during a roll-out.
//!
//! | question | answer |
//! |---|---|
//! | `{"namespace": "app", "name": "web-0", "uid": "…", "sandbox": "…"}`, `uid` only where the runtime told it | `{"pod": {…}}` |
//! | `{"status": true}`: could you answer such questions now? | `{"ready": true}` |
//! | either, where it cannot be answered | `{"error": "one sentence"}` |
//!
//! `pod` is the pod as the API server has it. An agent may leave out what is not read here: it needs `metadata.name`, `.uid`,
//! `.labels`, `.annotations`, `spec.hostNetwork`, `.hostUsers`, `.securityContext.runAsUser`, `.dnsPolicy`, `.dnsConfig.nameservers`, and of containers and init
//! containers `name`, and of `linkerd-proxy` `env`, `ports` and `securityContext`. An answer about another pod of the
//! same name, told by its UID, is not used. After an `error`, or without an agent, the plugin asks the API server.

use super::call::PodName;
use crate::config::annotation;
use crate::pod::{Pod, text};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// No line is longer: API server and etcd hold no object of more than 1.5 MiB.
pub const LINE_LIMIT: u64 = 4 << 20;

/// A question about a pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID, where it is known; that of a static pod is the hash of its manifest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// The sandbox that is being set up.
    pub sandbox: String,
}

/// What a line to the agent asks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Request {
    /// What is this pod?
    Pod(Question),
    /// Could you answer?
    Status {
        /// Always true.
        status: bool,
    },
}

impl Request {
    /// The question about `pod`.
    pub fn about(pod: &PodName, sandbox: &str) -> Self {
        Self::Pod(Question {
            namespace: pod.namespace.clone(),
            name: pod.name.clone(),
            uid: pod.uid.clone(),
            sandbox: sandbox.to_owned(),
        })
    }
}

/// What the agent answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Reply {
    /// This is the pod.
    Pod(Value),
    /// Questions can be answered (or not).
    Ready(bool),
    /// There is no answer at the moment, with the reason.
    Error(String),
}

/// Annotation of a static pod on its node: the hash of its manifest, which is its UID there.
const CONFIG_HASH: &str = "kubernetes.io/config.hash";

/// Whether `pod` is the one that the runtime means, and not another, or one of the same name before or after it.
pub fn is_meant(pod: &Value, name: &PodName) -> bool {
    let pod = Pod::new(pod);
    let uids = [
        text(pod.metadata(), "uid"),
        pod.annotation(annotation::MIRROR_POD),
        pod.annotation(CONFIG_HASH),
    ];
    text(pod.metadata(), "name") == Some(&name.name) && (name.uid.is_none() || uids.contains(&name.uid.as_deref()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn lines_are_as_documented() {
        let name = PodName {
            namespace: "app".to_owned(),
            name: "web-0".to_owned(),
            uid: None,
        };
        let line = |request: &Request| serde_json::to_string(request).unwrap();
        let question = Request::about(&name, "c0ffee");
        assert_eq!(
            line(&question),
            r#"{"namespace":"app","name":"web-0","sandbox":"c0ffee"}"#
        );
        assert_eq!(serde_json::from_str::<Request>(&line(&question)).unwrap(), question);
        let status = Request::Status { status: true };
        assert_eq!(line(&status), r#"{"status":true}"#);
        assert_eq!(serde_json::from_str::<Request>(&line(&status)).unwrap(), status);
        let reply = |text| serde_json::from_str::<Reply>(text).unwrap();
        assert_eq!(reply(r#"{"pod": {"a": 1}}"#), Reply::Pod(json!({"a": 1})));
        assert_eq!(reply(r#"{"ready": true}"#), Reply::Ready(true));
        assert_eq!(reply(r#"{"error": "not yet"}"#), Reply::Error("not yet".to_owned()));
    }

    #[test]
    fn another_pod_of_the_same_name_is_not_the_one_that_is_meant() {
        let named = |uid: Option<&str>| PodName {
            namespace: "app".to_owned(),
            name: "web-0".to_owned(),
            uid: uid.map(str::to_owned),
        };
        let pod = json!({"metadata": {"name": "web-0", "uid": "1"}});
        assert!(is_meant(&pod, &named(None)) && is_meant(&pod, &named(Some("1"))));
        assert!(!is_meant(&pod, &named(Some("2"))) && !is_meant(&json!({}), &named(None)));
        let mirror =
            json!({"metadata": {"name": "web-0", "uid": "1", "annotations": {"kubernetes.io/config.mirror": "hash"}}});
        assert!(is_meant(&mirror, &named(Some("hash"))));
    }
}
