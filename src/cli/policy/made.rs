//! `policy psp` and `policy scc`: one policy a namespace, made for the pods of its workloads.

use super::paper::{Sheet, print_all};
use super::site::{Arguments, Site, Space, Workload, accounts, refusal};
use crate::cli::{Verdict, note};
use crate::decide::Outcome;
use crate::pod::{DEFAULT_ACCOUNT, Pod};
use crate::policy::needs::{Needs, Tailored, right};
use crate::policy::{Grants, Release, Requester, Usable, Verdict as Said, pod_security_policy, scc};
use anyhow::{Result, ensure};
use serde_json::{Value, json};

/// The label that Linkerd gives to its own policies.
const CONTROL_PLANE: &str = "linkerd.io/control-plane-ns";

/// What a namespace that OpenShift has not seen yet is taken to be allotted.
const ALLOTMENT: [(&str, &str); 2] = [
    ("openshift.io/sa.scc.uid-range", "1000000000/10000"),
    ("openshift.io/sa.scc.mcs", "s0:c1,c0"),
];

/// Which policy is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sort {
    /// `PodSecurityPolicy`
    PodSecurityPolicy,
    /// `SecurityContextConstraints`
    SecurityContextConstraints,
}

/// A workload with its pods as they will be.
struct Injected<'s> {
    workload: &'s Workload,
    pod: Value,
}

/// A workload that cannot be admitted, and why.
type Refused<'s> = (&'s str, String);

/// Makes, judges and prints the policies.
pub(super) fn run(arguments: &Arguments, sort: Sort) -> Result<Verdict> {
    let site = Site::read(arguments, sort.release())?;
    sort.check(site.server.release)?;
    let (mut verdict, mut sheets) = (Verdict::Yes, Vec::new());
    for space in &site.spaces {
        let (injected, mut refused) = inject(&site, space)?;
        let made = match injected.is_empty() {
            true => Vec::new(),
            false => sort.make(
                space,
                &injected,
                site.server.release,
                &arguments.control_plane.linkerd_namespace,
            ),
        };
        refused.extend(sort.judge(space, &injected, &made, site.server.release));
        for (title, why) in &refused {
            note(&format!("{}: {title} cannot be admitted: {why}\n", space.name));
            verdict = Verdict::No;
        }
        sheets.extend(made);
    }
    print_all(&sheets, arguments.output)?;
    Ok(verdict)
}

/// The pods of a namespace as they will be, and the workloads that are refused whatever the policy says.
fn inject<'s>(site: &Site, space: &'s Space) -> Result<(Vec<Injected<'s>>, Vec<Refused<'s>>)> {
    let (mut injected, mut refused) = (Vec::new(), Vec::new());
    for workload in &space.workloads {
        let decision = site.decide(space, &space.labels, workload);
        // Nothing is loosened for what cannot be admitted anyway.
        if let Some(why) = refusal(&decision) {
            refused.push((workload.title.as_str(), why));
            continue;
        }
        if matches!(decision.outcome, Outcome::Skip(_)) {
            let why = decision.message();
            note(&format!("{}: {} is not injected: {why}\n", space.name, workload.title));
        }
        let pod = workload.after(&decision)?;
        injected.push(Injected { workload, pod });
    }
    Ok((injected, refused))
}

impl Sort {
    /// The release that is assumed: the last that has the policy.
    fn release(self) -> Release {
        match self {
            Self::PodSecurityPolicy => Release(24),
            Self::SecurityContextConstraints => Release::NEWEST,
        }
    }

    /// Fails where the server has no such policy.
    fn check(self, server: Release) -> Result<()> {
        ensure!(
            self == Self::SecurityContextConstraints || server <= self.release(),
            "--server-version {server}: Kubernetes 1.25 and later have no PodSecurityPolicy; see outrigger policy labels"
        );
        Ok(())
    }

