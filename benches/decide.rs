//! The decision with its patch, from parsed JSON to the patch's bytes, for pods of 1, 10 and 100 containers.
//!
//! Budget: a whole request may take 1.5 times what the least webhook takes, 0.22 ms where that was measured; parsing,
//! TLS and HTTP are common to both, which leaves about 0.1 ms for everything here.

#![expect(clippy::unwrap_used, reason = "a bench that cannot start must say so")]

use divan::Bencher;
use outrigger::config::Installation;
use outrigger::decide::{Coverage, Facts, Inputs, Namespace, Round, Trace, decide};
use outrigger::inject::{Owner, Prepared};
use outrigger::pod::workload::Kind;
use outrigger::policy::pod_security::{Configuration, Server};
use outrigger::policy::probe::Word;
use outrigger::policy::{Installed, Release, Requester};
use serde_json::{Value, json};

fn main() {
    divan::main();
}

fn pod(containers: usize) -> Value {
    let container = |index: usize| {
        json!({
            "name": format!("c{index}"),
            "image": "registry.example.com/web:1",
            "ports": [{"containerPort": 8000 + index}],
            "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}},
            "readinessProbe": {"httpGet": {"path": "/", "port": 8080}},
        })
    };
    let containers: Vec<_> = (0..containers).map(container).collect();
    let context = json!({"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}});
    json!({
        "metadata": {"generateName": "web-7d9f-", "labels": {"app": "web"}},
        "spec": {"containers": containers, "securityContext": context},
    })
}

#[divan::bench(args = [1, 10, 100])]
fn decide_and_write(bencher: Bencher<'_, '_>, containers: usize) {
    let installation = Installation::parse(&["linkerdVersion: v1"], Some("anchors"), "linkerd").map(Prepared::from);
    let installation = installation.unwrap();
    let pod = pod(containers);
    let labels = json!({"pod-security.kubernetes.io/enforce": "restricted"});
    let annotations = json!({"linkerd.io/inject": "enabled"});
    let owner = Owner {
        kind: Some(Kind::Deployment),
        name: "web".to_owned(),
    };
    let configuration = Configuration::default();
    let requester = Requester::named("system:serviceaccount:kube-system:replicaset-controller");
    let policies = Installed::compile([], Release::NEWEST);
    bencher.bench_local(|| {
        let inputs = Inputs {
            pod: &pod,
            namespace: Namespace {
                name: "shop",
                labels: labels.as_object(),
                annotations: annotations.as_object(),
            },
            owner: Some(&owner),
            requester: &requester,
            installation: &installation,
            facts: Facts {
                server: Server::from(Release::NEWEST),
                pod_security: &configuration,
                coverage: &Coverage::Declared,
                old_kubelets: None,
                foreign_plugin: false,
                stale: false,
                policies: &policies,
                probe: &Word::Absent,
                round: Round::Second,
            },
        };
        decide(&inputs, Trace::off()).patch
    });
}
