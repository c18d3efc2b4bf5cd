//! A review as an API server sends one: a pod of a ReplicaSet, after defaulting.

use serde_json::{Value, json};

/// The review of a pod that is created in `namespace`. It meets Pod Security's `restricted` level by itself.
pub(crate) fn review(namespace: &str) -> Value {
    let resource = json!({"group": "", "version": "v1", "resource": "pods"});
    let kind = json!({"group": "", "version": "v1", "kind": "Pod"});
    json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "5f1d8f0e-0b1c-4d53-9f4e-6a1f6f7f0c11",
            "kind": kind, "resource": resource, "requestKind": kind, "requestResource": resource,
            "namespace": namespace,
            "operation": "CREATE",
            "userInfo": {
                "username": "system:serviceaccount:kube-system:replicaset-controller",
                "uid": "0c9a3a52-5d6e-4a2b-8f0e-5b3c1d2e4f60",
                "groups": ["system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"],
            },
            "object": pod(namespace),
            "oldObject": null,
            "dryRun": false,
            "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
        },
    })
}

fn pod(namespace: &str) -> Value {
    let owner = json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "shop-6d5f9c7b84",
        "uid": "b7a1c2d3-1111-4222-8333-944455566677", "controller": true, "blockOwnerDeletion": true,
    });
    let toleration =
        |key: &str| json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300});
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "generateName": "shop-6d5f9c7b84-",
            "namespace": namespace,
            "creationTimestamp": null,
            "labels": {"app": "shop", "version": "v3", "pod-template-hash": "6d5f9c7b84"},
            "ownerReferences": [owner],
        },
        "spec": {
            "volumes": [token_volume()],
            "containers": [container()],
            "restartPolicy": "Always",
            "terminationGracePeriodSeconds": 30,
            "dnsPolicy": "ClusterFirst",
            "serviceAccountName": "shop",
            "serviceAccount": "shop",
            "securityContext": {"runAsNonRoot": true, "runAsUser": 1000, "seccompProfile": {"type": "RuntimeDefault"}},
            "schedulerName": "default-scheduler",
            "tolerations": [toleration("node.kubernetes.io/not-ready"), toleration("node.kubernetes.io/unreachable")],
            "priority": 0,
            "enableServiceLinks": true,
            "preemptionPolicy": "PreemptLowerPriority",
        },
        "status": {},
    })
}

fn container() -> Value {
    let variable = |name: &str, value: &str| json!({"name": name, "value": value});
    json!({
        "name": "shop",
        "image": "registry.example.com/shop:3.1.0",
        "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}],
        "env": [
            variable("SHOP_PORT", "8080"), variable("BASKET", "basket.stock:8080"),
            variable("PRICES", "prices.stock:8080"), variable("ASSETS", "/srv/assets"),
        ],
        "resources": {"requests": {"cpu": "100m"}},
        "volumeMounts": [{
            "name": "kube-api-access-x2k9p", "readOnly": true,
            "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
        }],
        "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}},
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "IfNotPresent",
    })
}

fn token_volume() -> Value {
    let field = json!({"apiVersion": "v1", "fieldPath": "metadata.namespace"});
    let sources = json!([
        {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": field}]}},
    ]);
    json!({"name": "kube-api-access-x2k9p", "projected": {"sources": sources, "defaultMode": 420}})
}
