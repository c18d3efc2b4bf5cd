//! Every policy as it stands for one pod, and what it says to the pod as it came.

use crate::config::{Figures, Variant};
use crate::decide::Trace;
use crate::decide::policies::{Judges, Opinion, Opinions, kind};
use crate::decide::variants::Variants;
use crate::pod::Pod;
use serde_json::Value;
use std::cell::OnceCell;

/// Every policy as it stands for the pod.
pub(super) struct Standing<'a> {
    pub(super) judges: Judges<'a>,
    pub(super) pod: &'a Pod<'a>,
    /// The pod that policies judge, where the first round is to come and changes it.
    pub(super) changed: Option<Value>,
    pub(super) before: OnceCell<Opinions>,
    pub(super) variants: OnceCell<Variants>,
    /// What is asked of policies first.
    pub(super) plain: Variant,
}

impl Standing<'_> {
    /// Asks `question` about the pod as it came.
    pub(super) fn ask<T>(&self, question: impl FnOnce(&Judges<'_>, &Pod<'_>) -> T) -> T {
        match &self.changed {
            Some(changed) => question(&self.judges, &Pod::new(changed)),
            None => question(&self.judges, self.pod),
        }
    }

    /// What policies say to the pod as it came. Mostly a candidate is admitted, and nobody asks.
    pub(super) fn before(&self) -> &Opinions {
        self.before
            .get_or_init(|| self.ask(|judges, pod| judges.review(pod, None)))
    }

    /// Whether a policy refuses the pod as it came: in its own words the API server will say so.
    pub(super) fn is_refused_anyway(&self) -> bool {
        self.before().iter().any(Opinion::denies)
    }

    /// Whether `opinions` on a candidate hold its shape against it.
    pub(super) fn denies(&self, opinions: &Opinions) -> bool {
        self.against(opinions).into_iter().any(Opinion::denies)
    }

    /// The figures that quotas demand of the injected containers.
    pub(super) fn figures(&self) -> Figures {
        match &self.changed {
            Some(changed) => self.judges.demanded(&Pod::new(changed)),
            None => self.judges.demanded(self.pod),
        }
    }

    /// What `opinions` on a candidate say against it and not against the pod as it came.
    pub(super) fn against<'o>(&'o self, opinions: &'o Opinions) -> Vec<&'o Opinion> {
        match opinions.admit() {
            true => Vec::new(),
            false => opinions.against(self.before()).collect(),
        }
    }
}

/// What the policies say to the pod as it came.
pub(super) fn note(before: &Opinions, trace: &mut Trace) {
    for opinion in before.iter() {
        let (by, policy) = (opinion.by, &opinion.policy);
        match opinion.exempt {
            Some(exempt) => trace.note(format_args!(
                "{by} enforces {policy}, from which the {exempt} is exempt"
            )),
            None if by == kind::POD_SECURITY => trace.note(format_args!("{by} enforces {policy}")),
            None => trace.note(format_args!("{by}: {policy}")),
        }
        if opinion.denies() {
            trace.note(format_args!("{by} refuses the pod as it came: {}", opinion.say()));
        }
    }
}
