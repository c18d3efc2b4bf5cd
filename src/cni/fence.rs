//! Whether a pod is fenced, and what the plugin knows of its name servers: it runs before there is a container whose
//! `resolv.conf` names them.

use super::call::PodName;
use super::failure::Failure;
use crate::config::annotation::{EGRESS_DNS, EGRESS_FENCE};
use crate::pod::{Pod, list, object, text};
use crate::redirect::{Fence, SubnetList, name_servers};
use serde_json::Value;

/// The fence of the pod called `name`; nothing where it asks for none.
///
/// # Errors
/// Where it asks for something else, or nobody says which name servers it has.
pub(super) fn fence(pod: &Pod<'_>, name: &PodName) -> Result<Option<Fence>, Failure> {
    let wrong = |key, why| Failure::Pod {
        pod: name.path(),
        key,
        why,
    };
    match pod.annotation(EGRESS_FENCE) {
        None | Some("disabled") => return Ok(None),
        Some("enabled") => {}
        Some(other) => {
            return Err(wrong(
                EGRESS_FENCE,
                format!("{other:?} is none; expected enabled or disabled"),
            ));
        }
    }
    let name_servers = match pod.annotation(EGRESS_DNS) {
        Some(given) => name_servers(given).map_err(|error| wrong(EGRESS_DNS, error.to_string()))?,
        None => own(pod).ok_or_else(|| {
            let why = "the plugin cannot know the name servers of a pod whose dnsPolicy is not None; expected their \
                       addresses, as in 10.96.0.10, in this annotation of pod or namespace or in outrigger.egressDNS of the \
                       values";
            wrong(EGRESS_DNS, why.to_owned())
        })?,
    };
    Ok(Some(Fence { name_servers }))
}

/// The name servers that the pod says itself, where it has no others.
fn own(pod: &Pod<'_>) -> Option<SubnetList> {
    (text(pod.spec(), "dnsPolicy") == Some("None")).then_some(())?;
    let addresses: Vec<&str> = list(object(pod.spec(), "dnsConfig")?, "nameservers")
        .filter_map(Value::as_str)
        .collect();
    name_servers(&addresses.join(",")).ok()
}
