//! What answers show of a pod: all that a policy may change, as a server of these releases prints it. Fields that it
//! does not know are gone, and so are empty lists.

use serde_json::{Map, Value, json};

use super::contexts::places;
use crate::pod::Pod;

/// How one field is printed.
enum Shape {
    /// As it is; left out if null.
    Value,
    /// A text; left out if empty.
    FilledText,
    /// A text that is always there.
    Text,
    /// A list of texts; left out if empty. A null in it is an empty text.
    Texts,
    /// A list of numbers; left out if empty. A null in it is a zero.
    Numbers,
    /// A list of objects; left out if empty.
    Objects(Fields),
    /// An object, empty or not.
    Object(Fields),
}

type Fields = &'static [(&'static str, Shape)];

const SE_LINUX: Fields = &[
    ("user", Shape::FilledText),
    ("role", Shape::FilledText),
    ("type", Shape::FilledText),
    ("level", Shape::FilledText),
];

const WINDOWS: Fields = &[
    ("gmsaCredentialSpecName", Shape::Value),
    ("gmsaCredentialSpec", Shape::Value),
    ("runAsUserName", Shape::Value),
    ("hostProcess", Shape::Value),
];

const SECCOMP: Fields = &[("type", Shape::Text), ("localhostProfile", Shape::Value)];

const CAPABILITIES: Fields = &[("add", Shape::Texts), ("drop", Shape::Texts)];

const POD: Fields = &[
    ("seLinuxOptions", Shape::Object(SE_LINUX)),
    ("windowsOptions", Shape::Object(WINDOWS)),
    ("runAsUser", Shape::Value),
    ("runAsGroup", Shape::Value),
    ("runAsNonRoot", Shape::Value),
    ("supplementalGroups", Shape::Numbers),
    ("fsGroup", Shape::Value),
    (
        "sysctls",
        Shape::Objects(&[("name", Shape::Text), ("value", Shape::Text)]),
    ),
    ("fsGroupChangePolicy", Shape::Value),
    ("seccompProfile", Shape::Object(SECCOMP)),
];

const CONTAINER: Fields = &[
    ("capabilities", Shape::Object(CAPABILITIES)),
    ("privileged", Shape::Value),
    ("seLinuxOptions", Shape::Object(SE_LINUX)),
    ("windowsOptions", Shape::Object(WINDOWS)),
    ("runAsUser", Shape::Value),
    ("runAsGroup", Shape::Value),
    ("runAsNonRoot", Shape::Value),
    ("readOnlyRootFilesystem", Shape::Value),
    ("allowPrivilegeEscalation", Shape::Value),
    ("procMount", Shape::Value),
    ("seccompProfile", Shape::Object(SECCOMP)),
];

/// `{annotations, securityContext, runtimeClassName, containers}`; a container without a security context has null.
pub(super) fn digest(pod: &Pod<'_>) -> Value {
    let annotations = pod.annotations().into_iter().flatten();
    let annotations: Map<_, _> = annotations
        .map(|(key, value)| (key.clone(), json!(value.as_str().unwrap_or_default())))
        .collect();
    let containers: Map<_, _> = places(pod)
        .zip(pod.all_containers())
        .map(|(place, container)| {
            let context = container.get("securityContext").filter(|context| context.is_object());
            (
                place.to_string(),
                context.map_or(Value::Null, |context| print(context, CONTAINER)),
            )
        })
        .collect();
    let context = pod.security_context().unwrap_or(&Value::Null);
    let mut digest = json!({
        "annotations": annotations,
        "securityContext": print(context, POD),
        "containers": containers,
    });
    if let (Some(digest), Some(class)) = (digest.as_object_mut(), pod.spec().get("runtimeClassName"))
        && !class.is_null()
    {
        digest.insert("runtimeClassName".to_owned(), class.clone());
    }
    digest
}

fn print(object: &Value, fields: Fields) -> Value {
    let printed = fields.iter().filter_map(|(key, shape)| {
        let value = object.get(*key).unwrap_or(&Value::Null);
        Some(((*key).to_owned(), shape.print(value)?))
    });
    printed.collect()
}

impl Shape {
    fn print(&self, value: &Value) -> Option<Value> {
        let text = |value: &Value| json!(value.as_str().unwrap_or_default());
        let number = |value: &Value| json!(value.as_i64().unwrap_or_default());
        let items = || value.as_array().filter(|items| !items.is_empty());
        match self {
            Self::Text => Some(text(value)),
            Self::Texts => items().map(|items| items.iter().map(text).collect()),
            Self::Numbers => items().map(|items| items.iter().map(number).collect()),
            Self::Objects(fields) => items().map(|items| items.iter().map(|item| print(item, fields)).collect()),
            Self::Object(fields) => value.is_object().then(|| print(value, fields)),
            Self::FilledText => value.as_str().filter(|text| !text.is_empty()).map(|text| json!(text)),
            Self::Value => (!value.is_null()).then(|| value.clone()),
        }
    }
}
