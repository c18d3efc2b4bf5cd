//! What becomes of a pod for which no candidate is left.

use super::{Attempts, Choice, Standing};
use crate::config::values::OnRefused;
use crate::decide::outcome::Draft;
use crate::decide::policies::{Judges, Opinion, kind};
use crate::decide::refusal::Obstacle;
use crate::decide::{Caution, Decision, DenyReason, Refusal, SkipReason};
use crate::inject::opaque_ports;
use crate::pod::workload::Kind;

impl Choice<'_> {
    /// Completes a draft for which no candidate is left.
    pub(super) fn refuse(&self, mut draft: Draft, attempts: Attempts<'_>, standing: &Standing<'_>) -> Decision {
        if let Some(error) = attempts.taken {
            return draft.deny(DenyReason::NameTaken(error.to_string()));
        }
        let refusal = Refusal::new(
            attempts.obstacles,
            self.obstacles(&draft.policies, standing),
            self.asked,
        );
        if self.config().values.outrigger.on_refused == OnRefused::Deny {
            return draft.deny(DenyReason::NoRedirection(refusal));
        }
        for text in refusal
            .attempts
            .into_iter()
            .chain(refusal.obstacles.into_iter().map(|it| it.setting))
        {
            draft.warn(Caution::NotMeshed, text);
        }
        draft.policies.extend(standing.before().iter().cloned());
        let default = &self.inputs.installation.opaque_ports;
        let namespace = self.inputs.namespace.annotations;
        draft.patch = opaque_ports::patch(Kind::Pod, self.inputs.pod, namespace, default);
        draft.skip(SkipReason::NoRedirectionAdmitted)
    }

    /// The settings that those policies go by which refuse a candidate.
    fn obstacles(&self, denials: &[Opinion], standing: &Standing<'_>) -> Vec<Obstacle> {
        let mut obstacles: Vec<Obstacle> = Vec::new();
        for opinion in denials {
            let setting = match opinion.by {
                kind::POD_SECURITY => self.pod_security_setting(&standing.judges),
                kind::POD_SECURITY_POLICY => format!(
                    "no PodSecurityPolicy that the pod's account or creator may use in namespace {} takes it",
                    self.inputs.namespace.name
                ),
                kind::CONSTRAINTS => format!(
                    "no SecurityContextConstraints that the pod's account or creator may use in namespace {} take it",
                    self.inputs.namespace.name
                ),
                // Pod Security's own line says it.
                kind::PROBE if opinion.policy.starts_with(kind::POD_SECURITY) => continue,
                kind::PROBE => format!(
                    "{} refuses it in namespace {}, as a dry run shows",
                    opinion.policy, self.inputs.namespace.name
                ),
                by => format!("{by} {} of namespace {}", opinion.policy, self.inputs.namespace.name),
            };
            let obstacle = Obstacle {
                by: opinion.by,
                setting,
            };
            if !obstacles.contains(&obstacle) {
                obstacles.push(obstacle);
            }
        }
        obstacles
    }

    fn pod_security_setting(&self, judges: &Judges<'_>) -> String {
        const ENFORCE: &str = "pod-security.kubernetes.io/enforce";
        let name = self.inputs.namespace.name;
        let labels = self.inputs.namespace.labels;
        match labels.and_then(|labels| labels.get(ENFORCE)?.as_str()) {
            Some(level) => format!("namespace {name} has {ENFORCE}={level}"),
            None => format!(
                "the cluster's default for namespace {name} is {}",
                judges.pod_security.policies().enforce
            ),
        }
    }
}
