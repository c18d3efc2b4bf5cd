//! The part of the API's defaulting that Pod Security's checks can see.

use serde_json::{Value, json};

/// Applies to `pod` what the API server does to a pod on arrival, as far as a check can tell: a volume that names no
/// source becomes an `emptyDir`, and with `hostNetwork` a port of a container or init container that has no `hostPort`
/// gets its `containerPort`.
///
/// A volume with a source that is not known here keeps it: to call it an `emptyDir` would admit what a newer server
/// may refuse. A pod that reached a webhook went through this already.
pub fn default(pod: &mut Value) {
    let Some(spec) = pod.get_mut("spec") else { return };
    for volume in items(spec, "volumes") {
        let Some(volume) = volume.as_object_mut() else { continue };
        if volume.iter().all(|(key, value)| key == "name" || value.is_null()) {
            volume.insert("emptyDir".to_owned(), json!({}));
        }
    }
    if spec.get("hostNetwork") != Some(&Value::Bool(true)) {
        return;
    }
    for key in ["containers", "initContainers"] {
        items(spec, key)
            .flat_map(|container| items(container, "ports"))
            .for_each(default_host_port);
    }
}

fn default_host_port(port: &mut Value) {
    let set = |port: &Value, key: &str| port.get(key).and_then(Value::as_i64).filter(|&number| number != 0);
    if set(port, "hostPort").is_some() {
        return;
    }
    if let (Some(number), Some(port)) = (set(port, "containerPort"), port.as_object_mut()) {
        port.insert("hostPort".to_owned(), json!(number));
    }
}

fn items<'v>(object: &'v mut Value, key: &str) -> impl Iterator<Item = &'v mut Value> + use<'v> {
    object.get_mut(key).and_then(Value::as_array_mut).into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fills_in_what_the_checks_can_see() {
        let mut pod = json!({"spec": {
            "hostNetwork": true,
            "volumes": [{"name": "none"}, {"name": "null", "secret": null}, {"name": "known", "nfs": {}}, {"name": "new", "x": {}}, null],
            "containers": [{"ports": [{"containerPort": 80}, {"containerPort": 81, "hostPort": 82}, {}, null]}],
            "initContainers": [{"ports": [{"containerPort": 90, "hostPort": 0}]}],
            "ephemeralContainers": [{"ports": [{"containerPort": 91}]}],
        }});
        default(&mut pod);
        assert_eq!(
            pod,
            json!({"spec": {
                "hostNetwork": true,
                "volumes": [
                    {"name": "none", "emptyDir": {}},
                    {"name": "null", "secret": null, "emptyDir": {}},
                    {"name": "known", "nfs": {}},
                    {"name": "new", "x": {}},
                    null
                ],
                "containers": [{"ports": [
                    {"containerPort": 80, "hostPort": 80},
                    {"containerPort": 81, "hostPort": 82},
                    {},
                    null
                ]}],
                "initContainers": [{"ports": [{"containerPort": 90, "hostPort": 90}]}],
                "ephemeralContainers": [{"ports": [{"containerPort": 91}]}],
            }})
        );
    }

    #[test]
    fn leaves_alone_what_needs_nothing_or_makes_no_sense() {
        for pod in [
            json!(null),
            json!({"spec": []}),
            json!({"spec": {"volumes": {}, "containers": "x"}}),
            json!({"spec": {"containers": [{"ports": [{"containerPort": 80}]}]}}),
        ] {
            let mut defaulted = pod.clone();
            default(&mut defaulted);
            assert_eq!(defaulted, pod);
        }
    }
}
