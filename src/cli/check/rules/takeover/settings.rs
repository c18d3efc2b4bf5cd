//! Settings of `linkerd-config` that Linkerd's injector heeds and ours does not.

use serde_json::Value;
use std::collections::BTreeMap;

/// Keys, what the chart has there (values.yaml of linkerd-control-plane; null stands for everything that is empty), and what
/// counts instead. The rest of what injection does not read is of no concern to an injector: docs/compatibility.md lists it.
const IGNORED: [(&str, &str, &str); 33] = [
    ("proxy.capabilities", "null", POWERS),
    ("proxyInit.capabilities", "null", POWERS),
    ("webhookFailurePolicy", "\"Ignore\"", REGISTRATION),
    ("proxyInjector.namespaceSelector", NAMESPACES, REGISTRATION),
    ("proxyInjector.objectSelector", OBJECTS, REGISTRATION),
    ("proxyInjector.timeoutSeconds", "10", REGISTRATION),
    ("proxyInjector.caBundle", "null", CERTIFICATE),
    ("proxyInjector.crtPEM", "null", CERTIFICATE),
    ("proxyInjector.externalSecret", "false", CERTIFICATE),
    ("proxyInjector.injectCaFrom", "null", CERTIFICATE),
    ("proxyInjector.injectCaFromSecret", "null", CERTIFICATE),
    ("proxyInjector.additionalEnv", "null", DEPLOYMENT),
    ("proxyInjector.experimentalEnv", "null", DEPLOYMENT),
    ("proxyInjector.podAnnotations", "null", DEPLOYMENT),
    ("proxyInjectorResources", "null", DEPLOYMENT),
    ("proxyInjectorProxyResources", "null", DEPLOYMENT),
    ("controllerGID", "-1", DEPLOYMENT),
    ("controllerLogFormat", "\"plain\"", DEPLOYMENT),
    ("controllerLogLevel", "\"info\"", DEPLOYMENT),
    ("controllerReplicas", "1", DEPLOYMENT),
    ("controllerUID", "2103", DEPLOYMENT),
    ("deploymentStrategy", STRATEGY, DEPLOYMENT),
    ("enablePodAntiAffinity", "false", DEPLOYMENT),
    ("enablePodDisruptionBudget", "false", DEPLOYMENT),
    ("imagePullSecrets", "null", DEPLOYMENT),
    ("nodeAffinity", "null", DEPLOYMENT),
    ("nodeSelector", "{\"kubernetes.io/os\":\"linux\"}", DEPLOYMENT),
    ("podAnnotations", "null", DEPLOYMENT),
    ("podLabels", "null", DEPLOYMENT),
    ("priorityClassName", "null", DEPLOYMENT),
    ("revisionHistoryLimit", "10", DEPLOYMENT),
    ("identity.podAnnotations", "null", DEPLOYMENT),
    ("tolerations", "null", DEPLOYMENT),
];

const NAMESPACES: &str = r#"{"matchExpressions":[
    {"key":"config.linkerd.io/admission-webhooks","operator":"NotIn","values":["disabled"]},
    {"key":"kubernetes.io/metadata.name","operator":"NotIn","values":["kube-system","cert-manager"]}]}"#;
const OBJECTS: &str = r#"{"matchExpressions":[
    {"key":"linkerd.io/control-plane-component","operator":"DoesNotExist"},
    {"key":"linkerd.io/cni-resource","operator":"DoesNotExist"}]}"#;
const STRATEGY: &str = r#"{"rollingUpdate":{"maxSurge":"25%","maxUnavailable":"25%"}}"#;

const POWERS: &str = "proxy and validator drop all capabilities, linkerd-init all but NET_ADMIN and NET_RAW";
const REGISTRATION: &str = "our registration says it itself";
const CERTIFICATE: &str = "our certificate is our own";
const DEPLOYMENT: &str = "our Deployment says it itself";

/// What does not count of `values`, a line for all keys with the same reason. Values are not repeated: some are secret.
pub(super) fn ignored(values: &Value) -> Vec<String> {
    let mut by_reason: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (key, default, reason) in IGNORED {
        if is_set(values, key, default) {
            by_reason.entry(reason).or_default().push(key);
        }
    }
    let line = |(reason, keys): (&str, Vec<&str>)| format!("{}: {reason}", keys.join(", "));
    by_reason.into_iter().map(line).collect()
}

/// Whether `values` has something at `key`, dotted, that is not the chart's `default`, JSON.
fn is_set(values: &Value, key: &str, default: &str) -> bool {
    let found = key.split('.').try_fold(values, |node, part| node.get(part));
    let default: Value = serde_json::from_str(default).unwrap_or_default();
    found.is_some_and(|found| !is_empty(found) && *found != default)
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_the_chart_says_anyway_goes_without_saying() {
        let objects: Value = serde_json::from_str(OBJECTS).unwrap();
        let values = json!({
            "controllerUID": 2103, "tolerations": null, "priorityClassName": "", "imagePullSecrets": [],
            "proxyInjector": {"objectSelector": objects, "additionalEnv": null}, "proxy": {"capabilities": {}},
        });
        assert_eq!(ignored(&values), [""; 0]);
    }

    #[test]
    fn settings_are_named_by_key_and_never_repeated() {
        let values = json!({
            "controllerReplicas": 3, "webhookFailurePolicy": "Fail", "proxy": {"capabilities": {"drop": ["ALL"]}},
            "proxyInjector": {"additionalEnv": [{"name": "A", "value": "s3cret"}]},
        });
        let lines = ignored(&values);
        assert_eq!(
            lines,
            [
                format!("proxyInjector.additionalEnv, controllerReplicas: {DEPLOYMENT}"),
                format!("webhookFailurePolicy: {REGISTRATION}"),
                format!("proxy.capabilities: {POWERS}"),
            ]
        );
    }

    #[test]
    fn each_key_is_listed_as_one_that_injection_does_not_read() {
        let document = include_str!("../../../../../docs/compatibility.md");
        for (key, default, _) in IGNORED {
            let listed = |key: &str| document.contains(&format!("`{key}`"));
            let parent = key.split('.').next().unwrap();
            assert!(listed(key) || listed(parent), "{key}");
            assert!(serde_json::from_str::<Value>(default).is_ok(), "{key}: {default}");
        }
    }
}
