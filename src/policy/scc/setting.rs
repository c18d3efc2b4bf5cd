//! What a constraint writes into a pod that it admits.

use std::fmt::Display;

use serde_json::{Map, Value};

/// One field that a constraint fills in, or rewrites in its own spelling.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Where, as a JSON pointer (RFC 6901) into the pod: `/spec/securityContext/fsGroup`.
    pub pointer: String,
    /// What. Null takes the field away.
    pub value: Value,
}

/// The fields that a constraint sets, in order.
#[derive(Debug, Default)]
pub(super) struct Settings(pub(super) Vec<Setting>);

impl Settings {
    /// Sets `key` in the security context below `place`.
    pub(super) fn context(&mut self, place: impl Display, key: &str, value: Value) {
        let pointer = format!("{place}/securityContext/{key}");
        self.0.push(Setting { pointer, value });
    }

    /// Sets an annotation.
    pub(super) fn annotation(&mut self, key: &str, value: &str) {
        self.0.push(Setting {
            pointer: format!("/metadata/annotations/{}", key.replace('~', "~0").replace('/', "~1")),
            value: Value::from(value),
        });
    }
}

impl Setting {
    /// Writes the field into `pod`, with the maps on the way to it. A pod without the container that it belongs to stays
    /// as it is.
    pub fn apply(&self, pod: &mut Value) {
        let Some((parent, key)) = self.pointer.rsplit_once('/') else {
            return;
        };
        let mut place = pod;
        for token in parent.split('/').skip(1) {
            let next = if let Value::Array(items) = place {
                token.parse().ok().and_then(|index: usize| items.get_mut(index))
            } else {
                map_of(place).map(|map| map.entry(unescape(token)).or_insert(Value::Null))
            };
            let Some(next) = next else { return };
            place = next;
        }
        let Some(map) = map_of(place) else { return };
        if self.value.is_null() {
            map.remove(&unescape(key));
        } else {
            map.insert(unescape(key), self.value.clone());
        }
    }
}

/// The map that `value` is, or becomes where it is null.
fn map_of(value: &mut Value) -> Option<&mut Map<String, Value>> {
    if value.is_null() {
        *value = Value::Object(Map::new());
    }
    value.as_object_mut()
}

fn unescape(token: &str) -> String {
    token.replace("~1", "/").replace("~0", "~")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn applied(mut pod: Value, pointer: &str, value: Value) -> Value {
        let pointer = pointer.to_owned();
        Setting { pointer, value }.apply(&mut pod);
        pod
    }

    #[test]
    fn makes_the_maps_on_the_way() {
        assert_eq!(
            applied(json!({"spec": null}), "/spec/securityContext/fsGroup", json!(5)),
            json!({"spec": {"securityContext": {"fsGroup": 5}}})
        );
        assert_eq!(
            applied(json!({}), "/metadata/annotations/a~1b~0c", json!("x")),
            json!({"metadata": {"annotations": {"a/b~c": "x"}}})
        );
    }

    #[test]
    fn leaves_what_does_not_fit() {
        let pod = json!({"spec": {"containers": [{}], "securityContext": 7}});
        for pointer in [
            "/spec/containers/1/x/y",
            "/spec/securityContext/x",
            "",
            "/spec/containers/a/b",
        ] {
            assert_eq!(applied(pod.clone(), pointer, json!(1)), pod, "{pointer}");
        }
    }
}
