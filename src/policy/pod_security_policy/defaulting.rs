//! What a policy sets in a pod that leaves it open. What is set is never changed.

use super::contexts::{ContainerContext, Contexts, PodContext};
use super::identity::{GroupRule, UserRule};
use super::policies::Policy;

impl Policy {
    /// `given` after the policy's defaults.
    pub(super) fn defaulted<'a>(&'a self, given: &Contexts<'a>) -> Contexts<'a> {
        let mut contexts = given.clone();
        let Contexts { pod, containers } = &mut contexts;
        self.default_pod(pod);
        for container in containers {
            self.default_container(pod, container);
        }
        contexts
    }

    /// Whether the policy sets something of the pod itself: told sooner than what it sets in containers.
    pub(super) fn changes_pod(&self, given: &Contexts<'_>) -> bool {
        // Groups are what most policies set, and a copy of all that is set takes longer than a look at them.
        let lacks = |groups_are_set: bool, rule: &GroupRule| !groups_are_set && rule.default().is_some();
        if lacks(given.pod.fs_group.is_some(), &self.fs_group)
            || lacks(given.pod.supplemental_groups.is_some(), &self.supplemental_groups)
        {
            return true;
        }
        let mut pod = given.pod.clone();
        self.default_pod(&mut pod);
        pod != given.pod
    }

    fn default_pod<'a>(&'a self, pod: &mut PodContext<'a>) {
        if pod.supplemental_groups.is_none() {
            pod.supplemental_groups = self.supplemental_groups.default().map(|group| vec![group]);
        }
        pod.fs_group = pod.fs_group.or_else(|| self.fs_group.default());
        // Containers inherit the label, so none ever gets one of its own.
        pod.identity.se_linux = pod.identity.se_linux.or_else(|| self.se_linux.default());
        pod.seccomp.annotation = self.seccomp.defaulted(&pod.seccomp);
        pod.runtime_class = pod
            .runtime_class
            .or_else(|| self.runtime_class.as_ref()?.default.as_deref());
    }

    fn default_container<'a>(&'a self, pod: &PodContext<'a>, container: &mut ContainerContext<'a>) {
        if container.effective(pod).user.is_none() {
            container.identity.user = self.user.default();
        }
        if container.effective(pod).group.is_none() {
            container.identity.group = self.group.default();
        }
        if container.app_armor.is_empty() {
            container.app_armor = self.app_armor.default();
        }
        let effective = container.effective(pod);
        let open = effective.non_root.is_none() && effective.user.is_none();
        if open && matches!(self.user, UserRule::MustRunAsNonRoot) {
            container.identity.non_root = Some(true);
        }
        if let Some(capabilities) = self.capabilities.defaulted(container.capabilities.as_ref()) {
            container.capabilities = Some(capabilities);
        }
        let read_only = self.read_only_root_filesystem.then_some(true);
        container.read_only_root_filesystem = container.read_only_root_filesystem.or(read_only);
        let escalation = self
            .default_allow_privilege_escalation
            .or_else(|| (!self.allow_privilege_escalation).then_some(false));
        container.allow_privilege_escalation = container.allow_privilege_escalation.or(escalation);
    }
}
