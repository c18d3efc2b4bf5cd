//! What the API server does to a pod between the plugin's two rounds, as it readies it for storage.

use std::borrow::Cow;

use super::contexts::Contexts;
use super::profiles::{SeccompProfile, field_of_name};

impl Contexts<'_> {
    /// Brings seccomp annotations and fields in step, and resets `procMount`, whose feature gate is off.
    ///
    /// A container's annotation goes by its name: containers that share one share it.
    pub(super) fn stored(mut self) -> Self {
        self.pod.seccomp.bring_in_step();
        for index in 0..self.containers.len() {
            let Some(container) = self.containers.get_mut(index) else {
                continue;
            };
            if container.proc_mount.is_some() {
                container.proc_mount = Some("Default");
            }
            if container.seccomp.bring_in_step() {
                let (name, annotation) = (container.name, container.seccomp.annotation.clone());
                let namesakes = self.containers.iter_mut().filter(|other| other.name == name);
                namesakes.for_each(|other| other.seccomp.annotation.clone_from(&annotation));
            }
        }
        self
    }
}

impl SeccompProfile<'_> {
    /// Writes the one into the other where only one is there; whether that wrote an annotation.
    fn bring_in_step(&mut self) -> bool {
        match (&self.field, &self.annotation) {
            (Some(field), None) => {
                self.annotation = Some(field.clone()).filter(|name: &Cow<'_, str>| !name.is_empty());
                self.annotation.is_some()
            }
            (None, Some(annotation)) => {
                self.field = field_of_name(annotation);
                false
            }
            (None, None) | (Some(_), Some(_)) => false,
        }
    }
}
