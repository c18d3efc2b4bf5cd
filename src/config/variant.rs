//! What an admission policy makes injection do otherwise than the values say.

use super::values::{Bounds, Resources, Values};
use super::{Config, Settings};
use crate::pod::Quantity;

/// A way to inject that differs from the values in a detail which some policy refuses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Variant {
    /// Without `seccompProfile`: a `PodSecurityPolicy` that lists no profiles, and OpenShift's older constraints, refuse
    /// every one.
    pub without_seccomp: bool,
    /// Other users, of those that a namespace of OpenShift may have.
    pub users: Option<Users>,
    /// With figures that the values leave unset, because a `ResourceQuota` demands them of every container.
    pub figures: Figures,
}

/// Figures that quotas demand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Of cores.
    pub cpu: Demand,
    /// Of bytes.
    pub memory: Demand,
}

/// What is demanded of one resource.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Demand {
    /// Nothing.
    #[default]
    Nothing,
    /// A request.
    Request,
    /// A limit; the API takes an unset request for as much, which would set aside far more than the proxy needs.
    Limit,
}

/// The users of the injected containers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Users {
    /// The proxy's, nobody else's.
    pub proxy: i64,
    /// That of the network validator, or of `linkerd-init`, neither of which outlives the start of the pod.
    pub validator: i64,
}

/// Request and limit of an injected container where a quota demands some and nobody names any: those of Linkerd's
/// documentation for the proxy.
const CPU: (&str, &str) = ("100m", "1");
const MEMORY: (&str, &str) = ("20Mi", "250Mi");

impl Demand {
    /// Fills in what `bounds` lack; whether they did.
    fn fill(self, bounds: &mut Bounds, (request, limit): (&str, &str)) -> bool {
        let before = bounds.clone();
        if self >= Self::Request && bounds.request.is_empty() && bounds.limit.is_empty() {
            request.clone_into(&mut bounds.request);
        }
        if self == Self::Limit && bounds.limit.is_empty() {
            let exceeds = Quantity::parse(&bounds.request) > Quantity::parse(limit);
            bounds.limit = if exceeds {
                bounds.request.clone()
            } else {
                limit.to_owned()
            };
        }
        *bounds != before
    }
}

impl Settings<'_> {
    /// The same, in a variant.
    #[must_use]
    pub fn with_variant(self, variant: Variant) -> Self {
        Self { variant, ..self }
    }
}

impl Config {
    /// Takes users and figures of the variant.
    pub(super) fn vary(&mut self, variant: Variant) {
        self.variant = variant;
        self.fill(variant.figures);
        let Some(users) = variant.users else { return };
        let Values {
            proxy,
            proxy_init,
            network_validator,
            ..
        } = self.changed();
        proxy.uid = users.proxy;
        proxy.security_context.remove("runAsUser");
        proxy_init.run_as_user = users.validator;
        let context = &mut network_validator.security_context;
        context.insert("runAsUser".to_owned(), users.validator.into());
    }

    fn fill(&mut self, figures: Figures) {
        if figures == Figures::default() {
            return;
        }
        let mut resources = self.values.proxy.resources.clone();
        let Resources { cpu, memory, .. } = &mut resources;
        let filled = [figures.cpu.fill(cpu, CPU), figures.memory.fill(memory, MEMORY)];
        if filled.contains(&true) {
            self.changed().proxy.resources = resources;
            self.filled = true;
        }
    }
}
