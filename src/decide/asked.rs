//! What `linkerd.io/setup-iptables` asks for.

use super::{Namespace, Trace};
use crate::config::annotation::SETUP_IPTABLES;
use crate::inject::Redirection;
use crate::pod::Pod;
use serde_json::{Map, Value};

/// Reads the first of pod annotation, pod label, namespace annotation and namespace label.
///
/// `None` leaves the choice to us; a word that means nothing is an error.
pub fn read(pod: &Pod<'_>, namespace: &Namespace<'_>, trace: &mut Trace) -> Result<Option<Redirection>, String> {
    let places = [
        ("pod annotation", pod.annotations()),
        ("pod label", pod.labels()),
        ("namespace annotation", namespace.annotations),
        ("namespace label", namespace.labels),
    ];
    let Some((place, value)) = places
        .into_iter()
        .find_map(|(place, entries)| Some((place, value(entries)?)))
    else {
        return Ok(None);
    };
    trace.note(format_args!("{place} has linkerd.io/setup-iptables={value}"));
    match value {
        "true" => Ok(None),
        "false" => Ok(Some(Redirection::None)),
        "init-container" => Ok(Some(Redirection::InitContainer)),
        "cni" => Ok(Some(Redirection::Cni)),
        unknown => Err(unknown.to_owned()),
    }
}

fn value(entries: Option<&Map<String, Value>>) -> Option<&str> {
    entries?.get(SETUP_IPTABLES)?.as_str().filter(|value| !value.is_empty())
}
