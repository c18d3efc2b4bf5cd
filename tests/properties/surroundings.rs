//! Everything that a decision depends on beside the pod.

use outrigger::config::Installation;
use outrigger::decide::{self, Coverage, Decision, Facts, Inputs, Round, Trace};
use outrigger::inject::{Owner, Prepared};
use outrigger::pod::workload::Kind;
use outrigger::policy::pod_security::{Configuration, Question, Server};
use outrigger::policy::probe::Word;
use outrigger::policy::{Installed, Release, Requester};
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use serde_json::{Value, json};

/// Namespace, installation and cluster.
#[derive(Debug)]
pub(crate) struct Surroundings {
    labels: Value,
    annotations: Value,
    installation: Prepared,
    coverage: Coverage,
    release: u32,
    owner: Option<Owner>,
    foreign_plugin: bool,
    configuration: Configuration,
}

/// Values documents, each a line: how the proxy runs, what it is given, what is done with refused pods.
const VALUES: [&str; 12] = [
    "proxy: {nativeSidecar: false}",
    "proxy: {await: false}",
    "proxy: {isIngress: true}",
    "proxy: {securityContext: {runAsUser: 7, privileged: true}}",
    "proxy: {tracing: {enabled: true, collector: {endpoint: e:1, meshIdentity: {serviceAccountName: a, namespace: b}}}}",
    "proxyInit: {runAsRoot: true, privileged: true}",
    "proxyInit: {xtMountPath: {name: data}}",
    "cniEnabled: true",
    "disableIPv6: false",
    "identity: {serviceAccountTokenProjection: false}",
    "outrigger: {onRefused: skip}",
    "outrigger: {strict: true}",
];

fn coverage() -> impl Strategy<Value = Coverage> {
    let some = |selector: Option<(&str, &str)>| Coverage::Some {
        covered: 1,
        nodes: 2,
        uncovered: "n2".to_owned(),
        selector: selector.map(|(key, value)| (key.to_owned(), value.to_owned())),
    };
    let why = "forbidden".to_owned();
    let all = Coverage::All { nodes: 2 };
    select(vec![
        Coverage::Declared,
        all,
        Coverage::NoNodes,
        some(Some(("example.com/cni~x", "yes"))),
        some(None),
        Coverage::None,
        Coverage::Unknown { why },
    ])
}

pub(crate) fn surroundings() -> impl Strategy<Value = Surroundings> {
    let level = select(vec!["privileged", "baseline", "restricted", "restrict"]);
    let labels = prop::option::of(level).prop_map(|level| match level {
        Some(level) => {
            json!({"pod-security.kubernetes.io/enforce": level, "pod-security.kubernetes.io/warn": "restricted"})
        }
        None => json!({}),
    });
    let annotations = vec![
        ("linkerd.io/setup-iptables", "init-container"),
        ("config.linkerd.io/opaque-ports", "53,\"\n"),
        ("config.linkerd.io/proxy-log-level", "debug\u{7}"),
        ("config.linkerd.io/proxy-additional-env", "[]"),
    ];
    let annotations = subsequence(annotations, 0..3).prop_map(|mut entries| {
        entries.push(("linkerd.io/inject", "enabled"));
        entries.into_iter().collect::<Value>()
    });
    let of_namespace = (labels, annotations);
    let owner = select(vec![None, Some(Kind::Deployment), Some(Kind::Job), Some(Kind::CronJob)]);
    let cluster = (
        coverage(),
        select(vec![21, 22, 24, 28, 29, 34, 37]),
        owner,
        any::<bool>(),
    );
    let values = (subsequence(VALUES.to_vec(), 0..3), proptest::bool::weighted(0.95));
    (of_namespace, cluster, values).prop_map(|((labels, annotations), cluster, (values, complete))| {
        let (coverage, release, owner, foreign_plugin) = cluster;
        let mut documents = values;
        if complete {
            documents.push("linkerdVersion: v1");
        }
        let name = "web".repeat(30);
        Surroundings {
            labels,
            annotations,
            installation: Prepared::from(Installation::parse(&documents, Some("anchors"), "linkerd").unwrap()),
            coverage,
            release,
            owner: owner.map(|kind| Owner { kind: Some(kind), name }),
            foreign_plugin,
            configuration: Configuration::default(),
        }
    })
}

impl Surroundings {
    /// The decision on `pod`, with everything that led to it.
    pub(crate) fn decide(&self, pod: &Value) -> Decision {
        self.decide_with(pod, Trace::after([]))
    }

    /// The decision on `pod`.
    pub(crate) fn decide_with(&self, pod: &Value, trace: Trace) -> Decision {
        let inputs = Inputs {
            pod,
            namespace: decide::Namespace {
                name: "shop",
                labels: self.labels.as_object(),
                annotations: self.annotations.as_object(),
            },
            owner: self.owner.as_ref(),
            requester: &Requester::named("someone"),
            installation: &self.installation,
            facts: Facts {
                server: Server::from(Release(self.release)),
                pod_security: &self.configuration,
                coverage: &self.coverage,
                old_kubelets: None,
                foreign_plugin: self.foreign_plugin,
                stale: false,
                policies: &Installed::compile([], Release(self.release)),
                probe: &Word::Absent,
                round: Round::Second,
            },
        };
        decide::decide(&inputs, trace)
    }

    /// What Pod Security is asked in this namespace.
    pub(crate) fn question(&self) -> Question<'_> {
        Question {
            server: Server::from(Release(self.release)),
            configuration: &self.configuration,
            namespace: "shop",
            labels: self.labels.as_object(),
            user: "someone",
        }
    }
}
