//! What the API's validation says to requests and limits, of a pod alone.

use super::figures::Resources;
use super::subject::{Half, Subject, is_huge_page};
use super::{Refusal, Refuser};
use crate::pod::{self, Pod};
use crate::policy::aggregate::join;
use crate::policy::quoting::go_quoted;
use serde_json::Value;

/// Whether there is anything to compare in `pod`: a request beside another limit of the same resource, or figures of the
/// pod as a whole.
pub(super) fn compares(pod: &Pod<'_>) -> bool {
    let differs = |container: &&Value| {
        let figures = |key| container.get("resources")?.get(key)?.as_object();
        let (Some(requests), Some(limits)) = (figures("requests"), figures("limits")) else {
            return false;
        };
        let mut requests = requests.iter();
        requests.any(|(name, request)| limits.get(name).is_some_and(|limit| limit != request))
    };
    pod::object(pod.spec(), "resources").is_some() || pod.containers().iter().chain(pod.init_containers()).any(differs)
}

/// Checks `subject` after every default.
pub(super) fn check(subject: &Subject<'_>) -> Result<(), Refusal> {
    let (mut errors, mut containers) = (Vec::new(), Vec::new());
    for (list, of_list) in [
        ("containers", &subject.containers),
        ("initContainers", &subject.init_containers),
    ] {
        for (index, container) in of_list.iter().enumerate() {
            let found = requests(&container.resources, &format!("spec.{list}[{index}].resources"));
            if !found.is_empty() {
                containers.push(container.name.to_owned());
            }
            errors.extend(found);
        }
    }
    if let Some(whole) = subject.whole.as_ref() {
        errors.extend(requests(whole, "spec.resources"));
        errors.extend(whole_and_parts(subject, whole));
    }
    if errors.is_empty() {
        return Ok(());
    }
    Err(Refusal {
        by: Refuser::Validation,
        containers,
        message: join(errors),
    })
}

/// Requests that go beyond their limits, or differ where they must not. `path` is that of `resources`.
fn requests(resources: &Resources<'_>, path: &str) -> Vec<String> {
    let errors = resources.requests.iter().filter_map(|(name, request)| {
        let limit = resources.limits.get(name)?;
        let relation = match is_fixed(name) {
            true if request != limit => "equal to",
            false if request > limit => "less than or equal to",
            _ => return None,
        };
        let request = go_quoted(&request.to_string());
        Some(format!(
            "{path}.requests: Invalid value: {request}: must be {relation} {name} limit of {limit}"
        ))
    });
    errors.collect()
}

/// Containers that go beyond the figures of the pod as a whole.
fn whole_and_parts(subject: &Subject<'_>, whole: &Resources<'_>) -> Vec<String> {
    let mut errors = Vec::new();
    for (half, what) in [(Half::Requests, "requests"), (Half::Limits, "limits")] {
        for (name, sum) in subject.of_containers(half).iter() {
            // Only what cannot be overcommitted has its limits summed up.
            let summed = half == Half::Requests || is_huge_page(name);
            if let Some(own) = half.of(whole).get(name).filter(|own| summed && sum > *own) {
                let own = go_quoted(&own.to_string());
                errors.push(format!(
                    "spec.resources.{what}[{name}]: Invalid value: {own}: must be greater than or equal to aggregate container \
                     {what} of {sum}"
                ));
            }
        }
    }
    for (index, container) in subject.containers.iter().enumerate() {
        for (name, limit) in container.resources.limits.iter() {
            if let Some(own) = whole.limits.get(name).filter(|own| limit > *own) {
                let limit = go_quoted(&limit.to_string());
                errors.push(format!(
                    "spec.resources.containers[{index}][{name}].limits: Invalid value: {limit}: must be less than or equal to \
                     pod limits of {own}"
                ));
            }
        }
    }
    errors
}

/// Whether a resource cannot be overcommitted: huge pages, and what vendors add.
fn is_fixed(name: &str) -> bool {
    is_huge_page(name) || (name.contains('/') && !name.contains("kubernetes.io/"))
}
