//! What Linkerd's own injector makes of a pod: beside it shows what changes where ours takes its place.
//!
//! It looks at no policy and at no node. Its containers are taken for ours, which policies judge alike but for capabilities
//! that it copies from the application.

use super::policies::Judges;
use super::{Inputs, SkipReasons, Trace, choice, eligibility, settings};
use crate::inject::{self, Redirection, Shape, ShapeError};
use crate::pod::Pod;

/// What becomes of the pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Linkerds {
    /// It stays as it is.
    LeftAlone(SkipReasons),
    /// It gets the proxy. How its traffic reaches that is the same for every pod of an installation.
    Injected(Redirection),
    /// It is injected and then refused by policies, or refused by the injector: the words of each.
    Refused(Vec<String>),
}

/// What Linkerd's injector makes of a pod.
pub fn linkerds(inputs: &Inputs<'_>) -> Linkerds {
    let pod = Pod::new(inputs.pod);
    let installation = inputs.installation;
    let reasons = eligibility::of_linkerd(&pod, &inputs.namespace, installation, inputs.facts.round);
    if let Some(reasons) = SkipReasons::of(reasons) {
        return Linkerds::LeftAlone(reasons);
    }
    let made = installation.made(settings(installation, &inputs.namespace, &pod, false));
    let config = made.config();
    let redirection = match config.values.cni_enabled {
        true => Redirection::Cni,
        false => Redirection::InitContainer,
    };
    let shape = inject::check(config)
        .and_then(|()| Shape::new(installation, &made, &pod, redirection, config.debug))
        .and_then(|shape| shape.check_names(&pod).map(|()| shape));
    let refused: Vec<_> = match shape {
        Ok(shape) => {
            let judges = Judges::of(inputs, &pod, &mut Trace::off());
            let changed = choice::before_webhooks(&judges, inputs);
            let judged = changed.as_ref().map_or_else(|| pod.clone(), Pod::new);
            let opinions = judges.review(&judged.with(&shape.additions()), Some(redirection));
            let against = opinions.iter().filter(|opinion| opinion.denies());
            against.map(|opinion| opinion.say().to_owned()).collect()
        }
        // No kubelet starts such a pod, but it is injected and admitted.
        Err(ShapeError::RootProxy(_)) => Vec::new(),
        Err(error) => vec![error.to_string()],
    };
    match refused.is_empty() {
        true => Linkerds::Injected(redirection),
        false => Linkerds::Refused(refused),
    }
}
