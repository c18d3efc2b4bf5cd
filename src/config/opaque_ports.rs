//! Lists of opaque ports: ports whose protocol the proxy does not detect.

use crate::pod::{Pod, integer, list, text};
use serde_json::Value;
use std::collections::BTreeMap;

/// Reads a list for `pod`: numbers, ranges, and names of its container ports. Returns it in Linkerd's normal form,
/// and the items that are none of these.
pub(crate) fn parse<'a>(list: &'a str, pod: &Pod<'_>) -> (String, Vec<&'a str>) {
    let mut ports = Vec::new();
    let mut junk = Vec::new();
    let names = names(pod);
    let items = list.strip_suffix(',').unwrap_or(list);
    for item in items.split(',').map(str::trim).filter(|_| !items.is_empty()) {
        let named = names.get(item).map(|&port| (port, port));
        match named.or_else(|| range(item)) {
            Some((first, last)) if first == last => ports.push(first.to_string()),
            Some((first, last)) => ports.push(format!("{first}-{last}")),
            None => junk.push(item),
        }
    }
    (ports.join(","), junk)
}

/// The ports of a default list; what is neither number nor range is none of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ranges(Vec<(u16, u16)>);

impl Ranges {
    /// Reads a list: numbers and ranges, separated by commas.
    pub(crate) fn parse(list: &str) -> Self {
        Self(list.split(',').filter_map(|item| range(item.trim())).collect())
    }

    /// The container ports of `pod` that are among them, in the pod's order, repeats kept.
    pub(crate) fn of_pod(&self, pod: &Pod<'_>) -> String {
        let ports = container_ports(pod).filter_map(|port| integer(port, "containerPort"));
        join(ports.filter(|&port| self.contains(port)))
    }

    /// The ports of `service` whose target is among them. A named target never is: it may mean another number in every
    /// pod.
    pub(crate) fn of_service(&self, service: &Value) -> String {
        let ports = service.get("spec").into_iter().flat_map(|spec| list(spec, "ports"));
        let matching = ports.filter_map(|port| {
            let number = integer(port, "port")?;
            let target = match port.get("targetPort") {
                None | Some(Value::Null) => number,
                Some(target) => target
                    .as_i64()
                    .filter(|&target| target != 0)
                    .or_else(|| target.is_number().then_some(number))?,
            };
            self.contains(target).then_some(number)
        });
        join(matching)
    }

    fn contains(&self, port: i64) -> bool {
        let mut ranges = self.0.iter();
        ranges.any(|&(first, last)| (i64::from(first)..=i64::from(last)).contains(&port))
    }
}

/// Every port of init and application containers.
fn container_ports<'a>(pod: &Pod<'a>) -> impl Iterator<Item = &'a Value> {
    let containers: Vec<_> = pod.init_containers().iter().chain(pod.containers()).copied().collect();
    containers.into_iter().flat_map(|container| list(container, "ports"))
}

/// The numbers of the container ports that have a name; the last of a name counts.
fn names<'a>(pod: &Pod<'a>) -> BTreeMap<&'a str, u16> {
    let mut names = BTreeMap::new();
    for port in container_ports(pod) {
        let number = integer(port, "containerPort").and_then(|number| u16::try_from(number).ok());
        if let (Some(name), Some(number)) = (text(port, "name").filter(|name| !name.is_empty()), number) {
            names.insert(name, number);
        }
    }
    names
}

fn range(item: &str) -> Option<(u16, u16)> {
    let (first, last) = item.split_once('-').unwrap_or((item, item));
    let (first, last) = (first.parse().ok()?, last.parse().ok()?);
    (first <= last).then_some((first, last))
}

fn join(ports: impl Iterator<Item = i64>) -> String {
    ports.map(|port| port.to_string()).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn names_numbers_and_ranges_are_normalised() {
        let pod = json!({"spec": {"containers": [{"ports": [{"name": "mysql", "containerPort": 3306}]}]}});
        let (ports, junk) = parse("mysql, 9000-9002,bad,70000,10-5,+80,1 - 2,", &Pod::new(&pod));
        assert_eq!(ports, "3306,9000-9002,80");
        assert_eq!(junk, ["bad", "70000", "10-5", "1 - 2"]);
        assert_eq!(parse("", &Pod::new(&pod)), (String::new(), vec![]));
        let port = |number: u16| json!([{"ports": [{"name": "db", "containerPort": number}]}]);
        let pod = json!({"spec": {"initContainers": port(1), "containers": port(2)}});
        assert_eq!(parse("db", &Pod::new(&pod)).0, "2");
    }

    #[test]
    fn default_lists_may_hold_ranges() {
        let pod = json!({"spec": {"containers": [{"ports": [{"containerPort": 3306}, {"containerPort": 80}, {"containerPort": 3306}]}]}});
        assert_eq!(Ranges::parse("3000-3310, 5432").of_pod(&Pod::new(&pod)), "3306,3306");
    }

    #[test]
    fn services_match_by_numeric_target() {
        let ports = json!([
            {"port": 3306}, {"port": 80, "targetPort": 5432}, {"port": 25, "targetPort": "smtp"},
            {"port": 587, "targetPort": 0}, {"port": 3306, "targetPort": 8080}
        ]);
        let service = json!({"spec": {"ports": ports}});
        assert_eq!(Ranges::parse("25,587,3306,5432").of_service(&service), "3306,80,587");
    }
}