    /// The policy for `injected`, and the right to use it.
    fn make(self, space: &Space, injected: &[Injected<'_>], release: Release, linkerd: &str) -> Vec<Sheet> {
        let mut needs = Needs::default();
        let pods: Vec<_> = injected.iter().map(|injected| Pod::new(&injected.pod)).collect();
        for (injected, pod) in injected.iter().zip(&pods) {
            needs.add(&injected.workload.title, pod);
        }
        let name = format!("linkerd-{}-data-plane", space.name);
        let (mut content, usable, suffix) = match self {
            Self::PodSecurityPolicy => (
                pod_security_policy::tailored(&name, &needs, release),
                Usable::PodSecurityPolicies,
                "psp",
            ),
            Self::SecurityContextConstraints => {
                (scc::tailored(&name, &needs), Usable::SecurityContextConstraints, "scc")
            }
        };
        label(&mut content, linkerd);
        let accounts = accounts(injected.iter().map(|injected| &injected.pod));
        let right = right(
            usable,
            &name,
            &format!("{}-{suffix}", space.name),
            &space.name,
            accounts,
        );
        let titles = injected.iter().map(|injected| injected.workload.title.as_str());
        let head = format!("For the pods of {}", titles.collect::<Vec<_>>().join(", "));
        let policy = Sheet {
            head: vec![head],
            content,
        };
        let [role, binding] = right.map(Sheet::from);
        vec![policy, role, binding]
    }

    /// What the API server will hold against pods, before injection and after it, were `made` all that there is.
    fn judge<'s>(self, space: &Space, injected: &[Injected<'s>], made: &[Sheet], release: Release) -> Vec<Refused<'s>> {
        let objects: Vec<_> = made.iter().map(|sheet| &sheet.content.object).collect();
        let mut refused = Vec::new();
        for Injected { workload, pod } in injected {
            let pods = [&workload.pod, pod];
            let said = pods.into_iter().find_map(|pod| match self {
                Self::PodSecurityPolicy => ask_psp(space, &objects, pod, release),
                Self::SecurityContextConstraints => ask_scc(space, &objects, pod, release),
            });
            refused.extend(said.map(|why| (workload.title.as_str(), why)));
        }
        refused
    }
}

fn label(content: &mut Tailored, linkerd: &str) {
    if let Some(metadata) = content.object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.insert("labels".to_owned(), json!({CONTROL_PLANE: linkerd}));
    }
}

fn ask_psp(space: &Space, objects: &[&Value], pod: &Value, release: Release) -> Option<String> {
    let pod = Pod::new(pod);
    let policies = objects.iter().copied().take(1);
    let question = pod_security_policy::Question {
        release,
        policies: &pod_security_policy::Policies::compile(policies),
        grants: &Grants::compile(objects.iter().copied(), Usable::PodSecurityPolicies),
        namespace: &space.name,
        requester: &Requester::default(),
        service_account: Some(pod.service_account().unwrap_or(DEFAULT_ACCOUNT)),
    };
    question
        .admission()
        .review(&pod)
        .err()
        .map(|refusal| refusal.to_string())
}

fn ask_scc(space: &Space, objects: &[&Value], pod: &Value, release: Release) -> Option<String> {
    let mut annotations = space.annotations.clone();
    for (key, value) in ALLOTMENT {
        annotations.entry(key).or_insert_with(|| value.into());
    }
    let question = scc::Question {
        constraints: &scc::Constraints::compile(objects.iter().copied()),
        grants: &Grants::compile(objects.iter().copied(), Usable::SecurityContextConstraints),
        server: release,
        namespace: &space.name,
        labels: Some(&space.labels),
        annotations: Some(&annotations),
        requester: &Requester::default(),
    };
    match question.admission().review(&Pod::new(pod)).verdict() {
        Said::Allowed => None,
        Said::Denied { message } => Some(message),
        Said::Unknown { why } => Some(why),
    }
}
